/* SPDX-License-Identifier: MIT */
/*
 * counters.cc - the counter benchmark: runs everything on the fastest tier,
 * then the rows that every tier has in a child process per lower tier.
 *
 * usage: counters [--full] [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include "counters.h"

int main(int argc, char **argv)
{
	report all("counters", argc, argv);

	if (all.lower_tier()) {
		register_adds(false);
		all.run();
		return 0;
	}

	fprintf(stderr,
		"counters: measuring, for about %s minutes and more where other programs run; "
		"prints at the end; --benchmark_filter=REGEX measures a part ...\n",
		full ? "10" : "3");
	register_adds(true);
	register_late();
	register_costs();
	register_processes();
	all.run();
	all.run_tier("cpu");
	all.run_tier("shared");
#ifndef HAVE_LIBRSEQ
	all.skip(LIBRSEQ, "pkg-config found no librseq");
#endif
	print_tables(all);
	return all.finish();
}

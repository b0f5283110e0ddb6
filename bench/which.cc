/* SPDX-License-Identifier: MIT */
/*
 * which.cc - one update of each kind of counter in one run: the table of docs/which.md.
 *
 * usage: which [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include "cells.h"
#include "objects.h"

int main(int argc, char **argv)
{
	report all("which", argc, argv);

	fprintf(stderr, "which: measuring, for about 20 seconds ...\n");
	measure<counter_add>(ADD);
	measure<stats_add<0>>("percpu_stats_add");
	measure<stats_update<0>>("percpu_stats_update, 4 fields");
	measure<compact_add>("percpu_compact_add");
	measure<wbuf_add<1>>("percpu_wbuf_add");
	all.run();
	print_rows(all.rows, "One update of each kind of counter",
		   { ADD, "percpu_stats_add", "percpu_stats_update, 4 fields", "percpu_compact_add",
		     "percpu_wbuf_add" });
	all.print_sections();
	return all.finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * wbuf.cc - the benchmark of wbuf.h: transactions of 1, 2 and 4 adds, flushes included.
 *
 * usage: wbuf [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include <percpu/wbuf.h>

#include "objects.h"

int main(int argc, char **argv)
{
	report all("wbuf", argc, argv);

	fprintf(stderr, "wbuf: measuring, for about 10 seconds ...\n");
	measure<wbuf_add<1>>("percpu_wbuf_add");
	measure<wbuf_add<2>>("percpu_wbuf_add_n, 2 adds");
	measure<wbuf_add<4>>("percpu_wbuf_add_n, 4 adds");
	all.run();
	print_rows(all.rows, "A transaction, with its share of the flushes",
		   { "percpu_wbuf_add", "percpu_wbuf_add_n, 2 adds", "percpu_wbuf_add_n, 4 adds" });
	all.print_sections();
	return all.finish();
}

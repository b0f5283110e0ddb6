/* SPDX-License-Identifier: MIT */
/* start.h - what start_one says to start.cc, on this descriptor. */
#ifndef BENCH_START_H
#define BENCH_START_H

#define START_FD 3

struct start_figures {
	double ns;	 /* until the first count was done */
	double faults;	 /* pages that were touched first meanwhile */
	double threads;	 /* there are then */
	double kb;	 /* of memory more than before */
	double space_kb; /* of address space, all */
};

#endif

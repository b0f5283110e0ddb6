/* SPDX-License-Identifier: MIT */
/* start.h - what start_one reports to start.cc, on this descriptor. */
#ifndef BENCH_START_H
#define BENCH_START_H

#define START_FD 3

struct start_figures {
	double ns;	 /* until the first count was done */
	double faults;	 /* pages touched for the first time */
	double threads;	 /* threads after the first count */
	double kb;	 /* growth of memory */
	double space_kb; /* of address space in all */
};

#endif

/* SPDX-License-Identifier: MIT */
/* late.h - functions of late.c, which host.c loads. */
#ifndef TESTS_MATRIX_LATE_H
#define TESTS_MATRIX_LATE_H

#include <stdbool.h>
#include <stdint.h>

struct late {
	/* Create all objects, and find out the tier. */
	bool (*prepare)(void);
	/* Count one in each object. */
	void (*count)(void);
	/* Count one in the counter: in a signal handler, or when a thread ends. */
	void (*count_one)(void);
	/* As count_one(), in children of vfork() and clone() that share TLS. */
	bool (*children)(void);
	/* Return whether each object has n, and the counter so many more. */
	bool (*check)(uint64_t n, uint64_t more);
	/* Return whether the calling thread is on the tier of the process. */
	bool (*on_tier)(void);
	const char *(*tier)(void);
};

#endif

/* SPDX-License-Identifier: MIT */
/*
 * faults.h - calls of libc that fail on demand. Programs that link faults_deps have these calls
 * wrapped, in the library and in the test itself.
 */
#ifndef TESTS_FAULTS_H
#define TESTS_FAULTS_H

#include <stdbool.h>

enum fault_call {
	FAULT_OPEN,
	FAULT_FCNTL,
	FAULT_FSTAT,
	FAULT_FSTATFS,
	FAULT_FTRUNCATE,
	FAULT_PREAD,
	FAULT_PWRITE,
	FAULT_LINK,
	FAULT_MMAP,
	FAULT_MREMAP,
	FAULT_MPROTECT,
	FAULT_MADVISE,
	FAULT_MALLOC,
	FAULT_CALLOC,
	FAULT_REALLOC,
	FAULT_ALIGNED_ALLOC,
	FAULT_ASPRINTF,
	FAULT_PTHREAD_CREATE,
	FAULT_AFFINITY,
	FAULT_FUTEX_WAIT,  /* interrupted */
	FAULT_FUTEX_TOUCH, /* FUTEX_WAKE_OP: the page cannot be had */
	FAULT_MEMBARRIER,
	FAULT_GETTID,
	FAULT_GETCPU,
	FAULT_CELLS, /* not libc's: allocations of cells, if sweep.h is linked */
	FAULT_CALLS
};

/** Return the name of the call, for messages. */
const char *fault_name(enum fault_call call);

/** Return an error that the call can have. */
int fault_error(enum fault_call call);

/** Let the nth call from now on, by any thread, fail with that error; 0 is the next call. With
 *  later, all calls after it fail, too. */
void fault_set(enum fault_call call, unsigned nth, int error, bool later);

/** Let no call fail any more. Returns how many failed. */
unsigned fault_clear(void);

/** Return whether such a call, about to be made, must fail. Then errno is set. */
bool fault_fails(enum fault_call call);

/** Return how many descriptors were opened, or duplicated, without O_CLOEXEC, so that a program
 *  run by exec(2) inherits them. */
unsigned fault_inherited(void);

#endif

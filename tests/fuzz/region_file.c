/* SPDX-License-Identifier: MIT */
/* region_file.c - see region_file.h. */
#define _GNU_SOURCE
#include "region_file.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "../steps.h"

#include "memory/memory.h"

#define PAGE 4096

int file;
char *good;
size_t length;
static bool *has_bytes; /* whether each page of the good file has data */

static bool in_library;
static uint64_t passed;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = __real_clock_gettime(clock, t);

	if (in_library)
		t->tv_sec += (time_t)(passed += 1);
	return r;
}

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	(void)word, (void)operation, (void)value, (void)ns;
}

/* Block no signals, so that a crash under a lock is reported, too. */
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how, (void)set;
	if (old != NULL)
		sigemptyset(old);
	return 0;
}

/* Fence nothing: no other thread runs sequences here. */
int __wrap_percpu_fence_below(uint32_t end, uint64_t ns, struct percpu_fence_report *report);
int __wrap_percpu_fence_below(uint32_t end, uint64_t ns, struct percpu_fence_report *report)
{
	(void)end, (void)ns, (void)report;
	return 0;
}

#ifdef PERCPU_FUZZER

/* The library calls this at each step. */
void test_step(const char *name)
{
	(void)name;
}

#endif

void enter_library(void)
{
	in_library = true;
	passed = 0;
}

void leave_library(void)
{
	in_library = false;
}

void keep_file(size_t bytes)
{
	length = bytes;
	good = malloc(length);
	has_bytes = calloc(length / PAGE + 1, sizeof(*has_bytes));
	must(good != NULL && has_bytes != NULL && pread(file, good, length, 0) == (ssize_t)length,
	     "to be read");
	for (size_t i = 0; i < length; i++)
		has_bytes[i / PAGE] |= good[i] != 0;
}

/* Restore the pages with data; the others are zero. */
void restore_file(void)
{
	must(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)length) == 0, "to be emptied");
	for (size_t i = 0; i < length; i += PAGE)
		if (has_bytes[i / PAGE])
			must(pwrite(file, good + i, length - i < PAGE ? length - i : PAGE,
				    (off_t)i) > 0,
			     "to be written");
}

void check_block(struct percpu_region *r, const void *base, size_t size)
{
	const struct percpu_chunk *k = percpu_region_chunk(r, base);
	size_t offset;

	if (k == NULL) {
		must(false, "an object is in no chunk");
		return;
	}
	offset = (size_t)((const char *)base - k->base);
	must(offset <= k->lane_size && size <= k->lane_size - offset, "an object leaves its lane");
}

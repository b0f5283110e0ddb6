/* SPDX-License-Identifier: MIT */
/* sweep.c - see sweep.h. */
#define _GNU_SOURCE
#include "sweep.h"

#include <dirent.h>
#include <errno.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/segment.h>

#include "blocks.h"
#include "support.h"
#include "memory/memory.h"

struct percpu_region *sweep_region;
char sweep_path[160];

static char directory[160];
static struct percpu_region *private; /* the library's own */
static unsigned tried[FAULT_CALLS];

/* State that a failure must leave unchanged. */
struct traces {
	struct test_holding holding;
	unsigned blocks; /* of memory */
	unsigned files;
	unsigned units; /* of cells in use */
	unsigned locks; /* mutexes and robust locks that the thread holds */
	unsigned words; /* robust locks of the file that are held */
	void *pending;	/* the lock that the kernel would take over */
	int cancel;
	sigset_t signals;
	cpu_set_t cpus;
};

static unsigned units_in_use(const struct percpu_region *r)
{
	unsigned units = 0;

	for (uint32_t i = 0; i < r->n; i++)
		for (size_t w = 0; w < PERCPU_UNITS / 64; w++)
			units += (unsigned)__builtin_popcountll(r->chunks->at[i]->header->used[w]);
	return units;
}

static unsigned words_taken(const struct percpu_region *r)
{
	unsigned taken = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct percpu_header *h = r->chunks->at[i]->header;

		taken += (h->alloc_lock != 0) + (h->journal_lock != 0) +
			 (h->recovery_lock.lock != 0);
	}
	return taken;
}

static void *lock_pending(void)
{
	struct robust_list_head *head = NULL;
	size_t size;

	if (syscall(SYS_get_robust_list, 0, &head, &size) != 0 || head == NULL)
		return NULL;
	return head->list_op_pending;
}

static unsigned files_there(void)
{
	DIR *d = opendir(directory);
	unsigned n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}

static struct traces traces_now(void)
{
	struct traces t = { .holding = test_holding_now(),
			    .blocks = test_blocks(),
			    .files = files_there(),
			    .units = units_in_use(sweep_region) + units_in_use(private),
			    .locks = sweep_mutexes() + sweep_robust_locks(),
			    .words = words_taken(sweep_region),
			    .pending = lock_pending() };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &t.cancel);
	pthread_setcancelstate(t.cancel, NULL);
	pthread_sigmask(SIG_SETMASK, NULL, &t.signals);
	sched_getaffinity(0, sizeof(t.cpus), &t.cpus);
	return t;
}

/* Return what differs, or NULL. If a move of a mapping fails, the kernel may have given its
 * place to another mapping, so the place stays reserved. If a descriptor cannot be looked at,
 * the program may have opened it under that number, so it is not closed. */
static const char *left_behind(const struct traces *before, const struct traces *after,
			       enum fault_call call)
{
	const unsigned maps = before->holding.maps + (call == FAULT_MREMAP);
	const bool fds = call != FAULT_FSTAT || after->holding.fds < before->holding.fds;

	if (after->locks != before->locks || after->words != 0)
		return "a lock";
	if (after->pending != before->pending)
		return "a lock for the kernel to take over";
	if (memcmp(&after->signals, &before->signals, sizeof(after->signals)) != 0)
		return "signals blocked, or not";
	if (after->cancel != before->cancel)
		return "another cancel state";
	if (!CPU_EQUAL(&after->cpus, &before->cpus))
		return "the thread on other CPUs";
	if (after->holding.fds != before->holding.fds && fds)
		return "a descriptor";
	if (after->files != before->files)
		return "a file";
	if (after->units != before->units)
		return "cells";
	if (after->blocks != before->blocks)
		return "blocks of memory";
	return after->holding.maps > maps ? "a mapping" : NULL;
}

static bool is_documented(const struct sweep_operation *o, int e)
{
	for (unsigned i = 0; i < 8 && o->errors[i] != 0; i++)
		if (e == o->errors[i])
			return true;
	return e == 0;
}

/* Run the operation with the nth call failing. Returns whether there was such a call. */
static bool try_with(const struct sweep_operation *o, enum fault_call call, unsigned nth,
		     bool later)
{
	struct traces before = traces_now(), after;
	const char *left;
	unsigned failed;
	int e;

	fault_set(call, nth, fault_error(call), later);
	e = o->run();
	failed = fault_clear();
	if (failed == 0 && e != 0)
		fail_msg("%s: %d, and no call has failed", o->name, e);
	if (!is_documented(o, e) && e != -fault_error(call))
		fail_msg("%s: %d when call %u of %s fails", o->name, e, nth, fault_name(call));
	after = traces_now();
	left = left_behind(&before, &after, call);
	if (left != NULL)
		fail_msg("%s leaves %s when call %u of %s fails%s", o->name, left, nth,
			 fault_name(call), later ? ", and all later ones" : "");
	e = o->run();
	if (e != 0)
		fail_msg("%s: %d, after call %u of %s had failed", o->name, e, nth,
			 fault_name(call));
	return failed != 0;
}

void sweep(const struct sweep_operation *table)
{
	/* Some calls are made once for each CPU: with many CPUs, skip some. If test rounds are
	 * few, skip two of three beyond the first ones. */
	const unsigned slow = test_rounds(100) < 100 ? 3 : 1;
	const unsigned stride = slow * (1 + percpu_status()->possible_cpus / 8);

	test_may_leave_descriptors(); /* if fstat(2) fails, it is not known whose they are */
	assert_int_equal(percpu_segment_info(NULL, NULL), -EINVAL); /* the thread has a sentence */
	for (const struct sweep_operation *o = table; o->name != NULL; o++) {
		/* What is made at the first use exists after these runs. */
		assert_int_equal(o->run(), 0);
		assert_int_equal(o->run(), 0);
		for (unsigned call = 0; call < FAULT_CALLS; call++)
			for (unsigned later = 0; later < 2; later++)
				for (unsigned nth = 0; nth < 300 && try_with(o, call, nth, later);
				     nth += nth < 12 / slow ? 1 : stride)
					tried[call]++;
	}
}

unsigned sweep_failures(enum fault_call call)
{
	return tried[call];
}

void sweep_report(void)
{
	for (unsigned call = 0; call < FAULT_CALLS; call++)
		print_message("%s failed %u times\n", fault_name(call), tried[call]);
}

struct percpu_region *sweep_owners_region(void)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS;
	static struct percpu_region *r;

	if (r == NULL)
		assert_int_equal(percpu_region_open(sweep_path, flags, NULL, &r), 0);
	return r;
}

struct percpu_owners *sweep_owners(void)
{
	static struct percpu_owners *owners;

	if (owners == NULL)
		assert_int_equal(percpu_owners_create_in(sweep_owners_region(), &owners), 0);
	return owners;
}

int sweep_set_up(void **state)
{
	(void)state;
	mallopt(M_ARENA_MAX, 1); /* threads would map memory of their own */
	snprintf(sweep_path, sizeof(sweep_path), "%s", test_path("region"));
	snprintf(directory, sizeof(directory), "%.*s", (int)(strrchr(sweep_path, '/') - sweep_path),
		 sweep_path);
	return test_region_new(sweep_path, NULL, &sweep_region) || percpu_region_default(&private);
}

int sweep_tear_down(void **state)
{
	(void)fault_clear();
	percpu_region_close(sweep_region);
	return test_remove_paths(state);
}

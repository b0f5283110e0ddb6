/* SPDX-License-Identifier: MIT */
/*
 * segment_check.c - PERCPU_SEGMENT_DEBUG: a segment that is closed twice, or used after it was
 * closed, handles that are NULL, and counters that got negative amounts.
 *
 * A closed segment keeps its structs and its addresses, but nothing can be read or written there.
 * So a use of it raises SIGSEGV, and the handler finds the segment by the address. The use of a
 * handle that is NULL raises it at an address below the lanes that a cell at address 0 would have.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/debug.h"
#include "segment.h"

struct percpu_segment_check {
	struct percpu_segment_check *next;
	const struct percpu_segment *segment; /* so that tools that look for leaks find it */
	const struct percpu_region *region;
	bool closed; /* atomic */
	char name[100];
};

static struct percpu_segment_check *watched; /* a list, to which the process only adds; atomic */
static struct sigaction handled_before;
static pthread_once_t handler_once = PTHREAD_ONCE_INIT;
static uintptr_t null_end; /* where the lanes of a cell at address 0 end */

static void die_if_closed(const struct percpu_segment_check *c)
{
	if (__atomic_load_n(&c->closed, __ATOMIC_ACQUIRE))
		percpu_debug_die("segment \"%s\" is used after it was closed", c->name);
}

static void explain_closed(const void *address)
{
	const struct percpu_segment_check *c = __atomic_load_n(&watched, __ATOMIC_ACQUIRE);

	for (; c != NULL; c = c->next)
		if (percpu_region_maps(c->region, address))
			die_if_closed(c);
}

/* The pointer may be another one of the program's, which may handle that. So say this once, and go
 * on. */
static void explain_null(const void *address)
{
	static bool said; /* atomic */

	/* An object's chunk is in front of it, at the end of all addresses. */
	if (((uintptr_t)address < null_end || 0 - (uintptr_t)address < null_end) &&
	    !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
		percpu_debug_say("SIGSEGV at address %p: if a handle is NULL, its declaration has "
				 "failed, and percpu_error() has said why",
				 address);
}

static bool is_fault(const siginfo_t *info)
{
	return info->si_code > 0; /* raised by the kernel, which tells the address */
}

/* Return whether the earlier handler is to be called: one with SA_RESETHAND once. */
static bool has_handler(void)
{
	static bool called; /* atomic */

	if (handled_before.sa_handler == SIG_DFL)
		return false;
	return !(handled_before.sa_flags & SA_RESETHAND) ||
	       !__atomic_exchange_n(&called, true, __ATOMIC_RELAXED);
}

/* Do with the signal what the process did before. By default the signal ends the process: once this
 * handler has returned, the access is made again, or the signal that a process sent is delivered
 * again. */
static void pass_on(int number, siginfo_t *info, void *context)
{
	if (!has_handler()) {
		signal(number, SIG_DFL);
		if (!is_fault(info))
			raise(number);
	} else if (handled_before.sa_flags & SA_SIGINFO) {
		handled_before.sa_sigaction(number, info, context);
	} else {
		handled_before.sa_handler(number);
	}
}

static void handle_fault(int number, siginfo_t *info, void *context)
{
	if (is_fault(info)) {
		explain_closed(info->si_addr);
		explain_null(info->si_addr);
	}
	pass_on(number, info, context);
}

/* The mask and the flags are those of the earlier handler, which may rely on them. A process that
 * ignores the signal, and the programs that it runs, go on doing so. */
static void install_handler(void)
{
	struct sigaction a;
	uint32_t certain;
	const int cpus = percpu_possible_cpus(&certain);

	null_end = (2 * (uintptr_t)(cpus > 0 ? cpus : 1) + 1) * PERCPU_STRIDE;
	sigaction(SIGSEGV, NULL, &handled_before);
	if (handled_before.sa_handler == SIG_IGN)
		return;
	a = handled_before;
	if (a.sa_handler == SIG_DFL)
		a.sa_flags = SA_ONSTACK;
	a.sa_sigaction = handle_fault;
	a.sa_flags = (a.sa_flags & ~SA_RESETHAND) | SA_SIGINFO;
	sigaction(SIGSEGV, &a, NULL);
}

int percpu_segment_check_begin(struct percpu_segment *s, const char *name)
{
	struct percpu_segment_check *c = calloc(1, sizeof(*c));

	if (c == NULL)
		return -ENOMEM;
	c->segment = s;
	c->region = s->region;
	(void)snprintf(c->name, sizeof(c->name), "%s", name);
	s->check = c;
	percpu_process_lock();
	c->next = watched;
	PERCPU_STEP("segment: to be watched");
	__atomic_store_n(&watched, c, __ATOMIC_RELEASE);
	percpu_process_unlock();
	pthread_once(&handler_once, install_handler);
	return 0;
}

void percpu_segment_check_use(const struct percpu_segment *s)
{
	die_if_closed(s->check);
}

/* Return whether the handle is of a counter that is below 0. */
static bool is_negative(const struct percpu_series_slot *slot)
{
	return (slot->kind == PERCPU_METRIC_COUNTER &&
		(int64_t)percpu_counter_fetch(slot->handle) < 0) ||
	       (slot->kind == PERCPU_METRIC_FCOUNTER && percpu_fcounter_fetch(slot->handle) < 0);
}

/* A counter of a segment grows. Readers would take one that fell for one that began anew. */
static void check_counters(struct percpu_segment *s)
{
	const struct percpu_series_slot *slot;

	for (size_t i = 0; i < s->series.size; i++) {
		slot = &s->series.slot[i];
		if (slot->at == 0 || slot->handle == NULL || !is_negative(slot) ||
		    percpu_directory_load(s, slot->at - 1, &s->copy) == 0)
			continue;
		percpu_debug_die("segment \"%s\": counter %.*s is below 0: it got negative amounts",
				 s->check->name, s->copy.head.name, (const char *)s->copy.bytes);
	}
}

void percpu_segment_check_close(struct percpu_segment *s)
{
	if (__atomic_exchange_n(&s->check->closed, true, __ATOMIC_ACQ_REL))
		percpu_debug_die("segment \"%s\" is closed twice", s->check->name);
	check_counters(s);
	if (s->owners != NULL)
		percpu_owners_unlist(s->owners);
	percpu_presence_drop(s->presence);
	percpu_region_quarantine(s->region);
}

/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words.
 *
 * Each thread has one sentence: why its last call that failed did so, on whatever segment or
 * reader. The sentence is the value of a thread-specific key, whose destructor frees it when the
 * thread ends. A thread has no sentence if there is no memory for it, or if the process has no key
 * left. The library takes the key when a call fails for the first time.
 *
 * In a child of fork, the thread that forked keeps its sentence. Those of the other threads, which
 * the child does not have, are freed when a call fails in the child. The fork itself does not free
 * them, because the program's malloc(3) may have a fork handler that runs later.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

int percpu_reason_set(struct percpu_reason *why, int e, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	if (vsnprintf(why->text, sizeof(why->text), format, arguments) >= (int)sizeof(why->text))
		strcpy(why->text + sizeof(why->text) - 4, "...");
	va_end(arguments);
	percpu_text_make_printable(why->text);
	return e;
}

static pthread_key_t complaint_key;
static bool has_complaint_key; /* set under the process lock */

/* The process lock protects these. */
struct percpu_complaint *percpu_complaints;
static struct percpu_complaint *forker; /* of the thread that called the last fork; or NULL */
static bool has_orphans;		/* the others are of threads of the parent */

static void link_complaint(struct percpu_complaint *c)
{
	c->next = percpu_complaints;
	c->at = &percpu_complaints;
	if (c->next != NULL)
		c->next->at = &c->next;
	percpu_complaints = c;
}

static void unlink_complaint(const struct percpu_complaint *c)
{
	*c->at = c->next;
	if (c->next != NULL)
		c->next->at = c->at;
}

/* The destructor of the key. */
static void complaint_end(void *c)
{
	percpu_process_lock();
	unlink_complaint(c);
	percpu_process_unlock();
	free(c);
}

/* Return the sentence of the calling thread, or NULL. */
static struct percpu_complaint *own_complaint(void)
{
	return __atomic_load_n(&has_complaint_key, __ATOMIC_ACQUIRE) ?
		       pthread_getspecific(complaint_key) :
		       NULL;
}

static void complaints_mend_in_child(void)
{
	forker = own_complaint();
	has_orphans = true;
}

__attribute__((constructor)) static void complaints_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = complaints_mend_in_child };

	percpu_fork_register(PERCPU_FORK_COMPLAINTS, &part);
}

/* Free the sentences of threads that this child of fork does not have. The caller has the process
 * lock. */
static void drop_orphans(void)
{
	struct percpu_complaint *c = percpu_complaints, *next;

	if (!has_orphans)
		return;
	has_orphans = false;
	percpu_complaints = NULL;
	for (; c != NULL; c = next) {
		next = c->next;
		if (c == forker)
			link_complaint(c);
		else
			free(c);
	}
}

/* Give the sentence to the calling thread. Returns whether that succeeded. The caller has the
 * process lock. */
static bool have_complaint(struct percpu_complaint *c)
{
	if (!has_complaint_key && pthread_key_create(&complaint_key, complaint_end) == 0)
		__atomic_store_n(&has_complaint_key, true, __ATOMIC_RELEASE);
	if (!has_complaint_key || pthread_setspecific(complaint_key, c) != 0)
		return false;
	link_complaint(c);
	return true;
}

int percpu_error_keep(int e, const struct percpu_reason *why)
{
	struct percpu_complaint *c = own_complaint(), *new = NULL;

	if (c == NULL)
		c = new = malloc(sizeof(*new));
	percpu_process_lock();
	drop_orphans();
	if (new != NULL && have_complaint(new))
		new = NULL;
	percpu_process_unlock();
	if (c != NULL)
		c->why = *why;
	free(new);
	return e;
}

int percpu_error_say(int e, const char *sentence)
{
	struct percpu_reason why;

	return percpu_error_keep(percpu_reason_set(&why, e, "%s", sentence), &why);
}

const char *percpu_error(void)
{
	const struct percpu_complaint *c = own_complaint();

	return c != NULL ? c->why.text : "";
}

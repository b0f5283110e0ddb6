/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words. Each thread that a call of which has failed has a
 * sentence of its own in the segment, until that is closed, or another thread has the same id, or
 * there are twice as many sentences as there were of threads that lived, when the kernel was last asked
 * for them. By its number a thread knows that a sentence is its own. A thread that cannot have a number,
 * for want of memory or keys, or whose id the kernel does not tell, has no sentence.
 *
 * In a child of fork the thread that forked has its number, and another id: its sentence stays, and is
 * told, until another call of it fails. Those of other threads are dropped: the child has none of these.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment.h"

#define FEW 8 /* sentences more, so that the kernel is not asked all the time */

struct percpu_complaint {
	struct percpu_complaint *next;
	uint64_t forks;	 /* when it was made, see below */
	long process;	 /* of the thread, */
	long thread;	 /* its id, */
	uint64_t number; /* and its own number */
	struct percpu_reason why;
};

/* What is in a file may be any bytes. */
static void make_printable(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
}

int percpu_reason_set(struct percpu_reason *why, int e, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why->text, sizeof(why->text), format, arguments);
	va_end(arguments);
	make_printable(why->text);
	return e;
}

/* How many forks this process is away from the first one, and the number of the thread that called the
 * last of them; 0: it had none. The process lock protects both. */
static uint64_t complaint_forks, forked_number;

static void complaints_mend_in_child(void)
{
	complaint_forks++;
	forked_number = percpu_record_number(false);
}

__attribute__((constructor)) static void complaints_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = complaints_mend_in_child };

	percpu_fork_register(PERCPU_FORK_COMPLAINTS, &part);
}

static bool is_inherited(const struct percpu_complaint *c)
{
	return c->forks != complaint_forks;
}

/* The sentence of the thread that has this id, or had it before; or, from before a fork, that number.
 * The caller has the process lock. */
static struct percpu_complaint *complaint_of(const struct percpu_segment *s, long thread,
					     uint64_t number)
{
	struct percpu_complaint *c;

	for (c = s->complaints; c != NULL; c = c->next)
		if (is_inherited(c) ? c->number == number : c->thread == thread)
			break;
	return c;
}

/* What is inherited is kept for the thread that forked. A child that shares the memory of its parent
 * may ask for the parent's threads. */
static bool has_ended(const struct percpu_complaint *c)
{
	if (is_inherited(c))
		return c->number != forked_number;
	return syscall(SYS_tgkill, c->process, c->thread, 0) != 0 && percpu_errno() == -ESRCH;
}

/* Drop the sentences of threads that have ended. The caller has the process lock, and is none of
 * them. */
static void drop_ended(struct percpu_segment *s)
{
	struct percpu_complaint **at = &s->complaints, *c;

	while ((c = *at) != NULL) {
		if (!has_ended(c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
		s->complained--;
	}
	s->complaints_most = 2 * s->complained + FEW;
}

/* Return the sentence of the calling thread, to be written, or NULL. *new becomes NULL if it is used.
 * The caller has the process lock. */
static struct percpu_complaint *own_complaint(struct percpu_segment *s,
					      struct percpu_complaint **new)
{
	const long thread = syscall(SYS_gettid);
	const uint64_t number = percpu_record_number(true);
	struct percpu_complaint *c;

	if (thread < 0 || number == 0)
		return NULL;
	c = complaint_of(s, thread, number);
	if (c == NULL && *new != NULL) {
		if (s->complained >= s->complaints_most)
			drop_ended(s);
		c = *new;
		*new = NULL;
		c->next = s->complaints;
		s->complaints = c;
		s->complained++;
	}
	if (c != NULL) {
		c->forks = complaint_forks;
		c->process = (long)getpid();
		c->thread = thread;
		c->number = number;
	}
	return c;
}

int percpu_segment_complain(struct percpu_segment *s, int e, const struct percpu_reason *why)
{
	struct percpu_complaint *new = malloc(sizeof(*new)), *c;

	percpu_process_lock();
	c = own_complaint(s, &new);
	if (c != NULL)
		c->why = *why;
	percpu_process_unlock();
	free(new);
	return e;
}

const char *percpu_segment_error(const struct percpu_segment *s)
{
	const struct percpu_complaint *c = NULL;
	uint64_t number;
	long thread;

	if (s == NULL)
		return "";
	percpu_process_lock();
	thread = syscall(SYS_gettid);
	number = percpu_record_number(false);
	if (thread >= 0 && number != 0)
		c = complaint_of(s, thread, number);
	if (c != NULL && c->number != number)
		c = NULL;
	percpu_process_unlock();
	return c != NULL ? c->why.text : "";
}

const char *percpu_segment_strerror(int e)
{
	switch (e) {
	case 0:
		return "";
	case -EINVAL:
		return "a NULL; flags or options that are not known, or need PERCPU_SEGMENT_WRITE; or "
		       "the name has other characters than letters, digits, '_', '.' and '-'";
	case -ENAMETOOLONG:
		return "the name is too long";
	case -ENOENT:
		return "there is no such file or directory, or the file has no segment yet";
	case -ELOOP:
		return "the file is a symbolic link, which is not followed";
	case -EISDIR:
		return "it is a directory";
	case -EPERM:
		return "the file is another user's: PERCPU_SEGMENT_FOREIGN counts in it nevertheless";
	case -EACCES:
		return "the permissions of the file, or of its directory, do not allow it";
	case -EROFS:
		return "the file system is read-only";
	case -EBADMSG:
		return "the file is no segment, but perhaps a region with other objects; or it is "
		       "damaged or cut short, or was written by a machine of the other byte order";
	case -EPROTO:
		return "the file was written by another version of the library, or on another kind of "
		       "machine";
	case -ERANGE:
		return "the file has lanes for fewer CPUs than this machine may have";
	case -ENOSPC:
		return "the disk is full";
	case -ENOMEM:
		return "there is no memory, or no address space";
	case -ETIMEDOUT:
		return "another process has held a lock of the file for a second";
	default:
		return strerror(e < 0 ? -e : e);
	}
}

void percpu_segment_forget(struct percpu_segment *s)
{
	struct percpu_complaint *c = s->complaints, *next;

	for (; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words.
 *
 * The segment keeps one sentence per thread: why the thread's last call that failed did so. Closing
 * the segment frees all sentences. A later thread with the same id overwrites the sentence. When
 * there are too many, the sentences of threads that have ended are freed. Ids are used again, so a
 * thread recognizes its sentence by its number (percpu_thread_number()). A thread has no sentence
 * if it cannot get a number, for want of memory or keys, or if the kernel does not tell its id.
 *
 * In a child of fork, the thread that forked keeps its number, but has another id. Its sentence
 * stays until its next call that fails. The sentences of other threads are dropped, because the
 * child does not have these threads.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment.h"

#define FEW 8 /* sentences beyond twice those kept, so that the kernel is not asked all the time */

struct percpu_complaint {
	struct percpu_complaint *next;
	uint64_t forks;	 /* complaint_forks when the sentence was written */
	long process;	 /* id of the thread's process */
	long thread;	 /* id of the thread */
	uint64_t number; /* percpu_thread_number() of the thread */
	struct percpu_reason why;
};

/* Replace control characters: texts from a file can have any bytes. */
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

/* complaint_forks says how many forks are between the first process and this one. forked_number is
 * the number of the thread that called the last fork; 0: it had none. The process lock protects
 * both. */
static uint64_t complaint_forks, forked_number;

static void complaints_mend_in_child(void)
{
	complaint_forks++;
	forked_number = percpu_thread_number(false);
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

/* Return the sentence with this thread id, or an inherited one with this number. It may be that of
 * an ended thread with the same id. The caller has the process lock. */
static struct percpu_complaint *complaint_of(const struct percpu_segment *s, long thread,
					     uint64_t number)
{
	struct percpu_complaint *c;

	for (c = s->complaints; c != NULL; c = c->next)
		if (is_inherited(c) ? c->number == number : c->thread == thread)
			break;
	return c;
}

/* Return whether the thread of the sentence has ended. Of the inherited sentences, only that of the
 * forking thread is kept. The kernel is asked by process and thread id, so that a child that shares
 * its parent's memory can ask about the parent's threads. */
static bool has_ended(const struct percpu_complaint *c)
{
	if (is_inherited(c))
		return c->number != forked_number;
	return syscall(SYS_tgkill, c->process, c->thread, 0) != 0 && percpu_errno() == -ESRCH;
}

/* Drop the sentences of threads that have ended. The caller has the process lock. */
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

/* Return the sentence of the calling thread for writing, or NULL. Set *new to NULL if it was used.
 * The caller has the process lock. */
static struct percpu_complaint *own_complaint(struct percpu_segment *s,
					      struct percpu_complaint **new)
{
	const long thread = syscall(SYS_gettid);
	const uint64_t number = percpu_thread_number(true);
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
	percpu_segment_check_used(s);
	percpu_process_lock();
	thread = syscall(SYS_gettid);
	number = percpu_thread_number(false);
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

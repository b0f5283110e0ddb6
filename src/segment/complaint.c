/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words.
 *
 * The process keeps one sentence per thread: why the thread's last call that failed did so, on
 * whatever segment or reader. A later thread with the same id overwrites the sentence. When there
 * are too many, the sentences of threads that have ended are freed. Ids are used again, so a thread
 * recognizes its sentence by its number (percpu_thread_number()). A thread has no sentence if it
 * cannot get a number, for want of memory or keys, or if the kernel does not tell its id.
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
#define NAME_END 500 /* bytes of a longer name that a sentence has */

struct percpu_complaint {
	struct percpu_complaint *next;
	uint64_t forks;	 /* complaint_forks when the sentence was written */
	long process;	 /* id of the thread's process */
	long thread;	 /* id of the thread */
	uint64_t number; /* percpu_thread_number() of the thread */
	struct percpu_reason why;
};

struct percpu_complaints percpu_complaints;

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
static struct percpu_complaint *complaint_of(long thread, uint64_t number)
{
	struct percpu_complaint *c;

	for (c = percpu_complaints.first; c != NULL; c = c->next)
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
static void drop_ended(void)
{
	struct percpu_complaint **at = &percpu_complaints.first, *c;

	while ((c = *at) != NULL) {
		if (!has_ended(c)) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
		percpu_complaints.n--;
	}
	percpu_complaints.most = 2 * percpu_complaints.n + FEW;
}

/* Return the sentence of the calling thread for writing, or NULL. Set *new to NULL if it was used.
 * The caller has the process lock. */
static struct percpu_complaint *own_complaint(struct percpu_complaint **new)
{
	const long thread = syscall(SYS_gettid);
	const uint64_t number = percpu_thread_number(true);
	struct percpu_complaint *c;

	if (thread < 0 || number == 0)
		return NULL;
	c = complaint_of(thread, number);
	if (c == NULL && *new != NULL) {
		if (percpu_complaints.n >= percpu_complaints.most)
			drop_ended();
		c = *new;
		*new = NULL;
		c->next = percpu_complaints.first;
		percpu_complaints.first = c;
		percpu_complaints.n++;
	}
	if (c != NULL) {
		c->forks = complaint_forks;
		c->process = (long)getpid();
		c->thread = thread;
		c->number = number;
	}
	return c;
}

int percpu_error_keep(int e, const struct percpu_reason *why)
{
	struct percpu_complaint *new = malloc(sizeof(*new)), *c;

	percpu_process_lock();
	c = own_complaint(&new);
	if (c != NULL)
		c->why = *why;
	percpu_process_unlock();
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
	const struct percpu_complaint *c = NULL;
	uint64_t number;
	long thread;

	percpu_process_lock();
	thread = syscall(SYS_gettid);
	number = percpu_thread_number(false);
	if (thread >= 0 && number != 0)
		c = complaint_of(thread, number);
	if (c != NULL && c->number != number)
		c = NULL;
	percpu_process_unlock();
	return c != NULL ? c->why.text : "";
}

/* Opening. */

static const char *why_not_opened(int e, unsigned flags)
{
	switch (e) {
	case -ENOENT:
		return flags & PERCPU_SEGMENT_CREATE ?
			       "there is no such directory" :
			       "there is no such file, or it has no segment yet: the first process "
			       "that counts creates it, with PERCPU_SEGMENT_CREATE";
	case -ELOOP:
		return "the file is a symbolic link, which is not followed: name the file itself";
	case -EISDIR:
		return "it is a directory: name a file in it";
	case -EPERM:
		return "the file is another user's: PERCPU_SEGMENT_FOREIGN counts in it "
		       "nevertheless";
	case -EACCES:
		return "the permissions of the file, or of its directory, do not allow it: chmod(1)";
	case -EROFS:
		return "the file system is read-only: open the segment to read";
	case -EBADMSG:
		return "the file is no segment, but perhaps a region with other objects; or it is "
		       "damaged or cut short, or was written by a machine of the other byte order: "
		       "use another name, or stop the programs that have it open, and remove it";
	case -EPROTO:
		return "the file was written by another version of the library, or on another kind "
		       "of machine: stop the programs that have it open, and remove it";
	case -ERANGE:
		return "the file has lanes for fewer CPUs than this machine may have: open it to "
		       "read, or use another name";
	case -ENOSPC:
		return "the disk is full";
	case -ETIMEDOUT:
		return "another process has held a lock of the file for a second, and may be "
		       "stopped: try again";
	default:
		return percpu_strerror(e);
	}
}

/* Return the name, or the end of a long one. */
static const char *end_of_name(const char *name)
{
	const size_t n = strlen(name);
	const char *at = n > NAME_END ? name + n - NAME_END : name;

	while (((unsigned char)*at & 0xc0) == 0x80) /* within a character of UTF-8 */
		at++;
	return at;
}

int percpu_error_keep_opening(int e, const struct percpu_opening *o,
			      const struct percpu_reason *why)
{
	const char *const text = *why->text != '\0' ? why->text : why_not_opened(e, o->flags);
	const char *const name = o->name != NULL ? end_of_name(o->name) : NULL;
	struct percpu_reason told;

	if (name != NULL)
		(void)percpu_reason_set(&told, e, "segment \"%s%s\": %s",
					name != o->name ? "..." : "", name, text);
	else
		(void)percpu_reason_set(&told, e, "segment of descriptor %d: %s", o->fd, text);
	return percpu_error_keep(e, &told);
}

/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words. Each thread that a call of which has failed has a
 * sentence of its own in the segment, until that is closed, or another thread has the same id, or
 * there are twice as many sentences as there were of threads that lived, when the kernel was last asked
 * for them. By its number a thread knows that a sentence is its own. One that cannot have a number, for
 * want of memory or keys, has only its id.
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

/* The sentence of the thread that has this id, or had it before. The caller has the process lock. */
static struct percpu_complaint *complaint_of(const struct percpu_segment *s, long thread)
{
	struct percpu_complaint *c;

	for (c = s->complaints; c != NULL && c->thread != thread; c = c->next)
		;
	return c;
}

/* Drop the sentences of threads that have ended. The caller has the process lock, and is none of
 * them. */
static void drop_ended(struct percpu_segment *s)
{
	struct percpu_complaint **at = &s->complaints, *c;

	while ((c = *at) != NULL) {
		if (syscall(SYS_tgkill, c->process, c->thread, 0) == 0 ||
		    percpu_errno() != -ESRCH) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		free(c);
		s->complained--;
	}
	s->complaints_most = 2 * s->complained + FEW;
}

int percpu_segment_complain(struct percpu_segment *s, int e, const struct percpu_reason *why)
{
	const long thread = syscall(SYS_gettid);
	struct percpu_complaint *new = malloc(sizeof(*new)), *c;

	percpu_process_lock();
	c = complaint_of(s, thread);
	if (c == NULL && new != NULL) {
		if (s->complained >= s->complaints_most)
			drop_ended(s);
		c = new;
		new = NULL;
		c->thread = thread;
		c->next = s->complaints;
		s->complaints = c;
		s->complained++;
	}
	if (c != NULL) {
		c->process = (long)getpid();
		c->number = percpu_record_number(true);
		c->why = *why;
	}
	percpu_process_unlock();
	free(new);
	return e;
}

const char *percpu_segment_error(const struct percpu_segment *s)
{
	const struct percpu_complaint *c;

	if (s == NULL)
		return "";
	percpu_process_lock();
	c = complaint_of(s, syscall(SYS_gettid));
	if (c != NULL && c->number != percpu_record_number(false))
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

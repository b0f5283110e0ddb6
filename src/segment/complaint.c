/* SPDX-License-Identifier: MIT */
/*
 * complaint.c - why calls failed, in words. Each thread that a call of which has failed has a
 * sentence of its own in the segment, until that is closed.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "segment.h"

struct percpu_complaint {
	struct percpu_complaint *next;
	long thread;
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

/* The caller has the process lock. */
static struct percpu_complaint *complaint_of(const struct percpu_segment *s, long thread)
{
	struct percpu_complaint *c;

	for (c = s->complaints; c != NULL && c->thread != thread; c = c->next)
		;
	return c;
}

int percpu_segment_complain(struct percpu_segment *s, int e, const struct percpu_reason *why)
{
	const long thread = syscall(SYS_gettid);
	struct percpu_complaint *new = malloc(sizeof(*new)), *c;

	percpu_process_lock();
	c = complaint_of(s, thread);
	if (c == NULL && new != NULL) {
		c = new;
		new = NULL;
		c->thread = thread;
		c->next = s->complaints;
		s->complaints = c;
	}
	if (c != NULL)
		c->why = *why;
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
	percpu_process_unlock();
	return c != NULL ? c->why.text : "";
}

void percpu_segment_forget(struct percpu_segment *s)
{
	struct percpu_complaint *c = s->complaints, *next;

	for (; c != NULL; c = next) {
		next = c->next;
		free(c);
	}
}

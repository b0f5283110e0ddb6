/* SPDX-License-Identifier: MIT */
/*
 * complaint.h - why calls failed, in words.
 */
#ifndef PERCPU_SEGMENT_COMPLAINT_H
#define PERCPU_SEGMENT_COMPLAINT_H

#include <stddef.h>

#include <percpu/error.h>

/** A sentence that says why a call failed. */
struct percpu_reason {
	char text[1024];
};

/** The sentence of a thread. */
struct percpu_complaint {
	struct percpu_complaint *next, **at; /* at: what points to it */
	struct percpu_reason why;
};

/** A list of the sentences of all threads. The process lock protects it. */
extern struct percpu_complaint *percpu_complaints;

/** Keep why this thread's call failed, for percpu_error(). Returns e. */
int percpu_error_keep(int e, const struct percpu_reason *why);

/** Keep a constant sentence. Returns e. */
int percpu_error_say(int e, const char *sentence);

/** What was to be opened. */
struct percpu_opening {
	const char *name; /* NULL: a descriptor */
	int fd;
	bool creates;	 /* with PERCPU_SEGMENT_CREATE */
	bool reads;	 /* by a reader, which looks in both places of names */
	bool of_service; /* the file is in the second of these */
};

/** Keep why a segment could not be opened, also by a reader. If *why is empty, the sentence is
 *  about the error. Returns e. */
int percpu_error_keep_opening(int e, const struct percpu_opening *o,
			      const struct percpu_reason *why);

/** Write a sentence to *why. Returns e. */
int percpu_reason_set(struct percpu_reason *why, int e, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif

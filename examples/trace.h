/* SPDX-License-Identifier: MIT */
/*
 * trace.h - events of many processes in one file. A program that shall be traced copies
 * trace.h and trace_write.c; trace_read.c and trace_json.c belong to those who look.
 */
#ifndef EXAMPLES_TRACE_H
#define EXAMPLES_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	TRACE_ROOT = 0,		  /* of the region: where the rings are */
	TRACE_SIZE = 1 << 20,	  /* bytes per CPU, unless the creator says otherwise */
	TRACE_NAME_LONGEST = 200, /* what is longer is cut */
};

/* What happens, in the letters of Chrome's trace format. */
enum trace_phase {
	TRACE_BEGIN = 'B', /* of something that lasts; those of a thread nest */
	TRACE_END = 'E',
	TRACE_INSTANT = 'i',
	TRACE_COUNTER = 'C',
};

/* As it lies in the ring, but for the end of name, which is as long as the record says. */
struct trace_event {
	int64_t value;
	uint32_t pid, tid;
	char phase;
	char name[TRACE_NAME_LONGEST + 1];
};

/* trace_write.c, for any thread once the file is open, and for children of fork. They
 * return 0 or -errno. An event that was put is there when its process is killed. */
int trace_open(const char *path, size_t size);
int trace_put(enum trace_phase phase, const char *name, int64_t value);
void trace_close(void);

/* trace_read.c: an event as it was read. */
struct trace_seen {
	uint64_t ns; /* CLOCK_MONOTONIC */
	unsigned cpu;
	struct trace_event event;
};

/* Calls show() for all events of the file in the order of their times; with follow,
 * waits for more, until *stop. *ret_lost: those that were overwritten before. Returns 0
 * or -errno. */
int trace_read(const char *path, bool follow, const volatile bool *stop,
	       void (*show)(const struct trace_seen *seen), uint64_t *ret_lost);

/* trace_json.c: all events between a begin and an end. */
void trace_json_begin(void);
void trace_json_event(const struct trace_seen *seen);
void trace_json_end(uint64_t lost);

#endif

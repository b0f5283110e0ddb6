/* SPDX-License-Identifier: MIT */
/*
 * trace.h - events of many processes in one file. A program that is to be traced copies trace.h
 * and trace_write.c; trace_read.c and trace_json.c are for readers.
 */
#ifndef EXAMPLES_TRACE_H
#define EXAMPLES_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	TRACE_ROOT = 0,		  /* the region's root with the rings */
	TRACE_SIZE = 1 << 20,	  /* bytes per CPU, unless the creator sets another size */
	TRACE_NAME_LONGEST = 200, /* longer names are cut */
};

/* Kinds of events, by the letters of Chrome's trace format. */
enum trace_phase {
	TRACE_BEGIN = 'B', /* begin of a duration; those of a thread nest */
	TRACE_END = 'E',
	TRACE_INSTANT = 'i',
	TRACE_COUNTER = 'C',
};

/* An event as it is in the ring, but that name is only as long as the record says. */
struct trace_event {
	int64_t value;
	uint32_t pid, tid;
	char phase;
	char name[TRACE_NAME_LONGEST + 1];
};

/* trace_write.c, for any thread once the file is open, and for children of fork. The functions
 * return 0 or -errno. An event that was put stays when its process is killed. */
int trace_open(const char *path, size_t size);
int trace_put(enum trace_phase phase, const char *name, int64_t value);
void trace_close(void);

/* trace_read.c: an event that was read. */
struct trace_seen {
	uint64_t ns; /* CLOCK_MONOTONIC */
	unsigned cpu;
	struct trace_event event;
};

/* Call show() for all events of the file in the order of their times; with follow, wait for
 * more, until *stop. *ret_lost is how many were overwritten before they were read. Returns 0 or
 * -errno. */
int trace_read(const char *path, bool follow, const volatile bool *stop,
	       void (*show)(const struct trace_seen *seen), uint64_t *ret_lost);

/* trace_json.c: call trace_json_event() for all events, between begin and end. */
void trace_json_begin(void);
void trace_json_event(const struct trace_seen *seen);
void trace_json_end(uint64_t lost);

#endif

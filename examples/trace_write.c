/* SPDX-License-Identifier: MIT */
/*
 * trace_write.c - put events into the rings of a file. A put makes no system call, and the
 * oldest events make room for new ones.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/ring.h>

#include "trace.h"

static struct percpu_region *region;
static struct percpu_ring *ring;
static uint32_t pid;
static __thread uint32_t tid;

static void forked(void)
{
	pid = (uint32_t)getpid();
	tid = 0;
}

int trace_open(const char *path, size_t size)
{
	struct percpu_region_options o = {
		.size = sizeof(o), .lane_size = size + 128, /* room for the ring's head */
	};
	int e;

	e = percpu_region_open(path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, &o, &region);
	if (e != 0)
		return e;
	/* Rings that are there already may have any size. */
	e = percpu_ring_attach(region, percpu_region_root(region, TRACE_ROOT), &ring);
	if (e == -ENOENT)
		e = percpu_ring_open(region, TRACE_ROOT, size, 0, &ring);
	if (e != 0) {
		percpu_region_close(region);
		return e;
	}
	pid = (uint32_t)getpid();
	return -pthread_atfork(NULL, NULL, forked);
}

int trace_put(enum trace_phase phase, const char *name, int64_t value)
{
	struct trace_event e = { .value = value, .pid = pid, .phase = (char)phase };
	size_t length = strnlen(name, TRACE_NAME_LONGEST);

	if (tid == 0)
		tid = (uint32_t)syscall(SYS_gettid);
	e.tid = tid;
	memcpy(e.name, name, length);
	return percpu_ring_put(ring, &e, offsetof(struct trace_event, name) + length);
}

void trace_close(void)
{
	percpu_ring_detach(ring);
	percpu_region_close(region);
}

/* SPDX-License-Identifier: MIT */
/*
 * workers.h - shared by workers.c and monitor.c: the roots of the file's objects, and the
 * numbers of the counters. New counters are only added at the end.
 */
#ifndef EXAMPLES_WORKERS_H
#define EXAMPLES_WORKERS_H

#include <errno.h>
#include <string.h>

#include <percpu/percpu.h>

enum { ROOT_COUNTERS };
enum { STARTS, REQUESTS, BYTES, COUNTERS = 64 /* with room for later ones */ };

static inline const char *workers_error(int err)
{
	switch (err) {
	case -EBADMSG:
	case -EISDIR:
		return "this is no file of counters; name another one";
	case -EPROTO:
		return "a file of another version of the library; stop who uses it and delete it";
	case -ERANGE:
		return "a file of a machine with fewer CPUs; name another one";
	case -EEXIST:
		return "a file of counters, but of another program; name another one";
	default:
		return strerror(-err);
	}
}

#endif

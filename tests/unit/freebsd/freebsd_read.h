/* SPDX-License-Identifier: MIT */
/* freebsd_read.h - numbers, read and reset by name. */
#ifndef TESTS_FREEBSD_READ_H
#define TESTS_FREEBSD_READ_H

#include <errno.h>

#include <percpu/freebsd.h>

#include "support.h"

static inline uint64_t read_one(const char *name)
{
	uint64_t v = 0;
	size_t size = sizeof(v);

	assert_int_equal(sysctlbyname(name, &v, &size, NULL, 0), 0);
	assert_int_equal(size, sizeof(v));
	return v;
}

static inline void assert_fails(const char *name, const void *new, int error)
{
	uint64_t v = 5;
	size_t size = sizeof(v);

	errno = 0;
	assert_int_equal(sysctlbyname(name, &v, &size, new, sizeof(v)), -1);
	assert_int_equal(errno, error);
	assert_int_equal(v, 5);
	assert_int_equal(size, sizeof(v));
}

static inline void reset(const char *name)
{
	int zero = 0;

	assert_int_equal(sysctlbyname(name, NULL, NULL, &zero, sizeof(zero)), 0);
}

#endif

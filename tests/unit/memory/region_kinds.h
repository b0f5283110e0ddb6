/* SPDX-License-Identifier: MIT */
/* region_kinds.h - regions of each kind, for tests that run on all of them. */
#ifndef TESTS_UNIT_REGION_KINDS_H
#define TESTS_UNIT_REGION_KINDS_H

#include <sys/mman.h>
#include <unistd.h>

#include <percpu/region.h>

#include "support.h"

static inline struct percpu_region_options options(void)
{
	struct percpu_region_options o = { .size = sizeof(o) };

	return o;
}

/* Each test runs on a private region, on a file, and on a memfd. */
enum kind { PRIVATE, NAMED, MEMFD, KINDS };

static inline struct percpu_region *create(enum kind kind, const struct percpu_region_options *o)
{
	struct percpu_region *r = NULL;
	int fd;

	switch (kind) {
	case PRIVATE:
		assert_int_equal(percpu_region_create(o, &r), 0);
		break;
	case NAMED:
		assert_int_equal(test_region_new(test_path("region"), o, &r), 0);
		break;
	default:
		fd = memfd_create("region", 0);
		assert_true(fd >= 0);
		assert_int_equal(test_region_new_fd(fd, o, &r), 0);
		close(fd);
	}
	return r;
}

static inline void discard(enum kind kind, struct percpu_region *r)
{
	percpu_region_close(r);
	if (kind == NAMED)
		assert_int_equal(unlink(test_path("region")), 0);
}

#endif

/* SPDX-License-Identifier: MIT */
/* zone.h - what the tests of zones have in common. */
#ifndef TESTS_UNIT_ZONE_H
#define TESTS_UNIT_ZONE_H

#include <percpu/zone.h>

#include "../support.h"

static inline struct percpu_zone *make(size_t size, const struct percpu_zone_options *o)
{
	struct percpu_zone *z;

	assert_int_equal(percpu_zone_create("test", size, o, &z), 0);
	return z;
}

static inline void *take(struct percpu_zone *z, unsigned flags)
{
	void *item;

	assert_int_equal(percpu_zone_alloc(z, flags, &item), 0);
	return item;
}

static inline struct percpu_zone_stats stats_of(const struct percpu_zone *z)
{
	struct percpu_zone_stats st;

	percpu_zone_stats(z, &st);
	return st;
}

#endif

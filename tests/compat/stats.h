/* SPDX-License-Identifier: MIT */
/*
 * stats.h - shared by a unit in C and one in C++: a variable of statistics, a struct with a
 * handle of some, functions that take one.
 */
#ifndef STATS_H
#define STATS_H

#include <percpu/stats.h>

struct hits {
	uint64_t hits, misses;
	uint64_t size[2];
};

struct cache {
	const char *name;
	PERCPU_STATS(struct hits) hits;
};

PERCPU_BEGIN_DECLS

extern PERCPU_STATS(struct hits) all_hits;

int cache_create(struct cache *cache, PERCPU_STATS(struct hits) * ret_all);
int cache_hit(const struct cache *cache, PERCPU_STATS(struct hits) all, uint64_t size);

PERCPU_END_DECLS

#endif

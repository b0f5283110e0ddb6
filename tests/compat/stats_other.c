/* SPDX-License-Identifier: MIT */
/*
 * stats_other.c - the other unit of stats.c, always in C.
 */
#include "stats.h"

PERCPU_STATS(struct hits) all_hits;

int cache_create(struct cache *cache, PERCPU_STATS(struct hits) * ret_all)
{
	int e = PERCPU_STATS_CREATE(&cache->hits, 1, 0);

	if (e != 0)
		return e;
	e = PERCPU_STATS_CREATE(ret_all, 1, 0);
	if (e != 0)
		PERCPU_STATS_DESTROY(cache->hits);
	return e;
}

int cache_hit(const struct cache *cache, PERCPU_STATS(struct hits) all, uint64_t size)
{
	int e = PERCPU_STATS_UPDATE(cache->hits, 0, .hits = 1, .size[1] = size);

	return e != 0 ? e : PERCPU_STATS_UPDATE(all, 0, .hits = 1, .size[1] = size);
}

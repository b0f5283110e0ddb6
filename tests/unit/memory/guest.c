/* SPDX-License-Identifier: MIT */
/* guest.c - see guest.h. */
#define _GNU_SOURCE
#include "guest.h"

#include <string.h>
#include <unistd.h>

#include <percpu/seq.h>

#include "support.h"

char path[128];
struct percpu_region *region;

int start(void **state)
{
	(void)state;
	strcpy(path, test_path("region"));
	return test_region_new(path, NULL, &region);
}

int stop(void **state)
{
	(void)state;
	percpu_region_close(region);
	region = NULL;
	return unlink(path);
}

void update_both_ways(const struct percpu_stats *s)
{
	const uint64_t n[2] = { 1, 10 };

	test_child_require(percpu_stats_update(s, 0, 0, n, 2) == 0, "update");
	test_unregister(percpu_seq_attach());
	test_child_require(percpu_stats_update_slow(s, 0, 0, n, 2) == 0, "locked update");
}

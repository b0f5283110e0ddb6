/* SPDX-License-Identifier: MIT */
/*
 * group.c - the soak test's operations on groups of statistics, a private and a shared one.
 *
 * Each update is of total 0 and of another object, by the same numbers, and flows give what they had
 * to total 1. So in each snapshot total 0 is the sum of all others, whichever threads were killed. A
 * killed process leaves its flow in use.
 */
#include <errno.h>

#include <percpu/stats_group.h>

#include "../support.h"
#include "soak.h"

#define GROUP_OBJECTS 1000
#define GROUP_FIELDS 2

static struct percpu_stats_group *groups[2]; /* private, shared */

void soak_group_create(void)
{
	soak_require_equal("create a group", 0,
			   (uint64_t)percpu_stats_group_create(8 * GROUP_FIELDS, 2, GROUP_OBJECTS,
							       &groups[0]));
}

void soak_group_destroy(void)
{
	percpu_stats_group_destroy(groups[0]);
}

void soak_shared_group_create(struct percpu_region *r)
{
	soak_require_equal("create a group in the region", 0,
			   (uint64_t)percpu_stats_group_create_in(r, 8 * GROUP_FIELDS, 2,
								  GROUP_OBJECTS, &groups[1]));
	soak_board->group_key = percpu_stats_group_key(groups[1]);
}

void soak_shared_group_open(struct percpu_region *r)
{
	soak_require_equal("attach to a group", 0,
			   (uint64_t)percpu_stats_group_attach(r, soak_board->group_key,
							       8 * GROUP_FIELDS, 2, GROUP_OBJECTS,
							       &groups[1]));
}

void soak_shared_group_close(void)
{
	percpu_stats_group_detach(groups[1]);
}

/* Return whether a call was done. It may have been disturbed, or a thread is stopped; and some CPU
 * may be one that cannot be fenced. */
static bool is_done(const char *what, int e)
{
	soak_require(e == 0 || e == -EAGAIN || e == -ETIMEDOUT || e == -EPERM || e == -ENOSPC, what,
		     0, (uint64_t)e);
	return e == 0;
}

static void check_snapshot(bool shared)
{
	uint64_t out[GROUP_OBJECTS * GROUP_FIELDS], sum[GROUP_FIELDS] = { 0 };

	if (!is_done("snapshot of a group",
		     percpu_stats_group_snapshot(groups[shared], 0, GROUP_OBJECTS, out, NULL)))
		return;
	for (size_t i = GROUP_FIELDS; i < GROUP_OBJECTS * GROUP_FIELDS; i++)
		sum[i % GROUP_FIELDS] += out[i];
	for (size_t w = 0; w < GROUP_FIELDS; w++)
		soak_require_equal("a total is the sum of all others", sum[w], out[w]);
}

void soak_group_op(struct soak_thread *t, bool shared)
{
	const uint64_t r = test_random(&t->random), n[GROUP_FIELDS] = { r >> 40, r >> 50 };
	size_t flow = 1;
	bool is_flow;

	if (r % 16 == 0) {
		check_snapshot(shared);
		return;
	}
	is_flow = is_done("allocation of a flow", percpu_stats_group_alloc(groups[shared], &flow));
	for (unsigned i = 0; i < 1 + r / 16 % (shared ? 50 : 500); i++)
		(void)is_done("update of a group",
			      percpu_stats_group_update_both(groups[shared], flow, n, 0, n,
							     GROUP_FIELDS));
	if (is_flow)
		(void)is_done("free of a flow", percpu_stats_group_free(groups[shared], flow, 1));
}

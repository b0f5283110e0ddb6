/* SPDX-License-Identifier: MIT */
/*
 * critical.h - what the sources of critical sections share.
 *
 * A lane's head says which thread has the lane. `inside` is stored by the sequence, on the lane's
 * own CPU. `taken` is exchanged atomically, on any CPU. A lane is free while both are 0:
 *
 *	lane			inside	taken
 *	CPU, spare: free	0	0
 *	CPU: entered		owner	0
 *	CPU: awaited		owner	owner	percpu_critical_enter_lane() waits for `inside`
 *	CPU, spare: taken	0	owner
 *
 * The sequence enters only a free lane. A thread that has stored `taken` in a CPU's lane fences:
 * after that no sequence that had found the lane free stores `inside`. Spare lanes are the region's
 * atomic lanes, where no sequence runs.
 *
 * In a region an owner is dead when its process is. A lane that a dead owner entered, or a spare
 * lane that it took, is taken over by one exchange of `taken`. A CPU's lane that a dead owner took
 * is taken over by percpu_critical_enter_lane() alone, because that needs a fence.
 */
#ifndef PERCPU_OWNERS_CRITICAL_H
#define PERCPU_OWNERS_CRITICAL_H

#include <percpu/critical.h>

#include "owners.h"

struct percpu_critical_handle {
	struct percpu_critical critical;
	struct percpu_owners_user user;
	struct percpu_owners *owners;	     /* NULL: private */
	struct percpu_critical_handle *next; /* of the private ones; the process lock protects it */
	uint32_t refused; /* how often a thread found its CPU's lane busy; atomic */
};

/** Return the head of a lane. */
static inline struct percpu_critical_head *percpu_critical_head_of(const struct percpu_critical *c,
								   size_t lane)
{
	return (struct percpu_critical_head *)(void *)(c->block.base + lane * c->block.stride);
}

/** Store in ret_self what the calling thread stores in lanes. If this process is not an owner, join
 *  the owners. Returns 0 or -errno. */
int percpu_critical_join(struct percpu_critical_handle *h, uint64_t *ret_self);

/** Return whether an owner that has stored this in a lane is dead. Makes system calls. */
bool percpu_critical_is_dead(const struct percpu_critical_handle *h, uint64_t owner);

#endif

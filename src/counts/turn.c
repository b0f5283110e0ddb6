/* SPDX-License-Identifier: MIT */
/*
 * turn.c - turns, which keep readers of the same objects from disturbing each other.
 *
 * A turn is not a lock: a reader that was disturbed notices it and tries again. So a thread waits a
 * limited time for a thread that was killed or stopped, and then takes the turn.
 */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <unistd.h>

#include "counts.h"

#define TURN_NS PERCPU_SECOND
#define TURN_ID_BITS 22 /* thread ids of the kernel are below 2^22 */

/* The number of forks between the first process and this one, shifted above the bits of a thread
 * id. A turn in private memory with another number belongs to a thread of an ancestor, which never
 * ends it in this process. */
static uint32_t turn_forks;

static void turns_mend_in_child(void)
{
	turn_forks += UINT32_C(1) << TURN_ID_BITS;
}

__attribute__((constructor)) static void turns_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = turns_mend_in_child };

	percpu_fork_register(PERCPU_FORK_TURNS, &part);
}

uint32_t percpu_turn_id(const struct percpu_region *r)
{
	const uint32_t id = (uint32_t)syscall(SYS_gettid);

	return r->shared ? id : id | turn_forks;
}

void percpu_turn_wait(uint32_t *turn, uint32_t me)
{
	uint64_t deadline = percpu_now_ns() + TURN_NS;
	uint32_t other = 0;

	while (!__atomic_compare_exchange_n(turn, &other, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if ((other ^ me) >> TURN_ID_BITS != 0)
			continue; /* replace the ancestor's id */
		PERCPU_STEP("turn: not ours");
		if (percpu_now_ns() >= deadline) {
			__atomic_store_n(turn, me, __ATOMIC_RELAXED);
			break;
		}
		percpu_futex_sleep(turn, FUTEX_WAIT, other, TURN_NS / 100);
		other = 0;
	}
}

void percpu_turn_end(uint32_t *turn, uint32_t me)
{
	if (__atomic_compare_exchange_n(turn, &me, 0, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		percpu_futex_rouse(turn, FUTEX_WAKE, 1);
}

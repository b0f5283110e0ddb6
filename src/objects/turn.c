/* SPDX-License-Identifier: MIT */
/*
 * turn.c - turns of those who would disturb each other.
 *
 * Readers of the same objects take turns, so as not to disturb each other. This is no lock: if a
 * thread does not wait, those that it disturbs notice and try again. So a thread waits a limited
 * time for one that was killed or stopped, and then goes on.
 */
#include "objects.h"

#define TURN_NS PERCPU_SECOND

void percpu_turn_wait(uint32_t *turn, uint32_t me)
{
	uint64_t deadline = percpu_now_ns() + TURN_NS;
	uint32_t other = 0;

	while (!__atomic_compare_exchange_n(turn, &other, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
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

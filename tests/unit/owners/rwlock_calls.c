/* SPDX-License-Identifier: MIT */
/* rwlock_calls.c - see rwlock_calls.h. */
#include "rwlock_calls.h"

#include "support.h"
#include "../thread_id.h"

#define MS UINT64_C(1000000)
#define SOME_ID 1234567

int tried, timed;

void no_call_writes(struct percpu_rwlock *l, int e)
{
	assert_int_equal(percpu_rwlock_write_trylock(l), e);
	assert_int_equal(percpu_rwlock_write_timedlock(l, MS), e);
	assert_int_equal(percpu_rwlock_write_lock(l), e);
}

void write_and_end(unsigned i, void *arg)
{
	(void)i;
	thread_id = SOME_ID;
	timed = percpu_rwlock_write_timedlock(arg, 4000 * MS);
	tried = percpu_rwlock_write_trylock(arg);
}

void try_as_another(unsigned i, void *arg)
{
	(void)i;
	thread_id = SOME_ID;
	tried = percpu_rwlock_write_trylock(arg);
	timed = percpu_rwlock_write_timedlock(arg, MS);
}

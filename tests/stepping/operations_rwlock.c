/* SPDX-License-Identifier: MIT */
/*
 * operations_rwlock.c - readers of a read-mostly lock, by the exported copies of the inline
 * functions, and by the functions that these call when their sequence was aborted.
 */
#include "stepping.h"

#include <percpu/calls.h>

#include "../support.h"
#include "owners/rwlock.h"

static struct percpu_rwlock *rwlock;

void stepping_make_rwlock(void)
{
	assert_int_equal(percpu_rwlock_create(0, &rwlock), 0);
}

static uint32_t readers(void)
{
	return percpu_participants_sum(&percpu_rwlock_handle(rwlock)->p, PERCPU_RWLOCK_INSIDE);
}

/* Judge whether the readers changed by n; another reader may come or go between. */
static struct model_result moved_by(uint32_t before, uint32_t n, int result)
{
	const uint32_t by = readers() - before;

	return (struct model_result){ result != 0 || (by != n && by != 2 * n), MODEL_UNSET };
}

static struct model_result run_read_lock(const struct model_case *c)
{
	const uint32_t before = readers();

	(void)c;
	return moved_by(before, 1, percpu_rwlock_read_lock_call(rwlock));
}

static struct model_result run_read_trylock(const struct model_case *c)
{
	const uint32_t before = readers();

	(void)c;
	return moved_by(before, 1, percpu_rwlock_read_trylock_call(rwlock));
}

static struct model_result run_read_timedlock(const struct model_case *c)
{
	const uint32_t before = readers();

	(void)c;
	return moved_by(before, 1, percpu_rwlock_read_timedlock_call(rwlock, 0));
}

static struct model_result run_read_unlock(const struct model_case *c)
{
	const uint32_t before = readers();

	(void)c;
	return moved_by(before, UINT32_MAX, percpu_rwlock_read_unlock_call(rwlock));
}

const struct stepping_operation stepping_rwlock[] = {
	{ "rwlock read_lock", MEMORY_PRIVATE, MODEL_ADD, run_read_lock },
	{ "rwlock read_trylock", MEMORY_PRIVATE, MODEL_ADD, run_read_trylock },
	{ "rwlock read_timedlock", MEMORY_PRIVATE, MODEL_ADD, run_read_timedlock },
	{ "rwlock read_unlock", MEMORY_PRIVATE, MODEL_ADD, run_read_unlock },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

/* SPDX-License-Identifier: MIT */
/*
 * ref.c - the soak test's operations on a reference count that all threads of a process use. One
 * thread kills, resurrects and switches it, while other threads get and put.
 */
#include <errno.h>

#include <percpu/ref.h>

#include "../support.h"
#include "soak.h"

static struct percpu_ref *ref;
static uint64_t released; /* atomic */

static void note_release(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
	__atomic_fetch_add(&released, 1, __ATOMIC_RELAXED);
}

void soak_ref_create(void)
{
	released = 0;
	soak_require_equal("create a reference count", 0,
			   (uint64_t)percpu_ref_create(note_release, NULL, 0, &ref));
}

/* Check and destroy the count. References that a thread keeps are in its sum. */
void soak_ref_destroy(void)
{
	int64_t n = percpu_ref_fetch(ref);

	soak_require_equal("a release too early", 0, released);
	soak_require_equal("put what was kept", 0,
			   (uint64_t)percpu_ref_put_many(ref, (uint64_t)n - 1));
	soak_require_equal("kill a reference count", 0, (uint64_t)percpu_ref_kill(ref));
	soak_require_equal("one release", 1, released);
	soak_require_equal("destroy a reference count", 0, (uint64_t)percpu_ref_destroy(ref));
}

uint64_t soak_ref_found(void)
{
	return (uint64_t)(percpu_ref_fetch(ref) - 1);
}

void soak_ref_signal(struct soak_thread *t)
{
	t->sum[1][SOAK_OF_REF] += percpu_ref_tryget(ref);
}

/* Kill the count, and resurrect it. If several threads kill it, one succeeds. That one has a
 * reference, so the count does not come to 0. */
static void kill_and_resurrect(void)
{
	int e;

	(void)percpu_ref_get(ref);
	e = percpu_ref_kill(ref);
	soak_require(e == 0 || e == -EALREADY, "kill a reference count", 0, (uint64_t)e);
	if (e == 0)
		soak_require_equal("resurrect a reference count", 0,
				   (uint64_t)percpu_ref_resurrect(ref));
	(void)percpu_ref_put(ref);
}

void soak_ref_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), n = r / 16 % 5;

	if (r % 16 == 0)
		kill_and_resurrect();
	if (r % 16 == 1)
		soak_require_equal("to atomic", 0, (uint64_t)percpu_ref_switch_to_atomic(ref));
	if (r % 16 < 4)
		soak_require_equal("to per CPU", 0, (uint64_t)percpu_ref_switch_to_percpu(ref));
	t->sum[0][SOAK_OF_REF] += percpu_ref_tryget_live(ref);
	(void)percpu_ref_get_many(ref, n);
	for (; n > 0; n--)
		(void)percpu_ref_put(ref);
	t->slot->journal[0].count[SOAK_REF]++;
}

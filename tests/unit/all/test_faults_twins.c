/* SPDX-License-Identifier: MIT */
/*
 * test_faults_twins.c - calls of libc fail while each kind of object is made, found, used, reset
 * and freed: in memory of the process, and in a file.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>

#include <percpu/grace.h>
#include <percpu/rwlock.h>

#include "model.h"
#include "support.h"
#include "memory/memory.h"
#include "sweep.h"
#include "twins.h"

enum { ROOT = 3 };

static enum twin twin; /* the kind of object */
static bool without;   /* used by a thread that runs no sequences */

static struct twin_place place(void)
{
	struct twin_place p = { sweep_owners_region(), sweep_owners() };

	return p;
}

/* Put one. The thread's area is restored, whatever fails. */
static int put(union twin_handle h)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area = NULL;
	int e;

	if (without)
		area = model_set_area(&none);
	e = twin_put(twin, h, 3);
	if (without)
		model_set_area(area);
	return e;
}

static int reset(union twin_handle h)
{
	int e = twin_reset(twin, h);

	return e == -ENOSYS ? 0 : e;
}

/* Free the object. If that fails, which some kinds document, nothing has changed, and it is
 * repeated. */
static int destroy(union twin_handle h)
{
	int e = 0;

	if (twin == TWIN_OWNERS)
		e = percpu_owners_destroy(h.owners);
	else if (twin == TWIN_OWNED)
		e = percpu_owned_gauge_destroy(h.owned);
	else if (twin == TWIN_FOWNED)
		e = percpu_owned_fgauge_destroy(h.fowned);
	else if (twin == TWIN_RWLOCK)
		e = percpu_rwlock_destroy(h.rwlock);
	else if (twin == TWIN_GRACE)
		e = percpu_grace_destroy(h.grace);
	else
		twin_destroy(twin, h);
	(void)fault_clear();
	if (e != 0)
		twin_destroy(twin, h);
	return e;
}

/* Whatever failed, the object is whole. */
static int use(union twin_handle h, int e)
{
	bool had = false;

	if (e == 0)
		e = put(h);
	if (e == 0)
		e = reset(h);
	(void)fault_clear();
	if (h.any != NULL) {
		had = twin_has_value(twin) && twin_get(twin, h) != 0;
		assert_true(e != 0 || !had || twin_reset(twin, h) == -ENOSYS);
		assert_int_equal(put(h), 0);
		assert_true(!twin_has_value(twin) || twin_get(twin, h) >= 3);
	}
	return e;
}

/* Make and free an object in memory of the process. */
static int make(void)
{
	union twin_handle h = { NULL };
	int e = twin_create(twin, &h), f;

	e = use(h, e);
	f = h.any != NULL ? destroy(h) : 0;
	assert_int_equal(f, 0);
	return e;
}

/* Make an object in a file, and attach to it. */
static int attach(void)
{
	union twin_handle h = { NULL }, other = { NULL };
	const struct twin_place p = place();
	int e = twin_create_in(twin, &p, &h);

	if (e == 0)
		e = twin_attach(twin, &p, twin_key(twin, h), &other);
	e = use(other, e);
	if (other.any != NULL) {
		assert_true(!twin_has_value(twin) || twin_get(twin, h) >= 3);
		twin_detach(twin, other);
	}
	if (h.any != NULL)
		assert_int_equal(destroy(h), 0);
	return e;
}

/* Open an object at a root, twice. */
static int open_root(void)
{
	union twin_handle h = { NULL }, other = { NULL };
	const struct twin_place p = place();
	uint64_t key;
	int e = twin_open(twin, &p, ROOT, &h);

	if (e == 0)
		e = twin_open(twin, &p, ROOT, &other);
	e = use(other, e);
	key = percpu_region_root(p.r, ROOT);
	assert_true((key != 0) == (h.any != NULL));
	if (other.any != NULL)
		twin_detach(twin, other);
	if (h.any != NULL) {
		assert_int_equal(percpu_region_set_root(p.r, ROOT, key, 0), 0);
		assert_int_equal(destroy(h), 0);
	}
	return e;
}

/* Free an object. */
static int free_it(void)
{
	const struct twin_place p = place();
	union twin_handle h = { NULL };
	int e = twin_create_in(twin, &p, &h);

	return e != 0 ? e : destroy(h);
}

static const struct sweep_operation private_ones[] = {
	{ "made", make, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ NULL, NULL, { 0 } },
};
static const struct sweep_operation shared_ones[] = {
	{ "attached", attach, { SWEEP_FILE, SWEEP_FENCE } },
	{ "opened", open_root, { SWEEP_FILE, SWEEP_FENCE } },
	{ "freed", free_it, { SWEEP_FILE, -ETIMEDOUT } },
	{ NULL, NULL, { 0 } },
};

/* Run the operations for a kind, whose name is in theirs. */
static void sweep_twin(enum twin t, const struct sweep_operation *of)
{
	char names[4][64];
	struct sweep_operation o[4];
	unsigned n = 0;

	twin = t;
	for (; of[n].name != NULL; n++) {
		o[n] = of[n];
		snprintf(names[n], sizeof(names[n]), "%s, %s%s", twin_names[t], of[n].name,
			 without ? " without sequences" : "");
		o[n].name = names[n];
	}
	o[n] = of[n];
	sweep(o);
}

static void sweep_all(void)
{
	for (enum twin t = 0; t < TWINS; t++) {
		if (twin_is_private(t))
			sweep_twin(t, private_ones);
		if (twin_is_shared(t))
			sweep_twin(t, shared_ones);
	}
}

static void by_sequences(void **state)
{
	(void)state;
	without = false;
	sweep_all();
	sweep_report();
}

static void without_sequences(void **state)
{
	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("no sequences, also before");
	without = true;
	sweep_all();
	sweep_report();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_sequences),
		cmocka_unit_test(without_sequences),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}

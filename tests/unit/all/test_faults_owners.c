/* SPDX-License-Identifier: MIT */
/*
 * test_faults_owners.c - calls of libc fail under owners and their objects: gauges of each rule,
 * locks, and grace periods.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/calls.h>
#include <percpu/critical.h>
#include <percpu/rwlock.h>

#include "support.h"
#include "memory/memory.h"
#include "sweep.h"

enum { ROWS = 200 }; /* more than fit on the library's stack */

/* Join owners that are made here, and leave them. The process also has slots in the owners of
 * all operations. */
static int join_and_leave(void)
{
	struct percpu_owner_info rows[ROWS];
	struct percpu_owners *o = NULL;
	uint64_t id = 0;
	int e = percpu_owners_create_in(sweep_owners_region(), &o);

	if (e == 0)
		e = percpu_owners_join(o);
	if (e == 0) {
		id = percpu_owners_self(o);
		assert_int_not_equal(id, 0);
		assert_int_equal(percpu_owners_alive(o, id), 1);
		assert_int_equal(percpu_owners_list(o, rows, ROWS), 1);
		percpu_owners_leave(o);
	}
	for (int i = 0; i < 2 && e == 0; i++) { /* the second time it resumes */
		e = percpu_owners_join_as(o, "swept", PERCPU_OWNERS_RESUME);
		assert_true(e != 0 || percpu_owners_list(o, rows, ROWS) == 1);
		assert_true(e != 0 || strcmp(rows[0].name, "swept") == 0);
		percpu_owners_leave(o);
	}
	(void)fault_clear();
	if (o != NULL) {
		assert_int_equal(percpu_owners_self(o), 0);
		assert_int_equal(percpu_owners_join(o), 0);
		assert_int_equal(percpu_owners_list(o, rows, ROWS), 1);
		assert_int_equal(rows[0].alive, 1);
	}
	assert_int_equal(percpu_owners_destroy(o), 0);
	return e;
}

/* Open owners and their objects at roots of a new file. */
static int start_with_owners(void)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS;
	const char *path = test_path("owners");
	struct percpu_owned_gauge *g = NULL;
	struct percpu_rwlock *l = NULL;
	struct percpu_critical *c = NULL;
	struct percpu_region *r = NULL;
	struct percpu_owners *o = NULL;
	struct percpu_grace *p = NULL;
	int e = percpu_region_open(path, flags, NULL, &r);

	if (e == 0)
		e = percpu_owners_open(r, 0, &o);
	if (e == 0)
		e = percpu_owned_gauge_open(o, 1, PERCPU_OWNED_SUM, &g);
	if (e == 0)
		e = percpu_rwlock_open(o, 2, 0, &l);
	if (e == 0)
		e = percpu_grace_open(o, 3, 0, &p);
	if (e == 0)
		e = percpu_critical_open(o, 4, 8, &c);
	if (e == 0)
		e = percpu_owned_gauge_add(g, 1);
	(void)fault_clear();
	percpu_critical_detach(c);
	percpu_owned_gauge_detach(g);
	assert_int_equal(percpu_rwlock_detach(l), 0);
	assert_int_equal(percpu_grace_detach(p), 0);
	percpu_owners_detach(o);
	percpu_region_close(r);
	assert_int_equal(unlink(path), r != NULL ? 0 : -1);
	return e;
}

/* Use a gauge of any rule. */
static int use_gauge(struct percpu_owned_gauge *g, bool set)
{
	struct percpu_owned_value rows[ROWS];
	int64_t v = 77;
	size_t n = 77;
	int e = set ? percpu_owned_gauge_set(g, 5) : percpu_owned_gauge_add(g, 5);

	if (e == 0)
		e = percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v);
	assert_true(e == 0 || v == 77);
	if (e == 0)
		e = percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v);
	if (e == 0)
		e = percpu_owned_gauge_each(g, PERCPU_OWNED_LIVING, rows, ROWS, &n);
	assert_true(e != 0 || (n == 1 && rows[0].value == v));
	v = 77;
	if (e == 0)
		e = percpu_owned_gauge_own(g, &v);
	assert_true(e == 0 ? v == rows[0].value : v == 77);
	return e != 0 ? e : percpu_owned_gauge_set(g, 0);
}

static int use_fgauge(struct percpu_owned_fgauge *g, bool set)
{
	struct percpu_owned_value rows[ROWS];
	double v = 77;
	size_t n = 77;
	int e = set ? percpu_owned_fgauge_set(g, 5) : percpu_owned_fgauge_add(g, 5);

	if (e == 0)
		e = percpu_owned_fgauge_fetch(g, PERCPU_OWNED_LIVING, &v);
	if (e == 0)
		e = percpu_owned_fgauge_each(g, PERCPU_OWNED_ALL, rows, ROWS, &n);
	assert_true(e != 0 || (n == 1 && rows[0].fvalue == v));
	v = 77;
	if (e == 0)
		e = percpu_owned_fgauge_own(g, &v);
	assert_true(e == 0 ? v == rows[0].fvalue : v == 77);
	return e != 0 ? e : percpu_owned_fgauge_set(g, 0);
}

static int gauges_of(enum percpu_owned_rule rule)
{
	const bool set = rule == PERCPU_OWNED_RECENT;
	struct percpu_owned_fgauge *f = NULL;
	struct percpu_owned_gauge *g = NULL;
	int e = percpu_owned_gauge_create_in(sweep_owners(), rule, &g);

	if (e == 0)
		e = percpu_owned_fgauge_create_in(sweep_owners(), rule, &f);
	if (e == 0)
		e = use_gauge(g, set);
	if (e == 0)
		e = use_fgauge(f, set);
	(void)fault_clear();
	assert_true(g == NULL || use_gauge(g, set) == 0);
	assert_true(f == NULL || use_fgauge(f, set) == 0);
	assert_int_equal(percpu_owned_gauge_destroy(g), 0);
	assert_int_equal(percpu_owned_fgauge_destroy(f), 0);
	return e;
}

static int sums(void)
{
	return gauges_of(PERCPU_OWNED_SUM);
}

static int least(void)
{
	return gauges_of(PERCPU_OWNED_MIN);
}

static int most(void)
{
	return gauges_of(PERCPU_OWNED_MAX);
}

static int recent(void)
{
	return gauges_of(PERCPU_OWNED_RECENT);
}

/* Use a lock. Its holder cannot always be looked up, and has no pid then. */
static int use_lock(struct percpu_rwlock *l)
{
	struct percpu_rwlock_holder rows[ROWS];
	int e = percpu_rwlock_read_trylock(l);

	if (e == 0) {
		assert_int_equal(percpu_rwlock_holders(l, rows, ROWS), 1);
		e = percpu_rwlock_read_unlock(l);
	}
	if (e == 0)
		e = percpu_rwlock_read_timedlock(l, PERCPU_SECOND);
	if (e == 0)
		e = percpu_rwlock_read_unlock(l);
	if (e == 0)
		e = percpu_rwlock_write_trylock(l);
	if (e == 0) {
		assert_int_equal(percpu_rwlock_holders(l, rows, ROWS), 1);
		assert_int_equal(percpu_rwlock_died(l), 0);
		assert_int_equal(percpu_rwlock_consistent(l), -EINVAL);
		e = percpu_rwlock_write_unlock(l);
	}
	if (e == 0)
		e = percpu_rwlock_write_timedlock(l, PERCPU_SECOND);
	return e != 0 ? e : percpu_rwlock_write_unlock(l);
}

static int lock_of(struct percpu_owners *o, unsigned flags)
{
	struct percpu_rwlock *l = NULL;
	int e = o != NULL ? percpu_rwlock_create_in(o, flags, &l) : percpu_rwlock_create(flags, &l);

	if (e == 0)
		e = use_lock(l);
	(void)fault_clear();
	if (l != NULL)
		assert_int_equal(use_lock(l), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
	return e;
}

static int private_lock(void)
{
	return lock_of(NULL, 0);
}

static int shared_lock(void)
{
	return lock_of(sweep_owners(), 0);
}

static int checked_lock(void)
{
	return lock_of(sweep_owners(), PERCPU_RWLOCK_DEBUG);
}

/* Use a section, and each lane by its number. */
static int use_lanes(struct percpu_critical *c)
{
	void *cell = NULL;
	int e = percpu_critical_enter(c, &cell);

	if (e == 0)
		e = percpu_critical_exit(c, cell);
	for (unsigned lane = 0; e == 0 && lane < percpu_critical_lanes(c); lane++) {
		e = percpu_critical_enter_lane(c, lane, &cell);
		if (e == 0) {
			assert_ptr_equal(cell, percpu_critical_cell(c, lane));
			e = percpu_critical_exit(c, cell);
		}
	}
	if (e == 0)
		e = percpu_critical_enter_call(c, &cell);
	return e != 0 ? e : percpu_critical_exit_call(c, cell);
}

static int lanes_of(struct percpu_owners *o)
{
	struct percpu_critical *c = NULL, *same = NULL;
	int e = o != NULL ? percpu_critical_create_in(o, 8, &c) : percpu_critical_create(8, &c);

	if (e == 0)
		e = use_lanes(c);
	if (e == 0 && o != NULL)
		e = percpu_critical_attach(o, percpu_critical_key(c), &same);
	(void)fault_clear();
	if (c != NULL)
		assert_int_equal(use_lanes(c), 0);
	percpu_critical_detach(same);
	percpu_critical_destroy(c);
	return e;
}

static int private_lanes(void)
{
	return lanes_of(NULL);
}

static int shared_lanes(void)
{
	return lanes_of(sweep_owners());
}

static void note_callback(struct percpu_grace_callback *c)
{
	(void)c;
}

/* Use sections, and the four ways to wait for them. Only the first section may fail. */
static int use_periods(struct percpu_grace *g, struct percpu_grace_callback *c)
{
	struct percpu_grace_blocker rows[ROWS];
	uint64_t cookie;
	int token = percpu_grace_enter(g), e;

	if (token < 0)
		return token;
	assert_int_equal(percpu_grace_blockers(g, rows, ROWS), 1);
	cookie = percpu_grace_start(g);
	e = percpu_grace_poll(g, cookie);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	for (unsigned i = 0; e == 0 && i < 10; i++)
		e = percpu_grace_poll(g, cookie);
	e = e > 0 ? 0 : e;
	if (e == 0)
		e = percpu_grace_wait_timed(g, PERCPU_SECOND);
	if (e == 0)
		e = percpu_grace_wait(g);
	if (e == 0)
		e = percpu_grace_call(g, c, note_callback);
	return e != 0 ? e : percpu_grace_barrier(g);
}

static int periods_of(struct percpu_owners *o, unsigned flags)
{
	struct percpu_grace_callback c, again;
	struct percpu_grace *g = NULL;
	int e = o != NULL ? percpu_grace_create_in(o, flags, &g) : percpu_grace_create(flags, &g),
	    f = 0;

	if (e == 0)
		e = use_periods(g, &c);
	(void)fault_clear();
	if (g != NULL) {
		while (f = percpu_grace_barrier(g), f != 0)
			assert_int_equal(f, e);
		assert_int_equal(use_periods(g, &again), 0);
	}
	assert_int_equal(percpu_grace_destroy(g), 0);
	return e;
}

static int private_periods(void)
{
	return periods_of(NULL, 0);
}

static int shared_periods(void)
{
	return periods_of(sweep_owners(), 0);
}

static int checked_periods(void)
{
	return periods_of(sweep_owners(), PERCPU_GRACE_DEBUG);
}

static const struct sweep_operation operations[] = {
	{ "owners", join_and_leave, { SWEEP_FILE, -ENOLCK, -EBADMSG, -ETIMEDOUT } },
	{ "file with owners", start_with_owners, { SWEEP_FILE, -ENOLCK, -EBADMSG, -ETIMEDOUT } },
	{ "sums of owners", sums, { SWEEP_FILE, -ENOLCK, -ETIMEDOUT } },
	{ "least of owners", least, { SWEEP_FILE, -ENOLCK, -ETIMEDOUT } },
	{ "most of owners", most, { SWEEP_FILE, -ENOLCK, -ETIMEDOUT } },
	{ "latest of owners", recent, { SWEEP_FILE, -ENOLCK, -ETIMEDOUT } },
	{ "lock", private_lock, { SWEEP_MEMORY, SWEEP_FENCE, -EBUSY } },
	{ "shared lock", shared_lock, { SWEEP_FILE, SWEEP_FENCE, -EBUSY, -EBADMSG } },
	{ "checked lock", checked_lock, { SWEEP_FILE, SWEEP_FENCE, -EBUSY, -EBADMSG } },
	{ "lanes", private_lanes, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "shared lanes", shared_lanes, { SWEEP_FILE, SWEEP_FENCE, -ENOLCK, -ETIMEDOUT } },
	{ "grace periods", private_periods, { SWEEP_MEMORY, SWEEP_FENCE } },
	{ "shared grace periods", shared_periods, { SWEEP_FILE, SWEEP_FENCE } },
	{ "checked grace periods", checked_periods, { SWEEP_FILE, SWEEP_FENCE } },
	{ NULL, NULL, { 0 } },
};

static void each_call_fails_in_turn(void **state)
{
	(void)state;
	sweep(operations);
	sweep_report();
	assert_true(sweep_failures(FAULT_OPEN) > 0 && sweep_failures(FAULT_FCNTL) > 0);
	assert_int_equal(fault_inherited(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_call_fails_in_turn),
	};

	return cmocka_run_group_tests(tests, sweep_set_up, sweep_tear_down);
}

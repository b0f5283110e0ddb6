/* SPDX-License-Identifier: MIT */
/*
 * test_twin_calls.c - calls that do the same for objects that are made differently: sums; and
 * series with a family and without.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <percpu/calls.h>
#include <percpu/variable.h>

#include "declared.h"

#include "model.h"
#include "../family_calls.h"
#include "memory/memory.h"
#include "../root_file.h"
#include "twins.h"

#define POISON ((void *)(uintptr_t)0x5555)

static int number_of(void **state)
{
	return (int)(uintptr_t)*state;
}

/* Sums. */

enum sum { COUNTER, STATIC_COUNTER, VARIABLE, BUFFERED, REFERENCES, SUMS };

static PERCPU_VARIABLE(uint64_t, twin);

static struct {
	struct percpu_counter *counter;
	struct percpu_static_counter plain;
	uint64_t before; /* value of the variable before */
	struct percpu_wbuf *wbuf;
	uint64_t cell PERCPU_ALIGNED_WORD; /* the cell that the buffer adds to */
	struct percpu_ref *ref;
} o;

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref, (void)arg;
}

static int begin_sum(void **state)
{
	(void)state;
	memset(&o, 0, sizeof(o));
	o.before = PERCPU_VARIABLE_SUM(twin);
	return percpu_counter_create(&o.counter) || percpu_wbuf_create(NULL, &o.wbuf) ||
	       percpu_ref_create(release, NULL, 0, &o.ref);
}

static int end_sum(void **state)
{
	const uint64_t left = (uint64_t)percpu_ref_fetch(o.ref) - 1;

	(void)state;
	percpu_counter_destroy(o.counter);
	percpu_static_counter_teardown(&o.plain);
	percpu_wbuf_destroy(o.wbuf);
	return (left != 0 && percpu_ref_put_many(o.ref, left) != 0) || percpu_ref_kill(o.ref) ||
	       percpu_ref_destroy(o.ref);
}

static int add(enum sum k, int n)
{
	switch (k) {
	case COUNTER:
		return percpu_counter_add(o.counter, n), 0;
	case STATIC_COUNTER:
		return percpu_static_counter_add(&o.plain, n), 0;
	case VARIABLE:
		return PERCPU_VARIABLE_ADD(twin, n), 0;
	case BUFFERED:
		return percpu_wbuf_add(o.wbuf, &o.cell, (uint64_t)n);
	default:
		return n < 0 ? percpu_ref_put_many(o.ref, (uint64_t)-n) :
			       percpu_ref_get_many(o.ref, (uint64_t)n);
	}
}

/* Add as a thread that cannot run sequences. */
static int add_without(enum sum k, int n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = add(k, n);

	model_set_area(area);
	return e;
}

static int64_t sum_of(enum sum k)
{
	uint64_t *const cells[] = { &o.cell };
	uint64_t n;

	switch (k) {
	case COUNTER:
		return (int64_t)percpu_counter_fetch(o.counter);
	case STATIC_COUNTER:
		return (int64_t)percpu_static_counter_fetch(&o.plain);
	case VARIABLE:
		return (int64_t)(PERCPU_VARIABLE_SUM(twin) - o.before);
	case BUFFERED:
		percpu_wbuf_read(o.wbuf, cells, 1, &n);
		return (int64_t)n;
	default:
		return percpu_ref_fetch(o.ref) - 1;
	}
}

/* Change how adds to the sum are done, if there is another way; or change back. */
static int change_way(enum sum k, bool back)
{
	switch (k) {
	case STATIC_COUNTER:
		if (!back)
			return percpu_static_counter_setup(&o.plain);
		percpu_static_counter_teardown(&o.plain);
		return 0;
	case BUFFERED:
		percpu_wbuf_flush(o.wbuf);
		return 0;
	case REFERENCES:
		return back ? percpu_ref_switch_to_percpu(o.ref) :
			      percpu_ref_switch_to_atomic(o.ref);
	default:
		return 0;
	}
}

/* Add n to it in each way, and return the sum. */
static int64_t add_in_all_ways(enum sum k, int64_t n)
{
	for (int way = 0; way < 3; way++) {
		if (way != 0)
			assert_int_equal(change_way(k, way == 2), 0);
		assert_int_equal(sum_of(k), n);
		assert_int_equal(add(k, 3), 0);
		assert_int_equal(sum_of(k), n + 3);
		assert_int_equal(add_without(k, 6), 0);
		assert_int_equal(sum_of(k), n + 9);
		assert_int_equal(add(k, -2), 0);
		assert_int_equal(add_without(k, -3), 0);
		n += 4;
		assert_int_equal(sum_of(k), n);
	}
	return n;
}

static void sums_have_all_that_was_added(void **state)
{
	const enum sum k = (enum sum)number_of(state);
	const int64_t n = add_in_all_ways(k, 0);

	if (k > STATIC_COUNTER) /* there is no reset */
		return;
	assert_int_equal(k == COUNTER ? percpu_counter_fetch_zero(o.counter) :
					percpu_static_counter_fetch_zero(&o.plain),
			 n);
	(void)add_in_all_ways(k, 0);
	assert_int_equal(change_way(k, false), 0);
	assert_int_equal(add(k, 7), 0);
	if (k == COUNTER)
		percpu_counter_zero(o.counter);
	else
		percpu_static_counter_zero(&o.plain);
	assert_int_equal(sum_of(k), 0);
	(void)add_in_all_ways(k, 0);
}

static int add_in_child(void *arg)
{
	const enum sum k = (enum sum)(uintptr_t)arg;

	test_child_require(sum_of(k) == 12, "what the parent has added");
	test_child_require(add(k, 5) == 0 && add_without(k, 5) == 0, "add");
	test_child_require(sum_of(k) == 22, "what both have added");
	return 0;
}

static void children_add_for_themselves(void **state)
{
	const enum sum k = (enum sum)number_of(state);

	assert_int_equal(add_in_all_ways(k, 0), 12);
	assert_int_equal(test_wait(test_fork(add_in_child, *state), 60), 0);
	assert_int_equal(sum_of(k), 12);
}

#define ADDS 2000

static void *add_often(void *arg)
{
	const enum sum k = (enum sum)(uintptr_t)arg;
	int e = 0;

	for (int i = 0; i < ADDS && e == 0; i++)
		e = i % 8 == 0 ? add_without(k, 1) : add(k, 1);
	return e == 0 ? NULL : POISON;
}

static void threads_add_together(void **state)
{
	const enum sum k = (enum sum)number_of(state);
	pthread_t thread[3];
	void *result;

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, add_often, *state), 0);
	for (int way = 0; way < 2; way++)
		assert_int_equal(k == STATIC_COUNTER && way == 1 ? 0 : change_way(k, way == 1), 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(pthread_join(thread[i], &result), 0);
		assert_null(result);
	}
	assert_int_equal(sum_of(k), 3 * ADDS);
}

/* Series: each kind, alone and in a family. */

static const struct {
	enum twin twin;
	unsigned kind;
	const char *name;
} kinds[] = {
	{ TWIN_COUNTER, PERCPU_METRIC_COUNTER, "a_total" },
	{ TWIN_FCOUNTER, PERCPU_METRIC_FCOUNTER, "b_total" },
	{ TWIN_GAUGE, PERCPU_METRIC_GAUGE, "c" },
	{ TWIN_FGAUGE, PERCPU_METRIC_FGAUGE, "d" },
	{ TWIN_LATEST, PERCPU_METRIC_LATEST, "e" },
	{ TWIN_EXTREMA, PERCPU_METRIC_EXTREMA, "f" },
	{ TWIN_OWNED, PERCPU_METRIC_OWNED_GAUGE, "g" },
	{ TWIN_FOWNED, PERCPU_METRIC_OWNED_FGAUGE, "h" },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static int declare_alone(struct percpu_segment *in, size_t k, const char *name,
			 union twin_handle *ret)
{
	const struct percpu_metric *m = METRIC(name);

	switch (kinds[k].twin) {
	case TWIN_COUNTER:
		return percpu_segment_counter(in, m, &ret->counter);
	case TWIN_FCOUNTER:
		return percpu_segment_fcounter(in, m, &ret->fcounter);
	case TWIN_GAUGE:
		return percpu_segment_gauge(in, m, &ret->gauge);
	case TWIN_FGAUGE:
		return percpu_segment_fgauge(in, m, &ret->fgauge);
	case TWIN_LATEST:
		return percpu_segment_latest(in, m, &ret->latest);
	case TWIN_EXTREMA:
		return percpu_segment_extrema(in, m, 0, &ret->extrema);
	case TWIN_OWNED:
		return percpu_segment_owned_gauge(in, m, PERCPU_OWNED_MAX, &ret->owned);
	default:
		return percpu_segment_owned_fgauge(in, m, PERCPU_OWNED_MAX, &ret->fowned);
	}
}

static int find_member(struct percpu_family *f, size_t k, const char *const *values,
		       union twin_handle *ret)
{
	switch (kinds[k].twin) {
	case TWIN_COUNTER:
		return percpu_family_counter(f, values, &ret->counter);
	case TWIN_FCOUNTER:
		return percpu_family_fcounter(f, values, &ret->fcounter);
	case TWIN_GAUGE:
		return percpu_family_gauge(f, values, &ret->gauge);
	case TWIN_FGAUGE:
		return percpu_family_fgauge(f, values, &ret->fgauge);
	case TWIN_LATEST:
		return percpu_family_latest(f, values, &ret->latest);
	case TWIN_EXTREMA:
		return percpu_family_extrema(f, values, &ret->extrema);
	case TWIN_OWNED:
		return percpu_family_owned_gauge(f, values, &ret->owned);
	default:
		return percpu_family_owned_fgauge(f, values, &ret->fowned);
	}
}

/* Find the series of that name, or of a family of that name. */
static int find(struct percpu_segment *in, bool member, size_t k, const char *name,
		union twin_handle *ret)
{
	const bool owned = kinds[k].twin == TWIN_OWNED || kinds[k].twin == TWIN_FOWNED;
	static const char *const labels[] = { "l" }, *const values[] = { "v" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = name, .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = kinds[k].kind,
					      .flags = owned ? PERCPU_OWNED_MAX : 0 };
	struct percpu_family *f;
	int e;

	if (!member)
		return declare_alone(in, k, name, ret);
	e = family_with_cap(in, &d, 5, &f);
	return e == 0 ? find_member(f, k, values, ret) : e;
}

static union twin_handle found(struct percpu_segment *in, bool member, size_t k)
{
	union twin_handle h = { POISON };

	assert_int_equal(find(in, member, k, kinds[k].name, &h), 0);
	return h;
}

/* Assert that the call fails, and stores nothing. */
static void expect_none(struct percpu_segment *in, bool member, size_t k, const char *name, int e)
{
	union twin_handle h = { POISON };

	assert_int_equal(find(in, member, k, name, &h), e);
	assert_ptr_equal(h.any, POISON);
}

static void use_series(bool member, size_t k)
{
	const union twin_handle a = found(s, member, k), b = found(t, member, k);
	const enum twin twin = kinds[k].twin;
	const int64_t both = twin_adds_up(twin) ? 5 : 3;

	assert_ptr_equal(found(s, member, k).any, a.any);
	assert_int_equal(twin_get(twin, a), 0);
	assert_int_equal(twin_put(twin, a, 2), 0);
	assert_int_equal(twin_get(twin, b), 2);
	assert_int_equal(twin_put(twin, b, 3), 0);
	assert_int_equal(twin_get(twin, a), both);
	for (size_t other = 0; other < KINDS; other++)
		if (other != k && (other < 2) == (k < 2) && twin_is_shared(kinds[other].twin))
			expect_none(t, member, other, kinds[k].name, -EEXIST);
	expect_none(t, !member, k, kinds[k].name, -EEXIST);
	assert_int_equal(twin_get(twin, found(t, member, k)), both);
}

static void series_are_of_all_processes(void **state)
{
	const bool member = number_of(state) != 0;
	struct percpu_segment *other;

	for (size_t k = 0; k < KINDS; k++)
		if (twin_is_shared(kinds[k].twin))
			use_series(member, k);
	other = open_family_file(path, 0);
	for (size_t k = 0; k < KINDS; k++) {
		const enum twin twin = kinds[k].twin;

		if (!twin_is_shared(twin))
			continue;
		assert_int_equal(twin_get(twin, found(other, member, k)),
				 twin_get(twin, found(s, member, k)));
	}
	percpu_segment_close(other);
}

/* All bodies, for all twins. */

static const char *const sum_names[SUMS] = {
	[COUNTER] = "counter",	     [STATIC_COUNTER] = "static counter", [VARIABLE] = "variable",
	[BUFFERED] = "write buffer", [REFERENCES] = "references",
};

static const char *const series_names[2] = { "alone", "in a family" };

static const struct {
	const char *name;
	void (*run)(void **state);
	const char *const *names;
	int n;
	CMFixtureFunction before, after;
} bodies[] = {
	{ "has all that was added", sums_have_all_that_was_added, sum_names, SUMS, begin_sum,
	  end_sum },
	{ "children add for themselves", children_add_for_themselves, sum_names, SUMS, begin_sum,
	  end_sum },
	{ "threads add together", threads_add_together, sum_names, SUMS, begin_sum, end_sum },
	{ "series are of all processes", series_are_of_all_processes, series_names, 2, open_both,
	  close_both },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))
#define MOST SUMS /* twins of a body */

int main(void)
{
	static struct CMUnitTest tests[BODIES * MOST];
	static char names[BODIES * MOST][80];
	size_t n = 0;

	for (size_t i = 0; i < BODIES; i++)
		for (int k = 0; k < bodies[i].n; k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", bodies[i].names[k],
				 bodies[i].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = bodies[i].run,
							.setup_func = bodies[i].before,
							.teardown_func = bodies[i].after,
							.initial_state = (void *)(uintptr_t)k };
		}
	return _cmocka_run_group_tests("tests", tests, n, name_file, test_remove_paths);
}

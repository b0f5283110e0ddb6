/* SPDX-License-Identifier: MIT */
/*
 * test_gauge.c - gauges of integers and of doubles, and latest values: sets while other threads
 * add, read, set, or are killed; files, keys and bad input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "model.h"
#include "support.h"

#include "../happen.h"
#include "counts/counts.h"

#define THREADS 6
#define ADDS 20000
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_region *region;
static struct percpu_gauge *gauge;
static struct percpu_fgauge *fgauge;
static struct percpu_latest *latest;
static uint32_t *reached;

static bool in_files(void)
{
	return percpu_pair_is_atomic();
}

static int begin(void **state)
{
	int e;

	(void)state;
	test_tier();
	reached = test_share(sizeof(*reached));
	e = percpu_region_open(test_path("gauge"), CREATE, NULL, &region);
	if (e != 0)
		return e;
	if (in_files())
		return percpu_gauge_open(region, 0, &gauge) ||
		       percpu_fgauge_open(region, 1, &fgauge) ||
		       percpu_latest_open(region, 2, &latest);
	return percpu_gauge_create(&gauge) || percpu_fgauge_create(&fgauge) ||
	       percpu_latest_create(&latest);
}

static int end(void **state)
{
	percpu_gauge_destroy(gauge);
	percpu_fgauge_destroy(fgauge);
	percpu_latest_destroy(latest);
	percpu_region_close(region);
	return test_remove_paths(state);
}

static void expect(double got, double wanted)
{
	if (model_bits(got) != model_bits(wanted))
		fail_msg("%.20g is not %.20g", got, wanted);
}

/* Add as a thread that cannot run sequences. */
static int add_without(double n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = percpu_fgauge_add(fgauge, n);

	percpu_gauge_add(gauge, (int64_t)n);
	model_set_area(area);
	return e;
}

static void levels_go_up_and_down(void **state)
{
	(void)state;
	assert_int_equal(percpu_gauge_set(gauge, 0), 0);
	percpu_gauge_add(gauge, 10);
	percpu_gauge_sub(gauge, 3);
	percpu_gauge_inc(gauge);
	percpu_gauge_dec(gauge);
	percpu_gauge_dec(gauge);
	assert_int_equal(percpu_gauge_fetch(gauge), 6);
	assert_int_equal(percpu_gauge_set(gauge, -7), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), -7);
	percpu_gauge_sub(gauge, INT64_MIN);
	percpu_gauge_add(gauge, INT64_MIN);
	assert_int_equal(percpu_gauge_fetch(gauge), -7);
	assert_int_equal(percpu_gauge_set(gauge, INT64_MAX), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), INT64_MAX);
}

/* Test that a gauge of doubles reads as it was set, to the bit, also after rounded sums. */
static void doubles_read_as_set(void **state)
{
	const double values[] = { 0.1, -0.3, 1e300, -1e-300, 0x1p-1074, 0, -0.0 };
	double level;

	(void)state;
	for (unsigned i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		assert_int_equal(percpu_fgauge_add(fgauge, 1e15 / 7), 0);
		assert_int_equal(add_without(-0.7), 0);
		assert_int_equal(percpu_fgauge_set(fgauge, values[i]), 0);
		level = percpu_fgauge_fetch(fgauge);
		assert_memory_equal(&level, &values[i], sizeof(level));
	}
	assert_int_equal(percpu_fgauge_add(fgauge, 8), 0);
	assert_int_equal(percpu_fgauge_sub(fgauge, 3), 0);
	expect(percpu_fgauge_fetch(fgauge), 5);
}

/* An add or a set runs between the sum of the lanes and the store. */

static void add_more(void)
{
	percpu_gauge_add(gauge, 5);
	assert_int_equal(percpu_fgauge_add(fgauge, 5), 0);
}

static void set_and_add(void)
{
	assert_int_equal(percpu_gauge_set(gauge, 1000), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 1000), 0);
	add_more();
}

static void adds_meanwhile_count_on(void **state)
{
	(void)state;
	let_happen(add_more, "lanes summed", 1);
	assert_int_equal(percpu_gauge_set(gauge, 100), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), 105);
	let_happen(add_more, "lanes summed", 1);
	assert_int_equal(percpu_fgauge_set(fgauge, 100), 0);
	expect(percpu_fgauge_fetch(fgauge), 105);
}

static void the_last_who_sets_wins(void **state)
{
	(void)state;
	let_happen(set_and_add, "lanes summed", 1);
	assert_int_equal(percpu_gauge_set(gauge, 100), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), 100);
	let_happen(set_and_add, "double: to be proposed", 1);
	assert_int_equal(percpu_fgauge_set(fgauge, 100), 0);
	expect(percpu_fgauge_fetch(fgauge), 100);
	/* A reader gets a level that the gauge had: the one before the set, or the one after. */
	let_happen(set_and_add, "bias loaded", 1);
	expect(percpu_fgauge_fetch(fgauge), 105);
	expect(percpu_fgauge_fetch(fgauge), 1005);
}

/* Another set runs meanwhile and leaves the bias as it was: the gauge had that level. */

static void (*other)(void);

static int do_other(void *arg)
{
	other();
	return arg != NULL;
}

/* Run the other action; if gauges can be in files, in another process, which must not wait for this
 * one. */
static void run_other(void)
{
	if (in_files())
		assert_int_equal(test_wait(test_fork(do_other, NULL), 10), 0);
	else
		other();
}

static void let_other(void (*fn)(void), const char *where)
{
	other = fn;
	let_happen(run_other, where, 1);
}

static void come_back(void)
{
	percpu_gauge_sub(gauge, 5);
	assert_int_equal(percpu_gauge_set(gauge, 0), 0);
	assert_int_equal(percpu_fgauge_sub(fgauge, 5), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_fgauge_set(fgauge, 0), 0);
	assert_int_equal(percpu_fgauge_add(fgauge, 2), 0);
}

static void go_to_five(void)
{
	assert_int_equal(percpu_gauge_set(gauge, 0), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 0), 0);
	add_more();
}

static void sets_that_change_nothing_are_sets(void **state)
{
	(void)state;
	go_to_five();
	let_other(come_back, "lanes summed");
	assert_int_equal(percpu_gauge_set(gauge, 7), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), 7);
	go_to_five();
	let_other(come_back, "double: to be proposed");
	assert_int_equal(percpu_fgauge_set(fgauge, 7), 0);
	expect(percpu_fgauge_fetch(fgauge), 7);
	go_to_five();
	let_other(come_back, "double: place chosen"); /* and uses that place */
	assert_int_equal(percpu_fgauge_set(fgauge, 7), 0);
	expect(percpu_fgauge_fetch(fgauge), 7);
	go_to_five();
	let_other(come_back, "lanes summed");
	assert_int_equal(percpu_fgauge_set(fgauge, 7), 0);
	expect(percpu_fgauge_fetch(fgauge), 2); /* 7 was proposed first, so it was set first */
}

/* A proposed level does not count yet. The next thread that sets the gauge completes it. */

static void look_and_set(void)
{
	expect(percpu_fgauge_fetch(fgauge), 5);
	assert_int_equal(percpu_fgauge_add(fgauge, 1), 0);
	expect(percpu_fgauge_fetch(fgauge), 6);
	assert_int_equal(percpu_fgauge_set(fgauge, 3), 0);
	assert_int_equal(percpu_fgauge_add(fgauge, 1), 0);
}

static void set_twice(void)
{
	assert_int_equal(percpu_fgauge_set(fgauge, 1), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 2), 0);
}

static void proposals_do_not_count_yet(void **state)
{
	(void)state;
	go_to_five();
	let_other(look_and_set, "double: proposed");
	assert_int_equal(percpu_fgauge_set(fgauge, 7), 0);
	expect(percpu_fgauge_fetch(fgauge), 4);
	/* Another thread sets the gauge once, and twice, between the two loads of a reader. */
	let_happen(set_and_add, "double: sum loaded", 1);
	expect(percpu_fgauge_fetch(fgauge), 4 + 5);
	let_happen(set_twice, "double: sum loaded", 1);
	expect(percpu_fgauge_fetch(fgauge), 2);
}

/* A damaged file may contain any numbers: sets and reads return nevertheless. */

static struct percpu_double_bias *bias_of_fgauge(void)
{
	struct percpu_chunk *k = percpu_chunk_of(fgauge);
	const size_t offset = (size_t)((char *)fgauge - k->base);

	return (void *)percpu_chunk_lane(k, 2 * (size_t)k->cpus, offset);
}

/* Test that the number says where the last level is, as in docs/memory/format.md. */
static void numbers_say_which_value_counts(void **state)
{
	struct percpu_double_bias *b = bias_of_fgauge();

	(void)state;
	for (int i = 1; i < 4; i++) {
		assert_int_equal(percpu_fgauge_set(fgauge, i), 0);
		assert_int_equal(b->set[b->sum.second % 2].second, b->sum.second);
		assert_int_equal(b->set[b->sum.second % 2].first, model_bits(i));
	}
}

static int set_over_damage(void *arg)
{
	static const uint64_t far[] = {
		1,	     2,		3,	    1000,	   1001, UINT64_MAX,
		1 - 1000ULL, INT64_MAX, 1ULL << 63, INT64_MAX - 1, 0
	};
	struct percpu_double_bias *b = bias_of_fgauge();

	(void)arg;
	for (unsigned i = 0; i < 2 * sizeof(far) / sizeof(far[0]); i++) {
		b->set[(b->sum.second + i) % 2].second = b->sum.second + far[i / 2];
		(void)percpu_fgauge_fetch(fgauge);
		test_child_require(percpu_fgauge_add(fgauge, 1) == 0, "add");
		test_child_require(percpu_fgauge_set(fgauge, i) == 0, "set");
		test_child_require(percpu_fgauge_fetch(fgauge) == i, "what it was set to");
	}
	return 0;
}

static void damaged_numbers_keep_nobody(void **state)
{
	struct percpu_fgauge *const whole = fgauge;
	int status;

	(void)state;
	assert_int_equal(in_files() ? percpu_fgauge_create_in(region, &fgauge) :
				      percpu_fgauge_create(&fgauge),
			 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 5), 0);
	status = test_wait(test_fork(set_over_damage, NULL), 10);
	percpu_fgauge_destroy(fgauge);
	fgauge = whole;
	assert_int_equal(status, 0);
}

static void add_and_take(unsigned i, void *arg)
{
	(void)arg;
	for (unsigned k = 0; k < ADDS; k++) {
		percpu_gauge_inc(gauge);
		(void)percpu_fgauge_add(fgauge, 2);
		if (i % 2 == 0 && k % 16 == 0)
			(void)add_without(1);
		percpu_gauge_dec(gauge);
		(void)percpu_fgauge_sub(fgauge, 2);
		if (i % 2 == 0 && k % 16 == 0)
			(void)add_without(-1);
		if (i == 1 && k % 1024 == 0) /* read amid the adds */
			(void)percpu_gauge_fetch(gauge);
	}
}

static void threads_come_back_to_the_level(void **state)
{
	(void)state;
	assert_int_equal(percpu_gauge_set(gauge, 42), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 0.1), 0);
	test_team_run(THREADS, add_and_take, NULL);
	assert_int_equal(percpu_gauge_fetch(gauge), 42);
	expect(percpu_fgauge_fetch(fgauge), 0.1);
}

/* Latest values */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void set_other(void)
{
	test_sleep_us(10);
	assert_int_equal(percpu_latest_set(latest, 3), 0);
}

static void values_have_their_time(void **state)
{
	uint64_t before = now_ns(), ns = 7;
	double v = 7;

	(void)state;
	assert_int_equal(percpu_latest_fetch(latest, &v, &ns), -ENODATA);
	assert_true(v == 7 && ns == 7);
	assert_int_equal(percpu_latest_set(latest, -0.1), 0);
	assert_int_equal(percpu_latest_fetch(latest, &v, &ns), 0);
	expect(v, -0.1);
	assert_in_range(ns, before, now_ns());
	assert_int_equal(percpu_latest_set(latest, NAN), 0);
	assert_int_equal(percpu_latest_fetch(latest, &v, &ns), 0);
	assert_true(isnan(v));
	/* Another set runs in between: the later set has the later time. */
	let_happen(set_other, "latest: time read", 1);
	assert_int_equal(percpu_latest_set(latest, 4), 0);
	before = now_ns();
	assert_int_equal(percpu_latest_fetch(latest, &v, &ns), 0);
	expect(v, 4);
	assert_true(ns <= before);
	v = 0;
	assert_int_equal(percpu_latest_fetch(latest, &v, NULL), 0);
	expect(v, 4);
	assert_int_equal(percpu_latest_fetch(latest, NULL, &before), 0);
	assert_int_equal(before, ns);
	assert_int_equal(percpu_latest_fetch(latest, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_latest_fetch(NULL, &v, &ns), -EINVAL);
}

static uint64_t between;

static void set_and_look(void)
{
	double v;

	test_sleep_us(10);
	assert_int_equal(percpu_latest_set(latest, 3), 0);
	assert_int_equal(percpu_latest_fetch(latest, &v, &between), 0);
}

static void times_are_in_order(void **state)
{
	uint64_t ns;
	double v;

	(void)state;
	let_happen(set_and_look, "latest: time read", 1);
	assert_int_equal(percpu_latest_set(latest, 4), 0);
	assert_int_equal(percpu_latest_fetch(latest, &v, &ns), 0);
	expect(v, 4);
	assert_true(ns >= between);
}

/* After a kill in the middle, the gauge was set or not, and no add is lost. */

static void wait_for_the_end(void)
{
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static int set_and_die(void *arg)
{
	percpu_gauge_add(gauge, 2);
	test_child_require(percpu_fgauge_add(fgauge, 2) == 0, "add");
	let_happen(wait_for_the_end, "lanes summed", 1);
	(void)(arg != NULL ? percpu_fgauge_set(fgauge, 99) : percpu_gauge_set(gauge, 99));
	return 1;
}

static int set_after_them(void *arg)
{
	(void)arg;
	return percpu_gauge_set(gauge, 8) == 0 && percpu_fgauge_set(fgauge, 8) == 0 ? 0 : 1;
}

static void the_killed_have_set_nothing(void **state)
{
	(void)state;
	if (!in_files())
		test_skip("pairs of this machine are private");
	assert_int_equal(percpu_gauge_set(gauge, 1), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 1), 0);
	for (int i = 0; i < 2; i++) {
		pid_t pid;

		__atomic_store_n(reached, 0, __ATOMIC_RELEASE);
		pid = test_fork(set_and_die, i ? &pid : NULL);
		while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
			test_sleep_us(100);
		assert_int_equal(kill(pid, SIGKILL), 0);
		(void)test_wait(pid, 60);
	}
	assert_int_equal(percpu_gauge_fetch(gauge), 5);
	expect(percpu_fgauge_fetch(fgauge), 5);
	assert_int_equal(test_wait(test_fork(set_after_them, NULL), 10), 0);
	assert_int_equal(percpu_gauge_fetch(gauge), 8);
	expect(percpu_fgauge_fetch(fgauge), 8);
}

static int look_on(void *arg)
{
	struct percpu_region *r;
	struct percpu_gauge *g = NULL;
	struct percpu_fgauge *f = NULL;
	struct percpu_latest *l = NULL;
	uint64_t ns;
	double v;

	(void)arg;
	test_child_require(percpu_region_open(test_path("gauge"), 0, NULL, &r) == 0, "a region");
	test_child_require(percpu_gauge_open(r, 0, &g) == 0 && percpu_fgauge_open(r, 1, &f) == 0 &&
				   percpu_latest_open(r, 2, &l) == 0,
			   "gauges");
	test_child_require(percpu_gauge_set(g, 1) == -EROFS && percpu_fgauge_set(f, 1) == -EROFS &&
				   percpu_latest_set(l, 1) == -EROFS,
			   "not set");
	test_child_require(percpu_gauge_fetch(g) == 6 && percpu_fgauge_fetch(f) == 6.5, "levels");
	test_child_require(percpu_latest_fetch(l, &v, &ns) == 0 && v == 7.5, "a value");
	return 0;
}

static void readers_see_all_and_set_nothing(void **state)
{
	(void)state;
	if (!in_files())
		test_skip("pairs of this machine are private");
	assert_int_equal(percpu_gauge_set(gauge, 6), 0);
	assert_int_equal(percpu_fgauge_set(fgauge, 6.5), 0);
	assert_int_equal(percpu_latest_set(latest, 7.5), 0);
	assert_int_equal(test_wait(test_fork(look_on, NULL), 10), 0);
}

static void nothing_can_be_asked_of_null(void **state)
{
	struct percpu_latest *l = NULL;
	struct percpu_gauge *g = NULL;

	(void)state;
	assert_int_equal(percpu_gauge_create_in(NULL, &g), -EINVAL);
	assert_int_equal(percpu_fgauge_create(NULL), -EINVAL);
	assert_int_equal(percpu_latest_open(NULL, 0, &l), -EINVAL);
	assert_int_equal(percpu_gauge_key(NULL), 0);
	assert_int_equal(percpu_gauge_fetch(NULL), 0);
	expect(percpu_fgauge_fetch(NULL), 0);
	percpu_gauge_destroy(NULL);
	percpu_fgauge_destroy(NULL);
	percpu_latest_destroy(NULL);
}

static void what_cannot_be_shared_is_refused(void **state)
{
	struct percpu_fgauge *f = NULL;
	struct percpu_latest *l = NULL;
	struct percpu_gauge *g = NULL;

	(void)state;
	if (in_files())
		test_skip("this machine shares pairs");
	assert_int_equal(percpu_gauge_open(region, 0, &g), -ENOTSUP);
	assert_int_equal(percpu_fgauge_create_in(region, &f), -ENOTSUP);
	assert_int_equal(percpu_latest_attach(region, 1, &l), -ENOTSUP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_have_their_time),
		cmocka_unit_test(times_are_in_order),
		cmocka_unit_test(levels_go_up_and_down),
		cmocka_unit_test(threads_come_back_to_the_level), /* before tests that do damage */
		cmocka_unit_test(doubles_read_as_set),
		cmocka_unit_test(adds_meanwhile_count_on),
		cmocka_unit_test(the_last_who_sets_wins),
		cmocka_unit_test(sets_that_change_nothing_are_sets),
		cmocka_unit_test(proposals_do_not_count_yet),
		cmocka_unit_test(numbers_say_which_value_counts),
		cmocka_unit_test(damaged_numbers_keep_nobody),
		cmocka_unit_test(readers_see_all_and_set_nothing),
		cmocka_unit_test(nothing_can_be_asked_of_null),
		cmocka_unit_test(what_cannot_be_shared_is_refused),
		cmocka_unit_test(the_killed_have_set_nothing), /* last: it may block other tests */
	};

	return cmocka_run_group_tests(tests, begin, end);
}

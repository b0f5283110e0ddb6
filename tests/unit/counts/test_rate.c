/* SPDX-License-Identifier: MIT */
/*
 * test_rate.c - rates: no period exceeds the limit, and no permission is lost, whatever runs
 * between the steps of a check; processes that are killed there; other clocks; files, keys and
 * bad input.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/seq.h>

#include "clocks.h"
#include "model.h"
#include "support.h"

#include "../happen.h"
#include "memory/memory.h"

#define THREADS 6
#define PERIOD 1000
#define FEW 10 /* a limit so low that no CPU takes permissions in advance */
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_region *region;
static struct percpu_rate *rate;

/* The clocks that the library reads, shared with children; 0: the real clocks. */
struct clocks {
	uint64_t ms;
	uint64_t ns;
};
static struct clocks *clocks;

void clock_is_read(clockid_t clock, struct timespec *t)
{
	uint64_t ms = clocks != NULL ? __atomic_load_n(&clocks->ms, __ATOMIC_SEQ_CST) : 0;

	if (clock == CLOCK_MONOTONIC_COARSE && ms != 0) {
		t->tv_sec = (time_t)(ms / 1000);
		t->tv_nsec = (long)(ms % 1000 * 1000000);
	}
	if (clock == CLOCK_MONOTONIC && clocks != NULL && clocks->ns != 0) {
		t->tv_sec = (time_t)(clocks->ns / 1000000000);
		t->tv_nsec = (long)(clocks->ns % 1000000000);
	}
}

static void pass(uint64_t ms)
{
	__atomic_fetch_add(&clocks->ms, ms, __ATOMIC_SEQ_CST);
}

static int begin(void **state)
{
	(void)state;
	test_tier();
	clocks = test_share(sizeof(*clocks));
	clocks->ms = 5000000;
	return percpu_region_open(test_path("rate"), CREATE, NULL, &region);
}

static int end(void **state)
{
	percpu_region_close(region);
	return test_remove_paths(state);
}

/* Create a rate in a file, for one test. */
static void make_rate(int64_t limit)
{
	assert_int_equal(percpu_rate_create_in(region, limit, PERIOD, &rate), 0);
}

static uint64_t drop_rate(void)
{
	uint64_t events = percpu_rate_allowed(rate) + percpu_rate_refused(rate);

	at_step = NULL;
	percpu_rate_destroy(rate);
	return events;
}

/* Check n events, and return how many are let through. */
static unsigned let_through(struct percpu_rate *r, unsigned n)
{
	unsigned allowed = 0;

	for (unsigned i = 0; i < n; i++)
		allowed += percpu_rate_check(r);
	return allowed;
}

/* Return a limit of which a CPU takes 64 permissions at first. */
static unsigned much(void)
{
	return 32 * 64 * percpu_status()->possible_cpus;
}

static void count_periods(struct percpu_rate *r)
{
	for (unsigned i = 1; i <= 3; i++) {
		assert_int_equal(let_through(r, 25), FEW);
		pass(PERIOD - 1);
		assert_false(percpu_rate_check(r));
		assert_int_equal(percpu_rate_allowed(r), i * FEW);
		assert_int_equal(percpu_rate_refused(r), i * (25 - FEW + 1));
		pass(1);
	}
	/* A period begins with its first event. */
	pass(PERIOD / 2);
	assert_true(percpu_rate_check(r));
	pass(PERIOD - 1);
	assert_int_equal(let_through(r, 25), FEW - 1);
	percpu_rate_destroy(r);
}

static void periods_have_their_limit(void **state)
{
	struct percpu_rate *r;

	(void)state;
	assert_int_equal(percpu_rate_create(FEW, PERIOD, &r), 0);
	count_periods(r);
	assert_int_equal(percpu_rate_create_in(region, FEW, PERIOD, &r), 0);
	count_periods(r);
	/* Right after the start of the machine, and when the clock wraps. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t ms = clocks->ms;

		clocks->ms = i ? (UINT64_C(1) << 32) - 1500 : 1;
		assert_int_equal(percpu_rate_create(FEW, PERIOD, &r), 0);
		count_periods(r);
		clocks->ms = ms;
	}
}

static void one_cpu_uses_all(void **state)
{
	const unsigned limit = much();

	(void)state;
	make_rate(limit);
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(let_through(rate, limit + 100), limit);
		pass(PERIOD);
	}
	test_unpin(0);
	assert_int_equal(drop_rate(), 3 * (limit + 100));
}

static void unused_permissions_are_few(void **state)
{
	const unsigned limit = much();
	unsigned left;

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	make_rate(limit);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(test_pin(0, test_cpu(0)));
		assert_true(percpu_rate_check(rate));
		assert_true(test_pin(0, test_cpu(1)));
		left = limit - 1 - let_through(rate, limit);
		assert_in_range(left, 0, limit / 32);
		assert_true(test_pin(0, test_cpu(0)));
		assert_int_equal(let_through(rate, limit), left);
		pass(PERIOD);
	}
	test_unpin(0);
	(void)drop_rate();
}

/* Threads, some of which cannot run sequences. */

static unsigned each;
static bool moving;
static uint64_t allowed_by[THREADS];

static void hammer(unsigned i, void *arg)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area = NULL;

	(void)arg;
	if (i % 3 == 2)
		area = model_set_area(&none);
	allowed_by[i] = 0;
	for (unsigned k = 0; k < each; k++) {
		allowed_by[i] += percpu_rate_check(rate);
		if (moving && i == 0 && k % (each / 8) == 0)
			pass(PERIOD);
	}
	if (i % 3 == 2)
		model_set_area(area);
}

static void never_more_than_the_limit(void **state)
{
	const unsigned limits[] = { 1, FEW, 1000, 30000 };
	uint64_t sum;

	(void)state;
	each = test_rounds(20000);
	for (unsigned i = 0; i < 8; i++) {
		uint64_t limit = limits[i / 2];

		moving = i % 2;
		make_rate((int64_t)limit);
		sum = 0;
		test_team_run(THREADS, hammer, NULL);
		for (unsigned k = 0; k < THREADS; k++)
			sum += allowed_by[k];
		assert_int_equal(percpu_rate_allowed(rate), sum);
		/* At most eight periods begin after the first. */
		assert_in_range(sum, 1, moving ? 9 * limit : limit);
		if (!moving && limit < THREADS * each)
			assert_in_range(sum, limit - limit / 32, limit);
		assert_int_equal(drop_rate(), THREADS * each);
	}
}

/* What happens between the steps */

static unsigned let_meanwhile;

static void check_once(void)
{
	let_meanwhile += percpu_rate_check(rate);
}

static void use_next_period(void)
{
	pass(PERIOD);
	let_meanwhile += let_through(rate, 2 * (unsigned)percpu_rate_limit(rate));
}

static void begin_next_period(void)
{
	pass(PERIOD);
	check_once();
}

static void another_is_as_quick(void **state)
{
	(void)state;
	let_meanwhile = 0;
	make_rate(1);
	let_happen(check_once, "rate: clock read", 1);
	assert_false(percpu_rate_check(rate));
	assert_int_equal(let_meanwhile, 1);
	assert_int_equal(drop_rate(), 2);
}

/* Test a thread that is stopped for longer than a period after it has read the clock. */
static void old_times_begin_no_period(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		let_meanwhile = 0;
		make_rate(FEW);
		assert_int_equal(let_through(rate, i ? FEW / 2 : 0), i ? FEW / 2 : 0);
		let_happen(use_next_period, "rate: clock read", 1);
		assert_false(percpu_rate_check(rate));
		assert_int_equal(let_meanwhile, FEW);
		assert_int_equal(let_through(rate, FEW), 0);
		(void)drop_rate();
	}
}

/* Test that each permission is used once if another check runs between the load of the permissions,
 * of the CPU or of the period, and the store. */
static void permissions_are_used_once(void **state)
{
	static const char *const steps[] = { "rate: permissions seen", "rate: permissions taken" };
	const unsigned limit = much();
	unsigned sum;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 2; i++) {
		make_rate(limit);
		for (unsigned k = 0; k < 70; k++) {
			let_meanwhile = 0;
			sum = let_through(rate, k);
			let_happen(check_once, steps[i], 1);
			sum += let_through(rate, 2 * limit) + let_meanwhile;
			at_step = NULL;
			assert_int_equal(sum, limit);
			pass(PERIOD);
		}
		(void)drop_rate();
	}
	test_unpin(0);
}

/* Test that permissions of a period that is over are not kept, and not given back to the next. */
static void late_permissions_are_void(void **state)
{
	const unsigned limit = much();

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	make_rate(limit);
	let_meanwhile = 0;
	let_happen(begin_next_period, "rate: permissions taken", 1);
	assert_true(percpu_rate_check(rate));
	assert_int_equal(let_meanwhile, 1);
	assert_int_equal(let_through(rate, 2 * limit), limit - 1);
	pass(PERIOD);
	/* Permissions that a CPU has left are void in the next period. */
	assert_int_equal(let_through(rate, 5), 5);
	pass(PERIOD);
	assert_int_equal(let_through(rate, 2 * limit), limit);
	test_unpin(0);
	(void)drop_rate();
}

static unsigned let_through_without_lane(unsigned n);

static void take_of_the_period(void)
{
	let_meanwhile += let_through_without_lane(1);
}

/* What runs while permissions are given back, because the CPU has got others meanwhile. */
static void (*late)(void);

static void check_and_be_late(void)
{
	check_once();
	let_happen(late, "rate: to be given back", 1);
}

static void permissions_are_given_back_once(void **state)
{
	static void (*const between[])(void) = { take_of_the_period, begin_next_period };
	const unsigned limit = much();
	unsigned sum;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("CPUs keep no permissions here");
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 2; i++) {
		make_rate(limit);
		let_meanwhile = 0;
		late = between[i];
		let_happen(check_and_be_late, "rate: permissions taken", 1);
		sum = percpu_rate_check(rate);
		assert_null(at_step);
		assert_int_equal(let_meanwhile, 2);
		sum += i == 0 ? let_meanwhile : 1; /* of this period */
		assert_int_equal(sum + let_through(rate, 2 * limit), i == 0 ? limit : limit + 1);
		(void)drop_rate();
	}
	test_unpin(0);
}

static void limits_change(void **state)
{
	(void)state;
	make_rate(FEW);
	assert_int_equal(percpu_rate_limit(rate), FEW);
	assert_int_equal(let_through(rate, 6), 6);
	assert_int_equal(percpu_rate_set_limit(rate, 5), 0);
	assert_int_equal(let_through(rate, 6), 0);
	assert_int_equal(percpu_rate_set_limit(rate, 8), 0);
	assert_int_equal(percpu_rate_limit(rate), 8);
	assert_int_equal(let_through(rate, 6), 2);
	pass(PERIOD);
	assert_int_equal(let_through(rate, 20), 8);
	assert_int_equal(percpu_rate_set_limit(rate, 0), -EINVAL);
	assert_int_equal(percpu_rate_set_limit(rate, -1), -EINVAL);
	assert_int_equal(percpu_rate_set_limit(rate, INT64_MIN), -EINVAL);
	assert_int_equal(percpu_rate_set_limit(rate, INT64_C(1) + PERCPU_RATE_MAX), -ERANGE);
	assert_int_equal(percpu_rate_set_limit(NULL, 1), -EINVAL);
	assert_int_equal(percpu_rate_limit(rate), 8);
	assert_int_equal(percpu_rate_set_limit(rate, PERCPU_RATE_MAX), 0);
	pass(PERIOD);
	assert_int_equal(let_through(rate, 1000), 1000);
	(void)drop_rate();
}

static unsigned let_through_without_lane(unsigned n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area = model_set_area(&none);
	unsigned allowed = let_through(rate, n);

	model_set_area(area);
	return allowed;
}

/* Test an idle CPU's permissions after the 32-bit clock of the window has wrapped, to the time at
 * which the CPU took them, or past it. */
static void permissions_of_the_last_wrap_are_void(void **state)
{
	const unsigned limit = much();

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned past = 0; past < 2; past++) {
		make_rate(limit);
		assert_int_equal(let_through(rate, 1), 1);
		pass((UINT64_C(1) << 32) - 2 * PERIOD);
		assert_int_equal(let_through_without_lane(1), 1);
		pass(2 * PERIOD + past);
		assert_int_equal(let_through_without_lane(limit - 10), limit - 10);
		assert_int_equal(let_through(rate, limit), 10);
		(void)drop_rate();
	}
	test_unpin(0);
}

static struct percpu_rate_control *control_of(const struct percpu_rate *r)
{
	return (struct percpu_rate_control *)percpu_block_bias((const struct percpu_block *)r);
}

static struct percpu_rate_lane *own_lane(void)
{
	const struct percpu_block *b = (const struct percpu_block *)rate;

	return (struct percpu_rate_lane *)(void *)(b->base + test_cpu(0) * b->stride);
}

/* Change what the CPU has left of some other period. */
static void change_leftovers(void)
{
	own_lane()->permissions += UINT64_C(1) << 17;
}

static unsigned taken_then;

static void look_at_window(void)
{
	taken_then = (uint32_t)control_of(rate)->window;
}

/* Test that a thread without sequences takes one permission: other threads would lack more of them
 * until they are given back. */
static void who_keeps_none_takes_one(void **state)
{
	(void)state;
	make_rate(much());
	for (unsigned n = 1; n <= 3; n++) {
		let_happen(look_at_window, "rate: permissions taken", 1);
		assert_int_equal(let_through_without_lane(1), 1);
		assert_null(at_step);
		assert_int_equal(taken_then, n);
	}
	(void)drop_rate();
}

static struct percpu_rseq *area_before;

static void lose_lane(void)
{
	static struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };

	area_before = model_set_area(&none);
}

static void damage_window(void)
{
	control_of(rate)->window &= ~(uint64_t)UINT32_MAX;
}

static void change_and_damage(void)
{
	change_leftovers();
	if (times == 0)
		let_happen(damage_window, "rate: to be given back", 1);
}

/* Test that permissions which a CPU cannot keep are given back: the whole limit is let through. */
static void what_is_not_kept_is_given_back(void **state)
{
	static const struct {
		void (*fn)(void);
		unsigned times;
	} rows[] = { { change_leftovers, 1 },
		     { change_leftovers, PERCPU_SEQ_TRIES },
		     { lose_lane, 1 } };
	const unsigned limit = much();
	unsigned sum;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("CPUs keep no permissions here");
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		make_rate(limit);
		area_before = NULL;
		let_happen(rows[i].fn, "rate: to be kept", rows[i].times);
		sum = percpu_rate_check(rate);
		at_step = NULL;
		if (area_before != NULL)
			model_set_area(area_before);
		assert_int_equal(sum + let_through(rate, 2 * limit), limit);
		(void)drop_rate();
	}
	/* In a damaged file, nothing is subtracted from a number that is too small. */
	make_rate(limit);
	let_happen(change_and_damage, "rate: to be kept", PERCPU_SEQ_TRIES);
	assert_true(percpu_rate_check(rate));
	assert_int_equal(times, 0);
	assert_int_equal((uint32_t)control_of(rate)->window, 0);
	(void)drop_rate();
	test_unpin(0);
}

static void attach_again(void)
{
	const uint64_t key = percpu_rate_key(rate);

	percpu_rate_detach(rate);
	assert_int_equal(percpu_rate_attach(region, key, &rate), 0);
}

/* Test a period of another boot. The clock may be where it was when a CPU took permissions. */
static void another_boot_has_periods_of_its_own(void **state)
{
	const unsigned limit = much();

	(void)state;
	if (percpu_boot_id() == 0)
		test_skip("needs /proc");
	assert_true(test_pin(0, test_cpu(0)));
	make_rate(limit);
	assert_int_equal(control_of(rate)->boot, percpu_boot_id());
	for (unsigned i = 0; i < 3; i++) {
		control_of(rate)->boot ^= 1234;
		assert_int_equal(let_through(rate, 1), 1);
		assert_int_equal(let_through_without_lane(10), 10);
		attach_again();
		assert_int_equal(control_of(rate)->boot, percpu_boot_id());
		assert_int_equal(let_through_without_lane(limit - 10), limit - 10);
		attach_again();
		assert_int_equal(let_through(rate, limit), 10);
		pass(PERIOD);
	}
	/* If the boot was not known, the period goes on. */
	assert_int_equal(let_through_without_lane(10), 10);
	control_of(rate)->boot = 0;
	attach_again();
	assert_int_equal(control_of(rate)->boot, percpu_boot_id());
	assert_in_range(let_through(rate, 2 * limit), limit - 10 - limit / 32, limit - 10);
	test_unpin(0);
	(void)drop_rate();
}

static struct percpu_rate *first;

static void be_in_boot_first(void)
{
	assert_int_equal(percpu_rate_attach(region, percpu_rate_key(rate), &first), 0);
	let_meanwhile += let_through(first, 6);
	percpu_rate_detach(first);
}

/* Test an attach while another process ends the period of the old boot, and lets events of the next
 * period through. */
static void one_ends_the_period_of_a_boot(void **state)
{
	static const char *const steps[] = { "rate: boot seen", "rate: period ended" };
	uint64_t key;

	(void)state;
	if (percpu_boot_id() == 0)
		test_skip("needs /proc");
	for (unsigned i = 0; i < 2; i++) {
		struct percpu_rate *late;

		let_meanwhile = 0;
		make_rate(FEW);
		key = percpu_rate_key(rate);
		assert_int_equal(let_through(rate, FEW), FEW);
		control_of(rate)->boot ^= 1234;
		let_happen(be_in_boot_first, steps[i], 1);
		assert_int_equal(percpu_rate_attach(region, key, &late), 0);
		assert_int_equal(let_meanwhile, 6);
		assert_int_equal(let_through(late, 20), FEW - 6);
		percpu_rate_detach(late);
		(void)drop_rate();
	}
}

/* Test a period that began by a clock which was ahead, as before a reboot. */
static void periods_of_other_clocks_are_over(void **state)
{
	uint64_t ms = clocks->ms;

	(void)state;
	make_rate(FEW);
	assert_int_equal(let_through(rate, 20), FEW);
	clocks->ms = 3000;
	assert_int_equal(let_through(rate, 20), FEW);
	clocks->ms = ms;
	(void)drop_rate();
}

static void readers_know_the_rate(void **state)
{
	struct percpu_rate_mark a = { 0, 0 }, b = { 0, 0 };

	(void)state;
	make_rate(FEW);
	clocks->ns = UINT64_C(1) << 40;
	assert_true(percpu_rate_per_second(rate, &a) == 0);
	assert_int_equal(let_through(rate, 30), FEW);
	assert_true(percpu_rate_per_second(rate, &a) == 0); /* no time has passed */
	assert_int_equal(let_through(rate, 30), 0);
	clocks->ns += 2000000000;
	assert_true(percpu_rate_per_second(rate, &a) == 15);
	assert_true(percpu_rate_per_second(rate, &b) == 0);
	assert_int_equal(b.events, 60);
	clocks->ns += 500000000;
	assert_true(percpu_rate_per_second(rate, &a) == 0);
	assert_true(percpu_rate_per_second(NULL, &a) == 0);
	assert_true(percpu_rate_per_second(rate, NULL) == 0);
	clocks->ns = 0;
	(void)drop_rate();
}

/* Processes */

static void die(void)
{
	kill(getpid(), SIGKILL);
}

static int check_and_die(void *arg)
{
	(void)test_pin(0, test_cpu(0));
	if (let_through(rate, 100) != 100)
		return 1;
	let_happen(die, *(const char **)arg, 1);
	(void)let_through(rate, much());
	return 0;
}

static void the_killed_lose_their_event(void **state)
{
	static const char *const steps[] = { "rate: clock read", "rate: permissions seen",
					     "rate: permissions taken", "rate: decided" };
	const unsigned limit = much();
	unsigned sum;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		const char *where = steps[i];
		uint64_t before;
		int status;

		make_rate(limit);
		status = test_wait(test_fork(check_and_die, &where), 60);
		if (i == 1 && status == 0) { /* without sequences, no permissions are kept */
			(void)drop_rate();
			continue;
		}
		assert_int_equal(status, SIGKILL);
		before = percpu_rate_allowed(rate);
		assert_in_range(before, 100, limit);
		assert_int_equal(percpu_rate_refused(rate), 0);
		assert_true(test_pin(0, test_cpu(0)));
		sum = let_through(rate, limit);
		test_unpin(0);
		/* The event in progress, and the permissions just taken, may be lost. */
		assert_in_range(sum + before, limit - (i == 2 ? limit / 32 : 1), limit);
		assert_int_equal(drop_rate(), before + limit);
	}
}

static int hammer_alone(void *arg)
{
	uint64_t *allowed = arg;

	for (unsigned i = 0; i < each; i++)
		__atomic_fetch_add(allowed, percpu_rate_check(rate), __ATOMIC_RELAXED);
	return 0;
}

static void processes_share_the_limit(void **state)
{
	uint64_t *allowed = test_share(sizeof(*allowed));
	pid_t pid[4];

	(void)state;
	each = test_rounds(20000);
	for (unsigned i = 0; i < 4; i++) {
		const unsigned limit = i % 2 ? each : FEW;

		*allowed = 0;
		make_rate(limit);
		for (unsigned k = 0; k < 4; k++)
			pid[k] = test_fork(hammer_alone, allowed);
		for (unsigned k = 0; k < 4; k++) {
			if (i >= 2 && k == 0)
				kill(pid[k], SIGKILL);
			assert_true(test_wait(pid[k], 60) == 0 || (i >= 2 && k == 0));
		}
		assert_in_range(percpu_rate_allowed(rate), *allowed, *allowed + i / 2);
		assert_in_range(percpu_rate_allowed(rate), 0, limit);
		if (i < 2) {
			assert_true(percpu_rate_allowed(rate) >= limit - limit / 32);
			assert_int_equal(drop_rate(), 4 * each);
		} else {
			(void)drop_rate();
		}
	}
}

static int look_on(void *arg)
{
	struct percpu_region *r;
	struct percpu_rate *seen = NULL;

	(void)arg;
	test_child_require(percpu_region_open(test_path("rate"), 0, NULL, &r) == 0, "a region");
	test_child_require(percpu_rate_open(r, 3, 1, PERIOD, &seen) == 0, "a rate");
	test_child_require(!percpu_rate_check(seen), "nothing is let through");
	test_child_require(percpu_rate_set_limit(seen, 3) == -EROFS, "not set");
	test_child_require(percpu_rate_limit(seen) == FEW, "the limit");
	test_child_require(percpu_rate_period(seen) == PERIOD, "the period");
	test_child_require(percpu_rate_allowed(seen) == 4 && percpu_rate_refused(seen) == 0,
			   "the totals");
	percpu_rate_destroy(seen);
	test_child_require(percpu_rate_open(r, 4, 1, PERIOD, &seen) == -ENOENT, "nothing else");
	percpu_region_close(r);
	return 0;
}

static void readers_disturb_nobody(void **state)
{
	struct percpu_rate *again;

	(void)state;
	assert_int_equal(percpu_rate_open(region, 3, FEW, PERIOD, &rate), 0);
	assert_int_equal(let_through(rate, 4), 4);
	assert_int_equal(test_wait(test_fork(look_on, NULL), 10), 0);
	/* An open finds the existing rate, with its limit. */
	assert_int_equal(percpu_rate_open(region, 3, 1, PERIOD, &again), 0);
	assert_int_equal(percpu_rate_key(again), percpu_rate_key(rate));
	assert_int_equal(let_through(again, 20), FEW - 4);
	percpu_rate_detach(again);
	assert_int_equal(percpu_rate_open(region, 3, FEW, PERIOD + 1, &again), -EEXIST);
	assert_int_equal(percpu_rate_attach(region, percpu_rate_key(rate), &again), 0);
	assert_int_equal(percpu_rate_allowed(again), FEW);
	assert_int_equal(percpu_rate_limit(again), FEW);
	assert_int_equal(percpu_rate_period(again), PERIOD);
	percpu_rate_detach(again);
	assert_int_equal(percpu_region_set_root(region, 3, percpu_rate_key(rate), 0), 0);
	(void)drop_rate();
}

static void bad_input_is_refused(void **state)
{
	static const struct {
		int64_t limit, period;
		int e;
	} bad[] = {
		{ 0, PERIOD, -EINVAL },		{ -1, PERIOD, -EINVAL },
		{ INT64_MIN, PERIOD, -EINVAL }, { 1, 0, -EINVAL },
		{ 1, -PERIOD, -EINVAL },	{ INT64_C(1) + PERCPU_RATE_MAX, 1, -ERANGE },
		{ 1, INT64_MAX, -ERANGE },	{ PERCPU_RATE_MAX, PERCPU_RATE_MAX, 0 },
	};
	struct percpu_counter *c;
	struct percpu_rate *r;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		r = NULL;
		assert_int_equal(percpu_rate_create(bad[i].limit, bad[i].period, &r), bad[i].e);
		percpu_rate_destroy(r);
		r = NULL;
		assert_int_equal(percpu_rate_create_in(region, bad[i].limit, bad[i].period, &r),
				 bad[i].e);
		percpu_rate_destroy(r);
		if (bad[i].e != 0)
			assert_int_equal(
				percpu_rate_open(region, 4, bad[i].limit, bad[i].period, &r),
				bad[i].e);
	}
	assert_int_equal(percpu_rate_open(region, PERCPU_REGION_ROOTS, 1, 1, &r), -EINVAL);
	assert_int_equal(percpu_counter_open(region, 4, &c), 0);
	assert_int_equal(percpu_rate_open(region, 4, 1, 1, &r), -EEXIST);
	assert_int_equal(percpu_rate_attach(region, percpu_counter_key(c), &r), -ENOENT);
	assert_int_equal(percpu_rate_attach(region, 0, &r), -ENOENT);
	make_rate(1);
	assert_int_equal(percpu_counter_attach(region, percpu_rate_key(rate), &c), -ENOENT);
	(void)drop_rate();
	assert_false(percpu_rate_check(NULL));
}

/* Test a file over which another process writes. */
static void damage_is_survived(void **state)
{
	const uint64_t values[] = { 0,		1,	   PERCPU_RATE_MAX,  UINT32_MAX,
				    UINT64_MAX, INT64_MAX, UINT64_C(1) << 32 };
	struct percpu_rate_control *c;
	struct percpu_block *b;
	struct percpu_rate *r;

	(void)state;
	make_rate(FEW);
	b = (struct percpu_block *)rate;
	c = control_of(rate);
	for (unsigned i = 0; i < 7 * 3; i++) {
		const uint64_t v = values[i / 3];

		c->window = i % 3 == 0 ? v : 0;
		c->limit = i % 3 == 1 ? v : FEW;
		c->period = i % 3 == 2 ? v : PERIOD;
		for (unsigned cpu = 0; cpu < b->chunk->cpus; cpu++)
			((struct percpu_rate_lane *)(b->base + cpu * b->stride))->permissions = v;
		assert_in_range(let_through(rate, 1000), 0, 1000);
		assert_in_range(percpu_rate_limit(rate), 0, PERCPU_RATE_MAX);
		assert_int_equal(percpu_rate_attach(region, percpu_rate_key(rate), &r),
				 c->period == 0 || c->period > PERCPU_RATE_MAX ? -ENOENT : 0);
		if (c->period != 0 && c->period <= PERCPU_RATE_MAX)
			percpu_rate_detach(r);
	}
	(void)drop_rate();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(periods_have_their_limit),
		cmocka_unit_test(one_cpu_uses_all),
		cmocka_unit_test(unused_permissions_are_few),
		cmocka_unit_test(never_more_than_the_limit),
		cmocka_unit_test(another_is_as_quick),
		cmocka_unit_test(old_times_begin_no_period),
		cmocka_unit_test(permissions_are_used_once),
		cmocka_unit_test(late_permissions_are_void),
		cmocka_unit_test(permissions_are_given_back_once),
		cmocka_unit_test(who_keeps_none_takes_one),
		cmocka_unit_test(what_is_not_kept_is_given_back),
		cmocka_unit_test(limits_change),
		cmocka_unit_test(permissions_of_the_last_wrap_are_void),
		cmocka_unit_test(another_boot_has_periods_of_its_own),
		cmocka_unit_test(one_ends_the_period_of_a_boot),
		cmocka_unit_test(periods_of_other_clocks_are_over),
		cmocka_unit_test(readers_know_the_rate),
		cmocka_unit_test(the_killed_lose_their_event),
		cmocka_unit_test(processes_share_the_limit),
		cmocka_unit_test(readers_disturb_nobody),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(damage_is_survived),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

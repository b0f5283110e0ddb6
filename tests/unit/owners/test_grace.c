/* SPDX-License-Identifier: MIT */
/*
 * test_grace.c - test grace periods: which sections they wait for, of this process and of other
 * processes, which fork, stop, and are killed at each step; polling; threads that share a period;
 * fences that fail; sections that were not begun.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#include "model.h"
#include "support.h"

#include "owners/grace.h"
#include "../owners.h"

#define ROOT 3
#define MS UINT64_C(1000000)
#define WAITERS 6
#define PATIENCE_NS 10000000 /* GRACE_PATIENCE, in src/owners/grace_wait.c; shared: tenfold */
#define CLAIM_BITS 24	     /* GRACE_CLAIM_BITS there */
#define MOST_CPUS 8

static struct percpu_grace *g;
static struct percpu_rseq without = { .cpu_id = PERCPU_CPU_NEVER };
static unsigned fences, fence_error;
static unsigned error_there; /* 1: a call made at a step failed */
static void (*in_fence)(void);

int __real_percpu_participants_fence(const struct percpu_participants *p);
int __wrap_percpu_participants_fence(const struct percpu_participants *p);
int __wrap_percpu_participants_fence(const struct percpu_participants *p)
{
	void (*now)(void) = in_fence;

	__atomic_fetch_add(&fences, 1, __ATOMIC_RELAXED);
	in_fence = NULL;
	if (now != NULL)
		now();
	return fence_error != 0 ? -(int)fence_error : __real_percpu_participants_fence(p);
}

static int begin_private(void **state)
{
	(void)state;
	deadly = NULL;
	meanwhile = NULL;
	fences = fence_error = 0;
	in_fence = NULL;
	return percpu_grace_create(0, &g);
}

static struct percpu_grace_handle *handle(void)
{
	return percpu_grace_handle(g);
}

/* Destroy the grace periods. First end all sections: a test that failed may have left some. */
static int end(void **state)
{
	struct percpu_participants *p = &handle()->part;

	(void)state;
	for (unsigned bank = 0; bank < PERCPU_BANKS && percpu_participants_self(p) != 0; bank++)
		percpu_participants_add(p, bank,
					(int32_t)(0 - percpu_participants_sum_own(p, bank)));
	return percpu_grace_destroy(g);
}

static int begin_in(size_t lane_size)
{
	const struct percpu_region_options o = { .size = sizeof(o), .lane_size = lane_size };
	int e = begin_owners_in(&o);

	fences = fence_error = 0;
	in_fence = NULL;
	return e != 0 ? e : percpu_grace_open(owners, ROOT, 0, &g);
}

static int begin(void **state)
{
	(void)state;
	return begin_in(0);
}

static int begin_long_lanes(void **state)
{
	(void)state;
	return begin_in(4 * PERCPU_LANE_SIZE) || g->in.stride == PERCPU_STRIDE;
}

/* With large pages, short lanes have the distance of default lanes. */
static int begin_short_lanes(void **state)
{
	(void)state;
	return begin_in(PERCPU_LANE_SIZE / 4);
}

static int end_shared(void **state)
{
	if (end(state) != 0) /* a child is still in a section */
		(void)percpu_grace_detach(g);
	return end_owners(state);
}

static uint64_t now(void)
{
	return handle()->part.control->state;
}

static int enter(void)
{
	int token = percpu_grace_enter(g);

	assert_true(token >= 0);
	return token;
}

static void leave(int token)
{
	assert_int_equal(percpu_grace_exit(g, token), 0);
}

static int enter_without(void)
{
	struct percpu_rseq *own = model_set_area(&without);
	int token = enter();

	model_set_area(own);
	return token;
}

static void leave_without(int token)
{
	struct percpu_rseq *own = model_set_area(&without);

	leave(token);
	model_set_area(own);
}

static void assert_waits(void)
{
	assert_int_equal(percpu_grace_wait_timed(g, 2 * MS), -ETIMEDOUT);
}

/* Assert that a period ends. Wait for 5 s at most, so that a bug does not hang the test. */
static void assert_free(void)
{
	assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), 0);
}

static uint64_t waiting(void)
{
	return __atomic_load_n(&handle()->part.control->word[PERCPU_GRACE_WAITERS],
			       __ATOMIC_ACQUIRE);
}

static void leave_in_thread(unsigned i, void *arg)
{
	(void)i;
	(void)percpu_grace_exit(g, *(int *)arg);
}

static void sections_are_waited_for(void **state)
{
	int one, two;

	(void)state;
	assert_free();
	one = enter();
	assert_waits();
	leave(one);
	assert_free();
	one = enter();
	two = enter(); /* nested, then overlapping */
	leave(one);
	assert_waits();
	leave(two);
	assert_free();
	one = enter_without();
	assert_waits();
	leave(one);
	assert_free();
	one = enter();
	assert_waits();
	leave_without(one);
	one = enter();
	test_team_run(1, leave_in_thread, &one);
	assert_free();
	for (unsigned i = 0; i < 5; i++) { /* both banks */
		one = enter();
		assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
		two = enter_without();
		leave(one);
		assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
		leave_without(two);
		assert_int_equal(percpu_grace_wait_timed(g, 0), 0);
	}
}

static void later_sections_are_not_waited_for(void **state)
{
	uint64_t cookie;
	int old, new;

	(void)state;
	assert_free();
	old = enter();
	cookie = percpu_grace_start(g);
	assert_int_equal(percpu_grace_poll(g, cookie), 0);
	new = enter();
	assert_int_not_equal(old, new);
	assert_int_equal(percpu_grace_poll(g, cookie), 0);
	leave(old);
	assert_int_equal(percpu_grace_poll(g, cookie), 1);
	assert_waits();
	leave(new);
	assert_free();
	assert_int_equal(percpu_grace_poll(g, cookie), 1);
}

/* A thread that asks during a period gets the next one. The period in progress does not wait for
 * sections that began after it. */
static void who_comes_later_waits_for_another_period(void **state)
{
	uint64_t first, second;
	int old, new;

	(void)state;
	assert_free();
	old = enter();
	first = percpu_grace_start(g);
	new = enter();
	second = percpu_grace_start(g);
	assert_int_equal(second, first + 2);
	assert_int_equal(percpu_grace_start(g), second);
	leave(old);
	assert_int_equal(percpu_grace_poll(g, second), 0);
	assert_int_equal(percpu_grace_poll(g, first), 1);
	leave(new);
	assert_int_equal(percpu_grace_poll(g, second), 1);
	assert_int_equal(now(), second);
}

static void cookies_that_nobody_has_got(void **state)
{
	uint64_t cookie = percpu_grace_start(g);

	(void)state;
	assert_int_equal(cookie % 2, 1);
	assert_int_equal(percpu_grace_poll(g, 0), -EINVAL);
	assert_int_equal(percpu_grace_poll(g, cookie + 1), -EINVAL);
	assert_int_equal(percpu_grace_poll(g, cookie + 20), -EINVAL);
	assert_int_equal(percpu_grace_poll(g, UINT64_MAX), -EINVAL);
	assert_int_equal(percpu_grace_poll(g, cookie), 1);
}

/* Wait until n threads wait, for 5 s at most. */
static void await_waiters(uint64_t n)
{
	for (unsigned i = 0; i < 50000 && waiting() != n; i++)
		test_sleep_us(100);
}

static void wait_in_thread(unsigned i, void *arg)
{
	int *results = arg;

	results[i] = percpu_grace_wait(g);
}

/* Threads that wait for a period that has not begun share it. */
static void periods_are_shared(void **state)
{
	int results[WAITERS] = { 0 }, token;
	struct test_team team;
	const uint64_t patience = PATIENCE_NS * (percpu_grace_is_shared(handle()) ? 10 : 1);
	uint64_t before, begin = percpu_now_ns();

	(void)state;
	assert_free();
	before = now();
	fences = 0;
	token = enter();
	test_team_start(&team, WAITERS, wait_in_thread, results);
	await_waiters(WAITERS);
	leave(token);
	test_team_join(&team);
	for (unsigned i = 0; i < WAITERS; i++)
		assert_int_equal(results[i], 0);
	assert_true(now() == before + 2 || now() == before + 4);
	/* One fence for each period, and one more each time that the patience of a waiter ended. */
	assert_true(fences <= (now() - before) / 2 + (percpu_now_ns() - begin) / patience);
	assert_int_equal(waiting(), 0);
}

static void fence_the_period(void)
{
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
}

/* Another thread fences the period after this thread has looked, and before it has the claim. This
 * thread does not fence again. */
static void periods_are_fenced_once(void **state)
{
	int token = enter();

	(void)state;
	fences = 0;
	meanwhile = fence_the_period;
	deadly = "grace: not fenced yet";
	fence_the_period();
	assert_null(deadly);
	assert_int_equal(fences, 1);
	leave(token);
	assert_free();
}

static uint64_t claimed; /* when another thread claimed the fence */

static void claim_for_another(void)
{
	test_sleep_us(2000);
	claimed = percpu_now_ns();
	handle()->part.control->word[PERCPU_GRACE_CLAIM] =
		claimed / 1000 << CLAIM_BITS | percpu_grace_load(handle()) / 2;
}

/* Another thread claims the fence just before this thread loads the claim. The claim is not taken
 * for an old one. */
static void claims_are_not_older_than_they_are(void **state)
{
	const uint64_t patience = PATIENCE_NS * (percpu_grace_is_shared(handle()) ? 10 : 1);
	int token = enter();

	(void)state;
	fences = 0;
	meanwhile = claim_for_another;
	deadly = "grace: to be claimed";
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
	assert_null(deadly);
	assert_true(fences == 0 || percpu_now_ns() - claimed >= patience);
	leave(token);
	handle()->part.control->word[PERCPU_GRACE_CLAIM] = 0;
	assert_free();
}

/* A thread was killed with the claim of another period. This period is fenced all the same. */
static void claims_are_of_a_period(void **state)
{
	uint64_t *claim = &handle()->part.control->word[PERCPU_GRACE_CLAIM];
	int token;

	(void)state;
	for (int i = -1; i <= 1; i++) {
		assert_free();
		token = enter();
		(void)percpu_grace_start(g);
		fences = 0;
		*claim = percpu_now_ns() / 1000 << CLAIM_BITS |
			 ((now() / 2 + (uint64_t)i) & ((UINT64_C(1) << CLAIM_BITS) - 1));
		assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
		if (i != 0)
			assert_int_equal(fences, 1);
		*claim = 0;
		leave(token);
	}
	assert_free();
}

static struct test_team team;
static int one_result[1];

static void wait_beside(void)
{
	test_team_start(&team, 1, wait_in_thread, one_result);
	await_waiters(1);
}

static uint32_t told(void)
{
	return __atomic_load_n(&handle()->part.control->drained, __ATOMIC_ACQUIRE);
}

/* A section that ends wakes the waiter, which must not depend on the bound of its sleep. */
static void who_waits_is_told(void **state)
{
	uint32_t before;
	int token;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		token = enter();
		wait_beside();
		before = told();
		if (i == 0)
			leave(token);
		else
			leave_without(token);
		assert_true(told() > before);
		test_team_join(&team);
		assert_int_equal(one_result[0], 0);
	}
	/* A section that no period waits for wakes no thread when it ends. */
	token = enter();
	before = told();
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
	if (percpu_thread_tier() == PERCPU_TIER_RSEQ) {
		leave(enter());
		assert_int_equal(told(), before);
	}
	leave(token);
	assert_free();
}

static int open_token;

static void refuse_the_fence(void)
{
	fence_error = EPERM;
	handle()->part.control->word[PERCPU_GRACE_FENCED] = 0;
	percpu_participants_wake(&handle()->part);
}

static void leave_twice(void)
{
	leave(open_token);
	leave(open_token);
}

static void leave_once(void)
{
	leave(open_token);
}

/* However a wait ends, it is no longer counted, so no thread makes a system call for it. */
static void who_waits_no_more_is_not_counted(void **state)
{
	static const struct {
		void (*fn)(void); /* called before the wait sleeps; NULL: nothing is called */
		uint64_t ns;
		int result;
	} rows[] = {
		{ NULL, 2 * MS, -ETIMEDOUT },
		{ NULL, 1, -ETIMEDOUT },
		{ leave_once, 5000 * MS, 0 },
		{ leave_twice, 5000 * MS, -EPROTO },
		{ refuse_the_fence, 5000 * MS, -EPERM },
	};
	uint32_t before;
	int e;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_free();
		open_token = enter();
		meanwhile = rows[i].fn;
		deadly = rows[i].fn != NULL ? "grace: to sleep" : NULL;
		e = percpu_grace_wait_timed(g, rows[i].ns);
		assert_null(deadly);
		assert_int_equal(e, rows[i].result);
		assert_int_equal(waiting(), 0);
		fence_error = 0;
		if (e == -ETIMEDOUT || e == -EPERM)
			leave(open_token);
		before = told();
		assert_free();
		assert_int_equal(told(), before); /* no thread was woken */
	}
}

static void end_another_period(void)
{
	assert_int_equal(percpu_grace_wait(g), 0);
}

/* A thread without sequences loads the state before a period, and enters after it. It is counted in
 * the new bank. */
static void who_is_late_is_counted_in_the_new_bank(void **state)
{
	int token;

	(void)state;
	leave(enter());
	for (unsigned i = 0; i < 3; i++) {
		meanwhile = end_another_period;
		deadly = "grace: to enter";
		token = enter_without();
		assert_null(deadly);
		assert_int_equal(percpu_participants_sum(&handle()->part, 0) +
					 percpu_participants_sum(&handle()->part, 1),
				 1);
		assert_waits();
		leave(token);
		assert_free();
	}
}

static void commit_late(void)
{
	struct percpu_participants *p = &handle()->part;
	const unsigned bank = !percpu_grace_bank(p->control->state);

	*(uint32_t *)(void *)(p->in.cell + (size_t)bank * 4) += 1;
}

/* A sequence that compared the state before it changed may commit until the fence. The period waits
 * for it. */
static void what_commits_before_the_fence_is_seen(void **state)
{
	unsigned bank;
	uint64_t cookie;

	(void)state;
	leave(enter()); /* joins */
	in_fence = commit_late;
	cookie = percpu_grace_start(g);
	assert_int_equal(percpu_grace_poll(g, cookie), 0);
	assert_null(in_fence);
	bank = !percpu_grace_bank(now());
	percpu_participants_add(&handle()->part, bank, -1);
	assert_int_equal(percpu_grace_poll(g, cookie), 1);
}

static void fences_that_fail(void **state)
{
	uint64_t cookie;
	int token = enter();

	(void)state;
	fence_error = EPERM;
	assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), -EPERM);
	assert_int_equal(percpu_grace_wait_timed(g, MS), -EPERM);
	cookie = percpu_grace_start(g);
	assert_int_equal(percpu_grace_poll(g, cookie), -EPERM);
	leave(token);
	token = enter();
	assert_int_equal(percpu_grace_poll(g, cookie), -EPERM); /* not over without readers */
	fence_error = 0;
	assert_int_equal(percpu_grace_poll(g, cookie), 0);
	leave(token);
	assert_int_equal(percpu_grace_poll(g, cookie), 1);
	assert_free();
}

static void sections_that_were_not_begun(void **state)
{
	int token = enter(), other;

	(void)state;
	assert_int_equal(percpu_grace_exit(g, -EROFS), -EINVAL);
	assert_int_equal(percpu_grace_exit(g, token + 2), -EINVAL);
	assert_int_equal(percpu_grace_exit(g, token | 2), -EINVAL);
	assert_int_equal(percpu_grace_exit(g, token + 8), -EINVAL);
	leave(token);
	leave(token);
	assert_int_equal(percpu_grace_blockers(g, NULL, 0), 0);
	assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), -EPROTO);
	assert_free(); /* the count was set to 0 */
	assert_free();
	other = enter();
	assert_waits();
	leave(other);
	assert_free();
}

/* Assert that drop() fails with -EBUSY. If a bug lets it succeed, create another handle for the
 * teardown. */
static void assert_in_use(int (*drop)(struct percpu_grace *))
{
	int e = drop(g);

	if (e == 0)
		assert_int_equal(percpu_grace_create(0, &g), 0);
	assert_int_equal(e, -EBUSY);
}

static void in_use(void **state)
{
	int token = enter();

	(void)state;
	assert_in_use(percpu_grace_destroy);
	assert_in_use(percpu_grace_detach);
	assert_waits();
	assert_in_use(percpu_grace_destroy);
	leave(token);
}

static void whom_one_waits_for(void **state)
{
	struct percpu_grace_blocker b[3];
	int old, new;

	(void)state;
	assert_free();
	assert_int_equal(percpu_grace_blockers(g, b, 3), 0);
	old = enter();
	assert_int_equal(percpu_grace_blockers(g, b, 3), 1);
	assert_int_equal(b[0].sections, 1);
	assert_int_equal(b[0].awaited, 0);
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT);
	new = enter();
	memset(b, 0xff, sizeof(b));
	assert_int_equal(percpu_grace_blockers(g, b, 0), 1);
	assert_int_equal(b[0].sections, UINT64_MAX);
	assert_int_equal(percpu_grace_blockers(g, b, 1), 1);
	assert_int_equal(b[0].sections, 2);
	assert_int_equal(b[0].awaited, 1);
	assert_int_equal(b[0].pid, getpid());
	assert_int_equal(b[0].stopped, 0);
	assert_int_equal(b[0].id,
			 percpu_grace_is_shared(handle()) ? percpu_owners_self(owners) : 0);
	leave(old);
	leave(new);
	assert_int_equal(percpu_grace_blockers(g, b, 3), 0);
}

/* The cells of several grace periods lie side by side. */
static void sections_of_others_block_nobody(void **state)
{
	enum { OTHERS = 5 };
	struct percpu_grace *others[OTHERS];
	struct percpu_grace_blocker b;
	int tokens[OTHERS];

	(void)state;
	for (unsigned i = 0; i < OTHERS; i++) {
		assert_int_equal(percpu_grace_create(0, &others[i]), 0);
		tokens[i] = percpu_grace_enter(others[i]);
		assert_true(tokens[i] >= 0);
	}
	for (unsigned i = 0; i < OTHERS; i++) {
		for (unsigned bank = 0; bank < 2; bank++) {
			assert_int_equal(percpu_grace_blockers(others[i], &b, 1), 1);
			assert_int_equal(b.sections, 1);
			assert_int_equal(percpu_grace_exit(others[i], tokens[i]), 0);
			assert_int_equal(percpu_grace_blockers(others[i], &b, 1), 0);
			assert_int_equal(percpu_grace_wait_timed(others[i], 100 * MS), 0);
			tokens[i] = percpu_grace_enter(others[i]);
			assert_true(tokens[i] >= 0);
		}
		assert_int_equal(percpu_grace_exit(others[i], tokens[i]), 0);
		assert_int_equal(percpu_grace_detach(others[i]), 0);
		assert_int_equal(percpu_grace_create(0, &others[i]), 0);
		assert_int_equal(percpu_grace_destroy(others[i]), 0);
	}
}

static int have_no_sections(void *arg)
{
	const int token = *(int *)arg;
	int own;

	test_child_require(percpu_grace_exit(g, token) == 0, "the parent's section");
	if (percpu_grace_is_shared(handle())) {
		test_child_require(percpu_grace_wait_timed(g, MS) == -ETIMEDOUT, "it is there");
		return 0;
	}
	test_child_require(percpu_grace_blockers(g, NULL, 0) == 0, "none");
	test_child_require(percpu_grace_wait(g) == 0, "nobody is waited for");
	own = percpu_grace_enter(g);
	test_child_require(own > token, "another tag");
	test_child_require(percpu_grace_wait_timed(g, MS) == -ETIMEDOUT, "own section");
	test_child_require(percpu_grace_exit(g, token) == 0, "once more");
	test_child_require(percpu_grace_wait_timed(g, MS) == -ETIMEDOUT, "still own section");
	test_child_require(percpu_grace_exit(g, own) == 0, "end");
	test_child_require(percpu_grace_wait(g) == 0, "free");
	return percpu_grace_destroy(g);
}

static void a_child_is_in_no_section(void **state)
{
	int tokens[2];

	(void)state;
	if (test_thread_sanitizer())
		test_skip("children start threads");
	tokens[0] = enter();
	test_in_child(have_no_sections, &tokens[0]);
	assert_int_equal(percpu_grace_wait_timed(g, 0), -ETIMEDOUT); /* begins a period */
	tokens[1] = enter();
	test_in_child(have_no_sections, &tokens[1]);
	assert_waits();
	leave(tokens[0]);
	leave(tokens[1]);
	assert_free();
}

static struct percpu_rwlock *beside[3];

static int have_locks_still(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < 3; i++) {
		test_child_require(percpu_rwlock_write_trylock(beside[i]) == -EBUSY, "held");
		test_child_require(percpu_rwlock_read_unlock(beside[i]) == 0, "unlock");
		test_child_require(percpu_rwlock_write_trylock(beside[i]) == 0, "free");
	}
	return 0;
}

/* The cells of locks lie beside those of grace periods. A child keeps the locks of its parent, but
 * not the sections. */
static void a_child_has_what_lies_beside(void **state)
{
	struct percpu_grace *others[3];
	int token;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(percpu_grace_create(0, &others[i]), 0);
		token = percpu_grace_enter(others[i]);
		assert_int_equal(percpu_grace_wait_timed(others[i], 0), -ETIMEDOUT);
		assert_int_equal(percpu_grace_exit(others[i], token), 0);
		assert_int_equal(percpu_rwlock_create(0, &beside[i]), 0);
		assert_int_equal(percpu_rwlock_read_lock(beside[i]), 0);
	}
	test_in_child(have_locks_still, NULL);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(percpu_rwlock_read_unlock(beside[i]), 0);
		assert_int_equal(percpu_rwlock_destroy(beside[i]), 0);
		assert_int_equal(percpu_grace_destroy(others[i]), 0);
	}
}

/* Between processes. */

/* Each handle joins as an owner of its own, like a process, and has a section in each bank. */
static void blockers_of_many_slots(void **state)
{
	enum { HANDLES = 40 };
	struct percpu_grace_blocker b[HANDLES];
	struct percpu_owners *o[HANDLES];
	struct percpu_grace *of[HANDLES];
	int tokens[HANDLES][2];

	(void)state;
	memset(b, 0, sizeof(b));
	for (unsigned i = 0; i < HANDLES; i++) {
		assert_int_equal(percpu_owners_open(region, 0, &o[i]), 0);
		assert_int_equal(percpu_grace_open(o[i], ROOT, 0, &of[i]), 0);
		tokens[i][0] = percpu_grace_enter(of[i]);
		assert_true(tokens[i][0] >= 0);
		b[i].id = percpu_owners_self(o[i]);
	}
	assert_waits();
	for (unsigned i = 0; i < HANDLES; i++) {
		tokens[i][1] = percpu_grace_enter(of[i]);
		assert_true(tokens[i][1] >= 0);
	}
	assert_int_equal(percpu_grace_blockers(g, b, 1), HANDLES);
	assert_int_equal(b[0].sections, 2);
	for (unsigned i = 1; i < HANDLES; i++) /* no room for these */
		assert_int_equal(b[i].sections, 0);
	assert_int_equal(percpu_grace_blockers(g, NULL, 0), HANDLES);
	assert_int_equal(percpu_grace_blockers(g, b, HANDLES), HANDLES);
	for (unsigned i = 0; i < HANDLES; i++) {
		assert_int_equal(b[i].sections, 2);
		assert_int_equal(percpu_grace_exit(of[i], tokens[i][0]), 0);
		assert_int_equal(percpu_grace_exit(of[i], tokens[i][1]), 0);
		assert_int_equal(percpu_grace_detach(of[i]), 0);
		percpu_owners_detach(o[i]);
	}
	assert_free();
}

static const char *its_name; /* of the next child; NULL: this program's */

static int enter_and_stay(void *arg)
{
	int n = (int)(uintptr_t)arg;

	if (its_name != NULL)
		prctl(PR_SET_NAME, its_name);
	for (int i = 0; i < n; i++)
		test_child_require(percpu_grace_enter(g) >= 0, "enter");
	return stay();
}

static void who_is_killed_is_not_waited_for(void **state)
{
	struct percpu_grace_blocker b[3];
	pid_t pid = start(enter_and_stay, 3), other = start(enter_and_stay, 1);
	int token = enter();

	(void)state;
	assert_waits();
	assert_int_equal(percpu_grace_blockers(g, b, 3), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(b[i].awaited, b[i].sections);
		assert_int_equal(b[i].sections, b[i].pid == (uint32_t)pid ? 3 : 1);
		assert_true(percpu_owners_alive(owners, b[i].id));
	}
	stop(pid);
	assert_int_equal(percpu_grace_blockers(g, b, 3), 2);
	leave(token);
	assert_waits();
	assert_in_use(percpu_grace_destroy);
	stop(other);
	assert_free();
	assert_int_equal(percpu_grace_blockers(g, b, 3), 0);
	assert_free();
}

static void who_is_stopped_is_waited_for(void **state)
{
	struct percpu_grace_blocker b;
	pid_t pid = start(enter_and_stay, 1);

	(void)state;
	assert_int_equal(percpu_grace_blockers(g, &b, 1), 1);
	assert_int_equal(b.stopped, 0);
	suspend(pid);
	assert_int_equal(percpu_grace_wait_timed(g, 60 * MS), -ETIMEDOUT);
	assert_int_equal(percpu_grace_blockers(g, &b, 1), 1);
	assert_int_equal(b.stopped, 1);
	assert_int_equal(b.pid, pid);
	stop(pid);
	assert_free();
}

/* In /proc/PID/stat, the name of a process may look like the state that follows it. */
static void names_of_processes_mislead_nobody(void **state)
{
	static const char *const names[] = { ") S ", "x) T 1", "a) t (b) T 7", "))" };
	struct percpu_grace_blocker b;
	pid_t pid;

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		its_name = names[i];
		pid = start(enter_and_stay, 1);
		its_name = NULL;
		assert_int_equal(percpu_grace_blockers(g, &b, 1), 1);
		assert_int_equal(b.stopped, 0);
		suspend(pid);
		assert_int_equal(percpu_grace_blockers(g, &b, 1), 1);
		assert_int_equal(b.stopped, 1);
		stop(pid);
		assert_free();
	}
}

static int come_and_wait(void *arg)
{
	int token;

	(void)arg;
	for (unsigned i = 0; i < 2; i++) {
		token = percpu_grace_enter(g);
		test_child_require(token >= 0, "enter");
		test_child_require(percpu_grace_wait_timed(g, MS) == -ETIMEDOUT, "wait");
		model_set_area(&without);
		test_child_require(percpu_grace_exit(g, token) == 0, "exit");
		test_child_require(percpu_grace_exit(g, percpu_grace_enter(g)) == 0, "both");
		test_child_require(percpu_grace_wait(g) == 0, "wait");
	}
	test_child_require(false, "nobody came there");
	return 1;
}

/* A process stops at a step, and is then killed there. While it is stopped it holds up periods only
 * if it is in a section. After it is killed, periods go on. */
static void whoever_is_killed(void **state)
{
	static const char *const steps[] = {
		"grace: to begin",	 "grace: begun",      "grace: to be fenced",
		"grace: fence returned", "grace: counted",    "grace: ended",
		"grace: to sleep",	 "grace: to enter",   "grace: to exit",
		"participant: counted",	 "participant: left", "participant: to be woken",
		"participant: recorded",
	};
	struct percpu_grace_blocker b;
	pid_t pid;
	int e;

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		pid = start_until(steps[i], come_and_wait, 0);
		e = percpu_grace_wait_timed(g, 300 * MS);
		assert_int_equal(e, percpu_grace_blockers(g, &b, 1) == 0 ? 0 : -ETIMEDOUT);
		stop(pid);
		assert_free();
		assert_free();
		assert_int_equal(percpu_grace_blockers(g, &b, 1), 0);
	}
}

static int end_what_was_not_begun(void *arg)
{
	int token;

	(void)arg;
	test_child_require(percpu_grace_exit(g, (int)g->in.tag) == -EPERM, "not joined");
	token = percpu_grace_enter(g);
	test_child_require(token >= 0, "enter");
	test_child_require(percpu_grace_exit(g, token) == 0, "exit");
	test_child_require(percpu_grace_exit(g, token) == 0, "not seen");
	return stay();
}

/* Another process ends one section too many. This process's section is still waited for. */
static void others_deficits_hide_nothing(void **state)
{
	pid_t pid = 0;
	int token, e;

	(void)state;
	token = enter();
	pid = start(end_what_was_not_begun, 0);
	assert_waits();
	leave(token);
	e = percpu_grace_wait_timed(g, 5000 * MS);
	assert_int_equal(e, -EPROTO);
	stop(pid);
}

/* Enter in a CPU lane, and leave in an atomic lane. */
static void enter_and_leave_without(void)
{
	leave_without(enter());
}

static void begin_the_next(void)
{
	(void)percpu_grace_start(g);
	deadly = "participant: lanes of CPUs summed";
	meanwhile = enter_and_leave_without;
}

/* The thread that ends a period corrects this process's negative count. Another thread enters that
 * bank meanwhile. */
static void counts_are_set_right_by_what_was_found(void **state)
{
	int token;

	(void)state;
	assert_free();
	token = enter();
	leave(token);
	leave(token);
	deadly = "grace: ended";
	meanwhile = begin_the_next;
	assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), -EPROTO);
	deadly = NULL;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), 0);
	assert_free();
}

static void wait_too(void)
{
	error_there = percpu_grace_wait_timed(g, 5000 * MS) != -EPROTO;
}

/* Two threads find the negative count. Only the one that ends the period corrects it. */
static void counts_are_set_right_once(void **state)
{
	int token;

	(void)state;
	assert_free();
	token = enter();
	leave(token);
	leave(token);
	deadly = "grace: counted";
	meanwhile = wait_too;
	error_there = 1;
	assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), 0);
	assert_null(deadly);
	assert_int_equal(error_there, 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_grace_wait_timed(g, 5000 * MS), 0);
	assert_free();
}

static int enter_wait_and_stay(void *arg)
{
	(void)arg;
	test_child_require(percpu_grace_enter(g) >= 0, "enter");
	test_child_require(percpu_grace_wait_timed(g, MS) == -ETIMEDOUT, "fenced, and waits");
	return stay();
}

/* Another process has fenced the period, and this one cannot find its cells. */
static void who_is_not_found_is_waited_for(void **state)
{
	pid_t pid = start(enter_wait_and_stay, 0);
	uint64_t *block = &handle()->part.control->block[0];
	const uint64_t key = *block, before = now();

	(void)state;
	*block = UINT64_C(0xff0000000) << 8;
	assert_int_equal(percpu_grace_wait_timed(g, 20 * MS), -EBADMSG);
	assert_int_equal(now(), before);
	*block = key;
	stop(pid);
	assert_free();
}

static void who_leaves_the_owners_is_in_no_section(void **state)
{
	int token = enter(), other;

	(void)state;
	percpu_owners_leave(owners);
	assert_free();
	assert_int_equal(percpu_grace_exit(g, token), 0);
	other = enter();
	assert_waits();
	assert_int_equal(percpu_grace_exit(g, token), 0);
	assert_waits();
	leave(other);
	assert_free();
}

static uint64_t sections(void)
{
	struct percpu_grace_blocker b[4];
	size_t n = percpu_grace_blockers(g, b, 4);
	uint64_t sum = 0;

	assert_true(n <= 4);
	for (size_t i = 0; i < n; i++)
		sum += b[i].sections;
	return sum;
}

static void enter_on_cpu(unsigned i, void *arg)
{
	int *tokens = arg;

	test_pin(0, test_cpu(i));
	tokens[i] = percpu_grace_enter(g);
}

static void leave_on_next_cpu(unsigned i, void *arg)
{
	const int *tokens = arg;

	test_pin(0, test_cpu((i + 1) % test_cpus()));
	(void)percpu_grace_exit(g, tokens[i]);
}

/* With another distance of lanes than inline functions use, exactly the open sections are counted,
 * on each CPU. */
static void lanes_of_another_size(void **state)
{
	const unsigned cpus = test_cpus() < MOST_CPUS ? test_cpus() : MOST_CPUS;
	int tokens[MOST_CPUS];
	pid_t pid;

	(void)state;
	for (unsigned round = 0; round < 4; round++) { /* both banks */
		test_team_run(cpus, enter_on_cpu, tokens);
		for (unsigned i = 0; i < cpus; i++)
			assert_true(tokens[i] >= 0);
		assert_int_equal(sections(), cpus);
		pid = start(enter_and_stay, 3);
		assert_int_equal(sections(), cpus + 3);
		assert_waits();
		stop(pid);
		assert_waits();
		test_team_run(cpus, leave_on_next_cpu, tokens);
		assert_free();
		assert_int_equal(sections(), 0);
	}
	for (unsigned i = 0; i < cpus; i++) { /* one section alone holds up a period */
		test_pin(0, test_cpu(i));
		tokens[0] = enter();
		assert_waits();
		leave(tokens[0]);
		assert_free();
	}
	test_unpin(0);
}

static void others_attach(void **state)
{
	struct percpu_grace *there, *outsider;
	struct percpu_owners *others;
	struct percpu_grace_callback c;
	struct percpu_grace_blocker b;
	uint64_t before, cookie, key = percpu_grace_key(g);
	int token;

	(void)state;
	assert_int_not_equal(key, 0);
	assert_int_equal(percpu_grace_attach(owners, key, 0, &there), 0);
	token = percpu_grace_enter(there);
	assert_true(token >= 0);
	assert_waits();
	assert_int_equal(percpu_grace_detach(there), -EBUSY);
	assert_int_equal(percpu_grace_exit(there, token), 0);
	assert_int_equal(percpu_grace_detach(there), 0);
	assert_int_equal(percpu_owners_create_in(region, &others), 0);
	assert_int_equal(percpu_grace_attach(others, key, 0, &there), -ENOENT);
	percpu_owners_destroy(others);
	assert_int_equal(percpu_grace_attach(asker, key, 0, &outsider), 0);
	assert_int_equal(percpu_grace_enter(outsider), -EROFS);
	assert_int_equal(percpu_grace_wait(outsider), -EROFS);
	assert_int_equal(percpu_grace_call(outsider, &c, NULL), -EINVAL);
	assert_int_equal(
		percpu_grace_call(outsider, &c,
				  (void (*)(struct percpu_grace_callback *))percpu_owners_leave),
		-EROFS);
	assert_free();
	before = now();
	cookie = percpu_grace_start(outsider); /* begins no period: it may only read */
	assert_int_equal(now(), before);
	assert_int_equal(cookie, before + 2);
	assert_int_equal(percpu_grace_poll(outsider, cookie), 0);
	token = enter();
	assert_int_equal(percpu_grace_blockers(outsider, &b, 1), 1);
	leave(token);
	assert_free();
	assert_free();
	assert_int_equal(percpu_grace_poll(outsider, cookie), 1);
	assert_int_equal(percpu_grace_destroy(outsider), 0);
}

static void errors(void **state)
{
	struct percpu_grace *there = NULL;
	struct percpu_grace_callback c;

	(void)state;
	assert_int_equal(percpu_grace_create(0, NULL), -EINVAL);
	assert_int_equal(percpu_grace_create(2, &there), -EINVAL);
	assert_int_equal(percpu_grace_create_in(NULL, 0, &there), -EINVAL);
	assert_int_equal(percpu_grace_create_in(owners, 4, &there), -EINVAL);
	assert_int_equal(percpu_grace_create_in(owners, 0, NULL), -EINVAL);
	assert_int_equal(percpu_grace_open(NULL, 0, 0, &there), -EINVAL);
	assert_int_equal(percpu_grace_open(owners, PERCPU_REGION_ROOTS, 0, &there), -EINVAL);
	assert_int_equal(percpu_grace_open(owners, ROOT, 8, &there), -EINVAL);
	assert_int_equal(percpu_grace_open(owners, ROOT, 0, NULL), -EINVAL);
	assert_int_equal(percpu_grace_open(owners, 0, 0, &there), -EEXIST);
	assert_int_equal(percpu_grace_attach(owners, 12345, 0, &there), -ENOENT);
	assert_int_equal(percpu_grace_attach(owners, percpu_grace_key(g), 2, &there), -EINVAL);
	assert_int_equal(percpu_grace_attach(NULL, percpu_grace_key(g), 0, &there), -EINVAL);
	assert_null(there);
	assert_int_equal(percpu_grace_detach(NULL), 0);
	assert_int_equal(percpu_grace_destroy(NULL), 0);
	assert_int_equal(percpu_grace_key(NULL), 0);
	assert_int_equal(percpu_grace_wait(NULL), -EINVAL);
	assert_int_equal(percpu_grace_wait_timed(NULL, 1), -EINVAL);
	assert_int_equal(percpu_grace_start(NULL), 0);
	assert_int_equal(percpu_grace_poll(NULL, 1), -EINVAL);
	assert_int_equal(percpu_grace_barrier(NULL), -EINVAL);
	assert_int_equal(percpu_grace_call(NULL, &c, NULL), -EINVAL);
	assert_int_equal(percpu_grace_call(g, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_grace_blockers(NULL, NULL, 0), 0);
	assert_int_equal(percpu_grace_blockers(g, NULL, 2), 0);
}

/* A waiter sleeps for a slice at a time, and does not spin. */
static void who_waits_for_a_section_sleeps(void **state)
{
	const uint64_t begin = percpu_now_ns();
	int token = enter();

	(void)state;
	seen_there = 0;
	awaited = "grace: to sleep";
	assert_int_equal(percpu_grace_wait_timed(g, 5 * PERCPU_PARTICIPANTS_SLICE), -ETIMEDOUT);
	awaited = NULL;
	assert_in_range(seen_there, 1, (percpu_now_ns() - begin) / PERCPU_PARTICIPANTS_SLICE + 2);
	leave(token);
	assert_free();
}

/* With PERCPU_GRACE_DEBUG. */

static int open_pipe[2];

static int complain(void *arg)
{
	struct percpu_grace *d;
	int token, e = percpu_grace_create(PERCPU_GRACE_DEBUG, &d);

	test_child_require(e == 0 && dup2(open_pipe[1], STDERR_FILENO) == STDERR_FILENO, "begin");
	token = percpu_grace_enter(d);
	test_child_require(percpu_grace_exit(d, token) == 0, "exit");
	test_child_require(percpu_grace_wait(d) == 0, "wait");
	switch ((uintptr_t)arg) {
	case 0:
		return percpu_grace_exit(d, token);
	case 1:
		return percpu_grace_exit(d, -EINVAL);
	case 2:
		test_child_require(percpu_grace_enter(d) >= 0, "enter");
		return percpu_grace_destroy(d);
	default:
		return percpu_grace_destroy(d);
	}
}

/* End, by the checking handle d, a section that handle g has begun. Its token has the tag and the
 * bank of a section of d. */
static int end_what_another_handle_began(void *arg)
{
	struct percpu_grace *d = arg;
	int token = percpu_grace_enter(g);

	test_child_require(token >= 0 && dup2(open_pipe[1], STDERR_FILENO) == STDERR_FILENO,
			   "enter");
	test_child_require(percpu_grace_exit(d, percpu_grace_enter(d)) == 0, "its own");
	return percpu_grace_exit(d, token);
}

static int end_by_one_without_sections(void *arg)
{
	const int token = percpu_grace_enter(g);

	test_child_require(token >= 0, "enter");
	test_child_require(percpu_grace_exit(arg, token) == -EPERM, "of another handle");
	return percpu_grace_exit(g, token);
}

static void tokens_are_of_a_handle(void **state)
{
	struct percpu_grace *d, *other;
	char text[200] = "";
	int status, token;

	(void)state;
	assert_int_equal(percpu_grace_attach(owners, percpu_grace_key(g), PERCPU_GRACE_DEBUG, &d),
			 0);
	assert_int_equal(percpu_grace_attach(owners, percpu_grace_key(g), 0, &other), 0);
	assert_int_equal(pipe2(open_pipe, O_CLOEXEC | O_NONBLOCK), 0);
	status = test_wait(test_fork(end_what_another_handle_began, d), 10);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_true(read(open_pipe[0], text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "has not begun by this handle"));
	close(open_pipe[0]);
	close(open_pipe[1]);
	token = percpu_grace_enter(d); /* sections of other handles do not disturb it */
	leave(enter());
	test_in_child(end_by_one_without_sections, other);
	assert_waits();
	assert_int_equal(percpu_grace_exit(d, token), 0);
	assert_free();
	assert_int_equal(percpu_grace_detach(other), 0);
	assert_int_equal(percpu_grace_detach(d), 0);
}

static void what_debugging_shows(void **state)
{
	static const char *const texts[] = { "not begun", "no token", "while a section is open" };
	char text[200];
	ssize_t n;
	int status;

	(void)state;
	for (uintptr_t i = 0; i <= 3; i++) {
		assert_int_equal(pipe2(open_pipe, O_CLOEXEC | O_NONBLOCK), 0);
		status = test_wait(test_fork(complain, (void *)i), 10);
		memset(text, 0, sizeof(text));
		n = read(open_pipe[0], text, sizeof(text) - 1);
		if (i < 3) {
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
			assert_true(n > 0);
			assert_non_null(strstr(text, "libpercpu: grace periods"));
			assert_non_null(strstr(text, i == 0 ? "has not begun" : texts[i]));
		} else {
			assert_int_equal(status, 0);
		}
		close(open_pipe[0]);
		close(open_pipe[1]);
	}
}

static struct percpu_grace *checked;
static int before_it[2]; /* the tokens of enter_twice(), one of each bank */

static void enter_twice(void)
{
	before_it[0] = percpu_grace_enter(checked);
	test_child_require(before_it[0] >= 0, "enter");
	test_child_require(percpu_grace_wait_timed(checked, 0) == -ETIMEDOUT, "a period begins");
	before_it[1] = percpu_grace_enter(checked);
	test_child_require(before_it[1] >= 0 && before_it[1] != before_it[0], "the other bank");
}

/* End so many of the sections before_it, which are not open here: that is accepted. Then end an own
 * section so many times: only the first time is correct. */
static int begin_and_end(unsigned times, unsigned before)
{
	int own = percpu_grace_enter(checked);

	test_child_require(own >= 0, "enter");
	test_child_require(dup2(open_pipe[1], STDERR_FILENO) == STDERR_FILENO, "pipe");
	for (unsigned i = 0; i < before; i++)
		test_child_require(percpu_grace_exit(checked, before_it[i]) == 0, "of before");
	for (unsigned i = 0; i < times; i++)
		test_child_require(percpu_grace_exit(checked, own) == 0, "its own");
	return percpu_grace_detach(checked);
}

static int begin_and_end_in_child(void *arg)
{
	return begin_and_end((unsigned)(uintptr_t)arg, 2);
}

static int leave_and_begin_and_end(void *arg)
{
	enter_twice();
	percpu_owners_leave(owners);
	return begin_and_end((unsigned)(uintptr_t)arg, 2);
}

static int fork_and_begin_and_end(void *arg)
{
	const uintptr_t times = (uintptr_t)arg;
	int status;

	enter_twice();
	status = test_wait(test_fork(begin_and_end_in_child, arg), 10);
	if (times == 1)
		test_child_require(status == 0, "the child");
	else
		test_child_require(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "aborts");
	for (unsigned i = 0; i < 2; i++)
		test_child_require(percpu_grace_exit(checked, before_it[i]) == 0, "there yet");
	test_child_require(percpu_grace_wait_timed(checked, 5000 * MS) == 0, "wait");
	return begin_and_end((unsigned)times, 0);
}

/* A section that was begun before a fork, or as another owner, cannot be ended in place of an own
 * section. */
static void sections_of_before_are_not_open(void **state)
{
	const bool shared = percpu_grace_is_shared(handle());
	char text[400];
	int status;

	(void)state;
	if (shared)
		assert_int_equal(percpu_grace_attach(owners, percpu_grace_key(g),
						     PERCPU_GRACE_DEBUG, &checked),
				 0);
	else
		assert_int_equal(percpu_grace_create(PERCPU_GRACE_DEBUG, &checked), 0);
	assert_int_equal(pipe2(open_pipe, O_CLOEXEC | O_NONBLOCK), 0);
	for (unsigned i = 0; i < (shared ? 4 : 2); i++) {
		const uintptr_t times = 1 + i % 2;

		status = test_wait(
			test_fork(i < 2 ? fork_and_begin_and_end : leave_and_begin_and_end,
				  (void *)times),
			30);
		memset(text, 0, sizeof(text));
		if (times == 1) {
			assert_int_equal(status, 0);
			assert_int_equal(read(open_pipe[0], text, sizeof(text) - 1), -1);
		} else {
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
			assert_true(read(open_pipe[0], text, sizeof(text) - 1) > 0);
			assert_non_null(strstr(text, "has not begun"));
		}
	}
	close(open_pipe[0]);
	close(open_pipe[1]);
	assert_free();
	assert_int_equal(percpu_grace_detach(checked), 0);
}

/* Callbacks and barriers: a thread does not miss what happens between its look and its sleep. */

static struct percpu_grace_callback calls[3];
static unsigned called, begun, barred, may_end; /* atomic */

static void note_call(struct percpu_grace_callback *c)
{
	(void)c;
	__atomic_fetch_add(&called, 1, __ATOMIC_RELEASE);
}

/* Wait until the word is n or more, for 5 s at most. Returns whether it is. */
static bool comes_to(const unsigned *word, unsigned n)
{
	for (unsigned i = 0; i < 10000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) < n; i++)
		test_sleep_us(500);
	return __atomic_load_n(word, __ATOMIC_ACQUIRE) >= n;
}

static void call_second(void)
{
	error_there = percpu_grace_call(g, &calls[1], note_call) != 0;
}

static void what_is_called_before_the_sleep_is_run(void **state)
{
	bool ran;

	(void)state;
	called = error_there = 0;
	deadly = "grace: no callback waits";
	meanwhile = call_second;
	assert_int_equal(percpu_grace_call(g, &calls[0], note_call), 0);
	ran = comes_to(&called, 2);
	/* This wakes the worker in any case, so no callback is left for the teardown. */
	assert_int_equal(percpu_grace_call(g, &calls[2], note_call), 0);
	assert_int_equal(percpu_grace_barrier(g), 0);
	assert_true(ran);
	assert_int_equal(error_there, 0);
}

static void wait_to_end(struct percpu_grace_callback *c)
{
	(void)c;
	__atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
	(void)comes_to(&may_end, 1);
}

static void let_it_end(void)
{
	const uint32_t *finished = &handle()->queue.finished;
	const uint32_t before = __atomic_load_n(finished, __ATOMIC_ACQUIRE);

	__atomic_store_n(&may_end, 1, __ATOMIC_RELEASE);
	(void)comes_to(finished, before + 1);
}

static void wait_for_all(unsigned i, void *arg)
{
	(void)i;
	(void)arg;
	error_there = percpu_grace_barrier(g) != 0;
	__atomic_store_n(&barred, 1, __ATOMIC_RELEASE);
}

static void what_ends_before_the_sleep_is_not_awaited(void **state)
{
	struct test_team t;

	(void)state;
	begun = barred = may_end = error_there = 0;
	deadly = "grace: callbacks awaited";
	meanwhile = let_it_end;
	assert_int_equal(percpu_grace_call(g, &calls[0], wait_to_end), 0);
	assert_true(comes_to(&begun, 1)); /* from here the worker reaches no step */
	test_team_start(&t, 1, wait_for_all, NULL);
	assert_true(comes_to(&barred, 1));
	test_team_join(&t);
	assert_null(deadly);
	assert_int_equal(error_there, 0);
}

#define PRIVATE(test) cmocka_unit_test_setup_teardown(test, begin_private, end)
#define BETWEEN(test) cmocka_unit_test_setup_teardown(test, begin, end_shared)
#define BOTH(test) PRIVATE(test), BETWEEN(test)
#define LONG_LANES(test) cmocka_unit_test_setup_teardown(test, begin_long_lanes, end_shared)
#define SHORT_LANES(test) cmocka_unit_test_setup_teardown(test, begin_short_lanes, end_shared)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		BOTH(sections_are_waited_for),
		BOTH(later_sections_are_not_waited_for),
		BOTH(who_comes_later_waits_for_another_period),
		PRIVATE(cookies_that_nobody_has_got),
		BOTH(periods_are_shared),
		BOTH(periods_are_fenced_once),
		BOTH(claims_are_not_older_than_they_are),
		BOTH(claims_are_of_a_period),
		BOTH(who_waits_is_told),
		BOTH(who_waits_no_more_is_not_counted),
		BOTH(who_waits_for_a_section_sleeps),
		BOTH(who_is_late_is_counted_in_the_new_bank),
		BOTH(what_commits_before_the_fence_is_seen),
		BOTH(fences_that_fail),
		BOTH(sections_that_were_not_begun),
		BOTH(in_use),
		BOTH(whom_one_waits_for),
		PRIVATE(sections_of_others_block_nobody),
		PRIVATE(what_is_called_before_the_sleep_is_run),
		PRIVATE(what_ends_before_the_sleep_is_not_awaited),
		BOTH(a_child_is_in_no_section),
		PRIVATE(a_child_has_what_lies_beside),
		BETWEEN(blockers_of_many_slots),
		BETWEEN(who_is_killed_is_not_waited_for),
		BETWEEN(who_is_stopped_is_waited_for),
		BETWEEN(names_of_processes_mislead_nobody),
		BETWEEN(whoever_is_killed),
		BETWEEN(others_deficits_hide_nothing),
		BOTH(counts_are_set_right_by_what_was_found),
		BOTH(counts_are_set_right_once),
		BETWEEN(who_is_not_found_is_waited_for),
		BETWEEN(who_leaves_the_owners_is_in_no_section),
		LONG_LANES(lanes_of_another_size),
		SHORT_LANES(lanes_of_another_size),
		LONG_LANES(sections_are_waited_for),
		LONG_LANES(periods_are_shared),
		LONG_LANES(whoever_is_killed),
		BETWEEN(others_attach),
		BETWEEN(errors),
		cmocka_unit_test(what_debugging_shows),
		BOTH(sections_of_before_are_not_open),
		BETWEEN(tokens_are_of_a_handle),
	};

	test_tier();
	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

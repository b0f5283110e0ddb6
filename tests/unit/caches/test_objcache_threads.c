/* SPDX-License-Identifier: MIT */
/*
 * test_objcache_threads.c - a cache that many threads use: the limit, the order of waiting
 * threads, what callbacks may do, and children of fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "steps.h"
#include "../happen.h"
#include "objcache.h"

#define WAIT_NS 10000000 /* a waiter looks again after this time: src/caches/pool_wait.c */

static struct percpu_objcache *cache;
static void *only;

/* If for_good is set, a waiter sleeps until it is woken, without a time-out. */

void __real_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

static bool for_good;
static void (*to_sleep)(void); /* called when a thread is about to sleep as a waiter */
static unsigned asleep;	       /* atomic: how often a waiter was about to sleep */

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	if (ns == WAIT_NS && to_sleep != NULL)
		to_sleep();
	if (ns == WAIT_NS)
		__atomic_fetch_add(&asleep, 1, __ATOMIC_SEQ_CST);
	__real_percpu_futex_sleep(word, operation, value, ns == WAIT_NS && for_good ? 0 : ns);
}

static void wait_for_sleepers(unsigned n)
{
	while (__atomic_load_n(&asleep, __ATOMIC_SEQ_CST) < n)
		test_sleep_us(100);
	test_sleep_us(5000);
}

static struct percpu_objcache *make_limited(size_t limit)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = limit };

	return make_cache(&o);
}

/* Eight threads contend for three objects. */

static struct {
	unsigned rounds, held, most, wrong; /* atomic, except rounds */
} contest;

static void hold_objects(unsigned i, void *arg)
{
	unsigned held;
	uint64_t *obj;

	(void)arg;
	for (unsigned n = 0; n < contest.rounds; n++) {
		if (percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, (void **)&obj) != 0) {
			__atomic_fetch_add(&contest.wrong, 1, __ATOMIC_RELAXED);
			return;
		}
		held = __atomic_add_fetch(&contest.held, 1, __ATOMIC_SEQ_CST);
		if (held > __atomic_load_n(&contest.most, __ATOMIC_RELAXED))
			__atomic_store_n(&contest.most, held, __ATOMIC_RELAXED);
		obj[1] = i;
		if (n % 16 == 0)
			test_sleep_us(10);
		__atomic_fetch_add(&contest.wrong, obj[0] != CONSTRUCTED || obj[1] != i,
				   __ATOMIC_RELAXED);
		__atomic_fetch_sub(&contest.held, 1, __ATOMIC_SEQ_CST);
		if (n % 64 == 0)
			(void)percpu_objcache_dtor(cache, obj);
		else
			percpu_objcache_put(cache, obj);
		if (n % 128 == 5)
			(void)percpu_objcache_reclaim(cache);
	}
}

static void no_more_objects_exist_than_the_limit(void **state)
{
	(void)state;
	cache = make_limited(3);
	contest.rounds = test_rounds(500);
	for_good = true;
	test_team_run(8, hold_objects, NULL);
	for_good = false;
	assert_int_equal(contest.wrong, 0);
	assert_in_range(contest.most, 1, 3);
	assert_in_range(made.most, 1, 3);
	assert_int_equal(stats_of(cache).used, 0);
	assert_int_equal(stats_of(cache).requested, 8 * contest.rounds);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
	assert_int_equal(made.wrong, 0);
	assert_int_equal(made.constructed, made.allocated);
	assert_int_equal(made.destroyed, made.allocated);
	assert_int_equal(made.freed, made.allocated);
}

static void get_another(void)
{
	only = get(cache);
}

static void the_limit_holds_for_two_at_once(void **state)
{
	void *obj;

	(void)state;
	cache = make_limited(1);
	let_happen(get_another, "pool: limit read", 1);
	assert_int_equal(percpu_objcache_get(cache, 0, &obj), -ENOSPC);
	assert_int_equal(times, 0);
	assert_int_equal(made.most, 1);
	percpu_objcache_put(cache, only);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

static void lower_to_two(void)
{
	percpu_objcache_set_limit(cache, 2);
}

/* The limit is lowered while an array becomes longer, or as long as at first. */
static void arrays_fit_a_limit_that_is_lowered(void **state)
{
	(void)state;
	cache = make_limited(0);
	let_happen(lower_to_two, "pool: bound known", 1);
	assert_int_equal(percpu_objcache_reclaim(cache), 0);
	assert_int_equal(times, 0);
	assert_int_equal(stats_of(cache).array, 2);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* An object that is being destroyed counts for the limit, and a destructor may use its cache. */

static int result_within;

static void get_within(void *obj, void *arg)
{
	void *more;

	(void)obj;
	(void)arg;
	result_within = percpu_objcache_get(cache, 0, &more);
}

static void objects_exist_until_they_are_freed(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1, .dtor = get_within };

	(void)state;
	assert_int_equal(percpu_objcache_create("within", 8, &o, &cache), 0);
	only = get(cache);
	assert_int_equal(percpu_objcache_dtor(cache, only), 0);
	assert_int_equal(result_within, -ENOSPC);
	only = get(cache);
	percpu_objcache_put(cache, only);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

static int get_and_put_within(void *obj, void *arg, unsigned flags)
{
	void *more;

	(void)obj;
	(void)arg;
	if (flags & 0x10000) /* the object within: get no other one for it */
		return 0;
	result_within = percpu_objcache_get(cache, 0x10000, &more);
	if (result_within == 0)
		percpu_objcache_put(cache, more);
	return result_within;
}

static void constructors_may_use_their_cache(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .ctor = get_and_put_within };

	(void)state;
	for (o.flags = 0; o.flags <= PERCPU_OBJCACHE_DEBUG; o.flags += PERCPU_OBJCACHE_DEBUG) {
		assert_int_equal(percpu_objcache_create("within", 8, &o, &cache), 0);
		only = get(cache);
		assert_int_equal(result_within, 0);
		assert_int_equal(stats_of(cache).allocated, 2);
		percpu_objcache_put(cache, only);
		assert_int_equal(percpu_objcache_destroy(cache), 0);
	}
}

/* The object that a constructor or destructor works on counts for the limit. If it waited there
 * for another object it would wait for itself, also after it has used another cache. */

static struct percpu_objcache *another;

static int get_waiting(void)
{
	void *more, *other;
	int e = percpu_objcache_get(another, PERCPU_OBJCACHE_WAIT, &other);

	if (e != 0)
		return e;
	percpu_objcache_dtor(another, other);
	e = percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT | 0x10000, &more);
	if (e == 0)
		percpu_objcache_put(cache, more);
	return e;
}

static int wait_in_constructor(void *obj, void *arg, unsigned flags)
{
	(void)obj;
	(void)arg;
	return flags & 0x10000 ? 0 : get_waiting();
}

static void wait_in_destructor(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	result_within = get_waiting();
}

static struct {
	int result;
	bool done; /* atomic */
} getter;

static void get_one(unsigned i, void *arg)
{
	(void)i;
	getter.result = percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT | *(unsigned *)arg, &only);
	if (getter.result == 0)
		(void)percpu_objcache_dtor(cache, only);
	__atomic_store_n(&getter.done, true, __ATOMIC_SEQ_CST);
}

static int construct_nothing(void *obj, void *arg, unsigned flags)
{
	(void)obj;
	(void)arg;
	(void)flags;
	return 0;
}

/* Let a thread get an object and destroy it. Return how often it waited. */
static uint64_t get_one_beside(percpu_objcache_ctor_fn *ctor, percpu_objcache_dtor_fn *dtor,
			       unsigned flags)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1, .dtor = dtor };
	static struct test_team team;
	uint64_t waited;

	o.ctor = ctor;
	assert_int_equal(percpu_objcache_create("itself", 8, &o, &cache), 0);
	getter.done = false;
	test_team_start(&team, 1, get_one, &flags);
	while (!__atomic_load_n(&getter.done, __ATOMIC_SEQ_CST) && stats_of(cache).waited == 0)
		test_sleep_us(100);
	waited = stats_of(cache).waited;
	percpu_objcache_set_limit(cache, 0);
	test_team_join(&team);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
	return waited;
}

static void nobody_waits_for_itself(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .ctor = construct_nothing };

	(void)state;
	assert_int_equal(percpu_objcache_create("another", 8, &o, &another), 0);
	assert_int_equal(get_one_beside(wait_in_constructor, NULL, 0), 0);
	assert_int_equal(getter.result, -EDEADLK);
	result_within = 0;
	assert_int_equal(get_one_beside(wait_in_constructor, wait_in_destructor, 0x10000), 0);
	assert_int_equal(getter.result, 0);
	assert_int_equal(result_within, -EDEADLK);
	assert_int_equal(percpu_objcache_destroy(another), 0);
}

/* The constructor of `cache` uses `another`, whose constructor waits for an object of `cache`. */

static int construct_by_another(void *obj, void *arg, unsigned flags)
{
	void *other;
	int e;

	(void)obj;
	(void)arg;
	if (flags & 0x10000)
		return 0;
	e = percpu_objcache_get(another, 0, &other);
	return e != 0 ? e : percpu_objcache_dtor(another, other);
}

static int wait_for_the_first(void *obj, void *arg, unsigned flags)
{
	void *more;
	int e = percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT | 0x10000, &more);

	(void)obj;
	(void)arg;
	(void)flags;
	if (e == 0)
		percpu_objcache_put(cache, more);
	return e;
}

static void nobody_waits_for_itself_by_another_cache(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .ctor = wait_for_the_first };

	(void)state;
	assert_int_equal(percpu_objcache_create("another", 8, &o, &another), 0);
	assert_int_equal(get_one_beside(construct_by_another, NULL, 0), 0);
	assert_int_equal(getter.result, -EDEADLK);
	assert_int_equal(percpu_objcache_destroy(another), 0);
}

/* A thread that is canceled in a constructor gets the object first. */

static int be_canceled(void *obj, void *arg, unsigned flags)
{
	(void)obj;
	(void)arg;
	(void)flags;
	pthread_cancel(pthread_self());
	pthread_testcancel();
	return 0;
}

static void *get_and_be_canceled(void *arg)
{
	if (percpu_objcache_get(cache, 0, &only) == 0)
		percpu_objcache_put(cache, only);
	pthread_testcancel();
	return arg;
}

static void cancellation_waits_for_constructors(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1, .ctor = be_canceled };
	pthread_t thread;
	void *result;

	(void)state;
	assert_int_equal(percpu_objcache_create("canceled", 8, &o, &cache), 0);
	assert_int_equal(pthread_create(&thread, NULL, get_and_be_canceled, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(stats_of(cache).cached, 1);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* Some calls are allowed while cancellation takes effect at once. If a destructor cancels its
 * thread, the object is destroyed, and no longer counts. */

static bool canceling;

static void cancel_oneself(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	if (canceling)
		pthread_cancel(pthread_self());
}

static void reclaim_all(void)
{
	(void)percpu_objcache_reclaim(cache);
}

static void lower_limit(void)
{
	percpu_objcache_set_limit(cache, 1);
}

static void destroy_too_early(void)
{
	(void)!percpu_objcache_destroy(cache);
}

static void dtor_only(void)
{
	(void)percpu_objcache_dtor(cache, only);
}

static void *be_canceled_at_once(void *arg)
{
	void (*const *fn)(void) = arg;
	int type;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	(*fn)();
	pthread_testcancel();
	return NULL;
}

static void cancellation_at_once_leaves_nothing(void **state)
{
	void (*const fns[])(void) = { reclaim_all, lower_limit, dtor_only, destroy_too_early };
	struct percpu_objcache_options o = { .size = sizeof(o),
					     .limit = 2,
					     .dtor = cancel_oneself };
	pthread_t thread;
	void *more, *result;

	(void)state;
	for (unsigned i = 0; i < sizeof(fns) / sizeof(fns[0]); i++) {
		assert_int_equal(percpu_objcache_create("canceled", 8, &o, &cache), 0);
		canceling = true;
		only = get(cache);
		more = get(cache);
		percpu_objcache_put(cache, more);
		assert_int_equal(
			pthread_create(&thread, NULL, be_canceled_at_once, (void *)&fns[i]), 0);
		assert_int_equal(pthread_join(thread, &result), 0);
		assert_ptr_equal(result, PTHREAD_CANCELED);
		assert_int_equal(stats_of(cache).used + stats_of(cache).cached, 1);
		canceling = false;
		if (fns[i] != dtor_only)
			percpu_objcache_put(cache, only);
		assert_int_equal(percpu_objcache_destroy(cache), 0);
	}
}

static void cancel_and_test(void *obj, void *arg)
{
	cancel_oneself(obj, arg);
	pthread_testcancel();
}

static void *put_above_limit(void *arg)
{
	percpu_objcache_put(cache, only);
	pthread_testcancel();
	return arg;
}

/* A put above the limit runs the destructor. */
static void cancellation_waits_for_puts(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .dtor = cancel_and_test };
	pthread_t thread;
	void *more, *result;

	(void)state;
	assert_int_equal(percpu_objcache_create("canceled", 8, &o, &cache), 0);
	only = get(cache);
	more = get(cache);
	percpu_objcache_set_limit(cache, 1);
	canceling = true;
	assert_int_equal(pthread_create(&thread, NULL, put_above_limit, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	canceling = false;
	assert_ptr_equal(result, PTHREAD_CANCELED);
	assert_int_equal(stats_of(cache).used + stats_of(cache).cached, 1);
	percpu_objcache_put(cache, more);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* A destructor may put a new object, which keeps its cache from being destroyed. */

static bool replaces; /* the destructor puts another object in place of the destroyed one */

static void replace(void *obj, void *arg)
{
	void *other;

	(void)obj;
	(void)arg;
	if (replaces && percpu_objcache_get(cache, 0, &other) == 0)
		percpu_objcache_put(cache, other);
}

static void objects_of_destructors_keep_a_cache(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .dtor = replace };

	(void)state;
	assert_int_equal(percpu_objcache_create("replaced", 8, &o, &cache), 0);
	only = get(cache);
	percpu_objcache_put(cache, only);
	replaces = true;
	assert_int_equal(percpu_objcache_destroy(cache), -EBUSY);
	assert_int_equal(stats_of(cache).used, 0);
	assert_int_equal(stats_of(cache).cached, 1);
	replaces = false;
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* Waiting */

#define WAITERS 5

static struct {
	unsigned order[WAITERS];
	unsigned n;    /* atomic */
	unsigned hold; /* atomic: a thread that has an object keeps it */
} served;

static void wait_in_turn(unsigned i, void *arg)
{
	void *obj;

	(void)i;
	if (percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &obj) != 0)
		return;
	served.order[__atomic_fetch_add(&served.n, 1, __ATOMIC_SEQ_CST)] = *(unsigned *)arg;
	while (__atomic_load_n(&served.hold, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	percpu_objcache_put(cache, obj);
}

/* Each thread sleeps before the next one comes. */
static void first_come_first_served(void **state)
{
	static struct test_team teams[WAITERS];
	unsigned place[WAITERS];
	void *obj;
	int e;

	(void)state;
	cache = make_limited(1);
	only = get(cache);
	asleep = 0;
	for_good = true;
	served.hold = 1;
	for (unsigned i = 0; i < WAITERS; i++) {
		place[i] = i;
		test_team_start(&teams[i], 1, wait_in_turn, &place[i]);
		wait_for_sleepers(i + 1);
	}
	percpu_objcache_put(cache, only);
	/* The object is the first waiter's, even if that thread has not run yet. */
	e = percpu_objcache_get(cache, 0, &obj);
	__atomic_store_n(&served.hold, 0, __ATOMIC_SEQ_CST);
	if (e == 0)
		percpu_objcache_put(cache, obj);
	for (unsigned i = 0; i < WAITERS; i++)
		test_team_join(&teams[i]);
	for_good = false;
	assert_int_equal(e, -ENOSPC);
	for (unsigned i = 0; i < WAITERS; i++)
		assert_int_equal(served.order[i], i);
	assert_int_equal(stats_of(cache).waited, WAITERS);
	assert_int_equal(stats_of(cache).exhausted, WAITERS + 1);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* An object in another CPU's array is found, so the thread does not sleep. */
static void *get_on_another_cpu(void *arg)
{
	test_pin(0, test_cpu(test_cpus() - 1));
	return percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &only) == 0 ? only : arg;
}

static void waiters_take_from_other_cpus(void **state)
{
	pthread_t thread;
	void *obj, *result;

	(void)state;
	cache = make_limited(1);
	test_pin(0, test_cpu(0));
	obj = get(cache);
	percpu_objcache_put(cache, obj);
	asleep = 0;
	assert_int_equal(pthread_create(&thread, NULL, get_on_another_cpu, NULL), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	test_unpin(0);
	assert_ptr_equal(result, obj);
	assert_int_equal(asleep, 0);
	percpu_objcache_put(cache, obj);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

static void put_only(void)
{
	if (only != NULL)
		percpu_objcache_put(cache, only);
	only = NULL;
}

static void destroy_only(void)
{
	test_child_require(percpu_objcache_dtor(cache, only) == 0, "dtor");
	only = NULL;
}

static void raise_limit(void)
{
	percpu_objcache_set_limit(cache, 2);
}

static void lift_limit(void)
{
	percpu_objcache_set_limit(cache, 0);
}

static void *wait_for_one(void *arg)
{
	void *obj;

	test_child_require(percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &obj) == 0, "get");
	percpu_objcache_put(cache, obj);
	return arg;
}

struct waking {
	void (*before)(void); /* called when the waiter is about to sleep */
	void (*after)(void);  /* called when it sleeps */
	uint32_t flags;
};

static int wake_one(void *arg)
{
	const struct waking *w = arg;
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1, .flags = w->flags };
	pthread_t thread;

	for_good = true;
	asleep = 0;
	to_sleep = w->before;
	test_child_require(percpu_objcache_create("waking", 8, &o, &cache) == 0, "create");
	test_child_require(percpu_objcache_get(cache, 0, &only) == 0, "the only object");
	test_child_require(pthread_create(&thread, NULL, wait_for_one, NULL) == 0, "a thread");
	if (w->after != NULL) {
		wait_for_sleepers(1);
		w->after();
	}
	pthread_join(thread, NULL);
	put_only();
	return percpu_objcache_destroy(cache) != 0;
}

static void waiters_are_woken(void **state)
{
	struct waking ways[] = {
		{ NULL, put_only, 0 },	   { NULL, put_only, PERCPU_OBJCACHE_DEBUG },
		{ NULL, destroy_only, 0 }, { NULL, raise_limit, 0 },
		{ NULL, lift_limit, 0 },   { put_only, NULL, 0 },
		{ destroy_only, NULL, 0 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		assert_int_equal(test_wait(test_fork(wake_one, &ways[i]), 10), 0);
}

/* A waiter that may make an object, but fails, lets the next one try. */

static unsigned refusals; /* atomic: how often the constructor still fails */

static int refuse_some(void *obj, void *arg, unsigned flags)
{
	(void)obj;
	(void)arg;
	(void)flags;
	if (__atomic_load_n(&refusals, __ATOMIC_SEQ_CST) == 0)
		return 0;
	__atomic_fetch_sub(&refusals, 1, __ATOMIC_SEQ_CST);
	return -ENXIO;
}

static void *get_or_fail(void *arg)
{
	void *obj;
	int e = percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &obj);

	if (e == 0)
		percpu_objcache_put(cache, obj);
	*(int *)arg = e;
	return NULL;
}

static int fail_one(void *arg)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .limit = 1, .ctor = refuse_some };
	pthread_t thread[2];
	int e[2];

	(void)arg;
	for_good = true;
	asleep = 0;
	test_child_require(percpu_objcache_create("failing", 8, &o, &cache) == 0, "create");
	test_child_require(percpu_objcache_get(cache, 0, &only) == 0, "the only object");
	for (unsigned i = 0; i < 2; i++) {
		test_child_require(pthread_create(&thread[i], NULL, get_or_fail, &e[i]) == 0,
				   "a thread");
		wait_for_sleepers(i + 1);
	}
	refusals = 1;
	destroy_only();
	for (unsigned i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	test_child_require(e[0] == -ENXIO && e[1] == 0, "one fails");
	return percpu_objcache_destroy(cache) != 0;
}

static void who_fails_lets_the_next_one_try(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(fail_one, NULL), 10), 0);
}

/* room changes between the two times that a put reads it: another thread changes it all the time
 * in a copy of the cache's head. */

void __real_percpu_objcache_put_slow(struct percpu_objcache *oc, void *obj);
void __wrap_percpu_objcache_put_slow(struct percpu_objcache *oc, void *obj);

static struct percpu_objcache head;
static unsigned looks;	 /* puts that looked again */
static unsigned looking; /* atomic */

void __wrap_percpu_objcache_put_slow(struct percpu_objcache *oc, void *obj)
{
	if (oc == &head && obj == NULL)
		looks++;
	__real_percpu_objcache_put_slow(oc == &head ? cache : oc, obj);
}

static void change_room(unsigned i, void *arg)
{
	(void)i;
	(void)arg;
	for (uint64_t room = 8; __atomic_load_n(&looking, __ATOMIC_RELAXED); room ^= 1)
		__atomic_store_n(&head.room, room, __ATOMIC_RELAXED);
}

static void puts_look_again(void **state)
{
	struct test_team team;
	void *obj;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ || test_cpus() < 2)
		test_skip("needs tier rseq, and two CPUs");
	cache = make_cache(NULL);
	head = *cache;
	looking = 1;
	test_team_start(&team, 1, change_room, NULL);
	for (unsigned i = 0; i < 100000000 && looks == 0; i++) {
		obj = get(cache);
		percpu_objcache_put(&head, obj);
	}
	looking = 0;
	test_team_join(&team);
	assert_true(looks != 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

/* Fork */

static int put_in_child(void *arg)
{
	void *obj;

	(void)arg;
	percpu_objcache_put(cache, only);
	test_child_require(stats_of(cache).cached == 1, "nobody waits in the child");
	test_child_require(
		percpu_objcache_get(cache, PERCPU_OBJCACHE_WAIT, &obj) == 0 && obj == only, "get");
	percpu_objcache_put(cache, obj);
	return percpu_objcache_destroy(cache) != 0;
}

static void children_have_no_waiters(void **state)
{
	pthread_t thread;
	int e;

	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	cache = make_limited(1);
	only = get(cache);
	asleep = 0;
	assert_int_equal(pthread_create(&thread, NULL, get_or_fail, &e), 0);
	wait_for_sleepers(1);
	assert_int_equal(test_wait(test_fork(put_in_child, NULL), 10), 0);
	percpu_objcache_put(cache, only);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(e, 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

static int use_in_child(void *arg)
{
	void *objects[200];

	(void)arg;
	percpu_objcache_set_limit(cache, 0);
	for (unsigned i = 0; i < 200; i++)
		test_child_require(percpu_objcache_get(cache, 0, &objects[i]) == 0, "get");
	for (unsigned i = 0; i < 200; i++)
		percpu_objcache_put(cache, objects[i]);
	(void)percpu_objcache_reclaim(cache);
	test_child_require(stats_of(cache).cached == 0, "reclaim");
	return 0;
}

static void children_may_go_on(void **state)
{
	static struct test_team team;

	(void)state;
	test_needs_forks_beside_malloc();
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer takes threads of the parent for the child's");
	cache = make_limited(3);
	contest.rounds = test_rounds(2000);
	test_team_start(&team, 4, hold_objects, NULL);
	for (unsigned i = 0; i < 30; i++)
		test_in_child(use_in_child, NULL);
	test_team_join(&team);
	assert_int_equal(contest.wrong, 0);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_objects_exist_than_the_limit),
		cmocka_unit_test(the_limit_holds_for_two_at_once),
		cmocka_unit_test(arrays_fit_a_limit_that_is_lowered),
		cmocka_unit_test(objects_exist_until_they_are_freed),
		cmocka_unit_test(constructors_may_use_their_cache),
		cmocka_unit_test(nobody_waits_for_itself),
		cmocka_unit_test(nobody_waits_for_itself_by_another_cache),
		cmocka_unit_test(cancellation_waits_for_constructors),
		cmocka_unit_test(cancellation_at_once_leaves_nothing),
		cmocka_unit_test(cancellation_waits_for_puts),
		cmocka_unit_test(objects_of_destructors_keep_a_cache),
		cmocka_unit_test(first_come_first_served),
		cmocka_unit_test(waiters_take_from_other_cpus),
		cmocka_unit_test(waiters_are_woken),
		cmocka_unit_test(who_fails_lets_the_next_one_try),
		cmocka_unit_test(puts_look_again),
		cmocka_unit_test(children_have_no_waiters),
		cmocka_unit_test(children_may_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

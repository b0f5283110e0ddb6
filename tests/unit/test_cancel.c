/* SPDX-License-Identifier: MIT */
/*
 * test_cancel.c - a thread that is canceled while threads of the library use its
 * stack, or while it finds out the tier, comes to the end of the call; and so does one that
 * is canceled where cancellation takes effect at once.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../support.h"
#include "hold.h"

#define SECOND UINT64_C(1000000000)

bool test_of_first_use = true;

struct canceled {
	void (*fn)(struct canceled *c);
	struct percpu_zone *zone;
	void *item;
	int result;
	uint32_t ran;	   /* atomic: on so many CPUs */
	uint32_t returned; /* the call has come to its end */
	uint32_t inside;   /* atomic */
};

static void *run_canceled(void *arg)
{
	struct canceled *c = arg;

	__atomic_store_n(&c->inside, 1, __ATOMIC_SEQ_CST);
	c->fn(c);
	c->returned = 1;
	pthread_testcancel();
	return NULL;
}

static void call_status(struct canceled *c)
{
	pthread_cancel(pthread_self());
	c->result = percpu_status() == NULL;
}

static void call_fence_all(struct canceled *c)
{
	c->result = percpu_fence_all(10 * SECOND, NULL);
}

static void call_selftest(struct canceled *c)
{
	enum percpu_selftest r = percpu_selftest();

	c->result = r != PERCPU_SELFTEST_PASSED && r != PERCPU_SELFTEST_SKIPPED;
}

static void note_run(void *copy, unsigned cpu, void *arg)
{
	struct canceled *c = arg;

	(void)copy;
	(void)cpu;
	__atomic_fetch_add(&c->ran, 1, __ATOMIC_SEQ_CST);
}

static void call_zone_run(struct canceled *c)
{
	c->result = percpu_zone_run(c->zone, c->item, note_run, c, 10 * SECOND, NULL);
}

/* Canceled while it waits for a thread that is held back, the call ends as if it
 * had not been, and the thread goes at the next cancellation point of its own. */
static int cancel_in(void *arg)
{
	struct canceled *c = arg;
	pthread_t thread;
	void *end;

	hold_threads(c->fn != call_status);
	test_child_require(pthread_create(&thread, NULL, run_canceled, c) == 0, "a thread");
	if (c->fn != call_status) {
		wait_until_held(c->fn == call_selftest ? 2 : 1);
		pthread_cancel(thread);
		test_sleep_us(2000);
		hold_threads(false);
	}
	test_child_require(pthread_join(thread, &end) == 0, "it ends");
	test_child_require(c->returned == 1, "the call has returned");
	test_child_require(c->result == 0 || c->result == -EPERM, "as it should");
	test_child_require(end == PTHREAD_CANCELED, "canceled after that");
	return 0;
}

static int cancel_in_status(void *arg)
{
	struct canceled c = { .fn = call_status };

	(void)arg;
	return cancel_in(&c);
}

static int cancel_in_selftest(void *arg)
{
	struct canceled c = { .fn = call_selftest };

	(void)arg;
	return cancel_in(&c);
}

static int cancel_in_visits(void *arg)
{
	struct canceled c = { .fn = call_fence_all };
	struct canceled run = { .fn = call_zone_run };

	(void)arg;
	(void)test_tier();
	test_child_require(percpu_zone_create("run", 8, NULL, &run.zone) == 0 &&
				   percpu_zone_alloc(run.zone, 0, &run.item) == 0,
			   "an item");
	cancel_in(&c);
	cancel_in(&run);
	test_child_require(run.ran > 0, "it ran");
	return 0;
}

static void *close_region(void *arg)
{
	bool *closed = arg;
	struct percpu_region *r;

	assert_int_equal(percpu_region_open(test_path("closed"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE |
						    PERCPU_REGION_OWNERS,
					    NULL, &r),
			 0);
	pthread_cancel(pthread_self());
	percpu_region_close(r);
	*closed = true;
	pthread_testcancel();
	return NULL;
}

/* A region that keeps a descriptor is unmapped, too. */
static void regions_are_closed_as_a_whole(void **state)
{
	bool closed = false;
	pthread_t thread;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, close_region, &closed), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_true(closed);
	assert_ptr_equal(end, PTHREAD_CANCELED);
}

#ifdef __GLIBC__
#define SIGNAL_OF_CANCEL 32 /* glibc's own */

static bool requested, destroyed;

/* A request to cancel this thread that was on its way when the call deferred it. */
static void request_arrives(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	requested = true;
	syscall(SYS_tgkill, getpid(), gettid(), SIGNAL_OF_CANCEL);
	destroyed = true;
}

static void *sleep_until_canceled(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *reclaim_asynchronously(void *cache)
{
	const uint64_t deadline = test_now() + 10 * SECOND;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	percpu_objcache_reclaim(cache);
	/* It is canceled in the call, when that has done its work. */
	while (test_now() < deadline)
		sched_yield();
	return NULL;
}

static void late_requests_are_deferred(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .dtor = request_arrives };
	struct percpu_objcache *cache;
	pthread_t thread;
	void *obj, *end;

	(void)state;
	/* The first request lets glibc handle the signal. */
	assert_int_equal(pthread_create(&thread, NULL, sleep_until_canceled, NULL), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_int_equal(percpu_objcache_create("late", 8, &o, &cache), 0);
	assert_int_equal(percpu_objcache_get(cache, 0, &obj), 0);
	percpu_objcache_put(cache, obj);
	assert_int_equal(pthread_create(&thread, NULL, reclaim_asynchronously, cache), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_true(requested);
	assert_true(destroyed);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}
#else
static void late_requests_are_deferred(void **state)
{
	(void)state;
	test_skip("only glibc tells threads by this signal");
}
#endif

static void first_use_is_not_canceled(void **state)
{
	(void)state;
	test_in_child(cancel_in_status, NULL);
}

static void selftest_is_not_canceled(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(cancel_in_selftest, NULL);
}

static void visits_are_not_canceled(void **state)
{
	(void)state;
	test_in_child(cancel_in_visits, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_use_is_not_canceled),
		cmocka_unit_test(selftest_is_not_canceled),
		cmocka_unit_test(visits_are_not_canceled),
		cmocka_unit_test(late_requests_are_deferred),
		cmocka_unit_test(regions_are_closed_as_a_whole),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

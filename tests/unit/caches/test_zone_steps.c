/* SPDX-License-Identifier: MIT */
/*
 * test_zone_steps.c - another thread acts in a zone between a load and the store that relies on it,
 * or moves or delays a visitor. In most tests the same thread does so, at the step between the
 * two.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/freebsd.h>

#include "steps.h"
#include "../happen.h"
#include "../later.h"
#include "../zone.h"

#include "caches/caches.h"

#define MANY 200 /* items, more than a CPU's cache holds */

static struct percpu_zone *zone;
static void *items[MANY];

/* If sleeps_for_good is set, a waiting thread sleeps until it is woken, without a time-out. */

void __real_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

static bool sleeps_for_good;
static unsigned sleeps[2]; /* how often each waiter for room has slept; atomic */
static _Thread_local unsigned who;

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	__atomic_fetch_add(&sleeps[who], 1, __ATOMIC_SEQ_CST);
	__real_percpu_futex_sleep(word, operation, value, sleeps_for_good ? 0 : ns);
}

void __real_percpu_futex_rouse(uint32_t *word, int operation, int how_many);
void __wrap_percpu_futex_rouse(uint32_t *word, int operation, int how_many);

static _Thread_local void (*when_roused)(void); /* called after the thread has woken another */

void __wrap_percpu_futex_rouse(uint32_t *word, int operation, int how_many)
{
	__real_percpu_futex_rouse(word, operation, how_many);
	if (when_roused != NULL)
		when_roused();
}

static void take_another(void)
{
	items[1] = take(zone, 0);
}

static void a_limit_holds_for_two_at_once(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 1 };

	(void)state;
	zone = make(8, &o);
	let_happen(take_another, "pool: limit read", 1);
	assert_int_equal(percpu_zone_alloc(zone, 0, &items[0]), -ENOSPC);
	assert_int_equal(times, 0);
	assert_int_equal(stats_of(zone).used, 1);
	assert_int_equal(percpu_zone_free(zone, items[1]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

static void lower_limit(void)
{
	percpu_zone_set_limit(zone, 1);
}

static void nothing_is_kept_above_a_lowered_limit(void **state)
{
	(void)state;
	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	let_happen(lower_limit, "pool: to be put away", 1);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(times, 0);
	assert_in_range(stats_of(zone).cached, 0, 1);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* A thread begins to wait after a free has read room. When it sleeps it has searched the arrays
 * already, so the free has to find it. */

static pthread_t waiter;

static void *wait_for_item(void *arg)
{
	void *item;

	test_child_require(percpu_zone_alloc(zone, PERCPU_ZONE_WAIT, &item) == 0, "alloc");
	test_child_require(percpu_zone_free(zone, item) == 0, "free");
	return arg;
}

static void begin_to_wait(void)
{
	test_child_require(pthread_create(&waiter, NULL, wait_for_item, NULL) == 0, "a thread");
	while (stats_of(zone).waits == 0)
		test_sleep_us(1000);
	test_sleep_us(20000);
}

static int free_before_a_waiter(void *arg)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = 1 };

	(void)arg;
	sleeps_for_good = true;
	test_child_require(percpu_zone_create("test", 8, &o, &zone) == 0, "create");
	test_child_require(percpu_zone_alloc(zone, 0, &items[0]) == 0, "the only item");
	let_happen(begin_to_wait, "zone: room read", 1);
	test_child_require(percpu_zone_free(zone, items[0]) == 0 && times == 0, "free");
	pthread_join(waiter, NULL);
	return percpu_zone_destroy(zone) != 0;
}

static void those_who_wait_are_found(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(free_before_a_waiter, NULL), 60), 0);
}

/* A region is full below the limit. A waiter that cannot make an item does not give the right to
 * make one to another waiter. */

static ssize_t make_nothing(void *owner, void *how, void **ret, size_t n);
static size_t unmake_nothing(void *owner, void *const *some, size_t n);

static void reclaim_nothing(void *owner)
{
	(void)owner;
}

static const struct percpu_pool_backend nothing = { make_nothing, unmake_nothing, reclaim_nothing };
static struct percpu_pool pool = { .backend = &nothing, .owner = &pool, .limit = 10 };
/* How often the first waiter has tried to make an item, now (atomic), and when the second fails. */
static unsigned tries, tries_before;
static bool has_room;  /* atomic */
static bool keeps_all; /* the backend unmakes no item */

static void await(const unsigned *count, unsigned n)
{
	while (__atomic_load_n(count, __ATOMIC_SEQ_CST) < n)
		test_sleep_us(100);
}

static ssize_t make_nothing(void *owner, void *how, void **ret, size_t n)
{
	(void)how, (void)n;
	*ret = owner;
	if (__atomic_load_n(&has_room, __ATOMIC_SEQ_CST))
		return 1;
	if (who == 0) {
		/* The second waiter, which woke this one, gives itself the right next. */
		if (__atomic_fetch_add(&tries, 1, __ATOMIC_SEQ_CST) == 1)
			while (percpu_pool_has_waiters(&pool))
				test_sleep_us(100);
	} else {
		await(&pool.waiters, 1); /* the first waiter is back in the queue */
		tries_before = __atomic_load_n(&tries, __ATOMIC_SEQ_CST);
	}
	return -ENOSPC;
}

static size_t unmake_nothing(void *owner, void *const *some, size_t n)
{
	(void)owner, (void)some;
	return keeps_all ? 0 : n;
}

static pid_t room_waiters[2]; /* atomic */

static void *wait_for_room(void *arg)
{
	void *item;

	who = arg != NULL;
	__atomic_store_n(&room_waiters[who], (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
	test_child_require(percpu_pool_wait(&pool, NULL, &item) == 0, "wait");
	return arg;
}

static unsigned served;

/* Wait until a waiter that was served is back in the queue. After 5 times, make room instead. */
static void await_return(void)
{
	if (++served > 5)
		__atomic_store_n(&has_room, true, __ATOMIC_SEQ_CST);
	else
		await(&pool.waiters, 2);
}

/* Wait until the waiter sleeps. If it only goes to sleep, the wake of another one may come when it has
 * looked, found nothing, and sleeps once more: then it looks again. */
static void await_sleep(unsigned i)
{
	char path[64], state = ' ';
	FILE *f;

	await(&sleeps[i], 1);
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat",
		 __atomic_load_n(&room_waiters[i], __ATOMIC_SEQ_CST));
	while (state != 'S') {
		test_sleep_us(100);
		f = fopen(path, "re");
		test_child_require(f != NULL && fscanf(f, "%*d %*s %c", &state) == 1, path);
		fclose(f);
	}
}

static int wait_in_a_full_region(void *arg)
{
	static uint64_t room;
	pthread_t waiters[2];
	void *item;

	(void)arg;
	sleeps_for_good = true;
	percpu_pool_init(&pool, &room);
	for (unsigned i = 0; i < 2; i++) {
		test_child_require(pthread_create(&waiters[i], NULL, wait_for_room,
						  i == 0 ? NULL : &pool) == 0,
				   "a thread");
		await_sleep(i);
	}
	test_child_require(__atomic_load_n(&pool.waiters, __ATOMIC_SEQ_CST) == 2, "both wait");
	test_child_require(__atomic_load_n(&tries, __ATOMIC_SEQ_CST) == tries_before, "no try");
	when_roused = await_return;
	(void)percpu_pool_serve_waiters(&pool);
	when_roused = NULL;
	test_child_require(served == 2, "two are served, of two");
	/* Without a limit percpu_pool_get() tries to make an item in spite of waiters. */
	percpu_pool_set_limit(&pool, 0);
	await(&pool.waiters, 2);
	test_child_require(percpu_pool_get(&pool, NULL, &item) == -ENOSPC, "no room");
	await(&pool.waiters, 2);
	__atomic_store_n(&has_room, true, __ATOMIC_SEQ_CST);
	(void)percpu_pool_serve_waiters(&pool);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(waiters[i], NULL);
	test_child_require(pool.taken == 2, "two items");
	/* An item that cannot be unmade stays taken, and the put returns an error. */
	percpu_pool_set_limit(&pool, 1);
	keeps_all = true;
	test_child_require(percpu_pool_put(&pool, &pool) == -ETIMEDOUT, "not unmade");
	test_child_require(pool.taken == 2, "it is there");
	keeps_all = false;
	test_child_require(percpu_pool_put(&pool, &pool) == 0 && pool.taken == 1, "unmade");
	percpu_pool_fini(&pool);
	return 0;
}

static void those_who_wait_for_room_sleep(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(wait_in_a_full_region, NULL), 60), 0);
}

/* While denied is set, all threads but the main one get no fence. */

static bool denied; /* atomic */
static _Thread_local bool is_main;

int __real_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu)
{
	return !is_main && __atomic_load_n(&denied, __ATOMIC_SEQ_CST) ?
		       -EPERM :
		       __real_percpu_barrier_cpu(cpu);
}

/* A thread that waits for an item. */
struct item_waiter {
	pthread_t thread;
	void *item;
	int result;
	uint32_t is_back; /* atomic */
};

static struct item_waiter waiting[2];

static void *get_item(void *arg)
{
	struct item_waiter *w = arg;

	test_child_require(test_cpus() < 2 || test_pin(0, test_cpu(1)), "another CPU");
	w->result = percpu_zone_alloc(zone, PERCPU_ZONE_WAIT, &w->item);
	__atomic_store_n(&w->is_back, 1, __ATOMIC_SEQ_CST);
	return NULL;
}

static void let_wait(unsigned i)
{
	waiting[i] = (struct item_waiter){ .result = 1 };
	test_child_require(pthread_create(&waiting[i].thread, NULL, get_item, &waiting[i]) == 0,
			   "a thread");
}

/* Let a thread wait, until it has found nothing and sleeps. */
static void let_sleep(unsigned i)
{
	const unsigned n = __atomic_load_n(&sleeps[0], __ATOMIC_SEQ_CST);

	let_wait(i);
	await(&sleeps[0], n + 1);
}

static int end_wait(unsigned i)
{
	pthread_join(waiting[i].thread, NULL);
	return waiting[i].result;
}

static void make_limited(size_t limit)
{
	struct percpu_zone_options o = { .size = sizeof(o), .limit = limit };

	is_main = true;
	test_child_require(test_pin(0, test_cpu(0)), "a CPU");
	test_child_require(percpu_zone_create("test", 8, &o, &zone) == 0, "create");
	for (size_t i = 0; i < limit; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "an item");
}

/* Push the item as a free does that has read room before a thread began to wait. */
static void push_late(void *item)
{
	while (percpu_local_push(zone->pool.arrays, PERCPU_ZONE_CACHE, item) != 0)
		;
}

static void let_second_give_up(void)
{
	let_wait(1);
	pthread_join(waiting[1].thread, NULL);
}

static uint32_t second_is_there;

static void hold_second(void)
{
	__atomic_store_n(&second_is_there, 1, __ATOMIC_SEQ_CST);
	await(&waiting[0].is_back, 1);
}

static void let_second_be_last(void)
{
	let_happen(hold_second, "pool: to leave the queue", 1);
	let_wait(1);
	await(&second_is_there, 1);
}

static void allow_fences(void)
{
	__atomic_store_n(&denied, false, __ATOMIC_SEQ_CST);
	percpu_zone_set_limit(zone, 1); /* looks for waiters */
}

/* A thread that cannot take items from another CPU's array leaves the queue with an error. The
 * waiters leave in one order or the other, or the first one is served at the last moment. */
static int wait_without_fences(void *arg)
{
	static void (*const meanwhile[])(void) = { let_second_give_up, let_second_be_last,
						   allow_fences };
	const unsigned how = *(unsigned *)arg;
	void *item;

	make_limited(1);
	__atomic_store_n(&denied, true, __ATOMIC_SEQ_CST);
	let_wait(0);
	await(&zone->pool.waiters, 1);
	let_happen(meanwhile[how], "pool: to leave the queue", 1);
	push_late(items[0]);
	test_child_require(end_wait(0) == (how == 2 ? 0 : -EPERM), "the first");
	if (how == 1)
		pthread_join(waiting[1].thread, NULL);
	test_child_require(how == 2 || waiting[1].result == -EPERM, "the second");
	test_child_require(zone->pool.waiters == 0 && zone->pool.first == NULL &&
				   zone->pool.last == NULL,
			   "nobody waits");
	if (how != 2)
		test_child_require(percpu_zone_alloc(zone, 0, &item) == 0, "alloc");
	test_child_require(how == 2 ? waiting[0].item == items[0] : item == items[0], "the item");
	test_child_require(percpu_zone_free(zone, items[0]) == 0, "free");
	return percpu_zone_destroy(zone);
}

static void who_may_not_look_waits_no_more(void **state)
{
	(void)state;
	if (test_cpus() < 2)
		test_skip("there is no array of another CPU");
	for (unsigned how = 0; how < 3; how++)
		assert_int_equal(test_wait(test_fork(wait_without_fences, &how), 60), 0);
}

static void free_second(void)
{
	test_child_require(percpu_zone_free(zone, items[1]) == 0, "free");
}

static void do_nothing(int signo)
{
	(void)signo;
}

/* Let the waiter look once more, and sleep again. */
static void look_again(unsigned i)
{
	const struct sigaction interrupt = { .sa_handler = do_nothing };
	const unsigned n = __atomic_load_n(&sleeps[0], __ATOMIC_SEQ_CST);

	test_child_require(sigaction(SIGUSR1, &interrupt, NULL) == 0, "sigaction");
	while (__atomic_load_n(&sleeps[0], __ATOMIC_SEQ_CST) <= n &&
	       !__atomic_load_n(&waiting[i].is_back, __ATOMIC_SEQ_CST)) {
		pthread_kill(waiting[i].thread, SIGUSR1);
		test_sleep_us(1000);
	}
}

/* The only free item is in an array that the waiter may not look at, and there is room for another
 * item: it makes one. */
static int wait_with_room(void *arg)
{
	(void)arg;
	sleeps_for_good = true;
	make_limited(1);
	__atomic_store_n(&denied, true, __ATOMIC_SEQ_CST);
	let_sleep(0);
	__atomic_store_n(&zone->pool.limit, 2, __ATOMIC_SEQ_CST);
	push_late(items[0]);
	look_again(0);
	test_child_require(end_wait(0) == 0, "served");
	test_child_require(waiting[0].item != items[0], "an item of its own");
	test_child_require(stats_of(zone).cached == 1 && stats_of(zone).used == 1, "two items");
	test_child_require(percpu_zone_free(zone, waiting[0].item) == 0, "free");
	return percpu_zone_destroy(zone);
}

static void who_may_not_look_makes_an_item(void **state)
{
	(void)state;
	if (test_cpus() < 2)
		test_skip("there is no array of another CPU");
	assert_int_equal(test_wait(test_fork(wait_with_room, NULL), 60), 0);
}

/* A thread finds an item for a waiter, but a free serves the waiter first. The item is kept. */
static int wait_for_either(void *arg)
{
	(void)arg;
	sleeps_for_good = true;
	make_limited(2);
	let_sleep(0);
	/* No waiter is served above a lowered limit. */
	percpu_zone_set_limit(zone, 1);
	push_late(items[0]);
	look_again(0);
	test_child_require(__atomic_load_n(&zone->pool.waiters, __ATOMIC_SEQ_CST) == 1, "waits");
	__atomic_store_n(&zone->pool.limit, 2, __ATOMIC_SEQ_CST);
	let_happen(free_second, "pool: item found", 1);
	percpu_zone_set_limit(zone, 2);
	test_child_require(times == 0 && end_wait(0) == 0, "served");
	test_child_require(waiting[0].item == items[1], "by the free");
	test_child_require(stats_of(zone).cached == 1 && stats_of(zone).used == 1, "one is kept");
	test_child_require(percpu_zone_free(zone, items[1]) == 0, "free");
	return percpu_zone_destroy(zone);
}

/* Let the waiter that was served free its item, and wait again, a few times. */
static void free_and_wait_again(void)
{
	if (++served > 5)
		return;
	test_child_require(end_wait(0) == 0, "served");
	let_sleep(0);
	push_late(items[0]);
}

/* A thread that serves waiters does not serve those that come meanwhile. */
static int serve_who_comes_back(void *arg)
{
	(void)arg;
	sleeps_for_good = true;
	make_limited(1);
	let_sleep(0);
	push_late(items[0]);
	when_roused = free_and_wait_again;
	percpu_zone_set_limit(zone, 1);
	when_roused = NULL;
	test_child_require(served == 1, "one is served, of one");
	percpu_zone_set_limit(zone, 1);
	test_child_require(end_wait(0) == 0, "served by the next call");
	test_child_require(percpu_zone_free(zone, items[0]) == 0, "free");
	return percpu_zone_destroy(zone);
}

static void who_comes_back_waits(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(serve_who_comes_back, NULL), 60), 0);
}

/* There is room to make an item for a waiter, but a free serves the waiter first. The room is
 * kept. */
static int wait_for_room_or_free(void *arg)
{
	void *item = NULL;

	(void)arg;
	sleeps_for_good = true;
	make_limited(2);
	let_wait(0);
	await(&zone->pool.waiters, 1);
	let_happen(free_second, "pool: room found", 1);
	percpu_zone_set_limit(zone, 3);
	test_child_require(times == 0 && end_wait(0) == 0, "served");
	test_child_require(waiting[0].item == items[1], "by the free");
	test_child_require(percpu_zone_alloc(zone, 0, &item) == 0, "an item takes the room");
	test_child_require(stats_of(zone).used == 3 && stats_of(zone).cached == 0, "all in use");
	test_child_require(percpu_zone_free(zone, item) == 0, "free");
	test_child_require(percpu_zone_free(zone, items[0]) == 0, "free");
	test_child_require(percpu_zone_free(zone, items[1]) == 0, "free");
	return percpu_zone_destroy(zone);
}

/* A free sees a waiter, but another free serves it first. The item is kept. */
static int free_for_one_waiter(void *arg)
{
	(void)arg;
	sleeps_for_good = true;
	make_limited(2);
	let_wait(0);
	await(&zone->pool.waiters, 1);
	let_happen(free_second, "pool: waiters seen", 1);
	test_child_require(percpu_zone_free(zone, items[0]) == 0, "free");
	test_child_require(times == 0 && end_wait(0) == 0, "served");
	test_child_require(waiting[0].item == items[1], "by the other free");
	test_child_require(stats_of(zone).cached == 1 && stats_of(zone).used == 1, "one is kept");
	test_child_require(percpu_zone_free(zone, items[1]) == 0, "free");
	return percpu_zone_destroy(zone);
}

static void what_was_found_for_nobody_is_kept(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(free_for_one_waiter, NULL), 60), 0);
	assert_int_equal(test_wait(test_fork(wait_for_either, NULL), 60), 0);
	assert_int_equal(test_wait(test_fork(wait_for_room_or_free, NULL), 60), 0);
}

static void free_all(void)
{
	for (unsigned i = 0; i < MANY; i++)
		test_child_require(percpu_zone_free(zone, items[i]) == 0, "free");
}

/* This thread finds the limit reached. Meanwhile another one puts items into the depot: found. */
static int get_what_was_put_away(void *arg)
{
	void *item = NULL;

	(void)arg;
	make_limited(MANY);
	let_happen(free_all, "pool: limit read", 1);
	test_child_require(percpu_zone_alloc(zone, 0, &item) == 0 && times == 0, "an item");
	test_child_require(percpu_zone_free(zone, item) == 0, "free");
	return percpu_zone_destroy(zone);
}

static void what_was_put_away_meanwhile_is_found(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(get_what_was_put_away, NULL), 60), 0);
}

/* A fork happens while another thread reclaims. That reclaim never ends in the child. */

static bool reclaiming, reclaimed; /* atomic */

static void stop_reclaiming(void)
{
	__atomic_store_n(&reclaiming, true, __ATOMIC_SEQ_CST);
	while (!__atomic_load_n(&reclaimed, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
}

static void *reclaim_zone(void *arg)
{
	(void)percpu_zone_reclaim(zone);
	return arg;
}

static int store_after_free(void *arg)
{
	(void)arg;
	test_child_require(dup2(open("/dev/null", O_WRONLY), STDERR_FILENO) >= 0, "be quiet");
	test_child_require(percpu_zone_free(zone, items[0]) == 0, "free");
	*(uint64_t *)items[0] = 1;
	for (unsigned i = 1; i < MANY; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "alloc");
	return 0;
}

static void children_check_what_a_reclaim_left(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	pthread_t thread;
	int status;

	(void)state;
	zone = make(8, &o);
	items[0] = take(zone, 0);
	let_happen(stop_reclaiming, "zone: poison forgotten", 1);
	assert_int_equal(pthread_create(&thread, NULL, reclaim_zone, NULL), 0);
	while (!__atomic_load_n(&reclaiming, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	status = test_wait(test_fork(store_after_free, NULL), 60);
	__atomic_store_n(&reclaimed, true, __ATOMIC_SEQ_CST);
	pthread_join(thread, NULL);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

static void free_half(void)
{
	for (unsigned i = MANY / 2; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
}

static void take_half(void)
{
	for (unsigned i = MANY / 2; i < MANY; i++)
		items[i] = take(zone, 0);
}

static void expect_all_distinct(void)
{
	for (unsigned i = 0; i < MANY; i++)
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(items[i], items[j]);
}

/* Half of the items are freed, or taken, while the depot moves other items. */
static void shelves_are_for_one_at_a_time(void **state)
{
	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	let_happen(free_half, "depot: items put", 1);
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(times, 0);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	expect_all_distinct();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	let_happen(take_half, "depot: items taken", 1);
	for (unsigned i = 0; i < MANY / 2; i++)
		items[i] = take(zone, 0);
	assert_int_equal(times, 0);
	expect_all_distinct();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
	test_unpin(0);
}

/* Items come from the depot, but the array is full meanwhile: they go back to the depot. */
static void arrays_may_be_full_meanwhile(void **state)
{
	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	zone = make(8, NULL);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	for (unsigned i = 0; i < MANY / 2; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	let_happen(free_half, "depot: items taken", 1);
	for (unsigned i = 0; i < MANY; i++)
		items[i] = take(zone, 0);
	assert_int_equal(times, 0);
	expect_all_distinct();
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(percpu_zone_free(zone, items[i]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0); /* no item is lost */
	test_unpin(0);
}

#define PAGES 8

static void free_pages(void)
{
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_free(zone, items[i]) == 0, "free");
}

/* Items are freed during a reclaim. Their pages are given back, and contain zeros then. */
static int free_while_reclaiming(void *arg)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };

	(void)arg;
	test_child_require(percpu_zone_create("test", 4096, &o, &zone) == 0, "create");
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "alloc");
	let_happen(free_pages, "zone: poison forgotten", 1);
	test_child_require(percpu_zone_reclaim(zone) > 0 && times == 0, "gives pages back");
	for (unsigned i = 0; i < PAGES; i++)
		test_child_require(percpu_zone_alloc(zone, 0, &items[i]) == 0, "alloc again");
	return 0;
}

static void poison_may_go_with_its_page(void **state)
{
	(void)state;
	test_in_child(free_while_reclaiming, NULL);
}

/* Visits */

static unsigned pins; /* how often a visitor is sent to a CPU */

static unsigned calls[PERCPU_MAX_CPUS], elsewhere, open_to_signals;

static void go_elsewhere(void)
{
	(void)test_pin(0, test_cpu(1));
}

static void count_call(void *cell, unsigned cpu, void *arg)
{
	sigset_t blocked;

	(void)arg;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	open_to_signals += sigismember(&blocked, SIGTERM) == 0;
	calls[cpu]++;
	elsewhere += sched_getcpu() != (int)cpu || cell != percpu_zone_get(items[0], cpu);
}

/* A visitor that another thread moves is sent again. */
static void moved_visitors_come_back(void **state)
{
	struct percpu_fence_report r;

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	zone = make(8, NULL);
	items[0] = take(zone, 0);
	let_happen(go_elsewhere, "visit: asked", 4);
	pins = 0;
	assert_int_equal(
		percpu_zone_run(zone, items[0], count_call, NULL, UINT64_C(20000000000), &r), 0);
	at_step = NULL;
	assert_true(times < 4); /* the visitor may be at the step twice before it has a request */
	/* Few pins are needed, because each one wakes a visitor that sleeps elsewhere. */
	assert_in_range(pins, test_cpus(), 500 + 10 * test_cpus());
	assert_int_equal(elsewhere, 0);
	assert_int_equal(open_to_signals, 0);
	for (unsigned i = 0; i < test_cpus(); i++)
		assert_int_equal(calls[test_cpu(i)], 1);
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* Each CPU has a share of the time, the last one all that is left, so no later share can help. */
static void moved_visitors_come_back_in_the_same_share(void **state)
{
	struct percpu_fence_report r;
	const unsigned cpu = test_cpu(0);

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	let_happen(go_elsewhere, "visit: asked", 4);
	assert_int_equal(percpu_visit(cpu, cpu + 1, NULL, NULL, UINT64_C(20000000000), &r), 0);
	at_step = NULL;
	assert_true(times < 4);
	assert_int_equal(r.fenced, 1);
	assert_int_equal(r.unfenced, 0);
}

/* One CPU is refused to the process, and on the others the visitor comes too late. The call returns
 * the refusal, because more time would not change it. */

int __real_percpu_pin(pid_t tid, unsigned cpu);
int __wrap_percpu_pin(pid_t tid, unsigned cpu);

static unsigned refused = UINT32_MAX;
static unsigned refusals; /* atomic */

static __thread bool pinning;

int __wrap_percpu_pin(pid_t tid, unsigned cpu)
{
	int e = -EPERM;

	pins++;
	if (cpu == refused) {
		__atomic_fetch_add(&refusals, 1, __ATOMIC_RELAXED);
	} else {
		pinning = true;
		e = __real_percpu_pin(tid, cpu);
		pinning = false;
	}
	return e;
}

static bool over; /* atomic: the call no longer waits for a visit, and lets the visitor go */

int __real_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	if (tid != 0 && !pinning)
		__atomic_store_n(&over, true, __ATOMIC_RELEASE);
	return __real_sched_setaffinity(tid, size, set);
}

static bool kept; /* a visitor was not let go, so later ones do not wait for that */

static void be_too_late(void)
{
	for (int i = 0; i < 60000 && !kept && !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++)
		test_sleep_us(1000);
}

#define LONG_TIME UINT64_C(20000000000)

/* Let time pass faster once the visitor is there: the share of one CPU of two, and the rest when
 * the call has asked for the refused CPU. */
static void let_time_go_by(void)
{
	for (unsigned i = 0; i < 60000 && !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
		if (i < 120 || __atomic_load_n(&refusals, __ATOMIC_RELAXED) != 0)
			let_pass(LONG_TIME / 200);
		test_sleep_us(1000);
	}
}

static void refusals_are_told_rather_than_lateness(void **state)
{
	struct percpu_fence_report r;
	int e;

	(void)state;
	if (test_cpus() < 2)
		test_skip("needs two CPUs");
	zone = make(8, NULL);
	items[0] = take(zone, 0);
	for (int runs = 0; runs < 3; runs++) {
		refused = test_cpu(runs == 2); /* in the last run a late CPU has a lower number */
		over = false;
		refusals = 0;
		let_happen(let_time_go_by, "visit: asked", 1);
		e = runs ? percpu_zone_run(zone, items[0], count_call, NULL, LONG_TIME, &r) :
			   percpu_fence_all(LONG_TIME, &r);
		assert_int_equal(times, 0);
		assert_int_equal(e, -EPERM);
		assert_in_range(r.unfenced, 2, test_cpus());
		assert_int_equal(r.first_unfenced, test_cpu(0));
	}
	refused = UINT32_MAX;
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

void __real_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);

static _Thread_local uint64_t longest_ns; /* the longest single sleep that the thread asked for */

void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	longest_ns = ns > longest_ns ? ns : longest_ns;
	__real_percpu_futex_wait(word, value, ns);
}

/* The call waits for a visitor until the time is over, even if that is before its next check of
 * where the visitor is. */
static void short_times_are_kept(void **state)
{
	const uint64_t timeout = 8000000;

	(void)state;
	for (int runs = 0; runs < 3; runs++) {
		over = false;
		longest_ns = 0;
		let_happen(be_too_late, "visit: asked", 1);
		assert_int_not_equal(percpu_fence_all(timeout, NULL), 0);
		at_step = NULL; /* the visitor may not have come to the step */
		assert_in_range(longest_ns, 0, timeout);
	}
}

/* Stay as long as a visitor on a CPU that a real-time thread keeps for a long time. */
static void be_kept_off(void)
{
	for (int i = 0; i < 20000 && !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
		let_pass(LONG_TIME / 200);
		test_sleep_us(1000);
	}
	kept = !__atomic_load_n(&over, __ATOMIC_ACQUIRE);
}

/* A call that waits for the end of a visitor lets the visitor run on other CPUs. */
static void late_visitors_may_leave(void **state)
{
	(void)state;
	over = false;
	let_happen(be_kept_off, "visit: asked", 1);
	assert_int_equal(percpu_fence_all(LONG_TIME, NULL), -ETIMEDOUT);
	assert_int_equal(times, 0);
	assert_true(over);
}

static struct {
	unsigned calls[PERCPU_MAX_CPUS];
	unsigned moved; /* during a call */
} slow;

static void dawdle(void *cell, unsigned cpu, void *arg)
{
	(void)cell;
	(void)arg;
	slow.calls[cpu]++;
	test_sleep_us(5000);
	slow.moved += sched_getcpu() != (int)cpu;
}

static uint64_t seed = 1;

static void be_late(void)
{
	test_sleep_us((unsigned)(test_random(&seed) % 4000));
}

/* A visitor may be late at each step: the report says which calls were made. */
static void late_visits_are_none(void **state)
{
	struct percpu_fence_report r;
	uint64_t ran;
	unsigned late = 0;
	int e;

	(void)state;
	zone = make(8, NULL);
	items[0] = take(zone, 0);
	for (unsigned i = 0; i < 100; i++) {
		memset(&slow, 0, sizeof(slow));
		let_happen(be_late, "visit: there", 1000);
		e = percpu_zone_run(zone, items[0], dawdle, NULL, 1000000 + i * 100000, &r);
		at_step = NULL;
		assert_true(e == 0 || e == -ETIMEDOUT);
		late += e != 0;
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++) {
			ran = !(r.unfenced_cpus[cpu / 64] >> cpu % 64 & 1);
			assert_int_equal(slow.calls[cpu], ran);
		}
		assert_int_equal(slow.moved, 0);
	}
	assert_true(late > 0);
	assert_int_equal(percpu_zone_free(zone, items[0]), 0);
	assert_int_equal(percpu_zone_destroy(zone), 0);
}

/* Two threads make the first zone of one size at the same time: they share one zone and guard. */

static struct uma_zone *first;

static void make_first(void)
{
	first = percpu_freebsd_pcpu_zone(8);
}

static int make_both(void *arg)
{
	struct uma_zone *mine;
	void *item;

	(void)arg;
	let_happen(make_first, "section: guard made", 1);
	mine = percpu_freebsd_pcpu_zone(8);
	test_child_require(first != NULL && mine == first, "one zone");
	item = uma_zalloc(mine, M_WAITOK);
	test_child_require(item != NULL, "an item");
	zpcpu_add_protected((int64_t *)item, 5);
	uma_zfree(mine, item);
	return 0;
}

static void the_first_zone_is_made_once(void **state)
{
	(void)state;
	test_in_child(make_both, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_limit_holds_for_two_at_once),
		cmocka_unit_test(nothing_is_kept_above_a_lowered_limit),
		cmocka_unit_test(those_who_wait_are_found),
		cmocka_unit_test(those_who_wait_for_room_sleep),
		cmocka_unit_test(who_may_not_look_waits_no_more),
		cmocka_unit_test(who_may_not_look_makes_an_item),
		cmocka_unit_test(what_was_found_for_nobody_is_kept),
		cmocka_unit_test(who_comes_back_waits),
		cmocka_unit_test(what_was_put_away_meanwhile_is_found),
		cmocka_unit_test(children_check_what_a_reclaim_left),
		cmocka_unit_test(shelves_are_for_one_at_a_time),
		cmocka_unit_test(arrays_may_be_full_meanwhile),
		cmocka_unit_test(poison_may_go_with_its_page),
		cmocka_unit_test(moved_visitors_come_back),
		cmocka_unit_test(moved_visitors_come_back_in_the_same_share),
		cmocka_unit_test(late_visitors_may_leave),
		cmocka_unit_test(refusals_are_told_rather_than_lateness),
		cmocka_unit_test(short_times_are_kept),
		cmocka_unit_test(late_visits_are_none),
		cmocka_unit_test(the_first_zone_is_made_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

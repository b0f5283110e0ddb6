/* SPDX-License-Identifier: MIT */
/*
 * test_ring_shared.c - rings in a file: found, read from outside, left by processes that were
 * killed under a lock, damaged, and older than the machine's boot.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/percpu.h>
#include <percpu/ring.h>

#include "steps.h"
#include "support.h"
#include "../ring.h"

#include "rings/rings.h"

#define SMALL PERCPU_RING_MIN
#define FIT (SMALL / 32) /* records of 8 bytes */
#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)

static struct percpu_region *region, *outside;
static struct percpu_ring *seen;
static struct percpu_ring_reader *reader;
static struct percpu_ring_record record;

/* The step at which this process stops for good, to be killed. */
static const char *deadly;
static uint32_t *reached;

/* Run in another process when this one has created its object, and not set the root. */
static int (*second)(void *arg);
static pid_t second_pid;

static void (*between)(void);
static const char *between_at;

void test_step(const char *name)
{
	int (*fn)(void *) = second;
	void (*other)(void) = between;

	if (other != NULL && strcmp(name, between_at) == 0) {
		between = NULL;
		other();
	}

	if (fn != NULL && strcmp(name, "root: object created") == 0) {
		second = NULL;
		second_pid = test_fork(fn, NULL);
		while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
			test_sleep_us(100);
		test_sleep_us(50000);
	}
	if (deadly == NULL || strcmp(name, deadly) != 0)
		return;
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
}

static const char *file(void)
{
	static unsigned n;
	static char name[16];

	name[0] = (char)('a' + n++ % 26);
	name[1] = (char)('a' + n / 26);
	return test_path(name);
}

/* Make a ring in a new file, and a reader in a read-only mapping. */
static void begin(unsigned flags)
{
	const char *path = file();

	test_tier();
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(percpu_ring_open(region, 3, SMALL, flags, &ring), 0);
	assert_int_equal(percpu_region_open(path, 0, NULL, &outside), 0);
	assert_int_equal(percpu_ring_attach(outside, percpu_region_root(outside, 3), &seen), 0);
	assert_int_equal(percpu_ring_reader_create(seen, PERCPU_RING_ALL, 0, &reader), 0);
}

static void end(void)
{
	percpu_ring_reader_destroy(reader);
	percpu_ring_detach(seen);
	percpu_region_close(outside);
	percpu_ring_destroy(ring);
	percpu_region_close(region);
	test_unpin(0);
}

static void expect(uint64_t value)
{
	uint64_t got;

	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(record.size, sizeof(got));
	memcpy(&got, record.data, sizeof(got));
	assert_int_equal(got, value);
}

static void rings_are_found(void **state)
{
	struct percpu_counter *c = NULL;
	struct percpu_ring *r = NULL;

	(void)state;
	begin(PERCPU_RING_KEEP);
	assert_int_equal(percpu_ring_open(region, 3, 2 * SMALL, PERCPU_RING_KEEP, &r), -EEXIST);
	assert_int_equal(percpu_ring_open(region, 3, SMALL, 0, &r), -EEXIST);
	assert_int_equal(percpu_ring_open(outside, 4, SMALL, 0, &r), -ENOENT);
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring) + 64, &r), -ENOENT);
	assert_int_equal(percpu_ring_attach(region, 0, &r), -ENOENT);
	assert_int_equal(percpu_ring_create_in(region, PERCPU_LANE_SIZE, 0, &r), -EINVAL);
	assert_int_equal(percpu_ring_create_in(outside, SMALL, 0, &r), -EROFS);
	assert_null(r);
	assert_int_equal(percpu_ring_open(region, 3, SMALL, PERCPU_RING_KEEP, &r), 0);
	assert_int_equal(percpu_ring_longest(r), SMALL / 4);
	percpu_ring_detach(r);
	/* The ring keeps its size and flags. */
	assert_int_equal(percpu_ring_open(region, 3, 0, 0, &r), 0);
	assert_int_equal(percpu_ring_longest(r), SMALL / 4);
	assert_true(r->keep != 0);
	percpu_ring_detach(r);
	assert_int_equal(percpu_ring_open(region, 3, 0, PERCPU_RING_KEEP, &r), -EINVAL);
	assert_int_equal(percpu_ring_open(region, PERCPU_REGION_ROOTS, 0, 0, &r), -EINVAL);
	assert_int_equal(percpu_ring_open(NULL, 3, 0, 0, &r), -EINVAL);
	assert_int_equal(percpu_ring_open(region, 3, 0, 0, NULL), -EINVAL);
	assert_int_equal(percpu_ring_open(region, 4, 0, 0, &r), -ENOENT);
	assert_int_equal(percpu_region_root(region, 4), 0);
	assert_int_equal(percpu_counter_open(region, 4, &c), 0);
	assert_int_equal(percpu_ring_open(region, 4, 0, 0, &r), -EEXIST);
	percpu_counter_detach(c);
	assert_int_equal(percpu_ring_put(seen, "x", 1), -EROFS);
	end();
}

static int put_three(void *arg)
{
	(void)arg;
	return put(1) | put(2) | put_locked(3);
}

static void others_are_read_from_outside(void **state)
{
	(void)state;
	begin(0);
	test_in_child(put_three, NULL);
	assert_int_equal(put(4), 0);
	for (uint64_t n = 1; n <= 4; n++)
		expect(n);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

/* A read-only reader takes nothing. */
static void outsiders_leave_records_there(void **state)
{
	struct percpu_ring_reader *taker;

	(void)state;
	begin(PERCPU_RING_KEEP);
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	for (uint64_t n = 1; n <= FIT; n++)
		expect(n);
	assert_int_equal(put(1), -ENOBUFS);
	assert_int_equal(percpu_ring_dropped(seen), 1);
	assert_int_equal(percpu_ring_reader_create(ring, test_cpu(0), 0, &taker), 0);
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(percpu_ring_read(taker, &record), 0);
	assert_int_equal(put(FIT + 1), 0);
	expect(FIT + 1);
	percpu_ring_reader_destroy(taker);
	end();
}

static int die_in_a_put(void *arg)
{
	int e = put_locked(1) | put_locked(2);

	deadly = arg;
	put_locked(3);
	return e;
}

static int die_in_a_read(void *arg)
{
	struct percpu_ring_reader *taker;

	if (percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &taker) != 0)
		return 1;
	deadly = arg;
	return percpu_ring_read(taker, &record) + 2;
}

static void kill_there(int (*fn)(void *), const char *where)
{
	pid_t pid;

	*reached = 0;
	pid = test_fork(fn, (void *)(uintptr_t)where);
	while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	kill(pid, SIGKILL);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

static void killed_under_the_lock(void **state)
{
	static const char *const steps[] = { "ring: word written", "ring: record written" };

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (unsigned i = 0; i < 2; i++) {
		begin(0);
		kill_there(die_in_a_put, steps[i]);
		assert_int_equal(put_locked(4), 0);
		expect(1);
		expect(2);
		expect(4);
		assert_int_equal(record.number, 3);
		assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
		end();
	}
}

/* Records that a killed reader has copied, and not taken, are taken by the next one. */
static void killed_while_it_takes(void **state)
{
	struct percpu_ring_reader *taker;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	begin(PERCPU_RING_KEEP);
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	kill_there(die_in_a_read, "ring: copied");
	assert_int_equal(put(1), -ENOBUFS);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &taker), 0);
	for (uint64_t n = 1; n <= FIT; n++) {
		assert_int_equal(percpu_ring_read(taker, &record), 0);
		assert_int_equal(record.number, n);
	}
	assert_int_equal(percpu_ring_read(taker, &record), -EAGAIN);
	percpu_ring_reader_destroy(taker);
	end();
}

static int stay_in_a_put(void *arg)
{
	deadly = arg;
	return put_locked(3);
}

/* A read-only reader can only look whether the lock is held. */
static void a_stopped_process_is_told(void **state)
{
	pid_t pid;

	(void)state;
	begin(0);
	*reached = 0;
	pid = test_fork(stay_in_a_put, (void *)(uintptr_t) "ring: record written");
	while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	if (percpu_status()->tier == PERCPU_TIER_RSEQ) {
		assert_int_equal(put(1), 0);
		assert_int_equal(percpu_ring_read(reader, &record), -ETIMEDOUT);
		expect(1); /* until it goes on */
	}
	kill(pid, SIGKILL);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
	end();
}

/* The time that a reader which cannot take the lock waits between two looks at it. No other wait
 * has that length. */
#define PAUSE_NS UINT64_C(1000000)

static void (*while_awaited)(void); /* called instead of the first such wait */

void __real_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	void (*fn)(void) = while_awaited;

	if (fn == NULL || ns != PAUSE_NS) {
		__real_percpu_futex_wait(word, value, ns);
		return;
	}
	while_awaited = NULL;
	fn();
}

static pid_t dying;

static void let_die(void)
{
	kill(dying, SIGKILL);
	assert_int_equal(test_wait(dying, 60), SIGKILL);
}

/* The kernel releases the lock, and the record that was put before is read at once. */
static void nobody_waits_for_a_dead_process(void **state)
{
	(void)state;
	begin(0);
	*reached = 0;
	dying = test_fork(stay_in_a_put, (void *)(uintptr_t) "ring: record written");
	while (!__atomic_load_n(reached, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	if (percpu_status()->tier == PERCPU_TIER_RSEQ) {
		assert_int_equal(put(1), 0);
		while_awaited = let_die;
		expect(1);
		assert_null(while_awaited);
	} else {
		let_die();
	}
	end();
}

static void await_stage(uint32_t stage)
{
	while (__atomic_load_n(reached, __ATOMIC_ACQUIRE) < stage)
		test_sleep_us(100);
}

static void be_in_second_put(void)
{
	__atomic_store_n(reached, 3, __ATOMIC_RELEASE);
	await_stage(4);
}

static void be_in_first_put(void)
{
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	await_stage(2);
	between = be_in_second_put;
}

static int put_twice_slowly(void *arg)
{
	(void)arg;
	between = be_in_first_put;
	between_at = "ring: record written";
	return put_locked(3) | put_locked(4);
}

static void let_first_put_end(void)
{
	__atomic_store_n(reached, 2, __ATOMIC_RELEASE);
	await_stage(3);
}

static void let_second_put_end(void)
{
	__atomic_store_n(reached, 4, __ATOMIC_RELEASE);
}

/* A process that holds the lock at each look, but for different puts, is not stopped. */
static void the_next_put_is_not_awaited(void **state)
{
	pid_t pid;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("this thread would need the lock, too");
	begin(0);
	*reached = 0;
	pid = test_fork(put_twice_slowly, NULL);
	await_stage(1);
	assert_int_equal(put(1), 0);
	while_awaited = let_first_put_end;
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_null(while_awaited);
	assert_int_equal(put(2), 0);
	while_awaited = let_second_put_end;
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	while_awaited = NULL; /* the first round's rest is not waited for */
	let_second_put_end();
	assert_int_equal(test_wait(pid, 60), 0);
	for (unsigned n = 0; n < 2; n++)
		assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

/* Times are between the two moments, whatever the rounding. */
static void times_are_within_bounds(void **state)
{
	const struct percpu_moment from = { 0, 0, 0 }, to = { UINT64_C(1) << 60, 1000, 0 };

	(void)state;
	assert_int_equal(percpu_ring_ns(to.ticks - 1, from, to), 1000);
	assert_int_equal(percpu_ring_ns(to.ticks / 2, from, to), 500);
	assert_int_equal(percpu_ring_ns(1, from, to), 0);
	assert_int_equal(percpu_ring_ns(from.ticks, from, to), from.ns);
	assert_int_equal(percpu_ring_ns(to.ticks, from, to), to.ns);
	assert_int_equal(percpu_ring_ns(UINT64_MAX, from, to), to.ns);
}

/* If the noted time of creation is wrong, all records have the time of now. */
static void times_are_not_behind_now(void **state)
{
	const struct percpu_moment later = { 100, 5000, 0 }, at_once = { 100, 4000, 0 };
	const struct percpu_moment now = { 1000, 4000, 0 }, ahead = { 2000, 100, 0 };

	(void)state;
	assert_int_equal(percpu_ring_ns(3000, ahead, now), now.ns);
	for (uint64_t ticks = 101; ticks <= 1100; ticks++) {
		assert_int_equal(percpu_ring_ns(ticks, later, now), now.ns);
		assert_int_equal(percpu_ring_ns(ticks, at_once, now), now.ns);
	}
}

static int read_without_proc(void *arg)
{
	test_child_require(chroot(arg) == 0 && chdir("/") == 0, "chroot");
	test_child_require(percpu_ring_is_of_this_clock(percpu_ring_control(ring)), "unknown");
	return 0;
}

/* Without /proc, the clock is taken to be the same one. */
static void clocks_that_are_not_known_are_these(void **state)
{
	char nowhere[200];

	(void)state;
	if (geteuid() != 0)
		test_skip("only root changes its root");
	snprintf(nowhere, sizeof(nowhere), "%s", test_path("nowhere"));
	assert_int_equal(mkdir(nowhere, 0700), 0);
	begin(0);
	assert_true(percpu_ring_is_of_this_clock(percpu_ring_control(ring)));
	test_in_child(read_without_proc, nowhere);
	end();
	assert_int_equal(rmdir(nowhere), 0);
}

static void clocks_that_were_not_known_are_these(void **state)
{
	struct percpu_ring_control *c;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	c->timens = 0;
	assert_true(percpu_ring_is_of_this_clock(c));
	c->boot = 0;
	assert_true(percpu_ring_is_of_this_boot(c));
	end();
}

/* Private rings are at no root. A made-up key of one leads to it. */
static void private_rings_are_at_no_root(void **state)
{
	struct percpu_ring *own, *r = NULL;
	struct percpu_region *private;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &private), 0);
	assert_int_equal(percpu_ring_create_in(private, SMALL, 0, &own), 0);
	assert_int_equal(percpu_ring_open(private, 3, 0, 0, &r), -EINVAL);
	assert_int_equal(percpu_ring_key(own), 0);
	assert_int_equal(percpu_ring_attach(private, 0, &r), -ENOENT);
	assert_null(r);
	key = (uint64_t)PERCPU_KIND_RING << PERCPU_KEY_KIND_SHIFT |
	      percpu_region_key(private, own->block.base);
	assert_int_equal(percpu_ring_attach(private, key, &r), 0);
	assert_ptr_equal(r->block.base, own->block.base);
	percpu_ring_detach(r);
	percpu_ring_destroy(own);
	percpu_region_close(private);
}

static int put_where_one_may_not(void *arg)
{
	(void)arg;
	test_child_require(put(1) == 0, "a put"); /* from here on the thread runs sequences */
	test_child_require(percpu_ring_put(seen, "x", 1) == -EROFS, "a put in what is only read");
	return 0;
}

static void nothing_is_put_in_what_is_only_read(void **state)
{
	(void)state;
	begin(0);
	test_in_child(put_where_one_may_not, NULL);
	expect(1);
	end();
}

static int find_them_held(void *arg)
{
	const uint32_t holder = *(uint32_t *)arg;

	for (size_t lane = 0; lane < 2 * (size_t)ring->block.chunk->cpus; lane++)
		test_child_require(percpu_ring_at(ring, lane)->lock == holder &&
					   percpu_ring_at(ring, lane)->consumer == holder,
				   "a lock of another process");
	return 0;
}

/* To a child, a lock holder in a file is another process, which may hold the lock still. */
static void children_free_no_locks_in_files(void **state)
{
	uint32_t holder = (uint32_t)getpid();
	size_t lanes;

	(void)state;
	assert_int_equal(percpu_region_open(file(), CREATE, NULL, &region), 0);
	assert_int_equal(percpu_ring_create_in(region, SMALL, 0, &ring), 0);
	lanes = 2 * (size_t)ring->block.chunk->cpus;
	for (size_t lane = 0; lane < lanes; lane++)
		percpu_ring_at(ring, lane)->lock = percpu_ring_at(ring, lane)->consumer = holder;
	test_in_child(find_them_held, &holder);
	for (size_t lane = 0; lane < lanes; lane++)
		percpu_ring_at(ring, lane)->lock = percpu_ring_at(ring, lane)->consumer = 0;
	percpu_ring_destroy(ring);
	percpu_region_close(region);
}

/* A private ring has no lock that is held when a child is made. The word that says its kind is
 * not taken for one. */
static int find_as_it_was(void *arg)
{
	const struct percpu_ring *own = arg;
	struct percpu_ring *r;
	uint64_t key = (uint64_t)PERCPU_KIND_RING << PERCPU_KEY_KIND_SHIFT |
		       percpu_region_key(own->block.chunk->region, own->block.base);

	test_child_require(percpu_ring_attach(own->block.chunk->region, key, &r) == 0, "attach");
	test_child_require(r->keep != 0 && r->mask == own->mask, "the same layout");
	percpu_ring_detach(r);
	return 0;
}

static void children_find_private_rings_as_they_were(void **state)
{
	struct percpu_region *private;
	struct percpu_ring *own;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &private), 0);
	assert_int_equal(percpu_ring_create_in(private, SMALL, PERCPU_RING_KEEP, &own), 0);
	test_in_child(find_as_it_was, own);
	percpu_ring_destroy(own);
	percpu_region_close(private);
}

/* A region whose lanes have room for one ring. */
static struct percpu_region *narrow;

static int open_narrow(void *arg)
{
	struct percpu_ring *r;

	(void)arg;
	deadly = NULL;
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	test_child_require(percpu_ring_open(narrow, 0, 4096, 0, &r) == 0, "open");
	test_child_require(percpu_ring_put(r, r, 8) == 0, "put");
	return 0;
}

static void who_is_second_waits_for_the_first(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 4096 + 128 };
	struct percpu_ring *r = NULL;

	(void)state;
	assert_int_equal(percpu_region_open(file(), CREATE, &o, &narrow), 0);
	*reached = 0;
	second = open_narrow;
	assert_int_equal(percpu_ring_open(narrow, 0, 4096, 0, &r), 0);
	assert_null(second);
	assert_int_equal(test_wait(second_pid, 60), 0);
	/* There is no room for another ring. */
	assert_int_equal(percpu_ring_open(narrow, 1, 4096, 0, &r), -ENOSPC);
	percpu_ring_detach(r);
	percpu_region_close(narrow);
}

/* Open a ring as a canceled thread: it reads a file, under the lock. */
static void *open_canceled(void *arg)
{
	pthread_cancel(pthread_self());
	if (percpu_ring_open(narrow, 0, 4096, 0, arg) == 0)
		pthread_testcancel();
	return NULL;
}

static void canceled_while_it_opens(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 4096 + 128 };
	struct percpu_ring *r = NULL;
	pthread_t thread;
	void *end;

	(void)state;
	assert_int_equal(percpu_region_open(file(), CREATE, &o, &narrow), 0);
	assert_int_equal(pthread_create(&thread, NULL, open_canceled, &r), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_non_null(r); /* it was opened before the thread ended */
	assert_true(end == PTHREAD_CANCELED);
	percpu_ring_detach(r);
	percpu_region_close(narrow);
}

static int die_while_it_opens(void *arg)
{
	struct percpu_ring *r;

	deadly = arg;
	return percpu_ring_open(narrow, 0, 4096, 0, &r);
}

static void killed_while_it_opens(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 4096 + 128 };
	static const char *const steps[] = { "region: creation noted", "root: object created",
					     "root: set" };
	struct percpu_ring *r = NULL;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(percpu_region_open(file(), CREATE, &o, &narrow), 0);
		kill_there(die_while_it_opens, steps[i]);
		assert_int_equal(percpu_ring_open(narrow, 0, 4096, 0, &r), 0);
		assert_int_equal(percpu_ring_put(r, "x", 1), 0);
		percpu_ring_detach(r);
		percpu_region_close(narrow);
	}
}

static void read_anything(struct percpu_ring_reader *r, unsigned most)
{
	unsigned n = 0;
	int e;

	do
		e = percpu_ring_read(r, &record);
	while ((e == 0 || e == -EBADMSG) && ++n < most);
	assert_true(n < most);
}

/* Replace each word of a ring with records; fewer words if fences take long. */
static void damage_is_told(void **state)
{
	const unsigned cases = 8 * (16 + SMALL / 8);
	const unsigned step = cases / test_rounds(cases) * (1 + test_cpus() / 16) | 1;
	static const uint64_t odd[] = { 0, 1, 9, 65535, 65544, UINT64_MAX, INT64_MIN, SMALL / 8 };
	struct percpu_ring_lane *lane;
	struct percpu_ring_reader *r[4];
	uint64_t *word, good;

	(void)state;
	for (unsigned flags = 0; flags <= PERCPU_RING_KEEP; flags++) {
		begin(flags);
		lane = percpu_ring_at(ring, test_cpu(0));
		for (unsigned i = 0; i < cases; i += step) {
			word = (uint64_t *)lane + i / 8;
			if (word == (uint64_t *)&lane->lock || word == (uint64_t *)&lane->consumer)
				continue;
			for (uint64_t n = 0; n < 5; n++)
				(void)put(n);
			good = *word;
			assert_int_equal(percpu_ring_reader_create(seen, test_cpu(0), 0, &r[0]), 0);
			*word = odd[i % 8];
			for (unsigned k = 1; k < 4; k++)
				assert_int_equal(percpu_ring_reader_create(
							 k == 1 ? seen : ring, PERCPU_RING_ALL,
							 k == 3 ? PERCPU_RING_LOOK : 0, &r[k]),
						 0);
			(void)put(7);
			for (unsigned k = 0; k < 4; k++) {
				read_anything(r[k], 100000);
				percpu_ring_reader_destroy(r[k]);
			}
			*word = good;
			read_anything(reader, 100000);
		}
		end();
	}
}

/* Return the ring that this thread puts to. */
static struct percpu_ring_lane *lane_of_puts(void)
{
	return percpu_ring_at(ring, test_tier() == PERCPU_TIER_RSEQ ?
					    test_cpu(0) :
					    percpu_chunk_choose_lane(ring->block.chunk));
}

static void readers_go_on_behind_damage(void **state)
{
	(void)state;
	for (unsigned word = 4; word <= 7; word += 3) { /* the second record's name */
		begin(0);
		for (uint64_t n = 1; n <= 3; n++)
			assert_int_equal(put(n), 0);
		lane_of_puts()->slot[word] ^= 1 << 17;
		expect(1);
		assert_int_equal(percpu_ring_read(reader, &record), -EBADMSG);
		assert_int_equal(put(4), 0);
		expect(4);
		assert_int_equal(record.lost, 2);
		end();
	}
}

static void numbers_are_one_after_the_other(void **state)
{
	(void)state;
	begin(0);
	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(put(n), 0);
	for (unsigned word = 4; word <= 7; word += 3) /* both names of the second record */
		lane_of_puts()->slot[word] ^= 1 << 17;
	expect(1);
	assert_int_equal(percpu_ring_read(reader, &record), -EBADMSG);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

/* If the end of the ring is moved back, records are not returned again. */
static void readers_do_not_go_back(void **state)
{
	(void)state;
	begin(0);
	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(put(n), 0);
	for (uint64_t n = 1; n <= 3; n++)
		expect(n);
	lane_of_puts()->head -= percpu_ring_words(8);
	assert_int_equal(percpu_ring_read(reader, &record), -EBADMSG);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	assert_int_equal(put(4), 0);
	expect(4);
	end();
}

/* A reader that was overtaken searches back from the end, where there is no whole record. */
static void damage_at_the_end_is_told(void **state)
{
	struct percpu_ring_lane *lane;

	(void)state;
	begin(0);
	for (uint64_t n = 1; n <= 3 * FIT; n++)
		assert_int_equal(put(n), 0);
	lane = lane_of_puts();
	lane->slot[(lane->head - 1) % (SMALL / 8)] ^= 1 << 17;
	assert_int_equal(percpu_ring_read(reader, &record), -EBADMSG);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	assert_int_equal(put(4), 0);
	expect(4);
	end();
}

/* A record with a time in the future is returned with the others. */
static void times_are_not_believed(void **state)
{
	(void)state;
	begin(0);
	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(put(n), 0);
	lane_of_puts()->slot[5] = UINT64_MAX - 7;
	for (uint64_t n = 1; n <= 3; n++)
		expect(n);
	assert_true(record.time <= test_now());
	end();
}

/* Times do not go back even if the time of creation is changed. */
static void times_do_not_go_back(void **state)
{
	uint64_t before;

	(void)state;
	begin(0);
	assert_int_equal(put(1), 0);
	expect(1);
	before = record.time;
	assert_int_equal(put(2), 0);
	percpu_ring_control(ring)->ticks = UINT64_MAX;
	percpu_ring_control(ring)->ns = before / 2;
	expect(2);
	assert_true(record.time >= before);
	end();
}

static void positions_are_not_believed(void **state)
{
	struct percpu_ring_reader *taker;

	(void)state;
	begin(PERCPU_RING_KEEP);
	assert_int_equal(put(1), 0);
	lane_of_puts()->tail = UINT64_MAX - 1000;
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &taker), 0);
	assert_int_equal(percpu_ring_read(taker, &record), -EBADMSG);
	assert_int_equal(percpu_ring_read(taker, &record), -EAGAIN);
	assert_int_equal(put(2), 0);
	assert_int_equal(percpu_ring_read(taker, &record), 0);
	assert_int_equal(record.number, 2);
	/* The same for a ring whose records were all returned: puts fail until it is read. */
	for (uint64_t beyond = 8; beyond <= (uint64_t)1 << 40; beyond <<= 8) {
		lane_of_puts()->tail = lane_of_puts()->head + beyond;
		assert_int_equal(put(3), -ENOBUFS);
		assert_int_equal(percpu_ring_read(taker, &record), -EBADMSG);
		assert_int_equal(percpu_ring_read(taker, &record), -EAGAIN);
		assert_int_equal(put(4), 0);
		assert_int_equal(percpu_ring_read(taker, &record), 0);
		assert_int_equal(percpu_ring_read(taker, &record), -EAGAIN);
	}
	percpu_ring_reader_destroy(taker);
	end();
}

/* The counter has started from zero since. The file says how fast it counted before. */
static void records_of_an_earlier_boot(void **state)
{
	struct percpu_ring_control *c;
	struct percpu_ring *again;
	uint64_t first;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	assert_int_equal(put(1), 0);
	test_sleep_us(20000);
	assert_int_equal(put(2), 0);
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	percpu_ring_detach(again);
	assert_true(c->rate != 0);
	c->boot ^= 1;
	percpu_ring_reader_destroy(reader);
	assert_int_equal(percpu_ring_reader_create(seen, PERCPU_RING_ALL, 0, &reader), 0);
	expect(1);
	first = record.time;
	assert_true(first >= c->ns && first < c->ns + 1000000000);
	expect(2);
	assert_in_range(record.time - first, 19000000, 10000000000);
	/* A writer notes a new begin. */
	first = c->ticks;
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	assert_true(c->ticks > first);
	assert_true(percpu_ring_is_of_this_boot(c));
	percpu_ring_detach(again);
	end();
}

/* The earlier boot may have lasted longer than this one does so far. */
static void records_of_a_longer_boot(void **state)
{
	struct percpu_ring_control *c;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	for (uint64_t n = 1; n <= 2; n++)
		assert_int_equal(put(n), 0);
	c->ticks = UINT64_MAX / 2;
	lane_of_puts()->slot[1] = c->ticks + 1000;
	lane_of_puts()->slot[5] = c->ticks + 2000;
	c->rate = UINT64_C(1) << 32; /* one nanosecond per tick */
	c->boot ^= 1;
	percpu_ring_reader_destroy(reader);
	assert_int_equal(percpu_ring_reader_create(seen, PERCPU_RING_ALL, 0, &reader), 0);
	expect(1);
	assert_int_equal(record.time, c->ns + 1000);
	expect(2);
	assert_int_equal(record.time, c->ns + 2000);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

static void attach_again(void)
{
	struct percpu_ring *again;

	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	percpu_ring_detach(again);
}

static void attach_later(void)
{
	test_sleep_us(300000);
	attach_again();
}

/* Two processes are the first ones after a reboot. What they note is of one moment. */
static void two_after_a_reboot(void **state)
{
	struct percpu_moment now;
	struct percpu_ring_control *c;
	struct percpu_ring *again;
	uint64_t ns;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	c->boot ^= 1;
	ns = percpu_now_ns();
	between_at = "ring: ticks stored";
	between = attach_later;
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	assert_null(between);
	assert_true(percpu_ring_is_of_this_boot(c));
	now = percpu_moment_now();
	assert_true(c->ticks < now.ticks);
	assert_true(c->ns >= ns + 300000000 && c->ns <= now.ns);
	percpu_ring_detach(again);
	end();
}

/* One process notes the moment while the other one computes the rate, which must not use the old
 * moment. */
static void one_anchors_while_one_looks_at_the_rate(void **state)
{
	struct percpu_ring_control *c;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	c->boot ^= 1;
	c->ticks = percpu_moment_now().ticks - 1000;
	c->ns = 1;
	between_at = "ring: rate begun";
	between = attach_again;
	attach_again();
	assert_null(between);
	assert_true(c->rate < UINT64_C(1) << 39); /* 128 ns per tick */
	end();
}

static void expect_rate(uint64_t ticks, uint64_t ns)
{
	struct percpu_ring_control *c = percpu_ring_control(ring);
	const uint64_t before = 12345;

	c->ticks = ticks;
	c->ns = ns;
	c->rate = before;
	attach_again();
	assert_int_equal(c->rate, before);
}

/* The counter was reset, as it may be while the machine is suspended, or the file is damaged: no
 * rate is computed, and the noted one stays. */
static void rates_are_of_time_that_went_by(void **state)
{
	struct percpu_moment now;

	(void)state;
	begin(0);
	now = percpu_moment_now();
	expect_rate(now.ticks + (UINT64_C(1) << 56), now.ns - 1000000000);
	expect_rate(UINT64_MAX, now.ns - 1000000000);
	expect_rate(now.ticks - 1000, now.ns + UINT64_C(1000000000000));
	expect_rate(now.ticks - 1000, UINT64_MAX);
	end();
}

/* A process with another CLOCK_MONOTONIC uses what is noted, and notes nothing. */
static void clocks_of_other_namespaces(void **state)
{
	struct percpu_ring_control *c;
	struct percpu_ring *again;
	uint64_t rate, first;

	(void)state;
	begin(0);
	c = percpu_ring_control(ring);
	if (c->timens == 0)
		test_skip("this kernel has no time namespaces");
	c->timens ^= 1;
	assert_int_equal(put(1), 0);
	test_sleep_us(20000);
	assert_int_equal(put(2), 0);
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	percpu_ring_detach(again);
	assert_int_equal(c->rate, 0);
	c->timens ^= 1;
	assert_int_equal(percpu_ring_attach(region, percpu_ring_key(ring), &again), 0);
	percpu_ring_detach(again);
	rate = c->rate;
	assert_true(rate != 0);
	c->timens ^= 1;
	c->ns += UINT64_C(1000000000000);
	percpu_ring_reader_destroy(reader);
	assert_int_equal(percpu_ring_reader_create(seen, PERCPU_RING_ALL, 0, &reader), 0);
	expect(1);
	first = record.time;
	assert_true(first >= c->ns && first < c->ns + 1000000000);
	expect(2);
	assert_in_range(record.time - first, 19000000, 10000000000);
	end();
}

static int prepare(void **state)
{
	(void)state;
	reached = test_share(sizeof(*reached));
	return 0;
}

/* A fence for the records of one CPU visits that CPU alone. */

static uint32_t visited_first, visited_end;
static bool no_visits; /* whether visits do nothing */

int __real_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg,
			uint64_t timeout_ns, struct percpu_fence_report *ret);
int __wrap_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg,
			uint64_t timeout_ns, struct percpu_fence_report *ret);
int __wrap_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg,
			uint64_t timeout_ns, struct percpu_fence_report *ret)
{
	visited_first = first;
	visited_end = end;
	return no_visits ? 0 : __real_percpu_visit(first, end, fn, arg, timeout_ns, ret);
}

static void readers_of_a_cpu_fence_it(void **state)
{
	struct percpu_ring_reader *one;
	unsigned cpu;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("records are in the lane of no CPU");
	begin(0);
	no_visits = true;
	for (unsigned i = 0; i < test_cpus(); i++) {
		cpu = test_cpu(i);
		test_pin(0, cpu);
		assert_int_equal(percpu_ring_reader_create(seen, cpu, 0, &one), 0);
		assert_int_equal(put(i), 0);
		visited_end = 0;
		assert_int_equal(percpu_ring_read(one, &record), 0);
		assert_int_equal(visited_first, cpu);
		assert_int_equal(visited_end, cpu + 1);
		percpu_ring_reader_destroy(one);
	}
	no_visits = false;
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rings_are_found),
		cmocka_unit_test(others_are_read_from_outside),
		cmocka_unit_test(outsiders_leave_records_there),
		cmocka_unit_test(killed_under_the_lock),
		cmocka_unit_test(killed_while_it_takes),
		cmocka_unit_test(a_stopped_process_is_told),
		cmocka_unit_test(nobody_waits_for_a_dead_process),
		cmocka_unit_test(the_next_put_is_not_awaited),
		cmocka_unit_test(times_are_within_bounds),
		cmocka_unit_test(times_are_not_behind_now),
		cmocka_unit_test(clocks_that_are_not_known_are_these),
		cmocka_unit_test(clocks_that_were_not_known_are_these),
		cmocka_unit_test(private_rings_are_at_no_root),
		cmocka_unit_test(children_find_private_rings_as_they_were),
		cmocka_unit_test(children_free_no_locks_in_files),
		cmocka_unit_test(nothing_is_put_in_what_is_only_read),
		cmocka_unit_test(who_is_second_waits_for_the_first),
		cmocka_unit_test(killed_while_it_opens),
		cmocka_unit_test(canceled_while_it_opens),
		cmocka_unit_test(damage_is_told),
		cmocka_unit_test(readers_go_on_behind_damage),
		cmocka_unit_test(numbers_are_one_after_the_other),
		cmocka_unit_test(readers_do_not_go_back),
		cmocka_unit_test(damage_at_the_end_is_told),
		cmocka_unit_test(times_are_not_believed),
		cmocka_unit_test(times_do_not_go_back),
		cmocka_unit_test(positions_are_not_believed),
		cmocka_unit_test(records_of_an_earlier_boot),
		cmocka_unit_test(records_of_a_longer_boot),
		cmocka_unit_test(two_after_a_reboot),
		cmocka_unit_test(one_anchors_while_one_looks_at_the_rate),
		cmocka_unit_test(rates_are_of_time_that_went_by),
		cmocka_unit_test(clocks_of_other_namespaces),
		cmocka_unit_test(readers_of_a_cpu_fence_it),
	};

	return cmocka_run_group_tests(tests, prepare, test_remove_paths);
}

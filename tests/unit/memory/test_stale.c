/* SPDX-License-Identifier: MIT */
/*
 * test_stale.c - files from an earlier boot of the machine: locks that were held when it went
 * down are free, and those of this boot stay. The test chooses the boot id.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>

#include "support.h"
#include "../happen.h"
#include "../ring.h"

#include "rings/rings.h"

#define CREATE (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE)
#define FIRST (UINT64_C(11) << 32)
#define SECOND (UINT64_C(22) << 32)
#define NOBODY 0x3ffffff0 /* no thread's id */

int __wrap_percpu_boot_id_read(uint64_t *ret);

static uint64_t boot;	   /* 0: the process cannot know it */
static int cannot_be_read; /* an error, or 0 */
int __wrap_percpu_boot_id_read(uint64_t *ret)
{
	if (cannot_be_read != 0)
		return cannot_be_read;
	*ret = boot;
	return 0;
}

uint64_t __wrap_percpu_boot_id(void);
uint64_t __wrap_percpu_boot_id(void)
{
	return cannot_be_read != 0 ? 0 : boot;
}

static struct percpu_region *region;
static struct percpu_counter *counter;
static char path[128];

static uint32_t *reached;
static uint32_t lane; /* the atomic lane that this thread uses */

static struct percpu_header *header(uint32_t chunk)
{
	return region->chunks->at[chunk]->header;
}

static bool is_blocked(int signo)
{
	sigset_t blocked;

	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	return sigismember(&blocked, signo);
}

static void open_in(uint64_t which)
{
	boot = which;
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &region), 0);
	assert_false(is_blocked(SIGTERM)); /* would be, while a thread holds a lock */
}

/* Make a file of two chunks, with rings, in which each lock is held. */
static void begin(void)
{
	struct percpu_counter *c;

	boot = FIRST;
	at_step = NULL;
	*reached = 0;
	unlink(path);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(header(0)->lock_boot, FIRST);
	assert_int_equal(percpu_counter_open(region, 0, &counter), 0);
	assert_int_equal(percpu_ring_create_in(region, PERCPU_RING_MIN, PERCPU_RING_KEEP, &ring),
			 0);
	assert_int_equal(percpu_region_set_root(region, 1, 0, percpu_ring_key(ring)), 0);
	assert_int_equal(percpu_ring_control(ring)->lock_boot, FIRST);
	while (region->n < 2)
		assert_int_equal(percpu_counter_create_in(region, &c), 0);
	assert_int_equal(put_locked(1), 0);
	lane = percpu_chunk_choose_lane(ring->block.chunk);
	header(0)->alloc_lock = NOBODY;
	header(0)->journal_lock = NOBODY + 1;
	header(1)->journal_lock = (NOBODY + 2) | FUTEX_WAITERS;
	percpu_ring_at(ring, 0)->consumer = NOBODY;
	percpu_ring_at(ring, lane)->lock = NOBODY;
	percpu_ring_at(ring, lane)->consumer = NOBODY;
	percpu_ring_detach(ring);
	percpu_counter_detach(counter);
	percpu_region_close(region);
}

static void expect_locks(uint32_t alloc, uint32_t journal, uint32_t journal1)
{
	assert_int_equal(header(0)->alloc_lock, alloc);
	assert_int_equal(header(0)->journal_lock, journal);
	assert_int_equal(header(1)->journal_lock, journal1);
}

static void expect_stale(void)
{
	expect_locks(NOBODY, NOBODY + 1, (NOBODY + 2) | FUTEX_WAITERS);
}

static void expect_marked(void)
{
	expect_locks(FUTEX_OWNER_DIED, FUTEX_OWNER_DIED, FUTEX_OWNER_DIED);
}

static void expect_working(void)
{
	struct percpu_counter *c;

	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	percpu_counter_destroy(c);
}

static void locks_of_an_earlier_boot_are_free(void **state)
{
	(void)state;
	begin();
	open_in(SECOND);
	assert_int_equal(header(0)->lock_boot, SECOND);
	assert_int_equal(header(0)->recovery_lock.lock, 0);
	expect_marked();
	expect_working();
	percpu_region_close(region);
}

static void locks_of_this_boot_stay(void **state)
{
	(void)state;
	begin();
	open_in(FIRST);
	expect_stale();
	percpu_region_close(region);
}

static void readers_change_nothing(void **state)
{
	(void)state;
	begin();
	boot = SECOND;
	assert_int_equal(percpu_region_open(path, 0, NULL, &region), 0);
	assert_int_equal(header(0)->lock_boot, FIRST);
	expect_stale();
	assert_int_equal(percpu_ring_open(region, 1, 0, 0, &ring), 0);
	percpu_ring_detach(ring);
	percpu_region_close(region);
}

/* A process that does not know its boot takes locks. One that knows it must not mark them. */
static void who_knows_no_boot_is_safe(void **state)
{
	(void)state;
	begin();
	open_in(0);
	assert_int_equal(header(0)->lock_boot, 0);
	expect_stale();
	percpu_region_close(region);
	open_in(SECOND);
	assert_int_equal(header(0)->lock_boot, SECOND);
	expect_stale();
	percpu_region_close(region);
	open_in(FIRST);
	expect_marked();
	percpu_region_close(region);
}

static void set_to_unknown(void)
{
	struct percpu_region *r;

	boot = 0;
	assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r), 0);
	boot = SECOND;
	percpu_region_close(r);
}

/* The first process that opens the file after the boot has no descriptor left to read its boot
 * id. */
static void who_cannot_ask_for_its_boot_opens_nothing(void **state)
{
	static const int errors[] = { -EMFILE, -ENFILE, -ENOMEM };
	struct percpu_region *r = NULL;
	int fd;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		begin();
		boot = SECOND;
		cannot_be_read = errors[i];
		fd = open(path, O_RDWR);
		assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r),
				 errors[i]);
		assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &r),
				 errors[i]);
		assert_int_equal(percpu_region_open(test_path("new"), CREATE, NULL, &r), errors[i]);
		assert_int_equal(access(test_path("new"), F_OK), -1);
		assert_null(r);
		close(fd);
		assert_int_equal(percpu_region_open(path, 0, NULL, &region), 0);
		assert_int_equal(header(0)->lock_boot, FIRST);
		expect_stale();
		percpu_region_close(region);
		cannot_be_read = 0;
		open_in(SECOND);
		expect_marked();
		percpu_region_close(region);
	}
}

static void note_this_boot(void)
{
	struct percpu_region *r;

	assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r), 0);
	percpu_region_close(r);
}

/* Two processes find a file without a boot, and one of them notes this one. */
static void two_note_their_boot(void **state)
{
	(void)state;
	begin();
	open_in(0);
	percpu_region_close(region);
	let_happen(note_this_boot, "stale: boot seen", 1);
	open_in(SECOND);
	assert_null(at_step);
	assert_int_equal(header(0)->lock_boot, SECOND);
	expect_stale();
	percpu_region_close(region);
}

/* A process without a boot id opens the file, and takes what is free, while another one marks
 * locks. */
static void who_knows_no_boot_comes_between(void **state)
{
	(void)state;
	begin();
	let_happen(set_to_unknown, "stale: to be locked", 1);
	open_in(SECOND);
	assert_null(at_step);
	assert_int_equal(header(0)->recovery_lock.lock, 0);
	expect_stale();
	percpu_region_close(region);

	begin();
	let_happen(set_to_unknown, "stale: lock marked", 1);
	open_in(SECOND);
	assert_null(at_step);
	expect_locks(FUTEX_OWNER_DIED, NOBODY + 1, (NOBODY + 2) | FUTEX_WAITERS);
	assert_int_equal(header(0)->lock_boot, 0);
	percpu_region_close(region);
}

/* A thread begins to wait for the lock meanwhile. */
static struct percpu_header *mapped;

static void set_waiters(void)
{
	mapped->alloc_lock |= FUTEX_WAITERS;
}

static void locks_with_waiters_are_freed(void **state)
{
	struct percpu_region *r;

	(void)state;
	begin();
	open_in(FIRST);
	r = region;
	mapped = header(0);
	let_happen(set_waiters, "stale: lock found", 1);
	open_in(SECOND);
	expect_marked();
	percpu_region_close(region);
	percpu_region_close(r);
}

/* Two processes open the file at once: the second one waits for the first, and has nothing to
 * do. The first one must not mark a lock that was taken meanwhile, by a thread with the old
 * holder's id. */
static pid_t second_pid;

static int open_and_hold(void *arg)
{
	struct percpu_region *r;

	(void)arg;
	__atomic_store_n(reached, 1, __ATOMIC_RELEASE);
	test_child_require(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) == 0, "open");
	__atomic_store_n(&r->first->header->alloc_lock, NOBODY, __ATOMIC_RELEASE);
	__atomic_store_n(reached, 2, __ATOMIC_RELEASE);
	return 0;
}

static void let_second_open(void)
{
	/* Less than the time after which the second process takes this one for stopped. */
	uint64_t end = test_now() + 50000000;

	second_pid = test_fork(open_and_hold, NULL);
	while (test_now() < end && __atomic_load_n(reached, __ATOMIC_ACQUIRE) < 2)
		test_sleep_us(1000);
}

static void two_at_once(void **state)
{
	static const char *const steps[] = { "stale: boot seen",    "stale: recovery lock seen",
					     "stale: to be locked", "stale: lock found",
					     "stale: lock marked",  "stale: all marked" };

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		begin();
		let_happen(let_second_open, steps[i], 1);
		open_in(SECOND);
		assert_null(at_step);
		assert_int_equal(test_wait(second_pid, 60), 0);
		assert_int_equal(header(0)->recovery_lock.lock, 0);
		expect_locks(NOBODY, FUTEX_OWNER_DIED, FUTEX_OWNER_DIED);
		percpu_region_close(region);
	}
}

static void die(void)
{
	raise(SIGKILL);
}

static int open_to_die(void *arg)
{
	struct percpu_region *r;

	let_happen(die, arg, 1);
	boot = SECOND;
	return percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r) + 1;
}

static void killed_between(void **state)
{
	static const char *const steps[] = { "stale: to be locked", "stale: lock found",
					     "stale: lock marked", "stale: all marked" };
	pid_t pid;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (unsigned i = 0; i < 4; i++) {
		begin();
		pid = test_fork(open_to_die, (void *)(uintptr_t)steps[i]);
		assert_int_equal(test_wait(pid, 60), SIGKILL);
		open_in(SECOND);
		assert_int_equal(header(0)->lock_boot, SECOND);
		expect_marked();
		expect_working();
		percpu_region_close(region);
	}
}

/* The machine went down while locks were marked. */
static void down_between(void **state)
{
	(void)state;
	begin();
	open_in(FIRST);
	header(0)->recovery_lock.boot = FIRST >> 32;
	header(0)->recovery_lock.lock = NOBODY;
	percpu_region_close(region);
	open_in(SECOND);
	assert_int_equal(header(0)->recovery_lock.boot, SECOND >> 32);
	expect_marked();
	expect_working();
	percpu_region_close(region);
}

/* The process that marks locks is stopped: the next one gives up marking, and the stopped one
 * marks no more. */
static void who_is_stopped_keeps_nobody(void **state)
{
	(void)state;
	begin();
	open_in(FIRST);
	header(0)->recovery_lock.boot = SECOND >> 32;
	header(0)->recovery_lock.lock = NOBODY;
	percpu_region_close(region);
	open_in(SECOND);
	assert_int_equal(header(0)->lock_boot, 0);
	expect_stale();
	percpu_region_close(region);
}

static void expect_ring_locks(uint32_t value)
{
	assert_int_equal(percpu_ring_at(ring, 0)->consumer, value);
	assert_int_equal(percpu_ring_at(ring, lane)->lock, value);
	assert_int_equal(percpu_ring_at(ring, lane)->consumer, value);
}

static void rings_of_an_earlier_boot(void **state)
{
	struct percpu_ring_reader *reader;
	struct percpu_ring_record record;
	uint64_t key;

	(void)state;
	for (unsigned by_root = 0; by_root < 2; by_root++) {
		begin();
		open_in(FIRST);
		key = percpu_region_root(region, 1);
		assert_int_equal(percpu_ring_attach(region, key, &ring), 0);
		expect_ring_locks(NOBODY);
		percpu_ring_detach(ring);
		percpu_region_close(region);
		open_in(SECOND);
		if (by_root)
			assert_int_equal(percpu_ring_open(region, 1, 0, 0, &ring), 0);
		else
			assert_int_equal(percpu_ring_attach(region, key, &ring), 0);
		assert_int_equal(percpu_ring_control(ring)->lock_boot, SECOND);
		expect_ring_locks(FUTEX_OWNER_DIED);
		assert_int_equal(put_locked(2), 0);
		assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &reader), 0);
		assert_int_equal(percpu_ring_read(reader, &record), 0);
		assert_int_equal(percpu_ring_read(reader, &record), 0);
		percpu_ring_reader_destroy(reader);
		percpu_ring_detach(ring);
		percpu_region_close(region);
	}
}

/* A ring uses the boot that the region was opened in. */
static void rings_of_who_cannot_ask(void **state)
{
	(void)state;
	begin();
	open_in(SECOND);
	cannot_be_read = -EMFILE;
	assert_int_equal(percpu_ring_open(region, 1, 0, 0, &ring), 0);
	cannot_be_read = 0;
	assert_int_equal(percpu_ring_control(ring)->lock_boot, SECOND);
	expect_ring_locks(FUTEX_OWNER_DIED);
	percpu_ring_detach(ring);
	cannot_be_read = -EMFILE;
	assert_int_equal(percpu_ring_create_in(region, PERCPU_RING_MIN, 0, &ring), 0);
	cannot_be_read = 0;
	assert_int_equal(percpu_ring_control(ring)->lock_boot, SECOND);
	percpu_ring_destroy(ring);
	percpu_region_close(region);
}

static void rings_of_who_knows_no_boot(void **state)
{
	(void)state;
	begin();
	open_in(0);
	assert_int_equal(percpu_ring_open(region, 1, 0, 0, &ring), 0);
	assert_int_equal(percpu_ring_control(ring)->lock_boot, 0);
	percpu_ring_detach(ring);
	percpu_region_close(region);
	open_in(SECOND);
	assert_int_equal(percpu_ring_open(region, 1, 0, 0, &ring), 0);
	assert_int_equal(percpu_ring_control(ring)->lock_boot, SECOND);
	expect_ring_locks(NOBODY);
	percpu_ring_detach(ring);
	percpu_region_close(region);
}

static int prepare(void **state)
{
	(void)state;
	test_tier();
	test_pin(0, test_cpu(0));
	reached = test_share(sizeof(*reached));
	snprintf(path, sizeof(path), "%s", test_path("file"));
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(locks_of_an_earlier_boot_are_free),
		cmocka_unit_test(locks_of_this_boot_stay),
		cmocka_unit_test(readers_change_nothing),
		cmocka_unit_test(who_knows_no_boot_is_safe),
		cmocka_unit_test(two_note_their_boot),
		cmocka_unit_test(who_knows_no_boot_comes_between),
		cmocka_unit_test(who_cannot_ask_for_its_boot_opens_nothing),
		cmocka_unit_test(locks_with_waiters_are_freed),
		cmocka_unit_test(two_at_once),
		cmocka_unit_test(killed_between),
		cmocka_unit_test(down_between),
		cmocka_unit_test(who_is_stopped_keeps_nobody),
		cmocka_unit_test(rings_of_an_earlier_boot),
		cmocka_unit_test(rings_of_who_cannot_ask),
		cmocka_unit_test(rings_of_who_knows_no_boot),
	};

	return cmocka_run_group_tests(tests, prepare, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_rings.c - readers of rings while a put is stopped within its sequence. Its record is not
 * visible, nor is the one that it overwrites. After a fence its record is later than those
 * returned. A put that is killed there leaves only what was committed.
 */
#define _GNU_SOURCE
#include "inject.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>
#include <percpu/seq.h>

#include "../support.h"
#include "rings/rings.h"

#define SMALL PERCPU_RING_MIN
#define TRIES 100 /* a neighbor may abort the put, and so spoil some tries */

static struct percpu_region *region; /* NULL: private rings */
static struct percpu_ring *ring;
static struct percpu_ring_reader *reader;
static unsigned got;
static uint64_t values[SMALL];
static int result;

static bool lacks(unsigned cpus)
{
	return !inject_possible() || test_cpus() < cpus;
}

static void make_ring(bool shared, unsigned flags)
{
	int fd, e;

	region = NULL;
	if (!shared) {
		assert_int_equal(percpu_ring_create(SMALL, 0, &ring), 0);
	} else {
		fd = memfd_create("rings", MFD_CLOEXEC);
		e = test_region_new_fd(fd, NULL, &region);
		close(fd);
		assert_int_equal(e, 0);
		assert_int_equal(percpu_ring_create_in(region, SMALL, 0, &ring), 0);
	}
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, flags, &reader), 0);
}

static void drop_ring(void)
{
	percpu_ring_reader_destroy(reader);
	percpu_ring_destroy(ring);
	percpu_region_close(region);
}

static int put(uint64_t value)
{
	return percpu_ring_put(ring, &value, sizeof(value));
}

static void put_1(void)
{
	put(1);
}

static void read_values(void)
{
	struct percpu_ring_record r;

	for (got = 0; (result = percpu_ring_read(reader, &r)) == 0; got++)
		memcpy(&values[got], r.data, sizeof(values[got]));
}

static void put_2_and_read(void)
{
	put(2);
	read_values();
}

/* Return the counter of the first record of a CPU's ring. */
static uint64_t first_ticks(unsigned cpu)
{
	return percpu_ring_at(ring, cpu)->slot[1];
}

/* Return whether the stopped put came last, and was not aborted before. */
static bool came_last(void)
{
	bool last = values[0] == 2;

	assert_int_equal(result, -EAGAIN);
	assert_true(got == 1 || got == 2);
	if (got == 1) {
		read_values();
		assert_int_equal(got, 1);
		assert_int_equal(values[0], 1);
	}
	if (last)
		assert_true(first_ticks(test_cpu(0)) >= first_ticks(test_cpu(1)));
	return last;
}

static void what_is_returned_is_earlier(void **state)
{
	unsigned tested = 0;

	(void)state;
	if (lacks(2))
		test_skip("no sequences in this build or on this tier, or one CPU");
	for (unsigned i = 0; i < TRIES && tested < 5; i++) {
		make_ring(false, 0);
		inject_overlap(put_1, INJECT_written, put_2_and_read);
		tested += came_last();
		drop_ring();
	}
	assert_true(tested > 0);
}

static int put_and_wait(void *arg)
{
	(void)arg;
	percpu_seq_attach();
	test_pin(0, test_cpu(0));
	inject_point = (struct inject_point){ .step = INJECT_written, .rounds = INJECT_LONG };
	return put(1);
}

/* Do the same with a put in another process. */
static bool comes_last_in_child(void)
{
	struct inject_point point = { 0 };
	pid_t pid;

	test_pin(0, test_cpu(1));
	pid = test_fork(put_and_wait, NULL);
	while (!point.arrived && inject_read(pid, &point))
		test_sleep_us(100);
	put_2_and_read();
	inject_go(pid);
	assert_int_equal(test_wait(pid, 60), 0);
	test_unpin(0);
	return came_last();
}

static void and_in_shared_memory(void **state)
{
	struct inject_point point;
	unsigned tested = 0;

	(void)state;
	if (lacks(2))
		test_skip("no sequences in this build or on this tier, or one CPU");
	if (!inject_read(getpid(), &point))
		test_skip("process_vm_readv is not allowed");
	for (unsigned i = 0; i < TRIES && tested < 5; i++) {
		make_ring(true, 0);
		tested += comes_last_in_child();
		drop_ring();
	}
	assert_true(tested > 0);
}

/* The stopped put has begun to overwrite the oldest records. */
static void what_is_overwritten_is_lost(void **state)
{
	unsigned tested = 0;

	(void)state;
	if (lacks(2))
		test_skip("no sequences in this build or on this tier, or one CPU");
	for (unsigned i = 0; i < TRIES && tested < 5; i++) {
		make_ring(false, PERCPU_RING_UNFENCED);
		test_pin(0, test_cpu(0));
		for (uint64_t n = 0; n < SMALL / 32; n++) /* as many records as fit */
			assert_int_equal(put(100 + n), 0);
		inject_overlap(put_1, INJECT_written, read_values);
		assert_int_equal(result, -EAGAIN);
		assert_true(got > SMALL / 64 && got < SMALL / 32);
		if (values[got - 1] != 1) {
			for (unsigned k = 0; k < got; k++)
				assert_int_equal(values[k], 100 + SMALL / 32 - got + k);
			read_values();
			assert_true(got == 1 && values[0] == 1);
			tested++;
		}
		drop_ring();
	}
	assert_true(tested > 0);
}

static int step_of_child;

/* Put 10 records, and stop in the middle of the next one. */
static int put_and_stop(void *arg)
{
	(void)arg;
	percpu_seq_attach();
	test_pin(0, test_cpu(0));
	for (uint64_t n = 1; n <= 10; n++)
		if (put(n) != 0)
			return 1;
	inject_point = (struct inject_point){ .step = step_of_child, .rounds = INJECT_LONG };
	put(11);
	return 0;
}

static int put_after(void *arg)
{
	(void)arg;
	test_pin(0, test_cpu(0));
	return put(12);
}

/* Return how many records were ever committed: the sum of the last numbers of all lanes. */
static uint64_t count_records(void)
{
	const struct percpu_ring_lane *lane;
	uint64_t n = 0;

	for (uint32_t i = 0; i < 2 * ring->block.chunk->cpus; i++) {
		lane = percpu_ring_at(ring, i);
		n += lane->slot[(lane->head - 1) & ring->mask] / 65536;
	}
	return n;
}

/* Kill a put at a step. Return whether it was killed there. If a neighbor has aborted the put,
 * it may have committed at a second attempt. */
static bool kill_at_step(void)
{
	struct inject_point point = { 0 };
	pid_t pid = test_fork(put_and_stop, NULL);

	while (!point.arrived && inject_read(pid, &point))
		test_sleep_us(100);
	kill(pid, SIGKILL);
	return test_wait(pid, 60) == SIGKILL && count_records() == 10;
}

static void kill_at(int step)
{
	unsigned tries = 0;

	step_of_child = step;
	test_pin(0, test_cpu(1));
	make_ring(true, 0);
	while (!kill_at_step() && tries++ < TRIES) {
		drop_ring();
		make_ring(true, 0);
	}
	test_unpin(0);
	test_in_child(put_after, NULL);
	read_values();
	assert_int_equal(got, 11);
	for (unsigned n = 0; n < 10; n++)
		assert_int_equal(values[n], n + 1);
	assert_int_equal(values[10], 12);
	drop_ring();
}

static void killed_puts_are_not_there(void **state)
{
	static const int steps[] = { INJECT_armed, INJECT_placed, INJECT_loaded, INJECT_decided,
				     INJECT_written };
	struct inject_point point;

	(void)state;
	if (lacks(1))
		test_skip("no sequences in this build or on this tier");
	if (!inject_read(getpid(), &point))
		test_skip("process_vm_readv is not allowed");
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		kill_at(steps[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_returned_is_earlier),
		cmocka_unit_test(and_in_shared_memory),
		cmocka_unit_test(what_is_overwritten_is_lost),
		cmocka_unit_test(killed_puts_are_not_there),
	};

	return cmocka_run_group_tests(tests, inject_setup, inject_teardown);
}

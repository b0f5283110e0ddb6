/* SPDX-License-Identifier: MIT */
/* test_ring.c - rings of one process: records, sizes, laps, refusals, readers. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>

#include "cpu/cpu.h"
#include "model.h"
#include "support.h"

#define SMALL PERCPU_RING_MIN
#define WORDS (SMALL / 8)

static struct percpu_ring *ring;
static struct percpu_ring_reader *reader;
static struct percpu_ring_record record;

static void begin(size_t size, unsigned flags, unsigned reader_flags)
{
	test_tier();
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_ring_create(size, flags, &ring), 0);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, reader_flags, &reader),
			 0);
}

static void end(void)
{
	percpu_ring_reader_destroy(reader);
	percpu_ring_destroy(ring);
	test_unpin(0);
}

/* Make a record of so many bytes, which depend on its number. */
static void fill(unsigned char *bytes, uint64_t number, size_t size)
{
	for (size_t i = 0; i < size; i++)
		bytes[i] = (unsigned char)(number * 31 + i * 7 + 1);
}

static int put(uint64_t number, size_t size)
{
	unsigned char bytes[PERCPU_RING_MAX_RECORD + 1];

	fill(bytes, number, size);
	return percpu_ring_put(ring, bytes, size);
}

static void expect(uint64_t number, size_t size, uint64_t lost)
{
	unsigned char bytes[PERCPU_RING_MAX_RECORD];

	assert_int_equal(percpu_ring_read(reader, &record), 0);
	fill(bytes, number, size);
	assert_int_equal(record.number, number);
	assert_int_equal(record.size, size);
	assert_int_equal(record.lost, lost);
	assert_int_equal(record.cpu, test_tier() == PERCPU_TIER_SHARED ? 0 : test_cpu(0));
	assert_memory_equal(record.data, bytes, size);
	assert_int_equal((uintptr_t)record.data % 8, 0);
}

static void expect_nothing(void)
{
	struct percpu_ring_record unchanged = record;

	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	assert_memory_equal(&record, &unchanged, sizeof(record));
}

static void bad_sizes_are_refused(void **state)
{
	static const size_t wrong[] = {
		0, 1, SMALL - 1, SMALL / 2, SMALL + 8, 3 * SMALL, (size_t)2 * PERCPU_RING_MAX
	};
	volatile size_t much = SIZE_MAX;
	struct percpu_ring *r = NULL;

	(void)state;
	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(percpu_ring_create(wrong[i], 0, &r), -EINVAL);
	assert_int_equal(percpu_ring_create(SMALL, 4, &r), -EINVAL);
	assert_null(r);
	begin(SMALL, 0, 0);
	assert_int_equal(percpu_ring_longest(ring), SMALL / 4);
	assert_int_equal(put(1, 0), -EINVAL);
	assert_int_equal(put(1, SMALL / 4 + 1), -EMSGSIZE);
	assert_int_equal(percpu_ring_put(ring, "", much), -EMSGSIZE);
	expect_nothing();
	assert_int_equal(percpu_ring_dropped(ring), 0);
	end();
}

static int said[2]; /* a pipe that a child prints to */

static int put_in_debug_ring(void *arg)
{
	const size_t *size = arg;

	dup2(said[1], STDERR_FILENO);
	if (percpu_ring_create(SMALL, PERCPU_RING_DEBUG, &ring) != 0 || put(1, SMALL / 4) != 0)
		return 1;
	signal(SIGABRT, SIG_DFL);
	return put(1, *size);
}

static void debug_rings_say_what_is_wrong(void **state)
{
	static size_t sizes[] = { 0, SMALL / 4 + 1 };
	char text[200] = "", want[80];
	pid_t pid;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pipe(said), 0);
		pid = test_fork(put_in_debug_ring, &sizes[i]);
		assert_int_equal(test_wait(pid, 60) & 127, SIGABRT);
		close(said[1]);
		assert_true(read(said[0], text, sizeof(text) - 1) > 0);
		close(said[0]);
		snprintf(want, sizeof(want), "of %d bytes: a record has 1 to %d bytes, not %zu\n",
			 SMALL, SMALL / 4, sizes[i]);
		assert_non_null(strstr(text, "ring 0x"));
		assert_non_null(strstr(text, want));
	}
}

static void every_size_is_read_as_it_was_put(void **state)
{
	(void)state;
	begin(1 << 16, 0, 0);
	assert_int_equal(percpu_ring_longest(ring), PERCPU_RING_MAX_RECORD);
	for (size_t size = 1; size <= PERCPU_RING_MAX_RECORD; size += size < 100 ? 1 : 333) {
		assert_int_equal(put(record.number + 1, size), 0);
		expect(record.number + 1, size, 0);
	}
	assert_int_equal(put(record.number + 1, PERCPU_RING_MAX_RECORD), 0);
	expect(record.number + 1, PERCPU_RING_MAX_RECORD, 0);
	expect_nothing();
	end();
	record.number = 0;
}

/* The bytes behind a record may be on no page. */
static void nothing_behind_a_record_is_read(void **state)
{
	struct test_lane {
		uint64_t word[4];
	} local = { { 0 } };
	const char *bytes = (const char *)&local + 3;

	(void)state;
	begin(SMALL, 0, 0);
	memset(&local, 0xff, sizeof(local));
	assert_int_equal(percpu_ring_put(ring, bytes, 13), 0);
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(((const uint64_t *)record.data)[1] >> 40, 0);
	end();
}

static void the_oldest_are_overwritten(void **state)
{
	const unsigned each = 8, fit = WORDS / 4, whole = fit - (SMALL / 4 / 8 + 3 + 3) / 4;

	(void)state;
	begin(SMALL, 0, 0);
	for (unsigned n = 1; n <= 10 * fit + 3; n++)
		assert_int_equal(put(n, each), 0);
	expect(10 * fit + 3 - whole + 1, each, 10 * fit + 3 - whole);
	for (unsigned n = 10 * fit + 3 - whole + 2; n <= 10 * fit + 3; n++)
		expect(n, each, 0);
	expect_nothing();
	assert_int_equal(put(10 * fit + 4, each), 0);
	expect(10 * fit + 4, each, 0);
	end();
}

/* A reader that begins later has not lost the records before. */
static void a_reader_begins_with_what_is_there(void **state)
{
	struct percpu_ring_reader *first;
	uint64_t n = 0;

	(void)state;
	begin(SMALL, 0, 0);
	first = reader;
	for (unsigned i = 1; i <= 1000; i++)
		assert_int_equal(put(i, 1 + i % 100), 0);
	assert_int_equal(percpu_ring_reader_create(ring, test_cpu(0), 0, &reader), 0);
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(record.lost, 0);
	for (n = record.number + 1; n <= 1000; n++)
		expect(n, 1 + n % 100, 0);
	expect_nothing();
	percpu_ring_reader_destroy(reader);
	reader = first;
	end();
}

static void the_newest_are_refused(void **state)
{
	const unsigned fit = WORDS / 4;
	struct percpu_ring_reader *other;
	uint64_t refused = 0;

	(void)state;
	begin(SMALL, PERCPU_RING_KEEP, 0);
	for (unsigned round = 0; round < 3; round++) {
		for (unsigned n = 1; n <= fit; n++)
			assert_int_equal(put(round * fit + n, 8), 0);
		for (unsigned i = 0; i < 5; i++, refused++)
			assert_int_equal(put(1, 8), -ENOBUFS);
		assert_int_equal(percpu_ring_dropped(ring), refused);
		assert_int_equal(
			percpu_ring_reader_create(ring, PERCPU_RING_ALL, PERCPU_RING_LOOK, &other),
			0);
		for (unsigned n = 1; n <= fit; n++)
			expect(round * fit + n, 8, 0);
		expect_nothing();
		for (unsigned n = 1; n <= fit; n++) {
			assert_int_equal(percpu_ring_read(other, &record), 0);
			assert_int_equal(record.number, round * fit + n);
			assert_int_equal(record.lost, 0);
		}
		assert_int_equal(percpu_ring_read(other, &record), -EAGAIN);
		percpu_ring_reader_destroy(other);
	}
	end();
}

/* A reader that does not take learns how many records were taken before it read them. */
static void lookers_lose_what_is_taken(void **state)
{
	const unsigned fit = WORDS / 4;
	struct percpu_ring_reader *looker;

	(void)state;
	begin(SMALL, PERCPU_RING_KEEP, 0);
	assert_int_equal(percpu_ring_reader_create(ring, test_cpu(0), PERCPU_RING_LOOK, &looker),
			 0);
	for (unsigned n = 1; n <= 2 * fit; n++) {
		assert_int_equal(put(n, 8), 0);
		expect(n, 8, 0);
	}
	assert_int_equal(percpu_ring_read(looker, &record), 0);
	assert_int_equal(record.number, record.lost + 1);
	assert_true(record.number > fit && record.number <= fit + 10);
	percpu_ring_reader_destroy(looker);
	end();
}

/* The sleeps are longer than the errors of times. */
static void times_are_of_the_clock(void **state)
{
	uint64_t last = test_now() - 9000000, between[5];

	(void)state;
	begin(SMALL, 0, 0);
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(put(i + 1, 8), 0);
		test_sleep_us(10000);
		between[i] = test_now();
	}
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(percpu_ring_read(reader, &record), 0);
		assert_true(record.time > last && record.time < between[i]);
		last = between[i] - 9000000;
	}
	end();
}

static void readers_of_no_cpu(void **state)
{
	struct percpu_ring_reader *r = NULL;

	(void)state;
	begin(SMALL, 0, 0);
	assert_int_equal(percpu_ring_reader_create(ring, percpu_status()->possible_cpus, 0, &r),
			 -EINVAL);
	assert_int_equal(percpu_ring_reader_create(ring, 0, 4, &r), -EINVAL);
	assert_null(r);
	end();
}

/* Larger than a lane of the default region. */
static void large_rings(void **state)
{
	(void)state;
	begin(1 << 20, 0, 0);
	for (unsigned n = 1; n <= 20000; n++)
		assert_int_equal(put(n, 100), 0);
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(record.number, record.lost + 1);
	for (uint64_t n = record.number + 1; n <= 20000; n++)
		expect(n, 100, 0);
	expect_nothing();
	end();
}

/* Words that an earlier ring left are not taken for records. */
static void rings_begin_empty(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 10; i++) {
		begin(SMALL, PERCPU_RING_KEEP, 0);
		expect_nothing();
		for (unsigned n = 1; n <= WORDS / 4 + i; n++)
			assert_int_equal(put(n, 8), n <= WORDS / 4 ? 0 : -ENOBUFS);
		assert_int_equal(percpu_ring_dropped(ring), i);
		expect(1, 8, 0);
		end();
	}
}

/* The same by a thread that cannot run sequences, which fills the other ring of the CPU. */
static void rings_are_filled_by_lock(void **state)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area;
	unsigned n, fit = WORDS / 4;
	int e = 0;

	(void)state;
	begin(SMALL, PERCPU_RING_KEEP, 0);
	for (unsigned round = 0; round < 3; round++) {
		area = model_set_area(&none);
		for (n = 0; n <= fit && e == 0; n += e == 0)
			e = put(round * fit + n + 1, 8);
		model_set_area(area);
		assert_int_equal(e, -ENOBUFS);
		assert_int_equal(n, fit);
		assert_int_equal(percpu_ring_dropped(ring), round + 1);
		for (e = 0, n = 0; n <= fit && e == 0; n += e == 0)
			e = percpu_ring_read(reader, &record);
		assert_int_equal(e, -EAGAIN);
		assert_int_equal(n, fit);
		assert_int_equal(record.number, (round + 1) * fit);
		assert_int_equal(record.lost, 0);
		e = 0;
	}
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_sizes_are_refused),
		cmocka_unit_test(debug_rings_say_what_is_wrong),
		cmocka_unit_test(every_size_is_read_as_it_was_put),
		cmocka_unit_test(nothing_behind_a_record_is_read),
		cmocka_unit_test(the_oldest_are_overwritten),
		cmocka_unit_test(a_reader_begins_with_what_is_there),
		cmocka_unit_test(the_newest_are_refused),
		cmocka_unit_test(lookers_lose_what_is_taken),
		cmocka_unit_test(times_are_of_the_clock),
		cmocka_unit_test(readers_of_no_cpu),
		cmocka_unit_test(large_rings),
		cmocka_unit_test(rings_begin_empty),
		cmocka_unit_test(rings_are_filled_by_lock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

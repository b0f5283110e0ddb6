/* SPDX-License-Identifier: MIT */
/*
 * test_rings.c - processes put records into a ring in a file, and are killed by SIGKILL at any
 * instruction, while another process reads. Each committed record is read whole, once, in the order
 * of its process, or it is counted as lost or dropped.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>

#include "../support.h"

#define KILLS 25
#define WORKERS 3
#define SIZE 8192
#define LONGEST 200

/* How many records a worker has put, and how many were refused, in shared memory. */
struct work {
	uint64_t put, refused;
	uint64_t unused[6];
};

static struct percpu_region *region;
static struct percpu_ring *ring;
static struct work *works;

/* Make record n of worker `who`. All its bytes follow from these two numbers. */
static size_t make_record(unsigned char *bytes, uint64_t who, uint64_t n)
{
	uint64_t random = n * WORKERS + who + 1, first = n << 8 | who;
	size_t size = 8 + test_random(&random) % (LONGEST - 7);

	memcpy(bytes, &first, sizeof(first));
	for (size_t i = 8; i < size; i++)
		bytes[i] = (unsigned char)(first + i * 3);
	return size;
}

static int work(void *arg)
{
	struct work *w = arg;
	unsigned char bytes[LONGEST];
	size_t size;
	int e;

	for (;;) {
		size = make_record(bytes, (uint64_t)(w - works), w->put + 1);
		e = percpu_ring_put(ring, bytes, size);
		if (e == 0)
			__atomic_store_n(&w->put, w->put + 1, __ATOMIC_RELAXED);
		else if (e == -ENOBUFS)
			__atomic_store_n(&w->refused, w->refused + 1, __ATOMIC_RELAXED);
		else
			return 1;
	}
}

/* What the reader has found in one round of workers. */
static uint64_t last[WORKERS], read_ones, lost;

static void check_record(const struct percpu_ring_record *r)
{
	unsigned char bytes[LONGEST];
	uint64_t first;

	memcpy(&first, r->data, sizeof(first));
	assert_true(r->size >= 8 && r->size <= LONGEST && first % 256 < WORKERS);
	assert_int_equal(r->size, make_record(bytes, first % 256, first >> 8));
	assert_memory_equal(r->data, bytes, r->size);
	assert_true(first >> 8 > last[first % 256]);
	last[first % 256] = first >> 8;
	read_ones++;
	lost += r->lost;
}

/* Read up to `most` records. Workers may put records faster than this thread reads them, so there
 * may be no end. They may also keep one of many CPUs busy until the fence gives up. The last call,
 * when the workers are dead, reads all records. */
static void read_many(struct percpu_ring_reader *reader, unsigned most)
{
	const bool all = most == UINT_MAX;
	struct percpu_ring_record r;
	int e = 0;

	while (most-- != 0 && (e = percpu_ring_read(reader, &r)) == 0)
		check_record(&r);
	assert_true(e == 0 || e == -EAGAIN || (e == -ETIMEDOUT && !all));
}

static void start_and_kill(struct percpu_ring_reader *reader, uint64_t *random)
{
	pid_t pid[WORKERS];
	uint64_t end;

	memset(works, 0, WORKERS * sizeof(*works));
	memset(last, 0, sizeof(last));
	for (int i = 0; i < WORKERS; i++)
		pid[i] = test_fork(work, &works[i]);
	/* The other workers may fill the rings before the first one puts a record. */
	while (__atomic_load_n(&works[0].put, __ATOMIC_RELAXED) == 0 &&
	       __atomic_load_n(&works[0].refused, __ATOMIC_RELAXED) == 0)
		test_sleep_us(50);
	end = test_now() + test_random(random) % 5000000;
	do
		read_many(reader, 1000);
	while (test_now() < end);
	for (int i = 0; i < WORKERS; i++)
		kill(pid[i], SIGKILL);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(test_wait(pid[i], 60), SIGKILL);
	read_many(reader, UINT_MAX);
}

static void begin(unsigned flags)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = SIZE + 128 };
	int fd = memfd_create("rings", 0), e = test_region_new_fd(fd, &o, &region);

	close(fd);
	assert_int_equal(e, 0);
	assert_int_equal(percpu_ring_create_in(region, SIZE, flags, &ring), 0);
	works = test_share(WORKERS * sizeof(*works));
}

static void end(void)
{
	percpu_ring_destroy(ring);
	percpu_region_close(region);
}

static void killed_workers_lose_nothing(unsigned flags)
{
	struct percpu_ring_reader *reader;
	uint64_t random = 71, put, refused, dropped;

	begin(flags);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &reader), 0);
	for (unsigned k = 0; k < test_rounds(KILLS); k++) {
		put = refused = read_ones = lost = 0;
		dropped = percpu_ring_dropped(ring);
		start_and_kill(reader, &random);
		for (int i = 0; i < WORKERS; i++) {
			put += works[i].put;
			refused += works[i].refused;
		}
		dropped = percpu_ring_dropped(ring) - dropped;
		assert_in_range(read_ones + lost, put, put + WORKERS);
		assert_in_range(dropped, refused, refused + WORKERS);
		assert_true(flags == PERCPU_RING_KEEP ? lost == 0 : dropped == 0);
	}
	percpu_ring_reader_destroy(reader);
	end();
}

static void while_the_oldest_are_overwritten(void **state)
{
	(void)state;
	killed_workers_lose_nothing(0);
}

static void while_the_newest_are_refused(void **state)
{
	(void)state;
	killed_workers_lose_nothing(PERCPU_RING_KEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(while_the_oldest_are_overwritten),
		cmocka_unit_test(while_the_newest_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

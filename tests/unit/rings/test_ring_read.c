/* SPDX-License-Identifier: MIT */
/*
 * test_ring_read.c - readers of rings while records are put: laps, two readers that take, a
 * thread that is stopped in the middle of a put, fork, signals, the order of times.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>

#include "support.h"
#include "../happen.h"
#include "../ring.h"

#include "rings/rings.h"

#define SMALL PERCPU_RING_MIN
#define FIT (SMALL / 32) /* records of 8 bytes */

static struct percpu_ring_reader *reader;
static struct percpu_ring_record record;

static void begin(unsigned flags, unsigned reader_flags)
{
	test_tier();
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_ring_create(SMALL, flags, &ring), 0);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, reader_flags, &reader),
			 0);
}

static void end(void)
{
	at_step = NULL;
	percpu_ring_reader_destroy(reader);
	percpu_ring_destroy(ring);
	test_unpin(0);
}

static uint64_t value_of(const struct percpu_ring_record *r)
{
	uint64_t value;

	assert_int_equal(r->size, sizeof(value));
	memcpy(&value, r->data, sizeof(value));
	return value;
}

static void expect(uint64_t value)
{
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(value_of(&record), value);
}

static void put_many(void)
{
	for (uint64_t n = 1000; n < 1000 + FIT / 2; n++)
		assert_int_equal(put(n), 0);
}

/* Records that were copied before they were overwritten are returned; the others are lost. */
static void overwritten_while_it_is_copied(void **state)
{
	uint64_t n;

	(void)state;
	begin(0, 0);
	for (n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	let_happen(put_many, "ring: copied", 1);
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_null(at_step);
	/* Records that the puts have overwritten, and that a put in progress may have. */
	assert_true(record.lost >= FIT / 2 && record.lost <= FIT / 2 + 10);
	for (n = record.lost + 2; n <= FIT; n++)
		expect(n);
	for (n = 1000; n < 1000 + FIT / 2; n++) {
		expect(n);
		assert_int_equal(record.lost, 0);
	}
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

static uint64_t laps;

/* Overwrite all of each copy, a few times. */
static void lap(void)
{
	for (unsigned i = 0; i < 2 * FIT; i++)
		assert_int_equal(put(++laps), 0);
	if (laps < 8 * FIT)
		let_happen(lap, "ring: copied", 1);
}

static void overtaken_again_and_again(void **state)
{
	uint64_t n;

	(void)state;
	begin(0, 0);
	laps = 0;
	lap();
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	n = record.number;
	assert_int_equal(record.lost, n - 1);
	do
		assert_int_equal(value_of(&record), n++);
	while (percpu_ring_read(reader, &record) == 0 && record.lost == 0);
	assert_int_equal(n, laps + 1);
	end();
}

static void lap_always(void)
{
	for (unsigned i = 0; i < 2 * FIT; i++)
		assert_int_equal(put(++laps), 0);
	let_happen(lap_always, "ring: copied", 1);
}

/* If each copy is overwritten, however small it is, no record is returned until puts are slower. */
static void overtaken_always(void **state)
{
	(void)state;
	begin(0, 0);
	laps = 0;
	lap_always();
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	at_step = NULL;
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_true(record.lost > 2 * FIT && record.lost == record.number - 1);
	end();
}

/* A ring that cannot be copied does not keep the reader from other rings. */
static void overtaken_in_one_ring(void **state)
{
	(void)state;
	begin(0, 0);
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		end();
		test_skip("all are put into one ring");
	}
	assert_int_equal(put_locked(7), 0);
	laps = 0;
	lap_always();
	expect(7);
	assert_int_equal(record.locked, 1);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	at_step = NULL;
	assert_int_equal(percpu_ring_read(reader, &record), 0);
	assert_int_equal(record.locked, 0);
	end();
}

static struct percpu_ring_reader *other;
static uint64_t others;

static void other_takes(void)
{
	struct percpu_ring_record r;

	for (; percpu_ring_read(other, &r) == 0; others++)
		;
}

/* A reader takes after another one has copied, and before that has made room: it waits for the
 * lock. */
static void take_in_thread(unsigned i, void *arg)
{
	(void)i, (void)arg;
	other_takes();
}

static struct test_team team;

static void start_taker(void)
{
	test_team_start(&team, 1, take_in_thread, NULL);
	test_sleep_us(2000);
}

static void each_record_is_taken_once(void **state)
{
	uint64_t got = 0;

	(void)state;
	begin(PERCPU_RING_KEEP, 0);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &other), 0);
	others = 0;
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	let_happen(start_taker, "ring: copied", 1);
	for (; percpu_ring_read(reader, &record) == 0; got++)
		;
	test_team_join(&team);
	assert_int_equal(got + others, FIT);
	percpu_ring_reader_destroy(other);
	end();
}

/* Records that another reader has taken are not lost. */
static void who_takes_in_turn_loses_nothing(void **state)
{
	(void)state;
	begin(PERCPU_RING_KEEP, 0);
	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &other), 0);
	for (uint64_t n = 1; n <= 6; n++) {
		assert_int_equal(put(n), 0);
		assert_int_equal(percpu_ring_read(n % 3 == 0 ? other : reader, &record), 0);
		assert_int_equal(record.number, n);
		assert_int_equal(record.lost, 0);
	}
	percpu_ring_reader_destroy(other);
	end();
}

/* A reader that takes makes room only after it has copied the records: until then, puts fail. */
static void put_until_full(void)
{
	for (uint64_t n = 1; n <= 3; n++)
		assert_int_equal(put(n), -ENOBUFS);
}

static void room_is_made_after_the_copy(void **state)
{
	(void)state;
	begin(PERCPU_RING_KEEP, 0);
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	let_happen(put_until_full, "ring: copied", 1);
	for (uint64_t n = 1; n <= FIT; n++)
		expect(n);
	assert_int_equal(percpu_ring_dropped(ring), 3);
	for (uint64_t n = 1; n <= FIT; n++)
		assert_int_equal(put(n), 0);
	end();
}

/* A thread is stopped after it has read the time, under the lock. */
static int stopped, go_on;

static void stop_here(void)
{
	__atomic_store_n(&stopped, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&go_on, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
}

static void put_in_thread(unsigned i, void *arg)
{
	(void)i, (void)arg;
	test_pin(0, test_cpu(0));
	put_locked(1);
}

static void let_go_on(void)
{
	__atomic_store_n(&go_on, 1, __ATOMIC_RELEASE);
}

static void start_and_stop(void (*puts)(unsigned i, void *arg))
{
	stopped = go_on = 0;
	let_happen(stop_here, "ring: record written", 1);
	test_team_start(&team, 1, puts, NULL);
	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
}

static void start_and_stop_a_put(void)
{
	start_and_stop(put_in_thread);
}

static void records_in_progress_are_waited_for(void **state)
{
	(void)state;
	begin(0, 0);
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		end();
		test_skip("this thread would need the lock, too");
	}
	start_and_stop_a_put();
	assert_int_equal(put(2), 0);
	let_happen(let_go_on, "lock: to be waited for", 1);
	expect(1);
	assert_int_equal(record.locked, 1);
	expect(2);
	test_team_join(&team);
	end();
}

static void a_stopped_put_is_told(void **state)
{
	(void)state;
	begin(0, 0);
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		end();
		test_skip("this thread would need the lock, too");
	}
	assert_int_equal(
		percpu_ring_reader_create(ring, PERCPU_RING_ALL, PERCPU_RING_UNFENCED, &other), 0);
	start_and_stop_a_put();
	assert_int_equal(put(2), 0);
	assert_int_equal(percpu_ring_read(reader, &record), -ETIMEDOUT);
	assert_int_equal(percpu_ring_read(other, &record), 0);
	assert_int_equal(value_of(&record), 2);
	let_go_on();
	test_team_join(&team);
	expect(1);
	expect(2);
	percpu_ring_reader_destroy(other);
	end();
}

static int puts_again;

static void put_twice_in_thread(unsigned i, void *arg)
{
	put_in_thread(i, arg);
	while (!__atomic_load_n(&puts_again, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	put_locked(3);
}

/* A thread was waited for in vain. It has gone on, and is in another put. */
static void who_was_stopped_is_waited_for_again(void **state)
{
	(void)state;
	begin(0, 0);
	if (percpu_status()->tier != PERCPU_TIER_RSEQ) {
		end();
		test_skip("this thread would need the lock, too");
	}
	puts_again = 0;
	start_and_stop(put_twice_in_thread);
	assert_int_equal(put(2), 0);
	assert_int_equal(percpu_ring_read(reader, &record), -ETIMEDOUT);
	let_go_on();
	while (__atomic_load_n(
		       &percpu_ring_at(ring, ring->block.chunk->cpus + (size_t)test_cpu(0))->head,
		       __ATOMIC_ACQUIRE) == 0)
		test_sleep_us(100);
	stopped = go_on = 0;
	let_happen(stop_here, "ring: record written", 1);
	__atomic_store_n(&puts_again, 1, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&stopped, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	assert_int_equal(put(4), 0);
	let_happen(let_go_on, "lock: to be waited for", 1);
	for (uint64_t value = 1; value <= 4; value++)
		expect(value);
	test_team_join(&team);
	end();
}

static int put_in_child(void *arg)
{
	struct percpu_ring_reader *mine;
	struct percpu_ring_record r;
	unsigned n = 0;

	(void)arg;
	test_child_require(put_locked(3) == 0, "a put under a lock of the parent's thread");
	test_child_require(put(4) == 0, "a put");
	test_child_require(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &mine) == 0,
			   "a reader");
	for (; percpu_ring_read(mine, &r) == 0; n++)
		;
	test_child_require(n == 2, "its records alone");
	return 0;
}

static int take_in_child(void *arg)
{
	uint64_t n = 0;

	(void)arg;
	test_child_require(put(7) == 0 && put_locked(8) == 0, "puts");
	for (; percpu_ring_read(reader, &record) == 0; n++)
		;
	test_child_require(n == 2, "what was put is taken");
	return 0;
}

/* In the parent, threads put and take in all lanes. The child has none of them. */
static void children_of_fork_wait_for_no_lock(void **state)
{
	(void)state;
	begin(PERCPU_RING_KEEP, 0);
	for (size_t lane = 0; lane < 2 * (size_t)ring->block.chunk->cpus; lane++)
		percpu_ring_at(ring, lane)->lock = percpu_ring_at(ring, lane)->consumer =
			(uint32_t)getpid();
	test_in_child(take_in_child, NULL);
	for (size_t lane = 0; lane < 2 * (size_t)ring->block.chunk->cpus; lane++)
		percpu_ring_at(ring, lane)->lock = percpu_ring_at(ring, lane)->consumer = 0;
	end();
}

static void children_of_fork_have_a_copy(void **state)
{
	(void)state;
	begin(0, 0);
	start_and_stop_a_put();
	test_in_child(put_in_child, NULL);
	let_go_on();
	test_team_join(&team);
	expect(1);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

static void put_in_handler(int signo)
{
	(void)signo;
	if (put_locked(7) != 0)
		_exit(1);
}

static void send_signal(void)
{
	raise(SIGUSR1);
}

static void handlers_put_as_well(void **state)
{
	struct sigaction sa = { .sa_handler = put_in_handler }, old;

	(void)state;
	begin(0, 0);
	sigaction(SIGUSR1, &sa, &old);
	let_happen(send_signal, "ring: word written", 1);
	assert_int_equal(put_locked(6), 0);
	sigaction(SIGUSR1, &old, NULL);
	expect(6);
	expect(7);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

/* Records of different CPUs, and of both rings of one. */
static void records_are_in_the_order_of_time(void **state)
{
	uint64_t last = 0;

	(void)state;
	if (test_cpus() < 2)
		test_skip("one CPU");
	begin(0, 0);
	for (uint64_t n = 0; n < 20; n++) {
		test_pin(0, test_cpu(n / 2 % 2 == 0));
		assert_int_equal(n % 3 == 0 ? put_locked(n) : put(n), 0);
	}
	for (uint64_t n = 0; n < 20; n++) {
		expect(n);
		assert_true(record.time >= last);
		last = record.time;
	}
	end();
}

static void put_in_both(void)
{
	assert_int_equal(put(2), 0);
	assert_int_equal(put_locked(3), 0);
}

/* Records are put in both rings when one was copied: both records are of the next round. */
static void what_is_put_amid_a_round_is_of_the_next(void **state)
{
	(void)state;
	begin(0, 0);
	assert_int_equal(put_locked(0), 0);
	assert_int_equal(put(1), 0);
	let_happen(put_in_both, "ring: copied", 1);
	for (uint64_t n = 0; n < 4; n++)
		expect(n);
	assert_null(at_step);
	end();
}

static int put_three(void *arg)
{
	(void)arg;
	return put(1) | put(2) | put(3);
}

/* A child puts into its own copy of a private ring: the parent's ring does not change. */
static void children_put_into_their_copy(void **state)
{
	(void)state;
	begin(0, 0);
	assert_int_equal(put(9), 0);
	test_in_child(put_three, NULL);
	expect(9);
	assert_int_equal(percpu_ring_read(reader, &record), -EAGAIN);
	end();
}

/* Threads put at random; all records of each are there, in its order. */
#define THREADS 3
#define EACH 20000

static uint64_t refused[THREADS];

static void put_at_random(unsigned i, void *arg)
{
	const unsigned each = test_rounds(EACH);
	uint64_t random = 7 + i, words[8];

	(void)arg;
	for (uint64_t n = 1; n <= each; n++) {
		struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER }, *area = NULL;
		size_t size = 8 + test_random(&random) % 57;

		for (unsigned w = 0; w < 8; w++)
			words[w] = (n << 8 | i) + w;
		if (test_random(&random) % 64 == 0)
			area = model_set_area(&none);
		refused[i] += percpu_ring_put(ring, words, size) != 0;
		if (area != NULL)
			model_set_area(area);
	}
}

static void check_record(uint64_t *last, uint64_t *count)
{
	uint64_t words[8], whole = record.size / 8;
	unsigned i;

	memcpy(words, record.data, record.size);
	i = words[0] & 255;
	assert_true(i < THREADS);
	for (uint64_t w = 1; w < whole; w++)
		assert_int_equal(words[w], words[0] + w);
	assert_true(words[0] >> 8 > last[i]);
	last[i] = words[0] >> 8;
	(*count)++;
}

static void read_all(uint64_t *last, uint64_t *count, uint64_t *lost)
{
	int e;

	while ((e = percpu_ring_read(reader, &record)) == 0) {
		check_record(last, count);
		*lost += record.lost;
	}
	assert_int_equal(e, -EAGAIN);
}

static void random_load(unsigned flags)
{
	uint64_t last[THREADS] = { 0 }, count = 0, lost = 0, all = 0;

	begin(flags, 0);
	test_unpin(0);
	memset(refused, 0, sizeof(refused));
	test_team_start(&team, THREADS, put_at_random, NULL);
	for (unsigned i = 0; i < 50; i++) {
		read_all(last, &count, &lost);
		test_sleep_us(100);
	}
	test_team_join(&team);
	read_all(last, &count, &lost);
	for (unsigned i = 0; i < THREADS; i++)
		all += refused[i];
	assert_int_equal(percpu_ring_dropped(ring), all);
	assert_int_equal(count + lost + all, THREADS * (uint64_t)test_rounds(EACH));
	end();
}

static void nothing_is_lost_uncounted(void **state)
{
	(void)state;
	random_load(0);
}

static void nothing_is_dropped_uncounted(void **state)
{
	(void)state;
	random_load(PERCPU_RING_KEEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(overwritten_while_it_is_copied),
		cmocka_unit_test(overtaken_again_and_again),
		cmocka_unit_test(overtaken_always),
		cmocka_unit_test(overtaken_in_one_ring),
		cmocka_unit_test(each_record_is_taken_once),
		cmocka_unit_test(who_takes_in_turn_loses_nothing),
		cmocka_unit_test(room_is_made_after_the_copy),
		cmocka_unit_test(records_in_progress_are_waited_for),
		cmocka_unit_test(a_stopped_put_is_told),
		cmocka_unit_test(who_was_stopped_is_waited_for_again),
		cmocka_unit_test(children_of_fork_wait_for_no_lock),
		cmocka_unit_test(children_of_fork_have_a_copy),
		cmocka_unit_test(children_put_into_their_copy),
		cmocka_unit_test(handlers_put_as_well),
		cmocka_unit_test(records_are_in_the_order_of_time),
		cmocka_unit_test(what_is_put_amid_a_round_is_of_the_next),
		cmocka_unit_test(nothing_is_lost_uncounted),
		cmocka_unit_test(nothing_is_dropped_uncounted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

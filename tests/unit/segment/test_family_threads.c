/* SPDX-License-Identifier: MIT */
/*
 * test_family_threads.c - look-ups of series: from many threads while tables grow, in signal
 * handlers, and while another process damages the records; and the hash of the values.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"
#include "segment/family_table.h"

/* The hash of a text is that of SipHash-1-3. Python since 3.11 has the same, with a key of 0:
 * PYTHONHASHSEED=0 python3 -c 'print(hex(hash(b"abcdefg") & 2**64 - 1))' */
static void hashes_are_those_of_siphash(void **state)
{
	static const char text[] = "abcdefghijklmnopqrstuvwxyz01234";
	static const struct {
		size_t n;
		uint64_t hash;
	} known[] = { { 1, UINT64_C(0x407448d2b89b1813) },  { 7, UINT64_C(0x6db12aae9070f506) },
		      { 8, UINT64_C(0x3f7b849c0b8e35ea) },  { 9, UINT64_C(0xf89b34a3d11eb6e5) },
		      { 16, UINT64_C(0x94f60d3d29e6a312) }, { 31, UINT64_C(0x42ef1915a7f453a0) } };
	const struct percpu_hash_key zero = { { 0, 0 } }, other[] = { { { 1, 0 } }, { { 0, 1 } } };
	struct percpu_hash h;

	(void)state;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		h = percpu_hash_begin(&zero);
		percpu_hash_text(&h, text, known[i].n);
		assert_int_equal(percpu_hash_end(h), known[i].hash);
		for (int k = 0; k < 2; k++) {
			h = percpu_hash_begin(&other[k]);
			percpu_hash_text(&h, text, known[i].n);
			assert_int_not_equal(percpu_hash_end(h), known[i].hash);
		}
	}
}

/* Two segments have different keys: hashes of one process tell nothing about another one's. */
static void keys_are_random(void **state)
{
	(void)state;
	assert_true(s->key.word[0] != t->key.word[0] && s->key.word[1] != t->key.word[1]);
}

/* Values in which each text begins elsewhere have other hashes, and the same values the same. */
static void hashes_tell_where_values_end(void **state)
{
	static const struct percpu_text values[][2] = {
		{ { "ab", 2 }, { "c", 1 } },	  { { "a", 1 }, { "bc", 2 } },
		{ { "abc", 3 }, { "", 0 } },	  { { "", 0 }, { "abc", 3 } },
		{ { "abcdefgh", 8 }, { "", 0 } }, { { "", 0 }, { "abcdefgh", 8 } },
	};
	static const struct percpu_text parts[] = { { "abc", 2 }, { "cd", 1 } };
	struct percpu_family_key key[6], same;

	(void)state;
	for (int i = 0; i < 6; i++) {
		assert_true(percpu_family_key_make(values[i], 2, &s->key, &key[i]));
		assert_true(percpu_family_key_make(values[i], 2, &s->key, &same));
		assert_int_equal(key[i].hash, same.hash);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(key[i].hash, key[k].hash);
	}
	assert_true(percpu_family_key_make(parts, 2, &s->key, &same));
	assert_int_equal(key[0].hash, same.hash); /* "ab", "c" */
}

/* Entries of equal hashes are told apart by their values, in a table that grows. */
static void equal_hashes_are_no_equal_values(void **state)
{
	static const uint16_t used = PERCPU_RECORD_IN_USE;
	struct percpu_family_table table = { .slots = NULL };
	struct percpu_family_key key;
	char text[200][16];
	struct percpu_text values[2];
	uint16_t removed = PERCPU_RECORD_IN_USE;

	(void)state;
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < 200; i++) {
			int n = snprintf(text[i], sizeof(text[i]), "%d", i / 2);

			values[i % 2] = (struct percpu_text){ text[i], (size_t)n };
			values[(i + 1) % 2] = (struct percpu_text){ "", 0 };
			assert_true(percpu_family_key_make(values, 2, &s->key, &key));
			key.hash = i < 100 ? UINT64_MAX : 7; /* the last slot, or another one */
			if (round == 0) {
				assert_null(percpu_family_table_find(&table, &key));
				percpu_family_table_enter(&table, &key, text[i],
							  i == 50 ? &removed : &used);
				percpu_family_table_enter(&table, &key, text[0], &used); /* no */
			}
			assert_ptr_equal(percpu_family_table_find(&table, &key), text[i]);
			key.hash++;
			assert_null(percpu_family_table_find(&table, &key));
			key.hash--;
			if (i != 50)
				continue;
			for (removed = 1; removed < 5; removed++)
				assert_null(percpu_family_table_find(&table, &key));
			removed = PERCPU_RECORD_IN_USE;
		}
	percpu_family_table_free(&table);
}

/* Threads look up, count, remove and find the same series while the table grows. */

enum { THREADS = 4, SERIES = 300 };

static void count_each(unsigned i, void *arg)
{
	const unsigned rounds = test_rounds(20);
	char value[16];
	const char *const values[] = { value }, *const gone[] = { "gone" };

	for (unsigned k = 0; k < SERIES * rounds; k++) {
		snprintf(value, sizeof(value), "%u", (k + i * 71) % SERIES);
		if (percpu_family_add(arg, values, 1) != 0 || percpu_family_add(arg, gone, 1) != 0)
			abort();
		if (k % 50 == i)
			(void)!percpu_family_remove(arg, gone);
	}
}

static void threads_count_in_tables_that_grow(void **state)
{
	struct percpu_family *f, *g;
	char value[16];

	(void)state;
	assert_int_equal(declare_family(s, "c_total", PERCPU_METRIC_COUNTER, 2 * SERIES, &f), 0);
	assert_int_equal(declare_family(t, "c_total", PERCPU_METRIC_COUNTER, 2 * SERIES, &g), 0);
	test_team_run(THREADS, count_each, f);
	assert_int_equal(percpu_family_overflows(f), 0);
	for (unsigned k = 0; k < SERIES; k++) {
		snprintf(value, sizeof(value), "%u", k);
		assert_int_equal(count_in(g, value, 0), THREADS * test_rounds(20));
	}
	assert_int_equal(s->series.used, SERIES + 2);
}

/* A signal handler looks up what was found before, also over a call that enters another one. */

static struct percpu_family *of_handler;
static volatile unsigned handled, failed;

static void count_in_handler(int number)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;

	(void)number;
	handled++;
	failed += percpu_family_add(of_handler, x, 1) != 0;
	failed += percpu_family_counter(of_handler, x, &c) != 0;
}

static void handlers_find_what_was_found(void **state)
{
	const struct itimerval often = { { 0, 100 }, { 0, 100 } }, never = { { 0, 0 }, { 0, 0 } };
	struct sigaction a = { .sa_handler = count_in_handler, .sa_flags = SA_RESTART }, before;
	char value[16];

	(void)state;
	assert_int_equal(declare_family(s, "c_total", PERCPU_METRIC_COUNTER, 100000, &of_handler),
			 0);
	handled = failed = 0;
	assert_int_equal(count_in(of_handler, "x", 0), 0);
	assert_int_equal(sigaction(SIGALRM, &a, &before), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
	for (unsigned i = 0; i < 2000 || (handled < 20 && i < 90000); i++) {
		snprintf(value, sizeof(value), "%u", i);
		assert_int_equal(count_in(of_handler, value, 1), 1);
	}
	assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &before, NULL), 0);
	assert_true(handled > 0);
	assert_int_equal(failed, 0);
	assert_int_equal(count_in(of_handler, "x", 0), handled);
}

/* Another process writes states, keys, kinds and sizes of records at any time. Calls return, and no
 * look-up that takes no lock has another handle than before. */

static bool stop_damage;

static void damage(unsigned i, void *arg)
{
	uint64_t random = 88172645463325252, r, at, end;
	struct percpu_segment_record *record;

	(void)i, (void)arg;
	while (!__atomic_load_n(&stop_damage, __ATOMIC_RELAXED)) {
		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		r = random >> 16;
		end = __atomic_load_n(&t->control->end, __ATOMIC_RELAXED);
		at = (r >> 20) % (end < 2000 ? end : 2000) / 8 * 8;
		record = (struct percpu_segment_record *)((char *)t->block[0] + at);
		switch (r % 6) {
		case 0:
			__atomic_store_n(&record->key, r % 3 ? 0 : r, __ATOMIC_RELAXED);
			break;
		case 1:
			__atomic_store_n(&record->kind, (uint16_t)(r >> 8 & 15), __ATOMIC_RELAXED);
			break;
		case 2:
			__atomic_store_n(&record->size, (uint32_t)(r >> 8 & 255), __ATOMIC_RELAXED);
			break;
		case 3:
			__atomic_store_n(&t->control->changes, r >> 8, __ATOMIC_RELAXED);
			break;
		default:
			__atomic_store_n(&record->state, (uint16_t)(r >> 8 & 7), __ATOMIC_RELAXED);
		}
	}
}

static void damage_at_any_time_is_survived(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_reader *reader;
	struct percpu_family *f;
	struct percpu_counter *c, *found;
	struct test_team team;
	char value[16];
	const char *const values[] = { value };
	unsigned n = 0;

	(void)state;
	f = family_of(s, 1000);
	assert_non_null(family_of(t, 1000));
	c = counter_of(f, "x");
	assert_non_null(c);
	assert_int_equal(percpu_reader_open(path, &reader), 0);
	assert_int_equal(percpu_directory_refresh(t), 0);
	stop_damage = false;
	test_team_start(&team, 1, damage, NULL);
	for (unsigned i = 0; i < test_rounds(20000); i++) {
		snprintf(value, sizeof(value), "%u", i % 50);
		found = NULL;
		n += percpu_family_counter(f, x, &found) == 0 && found == c;
		if (percpu_family_counter(f, values, &found) == 0)
			percpu_counter_add(found, 1);
		(void)!percpu_family_add(f, values, 1);
		(void)!percpu_family_remove(f, i % 2 ? values : x);
		if (i % 100 == 0)
			(void)!percpu_reader_read(reader);
	}
	__atomic_store_n(&stop_damage, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_true(n > 0);
	percpu_counter_add(c, 1); /* it is mapped */
	percpu_reader_close(reader);
}

/* Whether the values of an entry end where those that are looked for do. */
static void ends_of_equal_hashes_count(void **state)
{
	static const uint16_t used = PERCPU_RECORD_IN_USE;
	const struct percpu_text there[] = { { "abc", 3 }, { "d", 1 } };
	const struct percpu_text with_0[] = { { "a", 1 }, { "c\0d", 3 } };
	struct percpu_family_table table = { .slots = NULL };
	struct percpu_family_key key;
	char handle;

	(void)state;
	assert_true(percpu_family_key_make(there, 2, &s->key, &key));
	key.hash = 7;
	percpu_family_table_enter(&table, &key, &handle, &used);
	assert_ptr_equal(percpu_family_table_find(&table, &key), &handle);
	assert_true(percpu_family_key_make(with_0, 2, &s->key, &key));
	key.hash = 7;
	assert_null(percpu_family_table_find(&table, &key));
	percpu_family_table_free(&table);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_are_those_of_siphash),
		both(keys_are_random),
		both(hashes_tell_where_values_end),
		both(equal_hashes_are_no_equal_values),
		both(ends_of_equal_hashes_count),
		both(threads_count_in_tables_that_grow),
		both(handlers_find_what_was_found),
		both(damage_at_any_time_is_survived),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

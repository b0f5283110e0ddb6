/* SPDX-License-Identifier: MIT */
/*
 * test_stats_narrow.c - updates of more fields than the CPU's widest store holds, and objects
 * that a process on a CPU of another width has created.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <percpu/stats.h>

#include "counts/counts.h"
#include "support.h"

#define LARGEST 8 /* most fields that every CPU updates without the lock */

struct port {
	uint64_t packets, bytes, drops, errors;
};

/* The width that the library finds; 0: that of this CPU. */
static unsigned pretended;

unsigned __real_percpu_vector_words(void);
unsigned __wrap_percpu_vector_words(void);

unsigned __wrap_percpu_vector_words(void)
{
	return pretended != 0 ? pretended : __real_percpu_vector_words();
}

static int start(void **state)
{
	(void)state;
	pretended = 0;
	return 0;
}

/* Test the program in docs/counts/stats.md. */
static void the_example_counts(void **state)
{
	PERCPU_STATS(struct port) ports;
	struct port now;

	(void)state;
	for (pretended = 2; pretended <= __real_percpu_vector_words(); pretended *= 2) {
		assert_int_equal(PERCPU_STATS_CREATE(&ports, 64, 0), 0);
		PERCPU_STATS_ADD(ports, 7, packets, 1);
		assert_int_equal(PERCPU_STATS_UPDATE(ports, 7, .packets = 1, .bytes = 60), 0);
		assert_int_equal(PERCPU_STATS_SNAPSHOT(ports, 7, 1, &now), 0);
		assert_int_equal(now.packets, 2);
		assert_int_equal(now.bytes, 60);
		assert_int_equal(now.drops + now.errors, 0);
		PERCPU_STATS_DESTROY(ports);
	}
}

/* Update every run of fields of an object, with and without the lock. */
static void update_runs(size_t fields)
{
	uint64_t delta[64], want[70] = { 0 }, got[2 * 70];
	struct percpu_stats *s;
	int e;

	for (size_t w = 0; w < 64; w++)
		delta[w] = UINT64_C(1) << (w % 8 * 7);
	assert_int_equal(percpu_stats_create(8 * fields, 2, 0, &s), 0);
	for (size_t words = 1; words <= 64 && words <= fields; words++)
		for (size_t w = 0; w + words <= fields; w++) {
			e = percpu_stats_update(s, 1, w, delta, words);
			if (w < 64 && w + words > 64) { /* readers take 64 together */
				assert_int_equal(e, -EINVAL);
				continue;
			}
			assert_int_equal(e, 0);
			for (size_t k = 0; k < words; k++)
				want[w + k] += delta[k];
		}
	assert_int_equal(percpu_stats_snapshot(s, 0, 2, got), 0);
	for (size_t w = 0; w < fields; w++) {
		assert_int_equal(got[w], 0);
		assert_int_equal(got[fields + w], want[w]);
	}
	if (fields > 64)
		assert_int_equal(percpu_stats_update(s, 1, 0, want, 65), -E2BIG);
	percpu_stats_destroy(s);
}

static void every_run_of_fields_is_updated(void **state)
{
	(void)state;
	for (pretended = 2; pretended <= __real_percpu_vector_words(); pretended *= 2) {
		for (size_t fields = 1; fields <= LARGEST + 1; fields++)
			update_runs(fields);
		update_runs(16);
		update_runs(64);
		update_runs(70);
	}
}

/* Test that updates of objects of up to LARGEST fields take no lock: one store of the CPU commits
 * them, or the object is in two copies. */
static void no_lock_is_taken_for_small_objects(void **state)
{
	struct percpu_stats *s;

	(void)state;
	for (pretended = 2; pretended <= LARGEST; pretended *= 2)
		for (size_t fields = 1; fields <= 2 * LARGEST; fields++) {
			assert_int_equal(percpu_stats_create(8 * fields, 1, 0, &s), 0);
			if (fields > LARGEST)
				assert_int_equal(percpu_stats_commit_words(s), pretended);
			else
				assert_true(percpu_stats_commit_words(s) >= fields);
			assert_int_equal(s->head != 0, fields > pretended && fields <= LARGEST);
			assert_true(s->vector <= pretended);
			percpu_stats_destroy(s);
		}
}

/* Count by two handles of the same objects, and check that each reads the counts of both. */
static void count_by_both(struct percpu_stats *const s[2], size_t fields)
{
	uint64_t delta[LARGEST], out[LARGEST];
	volatile size_t variable = fields; /* not inlined */

	for (size_t w = 0; w < fields; w++)
		delta[w] = w + 1;
	for (unsigned round = 0; round < 10; round++)
		for (unsigned i = 0; i < 2; i++) {
			/* Each update may switch to the other copy, so an add follows each. */
			if (fields == 4)
				assert_int_equal(percpu_stats_update(s[i], 2, 0, delta, 4), 0);
			else
				assert_int_equal(percpu_stats_update(s[i], 2, 0, delta, 8), 0);
			percpu_stats_add(s[i], 2, 1, 60);
			assert_int_equal(percpu_stats_update(s[i], 2, 0, delta, variable), 0);
			percpu_stats_add(s[i], 2, 1, 40);
			assert_int_equal(percpu_stats_snapshot(s[1 - i], 2, 1, out), 0);
			for (size_t w = 0; w < fields; w++)
				assert_int_equal(out[w], (2 * round + i +
							  1) * (2 * (w + 1) + (w == 1 ? 100 : 0)));
		}
}

static bool may_visit_every_cpu(struct percpu_stats *s)
{
	uint64_t out[LARGEST];
	int e = percpu_stats_snapshot(s, 0, 1, out);

	assert_true(e == 0 || e == -EPERM);
	return e == 0;
}

static void cpus_of_different_width_share_objects(void **state)
{
	unsigned widest = __real_percpu_vector_words();
	struct percpu_region *r;
	struct percpu_stats *s[2];
	bool whole = true;

	(void)state;
	assert_int_equal(test_region_new(test_path("shared"), NULL, &r), 0);
	for (unsigned creates = 2; creates <= widest && whole; creates *= 2)
		for (unsigned attaches = 2; attaches <= widest && whole; attaches *= 2)
			for (size_t fields = 4; fields <= LARGEST && whole; fields *= 2) {
				pretended = creates;
				assert_int_equal(percpu_stats_create_in(r, 8 * fields, 3, 0, &s[0]),
						 0);
				pretended = attaches;
				assert_int_equal(percpu_stats_attach(r, percpu_stats_key(s[0]),
								     8 * fields, 3, 0, &s[1]),
						 0);
				assert_int_equal(s[1]->head, s[0]->head);
				assert_true(s[1]->vector <= attaches);
				whole = may_visit_every_cpu(s[0]);
				if (whole)
					count_by_both(s, fields);
				percpu_stats_detach(s[1]);
				percpu_stats_destroy(s[0]);
			}
	percpu_region_close(r);
	unlink(test_path("shared"));
	if (!whole)
		test_skip("a cpuset keeps this process from some CPUs");
}

/* Test that an attach without the flag finds it in the file, and that an attach with the flag fails
 * if the objects do not have it. */
static void attaching_finds_the_flag(void **state)
{
	uint64_t ones[10] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
	struct percpu_stats *s, *t = NULL;
	struct percpu_region *r;

	(void)state;
	assert_int_equal(test_region_new(test_path("flag"), NULL, &r), 0);
	assert_int_equal(percpu_stats_create_in(r, 80, 2, PERCPU_STATS_WHOLE, &s), 0);
	assert_int_equal(percpu_stats_attach(r, percpu_stats_key(s), 80, 2, 0, &t), 0);
	assert_int_equal(percpu_stats_commit_words(t), 10);
	assert_int_equal(percpu_stats_update(t, 1, 0, ones, 10), 0);
	assert_int_equal(percpu_stats_update(t, 1, 3, ones, 5), 0);
	percpu_stats_detach(t);
	percpu_stats_destroy(s);

	pretended = 2; /* two copies, without the flag */
	t = NULL;
	assert_int_equal(percpu_stats_create_in(r, 32, 2, 0, &s), 0);
	assert_int_equal(percpu_stats_attach(r, percpu_stats_key(s), 32, 2, PERCPU_STATS_WHOLE, &t),
			 -ENOENT);
	assert_null(t);
	percpu_stats_destroy(s);
	percpu_region_close(r);
	unlink(test_path("flag"));
}

/* Test that an attach refuses an impossible layout, and one that is larger than the allocation. */
static void damaged_layouts_are_not_there(void **state)
{
	static const struct {
		uint64_t words;
		uint32_t flags, copies;
	} damages[] = { { 4, 0, 2 }, { 4, 0, UINT32_MAX }, { 4, PERCPU_STATS_WHOLE, 0 },
			{ 4, 2, 0 }, { 4, UINT32_MAX, 1 }, { 5, 0, 0 },
			{ 4, 0, 1 } };
	struct percpu_stats_control *c;
	struct percpu_region *r;
	struct percpu_stats *s, *t = NULL;
	uint64_t key;

	(void)state;
	pretended = 4;
	assert_int_equal(test_region_new(test_path("damage"), NULL, &r), 0);
	assert_int_equal(percpu_stats_create_in(r, 32, 2, 0, &s), 0);
	key = percpu_stats_key(s);
	c = percpu_stats_control(s);
	for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		c->size = 8 * damages[i].words;
		c->flags = damages[i].flags;
		c->copies = damages[i].copies;
		assert_int_equal(percpu_stats_attach(r, key, 32, 2, 0, &t), -ENOENT);
	}
	assert_null(t);
	percpu_stats_destroy(s);
	/* Two copies of more fields than an update may have. */
	assert_int_equal(percpu_stats_create_in(r, 65 * 8, 1, 0, &s), 0);
	percpu_stats_control(s)->copies = 1;
	assert_int_equal(percpu_stats_attach(r, percpu_stats_key(s), 65 * 8, 1, 0, &t), -ENOENT);
	percpu_stats_destroy(s);
	percpu_region_close(r);
	unlink(test_path("damage"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(the_example_counts, start),
		cmocka_unit_test_setup(every_run_of_fields_is_updated, start),
		cmocka_unit_test_setup(no_lock_is_taken_for_small_objects, start),
		cmocka_unit_test_setup(cpus_of_different_width_share_objects, start),
		cmocka_unit_test_setup(attaching_finds_the_flag, start),
		cmocka_unit_test_setup(damaged_layouts_are_not_there, start),
	};

	return cmocka_run_group_tests_name("stats_narrow", tests, NULL, test_remove_paths);
}

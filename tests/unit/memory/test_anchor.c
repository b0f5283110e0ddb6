/* SPDX-License-Identifier: MIT */
/*
 * test_anchor.c - objects whose keys are in words of the bias lane, instead of roots: each is
 * made once, and found by all processes, also if one is killed meanwhile.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "steps.h"
#include "support.h"
#include "../root_file.h"

#include "counts/counts.h"

#define N 200	 /* words of an object: their bits are in several words */
#define TABLE 16 /* words that can have keys */

static struct percpu_region *region;
static void *table;	 /* the cell of the table */
static unsigned dies_at; /* the step at which the process dies, counted from 1; 0: none */
static const char *dies_when;

void test_step(const char *name)
{
	if (dies_at != 0 && --dies_at == 0)
		raise(SIGKILL);
	if (dies_when != NULL && strcmp(name, dies_when) == 0)
		raise(SIGKILL);
}

static uint64_t *word(unsigned i)
{
	const struct percpu_chunk *k = region->first;

	return (uint64_t *)percpu_chunk_lane(k, 2 * (size_t)k->cpus,
					     (size_t)((char *)table - k->base)) +
	       i;
}

static struct percpu_anchor anchor(unsigned i)
{
	return (struct percpu_anchor){
		.word = word(i),
		.word_key = percpu_region_key(region, table) + i * sizeof(uint64_t),
		.root = PERCPU_REGION_ROOTS,
	};
}

struct object {
	struct percpu_block block;
};

static int open_object(struct percpu_anchor at, struct object **ret)
{
	struct object o;
	struct percpu_plan p = {
		.kind = PERCPU_KIND_ARRAY,
		.size = N * sizeof(uint64_t),
		.touched = N * sizeof(uint64_t),
		.align = sizeof(uint64_t),
		.handle = &o,
		.handle_size = sizeof(o),
	};

	return percpu_block_open_at(region, &at, &p, ret);
}

/* Make a region with room for the table, one object, and so many more words. */
static void make_region(size_t more)
{
	const struct percpu_region_options o = { .size = sizeof(o),
						 .lane_size = 8 * (N + TABLE + more) };

	assert_int_equal(test_region_new(path, &o, &region), 0);
	assert_int_equal(percpu_region_alloc(region, 8 * TABLE, 8, &table), 0);
}

static void remove_region(void)
{
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

static void objects_are_made_once(void **state)
{
	struct object *o = NULL, *same = NULL;

	(void)state;
	make_region(8);
	assert_int_equal(open_object(anchor(3), &o), 0);
	assert_true(*word(3) != 0);
	assert_int_equal(open_object(anchor(3), &same), 0);
	assert_ptr_equal(o->block.base, same->block.base);
	assert_int_equal(used(), N + TABLE);
	free(same);
	assert_int_equal(open_object(anchor(4), &same), -ENOSPC);
	assert_true(*word(4) == 0);
	free(o);
	remove_region();
}

/* A process is killed at each step of opening an object, and so is the next one: there is still
 * room for one object. */

static int open_and_die(void *arg)
{
	struct object *o;
	int e;

	dies_at = *(unsigned *)arg;
	e = open_object(anchor(2), &o);
	dies_at = 0;
	return e != 0;
}

static void no_step_loses_memory(void **state)
{
	struct object *o;
	bool killed = true;
	unsigned step;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (step = 1; killed; step++) {
		make_region(0);
		killed = killed_at(open_and_die, step);
		for (unsigned i = 1; killed_at(open_and_die, i); i++)
			;
		assert_int_equal(open_object(anchor(2), &o), 0);
		assert_int_equal(used(), N + TABLE);
		free(o);
		remove_region();
	}
	assert_true(step > 10);
}

/* The creator was killed after it set the key: the object must not be freed. */

static int open_and_die_when_set(void *arg)
{
	struct object *o;

	(void)arg;
	dies_when = "root: set";
	return open_object(anchor(1), &o) != 0;
}

static void objects_with_a_key_stay(void **state)
{
	struct object *o, *other;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	make_region(N);
	assert_int_equal(test_wait(test_fork(open_and_die_when_set, NULL), 60), SIGKILL);
	assert_true(region->first->header->placed != 0);
	assert_int_equal(open_object(anchor(6), &other), 0);
	assert_int_equal(region->first->header->placed, 0);
	assert_int_equal(open_object(anchor(1), &o), 0);
	assert_ptr_not_equal(o->block.base, other->block.base);
	assert_int_equal(used(), 2 * N + TABLE);
	free(o);
	free(other);
	remove_region();
}

/* A damaged note is ignored, and cleared. The table begins the lane, so the object begins at
 * word TABLE. */
static void damaged_notes_harm_nobody(void **state)
{
	const uint64_t chunk = UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT;
	const uint64_t notes[] = { UINT64_MAX,
				   1,
				   chunk - 1,
				   chunk | 1,
				   chunk | (8 * TABLE + 8),
				   3 * chunk,
				   chunk | UINT32_MAX,
				   chunk | (chunk - 8) };
	const size_t n = sizeof(notes) / sizeof(notes[0]);
	struct object *o;
	void *cell;

	(void)state;
	make_region(8);
	assert_int_equal(open_object(anchor(0), &o), 0);
	for (size_t i = 0; i < n * n; i++) {
		region->first->header->placed = notes[i / n];
		region->first->header->placed_at = notes[i % n];
		assert_int_equal(percpu_region_alloc(region, 8, 8, &cell), 0);
		assert_int_equal(region->first->header->placed, 0);
		assert_true(used() > N);
		assert_int_equal(percpu_region_free(region, cell, 8), 0);
	}
	free(o);
	remove_region();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_made_once),
		cmocka_unit_test(no_step_loses_memory),
		cmocka_unit_test(objects_with_a_key_stay),
		cmocka_unit_test(damaged_notes_harm_nobody),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

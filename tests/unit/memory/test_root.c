/* SPDX-License-Identifier: MIT */
/*
 * test_root.c - programs that start at the same time, again, or after one that was killed, and
 * find what the others have made: percpu_region_open() with CREATE. Objects at the roots:
 * test_root_objects.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "steps.h"
#include "support.h"
#include "../root_file.h"

#include "memory/memory.h"

#define N 200 /* counters: their bits are in several words */

static const char *const steps[] = {
	"region: to be opened", "region: not there",	"region: made", "region: named",
	"root: looked up",	"root: object created", "root: set",
};
enum { STEPS = sizeof(steps) / sizeof(steps[0]) };

static const char *at_step; /* the step at which happens() is called; NULL: none */
static void (*happens)(void);
static unsigned dies_at; /* the step at which the process dies, counted from 1; 0: none */

void test_step(const char *name)
{
	void (*fn)(void) = happens;

	if (dies_at != 0 && --dies_at == 0)
		raise(SIGKILL);
	if (at_step == NULL || strcmp(name, at_step) != 0)
		return;
	at_step = NULL; /* once, and not within happens() */
	fn();
}

/* Open the region and the array, and count. */
static int start_program(struct percpu_region **ret_r, struct percpu_counter_array **ret)
{
	int e = percpu_region_open(path, CREATE, NULL, ret_r);

	if (e != 0)
		return e;
	e = percpu_counter_array_open(*ret_r, 0, N, ret);
	if (e != 0) {
		percpu_region_close(*ret_r);
		return e;
	}
	percpu_counter_array_add(*ret, 7, 1);
	return 0;
}

static int run_program(void *arg)
{
	struct percpu_region *r = NULL;
	struct percpu_counter_array *a = NULL;
	int e = start_program(&r, &a);

	(void)arg;
	test_child_require(e == 0, strerror(-e));
	percpu_counter_array_detach(a);
	percpu_region_close(r);
	return 0;
}

static uint64_t total(void)
{
	struct percpu_region *r;
	struct percpu_counter_array *a;
	uint64_t sum;

	assert_int_equal(percpu_region_open(path, 0, NULL, &r), 0);
	assert_int_equal(percpu_counter_array_open(r, 0, N, &a), 0);
	sum = percpu_counter_array_fetch(a, 7);
	percpu_counter_array_detach(a);
	percpu_region_close(r);
	return sum;
}

/* Another program starts while the first one is at each of its steps: both count in the same
 * counters, and nothing stays of what the slower one made. */

static pid_t rival;

static void let_a_rival_start(void)
{
	rival = test_fork(run_program, NULL);
	/* While an object is created, the other program waits. */
	for (int i = 0; i < 50 && !test_has_ended(rival); i++)
		test_sleep_us(1000);
}

static void rivals_share(void **state)
{
	struct percpu_counter_array *a = NULL;
	struct percpu_region *r = NULL;

	(void)state;
	for (int i = 0; i < STEPS; i++) {
		happens = let_a_rival_start;
		at_step = steps[i];
		assert_int_equal(start_program(&r, &a), 0);
		assert_null(at_step);
		assert_int_equal(test_wait(rival, 60), 0);
		assert_int_equal(percpu_counter_array_fetch(a, 7), 2);
		assert_int_equal(total(), 2);
		assert_int_equal(used(), N);
		assert_int_equal(files(), 1);
		percpu_counter_array_detach(a);
		percpu_region_close(r);
		assert_int_equal(unlink(path), 0);
	}
}

/* A program is killed at each step: the next one starts as if there had been none. */

static void die(void)
{
	raise(SIGKILL);
}

static int start_and_die(void *step)
{
	happens = die;
	at_step = step;
	return run_program(NULL);
}

static void killed_starts_are_made_good(void **state)
{
	int status;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (int i = 0; i < STEPS; i++) {
		status = test_wait(test_fork(start_and_die, (void *)steps[i]), 60);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		for (int k = 0; k < 2; k++)
			assert_int_equal(test_wait(test_fork(run_program, NULL), 60), 0);
		assert_int_equal(total(), 2);
		assert_int_equal(used(), N);
		(void)look_at_files(true);
	}
}

/* A program is killed at each step of opening an object, and so are the next ones, each one step
 * later. There is still room for one object. */

static struct percpu_region *region;

static int open_and_die(void *arg)
{
	struct percpu_counter_array *a;
	int e;

	dies_at = *(unsigned *)arg;
	e = percpu_counter_array_open(region, 0, N, &a);
	dies_at = 0;
	return e != 0;
}

static int allocate_and_die(void *arg)
{
	void *cell;
	int e;

	dies_at = *(unsigned *)arg;
	e = percpu_region_alloc(region, 8, 8, &cell);
	dies_at = 0;
	return e != 0 || percpu_region_free(region, cell, 8) != 0;
}

/* Return whether the process was killed. */
static bool kill_at(int (*fn)(void *), unsigned step)
{
	int status = test_wait(test_fork(fn, &step), 60);

	assert_true(status == 0 || status == SIGKILL);
	return status != 0;
}

/* Free cells so that their start bits stay: later objects must not begin there. */
static void leave_old_starts(void)
{
	void *cells[N];

	for (size_t i = 0; i < N; i++)
		assert_int_equal(percpu_region_alloc(region, 8, 8, &cells[i]), 0);
	for (size_t i = 0; i < N; i++)
		assert_int_equal(percpu_region_free(region, cells[i], 8), 0);
}

static void no_step_loses_memory(void **state)
{
	int (*const next[])(void *) = { open_and_die, allocate_and_die };
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = 8 * (N + 8) };
	struct percpu_counter_array *a;
	bool killed = true;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (unsigned step = 1; killed; step++)
		for (unsigned k = 0; k < 2; k++) {
			assert_int_equal(test_region_new(path, &o, &region), 0);
			leave_old_starts();
			killed = kill_at(open_and_die, step);
			for (unsigned i = 1; kill_at(next[k], i); i++)
				;
			assert_int_equal(percpu_counter_array_open(region, 0, N, &a), 0);
			/* Cells of a process killed while it allocated them may be lost. */
			assert_in_range(used(), N, N + 7);
			percpu_counter_array_destroy(a);
			percpu_region_close(region);
			assert_int_equal(unlink(path), 0);
		}
}

/* The creator was killed when its object was at the root. The object stays even if it moves to
 * another root: before the next allocation, or just after the kill was found. */

static void move_to_other_root(void)
{
	uint64_t key = percpu_region_root(region, 0);

	assert_int_equal(percpu_region_set_root(region, 3, 0, key), 0);
	assert_int_equal(percpu_region_set_root(region, 0, key, 0), 0);
}

static void objects_that_were_at_a_root_stay(void **state)
{
	struct percpu_counter_array *a, *b;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (int late = 0; late < 2; late++) {
		assert_int_equal(test_wait(test_fork(start_and_die, (void *)steps[STEPS - 1]), 60),
				 SIGKILL);
		assert_int_equal(percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &region), 0);
		assert_true(region->first->header->creation != 0);
		happens = move_to_other_root;
		at_step = late ? "region: creation found" : NULL;
		if (!late)
			move_to_other_root();
		assert_int_equal(percpu_counter_array_open(region, 1, N, &a), 0);
		assert_null(at_step);
		assert_int_equal(percpu_counter_array_open(region, 3, N, &b), 0);
		assert_true(percpu_counter_array_key(a) != percpu_counter_array_key(b));
		assert_int_equal(used(), 2 * N);
		percpu_counter_array_detach(a);
		percpu_counter_array_detach(b);
		percpu_region_close(region);
		assert_int_equal(unlink(path), 0);
	}
}

/* A slow creator that is alive keeps its cells. */

static int allocate_as_many(void *arg)
{
	struct percpu_counter_array *a;

	(void)arg;
	test_child_require(percpu_counter_array_create_in(region, N, &a) == 0, "others");
	return 0;
}

static void let_others_allocate(void)
{
	rival = test_fork(allocate_as_many, NULL);
	for (int i = 0; i < 50 && !test_has_ended(rival); i++)
		test_sleep_us(1000);
}

static void slow_creators_keep_their_cells(void **state)
{
	struct percpu_counter_array *a;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	happens = let_others_allocate;
	at_step = "root: object created";
	assert_int_equal(percpu_counter_array_open(region, 0, N, &a), 0);
	assert_null(at_step);
	assert_int_equal(test_wait(rival, 60), 0);
	assert_int_equal(used(), 2 * N);
	percpu_counter_array_detach(a);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

/* Put another object at the root meanwhile. */
static void set_root_meanwhile(void)
{
	struct percpu_counter_array *a;

	assert_int_equal(percpu_counter_array_attach(region, percpu_region_root(region, 5), N, &a),
			 0);
	assert_int_equal(percpu_region_set_root(region, 0, 0, percpu_counter_array_key(a)), 0);
	percpu_counter_array_detach(a);
}

static void losers_keep_nothing(void **state)
{
	struct percpu_counter_array *a, *b;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(percpu_counter_array_open(region, 5, N, &a), 0);
	happens = set_root_meanwhile;
	at_step = "root: object created";
	assert_int_equal(percpu_counter_array_open(region, 0, N, &b), 0);
	assert_null(at_step);
	assert_true(percpu_counter_array_key(a) == percpu_counter_array_key(b));
	assert_int_equal(used(), N);
	percpu_counter_array_detach(a);
	percpu_counter_array_detach(b);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

/* Units behind the lane have no bits. In place of those of "used" are bits of "starts", which
 * cells have set, and behind these is the lock, which is the id of the recovering thread. So there
 * seems to be an allocation. */
static void nothing_behind_the_lane_is_freed(void **state)
{
	const unsigned bit = (unsigned)__builtin_ctz((unsigned)gettid());
	void *cell[32], *next;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(percpu_region_alloc(region, 8, 8, &cell[i]), 0);
	region->first->header->creation =
		UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT | (PERCPU_LANE_SIZE + 8 * bit);
	assert_int_equal(percpu_region_alloc(region, 8, 8, &next), 0);
	for (int i = 0; i < 32; i++)
		assert_int_equal(percpu_region_free(region, cell[i], 8), 0);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

static int allocate_one(void *arg)
{
	void *cell;

	(void)arg;
	test_child_require(percpu_region_alloc(region, 8, 8, &cell) == 0, "a cell");
	test_child_require(used() == N + 1, "and no other is freed");
	test_child_require(percpu_region_free(region, cell, 8) == 0, "freed");
	return 0;
}

/* A damaged note is ignored, and cleared. */
static void damaged_notes_harm_nobody(void **state)
{
	const uint64_t chunk = UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT;
	const uint64_t notes[] = {
		UINT64_MAX,
		1,
		chunk | PERCPU_LANE_SIZE,
		chunk | (PERCPU_LANE_SIZE - 8),
		chunk | 16,
		3 * chunk,
		UINT64_C(9) << PERCPU_KEY_KIND_SHIFT | chunk | (chunk - 1),
		UINT64_C(200) << PERCPU_KEY_KIND_SHIFT | chunk | (PERCPU_LANE_SIZE - 8),
	};
	struct percpu_counter_array *a;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(percpu_counter_array_open(region, 5, N, &a), 0);
	for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++) {
		region->first->header->creation = notes[i];
		test_in_child(allocate_one, NULL);
		assert_int_equal(region->first->header->creation, 0);
		assert_int_equal(used(), N);
	}
	percpu_counter_array_destroy(a);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

/* Remove the damaged file, so that the next test does not find it. */
static int remove_file(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

/* The file has no name before it is complete. */

static int seen;

static void look(void)
{
	struct percpu_region *r;

	seen = percpu_region_open(path, 0, NULL, &r);
	if (seen == 0)
		percpu_region_close(r);
}

static void half_a_region_is_not_seen(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		seen = 1;
		happens = look;
		at_step = steps[i];
		assert_int_equal(run_program(NULL), 0);
		assert_int_equal(seen, i < 3 ? -ENOENT : 0);
		assert_int_equal(unlink(path), 0);
	}
}

/* The file appears and disappears while it is being opened. */

static void others_create_it(void);

static void others_remove_it(void)
{
	unlink(path);
	at_step = "region: not there";
	happens = others_create_it;
}

static void others_create_it(void)
{
	struct percpu_region *r;

	assert_int_equal(test_region_new(path, NULL, &r), 0);
	percpu_region_close(r);
	at_step = "region: to be opened";
	happens = others_remove_it;
}

static void give_up_removing(void)
{
	others_create_it();
	at_step = NULL;
}

static void files_that_come_and_go_are_opened(void **state)
{
	struct percpu_region *r = NULL;

	(void)state;
	happens = give_up_removing;
	at_step = "region: not there";
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	percpu_region_close(r);
	r = NULL;
	happens = others_remove_it;
	at_step = "region: to be opened";
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), -EEXIST);
	at_step = NULL;
	assert_null(r);
	unlink(path);
	assert_int_equal(symlink("nowhere", path), 0);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), -EEXIST);
	assert_null(r);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(files(), 0);
}

/* Programs start at the same time, many times over; the kernel decides in which order. */

enum { PROGRAMS = 4 };
static pthread_barrier_t *gate;

static int start_at_once(void *arg)
{
	pthread_barrier_wait(gate);
	return run_program(arg);
}

static void many_starts_lose_nothing(void **state)
{
	pthread_barrierattr_t shared;
	pid_t pid[PROGRAMS];

	(void)state;
	gate = test_share(sizeof(*gate));
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(gate, &shared, PROGRAMS);
	for (unsigned round = 0; round < test_rounds(200); round++) {
		for (int i = 0; i < PROGRAMS; i++)
			pid[i] = test_fork(start_at_once, NULL);
		for (int i = 0; i < PROGRAMS; i++)
			assert_int_equal(test_wait(pid[i], 60), 0);
		assert_int_equal(total(), PROGRAMS);
		assert_int_equal(used(), N);
		assert_int_equal(unlink(path), 0);
	}
}

/* A process is killed while it frees cells. The rest of these stays unused. It affects neither
 * the cells beside it nor the freed ones. */

static void *middle;

static int free_and_die(void *arg)
{
	(void)arg;
	happens = die;
	at_step = "region: units freed";
	percpu_region_free(region, middle, 800 * 8);
	return 0;
}

static void killed_frees_disturb_nobody(void **state)
{
	void *before, *after, *new = NULL;
	int status;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &region), 0);
	assert_int_equal(percpu_region_alloc(region, 100 * 8, 8, &before), 0);
	assert_int_equal(percpu_region_alloc(region, 800 * 8, 8, &middle), 0);
	assert_int_equal(percpu_region_alloc(region, 100 * 8, 8, &after), 0);
	status = test_wait(test_fork(free_and_die, NULL), 60);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	/* From here on this process looks for free units from the beginning. */
	assert_int_equal(percpu_region_free(region, before, 100 * 8), 0);
	assert_int_equal(percpu_region_alloc(region, 100 * 8, 8, &before), 0);
	for (size_t n = used() - 200; n < 800; n++) {
		assert_int_equal(percpu_region_alloc(region, 8, 8, &new), 0);
		assert_true((char *)new > (char *)middle && (char *)new < (char *)after);
		assert_int_equal(percpu_region_free(region, new, 16), -EINVAL);
		assert_int_equal(percpu_region_free(region, new, 8), 0);
		assert_int_equal(percpu_region_alloc(region, 8, 8, &new), 0);
	}
	assert_int_equal(percpu_region_free(region, before, 100 * 8), 0);
	assert_int_equal(percpu_region_free(region, new, 8), 0);
	assert_int_equal(percpu_region_free(region, after, 100 * 8), 0);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rivals_share),
		cmocka_unit_test(killed_starts_are_made_good),
		cmocka_unit_test(no_step_loses_memory),
		cmocka_unit_test(objects_that_were_at_a_root_stay),
		cmocka_unit_test(slow_creators_keep_their_cells),
		cmocka_unit_test(losers_keep_nothing),
		cmocka_unit_test(nothing_behind_the_lane_is_freed),
		cmocka_unit_test_teardown(damaged_notes_harm_nobody, remove_file),
		cmocka_unit_test(half_a_region_is_not_seen),
		cmocka_unit_test(files_that_come_and_go_are_opened),
		cmocka_unit_test(many_starts_lose_nothing),
		cmocka_unit_test(killed_frees_disturb_nobody),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

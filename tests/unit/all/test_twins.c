/* SPDX-License-Identifier: MIT */
/*
 * test_twins.c - behavior that all objects share, tested of each in the same way: how it is
 * made, found and freed, what is refused, and what a child of fork finds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "blocks.h"
#include "faults.h"
#include "model.h"
#include "counts/counts.h"
#include "rings/rings.h"
#include "../root_file.h"
#include "twins.h"

#define OWNERS_ROOT 15
#define POISON ((void *)(uintptr_t)0x5555)

/* Three handles of the file: two that write, as two processes have them, and a reader's.
 * private is a region of this process. */
static struct twin_place place, other, reader, private;

static int open_place(unsigned flags, struct twin_place *ret)
{
	return percpu_region_open(path, flags | PERCPU_REGION_OWNERS, NULL, &ret->r) ||
	       percpu_owners_open(ret->r, OWNERS_ROOT, &ret->o);
}

static int begin(void **state)
{
	(void)state;
	private.o = NULL;
	return open_place(CREATE, &place) || open_place(PERCPU_REGION_WRITE, &other) ||
	       open_place(0, &reader) || percpu_region_create(NULL, &private.r);
}

static void close_place(const struct twin_place *p)
{
	percpu_owners_detach(p->o);
	percpu_region_close(p->r);
}

static int end(void **state)
{
	(void)state;
	close_place(&place);
	close_place(&other);
	close_place(&reader);
	percpu_region_close(private.r);
	return unlink(path);
}

/* Return the twin that a test is run for. */
static enum twin twin_of(void **state)
{
	return (enum twin)(uintptr_t)*state;
}

static void need_file(enum twin t)
{
	if (!twin_is_shared(t))
		test_skip("pairs of this machine are private");
}

static union twin_handle created_in(enum twin t, const struct twin_place *p)
{
	union twin_handle h = { POISON };

	assert_int_equal(twin_create_in(t, p, &h), 0);
	assert_ptr_not_equal(h.any, POISON);
	return h;
}

static union twin_handle attached(enum twin t, const struct twin_place *p, uint64_t key)
{
	union twin_handle h = { POISON };

	assert_int_equal(twin_attach(t, p, key, &h), 0);
	return h;
}

static union twin_handle opened(enum twin t, const struct twin_place *p, unsigned root)
{
	union twin_handle h = { POISON };

	assert_int_equal(twin_open(t, p, root, &h), 0);
	return h;
}

/* Put as a thread that cannot run sequences. */
static int put_without(enum twin t, union twin_handle h, int n)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area = model_set_area(&none);
	int e = twin_put(t, h, n);

	model_set_area(area);
	return e;
}

static void expect(enum twin t, union twin_handle h, int64_t n)
{
	if (twin_has_value(t))
		assert_int_equal(twin_get(t, h), n);
}

/* Use a new object, by sequences and without. */
static void use(enum twin t, union twin_handle h)
{
	expect(t, h, 0);
	assert_int_equal(twin_put(t, h, 3), 0);
	expect(t, h, 3);
	assert_int_equal(put_without(t, h, 4), 0);
	expect(t, h, twin_adds_up(t) ? 7 : 4);
	if (twin_takes_negative(t)) {
		assert_int_equal(twin_put(t, h, -9), 0);
		expect(t, h, twin_adds_up(t) ? -2 : -9);
		assert_int_equal(put_without(t, h, -1), 0);
		expect(t, h, twin_adds_up(t) ? -3 : -1);
	}
}

static void use_and_reset(enum twin t, union twin_handle h)
{
	int e;

	use(t, h);
	e = twin_reset(t, h);
	assert_true(e == 0 || e == -ENOSYS);
	if (e != 0)
		return;
	expect(t, h, 0);
	assert_int_equal(twin_put(t, h, 5), 0);
	expect(t, h, 5);
	assert_int_equal(twin_reset(t, h), 0);
	expect(t, h, 0);
}

/* Handles from different calls are of one object: a value that was put by one can be read by
 * all. */
static void all_handles_are_of_one(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle made, found, seen, root, same;

	need_file(t);
	made = created_in(t, &place);
	found = attached(t, &other, twin_key(t, made));
	seen = attached(t, &reader, twin_key(t, made));
	assert_int_equal(twin_key(t, found), twin_key(t, made));
	assert_int_equal(twin_told(t, found), twin_told(t, made));
	assert_int_equal(twin_told(t, seen), twin_told(t, made));
	assert_int_equal(twin_put(t, made, 2), 0);
	expect(t, found, 2);
	assert_int_equal(twin_put(t, found, 3), 0);
	expect(t, made, twin_adds_up(t) ? 5 : 3);
	expect(t, seen, twin_adds_up(t) ? 5 : 3);
	root = opened(t, &place, 1);
	same = opened(t, &other, 1);
	assert_int_equal(twin_key(t, root), percpu_region_root(place.r, 1));
	assert_int_equal(twin_key(t, same), twin_key(t, root));
	assert_int_not_equal(twin_key(t, root), twin_key(t, made));
	assert_int_equal(twin_told(t, root), twin_told(t, made));
	assert_int_equal(twin_told(t, same), twin_told(t, made));
	assert_int_equal(put_without(t, same, 4), 0);
	expect(t, root, 4);
	twin_detach(t, root);
	expect(t, same, 4);
	twin_detach(t, same);
	twin_detach(t, seen);
	twin_detach(t, found);
	expect(t, made, twin_adds_up(t) ? 5 : 3);
	twin_destroy(t, made);
}

/* Each object begins empty, in each kind of memory, also in place of another one. */
static void each_begins_with_nothing(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h;
	uint64_t key = 0;

	for (int i = 0; i < 3; i++) {
		if (twin_is_private(t)) {
			assert_int_equal(twin_create(t, &h), 0);
			assert_int_equal(twin_key(t, h), 0);
			use_and_reset(t, h);
			(void)twin_put(t, h, 6);
			twin_destroy(t, h);
		}
		if (twin_is_private(t) && !twin_has_owners(t)) {
			h = created_in(t, &private);
			assert_int_equal(twin_key(t, h), 0);
			use_and_reset(t, h);
			(void)put_without(t, h, 6);
			twin_destroy(t, h);
		}
		if (twin_is_shared(t)) {
			h = created_in(t, &place);
			assert_true(key == 0 || twin_key(t, h) == key);
			key = twin_key(t, h);
			use_and_reset(t, h);
			(void)put_without(t, h, 6);
			twin_destroy(t, h);
		}
	}
}

/* Assert that a call failed with the error, and stored no handle. */
static void expect_refusal(int e, int wanted, union twin_handle h)
{
	assert_int_equal(e, wanted);
	assert_ptr_equal(h.any, POISON);
}

static void what_is_missing_is_refused(void **state)
{
	const enum twin t = twin_of(state);
	const struct twin_place none = { NULL, NULL };
	union twin_handle h = { POISON }, made;
	uint64_t key;

	expect_refusal(twin_create_in(t, &none, &h), -EINVAL, h);
	expect_refusal(twin_open(t, &none, 1, &h), -EINVAL, h);
	expect_refusal(twin_attach(t, &none, 1, &h), -EINVAL, h);
	if (twin_is_private(t))
		assert_int_equal(twin_create(t, NULL), -EINVAL);
	assert_int_equal(twin_create_in(t, &place, NULL), -EINVAL);
	assert_int_equal(twin_open(t, &place, 1, NULL), -EINVAL);
	assert_int_equal(percpu_region_root(place.r, 1), 0);
	assert_int_equal(twin_attach(t, &place, 1, NULL), -EINVAL);
	assert_int_equal(twin_key(t, (union twin_handle){ NULL }), 0);
	expect_refusal(twin_open(t, &private, 1, &h), -EINVAL, h);
	need_file(t);
	expect_refusal(twin_open(t, &place, PERCPU_REGION_ROOTS, &h), -EINVAL, h);
	expect_refusal(twin_attach(t, &place, 0, &h), -ENOENT, h);
	expect_refusal(twin_attach(t, &place, 64, &h), -ENOENT, h);
	expect_refusal(twin_attach(t, &place, UINT64_MAX, &h), -ENOENT, h);
	expect_refusal(twin_create_in(t, &reader, &h), -EROFS, h);
	expect_refusal(twin_open(t, &reader, 1, &h), -ENOENT, h);
	assert_int_equal(percpu_region_root(place.r, 1), 0);
	made = created_in(t, &place);
	key = twin_key(t, made);
	expect_refusal(twin_attach(t, &place, key + 8, &h), -ENOENT, h);
	twin_destroy(t, made);
	expect_refusal(twin_attach(t, &place, key, &h), -ENOENT, h);
}

/* Destroying an object must not free cells beside it, whatever their size is. */
static void keep_cells_of_others(enum twin t, struct percpu_region *r)
{
	union twin_handle h;
	void *cell;

	for (size_t size = 8; size <= 64 && t != TWIN_APPROX; size *= 2) {
		assert_int_equal(percpu_region_alloc(r, size, 16, &cell), 0);
		h.any = cell;
		twin_destroy(t, h);
		assert_int_equal(percpu_region_free(r, cell, size), 0);
	}
}

/* Only handles that know the distance of lanes work with lanes of another size. */
static void other_lanes_are_refused_or_used(void **state)
{
	const struct percpu_region_options large = { .size = sizeof(large),
						     .lane_size = 2 * PERCPU_LANE_SIZE };
	const enum twin t = twin_of(state);
	struct twin_place wide = { NULL, NULL };
	union twin_handle h = { POISON };
	char name[160];

	need_file(t);
	if (twin_has_owners(t))
		test_skip("it is in owners");
	if (twin_is_private(t)) {
		assert_int_equal(percpu_region_create(&large, &wide.r), 0);
		if (twin_knows_stride(t))
			expect_refusal(twin_create_in(t, &wide, &h), -EINVAL, h);
		else
			h = created_in(t, &wide);
		if (h.any != POISON) {
			use_and_reset(t, h);
			twin_destroy(t, h);
			h.any = POISON;
		}
		percpu_region_close(wide.r);
	}
	if (!twin_knows_stride(t))
		return;
	snprintf(name, sizeof(name), "%s-wide", path);
	assert_int_equal(test_region_new(name, &large, &wide.r), 0);
	expect_refusal(twin_create_in(t, &wide, &h), -EINVAL, h);
	expect_refusal(twin_open(t, &wide, 1, &h), -EINVAL, h);
	expect_refusal(twin_attach(t, &wide, 64, &h), -EINVAL, h);
	keep_cells_of_others(t, wide.r);
	percpu_region_close(wide.r);
	assert_int_equal(unlink(name), 0);
}

/* Return whether a root with t can be opened as u: a counter is the first one of an array, and
 * statistics may be whole. */
static bool may_open(enum twin t, enum twin u)
{
	return t == u || (t == TWIN_COUNTER && u == TWIN_COUNTERS) ||
	       (t == TWIN_FCOUNTER && u == TWIN_FCOUNTERS) ||
	       (t == TWIN_STATS && u == TWIN_WHOLE_STATS);
}

/* Return whether a key of t can be attached as u. Some objects contain their kind. */
static bool may_attach(enum twin t, enum twin u)
{
	return may_open(t, u) ||
	       ((t == TWIN_EXTREMA || t == TWIN_FEXTREMA) &&
		(u == TWIN_EXTREMA || u == TWIN_FEXTREMA)) ||
	       ((t == TWIN_RING || t == TWIN_KEEPING_RING) &&
		(u == TWIN_RING || u == TWIN_KEEPING_RING));
}

static void other_objects_are_refused(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h = { POISON }, made;

	need_file(t);
	for (enum twin u = 0; u < TWINS; u++) {
		if (!twin_is_shared(u))
			continue;
		made = opened(u, &place, 1);
		if (!may_attach(t, u))
			expect_refusal(twin_attach(t, &other, twin_key(u, made), &h), -ENOENT, h);
		if (!may_open(t, u))
			expect_refusal(twin_open(t, &other, 1, &h), -EEXIST, h);
		assert_int_equal(
			percpu_region_set_root(place.r, 1, percpu_region_root(place.r, 1), 0), 0);
		twin_destroy(u, made);
	}
}

/* A read-only process changes nothing. */
static void readers_change_nothing(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle made, seen;
	int e;

	need_file(t);
	made = opened(t, &place, 1);
	assert_int_equal(twin_put(t, made, 3), 0);
	seen = opened(t, &reader, 1);
	expect(t, seen, 3);
	e = twin_reset(t, seen);
	assert_true(e == 0 || e == -EROFS || e == -ENOSYS);
	expect(t, seen, 3);
	expect(t, made, 3);
	twin_destroy(t, seen);
	expect(t, made, 3);
	seen = opened(t, &other, 1); /* it is there */
	expect(t, seen, 3);
	twin_detach(t, seen);
	twin_destroy(t, made);
}

static void make_and_free(enum twin t)
{
	union twin_handle h = { POISON }, more;

	if (twin_is_private(t)) {
		assert_int_equal(twin_create(t, &h), 0);
		assert_int_equal(twin_put(t, h, 1), 0);
		twin_destroy(t, h);
	}
	if (twin_is_private(t) && !twin_has_owners(t)) {
		h = created_in(t, &private);
		assert_int_equal(twin_put(t, h, 1), 0);
		twin_destroy(t, h);
	}
	if (!twin_is_shared(t))
		return;
	h = opened(t, &place, 1);
	more = opened(t, &other, 1);
	assert_int_equal(twin_put(t, h, 1), 0);
	assert_int_equal(twin_put(t, more, 1), 0);
	twin_detach(t, more);
	more = attached(t, &place, twin_key(t, h));
	twin_detach(t, more);
	assert_int_equal(percpu_region_set_root(place.r, 1, twin_key(t, h), 0), 0);
	twin_destroy(t, h);
	h.any = POISON;
	(void)twin_attach(t, &place, 64, &h);
	(void)twin_create_in(t, &reader, &h);
}

/* A freed object leaves neither memory of the process, nor cells, nor descriptors. */
static void what_is_freed_is_gone(void **state)
{
	const enum twin t = twin_of(state);
	struct test_holding holding;
	unsigned blocks, units;

	make_and_free(t); /* what is made once, and lists that stay */
	holding = test_holding_now();
	blocks = test_blocks();
	units = used();
	for (int i = 0; i < 3; i++)
		make_and_free(t);
	assert_int_equal(used(), units);
	assert_int_equal(test_blocks(), blocks);
	test_assert_holding(holding);
}

/* In the parent, another thread was in the middle of calls: it holds each lock in private
 * memory, and is not in the child. */

static void hold_lane(struct percpu_ring *r, uint32_t i, uint32_t id)
{
	__atomic_store_n(&percpu_ring_at(r, i)->lock, id, __ATOMIC_RELAXED);
	__atomic_store_n(&percpu_ring_at(r, i)->consumer, id, __ATOMIC_RELAXED);
}

static void hold_all(enum twin t, union twin_handle h, uint32_t id)
{
	struct percpu_region *r[2] = { private.r };

	assert_int_equal(percpu_region_default(&r[1]), 0);
	for (int k = 0; k < 2; k++)
		for (uint32_t i = 0; i < r[k]->n; i++)
			__atomic_store_n(&r[k]->chunks->at[i]->header->journal_lock, id,
					 __ATOMIC_RELAXED);
	if (t == TWIN_RING || t == TWIN_KEEPING_RING)
		for (uint32_t i = 0; i < 2 * h.ring->block.chunk->cpus; i++)
			hold_lane(h.ring, i, id);
	if (t == TWIN_STATS || t == TWIN_WHOLE_STATS)
		__atomic_store_n(&percpu_stats_control(h.stats)->reader, id, __ATOMIC_RELAXED);
	if (t == TWIN_EXTREMA || t == TWIN_FEXTREMA)
		__atomic_store_n(&percpu_extrema_control(h.extrema)->turn, id, __ATOMIC_RELAXED);
}

static bool takes_all_records(union twin_handle h, unsigned n)
{
	struct percpu_ring_reader *r;
	struct percpu_ring_record record;
	bool ok = percpu_ring_reader_create(h.ring, PERCPU_RING_ALL, 0, &r) == 0;

	for (unsigned i = 0; i < n; i++)
		ok = ok && percpu_ring_read(r, &record) == 0;
	return ok && percpu_ring_read(r, &record) == -EAGAIN;
}

static unsigned sleeps;

void __real_percpu_futex_sleep(uint32_t *word, int op, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int op, uint32_t value, uint64_t ns);

void __wrap_percpu_futex_sleep(uint32_t *word, int op, uint32_t value, uint64_t ns)
{
	sleeps++;
	__real_percpu_futex_sleep(word, op, value, ns);
}

struct inherited {
	enum twin t;
	union twin_handle h;
};

/* Use the objects in the child: no call waits for that thread. */
static int use_inherited(void *arg)
{
	const struct inherited *is = arg;
	union twin_handle more;
	int e;

	sleeps = 0;
	test_child_require(put_without(is->t, is->h, 4) == 0, "put");
	test_child_require(twin_put(is->t, is->h, 4) == 0, "put by sequence");
	if (is->t == TWIN_RING || is->t == TWIN_KEEPING_RING)
		test_child_require(takes_all_records(is->h, 8 + 2), "records are read");
	e = twin_reset(is->t, is->h);
	test_child_require(e == 0 || e == -ENOSYS, "reset");
	test_child_require(twin_has_owners(is->t) || twin_create_in(is->t, &private, &more) == 0,
			   "create");
	test_child_require(sleeps == 0, "nobody is waited for");
	return 0;
}

static void children_wait_for_nobody(void **state)
{
	struct inherited is = { .t = twin_of(state) };

	if (!twin_is_private(is.t))
		test_skip("it is of processes");
	for (int in_region = 0; in_region < 2; in_region++) {
		if (in_region && twin_has_owners(is.t))
			break;
		if (in_region)
			is.h = created_in(is.t, &private);
		else
			assert_int_equal(twin_create(is.t, &is.h), 0);
		assert_int_equal(twin_put(is.t, is.h, 2), 0);
		hold_all(is.t, is.h, (uint32_t)getpid());
		assert_int_equal(test_wait(test_fork(use_inherited, &is), 60), 0);
		hold_all(is.t, is.h, 0);
		expect(is.t, is.h, 2);
		twin_destroy(is.t, is.h);
	}
}

/* A child puts by each handle of an object, whichever call returned it. The child is a process of
 * its own: if the object has shares, it gets its own share. A process that left the owners and
 * joins again gets a new share, too. The records fit even into the smallest ring. */

static int put_in_child(void *arg)
{
	const struct inherited *is = arg;

	test_child_require(put_without(is->t, is->h, 1) == 0, "put");
	test_child_require(twin_put(is->t, is->h, 1) == 0, "put by sequence");
	return 0;
}

/* Put `more` to the value n, then put in a child. Return the value after that. */
static int64_t use_in_child(enum twin t, union twin_handle h, int64_t n, int more)
{
	struct inherited is = { t, h };
	int64_t then;

	assert_int_equal(twin_put(t, h, more), 0);
	then = twin_adds_up(t) ? n + more : more;
	expect(t, h, then);
	assert_int_equal(test_wait(test_fork(put_in_child, &is), 60), 0);
	then = twin_adds_up(t) ? then + 2 : t == TWIN_LATEST || t == TWIN_EXEMPLARS ? 1 : then;
	expect(t, h, then);
	return then;
}

static void children_put_for_themselves(void **state)
{
	const enum twin t = twin_of(state);
	union twin_handle h[4];
	int64_t n = 0;

	need_file(t);
	if (twin_has_owners(t) && test_thread_sanitizer())
		test_skip("children may start threads");
	h[0] = created_in(t, &place);
	assert_int_equal(percpu_region_set_root(place.r, 1, 0, twin_key(t, h[0])), 0);
	h[1] = opened(t, &place, 1);
	h[2] = attached(t, &place, twin_key(t, h[0]));
	h[3] = attached(t, &other, twin_key(t, h[0]));
	for (unsigned i = 0; i < 4; i++) {
		n = use_in_child(t, h[i], n, 2 + (int)i); /* more than before */
		if (!twin_has_owners(t) || !twin_has_value(t))
			continue;
		percpu_owners_leave(place.o);
		percpu_owners_leave(other.o);
		expect(t, h[i], n);
		assert_int_equal(twin_put(t, h[i], 1), 0); /* more remains of the former owner */
		expect(t, h[i], n);
	}
	for (unsigned i = 0; i < 4; i++)
		expect(t, h[i], n);
	for (unsigned i = 1; i < 4; i++)
		twin_detach(t, h[i]);
	assert_int_equal(percpu_region_set_root(place.r, 1, twin_key(t, h[0]), 0), 0);
	twin_destroy(t, h[0]);
}

static const struct {
	const char *name;
	void (*run)(void **state);
} bodies[] = {
	{ "all handles are of one", all_handles_are_of_one },
	{ "each begins with nothing", each_begins_with_nothing },
	{ "what is missing is refused", what_is_missing_is_refused },
	{ "other lanes are refused or used", other_lanes_are_refused_or_used },
	{ "other objects are refused", other_objects_are_refused },
	{ "readers change nothing", readers_change_nothing },
	{ "what is freed is gone", what_is_freed_is_gone },
	{ "children wait for nobody", children_wait_for_nobody },
	{ "children put for themselves", children_put_for_themselves },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))

int main(void)
{
	static struct CMUnitTest tests[BODIES * TWINS];
	static char names[BODIES * TWINS][64];
	size_t n = 0;

	for (size_t i = 0; i < BODIES; i++)
		for (enum twin t = 0; t < TWINS; t++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", twin_names[t],
				 bodies[i].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = bodies[i].run,
							.setup_func = begin,
							.teardown_func = end,
							.initial_state = (void *)(uintptr_t)t };
		}
	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

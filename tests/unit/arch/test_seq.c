/* SPDX-License-Identifier: MIT */
/*
 * test_seq.c - each sequence against its model, alone in a lane.
 *
 * The sequences get the test's own area, which the kernel does not know, and which names any
 * CPU. So this runs on every machine, registered or not. Interruptions: tests/inject.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <percpu/status.h>

#include "model.h"
#include "support.h"

#define LANES 4
#define CASES 4000

#ifdef PERCPU_ARCH_GENERIC_H
static const bool generic = true;
#else
static const bool generic;
#endif

static struct percpu_rseq area(int32_t cpu)
{
	struct percpu_rseq rs = { .cpu_id_start = 99, .cpu_id = cpu, .flags = 7, .node_id = 8 };

	return rs;
}

static struct model_result run_with(struct percpu_rseq *rs, struct model_lane *lane0,
				    const struct model_case *c)
{
	struct percpu_rseq *own = model_set_area(rs);
	struct model_result r = model_run(lane0, c);

	model_set_area(own);
	return r;
}

static bool same_world(const struct model_lane *a, const struct model_lane *b,
		       const struct model_case *c)
{
	for (unsigned i = 0; i < LANES; i++)
		if (!model_same(&a[i], &b[i], c->op, c->mask))
			return false;
	return true;
}

static void check_op(enum model_op op, uint64_t *random)
{
	struct model_lane real[LANES], model[LANES];
	int32_t cpu = (int32_t)(test_random(random) % LANES);
	struct percpu_rseq rs = area(cpu), before;
	struct model_result got, want;
	struct model_case c;

	for (unsigned i = 0; i < LANES; i++)
		model_fill(&real[i], op, random);
	model_choose(&c, op, &real[cpu], random);
	memcpy(model, real, sizeof(real));
	before = rs;
	want = model_apply(&model[cpu], &c);
	got = run_with(&rs, real, &c);
	if (got.code != want.code || got.value != want.value || !same_world(real, model, &c))
		fail_msg("%s differs from its model", model_name(op));
	rs.rseq_cs = before.rseq_cs;
	assert_memory_equal(&rs, &before, sizeof(rs));
}

static void sequences_do_what_the_model_does(void **state)
{
	uint64_t random = 42;

	(void)state;
	if (generic)
		test_skip("the generic port has no sequences");
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++)
		for (unsigned i = 0; model_exists(op, PERCPU_SEQ_WORDS) && i < CASES; i++)
			check_op(op, &random);
}

/* So many lanes are 4 GiB: a distance of 32 bits would lead to lane 0. */
#define FAR (int32_t)((UINT64_C(1) << 32) / sizeof(struct model_lane))

static void check_far(enum model_op op, struct model_lane *lane0, uint64_t *random)
{
	struct model_lane *lane = lane0 + FAR, near, model;
	struct percpu_rseq rs = area(FAR);
	struct model_result got, want;
	struct model_case c;

	model_fill(lane0, op, random);
	model_fill(lane, op, random);
	near = *lane0;
	model = *lane;
	model_choose(&c, op, lane, random);
	want = model_apply(&model, &c);
	got = run_with(&rs, lane0, &c);
	if (got.code != want.code || got.value != want.value ||
	    !model_same(lane, &model, op, c.mask) || !model_same(lane0, &near, op, c.mask))
		fail_msg("%s takes another lane", model_name(op));
}

static void lanes_may_be_far_apart(void **state)
{
	const size_t page = 65536, size = FAR * sizeof(struct model_lane) + page;
	uint64_t random = 45;
	char *memory;

	(void)state;
	if (generic)
		test_skip("the generic port has no sequences");
	assert_int_equal((UINT64_C(1) << 32) % sizeof(struct model_lane), 0);
	memory = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED)
		test_skip("no address space");
	assert_int_equal(mprotect(memory, page, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(mprotect(memory + size - page, page, PROT_READ | PROT_WRITE), 0);
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++)
		for (unsigned i = 0; model_exists(op, PERCPU_SEQ_WORDS) && i < 20; i++)
			check_far(op, (void *)memory, &random);
	munmap(memory, size);
}

static void expect_slow(enum model_op op, int32_t cpu, uint32_t guard, uint64_t *random)
{
	struct model_lane real[LANES], model[LANES];
	struct percpu_rseq rs = area(cpu);
	struct model_result got;
	struct model_case c;

	for (unsigned i = 0; i < LANES; i++) {
		model_fill(&real[i], op, random);
		real[i].guard = (int32_t)i == cpu ? guard : 0;
	}
	model_choose(&c, op, &real[0], random);
	memcpy(model, real, sizeof(real));
	got = run_with(&rs, real, &c);
	assert_int_equal(got.code, PERCPU_SEQ_SLOW);
	assert_memory_equal(real, model, sizeof(real));
}

static void unregistered_threads_change_nothing(void **state)
{
	uint64_t random = 43;

	(void)state;
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++) {
		if (!model_exists(op, PERCPU_SEQ_WORDS))
			continue;
		expect_slow(op, -1, 0, &random);
		expect_slow(op, -2, 0, &random);
		expect_slow(op, INT32_MIN, 0, &random);
	}
}

static void guarded_lanes_are_left_alone(void **state)
{
	static const uint32_t guards[] = { 1, 0x80000000, 0xffffffff, 0x100 };
	uint64_t random = 44;

	(void)state;
	for (enum model_op op = MODEL_ADD_LIMIT; op <= MODEL_COPY; op++)
		for (unsigned i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
			expect_slow(op, 2, guards[i], &random);
}

static void guards_of_other_lanes_do_not_matter(void **state)
{
	struct model_lane lane[LANES] = {
		{ .guard = 1 }, { .guard = 0 }, { .guard = 1 }, { .guard = 1 }
	};
	struct model_case c = { .op = MODEL_XCHG, .n = { 7 } };
	struct percpu_rseq rs = area(1);

	(void)state;
	if (generic)
		test_skip("the generic port has no sequences");
	assert_int_equal(run_with(&rs, lane, &c).code, 0);
	assert_int_equal(lane[1].word[0], 7);
}

/* Constants become immediate operands, if the instruction has them. */
static void constant_arguments(void **state)
{
	struct percpu_rseq rs = area(0), *own;
	int64_t cell = 5, v = 0;
	uint32_t guard = 0;

	(void)state;
	if (generic)
		test_skip("the generic port has no sequences");
	own = model_set_area(&rs);
	assert_int_equal(percpu_seq_add(&cell, 8, 1), 0);
	assert_int_equal(percpu_seq_add(&cell, 8, INT64_C(0x123456789ab)), 0);
	assert_int_equal(percpu_seq_add(&cell, 8, INT32_MIN), 0);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	assert_int_equal(cell, 6 + INT64_C(0x123456789ab) + INT32_MIN);
	assert_int_equal(percpu_seq_xchg(&cell, &guard, 8, -1, &v), 0);
	assert_int_equal(percpu_seq_cmpxchg(&cell, &guard, 8, -1, 9, &v), 0);
	assert_int_equal(v, -1);
	assert_int_equal(percpu_seq_add_limit(&cell, &guard, 8, 1, 9, &v), PERCPU_SEQ_REFUSED);
	assert_int_equal(percpu_seq_add_limit(&cell, &guard, 8, 1, 10, &v), 0);
	assert_int_equal(percpu_seq_xchg(&cell, &guard, 8, 1, &v), 0);
	assert_int_equal(v, 10);
	model_set_area(own);
}

static void spin_ends_by_flag_or_tries(void **state)
{
	struct percpu_rseq rs = area(0), unregistered = area(-1), *own;
	uint32_t clear = 0, set = 1;

	(void)state;
	own = model_set_area(&unregistered);
	assert_int_equal(percpu_seq_spin(&set, 100), PERCPU_SEQ_SLOW);
	model_set_area(own);
	if (generic)
		test_skip("the generic port has no sequences");
	own = model_set_area(&rs);
	assert_int_equal(percpu_seq_spin(&set, 100), PERCPU_SEQ_REFUSED);
	assert_int_equal(percpu_seq_spin(&clear, 100), PERCPU_SEQ_REFUSED);
	assert_int_equal(percpu_seq_spin(&clear, 0), PERCPU_SEQ_REFUSED);
	model_set_area(own);
}

static void attach_gives_the_callers_area(void **state)
{
	struct percpu_rseq *rs;

	(void)state;
	percpu_status();
	rs = percpu_seq_attach();
	assert_ptr_equal(rs, percpu_self);
	assert_int_equal(percpu_self->cpu_id >= 0, percpu_thread_tier() == PERCPU_TIER_RSEQ);
}

/* Numbers of records that are not there, as in a damaged file. */
static void damaged_groups_are_left_alone(void **state)
{
	static const uint64_t names[] = { 2 << 1 | 1, UINT64_C(2) << 32 | 1, UINT64_MAX };
	struct percpu_rseq rs = area(0), *own;
	uint64_t lane[32] __attribute__((aligned(64))), before[32], bank = 0;

	(void)state;
	if (generic)
		test_skip("the generic port has no sequences");
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned w = 0; w < 32; w++)
			lane[w] = w;
		lane[1] = names[i];
		memcpy(before, lane, sizeof(lane));
		own = model_set_area(&rs);
		assert_int_equal(percpu_seq_group_undo(lane, sizeof(lane), &bank, 0, 64, 2, 16),
				 PERCPU_SEQ_SLOW);
		model_set_area(own);
		assert_memory_equal(lane, before, sizeof(lane));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(damaged_groups_are_left_alone),
		cmocka_unit_test(sequences_do_what_the_model_does),
		cmocka_unit_test(lanes_may_be_far_apart),
		cmocka_unit_test(unregistered_threads_change_nothing),
		cmocka_unit_test(guarded_lanes_are_left_alone),
		cmocka_unit_test(guards_of_other_lanes_do_not_matter),
		cmocka_unit_test(constant_arguments),
		cmocka_unit_test(spin_ends_by_flag_or_tries),
		cmocka_unit_test(attach_gives_the_callers_area),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_planted.c - sequences with a bug each, to prove that test_steps.c would
 * see it: the same experiments, run on these, must come out wrong.
 */
#include "inject.h"

#include "../support.h"

#if defined(__x86_64__) && !defined(PERCPU_ARCH_GENERIC_H)

/* clang-format off */

/* The CPU number is read before the sequence starts, and may be old. */
static int planted_stale_cpu(struct percpu_rseq *rs, void *cell, size_t stride, int64_t n)
{
	int64_t cpu;

	__asm__ __volatile__("movslq 4(%[rs]), %[cpu]\n\t" PERCPU_SEQ_STEP(1)
			     : [cpu] "=&r"(cpu)
			     : [rs] "r"(rs)
			     : "cc", "memory" PERCPU_SEQ_STEP_CLOBBERS);
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		"movq %[cpu], %%rax\n\t"
		PERCPU_SEQ_LANE
		"addq %[n], (%[cell], %%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(rs), [cell] "r"(cell), [stride] "r"(stride), [n] "r"(n), [cpu] "r"(cpu)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/* Disarmed: the kernel does not know of the sequence, and aborts nothing. */
static int planted_no_abort(struct percpu_rseq *rs, void *cell, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		"movq $0, 8(%[rs])\n\t"
		PERCPU_SEQ_LANE
		"addq %[cell], %%rax\n\t"
		"movq (%%rax), %%r11\n\t"
		"addq %[n], %%r11\n\t"
		PERCPU_SEQ_STEP(6)
		"movq %%r11, (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(rs), [cell] "r"(cell), [stride] "r"(stride), [n] "r"(n)
		: "r11", PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/* The count is stored before the item, so an abort leaves a hole. */
static int planted_early_commit(struct percpu_rseq *rs, void *cell, size_t stride, void *item)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"addq %[cell], %%rax\n\t"
		"movq (%%rax), %%r11\n\t"
		"incq (%%rax)\n\t"
		PERCPU_SEQ_STEP(8)
		"movq %[item], 8(%%rax, %%r11, 8)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(rs), [cell] "r"(cell), [stride] "r"(stride), [item] "r"(item)
		: "r11", PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/* clang-format on */

static struct model_result run_stale_cpu(struct percpu_rseq *rs, struct model_lane *lane0,
					 const struct model_case *c)
{
	struct model_result r = { planted_stale_cpu(rs, lane0->word, sizeof(*lane0), c->n[0]),
				  MODEL_UNSET };

	return r;
}

static struct model_result run_no_abort(struct percpu_rseq *rs, struct model_lane *lane0,
					const struct model_case *c)
{
	struct model_result r = { planted_no_abort(rs, lane0->word, sizeof(*lane0), c->n[0]),
				  MODEL_UNSET };

	return r;
}

static struct model_result run_early_commit(struct percpu_rseq *rs, struct model_lane *lane0,
					    const struct model_case *c)
{
	void *item = (void *)(uintptr_t)c->n[0];
	struct model_result r = { planted_early_commit(rs, lane0->word, sizeof(*lane0), item),
				  MODEL_UNSET };

	return r;
}

static void stale_cpu_number_is_seen(void **state)
{
	uint64_t random = 47;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences on this tier");
	assert_int_equal(inject_trap(run_stale_cpu, MODEL_ADD, 1, INJECT_NOTHING, &random),
			 INJECT_WRONG); /* it went on as if nothing had happened */
	if (test_cpus() < 2)
		test_skip("one CPU");
	assert_int_equal(inject_trap(run_stale_cpu, MODEL_ADD, 1, INJECT_MIGRATE, &random),
			 INJECT_WRONG);
	assert_int_equal(inject_wait(run_stale_cpu, MODEL_ADD, 1, INJECT_BY_MIGRATION, &random),
			 INJECT_WRONG);
}

/* Without a step where the bug is, breakpoints find it. */
static void stale_cpu_number_is_seen_at_instructions(void **state)
{
	unsigned stops;
	int wrong;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	wrong = inject_instructions(run_stale_cpu, MODEL_ADD, INJECT_MIGRATE, 50, &stops);
	if (wrong < 0)
		test_skip("code cannot be patched here");
	assert_in_range(wrong, 1, stops - 1);
}

static void missing_abort_is_seen(void **state)
{
	uint64_t random = 48;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences on this tier");
	for (int step = 4; step <= 6; step += 2) {
		assert_int_equal(inject_trap(run_no_abort, MODEL_ADD, step, INJECT_NESTED, &random),
				 INJECT_WRONG);
		for (enum inject_event e = 0; test_cpus() > 1 && e < INJECT_EVENTS; e++)
			assert_int_equal(inject_wait(run_no_abort, MODEL_ADD, step, e, &random),
					 INJECT_WRONG);
	}
}

static void store_after_commit_is_seen(void **state)
{
	uint64_t random = 49;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences on this tier");
	assert_int_equal(inject_trap(run_early_commit, MODEL_PUSH, 8, INJECT_NOTHING, &random),
			 INJECT_WRONG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stale_cpu_number_is_seen),
		cmocka_unit_test(stale_cpu_number_is_seen_at_instructions),
		cmocka_unit_test(missing_abort_is_seen),
		cmocka_unit_test(store_after_commit_is_seen),
	};

	return cmocka_run_group_tests(tests, inject_setup, inject_teardown);
}

#else

static void planted(void **state)
{
	(void)state;
	test_skip("the planted sequences are for x86-64");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(planted) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif

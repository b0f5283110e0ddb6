/* SPDX-License-Identifier: MIT */
/*
 * test_steps.c - stops every operation at every step, with every event that can come between. The
 * interrupted sequence must have done nothing, and the next try must do what its model does.
 */
#include "inject.h"

#include "../support.h"

#define ROUNDS 4

/* Check the steps of an operation. All operations have steps 1 to 4. */
static void expect_steps(enum model_op op, unsigned steps)
{
	if (steps < 4)
		fail_msg("%s stopped at %u steps only", model_name(op), steps);
}

static void handlers_that_interrupt(void **state)
{
	uint64_t random = 45;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++) {
		unsigned steps = 0;

		if (!model_exists(op, PERCPU_SEQ_WORDS))
			continue;
		for (unsigned i = 0; i < INJECT_STEPS * INJECT_ACTIONS * ROUNDS; i++) {
			int step = 1 + (int)(i % INJECT_STEPS);
			enum inject_action action = i / INJECT_STEPS % INJECT_ACTIONS;
			enum inject_outcome o = inject_trap(model_run, op, step, action, &random);

			if (o == INJECT_WRONG)
				fail_msg("%s, step %d, action %d", model_name(op), step, action);
			steps += o == INJECT_RIGHT && action == INJECT_NOTHING;
		}
		expect_steps(op, steps / ROUNDS);
	}
}

static void threads_that_interfere(void **state)
{
	uint64_t random = 46;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++) {
		unsigned steps = 0;

		if (!model_exists(op, PERCPU_SEQ_WORDS))
			continue;
		for (unsigned i = 0; i < INJECT_STEPS * INJECT_EVENTS; i++) {
			int step = 1 + (int)(i % INJECT_STEPS);
			enum inject_event event = i / INJECT_STEPS;
			enum inject_outcome o = inject_wait(model_run, op, step, event, &random);

			if (o == INJECT_WRONG)
				fail_msg("%s, step %d, event %d", model_name(op), step, event);
			steps += o == INJECT_RIGHT && event == INJECT_BY_SIGNAL;
		}
		expect_steps(op, steps);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(handlers_that_interrupt),
		cmocka_unit_test(threads_that_interfere),
	};

	return cmocka_run_group_tests(tests, inject_setup, inject_teardown);
}

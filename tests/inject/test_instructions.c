/* SPDX-License-Identifier: MIT */
/*
 * test_instructions.c - stops every operation before each instruction that it executes, and does
 * there all that its own thread can do.
 */
#include "inject.h"

#include "../support.h"

static void stops_at_every_instruction(void **state)
{
	unsigned stops, all = 0;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++) {
		if (!model_exists(op, PERCPU_SEQ_WORDS))
			continue;
		for (enum inject_action a = 0; a <= INJECT_THERE_AND_BACK; a++) {
			int wrong = inject_instructions(model_run, op, a, 80 + op, &stops);

			if (wrong < 0)
				test_skip("code cannot be patched here");
			if (wrong > 0)
				fail_msg("%s, action %d: wrong at %d of %u stops", model_name(op),
					 a, wrong, stops);
			all += stops;
		}
	}
	print_message("%u stops\n", all);
	assert_true(all > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_at_every_instruction),
	};

	return cmocka_run_group_tests(tests, inject_setup, inject_teardown);
}

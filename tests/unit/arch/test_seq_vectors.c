/* SPDX-License-Identifier: MIT */
/* test_seq_vectors.c - vectors.h with the library beside it. */
#include "../vectors.h"

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(vectors_live_across_every_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* variable_other.c - the second unit of test_variable.c: same program, same image. */
#include <percpu/variable.h>

PERCPU_VARIABLE(uint64_t, shared_by_units) = 3;

void other_unit_adds(int64_t n);

void other_unit_adds(int64_t n)
{
	PERCPU_VARIABLE_ADD(shared_by_units, n);
}

/* SPDX-License-Identifier: MIT */
/* static_generic.c - the half of test_counter_static.c that has no sequences. */
#define PERCPU_GENERIC
#include "static_generic.h"

void generic_static_add(struct percpu_static_counter *s, int64_t n)
{
	percpu_static_counter_add(s, n);
}

void generic_counter_add(struct percpu_counter *c, int64_t n)
{
	percpu_counter_add(c, n);
}

void generic_array_add8(struct percpu_counter_array *a, size_t i, const int64_t n[8])
{
	percpu_counter_array_add_n(a, i, n, 8);
}

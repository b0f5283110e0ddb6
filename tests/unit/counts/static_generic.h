/* SPDX-License-Identifier: MIT */
/* static_generic.h - adds to counters of test_counter_static.c in a unit without sequences. */
#ifndef TESTS_UNIT_STATIC_GENERIC_H
#define TESTS_UNIT_STATIC_GENERIC_H

#include <percpu/counter.h>

void generic_static_add(struct percpu_static_counter *s, int64_t n);
void generic_counter_add(struct percpu_counter *c, int64_t n);
void generic_array_add8(struct percpu_counter_array *a, size_t i, const int64_t n[8]);

#endif

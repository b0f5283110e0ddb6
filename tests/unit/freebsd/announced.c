/* SPDX-License-Identifier: MIT */
/*
 * announced.c - a unit that repeats the prototypes of counter(9) as they were announced: what is
 * added is a uint64_t.
 */
#define PERCPU_COUNTER_U64_INC uint64_t
#include <percpu/freebsd/counter.h>

counter_u64_t counter_u64_alloc(int wait);
void counter_u64_free(counter_u64_t cnt);
void counter_u64_add(counter_u64_t cnt, uint64_t inc);
uint64_t counter_u64_fetch(counter_u64_t cnt);

void add_as_announced(counter_u64_t c, uint64_t n);

void add_as_announced(counter_u64_t c, uint64_t n)
{
	counter_u64_add(c, n);
}

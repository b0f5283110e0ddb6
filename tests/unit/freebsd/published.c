/* SPDX-License-Identifier: MIT */
/*
 * published.c - a unit that repeats the prototypes of counter(9) as they were published later: what
 * is added is an int64_t.
 */
#include <percpu/freebsd/counter.h>

counter_u64_t counter_u64_alloc(int wait);
void counter_u64_free(counter_u64_t c);
void counter_u64_add(counter_u64_t c, int64_t v);
void counter_u64_zero(counter_u64_t c);
uint64_t counter_u64_fetch(counter_u64_t c);

void add_as_published(counter_u64_t c, int64_t n);

void add_as_published(counter_u64_t c, int64_t n)
{
	counter_u64_add(c, n);
}

/* SPDX-License-Identifier: MIT */
/*
 * linux.c - Linux's operations on integers, in the C that is also C++; and uses that must not
 * compile.
 */
#include <percpu/linux/percpu.h>

struct item {
	uint64_t words[2];
	int32_t half;
	uint8_t small;
	double real;
	void *pointer;
};

static DEFINE_PER_CPU(int16_t, two);

int main(void)
{
	struct item *item = alloc_percpu(struct item);
	uint64_t found = 5, sum = 0;
	int cpu;

	if (!item)
		return 1;
	this_cpu_add(item->words[1], 7);
	this_cpu_sub(item->half, 1);
	this_cpu_inc(item->small);
	this_cpu_dec(two);
#ifdef REFUSED_ADD_TO_A_DOUBLE
	this_cpu_add(item->real, 1);
#endif
#ifdef REFUSED_ADD_TO_AN_ARRAY
	this_cpu_inc(item->words);
#endif
#ifdef REFUSED_ADD_TO_A_STRUCT
	this_cpu_inc(*item);
#endif
#ifdef REFUSED_ADD_TO_A_POINTER
	this_cpu_inc(item->pointer);
#endif
#ifdef REFUSED_SUB_FROM_A_DOUBLE
	this_cpu_sub(item->real, 1);
#endif
	percpu_section_enter();
	while (!this_cpu_try_cmpxchg(item->words[0], &found, found + 4))
		;
	sum += this_cpu_cmpxchg(item->words[0], 4, 9);
	(void)this_cpu_add_return(item->half, 2);
	(void)this_cpu_xchg(item->small, 3);
	percpu_section_exit();
	for_each_possible_cpu(cpu) sum += per_cpu_ptr(item, cpu)->words[1];
	free_percpu(item);
	return sum == 11 ? 0 : 2;
}

/* SPDX-License-Identifier: MIT */
/*
 * inline.cc - one of two units that share an inline function with a sequence
 * in it. The linker keeps one copy of the function, and must keep one of the
 * sequence's tables.
 */
#include <percpu/percpu.h>

inline void count_twice(struct percpu_counter *c)
{
	percpu_counter_inc(c);
	percpu_counter_inc(c);
}

#ifdef SECOND
void count_there(struct percpu_counter *c)
{
	count_twice(c);
}
#else
void count_there(struct percpu_counter *c);

int main()
{
	struct percpu_counter *c;

	if (percpu_counter_create(&c) != 0)
		return 1;
	count_twice(c);
	count_there(c);
	return percpu_counter_fetch(c) == 4 ? 0 : 1;
}
#endif

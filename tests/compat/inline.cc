/* SPDX-License-Identifier: MIT */
/*
 * inline.cc - one of two units that share an inline function with a sequence
 * in it. The linker keeps one copy of the function, and must keep one of the
 * sequence's tables.
 */
extern "C" {
#include <percpu/freebsd.h>
}
#include <percpu/percpu.h>

/* What the macros define is in the namespace, and nothing else. */
namespace app
{
static PERCPU_COUNTER_DEFINE(first);
static PERCPU_COUNTER_DEFINE(second);
static counter_u64_t drops;
COUNTER_U64_SYSINIT(drops);

static struct percpu_counter *count_all(struct percpu_counter *c)
{
	percpu_static_counter_add(&first, 1);
	percpu_static_counter_add(&second, 1);
	counter_u64_add(drops, 1);
	return c;
}
} // namespace app

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
	count_twice(app::count_all(c));
	count_there(c);
	return percpu_counter_fetch(c) == 4 ? 0 : 1;
}
#endif

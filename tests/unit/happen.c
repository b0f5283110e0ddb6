/* SPDX-License-Identifier: MIT */
/* happen.c - see happen.h. */
#include "happen.h"

#include <stddef.h>
#include <string.h>

#include "../steps.h"

const char *at_step;
unsigned times;
static void (*happens)(void);

void test_step(const char *name)
{
	const char *const here = __atomic_load_n(&at_step, __ATOMIC_ACQUIRE);

	if (here == NULL || strcmp(name, here) != 0)
		return;
	times--;
	/* Not in what happens, unless that lets something else happen. */
	__atomic_store_n(&at_step, NULL, __ATOMIC_RELAXED);
	happens();
	if (times != 0 && at_step == NULL)
		__atomic_store_n(&at_step, here, __ATOMIC_RELEASE);
}

void let_happen(void (*fn)(void), const char *step, unsigned n)
{
	happens = fn;
	times = n;
	/* Another thread may be at a step already. */
	__atomic_store_n(&at_step, step, __ATOMIC_RELEASE);
}

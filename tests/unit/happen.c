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
	const char *const here = at_step;

	if (here == NULL || strcmp(name, here) != 0)
		return;
	times--;
	at_step = NULL; /* not in what happens, unless that lets something else happen */
	happens();
	if (times != 0 && at_step == NULL)
		at_step = here;
}

void let_happen(void (*fn)(void), const char *step, unsigned n)
{
	happens = fn;
	times = n;
	at_step = step;
}

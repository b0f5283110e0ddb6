/* SPDX-License-Identifier: MIT */
/* plugin.c - a shared object with inlined adds, to be loaded and unloaded. */
#include <percpu/percpu.h>

PERCPU_API void plugin_count(struct percpu_counter *c, unsigned n);

void plugin_count(struct percpu_counter *c, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		percpu_counter_inc(c);
}

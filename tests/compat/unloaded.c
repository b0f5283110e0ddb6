/* SPDX-License-Identifier: MIT */
/* unloaded.c - a plugin that counts: C and C++; see unload.c. */
#include <percpu/percpu.h>

#ifdef MORE
#define plugin_count more
#endif

#ifdef __cplusplus
extern "C" {
#endif
PERCPU_API void plugin_count(int wait);
#ifdef __cplusplus
}
#endif

void plugin_count(int wait)
{
	struct percpu_counter *c;

	if (percpu_counter_create(&c) != 0)
		return;
	if (wait)
		(void)percpu_selftest(); /* so that it counts by sequences */
	for (int i = 0; i < 1000; i++)
		percpu_counter_inc(c);
}

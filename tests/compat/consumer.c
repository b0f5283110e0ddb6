/* SPDX-License-Identifier: MIT */
/*
 * consumer.c - a user's program, in the C that is also C++: four threads count, one reads.
 * Prints the tier, which must not depend on how the library was linked.
 */
#include <percpu/percpu.h>

#include <pthread.h>
#include <stdio.h>

#define THREADS 4
#define ADDS 10000

static PERCPU_COUNTER_DEFINE(early);

static void *count(void *arg)
{
	struct percpu_counter *c = (struct percpu_counter *)arg;

	for (int i = 0; i < ADDS; i++) {
		percpu_counter_inc(c);
		percpu_static_counter_add(&early, 2);
	}
	return NULL;
}

int main(void)
{
	struct percpu_counter *c;
	pthread_t thread[THREADS];
	uint64_t single, twice;

	if (percpu_counter_create(&c) != 0)
		return 1;
	(void)percpu_selftest(); /* so that the tier is final */
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, count, c) != 0)
			return 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	single = percpu_counter_fetch(c);
	twice = percpu_static_counter_fetch(&early);
	percpu_counter_destroy(c);
	printf("%s\n", percpu_tier_name(percpu_status()->tier));
	return single == THREADS * ADDS && twice == 2 * single ? 0 : 1;
}

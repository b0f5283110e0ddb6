/* SPDX-License-Identifier: MIT */
/*
 * ref.c - a table that many threads use. It is freed after it was withdrawn and the last thread
 * has released it.
 *
 *	cc ref.c $(pkg-config --cflags --libs percpu) -pthread
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/ref.h>

#define THREADS 4

struct table {
	struct percpu_ref *ref;
	int answer;
};

static struct percpu_counter *lookups;

/* Free the table, in the thread that puts the last reference. */
static void free_table(struct percpu_ref *ref, void *arg)
{
	struct table *t = arg;

	printf("freed, and nobody uses it: %s\n", percpu_ref_is_zero(ref) ? "yes" : "no");
	if (percpu_ref_destroy(ref) != 0)
		abort();
	free(t);
}

static void *use(void *arg)
{
	struct table *t = arg;
	long sum = 0;

	/* Each thread was given a reference. It takes more while it has that one. */
	while (percpu_ref_tryget_live(t->ref)) {
		sum += t->answer;
		percpu_counter_inc(lookups);
		percpu_ref_put(t->ref);
	}
	percpu_ref_put(t->ref); /* t may be gone after this */
	return sum > 0 ? arg : NULL;
}

int main(void)
{
	struct table *current;
	pthread_t thread[THREADS];
	int e = percpu_counter_create(&lookups);

	if (e != 0)
		return 1;
	current = calloc(1, sizeof(*current));
	if (current == NULL)
		return 1;
	current->answer = 42;
	e = percpu_ref_create(free_table, current, 0, &current->ref);
	if (e != 0) {
		fprintf(stderr, "ref: %s\n", strerror(-e));
		return 1;
	}
	percpu_ref_get_many(current->ref, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, use, current) != 0)
			return 1;
	while (percpu_counter_fetch(lookups) < 1000000)
		;
	e = percpu_ref_kill(current->ref); /* fails only if CPUs cannot be fenced */
	if (e != 0) {
		fprintf(stderr, "ref: %s\n", strerror(-e));
		return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("looked up a million times: %s\n",
	       percpu_counter_fetch(lookups) >= 1000000 ? "yes" : "no");
	percpu_counter_destroy(lookups);
	return 0;
}

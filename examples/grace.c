/* SPDX-License-Identifier: MIT */
/*
 * grace.c - a list of names that threads read without a lock, while it is replaced: the old list
 * is freed when no thread reads it any more.
 *
 *	cc -pthread grace.c $(pkg-config --cflags --libs percpu)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>

struct names {
	struct percpu_grace_callback callback;
	unsigned n;
	char name[8][16];
};

static struct percpu_grace *grace;
static struct names *current;
static unsigned freed; /* only callbacks change it */
static int stop;

static void free_names(struct percpu_grace_callback *c)
{
	freed++;
	free(c); /* c is its first member */
}

static void *look_for_a_name(void *arg)
{
	unsigned long found = 0;
	const struct names *names;
	int token;

	(void)arg;
	while (!__atomic_load_n(&stop, __ATOMIC_RELAXED)) {
		token = percpu_grace_enter(grace);
		names = __atomic_load_n(&current, __ATOMIC_ACQUIRE);
		for (unsigned i = 0; names != NULL && i < names->n; i++)
			found += strcmp(names->name[i], "name 3") == 0;
		percpu_grace_exit(grace, token);
	}
	return (void *)(found > 0 ? "yes" : "no");
}

/* Replace the list by one with one more name. */
static int add_name(void)
{
	struct names *old = current, *new = calloc(1, sizeof(*new));

	if (new == NULL)
		return -1;
	if (old != NULL)
		memcpy(new, old, sizeof(*new));
	snprintf(new->name[new->n], sizeof(new->name[0]), "name %u", new->n);
	new->n++;
	__atomic_store_n(&current, new, __ATOMIC_RELEASE);
	return old != NULL ? percpu_grace_call(grace, &old->callback, free_names) : 0;
}

int main(void)
{
	int e = percpu_grace_create(0, &grace);
	pthread_t reader;
	void *found;

	if (e == 0)
		e = -pthread_create(&reader, NULL, look_for_a_name, NULL);
	for (unsigned i = 0; e == 0 && i < 8; i++)
		e = add_name();
	if (e == 0)
		e = percpu_grace_wait(grace);
	if (e == 0)
		e = percpu_grace_barrier(grace); /* all callbacks have run */
	if (e != 0) {
		fprintf(stderr, "grace: %s\n", strerror(-e));
		return 1;
	}
	printf("%u names; %u lists were freed\n", current->n, freed);
	__atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
	pthread_join(reader, &found);
	free(current);
	return percpu_grace_destroy(grace) != 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * hello.c - the shortest useful program: four threads count, and nothing is lost.
 *
 *	cc hello.c $(pkg-config --cflags --libs percpu) -pthread
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

enum { THREADS = 4, REQUESTS = 1000000 };

static struct percpu_counter *requests;

static void *serve(void *arg)
{
	for (int i = 0; i < REQUESTS; i++)
		percpu_counter_inc(requests);
	return arg;
}

int main(void)
{
	pthread_t thread[THREADS];
	int err = percpu_counter_create(&requests);

	if (err) {
		fprintf(stderr, "hello: cannot create a counter: %s\n", strerror(-err));
		return 1;
	}
	for (int i = 0; i < THREADS; i++) {
		err = pthread_create(&thread[i], NULL, serve, NULL);
		if (err) {
			fprintf(stderr, "hello: cannot start a thread: %s\n", strerror(err));
			return 1;
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);

	printf("%d threads counted %" PRIu64 " requests\n", THREADS,
	       percpu_counter_fetch(requests));
	percpu_counter_destroy(requests);
	return 0;
}

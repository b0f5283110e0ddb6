/* SPDX-License-Identifier: MIT */
/*
 * ring.c - events of several threads, in the order in which they happened.
 *
 *	cc ring.c $(pkg-config --cflags --libs percpu) -pthread
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/ring.h>

static struct percpu_ring *ring;

static void *work(void *name)
{
	char event[32];

	for (int i = 1; i <= 3; i++)
		(void)percpu_ring_put(
			ring, event,
			(size_t)snprintf(event, sizeof(event), "%s: %d", (const char *)name, i));
	return NULL;
}

int main(void)
{
	const char *const names[] = { "one", "two" };
	struct percpu_ring_reader *reader;
	struct percpu_ring_record r;
	pthread_t thread[2];
	int e = percpu_ring_create(4096, 0, &ring), n = 0;

	if (e == 0)
		e = percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &reader);
	if (e != 0) {
		fprintf(stderr, "ring: %s\n", strerror(-e));
		return 1;
	}
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)names[i]);
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	for (; percpu_ring_read(reader, &r) == 0; n++)
		printf("%" PRIu64 " ns, CPU %u: %.*s\n", r.time, r.cpu, (int)r.size,
		       (const char *)r.data);
	percpu_ring_reader_destroy(reader);
	percpu_ring_destroy(ring);
	return n != 6;
}

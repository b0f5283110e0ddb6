/* SPDX-License-Identifier: MIT */
/*
 * critical.c - statistics of which several words change together, by plain C: the number of
 * requests, the longest one, and which that was.
 *
 *	cc -pthread critical.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

#include <percpu/critical.h>
#include <percpu/percpu.h>

#define REQUESTS 100000
#define THREADS 4

struct requests {
	uint64_t n;
	uint64_t longest_ns;
	uint64_t longest_id;
};

static struct percpu_critical *requests;

static int count_request(uint64_t id, uint64_t ns)
{
	struct requests *r;
	int e = percpu_critical_enter(requests, (void **)&r);

	if (e != 0)
		return e;
	r->n++;
	if (ns > r->longest_ns) {
		r->longest_ns = ns;
		r->longest_id = id;
	}
	return percpu_critical_exit(requests, r);
}

static void *serve(void *arg)
{
	const uint64_t first = (uint64_t)(uintptr_t)arg * REQUESTS;

	for (uint64_t id = first; id < first + REQUESTS; id++)
		if (count_request(id, id * 2654435761 % 1000003) != 0)
			return "a section failed";
	return NULL;
}

/* Add up the cells of all lanes, one after the other, each while no thread is inside. */
static int sum(struct requests *ret)
{
	struct requests *r;
	int e;

	*ret = (struct requests){ 0 };
	for (unsigned lane = 0; lane < percpu_critical_lanes(requests); lane++) {
		e = percpu_critical_enter_lane(requests, lane, (void **)&r);
		if (e != 0)
			return e;
		ret->n += r->n;
		if (r->longest_ns > ret->longest_ns) {
			ret->longest_ns = r->longest_ns;
			ret->longest_id = r->longest_id;
		}
		(void)percpu_critical_exit(requests, r);
	}
	return 0;
}

int main(void)
{
	pthread_t t[THREADS];
	struct requests all;
	void *failed = NULL;
	int e = percpu_critical_create(sizeof(struct requests), &requests);

	if (e != 0) {
		fprintf(stderr, "%s\n", percpu_strerror(e));
		return 1;
	}
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&t[i], NULL, serve, (void *)i) != 0)
			return 1;
	for (unsigned i = 0; i < THREADS; i++)
		if (pthread_join(t[i], &failed) != 0 || failed != NULL)
			return 1;
	e = sum(&all);
	if (e != 0) {
		fprintf(stderr, "%s\n", percpu_strerror(e));
		return 1;
	}
	printf("%" PRIu64 " requests; the longest took %" PRIu64 " ns, and was number %" PRIu64
	       "\n",
	       all.n, all.longest_ns, all.longest_id);
	percpu_critical_destroy(requests);
	return all.n == (uint64_t)THREADS * REQUESTS ? 0 : 1;
}

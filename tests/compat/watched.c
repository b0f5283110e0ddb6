/* SPDX-License-Identifier: MIT */
/*
 * watched.c - two threads count, for tools that find races. With RACE, the program has one of
 * its own.
 */
#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>
#include <percpu/variable.h>

#include <pthread.h>

#define ROUNDS 200

struct port {
	uint64_t packets, bytes;
};

static PERCPU_COUNTER_DEFINE(early);
static PERCPU_VARIABLE(uint64_t, variable);
static PERCPU_STATS(struct port) ports;
static struct percpu_counter *counter;
static struct percpu_compact *compact;
static struct percpu_local *local;
static struct percpu_wbuf *wbuf;
static struct percpu_zone *zone;
static uint64_t cell;
#ifdef RACE
static volatile int race;
#endif

/* Do what a program does rarely. */
static int look(void)
{
	struct percpu_counter *c;
	struct port now;
	void *item;

	if (percpu_counter_create(&c) != 0)
		return 1;
	percpu_counter_inc(c);
	percpu_counter_destroy(c);
	(void)percpu_counter_fetch_zero(counter);
	(void)percpu_compact_fetch(compact, 0);
	percpu_wbuf_flush(wbuf);
	if (PERCPU_STATS_SNAPSHOT(ports, 0, 1, &now) != 0 ||
	    PERCPU_STATS_FETCH_ZERO(ports, 0, 1, &now) != 0 ||
	    percpu_zone_alloc(zone, 0, &item) != 0)
		return 1;
	percpu_zone_free(zone, item);
	return 0;
}

static void *count(void *arg)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct port delta = { 1, 2 };
		int64_t v;

		percpu_counter_inc(counter);
		percpu_static_counter_add(&early, 1);
		percpu_compact_add(compact, 0, 1);
		PERCPU_VARIABLE_ADD(variable, 1);
		PERCPU_STATS_ADD(ports, 0, packets, 1);
		if (PERCPU_STATS_UPDATE_ALL(ports, 0, &delta) != 0 ||
		    percpu_wbuf_add(wbuf, &cell, 1) != 0 ||
		    percpu_local_add_return(local, 1, &v) != 0 || (i % 50 == 0 && look() != 0))
			return NULL;
#ifdef RACE
		race++;
#endif
	}
	return arg;
}

int main(void)
{
	pthread_t thread[2];
	void *done;
	int e = 0;

	if (percpu_counter_create(&counter) != 0 || percpu_compact_create(1, &compact) != 0 ||
	    PERCPU_STATS_CREATE(&ports, 1, 0) != 0 || percpu_wbuf_create(NULL, &wbuf) != 0 ||
	    percpu_local_create(8, PERCPU_LOCAL_LOCK, &local) != 0 ||
	    percpu_zone_create("watched", 16, NULL, &zone) != 0)
		return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&thread[i], NULL, count, &cell) != 0)
			return 1;
	for (int i = 0; i < 2; i++)
		if (pthread_join(thread[i], &done) != 0 || done == NULL)
			e = 2;
	if (percpu_static_counter_fetch(&early) != 2 * ROUNDS ||
	    percpu_local_sum(local) != 2 * ROUNDS)
		e = 3;
	if (percpu_zone_destroy(zone) != 0)
		e = 4;
	percpu_wbuf_destroy(wbuf);
	percpu_local_destroy(local);
	PERCPU_STATS_DESTROY(ports);
	percpu_compact_destroy(compact);
	percpu_counter_destroy(counter);
	return e;
}

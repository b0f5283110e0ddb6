/* SPDX-License-Identifier: MIT */
/*
 * mixed.c - one of several processes on a file, of 32 or of 64 bits each; mixed.sh runs them.
 *
 *	mixed count FILE N	count so many rounds
 *	mixed watch FILE N	take snapshots, until so many rounds are seen
 *	mixed check FILE N	check the sums of so many rounds, after all counting
 *	mixed hold FILE		hold the region's lock until killed
 *	mixed large FILE	make a region with lanes of 2 GiB
 *	mixed open FILE		print the result of opening
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/stats.h>

#include "../../src/memory/memory.h"

#define N 8
#define BIG (INT64_C(0x300000000) + 1) /* more than a word of 32 bits */

struct fields {
	uint64_t rounds, big, less, more;
};

static struct percpu_counter_array *array;
static struct percpu_compact *compact;
static struct percpu_stats *stats[2];

static void require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "mixed, %u bits: %s\n", 8 * (unsigned)sizeof(void *), what);
	exit(1);
}

/* Attach to the objects. The first process creates them. */
static struct percpu_region *attach(const char *path)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	struct percpu_region *r;

	require(percpu_region_open(path, flags, NULL, &r) == 0, "open");
	require(percpu_counter_array_open(r, 1, N, &array) == 0, "the array");
	require(percpu_compact_open(r, 2, N, &compact) == 0, "the compact set");
	for (unsigned i = 0; i < 2; i++)
		require(percpu_stats_open(r, 3 + i, sizeof(struct fields), N,
					  i == 0 ? 0 : PERCPU_STATS_WHOLE, &stats[i]) == 0,
			"the objects");
	return r;
}

static void count(struct percpu_region *r, uint64_t rounds)
{
	const uint64_t add[] = { 1, BIG, (uint64_t)-BIG, 3 };
	struct percpu_counter *c;

	for (uint64_t i = 0; i < rounds; i++) {
		percpu_counter_array_add(array, i % N, -BIG);
		percpu_compact_add(compact, i % N, i % 2 == 0 ? BIG : 1);
		for (unsigned s = 0; s < 2; s++)
			require(percpu_stats_update(stats[s], 1, 0, add, 4) == 0, "an update");
		if (i % 64 != 0)
			continue;
		require(percpu_counter_create_in(r, &c) == 0, "another counter");
		percpu_counter_add(c, BIG);
		require(percpu_counter_fetch(c) == BIG, "its value");
		percpu_counter_destroy(c);
	}
}

static uint64_t snapshot(const struct percpu_stats *s)
{
	struct fields f;

	require(percpu_stats_snapshot(s, 1, 1, &f) == 0, "a snapshot");
	require(f.big == f.rounds * BIG && f.less == -f.big && f.more == 3 * f.rounds,
		"a snapshot with a part of an update");
	return f.rounds;
}

static void watch(uint64_t rounds)
{
	while (snapshot(stats[0]) < rounds || snapshot(stats[1]) < rounds)
		usleep(1000);
}

static void check(uint64_t rounds)
{
	uint64_t values[N], sum = 0;

	percpu_counter_array_fetch_all(array, values);
	for (unsigned i = 0; i < N; i++)
		sum += values[i];
	require(sum == -(rounds * BIG), "the values of the array");
	sum = 0;
	percpu_compact_fetch_all(compact, values);
	for (unsigned i = 0; i < N; i++)
		sum += values[i];
	require(sum == rounds / 2 * (BIG + 1), "the values of the compact set");
	require(snapshot(stats[0]) == rounds && snapshot(stats[1]) == rounds, "the objects");
}

static void hold(struct percpu_region *r)
{
	struct percpu_robust h;

	require(percpu_robust_lock(&h, &r->first->header->alloc_lock, PERCPU_LOCK_NS) == 0,
		"the lock");
	puts("held");
	fflush(stdout);
	for (;;)
		pause();
}

static void create_large(const char *path)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_region *r;

	o.lane_size = (size_t)(UINT64_C(1) << 31);
	require(percpu_region_open(path,
				   PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL,
				   &o, &r) == 0,
		"create");
}

static void try_open(const char *path)
{
	struct percpu_region *r;
	int e = percpu_region_open(path, PERCPU_REGION_WRITE, NULL, &r);

	puts(e == 0 ? "open" : e == -ENOMEM ? "no address space" : "refused");
}

int main(int argc, char **argv)
{
	const char *verb = argc > 2 ? argv[1] : "";
	const char *path = argc > 2 ? argv[2] : "";
	uint64_t rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 0;

	alarm(60);
	(void)percpu_selftest();
	if (strcmp(verb, "count") == 0)
		count(attach(path), rounds);
	else if (strcmp(verb, "watch") == 0)
		attach(path), watch(rounds);
	else if (strcmp(verb, "check") == 0)
		attach(path), check(rounds);
	else if (strcmp(verb, "hold") == 0)
		hold(attach(path));
	else if (strcmp(verb, "large") == 0)
		create_large(path);
	else if (strcmp(verb, "open") == 0)
		try_open(path);
	else
		require(false, "usage: mixed VERB FILE [ROUNDS]");
	return 0;
}

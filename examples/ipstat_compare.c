/* SPDX-License-Identifier: MIT */
/*
 * ipstat_compare.c - three ways to count from many threads: the cost of an addition, and the
 * number of lost ones.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "ipstat.h"

enum {
	REPETITIONS = 5,
	ADDS = 10000000, /* by all threads together */
};

static volatile uint64_t racy_word;
static uint64_t atomic_word;
static struct percpu_counter *counter;

static void add_racy(uint64_t n)
{
	while (n--)
		racy_word = racy_word + 1;
}

static void add_atomic(uint64_t n)
{
	while (n--)
		__atomic_fetch_add(&atomic_word, 1, __ATOMIC_RELAXED);
}

static void add_percpu(uint64_t n)
{
	while (n--)
		percpu_counter_inc(counter);
}

static uint64_t read_racy(void)
{
	return racy_word;
}

static uint64_t read_atomic(void)
{
	return atomic_word;
}

static uint64_t read_percpu(void)
{
	return percpu_counter_fetch(counter);
}

static const struct way {
	const char *name;
	void (*add)(uint64_t n);
	uint64_t (*read)(void);
	bool exact;
} ways[] = {
	{ "racy: word += 1", add_racy, read_racy, false },
	{ "atomic add", add_atomic, read_atomic, true },
	{ "per-CPU counter", add_percpu, read_percpu, true },
};

enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct adder {
	pthread_t thread;
	pthread_barrier_t *start;
	const struct way *way;
	uint64_t n;
	double seconds; /* of CPU time, so without waiting for a CPU */
};

static double cpu_time(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void *adder_run(void *arg)
{
	struct adder *a = arg;

	pthread_barrier_wait(a->start);
	a->seconds = cpu_time();
	a->way->add(a->n);
	a->seconds = cpu_time() - a->seconds;
	return NULL;
}

/* Return ns per addition, or -1 if a thread could not be started. */
static double measure(const struct way *way, unsigned threads, uint64_t *ret_lost)
{
	struct adder *adders = calloc(threads, sizeof(*adders));
	uint64_t each = ADDS / threads, before = way->read();
	pthread_barrier_t start;
	double seconds = 0;

	if (!adders || pthread_barrier_init(&start, NULL, threads))
		abort();
	for (unsigned i = 0; i < threads; i++) {
		adders[i] = (struct adder){ .start = &start, .way = way, .n = each };
		if (pthread_create(&adders[i].thread, NULL, adder_run, &adders[i]))
			abort();
	}
	for (unsigned i = 0; i < threads; i++) {
		pthread_join(adders[i].thread, NULL);
		seconds += adders[i].seconds;
	}
	*ret_lost = each * threads - (way->read() - before);
	pthread_barrier_destroy(&start);
	free(adders);
	return seconds / (double)(each * threads) * 1e9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool compare_with(unsigned threads)
{
	double ns[WAYS][REPETITIONS];
	uint64_t lost[WAYS] = { 0 }, n;
	bool good = true;

	for (unsigned r = 0; r < REPETITIONS; r++)
		for (unsigned w = 0; w < WAYS; w++) {
			ns[w][r] = measure(&ways[w], threads, &n);
			lost[w] += n;
		}
	for (unsigned w = 0; w < WAYS; w++) {
		qsort(ns[w], REPETITIONS, sizeof(double), by_value);
		printf("%3u threads  %-16s %8.2f ns %14" PRIu64 " lost (%.1f %%)\n", threads,
		       ways[w].name, ns[w][REPETITIONS / 2], lost[w],
		       (double)lost[w] * 100 / ((double)ADDS * REPETITIONS));
		good &= !ways[w].exact || lost[w] == 0;
	}
	return good;
}

static void print_conditions(unsigned cpus)
{
	char line[256], model[128] = "unknown CPU";
	FILE *f = fopen("/proc/cpuinfo", "r");
	struct utsname u;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "model name : %127[^\n]", model) == 1)
			break;
	if (f)
		fclose(f);
	uname(&u);
	(void)percpu_selftest(); /* wait for the verdict, to measure on the final tier */
	printf("%s, %u CPUs, Linux %s, tier %s\n", model, cpus, u.release,
	       percpu_tier_name(percpu_status()->tier));
}

int compare(void)
{
	unsigned cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	int err = percpu_counter_create(&counter);
	bool good;

	if (err) {
		complain("cannot create a counter: %s", strerror(-err));
		return EXIT_USAGE;
	}
	printf("%d million additions to one counter, by threads that do nothing else; CPU time of\n"
	       "one addition, median of %d interleaved runs; lost in all %d runs\n",
	       ADDS / 1000000, REPETITIONS, REPETITIONS);
	print_conditions(cpus);
	good = compare_with(cpus > 1 ? cpus : 2);
	good &= compare_with(cpus * 4);
	percpu_counter_destroy(counter);
	return good ? EXIT_OK : EXIT_WRONG;
}

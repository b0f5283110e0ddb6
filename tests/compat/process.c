/* SPDX-License-Identifier: MIT */
/*
 * process.c - effects of the library on a process, phase by phase; see process.sh.
 *
 *	process FILE
 *
 * Uses each kind of object, a region in that file among them. It marks the begin of a phase by a
 * write to an invalid descriptor, for strace. Exits with 0 if descriptors, threads and blocked
 * signals are the same at the end as at the begin.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#define TIMEOUT (UINT64_C(10) * 1000 * 1000 * 1000)
#define FIELDS (2 * sizeof(uint64_t))

static struct percpu_counter *one, *shared;
static struct percpu_counter_array *array;
static struct percpu_compact *compact;
static struct percpu_stats *stats;
static struct percpu_local *word;
static struct percpu_wbuf *buffer;
static struct percpu_zone *zone;
static struct percpu_region *file, *again; /* again: with owners */
static struct percpu_owners *owners;
static struct percpu_owned_gauge *owned;
static uint64_t cell;

static void phase(const char *name)
{
	if (write(-1, name, strlen(name)) == 0)
		_exit(2);
}

static unsigned entries(const char *directory)
{
	DIR *d = opendir(directory);
	unsigned n = 0;

	while (d != NULL && readdir(d) != NULL)
		n++;
	if (d != NULL)
		closedir(d);
	return n;
}

static bool create(void)
{
	return percpu_counter_create(&one) == 0 && percpu_counter_array_create(100, &array) == 0 &&
	       percpu_compact_create(100, &compact) == 0 &&
	       percpu_stats_create(FIELDS, 1, 0, &stats) == 0 &&
	       percpu_local_create(sizeof(int64_t), PERCPU_LOCAL_LOCK, &word) == 0 &&
	       percpu_wbuf_create(NULL, &buffer) == 0 &&
	       percpu_zone_create("process", sizeof(uint64_t), NULL, &zone) == 0;
}

static bool share(const char *path)
{
	return percpu_region_open(path,
				  PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL,
				  NULL, &file) == 0 &&
	       percpu_counter_create_in(file, &shared) == 0 &&
	       percpu_region_open(path, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &again) ==
		       0 &&
	       percpu_owners_create_in(again, &owners) == 0 &&
	       percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &owned) == 0;
}

static void count(void)
{
	const uint64_t two[2] = { 1, 1 };
	void *item;

	percpu_counter_inc(one);
	percpu_counter_inc(shared);
	percpu_counter_array_add(array, 3, 1);
	percpu_compact_add(compact, 3, 1);
	(void)percpu_stats_update(stats, 0, 0, two, 2);
	(void)percpu_local_add(word, 1);
	(void)percpu_owned_gauge_add(owned, 1);
	(void)percpu_wbuf_add(buffer, &cell, 1);
	if (percpu_zone_alloc(zone, 0, &item) == 0)
		(void)percpu_zone_free(zone, item);
}

/* Ignore a result: this program is about a call's effect on the process. */
static void whatever(int e)
{
	(void)e;
}

static void read_all(void)
{
	uint64_t out[100];
	int64_t level;

	(void)percpu_counter_fetch(one);
	(void)percpu_counter_fetch_zero(one);
	(void)percpu_counter_fetch(shared);
	percpu_counter_array_fetch_all(array, out);
	percpu_compact_fetch_all(compact, out);
	whatever(percpu_stats_fetch(stats, 0, 1, out));
	(void)percpu_local_sum(word);
	whatever(percpu_owned_gauge_fetch(owned, PERCPU_OWNED_ALL, &level));
}

static void *thread(void *arg)
{
	phase("thread");
	count();
	phase("count");
	count();
	read_all();
	phase("libc");
	return arg;
}

/* Stay on this CPU: on another one, first uses would allocate. */
static bool stay(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0;
}

static bool in_thread(void)
{
	pthread_t t;

	return pthread_create(&t, NULL, thread, NULL) == 0 && pthread_join(t, NULL) == 0;
}

static bool forks(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		count();
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static void destroy(void)
{
	percpu_counter_destroy(one);
	percpu_counter_array_destroy(array);
	percpu_compact_destroy(compact);
	percpu_stats_destroy(stats);
	percpu_local_destroy(word);
	percpu_wbuf_destroy(buffer);
	whatever(percpu_zone_destroy(zone));
	percpu_owned_gauge_destroy(owned);
	percpu_owners_destroy(owners);
	percpu_region_close(again);
	percpu_region_close(file);
}

int main(int argc, char **argv)
{
	unsigned fds = entries("/proc/self/fd");
	uint64_t out[2];
	int64_t level;
	sigset_t now;
	cpu_set_t all;

	if (argc != 2)
		return 2;
	phase("first use");
	if (!create())
		return 3;
	(void)percpu_selftest();
	phase("share");
	if (!share(argv[1]))
		return 4;
	phase("libc");
	if (sched_getaffinity(0, sizeof(all), &all) != 0 || !stay())
		return 10;
	phase("first count");
	count();
	phase("count");
	count();
	read_all();
	phase("libc");
	if (!in_thread() || sched_setaffinity(0, sizeof(all), &all) != 0)
		return 5;
	phase("fork");
	if (!forks())
		return 6;
	phase("owners"); /* the child was an owner */
	if (percpu_owned_gauge_fetch(owned, PERCPU_OWNED_LIVING, &level) != 0)
		return 9;
	phase("fence");
	if (percpu_fence() != 0)
		return 7;
	whatever(percpu_stats_snapshot(stats, 0, 1, out));
	percpu_wbuf_flush(buffer);
	phase("visit");
	whatever(percpu_fence_all(TIMEOUT, NULL));
	phase("destroy");
	destroy();
	phase("libc");
	sigprocmask(SIG_SETMASK, NULL, &now);
	if (entries("/proc/self/fd") != fds || entries("/proc/self/task") != 3 ||
	    !sigisemptyset(&now))
		return 8;
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * late.c - a plugin that counts with all objects, for a program that does not know of the
 * library.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "late.h"
#include "values.h"

struct fields {
	uint64_t a, b;
};

/* Uses the library before its constructors, if it is linked into the plugin. */
static PERCPU_COUNTER_DEFINE(early);

static struct percpu_counter *counter;
static struct percpu_compact *compact;
static struct percpu_stats *stats, *whole;
static struct percpu_wbuf *wbuf;
static struct percpu_zone *zone;
static struct percpu_local *word;
static uint64_t buffered;
static struct values values;

static bool prepare(void)
{
	(void)percpu_selftest(); /* so that the tier is final */
	return percpu_counter_create(&counter) == 0 && percpu_compact_create(1, &compact) == 0 &&
	       percpu_stats_create(sizeof(struct fields), 1, 0, &stats) == 0 &&
	       percpu_stats_create(sizeof(struct fields), 1, PERCPU_STATS_WHOLE, &whole) == 0 &&
	       percpu_wbuf_create(NULL, &wbuf) == 0 &&
	       percpu_zone_create("late", 64, NULL, &zone) == 0 &&
	       percpu_local_create(sizeof(int64_t), PERCPU_LOCAL_LOCK, &word) == 0 &&
	       values_create(&values);
}

static void count_one(void)
{
	percpu_counter_inc(counter);
}

static void count(void)
{
	const uint64_t ones[2] = { 1, 1 };
	void *item;
	int64_t sum;

	count_one();
	percpu_static_counter_add(&early, 1);
	percpu_compact_add(compact, 0, 1);
	percpu_stats_add(stats, 0, 0, 1);
	(void)percpu_stats_update(whole, 0, 0, ones, 2);
	(void)percpu_wbuf_add(wbuf, &buffered, 1);
	(void)values_count(&values, 1);
	if (percpu_local_add_return(word, 1, &sum) == 0 && percpu_zone_alloc(zone, 0, &item) == 0)
		(void)percpu_zone_free(zone, item);
}

/* Count in a child. Exits with 3 if it runs no sequences. */
static int in_child(void *arg)
{
	(void)arg;
	count_one();
	_exit(percpu_seq_cpu() < 0 ? 3 : 1);
}

static bool ends_well(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 3;
}

static bool children(void)
{
	pid_t pid = vfork();

	if (pid == 0)
		in_child(NULL);
	if (!ends_well(pid))
		return false;
#ifdef __GLIBC__ /* on musl only vfork() is wrapped */
	static char stack[65536] __attribute__((aligned(16)));

	pid = clone(in_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	return ends_well(pid);
#else
	count_one();
	return true;
#endif
}

static bool check(uint64_t n, uint64_t more)
{
	struct percpu_zone_stats z;
	struct fields s, w;

	percpu_wbuf_flush(wbuf);
	percpu_zone_stats(zone, &z);
	return percpu_counter_fetch(counter) == n + more && percpu_compact_fetch(compact, 0) == n &&
	       percpu_stats_snapshot(stats, 0, 1, &s) == 0 && s.a == n &&
	       percpu_stats_snapshot(whole, 0, 1, &w) == 0 && w.a == n && w.b == n &&
	       __atomic_load_n(&buffered, __ATOMIC_RELAXED) == n &&
	       (uint64_t)percpu_local_sum(word) == n && z.used == 0 && values_are(&values, n, 1, 1);
}

static bool on_tier(void)
{
	return percpu_thread_tier() == percpu_status()->tier;
}

static const char *tier(void)
{
	return percpu_tier_name(percpu_status()->tier);
}

PERCPU_API extern const struct late late;
const struct late late = { prepare, count, count_one, children, check, on_tier, tier };

/* SPDX-License-Identifier: MIT */
/*
 * test_costs.c - what calls cost, in counts and not in time: system calls, memory, locks,
 * fences, and records of a segment that are read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/fence.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "blocks.h"
#include "clocks.h"
#include "steps.h"
#include "../family_calls.h"
#include "owners/owners.h"
#include "../root_file.h"
#include "segment/reader.h"
#include "support.h"
#include "syscalls.h"

/* Costs. */

enum cost {
	SYSTEM,	 /* system calls, also by libc for the library */
	MEMORY,	 /* allocated blocks of memory */
	LOCK,	 /* robust locks */
	PROCESS, /* the process lock, which blocks signals */
	FENCE,	 /* of the process's own sequences, or of all processes' */
	RECORD,	 /* records of a directory that are read */
	TAKE,	 /* permissions that a CPU takes from a rate */
	DEPOT,	 /* visits of a pool's depot to put items */
	BLOCK,	 /* blocks of a table that are looked up */
	LIST,	 /* lists of series that a reader makes */
	BYTES,	 /* bytes read from a file */
	CLOCK,	 /* clock readings */
	VISIT,	 /* visited CPUs */
	COSTS
};

static uint64_t spent[COSTS];
static uint64_t now_ns; /* what clocks read; 0: the real time */

static __thread int has_process_lock;
static bool released_for_others; /* a thread released the process lock without holding it */

static const char *stops_at; /* a step; or NULL */
static void (*stopped)(void);

void test_step(const char *name)
{
	if (stops_at != NULL && strcmp(name, stops_at) == 0) {
		stops_at = NULL;
		stopped();
	}
	if (strcmp(name, "directory: size checked") == 0)
		spent[RECORD]++;
	else if (strcmp(name, "rate: permissions taken") == 0)
		spent[TAKE]++;
	else if (strcmp(name, "pool: to be put away") == 0)
		spent[DEPOT]++;
	else if (strcmp(name, "owner: block looked for") == 0)
		spent[BLOCK]++;
}

#define COUNTED(cost, type, name, parameters, arguments)                                           \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		__atomic_fetch_add(&spent[cost], 1, __ATOMIC_RELAXED);                             \
		return __real_##name arguments;                                                    \
	}

COUNTED(SYSTEM, int, munmap, (void *at, size_t n), (at, n))
COUNTED(SYSTEM, int, madvise, (void *at, size_t n, int what), (at, n, what))
COUNTED(SYSTEM, int, mprotect, (void *at, size_t n, int how), (at, n, how))
COUNTED(SYSTEM, void *, mmap64, (void *at, size_t n, int how, int flags, int fd, off_t from),
	(at, n, how, flags, fd, from))
COUNTED(SYSTEM, int, fstat64, (int fd, void *ret), (fd, ret))
COUNTED(SYSTEM, int, close, (int fd), (fd))
COUNTED(SYSTEM, int, sched_setaffinity, (pid_t tid, size_t n, const void *set), (tid, n, set))
COUNTED(SYSTEM, int, pthread_create, (pthread_t * ret, const void *a, void *(*fn)(void *), void *p),
	(ret, a, fn, p))
COUNTED(LOCK, int, percpu_robust_lock, (struct percpu_robust * h, uint32_t *word, uint64_t ns),
	(h, word, ns))
COUNTED(FENCE, int, percpu_barrier, (unsigned cpus), (cpus))
COUNTED(FENCE, int, percpu_fence_below,
	(uint32_t end, uint64_t ns, struct percpu_fence_report *report), (end, ns, report))
COUNTED(FENCE, int, percpu_barrier_cpu, (unsigned cpu), (cpu))
COUNTED(LIST, int, percpu_reader_list, (struct percpu_reader * r), (r))

int __real_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t ns,
			struct percpu_fence_report *report);
int __wrap_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t ns,
			struct percpu_fence_report *report);
int __wrap_percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t ns,
			struct percpu_fence_report *report)
{
	__atomic_fetch_add(&spent[VISIT], end - first, __ATOMIC_RELAXED);
	return __real_percpu_visit(first, end, fn, arg, ns, report);
}

bool test_block_fails(enum test_block_call call, size_t size)
{
	(void)call, (void)size;
	__atomic_fetch_add(&spent[MEMORY], 1, __ATOMIC_RELAXED);
	return false;
}

void __real_percpu_process_lock(void);
void __wrap_percpu_process_lock(void);
void __wrap_percpu_process_lock(void)
{
	__atomic_fetch_add(&spent[PROCESS], 1, __ATOMIC_RELAXED);
	__real_percpu_process_lock();
	has_process_lock++;
}

void __real_percpu_process_unlock(void);
void __wrap_percpu_process_unlock(void);
void __wrap_percpu_process_unlock(void)
{
	released_for_others |= has_process_lock-- <= 0;
	__real_percpu_process_unlock();
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	spent[SYSTEM]++;
	spent[BYTES] += n;
	return __real_pread64(fd, to, n, at);
}

int __real_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode);
int __wrap_open64(const char *path, int flags, mode_t mode)
{
	spent[SYSTEM]++;
	return __real_open64(path, flags, mode);
}

int __real_fcntl64(int fd, int what, void *arg);
int __wrap_fcntl64(int fd, int what, void *arg);
int __wrap_fcntl64(int fd, int what, void *arg)
{
	spent[SYSTEM]++;
	return __real_fcntl64(fd, what, arg);
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	(void)number, (void)a, (void)ret;
	__atomic_fetch_add(&spent[SYSTEM], 1, __ATOMIC_RELAXED);
	return false;
}

void clock_is_read(clockid_t clock, struct timespec *t)
{
	(void)clock;
	__atomic_fetch_add(&spent[CLOCK], 1, __ATOMIC_RELAXED);
	if (now_ns == 0)
		return;
	t->tv_sec = (time_t)(now_ns / 1000000000);
	t->tv_nsec = (long)(now_ns % 1000000000);
}

static const char *const cost_names[COSTS] = {
	[SYSTEM] = "system calls",
	[MEMORY] = "blocks of memory",
	[LOCK] = "robust locks",
	[PROCESS] = "locks of the process",
	[FENCE] = "fences",
	[RECORD] = "records that are read",
	[TAKE] = "takes",
	[DEPOT] = "visits to put items",
	[BLOCK] = "blocks that are looked up",
	[LIST] = "lists",
	[BYTES] = "bytes that are read",
	[CLOCK] = "readings of a clock",
	[VISIT] = "visits",
};

/* Return a cost so far. The library's helper threads add to it, too. */
static uint64_t so_far(enum cost cost)
{
	return __atomic_load_n(&spent[cost], __ATOMIC_RELAXED);
}

static void begin_costs(void)
{
	for (int cost = 0; cost < COSTS; cost++)
		__atomic_store_n(&spent[cost], 0, __ATOMIC_RELAXED);
}

/* Assert that a cost was at most so much since begin_costs(). */
static void expect_at_most(const char *what, enum cost cost, uint64_t most)
{
	const uint64_t got = so_far(cost);

	if (got > most)
		fail_msg("%s: %llu %s, not %llu", what, (unsigned long long)got, cost_names[cost],
			 (unsigned long long)most);
}

static void expect_exactly(const char *what, enum cost cost, uint64_t n)
{
	const uint64_t got = so_far(cost);

	if (got != n)
		fail_msg("%s: %llu %s, not %llu", what, (unsigned long long)got, cost_names[cost],
			 (unsigned long long)n);
}

static void expect_nothing(const char *what)
{
	for (enum cost c = 0; c < COSTS; c++)
		if (c != TAKE && c != CLOCK)
			expect_at_most(what, c, 0);
}

/* Calls that cost nothing but instructions. */

static struct {
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_fcounter *fcounter;
	struct percpu_gauge *gauge;
	struct percpu_fgauge *fgauge;
	struct percpu_compact *compact;
	struct percpu_stats *stats;
	struct percpu_extrema *extrema;
	struct percpu_approx *approx;
	struct percpu_histogram *histogram;
	struct percpu_exemplars *exemplars;
	struct percpu_ring *ring;
	struct percpu_rwlock *rwlock;
	struct percpu_grace *grace;
	struct percpu_ref *ref;
	struct percpu_zone *zone, *constructed;
	struct percpu_objcache *cache;
	struct percpu_wbuf *wbuf;
	struct percpu_rate *rate;
	struct percpu_local *local;
	struct percpu_lwbufs *windows;
} o;

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref, (void)arg;
}

static struct percpu_lwbufs *windows_of_memory(void)
{
	const struct percpu_lwbuf_options opt = { .size = sizeof(opt),
						  .backend = PERCPU_LWBUF_WINDOW,
						  .flags = PERCPU_LWBUF_KEEPS_SIZE };
	int fd = memfd_create("costs", MFD_CLOEXEC);
	struct percpu_lwbufs *f;

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &opt, &f), 0);
	close(fd);
	return f;
}

static void construct(void *cell, unsigned cpu, void *arg)
{
	(void)cell, (void)cpu, (void)arg;
}

static void make_objects(void)
{
	const struct percpu_zone_options with_ctor = { .size = sizeof(with_ctor),
						       .ctor = construct };

	assert_int_equal(percpu_counter_create(&o.counter), 0);
	assert_int_equal(percpu_counter_array_create(8, &o.array), 0);
	assert_int_equal(percpu_fcounter_create(&o.fcounter), 0);
	assert_int_equal(percpu_gauge_create(&o.gauge), 0);
	assert_int_equal(percpu_fgauge_create(&o.fgauge), 0);
	assert_int_equal(percpu_compact_create(8, &o.compact), 0);
	assert_int_equal(percpu_stats_create(16, 8, 0, &o.stats), 0);
	assert_int_equal(percpu_extrema_create(0, &o.extrema), 0);
	assert_int_equal(percpu_approx_create(NULL, &o.approx), 0);
	assert_int_equal(percpu_histogram_create(NULL, &o.histogram), 0);
	assert_int_equal(percpu_exemplars_create(o.histogram, &o.exemplars), 0);
	assert_int_equal(percpu_ring_create(1 << 16, 0, &o.ring), 0);
	assert_int_equal(percpu_rwlock_create(0, &o.rwlock), 0);
	assert_int_equal(percpu_grace_create(0, &o.grace), 0);
	assert_int_equal(percpu_ref_create(release, NULL, 0, &o.ref), 0);
	assert_int_equal(percpu_zone_create("costs", 64, NULL, &o.zone), 0);
	assert_int_equal(percpu_zone_create("costs", 64, &with_ctor, &o.constructed), 0);
	assert_int_equal(percpu_objcache_create("costs", 64, NULL, &o.cache), 0);
	assert_int_equal(percpu_wbuf_create(NULL, &o.wbuf), 0);
	assert_int_equal(percpu_rate_create(1000000, 3600000, &o.rate), 0);
	assert_int_equal(percpu_local_create(8, 0, &o.local), 0);
	o.windows = windows_of_memory();
}

static void free_objects(void)
{
	percpu_counter_destroy(o.counter);
	percpu_counter_array_destroy(o.array);
	percpu_fcounter_destroy(o.fcounter);
	percpu_gauge_destroy(o.gauge);
	percpu_fgauge_destroy(o.fgauge);
	percpu_compact_destroy(o.compact);
	percpu_stats_destroy(o.stats);
	percpu_extrema_destroy(o.extrema);
	percpu_approx_destroy(o.approx);
	percpu_exemplars_destroy(o.exemplars);
	percpu_histogram_destroy(o.histogram);
	percpu_ring_destroy(o.ring);
	assert_int_equal(percpu_rwlock_destroy(o.rwlock), 0);
	assert_int_equal(percpu_grace_destroy(o.grace), 0);
	assert_int_equal(percpu_ref_kill(o.ref), 0);
	assert_int_equal(percpu_ref_destroy(o.ref), 0);
	assert_int_equal(percpu_zone_destroy(o.zone), 0);
	assert_int_equal(percpu_zone_destroy(o.constructed), 0);
	assert_int_equal(percpu_objcache_destroy(o.cache), 0);
	percpu_wbuf_destroy(o.wbuf);
	percpu_rate_destroy(o.rate);
	percpu_local_destroy(o.local);
	assert_int_equal(percpu_lwbuf_destroy(o.windows), 0);
}

static void add_to_counters(void)
{
	percpu_counter_add(o.counter, 1);
	percpu_counter_add_slow(o.counter, 1);
	percpu_counter_array_add(o.array, 3, 1);
	percpu_counter_array_add_slow(o.array, 3, 1);
	percpu_compact_add(o.compact, 3, 1);
	percpu_compact_add_slow(o.compact, 3, 1);
}

static void add_to_doubles(void)
{
	assert_int_equal(percpu_fcounter_add(o.fcounter, 0.5), 0);
	assert_int_equal(percpu_fcounter_add_slow(o.fcounter, 0.5), 0);
	assert_int_equal(percpu_fgauge_add(o.fgauge, 0.5), 0);
}

static void set_gauges(void)
{
	if (!percpu_pair_is_atomic())
		return; /* it takes the lock of the journal */
	percpu_gauge_add(o.gauge, 2);
	assert_int_equal(percpu_gauge_set(o.gauge, 7), 0);
	assert_int_equal(percpu_fgauge_set(o.fgauge, 7), 0);
}

static void update_statistics(void)
{
	const uint64_t n[2] = { 1, 2 };

	percpu_stats_add(o.stats, 3, 1, 1);
	assert_int_equal(percpu_stats_update(o.stats, 3, 0, n, 2), 0);
	assert_int_equal(percpu_stats_update_slow(o.stats, 3, 0, n, 2), 0);
}

static void observe_values(void)
{
	static int64_t v;

	assert_int_equal(percpu_extrema_observe(o.extrema, v++), 0);
	assert_int_equal(percpu_extrema_observe_slow(o.extrema, PERCPU_EXTREMA_STATE_WORDS, v), 0);
	percpu_histogram_record(o.histogram, 0.5);
	percpu_histogram_record_slow(o.histogram, 0, 0.5);
	assert_int_equal(
		percpu_exemplars_store(o.exemplars, 0.5,
				       &(const struct percpu_exemplar_label){ "trace_id", "1" }, 1),
		0);
}

static void add_approximately(void)
{
	percpu_approx_add(o.approx, 3);
	percpu_approx_add(o.approx, -3);
	assert_int_equal(percpu_approx_add_below(o.approx, 1, 1000000), 0);
	assert_true(percpu_approx_estimate(o.approx) < 1000000);
}

static void put_records(void)
{
	assert_int_equal(percpu_ring_put(o.ring, "record", 6), 0);
	assert_int_equal(percpu_ring_put_slow(o.ring, "record", 6), 0);
}

static void read_under_lock(void)
{
	assert_int_equal(percpu_rwlock_read_lock(o.rwlock), 0);
	assert_int_equal(percpu_rwlock_read_unlock(o.rwlock), 0);
	assert_int_equal(percpu_rwlock_read_trylock(o.rwlock), 0);
	assert_int_equal(percpu_rwlock_read_unlock(o.rwlock), 0);
}

static void enter_and_exit(void)
{
	int token = percpu_grace_enter(o.grace);

	assert_int_equal(percpu_grace_exit(o.grace, token), 0);
	token = percpu_grace_enter_slow(o.grace);
	assert_int_equal(percpu_grace_exit_slow(o.grace, token), 0);
}

static void get_and_put_references(void)
{
	assert_int_equal(percpu_ref_get(o.ref), 0);
	assert_int_equal(percpu_ref_put(o.ref), 0);
	assert_true(percpu_ref_tryget(o.ref));
	assert_int_equal(percpu_ref_put(o.ref), 0);
	assert_true(percpu_ref_tryget_live(o.ref));
	assert_int_equal(percpu_ref_put_slow(o.ref, 1), 0);
}

/* The pool has items whose calls are not one sequence. */
static void alloc_and_free_items(void)
{
	struct percpu_zone *const zones[] = { o.zone, o.constructed };
	void *item[2];

	for (int z = 0; z < 2; z++) {
		for (int i = 0; i < 2; i++)
			assert_int_equal(percpu_zone_alloc(zones[z], 0, &item[i]), 0);
		for (int i = 0; i < 2; i++)
			assert_int_equal(percpu_zone_free(zones[z], item[i]), 0);
	}
}

static void get_and_put_objects(void)
{
	void *obj[2];

	assert_int_equal(percpu_objcache_get(o.cache, 0, &obj[0]), 0);
	assert_int_equal(percpu_objcache_get_slow(o.cache, 0, &obj[1]), 0);
	percpu_objcache_put(o.cache, obj[0]);
	percpu_objcache_put_slow(o.cache, obj[1]);
}

static void buffer_writes(void)
{
	static uint64_t cell;

	assert_int_equal(percpu_wbuf_add(o.wbuf, &cell, 1), 0);
}

static void check_rate(void)
{
	assert_true(percpu_rate_check(o.rate));
}

static void add_locally(void)
{
	assert_int_equal(percpu_local_add(o.local, 1), 0);
}

static void map_what_is_mapped(void)
{
	struct percpu_lwbuf b = { 0 };

	assert_int_equal(percpu_lwbuf_alloc(o.windows, 3, 0, &b), 0);
	assert_int_equal(percpu_lwbuf_free(o.windows, &b), 0);
}

static void share_what_is_mapped(void)
{
	struct percpu_sfbuf *b;

	assert_int_equal(percpu_sfbuf_alloc(o.windows, 5, 0, &b), 0);
	assert_int_equal(percpu_sfbuf_free(o.windows, b), 0);
}

static void read_values(void)
{
	uint64_t out[8 * 2];
	int64_t least;

	(void)percpu_counter_fetch(o.counter);
	(void)percpu_counter_fetch_zero(o.counter);
	percpu_counter_array_fetch_all(o.array, out);
	percpu_compact_fetch_all(o.compact, out);
	(void)percpu_fcounter_fetch_zero(o.fcounter);
	(void)percpu_gauge_fetch(o.gauge);
	(void)percpu_fgauge_fetch(o.fgauge);
	(void)percpu_approx_fetch(o.approx);
	(void)percpu_approx_compare(o.approx, 0);
	(void)percpu_rate_allowed(o.rate);
	(void)percpu_ring_dropped(o.ring);
	(void)percpu_status();
	assert_int_equal(percpu_extrema_fetch(o.extrema, &least, NULL), 0);
	assert_int_equal(percpu_stats_fetch(o.stats, 0, 8, out), 0);
}

static const struct {
	const char *name;
	void (*fn)(void);
} operations[] = {
	{ "counters", add_to_counters },
	{ "doubles", add_to_doubles },
	{ "gauges", set_gauges },
	{ "statistics", update_statistics },
	{ "extrema and histograms", observe_values },
	{ "approximate sums", add_approximately },
	{ "rings", put_records },
	{ "locks to read", read_under_lock },
	{ "sections", enter_and_exit },
	{ "references", get_and_put_references },
	{ "items of zones", alloc_and_free_items },
	{ "objects of caches", get_and_put_objects },
	{ "write buffers", buffer_writes },
	{ "rates", check_rate },
	{ "local words", add_locally },
	{ "pages that are mapped", map_what_is_mapped },
	{ "shared pages that are mapped", share_what_is_mapped },
	{ "reads", read_values },
};

/* Pinned, because each CPU maps its own window of a page. */
static void most_calls_cost_nothing(void **state)
{
	(void)state;
	test_need_sequences();
	test_pin(0, test_cpu(0));
	make_objects();
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		operations[i].fn();
		operations[i].fn();
		begin_costs();
		for (int k = 0; k < 100; k++)
			operations[i].fn();
		expect_nothing(operations[i].name);
	}
	free_objects();
	test_unpin(0);
}

/* Fences. */

static void call_nothing(struct percpu_grace_callback *c)
{
	(void)c;
}

static void periods_are_fenced_once(void **state)
{
	struct percpu_grace_callback c[20];
	uint64_t cookie[10];
	struct percpu_grace *g;
	int token;

	(void)state;
	assert_int_equal(percpu_grace_create(0, &g), 0);
	begin_costs();
	assert_int_equal(percpu_grace_wait(g), 0);
	expect_exactly("a period", FENCE, 1);
	/* All that ask before a period begins wait for the same one. */
	begin_costs();
	for (int i = 0; i < 10; i++)
		cookie[i] = percpu_grace_start(g);
	expect_exactly("periods are begun", FENCE, 0);
	for (int i = 0; i < 10; i++)
		while (percpu_grace_poll(g, cookie[i]) == 0)
			;
	expect_exactly("ten who ask together", FENCE, 2);
	begin_costs();
	for (int i = 0; i < 10; i++)
		assert_int_equal(percpu_grace_poll(g, cookie[i]), 1);
	expect_nothing("a period that is over");
	/* A period that was fenced waits for sections without another fence. */
	token = percpu_grace_enter(g);
	cookie[0] = percpu_grace_start(g);
	begin_costs();
	for (int i = 0; i < 10; i++)
		assert_int_equal(percpu_grace_poll(g, cookie[0]), 0);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	assert_int_equal(percpu_grace_poll(g, cookie[0]), 1);
	expect_exactly("a period with a section", FENCE, 1);
	/* One period cannot end meanwhile. All callbacks but the first wait for the next one. */
	begin_costs();
	token = percpu_grace_enter(g);
	for (int i = 0; i < 20; i++)
		assert_int_equal(percpu_grace_call(g, &c[i], call_nothing), 0);
	assert_int_equal(percpu_grace_exit(g, token), 0);
	assert_int_equal(percpu_grace_barrier(g), 0);
	expect_at_most("callbacks", FENCE, 2);
	assert_int_equal(percpu_grace_destroy(g), 0);
}

/* The thread that runs callbacks sleeps until there is one. */
static void helpers_without_work_sleep(void **state)
{
	struct percpu_grace_callback c;
	struct percpu_grace *g;

	(void)state;
	assert_int_equal(percpu_grace_create(0, &g), 0);
	assert_int_equal(percpu_grace_call(g, &c, call_nothing), 0);
	assert_int_equal(percpu_grace_barrier(g), 0);
	begin_costs();
	for (int ms = 0; ms < 20 && so_far(SYSTEM) < 100; ms++)
		test_sleep_us(1000);
	expect_at_most("nothing to do", SYSTEM, 4);
	assert_int_equal(percpu_grace_destroy(g), 0);
}

static void snapshots_are_fenced_once(void **state)
{
	int64_t least;
	uint64_t out[16];

	(void)state;
	make_objects();
	for (int i = 0; i < 3; i++) {
		begin_costs();
		assert_int_equal(percpu_stats_snapshot(o.stats, 0, 8, out), 0);
		expect_exactly("a snapshot", FENCE, 1);
		expect_exactly("a snapshot", LOCK, 0);
		begin_costs();
		assert_int_equal(percpu_stats_fetch_zero(o.stats, 0, 8, out), 0);
		expect_exactly("a reset", FENCE, 1);
		expect_exactly("a reset", LOCK, 1);
		assert_int_equal(percpu_extrema_observe(o.extrema, i), 0);
		begin_costs();
		assert_int_equal(percpu_extrema_fetch_reset(o.extrema, &least, NULL), 0);
		expect_exactly("a reset of extrema", FENCE, 1);
		begin_costs();
		assert_int_equal(percpu_rwlock_write_lock(o.rwlock), 0);
		assert_int_equal(percpu_rwlock_write_unlock(o.rwlock), 0);
		expect_exactly("a lock to write", FENCE, 1);
		begin_costs();
		assert_int_equal(percpu_ref_switch_to_atomic(o.ref), 0);
		expect_exactly("a count that is made atomic", FENCE, 1);
		begin_costs();
		assert_int_equal(percpu_ref_switch_to_percpu(o.ref), 0);
		expect_at_most("a count per CPU", FENCE, 1);
	}
	free_objects();
}

static struct percpu_ring *ring;

/* Put two records, and read all records. */
static void read_what_is_put(struct percpu_ring_reader *r)
{
	struct percpu_ring_record record;
	int n = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(percpu_ring_put(ring, "record", 6), 0);
	begin_costs();
	while (percpu_ring_read(r, &record) == 0)
		n++;
	assert_true(n >= 2);
}

static void read_ring(bool shared)
{
	struct percpu_ring_reader *all, *one, *unfenced;

	assert_int_equal(percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &all), 0);
	assert_int_equal(percpu_ring_reader_create(ring, test_cpu(0), 0, &one), 0);
	assert_int_equal(
		percpu_ring_reader_create(ring, test_cpu(0), PERCPU_RING_UNFENCED, &unfenced), 0);
	for (int i = 0; i < 3; i++) {
		read_what_is_put(all);
		expect_exactly("records of all CPUs", FENCE, 1);
		read_what_is_put(one);
		expect_exactly("records of one CPU", FENCE, shared ? 0 : 1);
		expect_exactly("records of one CPU", VISIT, shared ? 1 : 0);
		read_what_is_put(unfenced);
		expect_exactly("records without a fence", FENCE, 0);
		expect_exactly("records without a fence", VISIT, 0);
	}
	percpu_ring_reader_destroy(all);
	percpu_ring_reader_destroy(one);
	percpu_ring_reader_destroy(unfenced);
}

/* One fence is enough for all records, and CPUs without records are not fenced. */
static void records_are_fenced_once(void **state)
{
	struct percpu_region *r;

	(void)state;
	test_need_sequences();
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_ring_create(1 << 12, 0, &ring), 0);
	read_ring(false);
	percpu_ring_destroy(ring);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	assert_int_equal(percpu_ring_create_in(r, 1 << 12, 0, &ring), 0);
	read_ring(true);
	percpu_ring_destroy(ring);
	percpu_region_close(r);
	assert_int_equal(unlink(path), 0);
	test_unpin(0);
}

static struct percpu_lwbufs *few_windows(void)
{
	const struct percpu_lwbuf_options opt = { .size = sizeof(opt),
						  .backend = PERCPU_LWBUF_WINDOW,
						  .max_excess = 4,
						  .flags = PERCPU_LWBUF_KEEPS_SIZE };
	int fd = memfd_create("costs", MFD_CLOEXEC);
	struct percpu_lwbufs *f;

	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &opt, &f), 0);
	close(fd);
	return f;
}

static void show_pages(struct percpu_lwbufs *f, unsigned nth_cpu, uint64_t first, uint64_t end)
{
	struct percpu_lwbuf b;

	test_pin(0, test_cpu(nth_cpu));
	for (uint64_t page = first; page < end; page++) {
		assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	}
}

/* A CPU replaces its own windows without a fence. */
static void windows_are_replaced_without_fences(void **state)
{
	struct percpu_lwbufs *f;

	(void)state;
	test_need_sequences();
	f = few_windows();
	begin_costs();
	show_pages(f, 0, 0, 16);
	expect_exactly("16 pages in 4 windows", FENCE, 0);
	expect_exactly("16 pages in 4 windows", VISIT, 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	test_unpin(0);
}

/* A window that another CPU has used later is not replaced, even if it shows the page. */
static void windows_of_others_stay_there(void **state)
{
	struct percpu_lwbufs *f;

	(void)state;
	test_need_sequences();
	if (test_cpus() < 2)
		test_skip("one CPU");
	for (uint64_t same = 0; same <= 2; same += 2) {
		f = few_windows();
		show_pages(f, 0, 0, 2);
		show_pages(f, 1, 2, 4);
		begin_costs();
		show_pages(f, 0, 4 - same, 6 - same);
		expect_exactly("windows of this CPU that are older", FENCE, 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
	test_unpin(0);
}

/* Refusals at the limit close the lanes once. What is given back opens them only after a rest. */
static void limits_are_fenced_once(void **state)
{
	struct percpu_approx *a;

	(void)state;
	now_ns = 1000000000000;
	assert_int_equal(percpu_approx_create(NULL, &a), 0);
	percpu_approx_add(a, 1000);
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_approx_add_below(a, 1, 1000), -ERANGE);
	expect_at_most("refusals", FENCE, 1);
	begin_costs();
	for (int i = 0; i < 100; i++) {
		percpu_approx_add(a, -1);
		assert_int_equal(percpu_approx_add_below(a, 1, 1000), 0);
		assert_int_equal(percpu_approx_add_below(a, 1, 1000), -ERANGE);
	}
	expect_exactly("what is given back and taken", FENCE, 0);
	/* After a rest, and far from the limit, the lanes are opened, without a fence. */
	now_ns += 1000000000;
	percpu_approx_add(a, -100000);
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_approx_add_below(a, 1, 1000), 0);
	expect_exactly("far from the limit", FENCE, 0);
	/* Take more than open lanes have room for, and give all of it back. */
	percpu_approx_zero(a);
	begin_costs();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(percpu_approx_add_below(a, 1 << 30, 1 << 30), 0);
		percpu_approx_add(a, -(1 << 30));
	}
	expect_at_most("more than lanes have room for", FENCE, 1);
	now_ns = 0;
	percpu_approx_destroy(a);
}

/* A CPU takes many permissions at once. */
static void permissions_are_taken_together(void **state)
{
	struct percpu_rate *rate;

	(void)state;
	test_need_sequences();
	test_pin(0, test_cpu(0));
	assert_int_equal(percpu_rate_create(INT32_MAX, 3600000, &rate), 0);
	begin_costs();
	for (int i = 0; i < 1024; i++)
		assert_true(percpu_rate_check(rate));
	expect_at_most("1024 checks", TAKE, 8);
	expect_exactly("checks", FENCE, 0);
	expect_exactly("checks", SYSTEM, 0);
	percpu_rate_destroy(rate);
	test_unpin(0);
}

/* A check that is refused, or allowed by the CPU's permissions, or by taking more. One that is
 * preempted begins anew. */
static void checks_read_the_clock_once(void **state)
{
	struct percpu_rate *rate;
	unsigned more = 0;

	(void)state;
	assert_int_equal(percpu_rate_create(1000, 3600000, &rate), 0);
	for (int i = 0; i < 1100; i++) {
		begin_costs();
		assert_true(percpu_rate_check(rate) == (i < 1000));
		assert_true(so_far(CLOCK) >= 1);
		more += so_far(CLOCK) > 1;
	}
	assert_true(more < 50);
	percpu_rate_destroy(rate);
}

/* Segments. */

#define CAP 50 /* series of the family, and records that a walk reads */

static struct percpu_family *full_family(void)
{
	struct percpu_family *f = family_of(s, CAP);
	char name[16];

	for (int i = 0; i < CAP; i++) {
		snprintf(name, sizeof(name), "v%d", i);
		assert_int_equal(count_in(f, name, 1), 1);
	}
	return f;
}

/* A look-up for which there is no room reads the record of the family, to compare it. */
static void expect_overflow(const char *what, unsigned n)
{
	expect_at_most(what, RECORD, 2 * n);
	expect_exactly(what, LOCK, 0);
	expect_exactly(what, SYSTEM, 0);
	expect_exactly(what, FENCE, 0);
	expect_at_most(what, PROCESS, 5 * n);
	expect_at_most(what, MEMORY, n);
	expect_exactly(what, BLOCK, 0);
}

/* A look-up of a series that was found before takes no lock, not even of the process, and reads no
 * record. */
static void expect_look_up(const char *what)
{
	expect_exactly(what, RECORD, 0);
	expect_exactly(what, LOCK, 0);
	expect_exactly(what, SYSTEM, 0);
	expect_exactly(what, FENCE, 0);
	expect_exactly(what, PROCESS, 0);
	expect_exactly(what, MEMORY, 0);
	expect_exactly(what, BLOCK, 0);
}

static void families_are_looked_up_in_memory(void **state)
{
	struct percpu_family *f = full_family();
	struct percpu_counter *c;

	(void)state;
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_non_null(counter_of(f, "v7"));
	expect_look_up("a series that is there");
	assert_non_null(counter_of(f, "more"));
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_non_null(counter_of(f, "more"));
	expect_overflow("the overflow", 100);
	/* The same with a removed series, which still counts for the cap. */
	assert_int_equal(remove_value(f, "v3"), 0);
	assert_non_null(counter_of(f, "more"));
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_non_null(counter_of(f, "more"));
	expect_overflow("the overflow, one removed", 100);
	/* Only the other process's new record is read. */
	assert_int_equal(percpu_segment_counter(t, METRIC("x_total"), &c), 0);
	begin_costs();
	assert_non_null(counter_of(f, "v7"));
	expect_look_up("after another one's record");
	assert_non_null(counter_of(f, "more"));
	expect_at_most("the overflow, after another one's record", RECORD, 3 + 2);
}

/* A process is stopped amid a change, with the lock. Other processes look up series as before. */

static struct percpu_segment *onlooker; /* read-only */
static struct percpu_family *of_s, *of_onlooker;

static void look_amid_change(void)
{
	struct percpu_counter *c;

	assert_non_null(counter_of(of_onlooker, "v7"));
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_non_null(counter_of(of_s, "v7"));
	for (int i = 0; i < 100; i++)
		assert_non_null(counter_of(of_onlooker, "v7"));
	expect_look_up("amid a change");
	for (int i = 0; i < 100; i++) {
		assert_int_equal(percpu_segment_counter(onlooker, METRIC("a_total"), &c), 0);
		assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	}
	expect_at_most("declared again amid a change", RECORD, 1200);
	expect_exactly("declared again amid a change", LOCK, 0);
}

static void unfinished_changes_cost_nothing(void **state)
{
	static const char *const steps[] = { "remove: change begun", "remove: changed" };
	struct percpu_family *of_t;
	struct percpu_counter *c;
	char name[16];

	(void)state;
	of_s = full_family();
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	of_t = family_of(t, CAP);
	onlooker = open_family_file(path, 0);
	of_onlooker = family_of(onlooker, CAP);
	assert_int_equal(remove_value(of_t, "v3"), 0); /* so that some are removed already */
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		stopped = look_amid_change;
		stops_at = steps[i];
		snprintf(name, sizeof(name), "v%u", 10 + i);
		assert_int_equal(remove_value(of_t, name), 0);
		assert_null(stops_at);
	}
	percpu_segment_close(onlooker);
}

/* A family that the process has is had without a look at the file. */
static void families_are_declared_once(void **state)
{
	struct percpu_family *f = full_family();

	(void)state;
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_ptr_equal(family_of(s, CAP), f);
	expect_exactly("a family that is there", SYSTEM, 0);
	expect_exactly("a family that is there", LOCK, 0);
	expect_exactly("a family that is there", BLOCK, 0);
}

static void metrics_are_declared_once(void **state)
{
	struct percpu_counter *c, *same;

	(void)state;
	(void)full_family();
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	begin_costs();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &same), 0);
		assert_ptr_equal(same, c);
	}
	expect_at_most("declared again", RECORD, 600);
	expect_exactly("declared again", LOCK, 0);
	expect_exactly("declared again", SYSTEM, 0);
	expect_exactly("declared again", BLOCK, 0);
	expect_at_most("declared again", PROCESS, 500);
	begin_costs();
	assert_int_equal(percpu_segment_counter(s, METRIC("b_total"), &c), 0);
	expect_at_most("declared", RECORD, 8);
	expect_at_most("declared", LOCK, 2); /* for the record, and for the object */
	expect_at_most("declared", SYSTEM, 20 + percpu_status()->possible_cpus);
}

static void pictures_are_taken_again(void **state)
{
	struct percpu_counter *c;
	struct percpu_reader *r;
	uint64_t first, bytes;

	(void)state;
	for (int i = 0; i < 50; i++) {
		char name[32];

		snprintf(name, sizeof(name), "a%d_total", i);
		assert_int_equal(percpu_segment_counter(s, METRIC(name), &c), 0);
	}
	assert_int_equal(percpu_reader_open(path, &r), 0);
	begin_costs();
	assert_int_equal(percpu_reader_read(r), 0);
	first = spent[SYSTEM];
	bytes = spent[BYTES];
	expect_exactly("a picture", LIST, 1);
	begin_costs();
	assert_int_equal(percpu_reader_read(r), 0);
	expect_exactly("a second picture", LIST, 0);
	expect_exactly("a second picture", RECORD, 0);
	expect_exactly("a second picture", MEMORY, 0);
	expect_exactly("a second picture", LOCK, 0);
	expect_at_most("a second picture", SYSTEM, first);
	expect_at_most("a second picture", BYTES, bytes);
	percpu_reader_close(r);
}

/* Statistics. */

static void read_statistics(const char *what, uint32_t flags, size_t n)
{
	static uint64_t out[300 * 2];
	struct percpu_stats *many;

	assert_int_equal(percpu_stats_create(16, n, flags, &many), 0);
	begin_costs();
	assert_int_equal(percpu_stats_fetch(many, 0, n, out), 0);
	expect_nothing(what);
	percpu_stats_destroy(many);
}

/* Only objects in two copies are copied, on the stack if they are short. */
static void statistics_are_read_without_memory(void **state)
{
	(void)state;
	read_statistics("a few objects", 0, 1);
	read_statistics("4800 bytes of objects", 0, 300);
	read_statistics("4096 bytes of objects in two copies", PERCPU_STATS_WHOLE, 256);
}

/* Owners. */

static void owners_are_read_without_calls(void **state)
{
	struct percpu_owned_gauge *g;
	struct percpu_owner_info info[4];
	struct percpu_region *region;
	struct percpu_owners *owners;
	int64_t v;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE | PERCPU_REGION_OWNERS, NULL, &region), 0);
	assert_int_equal(percpu_owners_open(region, 0, &owners), 0);
	assert_int_equal(percpu_owned_gauge_open(owners, 1, PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_gauge_add(g, 3), 0);
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_owned_gauge_add(g, 3), 0);
	expect_nothing("adds of an owner");
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v), 0);
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v), 0);
	expect_nothing("of all owners");
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v), 0);
	expect_exactly("of owners that live", SYSTEM, 0);
	expect_exactly("of owners that live", BLOCK, 0);
	begin_costs();
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_owners_list(owners, info, 4), 1);
	expect_exactly("a list", SYSTEM, 0);
	expect_exactly("a list", BLOCK, 0);
	percpu_owned_gauge_destroy(g);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

/* A thread that waits until another one has left sleeps between two looks. */
static struct percpu_owners *leaving;
static unsigned looks;

static void look_again(void)
{
	if (looks++ != 0) {
		expect_exactly("a look whether a thread has left", SYSTEM, 1);
		leaving->leaving = 0;
		return;
	}
	begin_costs();
	stops_at = "owner: leave awaited";
}

static void leaves_are_slept_for(void **state)
{
	struct percpu_region *region;

	(void)state;
	assert_int_equal(percpu_region_open(path, CREATE | PERCPU_REGION_OWNERS, NULL, &region), 0);
	assert_int_equal(percpu_owners_open(region, 0, &leaving), 0);
	leaving->leaving = 1;
	looks = 0;
	stops_at = "owner: leave awaited";
	stopped = look_again;
	assert_int_equal(percpu_owner_await_leave(leaving, UINT64_MAX), 0);
	assert_int_equal(looks, 2);
	percpu_owners_destroy(leaving);
	percpu_region_close(region);
	assert_int_equal(unlink(path), 0);
}

/* After all free windows were unmapped, using a page costs nothing again but at first. */
static void windows_given_back_cost_nothing_more(void **state)
{
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;

	(void)state;
	test_pin(0, test_cpu(0));
	f = windows_of_memory();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 100; i++) {
			if (i == 10)
				begin_costs();
			assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		}
		if (test_tier() == PERCPU_TIER_RSEQ)
			expect_nothing("a page that was used before");
		assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
		assert_int_equal(percpu_lwbuf_set_max_excess(f, 100), 0);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	test_unpin(0);
}

/* Memory. */

static void cells_share_mappings(void **state)
{
	struct percpu_counter *c[1000];
	struct percpu_region *r;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_counter_create_in(r, &c[0]), 0);
	begin_costs();
	for (int i = 1; i < 1000; i++)
		assert_int_equal(percpu_counter_create_in(r, &c[i]), 0);
	expect_exactly("1000 counters", SYSTEM, 0);
	expect_exactly("1000 counters", MEMORY, 0);
	expect_at_most("1000 counters", PROCESS, 1000);
	expect_exactly("1000 counters", LOCK, 0);
	begin_costs();
	for (int i = 0; i < 1000; i++)
		percpu_counter_destroy(c[i]);
	expect_exactly("1000 counters, freed", SYSTEM, 0);
	percpu_region_close(r);
	assert_int_equal(percpu_region_open(path, CREATE, NULL, &r), 0);
	assert_int_equal(percpu_counter_create_in(r, &c[0]), 0);
	begin_costs();
	for (int i = 1; i < 1000; i++)
		assert_int_equal(percpu_counter_create_in(r, &c[i]), 0);
	expect_at_most("1000 counters in a file", LOCK, 1000);
	expect_at_most("1000 counters in a file", MEMORY, 0);
	expect_at_most("1000 counters in a file", PROCESS, 1000);
	/* One call for each lane, and those of the lock. */
	expect_at_most("1000 counters in a file", SYSTEM,
		       999 * (4 + (uint64_t)percpu_status()->possible_cpus));
	percpu_region_close(r);
	assert_int_equal(unlink(path), 0);
}

/* No call of the tests above has released the process lock without holding it. */
static void locks_are_released_by_their_holder(void **state)
{
	(void)state;
	assert_false(released_for_others);
	assert_int_equal(has_process_lock, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(most_calls_cost_nothing),
		cmocka_unit_test(periods_are_fenced_once),
		cmocka_unit_test(helpers_without_work_sleep),
		cmocka_unit_test(snapshots_are_fenced_once),
		cmocka_unit_test(records_are_fenced_once),
		cmocka_unit_test(windows_are_replaced_without_fences),
		cmocka_unit_test(windows_of_others_stay_there),
		cmocka_unit_test(limits_are_fenced_once),
		cmocka_unit_test(permissions_are_taken_together),
		cmocka_unit_test(checks_read_the_clock_once),
		cmocka_unit_test_setup_teardown(families_are_looked_up_in_memory, open_both,
						close_both),
		cmocka_unit_test_setup_teardown(unfinished_changes_cost_nothing, open_both,
						close_both),
		cmocka_unit_test_setup_teardown(families_are_declared_once, open_both, close_both),
		cmocka_unit_test_setup_teardown(metrics_are_declared_once, open_both, close_both),
		cmocka_unit_test_setup_teardown(pictures_are_taken_again, open_both, close_both),
		cmocka_unit_test(statistics_are_read_without_memory),
		cmocka_unit_test(owners_are_read_without_calls),
		cmocka_unit_test(leaves_are_slept_for),
		cmocka_unit_test(windows_given_back_cost_nothing_more),
		cmocka_unit_test(cells_share_mappings),
		cmocka_unit_test(locks_are_released_by_their_holder),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

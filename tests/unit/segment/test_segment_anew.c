/* SPDX-License-Identifier: MIT */
/*
 * test_segment_anew.c - resets of segments: what is reset, when other processes see it, and what
 * happens when the process that resets is killed; and tables of declarations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "steps.h"
#include "declared.h"
#include "support.h"
#include "../root_file.h"
#include "../segments.h"

#include "segment/segment.h"

static unsigned dies_at; /* the step at which the process dies, counted from 1; 0: none */
static const char *waits_when;
static void (*meanwhile)(void);

void test_step(const char *name)
{
	if (dies_at != 0 && --dies_at == 0)
		raise(SIGKILL);
	if (waits_when != NULL && strcmp(name, waits_when) == 0) {
		waits_when = NULL;
		meanwhile();
	}
}

/* Take the turn at once: no other process resets, and the turn of a killed one need not be
 * waited for. test_extrema_steps.c tests the waiting. */
void __wrap_percpu_turn_wait(uint32_t *turn, uint32_t me);
void __wrap_percpu_turn_wait(uint32_t *turn, uint32_t me)
{
	__atomic_store_n(turn, me, __ATOMIC_RELAXED);
}

/* Whether no robust lock can be taken: a stopped process holds that of the allocator. */
static bool busy;

int __real_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns)
{
	return busy ? -ETIMEDOUT : __real_percpu_robust_lock(h, word, timeout_ns);
}

static struct percpu_segment *open_with(unsigned flags)
{
	struct percpu_segment *s = NULL;

	assert_int_equal(percpu_segment_open(path, flags, NULL, &s), 0);
	return s;
}

/* Metrics of each kind, one or two of each. */

struct pair {
	uint64_t hits, misses;
};

struct all {
	struct percpu_counter *counter, *second;
	struct percpu_fcounter *fcounter;
	struct percpu_histogram *histogram;
	struct percpu_extrema *extrema;
	PERCPU_STATS(struct pair) stats;
	struct percpu_gauge *gauge;
	struct percpu_fgauge *fgauge;
	struct percpu_latest *latest;
	struct percpu_owned_gauge *owned;
};

#define ROW(k, n, field)                                                                           \
	{                                                                                          \
		.size = sizeof(struct percpu_declaration), .name = n, .kind = PERCPU_METRIC_##k,   \
		.ret = {.counter = (void *)field }                                                 \
	}

static struct all declare_all(struct percpu_segment *s)
{
	const struct percpu_histogram_options small = {
		.size = sizeof(small), .min = 1, .max = 2, .buckets_per_octave = 1
	};
	static const char *const names[] = { "hit", "miss" };
	static const struct percpu_metric_fields fields =
		PERCPU_METRIC_FIELDS(struct pair, "result", names);
	struct all a = { .counter = NULL };
	struct percpu_declaration table[] = {
		ROW(COUNTER, "a_total", &a.counter),
		ROW(COUNTER, "b_total", &a.second),
		ROW(FCOUNTER, "c_total", &a.fcounter),
		ROW(HISTOGRAM, "d", &a.histogram),
		ROW(EXTREMA, "e", &a.extrema),
		ROW(STATS, "k_total", &a.stats),
		ROW(INFO, "f_info", NULL),
		ROW(GAUGE, "g", &a.gauge),
		ROW(FGAUGE, "h", &a.fgauge),
		ROW(LATEST, "i", &a.latest),
		ROW(OWNED_GAUGE, "j", &a.owned),
	};

	table[3].histogram = &small; /* fewer steps */
	table[5].fields = &fields;
	assert_int_equal(percpu_segment_declare(s, table, WIDE ? 11 : 7), 0);
	return a;
}

static void count_in(const struct all *a)
{
	percpu_counter_add(a->counter, 1);
	percpu_counter_add(a->second, 2);
	assert_int_equal(percpu_fcounter_add(a->fcounter, 0.5), 0);
	percpu_histogram_record(a->histogram, 1);
	assert_int_equal(percpu_extrema_observe(a->extrema, 4), 0);
	PERCPU_STATS_UPDATE(a->stats, 0, .hits = 2, .misses = 3);
	if (!WIDE)
		return;
	percpu_gauge_add(a->gauge, 6);
	assert_int_equal(percpu_fgauge_set(a->fgauge, 7), 0);
	assert_int_equal(percpu_latest_set(a->latest, 8), 0);
	assert_int_equal(percpu_owned_gauge_add(a->owned, 9), 0);
}

static uint64_t records_of(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *shot = NULL;
	uint64_t n;

	assert_int_equal(percpu_histogram_snapshot_create(h, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, shot), 0);
	n = shot->count;
	percpu_histogram_snapshot_destroy(shot);
	return n;
}

/* Assert that each metric was counted so many times. */
static void counted(const struct all *a, unsigned times)
{
	int64_t min = 0, max = 0;
	struct pair pair;
	double value;

	assert_int_equal(percpu_counter_fetch(a->counter), times);
	assert_int_equal(percpu_counter_fetch(a->second), 2 * times);
	assert_true(percpu_fcounter_fetch(a->fcounter) == 0.5 * times);
	assert_int_equal(records_of(a->histogram), times);
	assert_int_equal(percpu_extrema_fetch(a->extrema, &min, &max), times != 0 ? 0 : -ENODATA);
	assert_int_equal(PERCPU_STATS_FETCH(a->stats, 0, 1, &pair), 0);
	assert_int_equal(pair.hits, 2 * times);
	assert_int_equal(pair.misses, 3 * times);
	if (!WIDE)
		return;
	assert_int_equal(percpu_gauge_fetch(a->gauge), 6 * times);
	assert_true(percpu_fgauge_fetch(a->fgauge) == (times != 0 ? 7 : 0));
	assert_int_equal(percpu_latest_fetch(a->latest, &value, NULL), 0);
	assert_true(value == 8);
}

static void all_start_from_zero(void **state)
{
	struct percpu_segment *s = open_with(ALL), *t;
	const uint64_t started = s->control->started[1].real;
	struct all a = declare_all(s), b;
	int64_t sum = 0;

	(void)state;
	assert_int_equal(s->control->generation, 1);
	assert_true(started != 0);
	count_in(&a);
	counted(&a, 1);
	t = open_with(ALL);
	counted(&a, 1);
	percpu_segment_close(t);
	t = open_with(PERCPU_SEGMENT_ANEW);
	counted(&a, 0); /* in the handles of before, too */
	count_in(&a);
	b = declare_all(t);
	counted(&b, 1);
	assert_int_equal(t->series.used, WIDE ? 11 : 7);
	if (WIDE) {
		assert_int_equal(percpu_owned_gauge_fetch(b.owned, PERCPU_OWNED_LIVING, &sum), 0);
		assert_int_equal(sum, 18);
	}
	assert_int_equal(t->control->generation, 2);
	assert_int_equal(t->control->completed, 2);
	assert_true(t->control->started[0].real >= started);
	assert_true(t->control->started[0].boottime != 0);
	assert_int_equal(t->control->started[1].real, started);
	assert_int_equal(percpu_directory_at(t, 0)->generation, 2);
	percpu_segment_close(t);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* So many metrics need several blocks of records. The rest of a block is too short for another
 * record. */
static void all_blocks_start_from_zero(void **state)
{
	enum { METRICS = 150 };
	struct percpu_segment *s = open_with(ALL);
	struct percpu_counter *c[METRICS];
	char help[1000], name[16];
	const struct percpu_metric m = { .size = sizeof(m), .name = name, .help = help };

	(void)state;
	memset(help, 'x', sizeof(help));
	help[sizeof(help) - 1] = '\0';
	for (unsigned i = 0; i < METRICS; i++) {
		snprintf(name, sizeof(name), "a%u_total", i);
		assert_int_equal(percpu_segment_counter(s, &m, &c[i]), 0);
		percpu_counter_add(c[i], 1 + i);
	}
	assert_true(s->control->end > 2 * PERCPU_SEGMENT_BLOCK);
	percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
	for (unsigned i = 0; i < METRICS; i++)
		assert_int_equal(percpu_counter_fetch(c[i]), 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* A reset is killed at each step: the next one completes it, and no series keeps its values. */

static int start_anew_and_die(void *arg)
{
	struct percpu_segment *s = NULL;
	int e;

	dies_at = *(unsigned *)arg;
	e = percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &s);
	dies_at = 0;
	test_child_require(e == 0, strerror(-e));
	return 0;
}

static void killed_ones_are_completed(void **state)
{
	struct percpu_segment *s, *t;
	const unsigned stride = test_rounds(10) < 10 ? 5 : 1; /* each round fences all CPUs */
	unsigned step, begun = 0;
	bool killed = true;
	struct all a;

	(void)state;
	if (!percpu_status()->robust)
		test_skip("locks are not taken over here");
	for (step = 1; killed; step += stride) {
		s = open_with(ALL);
		a = declare_all(s);
		count_in(&a);
		killed = killed_at(start_anew_and_die, step);
		t = open_with(0);
		assert_int_equal(t->control->completed, t->control->generation);
		begun += t->control->generation == 2;
		counted(&a, t->control->generation == 2 ? 0 : 1);
		count_in(&a);
		percpu_segment_close(t);
		t = open_with(0); /* has nothing to complete */
		counted(&a, t->control->generation == 2 ? 1 : 2);
		percpu_segment_close(t);
		percpu_segment_close(s);
		assert_int_equal(unlink(path), 0);
	}
	assert_true(begun > 5);
}

/* A process that opens the segment during a reset waits until it is done. If the resetting
 * process is alive, it waits no longer than a second. */

static struct percpu_segment *late;
static int told;

static void open_meanwhile(void)
{
	told = percpu_segment_open(path, 0, NULL, &late);
}

static void others_wait_for_it(void **state)
{
	struct percpu_segment *s = open_with(ALL);
	struct all a = declare_all(s);

	(void)state;
	count_in(&a);
	meanwhile = open_meanwhile;
	waits_when = "segment: reset noted";
	percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
	assert_null(waits_when);
	assert_int_equal(told, -ETIMEDOUT);
	assert_null(late);
	counted(&a, 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* If a process cannot open the file once more, its lock of the file does not exclude its threads
 * from each other. */

static int descriptor;
static bool *done;
static pid_t child;

static int start_anew_now(void)
{
	return percpu_segment_open_fd(descriptor, PERCPU_SEGMENT_ANEW | PERCPU_SEGMENT_FOREIGN,
				      NULL, &late);
}

/* Reset the segment as another thread that is first. */
static void start_anew_before(void)
{
	told = start_anew_now();
	if (told == 0)
		percpu_segment_close(late);
}

/* Reset the segment in a child that was forked amid a reset: no thread of the child resets. */
static int start_anew_later(void *arg)
{
	(void)arg;
	while (!__atomic_load_n(done, __ATOMIC_ACQUIRE))
		usleep(1000);
	meanwhile = start_anew_before;
	waits_when = "segment: alone";
	test_child_require(start_anew_now() == 0 && told == 0, "both");
	return 0;
}

static void open_it_meanwhile(void)
{
	if (child == 0)
		child = test_fork(start_anew_later, NULL);
	told = start_anew_now();
}

/* Another process holds the lock of the file when this one asks for it, and releases it later. */

static uint32_t *whose; /* shared. 1: the other process has the lock; 2: this one has asked */
static unsigned tries;

static void keep_the_lock(void)
{
	__atomic_store_n(whose, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(whose, __ATOMIC_ACQUIRE) != 2)
		usleep(100);
}

static int start_anew_first(void *arg)
{
	(void)arg;
	meanwhile = keep_the_lock;
	waits_when = "segment: generation begun";
	test_child_require(start_anew_now() == 0, "the other one");
	percpu_segment_close(late);
	return 0;
}

static void ask_again(void)
{
	if (++tries == 3)
		__atomic_store_n(whose, 2, __ATOMIC_RELEASE);
	else
		waits_when = "segment: alone";
}

static void start_anew_behind_another(void)
{
	const uint64_t generation = late->control->generation;

	child = test_fork(start_anew_first, NULL);
	while (__atomic_load_n(whose, __ATOMIC_ACQUIRE) != 1)
		usleep(100);
	meanwhile = ask_again;
	waits_when = "segment: alone";
	test_child_require(start_anew_now() == 0, "this one, too");
	test_child_require(test_wait(child, 60) == 0 && tries == 3, "behind another");
	test_child_require(late->control->generation == generation + 2, "one each");
}

static int start_anew_twice(void *arg)
{
	struct percpu_segment *s = NULL;

	(void)arg;
	test_child_require(setgid(65534) == 0 && setuid(65534) == 0, "another user");
	meanwhile = open_it_meanwhile;
	waits_when = "segment: reset noted";
	test_child_require(percpu_segment_open_fd(descriptor,
						  PERCPU_SEGMENT_ANEW | PERCPU_SEGMENT_FOREIGN,
						  NULL, &s) == 0,
			   "to start anew");
	test_child_require(s->region->file.inherited, "the file cannot be opened");
	test_child_require(waits_when == NULL && told == -ETIMEDOUT && late == NULL, "one alone");
	test_child_require(s->control->generation == 2, "once");
	open_it_meanwhile();
	test_child_require(told == 0 && s->control->generation == 3, "and again when it is done");
	percpu_segment_close(late);
	__atomic_store_n(done, true, __ATOMIC_RELEASE);
	test_child_require(test_wait(child, 60) == 0, "and twice by the child");
	test_child_require(s->control->generation == 5, "which was the fifth");
	late = s;
	start_anew_behind_another();
	percpu_segment_close(late);
	percpu_segment_close(s);
	return 0;
}

static void threads_take_turns_without_proc(void **state)
{
	struct percpu_segment *s = open_with(ALL);
	struct all a = declare_all(s);

	(void)state;
	if (geteuid() != 0)
		test_skip("only root becomes another user");
	done = test_share(sizeof(*done));
	whose = test_share(sizeof(*whose));
	descriptor = open(path, O_RDWR | O_CLOEXEC);
	assert_true(descriptor >= 0);
	count_in(&a);
	test_in_child(start_anew_twice, NULL);
	counted(&a, 0);
	close(descriptor);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* The time of a start and its generation belong together, even if other processes reset meanwhile
 * as often as there are places for times, or once less. */

static unsigned others; /* how many processes reset */

static void start_anew_by_others(void)
{
	for (unsigned i = 0; i < others; i++)
		percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
}

static void starts_are_those_of_their_generation(void **state)
{
	struct percpu_segment *s = open_with(ALL);
	const struct percpu_segment_time *t;
	struct percpu_counter *c = NULL;
	uint64_t generation = 1;
	struct percpu_segment_start m;
	int e;

	(void)state;
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &c), 0);
	for (int i = 0; i < 4; i++) {
		others = 1 + i % 2;
		generation += others;
		meanwhile = start_anew_by_others;
		waits_when = "segment: generation read";
		memset(&m, 0xff, sizeof(m));
		e = i < 2 ? percpu_segment_started(s, &m) :
			    percpu_segment_series_started(s, METRIC("a_total"), &m);
		assert_int_equal(e, 0);
		assert_null(waits_when);
		t = &s->control->started[generation % 2];
		assert_int_equal(m.generation, generation);
		assert_int_equal(m.real, t->real);
		assert_int_equal(m.boottime, t->boottime);
	}
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* An object that is not there is not reset, and the next generation begins. */
static void objects_that_are_not_there_are_left(void **state)
{
	struct percpu_segment *s = open_with(ALL);
	struct all a = declare_all(s);
	const unsigned n = WIDE ? 11 : 7;
	struct percpu_segment_record *r;
	uint64_t at = 0, key[11];

	(void)state;
	count_in(&a);
	for (unsigned i = 0; i < n; i++, at += r->size) {
		r = percpu_directory_at(s, at);
		key[i] = r->key;
		r->key = i % 2 == 0 ? UINT64_MAX : s->control_key;
	}
	percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
	assert_int_equal(s->control->generation, 2);
	assert_int_equal(s->control->completed, 2);
	counted(&a, 1);
	for (unsigned i = n; i-- > 0;) {
		at = 0;
		for (unsigned k = 0; k < i; k++)
			at += percpu_directory_at(s, at)->size;
		percpu_directory_at(s, at)->key = key[i];
	}
	percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
	counted(&a, 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* No reset begins while another process adds metrics for longer than a second. */
static void busy_ones_keep_their_generation(void **state)
{
	struct percpu_segment *s = open_with(ALL), *none = NULL;
	struct all a = declare_all(s);

	(void)state;
	count_in(&a);
	busy = true;
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &none), -ETIMEDOUT);
	busy = false;
	assert_null(none);
	assert_int_equal(s->control->generation, 1);
	counted(&a, 1);
	percpu_segment_close(open_with(PERCPU_SEGMENT_ANEW));
	counted(&a, 0);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

/* The generation changes at each look for the time of its start: after 1000 looks, one of them
 * is returned. */

static unsigned begun;

static void begin_one_more(void)
{
	late->control->generation++;
	begun++;
	waits_when = "segment: generation read";
}

static void looks_for_starts_do_not_last_for_ever(void **state)
{
	struct percpu_segment_start m;

	(void)state;
	late = open_with(ALL);
	meanwhile = begin_one_more;
	waits_when = "segment: generation read";
	assert_int_equal(percpu_segment_started(late, &m), 0);
	waits_when = NULL;
	assert_int_equal(begun, 1000);
	assert_int_equal(m.generation, 1000);
	percpu_segment_close(late);
	assert_int_equal(unlink(path), 0);
}

/* Tables */

static void tables_end_at_the_first_error(void **state)
{
	struct percpu_counter *first = NULL, *second = NULL, *third = NULL;
	struct percpu_declaration table[] = { ROW(COUNTER, "a_total", &first),
					      ROW(COUNTER, "wrong\xff", &second),
					      ROW(COUNTER, "c_total", &third) };
	struct percpu_segment *s = open_with(ALL);

	(void)state;
	assert_int_equal(percpu_segment_declare(s, table, 3), -EILSEQ);
	assert_non_null(strstr(percpu_error(), "wrong?: "));
	assert_non_null(first);
	assert_null(second);
	assert_null(third);
	table[1].kind = 0;
	table[1].name = "b_total";
	assert_int_equal(percpu_segment_declare(s, table, 3), -EINVAL);
	table[1].kind = PERCPU_METRIC_STATS + 1;
	assert_int_equal(percpu_segment_declare(s, table, 3), -EINVAL);
	table[1].kind = PERCPU_METRIC_COUNTER;
	assert_int_equal(percpu_segment_declare(s, table, 3), 0);
	assert_non_null(third);
	assert_int_equal(percpu_segment_declare(s, NULL, 0), 0);
	assert_int_equal(percpu_segment_declare(s, NULL, 1), -EINVAL);
	assert_int_equal(percpu_segment_declare(NULL, table, 3), -EINVAL);
	percpu_segment_close(s);
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_start_from_zero),
		cmocka_unit_test(all_blocks_start_from_zero),
		cmocka_unit_test(killed_ones_are_completed),
		cmocka_unit_test(others_wait_for_it),
		cmocka_unit_test(threads_take_turns_without_proc),
		cmocka_unit_test(starts_are_those_of_their_generation),
		cmocka_unit_test(objects_that_are_not_there_are_left),
		cmocka_unit_test(busy_ones_keep_their_generation),
		cmocka_unit_test(looks_for_starts_do_not_last_for_ever),
		cmocka_unit_test(tables_end_at_the_first_error),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_timer.c - timers: which clock they read, when the counter's rate is known, and how exact it
 * is; timers that go back, change threads, processes and clocks; records.
 *
 * A process looks for its clock once, so each test is a child. The test chooses what the kernel's
 * clock is called, what CLOCK_MONOTONIC and CLOCK_BOOTTIME say, and how exact a moment is.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/timer.h>

#include "clocks.h"
#include "support.h"

#include "cpu/cpu.h"

#define MS UINT64_C(1000000)
#define LONG (20 * MS) /* above the distance of the two moments */

#if defined(__x86_64__) || defined(__i386__)
#define COUNTER "tsc\n"
#elif defined(__aarch64__)
#define COUNTER "arch_sys_counter\n"
#endif

/* What the library is told. */
static struct {
	const char *clock;  /* the kernel's; NULL: the real one */
	bool tsc_forbidden; /* prctl(2) says so */
	uint64_t ns;	    /* what CLOCK_MONOTONIC says; 0: the real time */
	uint64_t slept;	    /* added to CLOCK_BOOTTIME */
	uint64_t width;	    /* added to that of each moment */
	uint64_t back;	    /* subtracted from its ticks */
	bool slow;	    /* looking for the clock takes 30 ms */
	unsigned looked;    /* how often it looked for the clock */
	unsigned moments;   /* how many it took */
} told;

void clock_is_read(clockid_t clock, struct timespec *t)
{
	uint64_t ns = (uint64_t)t->tv_nsec;

	if (clock == CLOCK_MONOTONIC && told.ns != 0) {
		t->tv_sec = 0;
		ns = told.ns;
	} else if (clock == CLOCK_BOOTTIME) {
		ns += told.slept;
	}
	t->tv_sec += (time_t)(ns / 1000000000);
	t->tv_nsec = (long)(ns % 1000000000);
}

bool __real_percpu_read_genuine(const char *path, char *buf, size_t size);
bool __wrap_percpu_read_genuine(const char *path, char *buf, size_t size);
bool __wrap_percpu_read_genuine(const char *path, char *buf, size_t size)
{
	told.looked++;
	test_sleep_us(told.slow ? 30000 : 0);
	errno = ENOENT; /* as a file that is not there */
	if (told.clock == NULL)
		return __real_percpu_read_genuine(path, buf, size);
	test_child_require(strlen(told.clock) < size, "the name fits");
	strcpy(buf, told.clock);
	return true;
}

/* The function's name if a time_t is longer than in system calls. */
#if defined(__TIMESIZE) && __TIMESIZE == 32 && defined(__USE_TIME_BITS64)
#define WRAP_PRCTL(prefix) prefix##__prctl_time64
#else
#define WRAP_PRCTL(prefix) prefix##prctl
#endif

int WRAP_PRCTL(__real_)(int option, unsigned long a, unsigned long b, unsigned long c,
			unsigned long d);
int WRAP_PRCTL(__wrap_)(int option, unsigned long a, unsigned long b, unsigned long c,
			unsigned long d);
int WRAP_PRCTL(__wrap_)(int option, unsigned long a, unsigned long b, unsigned long c,
			unsigned long d)
{
	int r = WRAP_PRCTL(__real_)(option, a, b, c, d);

	if (option == PR_GET_TSC && told.tsc_forbidden)
		*(int *)a = PR_TSC_SIGSEGV;
	return r;
}

struct percpu_moment __real_percpu_moment_now(void);
struct percpu_moment __wrap_percpu_moment_now(void);
struct percpu_moment __wrap_percpu_moment_now(void)
{
	struct percpu_moment m = __real_percpu_moment_now();

	told.moments++;
	m.width += told.width;
	m.ticks -= told.back;
	return m;
}

static bool is_by_counter(struct percpu_timer t)
{
	return t.start & 1;
}

/* Start a timer as a program does that has not started one for ms. */
static struct percpu_timer start_after(unsigned ms)
{
	test_sleep_us(ms * 1000);
	return percpu_timer_start();
}

/* Require that a timer, started at once, runs as the clock does. A time of the clock within the
 * timer's is not longer, one around it not shorter, but for the error that timer.h states. */
static void require_exact(const char *what)
{
	const uint64_t around = test_now();
	const struct percpu_timer t = percpu_timer_start();
	const uint64_t within = test_now();
	uint64_t least, most;
	double s;

	do
		least = test_now() - within;
	while (least < LONG);
	s = percpu_timer_elapsed(t);
	most = test_now() - around;
	test_child_require(s * 1e9 >= (double)least * 0.9999 - 1000 &&
				   s * 1e9 <= (double)most * 1.0001 + 1000,
			   what);
}

static int known_rate(void *arg)
{
	const uint64_t around = test_now();
	struct percpu_timer t;

	(void)arg;
	t = percpu_timer_start();
	test_child_require(!is_by_counter(t), "the rate is not known at first");
	test_child_require(!is_by_counter(percpu_timer_start()) && told.looked == 1 &&
				   told.moments == 1,
			   "it looks once, and waits");
	require_exact("by the clock");
	(void)percpu_timer_start();
	test_child_require(is_by_counter(percpu_timer_start()), "now it is known");
	require_exact("by the counter");
	test_child_require(percpu_timer_elapsed(t) * 1e9 >= (double)(2 * LONG) &&
				   percpu_timer_elapsed(t) * 1e9 <= (double)(test_now() - around),
			   "across both");
	test_child_require(told.looked == 1 && told.moments == 2, "nothing is looked at again");
	return 0;
}

/* Let the library find what the test says. */
static int find(void *arg)
{
	const char *clock = arg;

	told.clock = clock;
	errno = 7;
	(void)percpu_timer_start();
	(void)start_after(15);
	test_child_require(errno == 7, "errno stays");
	return is_by_counter(percpu_timer_start());
}

#if defined(__x86_64__) || defined(__i386__)
static int find_without_tsc(void *arg)
{
	told.tsc_forbidden = true;
	return find(arg);
}
#endif

/* Return which clock a process finds. */
static bool finds_counter(int (*fn)(void *arg), const char *clock)
{
	int status = test_wait(test_fork(fn, (void *)(uintptr_t)clock), 60);

	assert_true(WIFEXITED(status));
	assert_true(WEXITSTATUS(status) <= 1);
	return WEXITSTATUS(status) == 1;
}

static void test_which_clock(void **state)
{
	(void)state;
	assert_false(finds_counter(find, "hpet\n"));
	assert_false(finds_counter(find, "tsc-early\n"));
	assert_false(finds_counter(find, "\n"));
#ifdef COUNTER
	assert_true(finds_counter(find, COUNTER));
#else
	assert_false(finds_counter(find, "tsc\n"));
#endif
#if defined(__x86_64__) || defined(__i386__)
	assert_false(finds_counter(find_without_tsc, COUNTER));
#endif
}

#ifdef COUNTER
static void test_rate(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(known_rate, NULL);
}

/* A moment that is not exact enough is not used, and a later one is. */
static int inexact(void *arg)
{
	(void)arg;
	(void)percpu_timer_start();
	told.width = UINT64_C(1) << 40;
	(void)start_after(15);
	test_child_require(!is_by_counter(percpu_timer_start()) && told.moments == 2,
			   "a wide moment is not used, and not taken again at once");
	told.width = 0;
	(void)start_after(15);
	test_child_require(is_by_counter(percpu_timer_start()), "an exact one is");
	require_exact("after a wide moment");
	return 0;
}

static void test_inexact_moment(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(inexact, NULL);
}

/* The first moment is too wide: both count. */
static int inexact_first(void *arg)
{
	(void)arg;
	told.width = UINT64_C(1) << 40;
	(void)percpu_timer_start();
	told.width = 0;
	(void)start_after(15);
	test_child_require(!is_by_counter(percpu_timer_start()), "the first was wide");
	return 0;
}

static void test_inexact_first_moment(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(inexact_first, NULL);
}

/* The machine is suspended between the moments: the counter went on, the clock did not. */
static int suspended(void *arg)
{
	(void)arg;
	told.back = UINT64_C(1) << 35;
	(void)percpu_timer_start();
	told.slept = 20000 * MS;
	told.back = 0;
	(void)start_after(15);
	test_child_require(!is_by_counter(percpu_timer_start()), "it begins anew");
	(void)start_after(15);
	test_child_require(is_by_counter(percpu_timer_start()), "and finds the rate");
	require_exact("after a suspend");
	return 0;
}

/* The counter begins anew. */
static int gone_back(void *arg)
{
	(void)arg;
	(void)percpu_timer_start();
	told.back = percpu_ticks() / 2;
	(void)start_after(15);
	test_child_require(!is_by_counter(percpu_timer_start()), "it begins anew");
	(void)start_after(15);
	test_child_require(is_by_counter(percpu_timer_start()), "and finds the rate");
	require_exact("after a jump");
	return 0;
}

static void test_suspended(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(suspended, NULL);
	test_in_child(gone_back, NULL);
}

static void find_in_handler(int signo)
{
	(void)signo;
	(void)percpu_timer_start();
}

static int end_in_child(void *arg)
{
	const struct percpu_timer *t = arg;

	require_exact("in a child");
	test_child_require(percpu_timer_elapsed(*t) * 1e9 >= (double)LONG, "the parent's timer");
	return told.moments != 2;
}

/* A signal handler takes both steps, and a child of fork goes on with what it has. */
static int go_on(void *arg)
{
	struct percpu_timer t;

	(void)arg;
	signal(SIGUSR1, find_in_handler);
	raise(SIGUSR1);
	test_child_require(told.moments == 1, "the handler notes a moment");
	test_sleep_us(15000);
	raise(SIGUSR1);
	t = percpu_timer_start();
	test_child_require(is_by_counter(t) && told.moments == 2, "the handler finds the rate");
	return test_wait(test_fork(end_in_child, &t), 60);
}

static int find_rate_in_child(void *arg)
{
	(void)arg;
	(void)start_after(15);
	test_child_require(is_by_counter(percpu_timer_start()) && told.moments == 2,
			   "the parent's moment counts");
	require_exact("in a child that found the rate");
	return 0;
}

static int go_on_in_child(void *arg)
{
	(void)arg;
	(void)percpu_timer_start();
	return test_wait(test_fork(find_rate_in_child, NULL), 60);
}

static void test_handler_and_child(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(go_on, NULL);
	test_in_child(go_on_in_child, NULL);
}

static void start_one(unsigned i, void *arg)
{
	(void)i;
	(void)arg;
	(void)percpu_timer_start();
}

static void start_some(unsigned i, void *arg)
{
	double *least = arg;

	for (unsigned k = 0; k < 20000; k++) {
		double s = percpu_timer_elapsed(percpu_timer_start());

		least[i] = s < least[i] ? s : least[i];
	}
	test_sleep_us(15000);
	for (unsigned k = 0; k < 20000; k++) {
		double s = percpu_timer_elapsed(percpu_timer_start());

		least[i] = s < least[i] ? s : least[i];
	}
}

/* Threads that look at once. No time passes, so that it does not matter when they run. */
static int look_together(void *arg)
{
	(void)arg;
	told.ns = test_now();
	told.slow = true;
	test_team_run(4, start_one, NULL);
	test_child_require(told.looked == 1 && told.moments == 1,
			   "threads that waited for the first one look at nothing");
	return 0;
}

static int find_together(void *arg)
{
	double least[4] = { 0 };

	(void)arg;
	test_team_run(4, start_some, least);
	for (unsigned i = 0; i < 4; i++)
		test_child_require(least[i] >= 0, "no time is negative");
	test_child_require(is_by_counter(percpu_timer_start()), "the rate is known");
	require_exact("of threads");
	return 0;
}

static void test_threads(void **state)
{
	(void)state;
	told.clock = COUNTER;
	test_in_child(look_together, NULL);
	test_in_child(find_together, NULL);
}
#endif

/* Clocks that read less than when the timer was started. */
static int go_back(void *arg)
{
	struct percpu_timer t = percpu_timer_start();

	told.clock = arg;
	t.start += 4000 * MS;
	test_child_require(percpu_timer_elapsed(t) == 0, "a later start of the clock");
	t.start |= 1;
	test_child_require(percpu_timer_elapsed(t) == 0, "no rate is known");
	t.start = UINT64_MAX;
	test_child_require(percpu_timer_elapsed(t) == 0, "a later start of the counter");
	t.start = 0;
	test_child_require(percpu_timer_elapsed(t) > 0, "the clock from its 0");
	(void)percpu_timer_start();
	t = start_after(15);
	t = percpu_timer_start();
	t.start += UINT64_C(1) << 36;
	test_child_require(percpu_timer_elapsed(t) == 0, "a later start");
	return 0;
}

static void test_never_negative(void **state)
{
	(void)state;
#ifdef COUNTER
	told.clock = COUNTER;
	test_in_child(go_back, (void *)(uintptr_t)COUNTER);
#endif
	test_in_child(go_back, (void *)(uintptr_t) "hpet\n");
}

/* Record a time in a histogram, which must get it between two times of the clock. */
static void record(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s;
	uint64_t around = test_now(), within, least, most;
	struct percpu_timer t = percpu_timer_start();

	within = test_now();
	do
		least = test_now() - within;
	while (least < MS);
	percpu_timer_record(t, h);
	most = test_now() - around;
	test_child_require(percpu_histogram_snapshot_create(h, &s) == 0 &&
				   percpu_histogram_fetch(h, 0, s) == 0,
			   "a snapshot");
	test_child_require(s->count == 1 && s->refused == 0, "one is recorded");
	test_child_require(s->sum * 1e9 >= (double)least * 0.9999 - 1000 &&
				   s->sum * 1e9 <= (double)most * 1.0001 + 1000,
			   "its seconds");
	percpu_histogram_snapshot_destroy(s);
}

static int record_both(void *arg)
{
	const uint64_t units[4] = { 0, 1000000, 1000000000, 1000000000000 };
	struct percpu_histogram_options o = { .size = sizeof(o) };
	struct percpu_histogram *h;

	told.clock = arg;
	for (unsigned i = 0; i < 8; i++) {
		o.ticks_per_unit = units[i % 4];
		test_child_require(percpu_histogram_create(&o, &h) == 0, "a histogram");
		record(h);
		percpu_histogram_destroy(h);
		(void)start_after(15); /* the next ones are by the counter */
	}
	return 0;
}

static void test_record(void **state)
{
	(void)state;
#ifdef COUNTER
	test_in_child(record_both, (void *)(uintptr_t)COUNTER);
#endif
	test_in_child(record_both, (void *)(uintptr_t) "hpet\n");
}

/* Record a time of so many ns of the clock. */
static void record_ns(uint64_t ticks_per_unit, uint64_t ns, uint64_t ticks)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .ticks_per_unit = ticks_per_unit };
	const volatile double seconds = (double)ns * 1e-9; /* no more digits than a double has */
	const volatile double sum = (double)ticks / (double)ticks_per_unit;
	volatile double elapsed;
	struct percpu_histogram_snapshot *s = NULL;
	struct percpu_histogram *h = NULL;
	struct percpu_timer t;

	told.ns = 1;
	t = percpu_timer_start();
	told.ns += ns;
	elapsed = percpu_timer_elapsed(t);
	test_child_require(elapsed == seconds, "seconds");
	test_child_require(percpu_histogram_create(&o, &h) == 0 &&
				   percpu_histogram_snapshot_create(h, &s) == 0,
			   "a histogram");
	percpu_timer_record(t, h);
	test_child_require(percpu_histogram_fetch(h, 0, s) == 0 && s->count == 1 && s->sum == sum,
			   "the nearest tick");
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static int round_ticks(void *arg)
{
	told.clock = arg;
	record_ns(1000000, 400, 0);
	record_ns(1000000, 600, 1);
	record_ns(1000000, 1400, 1);
	record_ns(1000000, 1600, 2);
	record_ns(2400000000, 1, 2);
	record_ns(2400000000, 2, 5);
	return 0;
}

static void test_rounding(void **state)
{
	(void)state;
	test_in_child(round_ticks, (void *)(uintptr_t) "hpet\n");
}

/* The real clock of this machine, whatever it is. */
static int be_exact(void *arg)
{
	(void)arg;
	told.clock = NULL;
	require_exact("at first");
	(void)percpu_timer_start();
	require_exact("later");
	return 0;
}

static void test_real_clock(void **state)
{
	(void)state;
	test_in_child(be_exact, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which_clock),
#ifdef COUNTER
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_inexact_moment),
		cmocka_unit_test(test_inexact_first_moment),
		cmocka_unit_test(test_suspended),
		cmocka_unit_test(test_handler_and_child),
		cmocka_unit_test(test_threads),
#endif
		cmocka_unit_test(test_never_negative),
		cmocka_unit_test(test_record),
		cmocka_unit_test(test_rounding),
		cmocka_unit_test(test_real_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

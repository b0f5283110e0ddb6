/* SPDX-License-Identifier: MIT */
/*
 * test_region_programs_locks.c - shared regions in programs that lock the file, stop, cancel
 * threads, or have signal handlers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/zone.h>

#include "memory/memory.h"
#include "support.h"
#include "guest.h"

/* Take all locks that a process with read permission can. */
static int lock_to_read(void *arg)
{
	struct flock fl = { .l_type = F_RDLCK, .l_whence = SEEK_SET };
	int fd = open(path, O_RDONLY), *ready = arg;

	test_child_require(fcntl(fd, F_OFD_SETLKW, &fl) == 0, "lock");
	__atomic_store_n(ready, 1, __ATOMIC_RELEASE);
	for (;;)
		pause();
	return 0;
}

static int do_nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void use_region(void)
{
	struct percpu_counter *c;
	struct percpu_stats *s;
	uint64_t out[2];

	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	percpu_counter_add_slow(c, 1);
	assert_int_equal(percpu_stats_create_in(region, sizeof(out), 1, 0, &s), 0);
	update_both_ways(s);
	assert_int_equal(percpu_stats_fetch_zero(s, 0, 1, out), 0);
	assert_int_equal(out[1], 20);
	percpu_stats_destroy(s);
	test_in_child(do_nothing, NULL);
}

static void readers_stop_nobody(void **state)
{
	int *ready = test_share(sizeof(*ready));
	pid_t pid = test_fork(lock_to_read, ready);

	(void)state;
	while (!__atomic_load_n(ready, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	alarm(60);
	use_region();
	alarm(0);
	kill(pid, SIGKILL);
	test_wait(pid, 60);
}

/* Stop while holding a lock, of the allocator or of the journal. */
static int stop_with_lock(void *arg)
{
	struct percpu_robust h;

	test_child_require(percpu_robust_lock(&h, arg, PERCPU_LOCK_NS) == 0, "lock");
	raise(SIGSTOP);
	percpu_robust_unlock(&h);
	return 0;
}

static pid_t start_stopped(uint32_t *word)
{
	pid_t pid = test_fork(stop_with_lock, word);
	int status;

	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	assert_true(WIFSTOPPED(status));
	return pid;
}

static void go_on(pid_t pid)
{
	kill(pid, SIGCONT);
	assert_int_equal(test_wait(pid, 60), 0);
}

static void stopped_worker_stops_only_what_it_must(void **state)
{
	struct percpu_header *header = region->first->header;
	struct percpu_counter *c, *none = NULL;
	const uint64_t n[2] = { 1, 10 };
	struct percpu_stats *s;
	uint64_t out[2];
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	assert_int_equal(percpu_stats_create_in(region, sizeof(out), 1, 0, &s), 0);

	pid = start_stopped(&header->alloc_lock);
	assert_int_equal(percpu_counter_create_in(region, &none), -ETIMEDOUT);
	assert_null(none);
	percpu_counter_add_slow(c, 1);
	assert_int_equal(percpu_stats_update_slow(s, 0, 0, n, 2), 0);
	test_in_child(do_nothing, NULL);
	go_on(pid);
	assert_int_equal(percpu_counter_create_in(region, &none), 0);

	pid = start_stopped(&header->journal_lock);
	test_unregister(percpu_seq_attach());
	assert_int_equal(percpu_stats_update_slow(s, 0, 0, n, 2), -ETIMEDOUT);
	percpu_stats_add(s, 0, 0, 1); /* one field needs no lock */
	percpu_counter_add_slow(c, 1);
	assert_int_equal(percpu_stats_snapshot(s, 0, 1, out), 0);
	assert_int_equal(out[0], 2);
	assert_int_equal(out[1], 10);
	test_in_child(do_nothing, NULL);
	go_on(pid);
	assert_int_equal(percpu_stats_update_slow(s, 0, 0, n, 2), 0);
	percpu_stats_destroy(s);
}

/* A process is stopped with an update written down. Cells of the chunk cannot be freed, and no
 * zone loses those that were not. Waiting times do not add up. */
static void stopped_update_keeps_cells(void **state)
{
	struct percpu_header *header = region->first->header;
	struct percpu_zone_options o = { .size = sizeof(o), .region = region };
	struct percpu_zone_stats stats;
	struct percpu_counter *c;
	struct percpu_zone *z;
	void *item;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_zone_create("guest", 64, &o, &z), 0);
	assert_int_equal(percpu_zone_alloc(z, 0, &item), 0);
	pid = start_stopped(&header->journal_lock);
	header->journal.words = 0;
	header->journal.turn |= 1;
	assert_int_equal(percpu_region_free(region, item, 64), -ETIMEDOUT);
	assert_int_equal(percpu_zone_free(z, item), -ETIMEDOUT);
	percpu_zone_stats(z, &stats);
	assert_int_equal(stats.used, 1);
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	go_on(pid);
	assert_int_equal(percpu_zone_free(z, item), 0);
	assert_int_equal(header->journal.turn & 1, 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* A pending cancellation takes effect at the first cancellation point. Growing the region has
 * some, and so has reading the list of CPUs. */
static void *allocate_cancelled(void *arg)
{
	struct percpu_counter *c;

	(void)arg;
	pthread_cancel(pthread_self());
	for (int i = 0; i < 2 * PER_CHUNK; i++)
		if (percpu_counter_create_in(region, &c) != 0)
			return NULL;
	pthread_testcancel();
	return NULL;
}

static void *allocate_one(void *arg)
{
	struct percpu_counter *c;

	(void)arg;
	return percpu_counter_create_in(region, &c) == 0 ? NULL : region;
}

static int cancel_a_thread(void *arg)
{
	struct timespec deadline;
	pthread_t thread;
	void *result = NULL;

	(void)arg;
	test_child_require(pthread_create(&thread, NULL, allocate_cancelled, NULL) == 0, "thread");
	test_child_require(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED,
			   "it is canceled");
	test_child_require(region->n >= 2, "not before it has allocated");
	clock_gettime(CLOCK_REALTIME, &deadline);
	deadline.tv_sec += 20;
	test_child_require(pthread_create(&thread, NULL, allocate_one, NULL) == 0, "thread");
	test_child_require(pthread_timedjoin_np(thread, &result, &deadline) == 0 && result == NULL,
			   "another one can allocate");
	return 0;
}

static void cancelled_thread_leaves_no_lock(void **state)
{
	(void)state;
	test_in_child(cancel_a_thread, NULL);
}

static int canceled_fd;

/* open(2) and pread(2) are cancellation points, too. */
static void *create_cancelled(void *arg)
{
	struct percpu_region **r = arg;

	pthread_cancel(pthread_self());
	if (test_region_new(test_path("canceled"), NULL, &r[0]) == 0 &&
	    percpu_region_open(test_path("canceled"), PERCPU_REGION_WRITE, NULL, &r[1]) == 0 &&
	    test_region_new_fd(canceled_fd, NULL, &r[2]) == 0 &&
	    percpu_region_open_fd(canceled_fd, 0, NULL, &r[3]) == 0)
		pthread_testcancel();
	return NULL;
}

static void canceled_thread_leaves_no_file(void **state)
{
	struct percpu_region *r[4] = { NULL };
	pthread_t thread;
	void *result;

	(void)state;
	canceled_fd = memfd_create("region", MFD_CLOEXEC);
	test_path("canceled"); /* makes the directory: libc may cancel a thread there */
	assert_int_equal(pthread_create(&thread, NULL, create_cancelled, r), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	for (int i = 0; i < 4; i++) {
		assert_non_null(r[i]);
		percpu_region_close(r[i]);
	}
	close(canceled_fd);
	assert_int_equal(unlink(test_path("canceled")), 0);
}

static bool is_blocked(int signo)
{
	sigset_t blocked;

	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	return sigismember(&blocked, signo);
}

static void signals_stay_as_they_were(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	assert_false(is_blocked(SIGTERM));
	percpu_counter_destroy(c);
	assert_false(is_blocked(SIGTERM));
}

/* Another process may wait for one that waits for the process lock: no signal handler may delay
 * the lock's holder. */
static void process_lock_blocks_signals(void **state)
{
	sigset_t before, held, after;

	(void)state;
	pthread_sigmask(SIG_BLOCK, NULL, &before);
	percpu_process_lock();
	pthread_sigmask(SIG_BLOCK, NULL, &held);
	percpu_process_unlock();
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	assert_true(sigismember(&held, SIGUSR1) && sigismember(&held, SIGTERM));
	assert_int_equal(sigismember(&before, SIGUSR1), sigismember(&after, SIGUSR1));
	assert_int_equal(sigismember(&before, SIGTERM), sigismember(&after, SIGTERM));
}

/* A signal that came meanwhile is handled after the lock is released: the handler lets another
 * thread take it. */

static bool taken; /* atomic */

static void *take_lock(void *arg)
{
	percpu_process_lock();
	__atomic_store_n(&taken, true, __ATOMIC_RELEASE);
	percpu_process_unlock();
	return arg;
}

static void let_take_lock(int signo)
{
	pthread_t thread;

	(void)signo;
	if (pthread_create(&thread, NULL, take_lock, NULL) != 0)
		abort();
	for (int i = 0; i < 10000 && !__atomic_load_n(&taken, __ATOMIC_ACQUIRE); i++)
		test_sleep_us(1000);
	if (!__atomic_load_n(&taken, __ATOMIC_ACQUIRE))
		_exit(1);
	pthread_join(thread, NULL);
}

static int be_signaled_as_holder(void *arg)
{
	struct sigaction a = { .sa_handler = let_take_lock };

	(void)arg;
	test_child_require(sigaction(SIGUSR1, &a, NULL) == 0, "a handler");
	percpu_process_lock();
	test_child_require(raise(SIGUSR1) == 0 && !taken, "a signal that waits");
	percpu_process_unlock();
	test_child_require(taken, "and is handled then");
	return 0;
}

static void signals_are_handled_without_the_process_lock(void **state)
{
	(void)state;
	test_in_child(be_signaled_as_holder, NULL);
}

/* Two threads block different signals, one of them can be canceled, and they take the lock one
 * after the other: each gets its own settings back. */

static pid_t waiter; /* atomic; the thread that is about to wait */

/* Return whether the thread blocks this signal, as the kernel says. */
static bool blocks(pid_t tid, int signo)
{
	char name[64], line[128];
	unsigned long long mask = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/self/task/%d/status", (int)tid);
	f = fopen(name, "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "SigBlk:", 7) == 0)
			mask = strtoull(line + 7, NULL, 16);
	if (f != NULL)
		fclose(f);
	return mask >> (signo - 1) & 1;
}

struct had {
	bool usr1, usr2, term;
	int cancel;
};

static struct had had_now(void)
{
	struct had h = { is_blocked(SIGUSR1), is_blocked(SIGUSR2), is_blocked(SIGTERM), 0 };

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &h.cancel);
	pthread_setcancelstate(h.cancel, NULL);
	return h;
}

static void *wait_for_lock(void *arg)
{
	struct had *ret = arg;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_SETMASK, &set, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	__atomic_store_n(&waiter, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	percpu_process_lock();
	percpu_process_unlock();
	*ret = had_now();
	return NULL;
}

static void holders_keep_what_is_theirs(void **state)
{
	struct had before, mine, its;
	uint64_t patience;
	pthread_t thread;
	sigset_t old, set;
	pid_t tid;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_SETMASK, &set, &old);
	before = had_now();
	percpu_process_lock();
	patience = test_now() + UINT64_C(10000000000);
	if (pthread_create(&thread, NULL, wait_for_lock, &its) != 0)
		abort();
	do {
		test_sleep_us(1000);
		tid = __atomic_load_n(&waiter, __ATOMIC_ACQUIRE);
	} while ((tid == 0 || !blocks(tid, SIGTERM)) && test_now() < patience);
	test_sleep_us(20000); /* then it waits */
	percpu_process_unlock();
	mine = had_now();
	pthread_join(thread, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	assert_true(before.usr2 && !before.usr1 && !before.term);
	assert_true(mine.usr2 && !mine.usr1 && !mine.term);
	assert_int_equal(mine.cancel, before.cancel);
	assert_true(its.usr1 && !its.usr2 && !its.term);
	assert_int_equal(its.cancel, PTHREAD_CANCEL_DISABLE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(canceled_thread_leaves_no_file),
		cmocka_unit_test(signals_stay_as_they_were),
		cmocka_unit_test_setup_teardown(readers_stop_nobody, start, stop),
		cmocka_unit_test_setup_teardown(stopped_worker_stops_only_what_it_must, start,
						stop),
		cmocka_unit_test_setup_teardown(stopped_update_keeps_cells, start, stop),
		cmocka_unit_test_setup_teardown(cancelled_thread_leaves_no_lock, start, stop),
		cmocka_unit_test(process_lock_blocks_signals),
		cmocka_unit_test(signals_are_handled_without_the_process_lock),
		cmocka_unit_test(holders_keep_what_is_theirs),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * support.h - functions that tests share: teams of threads, child processes with a deadline, and
 * queries about the machine.
 *
 * cmocka's assertions leave a function by longjmp, so only the main thread of a test program may
 * use them. Threads and children return or store their results, and children use
 * test_child_require().
 */
#ifndef TESTS_SUPPORT_H
#define TESTS_SUPPORT_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include <percpu/region.h>
#include <percpu/status.h>

/** Bytes of the longest lane that a process can ask for. */
#define TEST_MAX_LANE ((size_t)1 << (sizeof(size_t) < 8 ? 30 : 40))

/** Threads that start together. */
struct test_team {
	pthread_barrier_t start;
	pthread_t thread[64];
	unsigned n;
	unsigned next;
	void (*fn)(unsigned i, void *arg);
	void *arg;
};

void test_team_start(struct test_team *t, unsigned n, void (*fn)(unsigned i, void *arg), void *arg);
void test_team_join(struct test_team *t);
void test_team_run(unsigned n, void (*fn)(unsigned i, void *arg), void *arg);

/** Start a child that exits with the return value of fn. It dies after 60 s, or
 *  $PERCPU_TEST_PATIENCE times as many. */
pid_t test_fork(int (*fn)(void *arg), void *arg);

/** Wait for a child, so many seconds or $PERCPU_TEST_PATIENCE times as many. Returns its wait
 *  status. A child that outlives the deadline is killed, and its status is SIGKILL. */
int test_wait(pid_t pid, unsigned seconds);

/** Run fn in a child, as test_fork(), and wait for it. Returns its wait status, without the bit that
 *  says that it left a core, and what it printed to standard error, an emulator's lines aside. */
int test_listen(int (*fn)(void *arg), void *arg, char *said, size_t size);

/** Return whether a child has ended. It must still be waited for. */
bool test_has_ended(pid_t pid);

/** Run fn in a child, and assert that it returns 0. */
void test_in_child(int (*fn)(void *arg), void *arg);

/** Call alarm(2) with so many seconds, or $PERCPU_TEST_PATIENCE times as many. */
void test_alarm(unsigned seconds);

/** In a child: unless ok, print what failed, and exit with 1. */
void test_child_require(bool ok, const char *what);

/** Return zeroed memory that children share. It stays until the program ends. */
void *test_share(size_t size);

/** Return the path of a file that does not exist, in a directory of this program. */
const char *test_path(const char *name);

/** Remove the directory of test_path() and its files. */
int test_remove_paths(void **state);

/** Create a region in a new file. */
static inline int test_region_new(const char *path, const struct percpu_region_options *o,
				  struct percpu_region **ret)
{
	return percpu_region_open(
		path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL, o, ret);
}

/** Create a region in the empty file of a descriptor. */
static inline int test_region_new_fd(int fd, const struct percpu_region_options *o,
				     struct percpu_region **ret)
{
	return percpu_region_open_fd(
		fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL, o, ret);
}

/** When SIGTERM ends this process, as it does when a test takes too long, kill its whole process
 *  group, and remove the files. A test program that leads a group does so from the start. */
void test_take_group_along(void);

/** Return a pseudo-random number; the state must not be 0. */
uint64_t test_random(uint64_t *state);

/** Return ns of a clock that does not go back. */
uint64_t test_now(void);

/** Sleep so many microseconds. */
void test_sleep_us(unsigned us);

/** Return the tier of the process, after the self-test has ended. It ends before main(), unless
 *  the program sets test_of_first_use. */
enum percpu_tier test_tier(void);
extern bool test_of_first_use;

/** Skip the test unless the tier is rseq. A child finds out, so that this process has not used
 *  the library before. */
void test_need_sequences(void);

/** Return n, or fewer rounds where each costs more: on the lower tiers, and so in emulators; with
 *  PERCPU_TEST_PATIENCE above 1; and under sanitizers. */
unsigned test_rounds(unsigned n);

/** Return how many CPUs the program may run on. */
unsigned test_cpus(void);

/** Return the number of the nth CPU that the program may run on. */
unsigned test_cpu(unsigned nth);

/** Let the thread run on this CPU only. */
bool test_pin(pid_t tid, unsigned cpu);

/** Let the thread run on all CPUs that the program started with. */
void test_unpin(pid_t tid);

/** A timer that sends a signal to a thread. */
struct test_timer {
	void *id;
};

/** Send signo to the calling thread at this interval, until the timer is stopped. */
bool test_timer_start(struct test_timer *t, int signo, unsigned interval_us);

/** Stop the timer. No handler of its signal begins after this. */
void test_timer_stop(struct test_timer *t);

/** Let the kernel forget the calling thread's rseq area. */
bool test_unregister(void *area);

/** The number of the process's descriptors and mappings; with a sanitizer, no mappings. A call
 *  that fails must not change them. */
struct test_holding {
	unsigned fds;
	unsigned maps;
};
struct test_holding test_holding_now(void);
void test_assert_holding(struct test_holding before);

/** Let this test leave descriptors open: its own, or ones that the library takes for the
 *  program's. */
void test_may_leave_descriptors(void);

/** Whether a test was skipped, maybe after it had begun: what it made stays. */
extern bool test_was_skipped;

/** Return whether the test runs under AddressSanitizer. */
bool test_address_sanitizer(void);

/** Return whether the test runs under ThreadSanitizer. */
bool test_thread_sanitizer(void);

/**
 * test_needs_forks_beside_malloc() - skip the test where fork(2) may copy a held lock of malloc
 *
 * AddressSanitizer of GCC 12 and Clang 14 does not take the locks of its malloc() around fork(2).
 * If another thread allocates or ends at that moment, the child waits forever in its first
 * malloc().
 */
void test_needs_forks_beside_malloc(void);

/** Return whether RLIMIT_AS has an effect: it has none with sanitizers, which need the address
 *  space themselves, nor in qemu-user. */
bool test_can_limit_address_space(void);

/** Skip the test, and say why. */
#define test_skip(reason)                                                                          \
	do {                                                                                       \
		print_message("skipped: %s\n", (reason));                                          \
		skip();                                                                            \
	} while (0)

#endif

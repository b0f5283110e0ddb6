/* SPDX-License-Identifier: MIT */
/*
 * support.h - functions that the tests share: teams of threads, child processes with a
 * deadline, and a few questions about the machine.
 *
 * cmocka's assertions leave a function by longjmp, so only the main thread of a test
 * program may use them. Threads and children return or store their results, and
 * children use test_child_require().
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

/** Start a child that exits with the return value of fn. After 60 s, or
 *  $PERCPU_TEST_PATIENCE times as many, it dies. */
pid_t test_fork(int (*fn)(void *arg), void *arg);

/** Wait for a child, so many seconds or $PERCPU_TEST_PATIENCE times as many. Returns
 *  its wait status. A child that outlives the deadline is killed, and its status
 *  says SIGKILL. */
int test_wait(pid_t pid, unsigned seconds);

/** If a child has ended. It remains to be waited for. */
bool test_has_ended(pid_t pid);

/** Run fn in a child, and assert that it returns 0. */
void test_in_child(int (*fn)(void *arg), void *arg);

/** alarm(2) after so many seconds, or $PERCPU_TEST_PATIENCE times as many. */
void test_alarm(unsigned seconds);

/** In a child: exit with 1, and say what failed, unless ok. */
void test_child_require(bool ok, const char *what);

/** Zeroed memory that children share. It stays until the program ends. */
void *test_share(size_t size);

/** The path of a file that does not exist, in a directory of this program. */
const char *test_path(const char *name);

/** Remove the directory of test_path() and its files. */
int test_remove_paths(void **state);

/** When SIGTERM ends this process, as it does when a test takes too long, kill all of its process
 *  group, and remove the files. A test program that leads a group does it from the start. */
void test_take_group_along(void);

/** A pseudo-random number; the state must not be 0. */
uint64_t test_random(uint64_t *state);

/** Nanoseconds of a clock that does not go back. */
uint64_t test_now(void);
void test_sleep_us(unsigned us);

/** The tier of the process, after the self-test has ended. It ends before main(),
 *  unless the program sets test_of_first_use. */
enum percpu_tier test_tier(void);
extern bool test_of_first_use;

/** Skip the test unless that is tier rseq. A child finds out, so that this process has not
 *  used the library before. */
void test_need_sequences(void);

/** n, or fewer rounds where each costs more: on the lower tiers, and so in emulators;
 *  with PERCPU_TEST_PATIENCE above 1; and under sanitizers. */
unsigned test_rounds(unsigned n);

/** How many CPUs the program may run on; the number of the nth of them. */
unsigned test_cpus(void);
unsigned test_cpu(unsigned nth);

/** Let the thread run on this CPU only; let it run on all CPUs that the program
 *  started with. */
bool test_pin(pid_t tid, unsigned cpu);
void test_unpin(pid_t tid);

/** Send signo to the calling thread at this interval, until the timer is stopped. */
struct test_timer {
	void *id;
};
bool test_timer_start(struct test_timer *t, int signo, unsigned interval_us);
/** Stop it. No handler of its signal begins after this. */
void test_timer_stop(struct test_timer *t);

/** Make the kernel forget the calling thread's rseq area. */
bool test_unregister(void *area);

/** How many descriptors and mappings the process has; with a sanitizer, no mappings. A call
 *  that fails must leave them as they were. */
struct test_holding {
	unsigned fds;
	unsigned maps;
};
struct test_holding test_holding_now(void);
void test_assert_holding(struct test_holding before);

/** Let this test leave descriptors open: its own, or what the library takes for the program's. */
void test_may_leave_descriptors(void);

/** Whether a test was skipped, which may have begun: what it has made stays. */
extern bool test_was_skipped;

/** Whether the test runs under this sanitizer. */
bool test_address_sanitizer(void);
bool test_thread_sanitizer(void);

/**
 * test_needs_forks_beside_malloc() - skip the test where fork(2) may copy a held lock of malloc
 *
 * AddressSanitizer of GCC 12 and Clang 14 does not take the locks of its malloc() around fork(2).
 * If another thread allocates or ends at that moment, the child waits forever in its first malloc().
 */
void test_needs_forks_beside_malloc(void);

/** Whether RLIMIT_AS has an effect: it has none with sanitizers, which need the address
 *  space for themselves, nor in qemu-user. */
bool test_can_limit_address_space(void);

/** Skip the test, and say why. */
#define test_skip(reason)                                                                          \
	do {                                                                                       \
		print_message("skipped: %s\n", (reason));                                          \
		skip();                                                                            \
	} while (0)

#endif

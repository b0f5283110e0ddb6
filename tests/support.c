/* SPDX-License-Identifier: MIT */
/* support.c - see support.h. */
#define _GNU_SOURCE
#include "support.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHILD_SECONDS 60

#ifndef AT_RSEQ_FEATURE_SIZE
#define AT_RSEQ_FEATURE_SIZE 27
#endif

static cpu_set_t test_allowed;
static char test_directory[64];

__attribute__((weak)) bool test_of_first_use = false;

static pid_t test_leader; /* the process that ends its group; 0: none */

/* Kill the process group. Meson waits for this process alone, not for children that are stopped
 * or block the signal. It kills the whole group if removing the files hangs. */
static void test_end_group(int signo)
{
	if (getpid() == test_leader) {
		(void)test_remove_paths(NULL); /* may hang */
		kill(0, SIGKILL);
	}
	signal(signo, SIG_DFL);
	raise(signo);
}

void test_take_group_along(void)
{
	test_leader = getpid();
	signal(SIGTERM, test_end_group);
}

__attribute__((constructor)) static void test_prepare(void)
{
	if (getpgrp() == getpid()) /* true under Meson, and in an interactive shell */
		test_take_group_along();
	sched_getaffinity(0, sizeof(test_allowed), &test_allowed);
	if (!test_of_first_use)
		(void)test_tier();
}

/* Return how many times longer than usual to wait, from the environment: for emulators. */
static unsigned test_patience(void)
{
	const char *times = getenv("PERCPU_TEST_PATIENCE");
	int n = times ? atoi(times) : 1;

	return n > 1 ? (unsigned)n : 1;
}

static void *test_team_thread(void *p)
{
	struct test_team *t = p;
	unsigned i = __atomic_fetch_add(&t->next, 1, __ATOMIC_RELAXED);

	pthread_barrier_wait(&t->start);
	t->fn(i, t->arg);
	return NULL;
}

void test_team_start(struct test_team *t, unsigned n, void (*fn)(unsigned i, void *arg), void *arg)
{
	assert_true(n <= sizeof(t->thread) / sizeof(t->thread[0]));
	t->n = n;
	t->next = 0;
	t->fn = fn;
	t->arg = arg;
	pthread_barrier_init(&t->start, NULL, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&t->thread[i], NULL, test_team_thread, t), 0);
}

void test_team_join(struct test_team *t)
{
	for (unsigned i = 0; i < t->n; i++)
		assert_int_equal(pthread_join(t->thread[i], NULL), 0);
	pthread_barrier_destroy(&t->start);
}

void test_team_run(unsigned n, void (*fn)(unsigned i, void *arg), void *arg)
{
	struct test_team t;

	test_team_start(&t, n, fn, arg);
	test_team_join(&t);
}

void test_alarm(unsigned seconds)
{
	alarm(seconds * test_patience());
}

pid_t test_fork(int (*fn)(void *arg), void *arg)
{
	const bool has_directory = test_directory[0] != '\0';
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		/* cmocka's handlers would continue with the next test. */
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		/* The child dies with the thread, which may be a test program that failed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		test_alarm(CHILD_SECONDS);
		status = fn(arg);
		if (!has_directory) /* then it is the child's own */
			(void)test_remove_paths(NULL);
		_exit(status);
	}
	return pid;
}

int test_listen(int (*fn)(void *arg), void *arg, char *said, size_t size)
{
	int ends[2], old = dup(STDERR_FILENO), status;
	ssize_t n;
	char *at;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	dup2(ends[1], STDERR_FILENO);
	pid = test_fork(fn, arg);
	dup2(old, STDERR_FILENO);
	close(old);
	close(ends[1]);
	status = test_wait(pid, 60);
	n = read(ends[0], said, size - 1);
	close(ends[0]);
	said[n > 0 ? n : 0] = '\0';
	at = strstr(said, "qemu: ");
	if (at != NULL)
		*at = '\0';
	return status & 0xff7f;
}

bool test_has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT), 0);
	return info.si_pid == pid;
}

int test_wait(pid_t pid, unsigned seconds)
{
	uint64_t end = test_now() + seconds * test_patience() * UINT64_C(1000000000);
	int status;

	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (test_now() >= end) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			break;
		}
		test_sleep_us(200);
	}
	return status;
}

void test_in_child(int (*fn)(void *arg), void *arg)
{
	assert_int_equal(test_wait(test_fork(fn, arg), CHILD_SECONDS), 0);
}

void test_child_require(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "child: %s (errno %d)\n", what, errno);
	_exit(1);
}

void *test_share(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

const char *test_path(const char *name)
{
	static char path[160];

	if (!test_directory[0]) {
		strcpy(test_directory, "/dev/shm/percpu-test-XXXXXX");
		if (!mkdtemp(test_directory)) {
			strcpy(test_directory, "/tmp/percpu-test-XXXXXX");
			assert_non_null(mkdtemp(test_directory));
		}
	}
	snprintf(path, sizeof(path), "%s/%s", test_directory, name);
	return path;
}

/* NOLINTBEGIN(bugprone-signal-handler): see test_end_group() */
int test_remove_paths(void **state)
{
	DIR *d = test_directory[0] ? opendir(test_directory) : NULL;
	struct dirent *e;

	(void)state;
	if (!d)
		return 0;
	while ((e = readdir(d)) != NULL)
		if (unlinkat(dirfd(d), e->d_name, 0) != 0)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	closedir(d);
	return rmdir(test_directory);
}
/* NOLINTEND(bugprone-signal-handler) */

uint64_t test_random(uint64_t *state)
{
	/* xorshift64*, Vigna 2016 */
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * UINT64_C(2685821657736338717);
}

uint64_t test_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

void test_sleep_us(unsigned us)
{
	struct timespec t = { us / 1000000, (long)(us % 1000000) * 1000 };

	nanosleep(&t, NULL);
}

enum percpu_tier test_tier(void)
{
	uint64_t end = test_now() + CHILD_SECONDS * test_patience() * UINT64_C(1000000000);

	while (percpu_status()->selftest == PERCPU_SELFTEST_PENDING && test_now() < end)
		(void)percpu_selftest();
	return percpu_status()->tier;
}

static int has_sequences(void *arg)
{
	(void)arg;
	return test_tier() == PERCPU_TIER_RSEQ ? 0 : 1;
}

void test_need_sequences(void)
{
	if (test_wait(test_fork(has_sequences, NULL), 60) != 0)
		test_skip("not a machine of tier rseq");
}

unsigned test_rounds(unsigned n)
{
	bool slow = percpu_status()->tier != PERCPU_TIER_RSEQ || test_thread_sanitizer() ||
		    test_address_sanitizer() || test_patience() > 1;

	return slow ? n / 10 : n;
}

unsigned test_cpus(void)
{
	return (unsigned)CPU_COUNT(&test_allowed);
}

unsigned test_cpu(unsigned nth)
{
	for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &test_allowed) && nth-- == 0)
			return cpu;
	return 0;
}

bool test_pin(pid_t tid, unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	return sched_setaffinity(tid, sizeof(set), &set) == 0;
}

void test_unpin(pid_t tid)
{
	sched_setaffinity(tid, sizeof(test_allowed), &test_allowed);
}

bool test_timer_start(struct test_timer *t, int signo, unsigned interval_us)
{
	struct itimerspec every = { .it_interval.tv_nsec = interval_us * 1000L,
				    .it_value.tv_nsec = interval_us * 1000L };
	struct sigevent ev = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = signo };
	timer_t id;

	ev._sigev_un._tid = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &ev, &id) != 0)
		return false;
	t->id = id;
	return timer_settime(id, 0, &every, NULL) == 0;
}

void test_timer_stop(struct test_timer *t)
{
	timer_delete((timer_t)t->id);
	/* ThreadSanitizer holds a signal back until the thread enters a function that it
	 * intercepts, such as this one. */
	usleep(0);
}

bool test_unregister(void *area)
{
#if defined(__x86_64__)
	const uint32_t signature = 0x53053053;
#elif defined(__aarch64__)
	const uint32_t signature = 0xd428bc00;
#else
	const uint32_t signature = 0;
#endif
	/* The size must be that of the registration, which only libc knows. */
	const unsigned long sizes[] = { 32, 64, 20, getauxval(AT_RSEQ_FEATURE_SIZE) };

	for (int i = 0; i < 4; i++)
		if (syscall(SYS_rseq, area, sizes[i], 1, signature) == 0)
			return true;
	return false;
}

struct test_holding test_holding_now(void)
{
	struct test_holding h = { 0, 0 };
	DIR *d = opendir("/proc/self/fd");
	FILE *f = fopen("/proc/self/maps", "r");
	int c;

	while (d && readdir(d))
		h.fds++;
	while (f && (c = fgetc(f)) != EOF)
		h.maps += c == '\n';
	if (test_address_sanitizer() || test_thread_sanitizer())
		h.maps = 0; /* they map memory of their own */
	if (d)
		closedir(d);
	if (f)
		fclose(f);
	return h;
}

void test_assert_holding(struct test_holding before)
{
	struct test_holding now = test_holding_now();

	assert_int_equal(now.fds, before.fds);
	assert_int_equal(now.maps, before.maps);
}

bool test_address_sanitizer(void)
{
#ifdef __SANITIZE_ADDRESS__
	return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
	return true;
#endif
#endif
	return false;
}

void test_needs_forks_beside_malloc(void)
{
	if (test_address_sanitizer())
		test_skip("AddressSanitizer does not hold the locks of malloc() around fork()");
}

bool test_thread_sanitizer(void)
{
#ifdef __SANITIZE_THREAD__
	return true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return true;
#endif
#endif
	return false;
}

bool test_can_limit_address_space(void)
{
	struct rlimit was, none;
	bool limited;
	void *p;

	if (test_address_sanitizer() || test_thread_sanitizer() || getrlimit(RLIMIT_AS, &was) != 0)
		return false;
	none = was;
	none.rlim_cur = 0;
	if (setrlimit(RLIMIT_AS, &none) != 0)
		return false;
	p = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	limited = p == MAP_FAILED;
	if (!limited)
		munmap(p, 1 << 20);
	setrlimit(RLIMIT_AS, &was);
	return limited;
}

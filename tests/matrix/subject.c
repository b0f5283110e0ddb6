/* SPDX-License-Identifier: MIT */
/*
 * subject.c - the program that the matrix runs in each environment. It needs only the library,
 * so that any libc can build it.
 *
 *	subject VERB...
 *
 * It does each verb in turn, and checks after each that the counters are exact:
 *
 *	count		threads and a forked child, in memory of the process and in a shared file
 *	values		threads and a forked child, in each kind of value of a shared file
 *	vfork, clone	children that share memory and TLS count beside their parent
 *	bare		a child made without libc, with its own memory
 *	local		threads, with the fallback that locks
 *	fence		prints the results of both fences
 *	step		percpu_counter_add() alone, for a debugger
 *	deny=CALL	from now on a filter answers this system call with EPERM
 *	exec		runs itself again, so that libc meets the filter from its start on
 *
 * Prints the tier of the process, the tier of the main thread, the CPUs, the registrar, and the
 * reason. Exits with 0 if every count was exact.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/percpu.h>

#include "values.h"

#define THREADS 4
#define ADDS 10000
#define LOCKED 1000 /* without membarrier each add visits all CPUs */
#define VALUES 500
#define STEPS 20
#define CHILDREN 20
#ifdef LARGE_TLS
#define STACK (2048 * 1024)
static __thread volatile char large[1024 * 1024];
#else
#define STACK (256 * 1024) /* the default may exceed RLIMIT_AS */
#endif

static struct percpu_counter *own;    /* in memory of this process */
static struct percpu_counter *shared; /* in a file that the forked child shares */
static struct percpu_local *word;
static uint64_t own_total, shared_total;

static bool prepare(void)
{
	struct percpu_region *r;
	int fd = (int)syscall(SYS_memfd_create, "matrix", 0);

	(void)percpu_selftest(); /* before verbs that forbid its calls */
	return fd >= 0 &&
	       percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &r) ==
		       0 &&
	       percpu_counter_create_in(r, &shared) == 0 && percpu_counter_create(&own) == 0 &&
	       percpu_local_create(sizeof(int64_t), PERCPU_LOCAL_LOCK, &word) == 0;
}

static void *count_both(void *arg)
{
	for (int i = 0; i < ADDS; i++) {
		percpu_counter_inc(own);
		percpu_counter_add(shared, 3);
	}
	return arg;
}

static void *count_local(void *arg)
{
	int64_t sum;

	for (int i = 0; i < LOCKED; i++)
		if (percpu_local_add_return(word, 1, &sum) != 0)
			return word;
	return arg;
}

static bool start(pthread_t thread[THREADS], void *(*fn)(void *))
{
	pthread_attr_t attr;
	bool ok = true;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	for (int i = 0; i < THREADS; i++)
		ok = ok && pthread_create(&thread[i], &attr, fn, NULL) == 0;
	pthread_attr_destroy(&attr);
	return ok;
}

/* Join the threads. Returns whether all returned NULL. */
static bool join(const pthread_t thread[THREADS])
{
	void *failed;
	bool ok = true;

	for (int i = 0; i < THREADS; i++)
		ok = pthread_join(thread[i], &failed) == 0 && failed == NULL && ok;
	return ok;
}

static bool reap(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

static bool count(void)
{
	pthread_t thread[THREADS];
	pid_t pid;

	if (!start(thread, count_both))
		return false;
	pid = fork();
	if (pid == 0) {
		count_both(NULL);
		_exit(0);
	}
	own_total += THREADS * ADDS;
	shared_total += (THREADS + 1) * ADDS * UINT64_C(3);
	return join(thread) && reap(pid);
}

static bool vforks(void)
{
	pthread_t thread[THREADS];
	bool ok = start(thread, count_both);

	for (int i = 0; ok && i < CHILDREN; i++) {
		pid_t pid = vfork();

		if (pid == 0) {
			percpu_counter_add(own, 5);
			_exit(0);
		}
		own_total += 5;
		ok = reap(pid);
	}
	own_total += THREADS * ADDS;
	shared_total += THREADS * ADDS * UINT64_C(3);
	return ok && join(thread);
}

static struct values value;

static void *count_values(void *arg)
{
	for (int i = 0; i < VALUES; i++)
		if (!values_count(&value, i - VALUES / 2))
			return &value;
	return arg;
}

static bool values(void)
{
	int fd = (int)syscall(SYS_memfd_create, "values", 0);
	struct percpu_region *r, *owned;
	pthread_t thread[THREADS];
	pid_t pid;
	bool ok;

	if (fd < 0 ||
	    percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &r) != 0 ||
	    percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &owned) !=
		    0 ||
	    !values_create_in(owned, &value) || !start(thread, count_values))
		return false;
	pid = fork();
	if (pid == 0)
		_exit(count_values(NULL) != NULL);
	ok = join(thread) && reap(pid);
	return ok && values_are(&value, (THREADS + 1) * VALUES, -VALUES / 2, VALUES / 2 - 1);
}

static int cloned(void *arg)
{
	count_both(arg);
	return 0;
}

/* Count at once in a child that shares memory and TLS, and here. */
static bool clones(void)
{
	static char stack[STACK] __attribute__((aligned(16)));
	pid_t pid = clone(cloned, stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES | SIGCHLD, NULL);

	count_both(NULL);
	own_total += UINT64_C(2) * ADDS;
	shared_total += UINT64_C(2) * 3 * ADDS;
	return reap(pid);
}

/* Make a child without libc; the kernel keeps its registration, as with fork(). */
static bool bare(void)
{
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	if (pid == 0) {
		count_both(NULL);
		_exit(percpu_thread_tier() == percpu_status()->tier ? 0 : 1);
	}
	count_both(NULL);
	own_total += ADDS;
	shared_total += UINT64_C(2) * 3 * ADDS;
	return reap(pid);
}

static bool local(void)
{
	pthread_t thread[THREADS];
	int64_t before = percpu_local_sum(word);

	return start(thread, count_local) && join(thread) &&
	       percpu_local_sum(word) - before == THREADS * LOCKED;
}

static bool fence(void)
{
	int one = percpu_fence();
	int all = percpu_fence_all(UINT64_C(2) * 1000 * 1000 * 1000, NULL);

	printf("fence=%d all=%d ", one, all);
	return true;
}

__attribute__((noinline)) static void step_end(void)
{
	__asm__ __volatile__("");
}

/* A debugger stops here, and steps until step_end(). */
__attribute__((noinline)) static bool step(void)
{
	for (int i = 0; i < STEPS; i++)
		percpu_counter_inc(own);
	step_end();
	own_total += STEPS;
	return true;
}

/* Filter by the call's number alone: this program makes no calls of another ABI. */
static bool deny_number(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool deny(const char *call)
{
	static const struct {
		const char *name;
		unsigned number;
	} calls[] = {
		{ "rseq", SYS_rseq },
		{ "membarrier", SYS_membarrier },
		{ "sched_setaffinity", SYS_sched_setaffinity },
		{ "getcpu", SYS_getcpu },
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(call, calls[i].name) == 0)
			return deny_number(calls[i].number);
	return false;
}

static bool obey(const char *verb)
{
	static const struct {
		const char *name;
		bool (*fn)(void);
	} verbs[] = {
		{ "count", count },   { "vfork", vforks }, { "clone", clones }, { "bare", bare },
		{ "values", values }, { "local", local },  { "fence", fence },	{ "step", step },
	};

	/* As the first verb, before the library is used. */
	if (strncmp(verb, "deny=", 5) == 0)
		return deny(verb + 5);
	if (own == NULL && !prepare())
		return false;
#ifdef PERCPU_NO_WRAP
	/* Without the wrappers, such children must not count. */
	if (strcmp(verb, "vfork") == 0 || strcmp(verb, "clone") == 0)
		return true;
#endif
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (strcmp(verb, verbs[i].name) == 0)
			return verbs[i].fn();
	return false;
}

int main(int argc, char **argv)
{
	static const char *const registrars[] = { "nobody", "libc", "library" };
	const struct percpu_status *st;

#ifdef LARGE_TLS
	large[0] = 1;
#endif
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "exec") == 0)
			return execv("/proc/self/exe", argv + i);
		if (obey(argv[i]) && percpu_counter_fetch(own) == own_total &&
		    percpu_counter_fetch(shared) == shared_total)
			continue;
		printf("%s: failed: own %llu of %llu, shared %llu of %llu\n", argv[i],
		       (unsigned long long)percpu_counter_fetch(own), (unsigned long long)own_total,
		       (unsigned long long)percpu_counter_fetch(shared),
		       (unsigned long long)shared_total);
		return 1;
	}
	st = percpu_status();
	printf("tier=%s thread=%s cpus=%u owner=%s: %s\n", percpu_tier_name(st->tier),
	       percpu_tier_name(percpu_thread_tier()), st->possible_cpus, registrars[st->registrar],
	       st->reason);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * worker.c - a process of the soak test. Its threads come and go, on CPUs that change. Timers
 * interrupt them, and the handlers count. Now and then a thread forks a child.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <percpu/seq.h>

#include "../support.h"
#include "soak.h"

#define CHILDREN 2 /* the most at a time, in one worker */

static __thread struct soak_thread *self;

/* Return whether the handler keeps the thread from its work. On a busy machine a handler takes
 * longer than its interval, because it moves from CPU to CPU. The interrupted operation must end
 * all the same. */
static bool is_starved(struct soak_thread *t)
{
	unsigned op = __atomic_load_n(&t->op, __ATOMIC_RELAXED);

	t->times = op == t->seen ? t->times + 1 : 0;
	t->seen = op;
	return t->times > 100;
}

/* Count, at any time: within a sequence, a fallback, or the notes on an operation. Then move the
 * thread to another CPU. */
static void on_timer(int signo)
{
	struct soak_thread *t = self;
	struct soak_journal *j;
	int saved = errno;

	(void)signo;
	if (t == NULL || is_starved(t))
		return;
	j = &t->slot->journal[1];
	soak_shared_add(j, SOAK_GROWS, 1, 1);
	soak_shared_add(j, SOAK_WANDERS, -3, 1);
	soak_private_signal(t);
	if (test_pin(0, test_cpu((unsigned)(j->count[SOAK_SIGNAL]++ % test_cpus()))))
		j->count[SOAK_MOVE]++;
	errno = saved;
}

static bool stopped(void)
{
	return __atomic_load_n(&soak_board->stop, __ATOMIC_RELAXED);
}

/* Unregister the thread: from now on it uses the fallbacks. */
static void unregister(struct soak_thread *t)
{
	if (!test_unregister(percpu_seq_attach()))
		return;
	t->unregistered = true;
	t->slot->journal[0].count[SOAK_UNREGISTER]++;
}

static void operate(struct soak_thread *t, unsigned ops)
{
	for (; ops > 0 && !stopped(); ops--) {
		if (test_random(&t->random) % 8192 == 0)
			unregister(t);
		if (test_random(&t->random) % 2)
			soak_shared_op(t);
		else
			soak_private_op(t);
		__atomic_store_n(&t->op, ops, __ATOMIC_RELAXED);
	}
	soak_zone_leave(t);
	soak_objcache_leave(t);
	soak_window_leave(t);
	if (t->unregistered)
		soak_require(percpu_seq_attach()->cpu_id < 0, "a thread that has no sequences", 0,
			     1);
}

static bool thread_init(struct soak_thread *t, uint64_t random, uint32_t number)
{
	*t = (struct soak_thread){ .slot = soak_slot_new(), .random = random, .number = number };
	return t->slot != NULL;
}

static void *thread_main(void *arg)
{
	struct soak_thread *t = arg;
	bool interrupted = test_random(&t->random) % 2;
	unsigned interval = 20 + (unsigned)(test_random(&t->random) % 200);
	unsigned ops = 100 + (unsigned)(test_random(&t->random) % 5000);
	struct test_timer timer;

	__atomic_store_n(&t->slot->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELAXED);
	t->unregistered = false;
	self = t;
	if (test_random(&t->random) % 8 == 0)
		unregister(t);
	if (interrupted)
		soak_require(test_timer_start(&timer, SIGUSR1, interval), "start a timer", 1, 0);
	operate(t, ops);
	if (interrupted)
		test_timer_stop(&timer);
	self = NULL;
	__atomic_store_n(&t->slot->tid, 0, __ATOMIC_RELAXED);
	return NULL;
}

static void start_thread(struct soak_thread *t)
{
	soak_require_equal("start a thread", 0,
			   (uint64_t)pthread_create(&t->thread, NULL, thread_main, t));
	t->running = true;
	t->slot->journal[0].count[SOAK_THREAD]++;
}

/* Kill the process at some instruction of the next milliseconds. */
static void doom(struct soak_thread *t)
{
	struct itimerspec when = { .it_value.tv_nsec =
					   1 + (long)(test_random(&t->random) % 3000000) };
	struct sigevent ev = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGKILL };
	timer_t id;

	t->slot->doomed = true;
	soak_require(timer_create(CLOCK_MONOTONIC, &ev, &id) == 0 &&
			     timer_settime(id, 0, &when, NULL) == 0,
		     "set a timer", 1, 0);
}

/* Be a child of one thread, forked while the others were in the middle of an operation. It goes
 * on with the region that it shares and with copies of all else. */
static void be_child(struct soak_thread *t)
{
	uint64_t before[SOAK_TALLIES];

	alarm(SOAK_SECONDS);
	soak_zone_forked();
	soak_objcache_forked();
	soak_window_forked();
	soak_rwlock_forked();
	soak_local_drain(t);
	for (int tally = 0; tally < SOAK_TALLIES; tally++) {
		before[tally] = soak_private_found(tally);
		t->sum[0][tally] = 0;
	}
	if (test_random(&t->random) % 3 == 0)
		doom(t);
	operate(t, 2000);
	soak_local_drain(t);
	soak_private_check(before, t, 1);
	soak_window_destroy();
	_exit(0);
}

/* Fork a child. Return the number of children started, 1 or 0. */
static unsigned fork_child(struct soak_thread *first)
{
	struct soak_thread t;
	pid_t pid;

	/* The address sanitizer holds locks of its own through a fork. */
	if (test_address_sanitizer() ||
	    !thread_init(&t, test_random(&first->random) | 1, SOAK_THREADS + 1))
		return 0;
	pid = fork();
	soak_require(pid >= 0, "fork", 1, 0);
	if (pid == 0) {
		t.slot->pid = getpid();
		be_child(&t);
	}
	__atomic_store_n(&t.slot->pid, pid, __ATOMIC_RELAXED);
	first->slot->journal[0].count[SOAK_FORK]++;
	return 1;
}

bool soak_ended_well(pid_t pid, int status)
{
	struct soak_slot *slot = soak_board->slot;

	if (status == 0)
		return true;
	if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
		return false;
	for (uint32_t i = 0; i < SOAK_SLOTS; i++)
		if (slot[i].pid == pid && slot[i].doomed)
			return slot[i].killed = true;
	return false;
}

/* Return the number of children that ended. */
static unsigned reap(int options)
{
	unsigned n = 0;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, options)) > 0) {
		soak_require(soak_ended_well(pid, status), "wait status of a child", 0,
			     (uint64_t)status);
		n++;
	}
	return n;
}

/* Move a thread. The kernel does that at once, at whatever instruction the thread is. */
static void move(struct soak_thread *first, const struct soak_thread *t)
{
	pid_t tid = __atomic_load_n(&t->slot->tid, __ATOMIC_RELAXED);
	unsigned r = (unsigned)test_random(&first->random);

	if (tid == 0)
		return;
	if (r % 4 == 0)
		test_unpin(tid);
	else
		test_pin(tid, test_cpu(r / 4 % test_cpus()));
	first->slot->journal[0].count[SOAK_MOVE]++;
}

static void manage(struct soak_thread *first, struct soak_thread *t, unsigned n)
{
	unsigned children = 0;

	while (!stopped()) {
		test_sleep_us(50 + (unsigned)(test_random(&first->random) % 500));
		soak_local_drain(first);
		move(first, &t[test_random(&first->random) % n]);
		for (unsigned i = 0; i < n; i++) {
			if (t[i].running && pthread_tryjoin_np(t[i].thread, NULL) == 0)
				t[i].running = false;
			if (!t[i].running)
				start_thread(&t[i]);
		}
		if (test_random(&first->random) % 32 == 0 && children < CHILDREN)
			children += fork_child(first);
		children -= reap(WNOHANG);
	}
	for (unsigned i = 0; i < n; i++)
		if (t[i].running)
			pthread_join(t[i].thread, NULL);
	reap(0);
}

int soak_worker(uint64_t random)
{
	/* The first thread has an element for its sums; it gets no signals. */
	static struct soak_thread t[SOAK_THREADS + 1];
	const uint64_t nothing[SOAK_TALLIES] = { 0 };
	struct sigaction sa = { .sa_handler = on_timer, .sa_flags = SA_RESTART };
	unsigned n;

	alarm(SOAK_SECONDS);
	sigaction(SIGUSR1, &sa, NULL);
	n = 1 + (unsigned)(test_random(&random) % SOAK_THREADS);
	for (unsigned i = 0; i <= n; i++)
		if (!thread_init(&t[i], test_random(&random) | 1, i))
			return 0;
	soak_private_create();
	soak_zone_create(soak_shared_region());
	soak_objcache_create();
	soak_window_create();
	manage(&t[0], &t[1], n);
	soak_local_drain(&t[0]);
	soak_private_check(nothing, t, n + 1);
	soak_private_destroy();
	soak_zone_destroy();
	soak_objcache_destroy();
	soak_window_destroy();
	return 0;
}

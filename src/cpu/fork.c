/* SPDX-License-Identifier: MIT */
/*
 * fork.c - the mutexes of the process; what a fork waits for, and what a child finds.
 *
 * A child has one thread. It must not find a lock of the process held by another thread. So
 * the thread that forks takes all locks, in the order of enum percpu_fork_order. A thread
 * that takes two of them keeps to the same order. Each part of the library that has locks
 * registers when it is loaded.
 *
 * All locks are held for a bounded time, because no holder waits for another process.
 *
 * Handlers of pthread_atfork() that were registered before the library's run while the
 * forking thread holds all locks. They may call the library: the locks let this thread pass.
 * That is safe, because no other thread is in code that a lock protects, and this one was not
 * when it called fork(). A mutex that is created meanwhile is created locked, because the fork
 * will release the locks of all objects. In the child such a handler runs before the
 * library's, so the first lock that lets it pass repairs what other threads left.
 *
 * A fork does not take robust locks (lock.c). The holder of a robust lock in a file goes on in
 * the parent. A robust lock in private memory has no holder in the child. There the next
 * thread that takes it completes what is half done.
 *
 * POSIX.1-2024 does not allow fork() in signal handlers. It allows _Fork(), which does not run
 * these handlers: its child may make the calls that a signal handler may make, and exec.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "cpu.h"

static pthread_t forking; /* the thread that holds all locks for its fork; or 0; atomic */

/* Only that thread uses these. */
static unsigned within; /* nested forks that its handlers make */
static pid_t parent;
static pid_t mended; /* the child that a lock which let it pass has repaired; or 0 */

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the holder; process_lock protects it */
static sigset_t signals; /* of the holder; process_lock protects it */

static void mend_in_child(void);

/* A thread finds its own id in `forking` only if it has stored it itself. */
bool percpu_is_forking(void)
{
	pthread_t thread = __atomic_load_n(&forking, __ATOMIC_RELAXED);

	if (percpu_likely(thread == 0) || !pthread_equal(thread, pthread_self()))
		return false;
	if (getpid() != parent && getpid() != mended)
		mend_in_child();
	return true;
}

void percpu_mutex_init(pthread_mutex_t *m)
{
	pthread_mutex_init(m, NULL);
	if (percpu_is_forking())
		pthread_mutex_lock(m);
}

void percpu_mutex_destroy(pthread_mutex_t *m)
{
	if (percpu_is_forking())
		pthread_mutex_unlock(m);
	pthread_mutex_destroy(m);
}

void percpu_mutex_lock(pthread_mutex_t *m)
{
	if (!percpu_is_forking())
		pthread_mutex_lock(m);
}

bool percpu_mutex_trylock(pthread_mutex_t *m)
{
	return percpu_is_forking() || pthread_mutex_trylock(m) == 0;
}

void percpu_mutex_unlock(pthread_mutex_t *m)
{
	if (!percpu_is_forking())
		pthread_mutex_unlock(m);
}

/* A thread that waits for the process lock may hold a lock that other processes wait for. So
 * signals are blocked: no signal handler delays the holder. */
void percpu_process_lock(void)
{
	sigset_t all, old;
	int state;

	if (percpu_is_forking())
		return;
	state = percpu_defer_cancel();
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&process_lock);
	cancel_state = state;
	signals = old;
}

void percpu_process_unlock(void)
{
	sigset_t old;
	int state;

	if (percpu_is_forking())
		return;
	state = cancel_state;
	old = signals;
	pthread_mutex_unlock(&process_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	percpu_restore_cancel(state);
}

static const struct percpu_fork_part *parts[PERCPU_FORK_PARTS];

void percpu_fork_register(enum percpu_fork_order order, const struct percpu_fork_part *part)
{
	parts[order] = part;
}

static void before_fork(void)
{
	if (percpu_is_forking()) {
		within++;
		return;
	}
	for (int i = 0; i < PERCPU_FORK_PARTS; i++)
		if (parts[i] != NULL && parts[i]->before != NULL)
			parts[i]->before();
	parent = getpid();
	mended = 0;
	__atomic_store_n(&forking, pthread_self(), __ATOMIC_RELAXED);
}

static void after_fork(void)
{
	if (within != 0) {
		within--;
		return;
	}
	__atomic_store_n(&forking, 0, __ATOMIC_RELAXED);
	for (int i = PERCPU_FORK_PARTS - 1; i >= 0; i--)
		if (parts[i] != NULL && parts[i]->after != NULL)
			parts[i]->after();
}

static void mend_in_child(void)
{
	mended = getpid();
	for (int i = PERCPU_FORK_PARTS - 1; i >= 0; i--)
		if (parts[i] != NULL && parts[i]->in_child != NULL)
			parts[i]->in_child();
}

/* The child holds all locks until every part is repaired. */
static void after_fork_in_child(void)
{
	if (getpid() != mended)
		mend_in_child();
	after_fork();
}

__attribute__((constructor)) static void process_join_forks(void)
{
	static const struct percpu_fork_part part = {
		.before = percpu_process_lock,
		.after = percpu_process_unlock,
	};

	percpu_fork_register(PERCPU_FORK_PROCESS, &part);
	pthread_atfork(before_fork, after_fork, after_fork_in_child);
}

/* SPDX-License-Identifier: MIT */
/*
 * fork.c - the process lock; what a fork waits for, and what a child finds.
 *
 * A child has one thread. It must not find a lock of the process held by another thread,
 * so the thread that forks takes all locks, in the order of enum percpu_fork_order. A
 * thread that takes two of them keeps to the same order. Each part of the library that
 * has locks registers when it is loaded.
 *
 * All locks are held for a bounded time, because no holder waits for another process.
 * A fork does not take robust locks (lock.c). The holder of one in a file goes on in the
 * parent. One in private memory has no holder in the child, where the next thread that
 * takes it completes what is half done.
 *
 * POSIX.1-2024 does not allow fork() in signal handlers. It allows _Fork(), which calls
 * none of this: its child may call what a signal handler may, and exec.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "cpu.h"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the holder; process_lock protects it */
static sigset_t signals; /* of the holder; process_lock protects it */

/* A thread that waits for the process lock may hold a lock that other processes wait for.
 * So signals are blocked, and no signal handler delays the holder. */
void percpu_process_lock(void)
{
	int state = percpu_defer_cancel();
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&process_lock);
	cancel_state = state;
	signals = old;
}

void percpu_process_unlock(void)
{
	int state = cancel_state;
	sigset_t old = signals;

	pthread_mutex_unlock(&process_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	percpu_restore_cancel(state);
}

static const struct percpu_fork_part *parts[PERCPU_FORK_PARTS];

void percpu_fork_register(enum percpu_fork_order place, const struct percpu_fork_part *part)
{
	parts[place] = part;
}

static void before_fork(void)
{
	for (int i = 0; i < PERCPU_FORK_PARTS; i++)
		if (parts[i] != NULL && parts[i]->before != NULL)
			parts[i]->before();
}

static void after_fork(void)
{
	for (int i = PERCPU_FORK_PARTS - 1; i >= 0; i--)
		if (parts[i] != NULL && parts[i]->after != NULL)
			parts[i]->after();
}

/* The child holds all locks until every part is repaired. */
static void after_fork_in_child(void)
{
	for (int i = PERCPU_FORK_PARTS - 1; i >= 0; i--)
		if (parts[i] != NULL && parts[i]->in_child != NULL)
			parts[i]->in_child();
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

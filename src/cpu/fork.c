/* SPDX-License-Identifier: MIT */
/*
 * fork.c - the process lock; what a fork waits for, and what a child finds.
 *
 * A child has one thread. It must find no lock of the process held by another,
 * so the thread that forks takes them all, in the order of enum percpu_fork_order,
 * which is that of everybody who takes two of them. Each part of the library that
 * has one says so when it is loaded.
 *
 * All are held for a bounded time: nobody waits for another process with one of
 * them. Robust locks (lock.c) are not among them. Those in files are their
 * holders', who live on in the parent; those in private memory are nobody's in the
 * child, where the next to take one completes what it finds half done.
 *
 * As POSIX.1-2024 says, fork() is not for signal handlers; _Fork() is, and calls
 * none of this: its child may call what a signal handler may, and exec.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "cpu.h"

static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;
static int cancel_state; /* of the holder; under the lock */
static sigset_t signals; /* likewise */

/* Whoever waits for it may have a lock that other processes wait for, so no signal
 * handler is to keep the holder from going on. */
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

/* All locks are held until everything is mended. */
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

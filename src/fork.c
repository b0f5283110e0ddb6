/* SPDX-License-Identifier: MIT */
/*
 * fork.c - the process lock; what a fork waits for, and what a child finds.
 *
 * A child has one thread. It must find no lock of the process held by another,
 * so the thread that forks takes them all, in this order, which is that of
 * everybody who takes two of them:
 *
 *	1. the names of freebsd_sysctl.c
 *	2. the set-up of variables
 *	3. the list of write buffers, then the internal lock of each
 *	4. the debug checks of zones
 *	5. the process lock
 *	6. the shelves of each depot
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

#include "internal.h"

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

static void before_fork(void)
{
	percpu_selftest_before_fork();
	percpu_names_lock();
	percpu_variables_lock();
	percpu_wbufs_before_fork();
	percpu_zone_checks_lock();
	percpu_process_lock();
	percpu_depots_before_fork();
}

static void unlock_all(void)
{
	percpu_depots_after_fork();
	percpu_process_unlock();
	percpu_zone_checks_unlock();
	percpu_wbufs_after_fork();
	percpu_variables_unlock();
	percpu_names_unlock();
}

static void after_fork_in_child(void)
{
	percpu_selftest_in_child();
	percpu_regions_after_fork();
	percpu_wbufs_forget();
	percpu_names_in_child();
	unlock_all();
}

__attribute__((constructor)) static void survive_fork(void)
{
	pthread_atfork(before_fork, unlock_all, after_fork_in_child);
}

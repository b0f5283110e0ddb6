/* SPDX-License-Identifier: MIT */
/*
 * lock.c - locks whose holder may be gone.
 *
 * Between threads: a futex that holds its owner's thread id. A child of fork
 * that finds another thread's id in it takes it over, for that thread did not
 * come along. Between processes: a record lock, which the kernel releases when
 * its holder dies, in whatever PID namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "internal.h"

/* How long to wait for a lock before looking whether its holder lives. */
static const struct timespec patience = { .tv_nsec = 1000000 };

/* No thread of this process has that id. */
static bool is_gone(uint32_t tid)
{
	return syscall(SYS_tgkill, getpid(), tid, 0) != 0 && errno == ESRCH;
}

void percpu_owner_lock(uint32_t *word)
{
	uint32_t me = (uint32_t)syscall(SYS_gettid), holder = 0;

	while (!__atomic_compare_exchange_n(word, &holder, me, false, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, holder, &patience, NULL, 0) == 0 ||
		    errno != ETIMEDOUT || !is_gone(holder))
			holder = 0;
	}
}

void percpu_owner_unlock(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/*
 * A child of fork would share the open file that holds a lock, and so keep the
 * lock after its holder died. So a fork waits until no lock is held. A signal
 * handler that runs within the fork does not wait for it.
 */
static pthread_mutex_t fork_lock = PTHREAD_MUTEX_INITIALIZER; /* held across fork */
static pthread_cond_t none_held = PTHREAD_COND_INITIALIZER;
static unsigned held; /* file locks */
static __thread bool forking;

void percpu_file_locks_stop(void)
{
	forking = true; /* first: a handler must not wait for the mutex */
	pthread_mutex_lock(&fork_lock);
	while (held != 0)
		pthread_cond_wait(&none_held, &fork_lock);
}

void percpu_file_locks_go_on(void)
{
	pthread_mutex_unlock(&fork_lock);
	forking = false;
}

static void count_held(int n)
{
	sigset_t all, old;

	if (forking)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pthread_mutex_lock(&fork_lock);
	held += (unsigned)n;
	if (held == 0)
		pthread_cond_signal(&none_held);
	pthread_mutex_unlock(&fork_lock);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/*
 * The lock is held by an open file of its own: a lock of the process would be
 * lost as soon as any thread, of the library or not, closes any descriptor of
 * the file. Only where the file cannot be opened once more (no /proc, no
 * descriptor left) the process holds it.
 */
int percpu_file_lock(int fd, off_t byte, int *ret_fd)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	char name[32];
	int own, e = 0;

	*ret_fd = -1;
	if (fd < 0)
		return 0;
	count_held(1);
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	own = open(name, O_RDWR | O_CLOEXEC);
	while (e == 0 && fcntl(own < 0 ? fd : own, own < 0 ? F_SETLKW : F_OFD_SETLKW, &fl) != 0)
		if (errno != EINTR)
			e = percpu_errno();
	if (e == 0) {
		*ret_fd = own;
		return 0;
	}
	if (own >= 0)
		close(own);
	count_held(-1);
	return e;
}

void percpu_file_unlock(int fd, off_t byte, int own)
{
	struct flock fl = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	if (fd < 0)
		return;
	if (own >= 0)
		close(own);
	else
		(void)fcntl(fd, F_SETLK, &fl);
	count_held(-1);
}

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
 * A record lock is held by an open file of its own: a lock of the process would
 * be lost as soon as any thread, of the library or not, closes any descriptor
 * of the file. Only where the file cannot be opened once more (no /proc, no
 * descriptor left) the process holds it.
 *
 * A child of fork shares the open files, and so would keep a lock after its
 * holder died. So they are noted, and the child closes them. Nobody waits for a
 * fork: a signal handler that needs a lock may have interrupted what the fork
 * waits for.
 */
#define NOTES 256 /* more locks at a time are not noted */

static int notes[NOTES]; /* a descriptor + 1, or 0 */
static unsigned forks;

static void note_file(int fd)
{
	int none;

	for (unsigned i = 0; i < NOTES; i++) {
		none = 0;
		if (__atomic_compare_exchange_n(&notes[i], &none, fd + 1, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED))
			return;
	}
}

static void forget_file(int fd)
{
	int noted;

	for (unsigned i = 0; i < NOTES; i++) {
		noted = fd + 1;
		if (__atomic_compare_exchange_n(&notes[i], &noted, 0, false, __ATOMIC_SEQ_CST,
						__ATOMIC_RELAXED))
			return;
	}
}

void percpu_file_locks_before_fork(void)
{
	__atomic_fetch_add(&forks, 1, __ATOMIC_SEQ_CST);
}

void percpu_file_locks_in_child(void)
{
	for (unsigned i = 0; i < NOTES; i++) {
		if (notes[i] != 0)
			close(notes[i] - 1);
		notes[i] = 0;
	}
}

/* Open the file once more. A fork before it was noted may have left it to a
 * child, which does not know: then another. */
static int open_noted(int fd)
{
	char name[32];
	unsigned before;
	int own;

	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	for (;;) {
		before = __atomic_load_n(&forks, __ATOMIC_SEQ_CST);
		own = open(name, O_RDWR | O_CLOEXEC);
		if (own < 0)
			return own;
		note_file(own);
		if (__atomic_load_n(&forks, __ATOMIC_SEQ_CST) == before)
			return own;
		forget_file(own);
		close(own);
	}
}

int percpu_file_lock(int fd, off_t byte, int *ret_fd)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	int own, e;

	*ret_fd = -1;
	if (fd < 0)
		return 0;
	own = open_noted(fd);
	do {
		e = 0;
		if (fcntl(own < 0 ? fd : own, own < 0 ? F_SETLKW : F_OFD_SETLKW, &fl) != 0)
			e = percpu_errno();
	} while (e == -EINTR);
	if (e == 0) {
		*ret_fd = own;
		return 0;
	}
	if (own >= 0) {
		forget_file(own);
		close(own);
	}
	return e;
}

void percpu_file_unlock(int fd, off_t byte, int own)
{
	struct flock fl = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };

	if (own >= 0) {
		/* Not by closing alone: a child may not have done so yet. */
		(void)fcntl(own, F_OFD_SETLK, &fl);
		forget_file(own);
		close(own);
	} else if (fd >= 0) {
		(void)fcntl(fd, F_SETLK, &fl);
	}
}

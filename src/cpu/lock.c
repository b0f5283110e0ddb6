/* SPDX-License-Identifier: MIT */
/*
 * lock.c - robust locks: the holder may be killed.
 *
 * A robust lock is one word, in shared or private memory. A thread takes it by
 * compare-and-swap with its id, and waits for it with a futex. While a thread holds it, or
 * is about to, list_op_pending of the thread's robust list head (get_robust_list(2))
 * names the word. When the thread dies, or calls exec, with its id in the word, the kernel
 * marks the word FUTEX_OWNER_DIED and wakes a waiter, which takes the lock over. The
 * shared memory holds nothing but the word: no pointer that another process could
 * change. There is no descriptor that could be closed or refused.
 *
 * - There is one list_op_pending, so a thread holds one such lock at a time, and no robust
 *   mutex of libc. Signals are blocked while it holds the lock, because a handler could take
 *   either.
 * - No thread waits with signals blocked, or for ever.
 * - get_robust_list(2) is called each time, because a child of clone(CLONE_VM) has no
 *   head, or one of its own, even if it shares its parent's thread-local memory.
 * - A process that may only read the memory can still sleep on the word, or move other
 *   sleepers to another word, and so take a wake-up away. So a waiter also wakes up by itself.
 * - If the kernel refuses get_robust_list(2), the lock works, but is not taken over: if its
 *   holder was killed, other threads give up after a time.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cpu.h"

#define SLICE_NS (PERCPU_SECOND / 200) /* how long a waiter sleeps at most */

static bool get_head(struct robust_list_head **ret)
{
	size_t size;

	return syscall(SYS_get_robust_list, 0, ret, &size) == 0;
}

bool percpu_robust_supported(void)
{
	struct robust_list_head *head;

	return get_head(&head);
}

static void set_pending(struct robust_list_head *head, struct robust_list *entry)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&head->list_op_pending, entry, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Store the word's address in list_op_pending, so that the kernel looks at the word if the
 * thread dies before disarm(). A task that has no list gets one until then. */
static void arm(struct percpu_robust *h, uint32_t *word)
{
	h->registered = false;
	if (!get_head(&h->head)) {
		h->head = NULL;
		return;
	}
	if (h->head == NULL) {
		h->own.list.next = &h->own.list;
		h->own.futex_offset = 0;
		h->own.list_op_pending = NULL;
		h->registered = syscall(SYS_set_robust_list, &h->own, sizeof(h->own)) == 0;
		h->head = h->registered ? &h->own : NULL;
	}
	if (h->head != NULL) {
		h->pending = h->head->list_op_pending;
		set_pending(h->head, (struct robust_list *)((char *)word - h->head->futex_offset));
	}
}

static void disarm(struct percpu_robust *h)
{
	struct robust_list_head *head;

	if (h->head == NULL)
		return;
	set_pending(h->head, h->pending);
	/* musl registers a list when a thread locks its first robust mutex. */
	if (h->registered && get_head(&head) && head == &h->own)
		syscall(SYS_set_robust_list, NULL, sizeof(h->own));
}

static bool is_free(uint32_t value)
{
	return (value & FUTEX_TID_MASK) == 0;
}

/* Try to take the lock. Returns the old value of the word. If the lock was free, the caller has
 * it now. */
static uint32_t try_lock(struct percpu_robust *h, uint32_t *word)
{
	uint32_t value = __atomic_load_n(word, __ATOMIC_RELAXED);
	sigset_t all;

	/* The kernel must not look at a word that is taken: its holder may be in another
	 * PID namespace and have the same id as this thread. */
	if (!is_free(value))
		return value;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &h->signals);
	arm(h, word);
	PERCPU_STEP("lock: armed");
	while (is_free(value) &&
	       !__atomic_compare_exchange_n(word, &value, h->tid | (value & FUTEX_WAITERS), false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	if (is_free(value)) {
		h->word = word;
		return value;
	}
	disarm(h);
	pthread_sigmask(SIG_SETMASK, &h->signals, NULL);
	return value;
}

/* Sleep until the word may have another value. */
static void wait_for(uint32_t *word, uint32_t value, uint64_t ns)
{
	if (!(value & FUTEX_WAITERS) &&
	    !__atomic_compare_exchange_n(word, &value, value | FUTEX_WAITERS, false,
					 __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		return;
	percpu_futex_sleep(word, FUTEX_WAIT, value | FUTEX_WAITERS, ns < SLICE_NS ? ns : SLICE_NS);
}

/* A thread that holds the lock for timeout_ns is stopped. If the holder changes, the machine is
 * only busy, so wait on, for up to ten times as long. A waiter that seldom runs itself may see
 * the same holder twice although the holder released the lock in between. So before it gives
 * up, it looks at least a tenth as often as it would on an idle machine. */
int percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns)
{
	uint64_t deadline = 0, end = 0, looks = 0, now;
	uint32_t value, holder = 0;
	int saved = errno, e = 0;
	long tid = syscall(SYS_gettid);

	if (tid < 0) {
		e = percpu_errno();
		errno = saved;
		return e;
	}
	h->tid = (uint32_t)tid;
	while (value = try_lock(h, word), !is_free(value)) {
		now = percpu_now_ns();
		if (end == 0)
			end = now + 10 * timeout_ns;
		if ((value & FUTEX_TID_MASK) != holder) {
			deadline = now + timeout_ns;
			looks = 0;
		}
		holder = value & FUTEX_TID_MASK;
		if (now >= end || (now >= deadline && looks >= timeout_ns / SLICE_NS / 10))
			break;
		looks++;
		PERCPU_STEP("lock: to be waited for");
		wait_for(word, value, now < deadline ? deadline - now : SLICE_NS);
	}
	errno = saved;
	return is_free(value) ? 0 : -ETIMEDOUT;
}

/* The word is freed before list_op_pending is cleared. If the thread dies between the
 * two, the kernel finds the word free and wakes a waiter. */
void percpu_robust_unlock(struct percpu_robust *h)
{
	uint32_t value = __atomic_load_n(h->word, __ATOMIC_RELAXED);
	int saved = errno;

	while ((value & FUTEX_TID_MASK) == h->tid &&
	       !__atomic_compare_exchange_n(h->word, &value, 0, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
	if (value & FUTEX_WAITERS)
		percpu_futex_rouse(h->word, FUTEX_WAKE, INT_MAX);
	disarm(h);
	pthread_sigmask(SIG_SETMASK, &h->signals, NULL);
	errno = saved;
}

void percpu_robust_orphan(uint32_t *word)
{
	if (*word != 0)
		*word = FUTEX_OWNER_DIED;
}

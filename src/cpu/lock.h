/* SPDX-License-Identifier: MIT */
/*
 * lock.h - locks that the next thread takes over from a holder that was killed. Part of cpu.h,
 * which includes it.
 */
#ifndef PERCPU_LOCK_H
#define PERCPU_LOCK_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "kernel.h"

/** A robust lock that the thread holds. Signals are blocked meanwhile. */
struct percpu_robust {
	uint32_t *word;
	uint32_t tid;
	bool registered;	       /* own was registered as the thread's list */
	struct robust_list_head *head; /* the thread's list; NULL: the kernel refuses */
	struct robust_list *pending;   /* the list's list_op_pending before */
	struct robust_list_head own;   /* for a thread that has no list */
	sigset_t signals;	       /* the signals that were blocked before */
};

/** Take the lock, a word that is 0 while it is free. Returns 0; -ETIMEDOUT if the same thread
 *  has held it for timeout_ns, or after ten times as long; or the -errno of gettid(2). The
 *  caller must complete what a killed holder may have left half done. */
int percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);

/** Release the lock. */
void percpu_robust_unlock(struct percpu_robust *h);

/** Return whether a lock is taken over if its holder was killed. */
bool percpu_robust_supported(void);

/** Mark the lock as one whose holder died, if it has a holder. For a child of fork: the holder
 *  is a thread of the parent, and the child has a copy of the word. */
void percpu_robust_orphan(uint32_t *word);

/** How long to wait for a lock that is held for a few instructions or system calls. If it is
 *  not free after that, its holder is stopped. */
#define PERCPU_LOCK_NS PERCPU_SECOND

#endif

/* SPDX-License-Identifier: MIT */
/*
 * wbuf_queue.c - applying the queues of write buffers, one per CPU.
 *
 * Sequences append at the head. The slots between the position up to which the queue was applied
 * and the head belong to the lock holder.
 */
#define _GNU_SOURCE
#include <string.h>

#include "counts.h"

/* The number of words between the add that is applied and the one whose cell is prefetched. */
#define AHEAD (2 * 64)

/* Add n to a cell of 4 bytes, or to a double. Not inlined: the loop over other cells stays short. */
static __attribute__((noinline)) void apply_other(uintptr_t at, uint64_t n)
{
	uint32_t *const half = (uint32_t *)(at & ~(uintptr_t)3);
	double *const real = (double *)(at & ~(uintptr_t)7);
	double sum, add;

	if ((at & PERCPU_WBUF_U32) != 0) {
		__atomic_store_n(half, __atomic_load_n(half, __ATOMIC_RELAXED) + (uint32_t)n,
				 __ATOMIC_RELAXED);
	} else {
		memcpy(&add, &n, sizeof(add));
		__atomic_load(real, &sum, __ATOMIC_RELAXED);
		sum += add;
		__atomic_store(real, &sum, __ATOMIC_RELAXED);
	}
}

/*
 * Add n to a cell, whose kind is in the bits below its address. The caller holds the lock, so no
 * read-modify-write is needed. The load and the store are atomic for threads that read the cell
 * without the lock.
 */
static inline void apply_one(uintptr_t at, uint64_t n)
{
	uint64_t *const word = (uint64_t *)(at & ~(uintptr_t)PERCPU_WBUF_MORE);

	if (percpu_unlikely((at & (PERCPU_WBUF_U32 | PERCPU_WBUF_DOUBLE)) != 0))
		apply_other(at, n);
	else
		__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n,
				 __ATOMIC_RELAXED);
}

void percpu_wbuf_apply(const struct percpu_wbuf_entry *adds, size_t n)
{
	for (size_t i = 0; i < n; i++)
		apply_one(adds[i].cell, adds[i].n);
}

/*
 * Behind the slots are two words. The first is the position up to which the queue was applied. The
 * second is how often threads hinted there since a flush by hints. The tail, which
 * sequences check, is up to a reserve less. So a sequence finds the buffer full while there is
 * still room. If the lock is held then, percpu_wbuf_queue_open() gives that room to sequences. The
 * tail never goes back, because a sequence may have filled the room.
 */
uint64_t *percpu_wbuf_queue_applied(struct percpu_fifo *q, uint64_t mask)
{
	return &q->slot[mask + 1];
}

uint64_t *percpu_wbuf_queue_hints(struct percpu_fifo *q, uint64_t mask)
{
	return &q->slot[mask + 2];
}

uint64_t percpu_wbuf_queue_pending(struct percpu_fifo *q, uint64_t mask)
{
	const uint64_t applied =
		__atomic_load_n(percpu_wbuf_queue_applied(q, mask), __ATOMIC_ACQUIRE);

	PERCPU_STEP("wbuf: to be subtracted");
	return __atomic_load_n(&q->head, __ATOMIC_RELAXED) - applied;
}

bool percpu_wbuf_queue_is_filling(const struct percpu_fifo *q, uint64_t mask)
{
	return __atomic_load_n(&q->head, __ATOMIC_RELAXED) -
		       __atomic_load_n(&q->tail, __ATOMIC_RELAXED) >
	       mask - mask / 2;
}

/* Move the tail forward to a position, unless it is there or beyond. */
static void move_tail(struct percpu_fifo *q, uint64_t to)
{
	uint64_t tail = __atomic_load_n(&q->tail, __ATOMIC_RELAXED);

	PERCPU_STEP("wbuf: tail loaded");
	while ((int64_t)(to - tail) > 0 &&
	       !__atomic_compare_exchange_n(&q->tail, &tail, to, false, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

/* Fetch the cache line for a store. The load of apply_one() would fetch it for reading only, and
 * then the store would wait for other CPUs again. */
static inline void prefetch_to_store(const uint64_t *cell)
{
#ifdef __x86_64__
	__asm__ __volatile__("prefetchw %0" : : "m"(*cell)); /* GCC's builtin fetches to read */
#else
	__builtin_prefetch(cell, 1);
#endif
}

/* Apply adjacent pairs, each of a cell's address and a number. */
static void apply_run(const uint64_t *slot, size_t words)
{
	const uint64_t *end = slot + words, *near = words > AHEAD ? end - AHEAD : slot;

	for (; slot != near; slot += 2) {
		prefetch_to_store((const uint64_t *)(uintptr_t)slot[AHEAD]);
		apply_one((uintptr_t)slot[0], slot[1]);
	}
	for (; slot != end; slot += 2)
		apply_one((uintptr_t)slot[0], slot[1]);
}

/* Return how many of the words that follow a position are whole transactions: the first `limit`, or
 * more if these end within a transaction. */
static uint64_t whole_transactions(const struct percpu_fifo *q, uint64_t mask, uint64_t from,
				   uint64_t words, uint64_t limit)
{
	while (limit < words && (q->slot[(from + limit - 2) & mask] & PERCPU_WBUF_MORE) != 0)
		limit += 2;
	return words < limit ? words : limit;
}

bool percpu_wbuf_queue_apply(struct percpu_fifo *q, uint64_t mask, uint64_t reserve, uint64_t limit)
{
	uint64_t *applied = percpu_wbuf_queue_applied(q, mask);
	const uint64_t head = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE), from = *applied;
	const uint64_t words = whole_transactions(q, mask, from, head - from, limit);
	const uint64_t at = from & mask, to_end = mask + 1 - at;

	if (words == 0)
		return true;
	if (words > to_end) {
		apply_run(&q->slot[at], to_end);
		apply_run(q->slot, words - to_end);
	} else {
		apply_run(&q->slot[at], words);
	}
	/* From now on percpu_wbuf_queue_open() may give these slots to sequences. */
	__atomic_store_n(applied, from + words, __ATOMIC_RELEASE);
	PERCPU_STEP("wbuf: applied");
	move_tail(q, from + words - reserve);
	return from + words == head;
}

void percpu_wbuf_queue_open(struct percpu_fifo *q, uint64_t mask)
{
	move_tail(q, __atomic_load_n(percpu_wbuf_queue_applied(q, mask), __ATOMIC_ACQUIRE));
}

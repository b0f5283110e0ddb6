/* SPDX-License-Identifier: MIT */
/*
 * journal.c - words of the bias lane that change together.
 *
 * Sequences do not store to the bias lane. A thread that stores several words there holds a
 * robust lock, and may be killed while it does. So it first writes the new values to the journal.
 * The store that makes "turn" odd is the commit. If the thread is killed after that, the next
 * lock holder stores all values again. That does no harm if they were stored before. It would do
 * harm if the cells belonged to another object by then, so percpu_region_free() completes such
 * an update first.
 */
#include <errno.h>

#include "memory.h"

#define READS 1000000 /* the most tries of a read-only process while the words change */

static uint64_t *bias_words(const struct percpu_chunk *k, size_t offset)
{
	return (uint64_t *)percpu_chunk_bias(k, offset);
}

/* Store the values of the journal, and make turn even. Offset and words are loaded once, and
 * checked, because another process may damage them. */
static void apply(struct percpu_chunk *k)
{
	struct percpu_journal *j = &k->header->journal;
	const uint64_t offset = __atomic_load_n(&j->offset, __ATOMIC_RELAXED);
	const uint64_t words = __atomic_load_n(&j->words, __ATOMIC_RELAXED);

	/* Release: a reader that loads one of the values also finds turn odd. */
	if (offset % sizeof(uint64_t) == 0 && words <= PERCPU_JOURNAL_WORDS &&
	    offset <= k->lane_size && words * sizeof(uint64_t) <= k->lane_size - offset)
		for (uint64_t i = 0; i < words; i++) {
			__atomic_store_n(bias_words(k, offset) + i, j->value[i], __ATOMIC_RELEASE);
			PERCPU_STEP("journal: stored");
		}
	__atomic_store_n(&j->turn, (j->turn | 1) + 1, __ATOMIC_RELEASE);
}

/* The chunk may be decommitted while a thread that recovers journals looks at it. Its header has
 * zeros then, and its struct has no address of it. */
static int lock_journal(struct percpu_chunk *k, struct percpu_robust *h, uint64_t timeout_ns)
{
	struct percpu_header *header = percpu_chunk_header(k);
	int e = percpu_robust_lock(h, &header->journal_lock, timeout_ns);

	if (e == 0 && (header->journal.turn & 1))
		apply(k); /* the last lock holder was killed */
	return e;
}

int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h)
{
	return lock_journal(k, h, PERCPU_LOCK_NS);
}

int percpu_journal_try(struct percpu_chunk *k, struct percpu_robust *h)
{
	if (__atomic_load_n(&k->header->journal_lock, __ATOMIC_RELAXED) & FUTEX_TID_MASK)
		return -ETIMEDOUT; /* without a system call */
	return lock_journal(k, h, 0);
}

int percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns)
{
	struct percpu_robust h;
	int e;

	if (!(__atomic_load_n(&percpu_chunk_header(k)->journal.turn, __ATOMIC_ACQUIRE) & 1))
		return 0;
	PERCPU_STEP("journal: to be recovered");
	e = lock_journal(k, &h, timeout_ns);
	if (e == 0)
		percpu_robust_unlock(&h);
	return e;
}

void percpu_journal_set(struct percpu_chunk *k, size_t offset, const uint64_t *value, size_t words)
{
	struct percpu_journal *j = &k->header->journal;

	/* Release: a reader that loads one of these also finds turn even again. */
	__atomic_store_n(&j->offset, offset, __ATOMIC_RELEASE);
	__atomic_store_n(&j->words, words, __ATOMIC_RELEASE);
	for (size_t i = 0; i < words; i++) {
		__atomic_store_n(&j->value[i], value[i], __ATOMIC_RELEASE);
		PERCPU_STEP("journal: written");
	}
	__atomic_store_n(&j->turn, j->turn + 1, __ATOMIC_RELEASE);
	apply(k);
}

void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words)
{
	const uint64_t *bias = bias_words(k, offset);
	uint64_t value[PERCPU_JOURNAL_WORDS];

	for (size_t i = 0; i < words; i++)
		value[i] = bias[i] + delta[i];
	percpu_journal_set(k, offset, value, words);
}

static void copy_words(uint64_t *out, const uint64_t *bias, size_t words)
{
	for (size_t i = 0; i < words; i++)
		out[i] = __atomic_load_n(&bias[i], __ATOMIC_ACQUIRE);
}

/* Replace the words of out for which the journal has values by these values. Another process may
 * have damaged the journal, but this stores only to out. */
static void overlay(const struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words)
{
	const struct percpu_journal *j = &k->header->journal;
	uint64_t first = __atomic_load_n(&j->offset, __ATOMIC_ACQUIRE);
	uint64_t n = __atomic_load_n(&j->words, __ATOMIC_ACQUIRE), i;

	PERCPU_STEP("journal: place loaded");
	for (size_t w = 0; w < words; w++) {
		i = (offset + w * sizeof(uint64_t) - first) / sizeof(uint64_t);
		if (first % sizeof(uint64_t) == 0 && i < n && i < PERCPU_JOURNAL_WORDS)
			out[w] = __atomic_load_n(&j->value[i], __ATOMIC_ACQUIRE);
	}
}

/*
 * If turn is odd, an update was committed, and its thread may have been killed while it stored the
 * values. So take the values from the journal. If turn changes meanwhile, the update is complete:
 * load the words again. Of an update that is committed after the call begins, the sum may have
 * some words and lack others.
 */
void percpu_journal_sum(const struct percpu_chunk *k, size_t offset, size_t words, uint64_t *out)
{
	const uint64_t *turn = &k->header->journal.turn;
	const uint64_t t = __atomic_load_n(turn, __ATOMIC_ACQUIRE);

	percpu_sum_biases(k, offset, words, out);
	if (percpu_likely(!(t & 1)))
		return;
	copy_words(out, bias_words(k, offset), words);
	overlay(k, offset, out, words);
	for (size_t i = 0; i < words; i++)
		out[i] = -out[i];
	PERCPU_STEP("journal: summed");
	if (__atomic_load_n(turn, __ATOMIC_ACQUIRE) != t)
		percpu_sum_biases(k, offset, words, out);
}

/* Read without the lock, which a process that opened the region to read cannot take. */
static int read_only(const struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words)
{
	const uint64_t *turn = &k->header->journal.turn;
	uint64_t t;

	for (int i = 0; i < READS; i++) {
		t = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
		copy_words(out, bias_words(k, offset), words);
		if (t & 1)
			overlay(k, offset, out, words);
		PERCPU_STEP("journal: read");
		if (__atomic_load_n(turn, __ATOMIC_RELAXED) == t)
			return 0;
	}
	return -ETIMEDOUT;
}

int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words)
{
	const uint64_t *turn = &k->header->journal.turn, *bias = bias_words(k, offset);
	struct percpu_robust h;
	uint64_t t;
	int e;

	if (!k->region->writable)
		return read_only(k, offset, out, words);
	for (int i = 0; i < 100; i++) {
		t = __atomic_load_n(turn, __ATOMIC_ACQUIRE);
		if (t & 1)
			break;
		copy_words(out, bias, words);
		PERCPU_STEP("bias words copied");
		if (__atomic_load_n(turn, __ATOMIC_RELAXED) == t)
			return 0;
	}
	e = percpu_journal_lock(k, &h);
	if (e != 0)
		return e;
	copy_words(out, bias, words);
	percpu_robust_unlock(&h);
	return 0;
}

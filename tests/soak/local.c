/* SPDX-License-Identifier: MIT */
/* local.c - the soak test's operations on local words, arrays and queues, with each fallback. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>

#include <percpu/local.h>

#include "../support.h"
#include "soak.h"

#define DEPTH 64
#define RECORD 3   /* words: no divisor of DEPTH */
#define ORDERED 64 /* CPUs on which the order of records is checked */

static struct percpu_local *split, *lock, *refs, *mark, *stack, *queue;
static uint32_t received[ORDERED][SOAK_THREADS + 2]; /* the last record of each thread */

static void create_local(size_t size, enum percpu_local_fallback fallback,
			 struct percpu_local **ret)
{
	soak_require_equal("create a local", 0, (uint64_t)percpu_local_create(size, fallback, ret));
}

void soak_local_create(void)
{
	create_local(8, PERCPU_LOCAL_SPLIT, &split);
	create_local(8, PERCPU_LOCAL_LOCK, &lock);
	create_local(8, PERCPU_LOCAL_REFS, &refs);
	create_local(8, PERCPU_LOCAL_LOCK, &mark);
	create_local(8 + 8 * DEPTH, PERCPU_LOCAL_LOCK, &stack);
	create_local(16 + 8 * DEPTH, PERCPU_LOCAL_LOCK, &queue);
}

void soak_local_destroy(void)
{
	percpu_local_destroy(split);
	percpu_local_destroy(lock);
	percpu_local_destroy(refs);
	percpu_local_destroy(mark);
	percpu_local_destroy(stack);
	percpu_local_destroy(queue);
}

static uint64_t found_in_stack(void)
{
	const struct percpu_array *a;
	uint64_t sum = 0;

	for (unsigned cpu = 0; (a = percpu_local_cell(stack, cpu)) != NULL; cpu++)
		for (uint64_t i = 0; i < a->count; i++)
			sum += (uintptr_t)a->slot[i];
	return sum;
}

static int64_t word_here(const struct percpu_local *l)
{
	const int64_t *word = percpu_local_cell(l, (unsigned)sched_getcpu());

	return word ? __atomic_load_n(word, __ATOMIC_RELAXED) : 0;
}

/* Do one operation on a word, and the same one on *sum. */
static void change_word(struct soak_thread *t, const struct percpu_local *l, uint64_t *sum)
{
	uint64_t r = test_random(&t->random);
	int64_t n = (int64_t)(r >> 40) - (1 << 23), v;

	switch (r % 5) {
	case 0:
		if (soak_did("add", percpu_local_add(l, n), 0))
			*sum += (uint64_t)n;
		break;
	case 1:
		if (soak_did("add_return", percpu_local_add_return(l, n, &v), 0))
			*sum += (uint64_t)n;
		break;
	case 2:
		if (soak_did("add_limit", percpu_local_add_limit(l, n, 1 << 24, &v), -ERANGE)) {
			*sum += (uint64_t)n;
			soak_require(v <= 1 << 24, "add_limit", 1 << 24, (uint64_t)v);
		}
		break;
	case 3:
		v = word_here(l);
		r = (uint64_t)v;
		if (soak_did("cmpxchg", percpu_local_cmpxchg(l, v, n, &v), -EAGAIN)) {
			soak_require_equal("cmpxchg found what it expected", r, (uint64_t)v);
			*sum += (uint64_t)n - r;
		}
		break;
	default:
		if (soak_did("xchg", percpu_local_xchg(l, n, &v), 0))
			*sum += (uint64_t)n - (uint64_t)v;
	}
}

/* Store a token. A store overwrites the word, so all that can be checked is that a thread has
 * stored the value. */
static void store_word(struct soak_thread *t)
{
	int64_t v;

	soak_did("store", percpu_local_store(mark, (int64_t)soak_token(t)), 0);
	if (soak_did("xchg", percpu_local_xchg(mark, (int64_t)soak_token(t), &v), 0) && v != 0)
		soak_require_token("a word that was stored", (uint64_t)v);
}

static void push(struct soak_thread *t)
{
	uintptr_t v = (uintptr_t)soak_token(t);

	if (soak_did("push", percpu_local_push(stack, DEPTH, (void *)v), -ENOSPC))
		t->sum[0][SOAK_OF_STACK] += v;
}

static void pop(struct soak_thread *t)
{
	void *v;

	if (!soak_did("pop", percpu_local_pop(stack, &v), -ENOENT))
		return;
	if (sizeof(v) == sizeof(uint64_t)) /* a smaller word has half of the token */
		soak_require_token("an item that was pushed", (uintptr_t)v);
	t->sum[0][SOAK_OF_STACK] -= (uintptr_t)v;
}

static void append(struct soak_thread *t)
{
	uint64_t record[RECORD] = { (uint64_t)t->number << 32 | ++t->sent, soak_token(t) };

	record[2] = record[0] ^ record[1];
	if (soak_did("copy", percpu_local_copy(queue, DEPTH - 1, record, RECORD), -ENOSPC))
		t->sum[0][SOAK_OF_QUEUE] += record[1];
}

static void receive(struct soak_thread *t, unsigned cpu, const uint64_t record[RECORD])
{
	uint32_t number = (uint32_t)(record[0] >> 32), sent = (uint32_t)record[0];

	soak_require_equal("a record is whole", record[0] ^ record[1], record[2]);
	if (cpu < ORDERED) {
		soak_require(sent > received[cpu][number], "records stay in order",
			     received[cpu][number] + 1, sent);
		received[cpu][number] = sent;
	}
	t->sum[0][SOAK_OF_QUEUE] -= record[1];
	t->slot->journal[0].count[SOAK_DRAIN]++;
}

void soak_local_drain(struct soak_thread *t)
{
	uint64_t record[RECORD], head, tail;
	struct percpu_fifo *q;

	for (unsigned cpu = 0; (q = percpu_local_cell(queue, cpu)) != NULL; cpu++) {
		head = __atomic_load_n(&q->head, __ATOMIC_ACQUIRE);
		for (tail = q->tail; tail != head; tail += RECORD) {
			for (uint64_t i = 0; i < RECORD; i++)
				record[i] = q->slot[(tail + i) % DEPTH];
			receive(t, cpu, record);
		}
		__atomic_store_n(&q->tail, tail, __ATOMIC_RELEASE);
	}
}

uint64_t soak_local_found(enum soak_tally tally)
{
	if (tally == SOAK_OF_SPLIT)
		return (uint64_t)percpu_local_sum(split);
	if (tally == SOAK_OF_LOCK)
		return (uint64_t)percpu_local_sum(lock);
	if (tally == SOAK_OF_REFS)
		return (uint64_t)percpu_local_sum(refs);
	return tally == SOAK_OF_STACK ? found_in_stack() : 0; /* the queues are empty by now */
}

void soak_local_signal(struct soak_thread *t)
{
	if (soak_did("add in a handler", percpu_local_add(split, 7), 0))
		t->sum[1][SOAK_OF_SPLIT] += 7;
	if (soak_did("add in a handler", percpu_local_add(refs, 9), 0))
		t->sum[1][SOAK_OF_REFS] += 9;
}

void soak_local_op(struct soak_thread *t, enum soak_kind kind)
{
	uint64_t n = test_random(&t->random) % 1000;

	if (kind == SOAK_SPLIT) {
		if (soak_did("add", percpu_local_add(split, (int64_t)n), 0))
			t->sum[0][SOAK_OF_SPLIT] += n;
	} else if (kind == SOAK_LOCK) {
		change_word(t, lock, &t->sum[0][SOAK_OF_LOCK]);
	} else if (kind == SOAK_REFS) {
		change_word(t, refs, &t->sum[0][SOAK_OF_REFS]);
	} else if (kind == SOAK_STORE) {
		store_word(t);
	} else if (kind == SOAK_PUSH) {
		push(t);
	} else if (kind == SOAK_POP) {
		pop(t);
	} else {
		append(t);
	}
}

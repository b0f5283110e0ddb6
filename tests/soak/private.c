/* SPDX-License-Identifier: MIT */
/*
 * private.c - the soak test's operations on objects of one process: counters,
 * regions, and local words, arrays and queues with each fallback. Each thread
 * keeps the sum of what it has done; these add up to what the objects hold.
 */
#define _GNU_SOURCE
#include <sched.h>

#include <percpu/counter.h>
#include <percpu/fence.h>
#include <percpu/local.h>

#include "../support.h"
#include "soak.h"

#define LARGE 9000 /* counters: more than a lane of the default region holds */
#define DEPTH 64
#define RECORD 3   /* words: no divisor of DEPTH */
#define ORDERED 64 /* CPUs on which the order of records is checked */

static PERCPU_COUNTER_DEFINE(fixed);
static struct percpu_counter *counter;
static struct percpu_counter_array *large;
static struct percpu_local *split, *lock, *refs, *mark, *stack, *queue;
static uint32_t received[ORDERED][SOAK_THREADS + 2]; /* last of each thread */

static void create_local(size_t size, enum percpu_local_fallback fallback,
			 struct percpu_local **ret)
{
	soak_require_equal("create a local", 0, (uint64_t)percpu_local_create(size, fallback, ret));
}

void soak_private_create(void)
{
	soak_require_equal("create a counter", 0, (uint64_t)percpu_counter_create(&counter));
	soak_require_equal("create an array", 0,
			   (uint64_t)percpu_counter_array_create(LARGE, &large));
	create_local(8, PERCPU_LOCAL_SPLIT, &split);
	create_local(8, PERCPU_LOCAL_LOCK, &lock);
	create_local(8, PERCPU_LOCAL_REFS, &refs);
	create_local(8, PERCPU_LOCAL_LOCK, &mark);
	create_local(8 + 8 * DEPTH, PERCPU_LOCAL_LOCK, &stack);
	create_local(16 + 8 * DEPTH, PERCPU_LOCAL_LOCK, &queue);
}

void soak_private_destroy(void)
{
	percpu_counter_destroy(counter);
	percpu_counter_array_destroy(large);
	percpu_local_destroy(split);
	percpu_local_destroy(lock);
	percpu_local_destroy(refs);
	percpu_local_destroy(mark);
	percpu_local_destroy(stack);
	percpu_local_destroy(queue);
}

static uint64_t found_in_large(void)
{
	static uint64_t value[LARGE];
	uint64_t sum = 0;

	percpu_counter_array_fetch_all(large, value);
	for (int i = 0; i < LARGE; i++)
		sum += value[i];
	return sum;
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

uint64_t soak_private_found(enum soak_tally tally)
{
	switch (tally) {
	case SOAK_OF_COUNTER:
		return percpu_counter_fetch(counter);
	case SOAK_OF_STATIC:
		return percpu_static_counter_fetch(&fixed);
	case SOAK_OF_LARGE:
		return found_in_large();
	case SOAK_OF_SPLIT:
		return (uint64_t)percpu_local_sum(split);
	case SOAK_OF_LOCK:
		return (uint64_t)percpu_local_sum(lock);
	case SOAK_OF_REFS:
		return (uint64_t)percpu_local_sum(refs);
	case SOAK_OF_STACK:
		return found_in_stack();
	case SOAK_OF_QUEUE: /* drained */
	case SOAK_TALLIES:
		break;
	}
	return 0;
}

void soak_private_check(const uint64_t before[SOAK_TALLIES], const struct soak_thread *t,
			unsigned n)
{
	static const char *const what[SOAK_TALLIES] = {
		"total of the private counter", "total of the static counter",
		"total of the large array",	"sum of the split word",
		"sum of the locked word",	"sum of the counted word",
		"items of the arrays",		"records of the queues",
	};
	uint64_t sum;

	for (int tally = 0; tally < SOAK_TALLIES; tally++) {
		sum = before[tally];
		for (unsigned i = 0; i < n; i++)
			sum += t[i].sum[0][tally] + t[i].sum[1][tally];
		soak_require_equal(what[tally], sum, soak_private_found(tally));
	}
}

/* A value that can be told from others. */
static uint64_t token(struct soak_thread *t)
{
	uint32_t r = (uint32_t)test_random(&t->random) | 1;

	return (uint64_t)r << 32 | (uint32_t)~r;
}

static void require_token(const char *what, uint64_t v)
{
	soak_require((uint32_t)(v >> 32) == (uint32_t)~v, what, (uint32_t) ~(v >> 32), (uint32_t)v);
}

/* Whether the call has done it; refused says how it may decline. */
static bool did(const char *what, int r, int refused)
{
	soak_require(r == 0 || r == refused, what, 0, (uint64_t)r);
	return r == 0;
}

static int64_t word_here(const struct percpu_local *l)
{
	const int64_t *word = percpu_local_cell(l, (unsigned)sched_getcpu());

	return word ? __atomic_load_n(word, __ATOMIC_RELAXED) : 0;
}

/* One operation on a word; *sum changes as the word does. */
static void change_word(struct soak_thread *t, const struct percpu_local *l, uint64_t *sum)
{
	uint64_t r = test_random(&t->random);
	int64_t n = (int64_t)(r >> 40) - (1 << 23), v;

	switch (r % 5) {
	case 0:
		if (did("add", percpu_local_add(l, n), 0))
			*sum += (uint64_t)n;
		break;
	case 1:
		if (did("add_return", percpu_local_add_return(l, n, &v), 0))
			*sum += (uint64_t)n;
		break;
	case 2:
		if (did("add_limit", percpu_local_add_limit(l, n, 1 << 24, &v), -ERANGE)) {
			*sum += (uint64_t)n;
			soak_require(v <= 1 << 24, "add_limit", 1 << 24, (uint64_t)v);
		}
		break;
	case 3:
		v = word_here(l);
		r = (uint64_t)v;
		if (did("cmpxchg", percpu_local_cmpxchg(l, v, n, &v), -EAGAIN)) {
			soak_require_equal("cmpxchg found what it expected", r, (uint64_t)v);
			*sum += (uint64_t)n - r;
		}
		break;
	default:
		if (did("xchg", percpu_local_xchg(l, n, &v), 0))
			*sum += (uint64_t)n - (uint64_t)v;
	}
}

/* A store forgets what was there, so all that can be said is that nothing is
 * there that nobody has stored. */
static void store_word(struct soak_thread *t)
{
	int64_t v;

	did("store", percpu_local_store(mark, (int64_t)token(t)), 0);
	if (did("xchg", percpu_local_xchg(mark, (int64_t)token(t), &v), 0) && v != 0)
		require_token("a word that was stored", (uint64_t)v);
}

static void push(struct soak_thread *t)
{
	uint64_t v = token(t);

	if (did("push", percpu_local_push(stack, DEPTH, (void *)(uintptr_t)v), -ENOSPC))
		t->sum[0][SOAK_OF_STACK] += v;
}

static void pop(struct soak_thread *t)
{
	void *v;

	if (!did("pop", percpu_local_pop(stack, &v), -ENOENT))
		return;
	require_token("an item that was pushed", (uintptr_t)v);
	t->sum[0][SOAK_OF_STACK] -= (uintptr_t)v;
}

static void append(struct soak_thread *t)
{
	uint64_t record[RECORD] = { (uint64_t)t->number << 32 | ++t->sent, token(t) };

	record[2] = record[0] ^ record[1];
	if (did("copy", percpu_local_copy(queue, DEPTH - 1, record, RECORD), -ENOSPC))
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

void soak_private_drain(struct soak_thread *t)
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

static void use_counter(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);

	if (r % 8 == 0) {
		t->sum[0][SOAK_OF_COUNTER] -= percpu_counter_fetch_zero(counter);
		return;
	}
	for (uint64_t i = 0; i < r % 100; i++)
		percpu_counter_inc(counter);
	t->sum[0][SOAK_OF_COUNTER] += r % 100;
}

static void use_large(struct soak_thread *t)
{
	for (int i = 0; i < 50; i++)
		percpu_counter_array_add(large, test_random(&t->random) % LARGE, 3);
	t->sum[0][SOAK_OF_LARGE] += 150;
}

/* A region, and a counter in it, of one thread. */
static void use_region(struct soak_thread *t)
{
	struct percpu_region *r;
	struct percpu_counter *c;

	soak_require_equal("create a private region", 0, (uint64_t)percpu_region_create(NULL, &r));
	soak_require_equal("create a counter in it", 0, (uint64_t)percpu_counter_create_in(r, &c));
	for (int i = 0; i < 10; i++)
		percpu_counter_dec(c);
	soak_require_equal("a counter of one thread", (uint64_t)-10, percpu_counter_fetch(c));
	if (test_random(&t->random) % 2)
		percpu_counter_destroy(c);
	percpu_region_close(r);
}

/* A CPU may be busy or not ours, and then the fence says so. */
static void fence(struct soak_thread *t, bool all)
{
	int r = all ? percpu_fence_all(UINT64_C(1000000000), NULL) : percpu_fence();

	soak_require(r == 0 || (all && (r == -EPERM || r == -ETIMEDOUT)), "fence", 0, (uint64_t)r);
	t->slot->journal[0].count[all ? SOAK_FENCE_ALL : SOAK_FENCE]++;
}

void soak_private_signal(struct soak_thread *t)
{
	percpu_counter_inc(counter);
	t->sum[1][SOAK_OF_COUNTER]++;
	percpu_static_counter_add(&fixed, 5);
	t->sum[1][SOAK_OF_STATIC] += 5;
	if (did("add in a handler", percpu_local_add(split, 7), 0))
		t->sum[1][SOAK_OF_SPLIT] += 7;
	if (did("add in a handler", percpu_local_add(refs, 9), 0))
		t->sum[1][SOAK_OF_REFS] += 9;
}

void soak_private_op(struct soak_thread *t)
{
	static const struct {
		unsigned below; /* of 1000 */
		enum soak_kind kind;
	} odds[] = {
		{ 150, SOAK_COUNTER },	  { 200, SOAK_STATIC }, { 250, SOAK_LARGE },
		{ 350, SOAK_SPLIT },	  { 500, SOAK_LOCK },	{ 650, SOAK_REFS },
		{ 700, SOAK_STORE },	  { 800, SOAK_PUSH },	{ 900, SOAK_POP },
		{ 980, SOAK_APPEND },	  { 990, SOAK_REGION }, { 999, SOAK_FENCE },
		{ 1000, SOAK_FENCE_ALL },
	};
	uint64_t r = test_random(&t->random) % 1000;
	unsigned i = 0;

	while (r >= odds[i].below)
		i++;
	switch (odds[i].kind) {
	case SOAK_COUNTER:
		use_counter(t);
		break;
	case SOAK_STATIC:
		percpu_static_counter_add(&fixed, 11);
		t->sum[0][SOAK_OF_STATIC] += 11;
		break;
	case SOAK_LARGE:
		use_large(t);
		break;
	case SOAK_SPLIT:
		if (did("add", percpu_local_add(split, (int64_t)r), 0))
			t->sum[0][SOAK_OF_SPLIT] += r;
		break;
	case SOAK_LOCK:
		change_word(t, lock, &t->sum[0][SOAK_OF_LOCK]);
		break;
	case SOAK_REFS:
		change_word(t, refs, &t->sum[0][SOAK_OF_REFS]);
		break;
	case SOAK_STORE:
		store_word(t);
		break;
	case SOAK_PUSH:
		push(t);
		break;
	case SOAK_POP:
		pop(t);
		break;
	case SOAK_APPEND:
		append(t);
		break;
	case SOAK_REGION:
		use_region(t);
		break;
	default:
		fence(t, odds[i].kind == SOAK_FENCE_ALL);
		return;
	}
	t->slot->journal[0].count[odds[i].kind]++;
}

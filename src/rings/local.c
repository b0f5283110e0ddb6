/* SPDX-License-Identifier: MIT */
/*
 * local.c - the fallbacks of the operations in local.h.
 *
 * A thread takes a fallback when its sequence was aborted a few times, when it cannot run
 * sequences, or when another thread's fallback has raised the guard. After a thread has raised
 * the guard and fenced, no sequence touches that lane: sequences that had passed the guard have
 * committed or restarted.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>

#include "rings.h"

#define MAX_SIZE ((size_t)1 << 30)
#define GUARD_SIZE 8 /* the guard's word, in front of the cell */
#define ENTRIES 16

/* Return the chunk. Take no lock, because fallbacks may run in signal handlers. */
static struct percpu_chunk *chunk(const struct percpu_local *l)
{
	return l->region->first;
}

static uint32_t *guard_of(const struct percpu_local *l, unsigned cpu)
{
	return (uint32_t *)(void *)(l->guard + cpu * l->stride);
}

/* Lower the guards that other threads of the parent had raised. An operation that such a thread
 * left half done has no effect; see lock_guard(). */
static void local_mend_in_child(const void *owner)
{
	const struct percpu_local *l = owner;

	for (unsigned cpu = 0; cpu < chunk(l)->cpus; cpu++) {
		uint32_t *guard = guard_of(l, cpu);

		if (*guard != 0)
			*guard = 0;
	}
}

static int create(size_t size, enum percpu_local_fallback fallback, struct percpu_local **ret)
{
	struct percpu_local *l;
	void *guard;
	int e;

	l = malloc(sizeof(*l));
	if (l == NULL)
		return -ENOMEM;
	e = percpu_region_create_for(size + GUARD_SIZE, &l->region);
	if (e == 0) {
		e = percpu_region_alloc(l->region, size + GUARD_SIZE, 8, &guard);
		if (e != 0)
			percpu_region_close(l->region);
	}
	if (e != 0) {
		free(l);
		return e;
	}
	l->guard = guard;
	l->cell = l->guard + GUARD_SIZE;
	l->fallback = fallback;
	l->stride = chunk(l)->stride;
	if (fallback != PERCPU_LOCAL_SPLIT)
		percpu_region_on_fork(l->region, local_mend_in_child, l);
	*ret = l;
	return 0;
}

int percpu_local_create(size_t size, enum percpu_local_fallback fallback, struct percpu_local **ret)
{
	if (ret == NULL || size == 0 || size > MAX_SIZE || (unsigned)fallback > PERCPU_LOCAL_REFS ||
	    (fallback != PERCPU_LOCAL_LOCK && size > sizeof(int64_t)))
		return -EINVAL;
	return create(size, fallback, ret);
}

int percpu_local_create_words(size_t size, struct percpu_local **ret)
{
	return create(size, PERCPU_LOCAL_REFS, ret);
}

struct percpu_local percpu_local_word(void *cell, void *guard)
{
	return (struct percpu_local){
		.cell = cell,
		.guard = guard,
		.stride = PERCPU_STRIDE,
		.fallback = PERCPU_LOCAL_REFS,
		.region = percpu_chunk_of(guard)->region,
	};
}

void percpu_local_destroy(struct percpu_local *l)
{
	if (l == NULL)
		return;
	percpu_region_close(l->region);
	free(l);
}

void *percpu_local_cell(const struct percpu_local *l, unsigned cpu)
{
	return l != NULL && cpu < chunk(l)->cpus ? l->cell + cpu * l->stride : NULL;
}

int64_t percpu_local_sum(const struct percpu_local *l)
{
	const struct percpu_chunk *k;

	if (l == NULL)
		return 0;
	k = chunk(l);
	return (int64_t)percpu_chunk_sum(k, (size_t)(l->cell - k->base));
}

/* The guard */

/* Choose the CPU whose lane a fallback works on: the one it runs on, if that is known. Any
 * lane would do, because the guard keeps sequences out. */
static unsigned choose_cpu(const struct percpu_local *l)
{
	int cpu = sched_getcpu();

	return cpu > 0 && (uint32_t)cpu < chunk(l)->cpus ? cpu : 0;
}

/* Take the guard as a lock, and fence. An operation that a killed holder left half done needs no
 * repair: in a fallback, as in a sequence, only the last store has an effect. */
static int lock_guard(struct percpu_robust *h, uint32_t *guard, unsigned cpu)
{
	int e = percpu_robust_lock(h, guard, PERCPU_LOCK_NS);

	if (e != 0)
		return e;
	e = percpu_barrier_cpu(cpu);
	if (e != 0)
		percpu_robust_unlock(h);
	return e;
}

/* Add one reference to the guard, and fence. From then on, until the last reference is
 * gone, all threads use atomic operations on this lane's word. */
static int ref_guard(uint32_t *guard, unsigned cpu)
{
	int e;

	__atomic_fetch_add(guard, 1, __ATOMIC_ACQUIRE);
	e = percpu_barrier_cpu(cpu);
	if (e != 0)
		__atomic_fetch_sub(guard, 1, __ATOMIC_RELEASE);
	return e;
}

int percpu_local_raise(const struct percpu_local *l, unsigned cpu)
{
	return ref_guard(guard_of(l, cpu), cpu);
}

void percpu_local_lower(const struct percpu_local *l, unsigned cpu)
{
	__atomic_fetch_sub(guard_of(l, cpu), 1, __ATOMIC_RELEASE);
}

/* What a fallback remembers from enter() to leave(). */
struct stay {
	unsigned cpu;
	struct percpu_robust lock;
};

/* Raise the guard of a lane. Returns 0 or -errno. In a sandbox that allows no fence, a try
 * succeeds if the thread is still on the lane's CPU, so try a few times. */
static int enter(const struct percpu_local *l, struct stay *s)
{
	int e = -EPERM;

	for (int i = 0; i < ENTRIES && (e == -EPERM || e == -EAGAIN); i++) {
		s->cpu = choose_cpu(l);
		e = l->fallback == PERCPU_LOCAL_LOCK ?
			    lock_guard(&s->lock, guard_of(l, s->cpu), s->cpu) :
			    ref_guard(guard_of(l, s->cpu), s->cpu);
	}
	return e;
}

static void leave(const struct percpu_local *l, struct stay *s)
{
	if (l->fallback == PERCPU_LOCAL_LOCK)
		percpu_robust_unlock(&s->lock);
	else
		percpu_local_lower(l, s->cpu);
}

static void *cell_of(const struct percpu_local *l, unsigned cpu)
{
	return l->cell + cpu * l->stride;
}

/* One word: the same atomic operations serve the lock and the references. */

/* Add n to the word unless the sum is above limit, and return the sum. Without a limit, this
 * needs no loop. */
static int64_t add_below(int64_t *word, int64_t n, int64_t limit)
{
	int64_t old = __atomic_load_n(word, __ATOMIC_RELAXED), v;

	if (limit == INT64_MAX)
		return __atomic_add_fetch(word, n, __ATOMIC_RELAXED);
	do {
		v = (int64_t)((uint64_t)old + (uint64_t)n);
		PERCPU_STEP("local: word loaded");
	} while (v <= limit && !__atomic_compare_exchange_n(word, &old, v, false, __ATOMIC_RELAXED,
							    __ATOMIC_RELAXED));
	return v;
}

int percpu_local_add_limit_slow(const struct percpu_local *l, int64_t n, int64_t limit,
				int64_t *ret)
{
	int r = PERCPU_SEQ_SLOW;
	struct stay s;
	int64_t v;

	if (l->fallback == PERCPU_LOCAL_SPLIT)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add_limit(l->cell, l->guard, l->stride, n, limit, ret);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -ERANGE;
	r = enter(l, &s);
	if (r != 0)
		return r;
	v = add_below(cell_of(l, s.cpu), n, limit);
	leave(l, &s);
	*ret = v;
	return v <= limit ? 0 : -ERANGE;
}

int percpu_local_add_slow(const struct percpu_local *l, int64_t n)
{
	struct percpu_chunk *k;
	int r = PERCPU_SEQ_SLOW;
	int64_t v;

	if (l->fallback != PERCPU_LOCAL_SPLIT)
		return percpu_local_add_limit_slow(l, n, INT64_MAX, &v);
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(l->cell, l->stride, n);
	if (r == 0)
		return 0;
	k = chunk(l);
	percpu_chunk_add_atomic(k, (size_t)(l->cell - k->base), n);
	return 0;
}

int percpu_local_cmpxchg_slow(const struct percpu_local *l, int64_t expected, int64_t v,
			      int64_t *ret)
{
	int r = PERCPU_SEQ_SLOW;
	struct stay s;
	int64_t old = expected;

	if (l->fallback == PERCPU_LOCAL_SPLIT)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_cmpxchg(l->cell, l->guard, l->stride, expected, v, ret);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -EAGAIN;
	r = enter(l, &s);
	if (r != 0)
		return r;
	/* Acquire and release: two fallbacks may be in one lane at a time, and a word may stand
	 * for what its owner has stored elsewhere (lwbuf_table.c). */
	if (!__atomic_compare_exchange_n((int64_t *)cell_of(l, s.cpu), &old, v, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		r = -EAGAIN;
	leave(l, &s);
	*ret = old;
	return r;
}

int percpu_local_xchg_slow(const struct percpu_local *l, int64_t v, int64_t *ret)
{
	struct stay s;
	int r = PERCPU_SEQ_SLOW;

	if (l->fallback == PERCPU_LOCAL_SPLIT)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_xchg(l->cell, l->guard, l->stride, v, ret);
	if (r == 0)
		return 0;
	r = enter(l, &s);
	if (r != 0)
		return r;
	*ret = __atomic_exchange_n((int64_t *)cell_of(l, s.cpu), v, __ATOMIC_RELAXED);
	leave(l, &s);
	return 0;
}

/* Several words: these operations need the lock. */

int percpu_local_push_slow(const struct percpu_local *l, uint64_t limit, void *item)
{
	struct percpu_array *a;
	int r = PERCPU_SEQ_SLOW;
	struct stay s;

	if (l->fallback != PERCPU_LOCAL_LOCK)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_push(l->cell, l->guard, l->stride, limit, item);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -ENOSPC;
	r = enter(l, &s);
	if (r != 0)
		return r;
	a = cell_of(l, s.cpu);
	if (a->count < limit) {
		a->slot[a->count] = item;
		__atomic_store_n(&a->count, a->count + 1, __ATOMIC_RELEASE);
	} else {
		r = -ENOSPC;
	}
	leave(l, &s);
	return r;
}

static int pop_locked(const struct percpu_local *l, unsigned cpu, void **ret)
{
	struct percpu_array *a = cell_of(l, cpu);

	if (a->count == 0)
		return -ENOENT;
	*ret = a->slot[a->count - 1];
	__atomic_store_n(&a->count, a->count - 1, __ATOMIC_RELAXED);
	return 0;
}

int percpu_local_pop_slow(const struct percpu_local *l, void **ret)
{
	int r = PERCPU_SEQ_SLOW;
	struct stay s;

	if (l->fallback != PERCPU_LOCAL_LOCK)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_pop(l->cell, l->guard, l->stride, ret);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -ENOENT;
	r = enter(l, &s);
	if (r != 0)
		return r;
	r = pop_locked(l, s.cpu, ret);
	leave(l, &s);
	return r;
}

int percpu_local_pop_cpu(const struct percpu_local *l, unsigned cpu, void **ret)
{
	struct percpu_robust h;
	int r;

	if (l == NULL || ret == NULL)
		return -EINVAL;
	if (l->fallback != PERCPU_LOCAL_LOCK)
		return -ENOTSUP;
	if (cpu >= chunk(l)->cpus)
		return -EINVAL;
	r = lock_guard(&h, guard_of(l, cpu), cpu);
	if (r != 0)
		return r;
	r = pop_locked(l, cpu, ret);
	percpu_robust_unlock(&h);
	return r;
}

int percpu_local_copy_slow(const struct percpu_local *l, uint64_t mask, const uint64_t *src,
			   uint64_t words)
{
	struct percpu_fifo *q;
	int r = PERCPU_SEQ_SLOW;
	struct stay s;

	if (l->fallback != PERCPU_LOCAL_LOCK)
		return -ENOTSUP;
	if (words == 0)
		return 0;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_copy(l->cell, l->guard, l->stride, mask, src, words);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -ENOSPC;
	r = enter(l, &s);
	if (r != 0)
		return r;
	q = cell_of(l, s.cpu);
	if (mask + 1 - (q->head - __atomic_load_n(&q->tail, __ATOMIC_ACQUIRE)) >= words) {
		for (uint64_t i = 0; i < words; i++)
			q->slot[(q->head + i) & mask] = src[i];
		__atomic_store_n(&q->head, q->head + words, __ATOMIC_RELEASE);
	} else {
		r = -ENOSPC;
	}
	leave(l, &s);
	return r;
}

int percpu_local_take_slow(const struct percpu_local *l, uint64_t mask, uint64_t *ret)
{
	struct percpu_fifo *q;
	int r = PERCPU_SEQ_SLOW;
	struct stay s;

	if (l->fallback != PERCPU_LOCAL_LOCK)
		return -ENOTSUP;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_take(l->cell, l->guard, l->stride, mask, ret);
	if (r != PERCPU_SEQ_SLOW)
		return r == 0 ? 0 : -ENOENT;
	r = enter(l, &s);
	if (r != 0)
		return r;
	q = cell_of(l, s.cpu);
	if (q->tail != q->head) {
		*ret = q->slot[q->tail & mask];
		__atomic_store_n(&q->tail, q->tail + 1, __ATOMIC_RELEASE);
	} else {
		r = -ENOENT;
	}
	leave(l, &s);
	return r;
}

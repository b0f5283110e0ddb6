/* SPDX-License-Identifier: MIT */
/*
 * operations.c - every inline operation of the public headers, for check.py to
 * look at, in C and C++. With -DSECOND, a further unit that has the same inline
 * functions: of those that are not inlined in C++, one copy is kept, and with it
 * one of their sequences and records.
 */
#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/wbuf.h>

#ifdef __cplusplus
#define INLINE inline
#else
#define INLINE static inline
#endif

/* What the operations are on. */
struct objects {
	struct percpu_local *local;
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_stats *stats;
	struct percpu_stats_group *group;
	struct percpu_compact *compact;
	struct percpu_wbuf *wbuf;
	struct percpu_ring *ring;
	struct percpu_fcounter *fcounter;
	struct percpu_fcounter_array *farray;
	struct percpu_histogram *histogram;
	struct percpu_extrema *extrema;
	struct percpu_approx *approx;
	struct percpu_rwlock *rwlock;
	size_t n;
};

INLINE void every_local_operation(struct percpu_local *l)
{
	int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, v;
	void *item;

	(void)percpu_local_add(l, n[0]);
	(void)percpu_local_add_return(l, n[0], &v);
	(void)percpu_local_add_limit(l, n[0], n[7], &v);
	(void)percpu_local_store(l, n[0]);
	(void)percpu_local_cmpxchg(l, n[0], n[1], &v);
	(void)percpu_local_xchg(l, n[0], &v);
	(void)percpu_local_push(l, 8, &n[0]);
	(void)percpu_local_pop(l, &item);
	(void)percpu_local_copy(l, 7, (const uint64_t *)n, 8);
	(void)percpu_local_take(l, 7, (uint64_t *)n);
}

INLINE void every_operation(const struct objects *o)
{
	const int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const uint64_t u[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint64_t cell = 0;
	const struct percpu_wbuf_entry adds[4] = {
		percpu_wbuf_entry_u64(&cell, 1),
		percpu_wbuf_entry_u64(&cell, 2),
		percpu_wbuf_entry_u64(&cell, 3),
		percpu_wbuf_entry_u64(&cell, 4),
	};

	every_local_operation(o->local);
	percpu_counter_add(o->counter, n[0]);
	percpu_counter_array_add(o->array, 0, n[0]);
	percpu_counter_array_add_n(o->array, 0, n, 2);
	percpu_counter_array_add_n(o->array, 0, n, 4);
	percpu_counter_array_add_n(o->array, 0, n, 8);
	percpu_stats_add(o->stats, 0, 0, n[0]);
	(void)percpu_stats_update(o->stats, 0, 0, u, 2);
	(void)percpu_stats_update(o->stats, 0, 0, u, 4);
	(void)percpu_stats_update(o->stats, 0, 0, u, 8);
	(void)percpu_stats_group_update_both(o->group, 1, u, 0, u, 2);
	(void)percpu_stats_group_update_both(o->group, 1, u, 0, u, 3);
	(void)percpu_stats_group_update(o->group, 1, u, 4);
	percpu_compact_add(o->compact, 0, n[0]);
	(void)percpu_fcounter_add(o->fcounter, 0.5);
	(void)percpu_fcounter_array_add(o->farray, o->n, 0.5);
	percpu_approx_add(o->approx, n[0]);
	(void)percpu_approx_add_below(o->approx, n[0], n[7]);
	(void)!percpu_rwlock_read_lock(o->rwlock);
	(void)percpu_rwlock_read_unlock(o->rwlock);
	percpu_histogram_record(o->histogram, 0.5);
	percpu_histogram_record_ticks_at(o->histogram, o->n, o->n);
	(void)percpu_extrema_observe(o->extrema, n[0]);
	(void)percpu_extrema_observe_double(o->extrema, 0.5);
	(void)percpu_ring_put(o->ring, n, sizeof(n));
	(void)percpu_ring_put(o->ring, n, o->n);
	(void)percpu_wbuf_add(o->wbuf, &cell, 1);
	(void)percpu_wbuf_add_n(o->wbuf, adds, 2);
	(void)percpu_wbuf_add_n(o->wbuf, adds, 4);
	(void)percpu_wbuf_add_n(o->wbuf, adds, o->n);
}

#ifdef __cplusplus
extern "C" {
#endif
void first_unit(const struct objects *o);
void second_unit(const struct objects *o);
#ifdef __cplusplus
}
#endif

#ifndef SECOND

void first_unit(const struct objects *o)
{
	every_operation(o);
}

#else

void second_unit(const struct objects *o)
{
	every_operation(o);
}

#endif

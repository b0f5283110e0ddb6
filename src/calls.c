/* SPDX-License-Identifier: MIT */
/*
 * calls.c - the inline functions as functions with an address; see percpu/calls.h.
 */
#include <percpu/calls.h>
#include <percpu/variable.h>

void percpu_approx_add_call(const struct percpu_approx *a, int64_t n)
{
	percpu_approx_add(a, n);
}

int percpu_approx_add_below_call(const struct percpu_approx *a, int64_t n, int64_t limit)
{
	return percpu_approx_add_below(a, n, limit);
}

int64_t percpu_approx_estimate_call(const struct percpu_approx *a)
{
	return percpu_approx_estimate(a);
}

void percpu_counter_add_call(struct percpu_counter *c, int64_t n)
{
	percpu_counter_add(c, n);
}

void percpu_counter_inc_call(struct percpu_counter *c)
{
	percpu_counter_inc(c);
}

void percpu_counter_dec_call(struct percpu_counter *c)
{
	percpu_counter_dec(c);
}

void percpu_counter_array_add_call(const struct percpu_counter_array *a, size_t i, int64_t n)
{
	percpu_counter_array_add(a, i, n);
}

void percpu_counter_array_add_n_call(const struct percpu_counter_array *a, size_t i,
				     const int64_t *n, size_t words)
{
	percpu_counter_array_add_n(a, i, n, words);
}

int percpu_fcounter_add_call(struct percpu_fcounter *c, double n)
{
	return percpu_fcounter_add(c, n);
}

int percpu_fcounter_array_add_call(const struct percpu_fcounter_array *a, size_t i, double n)
{
	return percpu_fcounter_array_add(a, i, n);
}

void percpu_gauge_add_call(struct percpu_gauge *g, int64_t n)
{
	percpu_gauge_add(g, n);
}

void percpu_gauge_sub_call(struct percpu_gauge *g, int64_t n)
{
	percpu_gauge_sub(g, n);
}

void percpu_gauge_inc_call(struct percpu_gauge *g)
{
	percpu_gauge_inc(g);
}

void percpu_gauge_dec_call(struct percpu_gauge *g)
{
	percpu_gauge_dec(g);
}

int percpu_fgauge_add_call(struct percpu_fgauge *g, double n)
{
	return percpu_fgauge_add(g, n);
}

int percpu_fgauge_sub_call(struct percpu_fgauge *g, double n)
{
	return percpu_fgauge_sub(g, n);
}

int percpu_grace_enter_call(struct percpu_grace *g)
{
	return percpu_grace_enter(g);
}

int percpu_grace_exit_call(struct percpu_grace *g, int token)
{
	return percpu_grace_exit(g, token);
}

void percpu_static_counter_add_call(struct percpu_static_counter *s, int64_t n)
{
	percpu_static_counter_add(s, n);
}

void percpu_compact_add_call(const struct percpu_compact *c, size_t i, int64_t n)
{
	percpu_compact_add(c, i, n);
}

void percpu_stats_add_call(const struct percpu_stats *s, size_t i, size_t word, int64_t n)
{
	percpu_stats_add(s, i, word, n);
}

int percpu_stats_update_call(const struct percpu_stats *s, size_t i, size_t word, const uint64_t *n,
			     size_t words)
{
	return percpu_stats_update(s, i, word, n, words);
}

int percpu_stats_group_update_both_call(const struct percpu_stats_group *g, size_t a,
					const uint64_t *na, size_t b, const uint64_t *nb,
					size_t words)
{
	return percpu_stats_group_update_both(g, a, na, b, nb, words);
}

int percpu_stats_group_update_call(const struct percpu_stats_group *g, size_t i, const uint64_t *n,
				   size_t words)
{
	return percpu_stats_group_update(g, i, n, words);
}

int percpu_local_add_call(const struct percpu_local *l, int64_t n)
{
	return percpu_local_add(l, n);
}

int percpu_local_add_return_call(const struct percpu_local *l, int64_t n, int64_t *ret)
{
	return percpu_local_add_return(l, n, ret);
}

int percpu_local_add_limit_call(const struct percpu_local *l, int64_t n, int64_t limit,
				int64_t *ret)
{
	return percpu_local_add_limit(l, n, limit, ret);
}

int percpu_local_store_call(const struct percpu_local *l, int64_t v)
{
	return percpu_local_store(l, v);
}

int percpu_local_cmpxchg_call(const struct percpu_local *l, int64_t expected, int64_t v,
			      int64_t *ret)
{
	return percpu_local_cmpxchg(l, expected, v, ret);
}

int percpu_local_xchg_call(const struct percpu_local *l, int64_t v, int64_t *ret)
{
	return percpu_local_xchg(l, v, ret);
}

int percpu_local_push_call(const struct percpu_local *l, uint64_t limit, void *item)
{
	return percpu_local_push(l, limit, item);
}

int percpu_local_pop_call(const struct percpu_local *l, void **ret)
{
	return percpu_local_pop(l, ret);
}

int percpu_local_copy_call(const struct percpu_local *l, uint64_t mask, const uint64_t *src,
			   uint64_t words)
{
	return percpu_local_copy(l, mask, src, words);
}

void *percpu_lwbuf_kva_call(const struct percpu_lwbuf *b)
{
	return percpu_lwbuf_kva(b);
}

uint64_t percpu_lwbuf_page_call(const struct percpu_lwbuf *b)
{
	return percpu_lwbuf_page(b);
}

size_t percpu_lwbuf_length_call(const struct percpu_lwbuf *b)
{
	return percpu_lwbuf_length(b);
}

void *percpu_sfbuf_kva_call(const struct percpu_sfbuf *b)
{
	return percpu_sfbuf_kva(b);
}

uint64_t percpu_sfbuf_page_call(const struct percpu_sfbuf *b)
{
	return percpu_sfbuf_page(b);
}

size_t percpu_sfbuf_length_call(const struct percpu_sfbuf *b)
{
	return percpu_sfbuf_length(b);
}

int percpu_objcache_get_call(struct percpu_objcache *oc, unsigned flags, void **ret)
{
	return percpu_objcache_get(oc, flags, ret);
}

void percpu_objcache_put_call(struct percpu_objcache *oc, void *obj)
{
	percpu_objcache_put(oc, obj);
}

int percpu_local_take_call(const struct percpu_local *l, uint64_t mask, uint64_t *ret)
{
	return percpu_local_take(l, mask, ret);
}

void percpu_histogram_record_call(const struct percpu_histogram *h, double v)
{
	percpu_histogram_record(h, v);
}

void percpu_histogram_record_at_call(const struct percpu_histogram *h, size_t i, double v)
{
	percpu_histogram_record_at(h, i, v);
}

void percpu_histogram_record_ticks_call(const struct percpu_histogram *h, uint64_t ticks)
{
	percpu_histogram_record_ticks(h, ticks);
}

void percpu_histogram_record_ticks_at_call(const struct percpu_histogram *h, size_t i,
					   uint64_t ticks)
{
	percpu_histogram_record_ticks_at(h, i, ticks);
}

int percpu_owned_gauge_add_call(struct percpu_owned_gauge *g, int64_t n)
{
	return percpu_owned_gauge_add(g, n);
}

int percpu_extrema_observe_call(const struct percpu_extrema *x, int64_t v)
{
	return percpu_extrema_observe(x, v);
}

int percpu_extrema_observe_double_call(const struct percpu_extrema *x, double v)
{
	return percpu_extrema_observe_double(x, v);
}

int percpu_ref_get_call(struct percpu_ref *ref)
{
	return percpu_ref_get(ref);
}

int percpu_ref_get_many_call(struct percpu_ref *ref, uint64_t n)
{
	return percpu_ref_get_many(ref, n);
}

int percpu_ref_put_call(struct percpu_ref *ref)
{
	return percpu_ref_put(ref);
}

int percpu_ref_put_many_call(struct percpu_ref *ref, uint64_t n)
{
	return percpu_ref_put_many(ref, n);
}

bool percpu_ref_tryget_call(struct percpu_ref *ref)
{
	return percpu_ref_tryget(ref);
}

bool percpu_ref_tryget_many_call(struct percpu_ref *ref, uint64_t n)
{
	return percpu_ref_tryget_many(ref, n);
}

bool percpu_ref_tryget_live_call(struct percpu_ref *ref)
{
	return percpu_ref_tryget_live(ref);
}

int percpu_critical_enter_call(struct percpu_critical *c, void **ret)
{
	return percpu_critical_enter(c, ret);
}

int percpu_critical_exit_call(struct percpu_critical *c, void *cell)
{
	return percpu_critical_exit(c, cell);
}

int percpu_rwlock_read_lock_call(struct percpu_rwlock *l)
{
	return percpu_rwlock_read_lock(l);
}

int percpu_rwlock_read_timedlock_call(struct percpu_rwlock *l, uint64_t ns)
{
	return percpu_rwlock_read_timedlock(l, ns);
}

int percpu_rwlock_read_trylock_call(struct percpu_rwlock *l)
{
	return percpu_rwlock_read_trylock(l);
}

int percpu_rwlock_read_unlock_call(struct percpu_rwlock *l)
{
	return percpu_rwlock_read_unlock(l);
}

int percpu_ring_put_call(const struct percpu_ring *r, const void *src, size_t size)
{
	return percpu_ring_put(r, src, size);
}

int percpu_wbuf_add_call(struct percpu_wbuf *w, uint64_t *cell, uint64_t n)
{
	return percpu_wbuf_add(w, cell, n);
}

int percpu_wbuf_add_n_call(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds, size_t n)
{
	return percpu_wbuf_add_n(w, adds, n);
}

int percpu_wbuf_add_u32_call(struct percpu_wbuf *w, uint32_t *cell, uint32_t n)
{
	return percpu_wbuf_add_u32(w, cell, n);
}

int percpu_wbuf_add_double_call(struct percpu_wbuf *w, double *cell, double n)
{
	return percpu_wbuf_add_double(w, cell, n);
}

struct percpu_wbuf_entry percpu_wbuf_entry_u64_call(uint64_t *cell, uint64_t n)
{
	return percpu_wbuf_entry_u64(cell, n);
}

struct percpu_wbuf_entry percpu_wbuf_entry_u32_call(uint32_t *cell, uint32_t n)
{
	return percpu_wbuf_entry_u32(cell, n);
}

struct percpu_wbuf_entry percpu_wbuf_entry_double_call(double *cell, double n)
{
	return percpu_wbuf_entry_double(cell, n);
}

void percpu_wbuf_hint_flush_call(struct percpu_wbuf *w)
{
	percpu_wbuf_hint_flush(w);
}

void percpu_variable_add_call(struct percpu_image *image, uint64_t *variable, int64_t n)
{
	percpu_variable_add(image, variable, n);
}

void *percpu_zone_get_call(void *item, unsigned cpu)
{
	return percpu_zone_get(item, cpu);
}

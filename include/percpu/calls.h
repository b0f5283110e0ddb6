/* SPDX-License-Identifier: MIT */
/*
 * calls.h - the inline functions as functions that the library exports, for languages
 * that cannot inline C (dlsym, cffi, Rust). The exported function has the name of the inline
 * function with "_call" behind it, and the same parameters and results. docs/calls.md says
 * more. C and C++ programs do not need this header.
 *
 * All have this in common: Context, Ordering and Progress are those of the inline
 * function.
 */
#ifndef PERCPU_CALLS_H
#define PERCPU_CALLS_H

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/critical.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

PERCPU_BEGIN_DECLS

struct percpu_image;

PERCPU_API void percpu_approx_add_call(const struct percpu_approx *a, int64_t n);
PERCPU_API PERCPU_MUST_CHECK int percpu_approx_add_below_call(const struct percpu_approx *a,
							      int64_t n, int64_t limit);
PERCPU_API int64_t percpu_approx_estimate_call(const struct percpu_approx *a);
PERCPU_API void percpu_counter_add_call(struct percpu_counter *c, int64_t n);
PERCPU_API void percpu_counter_inc_call(struct percpu_counter *c);
PERCPU_API void percpu_counter_dec_call(struct percpu_counter *c);
PERCPU_API void percpu_counter_array_add_call(const struct percpu_counter_array *a, size_t i,
					      int64_t n);
PERCPU_API void percpu_counter_array_add_n_call(const struct percpu_counter_array *a, size_t i,
						const int64_t *n, size_t words);
PERCPU_API int percpu_fcounter_add_call(struct percpu_fcounter *c, double n);
PERCPU_API int percpu_fcounter_array_add_call(const struct percpu_fcounter_array *a, size_t i,
					      double n);
PERCPU_API void percpu_gauge_add_call(struct percpu_gauge *g, int64_t n);
PERCPU_API void percpu_gauge_sub_call(struct percpu_gauge *g, int64_t n);
PERCPU_API void percpu_gauge_inc_call(struct percpu_gauge *g);
PERCPU_API void percpu_gauge_dec_call(struct percpu_gauge *g);
PERCPU_API int percpu_fgauge_add_call(struct percpu_fgauge *g, double n);
PERCPU_API int percpu_fgauge_sub_call(struct percpu_fgauge *g, double n);
PERCPU_API PERCPU_MUST_CHECK int percpu_grace_enter_call(struct percpu_grace *g);
PERCPU_API int percpu_grace_exit_call(struct percpu_grace *g, int token);
PERCPU_API void percpu_static_counter_add_call(struct percpu_static_counter *s, int64_t n);
PERCPU_API void percpu_compact_add_call(const struct percpu_compact *c, size_t i, int64_t n);
PERCPU_API void percpu_stats_add_call(const struct percpu_stats *s, size_t i, size_t word,
				      int64_t n);
PERCPU_API int percpu_stats_update_call(const struct percpu_stats *s, size_t i, size_t word,
					const uint64_t *n, size_t words);
PERCPU_API int percpu_stats_group_update_both_call(const struct percpu_stats_group *g, size_t a,
						   const uint64_t *na, size_t b, const uint64_t *nb,
						   size_t words);
PERCPU_API int percpu_stats_group_update_call(const struct percpu_stats_group *g, size_t i,
					      const uint64_t *n, size_t words);
PERCPU_API int percpu_local_add_call(const struct percpu_local *l, int64_t n);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_add_return_call(const struct percpu_local *l,
							      int64_t n, int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int
percpu_local_add_limit_call(const struct percpu_local *l, int64_t n, int64_t limit, int64_t *ret);
PERCPU_API int percpu_local_store_call(const struct percpu_local *l, int64_t v);
PERCPU_API PERCPU_MUST_CHECK int
percpu_local_cmpxchg_call(const struct percpu_local *l, int64_t expected, int64_t v, int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_xchg_call(const struct percpu_local *l, int64_t v,
							int64_t *ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_push_call(const struct percpu_local *l,
							uint64_t limit, void *item);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_pop_call(const struct percpu_local *l, void **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_copy_call(const struct percpu_local *l, uint64_t mask,
							const uint64_t *src, uint64_t words);
PERCPU_API PERCPU_MUST_CHECK int percpu_objcache_get_call(struct percpu_objcache *oc,
							  unsigned flags, void **ret);
PERCPU_API void percpu_objcache_put_call(struct percpu_objcache *oc, void *obj);
PERCPU_API PERCPU_MUST_CHECK int percpu_local_take_call(const struct percpu_local *l, uint64_t mask,
							uint64_t *ret);
PERCPU_API void percpu_histogram_record_call(const struct percpu_histogram *h, double v);
PERCPU_API void percpu_histogram_record_at_call(const struct percpu_histogram *h, size_t i,
						double v);
PERCPU_API void percpu_histogram_record_ticks_call(const struct percpu_histogram *h,
						   uint64_t ticks);
PERCPU_API void percpu_histogram_record_ticks_at_call(const struct percpu_histogram *h, size_t i,
						      uint64_t ticks);
PERCPU_API int percpu_owned_gauge_add_call(struct percpu_owned_gauge *g, int64_t n);
PERCPU_API int percpu_extrema_observe_call(const struct percpu_extrema *x, int64_t v);
PERCPU_API int percpu_extrema_observe_double_call(const struct percpu_extrema *x, double v);
PERCPU_API int percpu_ref_get_call(struct percpu_ref *ref);
PERCPU_API int percpu_ref_get_many_call(struct percpu_ref *ref, uint64_t n);
PERCPU_API int percpu_ref_put_call(struct percpu_ref *ref);
PERCPU_API int percpu_ref_put_many_call(struct percpu_ref *ref, uint64_t n);
PERCPU_API PERCPU_MUST_CHECK bool percpu_ref_tryget_call(struct percpu_ref *ref);
PERCPU_API PERCPU_MUST_CHECK bool percpu_ref_tryget_many_call(struct percpu_ref *ref, uint64_t n);
PERCPU_API PERCPU_MUST_CHECK bool percpu_ref_tryget_live_call(struct percpu_ref *ref);
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_enter_call(struct percpu_critical *c, void **ret);
PERCPU_API int percpu_critical_exit_call(struct percpu_critical *c, void *cell);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_read_lock_call(struct percpu_rwlock *l);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_read_timedlock_call(struct percpu_rwlock *l,
								   uint64_t ns);
PERCPU_API PERCPU_MUST_CHECK int percpu_rwlock_read_trylock_call(struct percpu_rwlock *l);
PERCPU_API int percpu_rwlock_read_unlock_call(struct percpu_rwlock *l);
PERCPU_API int percpu_ring_put_call(const struct percpu_ring *r, const void *src, size_t size);
PERCPU_API void *percpu_lwbuf_kva_call(const struct percpu_lwbuf *b);
PERCPU_API uint64_t percpu_lwbuf_page_call(const struct percpu_lwbuf *b);
PERCPU_API size_t percpu_lwbuf_length_call(const struct percpu_lwbuf *b);
PERCPU_API void *percpu_sfbuf_kva_call(const struct percpu_sfbuf *b);
PERCPU_API uint64_t percpu_sfbuf_page_call(const struct percpu_sfbuf *b);
PERCPU_API size_t percpu_sfbuf_length_call(const struct percpu_sfbuf *b);
PERCPU_API int percpu_wbuf_add_call(struct percpu_wbuf *w, uint64_t *cell, uint64_t n);
PERCPU_API int percpu_wbuf_add_n_call(struct percpu_wbuf *w, const struct percpu_wbuf_entry *adds,
				      size_t n);
PERCPU_API int percpu_wbuf_add_u32_call(struct percpu_wbuf *w, uint32_t *cell, uint32_t n);
PERCPU_API int percpu_wbuf_add_double_call(struct percpu_wbuf *w, double *cell, double n);
PERCPU_API struct percpu_wbuf_entry percpu_wbuf_entry_u64_call(uint64_t *cell, uint64_t n);
PERCPU_API struct percpu_wbuf_entry percpu_wbuf_entry_u32_call(uint32_t *cell, uint32_t n);
PERCPU_API struct percpu_wbuf_entry percpu_wbuf_entry_double_call(double *cell, double n);
PERCPU_API void percpu_wbuf_hint_flush_call(struct percpu_wbuf *w);
PERCPU_API void percpu_variable_add_call(struct percpu_image *image, uint64_t *variable, int64_t n);
PERCPU_API void *percpu_zone_get_call(void *item, unsigned cpu);

PERCPU_END_DECLS

#endif

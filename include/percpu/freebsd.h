/* SPDX-License-Identifier: MIT */
/*
 * freebsd.h - FreeBSD's counter(9), counter_rate and per-CPU zones under their
 * own names, for code written against them. counter.h and zone.h document what
 * the calls do; where they differ from FreeBSD's, they promise more: counting
 * early loses nothing, and counter_u64_zero() loses no add that runs meanwhile.
 */
#ifndef PERCPU_FREEBSD_H
#define PERCPU_FREEBSD_H

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/counter.h>
#include <percpu/status.h>
#include <percpu/zone.h>

PERCPU_BEGIN_DECLS

/* malloc(9)'s flags, for code that has none of its own. */
#ifndef M_NOWAIT
#define M_NOWAIT 0x0001
#endif
#ifndef M_WAITOK
#define M_WAITOK 0x0002
#endif
#ifndef M_ZERO
#define M_ZERO 0x0100
#endif

/** A counter. Odd: that of COUNTER_U64_DEFINE_EARLY, a static counter. */
typedef uint64_t *counter_u64_t;

PERCPU_INLINE struct percpu_counter *percpu_freebsd_counter(counter_u64_t c)
{
	return (struct percpu_counter *)(void *)c;
}

/** The static counter behind an early one, or NULL. */
PERCPU_INLINE struct percpu_static_counter *percpu_freebsd_early(counter_u64_t c)
{
	if (percpu_likely(((uintptr_t)c & 1) == 0))
		return NULL;
	return (struct percpu_static_counter *)(void *)((char *)c - 1);
}

/** Allocate a counter of 0. With M_WAITOK it waits until there is memory;
 *  otherwise it returns NULL if there is none. */
static inline counter_u64_t counter_u64_alloc(int flags)
{
	struct percpu_counter *c = NULL;

	while (percpu_counter_create(&c) == -ENOMEM && (flags & M_WAITOK))
		sched_yield();
	return (counter_u64_t)(void *)c;
}

static inline void counter_u64_free(counter_u64_t c)
{
	if (percpu_freebsd_early(c))
		percpu_static_counter_teardown(percpu_freebsd_early(c));
	else
		percpu_counter_destroy(percpu_freebsd_counter(c));
}

PERCPU_INLINE void counter_u64_add(counter_u64_t c, int64_t inc)
{
	if (percpu_unlikely(percpu_freebsd_early(c) != NULL))
		percpu_static_counter_add(percpu_freebsd_early(c), inc);
	else
		percpu_counter_add(percpu_freebsd_counter(c), inc);
}

/*
 * There is no critical section to enter in user space, and no need: an update
 * is whole by itself.
 */
#define counter_enter()                                                                            \
	do {                                                                                       \
	} while (0)
#define counter_exit()                                                                             \
	do {                                                                                       \
	} while (0)
#define counter_u64_add_protected(c, inc) counter_u64_add((c), (inc))

static inline uint64_t counter_u64_fetch(counter_u64_t c)
{
	if (percpu_freebsd_early(c))
		return percpu_static_counter_fetch(percpu_freebsd_early(c));
	return percpu_counter_fetch(percpu_freebsd_counter(c));
}

static inline void counter_u64_zero(counter_u64_t c)
{
	if (percpu_freebsd_early(c))
		percpu_static_counter_zero(percpu_freebsd_early(c));
	else
		percpu_counter_zero(percpu_freebsd_counter(c));
}

/* clang-format off */
/* Arrays of counter_u64_t; macros, as there, for a is an array or a pointer. */
#define COUNTER_ARRAY_ALLOC(a, n, wait) do {                                   \
	for (int percpu_i_ = 0; percpu_i_ < (int)(n); percpu_i_++)             \
		(a)[percpu_i_] = counter_u64_alloc(wait);                      \
} while (0)

#define COUNTER_ARRAY_FREE(a, n) do {                                          \
	for (int percpu_i_ = 0; percpu_i_ < (int)(n); percpu_i_++)             \
		counter_u64_free((a)[percpu_i_]);                              \
} while (0)

#define COUNTER_ARRAY_COPY(a, dstp, n) do {                                    \
	for (int percpu_i_ = 0; percpu_i_ < (int)(n); percpu_i_++)             \
		((uint64_t *)(dstp))[percpu_i_] =                              \
			counter_u64_fetch((a)[percpu_i_]);                     \
} while (0)

#define COUNTER_ARRAY_ZERO(a, n) do {                                          \
	for (int percpu_i_ = 0; percpu_i_ < (int)(n); percpu_i_++)             \
		counter_u64_zero((a)[percpu_i_]);                              \
} while (0)

/** Allocate c before main and free it after. */
#define COUNTER_U64_SYSINIT(c)                                                 \
	__attribute__((constructor)) static void c##_counter_sysinit(void)     \
	{                                                                      \
		(c) = counter_u64_alloc(M_WAITOK);                             \
	}                                                                      \
	__attribute__((destructor)) static void c##_counter_sysuninit(void)    \
	{                                                                      \
		counter_u64_free(c);                                           \
	}                                                                      \
	struct percpu_counter

/** Define c, a counter that works from the first instruction on; may follow
 *  "static". C only: it stands on a compound literal. */
#define COUNTER_U64_DEFINE_EARLY(c)                                            \
	counter_u64_t c = (counter_u64_t)(void *)                              \
		((char *)&(struct percpu_static_counter){ 0, 0 } + 1);         \
	__attribute__((constructor)) static void c##_counter_sysinit(void)     \
	{                                                                      \
		(void)percpu_static_counter_setup(percpu_freebsd_early(c));    \
	}                                                                      \
	__attribute__((destructor)) static void c##_counter_sysuninit(void)    \
	{                                                                      \
		counter_u64_free(c);                                           \
	}                                                                      \
	struct percpu_counter
/* clang-format on */

/*
 * Event rates: counter_ratecheck() counts an event and says whether it is
 * within the limit of the period. Unlike FreeBSD's, every event is counted,
 * also while another thread begins the next period.
 */

struct counter_rate {
	counter_u64_t cr_rate;
	int64_t cr_start;  /* of the period, in ms; atomic */
	int64_t cr_period; /* in ms */
	int cr_over;	   /* the limit was exceeded in this period; atomic */
};

/** Milliseconds of a clock that does not go back; and the current CPU, or 0.
 *  In the library, for strict C has no declarations for them. */
PERCPU_API int64_t percpu_freebsd_ms(void);
PERCPU_API unsigned percpu_freebsd_curcpu(void);

/** Allocate a rate with a period in seconds; NULL if there is no memory. */
static inline struct counter_rate *counter_rate_alloc(int flags, int period)
{
	struct counter_rate *cr = (struct counter_rate *)calloc(1, sizeof(*cr));

	if (cr == NULL)
		return NULL;
	cr->cr_rate = counter_u64_alloc(flags);
	if (cr->cr_rate == NULL) {
		free(cr);
		return NULL;
	}
	cr->cr_period = (int64_t)period * 1000;
	cr->cr_start = percpu_freebsd_ms();
	return cr;
}

static inline void counter_rate_free(struct counter_rate *cr)
{
	counter_u64_free(cr->cr_rate);
	free(cr);
}

/** Events of the running period. */
static inline uint64_t counter_rate_get(struct counter_rate *cr)
{
	int64_t start = __atomic_load_n(&cr->cr_start, __ATOMIC_ACQUIRE);

	return percpu_freebsd_ms() - start < cr->cr_period ? counter_u64_fetch(cr->cr_rate) : 0;
}

/**
 * Count an event. Returns -1 if the period has had more than limit; otherwise
 * 0, or, for the first event of a period, the events of the one before if
 * those were more than limit.
 */
static inline int64_t counter_ratecheck(struct counter_rate *cr, int64_t limit)
{
	int64_t start = __atomic_load_n(&cr->cr_start, __ATOMIC_ACQUIRE);
	int64_t now = percpu_freebsd_ms(), before = 0;

	if (now - start >= cr->cr_period &&
	    __atomic_compare_exchange_n(&cr->cr_start, &start, now, 0, __ATOMIC_ACQ_REL,
					__ATOMIC_RELAXED)) {
		before = (int64_t)percpu_counter_fetch_zero(percpu_freebsd_counter(cr->cr_rate));
		__atomic_store_n(&cr->cr_over, 0, __ATOMIC_RELEASE);
		if (before <= limit)
			before = 0;
	}
	counter_u64_add(cr->cr_rate, 1);
	if (__atomic_load_n(&cr->cr_over, __ATOMIC_RELAXED))
		return -1;
	if ((int64_t)counter_u64_fetch(cr->cr_rate) <= limit)
		return before;
	__atomic_store_n(&cr->cr_over, 1, __ATOMIC_RELAXED);
	return -1;
}

/* Zones of per-CPU items. Of uma(9), what UMA_ZONE_PCPU needs. */

#define UMA_ZONE_PCPU 0x8000
#define UMA_ALIGN_PTR (sizeof(void *) - 1)
#define UMA_ALIGN_LONG (sizeof(long) - 1)
#define UMA_ALIGN_INT (sizeof(int) - 1)
#define UMA_ALIGN_CACHE (64 - 1)

typedef struct percpu_zone *uma_zone_t;

#define curcpu percpu_freebsd_curcpu()
#define mp_ncpus ((int)percpu_status()->possible_cpus)
#define mp_maxid ((unsigned)mp_ncpus - 1)

/**
 * Create a zone; flags must have UMA_ZONE_PCPU. Constructors are not taken:
 * those of UMA see CPU 0's copy alone, so code that has one calls it itself.
 * Returns NULL if there is no memory, or an argument is not supported.
 */
static inline uma_zone_t uma_zcreate(const char *name, size_t size, void *ctor, void *dtor,
				     void *init, void *fini, int align, uint32_t flags)
{
	struct percpu_zone_options o;
	struct percpu_zone *z = NULL;

	memset(&o, 0, sizeof(o));
	o.size = sizeof(o);
	o.align = (size_t)align + 1 > 8 ? (size_t)align + 1 : 8;
	if (ctor != NULL || dtor != NULL || init != NULL || fini != NULL ||
	    !(flags & UMA_ZONE_PCPU) || percpu_zone_create(name, size, &o, &z) != 0)
		return NULL;
	return z;
}

static inline void uma_zdestroy(uma_zone_t zone)
{
	(void)percpu_zone_destroy(zone);
}

static inline void *uma_zalloc_pcpu(uma_zone_t zone, int flags)
{
	unsigned how = (flags & M_ZERO ? PERCPU_ZERO : 0) | (flags & M_WAITOK ? PERCPU_WAIT : 0);
	void *item = NULL;

	while (percpu_zone_alloc(zone, how, &item) == -ENOMEM && (flags & M_WAITOK))
		sched_yield();
	return item;
}

static inline void *uma_zalloc(uma_zone_t zone, int flags)
{
	return uma_zalloc_pcpu(zone, flags);
}

static inline void uma_zfree_pcpu(uma_zone_t zone, void *item)
{
	(void)percpu_zone_free(zone, item);
}

static inline void uma_zfree(uma_zone_t zone, void *item)
{
	uma_zfree_pcpu(zone, item);
}

static inline int uma_zone_set_max(uma_zone_t zone, int nitems)
{
	percpu_zone_set_limit(zone, (size_t)nitems);
	return nitems;
}

/* The copy of a CPU; of the current one, which may change at any moment. */
#define zpcpu_get_cpu(base, cpu) ((__typeof__(base))percpu_zone_get((void *)(base), (cpu)))
#define zpcpu_get(base) zpcpu_get_cpu((base), curcpu)

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * counter.h - FreeBSD's counter(9). What is promised beyond it: counting early
 * loses nothing, and counter_u64_zero() loses no add that runs meanwhile.
 *
 * Context: counter_u64_add() as percpu_counter_add(), signal handlers and
 * children of fork included; fetch and zero likewise; allocating and freeing
 * in any thread, but not in a signal handler.
 * Ordering: none for adds; a fetch includes the adds that happened before it.
 */
#ifndef PERCPU_FREEBSD_COUNTER_H
#define PERCPU_FREEBSD_COUNTER_H

#include <errno.h>
#include <sched.h>

#include <percpu/counter.h>

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

/**
 * What SYSINITs allocate is there in constructors without a priority, and in
 * destructors without one.
 */
#define PERCPU_SYSINIT __attribute__((constructor(65000)))
#define PERCPU_SYSUNINIT __attribute__((destructor(65000)))

/** Allocate c before main and free it after. */
#define COUNTER_U64_SYSINIT(c)                                                 \
	PERCPU_SYSINIT static void c##_counter_sysinit(void)                   \
	{                                                                      \
		(c) = counter_u64_alloc(M_WAITOK);                             \
	}                                                                      \
	PERCPU_SYSUNINIT static void c##_counter_sysuninit(void)               \
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
	PERCPU_SYSUNINIT static void c##_counter_sysuninit(void)               \
	{                                                                      \
		counter_u64_free(c);                                           \
	}                                                                      \
	struct percpu_counter
/* clang-format on */

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * counter.h - FreeBSD's counter(9). It promises two things that FreeBSD does not: early
 * adds are not lost, and counter_u64_zero() loses no add that runs meanwhile.
 *
 * What the calls have in common.
 * Context: counter_u64_add(), fetch and zero as percpu_counter_add(), signal handlers and
 * children of fork included. Allocating and freeing: any thread, but not a signal handler.
 * Ordering: none for adds; a fetch includes the adds that happened before it.
 * Progress: as percpu_counter_add() and so on; bounded, but other resets may delay a reset.
 * Allocating with M_WAITOK waits until there is memory.
 */
#ifndef PERCPU_FREEBSD_COUNTER_H
#define PERCPU_FREEBSD_COUNTER_H

#ifdef __SYS_COUNTER_H__
#error "this stands in for sys/counter.h, which was included before it"
#endif
#define __SYS_COUNTER_H__ /* makes the original empty if it is included later */

#include <percpu/counter.h>
#include <percpu/freebsd/malloc_flags.h>

PERCPU_BEGIN_DECLS

/**
 * A counter. An odd value is a static counter, of COUNTER_U64_DEFINE_EARLY.
 *
 * FreeBSD has a pointer to uint64_t here. This is another type, because a cell is not the
 * counter: a reset does not clear the cell, and some adds of its CPU go elsewhere. So code
 * that would read or store a cell does not compile, such as zpcpu_get_cpu(). zpcpu_get() of pcpu.h
 * returns a word for additions in a critical section. The struct has
 * the size of a word, because an item of a zone may be several counters: c + 1 is the one
 * behind c.
 */
typedef struct percpu_freebsd_counter *counter_u64_t;
struct percpu_freebsd_counter {
	uint64_t word;
};

PERCPU_INLINE struct percpu_counter *percpu_freebsd_counter(counter_u64_t c)
{
	return (struct percpu_counter *)(void *)c;
}

/** Return the static counter behind an early counter; NULL if c is not early. */
PERCPU_INLINE struct percpu_static_counter *percpu_freebsd_early(counter_u64_t c)
{
	if (percpu_likely(((uintptr_t)c & 1) == 0))
		return PERCPU_NULL(struct percpu_static_counter *);
	return (struct percpu_static_counter *)(void *)((char *)c - 1);
}

PERCPU_API counter_u64_t percpu_freebsd_counter_alloc(int wait);

/** Allocate a counter that is 0. With M_WAITOK wait until there is memory; otherwise
 *  return NULL if there is none. */
static inline counter_u64_t counter_u64_alloc(int flags)
{
	return percpu_freebsd_counter_alloc((flags & M_WAITOK) != 0);
}

/** The static counter that takes all adds to EARLY_COUNTER of a program or a shared library.
 *  EARLY_COUNTER is the value of a counter_u64_t before its counter is allocated. */
__attribute__((__weak__,
	       __visibility__("hidden"))) struct percpu_static_counter percpu_freebsd_nowhere =
	PERCPU_STATIC_COUNTER_INIT;
#define EARLY_COUNTER                                                                              \
	PERCPU_POINTER(counter_u64_t, PERCPU_POINTER(char *, &percpu_freebsd_nowhere) + 1)

static inline void counter_u64_free(counter_u64_t c)
{
	if (percpu_freebsd_early(c))
		percpu_static_counter_teardown(percpu_freebsd_early(c));
	else
		percpu_counter_destroy(percpu_freebsd_counter(c));
}

/* The type of what is added. FreeBSD has int64_t. Its first announcement had uint64_t: a source
 * that repeats that prototype defines this as uint64_t before it includes the header. */
#ifndef PERCPU_COUNTER_U64_INC
#define PERCPU_COUNTER_U64_INC int64_t
#endif

PERCPU_INLINE void counter_u64_add(counter_u64_t c, PERCPU_COUNTER_U64_INC inc)
{
	if (percpu_unlikely(percpu_freebsd_early(c) != NULL))
		percpu_static_counter_add(percpu_freebsd_early(c), (int64_t)inc);
	else
		percpu_counter_add(percpu_freebsd_counter(c), (int64_t)inc);
}

/* Adding needs no critical section: it is one commit. */
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

/** Read and reset a counter at once, as percpu_counter_fetch_zero(). */
static inline uint64_t percpu_freebsd_fetch_zero(counter_u64_t c)
{
	if (percpu_freebsd_early(c))
		return percpu_static_counter_fetch_zero(percpu_freebsd_early(c));
	return percpu_counter_fetch_zero(percpu_freebsd_counter(c));
}

/* FreeBSD's kernel uses these internally. Here they are the same as the calls above. */
#define counter_u64_fetch_inline(c) counter_u64_fetch(c)
#define counter_u64_zero_inline(c) counter_u64_zero(c)

/** Allocate a counter. A SYSINIT calls this with the address of a counter_u64_t. */
static inline void counter_u64_sysinit(void *arg)
{
	*(counter_u64_t *)arg = counter_u64_alloc(M_WAITOK);
}

/** Free a counter. A SYSUNINIT calls this with the address of a counter_u64_t. */
static inline void counter_u64_sysuninit(void *arg)
{
	counter_u64_free(*(counter_u64_t *)arg);
}

/* clang-format off */
/* Arrays of counter_u64_t. These are macros, as in FreeBSD, because a is an array or a
 * pointer. */
#define COUNTER_ARRAY_ALLOC(a, n, wait) do {                                   \
	for (int percpu_i_ = 0; percpu_i_ < PERCPU_NUMBER(int, n); percpu_i_++)             \
		(a)[percpu_i_] = counter_u64_alloc(wait);                      \
} while (0)

#define COUNTER_ARRAY_FREE(a, n) do {                                          \
	for (int percpu_i_ = 0; percpu_i_ < PERCPU_NUMBER(int, n); percpu_i_++)             \
		counter_u64_free((a)[percpu_i_]);                              \
} while (0)

#define COUNTER_ARRAY_COPY(a, dstp, n) do {                                    \
	for (int percpu_i_ = 0; percpu_i_ < PERCPU_NUMBER(int, n); percpu_i_++)             \
		PERCPU_POINTER(uint64_t *, dstp)[percpu_i_] =          \
			counter_u64_fetch((a)[percpu_i_]);                     \
} while (0)

#define COUNTER_ARRAY_ZERO(a, n) do {                                          \
	for (int percpu_i_ = 0; percpu_i_ < PERCPU_NUMBER(int, n); percpu_i_++)             \
		counter_u64_zero((a)[percpu_i_]);                              \
} while (0)

/** The attributes of constructors and destructors that allocate and free objects of a SYSINIT.
 *  Constructors and destructors without a priority find these objects. */
#define PERCPU_SYSINIT __attribute__((__constructor__(65000)))
#define PERCPU_SYSUNINIT __attribute__((__destructor__(65000)))

/** Allocate c before main, and free it after main. */
#define COUNTER_U64_SYSINIT(c)                                                 \
	PERCPU_SYSINIT static void c##_counter_sysinit(void)                   \
	{                                                                      \
		(c) = counter_u64_alloc(M_WAITOK);                             \
	}                                                                      \
	PERCPU_SYSUNINIT static void c##_counter_sysuninit(void)               \
	{                                                                      \
		counter_u64_free(c);                                           \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")

/** Define c, a counter that works from the first instruction on. It may follow "static".
 *  C only, because it needs a compound literal. */
#define COUNTER_U64_DEFINE_EARLY(c)                                            \
	counter_u64_t c = (counter_u64_t)(void *)                              \
		((char *)&(struct percpu_static_counter){ 0, 0 } + 1);         \
	__attribute__((__constructor__)) static void c##_counter_sysinit(void)     \
	{                                                                      \
		(void)percpu_static_counter_setup(percpu_freebsd_early(c));    \
	}                                                                      \
	PERCPU_SYSUNINIT static void c##_counter_sysuninit(void)               \
	{                                                                      \
		counter_u64_free(c);                                           \
	}                                                                      \
	PERCPU_ASSERT(1, "a semicolon follows")
/* clang-format on */

PERCPU_END_DECLS

/* Return the copy of an item that is offset bytes behind the copy of CPU 0. A counter does not
 * compile. */
#ifdef __cplusplus
extern "C++" { /* programs may wrap includes of C headers in extern "C" */
template <typename T> static inline T *percpu_freebsd_copy(T *base, size_t offset)
{
	return reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(base) + offset);
}
void percpu_freebsd_copy(counter_u64_t counter, size_t offset) = delete;
}
#define PERCPU_FREEBSD_COPY(base, offset) percpu_freebsd_copy((base), (offset))
#else
#define PERCPU_FREEBSD_COPY(base, offset)                                                          \
	((__typeof__(base))((uintptr_t)(base) + PERCPU_FREEBSD_ITEM(base) * (offset)))
#define PERCPU_FREEBSD_ITEM(base)                                                                  \
	PERCPU_CHECKED(!__builtin_types_compatible_p(__typeof__(base), counter_u64_t),             \
		       "a counter has no copies to look at: take an item of pcpu_zone_8")
#endif

/* The number 1. Does not compile, and says why, unless the object has 8 bytes. */
#ifdef __cplusplus
extern "C++" {
template <typename T> struct percpu_freebsd_word {
	static_assert(sizeof(T) == 8, "a counter of 8 bytes");
};
template <typename T> percpu_freebsd_word<T> percpu_freebsd_word_of(const T &object);
}
#define PERCPU_FREEBSD_WORD(object) sizeof(percpu_freebsd_word_of(object))
#else
#define PERCPU_FREEBSD_WORD(object) PERCPU_CHECKED(sizeof(object) == 8, "a counter of 8 bytes")
#endif

/* Another sys/pcpu.h may have been included, for zones of another allocator. Replace its
 * zpcpu_get(), which would look for copies that a counter does not have. */
#if defined(zpcpu_get) && defined(zpcpu_offset)
#undef zpcpu_get
#undef zpcpu_get_cpu
#define zpcpu_get(base) PERCPU_FREEBSD_COPY(base, (uintptr_t)(zpcpu_offset()))
#define zpcpu_get_cpu(base, cpu) PERCPU_FREEBSD_COPY(base, (uintptr_t)(zpcpu_offset_cpu(cpu)))
#endif

#endif

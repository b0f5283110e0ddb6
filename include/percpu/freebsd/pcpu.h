/* SPDX-License-Identifier: MIT */
/*
 * pcpu.h - FreeBSD's access to the copies of an item of a zone (sys/pcpu.h). The item must
 * be from uma.h: another allocator has its copies elsewhere.
 *
 * What the calls have in common, unless one says otherwise.
 * Context: any thread, signal handlers; mp_ncpus not in a signal handler, because it may
 * start the self-test (percpu_status()).
 * Ordering: none.
 * Progress: no lock, no waiting.
 */
#ifndef PERCPU_FREEBSD_PCPU_H
#define PERCPU_FREEBSD_PCPU_H

#include <percpu/freebsd/uma.h>

/* Remove macros of another sys/pcpu.h that was included before. One that is included later
 * redefines the macros here, and compilers warn of that. */
#undef zpcpu_get
#undef zpcpu_get_cpu
#undef zpcpu_offset
#undef zpcpu_offset_cpu
#undef zpcpu_base_to_offset
#undef zpcpu_offset_to_base
#undef zpcpu_replace
#undef zpcpu_replace_cpu
#undef zpcpu_set_protected
#undef zpcpu_add
#undef zpcpu_sub
#undef zpcpu_add_protected
#undef zpcpu_sub_protected
#undef UMA_PCPU_ALLOC_SIZE

PERCPU_BEGIN_DECLS

PERCPU_API unsigned percpu_freebsd_curcpu_slow(void);

/** Return the number of the current CPU; 0 if it is not known. */
PERCPU_INLINE unsigned percpu_freebsd_curcpu(void)
{
	const int32_t cpu = percpu_seq_cpu();

	return percpu_likely(cpu >= 0) ? (unsigned)cpu : percpu_freebsd_curcpu_slow();
}

/** Return how many CPUs there can be: the highest possible number + 1. */
PERCPU_API int percpu_freebsd_ncpus(void);

static inline size_t percpu_freebsd_offset(int64_t cpu)
{
	return PERCPU_STRIDE * (size_t)cpu;
}

/** The distance between the copies of two CPUs, in bytes. An item has at most
 *  PERCPU_LANE_SIZE bytes. */
#define UMA_PCPU_ALLOC_SIZE PERCPU_STRIDE

#define zpcpu_offset_cpu(cpu) percpu_freebsd_offset(cpu)
#define zpcpu_offset() zpcpu_offset_cpu(percpu_freebsd_curcpu())

/* An item's address is its address in CPU 0's lane. */
#define zpcpu_base_to_offset(base) (base)
#define zpcpu_offset_to_base(base) (base)

/** Return the copy of a CPU. A counter has no copies, and does not compile. */
#define zpcpu_get_cpu(base, cpu) PERCPU_FREEBSD_COPY(base, zpcpu_offset_cpu(cpu))

/** Return the copy of the current CPU. The thread may move to another CPU at any moment. */
#define zpcpu_get(base) PERCPU_FREEBSD_COPY(base, zpcpu_offset())

/* clang-format off */
/** Store val to a copy, and return the copy's old value: by a load and a store, as in FreeBSD.
 *  No other thread may store to that copy meanwhile. */
#define zpcpu_replace_cpu(base, val, cpu) __extension__({                      \
	__typeof__(*(base)) *percpu_copy_ = zpcpu_get_cpu(base, cpu);          \
	__typeof__(*(base)) percpu_old_ = *percpu_copy_;                       \
	*percpu_copy_ = (val);                                                 \
	percpu_old_;                                                           \
})
#define zpcpu_replace(base, val)                                               \
	zpcpu_replace_cpu(base, val, percpu_freebsd_curcpu())
/* clang-format on */

PERCPU_API void percpu_freebsd_zpcpu_add(void *base, int64_t n);

/**
 * Add to, or subtract from, the current CPU's copy of an 8-byte integer in an item. No
 * addition is lost, even if the thread is moved to another CPU meanwhile. The sum over the
 * copies of all CPUs is exact if nothing else stores to them. If base points to an object
 * of another size than 8 bytes, a static assertion fails.
 *
 * Context: any thread, signal handlers, children of fork. In a program without a zone of
 * uma_zcreate() the first addition to an item of a percpu_zone allocates memory, so it must
 * not be in a signal handler.
 * Ordering: none.
 * Progress: bounded. The addition is a sequence. If the sequence was aborted a few times, or
 * the thread cannot run sequences, it is an atomic addition to the copy of the thread's CPU,
 * behind a guard. In a sandbox that allows neither getcpu(2) nor a fence (percpu_fence()), or
 * if a fence times out after a second, such an addition goes to a word beside the copies.
 * The sum of the copies lacks that word. counter_u64_fetch() of the integer's address, cast
 * to counter_u64_t, includes it.
 */
#define zpcpu_add_protected(base, n)                                                               \
	percpu_freebsd_zpcpu_add((base), PERCPU_NUMBER(int64_t, n) * PERCPU_ZPCPU_CHECK(base))
#define zpcpu_sub_protected(base, n)                                                               \
	percpu_freebsd_zpcpu_add((base), -PERCPU_NUMBER(int64_t, n) * PERCPU_ZPCPU_CHECK(base))
#define zpcpu_add(base, n) zpcpu_add_protected(base, n)
#define zpcpu_sub(base, n) zpcpu_sub_protected(base, n)

/** 1 if base points to a number of 8 bytes. Otherwise it does not compile: a counter is not a
 *  number. */
#define PERCPU_ZPCPU_CHECK(base) PERCPU_NUMBER(int64_t, PERCPU_FREEBSD_WORD(*(base) + 0))

PERCPU_END_DECLS

#endif

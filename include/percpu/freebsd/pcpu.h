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
#include <percpu/section.h>

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

/** Return the number of the current CPU; 0 if it is not known. In a critical section: the number
 *  of the CPU whose copies this thread has, also if it runs on another one meanwhile. */
PERCPU_INLINE unsigned percpu_freebsd_curcpu(void)
{
#ifndef PERCPU_LATE
	const int32_t cpu = percpu_seq_cpu();

	if (percpu_likely(cpu >= 0 && __atomic_load_n(&percpu_section_ever, __ATOMIC_RELAXED) == 0))
		return (unsigned)cpu;
#endif
	return percpu_section_cpu();
}

/**
 * Enter or exit a critical section. Inside, the copies of the CPU curcpu are this thread's alone,
 * and *zpcpu_get(c) of a counter is a word that the end of the section adds to the counter. percpu/
 * section.h has the rules. Sections nest.
 */
static inline void critical_enter(void)
{
	percpu_section_enter();
}

static inline void critical_exit(void)
{
	percpu_section_exit();
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

/**
 * Return the copy of the current CPU. Outside of critical sections the thread may move to another
 * CPU at any moment. Of a counter, in a critical section only: return a word (uint64_t *) of this
 * section, for plain additions. The section's end adds it to the counter.
 */
#ifdef __cplusplus
extern "C++" {
template <typename T> static inline T *percpu_freebsd_here(T *base)
{
	return percpu_freebsd_copy(base, zpcpu_offset());
}
inline uint64_t *percpu_freebsd_here(counter_u64_t counter)
{
	return percpu_section_word(counter);
}
}
#define zpcpu_get(base) percpu_freebsd_here(base)
#else
#define zpcpu_get(base)                                                                            \
	__builtin_choose_expr(__builtin_types_compatible_p(__typeof__(base), counter_u64_t),       \
			      percpu_section_word((void *)(uintptr_t)(base)),                      \
			      (__typeof__(base))((uintptr_t)(base) + zpcpu_offset()))
#endif

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

/**
 * Add to, or subtract from, the current CPU's copy of an integer of 4 or 8 bytes in an item. No
 * addition is lost, even if the thread is moved to another CPU meanwhile. The sum over the
 * copies of all CPUs is exact, also if other threads change the copies in critical sections. If
 * base points to an object of another size than 4 or 8 bytes, a static assertion fails.
 *
 * Context: any thread, signal handlers, children of fork. In a program without a zone of
 * uma_zcreate() the first addition to an item of a percpu_zone allocates memory, so it must
 * not be in a signal handler.
 * Ordering: none.
 * Progress: as percpu_section_add(). In a sandbox that allows neither getcpu(2) nor a fence, an
 * addition of 8 bytes may go to a word beside the copies. The sum of the copies lacks that word.
 * counter_u64_fetch() of the integer's address, cast to counter_u64_t, includes it.
 */
#define zpcpu_add_protected(base, n)                                                               \
	percpu_section_add((base), PERCPU_NUMBER(int64_t, n) * PERCPU_ZPCPU_CHECK(base),           \
			   sizeof(*(base)))
#define zpcpu_sub_protected(base, n)                                                               \
	percpu_section_add((base), -PERCPU_NUMBER(int64_t, n) * PERCPU_ZPCPU_CHECK(base),          \
			   sizeof(*(base)))
#define zpcpu_add(base, n) zpcpu_add_protected(base, n)
#define zpcpu_sub(base, n) zpcpu_sub_protected(base, n)

/* The number 1. Does not compile, and says why, unless base points to an integer of 4 or 8 bytes.
 * A counter is no integer. */
#ifdef __cplusplus
extern "C++" {
template <typename T> struct percpu_freebsd_integer {
	static_assert(sizeof(T) == 4 || sizeof(T) == 8, "an integer of 4 or 8 bytes");
	char one;
};
template <typename T> percpu_freebsd_integer<T> percpu_freebsd_integer_of(const T &object);
}
#define PERCPU_FREEBSD_INTEGER(base) sizeof(percpu_freebsd_integer_of(*(base)))
#else
#define PERCPU_FREEBSD_INTEGER(base)                                                               \
	PERCPU_CHECKED(sizeof(*(base)) == 4 || sizeof(*(base)) == 8, "an integer of 4 or 8 bytes")
#endif
#define PERCPU_ZPCPU_CHECK(base)                                                                   \
	PERCPU_NUMBER(int64_t, PERCPU_FREEBSD_INTEGER(base) + 0 * sizeof(*(base) | 0))

PERCPU_END_DECLS

#endif

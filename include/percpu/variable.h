/* SPDX-License-Identifier: MIT */
/*
 * variable.h - variables at file scope of which every CPU has a copy. Each
 * copy begins with the initial value. The idea is from FreeBSD's dynamic per-CPU
 * variables (DPCPU) and Linux's DEFINE_PER_CPU.
 *
 *	static PERCPU_VARIABLE(uint64_t, packets);
 *	static PERCPU_VARIABLE(struct limits, limits) = { .burst = 32 };
 *
 *	PERCPU_VARIABLE_ADD(packets, 1);
 *	PERCPU_VARIABLE_PTR(limits, cpu)->burst = 64;
 *
 * The variables of a program or shared library form one image, which a
 * constructor copies for each CPU. percpu.h does not include this header, because it
 * adds that constructor to each program or shared library that includes it.
 */
#ifndef PERCPU_VARIABLE_H
#define PERCPU_VARIABLE_H

#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common.
 *
 * Context: any thread, constructors included; children of fork. After the constructor has
 * set up the image, all but percpu_image_setup() also in signal handlers.
 * Ordering: none for adds (as memory_order_relaxed). A sum includes the adds that
 * happened before it.
 * Progress: the first call takes a lock of the process, and makes the copies. Later calls
 * take no lock: an add is bounded, as percpu_counter_add(), and a sum loads each lane once.
 */

/** The variables of one program or library. The fields are the library's. */
struct percpu_image {
	const char *start, *stop; /* the initial values */
	intptr_t distance;	  /* from a variable to CPU 0's copy */
	size_t stride;		  /* from a copy to the next CPU's; 0: there are no copies */
	struct percpu_chunk *chunk;
	int error; /* the result of a setup that failed; later calls return it again */
};

/* The linker defines these as the bounds of the section, unless it is empty. */
extern const char __start_percpu_variables[] __attribute__((__weak__, __visibility__("hidden")));
extern const char __stop_percpu_variables[] __attribute__((__weak__, __visibility__("hidden")));

/** The image of this program or library. All its units share it, because it is weak. */
__attribute__((__weak__, __visibility__("hidden"))) struct percpu_image percpu_image = {
	__start_percpu_variables,
	__stop_percpu_variables,
	0,
	0,
	PERCPU_NULL(struct percpu_chunk *),
	0
};

/**
 * Make the copies, unless that was done before. The constructor calls this. If an earlier
 * constructor uses a variable, the functions below call it.
 *
 * Returns 0, or -ENOMEM or -E2BIG (more CPUs than PERCPU_MAX_CPUS). After a
 * failure, all CPUs share the image itself as their one copy, for good. Adds
 * are then atomic, and exact.
 *
 * Context: any thread, not a signal handler.
 */
PERCPU_API int percpu_image_setup(struct percpu_image *image);

void percpu_image_constructor(void);
__attribute__((__weak__, __visibility__("hidden"), __constructor__(101))) void
percpu_image_constructor(void)
{
	(void)percpu_image_setup(&percpu_image);
}

/* The macros below call these. */
PERCPU_API void *percpu_variable_at(struct percpu_image *image, void *variable, unsigned cpu);
PERCPU_API void percpu_variable_add_slow(struct percpu_image *image, uint64_t *variable, int64_t n);
PERCPU_API uint64_t percpu_variable_sum(struct percpu_image *image, const uint64_t *variable);

PERCPU_INLINE void percpu_variable_add(struct percpu_image *image, uint64_t *variable, int64_t n)
{
	size_t stride = __atomic_load_n(&image->stride, __ATOMIC_ACQUIRE);

	/* The compiler must not move accesses to the copy across the sequence: the program
	 * may have a pointer to it. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (percpu_unlikely(stride == 0 ||
			    percpu_seq_add((char *)variable + image->distance, stride, n)))
		percpu_variable_add_slow(image, variable, n);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* clang-format off */

/** Define a variable, at file scope or in a function. "static" may stand in front, and an
 *  initializer behind. The type is not const, and has an alignment of at most 64 bytes.
 *  The function must not be an inline function or template of C++. (GCC reports a const type or
 *  such a function as "section type conflict": the variable needs a section of another kind.) */
#define PERCPU_VARIABLE(type, name)                                            \
	__attribute__((__section__("percpu_variables"))) __typeof__(type) percpu_variable_##name

/** Declare a variable that another unit of the program or library defines. */
#define PERCPU_VARIABLE_DECLARE(type, name)                                    \
	extern __attribute__((__visibility__("hidden"))) __typeof__(type) percpu_variable_##name

/**
 * Return the address of a CPU's copy; cpu must be below percpu_status()->possible_cpus.
 * The program decides what stores to the copy: one thread that is pinned to the CPU, or
 * percpu_seq_*() sequences.
 */
#define PERCPU_VARIABLE_PTR(name, cpu)                                         \
	PERCPU_POINTER(__typeof__(&percpu_variable_##name),                    \
		       percpu_variable_at(&percpu_image,                       \
					  PERCPU_VARIABLE_COPIED(name), (cpu)))

/* Return the address of the variable in the image. This does not compile if the variable is
 * const. PERCPU_VARIABLE_WORD() also does not compile if it is not a uint64_t. */
#ifdef __cplusplus
#define PERCPU_VARIABLE_COPIED(name) &percpu_variable_##name
#define PERCPU_VARIABLE_WORD(name) &percpu_variable_##name
#else
#define PERCPU_VARIABLE_COPIED(name)                                           \
	(&percpu_variable_##name +                                             \
	 0 * PERCPU_CHECKED(!__builtin_types_compatible_p(                     \
				    __typeof__(&percpu_variable_##name),       \
				    const __typeof__(percpu_variable_##name) *), \
			    "a variable with a copy per CPU is not const"))
#define PERCPU_VARIABLE_WORD(name)                                             \
	(&percpu_variable_##name +                                             \
	 0 * PERCPU_CHECKED(_Generic(&percpu_variable_##name, uint64_t *: 1, default: 0), \
			    "PERCPU_VARIABLE_ADD() and _SUM() take a uint64_t"))
#endif

/** Add n to this CPU's copy of a variable of type uint64_t, as percpu_counter_add(). */
#define PERCPU_VARIABLE_ADD(name, n)                                           \
	percpu_variable_add(&percpu_image, PERCPU_VARIABLE_WORD(name), (n))

/** Return the sum of all copies of a variable of type uint64_t, as percpu_counter_fetch(). An
 *  initial value counts once per CPU. */
#define PERCPU_VARIABLE_SUM(name)                                              \
	percpu_variable_sum(&percpu_image, PERCPU_VARIABLE_WORD(name))

/* clang-format on */

PERCPU_END_DECLS

#endif

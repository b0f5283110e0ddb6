/* SPDX-License-Identifier: MIT */
/*
 * variable.h - variables at file scope that every CPU has a copy of, each
 * copy beginning with the initial value. After FreeBSD's dynamic per-CPU
 * variables (DPCPU) and Linux's DEFINE_PER_CPU.
 *
 *	static PERCPU_VARIABLE(uint64_t, packets);
 *	static PERCPU_VARIABLE(struct limits, limits) = { .burst = 32 };
 *
 *	PERCPU_VARIABLE_ADD(packets, 1);
 *	PERCPU_VARIABLE_PTR(limits, cpu)->burst = 64;
 *
 * The variables of a program or shared library form one image, which a
 * constructor copies for each CPU. This header is not part of percpu.h: it
 * gives the object that includes it that constructor.
 */
#ifndef PERCPU_VARIABLE_H
#define PERCPU_VARIABLE_H

#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * What the calls of this header have in common.
 *
 * Context: any thread, constructors included; children of fork. Once the image was set up,
 * which its constructor does, all but percpu_image_setup() in signal handlers, too.
 * Ordering: an add orders nothing (as memory_order_relaxed); a sum includes the adds that
 * happened before it.
 * Progress: what comes first takes a lock of the process, and makes the copies; from then
 * on there is none: an add is bounded, as percpu_counter_add(), a sum loads each lane
 * once.
 */

/** The variables of one program or library. The fields are the library's. */
struct percpu_image {
	const char *start, *stop; /* the initial values */
	intptr_t distance;	  /* from a variable to CPU 0's copy */
	size_t stride;		  /* to the next CPU's; 0: there are no copies (yet) */
	struct percpu_chunk *chunk;
	int error; /* of the set-up, once it was tried */
};

/* The linker's names for the bounds of the section; absent if it is empty. */
extern const char __start_percpu_variables[] __attribute__((__weak__, __visibility__("hidden")));
extern const char __stop_percpu_variables[] __attribute__((__weak__, __visibility__("hidden")));

/** One for all units of a program or library. */
__attribute__((__weak__, __visibility__("hidden"))) struct percpu_image percpu_image = {
	__start_percpu_variables, __stop_percpu_variables, 0, 0, NULL, 0
};

/**
 * Make the copies, unless that was done. The constructor calls it, and so does
 * what uses a variable before that.
 *
 * Returns 0, or -ENOMEM or -E2BIG (more CPUs than PERCPU_MAX_CPUS). After a
 * failure all CPUs share the image itself as their one copy, for good: adds
 * stay exact, being atomic then.
 *
 * Not in a signal handler.
 */
PERCPU_API int percpu_image_setup(struct percpu_image *image);

void percpu_image_constructor(void);
__attribute__((__weak__, __visibility__("hidden"), __constructor__(101))) void
percpu_image_constructor(void)
{
	(void)percpu_image_setup(&percpu_image);
}

/* What the macros below call. */
PERCPU_API void *percpu_variable_at(struct percpu_image *image, void *variable, unsigned cpu);
PERCPU_API void percpu_variable_add_slow(struct percpu_image *image, uint64_t *variable, int64_t n);
PERCPU_API uint64_t percpu_variable_sum(struct percpu_image *image, const uint64_t *variable);

PERCPU_INLINE void percpu_variable_add(struct percpu_image *image, uint64_t *variable, int64_t n)
{
	size_t stride = __atomic_load_n(&image->stride, __ATOMIC_ACQUIRE);

	/* The fences are for the compiler: the program may have pointers to copies. */
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (percpu_unlikely(stride == 0 ||
			    percpu_seq_add((char *)variable + image->distance, stride, n)))
		percpu_variable_add_slow(image, variable, n);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* clang-format off */

/** Define a variable: may follow "static", and have an initializer. Its type
 *  asks for no more than 64 bytes of alignment, and is not const. At file scope or in a
 *  function, but not in one that C++ may have in several units (inline, a template):
 *  what is const, or may be there twice, is in a section of another kind, and GCC says
 *  "section type conflict". */
#define PERCPU_VARIABLE(type, name)                                            \
	__attribute__((__section__("percpu_variables"))) __typeof__(type) percpu_variable_##name

/** Declare one that another unit of the program or library defines. */
#define PERCPU_VARIABLE_DECLARE(type, name)                                    \
	extern __attribute__((__visibility__("hidden"))) __typeof__(type) percpu_variable_##name

/**
 * The address of a CPU's copy, which must be below percpu_status()->
 * possible_cpus. To change it is the business of whoever owns it: the thread
 * that is pinned to the CPU, or percpu_seq_*() sequences.
 */
#define PERCPU_VARIABLE_PTR(name, cpu)                                         \
	PERCPU_POINTER(__typeof__(&percpu_variable_##name),                    \
		       percpu_variable_at(&percpu_image,                       \
					  PERCPU_VARIABLE_COPIED(name), (cpu)))

/* The address of what is copied; refuses what is const. */
#ifdef __cplusplus
#define PERCPU_VARIABLE_COPIED(name) &percpu_variable_##name
#else
#define PERCPU_VARIABLE_COPIED(name)                                           \
	(&percpu_variable_##name +                                             \
	 0 * sizeof(struct {                                                   \
		 char one;                                                     \
		 _Static_assert(!__builtin_types_compatible_p(                 \
					__typeof__(&percpu_variable_##name),   \
					const __typeof__(percpu_variable_##name) *), \
				"a variable with a copy per CPU is not const");     \
	 }))
#endif

/**
 * Add n to the copy of this CPU, exactly, as percpu_counter_add(); and the sum
 * of all copies, as percpu_counter_fetch(): an initial value counts once per
 * CPU. For variables of type uint64_t.
 */
#define PERCPU_VARIABLE_ADD(name, n)                                           \
	percpu_variable_add(&percpu_image, &percpu_variable_##name, (n))
#define PERCPU_VARIABLE_SUM(name)                                              \
	percpu_variable_sum(&percpu_image, &percpu_variable_##name)

/* clang-format on */

PERCPU_END_DECLS

#endif

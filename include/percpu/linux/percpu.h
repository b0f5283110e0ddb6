/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - Linux's per-CPU data (linux/percpu.h) under its own names, on sections
 * (percpu/section.h) and, for DEFINE_PER_CPU(), on variable.h.
 *
 * Differences: get_cpu_ptr() and get_cpu_var() do not disable preemption. They let the thread have
 * the copies of one CPU until put_cpu_ptr() or put_cpu_var(), also if it is preempted or moved.
 * this_cpu_add() and the like are for integers of 1, 2, 4 and 8 bytes. They are exact beside each
 * other and beside such sections.
 *
 * What the calls have in common, unless one says otherwise.
 * Context: any thread, signal handlers, children of fork, as sections. Allocating and freeing, and
 * the first use of a variable before main(): not in a signal handler.
 * Ordering: none for this_cpu_*(); for sections as percpu_section_exit().
 * Progress: as percpu_section_add() and percpu_section_cpu().
 */
#ifndef PERCPU_LINUX_PERCPU_H
#define PERCPU_LINUX_PERCPU_H

#ifdef __LINUX_PERCPU_H
#error "this stands in for linux/percpu.h, which was included before it"
#endif
#define __LINUX_PERCPU_H /* makes the original empty if it is included later */

#include <percpu/section.h>
#include <percpu/variable.h>

PERCPU_BEGIN_DECLS

#ifndef __percpu
#define __percpu
#endif

PERCPU_API void *percpu_linux_variable(struct percpu_image *image, void *variable);

/* Return CPU 0's copy of an item, or of a variable. */
static inline void *percpu_linux_first(const volatile void *p)
{
	const uintptr_t at = (uintptr_t)p, start = (uintptr_t)percpu_image.start;

	if (at - start < (uintptr_t)percpu_image.stop - start)
		return percpu_linux_variable(&percpu_image, (void *)at);
	return (void *)at;
}

/** Allocate an item of that type with a copy for each CPU, of zeros; NULL if there is no memory, or
 *  the size is above PERCPU_SECTION_MAX_SIZE, or the alignment above 64. */
#define alloc_percpu(type)                                                                         \
	PERCPU_POINTER(__typeof__(type) *, percpu_section_alloc(sizeof(type), __alignof__(type)))
#define alloc_percpu_gfp(type, gfp) ((void)(gfp), alloc_percpu(type))
#define __alloc_percpu(size, align) percpu_section_alloc((size), (align))
#define __alloc_percpu_gfp(size, align, gfp) ((void)(gfp), __alloc_percpu(size, align))

/** Free an item. NULL is fine. */
static inline void free_percpu(void *item)
{
	percpu_section_free(item);
}

/** Return the copy of a CPU. */
#define per_cpu_ptr(p, cpu)                                                                        \
	PERCPU_POINTER(__typeof__(p),                                                              \
		       percpu_section_copy(percpu_linux_first(p), PERCPU_NUMBER(unsigned, cpu)))

/** Return the copy of the CPU whose copies this thread has; outside of sections that of the CPU it
 *  is on, which it may leave at any moment. */
#define this_cpu_ptr(p) per_cpu_ptr(p, percpu_section_cpu())
#define raw_cpu_ptr(p) this_cpu_ptr(p)

/** Begin a section, and return the copy that is this thread's alone until its end. Sections
 *  nest. */
#define get_cpu_ptr(p) (percpu_section_enter(), this_cpu_ptr(p))
#define put_cpu_ptr(p) ((void)(p), percpu_section_exit())

/* Variables. DEFINE_PER_CPU() may follow "static", and an initializer may follow. All variables of
 * a program or a shared library have 64 KiB together; else their first use prints a sentence and
 * aborts, as it does without memory. */
#define DEFINE_PER_CPU(type, name)                                                                 \
	__attribute__((__section__("percpu_variables"))) __typeof__(type) name
#define DECLARE_PER_CPU(type, name)                                                                \
	extern __attribute__((__visibility__("hidden"))) __typeof__(type) name
#define per_cpu(name, cpu) (*per_cpu_ptr(&(name), cpu))
#define get_cpu_var(name) (*get_cpu_ptr(&(name)))
#define put_cpu_var(name) put_cpu_ptr(&(name))

/* clang-format off */

/* The size of an integer of at most 8 bytes. Nothing else compiles. */
#define PERCPU_LINUX_SIZE(word)                                                \
	(sizeof(word) * sizeof(char[sizeof(word) <= 8 ? 1 : -1]) + 0 * sizeof((word) | 0))

/** Operations on an integer: a variable, or a part of the item that a pointer has. */
#define this_cpu_add(word, n)                                                  \
	percpu_section_add(percpu_linux_first(&(word)), PERCPU_NUMBER(int64_t, n),     \
			   PERCPU_LINUX_SIZE(word))
#define this_cpu_sub(word, n) this_cpu_add(word, -PERCPU_NUMBER(int64_t, n))
#define this_cpu_inc(word) this_cpu_add(word, 1)
#define this_cpu_dec(word) this_cpu_add(word, -1)
#define this_cpu_read(word)                                                    \
	__atomic_load_n(this_cpu_ptr(&(word)), __ATOMIC_RELAXED)
#define this_cpu_write(word, value) __extension__({                            \
	const __typeof__(word) percpu_value_ = (value);                        \
	percpu_section_enter();                                                \
	__atomic_store_n(this_cpu_ptr(&(word)), percpu_value_, __ATOMIC_RELAXED);      \
	percpu_section_exit();                                                 \
})

/* Let `change`, an atomic function of the compiler, change the copy that this thread has in a
 * section. */
#define PERCPU_LINUX_CHANGE(word, value, change) __extension__({               \
	const __typeof__(word) percpu_value_ = (value);                        \
	__typeof__(word) percpu_result_;                                       \
	percpu_section_enter();                                                \
	percpu_result_ = change(this_cpu_ptr(&(word)), percpu_value_, __ATOMIC_RELAXED);       \
	percpu_section_exit();                                                 \
	percpu_result_;                                                        \
})

/** Add, and return the copy's sum. */
#define this_cpu_add_return(word, n) PERCPU_LINUX_CHANGE(word, n, __atomic_add_fetch)
#define this_cpu_sub_return(word, n) PERCPU_LINUX_CHANGE(word, n, __atomic_sub_fetch)
#define this_cpu_inc_return(word) this_cpu_add_return(word, 1)
#define this_cpu_dec_return(word) this_cpu_sub_return(word, 1)

/** Replace the copy's value, and return what it was. */
#define this_cpu_xchg(word, value) PERCPU_LINUX_CHANGE(word, value, __atomic_exchange_n)

/** Replace the copy's value if it is *expected. Return whether it was; if not, store in *expected
 *  what it is. The copy may be that of another CPU than an earlier this_cpu_read() found. */
#define this_cpu_try_cmpxchg(word, expected, value) __extension__({            \
	const __typeof__(word) percpu_value_ = (value);                        \
	__typeof__(word) *const percpu_expected_ = (expected);                 \
	int percpu_done_;                                                      \
	percpu_section_enter();                                                \
	percpu_done_ = __atomic_compare_exchange_n(this_cpu_ptr(&(word)), percpu_expected_,    \
						   percpu_value_, 0, __ATOMIC_RELAXED,         \
						   __ATOMIC_RELAXED);          \
	percpu_section_exit();                                                 \
	percpu_done_;                                                          \
})

/** Replace the copy's value if it is expected. Return what it was. */
#define this_cpu_cmpxchg(word, expected, value) __extension__({                \
	__typeof__(word) percpu_found_ = (expected);                           \
	(void)this_cpu_try_cmpxchg(word, &percpu_found_, value);               \
	percpu_found_;                                                         \
})

#ifndef for_each_possible_cpu
#define for_each_possible_cpu(cpu)                                             \
	for ((cpu) = 0; PERCPU_NUMBER(unsigned, cpu) < percpu_section_cpus(); (cpu)++)
#endif

/* clang-format on */

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * dpcpu.h - FreeBSD's names for per-CPU variables (sys/pcpu.h), on variable.h.
 * freebsd.h does not include it, because it gives the including object an image.
 *
 * In a critical section DPCPU_PTR(), DPCPU_GET() and DPCPU_SET() use the copy that the section has.
 * Outside they use the copy of the CPU on which the thread was when it asked. The thread may be on
 * another CPU when it loads or stores. PERCPU_VARIABLE_ADD() is exact, unless a section changes the
 * same variable.
 */
#ifndef PERCPU_FREEBSD_DPCPU_H
#define PERCPU_FREEBSD_DPCPU_H

#include <percpu/freebsd/smp.h>
#include <percpu/variable.h>

#define DPCPU_NAME(n) percpu_variable_##n
#define DPCPU_DECLARE(t, n) PERCPU_VARIABLE_DECLARE(t, n)
#define DPCPU_DEFINE(t, n) PERCPU_VARIABLE(t, n)
#define DPCPU_DEFINE_STATIC(t, n) static PERCPU_VARIABLE(t, n)

#define DPCPU_ID_PTR(i, n) PERCPU_VARIABLE_PTR(n, PERCPU_NUMBER(unsigned, i))
#define DPCPU_ID_GET(i, n) (*DPCPU_ID_PTR(i, n))
#define DPCPU_ID_SET(i, n, v) (*DPCPU_ID_PTR(i, n) = (v))
#define DPCPU_PTR(n) DPCPU_ID_PTR(percpu_freebsd_curcpu(), n)
#define DPCPU_GET(n) (*DPCPU_PTR(n))
#define DPCPU_SET(n, v) (*DPCPU_PTR(n) = (v))

/* clang-format off */

/** The sum of the variable over all CPUs. */
#define DPCPU_SUM(n) __extension__({                                           \
	__typeof__(DPCPU_NAME(n)) percpu_sum_ = 0;                             \
	for (int percpu_i_ = 0; percpu_i_ < percpu_freebsd_ncpus(); percpu_i_++)       \
		percpu_sum_ += DPCPU_ID_GET(percpu_i_, n);                     \
	percpu_sum_;                                                           \
})

/** The sum of a member of the variable over all CPUs. */
#define DPCPU_VARSUM(n, var) __extension__({                                   \
	__typeof__(DPCPU_NAME(n).var) percpu_sum_ = 0;                         \
	for (int percpu_i_ = 0; percpu_i_ < percpu_freebsd_ncpus(); percpu_i_++)       \
		percpu_sum_ += DPCPU_ID_PTR(percpu_i_, n)->var;                \
	percpu_sum_;                                                           \
})

/** Set every CPU's copy to zeros. No other thread may write to them meanwhile. */
#define DPCPU_ZERO(n) do {                                                     \
	for (int percpu_i_ = 0; percpu_i_ < percpu_freebsd_ncpus(); percpu_i_++)       \
		__builtin_memset(DPCPU_ID_PTR(percpu_i_, n), 0, sizeof(DPCPU_NAME(n)));  \
} while (0)

/* clang-format on */

#endif

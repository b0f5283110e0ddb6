/* SPDX-License-Identifier: MIT */
/*
 * aarch64_values.h - the sequences of spec.h on doubles and other values.
 */
#ifndef PERCPU_ARCH_AARCH64_VALUES_H
#define PERCPU_ARCH_AARCH64_VALUES_H

#include <percpu/arch/aarch64.h>

PERCPU_BEGIN_DECLS

/* clang-format off */

PERCPU_INLINE int percpu_seq_add_at(const uint64_t *at, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("add_at")
		PERCPU_SEQ_LANE
		"ldar x10, %[at]\n\t"
		"cmp x10, #0\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("pl")
		"add x10, x10, x9\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(written)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()), [at] "Q"(*at), [stride] "r"(stride), [n] "r"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_narrow_add_if(void *cell, size_t stride, int64_t n,
					  const uint64_t *state, uint64_t expected)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("narrow_add_if")
		"cmp %[cell], %[none]\n\t"
		"b.hs 6f\n\t"
		"b %l[slow]\n"
		"6:\n\t"
		"ldar x9, %[state]\n\t"
		"cmp x9, %[expected]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("eq")
		PERCPU_SEQ_STEP(decided)
		"ldr w9, [x10]\n\t"
		"add w9, w9, %w[n]\n\t"
		PERCPU_SEQ_STEP(written)
		"str w9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "r"(n),
		  [state] "Q"(*state), [expected] "r"(expected), [none] "I"(PERCPU_SEQ_NO_CELL)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_add_double(void *cell, size_t stride, double n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("add_double")
		"ldr d0, [x10]\n\t"
		"fadd d0, d0, %d[n]\n\t"
		"fmov x9, d0\n\t"
		PERCPU_SEQ_STEP(loaded)
		"ubfx x9, x9, #52, #11\n\t"
		"cmp x9, %[limit]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("lo")
		PERCPU_SEQ_STEP(decided)
		"str d0, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "w"(n), [limit] "I"(PERCPU_SEQ_EXPONENT)
		: "v0", PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_add_count_double(void *cell, size_t stride, double n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("add_count_double")
		"ldr x9, [x10]\n\t"
		"ldr d1, [x10, #8]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"add x9, x9, #1\n\t"
		"fadd d1, d1, %d[n]\n\t"
		"fmov d0, x9\n\t"
		"mov v0.d[1], v1.d[0]\n\t"
		"str q0, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "w"(n)
		: "v0", "v1", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_widen(void *cell, size_t stride, const uint64_t *epoch, int64_t v)
{
	uint64_t e, at, w;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("widen")
		"ldr %[e], %[bank]\n\t"
		PERCPU_SEQ_STEP(admitted)
		"and x9, %[e], %[mask]\n\t"
		"add x10, x10, x9\n\t"
		PERCPU_SEQ_STEP(loaded)
		"mov %[w], %[v]\n\t"
		"ldr x9, [x10]\n\t"
		"cmp x9, %[e]\n\t"
		"b.ne 6f\n\t"
		"add %[at], x10, #8\n\t"
		"ldr x9, [%[at]]\n\t"
		"cmp x9, %[v]\n\t"
		"b.gt 8f\n\t"
		"add %[at], x10, #16\n\t"
		"ldr x9, [%[at]]\n\t"
		"cmp x9, %[v]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("lt")
		"b 8f\n"
		"6:\n\t"
		"str %[v], [x10, #8]\n\t"
		"str %[v], [x10, #16]\n\t"
		"mov %[at], x10\n\t"
		"mov %[w], %[e]\n"
		"8:\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[w], [%[at]]\n"
		PERCPU_SEQ_END
		: [e] "=&r"(e), [at] "=&r"(at), [w] "=&r"(w)
		: PERCPU_SEQ_CELL, [bank] "Q"(*epoch), [mask] "i"(PERCPU_EXTREMES), [v] "r"(v)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_add_within(void *cell, const void *partner, size_t stride, int64_t n,
					uint64_t reach, uint64_t span)
{
	uint64_t t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("add_within")
		"ldr %[t], [%[partner], x9]\n\t"
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"sub %[t], x9, %[t]\n\t"
		"add %[t], %[t], %[reach]\n\t"
		"cmp %[t], %[span]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("lo")
		PERCPU_SEQ_STEP(decided)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [partner] "r"(partner), [n] "r"(n), [reach] "r"(reach),
		  [span] "r"(span)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

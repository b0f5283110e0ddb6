/* SPDX-License-Identifier: MIT */
/*
 * x86_64_values.h - the sequences of spec.h on doubles and other values.
 */
#ifndef PERCPU_ARCH_X86_64_VALUES_H
#define PERCPU_ARCH_X86_64_VALUES_H

#include <percpu/arch/x86_64.h>

PERCPU_BEGIN_DECLS

/* clang-format off */

/* The distance of a lane is far below 2^63, so the sum has the sign of *at. */
PERCPU_INLINE int percpu_seq_add_at(const uint64_t *at, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("add_at", "")
		PERCPU_SEQ_LANE
		"addq %[at], %%rax\n\t"
		PERCPU_SEQ_REFUSE_IF("s")
		PERCPU_SEQ_STEP(decided)
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self), [at] "m"(*at), [stride] "re"(stride), [n] "re"(n)
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
		PERCPU_SEQ_START("narrow_add_if", "")
		"cmpq %[none], %[cell]\n\t"
		"jb %l[slow]\n\t"
		PERCPU_SEQ_LANE
		"addq %[cell], %%rax\n\t"
		"cmpq %[expected], %[state]\n\t"
		PERCPU_SEQ_REFUSE_IF("ne")
		PERCPU_SEQ_STEP(decided)
		"addl %k[n], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "re"(n), [state] "m"(*state), [expected] "re"(expected),
		  [none] "i"(PERCPU_SEQ_NO_CELL)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* Shifting the sign out leaves the exponent in the highest bits. */
PERCPU_INLINE int percpu_seq_add_double(void *cell, size_t stride, double n)
{
	uint64_t t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("add_double",
			"movaps %[n], %%xmm0\n\t")
		PERCPU_SEQ_LANE
		"addq %[cell], %%rax\n\t"
		"addsd (%%rax), %%xmm0\n\t"
		"movq %%xmm0, %[t]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"addq %[t], %[t]\n\t"
		"cmpq %[limit], %[t]\n\t"
		PERCPU_SEQ_REFUSE_IF("ae")
		PERCPU_SEQ_STEP(decided)
		"movsd %%xmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [n] "x"(n), [limit] "r"((uint64_t)PERCPU_SEQ_EXPONENT << 53)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_add_count_double(void *cell, size_t stride, double n)
{
	uint64_t t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("add_count_double",
			"movaps %[n], %%xmm1\n\t")
		PERCPU_SEQ_LANE
		"addq %[cell], %%rax\n\t"
		"movq (%%rax), %[t]\n\t"
		"addsd 8(%%rax), %%xmm1\n\t"
		PERCPU_SEQ_STEP(loaded)
		"incq %[t]\n\t"
		"movq %[t], %%xmm0\n\t"
		"movlhps %%xmm1, %%xmm0\n\t"
		"movaps %%xmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [n] "x"(n)
		: "xmm0", "xmm1", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_widen(void *cell, size_t stride, const uint64_t *epoch, int64_t v)
{
	uint64_t e, at, w;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("widen", "")
		PERCPU_SEQ_LANE
		"movq %[bank], %[e]\n\t"
		PERCPU_SEQ_STEP(admitted)
		"movq %[e], %[w]\n\t"
		"andq %[mask], %[w]\n\t"
		"addq %[cell], %%rax\n\t"
		"addq %[w], %%rax\n\t"
		PERCPU_SEQ_STEP(loaded)
		"movq %[v], %[w]\n\t"
		"cmpq %[e], (%%rax)\n\t"
		"jne 7f\n\t"
		"leaq 8(%%rax), %[at]\n\t"
		"cmpq %[v], (%[at])\n\t"
		"jg 8f\n\t"
		"leaq 16(%%rax), %[at]\n\t"
		"cmpq %[v], (%[at])\n\t"
		PERCPU_SEQ_REFUSE_IF("ge")
		"jmp 8f\n"
		"7:\n\t"
		"movq %[v], 8(%%rax)\n\t"
		"movq %[v], 16(%%rax)\n\t"
		"movq %%rax, %[at]\n\t"
		"movq %[e], %[w]\n"
		"8:\n\t"
		PERCPU_SEQ_STEP(written)
		"movq %[w], (%[at])\n"
		PERCPU_SEQ_END
		: [e] "=&r"(e), [at] "=&r"(at), [w] "=&r"(w)
		: PERCPU_SEQ_CELL, [bank] "m"(*epoch), [mask] "i"(PERCPU_EXTREMES), [v] "re"(v)
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
		PERCPU_SEQ_START("add_within", "")
		PERCPU_SEQ_LANE
		"movq %[reach], %[t]\n\t"
		"addq %[n], %[t]\n\t"
		"subq (%[partner], %%rax), %[t]\n\t"
		"addq %[cell], %%rax\n\t"
		"addq (%%rax), %[t]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmpq %[span], %[t]\n\t"
		PERCPU_SEQ_REFUSE_IF("ae")
		PERCPU_SEQ_STEP(decided)
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [partner] "r"(partner), [n] "re"(n), [reach] "re"(reach),
		  [span] "re"(span)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * x86_64.h - the sequences of spec.h for x86-64.
 *
 * Each commit is the last instruction before PERCPU_SEQ_END. A read-modify-
 * write of memory is one instruction, hence one commit as far as this CPU is
 * concerned; that it is not atomic toward other CPUs does not matter here.
 */
#ifndef PERCPU_ARCH_X86_64_H
#define PERCPU_ARCH_X86_64_H

#include <percpu/arch/spec.h>

PERCPU_BEGIN_DECLS

/** What the kernel wants to see in front of an abort handler. */
#define PERCPU_SEQ_SIGNATURE 0x53053053

/* Local labels: 1 start, 2 end, 3 descriptor, 4 abort handler, 6 loop, 7 refusal. */
/* clang-format off */

/*
 * In a unit compiled with -masm=intel operands are printed in a syntax that fits no
 * instruction here, so the assembler skips what is between these. The slow path
 * then runs the sequence, once more, in the library.
 */
#define PERCPU_SEQ_ATT "{|jmp %l[slow]\n\t.if 0\n\t}"
#define PERCPU_SEQ_ATT_END "{|.endif\n\t}"

/*
 * What keeps a shared object from being unloaded: one constructor, however many
 * sequences and units it has. Programs are not unloaded, and get none.
 */
#if defined(__PIC__) && !defined(__PIE__)
#define PERCPU_SEQ_STAY                                                        \
	".ifndef percpu_seq_stay\n\t"                                          \
	".pushsection .text.percpu_seq_stay, \"axG\", @progbits, "               \
	"percpu_seq_stay, comdat\n"                                            \
	"percpu_seq_stay: endbr64\n\t"                                         \
	"leaq percpu_seq_stay(%%rip), %%rdi\n\t"                               \
	"jmp percpu_object_stay@PLT\n\t"                                       \
	".popsection\n\t"                                                      \
	".pushsection .init_array, \"awG\", @init_array, percpu_seq_stay, comdat\n\t" \
	".quad percpu_seq_stay\n\t"                                            \
	".popsection\n\t"                                                      \
	".endif\n\t"
#else
#define PERCPU_SEQ_STAY
#endif

/*
 * The descriptor, where debuggers find it, and the store that arms it. The
 * "?" puts the sections into the group of the function they belong to, so
 * that a C++ inline function in several units keeps one copy of each.
 */
#define PERCPU_SEQ_BEGIN                                                       \
	PERCPU_SEQ_ATT                                                         \
	PERCPU_SEQ_STAY                                                        \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                  \
	".balign 32\n"                                                         \
	"3:\n\t"                                                               \
	".long 0, 0\n\t"                                                       \
	".quad 1f, 2f - 1f, 4f\n\t"                                            \
	".popsection\n\t"                                                      \
	".pushsection __rseq_cs_ptr_array, \"aw?\"\n\t"                        \
	".quad 3b\n\t"                                                         \
	".popsection\n\t"                                                      \
	".pushsection __rseq_exit_point_array, \"aw?\"\n\t"                    \
	".quad 1f, %l[slow]\n\t"                                               \
	".popsection\n\t"                                                      \
	"leaq 3b(%%rip), %%rax\n\t"                                            \
	"movq %%rax, 8(%[rs])\n"                                               \
	"1:\n\t"                                                               \
	PERCPU_SEQ_STEP(1)                                                     \
	"movl 4(%[rs]), %%eax\n\t"                                             \
	PERCPU_SEQ_STEP(2)                                                     \
	"testl %%eax, %%eax\n\t"                                               \
	"js %l[slow]\n\t"                                                      \
	PERCPU_SEQ_STEP(3)

/* %rax becomes the distance of this CPU's lane. */
#define PERCPU_SEQ_LANE                                                        \
	"imulq %[stride], %%rax\n\t"                                           \
	PERCPU_SEQ_STEP(4)

#define PERCPU_SEQ_GUARD                                                       \
	"cmpl $0, (%[guard], %%rax)\n\t"                                       \
	"jne %l[slow]\n\t"                                                     \
	PERCPU_SEQ_STEP(5)

/*
 * %rax becomes the address of this CPU's cell. One register, not base and
 * index: only so do some CPUs (Golden Cove) forward a store to the next load
 * of the same cell without delay.
 */
#define PERCPU_SEQ_CELL                                                        \
	"addq %[cell], %%rax\n\t"

/* ud1 makes a disassembler take the signature for an operand. */
#define PERCPU_SEQ_END                                                         \
	"2:\n\t"                                                               \
	".pushsection __rseq_failure, \"ax?\"\n\t"                             \
	".byte 0x0f, 0xb9, 0x3d\n\t"                                           \
	".long 0x53053053\n"                                                   \
	"4:\n\t"                                                               \
	"jmp %l[slow]\n\t"                                                     \
	".popsection\n\t"                                                       \
	PERCPU_SEQ_ATT_END

/* Adds change cells only, which no C expression reads: what the compiler knows
 * of other memory stays known (spec.h, "Ordering"). */
#define PERCPU_SEQ_ADD_CLOBBERS "rax", "cc" PERCPU_SEQ_STEP_CLOBBERS
#define PERCPU_SEQ_CLOBBERS "memory", PERCPU_SEQ_ADD_CLOBBERS

PERCPU_INLINE int32_t percpu_seq_cpu(void)
{
	return __atomic_load_n(&percpu_self->cpu_id, __ATOMIC_RELAXED);
}

PERCPU_INLINE int percpu_seq_add(void *cell, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [n] "re"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/*
 * Vector adds: load, add, store; the store is the commit. Base and index cost
 * them nothing. Where the unit is compiled without the instruction set they are
 * functions for it, to be called only when the CPU has it.
 */
#ifdef __AVX2__
#define PERCPU_SEQ_AVX2 PERCPU_INLINE
#else
#define PERCPU_SEQ_AVX2 static inline __attribute__((__unused__, __target__("avx2")))
#endif

#ifdef __AVX512F__
#define PERCPU_SEQ_AVX512 PERCPU_INLINE
#else
#define PERCPU_SEQ_AVX512 static inline __attribute__((__unused__, __target__("avx512f")))
#endif

PERCPU_INLINE int percpu_seq_add2(void *cell, size_t stride, const int64_t n[2])
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"movdqu %[n], %%xmm0\n\t"
		"paddq (%[cell], %%rax), %%xmm0\n\t"
		PERCPU_SEQ_STEP(6)
		"movdqa %%xmm0, (%[cell], %%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [stride] "re"(stride), [n] "m"(*(const percpu_memory2 *)(const void *)n)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_SEQ_AVX2 int percpu_seq_add4(void *cell, size_t stride, const int64_t n[4])
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"vmovdqu %[n], %%ymm0\n\t"
		"vpaddq (%[cell], %%rax), %%ymm0, %%ymm0\n\t"
		PERCPU_SEQ_STEP(6)
		"vmovdqa %%ymm0, (%[cell], %%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [stride] "re"(stride), [n] "m"(*(const percpu_memory4 *)(const void *)n)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_SEQ_AVX512 int percpu_seq_add8(void *cell, size_t stride, const int64_t n[8])
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"vmovdqu64 %[n], %%zmm0\n\t"
		"vpaddq (%[cell], %%rax), %%zmm0, %%zmm0\n\t"
		PERCPU_SEQ_STEP(6)
		"vmovdqa64 %%zmm0, (%[cell], %%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [stride] "re"(stride), [n] "m"(*(const percpu_memory8 *)(const void *)n)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/* The widest that is inlined here. */
#if defined(__AVX512F__)
#define PERCPU_SEQ_WORDS 8
#elif defined(__AVX2__)
#define PERCPU_SEQ_WORDS 4
#else
#define PERCPU_SEQ_WORDS 2
#endif

/* %rax becomes the address of the cell in the bank that counts now. */
#define PERCPU_SEQ_BANK                                                        \
	"movq %[bank], %[b]\n\t"                                               \
	PERCPU_SEQ_STEP(5)                                                     \
	"andq %[mask], %[b]\n\t"                                               \
	"addq %[cell], %%rax\n\t"                                              \
	"addq %[b], %%rax\n\t"

PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		PERCPU_SEQ_STEP(6)
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [n] "re"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_ATT
		"movdqa %[n], %%xmm0\n\t"
		PERCPU_SEQ_ATT_END
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"paddq (%%rax), %%xmm0\n\t"
		PERCPU_SEQ_STEP(6)
		"movdqa %%xmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [n] "x"(n)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/*
 * Older encodings are slow while the upper halves of the registers are in use,
 * hence this, where the unit is compiled for them. The caller may be a function
 * for AVX nevertheless (__attribute__((target))), and keep vectors in any of the
 * registers that have upper halves here: 0 to 15.
 */
PERCPU_INLINE void percpu_seq_vzeroupper(void)
{
#ifndef __AVX__
	__asm__ __volatile__("vzeroupper"
			     : /* none */
			     : /* none */
			     : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7",
			       "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14",
			       "xmm15");
#endif
}

/* Wider ones are inlined also where the unit is compiled without the instruction
 * set, for the caller asks what the CPU has. */
PERCPU_INLINE int percpu_seq_bank_add4(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_ATT
		"vmovdqa %[n0], %%xmm0\n\t"
		"vinserti128 $1, %[n2], %%ymm0, %%ymm0\n\t"
		PERCPU_SEQ_ATT_END
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"vpaddq (%%rax), %%ymm0, %%ymm0\n\t"
		PERCPU_SEQ_STEP(6)
		"vmovdqa %%ymm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [n0] "x"(n0), [n2] "x"(n2)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	percpu_seq_vzeroupper();
	return 0;
slow:
	percpu_seq_vzeroupper();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add8(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2,
				       percpu_words2 n4, percpu_words2 n6)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_ATT
		"vmovdqa %[n0], %%xmm0\n\t"
		"vinserti128 $1, %[n2], %%ymm0, %%ymm0\n\t"
		"vmovdqa %[n4], %%xmm1\n\t"
		"vinserti128 $1, %[n6], %%ymm1, %%ymm1\n\t"
		"vinserti64x4 $1, %%ymm1, %%zmm0, %%zmm0\n\t"
		PERCPU_SEQ_ATT_END
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"vpaddq (%%rax), %%zmm0, %%zmm0\n\t"
		PERCPU_SEQ_STEP(6)
		"vmovdqa64 %%zmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [n0] "x"(n0), [n2] "x"(n2), [n4] "x"(n4), [n6] "x"(n6)
		: "xmm0", "xmm1", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	percpu_seq_vzeroupper();
	return 0;
slow:
	percpu_seq_vzeroupper();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_update(void *cell, size_t stride, const uint64_t *bank,
					 uint64_t mask, const uint64_t *n, uint64_t words)
{
	uint64_t b, from, i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"movq (%%rax), %[from]\n\t"
		PERCPU_SEQ_STEP(6)
		"leaq (, %[words], 8), %[b]\n\t"
		"leaq 16(%%rax, %[b]), %%r11\n\t"
		"testl $1, %k[from]\n\t"
		"leaq 16(%%rax), %[from]\n\t"
		"jz 7f\n\t"
		"xchgq %[from], %%r11\n"
		"7:\n\t"
		"xorl %k[i], %k[i]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"movdqu (%[n], %[i], 8), %%xmm0\n\t"
		"paddq (%[from], %[i], 8), %%xmm0\n\t"
		"movdqa %%xmm0, (%%r11, %[i], 8)\n\t"
		"addq $2, %[i]\n\t"
		"cmpq %[words], %[i]\n\t"
		"jb 6b\n\t"
		PERCPU_SEQ_STEP(8)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b), [from] "=&r"(from), [i] "=&r"(i)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [n] "r"(n), [words] "r"(words)
		: "r11", "xmm0", PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_pair_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, uint64_t word, uint64_t words, int64_t n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"movq (%%rax), %[b]\n\t"
		PERCPU_SEQ_STEP(6)
		"andq $1, %[b]\n\t"
		"imulq %[words], %[b]\n\t"
		"addq %[word], %[b]\n\t"
		PERCPU_SEQ_STEP(7)
		"addq %[n], 16(%%rax, %[b], 8)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [bank] "m"(*bank),
		  [mask] "re"(mask), [word] "r"(word), [words] "r"(words), [n] "re"(n)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_return(void *cell, const void *guard, size_t stride, int64_t n,
					int64_t *ret)
{
	int64_t v;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[v]\n\t"
		"addq %[n], %[v]\n\t"
		PERCPU_SEQ_STEP(6)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [n] "re"(n)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = v;
	return 0;
slow:
	percpu_seq_left();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_limit(void *cell, const void *guard, size_t stride, int64_t n,
				       int64_t limit, int64_t *ret)
{
	int64_t v;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[v]\n\t"
		"addq %[n], %[v]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmpq %[limit], %[v]\n\t"
		"jg 2f\n\t"
		PERCPU_SEQ_STEP(7)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [n] "re"(n), [limit] "re"(limit)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = v;
	return v > limit ? PERCPU_SEQ_REFUSED : 0;
slow:
	percpu_seq_left();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_store(void *cell, const void *guard, size_t stride, int64_t v)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [v] "re"(v)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_cmpxchg(void *cell, const void *guard, size_t stride, int64_t expected,
				     int64_t v, int64_t *ret)
{
	int64_t old;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[old]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmpq %[expected], %[old]\n\t"
		"jne 2f\n\t"
		PERCPU_SEQ_STEP(7)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [expected] "re"(expected), [v] "re"(v)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = old;
	return old != expected ? PERCPU_SEQ_REFUSED : 0;
slow:
	percpu_seq_left();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_xchg(void *cell, const void *guard, size_t stride, int64_t v,
				  int64_t *ret)
{
	int64_t old;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[old]\n\t"
		PERCPU_SEQ_STEP(6)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [v] "re"(v)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = old;
	return 0;
slow:
	percpu_seq_left();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_push(void *cell, const void *guard, size_t stride, uint64_t limit,
				  void *item)
{
	uint64_t i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[i]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmpq %[limit], %[i]\n\t"
		"jae %l[refused]\n\t"
		PERCPU_SEQ_STEP(7)
		"movq %[item], 8(%%rax, %[i], 8)\n\t"
		PERCPU_SEQ_STEP(8)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [limit] "re"(limit), [item] "r"(item)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_pop(void *cell, const void *guard, size_t stride, void **ret)
{
	uint64_t i;
	void *item;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[i]\n\t"
		PERCPU_SEQ_STEP(6)
		"testq %[i], %[i]\n\t"
		"jz %l[refused]\n\t"
		PERCPU_SEQ_STEP(7)
		"movq (%%rax, %[i], 8), %[item]\n\t"
		PERCPU_SEQ_STEP(8)
		"decq (%%rax)\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i), [item] "=&r"(item)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	*ret = item;
	return 0;
refused:
	percpu_seq_left();
	return PERCPU_SEQ_REFUSED;
slow:
	percpu_seq_left();
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_copy(void *cell, const void *guard, size_t stride, uint64_t mask,
				  const uint64_t *src, uint64_t words)
{
	uint64_t head, i, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_GUARD
		PERCPU_SEQ_CELL
		"movq (%%rax), %[head]\n\t"
		PERCPU_SEQ_STEP(6)
		"leaq 1(%[mask]), %[t]\n\t"
		"subq %[head], %[t]\n\t"
		"addq 8(%%rax), %[t]\n\t"
		"cmpq %[words], %[t]\n\t"
		"jb %l[refused]\n\t"
		"xorl %k[i], %k[i]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"movq (%[src], %[i], 8), %[t]\n\t"
		"movq %[mask], %%r11\n\t"
		"andq %[head], %%r11\n\t"
		"movq %[t], 16(%%rax, %%r11, 8)\n\t"
		"incq %[head]\n\t"
		"incq %[i]\n\t"
		"cmpq %[words], %[i]\n\t"
		"jb 6b\n\t"
		PERCPU_SEQ_STEP(8)
		"movq %[head], (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t)
		: [rs] "r"(percpu_self),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "re"(stride),
		  [mask] "r"(mask), [src] "r"(src), [words] "re"(words)
		: "r11", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

/*
 * append() of one pair, of two and of four, each in a register: no loop, and no
 * load of what the caller has just stored.
 */
#define PERCPU_SEQ_ROOM(words)                                                 \
	"movq (%%rax), %[head]\n\t"                                            \
	PERCPU_SEQ_STEP(6)                                                     \
	"leaq 1-" words "(%[mask]), %[t]\n\t"                                  \
	"subq %[head], %[t]\n\t"                                               \
	"addq 8(%%rax), %[t]\n\t"                                              \
	"cmpq %[mask], %[t]\n\t"                                               \
	"ja %l[refused]\n\t"                                                   \
	PERCPU_SEQ_STEP(7)

#define PERCPU_SEQ_PUT(at, pair)                                               \
	"leaq " at "(%[head]), %[t]\n\t"                                       \
	"andq %[mask], %[t]\n\t"                                               \
	"movups " pair ", 16(%%rax, %[t], 8)\n\t"

PERCPU_INLINE int percpu_seq_append1(void *cell, size_t stride, uint64_t mask, percpu_words2 n0)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		PERCPU_SEQ_ROOM("2")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_STEP(8)
		"addq $2, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [mask] "r"(mask),
		  [n0] "x"(n0)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append2(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		PERCPU_SEQ_ROOM("4")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_PUT("2", "%[n1]")
		PERCPU_SEQ_STEP(8)
		"addq $4, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [mask] "r"(mask),
		  [n0] "x"(n0), [n1] "x"(n1)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append4(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1, percpu_words2 n2, percpu_words2 n3)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		PERCPU_SEQ_ROOM("8")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_PUT("2", "%[n1]")
		PERCPU_SEQ_PUT("4", "%[n2]")
		PERCPU_SEQ_PUT("6", "%[n3]")
		PERCPU_SEQ_STEP(8)
		"addq $8, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [mask] "r"(mask),
		  [n0] "x"(n0), [n1] "x"(n1), [n2] "x"(n2), [n3] "x"(n3)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE percpu_words2 percpu_pair_at(const uint64_t *src, unsigned i)
{
	/* Callers append structs, too. */
	typedef uint64_t __attribute__((__may_alias__)) any_word;
	const any_word *n = src;

	return percpu_pair(n[i], n[i + 1]);
}

PERCPU_INLINE int percpu_seq_append(void *cell, size_t stride, uint64_t mask, const uint64_t *src,
				    uint64_t pairs)
{
	const uint64_t *end = src + 2 * pairs, *p;
	uint64_t head, t;

	if (__builtin_constant_p(pairs) && pairs == 1)
		return percpu_seq_append1(cell, stride, mask, percpu_pair_at(src, 0));
	if (__builtin_constant_p(pairs) && pairs == 2)
		return percpu_seq_append2(cell, stride, mask, percpu_pair_at(src, 0),
					  percpu_pair_at(src, 2));
	if (__builtin_constant_p(pairs) && pairs == 4)
		return percpu_seq_append4(cell, stride, mask, percpu_pair_at(src, 0),
					  percpu_pair_at(src, 2),
					  percpu_pair_at(src, 4),
					  percpu_pair_at(src, 6));
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		"movq (%%rax), %[head]\n\t"
		PERCPU_SEQ_STEP(6)
		"leaq 1(%[mask]), %[t]\n\t"
		"subq %[head], %[t]\n\t"
		"addq 8(%%rax), %[t]\n\t"
		"cmpq %[words], %[t]\n\t"
		"jb %l[refused]\n\t"
		"movq %[src], %[p]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"movq %[head], %%r11\n\t"
		"andq %[mask], %%r11\n\t"
		"movq (%[p]), %[t]\n\t"
		"movq %[t], 16(%%rax, %%r11, 8)\n\t"
		"movq 8(%[p]), %[t]\n\t"
		"movq %[t], 24(%%rax, %%r11, 8)\n\t"
		"addq $2, %[head]\n\t"
		"addq $16, %[p]\n\t"
		"cmpq %[end], %[p]\n\t"
		"jb 6b\n\t"
		PERCPU_SEQ_STEP(8)
		"movq %[head], (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [p] "=&r"(p), [t] "=&r"(t)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [mask] "r"(mask),
		  [src] "r"(src), [end] "r"(end), [words] "re"(2 * pairs)
		: "r11", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_add(void *cell, size_t stride, int64_t n, uint64_t half)
{
	uint64_t v, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		"movl (%%rax), %k[v]\n\t"
		"addq %[half], %[v]\n\t"
		"movq %[v], %[t]\n\t"
		"addq %[n], %[t]\n\t"
		"xorq %[v], %[t]\n\t"
		PERCPU_SEQ_STEP(6)
		"testq %[window], %[t]\n\t"
		"jnz %l[refused]\n\t"
		PERCPU_SEQ_STEP(7)
		"addl %k[n], (%%rax)\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v), [t] "=&r"(t)
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [n] "re"(n),
		  [half] "re"(half), [window] "re"(~(2 * half - 1))
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_cross(void *cell, size_t stride, int64_t n,
					  const uint64_t *checkpoint, uint64_t expected)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_CELL
		"cmpq %[expected], (%[checkpoint])\n\t"
		"jne %l[refused]\n\t"
		PERCPU_SEQ_STEP(6)
		"addl %k[n], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: [rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride), [n] "re"(n),
		  [checkpoint] "r"(checkpoint), [expected] "re"(expected)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_spin(const uint32_t *flag, uint64_t tries)
{
	uint64_t left;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		"movq %[tries], %[left]\n"
		"6:\n\t"
		"pause\n\t"
		"subq $1, %[left]\n\t"
		"jc %l[refused]\n\t"
		"cmpl $0, (%[flag])\n\t"
		"je 6b\n"
		PERCPU_SEQ_END
		: [left] "=&r"(left)
		: [rs] "r"(percpu_self), [flag] "r"(flag), [tries] "r"(tries)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return left == tries - 1 ? PERCPU_SEQ_REFUSED : 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * x86_64_words.h - the sequences of spec.h that store several words: banked adds
 * of vectors, records in two copies, and queues.
 */
#ifndef PERCPU_ARCH_X86_64_WORDS_H
#define PERCPU_ARCH_X86_64_WORDS_H

#include <percpu/arch/x86_64.h>

PERCPU_BEGIN_DECLS

/* The widest store that this unit is compiled for. */
#if defined(__AVX512F__)
#define PERCPU_SEQ_WORDS 8
#elif defined(__AVX2__)
#define PERCPU_SEQ_WORDS 4
#else
#define PERCPU_SEQ_WORDS 2
#endif

/* clang-format off */

PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("bank_add2",
			"movdqa %[n], %%xmm0\n\t")
		"paddq (%%rax), %%xmm0\n\t"
		PERCPU_SEQ_STEP(loaded)
		"movdqa %%xmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [n] "x"(n)
		: "xmm0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

/*
 * Clear the upper halves of the vector registers in a unit that is compiled for the older
 * encodings, which are slow while these are in use. The caller may be a function for AVX
 * nevertheless (__attribute__((target))), and keep vectors in registers 0 to 15, which
 * this changes.
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

/* The wider sequences can be inlined in units that are compiled without the instruction
 * set, because the caller knows that the CPU has it. */
PERCPU_INLINE int percpu_seq_bank_add4(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("bank_add4",
			"vmovdqa %[n0], %%xmm0\n\t"
			"vinserti128 $1, %[n2], %%ymm0, %%ymm0\n\t")
		"vpaddq (%%rax), %%ymm0, %%ymm0\n\t"
		PERCPU_SEQ_STEP(loaded)
		"vmovdqa %%ymm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [n0] "x"(n0), [n2] "x"(n2)
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
		PERCPU_SEQ_BEGIN_BANKED("bank_add8",
			"vmovdqa %[n0], %%xmm0\n\t"
			"vinserti128 $1, %[n2], %%ymm0, %%ymm0\n\t"
			"vmovdqa %[n4], %%xmm1\n\t"
			"vinserti128 $1, %[n6], %%ymm1, %%ymm1\n\t"
			"vinserti64x4 $1, %%ymm1, %%zmm0, %%zmm0\n\t")
		"vpaddq (%%rax), %%zmm0, %%zmm0\n\t"
		PERCPU_SEQ_STEP(loaded)
		"vmovdqa64 %%zmm0, (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [n0] "x"(n0), [n2] "x"(n2), [n4] "x"(n4), [n6] "x"(n6)
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
		PERCPU_SEQ_BEGIN_BANKED("bank_update", "")
		"movq (%%rax), %[from]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"leaq (, %[words], 8), %[b]\n\t"
		"leaq 16(%%rax, %[b]), %%r11\n\t"
		"testl $1, %k[from]\n\t"
		"leaq 16(%%rax), %[from]\n\t"
		"jz 7f\n\t"
		"xchgq %[from], %%r11\n"
		"7:\n\t"
		"xorl %k[i], %k[i]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"movdqu (%[n], %[i], 8), %%xmm0\n\t"
		"paddq (%[from], %[i], 8), %%xmm0\n\t"
		"movdqa %%xmm0, (%%r11, %[i], 8)\n\t"
		"addq $2, %[i]\n\t"
		"cmpq %[words], %[i]\n\t"
		"jb 6b\n\t"
		PERCPU_SEQ_STEP(written)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b), [from] "=&r"(from), [i] "=&r"(i)
		: PERCPU_SEQ_BANKED, [n] "r"(n), [words] "r"(words)
		: "r11", "xmm0", PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_copy(void *cell, const void *guard, size_t stride, uint64_t mask,
				  const uint64_t *src, uint64_t words)
{
	uint64_t head, i, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("copy")
		"movq (%%rax), %[head]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"leaq 1(%[mask]), %[t]\n\t"
		"subq %[head], %[t]\n\t"
		"addq 8(%%rax), %[t]\n\t"
		"cmpq %[words], %[t]\n\t"
		PERCPU_SEQ_REFUSE_IF("b")
		"xorl %k[i], %k[i]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"movq (%[src], %[i], 8), %[t]\n\t"
		"movq %[mask], %%r11\n\t"
		"andq %[head], %%r11\n\t"
		"movq %[t], 16(%%rax, %%r11, 8)\n\t"
		"incq %[head]\n\t"
		"incq %[i]\n\t"
		"cmpq %[words], %[i]\n\t"
		"jb 6b\n\t"
		PERCPU_SEQ_STEP(written)
		"movq %[head], (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t)
		: PERCPU_SEQ_GUARDED, [mask] "r"(mask), [src] "r"(src), [words] "re"(words)
		: "r11", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_take(void *cell, const void *guard, size_t stride, uint64_t mask,
				  uint64_t *ret)
{
	uint64_t tail, word;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("take")
		"movq 8(%%rax), %[tail]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmpq (%%rax), %[tail]\n\t"
		PERCPU_SEQ_REFUSE_IF("e")
		PERCPU_SEQ_STEP(decided)
		"andq %[mask], %[tail]\n\t"
		"movq 16(%%rax, %[tail], 8), %[word]\n\t"
		PERCPU_SEQ_STEP(written)
		"incq 8(%%rax)\n"
		PERCPU_SEQ_END
		: [tail] "=&r"(tail), [word] "=&r"(word)
		: PERCPU_SEQ_GUARDED, [mask] "re"(mask)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	*ret = word;
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* The pairs are in registers: so there is no loop, and no load of words that the caller has
 * just stored. */
#define PERCPU_SEQ_ROOM(words)                                                 \
	"movq (%%rax), %[head]\n\t"                                            \
	PERCPU_SEQ_STEP(loaded)                                                \
	"leaq 1-" words "(%[mask]), %[t]\n\t"                                  \
	"subq %[head], %[t]\n\t"                                               \
	"addq 8(%%rax), %[t]\n\t"                                              \
	"cmpq %[mask], %[t]\n\t"                                               \
	PERCPU_SEQ_REFUSE_IF("a")                                              \
	PERCPU_SEQ_STEP(decided)

#define PERCPU_SEQ_PUT(at, pair)                                               \
	"leaq " at "(%[head]), %[t]\n\t"                                       \
	"andq %[mask], %[t]\n\t"                                               \
	"movups " pair ", 16(%%rax, %[t], 8)\n\t"

PERCPU_INLINE int percpu_seq_append1(void *cell, size_t stride, uint64_t mask, percpu_words2 n0)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("append1")
		PERCPU_SEQ_ROOM("2")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_STEP(written)
		"addq $2, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "x"(n0)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_append2(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("append2")
		PERCPU_SEQ_ROOM("4")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_PUT("2", "%[n1]")
		PERCPU_SEQ_STEP(written)
		"addq $4, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "x"(n0), [n1] "x"(n1)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_append4(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1, percpu_words2 n2, percpu_words2 n3)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("append4")
		PERCPU_SEQ_ROOM("8")
		PERCPU_SEQ_PUT("0", "%[n0]")
		PERCPU_SEQ_PUT("2", "%[n1]")
		PERCPU_SEQ_PUT("4", "%[n2]")
		PERCPU_SEQ_PUT("6", "%[n3]")
		PERCPU_SEQ_STEP(written)
		"addq $8, (%%rax)\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "x"(n0), [n1] "x"(n1), [n2] "x"(n2),
		  [n3] "x"(n3)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* Store a register in the ring, whose cell is in p, `behind` words behind head. */
#define PERCPU_SEQ_WORD(behind, from, p, temporary)                            \
	"leaq " behind ", " temporary "\n\t"                                   \
	"andq %[mask], " temporary "\n\t"                                      \
	"movq " from ", 128(" p ", " temporary ", 8)\n\t"

/* Load head, and refuse if there is no room. t becomes the name of the next record, i its
 * number of words. */
#define PERCPU_SEQ_NAME                                                        \
	"movq (%%rax), %[head]\n\t"                                            \
	"movq %[head], %[t]\n\t"                                               \
	"subq 64(%%rax), %[t]\n\t"                                             \
	PERCPU_SEQ_STEP(loaded)                                                \
	"andq %[keep], %[t]\n\t"                                               \
	"movq %[size], %[i]\n\t"                                               \
	"addq $31, %[i]\n\t"                                                   \
	"shrq $3, %[i]\n\t"                                                    \
	"leaq -1(%[t], %[i]), %[t]\n\t"                                        \
	"cmpq %[mask], %[t]\n\t"                                               \
	PERCPU_SEQ_REFUSE_IF("a")                                              \
	PERCPU_SEQ_STEP(decided)                                               \
	"leaq -1(%[head]), %[t]\n\t"                                           \
	"andq %[mask], %[t]\n\t"                                               \
	"movq 128(%%rax, %[t], 8), %[t]\n\t"                                   \
	"shrq $16, %[t]\n\t"                                                   \
	"incq %[t]\n\t"                                                        \
	"shlq $16, %[t]\n\t"                                                   \
	"orq %[size], %[t]\n\t"

/* To need few registers, i is first the record's number of words, and then counts the words
 * of src that are left, from the last to the first. lfence: the counter is read after all
 * earlier instructions are done. */
PERCPU_INLINE int percpu_seq_put(void *cell, size_t stride, uint64_t mask, uint64_t keep,
				 const void *src, uint64_t size, uint64_t last)
{
	uint64_t head, i, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("put")
		PERCPU_SEQ_NAME
		PERCPU_SEQ_WORD("(%[head])", "%[t]", "%%rax", "%%rdx")
		PERCPU_SEQ_WORD("-1(%[head], %[i])", "%[t]", "%%rax", "%%rdx")
		PERCPU_SEQ_WORD("-2(%[head], %[i])", "%[last]", "%%rax", "%%rdx")
		"movq %%rax, %[t]\n\t"
		"lfence\n\t"
		"rdtsc\n\t"
		"shlq $32, %%rdx\n\t"
		"orq %%rax, %%rdx\n\t"
		PERCPU_SEQ_WORD("1(%[head])", "%%rdx", "%[t]", "%%rax")
		"subq $4, %[i]\n\t"
		"jz 7f\n"
		"6:\n\t"
		"movq -8(%[src], %[i], 8), %%rdx\n\t"
		PERCPU_SEQ_WORD("1(%[head], %[i])", "%%rdx", "%[t]", "%%rax")
		"decq %[i]\n\t"
		"jnz 6b\n"
		"7:\n\t"
		"movq %[size], %[i]\n\t"
		"addq $31, %[i]\n\t"
		"shrq $3, %[i]\n\t"
		"addq %[head], %[i]\n\t"
		PERCPU_SEQ_STEP(written)
		"movq %[i], (%[t])\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [keep] "r"(keep), [src] "r"(src),
		  [size] "re"(size), [last] "r"(last)
		: "rdx", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

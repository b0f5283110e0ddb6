/* SPDX-License-Identifier: MIT */
/*
 * x86_64_group.h - the sequences of spec_group.h for x86-64. Stores are seen in the order of the
 * instructions, so nothing else is needed for the order.
 */
#ifndef PERCPU_ARCH_X86_64_GROUP_H
#define PERCPU_ARCH_X86_64_GROUP_H

#include <percpu/arch/spec_group.h>
#include <percpu/arch/x86_64_words.h>

PERCPU_BEGIN_DECLS

/* clang-format off */

/* Refuse if the last update is open. Otherwise turn becomes that of this update, names gets its
 * lowest bit, and a and b become addresses. */
#define PERCPU_SEQ_GROUP_BEGIN                                                 \
	"movq (%%rax), %[b]\n\t"                                               \
	"movq 8(%%rax), %[t]\n\t"                                              \
	PERCPU_SEQ_STEP(loaded)                                                \
	"xorq %[b], %[t]\n\t"                                                  \
	"testl $1, %k[t]\n\t"                                                  \
	PERCPU_SEQ_REFUSE_IF("nz")                                             \
	"incq %[b]\n\t"                                                        \
	"movq %[b], %[t]\n\t"                                                  \
	"andq $1, %[t]\n\t"                                                    \
	"orq %[t], %[names]\n\t"                                               \
	"addq %%rax, %[first]\n\t"                                             \
	"addq %%rax, %[second]\n\t"

/* b is the bank at first, and then turn. */
#define PERCPU_SEQ_GROUP_OUT                                                   \
	[b] "=&r"(turn), [t] "=&r"(t), [names] "+&r"(names), [first] "+&r"(a), [second] "+&r"(b)

PERCPU_INLINE int percpu_seq_group_update2(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na, percpu_words2 nb)
{
	uint64_t turn, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_update2", "")
		PERCPU_SEQ_GROUP_BEGIN
		"movdqa (%[first]), %%xmm0\n\t"
		"movdqa (%[second]), %%xmm1\n\t"
		"movdqa %%xmm0, 32(%%rax)\n\t"
		"movdqa %%xmm1, 48(%%rax)\n\t"
		"movq %[names], 8(%%rax)\n\t"
		PERCPU_SEQ_STEP(decided)
		"paddq %[na], %%xmm0\n\t"
		"movdqa %%xmm0, (%[first])\n\t"
		"movdqa %[nb], %%xmm1\n\t" /* b may be the same record */
		"paddq (%[second]), %%xmm1\n\t"
		"movdqa %%xmm1, (%[second])\n\t"
		PERCPU_SEQ_STEP(written)
		"movq %[b], (%%rax)\n"
		PERCPU_SEQ_END
		: PERCPU_SEQ_GROUP_OUT
		: PERCPU_SEQ_BANKED, [na] "x"(na), [nb] "x"(nb)
		: "xmm0", "xmm1", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* It can be inlined in units that are compiled without AVX2, because the caller knows that the CPU
 * has it. */
PERCPU_INLINE int percpu_seq_group_update4(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na0, percpu_words2 na2, percpu_words2 nb0,
					   percpu_words2 nb2)
{
	uint64_t turn, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_update4",
			"vmovdqa %[na0], %%xmm2\n\t"
			"vinserti128 $1, %[na2], %%ymm2, %%ymm2\n\t"
			"vmovdqa %[nb0], %%xmm3\n\t"
			"vinserti128 $1, %[nb2], %%ymm3, %%ymm3\n\t")
		PERCPU_SEQ_GROUP_BEGIN
		"vmovdqa (%[first]), %%ymm0\n\t"
		"vmovdqa (%[second]), %%ymm1\n\t"
		"vmovdqa %%ymm0, 32(%%rax)\n\t"
		"vmovdqa %%ymm1, 64(%%rax)\n\t"
		"movq %[names], 8(%%rax)\n\t"
		PERCPU_SEQ_STEP(decided)
		"vpaddq %%ymm2, %%ymm0, %%ymm0\n\t"
		"vmovdqa %%ymm0, (%[first])\n\t"
		"vpaddq (%[second]), %%ymm3, %%ymm3\n\t"
		"vmovdqa %%ymm3, (%[second])\n\t"
		PERCPU_SEQ_STEP(written)
		"movq %[b], (%%rax)\n"
		PERCPU_SEQ_END
		: PERCPU_SEQ_GROUP_OUT
		: PERCPU_SEQ_BANKED, [na0] "x"(na0), [na2] "x"(na2), [nb0] "x"(nb0), [nb2] "x"(nb2)
		: "xmm0", "xmm1", "xmm2", "xmm3", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	percpu_seq_vzeroupper();
	return 0;
refused:
	percpu_seq_vzeroupper();
	return PERCPU_SEQ_REFUSED;
slow:
	percpu_seq_vzeroupper();
	return PERCPU_SEQ_SLOW;
}

/* Go on with the next pair of words. i counts the bytes of a record. */
#define PERCPU_SEQ_NEXT_PAIR(i)                                                \
	"addq $16, " i "\n\t"                                                  \
	"cmpq %[bytes], " i "\n\t"                                             \
	"jb 6b\n\t"

/* To need few registers, b counts the bytes of a record after turn was in it, turn is
 * loaded again at the end, and t is the address of the second saved words. */
PERCPU_INLINE int percpu_seq_group_update(void *cell, size_t stride, const uint64_t *bank,
					  uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					  const percpu_words2 *n, uint64_t bytes)
{
	uint64_t turn, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_update", "")
		PERCPU_SEQ_GROUP_BEGIN
		"leaq 32(%%rax, %[bytes]), %[t]\n\t"
		"xorl %k[b], %k[b]\n"
		"6:\n\t"
		"movdqa (%[first], %[b]), %%xmm0\n\t"
		"movdqa (%[second], %[b]), %%xmm1\n\t"
		"movdqa %%xmm0, 32(%%rax, %[b])\n\t"
		"movdqa %%xmm1, (%[t], %[b])\n\t"
		PERCPU_SEQ_NEXT_PAIR("%[b]")
		"movq %[names], 8(%%rax)\n\t"
		"xorl %k[b], %k[b]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"movdqu (%[n], %[b], 2), %%xmm0\n\t"
		"paddq (%[first], %[b]), %%xmm0\n\t"
		"movdqa %%xmm0, (%[first], %[b])\n\t"
		"movdqu 16(%[n], %[b], 2), %%xmm1\n\t"
		"paddq (%[second], %[b]), %%xmm1\n\t"
		"movdqa %%xmm1, (%[second], %[b])\n\t"
		PERCPU_SEQ_NEXT_PAIR("%[b]")
		PERCPU_SEQ_STEP(written)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: PERCPU_SEQ_GROUP_OUT
		: PERCPU_SEQ_BANKED, [n] "r"(n), [bytes] "r"(bytes)
		: "xmm0", "xmm1", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* The number of a record becomes its address; slow if there is no such record. */
#define PERCPU_SEQ_GROUP_RECORD(number)                                        \
	"cmpq %[records], " number "\n\t"                                      \
	"jae %l[slow]\n\t"                                                     \
	"imulq %[bytes], " number "\n\t"                                       \
	"addq %[head], " number "\n\t"                                         \
	"addq %%rax, " number "\n\t"

PERCPU_INLINE int percpu_seq_group_undo(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t head, uint64_t records,
					uint64_t bytes)
{
	uint64_t first, second, i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_undo", "")
		"movq (%%rax), %[b]\n\t"
		"movq 8(%%rax), %[second]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"xorq %[second], %[b]\n\t"
		"testl $1, %k[b]\n\t"
		PERCPU_SEQ_REFUSE_IF("z")
		"movq %[second], %[b]\n\t"
		"shlq $32, %[b]\n\t"
		"shrq $33, %[b]\n\t"
		"shrq $32, %[second]\n\t"
		PERCPU_SEQ_GROUP_RECORD("%[b]")
		PERCPU_SEQ_GROUP_RECORD("%[second]")
		"leaq 32(%%rax, %[bytes]), %%r11\n\t"
		"xorl %k[i], %k[i]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"movdqa 32(%%rax, %[i]), %%xmm0\n\t"
		"movdqa %%xmm0, (%[b], %[i])\n\t"
		"movdqa (%%r11, %[i]), %%xmm0\n\t"
		"movdqa %%xmm0, (%[second], %[i])\n\t"
		PERCPU_SEQ_NEXT_PAIR("%[i]")
		PERCPU_SEQ_STEP(written)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(first), [second] "=&r"(second), [i] "=&r"(i)
		: PERCPU_SEQ_BANKED, [head] "r"(head), [records] "r"(records), [bytes] "r"(bytes)
		: "r11", "xmm0", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

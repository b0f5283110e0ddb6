/* SPDX-License-Identifier: MIT */
/*
 * aarch64.h - the sequences of spec.h for 64-bit Arm.
 *
 * Each commit is the last instruction before PERCPU_SEQ_END: one store of one
 * register. A store pair may be interrupted between its halves, so the widest
 * commit is a 16-byte vector store: add2.
 *
 * Exits from within a sequence are unconditional branches, skipped in the
 * common case: a conditional branch does not reach a cold section from
 * everywhere.
 */
#ifndef PERCPU_ARCH_AARCH64_H
#define PERCPU_ARCH_AARCH64_H

#include <percpu/arch/spec.h>

PERCPU_BEGIN_DECLS

/** What the kernel wants to see in front of an abort handler: a brk. */
#define PERCPU_SEQ_SIGNATURE 0xd428bc00

/* Local labels: 1 start, 2 end, 3 descriptor, 4 abort handler, 5 and 7 skip, 6 loop. */
/* clang-format off */

/* The calling thread's area, whatever thread the compiler thinks that is. */
#ifdef PERCPU_LATE
#define PERCPU_SEQ_SELF(to) "mov " to ", %[self]\n\t"
#else
#define PERCPU_SEQ_SELF(to)                                                    \
	"mrs " to ", tpidr_el0\n\t"                                            \
	"ldr " to ", [" to ", %[self]]\n\t"
#endif

/*
 * What keeps a shared object from being unloaded: one constructor, however many
 * sequences and units it has. Programs are not unloaded, and get none.
 */
#if defined(__PIC__) && !defined(__PIE__)
#define PERCPU_SEQ_STAY                                                        \
	".ifndef percpu_seq_stay\n\t"                                          \
	".pushsection .text.percpu_seq_stay, \"axG\", @progbits, "               \
	"percpu_seq_stay, comdat\n"                                            \
	"percpu_seq_stay: hint #34\n\t" /* bti c */                              \
	"adrp x0, percpu_seq_stay\n\t"                                         \
	"add x0, x0, :lo12:percpu_seq_stay\n\t"                                \
	"b percpu_object_stay\n\t"                                             \
	".popsection\n\t"                                                      \
	".pushsection .init_array, \"awG\", @init_array, percpu_seq_stay, comdat\n\t" \
	".quad percpu_seq_stay\n\t"                                            \
	".popsection\n\t"                                                      \
	".endif\n\t"
#else
#define PERCPU_SEQ_STAY
#endif

#define PERCPU_SEQ_BEGIN                                                       \
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
	"adrp x9, 3b\n\t"                                                      \
	"add x9, x9, :lo12:3b\n\t"                                             \
	PERCPU_SEQ_SELF("x10")                                                 \
	"str x9, [x10, #8]\n"                                                  \
	"1:\n\t"                                                               \
	PERCPU_SEQ_STEP(1)                                                     \
	"ldr w9, [x10, #4]\n\t"                                                \
	PERCPU_SEQ_STEP(2)                                                     \
	"tbz w9, #31, 5f\n\t"                                                  \
	"b %l[slow]\n"                                                         \
	"5:\n\t"                                                               \
	PERCPU_SEQ_STEP(3)

/* x9 becomes the distance of this CPU's lane, x10 the address of the cell. */
#define PERCPU_SEQ_LANE                                                        \
	"mul x9, x9, %[stride]\n\t"                                            \
	"add x10, %[cell], x9\n\t"                                             \
	PERCPU_SEQ_STEP(4)

/* Acquire: what follows is loaded after the guard, branch or not. */
#define PERCPU_SEQ_GUARD                                                       \
	"add x9, %[guard], x9\n\t"                                             \
	"ldar w9, [x9]\n\t"                                                    \
	"cbz w9, 5f\n\t"                                                       \
	"b %l[slow]\n"                                                         \
	"5:\n\t"                                                               \
	PERCPU_SEQ_STEP(5)

#define PERCPU_SEQ_END                                                         \
	"2:\n\t"                                                               \
	".pushsection __rseq_failure, \"ax?\"\n\t"                             \
	".inst 0xd428bc00\n"                                                   \
	"4:\n\t"                                                               \
	"b %l[slow]\n\t"                                                       \
	".popsection\n\t"

/* Adds change cells only, which no C expression reads: what the compiler knows
 * of other memory stays known (spec.h, "Ordering"). */
#define PERCPU_SEQ_ADD_CLOBBERS "x9", "x10", "cc" PERCPU_SEQ_STEP_CLOBBERS
#define PERCPU_SEQ_CLOBBERS "memory", PERCPU_SEQ_ADD_CLOBBERS

/* What PERCPU_SEQ_SELF() needs: how far percpu_self is from the thread pointer,
 * the same in all threads, so that the compiler may keep it, unlike the thread
 * pointer; or what was found by a call. */
#ifdef PERCPU_LATE
PERCPU_INLINE struct percpu_rseq *percpu_self_operand(void)
{
	return percpu_self;
}
#else
PERCPU_INLINE size_t percpu_self_operand(void)
{
	size_t offset;

	__asm__("adrp %0, :gottprel:percpu_self\n\t"
		"ldr %0, [%0, #:gottprel_lo12:percpu_self]"
		: "=r"(offset));
	return offset;
}
#endif

PERCPU_INLINE int32_t percpu_seq_cpu(void)
{
	uint64_t cpu;

	__asm__ __volatile__(
		PERCPU_SEQ_SELF("%[cpu]")
		"ldr %w[cpu], [%[cpu], #4]"
		: [cpu] "=&r"(cpu)
		: [self] "r"(percpu_self_operand()));
	return (int32_t)cpu;
}

PERCPU_INLINE int percpu_seq_add(void *cell, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(6)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [n] "r"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add2(void *cell, size_t stride, const int64_t n[2])
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"ldr q0, [x10]\n\t"
		"ldr q1, %[n]\n\t"
		"add v0.2d, v0.2d, v1.2d\n\t"
		PERCPU_SEQ_STEP(6)
		"str q0, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [n] "Q"(*(const percpu_memory2 *)(const void *)n)
		: "v0", "v1", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

#define PERCPU_SEQ_WORDS 2

/* x10 becomes the address of the cell in the bank that counts now. */
#define PERCPU_SEQ_BANK                                                        \
	"ldr x9, %[bank]\n\t"                                                  \
	PERCPU_SEQ_STEP(5)                                                     \
	"and x9, x9, %[mask]\n\t"                                              \
	"add x10, x10, x9\n\t"

PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(6)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [bank] "Q"(*bank),
		  [mask] "r"(mask), [n] "r"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"ldr q0, [x10]\n\t"
		"add v0.2d, v0.2d, %[n].2d\n\t"
		PERCPU_SEQ_STEP(6)
		"str q0, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [bank] "Q"(*bank),
		  [mask] "r"(mask), [n] "w"(n)
		: "v0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

/* No instruction stores so much; no CPU is said to have one. */
PERCPU_INLINE int percpu_seq_bank_add4(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n0, (void)n2;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add8(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2,
				       percpu_words2 n4, percpu_words2 n6)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n0, (void)n2, (void)n4,
		(void)n6;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_update(void *cell, size_t stride, const uint64_t *bank,
					 uint64_t mask, const uint64_t *n, uint64_t words)
{
	uint64_t turn, from, i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"ldar %[turn], [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"add %[from], x10, #16\n\t"
		"add x9, %[from], %[words], lsl #3\n\t"
		"tbz %[turn], #0, 7f\n\t"
		"mov %[i], x9\n\t"
		"mov x9, %[from]\n\t"
		"mov %[from], %[i]\n"
		"7:\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"ldr q0, [%[from], %[i]]\n\t"
		"ldr q1, [%[n], %[i]]\n\t"
		"add v0.2d, v0.2d, v1.2d\n\t"
		"str q0, [x9, %[i]]\n\t"
		"add %[i], %[i], #16\n\t"
		"cmp %[i], %[words], lsl #3\n\t"
		"b.lo 6b\n\t"
		"add %[turn], %[turn], #1\n\t"
		PERCPU_SEQ_STEP(8)
		"stlr %[turn], [x10]\n"
		PERCPU_SEQ_END
		: [turn] "=&r"(turn), [from] "=&r"(from), [i] "=&r"(i)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [bank] "Q"(*bank),
		  [mask] "r"(mask), [n] "r"(n), [words] "r"(words)
		: "v0", "v1", PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_pair_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, uint64_t word, uint64_t words, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		PERCPU_SEQ_BANK
		"ldar x9, [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"and x9, x9, #1\n\t"
		"mul x9, x9, %[words]\n\t"
		"add x9, x9, %[word]\n\t"
		"add x10, x10, x9, lsl #3\n\t"
		PERCPU_SEQ_STEP(7)
		"ldr x9, [x10, #16]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(8)
		"str x9, [x10, #16]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [bank] "Q"(*bank),
		  [mask] "r"(mask), [word] "r"(word), [words] "r"(words), [n] "r"(n)
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
		"ldr %[v], [x10]\n\t"
		"add %[v], %[v], %[n]\n\t"
		PERCPU_SEQ_STEP(6)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [n] "r"(n)
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
		"ldr %[v], [x10]\n\t"
		"add %[v], %[v], %[n]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmp %[v], %[limit]\n\t"
		"b.gt 2f\n\t"
		PERCPU_SEQ_STEP(7)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [n] "r"(n), [limit] "r"(limit)
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
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [v] "r"(v)
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
		"ldr %[old], [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmp %[old], %[expected]\n\t"
		"b.ne 2f\n\t"
		PERCPU_SEQ_STEP(7)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [expected] "r"(expected), [v] "r"(v)
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
		"ldr %[old], [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [v] "r"(v)
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
		"ldr %[i], [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"cmp %[i], %[limit]\n\t"
		"b.lo 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		PERCPU_SEQ_STEP(7)
		"add x9, x10, #8\n\t"
		"str %[item], [x9, %[i], lsl #3]\n\t"
		PERCPU_SEQ_STEP(8)
		"add %[i], %[i], #1\n\t"
		"stlr %[i], [x10]\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [limit] "r"(limit), [item] "r"(item)
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
		"ldr %[i], [x10]\n\t"
		PERCPU_SEQ_STEP(6)
		"cbnz %[i], 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		PERCPU_SEQ_STEP(7)
		"ldr %[item], [x10, %[i], lsl #3]\n\t"
		"sub %[i], %[i], #1\n\t"
		PERCPU_SEQ_STEP(8)
		"str %[i], [x10]\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i), [item] "=&r"(item)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride)
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
		"ldr %[head], [x10]\n\t"
		"add x9, x10, #8\n\t"
		"ldar %[t], [x9]\n\t"
		PERCPU_SEQ_STEP(6)
		"sub %[t], %[t], %[head]\n\t"
		"add %[t], %[t], %[mask]\n\t"
		"add %[t], %[t], #1\n\t"
		"cmp %[t], %[words]\n\t"
		"b.hs 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"ldr %[t], [%[src], %[i], lsl #3]\n\t"
		"and x9, %[head], %[mask]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"str %[t], [x9, #16]\n\t"
		"add %[head], %[head], #1\n\t"
		"add %[i], %[i], #1\n\t"
		"cmp %[i], %[words]\n\t"
		"b.lo 6b\n\t"
		PERCPU_SEQ_STEP(8)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [guard] "r"(guard), [stride] "r"(stride),
		  [mask] "r"(mask), [src] "r"(src), [words] "r"(words)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
refused:
	return PERCPU_SEQ_REFUSED;
slow:
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append(void *cell, size_t stride, uint64_t mask, const uint64_t *src,
				    uint64_t pairs)
{
	const uint64_t *end = src + 2 * pairs, *p;
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN
		PERCPU_SEQ_LANE
		"ldr %[head], [x10]\n\t"
		"add x9, x10, #8\n\t"
		"ldar %[t], [x9]\n\t"
		PERCPU_SEQ_STEP(6)
		"sub %[t], %[t], %[head]\n\t"
		"add %[t], %[t], %[mask]\n\t"
		"add %[t], %[t], #1\n\t"
		"cmp %[t], %[words]\n\t"
		"b.hs 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		"mov %[p], %[src]\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(7)
		"and x9, %[head], %[mask]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"ldr %[t], [%[p]], #8\n\t"
		"str %[t], [x9, #16]\n\t"
		"ldr %[t], [%[p]], #8\n\t"
		"str %[t], [x9, #24]\n\t"
		"add %[head], %[head], #2\n\t"
		"cmp %[p], %[end]\n\t"
		"b.lo 6b\n\t"
		PERCPU_SEQ_STEP(8)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [p] "=&r"(p), [t] "=&r"(t)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [mask] "r"(mask),
		  [src] "r"(src), [end] "r"(end), [words] "r"(2 * pairs)
		: PERCPU_SEQ_CLOBBERS
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
		"ldr w9, [x10]\n\t"
		"add %[v], x9, %[half]\n\t"
		"add %[t], %[v], %[n]\n\t"
		"eor %[t], %[t], %[v]\n\t"
		PERCPU_SEQ_STEP(6)
		"tst %[t], %[window]\n\t"
		"b.eq 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		PERCPU_SEQ_STEP(7)
		"add w9, w9, %w[n]\n\t"
		"str w9, [x10]\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v), [t] "=&r"(t)
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [n] "r"(n),
		  [half] "r"(half), [window] "r"(~(2 * half - 1))
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
		"ldar x9, [%[checkpoint]]\n\t"
		"cmp x9, %[expected]\n\t"
		"b.eq 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		PERCPU_SEQ_STEP(6)
		"ldr w9, [x10]\n\t"
		"add w9, w9, %w[n]\n\t"
		PERCPU_SEQ_STEP(7)
		"str w9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: [self] "r"(percpu_self_operand()),
		  [cell] "r"(cell), [stride] "r"(stride), [n] "r"(n),
		  [checkpoint] "r"(checkpoint), [expected] "r"(expected)
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
		"mov %[left], %[tries]\n"
		"6:\n\t"
		"yield\n\t"
		"cbnz %[left], 7f\n\t"
		"b %l[refused]\n"
		"7:\n\t"
		"sub %[left], %[left], #1\n\t"
		"ldr w9, [%[flag]]\n\t"
		"cbz w9, 6b\n"
		PERCPU_SEQ_END
		: [left] "=&r"(left)
		: [self] "r"(percpu_self_operand()), [flag] "r"(flag), [tries] "r"(tries)
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

/* SPDX-License-Identifier: MIT */
/*
 * aarch64_words.h - the sequences of spec.h that store several words: banked adds
 * of vectors, records in two copies, and queues.
 */
#ifndef PERCPU_ARCH_AARCH64_WORDS_H
#define PERCPU_ARCH_AARCH64_WORDS_H

#include <percpu/arch/aarch64.h>

PERCPU_BEGIN_DECLS

#define PERCPU_SEQ_WORDS 2

/* clang-format off */

PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("bank_add2")
		"ldr q0, [x10]\n\t"
		"add v0.2d, v0.2d, %[n].2d\n\t"
		PERCPU_SEQ_STEP(loaded)
		"str q0, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_BANKED, [n] "w"(n)
		: "v0", PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

/* No instruction stores so much, so percpu_vector_words() never allows these. */
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
		PERCPU_SEQ_BEGIN_BANKED("bank_update")
		"ldar %[turn], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"add %[from], x10, #16\n\t"
		"add x9, %[from], %[words], lsl #3\n\t"
		"tbz %[turn], #0, 7f\n\t"
		"mov %[i], x9\n\t"
		"mov x9, %[from]\n\t"
		"mov %[from], %[i]\n"
		"7:\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr q0, [%[from], %[i]]\n\t"
		"ldr q1, [%[n], %[i]]\n\t"
		"add v0.2d, v0.2d, v1.2d\n\t"
		"str q0, [x9, %[i]]\n\t"
		"add %[i], %[i], #16\n\t"
		"cmp %[i], %[words], lsl #3\n\t"
		"b.lo 6b\n\t"
		"add %[turn], %[turn], #1\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[turn], [x10]\n"
		PERCPU_SEQ_END
		: [turn] "=&r"(turn), [from] "=&r"(from), [i] "=&r"(i)
		: PERCPU_SEQ_BANKED, [n] "r"(n), [words] "r"(words)
		: "v0", "v1", PERCPU_SEQ_CLOBBERS
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
		"ldr %[head], [x10]\n\t"
		"add x9, x10, #8\n\t"
		"ldar %[t], [x9]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"sub %[t], %[t], %[head]\n\t"
		"add %[t], %[t], %[mask]\n\t"
		"add %[t], %[t], #1\n\t"
		"cmp %[t], %[words]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("hs")
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr %[t], [%[src], %[i], lsl #3]\n\t"
		"and x9, %[head], %[mask]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"str %[t], [x9, #16]\n\t"
		"add %[head], %[head], #1\n\t"
		"add %[i], %[i], #1\n\t"
		"cmp %[i], %[words]\n\t"
		"b.lo 6b\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t)
		: PERCPU_SEQ_GUARDED, [mask] "r"(mask), [src] "r"(src), [words] "r"(words)
		: PERCPU_SEQ_CLOBBERS
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
		"ldr %[tail], [x10, #8]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"ldr x9, [x10]\n\t"
		"cmp x9, %[tail]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("ne")
		PERCPU_SEQ_STEP(decided)
		"and x9, %[tail], %[mask]\n\t"
		"add x9, x10, x9, lsl #3\n\t"
		"ldr %[word], [x9, #16]\n\t"
		"add %[tail], %[tail], #1\n\t"
		PERCPU_SEQ_STEP(written)
		"str %[tail], [x10, #8]\n"
		PERCPU_SEQ_END
		: [tail] "=&r"(tail), [word] "=&r"(word)
		: PERCPU_SEQ_GUARDED, [mask] "r"(mask)
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
	"ldr %[head], [x10]\n\t"                                               \
	"add x9, x10, #8\n\t"                                                  \
	"ldar %[t], [x9]\n\t"                                                  \
	PERCPU_SEQ_STEP(loaded)                                                \
	"sub %[t], %[t], %[head]\n\t"                                          \
	"add %[t], %[t], %[mask]\n\t"                                          \
	"add %[t], %[t], #1\n\t"                                               \
	"cmp %[t], #" words "\n\t"                                             \
	PERCPU_SEQ_REFUSE_UNLESS("hs")                                         \
	PERCPU_SEQ_STEP(decided)

#define PERCPU_SEQ_PUT(at, pair)                                               \
	"add %[t], %[head], #" at "\n\t"                                       \
	"and %[t], %[t], %[mask]\n\t"                                          \
	"add %[t], x10, %[t], lsl #3\n\t"                                      \
	"str " pair ", [%[t], #16]\n\t"

PERCPU_INLINE int percpu_seq_append1(void *cell, size_t stride, uint64_t mask, percpu_words2 n0)
{
	uint64_t head, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("append1")
		PERCPU_SEQ_ROOM("2")
		PERCPU_SEQ_PUT("0", "%q[n0]")
		"add %[head], %[head], #2\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "w"(n0)
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
		PERCPU_SEQ_PUT("0", "%q[n0]")
		PERCPU_SEQ_PUT("2", "%q[n1]")
		"add %[head], %[head], #4\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "w"(n0), [n1] "w"(n1)
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
		PERCPU_SEQ_PUT("0", "%q[n0]")
		PERCPU_SEQ_PUT("2", "%q[n1]")
		PERCPU_SEQ_PUT("4", "%q[n2]")
		PERCPU_SEQ_PUT("6", "%q[n3]")
		"add %[head], %[head], #8\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [n0] "w"(n0), [n1] "w"(n1), [n2] "w"(n2),
		  [n3] "w"(n3)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* Store a register at the next position of the ring, whose cell is x10. */
#define PERCPU_SEQ_NEXT(from)                                                  \
	"and x9, %[head], %[mask]\n\t"                                         \
	"add x9, x10, x9, lsl #3\n\t"                                          \
	"str " from ", [x9, #128]\n\t"                                         \
	"add %[head], %[head], #1\n\t"

/* Load head, and refuse if there is no room. name becomes that of the next record, i its
 * number of words. */
#define PERCPU_SEQ_NAME                                                        \
	"ldar %[head], [x10]\n\t"                                              \
	"add x9, x10, #64\n\t"                                                 \
	"ldar %[t], [x9]\n\t"                                                  \
	PERCPU_SEQ_STEP(loaded)                                                \
	"sub %[t], %[head], %[t]\n\t"                                          \
	"and %[t], %[t], %[keep]\n\t"                                          \
	"add %[i], %[size], #31\n\t"                                           \
	"lsr %[i], %[i], #3\n\t"                                               \
	"add %[t], %[t], %[i]\n\t"                                             \
	"sub %[t], %[t], #1\n\t"                                               \
	"cmp %[t], %[mask]\n\t"                                                \
	PERCPU_SEQ_REFUSE_UNLESS("ls")                                         \
	PERCPU_SEQ_STEP(decided)                                               \
	"sub x9, %[head], #1\n\t"                                              \
	"and x9, x9, %[mask]\n\t"                                              \
	"add x9, x10, x9, lsl #3\n\t"                                          \
	"ldr %[name], [x9, #128]\n\t"                                          \
	"lsr %[name], %[name], #16\n\t"                                        \
	"add %[name], %[name], #1\n\t"                                         \
	"orr %[name], %[size], %[name], lsl #16\n\t"

/* isb: the counter is read after all earlier instructions are done. */
PERCPU_INLINE int percpu_seq_put(void *cell, size_t stride, uint64_t mask, uint64_t keep,
				 const void *src, uint64_t size, uint64_t last)
{
	uint64_t head, i, t, name;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("put")
		PERCPU_SEQ_NAME
		PERCPU_SEQ_NEXT("%[name]")
		"isb\n\t"
		"mrs %[t], cntvct_el0\n\t"
		PERCPU_SEQ_NEXT("%[t]")
		"sub %[t], %[i], #4\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		"cmp %[i], %[t]\n\t"
		"b.eq 7f\n\t"
		"ldr x14, [%[src], %[i], lsl #3]\n\t"
		PERCPU_SEQ_NEXT("x14")
		"add %[i], %[i], #1\n\t"
		"b 6b\n"
		"7:\n\t"
		PERCPU_SEQ_NEXT("%[last]")
		PERCPU_SEQ_NEXT("%[name]")
		PERCPU_SEQ_STEP(written)
		"stlr %[head], [x10]\n"
		PERCPU_SEQ_END
		: [head] "=&r"(head), [i] "=&r"(i), [t] "=&r"(t), [name] "=&r"(name)
		: PERCPU_SEQ_CELL, [mask] "r"(mask), [keep] "r"(keep), [src] "r"(src), [size] "r"(size),
		  [last] "r"(last)
		: "x14", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

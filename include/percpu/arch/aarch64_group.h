/* SPDX-License-Identifier: MIT */
/*
 * aarch64_group.h - the sequences of spec_group.h for 64-bit Arm.
 */
#ifndef PERCPU_ARCH_AARCH64_GROUP_H
#define PERCPU_ARCH_AARCH64_GROUP_H

#include <percpu/arch/aarch64.h>
#include <percpu/arch/spec_group.h>

PERCPU_BEGIN_DECLS

/* clang-format off */

/* Refuse if the last update is open. Otherwise turn becomes that of this update, names gets its
 * lowest bit, and a and b become addresses. */
#define PERCPU_SEQ_GROUP_BEGIN                                                 \
	"ldar %[turn], [x10]\n\t"                                              \
	"ldr x9, [x10, #8]\n\t"                                                \
	PERCPU_SEQ_STEP(loaded)                                                \
	"eor x9, x9, %[turn]\n\t"                                              \
	"tst x9, #1\n\t"                                                       \
	PERCPU_SEQ_REFUSE_UNLESS("eq")                                         \
	"add %[turn], %[turn], #1\n\t"                                         \
	"and x9, %[turn], #1\n\t"                                              \
	"orr %[names], %[names], x9\n\t"                                       \
	"add %[a], %[a], x10\n\t"                                              \
	"add %[b], %[b], x10\n\t"

/* The saved words are seen before names, and names before what is added. */
#define PERCPU_SEQ_GROUP_OPEN                                                  \
	"add x9, x10, #8\n\t"                                                  \
	"stlr %[names], [x9]\n\t"                                              \
	"dmb ishst\n\t"

#define PERCPU_SEQ_GROUP_OUT                                                   \
	[turn] "=&r"(turn), [names] "+&r"(names), [a] "+&r"(a), [b] "+&r"(b)

/* b is loaded after a was stored, because it may be the same record. */
PERCPU_INLINE int percpu_seq_group_update2(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na, percpu_words2 nb)
{
	uint64_t turn;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_update2")
		PERCPU_SEQ_GROUP_BEGIN
		"ldr q0, [%[a]]\n\t"
		"ldr q1, [%[b]]\n\t"
		"str q0, [x10, #32]\n\t"
		"str q1, [x10, #48]\n\t"
		PERCPU_SEQ_GROUP_OPEN
		PERCPU_SEQ_STEP(decided)
		"add v0.2d, v0.2d, %[na].2d\n\t"
		"str q0, [%[a]]\n\t"
		"ldr q1, [%[b]]\n\t"
		"add v1.2d, v1.2d, %[nb].2d\n\t"
		"str q1, [%[b]]\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[turn], [x10]\n"
		PERCPU_SEQ_END
		: PERCPU_SEQ_GROUP_OUT
		: PERCPU_SEQ_BANKED, [na] "w"(na), [nb] "w"(nb)
		: "v0", "v1", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* percpu_vector_words() never allows this. */
PERCPU_INLINE int percpu_seq_group_update4(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na0, percpu_words2 na2, percpu_words2 nb0,
					   percpu_words2 nb2)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)names, (void)a, (void)b;
	(void)na0, (void)na2, (void)nb0, (void)nb2;
	return PERCPU_SEQ_SLOW;
}

/* Go on with the next pair of words. i counts the bytes of a record. */
#define PERCPU_SEQ_NEXT_PAIR                                                   \
	"add %[i], %[i], #16\n\t"                                              \
	"cmp %[i], %[bytes]\n\t"                                               \
	"b.lo 6b\n\t"

PERCPU_INLINE int percpu_seq_group_update(void *cell, size_t stride, const uint64_t *bank,
					  uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					  const percpu_words2 *n, uint64_t bytes)
{
	uint64_t turn, i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_update")
		PERCPU_SEQ_GROUP_BEGIN
		"add x9, x10, #32\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		"ldr q0, [%[a], %[i]]\n\t"
		"ldr q1, [%[b], %[i]]\n\t"
		"str q1, [x9, %[bytes]]\n\t"
		"str q0, [x9], #16\n\t"
		PERCPU_SEQ_NEXT_PAIR
		PERCPU_SEQ_GROUP_OPEN
		"mov x9, %[n]\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr q0, [%[a], %[i]]\n\t"
		"ldr q1, [x9]\n\t"
		"add v0.2d, v0.2d, v1.2d\n\t"
		"str q0, [%[a], %[i]]\n\t"
		"ldr q0, [%[b], %[i]]\n\t"
		"ldr q1, [x9, #16]\n\t"
		"add v0.2d, v0.2d, v1.2d\n\t"
		"str q0, [%[b], %[i]]\n\t"
		"add x9, x9, #32\n\t"
		PERCPU_SEQ_NEXT_PAIR
		PERCPU_SEQ_STEP(written)
		"stlr %[turn], [x10]\n"
		PERCPU_SEQ_END
		: PERCPU_SEQ_GROUP_OUT, [i] "=&r"(i)
		: PERCPU_SEQ_BANKED, [n] "r"(n), [bytes] "r"(bytes)
		: "v0", "v1", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* The number of a record becomes its address; slow if there is no such record. */
#define PERCPU_SEQ_GROUP_RECORD(number)                                        \
	"cmp " number ", %[records]\n\t"                                       \
	"b.lo 5f\n\t"                                                          \
	"b %l[slow]\n"                                                         \
	"5:\n\t"                                                               \
	"add x9, x10, %[head]\n\t"                                             \
	"mul " number ", " number ", %[bytes]\n\t"                             \
	"add " number ", " number ", x9\n\t"

PERCPU_INLINE int percpu_seq_group_undo(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t head, uint64_t records,
					uint64_t bytes)
{
	uint64_t turn, i, a, b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("group_undo")
		"ldar %[turn], [x10]\n\t"
		"ldr %[b], [x10, #8]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"eor x9, %[b], %[turn]\n\t"
		"tst x9, #1\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("ne")
		"ubfx %[a], %[b], #1, #31\n\t"
		"lsr %[b], %[b], #32\n\t"
		PERCPU_SEQ_GROUP_RECORD("%[a]")
		PERCPU_SEQ_GROUP_RECORD("%[b]")
		"add x9, x10, #32\n\t"
		"mov %[i], xzr\n"
		"6:\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr q1, [x9, %[bytes]]\n\t"
		"ldr q0, [x9], #16\n\t"
		"str q0, [%[a], %[i]]\n\t"
		"str q1, [%[b], %[i]]\n\t"
		PERCPU_SEQ_NEXT_PAIR
		"add %[turn], %[turn], #1\n\t"
		PERCPU_SEQ_STEP(written)
		"stlr %[turn], [x10]\n"
		PERCPU_SEQ_END
		: [turn] "=&r"(turn), [i] "=&r"(i), [a] "=&r"(a), [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [head] "r"(head), [records] "r"(records), [bytes] "r"(bytes)
		: "v0", "v1", PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * aarch64.h - the sequences of spec.h for 64-bit Arm. {a}_words.h has those that store
 * several words, aarch64_values.h those on doubles and other values.
 *
 * The commit is the last instruction before PERCPU_SEQ_END: one store of one
 * register. A store pair may be interrupted between its halves, so the widest
 * commit is a 16-byte vector store.
 *
 * Exits from within a sequence are unconditional branches, which the common case
 * skips: a conditional branch may be too far from a cold section.
 */
#ifndef PERCPU_ARCH_AARCH64_H
#define PERCPU_ARCH_AARCH64_H

#include <percpu/arch/spec.h>

PERCPU_BEGIN_DECLS

/** The number that the kernel requires in front of an abort handler: a brk. */
#define PERCPU_SEQ_SIGNATURE 0xd428bc00

/* Local labels: 1 start, 2 end, 3 descriptor, 4 abort handler, 5 and 7 skip, 6 loop or
 * skip, 8 commit. */
/* clang-format off */

/* Load the calling thread's percpu_self. The assembly reads the thread pointer, because
 * compilers may keep that of another thread (self.h). */
#ifdef PERCPU_LATE
#define PERCPU_SEQ_SELF(to) "mov " to ", %[self]\n\t"
#else
#define PERCPU_SEQ_SELF(to)                                                    \
	"mrs " to ", tpidr_el0\n\t"                                            \
	"ldr " to ", [" to ", %[self]]\n\t"
#endif

/*
 * A constructor that keeps a shared object from being unloaded. An object gets one, however
 * many sequences and units it has. Programs are not unloaded, and get none.
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

/*
 * The descriptor and the abort handler, with symbols that debuggers and profilers
 * show, and entries in two lists for debuggers: that of descriptors, and that of the places
 * where a sequence may leave.
 */
#define PERCPU_SEQ_RECORD(name)                                                \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                  \
	".balign 32\n"                                                         \
	"percpu_seq_" name ".cs.%=:\n\t"                                       \
	".type percpu_seq_" name ".cs.%=, @object\n\t"                         \
	".size percpu_seq_" name ".cs.%=, 32\n"                                \
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
	".pushsection __rseq_failure, \"ax?\"\n\t"                             \
	".inst 0xd428bc00\n"                                                   \
	"percpu_seq_" name ".abort.%=:\n"                                      \
	"4:\n\t"                                                               \
	"b %l[slow]\n\t"                                                       \
	".type percpu_seq_" name ".abort.%=, @function\n\t"                    \
	".size percpu_seq_" name ".abort.%=, . - 4b\n\t"                       \
	".popsection\n\t"

/* x9 becomes the CPU number. */
#define PERCPU_SEQ_START(name)                                                 \
	PERCPU_SEQ_STAY                                                        \
	PERCPU_SEQ_RECORD(name)                                                \
	"adrp x9, 3b\n\t"                                                      \
	"add x9, x9, :lo12:3b\n\t"                                             \
	PERCPU_SEQ_SELF("x10")                                                 \
	"str x9, [x10, #8]\n"                                                  \
	"1:\n\t"                                                               \
	PERCPU_SEQ_STEP(armed)                                                 \
	"ldr w9, [x10, #4]\n\t"                                                \
	PERCPU_SEQ_STEP(numbered)                                              \
	"tbz w9, #31, 5f\n\t"                                                  \
	"b %l[slow]\n"                                                         \
	"5:\n\t"                                                               \
	PERCPU_SEQ_STEP(registered)

/* x9 becomes the distance of this CPU's lane. */
#define PERCPU_SEQ_LANE                                                        \
	"mul x9, x9, %[stride]\n\t"                                            \
	PERCPU_SEQ_STEP(placed)

/* The beginning of a sequence: x10 becomes the address of this CPU's cell. */
#define PERCPU_SEQ_BEGIN(name)                                                 \
	PERCPU_SEQ_START(name)                                                 \
	PERCPU_SEQ_LANE                                                        \
	"add x10, %[cell], x9\n\t"

/* The same, but leave if the guard is raised. Acquire: later loads come after that of the
 * guard, branch or not. */
#define PERCPU_SEQ_BEGIN_GUARDED(name)                                         \
	PERCPU_SEQ_BEGIN(name)                                                 \
	"add x9, %[guard], x9\n\t"                                             \
	"ldar w9, [x9]\n\t"                                                    \
	"cbz w9, 5f\n\t"                                                       \
	"b %l[slow]\n"                                                         \
	"5:\n\t"                                                               \
	PERCPU_SEQ_STEP(admitted)

/* The same, for the cell in the bank that counts now. */
#define PERCPU_SEQ_BEGIN_BANKED(name)                                          \
	PERCPU_SEQ_BEGIN(name)                                                 \
	"ldr x9, %[bank]\n\t"                                                  \
	PERCPU_SEQ_STEP(admitted)                                              \
	"and x9, x9, %[mask]\n\t"                                              \
	"add x10, x10, x9\n\t"

/* The operands and the clobbers of sequences. Adds change cells only, which no C
 * expression reads, so the compiler may keep what it knows of other memory (spec.h,
 * "To the compiler"). */
#define PERCPU_SEQ_CELL                                                        \
	[self] "r"(percpu_self_operand()), [cell] "r"(cell), [stride] "r"(stride)
#define PERCPU_SEQ_GUARDED PERCPU_SEQ_CELL, [guard] "r"(guard)
#define PERCPU_SEQ_BANKED PERCPU_SEQ_CELL, [bank] "Q"(*bank), [mask] "r"(mask)
#define PERCPU_SEQ_ADD_CLOBBERS "x9", "x10", "cc" PERCPU_SEQ_STEP_CLOBBERS
#define PERCPU_SEQ_CLOBBERS "memory", PERCPU_SEQ_ADD_CLOBBERS

/* Leave without the commit unless the condition holds. */
#define PERCPU_SEQ_REFUSE_UNLESS(condition)                                    \
	"b." condition " 7f\n\t"                                               \
	"b %l[refused]\n\t"                                                    \
	".pushsection __rseq_exit_point_array, \"aw?\"\n\t"                    \
	".quad 1b, %l[refused]\n\t"                                            \
	".popsection\n"                                                        \
	"7:\n\t"

#define PERCPU_SEQ_END "2:\n\t"

/* Return the operand of PERCPU_SEQ_SELF(): the distance from the thread pointer to
 * percpu_self, which the compiler may keep because it is the same in all threads. With
 * PERCPU_LATE: percpu_self itself. */
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
		PERCPU_SEQ_BEGIN("add")
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "r"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("bank_add")
		"ldr x9, [x10]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"str x9, [x10]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_BANKED, [n] "r"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_copies_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, uint64_t word, uint64_t words, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("copies_add")
		"ldar x9, [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"and x9, x9, #1\n\t"
		"mul x9, x9, %[words]\n\t"
		"add x9, x9, %[word]\n\t"
		"add x10, x10, x9, lsl #3\n\t"
		PERCPU_SEQ_STEP(decided)
		"ldr x9, [x10, #16]\n\t"
		"add x9, x9, %[n]\n\t"
		PERCPU_SEQ_STEP(written)
		"str x9, [x10, #16]\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_BANKED, [word] "r"(word), [words] "r"(words), [n] "r"(n)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_add_limit(void *cell, const void *guard, size_t stride, int64_t n,
				       int64_t limit, int64_t *ret)
{
	int64_t v;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("add_limit")
		"ldr %[v], [x10]\n\t"
		"add %[v], %[v], %[n]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmp %[v], %[limit]\n\t"
		"b.gt 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: PERCPU_SEQ_GUARDED, [n] "r"(n), [limit] "r"(limit)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = v;
	return v > limit ? PERCPU_SEQ_REFUSED : 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_cmpxchg(void *cell, const void *guard, size_t stride, int64_t expected,
				     int64_t v, int64_t *ret)
{
	int64_t old;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("cmpxchg")
		"ldr %[old], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmp %[old], %[expected]\n\t"
		"b.ne 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: PERCPU_SEQ_GUARDED, [expected] "r"(expected), [v] "r"(v)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = old;
	return old != expected ? PERCPU_SEQ_REFUSED : 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_xchg(void *cell, const void *guard, size_t stride, int64_t v,
				  int64_t *ret)
{
	int64_t old;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("xchg")
		"ldr %[old], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"str %[v], [x10]\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: PERCPU_SEQ_GUARDED, [v] "r"(v)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = old;
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_enter(void *cell, size_t stride, uint64_t owner, void **ret)
{
	uint64_t w;
	void *lane;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("enter")
		"ldar %[w], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"mov %[lane], x10\n\t"
		"add x9, x10, #8\n\t"
		"ldar x9, [x9]\n\t"
		"orr %[w], %[w], x9\n\t"
		"cbnz %[w], 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"str %[owner], [x10]\n"
		PERCPU_SEQ_END
		: [w] "=&r"(w), [lane] "=&r"(lane)
		: PERCPU_SEQ_CELL, [owner] "r"(owner)
		: PERCPU_SEQ_CLOBBERS
		: slow);
	*ret = lane;
	return w != 0 ? PERCPU_SEQ_REFUSED : 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_push(void *cell, const void *guard, size_t stride, uint64_t limit,
				  void *item)
{
	uint64_t i;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("push")
		"ldr %[i], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmp %[i], %[limit]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("lo")
		PERCPU_SEQ_STEP(decided)
		"add x9, x10, #8\n\t"
		"str %[item], [x9, %[i], lsl #3]\n\t"
		PERCPU_SEQ_STEP(written)
		"add %[i], %[i], #1\n\t"
		"stlr %[i], [x10]\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i)
		: PERCPU_SEQ_GUARDED, [limit] "r"(limit), [item] "r"(item)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_pop(void *cell, const void *guard, size_t stride, void **ret)
{
	uint64_t i;
	void *item;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_GUARDED("pop")
		"ldr %[i], [x10]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmp %[i], #0\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("ne")
		PERCPU_SEQ_STEP(decided)
		"ldr %[item], [x10, %[i], lsl #3]\n\t"
		"sub %[i], %[i], #1\n\t"
		PERCPU_SEQ_STEP(written)
		"str %[i], [x10]\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i), [item] "=&r"(item)
		: PERCPU_SEQ_GUARDED
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	*ret = item;
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_narrow_add(void *cell, size_t stride, int64_t n, uint64_t half)
{
	uint64_t v, t;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("narrow_add")
		"ldr w9, [x10]\n\t"
		"add %[v], x9, %[half]\n\t"
		"add %[t], %[v], %[n]\n\t"
		"eor %[t], %[t], %[v]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"tst %[t], %[window]\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("eq")
		PERCPU_SEQ_STEP(decided)
		"add w9, w9, %w[n]\n\t"
		"str w9, [x10]\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [n] "r"(n),
		  [half] "r"(half), [window] "r"(~(2 * half - 1))
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow, refused);
	return 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_spin(const uint32_t *flag, uint64_t tries)
{
	uint64_t left;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_START("spin")
		"mov %[left], %[tries]\n"
		"6:\n\t"
		"yield\n\t"
		"cmp %[left], #0\n\t"
		PERCPU_SEQ_REFUSE_UNLESS("ne")
		"sub %[left], %[left], #1\n\t"
		"ldr w9, [%[flag]]\n\t"
		"cbz w9, 6b\n"
		PERCPU_SEQ_END
		: [left] "=&r"(left)
		: [self] "r"(percpu_self_operand()), [flag] "r"(flag), [tries] "r"(tries)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return left == tries - 1 ? PERCPU_SEQ_REFUSED : 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#include <percpu/arch/aarch64_words.h>
#include <percpu/arch/aarch64_values.h>
#include <percpu/arch/aarch64_group.h>

#endif

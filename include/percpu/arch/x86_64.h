/* SPDX-License-Identifier: MIT */
/*
 * x86_64.h - the sequences of spec.h for x86-64. {a}_words.h has those that store
 * several words, x86_64_values.h those on doubles and other values.
 *
 * The commit is the last instruction before PERCPU_SEQ_END. A read-modify-write of
 * memory is one instruction, so for this CPU it commits as a whole. It need not be atomic
 * toward other CPUs. Steps of spec.h that are within such an instruction are left out.
 */
#ifndef PERCPU_ARCH_X86_64_H
#define PERCPU_ARCH_X86_64_H

#include <percpu/arch/spec.h>

PERCPU_BEGIN_DECLS

/** The number that the kernel requires in front of an abort handler. */
#define PERCPU_SEQ_SIGNATURE 0x53053053

/* Local labels: 1 start, 2 end, 3 descriptor, 4 abort handler, 6 loop, 7 skip,
 * 8 commit. */
/* clang-format off */

/*
 * In a unit that is compiled with -masm=intel, operands have a syntax that does not fit
 * these instructions. There the assembler skips the text between these two, and the slow
 * path runs the sequence in the library.
 */
#define PERCPU_SEQ_ATT "{|jmp %l[slow]\n\t.if 0\n\t}"
#define PERCPU_SEQ_ATT_END "{|.endif\n\t}"

/*
 * A constructor that keeps a shared object from being unloaded. An object gets one, however
 * many sequences and units it has. Programs are not unloaded, and get none.
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
 * The descriptor and the abort handler, with symbols that debuggers and profilers
 * show, and entries in two lists for debuggers: that of descriptors, and that of the places
 * where a sequence may leave. The "?" puts the sections into the group of their
 * function, so that a C++ inline function in several units keeps one copy of each. ud1
 * makes a disassembler take the signature for an operand.
 */
#define PERCPU_SEQ_RECORD(name)                                                \
	".pushsection __rseq_cs, \"aw?\"\n\t"                                  \
	".balign 32\n"                                                         \
	"percpu_seq_" name ".cs.%=:\n\t"                                           \
	".type percpu_seq_" name ".cs.%=, @object\n\t"                             \
	".size percpu_seq_" name ".cs.%=, 32\n"                                    \
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
	".byte 0x0f, 0xb9, 0x3d\n\t"                                           \
	".long 0x53053053\n"                                                   \
	"percpu_seq_" name ".abort.%=:\n"                                          \
	"4:\n\t"                                                               \
	"jmp %l[slow]\n\t"                                                     \
	".type percpu_seq_" name ".abort.%=, @function\n\t"                        \
	".size percpu_seq_" name ".abort.%=, . - 4b\n\t"                           \
	".popsection\n\t"

/* %rax becomes the CPU number. The instructions "before" run before the kernel knows of
 * the sequence. */
#define PERCPU_SEQ_START(name, before)                                         \
	PERCPU_SEQ_ATT                                                         \
	PERCPU_SEQ_STAY                                                        \
	PERCPU_SEQ_RECORD(name)                                                \
	before                                                                 \
	"leaq 3b(%%rip), %%rax\n\t"                                            \
	"movq %%rax, 8(%[rs])\n"                                               \
	"1:\n\t"                                                               \
	PERCPU_SEQ_STEP(armed)                                                 \
	"movl 4(%[rs]), %%eax\n\t"                                             \
	PERCPU_SEQ_STEP(numbered)                                              \
	"testl %%eax, %%eax\n\t"                                               \
	"js %l[slow]\n\t"                                                      \
	PERCPU_SEQ_STEP(registered)

/* %rax becomes the distance of this CPU's lane. */
#define PERCPU_SEQ_LANE                                                        \
	"imulq %[stride], %%rax\n\t"                                           \
	PERCPU_SEQ_STEP(placed)

/*
 * The beginning of a sequence: %rax becomes the address of this CPU's cell. It is one
 * register, not base and index, because otherwise some CPUs (Golden Cove) delay the
 * forwarding of a store to the next load of the same cell.
 */
#define PERCPU_SEQ_BEGIN(name)                                                 \
	PERCPU_SEQ_START(name, "")                                             \
	PERCPU_SEQ_LANE                                                        \
	"addq %[cell], %%rax\n\t"

/* The same, but leave if the guard is raised. */
#define PERCPU_SEQ_BEGIN_GUARDED(name)                                         \
	PERCPU_SEQ_START(name, "")                                             \
	PERCPU_SEQ_LANE                                                        \
	"cmpl $0, (%[guard], %%rax)\n\t"                                       \
	"jne %l[slow]\n\t"                                                     \
	PERCPU_SEQ_STEP(admitted)                                              \
	"addq %[cell], %%rax\n\t"

/* The same, for the cell in the bank that counts now. */
#define PERCPU_SEQ_BEGIN_BANKED(name, before)                                  \
	PERCPU_SEQ_START(name, before)                                         \
	PERCPU_SEQ_LANE                                                        \
	"movq %[bank], %[b]\n\t"                                               \
	PERCPU_SEQ_STEP(admitted)                                              \
	"andq %[mask], %[b]\n\t"                                               \
	"addq %[cell], %%rax\n\t"                                              \
	"addq %[b], %%rax\n\t"

/* The operands and the clobbers of sequences. Adds change cells only, which no C
 * expression reads, so the compiler may keep what it knows of other memory (spec.h,
 * "To the compiler"). */
#define PERCPU_SEQ_CELL                                                        \
	[rs] "r"(percpu_self), [cell] "r"(cell), [stride] "re"(stride)
#define PERCPU_SEQ_GUARDED PERCPU_SEQ_CELL, [guard] "r"(guard)
#define PERCPU_SEQ_BANKED PERCPU_SEQ_CELL, [bank] "m"(*bank), [mask] "re"(mask)
#define PERCPU_SEQ_ADD_CLOBBERS "rax", "cc" PERCPU_SEQ_STEP_CLOBBERS
#define PERCPU_SEQ_CLOBBERS "memory", PERCPU_SEQ_ADD_CLOBBERS

/* Leave without the commit if the condition holds. */
#define PERCPU_SEQ_REFUSE_IF(condition)                                        \
	"j" condition " %l[refused]\n\t"                                       \
	".pushsection __rseq_exit_point_array, \"aw?\"\n\t"                    \
	".quad 1b, %l[refused]\n\t"                                            \
	".popsection\n\t"

#define PERCPU_SEQ_END                                                         \
	"2:\n\t"                                                               \
	PERCPU_SEQ_ATT_END

PERCPU_INLINE int32_t percpu_seq_cpu(void)
{
	return __atomic_load_n(&percpu_self->cpu_id, __ATOMIC_RELAXED);
}

PERCPU_INLINE int percpu_seq_add(void *cell, size_t stride, int64_t n)
{
	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN("add")
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: /* none */
		: PERCPU_SEQ_CELL, [n] "re"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("bank_add", "")
		PERCPU_SEQ_STEP(loaded)
		"addq %[n], (%%rax)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [n] "re"(n)
		: PERCPU_SEQ_ADD_CLOBBERS
		: slow);
	return 0;
	PERCPU_SEQ_EXIT
}

PERCPU_INLINE int percpu_seq_copies_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, uint64_t word, uint64_t words, int64_t n)
{
	uint64_t b;

	__asm__ __volatile__ goto(
		PERCPU_SEQ_BEGIN_BANKED("copies_add", "")
		"movq (%%rax), %[b]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"andq $1, %[b]\n\t"
		"imulq %[words], %[b]\n\t"
		"addq %[word], %[b]\n\t"
		PERCPU_SEQ_STEP(decided)
		"addq %[n], 16(%%rax, %[b], 8)\n"
		PERCPU_SEQ_END
		: [b] "=&r"(b)
		: PERCPU_SEQ_BANKED, [word] "r"(word), [words] "r"(words), [n] "re"(n)
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
		"movq (%%rax), %[v]\n\t"
		"addq %[n], %[v]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmpq %[limit], %[v]\n\t"
		"jg 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v)
		: PERCPU_SEQ_GUARDED, [n] "re"(n), [limit] "re"(limit)
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
		"movq (%%rax), %[old]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmpq %[expected], %[old]\n\t"
		"jne 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: PERCPU_SEQ_GUARDED, [expected] "re"(expected), [v] "re"(v)
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
		"movq (%%rax), %[old]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"movq %[v], (%%rax)\n"
		PERCPU_SEQ_END
		: [old] "=&r"(old)
		: PERCPU_SEQ_GUARDED, [v] "re"(v)
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
		"movq (%%rax), %[w]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"movq %%rax, %[lane]\n\t"
		"orq 8(%%rax), %[w]\n\t"
		"jnz 2f\n\t"
		PERCPU_SEQ_STEP(decided)
		"movq %[owner], (%%rax)\n"
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
		"movq (%%rax), %[i]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"cmpq %[limit], %[i]\n\t"
		PERCPU_SEQ_REFUSE_IF("ae")
		PERCPU_SEQ_STEP(decided)
		"movq %[item], 8(%%rax, %[i], 8)\n\t"
		PERCPU_SEQ_STEP(written)
		"incq (%%rax)\n"
		PERCPU_SEQ_END
		: [i] "=&r"(i)
		: PERCPU_SEQ_GUARDED, [limit] "re"(limit), [item] "r"(item)
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
		"movq (%%rax), %[i]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"testq %[i], %[i]\n\t"
		PERCPU_SEQ_REFUSE_IF("z")
		PERCPU_SEQ_STEP(decided)
		"movq (%%rax, %[i], 8), %[item]\n\t"
		PERCPU_SEQ_STEP(written)
		"decq (%%rax)\n"
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
		"movl (%%rax), %k[v]\n\t"
		"addq %[half], %[v]\n\t"
		"movq %[v], %[t]\n\t"
		"addq %[n], %[t]\n\t"
		"xorq %[v], %[t]\n\t"
		PERCPU_SEQ_STEP(loaded)
		"testq %[window], %[t]\n\t"
		PERCPU_SEQ_REFUSE_IF("nz")
		PERCPU_SEQ_STEP(decided)
		"addl %k[n], (%%rax)\n"
		PERCPU_SEQ_END
		: [v] "=&r"(v), [t] "=&r"(t)
		: PERCPU_SEQ_CELL, [n] "re"(n), [half] "re"(half), [window] "re"(~(2 * half - 1))
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
		PERCPU_SEQ_START("spin", "")
		"movq %[tries], %[left]\n"
		"6:\n\t"
		"pause\n\t"
		"subq $1, %[left]\n\t"
		PERCPU_SEQ_REFUSE_IF("c")
		"cmpl $0, (%[flag])\n\t"
		"je 6b\n"
		PERCPU_SEQ_END
		: [left] "=&r"(left)
		: [rs] "r"(percpu_self), [flag] "r"(flag), [tries] "r"(tries)
		: PERCPU_SEQ_CLOBBERS
		: slow, refused);
	return left == tries - 1 ? PERCPU_SEQ_REFUSED : 0;
	PERCPU_SEQ_EXIT_REFUSED
	PERCPU_SEQ_EXIT
}

/* clang-format on */

PERCPU_END_DECLS

#include <percpu/arch/x86_64_words.h>
#include <percpu/arch/x86_64_values.h>
#include <percpu/arch/x86_64_group.h>

#endif

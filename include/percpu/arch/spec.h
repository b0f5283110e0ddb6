/* SPDX-License-Identifier: MIT */
/*
 * spec.h - the restartable sequences that each arch/<a>.h must define.
 *
 * This file is the contract and holds no code but the types; the pseudo-code
 * below is what every port does, step by step.
 *
 * A sequence is a run of instructions that the kernel restarts when the
 * thread is preempted, migrated or interrupted by a signal within it. Its last
 * instruction is the commit: one store. Before it, nothing that another thread
 * could see has changed; after it, everything has. Hence, seen from the other
 * threads of the same CPU, a sequence happens at once or not at all.
 *
 * All sequences share a frame:
 *
 *	rs = percpu_self                 the calling thread's area
 *	rs->rseq_cs = &descriptor        arm; the kernel disarms when it aborts
 *   start:
 *	cpu = rs->cpu_id                 inside, so that it cannot go stale
 *	if (cpu < 0) goto slow           this thread has no registration
 *	p = cell + cpu * stride
 *	if (guarded && *(uint32_t *)(guard + cpu * stride)) goto slow	acquire
 *	... the operation; its last store is the commit ...
 *   end:
 *	return 0
 *   abort:                           (signature in the 4 bytes before it)
 *   slow:
 *	return PERCPU_SEQ_SLOW
 *
 * The caller, not the sequence, restarts: it knows how often it may, and what
 * to do then. So no sequence loops without bound, and a thread that is
 * single-stepped by a debugger ends up in its fallback.
 *
 * Abort handlers have no landing pad (endbr64, bti) and need none. The kernel gets
 * there by setting the program counter. It adds no pending branch, and there was
 * none: no sequence has an indirect branch in it, nor is one the target of any.
 *
 * Parameters, the same everywhere
 *	cell	the object's address in lane 0
 *	guard	address in lane 0 of a 32-bit word; nonzero in a lane keeps
 *		sequences out of it (fallback.h says who sets it)
 *	stride	distance between lanes; a constant where the caller has one
 *
 * Returns
 *	0			committed
 *	PERCPU_SEQ_SLOW		not committed: aborted, guarded, or this
 *				thread cannot run sequences
 *	PERCPU_SEQ_REFUSED	not committed: the operation's own condition
 *				does not hold on this CPU
 * Outputs are set with 0 and, where said, with PERCPU_SEQ_REFUSED; with
 * PERCPU_SEQ_SLOW they may hold anything.
 *
 * A refusal that has an output leaves at "end", without the store: compilers
 * differ in whether outputs of an asm are valid at its labels.
 *
 * Ordering: none toward other CPUs, except of what is marked: a load "acquire"
 * comes before all loads and stores that follow it, a commit "release" after all
 * that precede it. Each pairs with something in C; tests/litmus has a test for
 * each, in the language of herd7:
 *
 *	guard		acquire; pairs with the release by which the last who
 *			raised it lowers it (leave() in src/objects/local.c). Who finds
 *			it down finds the lane as they left it.
 *	turn		acquire; pairs with the commit of the update before, so
 *			that no store to a copy is seen before that commit.
 *			Commit: release; pairs with the acquire loads, in front
 *			of a word and behind it, of add_pair() in
 *			src/objects/stats_read.c.
 *	push		commit: release; pairs with an acquire load of count by
 *			who looks into the array without its guard.
 *	copy, append	tail: acquire; pairs with the release by which the
 *			consumer gives slots back. Commit: release; pairs with
 *			the consumer's acquire load of head (move_tail() and
 *			apply_queue() in src/objects/wbuf.c).
 *	checkpoint	acquire; pairs with the compare-and-swap of the thread
 *			itself (make_checkpoint() in src/objects/compact.c), so that who
 *			sees the crossing sees the checkpoint that allowed it.
 *
 * What was not marked pairs with a fence: who raises a guard or changes a bank
 * fences, and then every sequence that had not seen it has committed, visibly,
 * or starts anew and sees it. A cell is stored to by one CPU, which sees its own
 * stores in order, so sequences of one CPU need nothing among themselves.
 *
 * To the compiler each is a barrier, except add*, bank_add* and narrow_add: it
 * moves no call, atomic access or other sequence across them, but keeps in
 * registers what it has loaded, such as the object's description. So who also
 * gets at the cells by pointer puts __atomic_signal_fence() in front of and
 * behind them.
 *
 * Registers: the assembly tells the compiler all that it changes, upper halves
 * of vector registers included. So a function for other instructions than its
 * unit, as by __attribute__((target("avx2"))), inlines sequences like any other.
 *
 * cpu()							int32_t
 *	return percpu_self->cpu_id
 *	No sequence: the number may be stale when it is returned. Negative in a
 *	thread without registration, and where there are no sequences.
 *
 * add(cell, stride, n)
 *	*p += n						commit, 1 word
 *
 * add2, add4, add8(cell, stride, const int64_t n[N])
 *	p[0..N-1] += n[0..N-1]				commit, one vector store
 *	cell is aligned to N words. Defined where one instruction stores so
 *	many bytes; PERCPU_SEQ_WORDS is the largest N that is inlined in this
 *	translation unit.
 *
 * bank_add(cell, stride, const uint64_t *bank, mask, n)
 *	p += *bank & mask				inside, like the CPU
 *	*p += n						commit, 1 word
 *	A reader who changes *bank and fences has what was added before in
 *	the old bank, and nobody adds there any more. The mask is the distance
 *	of the banks: whatever a damaged *bank says, p stays between them.
 *
 * bank_add2, bank_add4, bank_add8(cell, stride, bank, mask, n...)
 *	likewise, with add2, add4, add8; the words are passed in pairs, in
 *	registers. add4 and add8 are for CPUs with AVX2 and AVX-512.
 *
 * bank_update(cell, stride, bank, mask, const uint64_t *n, words)
 *							struct percpu_pair
 *	p += *bank & mask
 *	old = p->turn & 1, new = 1 - old		acquire
 *	p->copy[new][i] = p->copy[old][i] + n[i]	for i in 0..words-1
 *	p->turn++					commit, release
 *	words is even, and is the size of a copy. A reader that loads turn
 *	(acquire), a word of the copy it names, and, behind an acquire fence,
 *	the same turn once more, has what that commit made valid.
 *
 * pair_add(cell, stride, bank, mask, word, words, n)	struct percpu_pair
 *	p += *bank & mask
 *	valid = p->turn & 1				acquire
 *	p->copy[valid][word] += n			commit, 1 word
 *	words is the size of a copy. It changes the copy that counts in place, for
 *	one word is there as a whole or not at all.
 *
 * add_return(cell, guard, stride, n, int64_t *ret)
 *	v = *p + n
 *	*p = v						commit
 *	*ret = v
 *
 * add_limit(cell, guard, stride, n, limit, int64_t *ret)
 *	v = *p + n
 *	if (v > limit) { *ret = v; return REFUSED }	signed
 *	*p = v						commit
 *	*ret = v
 *
 * store(cell, guard, stride, v)
 *	*p = v						commit
 *
 * cmpxchg(cell, guard, stride, expected, v, int64_t *ret)
 *	old = *p
 *	if (old != expected) { *ret = old; return REFUSED }
 *	*p = v						commit
 *	*ret = old
 *
 * xchg(cell, guard, stride, v, int64_t *ret)
 *	old = *p
 *	*p = v						commit
 *	*ret = old
 *
 * push(cell, guard, stride, limit, void *item)	struct percpu_array
 *	i = p->count
 *	if (i >= limit) return REFUSED			full
 *	p->slot[i] = item
 *	p->count = i + 1				commit, release
 *
 * pop(cell, guard, stride, void **ret)		struct percpu_array
 *	i = p->count
 *	if (i == 0) return REFUSED			empty
 *	item = p->slot[i - 1]
 *	p->count = i - 1				commit
 *	*ret = item
 *
 * copy(cell, guard, stride, mask, const uint64_t *src, words)
 *							struct percpu_fifo
 *	head = p->head
 *	tail = p->tail					acquire
 *	if (mask + 1 - (head - tail) < words) return REFUSED	no room
 *	p->slot[(head + i) & mask] = src[i]		for i in 0..words-1
 *	p->head = head + words				commit, release
 *	words is at least 1 and at most mask + 1; keep it short, for every
 *	preemption within it starts the copy anew.
 *
 * append(cell, stride, mask, const uint64_t *src, pairs)
 *	as copy() of 2 * pairs words, without a guard; all positions in the
 *	fifo are even, so no pair of words is split where it wraps around
 *
 * narrow_add(cell, stride, n, half)		32-bit cell
 *	v = *p + half					in 64 bits
 *	if ((v ^ (v + n)) & -(2 * half)) return REFUSED	another window
 *	*p += n						commit, 32 bits
 *	half is a power of two. Windows are 2 * half values long; the cell
 *	starts in the middle of one.
 *
 * narrow_cross(cell, stride, n, const uint64_t *checkpoint, expected)
 *	if (*checkpoint != expected) return REFUSED	acquire
 *	*p += n						commit, 32 bits
 *
 * spin(const uint32_t *flag, tries)
 *	Stays inside the sequence until *flag is nonzero (0) or the tries are
 *	used up (REFUSED); stores nothing. The self-test lets another thread
 *	set the flag on this CPU: a working kernel then aborts (SLOW). A flag
 *	that is set at the first look was so before the sequence started, and
 *	proves nothing: REFUSED.
 */
#ifndef PERCPU_ARCH_SPEC_H
#define PERCPU_ARCH_SPEC_H

#include <percpu/base.h>

#ifdef PERCPU_LATE
#include <pthread.h>
#endif

enum {
	PERCPU_SEQ_SLOW = 1,
	PERCPU_SEQ_REFUSED = 2,
};

/**
 * The area that the kernel keeps up to date for a registered thread: the first
 * 32 bytes of its struct rseq. Only rseq_cs may be written from here.
 */
struct percpu_rseq {
	uint32_t cpu_id_start;
	int32_t cpu_id; /* negative: not registered */
	uint64_t rseq_cs;
	uint32_t flags;
	uint32_t node_id;
	uint32_t mm_cid;
	uint32_t reserved;
} __attribute__((__aligned__(32)));

PERCPU_BEGIN_DECLS

/**
 * Where the kernel keeps the calling thread's CPU number.
 *
 * Until the thread's first slow path, and for good in a thread that cannot run
 * sequences, it points to an area whose CPU number is negative, which sends
 * every sequence to its fallback. Being thread-local, it is also what makes
 * the tier a property of the thread. Only the library writes it.
 *
 * Only sequences and percpu_seq_cpu() read it, anew each time, because a fiber
 * may go on in another thread after a switch. Compilers for aarch64 keep the
 * thread pointer across calls, so there the sequences take the area in their own
 * assembly. Compilers for x86-64 address it by %fs each time (GCC, unless told
 * -mno-tls-direct-seg-refs), so there they take it in C, where the compiler may
 * keep it from one add to the next; in assembly an add would cost 10 to 30 % more.
 *
 * Initial-exec: two loads, no call, also from shared objects. That takes a
 * library that is linked when the program starts. What is loaded late is compiled
 * with PERCPU_LATE, and finds the pointer by a key: percpu_self_here().
 */
#ifndef PERCPU_LATE
extern PERCPU_API __thread struct percpu_rseq *percpu_self
	__attribute__((__tls_model__("initial-exec")));
#else
#define percpu_self (*percpu_self_here())

/** The key whose value leads to percpu_self, unless there is none. */
extern PERCPU_API pthread_key_t percpu_key;
#define PERCPU_NO_KEY ((pthread_key_t)-1)

/** Where percpu_self is, in a thread for which the key has no value. */
PERCPU_API struct percpu_rseq **percpu_self_at(void);

/* A call each time: compilers keep nothing of it for a fiber that moves. */
PERCPU_INLINE struct percpu_rseq **percpu_self_here(void)
{
	const pthread_key_t key = percpu_key;
	void *at = percpu_likely(key != PERCPU_NO_KEY) ? pthread_getspecific(key) : NULL;

	return percpu_likely(at != NULL) ? (struct percpu_rseq **)at : percpu_self_at();
}
#endif

/* C++ has flexible arrays as an extension only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/** The per-CPU array that push and pop work on. */
struct percpu_array {
	uint64_t count;
	void *slot[];
} PERCPU_ALIGNED_WORD;

/** The per-CPU queue that copy fills; a consumer advances tail. */
struct percpu_fifo {
	uint64_t head;
	uint64_t tail;
	uint64_t slot[];
} PERCPU_ALIGNED_WORD;

/** A record in two copies, of which the last bit of turn names the valid one. */
struct percpu_pair {
	uint64_t turn;
	uint64_t reserved; /* copies are aligned to 16 bytes */
	uint64_t copy[];
} PERCPU_ALIGNED_WORD;

#pragma GCC diagnostic pop

/** Two words in a register; not where that needs instructions that a 32-bit
 *  machine may lack, or that the unit may not have. */
#if defined(__LP64__) && (defined(__SSE2__) || defined(__ARM_NEON))
typedef uint64_t percpu_words2 __attribute__((__vector_size__(16)));
#else
typedef struct {
	uint64_t first, second;
} percpu_words2;
#endif

/** Words in memory, as an operand of a sequence. */
typedef struct {
	int64_t word[2];
} __attribute__((__may_alias__)) percpu_memory2;
typedef struct {
	int64_t word[4];
} __attribute__((__may_alias__)) percpu_memory4;
typedef struct {
	int64_t word[8];
} __attribute__((__may_alias__)) percpu_memory8;

/**
 * Stands where a sequence with outputs is left early: no instruction.
 *
 * GCC 12.2 copies the outputs of an "asm goto" on each way out, and on one that leads
 * to a label behind what the program does there: at -O1 a caller's *ret, which the
 * sequence promised to leave alone, was overwritten (tests/inject, steps-O1). A
 * statement at the label keeps the two apart.
 */
PERCPU_INLINE void percpu_seq_left(void)
{
	__asm__("");
}

/** Word by word: who has just stored each of two words, and loads both at once,
 *  waits until the stores have left the store buffer. */
PERCPU_INLINE percpu_words2 percpu_pair(uint64_t a, uint64_t b)
{
	if (!__builtin_constant_p(a))
		__asm__("" : "+r"(a));
	if (!__builtin_constant_p(b))
		__asm__("" : "+r"(b));

	percpu_words2 pair = { a, b };

	return pair;
}

PERCPU_END_DECLS

/*
 * Tests place delays and traps between the steps of a sequence by defining
 * PERCPU_SEQ_STEP(n), assembly text, and the registers it uses, before they
 * include this header.
 */
#ifndef PERCPU_SEQ_STEP
#define PERCPU_SEQ_STEP(n) ""
#define PERCPU_SEQ_STEP_CLOBBERS
#endif

#endif

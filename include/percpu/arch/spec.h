/* SPDX-License-Identifier: MIT */
/*
 * spec.h - the restartable sequences: what each does, step by step. arch/<a>.h
 * defines them for a CPU; a port that lacks one does not compile.
 *
 * A sequence is a run of instructions that the kernel restarts when the thread is
 * preempted, migrated or interrupted by a signal within it. Its last instruction
 * is the commit: one store. Before it, nothing that another thread could use has
 * changed. After it, the whole update is visible. So for the other threads of the
 * same CPU a sequence happens at once or not at all.
 *
 * NOTATION
 *
 *	cell	the object's address in lane 0; stride is the distance between lanes,
 *		a constant where the caller has one
 *	p	this CPU's cell: cell + cpu * stride
 *	guard	the address in lane 0 of a 32-bit word; while the word of a lane is
 *		nonzero, sequences keep out of that lane (src/rings/local.c sets it)
 *	bank	a word that holds the distance from p to the bank that counts now: 0, or
 *		the distance of the second bank; mask has the bits of that distance
 *	@name	a step: tests stop, delay and kill threads there
 *	commit	marks the store that is the last instruction
 *	acquire, release	the ordering of this load or store; see ORDERING
 *	return REFUSED	the operation's own condition does not hold; nothing is stored
 *
 * All sequences begin and end in the same way:
 *
 *	rs = percpu_self		the calling thread's area
 *	rs->rseq_cs = &descriptor	arm: tell the kernel of the sequence
 *   start:				@armed
 *	cpu = rs->cpu_id		@numbered; inside, so that it cannot go stale
 *	if (cpu < 0) goto slow		@registered; else the thread runs no sequences
 *	p = cell + cpu * stride		@placed
 *	guarded: if (guard of this lane != 0) goto slow		@admitted; acquire
 *	banked:  p += *bank & mask				@admitted
 *	... the operation; its last store is the commit ...
 *   end:
 *	return 0
 *   abort:				(signature in the 4 bytes before it)
 *   slow:
 *	return SLOW
 *
 * The mask keeps p within the object, whatever *bank holds. A reader that changes *bank
 * and fences finds all earlier adds in the old bank, and no sequence adds there any more.
 *
 * An aborted sequence returns SLOW and does not restart by itself: its caller decides how
 * often to try again, and what to do after that. So no sequence loops without bound, and a
 * thread that a debugger single-steps gets to its fallback.
 *
 * RESULTS
 *
 *	0			committed
 *	PERCPU_SEQ_SLOW		not committed: aborted, guarded, or this thread cannot
 *				run sequences
 *	PERCPU_SEQ_REFUSED	not committed: refused
 *
 * A sequence sets its outputs if it returns 0 and, where its comment says so, if it returns
 * PERCPU_SEQ_REFUSED. If it returns PERCPU_SEQ_SLOW, they may hold anything. A refusal that
 * has an output leaves at "end", without the store, because compilers differ in whether
 * outputs of an asm are valid at its labels.
 *
 * ORDERING
 *
 * Other CPUs see no order, except of marked accesses: a load "acquire" comes before all
 * loads and stores that follow it, a commit "release" after all that precede it. Each
 * pairs with an access in C. tests/litmus has a test for each, in the language of herd7:
 *
 *	guard		acquire; pairs with the release by which the last fallback
 *			lowers it (leave() in src/rings/local.c). A sequence that finds
 *			it down finds the lane as the fallback left it.
 *	turn		acquire; pairs with the commit of the update before, so
 *			that no store to a copy is seen before that commit.
 *			Commit: release; pairs with the acquire loads, in front
 *			of a word and behind it, of add_pair() in
 *			src/counts/stats_read.c.
 *	push		commit: release; pairs with an acquire load of count by a
 *			thread that looks into the array without its guard.
 *	copy, append	tail: acquire; pairs with the release by which the
 *			consumer gives slots back. Commit: release; pairs with
 *			the consumer's acquire load of head (move_tail() and
 *			percpu_wbuf_queue_apply() in src/counts/wbuf_queue.c).
 *	put		head: acquire; pairs with the commit of the record before, so
 *			that no store to a slot is seen before that commit. tail:
 *			acquire; pairs with the release by which a consumer gives
 *			slots back. Commit: release; pairs with the reader's acquire
 *			loads of head, in front of a copy and behind it
 *			(src/rings/ring_read.c).
 *	widen		commit: release; pairs with the reader's acquire load of epoch (read_slot()
 *			in src/counts/extrema_read.c), which then finds min and max of that epoch.
 *			The cell's address depends on the epoch that was loaded, so a reader
 *			that finds what a later epoch stored also finds that *epoch has changed.
 *	add_at		at: acquire; pairs with the release store of the address (let_count() in
 *			src/owners/ref_mode.c): a thread that adds at that address sees all that
 *			was stored before.
 *	enter		p[0] and p[1]: acquire; each pairs with the release store of 0 by which the
 *			last thread gave the lane back (percpu_critical_exit()). So a thread that
 *			enters finds the lane as that thread left it.
 *	narrow_add_if	state: acquire; pairs with the store of the expected state, so that a thread
 *			that sees the addition sees the state that allowed it: make_checkpoint() in
 *			src/counts/compact.c.
 *
 * Unmarked accesses pair with a fence. A thread that raises a guard or changes a bank
 * fences. After that every sequence that had not seen the change has committed, visibly,
 * or restarts and sees it. Only one CPU stores to a cell, and it sees its own
 * stores in order, so sequences of one CPU need no ordering among themselves.
 *
 * TO THE COMPILER
 *
 * Each sequence is a barrier, except add, add_at, bank_add*, narrow_add, narrow_add_if,
 * add_double, add_count_double, widen and add_within: the compiler moves no call, atomic access or
 * other sequence across those, but keeps loaded values in registers, such as the object's
 * description. So code that also has pointers to the cells puts __atomic_signal_fence() in
 * front of and behind them.
 *
 * The assembly declares all registers that it changes, upper halves of vector registers
 * included. So a function that is compiled for other instructions than its unit, as by
 * __attribute__((target("avx2"))), can inline sequences like any other function.
 *
 * Abort handlers have no landing pad (endbr64, bti) and need none: the kernel sets the
 * program counter, which is not an indirect branch. Sequences have no indirect branches,
 * and no indirect branch leads into one.
 */
#ifndef PERCPU_ARCH_SPEC_H
#define PERCPU_ARCH_SPEC_H

#include <percpu/arch/self.h>

enum {
	PERCPU_SEQ_SLOW = 1,
	PERCPU_SEQ_REFUSED = 2,
};

PERCPU_BEGIN_DECLS

/* C++ has flexible arrays as an extension only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/** The per-CPU array that push and pop work on. */
struct percpu_array {
	uint64_t count;
	void *slot[];
} PERCPU_ALIGNED_WORD;

/** The per-CPU queue that copy fills; a consumer, or take, advances tail. */
struct percpu_fifo {
	uint64_t head;
	uint64_t tail;
	uint64_t slot[];
} PERCPU_ALIGNED_WORD;

/** The per-CPU ring that put fills. A reader that takes records advances tail. */
struct percpu_ring_lane {
	uint64_t head;	  /* words of all records ever committed */
	uint64_t dropped; /* number of refused records; add counts them */
	uint32_t lock;	  /* for threads that put without a sequence, in an atomic lane */
	uint32_t spare;
	uint64_t reserved[5];
	uint64_t tail;	   /* words ever taken, if records are kept until they are taken */
	uint32_t consumer; /* the lock for threads that take records */
	uint32_t spare2;
	uint64_t reserved2[6];
	uint64_t slot[];
} PERCPU_ALIGNED_WORD;

/** The least and the greatest value that was observed in an epoch. A lane has two of these,
 *  which epochs use in turn. */
struct percpu_extremes {
	uint64_t epoch;
	int64_t min;
	int64_t max;
	uint64_t reserved;
} PERCPU_ALIGNED_WORD;

/** Epochs are multiples of this: the distance of the two struct percpu_extremes of a lane. */
#define PERCPU_EXTREMES 32

/** A record in two copies. Bit 0 of turn names the valid copy. */
struct percpu_copies {
	uint64_t turn;
	uint64_t reserved; /* aligns the copies to 16 bytes */
	uint64_t copy[];
} PERCPU_ALIGNED_WORD;

#pragma GCC diagnostic pop

/** Two words in a vector register; a struct if the machine or the unit has no vector
 *  registers. */
#if defined(__LP64__) && (defined(__SSE2__) || defined(__ARM_NEON))
typedef uint64_t percpu_words2 __attribute__((__vector_size__(16)));
#else
typedef struct {
	uint64_t first, second;
} percpu_words2;
#endif

/**
 * cpu: not a sequence. The number may be stale when it is returned. It is negative in a
 * thread that cannot run sequences.
 *
 *	return percpu_self->cpu_id
 */
PERCPU_INLINE int32_t percpu_seq_cpu(void);

/**
 * add: one word.
 *
 *	v = *p + n				@loaded
 *	*p = v					commit
 */
PERCPU_INLINE int percpu_seq_add(void *cell, size_t stride, int64_t n);

/**
 * bank_add: one word in the bank that counts.
 *
 *	v = *p + n				@loaded
 *	*p = v					commit
 */
PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n);

/**
 * bank_add2, bank_add4, bank_add8: 2, 4 or 8 adjacent words, aligned to their size, in one
 * vector store. The words are passed in pairs, in registers: the first two are n or n0, the
 * next n2. add4 is for CPUs with AVX2, add8 for CPUs with AVX-512. On other CPUs they
 * return SLOW. PERCPU_SEQ_WORDS is the largest number that this unit is compiled for. With
 * one bank, *bank is 0.
 *
 *	v[i] = p[i] + n[i]			@loaded
 *	p[i] = v[i]				commit
 */
PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n);
PERCPU_INLINE int percpu_seq_bank_add4(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2);
PERCPU_INLINE int percpu_seq_bank_add8(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n0, percpu_words2 n2,
				       percpu_words2 n4, percpu_words2 n6);

/**
 * copies_add: one word of a record in two copies; p is a struct percpu_copies. It adds in
 * place, in the valid copy, because one store changes the whole word. words is the size of
 * a copy.
 *
 *	valid = p->turn & 1			acquire
 *						@loaded
 *	at = &p->copy[valid][word]		@decided
 *	v = *at + n				@written
 *	*at = v					commit
 */
PERCPU_INLINE int percpu_seq_copies_add(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t word, uint64_t words, int64_t n);

/**
 * bank_update: all words of a record in two copies; p is a struct percpu_copies.
 * words is even, and is the size of a copy. A reader loads turn (acquire), then a word of
 * the copy that turn names, and, after an acquire fence, turn again. If turn is the same, the
 * word is the one that this commit made valid.
 *
 *	old = p->turn & 1			acquire
 *						@loaded
 *	new = 1 - old
 *	for i in 0..words-1			@decided
 *		p->copy[new][i] = p->copy[old][i] + n[i]
 *						@written
 *	p->turn++				commit, release
 */
PERCPU_INLINE int percpu_seq_bank_update(void *cell, size_t stride, const uint64_t *bank,
					 uint64_t mask, const uint64_t *n, uint64_t words);

/**
 * add_limit: one word, up to a limit; INT64_MAX means no limit. *ret is the sum.
 *
 *	v = *p + n				@loaded
 *	if (v > limit) { *ret = v; return REFUSED }	signed
 *						@decided
 *	*p = v					commit
 *	*ret = v
 */
PERCPU_INLINE int percpu_seq_add_limit(void *cell, const void *guard, size_t stride, int64_t n,
				       int64_t limit, int64_t *ret);

/**
 * cmpxchg: one word, if it is as expected.
 *
 *	old = *p				@loaded
 *	if (old != expected) { *ret = old; return REFUSED }
 *						@decided
 *	*p = v					commit
 *	*ret = old
 */
PERCPU_INLINE int percpu_seq_cmpxchg(void *cell, const void *guard, size_t stride, int64_t expected,
				     int64_t v, int64_t *ret);

/**
 * xchg: one word. A caller that only stores ignores *ret.
 *
 *	old = *p				@loaded
 *	*p = v					commit
 *	*ret = old
 */
PERCPU_INLINE int percpu_seq_xchg(void *cell, const void *guard, size_t stride, int64_t v,
				  int64_t *ret);

/**
 * push: one item onto p, a struct percpu_array.
 *
 *	i = p->count				@loaded
 *	if (i >= limit) return REFUSED		full
 *						@decided
 *	p->slot[i] = item			@written
 *	p->count = i + 1			commit, release
 */
PERCPU_INLINE int percpu_seq_push(void *cell, const void *guard, size_t stride, uint64_t limit,
				  void *item);

/**
 * pop: the last item of p, a struct percpu_array.
 *
 *	i = p->count				@loaded
 *	if (i == 0) return REFUSED		empty
 *						@decided
 *	item = p->slot[i - 1]			@written
 *	p->count = i - 1			commit
 *	*ret = item
 */
PERCPU_INLINE int percpu_seq_pop(void *cell, const void *guard, size_t stride, void **ret);

/**
 * copy: 1 to mask + 1 words into p, a struct percpu_fifo of mask + 1 slots. Copies should be
 * short, because every preemption within a copy restarts it.
 *
 *	head = p->head
 *	tail = p->tail				acquire
 *						@loaded
 *	if (mask + 1 - (head - tail) < words) return REFUSED	no room
 *	for i in 0..words-1			@decided
 *		p->slot[(head + i) & mask] = src[i]
 *						@written
 *	p->head = head + words			commit, release
 */
PERCPU_INLINE int percpu_seq_copy(void *cell, const void *guard, size_t stride, uint64_t mask,
				  const uint64_t *src, uint64_t words);

/**
 * take: the oldest word of p, a struct percpu_fifo of mask + 1 slots, which copy fills.
 *
 *	tail = p->tail				@loaded
 *	if (tail == p->head) return REFUSED	empty
 *						@decided
 *	word = p->slot[tail & mask]		@written
 *	p->tail = tail + 1			commit
 *	*ret = word
 */
PERCPU_INLINE int percpu_seq_take(void *cell, const void *guard, size_t stride, uint64_t mask,
				  uint64_t *ret);

/**
 * append1, append2, append4: as copy, of 1, 2 or 4 pairs of words, passed in registers, and
 * without a guard. All positions in the queue are even, so the end of the queue splits no
 * pair.
 *
 *	head = p->head
 *	tail = p->tail				acquire
 *						@loaded
 *	if (mask + 1 - (head - tail) < 2 * pairs) return REFUSED	no room
 *						@decided
 *	p->slot[(head + 2 * i) & mask] = pair i	for i in 0..pairs-1
 *						@written
 *	p->head = head + 2 * pairs		commit, release
 */
PERCPU_INLINE int percpu_seq_append1(void *cell, size_t stride, uint64_t mask, percpu_words2 n0);
PERCPU_INLINE int percpu_seq_append2(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1);
PERCPU_INLINE int percpu_seq_append4(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1, percpu_words2 n2, percpu_words2 n3);

/**
 * put: a record with the CPU's counter of time into p, a struct percpu_ring_lane of
 * mask + 1 slots. size is its bytes, 1 to 65535. last is the last word of the record; only
 * its bytes that belong to the record count. src has the words before it. keep is ~0 if
 * records are kept until they are taken, and 0 if the oldest are overwritten.
 *
 * A record is a word with its number and its size, the time, its bytes, and the first word
 * again. Numbers count from 1; the word in front of head has the last number. The counter
 * is read after all instructions before the sequence are done. So if a record was there
 * before another was begun, the other has no earlier time.
 *
 *	head = p->head				acquire
 *	tail = p->tail				acquire
 *						@loaded
 *	words = (size + 31) / 8
 *	if (((head - tail) & keep) + words > mask + 1) return REFUSED	no room
 *						@decided
 *	name = (p->slot[(head - 1) & mask] / 65536 + 1) * 65536 + size
 *	p->slot[head & mask] = p->slot[(head + words - 1) & mask] = name
 *	p->slot[(head + words - 2) & mask] = last
 *	p->slot[(head + 1) & mask] = time
 *	for i in 0..words-5
 *		p->slot[(head + 2 + i) & mask] = src[i]
 *						@written
 *	p->head = head + words			commit, release
 */
PERCPU_INLINE int percpu_seq_put(void *cell, size_t stride, uint64_t mask, uint64_t keep,
				 const void *src, uint64_t size, uint64_t last);

/**
 * narrow_add: a cell of 32 bits, within its window. Windows are 2 * half values
 * long; half is a power of two, and the cell starts in the middle of a window.
 *
 *	w = *p + half				in 64 bits
 *						@loaded
 *	if ((w ^ (w + n)) & -(2 * half)) return REFUSED		another window
 *	v = *p + n				@decided
 *	*p = v					commit, 32 bits
 */
PERCPU_INLINE int percpu_seq_narrow_add(void *cell, size_t stride, int64_t n, uint64_t half);

/**
 * add_at: one word. *at holds its address in lane 0, or PERCPU_SEQ_CLOSED. After a thread
 * has stored PERCPU_SEQ_CLOSED and fenced, no addition of this kind happens.
 *
 *	c = *at					acquire
 *	if (c & PERCPU_SEQ_CLOSED) return REFUSED
 *	p = c + cpu * stride			@decided
 *	v = *p + n				@written
 *	*p = v					commit
 */
PERCPU_INLINE int percpu_seq_add_at(const uint64_t *at, size_t stride, int64_t n);

/** No address has this bit, the sign. */
#define PERCPU_SEQ_CLOSED (UINT64_C(1) << 63)

/**
 * narrow_add_if: one word of 32 bits, if *state is as expected. After a thread has changed
 * *state and fenced, no addition for the old state happens. A caller that has no cell
 * passes an address below PERCPU_SEQ_NO_CELL, such as NULL.
 *
 *	if (cell < PERCPU_SEQ_NO_CELL) return SLOW
 *	s = *state				acquire
 *	if (s != expected) return REFUSED
 *						@decided
 *	v = *p + n				@written
 *	*p = v					commit, 32 bits
 */
PERCPU_INLINE int percpu_seq_narrow_add_if(void *cell, size_t stride, int64_t n,
					   const uint64_t *state, uint64_t expected);

/** No cell is at a lower address. */
#define PERCPU_SEQ_NO_CELL 4096

/**
 * add_double: one word, a double. A sum of 2^1000 or more, of either sign, is refused, and
 * so is a sum that is not a number. So the sum of all lanes is a number.
 *
 *	v = *p + n				@loaded
 *	if (!(-2^1000 < v && v < 2^1000)) return REFUSED
 *						@decided
 *	*p = v					commit
 */
PERCPU_INLINE int percpu_seq_add_double(void *cell, size_t stride, double n);

/** The least exponent of a double that is too large to be a sum. Infinities, and what is not
 *  a number, have a larger one. */
#define PERCPU_SEQ_EXPONENT (1023 + 1000)

/**
 * add_count_double: a count and a sum of doubles, aligned to 16 bytes, in one store.
 *
 *	count = p[0], sum = p[1]		@loaded
 *	p[0..1] = { count + 1, sum + n }	commit
 */
PERCPU_INLINE int percpu_seq_add_count_double(void *cell, size_t stride, double n);

/**
 * widen: the least and the greatest of the words that were observed in an epoch; p is the
 * first of two struct percpu_extremes. Epochs are multiples of the distance of these two and
 * only grow, so they use the two in turn. Values of an earlier epoch are replaced.
 *
 *	e = *epoch				@admitted
 *	p += e & PERCPU_EXTREMES		bytes
 *						@loaded
 *	if (p->epoch != e)
 *		p->min = p->max = v
 *		at = &p->epoch, w = e
 *	else if (v < p->min)			signed
 *		at = &p->min, w = v
 *	else if (v > p->max)
 *		at = &p->max, w = v
 *	else return REFUSED			nothing changes
 *						@written
 *	*at = w					commit, release
 */
PERCPU_INLINE int percpu_seq_widen(void *cell, size_t stride, const uint64_t *epoch, int64_t v);

/**
 * add_within: one word, which stays within reach of its partner in the same lane. span is
 * 2 * reach + 1, or 0 to refuse everything. partner is an address in lane 0, as cell is.
 *
 *	v = *p + n				@loaded
 *	if (v - *partner + reach >= span) return REFUSED	unsigned; of this lane
 *						@decided
 *	*p = v					commit
 */
PERCPU_INLINE int percpu_seq_add_within(void *cell, const void *partner, size_t stride, int64_t n,
					uint64_t reach, uint64_t span);

/**
 * enter: this CPU's lane, for one thread alone. p is two words, both 0 while no thread has the lane.
 * The second word is for threads that take the lane otherwise: they store it, fence, and wait until
 * the first word is 0. One load of both words would wait until the store by which the lane was given
 * back has left the store buffer.
 *
 *	first = p[0]				acquire
 *						@loaded
 *	second = p[1]				acquire
 *	if (first != 0 || second != 0) { *ret = p; return REFUSED }
 *						@decided
 *	p[0] = owner				commit
 *	*ret = p
 */
PERCPU_INLINE int percpu_seq_enter(void *cell, size_t stride, uint64_t owner, void **ret);

/**
 * spin: loops inside the sequence until *flag is nonzero (0) or the tries are used up
 * (REFUSED); stores nothing. The self-test lets another thread set the flag on this
 * CPU: a working kernel then aborts the sequence (SLOW). If the flag is set at the first
 * look, it was set before the sequence started, and proves nothing: REFUSED.
 */
PERCPU_INLINE int percpu_seq_spin(const uint32_t *flag, uint64_t tries);

/**
 * Do nothing, at each label where a sequence is left early.
 *
 * Without it GCC 12.2 miscompiles an "asm goto" with outputs: it copies the outputs also
 * on the way to a label. At -O1 this overwrote a caller's *ret, which the sequence must not
 * change (tests/inject, steps-O1).
 */
PERCPU_INLINE void percpu_seq_left(void)
{
	__asm__("");
}

/* clang-format off */

/** The end of every sequence in C. */
#define PERCPU_SEQ_EXIT                                                        \
slow:                                                                          \
	percpu_seq_left();                                                     \
	return PERCPU_SEQ_SLOW;

/** Comes before PERCPU_SEQ_EXIT in sequences that may be refused. */
#define PERCPU_SEQ_EXIT_REFUSED                                                \
refused:                                                                       \
	percpu_seq_left();                                                     \
	return PERCPU_SEQ_REFUSED;

/* clang-format on */

/** Return a pair of two words, made in registers. If the compiler stored both words and loaded the
 *  pair, the load would wait until the stores have left the store buffer. */
PERCPU_INLINE percpu_words2 percpu_words2_of(uint64_t a, uint64_t b)
{
	if (!__builtin_constant_p(a))
		__asm__("" : "+r"(a));
	if (!__builtin_constant_p(b))
		__asm__("" : "+r"(b));

	percpu_words2 pair = { a, b };

	return pair;
}

/** Return two adjacent words of memory, which may be of another type, such as a struct. */
PERCPU_INLINE percpu_words2 percpu_words2_load(const void *words, size_t i)
{
	typedef uint64_t __attribute__((__may_alias__)) any_word;
	const any_word *n = (const any_word *)words;

	return percpu_words2_of(n[i], n[i + 1]);
}

PERCPU_END_DECLS

/*
 * To place delays and traps at the steps, tests define PERCPU_SEQ_STEP(name), as assembly
 * text, and PERCPU_SEQ_STEP_CLOBBERS, the registers it uses, before they include this
 * header.
 */
#ifndef PERCPU_SEQ_STEP
#define PERCPU_SEQ_STEP(name) ""
#define PERCPU_SEQ_STEP_CLOBBERS
#endif

#endif

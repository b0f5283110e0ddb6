/* SPDX-License-Identifier: MIT */
/*
 * generic.h - the port for everything that has no sequences.
 *
 * Every operation reports PERCPU_SEQ_SLOW, so the callers' fallbacks do the
 * work with C11 atomics, in lanes of their own. Other architectures use it,
 * and so do ThreadSanitizer and static analyzers, which cannot look into
 * assembly. Define PERCPU_GENERIC to have it anywhere; objects compiled with
 * and without it mix freely.
 */
#ifndef PERCPU_ARCH_GENERIC_H
#define PERCPU_ARCH_GENERIC_H

#include <percpu/arch/spec.h>

#define PERCPU_SEQ_WORDS 8

PERCPU_INLINE int percpu_seq_add(struct percpu_rseq *rs, void *cell, size_t stride, int64_t n)
{
	(void)rs, (void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add2(struct percpu_rseq *rs, void *cell, size_t stride,
				  const int64_t n[2])
{
	(void)rs, (void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add4(struct percpu_rseq *rs, void *cell, size_t stride,
				  const int64_t n[4])
{
	(void)rs, (void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add8(struct percpu_rseq *rs, void *cell, size_t stride,
				  const int64_t n[8])
{
	(void)rs, (void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add(struct percpu_rseq *rs, void *cell, size_t stride,
				      const uint64_t *bank, uint64_t mask, int64_t n)
{
	(void)rs, (void)cell, (void)stride, (void)bank, (void)mask, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add2(struct percpu_rseq *rs, void *cell, size_t stride,
				       const uint64_t *bank, uint64_t mask, percpu_words2 n)
{
	(void)rs, (void)cell, (void)stride, (void)bank, (void)mask, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add4(struct percpu_rseq *rs, void *cell, size_t stride,
				       const uint64_t *bank, uint64_t mask, percpu_words2 n0,
				       percpu_words2 n2)
{
	(void)rs, (void)cell, (void)stride, (void)bank, (void)mask, (void)n0, (void)n2;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add8(struct percpu_rseq *rs, void *cell, size_t stride,
				       const uint64_t *bank, uint64_t mask, percpu_words2 n0,
				       percpu_words2 n2, percpu_words2 n4, percpu_words2 n6)
{
	(void)rs, (void)cell, (void)stride, (void)bank, (void)mask, (void)n0, (void)n2, (void)n4,
		(void)n6;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_update(struct percpu_rseq *rs, void *cell, size_t stride,
					 const uint64_t *bank, uint64_t mask, const uint64_t *n,
					 uint64_t words)
{
	(void)rs, (void)cell, (void)stride, (void)bank, (void)mask, (void)n, (void)words;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_return(struct percpu_rseq *rs, void *cell, const void *guard,
					size_t stride, int64_t n, int64_t *ret)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)n, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_limit(struct percpu_rseq *rs, void *cell, const void *guard,
				       size_t stride, int64_t n, int64_t limit, int64_t *ret)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)n, (void)limit, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_store(struct percpu_rseq *rs, void *cell, const void *guard,
				   size_t stride, int64_t v)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)v;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_cmpxchg(struct percpu_rseq *rs, void *cell, const void *guard,
				     size_t stride, int64_t expected, int64_t v, int64_t *ret)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)expected, (void)v, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_xchg(struct percpu_rseq *rs, void *cell, const void *guard,
				  size_t stride, int64_t v, int64_t *ret)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)v, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_push(struct percpu_rseq *rs, void *cell, const void *guard,
				  size_t stride, uint64_t limit, void *item)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)limit, (void)item;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_pop(struct percpu_rseq *rs, void *cell, const void *guard,
				 size_t stride, void **ret)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_copy(struct percpu_rseq *rs, void *cell, const void *guard,
				  size_t stride, uint64_t mask, const uint64_t *src, uint64_t words)
{
	(void)rs, (void)cell, (void)guard, (void)stride, (void)mask, (void)src, (void)words;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append(struct percpu_rseq *rs, void *cell, size_t stride,
				    uint64_t mask, const uint64_t *src, uint64_t pairs)
{
	(void)rs, (void)cell, (void)stride, (void)mask, (void)src, (void)pairs;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_add(struct percpu_rseq *rs, void *cell, size_t stride,
					int64_t n, uint64_t half)
{
	(void)rs, (void)cell, (void)stride, (void)n, (void)half;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_cross(struct percpu_rseq *rs, void *cell, size_t stride,
					  int64_t n, const uint64_t *checkpoint, uint64_t expected)
{
	(void)rs, (void)cell, (void)stride, (void)n, (void)checkpoint, (void)expected;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_spin(struct percpu_rseq *rs, const uint32_t *flag, uint64_t tries)
{
	(void)rs, (void)flag, (void)tries;
	return PERCPU_SEQ_SLOW;
}

#endif

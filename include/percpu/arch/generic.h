/* SPDX-License-Identifier: MIT */
/*
 * generic.h - the port for units without sequences.
 *
 * Every operation returns PERCPU_SEQ_SLOW, so the callers' slow paths do the
 * work, with atomic operations where the library has no sequences either. Other
 * architectures use it, and so do old compilers, ThreadSanitizer and static analyzers,
 * which cannot look into assembly. Define PERCPU_GENERIC to use it anywhere; objects
 * compiled with and without it mix freely.
 */
#ifndef PERCPU_ARCH_GENERIC_H
#define PERCPU_ARCH_GENERIC_H

#include <percpu/arch/spec.h>
#include <percpu/arch/spec_group.h>

PERCPU_BEGIN_DECLS

#define PERCPU_SEQ_WORDS 8

PERCPU_INLINE int32_t percpu_seq_cpu(void)
{
	return -1;
}

PERCPU_INLINE int percpu_seq_add(void *cell, size_t stride, int64_t n)
{
	(void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add(void *cell, size_t stride, const uint64_t *bank,
				      uint64_t mask, int64_t n)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_add2(void *cell, size_t stride, const uint64_t *bank,
				       uint64_t mask, percpu_words2 n)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n;
	return PERCPU_SEQ_SLOW;
}

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
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n0, (void)n2, (void)n4, (void)n6;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_bank_update(void *cell, size_t stride, const uint64_t *bank,
					 uint64_t mask, const uint64_t *n, uint64_t words)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)n, (void)words;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_copies_add(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t word, uint64_t words, int64_t n)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)word, (void)words, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_group_update2(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na, percpu_words2 nb)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)names, (void)a, (void)b;
	(void)na, (void)nb;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_group_update4(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na0, percpu_words2 na2, percpu_words2 nb0,
					   percpu_words2 nb2)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)names, (void)a, (void)b;
	(void)na0, (void)na2, (void)nb0, (void)nb2;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_group_update(void *cell, size_t stride, const uint64_t *bank,
					  uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					  const percpu_words2 *n, uint64_t bytes)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)names, (void)a, (void)b;
	(void)n, (void)bytes;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_group_undo(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t head, uint64_t records,
					uint64_t bytes)
{
	(void)cell, (void)stride, (void)bank, (void)mask, (void)head, (void)records, (void)bytes;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_limit(void *cell, const void *guard, size_t stride, int64_t n,
				       int64_t limit, int64_t *ret)
{
	(void)cell, (void)guard, (void)stride, (void)n, (void)limit, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_cmpxchg(void *cell, const void *guard, size_t stride, int64_t expected,
				     int64_t v, int64_t *ret)
{
	(void)cell, (void)guard, (void)stride, (void)expected, (void)v, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_xchg(void *cell, const void *guard, size_t stride, int64_t v,
				  int64_t *ret)
{
	(void)cell, (void)guard, (void)stride, (void)v, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_enter(void *cell, size_t stride, uint64_t owner, void **ret)
{
	(void)cell, (void)stride, (void)owner, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_push(void *cell, const void *guard, size_t stride, uint64_t limit,
				  void *item)
{
	(void)cell, (void)guard, (void)stride, (void)limit, (void)item;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_pop(void *cell, const void *guard, size_t stride, void **ret)
{
	(void)cell, (void)guard, (void)stride, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_copy(void *cell, const void *guard, size_t stride, uint64_t mask,
				  const uint64_t *src, uint64_t words)
{
	(void)cell, (void)guard, (void)stride, (void)mask, (void)src, (void)words;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_take(void *cell, const void *guard, size_t stride, uint64_t mask,
				  uint64_t *ret)
{
	(void)cell, (void)guard, (void)stride, (void)mask, (void)ret;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append1(void *cell, size_t stride, uint64_t mask, percpu_words2 n0)
{
	(void)cell, (void)stride, (void)mask, (void)n0;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append2(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1)
{
	(void)cell, (void)stride, (void)mask, (void)n0, (void)n1;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_append4(void *cell, size_t stride, uint64_t mask, percpu_words2 n0,
				     percpu_words2 n1, percpu_words2 n2, percpu_words2 n3)
{
	(void)cell, (void)stride, (void)mask, (void)n0, (void)n1, (void)n2, (void)n3;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_put(void *cell, size_t stride, uint64_t mask, uint64_t keep,
				 const void *src, uint64_t size, uint64_t last)
{
	(void)cell, (void)stride, (void)mask, (void)keep, (void)src, (void)size, (void)last;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_add(void *cell, size_t stride, int64_t n, uint64_t half)
{
	(void)cell, (void)stride, (void)n, (void)half;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_at(const uint64_t *at, size_t stride, int64_t n)
{
	(void)at, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_narrow_add_if(void *cell, size_t stride, int64_t n,
					   const uint64_t *state, uint64_t expected)
{
	(void)cell, (void)stride, (void)n, (void)state, (void)expected;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_double(void *cell, size_t stride, double n)
{
	(void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_count_double(void *cell, size_t stride, double n)
{
	(void)cell, (void)stride, (void)n;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_widen(void *cell, size_t stride, const uint64_t *epoch, int64_t v)
{
	(void)cell, (void)stride, (void)epoch, (void)v;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_add_within(void *cell, const void *partner, size_t stride, int64_t n,
					uint64_t reach, uint64_t span)
{
	(void)cell, (void)partner, (void)stride, (void)n, (void)reach, (void)span;
	return PERCPU_SEQ_SLOW;
}

PERCPU_INLINE int percpu_seq_spin(const uint32_t *flag, uint64_t tries)
{
	(void)flag, (void)tries;
	return PERCPU_SEQ_SLOW;
}

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/* sequences.c - each sequence in a function of its own, for check.py to look at. */
#include <percpu/seq.h>

#define PLAIN void *cell, size_t stride
#define GUARDED void *cell, const void *guard, size_t stride
#define BANK void *cell, size_t stride, const uint64_t *bank, uint64_t mask
#define STRIDE 0x11040

__thread struct percpu_rseq *percpu_self __attribute__((used));

int32_t cpu(void)
{
	return percpu_seq_cpu();
}

int add(PLAIN, int64_t n)
{
	return percpu_seq_add(cell, stride, n);
}

int bank_add(BANK, int64_t n)
{
	return percpu_seq_bank_add(cell, stride, bank, mask, n);
}

int bank_add2(BANK, percpu_words2 n)
{
	return percpu_seq_bank_add2(cell, stride, bank, mask, n);
}

int bank_add4(BANK, percpu_words2 n0, percpu_words2 n2)
{
	return percpu_seq_bank_add4(cell, stride, bank, mask, n0, n2);
}

int bank_add8(BANK, percpu_words2 n0, percpu_words2 n2, percpu_words2 n4, percpu_words2 n6)
{
	return percpu_seq_bank_add8(cell, stride, bank, mask, n0, n2, n4, n6);
}

int copies_add(BANK, uint64_t word, uint64_t words, int64_t n)
{
	return percpu_seq_copies_add(cell, stride, bank, mask, word, words, n);
}

int bank_update(BANK, const uint64_t *n, uint64_t words)
{
	return percpu_seq_bank_update(cell, stride, bank, mask, n, words);
}

int group_update2(BANK, uint64_t names, uint64_t a, uint64_t b, percpu_words2 na, percpu_words2 nb)
{
	return percpu_seq_group_update2(cell, stride, bank, mask, names, a, b, na, nb);
}

int group_update4(BANK, uint64_t names, uint64_t a, uint64_t b, percpu_words2 na0,
		  percpu_words2 na2, percpu_words2 nb0, percpu_words2 nb2)
{
	return percpu_seq_group_update4(cell, stride, bank, mask, names, a, b, na0, na2, nb0, nb2);
}

int group_update(BANK, uint64_t names, uint64_t a, uint64_t b, const percpu_words2 *n,
		 uint64_t bytes)
{
	return percpu_seq_group_update(cell, stride, bank, mask, names, a, b, n, bytes);
}

int group_undo(BANK, uint64_t head, uint64_t records, uint64_t bytes)
{
	return percpu_seq_group_undo(cell, stride, bank, mask, head, records, bytes);
}

int add_limit(GUARDED, int64_t n, int64_t limit, int64_t *ret)
{
	return percpu_seq_add_limit(cell, guard, stride, n, limit, ret);
}

int cmpxchg(GUARDED, int64_t expected, int64_t v, int64_t *ret)
{
	return percpu_seq_cmpxchg(cell, guard, stride, expected, v, ret);
}

int xchg(GUARDED, int64_t v, int64_t *ret)
{
	return percpu_seq_xchg(cell, guard, stride, v, ret);
}

int push(GUARDED, uint64_t limit, void *item)
{
	return percpu_seq_push(cell, guard, stride, limit, item);
}

int pop(GUARDED, void **ret)
{
	return percpu_seq_pop(cell, guard, stride, ret);
}

int copy(GUARDED, uint64_t mask, const uint64_t *src, uint64_t words)
{
	return percpu_seq_copy(cell, guard, stride, mask, src, words);
}

int take(GUARDED, uint64_t mask, uint64_t *ret)
{
	return percpu_seq_take(cell, guard, stride, mask, ret);
}

int put(PLAIN, uint64_t mask, uint64_t keep, const void *src, uint64_t size, uint64_t last)
{
	return percpu_seq_put(cell, stride, mask, keep, src, size, last);
}

int narrow_add(PLAIN, int64_t n, uint64_t half)
{
	return percpu_seq_narrow_add(cell, stride, n, half);
}

int add_at(const uint64_t *at, size_t stride, int64_t n)
{
	return percpu_seq_add_at(at, stride, n);
}

int narrow_add_if(PLAIN, int64_t n, const uint64_t *state, uint64_t expected)
{
	return percpu_seq_narrow_add_if(cell, stride, n, state, expected);
}

int enter(PLAIN, uint64_t owner, void **ret)
{
	return percpu_seq_enter(cell, stride, owner, ret);
}

int add_double(PLAIN, double n)
{
	return percpu_seq_add_double(cell, stride, n);
}

int add_count_double(PLAIN, double n)
{
	return percpu_seq_add_count_double(cell, stride, n);
}

int widen(PLAIN, const uint64_t *epoch, int64_t v)
{
	return percpu_seq_widen(cell, stride, epoch, v);
}

int add_within(void *cell, const void *partner, size_t stride, int64_t n, uint64_t reach,
	       uint64_t span)
{
	return percpu_seq_add_within(cell, partner, stride, n, reach, span);
}

int spin(const uint32_t *flag, uint64_t tries)
{
	return percpu_seq_spin(flag, tries);
}

/* Constants are immediate operands, where the instruction has them. */
int constants(void *cell, const void *guard, const uint64_t *bank, int64_t *ret)
{
	return percpu_seq_add(cell, STRIDE, 1) + percpu_seq_bank_add(cell, STRIDE, bank, 64, -1) +
	       percpu_seq_add_limit(cell, guard, STRIDE, 1, 10, ret) +
	       percpu_seq_cmpxchg(cell, guard, STRIDE, 1, 2, ret) +
	       percpu_seq_xchg(cell, guard, STRIDE, 0, ret) +
	       percpu_seq_push(cell, guard, STRIDE, 8, ret) +
	       percpu_seq_narrow_add(cell, STRIDE, 1, 1 << 20) +
	       percpu_seq_add_at(bank, STRIDE, 1) +
	       percpu_seq_narrow_add_if(cell, STRIDE, -1, bank, 0) + percpu_seq_spin(cell, 100) +
	       percpu_seq_enter(cell, STRIDE, 1, (void **)ret) +
	       percpu_seq_put(cell, STRIDE, 127, 0, ret, 8, 1) +
	       percpu_seq_add_double(cell, STRIDE, 0.5) +
	       percpu_seq_add_count_double(cell, STRIDE, 0.5) +
	       percpu_seq_widen(cell, STRIDE, bank, 7) +
	       percpu_seq_add_within(cell, guard, STRIDE, 1, 8, 17);
}

int append1(PLAIN, uint64_t mask, percpu_words2 n0)
{
	return percpu_seq_append1(cell, stride, mask, n0);
}

int append2(PLAIN, uint64_t mask, percpu_words2 n0, percpu_words2 n1)
{
	return percpu_seq_append2(cell, stride, mask, n0, n1);
}

int append4(PLAIN, uint64_t mask, percpu_words2 n0, percpu_words2 n1, percpu_words2 n2,
	    percpu_words2 n3)
{
	return percpu_seq_append4(cell, stride, mask, n0, n1, n2, n3);
}

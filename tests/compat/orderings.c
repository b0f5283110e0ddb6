/* SPDX-License-Identifier: MIT */
/* orderings.c - each sequence in a function of its own, for orderings.sh to look at. */
#include <percpu/seq.h>

#define PLAIN void *cell, size_t stride
#define GUARDED void *cell, const void *guard, size_t stride
#define BANK void *cell, size_t stride, const uint64_t *bank, uint64_t mask

int add(PLAIN, int64_t n)
{
	return percpu_seq_add(cell, stride, n);
}

int add2(PLAIN, const int64_t n[2])
{
	return percpu_seq_add2(cell, stride, n);
}

int bank_add(BANK, int64_t n)
{
	return percpu_seq_bank_add(cell, stride, bank, mask, n);
}

int bank_add2(BANK, percpu_words2 n)
{
	return percpu_seq_bank_add2(cell, stride, bank, mask, n);
}

int bank_update(BANK, const uint64_t *n, uint64_t words)
{
	return percpu_seq_bank_update(cell, stride, bank, mask, n, words);
}

int add_return(GUARDED, int64_t n, int64_t *ret)
{
	return percpu_seq_add_return(cell, guard, stride, n, ret);
}

int add_limit(GUARDED, int64_t n, int64_t limit, int64_t *ret)
{
	return percpu_seq_add_limit(cell, guard, stride, n, limit, ret);
}

int store(GUARDED, int64_t v)
{
	return percpu_seq_store(cell, guard, stride, v);
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

int append(PLAIN, uint64_t mask, const uint64_t *src, uint64_t pairs)
{
	return percpu_seq_append(cell, stride, mask, src, pairs);
}

int narrow_add(PLAIN, int64_t n, uint64_t half)
{
	return percpu_seq_narrow_add(cell, stride, n, half);
}

int narrow_cross(PLAIN, int64_t n, const uint64_t *checkpoint, uint64_t expected)
{
	return percpu_seq_narrow_cross(cell, stride, n, checkpoint, expected);
}

/* SPDX-License-Identifier: MIT */
/*
 * pair.c - two adjacent words that change together.
 *
 * x86-64 and aarch64 compare and swap 16 bytes. A load of 16 bytes at once needs a CPU with AVX,
 * or with LSE2 (Armv8.4). On other CPUs, a load swaps the pair for itself. A process that may
 * only read cannot do that. It loads the pair until two loads are equal. The words can then be
 * of two moments only if the pair changed back and forth between all four loads of a word.
 *
 * Other machines, above all 32-bit ones, use the journal: a pair is two words of the bias lane,
 * which change under the journal's lock. If a lock holder is killed, its change is completed, or
 * was not begun. A process of the first kind does not look at the lock. So if processes of both
 * kinds changed the same pairs, changes would be lost. The objects in a file record the kind of
 * their creator.
 *
 * The instructions are in assembly, because compilers call libatomic for 16 bytes, which may
 * take a lock of the process.
 */
#include <errno.h>

#include "memory.h"

#define KNOWN 0x100 /* set in `found` once it has been filled in */

static unsigned ways(void)
{
	static unsigned found; /* atomic; all threads find the same */
	unsigned w = __atomic_load_n(&found, __ATOMIC_RELAXED);

	if (percpu_unlikely(w == 0)) {
		w = percpu_pair_ways() | KNOWN;
#if defined(__x86_64__) && !defined(__SSE2__)
		w &= ~(unsigned)PERCPU_PAIR_LOADS;
#endif
		__atomic_store_n(&found, w, __ATOMIC_RELAXED);
	}
	return w;
}

bool percpu_pair_is_atomic(void)
{
	return (ways() & PERCPU_PAIR_EXCHANGES) != 0;
}

#if defined(__x86_64__)

/* Set the pair to v if it is *e, and return whether it was. Set *e to what it was. */
static bool exchange(struct percpu_pair_value *p, struct percpu_pair_value *e,
		     struct percpu_pair_value v)
{
	bool done;

	__asm__ __volatile__("lock cmpxchg16b %[p]"
			     : "=@ccz"(done), [p] "+m"(*p), "+a"(e->first), "+d"(e->second)
			     : "b"(v.first), "c"(v.second)
			     : "memory");
	return done;
}

static struct percpu_pair_value load_both(const struct percpu_pair_value *p)
{
	struct percpu_pair_value v;
#ifdef __SSE2__
	uint64_t __attribute__((__vector_size__(16))) both;

	__asm__ __volatile__("movdqa %[p], %[both]" : [both] "=x"(both) : [p] "m"(*p) : "memory");
	v = (struct percpu_pair_value){ both[0], both[1] };
#else
	v.first = __atomic_load_n(&p->first, __ATOMIC_ACQUIRE);
	v.second = __atomic_load_n(&p->second, __ATOMIC_ACQUIRE);
#endif
	return v;
}

#elif defined(__aarch64__)

/* If the pair is not as expected, store the loaded words again: the store succeeds only if both
 * words were loaded at once. */
static bool exchange_exclusive(struct percpu_pair_value *p, struct percpu_pair_value *e,
			       struct percpu_pair_value v)
{
	struct percpu_pair_value old, new;
	uint32_t failed;

	__asm__ __volatile__(
		"1:\n\t"
		"ldaxp %[a], %[b], %[p]\n\t"
		"cmp %[a], %[e0]\n\t"
		"ccmp %[b], %[e1], #0, eq\n\t"
		"csel %[x], %[v0], %[a], eq\n\t"
		"csel %[y], %[v1], %[b], eq\n\t"
		"stlxp %w[failed], %[x], %[y], %[p]\n\t"
		"cbnz %w[failed], 1b"
		: [p] "+Q"(*p), [a] "=&r"(old.first), [b] "=&r"(old.second), [x] "=&r"(new.first),
		  [y] "=&r"(new.second), [failed] "=&r"(failed)
		: [e0] "r"(e->first), [e1] "r"(e->second), [v0] "r"(v.first), [v1] "r"(v.second)
		: "cc", "memory");
	if (old.first == e->first && old.second == e->second)
		return true;
	*e = old;
	return false;
}

/* Use one instruction: it also makes progress in a thread that a debugger single-steps. */
static bool exchange_at_once(struct percpu_pair_value *p, struct percpu_pair_value *e,
			     struct percpu_pair_value v)
{
	register uint64_t old0 __asm__("x0") = e->first;
	register uint64_t old1 __asm__("x1") = e->second;
	register uint64_t new0 __asm__("x2") = v.first;
	register uint64_t new1 __asm__("x3") = v.second;
	bool done;

	__asm__ __volatile__(".arch_extension lse\n\t"
			     "caspal x0, x1, x2, x3, %[p]"
			     : [p] "+Q"(*p), "+r"(old0), "+r"(old1)
			     : "r"(new0), "r"(new1)
			     : "memory");
	done = old0 == e->first && old1 == e->second;
	*e = (struct percpu_pair_value){ old0, old1 };
	return done;
}

static bool exchange(struct percpu_pair_value *p, struct percpu_pair_value *e,
		     struct percpu_pair_value v)
{
	return ways() & PERCPU_PAIR_CASP ? exchange_at_once(p, e, v) : exchange_exclusive(p, e, v);
}

static struct percpu_pair_value load_both(const struct percpu_pair_value *p)
{
	struct percpu_pair_value v;

	__asm__ __volatile__("ldp %[a], %[b], %[p]\n\t"
			     "dmb ishld"
			     : [a] "=&r"(v.first), [b] "=&r"(v.second)
			     : [p] "Q"(*p)
			     : "memory");
	return v;
}

#else /* never called: percpu_pair_ways() returns no way */

static bool exchange(struct percpu_pair_value *p, struct percpu_pair_value *e,
		     struct percpu_pair_value v)
{
	(void)p, (void)e, (void)v;
	return false;
}

static struct percpu_pair_value load_both(const struct percpu_pair_value *p)
{
	return *p;
}

#endif

static bool is_equal(struct percpu_pair_value a, struct percpu_pair_value b)
{
	return a.first == b.first && a.second == b.second;
}

static struct percpu_pair_value load_twice(const struct percpu_pair_value *p)
{
	struct percpu_pair_value v = load_both(p), before;

	do {
		before = v;
		v = load_both(p);
	} while (!is_equal(v, before));
	return v;
}

static struct percpu_pair_value *pair_at(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return (struct percpu_pair_value *)percpu_chunk_lane(k, lane, offset);
}

static int load_bias(struct percpu_chunk *k, size_t offset, struct percpu_pair_value *ret)
{
	uint64_t words[2];
	int e = percpu_journal_read(k, offset, words, 2);

	if (e == 0)
		*ret = (struct percpu_pair_value){ words[0], words[1] };
	return e;
}

struct percpu_pair_value percpu_pair_peek(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	const struct percpu_pair_value *p = pair_at(k, lane, offset);

	return percpu_likely(ways() & PERCPU_PAIR_LOADS) ? load_both(p) : load_twice(p);
}

int percpu_pair_load(struct percpu_chunk *k, size_t lane, size_t offset,
		     struct percpu_pair_value *ret)
{
	struct percpu_pair_value *p = pair_at(k, lane, offset);

	if (percpu_unlikely(!percpu_pair_is_atomic()))
		return load_bias(k, offset, ret);
	if (!(ways() & PERCPU_PAIR_LOADS) && k->region->writable) {
		*ret = (struct percpu_pair_value){ 0, 0 };
		(void)exchange(p, ret, *ret);
	} else {
		*ret = percpu_pair_peek(k, lane, offset);
	}
	return 0;
}

static int set_bias(struct percpu_chunk *k, size_t offset, struct percpu_pair_value *expected,
		    struct percpu_pair_value v)
{
	const struct percpu_pair_value *p = pair_at(k, percpu_chunk_bias_lane(k), offset);
	const uint64_t words[2] = { v.first, v.second };
	struct percpu_robust h;
	int e = percpu_journal_lock(k, &h);

	if (e != 0)
		return e;
	if (is_equal(*p, *expected)) {
		percpu_journal_set(k, offset, words, 2);
	} else {
		*expected = *p;
		e = -EAGAIN;
	}
	percpu_robust_unlock(&h);
	return e;
}

int percpu_pair_cmpxchg(struct percpu_chunk *k, size_t lane, size_t offset,
			struct percpu_pair_value *expected, struct percpu_pair_value v)
{
	if (percpu_unlikely(!percpu_pair_is_atomic()))
		return set_bias(k, offset, expected, v);
	return exchange(pair_at(k, lane, offset), expected, v) ? 0 : -EAGAIN;
}

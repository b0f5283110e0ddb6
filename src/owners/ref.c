/* SPDX-License-Identifier: MIT */
/*
 * ref.c - reference counts: gets and puts that no sequence committed. ref_mode.c switches the mode.
 * ref.h describes the word, and has the states.
 */
#include <errno.h>

#include "../cpu/debug.h"
#include "ref.h"

void percpu_ref_mention(const struct counted_ref *r, const char *what)
{
	if (r->debug)
		percpu_debug_say("reference count %p %s", (const void *)r, what);
}

int percpu_ref_complain(const struct counted_ref *r, int e, const char *what)
{
	if (r->debug)
		percpu_debug_die("reference count %p %s", (const void *)r, what);
	return e;
}

/* Get n unless one of these bits is set. Returns 0, -ESTALE or -EOVERFLOW. */
static int get_counted(struct counted_ref *r, uint64_t n, uint64_t unless)
{
	uint64_t w = percpu_ref_word(r), number;

	if (n > PERCPU_REF_MAX)
		return -EOVERFLOW;
	do {
		PERCPU_STEP("ref: count loaded");
		number = w & REF_NUMBER;
		if ((w & unless) != 0 || (number == 0 && (w & REF_SPREAD) == 0))
			return -ESTALE;
		if ((w & REF_SPREAD) == 0 && n > PERCPU_REF_MAX - number)
			return -EOVERFLOW;
	} while (!percpu_ref_cmpxchg(r, &w, (w & ~REF_NUMBER) | ((number + n) & REF_NUMBER)));
	return 0;
}

int percpu_ref_put_counted(struct counted_ref *r, uint64_t n)
{
	uint64_t w = percpu_ref_word(r), left;

	if (n > PERCPU_REF_MAX)
		return -ERANGE;
	do {
		PERCPU_STEP("ref: count loaded");
		if ((w & REF_SPREAD) == 0 && n > (w & REF_NUMBER))
			return -ERANGE;
		left = (w & ~REF_NUMBER) | ((w - n) & REF_NUMBER);
	} while (!percpu_ref_cmpxchg(r, &w, left));
	if (n != 0 && (left & ~REF_DEAD) == 0)
		r->release(&r->pub, r->arg); /* may free the count */
	return 0;
}

/* Repeat the sequence until it is committed or refused, or not worth another try. Returns whether
 * it was committed. All callers share this one copy. */
static __attribute__((noinline)) bool count_by_sequence(struct percpu_ref *ref, int64_t n)
{
	int e = PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(e, try); try++)
		e = percpu_ref_count(ref, n);
	return e == 0;
}

/* Get or put n by a sequence. Returns whether it was committed. An n that is too large is left to
 * the word, which reports the error. */
static bool is_counted(struct percpu_ref *ref, uint64_t n, bool put)
{
	return n <= PERCPU_REF_MAX && count_by_sequence(ref, put ? -(int64_t)n : (int64_t)n);
}

int percpu_ref_get_slow(struct percpu_ref *ref, uint64_t n)
{
	struct counted_ref *r = counted_of(ref);
	int e = is_counted(ref, n, false) ? 0 : get_counted(r, n, 0);

	return e != 0 ? percpu_ref_complain(r, e, "is got, but is 0, or too large") : 0;
}

bool percpu_ref_tryget_slow(struct percpu_ref *ref, uint64_t n)
{
	struct counted_ref *r = counted_of(ref);

	return is_counted(ref, n, false) || get_counted(r, n, 0) == 0;
}

bool percpu_ref_tryget_live_slow(struct percpu_ref *ref)
{
	struct counted_ref *r = counted_of(ref);

	return is_counted(ref, 1, false) || get_counted(r, 1, REF_DEAD) == 0;
}

/* After the put, read nothing of the count any more: it may be freed. */
int percpu_ref_put_slow(struct percpu_ref *ref, uint64_t n)
{
	struct counted_ref *r = counted_of(ref);
	int e = is_counted(ref, n, true) ? 0 : percpu_ref_put_counted(r, n);

	return e != 0 ? percpu_ref_complain(r, e, "is put more often than it was got") : 0;
}

bool percpu_ref_is_zero(const struct percpu_ref *ref)
{
	return ref == NULL || (percpu_ref_word(counted_of(ref)) & ~REF_DEAD) == 0;
}

bool percpu_ref_is_dying(const struct percpu_ref *ref)
{
	return ref != NULL && (percpu_ref_word(counted_of(ref)) & REF_DEAD) != 0;
}

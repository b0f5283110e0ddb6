/* SPDX-License-Identifier: MIT */
/*
 * spec_group.h - the sequences of groups: what each does, step by step, in the notation of
 * spec.h. arch/<a>_group.h defines them for a CPU.
 *
 * A group has many records in each lane, one behind the other. An update adds to two of them in
 * place, which takes several stores. So it first saves the old words of both, and then stores which
 * two these are, in "names". The commit is the store to "turn" that follows the last addition. The
 * lowest bits of names and turn differ between the two stores: that update is "open", and the saved
 * words are the valid ones of its two records. An update that was aborted, or whose thread was
 * killed, stays open. The next update of the lane first stores the saved words back, which does no
 * harm if it happens twice.
 *
 * ORDERING
 *
 *	turn	acquire; pairs with the commit of the update before, so that no store to the
 *		saved words is seen before that commit. Commit: release.
 *	names	release, and then a fence of stores: the saved words are seen before it, and no
 *		store to a record is.
 *		All of these pair with the acquire loads, in front of a word and behind it, of
 *		add_group_object() in src/counts/stats_group_read.c.
 */
#ifndef PERCPU_ARCH_SPEC_GROUP_H
#define PERCPU_ARCH_SPEC_GROUP_H

#include <percpu/arch/spec.h>

PERCPU_BEGIN_DECLS

/* C++ has flexible arrays as an extension only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/** The begin of a group in a lane, in each of its banks. The records are behind it. */
struct percpu_group_lane {
	uint64_t turn;	/* updates that were committed or undone */
	uint64_t names; /* bit 0: the last update is open if turn's bit 0 differs; bits 1 to 31: the
			   number of its first record; bits 32 to 63: of the second */
	uint64_t reserved[2]; /* aligns the records */
	uint64_t old[];	      /* all words of the first record, and then of the second */
} PERCPU_ALIGNED_WORD;

#pragma GCC diagnostic pop

/** Return percpu_group_lane.names of two records, without bit 0. */
PERCPU_INLINE uint64_t percpu_group_names(size_t a, size_t b)
{
	return (uint64_t)a << 1 | (uint64_t)b << 32;
}

/**
 * group_update2, group_update4, group_update: all words of two records, which may be the same one. p
 * is a struct percpu_group_lane; a and b are the bytes from p to the records, names has their
 * numbers.
 *
 * Records of group_update2 have 2 words, and those of group_update4 4 words. The words to add are in
 * registers. group_update4 is for CPUs with AVX2; on others it returns SLOW. Records of group_update
 * have any number of bytes, a multiple of 16; n[2 * i] and n[2 * i + 1] have words 2 * i and the
 * next one to add to a and to b.
 *
 *	turn = p->turn				acquire
 *						@loaded
 *	if ((turn ^ p->names) & 1) return REFUSED	the last one is open
 *	p->old = all words of a, and of b
 *	p->names = names | ((turn + 1) & 1)	release
 *	fence of stores				@decided
 *	all words of a += those of n for a
 *	all words of b += those of n for b	in any order
 *						@written
 *	p->turn = turn + 1			commit, release
 */
PERCPU_INLINE int percpu_seq_group_update2(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na, percpu_words2 nb);
PERCPU_INLINE int percpu_seq_group_update4(void *cell, size_t stride, const uint64_t *bank,
					   uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					   percpu_words2 na0, percpu_words2 na2, percpu_words2 nb0,
					   percpu_words2 nb2);
PERCPU_INLINE int percpu_seq_group_update(void *cell, size_t stride, const uint64_t *bank,
					  uint64_t mask, uint64_t names, uint64_t a, uint64_t b,
					  const percpu_words2 *n, uint64_t bytes);

/**
 * group_undo: the records as they were before an open update. head is the bytes from p to the first
 * of the records, whose number is `records`. A damaged file may name others: SLOW.
 *
 *	turn = p->turn				acquire
 *						@loaded
 *	if (!((turn ^ p->names) & 1)) return REFUSED	nothing is open
 *	a, b = the numbers in p->names
 *	if (a >= records || b >= records) return SLOW
 *	records a and b = p->old		@decided, in front of each pair of words
 *						@written
 *	p->turn = turn + 1			commit, release
 */
PERCPU_INLINE int percpu_seq_group_undo(void *cell, size_t stride, const uint64_t *bank,
					uint64_t mask, uint64_t head, uint64_t records,
					uint64_t bytes);

PERCPU_END_DECLS

#endif

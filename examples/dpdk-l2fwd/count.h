/* SPDX-License-Identifier: MIT */
/*
 * count.h - count packets, in each of the compared ways. All arguments but the packet are
 * constants or loop invariants of the caller.
 */
#ifndef COUNT_H
#define COUNT_H

#include "l2fwd.h"

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Add as the only writer, by a load and a store, so that a reader sees every packet, as with the
 * other ways. The compiler would keep plain adds in registers for a whole burst. */
ALWAYS_INLINE void add_plain(uint64_t *word, uint64_t n)
{
	__atomic_store_n(word, __atomic_load_n(word, __ATOMIC_RELAXED) + n, __ATOMIC_RELAXED);
}

ALWAYS_INLINE void tally_add(struct tally *to, const struct tally *t)
{
	to->packets += t->packets;
	to->bytes += t->bytes;
	to->wire_bytes += t->wire_bytes;
	to->segments += t->segments;
}

ALWAYS_INLINE void add_atomic(uint64_t *word, uint64_t n)
{
	__atomic_fetch_add(word, n, __ATOMIC_RELAXED);
}

/* Commit each group of so many words at once. */
ALWAYS_INLINE void add_groups(const struct percpu_stats *stats, unsigned port,
			      const uint64_t *words, unsigned n, const unsigned group)
{
	for (unsigned i = 0; i < n; i += group)
		(void)percpu_stats_update(stats, port, i, words + i, group);
}

/* Add to the first words of a port. */
ALWAYS_INLINE void count(const struct places *p, enum way way, unsigned group, unsigned lcore,
			 unsigned port, const uint64_t *words, unsigned n)
{
	uint64_t *slot;

	switch (way) {
	case COUNT_LCORE:
		slot = (uint64_t *)&p->lcores[lcore][port];
		for (unsigned i = 0; i < n; i++)
			add_plain(&slot[i], words[i]);
		break;
	case COUNT_OURS:
	case COUNT_OURS_ADDS:
	case COUNT_OURS_WHOLE:
	case COUNT_OURS_BURST:
		add_groups(PERCPU_STATS_OF(p->stats), port, words, n, group);
		break;
	case COUNT_ATOMIC:
		slot = (uint64_t *)&p->shared[port];
		for (unsigned i = 0; i < n; i++)
			add_atomic(&slot[i], words[i]);
		break;
	case COUNT_RACY:
		slot = (uint64_t *)&p->shared[port];
		for (unsigned i = 0; i < n; i++)
			add_plain(&slot[i], words[i]);
		break;
	default:
		break;
	}
}

/* Add to a rare field, from a thread that may have no lcore. */
#define COUNT_FIELD(p, way, lcore, port, field, n)                                                 \
	do {                                                                                       \
		if ((way) == COUNT_LCORE)                                                          \
			add_plain(&(p)->lcores[lcore][port].field, (n));                           \
		else if ((way) == COUNT_ATOMIC || (way) == COUNT_RACY)                             \
			add_atomic(&(p)->shared[port].field, (n));                                 \
		else if ((way) != COUNT_NONE)                                                      \
			PERCPU_STATS_ADD((p)->stats, port, field, (int64_t)(n));                   \
	} while (0)

#endif

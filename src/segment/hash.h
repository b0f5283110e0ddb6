/* SPDX-License-Identifier: MIT */
/*
 * hash.h - SipHash-1-3 over texts, by a key that no other process knows. So no client can choose
 * texts whose hashes collide.
 */
#ifndef PERCPU_SEGMENT_HASH_H
#define PERCPU_SEGMENT_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/** The secret of a table. */
struct percpu_hash_key {
	uint64_t word[2];
};

/** A hash that is being computed. */
struct percpu_hash {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t percpu_hash_turn(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static inline void percpu_hash_round(struct percpu_hash *h)
{
	h->v0 += h->v1;
	h->v2 += h->v3;
	h->v1 = percpu_hash_turn(h->v1, 13) ^ h->v0;
	h->v3 = percpu_hash_turn(h->v3, 16) ^ h->v2;
	h->v0 = percpu_hash_turn(h->v0, 32);
	h->v2 += h->v1;
	h->v0 += h->v3;
	h->v1 = percpu_hash_turn(h->v1, 17) ^ h->v2;
	h->v3 = percpu_hash_turn(h->v3, 21) ^ h->v0;
	h->v2 = percpu_hash_turn(h->v2, 32);
}

static inline struct percpu_hash percpu_hash_begin(const struct percpu_hash_key *key)
{
	return (struct percpu_hash){
		key->word[0] ^ UINT64_C(0x736f6d6570736575),
		key->word[1] ^ UINT64_C(0x646f72616e646f6d),
		key->word[0] ^ UINT64_C(0x6c7967656e657261),
		key->word[1] ^ UINT64_C(0x7465646279746573),
	};
}

static inline void percpu_hash_word(struct percpu_hash *h, uint64_t word)
{
	h->v3 ^= word;
	percpu_hash_round(h);
	h->v0 ^= word;
}

/** Go on with a text. Its end is told: "ab", "c" and "a", "bc" differ. */
static inline void percpu_hash_text(struct percpu_hash *h, const void *text, size_t n)
{
	const unsigned char *at = text;
	uint64_t word = (uint64_t)n << 56;

	for (; n >= sizeof(word); n -= sizeof(word), at += sizeof(word)) {
		uint64_t whole;

		memcpy(&whole, at, sizeof(whole));
		percpu_hash_word(h, whole);
	}
	while (n-- > 0)
		word |= (uint64_t)at[n] << 8 * n;
	percpu_hash_word(h, word);
}

static inline uint64_t percpu_hash_end(struct percpu_hash h)
{
	h.v2 ^= 0xff;
	percpu_hash_round(&h);
	percpu_hash_round(&h);
	percpu_hash_round(&h);
	return h.v0 ^ h.v1 ^ h.v2 ^ h.v3;
}

#endif

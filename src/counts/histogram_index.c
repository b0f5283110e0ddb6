/* SPDX-License-Identifier: MIT */
/*
 * histogram_index.c - which bucket a value is in, exactly.
 *
 * The upper bound of bucket i is 2^(i / 2^schema) units. The mantissas of the bounds are the same
 * in each octave. A value is a double; ticks up to 2^53 are exact as doubles. Call the largest
 * double that is not above a bound the bound's double. A value is above the bound if the bits of
 * the value, minus 1, are not below the bits of the bound's double. The minus 1 makes the upper
 * bound inclusive. The octave, and how many of its bounds are below the value, give the bucket.
 *
 * A table gives that number of bounds. Its index is the first bits of the mantissa. They cut the
 * octave into pieces of half the average width of a bucket. The narrowest bucket is wider than a
 * piece, so a piece contains at most one bound. The upper bits of a table entry are the number of
 * bounds below the piece. The lower bits are 2^53 minus the bound in the piece. When the mantissa
 * is added, a carry counts that bound, too, if the mantissa is not below it.
 *
 * In a histogram of ticks the bounds are 2^(i / 2^schema) times the ticks of a unit. Their
 * mantissas differ, and the octave begins with another bound; the rest is the same.
 */
#include <string.h>

#include "counts.h"

#define MOST (1 << PERCPU_HISTOGRAM_FINEST) /* bounds of an octave */
#define MANTISSA 52
#define MANTISSA_BITS ((UINT64_C(1) << MANTISSA) - 1)
#define BIAS 1023

/* 2^(127 + k / 32), rounded down. tests/unit/counts/test_histogram_index.c compares powers. */
static const struct {
	uint64_t high, low;
} roots[MOST] = {
	{ 0x8000000000000000, 0x0000000000000000 }, { 0x82cd8698ac2ba1d7, 0x3e2a475b46520bff },
	{ 0x85aac367cc487b14, 0xc5c95b8c2154c1b2 }, { 0x88980e8092da8527, 0x5df8d76c98c67562 },
	{ 0x8b95c1e3ea8bd6e6, 0xfbe4628758a53c90 }, { 0x8ea4398b45cd53c0, 0x2dc0144c8783d4c5 },
	{ 0x91c3d373ab11c336, 0x0fd6d8e0ae5ac9d8 }, { 0x94f4efa8fef70961, 0x2e8afad12551de54 },
	{ 0x9837f0518db8a96f, 0x46ad23182e42f6f6 }, { 0x9b8d39b9d54e5538, 0xa2a817a2a3cc3f1f },
	{ 0x9ef5326091a111ad, 0xa0911f09ebb9fdd1 }, { 0xa27043030c496818, 0x9b7a04ef80cfdea7 },
	{ 0xa5fed6a9b15138ea, 0x1cbd7f621710701b }, { 0xa9a15ab4ea7c0ef8, 0x541e24ec3531fa73 },
	{ 0xad583eea42a14ac6, 0x4980a8c8f59a2ec4 }, { 0xb123f581d2ac258f, 0x87d037e96d215d8e },
	{ 0xb504f333f9de6484, 0x597d89b3754abe9f }, { 0xb8fbaf4762fb9ee9, 0x1b879778566b65a1 },
	{ 0xbd08a39f580c36be, 0xa8811fb66d0faf7a }, { 0xc12c4cca66709456, 0x7c457d59a50087b5 },
	{ 0xc5672a115506dadd, 0x3e2ad0c964dd9f37 }, { 0xc9b9bd866e2f27a2, 0x80e1f92a0511697e },
	{ 0xce248c151f8480e3, 0xe235838f95f2c6ed }, { 0xd2a81d91f12ae45a, 0x12248e57c3de4028 },
	{ 0xd744fccad69d6af4, 0x39a68bb9902d3fde }, { 0xdbfbb797daf23755, 0x3d840d5a9e29aa64 },
	{ 0xe0ccdeec2a94e111, 0x065895048dd333ca }, { 0xe5b906e77c8348a8, 0x1e5e8f4a4edbb0ec },
	{ 0xeac0c6e7dd24392e, 0xd02d75b3706e54fa }, { 0xefe4b99bdcdaf5cb, 0x46561cf6948db912 },
	{ 0xf5257d152486cc2c, 0x7b9d0c7aed980fc3 }, { 0xfa83b2db722a033a, 0x7c25bb14315d7fcc },
};

/* Set the three words to a * (high * 2^64 + low), the lowest first. It multiplies 32-bit halves,
 * because machines of 32 bits have no type of 128 bits. */
static void multiply(uint64_t a, uint64_t high, uint64_t low, uint64_t product[3])
{
	const uint32_t x[2] = { (uint32_t)a, (uint32_t)(a >> 32) };
	const uint32_t y[4] = { (uint32_t)low, (uint32_t)(low >> 32), (uint32_t)high,
				(uint32_t)(high >> 32) };
	uint32_t out[6] = { 0 };
	uint64_t t;

	for (int i = 0; i < 2; i++) {
		t = 0;
		for (int j = 0; j < 4; j++) {
			t += (uint64_t)x[i] * y[j] + out[i + j];
			out[i + j] = (uint32_t)t;
			t >>= 32;
		}
		out[i + 4] = (uint32_t)t;
	}
	for (int i = 0; i < 3; i++)
		product[i] = (uint64_t)out[2 * i + 1] << 32 | out[2 * i];
}

/* Return the mantissa of ticks * 2^(k / 32), rounded down, and its exponent. The constant is too
 * small by less than one part in 2^127, which does not change the result. */
static uint64_t mantissa_of(uint64_t ticks, unsigned k, int *ret_exponent)
{
	uint64_t p[3];
	unsigned first; /* bit */

	multiply(ticks, roots[k].high, roots[k].low, p);
	first = p[2] != 0 ? 191 - (unsigned)__builtin_clzll(p[2]) :
			    127 - (unsigned)__builtin_clzll(p[1]);
	*ret_exponent = (int)first - 127;
	first -= MANTISSA; /* now the last bit of the mantissa */
	if (first >= 128)
		return p[2] >> (first - 128) & MANTISSA_BITS;
	return (p[1] >> (first - 64) | p[2] << (128 - first)) & MANTISSA_BITS;
}

/* Return the table's entry for the piece of the octave that begins at this mantissa. */
static uint64_t entry(const uint64_t *bounds, unsigned n, uint64_t from, uint64_t width)
{
	uint64_t below = 0, within = UINT64_C(1) << MANTISSA;

	for (unsigned i = 0; i < n; i++) {
		below += bounds[i] < from;
		if (bounds[i] >= from && bounds[i] - from < width)
			within = bounds[i];
	}
	return (below << (MANTISSA + 1)) + (UINT64_C(1) << (MANTISSA + 1)) - within;
}

void percpu_histogram_lay_index(struct percpu_histogram *h)
{
	const uint64_t ticks = h->ticks != 0 ? h->ticks : 1;
	const unsigned n = 1U << h->schema, step = MOST >> h->schema;
	uint64_t mantissa[MOST], sorted[MOST];
	unsigned first = n; /* bound whose mantissa is in the next octave */
	int exponent = 0, lowest = 0;

	for (unsigned j = 0; j < n; j++) {
		mantissa[j] = mantissa_of(ticks, j * step, &exponent);
		lowest = j == 0 ? exponent : lowest;
		if (exponent != lowest && first == n)
			first = j;
	}
	for (unsigned j = 0; j < n; j++)
		sorted[j] = mantissa[(first + j) % n];
	h->shift = MANTISSA - 1 - h->schema;
	for (unsigned c = 0; c < 2 * n; c++)
		h->table[c] = entry(sorted, n, (uint64_t)c << h->shift, UINT64_C(1) << h->shift);
	/* Now the number of the lowest bound of octave 0. */
	exponent = (int)first - (int)((unsigned)(lowest + 1) << h->schema);
	h->origin = (int64_t)h->low * (int64_t)n - exponent + ((int64_t)BIAS << h->schema);
	h->last = ((int64_t)(h->high - h->low) << h->schema) + 1;
}

uint64_t percpu_histogram_tick_bound(uint64_t ticks, unsigned schema, int index)
{
	const unsigned n = 1U << schema, k = (unsigned)index & (n - 1);
	/* The product is 2^127 times the bound of octave 0. */
	const int shift = 127 - (index - (int)k) / (int)n;
	uint64_t p[3];

	multiply(ticks, roots[k * (MOST >> schema)].high, roots[k * (MOST >> schema)].low, p);
	if (shift >= 128)
		return shift < 192 ? p[2] >> (shift - 128) : 0;
	return p[1] >> (shift - 64) | p[2] << (128 - shift);
}

uint64_t percpu_histogram_multiply(uint64_t a, uint64_t b, uint64_t *ret_high)
{
	uint64_t p[3];

	multiply(a, 0, b, p);
	*ret_high = p[1];
	return p[0];
}

double percpu_histogram_bound(int schema, int index)
{
	int64_t exponent = index;
	int n, k = 0;
	uint64_t bits;
	double bound;

	if (schema < PERCPU_HISTOGRAM_COARSEST || schema > PERCPU_HISTOGRAM_FINEST)
		return 0;
	if (schema < 0) {
		exponent *= 1 << -schema;
	} else {
		n = 1 << schema;
		k = index & (n - 1);
		exponent = (index - k) / n;
		k *= MOST / n;
	}
	if (exponent <= -BIAS || exponent > BIAS)
		return exponent < 0 ? 0 : __builtin_inf();
	bits = (uint64_t)(exponent + BIAS) << MANTISSA;
	bits |= roots[k].high >> 11 & MANTISSA_BITS;
	memcpy(&bound, &bits, sizeof(bound));
	return bound;
}

/* Divide by long division, one binary digit after the other. The result is at least 2^-64, so it
 * has all digits of a double. */
double percpu_histogram_in_units(uint64_t ticks, uint64_t unit, bool up)
{
	uint64_t digits = ticks / unit, rest = ticks % unit;
	int exponent = 0;
	bool one;

	if (ticks == 0)
		return 0;
	for (; digits >> (MANTISSA + 1) != 0; exponent++) {
		rest |= digits & 1; /* only whether it is 0 matters now */
		digits >>= 1;
	}
	for (; digits >> MANTISSA == 0; exponent--) {
		one = rest >= unit - rest; /* twice the rest may not fit */
		rest = one ? rest - (unit - rest) : 2 * rest;
		digits = 2 * digits + one;
	}
	digits += up && rest != 0;
	return (double)digits * percpu_histogram_bound(0, exponent);
}

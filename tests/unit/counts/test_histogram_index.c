/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_index.c - the bucket of a value, checked with whole numbers of any size:
 * v <= t * 2^(i / n) if v^n <= t^n * 2^i.
 */
#include <math.h>
#include <string.h>

#include <percpu/histogram.h>

#include "support.h"

#include "counts/counts.h"

#define LIMBS 160 /* of 32 bits: more than the longest number has */

struct big {
	uint32_t limb[LIMBS];
};

static struct big big_of(uint64_t n)
{
	return (struct big){ .limb = { (uint32_t)n, (uint32_t)(n >> 32) } };
}

static void times(struct big *a, uint64_t n)
{
	const uint32_t half[2] = { (uint32_t)n, (uint32_t)(n >> 32) };
	struct big out = big_of(0);
	uint64_t t;

	for (int h = 0; h < 2; h++) {
		t = 0;
		for (int i = 0; i + h < LIMBS; i++) {
			t += (uint64_t)a->limb[i] * half[h] + out.limb[i + h];
			out.limb[i + h] = (uint32_t)t;
			t >>= 32;
		}
		assert_int_equal(t, 0);
	}
	*a = out;
}

static void shift(struct big *a, unsigned bits)
{
	for (; bits >= 32; bits -= 32)
		times(a, UINT64_C(1) << 32);
	times(a, UINT64_C(1) << bits);
}

static int compare(const struct big *a, const struct big *b)
{
	for (int i = LIMBS - 1; i >= 0; i--)
		if (a->limb[i] != b->limb[i])
			return a->limb[i] < b->limb[i] ? -1 : 1;
	return 0;
}

/* Return whether v <= ticks * 2^(index / 2^schema). */
static bool is_not_above(double v, uint64_t ticks, int index, unsigned schema)
{
	const int n = 1 << schema;
	struct big left = big_of(1), right = big_of(1);
	int exponent;
	uint64_t m = (uint64_t)ldexp(frexp(v, &exponent), 53);

	for (int i = 0; i < n; i++) {
		times(&left, m);
		times(&right, ticks);
	}
	exponent = (exponent - 53) * n - index; /* of the left side */
	shift(exponent > 0 ? &left : &right, (unsigned)(exponent > 0 ? exponent : -exponent));
	return compare(&left, &right) <= 0;
}

/* Return the double that is `step` doubles above v. */
static double beside(double v, int64_t step)
{
	int64_t bits;

	memcpy(&bits, &v, sizeof(bits));
	bits += step;
	memcpy(&v, &bits, sizeof(v));
	return v;
}

/* Return the number of the bucket of a value within the range. */
static int index_of(const struct percpu_histogram *h, double v)
{
	return (int)percpu_histogram_index(h, percpu_histogram_bits(v)) + h->low * (1 << h->schema);
}

static bool is_right(const struct percpu_histogram *h, double v, int index)
{
	uint64_t ticks = h->ticks != 0 ? h->ticks : 1;

	return is_not_above(v, ticks, index, h->schema) &&
	       !is_not_above(v, ticks, index - 1, h->schema);
}

static struct percpu_histogram *make(unsigned schema, double min, double max, uint64_t ticks)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .min = min,
						    .max = max,
						    .ticks_per_unit = ticks,
						    .buckets_per_octave = 1U << schema };
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	return h;
}

/* Test the bounds of 8 octaves, and the doubles next to them. */
static void bounds_are_exact(void **state)
{
	(void)state;
	for (unsigned schema = 0; schema <= 5; schema++) {
		struct percpu_histogram *h = make(schema, 0x1p-40, 0x1p40, 0);
		const int n = 1 << schema;

		for (int i = -4 * n; i < 4 * n; i++) {
			double bound = percpu_histogram_bound(schema, i);

			assert_true(is_not_above(bound, 1, i, schema));
			assert_false(is_not_above(beside(bound, 1), 1, i, schema));
			assert_int_equal(index_of(h, bound), i);
			assert_int_equal(index_of(h, beside(bound, 1)), i + 1);
			assert_int_equal(index_of(h, beside(bound, -1)),
					 i == h->low * n ? i - 1 : i);
		}
		percpu_histogram_destroy(h);
	}
}

static void random_values_are_right(void **state)
{
	uint64_t random = 3;

	(void)state;
	for (unsigned schema = 0; schema <= 5; schema++) {
		struct percpu_histogram *h = make(schema, 0x1p-30, 0x1p30, 0);

		for (int i = 0; i < 300; i++) {
			double v = ldexp(1 + ldexp((double)(test_random(&random) >> 12), -52),
					 (int)(test_random(&random) % 60) - 30);

			assert_true(is_right(h, v, index_of(h, v)));
		}
		percpu_histogram_destroy(h);
	}
}

/* Test ticks next to random bounds, for usual units and for odd ones. */
static void ticks_are_exact(void **state)
{
	static const uint64_t units[] = { 1,	   3,	     1000,    1000000,	  1000000000,
					  7 << 20, 24000000, 3579545, 2399998000, 0x1fffffffffULL };
	uint64_t random = 5;

	(void)state;
	for (unsigned schema = 0; schema <= 5; schema++)
		for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
			struct percpu_histogram *h = make(schema, 0x1p-10, 0x1p12, units[u]);
			const int n = 1 << schema;

			for (int i = 0; i < 2 * n; i++) {
				int at = (h->low + 2) * n +
					 (int)(test_random(&random) % (unsigned)(20 * n));
				double t = (double)(uint64_t)(percpu_histogram_bound(schema, at) *
							      (double)units[u]);
				double bound;

				bound = (double)percpu_histogram_tick_bound(units[u], schema, at);
				assert_true(bound < 1 || is_not_above(bound, units[u], at, schema));
				assert_false(is_not_above(bound + 1, units[u], at, schema));
				for (double d = t - 1; d <= t + 2; d++)
					if (d > ldexp((double)units[u], h->low))
						assert_true(is_right(h, d, index_of(h, d)));
			}
			percpu_histogram_destroy(h);
		}
}

/* Return whether v units are ticks + 1/2 or more. */
static bool reaches_half(double v, uint64_t unit, uint64_t ticks)
{
	struct big left = big_of(2 * ticks + 1), right;
	int exponent;

	right = big_of((uint64_t)ldexp(frexp(v, &exponent), 53));
	times(&right, unit);
	shift(&left, (unsigned)(53 - exponent - 1));
	return compare(&left, &right) <= 0;
}

/* Test half ticks, and the doubles next to them, whose products with the unit round to halves. */
static void ticks_are_the_nearest(void **state)
{
	static const uint64_t units[] = { 1000000000, 1000, 3, 7, 2399998000, 1 };
	uint64_t random = 7, ticks;

	(void)state;
	for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
		const double unit = (double)units[u];
		struct percpu_histogram *h = make(0, 0x1p-20, 0x1p10, units[u]);
		struct percpu_histogram_snapshot *s = NULL;

		assert_int_equal(percpu_histogram_snapshot_create(h, &s), 0);
		for (int i = 0; i < 500; i++) {
			double k = (double)(test_random(&random) >> 30 >> i % 34);
			double v = (k + 0.5) / unit;

			v = beside(v, i % 3 - 1);
			percpu_histogram_record(h, v);
			assert_int_equal(percpu_histogram_fetch_zero(h, 0, s), 0);
			ticks = 0;
			for (uint32_t b = 0; b < s->n; b++)
				ticks += s->bucket[b].ticks;
			assert_int_equal(ticks,
					 (uint64_t)k + reaches_half(v, units[u], (uint64_t)k));
		}
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
}

/* Test that values outside the range are in the first cell or the last. */
static void ends_are_clamped(void **state)
{
	struct percpu_histogram *h = make(3, 0.001, 900, 0);

	(void)state;
	assert_int_equal(h->low, -10);
	assert_int_equal(h->high, 10);
	assert_int_equal(h->last, 20 * 8 + 1);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(0x1p-10)), 0);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(5e-324)), 0);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(0x1p-1022)), 0);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(beside(0x1p-10, 1))), 1);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(1024)), 160);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(beside(1024, 1))), 161);
	assert_int_equal(percpu_histogram_index(h, percpu_histogram_bits(0x1p959)), 161);
	percpu_histogram_destroy(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bounds_are_exact), cmocka_unit_test(random_values_are_right),
		cmocka_unit_test(ticks_are_exact),  cmocka_unit_test(ticks_are_the_nearest),
		cmocka_unit_test(ends_are_clamped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

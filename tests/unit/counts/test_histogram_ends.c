/* SPDX-License-Identifier: MIT */
/*
 * test_histogram_ends.c - low and high of quantiles of ticks, compared with the ticks: a number of
 * ticks is a fraction of units, and the comparison with a double is exact.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/histogram.h>

#include "support.h"
#include "histograms.h"

#include "counts/counts.h"

#define NANO UINT64_C(1000000000)
#define LIMBS 8 /* of 32 bits: 117 bits, or 63 moved by 128, fit */
#define MOST 64

static uint64_t random_state = 29;

static uint64_t draw(void)
{
	return test_random(&random_state);
}

static void multiply(uint32_t product[LIMBS], uint64_t a, uint64_t b)
{
	const uint32_t x[2] = { (uint32_t)a, (uint32_t)(a >> 32) };
	const uint32_t y[2] = { (uint32_t)b, (uint32_t)(b >> 32) };

	memset(product, 0, LIMBS * sizeof(product[0]));
	for (int i = 0; i < 2; i++) {
		uint64_t t = 0;

		for (int j = 0; j < 2; j++) {
			t += (uint64_t)x[i] * y[j] + product[i + j];
			product[i + j] = (uint32_t)t;
			t >>= 32;
		}
		product[i + 2] = (uint32_t)t;
	}
}

static void shift(uint32_t number[LIMBS], int bits)
{
	for (; bits > 0; bits--) {
		assert_int_equal(number[LIMBS - 1] >> 31, 0);
		for (int i = LIMBS - 1; i > 0; i--)
			number[i] = number[i] << 1 | number[i - 1] >> 31;
		number[0] <<= 1;
	}
}

/* Compare d units with a number of ticks: return -1, 0 or 1 if d is below, the same or above. */
static int compare(double d, uint64_t ticks, uint64_t unit)
{
	uint32_t left[LIMBS], right[LIMBS];
	int exponent;

	if (!(d >= 0x1p-70 && d < 0x1p64)) /* no number of ticks except 0 is so small */
		return d >= 0x1p64 || (d > 0 && ticks == 0) ? 1 : -(d < 0 || ticks != 0);
	multiply(left, (uint64_t)ldexp(frexp(d, &exponent), 53), unit);
	multiply(right, ticks, 1);
	exponent -= 53;
	shift(exponent > 0 ? left : right, abs(exponent));
	for (int i = LIMBS - 1; i >= 0; i--)
		if (left[i] != right[i])
			return left[i] < right[i] ? -1 : 1;
	return 0;
}

static void comparisons_are_right(void **state)
{
	(void)state;
	assert_int_equal(compare(0, 0, 3), 0);
	assert_int_equal(compare(0, 1, UINT64_MAX), -1);
	assert_int_equal(compare(0x1p-1000, 0, 3), 1);
	assert_int_equal(compare(0x1p-1000, 1, UINT64_MAX), -1);
	assert_int_equal(compare(0x1p-64, 1, UINT64_MAX), -1);
	assert_int_equal(compare(beside(0x1p-64, 1), 1, UINT64_MAX), 1);
	assert_int_equal(compare(0.5, 1, 2), 0);
	assert_int_equal(compare(0.1, 1, 10), 1); /* the double is above */
	assert_int_equal(compare(beside(0.1, -1), 1, 10), -1);
	assert_int_equal(compare(0x1p63, INT64_MAX, 1), 1);
	assert_int_equal(compare(beside(0x1p63, -1), INT64_MAX, 1), -1);
	assert_int_equal(compare(INFINITY, INT64_MAX, 1), 1);
	assert_int_equal(compare(-1, 0, 1), -1);
}

static int in_order(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void fail_of(const char *what, uint64_t unit, uint64_t ticks,
		    const struct percpu_histogram_quantile *q)
{
	fail_msg("%s: %llu/%llu is said to be %.17g, from %.17g to %.17g", what,
		 (unsigned long long)ticks, (unsigned long long)unit, q->value, q->low, q->high);
}

/* Check that each of n observations is within low and high of its rank's quantile. */
static void assert_within(const char *what, const struct percpu_histogram_snapshot *s,
			  const uint64_t *ticks, uint64_t n)
{
	const uint64_t unit = s->ticks_per_unit;
	struct percpu_histogram_quantile q;
	uint64_t sorted[MOST];

	assert_int_equal(s->count, n);
	memcpy(sorted, ticks, n * sizeof(sorted[0]));
	qsort(sorted, n, sizeof(sorted[0]), in_order);
	for (uint64_t rank = 1; rank <= n; rank++) {
		const double p = rank == n ? 1 : ((double)rank - 0.5) / (double)n;

		assert_int_equal(percpu_histogram_quantile(s, p, &q), 0);
		if (compare(q.low, sorted[rank - 1], unit) > 0 ||
		    compare(q.high, sorted[rank - 1], unit) < 0 || !(q.low <= q.value) ||
		    !(q.value <= q.high))
			fail_of(what, unit, sorted[rank - 1], &q);
	}
}

/* Check the quantile of a single observation: low and high are equal, or the doubles next to it. */
static void assert_is(const char *what, const struct percpu_histogram_snapshot *s, uint64_t ticks)
{
	struct percpu_histogram_quantile q;

	assert_within(what, s, &ticks, 1);
	assert_int_equal(percpu_histogram_quantile(s, 0.5, &q), 0);
	if (q.low != q.high &&
	    (beside(q.low, 1) != q.high || compare(q.low, ticks, s->ticks_per_unit) == 0 ||
	     compare(q.high, ticks, s->ticks_per_unit) == 0))
		fail_of(what, s->ticks_per_unit, ticks, &q);
}

/* Create a histogram whose range ends `less` octaves below the highest possible end. */
static struct percpu_histogram *make_below(uint64_t unit, int less, int octaves, uint32_t buckets)
{
	const int high = 52 - (63 - __builtin_clzll(unit)) - less;

	return make_histogram(ldexp(1, high - octaves), ldexp(1, high), buckets, unit);
}

/* Check one observation in a bucket: as a difference, after a reset, folded to the lowest schema,
 * and merged with an empty snapshot. */
static void check_one(struct percpu_histogram *h, uint64_t ticks)
{
	struct percpu_histogram_snapshot *s = look_at(h), *other, *folded;

	percpu_histogram_record_ticks(h, ticks / 3);
	other = look_at(h);
	percpu_histogram_record_ticks(h, ticks);
	assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
	assert_int_equal(percpu_histogram_subtract(s, other), 0);
	assert_is("difference", s, ticks);
	assert_int_equal(percpu_histogram_fetch_zero(h, 0, other), 0);
	percpu_histogram_record_ticks(h, ticks);
	assert_int_equal(percpu_histogram_fetch(h, 0, other), 0);
	assert_is("after a reset", other, ticks);
	assert_int_equal(percpu_histogram_downscale(other, -4, &folded), 0);
	assert_is("folded", folded, ticks);
	assert_int_equal(percpu_histogram_zero(h, 0), 0);
	assert_int_equal(percpu_histogram_fetch(h, 0, other), 0);
	assert_int_equal(percpu_histogram_merge(other, s), 0);
	assert_is("merged", other, ticks);
	percpu_histogram_snapshot_destroy(folded);
	percpu_histogram_snapshot_destroy(other);
	percpu_histogram_snapshot_destroy(s);
}

static uint64_t draw_unit(unsigned i)
{
	static const uint64_t units[] = { 1,
					  2,
					  3,
					  10,
					  997,
					  1000,
					  420490,
					  NANO,
					  NANO + 7,
					  (UINT64_C(1) << 53) + 1,
					  UINT64_C(6134142545732641143),
					  UINT64_C(1) << 63,
					  (UINT64_C(1) << 63) + 1,
					  UINT64_MAX };
	const unsigned n = sizeof(units) / sizeof(units[0]);

	return i < n ? units[i] : 1 + (draw() >> draw() % 64) / 2;
}

static void one_is_between_its_neighbors(void **state)
{
	static const uint64_t ticks[] = { 0,
					  1,
					  2,
					  3,
					  1000,
					  (UINT64_C(1) << 53) - 1,
					  UINT64_C(1) << 53,
					  (UINT64_C(1) << 53) + 1,
					  UINT64_C(11403277430728645),
					  UINT64_C(1764014400123456789),
					  UINT64_C(6365967966234993176),
					  INT64_MAX - 1,
					  INT64_MAX };

	(void)state;
	for (unsigned i = 0; i < 20 + test_rounds(100); i++) {
		const uint64_t unit = draw_unit(i);
		struct percpu_histogram *h =
			make_below(unit, 0, 1 + (int)(draw() % 30), 1U << draw() % 6);

		for (size_t t = 0; t < sizeof(ticks) / sizeof(ticks[0]); t++)
			check_one(h, ticks[t]);
		for (int t = 0; t < 20; t++) {
			check_one(h, draw() >> (1 + draw() % 63));
			check_one(h, UINT64_C(1764014400123456789) + draw() % 1000000);
		}
		percpu_histogram_destroy(h);
	}
}

/* Test that high is rounded up: the double next below a bucket's end is below ticks in it. */
static void ends_of_buckets_are_rounded_outward(void **state)
{
	struct percpu_histogram *h = make_histogram(1 << 15, 1 << 22, 4, NANO);
	struct percpu_histogram_snapshot *s = look_at(h);
	uint64_t ticks[12];

	(void)state;
	ticks[0] = UINT64_C(2965820800757861); /* 2^21.5 units, rounded down */
	percpu_histogram_record_ticks(h, ticks[0]);
	for (uint64_t n = 1; n < 12; n++) {
		ticks[n] = UINT64_C(2700000000000000) + n * 1000;
		percpu_histogram_record_ticks(h, ticks[n]);
		assert_int_equal(percpu_histogram_fetch(h, 0, s), 0);
		assert_within("at the end", s, ticks, n + 1);
	}
	percpu_histogram_snapshot_destroy(s);
	percpu_histogram_destroy(h);
}

static void one_of_the_bounds(uint64_t unit, int high, int octaves, uint64_t *ret)
{
	const int index = 32 * high - (int)(draw() % (32U * (unsigned)octaves + 1));

	*ret = percpu_histogram_tick_bound(unit, 5, index) + draw() % 3 - 1;
	if (*ret > INT64_MAX) /* below 0 */
		*ret = 0;
}

/* Choose observations around bounds, next to each other, anywhere, or far above the range. */
static void choose(uint64_t *ticks, uint64_t n, const struct percpu_histogram *h)
{
	const unsigned mode = draw() % 5;
	const uint64_t base = draw() >> (11 + draw() % 52);

	for (uint64_t i = 0; i < n; i++) {
		if (mode == 0)
			ticks[i] = draw() >> (1 + draw() % 63);
		else if (mode == 1)
			ticks[i] = base + draw() % 3;
		else if (mode == 2 && draw() % 8 == 0)
			ticks[i] = draw() >> 1;
		else if (mode == 2)
			ticks[i] = base;
		else
			one_of_the_bounds(h->ticks, h->high, h->high - h->low, &ticks[i]);
	}
}

/* Check all operations on snapshots of n observations; an earlier snapshot has the first ones. */
static void check_all(struct percpu_histogram *h, const uint64_t *ticks, uint64_t n, uint64_t first)
{
	struct percpu_histogram_snapshot *before, *s, *folded;

	for (uint64_t i = 0; i < first; i++)
		percpu_histogram_record_ticks(h, ticks[i]);
	before = look_at(h);
	for (uint64_t i = first; i < n; i++)
		percpu_histogram_record_ticks(h, ticks[i]);
	s = look_at(h);
	assert_within("as it is", s, ticks, n);
	assert_int_equal(percpu_histogram_downscale(
				 s, (int)(draw() % (unsigned)(s->schema + 5)) - 4, &folded),
			 0);
	assert_within("folded", folded, ticks, n);
	assert_int_equal(percpu_histogram_subtract(folded, before), 0);
	assert_within("folded difference", folded, ticks + first, n - first);
	assert_int_equal(percpu_histogram_merge(folded, before), 0);
	assert_within("folded, merged", folded, ticks, n);
	assert_int_equal(percpu_histogram_subtract(s, before), 0);
	assert_within("difference", s, ticks + first, n - first);
	assert_int_equal(percpu_histogram_merge(s, before), 0);
	assert_within("merged", s, ticks, n);
	assert_int_equal(percpu_histogram_fetch_zero(h, 0, s), 0);
	assert_within("to be reset", s, ticks, n);
	for (uint64_t i = 0; i < first; i++)
		percpu_histogram_record_ticks(h, ticks[i]);
	assert_int_equal(percpu_histogram_fetch_zero(h, 0, s), 0);
	assert_within("after a reset", s, ticks, first);
	percpu_histogram_snapshot_destroy(folded);
	percpu_histogram_snapshot_destroy(before);
	percpu_histogram_snapshot_destroy(s);
}

static void all_are_within_what_is_said(void **state)
{
	uint64_t ticks[MOST];

	(void)state;
	for (unsigned i = 0; i < 50 + test_rounds(1500); i++) {
		struct percpu_histogram *h = make_below(draw_unit(i), (int)(draw() % 8),
							1 + (int)(draw() % 12), 1U << draw() % 6);

		for (int j = 0; j < 4; j++) {
			const uint64_t n = 1 + draw() % (draw() % 2 == 0 ? 6 : MOST);

			choose(ticks, n, h);
			check_all(h, ticks, n, draw() % (n + 1));
		}
		percpu_histogram_destroy(h);
	}
}

/* Test equal observations: high of the first and low of the last are exact or the next double. */
static void ends_are_sharp(void **state)
{
	struct percpu_histogram_quantile q;

	(void)state;
	for (unsigned i = 0; i < 50 + test_rounds(500); i++) {
		const uint64_t unit = draw_unit(i);
		struct percpu_histogram *h = make_below(unit, 0, 20, 8);
		struct percpu_histogram_snapshot *s;
		const uint64_t ticks = draw() >> (12 + draw() % 52);

		for (uint64_t n = 1 + draw() % 50; n > 0; n--)
			percpu_histogram_record_ticks(h, ticks);
		s = look_at(h);
		assert_int_equal(percpu_histogram_quantile(s, 0, &q), 0);
		if (compare(q.high, ticks, unit) != 0)
			assert_true(compare(beside(q.high, -1), ticks, unit) < 0);
		assert_int_equal(percpu_histogram_quantile(s, 1, &q), 0);
		if (compare(q.low, ticks, unit) != 0)
			assert_true(compare(beside(q.low, 1), ticks, unit) > 0);
		percpu_histogram_snapshot_destroy(s);
		percpu_histogram_destroy(h);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comparisons_are_right),
		cmocka_unit_test(one_is_between_its_neighbors),
		cmocka_unit_test(ends_of_buckets_are_rounded_outward),
		cmocka_unit_test(all_are_within_what_is_said),
		cmocka_unit_test(ends_are_sharp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * histogram_convert.c - downscale, merge, subtract, quantiles and conversion of snapshots.
 * histogram_ends.c knows where buckets end.
 */
#include <errno.h>
#include <float.h>
#include <stdlib.h>

#include "counts.h"

static bool is_empty(const struct percpu_histogram_bucket *b)
{
	return b->count == 0 && b->sum == 0;
}

/* Return whether the counts of both together fit into 64 bits, and the sums into a double. */
static bool is_sum_possible(const struct percpu_histogram_snapshot *a,
			    const struct percpu_histogram_snapshot *b)
{
	uint64_t count = 0;
	double sum = 0;

	for (const struct percpu_histogram_snapshot *s = a; s != NULL; s = s == a ? b : NULL)
		for (uint32_t i = 0; i < s->n; i++) {
			if (__builtin_add_overflow(count, s->bucket[i].count, &count))
				return false;
			sum += __builtin_fabs(s->bucket[i].sum);
		}
	return percpu_double_is_number(sum) && a->refused <= UINT64_MAX - b->refused;
}

/* Check that each bucket of `from` that is not empty has a place in `into`. Returns 0 or -errno. */
static int check_places(const struct percpu_histogram_snapshot *into,
			const struct percpu_histogram_snapshot *from)
{
	if (!percpu_histogram_is_possible(into) || !percpu_histogram_is_possible(from) ||
	    into == from || into->ticks_per_unit != from->ticks_per_unit ||
	    (into->bounds == NULL) != (from->bounds == NULL))
		return -EINVAL;
	if (into->schema > from->schema)
		return -ERANGE;
	for (uint32_t b = 0; b < from->n; b++)
		if (!is_empty(&from->bucket[b]) && percpu_histogram_bucket_in(into, from, b) < 0)
			return -ERANGE;
	return 0;
}

int percpu_histogram_merge(struct percpu_histogram_snapshot *into,
			   const struct percpu_histogram_snapshot *from)
{
	int e = check_places(into, from);

	if (e != 0)
		return e;
	if (!is_sum_possible(into, from))
		return -ERANGE;
	for (uint32_t b = 0; b < from->n; b++) {
		int64_t cell = percpu_histogram_bucket_in(into, from, b);

		if (is_empty(&from->bucket[b]))
			continue;
		into->bucket[cell].count += from->bucket[b].count;
		into->bucket[cell].ticks += from->bucket[b].ticks;
		into->bucket[cell].sum += from->bucket[b].sum;
	}
	into->refused += from->refused;
	percpu_histogram_total(into);
	return 0;
}

int percpu_histogram_downscale(const struct percpu_histogram_snapshot *s, int schema,
			       struct percpu_histogram_snapshot **ret)
{
	struct percpu_histogram_snapshot *f;
	uint32_t n;
	int e;

	if (!percpu_histogram_is_possible(s) || ret == NULL)
		return -EINVAL;
	if (schema > s->schema || schema < PERCPU_HISTOGRAM_COARSEST)
		return -ERANGE;
	n = percpu_histogram_cells_of_range(s->low, s->high, schema);
	f = calloc(1, sizeof(*f) + n * sizeof(f->bucket[0]));
	if (f == NULL)
		return -ENOMEM;
	f->schema = schema;
	f->low = s->low;
	f->high = s->high;
	f->n = n;
	f->ticks_per_unit = s->ticks_per_unit;
	e = percpu_histogram_merge(f, s);
	if (e == 0)
		*ret = f;
	else
		free(f);
	return e;
}

/*
 * Return whether the ticks of a bucket that is not empty tell its sum. They are stored modulo 2^64.
 * The sum is least if all observations are at the lower end, and greatest if all are at the upper
 * end. If these two differ by less than 2^63, one number between them matches the ticks. The bound
 * is not 2^64: on a CPU that does not load 16 bytes at once, a reader may see a count before its
 * ticks, and then the sum is a little below the least. */
bool percpu_histogram_sum_is_known(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	const uint64_t count = s->bucket[b].count;

	return percpu_histogram_upper_tick(s, b) - percpu_histogram_lower_tick(s, b) <=
	       INT64_MAX / count;
}

/* If the sum is not known, take the middle of the bucket for the mean. The last bucket has no
 * useful middle: take the sum that is nearest to the least one. */
double percpu_histogram_sum_ticks(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	const uint64_t count = s->bucket[b].count, ticks = s->bucket[b].ticks;
	const double unit = (double)s->ticks_per_unit;
	uint64_t high, least;

	if (b != s->n - 1 && (double)count * percpu_histogram_upper_end(s, b) * unit < 0x1p62)
		return (double)ticks / unit; /* the common case, without a division of words */
	if (b != s->n - 1 && !percpu_histogram_sum_is_known(s, b))
		return (double)count *
		       (percpu_histogram_lower_end(s, b) +
			(percpu_histogram_upper_end(s, b) - percpu_histogram_lower_end(s, b)) / 2);
	least = percpu_histogram_multiply(count, percpu_histogram_lower_tick(s, b), &high);
	if (ticks - least <= INT64_MAX)
		high += ticks < least;
	else if (ticks > least && high != 0)
		high--;
	return ((double)high * 0x1p64 + (double)ticks) / unit;
}

/* Return whether each bucket of `later` has at least the observations of `earlier`. The buckets of
 * `earlier` that share a place are adjacent. */
static bool has_all_of(const struct percpu_histogram_snapshot *later,
		       const struct percpu_histogram_snapshot *earlier)
{
	int64_t cell, last = -1;
	uint64_t left = 0;

	for (uint32_t b = 0; b < earlier->n; b++) {
		if (earlier->bucket[b].count == 0)
			continue;
		cell = percpu_histogram_bucket_in(later, earlier, b);
		left = cell == last ? left : later->bucket[cell].count;
		if (left < earlier->bucket[b].count)
			return false;
		left -= earlier->bucket[b].count;
		last = cell;
	}
	return later->refused >= earlier->refused;
}

/* Correct the sum of a difference: a sum from its ticks is more exact than a difference of sums.
 * A difference of rounded sums may be below 0, or not 0 in an empty bucket. */
static void correct_difference(struct percpu_histogram_snapshot *s, uint32_t b)
{
	struct percpu_histogram_bucket *left = &s->bucket[b];

	if (left->count == 0)
		*left = (struct percpu_histogram_bucket){ .count = 0 };
	else if (s->ticks_per_unit != 0 && (b == s->n - 1 || percpu_histogram_sum_is_known(s, b)))
		left->sum = percpu_histogram_sum_ticks(s, b);
	else if (!(left->sum > 0) && percpu_histogram_lowest(s, b) >= 0)
		left->sum = 0;
}

int percpu_histogram_subtract(struct percpu_histogram_snapshot *later,
			      const struct percpu_histogram_snapshot *earlier)
{
	int e = check_places(later, earlier);

	if (e != 0)
		return e;
	if (!has_all_of(later, earlier))
		return -ERANGE;
	for (uint32_t b = 0; b < earlier->n; b++) {
		int64_t cell = percpu_histogram_bucket_in(later, earlier, b);

		if (is_empty(&earlier->bucket[b]))
			continue;
		later->bucket[cell].count -= earlier->bucket[b].count;
		later->bucket[cell].ticks -= earlier->bucket[b].ticks;
		later->bucket[cell].sum -= earlier->bucket[b].sum;
	}
	for (uint32_t b = 0; b < later->n; b++)
		correct_difference(later, b);
	later->refused -= earlier->refused;
	percpu_histogram_total(later);
	return 0;
}

/* Return the greatest value that an observation of the bucket can have. */
static double highest(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	if (b != s->n - 1)
		return percpu_histogram_upper_end(s, b);
	if (s->ticks_per_unit != 0)
		return 0x1p63 / (double)s->ticks_per_unit;
	return s->bounds != NULL ? 0x1p960 : __builtin_inf();
}

/*
 * Return a bound on the error of the difference of a bucket's sum and a part of it, with the
 * division that follows. Each of the sum, the part, its product, the difference and the quotient is
 * rounded once, by half of DBL_EPSILON at most. The sum of one observation is that observation and
 * has no error. */
static double rounding(double sum, double part, uint64_t count)
{
	return count != 1 ? 4 * DBL_EPSILON * (__builtin_fabs(sum) + __builtin_fabs(part)) : 0;
}

/*
 * Bound observation number r of a bucket, in order. Call it x. Those before it are not above x, and
 * those after it are not below. The sum is known. So x is greatest if all before it are at the
 * lower end and all after it are x; it is least if all before it are x and all after it are at the
 * upper end.
 */
static void narrow_down(const struct percpu_histogram_snapshot *s, uint32_t b, uint64_t r,
			struct percpu_histogram_quantile *ret)
{
	const uint64_t n = s->bucket[b].count;
	const double a = percpu_histogram_lowest(s, b), z = highest(s, b), sum = s->bucket[b].sum;
	const double count = (double)n, rank = (double)r;
	const double in_front = (rank - 1) * a, behind = r < n ? (count - rank) * z : 0;
	const double most = (sum - in_front + rounding(sum, in_front, n)) / (count - rank + 1);
	const double least = (sum - behind - rounding(sum, behind, n)) / rank;

	ret->low = least > a ? least : a;
	ret->high = most < z ? most : z;
	if (ret->high < ret->low) /* the sum is rounded */
		ret->high = ret->low < z ? ret->low : z;
	if (ret->low > ret->high)
		ret->low = ret->high;
	ret->value = ret->low + (ret->high - ret->low) / 2;
}

/*
 * Bound the observation in ticks, in whole numbers: how far x is above the lower end. The sum of
 * these distances is below 2^63 if it is known, so it is right modulo 2^64. If it is below 0, it
 * lacks ticks of counted observations and tells nothing: then x may be anything in the bucket. In
 * the last bucket the middle would be far too high: there the value is computed from `sum`. */
static void narrow_down_ticks(const struct percpu_histogram_snapshot *s, uint32_t b, uint64_t r,
			      struct percpu_histogram_quantile *ret)
{
	const uint64_t n = s->bucket[b].count, unit = s->ticks_per_unit;
	const uint64_t end = percpu_histogram_lower_tick(s, b),
		       width = percpu_histogram_upper_tick(s, b) - end;
	const uint64_t sum = s->bucket[b].ticks - n * end, behind = (n - r) * width;
	const bool known = percpu_histogram_sum_is_known(s, b) && sum <= INT64_MAX;
	uint64_t low = known && sum > behind ? (sum - behind - 1) / r + 1 : 0; /* rounded up */
	uint64_t high = known ? sum / (n - r + 1) : width;
	double value;

	low = low < width ? low : width; /* more if the snapshot was damaged */
	high = high < width ? high : width;
	value = ((double)(end + low) + (double)(high - low) / 2) / (double)unit;
	if (b == s->n - 1 && !known) {
		narrow_down(s, b, r, ret);
		value = ret->value;
	}
	ret->low = percpu_histogram_in_units(end + low, unit, false);
	ret->high = percpu_histogram_in_units(end + high, unit, true);
	value = value < ret->high ? value : ret->high;
	ret->value = value > ret->low ? value : ret->low;
}

/* Return what PromQL's histogram_quantile() estimates with own bounds, given how many observations
 * of the bucket are below the quantile: they are evenly spread in it. The first bucket begins at 0 if
 * it ends above 0. What is above the last bound is that bound. */
static double interpolate(const struct percpu_histogram_snapshot *s, uint32_t b, double rank)
{
	const double start = percpu_histogram_lower_end(s, b),
		     end = s->bounds[b < s->n - 1 ? b : b - 1];

	if (b == s->n - 1 || (b == 0 && end <= 0))
		return end;
	return start + (end - start) * ((rank > 0 ? rank : 0) / (double)s->bucket[b].count);
}

int percpu_histogram_quantile(const struct percpu_histogram_snapshot *s, double q,
			      struct percpu_histogram_quantile *ret)
{
	uint64_t rank, before;
	uint32_t b = 0;
	volatile double exact; /* x87 registers would keep more digits than a double has */

	if (!percpu_histogram_is_possible(s) || ret == NULL || !(q >= 0 && q <= 1))
		return -EINVAL;
	if (s->count == 0 || (s->bounds != NULL && s->n == 1))
		return -ENODATA;
	exact = q * (double)s->count;
	rank = exact < (double)s->count ? (uint64_t)exact : s->count;
	rank += (double)rank < exact;
	rank = rank == 0 ? 1 : rank;
	before = rank;
	for (; b < s->n - 1 && rank > s->bucket[b].count; b++)
		rank -= s->bucket[b].count;
	before -= rank;
	if (rank > s->bucket[b].count || !percpu_double_is_number(s->bucket[b].sum))
		return -EINVAL; /* no histogram fills in this */
	if (s->ticks_per_unit != 0)
		narrow_down_ticks(s, b, rank, ret);
	else
		narrow_down(s, b, rank, ret);
	if (s->bounds != NULL)
		ret->value = interpolate(s, b, exact - (double)before);
	return 0;
}

uint64_t percpu_histogram_count_below(const struct percpu_histogram_snapshot *s, double bound,
				      bool *ret_exact)
{
	uint64_t below = 0;
	bool exact = true;
	uint32_t b = 0;

	if (percpu_histogram_is_possible(s) && (bound >= 0 || (s->bounds != NULL && bound < 0))) {
		for (; b < s->n && bound >= percpu_histogram_upper_end(s, b); b++)
			below += s->bucket[b].count;
		if (b < s->n && s->bucket[b].count != 0 &&
		    bound > percpu_histogram_lower_end(s, b)) {
			double from = percpu_histogram_lower_end(s, b),
			       width = percpu_histogram_upper_end(s, b) - from;

			exact = false; /* the last bucket is infinitely wide: add 0 */
			below += (uint64_t)((double)s->bucket[b].count * ((bound - from) / width));
		} else if (b == 0 && s->bucket[b].count != 0) {
			exact = false; /* zeros are not counted apart */
		}
	}
	if (ret_exact != NULL)
		*ret_exact = exact;
	return below;
}

/* Set first and last to the first and the last bucket of the range that are not empty. */
static bool find_filled(const struct percpu_histogram_snapshot *s, uint32_t *first, uint32_t *last)
{
	*last = 0;
	for (uint32_t b = s->n - 2; b > 0; b--)
		if (s->bucket[b].count != 0) {
			*first = b;
			*last = *last == 0 ? b : *last;
		}
	return *last != 0;
}

int percpu_histogram_to_otlp(const struct percpu_histogram_snapshot *s, uint64_t *counts,
			     size_t room, struct percpu_histogram_otlp *ret)
{
	struct percpu_histogram_otlp o = { .n = 0 };
	uint32_t first = 0, last = 0; /* compilers do not see that find_filled() sets both */
	int low = 0;

	if (!percpu_histogram_is_possible(s) || s->bounds != NULL || ret == NULL ||
	    (counts == NULL && room != 0))
		return -EINVAL;
	o.scale = s->schema;
	if (find_filled(s, &first, &last)) {
		for (;; o.scale--) {
			if (counts == NULL || o.scale < PERCPU_HISTOGRAM_COARSEST)
				return -ENOSPC;
			low = percpu_histogram_native_bucket(percpu_histogram_end_of(s, first),
							     o.scale);
			o.n = (size_t)(percpu_histogram_native_bucket(
					       percpu_histogram_end_of(s, last), o.scale) -
				       low) +
			      1;
			if (o.n <= room)
				break;
		}
		o.offset = low - 1; /* OpenTelemetry numbers buckets by the lower bound */
		for (size_t i = 0; i < o.n; i++)
			counts[i] = 0;
		for (uint32_t b = first; b <= last; b++)
			counts[percpu_histogram_native_bucket(percpu_histogram_end_of(s, b),
							      o.scale) -
			       low] += s->bucket[b].count;
	}
	for (uint32_t b = 0; b < s->n - 1; b++) {
		o.count += s->bucket[b].count;
		o.sum += s->bucket[b].sum;
	}
	o.zero_count = s->bucket[0].count;
	o.zero_threshold = percpu_histogram_lower_end(s, 1);
	o.above = s->bucket[s->n - 1].count;
	*ret = o;
	return 0;
}

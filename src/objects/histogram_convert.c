/* SPDX-License-Identifier: MIT */
/*
 * histogram_convert.c - what a snapshot says, and what others understand.
 *
 * The range ends at powers of two, which are bounds of every schema. So buckets of a lower
 * schema are unions of ours, and folding is exact.
 */
#include <errno.h>
#include <stdlib.h>

#include "objects.h"

static bool is_possible(const struct percpu_histogram_snapshot *s)
{
	return s != NULL && s->schema <= 5 &&
	       percpu_histogram_check_range(s->low, s->high, s->ticks_per_unit) == 0 &&
	       s->n == ((uint32_t)(s->high - s->low) << s->schema) + 2;
}

/* The number of a bucket of the native histogram: of one within the range, and, for the
 * first cell, of the one below. */
static int native(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return s->low * (1 << s->schema) + (int)b;
}

/* That of the bucket of a schema that is lower by `by`, which this one is part of. */
static int folded(int index, unsigned by)
{
	return ((index - 1) >> by) + 1;
}

/* Return the cell of `into` that has all that may be in this one of `from`; -1 if none does. */
static int64_t place(const struct percpu_histogram_snapshot *into,
		     const struct percpu_histogram_snapshot *from, uint32_t b)
{
	int64_t cell;

	if (b == 0)
		return from->low <= into->low ? 0 : -1;
	if (b == from->n - 1)
		return from->high >= into->high ? (int64_t)into->n - 1 : -1;
	cell = (int64_t)folded(native(from, b), from->schema - into->schema) - native(into, 0);
	cell = cell < 0 ? 0 : cell;
	return cell > (int64_t)into->n - 1 ? (int64_t)into->n - 1 : cell;
}

static bool is_empty(const struct percpu_histogram_bucket *b)
{
	return b->count == 0 && b->sum == 0;
}

/* Whether the counts of both together fit into 64 bits, and the sums into a double. */
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

int percpu_histogram_merge(struct percpu_histogram_snapshot *into,
			   const struct percpu_histogram_snapshot *from)
{
	if (!is_possible(into) || !is_possible(from) || into == from ||
	    into->ticks_per_unit != from->ticks_per_unit)
		return -EINVAL;
	if (into->schema > from->schema)
		return -ERANGE;
	for (uint32_t b = 0; b < from->n; b++)
		if (!is_empty(&from->bucket[b]) && place(into, from, b) < 0)
			return -ERANGE;
	if (!is_sum_possible(into, from))
		return -ERANGE;
	for (uint32_t b = 0; b < from->n; b++) {
		int64_t cell = place(into, from, b);

		if (is_empty(&from->bucket[b]) || cell < 0)
			continue;
		into->bucket[cell].count += from->bucket[b].count;
		into->bucket[cell].ticks += from->bucket[b].ticks;
		into->bucket[cell].sum += from->bucket[b].sum;
	}
	into->refused += from->refused;
	percpu_histogram_total(into);
	return 0;
}

int percpu_histogram_fold(const struct percpu_histogram_snapshot *s, unsigned schema,
			  struct percpu_histogram_snapshot **ret)
{
	struct percpu_histogram_snapshot *f;
	uint32_t n;
	int e;

	if (!is_possible(s) || ret == NULL)
		return -EINVAL;
	if (schema > s->schema)
		return -ERANGE;
	n = ((uint32_t)(s->high - s->low) << schema) + 2;
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

/* The ends of a bucket; the first begins at 0, and the last has no end. */
static double lower_end(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == 0 ? 0 : percpu_histogram_bound(s->schema, native(s, b - 1));
}

static double upper_end(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == s->n - 1 ? __builtin_inf() : percpu_histogram_bound(s->schema, native(s, b));
}

/* The same in ticks: a bucket has what is above the lower end, and not above the upper one.
 * Ticks of 2^63 or more are refused. */
static uint64_t lower_tick(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == 0 ? 0 :
			percpu_histogram_tick_bound(s->ticks_per_unit, s->schema, native(s, b - 1));
}

static uint64_t upper_tick(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == s->n - 1 ?
		       INT64_MAX :
		       percpu_histogram_tick_bound(s->ticks_per_unit, s->schema, native(s, b));
}

/*
 * Sums of ticks are stored modulo 2^64. All sums that are possible are between those of
 * observations that are all at the one end, and all at the other. If those differ by less than
 * 2^63, only one number between them is the same modulo 2^64. Not 2^64: a CPU that does not load
 * 16 bytes at once may have counted what is not in the sum yet, which is a little below then.
 */
bool percpu_histogram_sum_is_known(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	const uint64_t count = s->bucket[b].count;

	return s->ticks_per_unit == 0 || count == 0 ||
	       upper_tick(s, b) - lower_tick(s, b) <= INT64_MAX / count;
}

/* Otherwise take the middle of the bucket for the mean. The last has no middle to speak of:
 * there take the sum that is next to the least one. */
double percpu_histogram_sum_ticks(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	const uint64_t count = s->bucket[b].count, ticks = s->bucket[b].ticks;
	const double unit = (double)s->ticks_per_unit;
	uint64_t high, least;

	if (b != s->n - 1 && (double)count * upper_end(s, b) * unit < 0x1p62)
		return (double)ticks / unit; /* mostly, and soon done */
	if (b != s->n - 1 && !percpu_histogram_sum_is_known(s, b))
		return (double)count * (lower_end(s, b) + (upper_end(s, b) - lower_end(s, b)) / 2);
	least = percpu_histogram_multiply(count, lower_tick(s, b), &high);
	if (ticks - least <= INT64_MAX)
		high += ticks < least;
	else if (ticks > least && high != 0)
		high--;
	return ((double)high * 0x1p64 + (double)ticks) / unit;
}

/* What no observation of the bucket is above. */
static double highest(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == s->n - 1 && s->ticks_per_unit != 0 ? 0x1p63 / (double)s->ticks_per_unit :
							 upper_end(s, b);
}

/*
 * Observation number r of a bucket, in order. If it is x, those in front of it are not above x,
 * and those from it on not below; the sum is known. So x is greatest if all in front are
 * at the lower end and all others are x, and least if all behind are at the upper end.
 */
static void narrow_down(const struct percpu_histogram_snapshot *s, uint32_t b, uint64_t r,
			struct percpu_histogram_quantile *ret)
{
	const double a = lower_end(s, b), z = highest(s, b), sum = s->bucket[b].sum;
	const double count = (double)s->bucket[b].count, rank = (double)r;
	const double most = (sum - (rank - 1) * a) / (count - rank + 1);
	const double least =
		r == s->bucket[b].count ? sum / rank : (sum - (count - rank) * z) / rank;

	ret->low = least > a ? least : a;
	ret->high = most < z ? most : z;
	if (ret->high < ret->low) /* the sum is rounded */
		ret->high = ret->low < z ? ret->low : z;
	if (ret->low > ret->high)
		ret->low = ret->high;
	ret->value = ret->low + (ret->high - ret->low) / 2;
	if (percpu_histogram_sum_is_known(s, b))
		return;
	ret->low = a;
	ret->high = z;
	if (b != s->n - 1) /* there the middle would be far off what is likely */
		ret->value = a + (z - a) / 2;
}

int percpu_histogram_quantile(const struct percpu_histogram_snapshot *s, double q,
			      struct percpu_histogram_quantile *ret)
{
	uint64_t rank;
	uint32_t b = 0;
	volatile double exact; /* x87 registers would keep more digits than a double has */

	if (!is_possible(s) || ret == NULL || !(q >= 0 && q <= 1))
		return -EINVAL;
	if (s->count == 0)
		return -ENODATA;
	exact = q * (double)s->count;
	rank = exact < (double)s->count ? (uint64_t)exact : s->count;
	rank += (double)rank < exact && rank < s->count;
	rank = rank == 0 ? 1 : rank;
	for (; b < s->n - 1 && rank > s->bucket[b].count; b++)
		rank -= s->bucket[b].count;
	if (rank > s->bucket[b].count) /* not what a histogram fills in */
		return -EINVAL;
	narrow_down(s, b, rank, ret);
	return 0;
}

uint64_t percpu_histogram_count_below(const struct percpu_histogram_snapshot *s, double bound,
				      bool *ret_exact)
{
	uint64_t below = 0;
	bool exact = true;
	uint32_t b = 0;

	if (is_possible(s) && bound >= 0) {
		for (; b < s->n && bound >= upper_end(s, b); b++)
			below += s->bucket[b].count;
		if (b < s->n && s->bucket[b].count != 0 && bound > lower_end(s, b)) {
			double from = lower_end(s, b), width = upper_end(s, b) - from;

			exact = false; /* nothing of the last, which is wide beyond measure */
			below += (uint64_t)((double)s->bucket[b].count * ((bound - from) / width));
		} else if (b == 0 && s->bucket[b].count != 0) {
			exact = false; /* zeros are not counted apart */
		}
	}
	if (ret_exact != NULL)
		*ret_exact = exact;
	return below;
}

/* Set first and last to the buckets within the range that have something in them. */
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
	uint32_t first, last;
	unsigned by = 0;
	int low = 0;

	if (!is_possible(s) || ret == NULL || (counts == NULL && room != 0))
		return -EINVAL;
	if (find_filled(s, &first, &last)) {
		do {
			if (counts == NULL || by > s->schema)
				return -ENOSPC;
			low = folded(native(s, first), by);
			o.n = (size_t)(folded(native(s, last), by) - low) + 1;
		} while (o.n > room && ++by != 0);
		o.offset = low - 1; /* theirs are numbered by the lower bound */
		for (size_t i = 0; i < o.n; i++)
			counts[i] = 0;
		for (uint32_t b = first; b <= last; b++)
			counts[folded(native(s, b), by) - low] += s->bucket[b].count;
	}
	for (uint32_t b = 0; b < s->n - 1; b++) {
		o.count += s->bucket[b].count;
		o.sum += s->bucket[b].sum;
	}
	o.scale = (int32_t)(s->schema - by);
	o.zero_count = s->bucket[0].count;
	o.zero_threshold = lower_end(s, 1);
	o.above = s->bucket[s->n - 1].count;
	*ret = o;
	return 0;
}

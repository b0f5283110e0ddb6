/* SPDX-License-Identifier: MIT */
/*
 * histogram_ends.c - where the buckets of a snapshot begin and end, and which bucket of another
 * snapshot covers one.
 *
 * The range ends at powers of two, which are bounds of every schema from 0 up. A bound of one
 * schema is a bound of each higher schema. So a bucket of a lower schema is a union of buckets of a
 * higher one, and downscaling is exact. Below schema 0 a bucket may reach beyond the end of the
 * range: it holds what is in the range, and ends where the range ends. In this file, an end is the
 * number of a bound of schema 5.
 */
#include "counts.h"

#define OCTAVE (1 << PERCPU_HISTOGRAM_FINEST)

int percpu_histogram_native_bucket(int end, int schema)
{
	return ((end - 1) >> (PERCPU_HISTOGRAM_FINEST - schema)) + 1;
}

/* Return the number of bucket b in the native histogram. The first bucket has the number before
 * that of the bucket in which the range begins. */
static int native(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return percpu_histogram_native_bucket(s->low * OCTAVE + 1, s->schema) - 1 + (int)b;
}

uint32_t percpu_histogram_cells_of_range(int low, int high, int schema)
{
	return (uint32_t)(percpu_histogram_native_bucket(high * OCTAVE, schema) -
			  percpu_histogram_native_bucket(low * OCTAVE + 1, schema)) +
	       3;
}

bool percpu_histogram_is_possible(const struct percpu_histogram_snapshot *s)
{
	if (s != NULL && s->schema == PERCPU_HISTOGRAM_OWN_BOUNDS)
		return s->low == 0 && s->high == 0 && s->bounds != NULL && s->n > 0 &&
		       s->n <= PERCPU_HISTOGRAM_MAX_BOUNDS + 1 &&
		       percpu_histogram_check_bounds(s->bounds, s->n - 1, s->ticks_per_unit) == 0;
	return s != NULL && s->bounds == NULL && s->schema >= PERCPU_HISTOGRAM_COARSEST &&
	       s->schema <= PERCPU_HISTOGRAM_FINEST &&
	       percpu_histogram_check_range(s->low, s->high, s->ticks_per_unit) == 0 &&
	       s->n == percpu_histogram_cells_of_range(s->low, s->high, s->schema);
}

int percpu_histogram_end_of(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	const int end = native(s, b) * (1 << (PERCPU_HISTOGRAM_FINEST - s->schema));

	if (end < s->low * OCTAVE)
		return s->low * OCTAVE;
	return end < s->high * OCTAVE ? end : s->high * OCTAVE;
}

/* As percpu_histogram_bucket_in(), with own bounds. A bucket of `into` covers one of `from` if no
 * bound of `into` is within that. */
static int64_t own_bucket_in(const struct percpu_histogram_snapshot *into,
			     const struct percpu_histogram_snapshot *from, uint32_t b)
{
	const bool first = b == 0, last = b == from->n - 1;
	uint32_t cell = 0;

	while (cell < into->n - 1 && (last || into->bounds[cell] < from->bounds[b]))
		cell++;
	if (cell == 0)
		return 0;
	return first || into->bounds[cell - 1] > from->bounds[b - 1] ? -1 : (int64_t)cell;
}

int64_t percpu_histogram_bucket_in(const struct percpu_histogram_snapshot *into,
				   const struct percpu_histogram_snapshot *from, uint32_t b)
{
	uint32_t cell = 0;
	int low, high;

	if (into->bounds != NULL)
		return own_bucket_in(into, from, b);
	low = b == 0 ? INT32_MIN : percpu_histogram_end_of(from, b - 1);
	high = b == from->n - 1 ? INT32_MAX : percpu_histogram_end_of(from, b);
	if (high > into->high * OCTAVE)
		cell = into->n - 1;
	else if (high > into->low * OCTAVE)
		cell = (uint32_t)(percpu_histogram_native_bucket(high, into->schema) -
				  native(into, 0));
	return cell != 0 && low < percpu_histogram_end_of(into, cell - 1) ? -1 : (int64_t)cell;
}

/* Return the bound at the end of bucket b, which is not the last. */
static double bound_of(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return s->bounds != NULL ? s->bounds[b] :
				   percpu_histogram_bound(PERCPU_HISTOGRAM_FINEST,
							  percpu_histogram_end_of(s, b));
}

double percpu_histogram_lower_end(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == 0 ? 0 : bound_of(s, b - 1);
}

double percpu_histogram_upper_end(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == s->n - 1 ? __builtin_inf() : bound_of(s, b);
}

/* Return the bound at the end of bucket b, which is not the last, in ticks. */
static uint64_t tick_bound_of(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return s->bounds != NULL ?
		       percpu_histogram_ticks_within(s->bounds[b], s->ticks_per_unit) :
		       percpu_histogram_tick_bound(s->ticks_per_unit, PERCPU_HISTOGRAM_FINEST,
						   percpu_histogram_end_of(s, b));
}

uint64_t percpu_histogram_lower_tick(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == 0 ? 0 : tick_bound_of(s, b - 1);
}

uint64_t percpu_histogram_upper_tick(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == s->n - 1 ? INT64_MAX : tick_bound_of(s, b);
}

double percpu_histogram_lowest(const struct percpu_histogram_snapshot *s, uint32_t b)
{
	return b == 0 && s->bounds != NULL && s->ticks_per_unit == 0 ?
		       -0x1p960 :
		       percpu_histogram_lower_end(s, b);
}

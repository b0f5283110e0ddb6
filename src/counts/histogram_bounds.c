/* SPDX-License-Identifier: MIT */
/*
 * histogram_bounds.c - histograms whose bounds are the program's own.
 *
 * A value is in the bucket of the first bound that it is not above. A record compares the bits of
 * doubles above 0, minus 1, with the bits of the bounds, as in histogram_index.c. A bound that is
 * not above 0 has 0 for its bits: it is below each value above 0. Other values take the slow path.
 *
 * The first bits of a value tell its piece of what is between the first and the last bound. A table
 * has the number of bounds below each piece. From there on a search compares the value with
 * 2 * half - 1 bounds, enough for the fullest piece, in as many steps for each value and without
 * branches. Mostly a piece has one bound at most, and one step is enough.
 *
 * A number of ticks is compared as the double that is nearest to ticks / ticks_per_unit. So if a
 * bound is 0.29, then 290 ms are within it, although the double is a little below 0.29. A bound is
 * turned into the greatest number of ticks within it, once.
 */
#include <errno.h>

#include "counts.h"

#define BOUND_HIGHEST 0x1p960 /* so that 2^64 observations have a finite sum */
#define PIECES (sizeof((struct percpu_histogram){ 0 }.table) / sizeof(uint64_t))
#define BOUND_TICKS 0x1p53 /* ticks below it are exact as doubles */

int percpu_histogram_check_bounds(const double *bounds, size_t n, uint64_t ticks)
{
	for (size_t i = 0; i < n; i++) {
		if (!percpu_double_is_number(bounds[i]) || (i > 0 && !(bounds[i] > bounds[i - 1])))
			return -EINVAL;
		if (!(__builtin_fabs(bounds[i]) < BOUND_HIGHEST) ||
		    (ticks != 0 && !(bounds[i] * (double)ticks < BOUND_TICKS - 1)))
			return -ERANGE;
	}
	return 0;
}

int percpu_histogram_read_bounds(const struct percpu_histogram_options *o,
				 struct percpu_histogram *h)
{
	if (o->min != 0 || o->max != 0 || o->buckets_per_octave != 0 ||
	    (o->bounds == NULL) != (o->bounds_n == 0) ||
	    (o->flags & PERCPU_HISTOGRAM_SUMMARY) != (o->bounds_n == 0) ||
	    o->bounds_n > PERCPU_HISTOGRAM_MAX_BOUNDS)
		return -EINVAL;
	h->schema = PERCPU_HISTOGRAM_OWN_BOUNDS;
	h->bounds = o->bounds;
	h->bounds_n = o->bounds_n;
	return percpu_histogram_check_bounds(h->bounds, h->bounds_n, h->ticks);
}

static bool is_within(uint64_t ticks, double bound, uint64_t ticks_per_unit)
{
	/* x87 registers would keep more digits than a double has. */
	const volatile double units = (double)ticks / (double)ticks_per_unit;

	return units <= bound;
}

/* The product is rounded, so the result is one of its neighbors. */
uint64_t percpu_histogram_ticks_within(double bound, uint64_t ticks_per_unit)
{
	uint64_t ticks;

	if (!(bound > 0))
		return 0;
	ticks = (uint64_t)(bound * (double)ticks_per_unit);
	while (ticks != 0 && !is_within(ticks, bound, ticks_per_unit))
		ticks--;
	while (is_within(ticks + 1, bound, ticks_per_unit))
		ticks++;
	return ticks;
}

/* Cut the bits of doubles, from the first bound above 0 to the last one, into at most PIECES. */
static void cut_into_pieces(struct percpu_histogram *h)
{
	const size_t n = h->bounds_n;
	size_t first = 0;

	while (first < n - 1 && h->own[first] == 0)
		first++;
	for (h->shift = 0; (h->own[n - 1] >> h->shift) - (h->own[first] >> h->shift) >= PIECES;)
		h->shift++;
	h->origin = (int64_t)(h->own[first] >> h->shift);
}

/* Return how many bounds are below a piece. */
static size_t bounds_below(const struct percpu_histogram *h, uint64_t piece)
{
	size_t below = 0;

	while (below < h->bounds_n &&
	       (h->own[below] == 0 || (h->own[below] >> h->shift) < piece + (uint64_t)h->origin))
		below++;
	return below;
}

/* Fill in the table: from which bound a value of each piece is compared, so that the search ends at
 * the last bound or before. */
static void lay_pieces(struct percpu_histogram *h)
{
	size_t most = 1, last;

	for (uint64_t i = 0; i < PIECES; i++) {
		h->table[i] = bounds_below(h, i);
		last = bounds_below(h, i + 1) - (size_t)h->table[i];
		most = last > most ? last : most;
	}
	for (h->half = 1; 2 * h->half - 1 < most;)
		h->half *= 2;
	last = 2 * h->half - 1 < h->bounds_n ? h->bounds_n - (2 * h->half - 1) : 0;
	for (uint64_t i = 0; i < PIECES; i++)
		h->table[i] = h->table[i] < last ? h->table[i] : last;
}

void percpu_histogram_lay_bounds(struct percpu_histogram *h)
{
	const size_t n = h->bounds_n;
	double *bounds = (double *)(h + 1), bound;
	uint64_t *own = (uint64_t *)(bounds + n);

	for (size_t i = 0; i < n; i++) {
		bound = bounds[i];
		if (h->ticks != 0)
			bound = (double)percpu_histogram_ticks_within(bound, h->ticks);
		own[i] = bound > 0 ? percpu_histogram_bits(bound) + 1 : 0;
		own[n + i] = UINT64_MAX; /* a search goes beyond fewer than n bounds */
	}
	h->bounds = bounds;
	h->own = own;
	if (n != 0) {
		cut_into_pieces(h);
		lay_pieces(h);
	}
}

uint64_t percpu_histogram_own_cell(const struct percpu_histogram *h, double v)
{
	size_t cell = 0;

	if (h->own != NULL)
		while (cell < h->bounds_n && h->bounds[cell] < v)
			cell++;
	return cell;
}

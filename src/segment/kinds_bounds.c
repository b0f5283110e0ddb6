/* SPDX-License-Identifier: MIT */
/*
 * kinds_bounds.c - histograms in a segment, and bounds of the program's own: what is wrong with the
 * options, and which bound differs from the one in the file, in words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

static int complain_of_bound(const char *name, const struct percpu_histogram_options *o, size_t i,
			     int e, struct percpu_reason *why)
{
	const struct percpu_number is = percpu_number_of(o->bounds[i]);
	struct percpu_number before;

	if (!percpu_double_is_number(o->bounds[i]))
		return percpu_reason_set(why, e, "%s: bounds[%zu] is %s: bounds are finite", name,
					 i, is.text);
	if (e == -EINVAL) {
		before = percpu_number_of(o->bounds[i - 1]);
		return percpu_reason_set(why, e,
					 "%s: bounds[%zu] is %s, and bounds[%zu] before it is %s: "
					 "bounds rise",
					 name, i, is.text, i - 1, before.text);
	}
	return percpu_reason_set(
		why, e,
		o->ticks_per_unit != 0 ?
			"%s: bounds[%zu] is %s: bounds of ticks are above -2^960, "
			"and at most 2^53 - 2 ticks" :
			"%s: bounds[%zu] is %s: bounds are above -2^960, and below "
			"2^960",
		name, i, is.text);
}

/* Write which bound is the first that a histogram cannot have. Returns e. */
static int complain_of_bounds(const char *name, const struct percpu_histogram_options *o, int e,
			      struct percpu_reason *why)
{
	size_t n = 1;

	while (n < o->bounds_n &&
	       percpu_histogram_check_bounds(o->bounds, n, o->ticks_per_unit) == 0)
		n++;
	return complain_of_bound(name, o, n - 1, e, why);
}

/* Write what is wrong with exponential buckets. Returns e. */
static int complain_of_range(const char *name, const struct percpu_histogram_options *o, int e,
			     struct percpu_reason *why)
{
	const struct percpu_number min = percpu_number_of(o->min != 0 ? o->min : 0x1p-20);
	const struct percpu_number max = percpu_number_of(o->max != 0 ? o->max : 0x1p10);
	const uint32_t buckets = o->buckets_per_octave;

	if (buckets > 32 || (buckets & (buckets - 1)) != 0)
		return percpu_reason_set(
			why, e, "%s: .buckets_per_octave is %u: it is 1, 2, 4, 8, 16 or 32", name,
			buckets);
	return percpu_reason_set(why, e,
				 "%s: .min is %s, and .max is %s: a range rises, from 2^-1000 or "
				 "more to 2^960 or less, and ends below 2^53 ticks",
				 name, min.text, max.text);
}

int percpu_bounds_complain(const char *name, const struct percpu_histogram_options *asked, int e,
			   struct percpu_reason *why)
{
	struct percpu_histogram_options o;

	if (percpu_options_read(&o, sizeof(o), asked) != 0 || o.flags > PERCPU_HISTOGRAM_SUMMARY)
		return percpu_reason_set(why, e, "%s: its options are none of a histogram", name);
	if (o.flags == 0 && o.bounds == NULL && o.bounds_n == 0)
		return complain_of_range(name, &o, e, why);
	if (o.min != 0 || o.max != 0 || o.buckets_per_octave != 0)
		return percpu_reason_set(why, e,
					 "%s: .min, .max and .buckets_per_octave are 0 with own "
					 "bounds, and in a summary",
					 name);
	if (o.flags != 0)
		return percpu_reason_set(
			why, e, "%s: it has the flag PERCPU_HISTOGRAM_SUMMARY, and bounds", name);
	if (o.bounds == NULL)
		return percpu_reason_set(why, e, "%s: .bounds is NULL, and .bounds_n is %zu", name,
					 o.bounds_n);
	if (o.bounds_n == 0)
		return percpu_reason_set(why, e,
					 "%s: it has .bounds, and .bounds_n is 0: without bounds "
					 "it is PERCPU_HISTOGRAM_SUMMARY",
					 name);
	if (o.bounds_n > PERCPU_HISTOGRAM_MAX_BOUNDS)
		return percpu_reason_set(why, e, "%s: %zu bounds are more than %d", name,
					 o.bounds_n, PERCPU_HISTOGRAM_MAX_BOUNDS);
	return complain_of_bounds(name, &o, e, why);
}

int percpu_bounds_check_labels(const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	static const char own[] = "quantile";
	struct percpu_texts names = percpu_record_label_names(asked);
	struct percpu_text label;

	while (percpu_texts_next(&names, &label))
		if (label.n == sizeof(own) - 1 && memcmp(label.at, own, label.n) == 0)
			return percpu_reason_set(
				why, -EINVAL,
				"%.*s: no label of a summary is named %s: by that label the "
				"quantiles of a summary are told from each other",
				asked->head.name, (const char *)asked->bytes, own);
	return 0;
}

int percpu_bounds_keep(struct percpu_histogram_options *o, double **ret, struct percpu_reason *why)
{
	double *bounds;

	if (o->bounds_n == 0)
		return 0;
	bounds = malloc(o->bounds_n * sizeof(*bounds));
	if (bounds == NULL)
		return percpu_reason_set(why, -ENOMEM, "no memory for the bounds of a family");
	o->bounds = *ret = memcpy(bounds, o->bounds, o->bounds_n * sizeof(*bounds));
	return 0;
}

void percpu_bounds_describe(const struct percpu_histogram *has,
			    const struct percpu_histogram *wants, struct percpu_words *ret_has,
			    struct percpu_words *ret_wants)
{
	struct percpu_number is, asked;
	size_t i = 0;

	while (i < has->bounds_n && has->bounds[i] == wants->bounds[i])
		i++;
	if (i == has->bounds_n)
		return;
	is = percpu_number_of(has->bounds[i]);
	asked = percpu_number_of(wants->bounds[i]);
	(void)snprintf(ret_has->text, sizeof(ret_has->text), "a histogram whose bounds[%zu] is %s",
		       i, is.text);
	(void)snprintf(ret_wants->text, sizeof(ret_wants->text), "one whose bounds[%zu] is %s", i,
		       asked.text);
}

/* SPDX-License-Identifier: MIT */
/* picture.c - see picture.h. */
#include "picture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct picture_count {
	uint64_t series; /* hash of its name, labels and field */
	uint64_t since;
	uint64_t value;
};

/* Texts. */

static bool is_text(const char *s, size_t most)
{
	return s != NULL && strlen(s) <= most;
}

static const char *check_texts(const struct percpu_reader_series *s)
{
	bool ok = is_text(s->name, PERCPU_METRIC_NAME) && *s->name != '\0' &&
		  is_text(s->help, PERCPU_METRIC_HELP) && is_text(s->unit, PERCPU_METRIC_NAME) &&
		  is_text(s->field, PERCPU_METRIC_NAME) && s->labels <= PERCPU_METRIC_LABELS &&
		  s->n >= 1 && s->n <= PERCPU_STATS_MAX_COMMIT &&
		  (s->kind == PERCPU_METRIC_STATS ? *s->field != '\0' :
						    *s->field == '\0' && s->n == 1);

	for (uint32_t i = 0; i < s->labels && ok; i++)
		ok = is_text(s->label_names[i], PERCPU_METRIC_NAME) &&
		     is_text(s->label_values[i], PERCPU_METRIC_VALUE);
	for (uint32_t i = 0; i < s->n && ok && s->kind == PERCPU_METRIC_STATS; i++)
		ok = is_text(s->fields[i], PERCPU_METRIC_NAME);
	return ok ? NULL : "a text";
}

static uint64_t hash_text(uint64_t h, const char *s)
{
	do
		h = (h ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
	while (*s++ != '\0');
	return h;
}

static uint64_t hash_series(const struct percpu_reader_series *s)
{
	uint64_t h = hash_text(UINT64_C(0xcbf29ce484222325), s->name);

	for (uint32_t i = 0; i < s->labels; i++)
		h = hash_text(hash_text(h, s->label_names[i]), s->label_values[i]);
	return h;
}

/* Values. */

/* A reader has checked the bounds, also of a damaged file. */
static const char *check_bounds(const struct percpu_histogram_snapshot *h)
{
	if (h->schema != PERCPU_HISTOGRAM_OWN_BOUNDS || h->n == 0 ||
	    h->n > PERCPU_HISTOGRAM_MAX_BOUNDS + 1)
		return "bounds that are too many";
	for (uint32_t i = 0; i < h->n - 1; i++)
		if (!isfinite(h->bounds[i]) || (i > 0 && !(h->bounds[i] > h->bounds[i - 1])))
			return "bounds that do not rise";
	return NULL;
}

/* Counts of a damaged file may have any size, so their sums may wrap. */
static const char *check_histogram(const struct percpu_histogram_snapshot *h, bool damaged)
{
	const char *wrong = h->bounds != NULL ? check_bounds(h) : NULL;
	uint64_t sum = 0, below = 0, more;

	for (uint32_t i = 0; i < h->n && wrong == NULL; i++)
		sum += h->bucket[i].count;
	if (wrong != NULL)
		return wrong;
	if (sum != h->count)
		return "a count that is not the sum of the buckets";
	if (!isfinite(h->sum))
		return "a sum that is no number";
	if (percpu_histogram_count_below(h, INFINITY, NULL) != h->count)
		return "a last bucket that is not the count";
	for (uint32_t i = 0; h->bounds != NULL && i < h->n - 1 && !damaged; i++, below = more) {
		more = percpu_histogram_count_below(h, h->bounds[i], NULL);
		if (more != below + h->bucket[i].count)
			return "a bound that does not tell its bucket";
	}
	for (int k = h->low; h->bounds == NULL && k <= h->high && !damaged; k++, below = more) {
		more = percpu_histogram_count_below(h, ldexp(1, k), NULL);
		if (more < below || more > h->count)
			return "buckets that are not cumulative";
	}
	return NULL;
}

/* What the call of each kind returns: -EINVAL for a series of another kind. */
struct answers {
	uint64_t count, stats[PERCPU_STATS_MAX_COMMIT];
	double number, min, max;
	int counter, level, single, extremes, fields, buckets;
};

static const char *ask(const struct percpu_reader *r, size_t i, uint32_t n, bool damaged,
		       struct answers *a)
{
	struct percpu_histogram_snapshot *h = NULL;
	const char *wrong = NULL;
	int64_t level = 0;

	a->counter = percpu_reader_counter(r, i, &a->count);
	a->level = percpu_reader_gauge(r, i, &level);
	a->single = percpu_reader_number(r, i, &a->number);
	a->extremes = percpu_reader_extrema(r, i, &a->min, &a->max);
	a->fields = percpu_reader_stats(r, i, a->stats, n);
	a->buckets = percpu_reader_histogram(r, i, &h);
	if (a->counter == 0 && (a->single != 0 || a->number != (double)a->count))
		wrong = "a counter that is another number";
	else if (a->level == 0 && (a->single != 0 || a->number != (double)level))
		wrong = "a level that is another number";
	else if (a->extremes == 0 && !(a->min <= a->max))
		wrong = "a minimum above the maximum";
	else if (a->buckets == 0)
		wrong = check_histogram(h, damaged);
	percpu_histogram_snapshot_destroy(h);
	return wrong;
}

/* Return the result of the call for the series' kind; or 1 if another call succeeded, too. */
static int answer_of(const struct answers *a, unsigned kind)
{
	const bool is_stats = kind == PERCPU_METRIC_STATS,
		   is_extrema = kind == PERCPU_METRIC_EXTREMA,
		   is_histogram = kind == PERCPU_METRIC_HISTOGRAM,
		   is_level = kind == PERCPU_METRIC_GAUGE || kind == PERCPU_METRIC_OWNED_GAUGE;

	if ((a->counter != -EINVAL) != (kind == PERCPU_METRIC_COUNTER) ||
	    (a->level != -EINVAL) != is_level || (a->fields != -EINVAL) != is_stats ||
	    (a->extremes != -EINVAL) != is_extrema || (a->buckets != -EINVAL) != is_histogram ||
	    (a->single != -EINVAL) == (is_stats || is_extrema || is_histogram))
		return 1;
	return is_stats	    ? a->fields :
	       is_extrema   ? a->extremes :
	       is_histogram ? a->buckets :
			      a->single;
}

/* Pictures. */

/* A value that was set in the future comes from a clock that was set back, or from damage. */
static const char *check_time(const struct percpu_reader *r, size_t i,
			      const struct percpu_reader_info *info)
{
	uint64_t when;

	return percpu_reader_when(r, i, &when) == 0 && when > info->read ?
		       "a value that was set after the picture" :
		       NULL;
}

static const char *check_series(const struct percpu_reader *r, size_t i, bool damaged,
				const struct percpu_reader_info *info, uint32_t *missing)
{
	struct answers a = { .count = 0 };
	struct percpu_reader_series s;
	const char *wrong;
	int e;

	if (percpu_reader_series(r, i, &s) != 0)
		return "a series that is not there";
	wrong = check_texts(&s);
	if (wrong != NULL)
		return wrong;
	if (s.since > info->read || s.since < info->since)
		return "a series that starts after the picture, or before its segment";
	wrong = ask(r, i, s.n, damaged, &a);
	e = answer_of(&a, s.kind);
	if (e != 0 && e != -ENODATA && e != -EAGAIN)
		return "an answer that its kind does not have";
	*missing += e == -EAGAIN && s.kind != PERCPU_METRIC_OWNED_GAUGE &&
		    s.kind != PERCPU_METRIC_OWNED_FGAUGE;
	return wrong != NULL || damaged ? wrong : check_time(r, i, info);
}

/* Check two adjacent series. */
static const char *check_both(const struct percpu_reader *r, size_t i, bool damaged)
{
	struct percpu_reader_series a, b;
	int order;

	if (percpu_reader_series(r, i, &a) != 0 || percpu_reader_series(r, i + 1, &b) != 0)
		return "a series that is not there";
	order = strcmp(a.name, b.name);
	if (order > 0)
		return "names that are not in order";
	if (order == 0 && !damaged &&
	    (a.kind != b.kind || strcmp(a.unit, b.unit) != 0 || a.cap != b.cap ||
	     a.removed != b.removed || a.overflows != b.overflows))
		return "series of one name that differ in kind, unit or family";
	return NULL;
}

static int compare_counts(const void *a, const void *b)
{
	const struct picture_count *x = a, *y = b;

	return (x->series > y->series) - (x->series < y->series);
}

static const char *check_names(const struct percpu_reader *r)
{
	const size_t n = percpu_reader_count(r);
	struct picture_count *all = calloc(n + 1, sizeof(*all));
	struct percpu_reader_series s;
	const char *wrong = all != NULL ? NULL : "memory";

	for (size_t i = 0; i < n && wrong == NULL; i++)
		if (percpu_reader_series(r, i, &s) == 0)
			all[i].series = hash_series(&s);
	if (wrong == NULL)
		qsort(all, n, sizeof(*all), compare_counts);
	for (size_t i = 1; i < n && wrong == NULL; i++)
		if (all[i - 1].series == all[i].series)
			wrong = "two series with the same name and labels";
	free(all);
	return wrong;
}

const char *picture_check(const struct percpu_reader *r, bool damaged)
{
	const size_t n = percpu_reader_count(r);
	struct percpu_reader_info info;
	const char *wrong = NULL;
	uint32_t missing = 0;

	if (percpu_reader_info(r, &info) != 0)
		return "nothing is known of the picture";
	if (info.since > info.read)
		return "a segment that starts after the picture";
	for (size_t i = 0; i < n && wrong == NULL; i++)
		wrong = check_series(r, i, damaged, &info, &missing);
	for (size_t i = 0; i + 1 < n && wrong == NULL; i++)
		wrong = check_both(r, i, damaged);
	if (wrong == NULL && !damaged && info.consistent == 0 && missing != info.missing)
		wrong = "another number of missing values";
	if (wrong == NULL && !damaged)
		wrong = check_names(r);
	return wrong;
}

/* Growth. */

static void add(struct picture_past *p, const struct percpu_reader_series *s, uint64_t more,
		uint64_t value)
{
	p->count[p->n++] = (struct picture_count){ .series = hash_series(s) + more,
						   .since = s->since,
						   .value = value };
}

/* Note all counts of series i. */
static void note(struct picture_past *p, const struct percpu_reader *r, size_t i)
{
	struct percpu_histogram_snapshot *h;
	struct percpu_reader_series s;
	struct answers a;

	if (percpu_reader_series(r, i, &s) != 0)
		return;
	if (percpu_reader_counter(r, i, &a.count) == 0)
		add(p, &s, 0, a.count);
	if (percpu_reader_stats(r, i, a.stats, s.n) == 0)
		for (uint32_t k = 0; k < s.n; k++)
			add(p, &s, k, a.stats[k]);
	if (percpu_reader_histogram(r, i, &h) == 0) {
		add(p, &s, 0, h->count);
		percpu_histogram_snapshot_destroy(h);
	}
}

/* Starts may differ a little: each picture computes them from two clocks, read one after the
 * other. */
static bool is_same_start(uint64_t a, uint64_t b)
{
	return (a < b ? b - a : a - b) < 1000000;
}

const char *picture_grows(const struct percpu_reader *r, struct picture_past *past)
{
	struct picture_past now = { .n = 0 };
	const struct picture_count *was;
	struct percpu_reader_info info = { .generation = 0 };
	struct percpu_reader_series s;
	const char *wrong = NULL;
	size_t n = 0;

	if (percpu_reader_info(r, &info) != 0)
		return "nothing is known of the picture";
	now.generation = info.generation;
	for (size_t i = 0; i < percpu_reader_count(r); i++)
		n += percpu_reader_series(r, i, &s) == 0 ? s.n : 0;
	now.count = calloc(n + 1, sizeof(*now.count));
	if (now.count == NULL)
		return "memory";
	for (size_t i = 0; i < percpu_reader_count(r); i++)
		note(&now, r, i);
	qsort(now.count, now.n, sizeof(*now.count), compare_counts);
	for (size_t i = 0; i < now.n && past->n != 0 && past->generation == now.generation; i++) {
		was = bsearch(&now.count[i], past->count, past->n, sizeof(*now.count),
			      compare_counts);
		if (was != NULL && is_same_start(was->since, now.count[i].since) &&
		    was->value > now.count[i].value)
			wrong = "a count that goes back";
	}
	free(past->count);
	*past = now;
	return wrong;
}

void picture_forget(struct picture_past *past)
{
	free(past->count);
	*past = (struct picture_past){ .n = 0 };
}

/* SPDX-License-Identifier: MIT */
/*
 * test_picture.c - the checker of pictures (../picture.h): it accepts a correct picture, and
 * sees each rule violated. The test makes the pictures up, by replacing the reader's calls.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "support.h"

enum { COUNTER, LEVEL, EXTREMA, HISTOGRAM, STATS, FIRST, LAST, LATEST, OWNED, SERIES };

static struct {
	struct percpu_reader_series s;
	uint64_t count, stats[2], when;
	int64_t level;
	double number, min, max;
	int e;		 /* what the call of its kind returns */
	unsigned answer; /* another kind whose call has an answer */
} series[SERIES];
static struct percpu_reader_info info;
static struct percpu_histogram_snapshot *buckets;
static size_t n;
static int info_error;

#define READER ((struct percpu_reader *)series) /* no call looks into it */

/* Replacements of the reader's calls. */

size_t __wrap_percpu_reader_count(const struct percpu_reader *r);
int __wrap_percpu_reader_info(const struct percpu_reader *r, struct percpu_reader_info *ret);
int __wrap_percpu_reader_series(const struct percpu_reader *r, size_t i,
				struct percpu_reader_series *ret);
int __wrap_percpu_reader_counter(const struct percpu_reader *r, size_t i, uint64_t *ret);
int __wrap_percpu_reader_gauge(const struct percpu_reader *r, size_t i, int64_t *ret);
int __wrap_percpu_reader_number(const struct percpu_reader *r, size_t i, double *ret);
int __wrap_percpu_reader_when(const struct percpu_reader *r, size_t i, uint64_t *ret);
int __wrap_percpu_reader_extrema(const struct percpu_reader *r, size_t i, double *min, double *max);
int __wrap_percpu_reader_stats(const struct percpu_reader *r, size_t i, uint64_t *out,
			       size_t fields);
int __wrap_percpu_reader_histogram(const struct percpu_reader *r, size_t i,
				   struct percpu_histogram_snapshot **ret);

size_t __wrap_percpu_reader_count(const struct percpu_reader *r)
{
	(void)r;
	return n;
}

int __wrap_percpu_reader_info(const struct percpu_reader *r, struct percpu_reader_info *ret)
{
	(void)r;
	*ret = info;
	return info_error;
}

int __wrap_percpu_reader_series(const struct percpu_reader *r, size_t i,
				struct percpu_reader_series *ret)
{
	(void)r;
	if (i >= SERIES || series[i].s.name == NULL)
		return -EINVAL;
	*ret = series[i].s;
	return 0;
}

/* Return what the call of that kind returns. */
static int answer(size_t i, unsigned kind)
{
	return series[i].s.kind == kind ? series[i].e : series[i].answer == kind ? 0 : -EINVAL;
}

int __wrap_percpu_reader_counter(const struct percpu_reader *r, size_t i, uint64_t *ret)
{
	(void)r;
	*ret = series[i].count;
	return answer(i, PERCPU_METRIC_COUNTER);
}

int __wrap_percpu_reader_gauge(const struct percpu_reader *r, size_t i, int64_t *ret)
{
	const int e = answer(i, PERCPU_METRIC_GAUGE);

	(void)r;
	*ret = series[i].level;
	return e != -EINVAL ? e : answer(i, PERCPU_METRIC_OWNED_GAUGE);
}

int __wrap_percpu_reader_number(const struct percpu_reader *r, size_t i, double *ret)
{
	const unsigned kind = series[i].s.kind;
	const bool has_many = kind == PERCPU_METRIC_EXTREMA || kind == PERCPU_METRIC_HISTOGRAM ||
			      kind == PERCPU_METRIC_STATS;

	(void)r;
	*ret = series[i].number;
	return has_many ? answer(i, PERCPU_METRIC_LATEST) : series[i].e;
}

int __wrap_percpu_reader_when(const struct percpu_reader *r, size_t i, uint64_t *ret)
{
	(void)r;
	*ret = series[i].when;
	return answer(i, PERCPU_METRIC_LATEST);
}

int __wrap_percpu_reader_extrema(const struct percpu_reader *r, size_t i, double *min, double *max)
{
	(void)r;
	*min = series[i].min;
	*max = series[i].max;
	return answer(i, PERCPU_METRIC_EXTREMA);
}

int __wrap_percpu_reader_stats(const struct percpu_reader *r, size_t i, uint64_t *out,
			       size_t fields)
{
	(void)r;
	assert_true(fields <= PERCPU_STATS_MAX_COMMIT);
	memcpy(out, series[i].stats, fields < 2 ? fields * sizeof(*out) : 2 * sizeof(*out));
	return answer(i, PERCPU_METRIC_STATS);
}

int __wrap_percpu_reader_histogram(const struct percpu_reader *r, size_t i,
				   struct percpu_histogram_snapshot **ret)
{
	const int e = answer(i, PERCPU_METRIC_HISTOGRAM);
	const size_t size = sizeof(*buckets) + buckets->n * sizeof(buckets->bucket[0]);

	(void)r;
	if (e == 0) {
		*ret = malloc(size); /* percpu_histogram_snapshot_destroy() frees it */
		assert_non_null(*ret);
		memcpy(*ret, buckets, size);
	}
	return e;
}

/* A correct picture. */

static const char *label_names[] = { "k" };
static const char *label_values[][1] = { { "x" }, { "y" } };
static const char *fields[] = { "hit", "miss" };
static char name[PERCPU_METRIC_NAME + 2];

static void tell(size_t i, const char *called, unsigned kind)
{
	series[i].s = (struct percpu_reader_series){ .name = called,
						     .help = "",
						     .unit = "",
						     .field = "",
						     .fields = fields,
						     .label_names = label_names,
						     .label_values = label_values[0],
						     .n = 1,
						     .kind = kind,
						     .since = 200 };
}

static void make_good(void)
{
	memset(series, 0, sizeof(series));
	memset(name, 0, sizeof(name));
	info = (struct percpu_reader_info){ .generation = 1, .since = 100, .read = 300 };
	info_error = 0;
	n = SERIES;
	tell(COUNTER, "a_total", PERCPU_METRIC_COUNTER);
	series[COUNTER].number = (double)(series[COUNTER].count = 5);
	tell(LEVEL, "b", PERCPU_METRIC_GAUGE);
	series[LEVEL].number = (double)(series[LEVEL].level = -7);
	tell(EXTREMA, "c", PERCPU_METRIC_EXTREMA);
	series[EXTREMA].min = 1;
	series[EXTREMA].max = 2;
	tell(HISTOGRAM, "d", PERCPU_METRIC_HISTOGRAM);
	tell(STATS, "e_total", PERCPU_METRIC_STATS);
	series[STATS].s.field = "result";
	series[STATS].s.n = 2;
	series[STATS].stats[0] = series[STATS].stats[1] = 9;
	for (size_t i = FIRST; i <= LAST; i++) {
		tell(i, "f_total", PERCPU_METRIC_COUNTER);
		series[i].s.labels = 1;
		series[i].s.label_values = label_values[i - FIRST];
		series[i].s.cap = 2;
	}
	tell(LATEST, "g", PERCPU_METRIC_LATEST);
	series[LATEST].when = 250;
	tell(OWNED, "o", PERCPU_METRIC_OWNED_GAUGE);
	for (uint32_t b = 0; b < buckets->n; b++)
		buckets->bucket[b].count = 1;
	buckets->count = buckets->n;
	buckets->sum = 1;
}

static int make_buckets(void **state)
{
	struct percpu_histogram *h = NULL;
	int e = percpu_histogram_create(NULL, &h);

	(void)state;
	if (e == 0)
		e = percpu_histogram_snapshot_create(h, &buckets);
	percpu_histogram_destroy(h);
	return e;
}

static int free_buckets(void **state)
{
	(void)state;
	percpu_histogram_snapshot_destroy(buckets);
	return 0;
}

/* Each rule violated. */

#define SPOILS(what, ...)                                                                          \
	static void what(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}

/* clang-format off: one line each */
SPOILS(no_info, info_error = -EINVAL)
SPOILS(segment_to_come, info.since = 301; for (int i = 0; i < SERIES; i++) series[i].s.since = 301)
SPOILS(no_series, series[LEVEL].s.name = NULL)
SPOILS(no_name, series[COUNTER].s.name = "")
SPOILS(long_name, memset(name, 'g', sizeof(name) - 1); series[LATEST].s.name = name)
SPOILS(no_help, series[COUNTER].s.help = NULL)
SPOILS(no_unit, series[COUNTER].s.unit = NULL)
SPOILS(no_field, series[STATS].s.field = "")
SPOILS(field_of_others, series[COUNTER].s.field = "result")
SPOILS(no_fields, series[STATS].s.n = 0)
SPOILS(many_fields, series[STATS].s.n = PERCPU_STATS_MAX_COMMIT + 1)
SPOILS(many_values, series[COUNTER].s.n = 2)
SPOILS(many_labels, series[COUNTER].s.labels = PERCPU_METRIC_LABELS + 1)
SPOILS(no_label, static const char *none[1]; series[FIRST].s.label_values = none)
SPOILS(nameless_label, static const char *none[1]; series[FIRST].s.label_names = none)
SPOILS(nameless_field, static const char *none[2]; series[STATS].s.fields = none)
SPOILS(started_later, series[LEVEL].s.since = 301)
SPOILS(started_earlier, series[LEVEL].s.since = 99)
SPOILS(set_later, series[LATEST].when = 301)
SPOILS(two_numbers, series[COUNTER].number = 6)
SPOILS(two_levels, series[LEVEL].number = 7)
SPOILS(min_above_max, series[EXTREMA].min = 3)
SPOILS(no_extreme, series[EXTREMA].max = NAN)
SPOILS(less_in_count, buckets->count--)
SPOILS(more_in_bucket, buckets->bucket[3].count++)
SPOILS(no_sum, buckets->sum = NAN)
SPOILS(infinite_sum, buckets->sum = INFINITY)
SPOILS(wraps, buckets->bucket[2].count = (uint64_t)-50; buckets->count -= 51)
SPOILS(odd_range, buckets->n--; buckets->count--)
SPOILS(odd_error, series[LEVEL].e = -EIO)
SPOILS(two_kinds, series[EXTREMA].answer = PERCPU_METRIC_HISTOGRAM)
SPOILS(number_of_many, series[STATS].answer = PERCPU_METRIC_LATEST)
SPOILS(no_answer, series[HISTOGRAM].e = -EINVAL)
SPOILS(other_order, series[LEVEL].s.name = "z")
SPOILS(other_kind, series[LAST].s.kind = PERCPU_METRIC_FCOUNTER)
SPOILS(other_unit, series[LAST].s.unit = "bytes")
SPOILS(other_cap, series[LAST].s.cap = 3)
SPOILS(other_removed, series[LAST].s.removed = 1)
SPOILS(other_overflows, series[LAST].s.overflows = 1)
SPOILS(same_series, series[LAST].s.label_values = label_values[0])
SPOILS(untold_missing, series[LEVEL].e = -EAGAIN)
SPOILS(none_missing, info.missing = 1)
/* clang-format on */

static const char a_text[] = "a text", no_such[] = "a series that is not there",
		  not_the_sum[] = "a count that is not the sum of the buckets",
		  not_finite[] = "a sum that is no number",
		  other_call[] = "an answer that its kind does not have",
		  alike[] = "series of one name that differ in kind, unit or family",
		  other_start[] = "a series that starts after the picture, or before its segment",
		  other_missing[] = "another number of missing values";

static const struct {
	void (*spoil)(void);
	const char *wrong;
	bool may_be_damage; /* no rule for damaged files */
} rule[] = {
	{ no_info, "nothing is known of the picture", false },
	{ segment_to_come, "a segment that starts after the picture", false },
	{ no_series, no_such, false },
	{ no_name, a_text, false },
	{ long_name, a_text, false },
	{ no_help, a_text, false },
	{ no_unit, a_text, false },
	{ no_field, a_text, false },
	{ field_of_others, a_text, false },
	{ no_fields, a_text, false },
	{ many_fields, a_text, false },
	{ many_values, a_text, false },
	{ many_labels, a_text, false },
	{ no_label, a_text, false },
	{ nameless_label, a_text, false },
	{ nameless_field, a_text, false },
	{ started_later, other_start, false },
	{ started_earlier, other_start, false },
	{ set_later, "a value that was set after the picture", true },
	{ two_numbers, "a counter that is another number", false },
	{ two_levels, "a level that is another number", false },
	{ min_above_max, "a minimum above the maximum", false },
	{ no_extreme, "a minimum above the maximum", false },
	{ less_in_count, not_the_sum, false },
	{ more_in_bucket, not_the_sum, false },
	{ no_sum, not_finite, false },
	{ infinite_sum, not_finite, false },
	{ wraps, "buckets that are not cumulative", true },
	{ odd_range, "a last bucket that is not the count", false },
	{ odd_error, other_call, false },
	{ two_kinds, other_call, false },
	{ number_of_many, other_call, false },
	{ no_answer, other_call, false },
	{ other_order, "names that are not in order", false },
	{ other_kind, alike, true },
	{ other_unit, alike, true },
	{ other_cap, alike, true },
	{ other_removed, alike, true },
	{ other_overflows, alike, true },
	{ same_series, "two series with the same name and labels", true },
	{ untold_missing, other_missing, true },
	{ none_missing, other_missing, true },
};

static void good_pictures_are_not_complained_of(void **state)
{
	(void)state;
	make_good();
	assert_null(picture_check(READER, false));
	assert_null(picture_check(READER, true));
	series[LATEST].e = -ENODATA;
	series[LEVEL].e = -EAGAIN;
	info.missing = 1;
	assert_null(picture_check(READER, false));
	series[OWNED].e = -EAGAIN; /* of now, not of the picture */
	assert_null(picture_check(READER, false));
	n = 0;
	info.missing = 0;
	assert_null(picture_check(READER, false));
}

static void each_rule_is_seen_violated(void **state)
{
	const uint32_t all = buckets->n;
	const char *wrong;

	(void)state;
	for (size_t i = 0; i < sizeof(rule) / sizeof(rule[0]); i++) {
		make_good();
		rule[i].spoil();
		wrong = picture_check(READER, false);
		if (wrong == NULL)
			fail_msg("rule %zu (%s) was not seen violated", i, rule[i].wrong);
		assert_string_equal(wrong, rule[i].wrong);
		wrong = picture_check(READER, true);
		if (rule[i].may_be_damage)
			assert_null(wrong);
		else
			assert_string_equal(wrong, rule[i].wrong);
		buckets->n = all;
	}
}

/* Growth. */

static void counts_that_go_back_are_seen(void **state)
{
	static uint64_t *const count[] = { &series[COUNTER].count, &series[STATS].stats[0],
					   &series[STATS].stats[1], &series[LAST].count };
	static const char back[] = "a count that goes back";
	struct picture_past past = { .n = 0 };

	(void)state;
	make_good();
	series[LAST].count = 3;
	assert_null(picture_grows(READER, &past));
	assert_null(picture_grows(READER, &past));
	for (size_t i = 0; i < sizeof(count) / sizeof(count[0]); i++) {
		--*count[i];
		assert_string_equal(picture_grows(READER, &past), back);
		assert_null(picture_grows(READER, &past)); /* this is the past now */
		*count[i] += 2;
		assert_null(picture_grows(READER, &past));
	}
	buckets->count--;
	assert_string_equal(picture_grows(READER, &past), back);
	series[LEVEL].level--; /* a level may go down */
	assert_null(picture_grows(READER, &past));
	info_error = -EINVAL;
	assert_string_equal(picture_grows(READER, &past), "nothing is known of the picture");
	picture_forget(&past);
}

static void what_begins_anew_may_have_less(void **state)
{
	struct picture_past past = { .n = 0 };

	(void)state;
	make_good();
	assert_null(picture_grows(READER, &past));
	info.generation = 2;
	series[COUNTER].count = 4;
	assert_null(picture_grows(READER, &past));
	series[COUNTER].s.since += 60000000000;
	series[COUNTER].count = 3;
	assert_null(picture_grows(READER, &past));
	series[COUNTER].e = -EAGAIN;
	assert_null(picture_grows(READER, &past));
	series[COUNTER].e = 0;
	series[COUNTER].count = 2;
	assert_null(picture_grows(READER, &past)); /* the picture before had none */
	picture_forget(&past);
	series[COUNTER].count = 1;
	assert_null(picture_grows(READER, &past));
	picture_forget(&past);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_pictures_are_not_complained_of),
		cmocka_unit_test(each_rule_is_seen_violated),
		cmocka_unit_test(counts_that_go_back_are_seen),
		cmocka_unit_test(what_begins_anew_may_have_less),
	};

	return cmocka_run_group_tests(tests, make_buckets, free_buckets);
}

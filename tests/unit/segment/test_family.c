/* SPDX-License-Identifier: MIT */
/*
 * test_family.c - families: series that are found or made when their values are first used, the
 * cap and the overflow, what is refused. Removal: test_family_removal.c; kills:
 * test_family_steps.c; forks: test_presence.c; threads: test_family_threads.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "segment/segment.h"

static void says(const char *sentence)
{
	assert_string_equal(percpu_error(), sentence);
}

/* Declare a family of that kind in both segments, and get a series of it in each. */
#define both_handles(kind, call, h)                                                                \
	do {                                                                                       \
		struct percpu_family *f_;                                                          \
		const char *const x_[] = { "x" };                                                  \
		(h)[0] = (h)[1] = NULL;                                                            \
		assert_int_equal(declare_family(s, #call "_k", PERCPU_METRIC_##kind, 5, &f_), 0);  \
		assert_int_equal(percpu_family_##call(f_, x_, &(h)[0]), 0);                        \
		assert_int_equal(declare_family(t, #call "_k", PERCPU_METRIC_##kind, 5, &f_), 0);  \
		assert_int_equal(percpu_family_##call(f_, x_, &(h)[1]), 0);                        \
	} while (0)

static void levels_are_found_by_others(void)
{
	struct percpu_gauge *gauge[2];
	struct percpu_fgauge *fgauge[2];
	struct percpu_latest *latest[2];
	struct percpu_owned_gauge *owned[2];
	struct percpu_owned_fgauge *fowned[2];
	int64_t sum;
	double value;

	both_handles(GAUGE, gauge, gauge);
	percpu_gauge_add(gauge[0], 4);
	assert_int_equal(percpu_gauge_fetch(gauge[1]), 4);
	both_handles(FGAUGE, fgauge, fgauge);
	assert_int_equal(percpu_fgauge_set(fgauge[0], 1.5), 0);
	assert_true(percpu_fgauge_fetch(fgauge[1]) == 1.5);
	both_handles(LATEST, latest, latest);
	assert_int_equal(percpu_latest_set(latest[0], 2.5), 0);
	assert_int_equal(percpu_latest_fetch(latest[1], &value, NULL), 0);
	assert_true(value == 2.5);
	both_handles(OWNED_GAUGE, owned_gauge, owned);
	assert_int_equal(percpu_owned_gauge_add(owned[0], 6), 0);
	assert_int_equal(percpu_owned_gauge_fetch(owned[1], PERCPU_OWNED_LIVING, &sum), 0);
	assert_int_equal(sum, 6);
	both_handles(OWNED_FGAUGE, owned_fgauge, fowned);
	assert_int_equal(percpu_owned_fgauge_add(fowned[0], 0.5), 0);
	assert_int_equal(percpu_owned_fgauge_fetch(fowned[1], PERCPU_OWNED_ALL, &value), 0);
	assert_true(value == 0.5);
}

static void each_kind_has_families(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_histogram_snapshot *shot;
	struct percpu_histogram *histogram[2];
	struct percpu_fcounter *fcounter;
	struct percpu_extrema *extrema[2];
	struct percpu_family *f;
	int64_t min, max;

	(void)state;
	assert_int_equal(count_in(family_of(s, 5), "x", 2), 2);
	assert_int_equal(count_in(family_of(t, 5), "x", 3), 5);
	assert_int_equal(declare_family(s, "e_total", PERCPU_METRIC_FCOUNTER, 5, &f), 0);
	assert_int_equal(percpu_family_fcounter(f, x, &fcounter), 0);
	assert_int_equal(percpu_fcounter_add(fcounter, 0.5), 0);
	assert_int_equal(declare_family(t, "e_total", PERCPU_METRIC_FCOUNTER, 5, &f), 0);
	assert_int_equal(percpu_family_fcounter(f, x, &fcounter), 0);
	assert_true(percpu_fcounter_fetch(fcounter) == 0.5);
	both_handles(HISTOGRAM, histogram, histogram);
	percpu_histogram_record(histogram[0], 3);
	assert_int_equal(percpu_histogram_snapshot_create(histogram[1], &shot), 0);
	assert_int_equal(percpu_histogram_fetch(histogram[1], 0, shot), 0);
	assert_int_equal(shot->count, 1);
	percpu_histogram_snapshot_destroy(shot);
	both_handles(EXTREMA, extrema, extrema);
	assert_int_equal(percpu_extrema_observe(extrema[0], 7), 0);
	assert_int_equal(percpu_extrema_fetch(extrema[1], &min, &max), 0);
	assert_int_equal(min, 7);
	if (percpu_pair_is_atomic())
		levels_are_found_by_others();
}

static void the_same_values_have_the_same_handle(void **state)
{
	struct percpu_family *f = family_of(s, 5), *again = family_of(s, 5);
	struct percpu_histogram *h, *same;
	static const char *const x[] = { "x" };

	(void)state;
	assert_ptr_equal(f, again);
	assert_ptr_equal(counter_of(f, "x"), counter_of(f, "x"));
	assert_ptr_not_equal(counter_of(f, "x"), counter_of(f, "y"));
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 5, &f), 0);
	assert_int_equal(percpu_family_histogram(f, x, &h), 0);
	assert_int_equal(percpu_family_histogram(f, x, &same), 0);
	assert_ptr_equal(h, same);
}

/* When there are cap series, all others count in the overflow, also those of another process. */
static void caps_hold_and_nothing_is_lost(void **state)
{
	struct percpu_family *f = family_of(s, 3), *g = family_of(t, 3);

	(void)state;
	assert_int_equal(count_in(f, "a", 1), 1);
	assert_int_equal(count_in(g, "b", 1), 1);
	assert_int_equal(count_in(f, "c", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(count_in(f, "d", 10), 10);
	assert_int_equal(count_in(g, "e", 5), 15);
	assert_int_equal(count_in(g, "d", 1), 16);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(percpu_family_overflows(g), 3);
	assert_int_equal(percpu_family_overflows(NULL), 0);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 16);
	assert_int_equal(percpu_family_overflows(f), 3); /* asked for, so not counted */
	assert_int_equal(percpu_family_invalid(f), 0);
	assert_int_equal(count_in(g, "a", 1), 2);
	assert_int_equal(count_in(f, "b", 1), 2);
	assert_int_equal(s->series.used, 4);
	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	f = family_of(s, 3);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 16);
}

/* Return the state of the overflow's record, which is behind that of the family. */
static unsigned overflow_state(void)
{
	return percpu_directory_at(s, percpu_directory_at(s, 0)->size)->state;
}

/* No process reads the overflow until a call has got it: by a lack of room, by a value that cannot
 * be a label's, or by its name. */
static void overflows_are_hidden_until_they_are_needed(void **state)
{
	static const char *const lacking[] = { "b", "\xff", PERCPU_FAMILY_OVERFLOW };
	struct percpu_counter *c = NULL;
	struct percpu_family *f;
	uint64_t changes;

	(void)state;
	for (int i = 0; i < 3; i++) {
		f = family_of(s, 1);
		assert_int_equal(count_in(f, "a", 1), 1);
		assert_int_equal(overflow_state(), PERCPU_RECORD_REMOVED);
		changes = s->control->changes;
		assert_int_equal(percpu_family_counter(f, &lacking[i], &c), 0);
		assert_int_equal(overflow_state(), PERCPU_RECORD_IN_USE);
		assert_int_equal(s->control->changes, changes + 2); /* it was a change */
		assert_int_equal(percpu_family_counter(f, &lacking[i], &c), 0);
		assert_int_equal(s->control->changes, changes + 2);
		percpu_counter_add(c, 5);
		assert_int_equal(count_in(family_of(t, 1), PERCPU_FAMILY_OVERFLOW, 0), 5);
		assert_int_equal(close_both(state), 0);
		(void)open_both(state);
	}
}

/* The calls that count by values find the same series as the others. */
static void counts_by_values_are_of_the_series(void **state)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_family *f = family_of(s, 1), *h;
	struct percpu_histogram_snapshot *shot;
	struct percpu_histogram *of_x;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_family_add(f, x, 5), 0);
	assert_int_equal(percpu_family_add(f, y, 7), 0);
	assert_int_equal(count_in(f, "x", 0), 15);
	assert_int_equal(count_in(family_of(t, 1), PERCPU_FAMILY_OVERFLOW, 0), 7);
	assert_int_equal(percpu_family_overflows(f), 1);
	assert_int_equal(declare_family(s, "h", PERCPU_METRIC_HISTOGRAM, 1, &h), 0);
	assert_int_equal(percpu_family_record(h, x, 3), 0);
	assert_int_equal(percpu_family_record(h, x, 4), 0);
	assert_int_equal(percpu_family_record(h, y, 4), 0);
	assert_int_equal(percpu_family_histogram(h, x, &of_x), 0);
	assert_int_equal(percpu_histogram_snapshot_create(of_x, &shot), 0);
	assert_int_equal(percpu_histogram_fetch(of_x, 0, shot), 0);
	assert_int_equal(shot->count, 2);
	assert_true(shot->sum == 7);
	percpu_histogram_snapshot_destroy(shot);
	assert_int_equal(percpu_family_add(h, x, 1), -EINVAL);
	says("h: is a family of another kind");
}

/* A full family is told from a full disk. */
static void the_cap_is_told(void **state)
{
	static const char *const x[] = { "x" }, *const y[] = { "y" };
	struct percpu_family *f = family_of(s, 1);

	(void)state;
	assert_int_equal(percpu_family_add(f, x, 1), 0);
	assert_int_equal(percpu_family_add(f, y, 1), 0);
	says("f_total: the family has as many series as its cap");
}

/* Series are told apart by each of their values. */
static void each_value_counts(void **state)
{
	static const char *const labels[] = { "a", "b", "c" };
	static const char *const values[][3] = { { "x", "y", "z" }, { "x", "y", "zz" },
						 { "x", "yz", "" }, { "xy", "", "z" },
						 { "", "xy", "z" }, { "x", "", "yz" },
						 { "X", "y", "z" }, { "y", "x", "z" },
						 { "", "", "" } };
	const size_t n = sizeof(values) / sizeof(values[0]);
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "e_total", .label_names = labels, .labels = 3
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *c;
	struct percpu_family *f;

	(void)state;
	assert_int_equal(family_with_cap(s, &d, n, &f), 0);
	for (unsigned round = 1; round <= 2; round++)
		for (size_t i = 0; i < n; i++)
			assert_int_equal(percpu_family_add(f, values[i], 1 + i), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(percpu_family_counter(f, values[i], &c), 0);
		assert_int_equal(percpu_counter_fetch(c), 2 * (1 + i));
	}
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* The cap is in the record of the family alone (docs/memory/format.md). */
static void records_of_series_have_no_cap(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	const struct percpu_segment_record *r = percpu_directory_at(s, 0);
	unsigned n = 0;

	(void)state;
	assert_non_null(counter_of(f, "x"));
	for (uint64_t at = 0; at < s->control->end; at += r->size, n++) {
		r = percpu_directory_at(s, at);
		assert_int_equal(r->cap, r->state == PERCPU_RECORD_FAMILY ? 3 : 0);
	}
	assert_int_equal(n, 3); /* the family, the overflow and x */
}

/* A series is the overflow only if all its values are PERCPU_FAMILY_OVERFLOW. */
static void one_value_of_overflow_is_a_series(void **state)
{
	static const char *const labels[] = { "a", "b" };
	const char *const one[] = { PERCPU_FAMILY_OVERFLOW, "123456789" }; /* of the same length */
	const char *const all[] = { PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "f_total", .label_names = labels, .labels = 2
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *c, *overflow;
	struct percpu_family *f;

	(void)state;
	assert_int_equal(family_with_cap(s, &d, 1, &f), 0);
	assert_int_equal(percpu_family_counter(f, one, &c), 0);
	assert_int_equal(percpu_family_counter(f, all, &overflow), 0);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_ptr_not_equal(c, overflow);
	assert_int_equal(percpu_family_counter(f, (const char *const[]){ "y", "x" }, &c), 0);
	assert_ptr_equal(c, overflow);
	assert_int_equal(percpu_family_remove(f, one), 0);
	assert_int_equal(percpu_family_remove(f, all), -EINVAL);
}

static void other_families_of_a_name_are_refused(void **state)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "f_total" };
	const struct percpu_metric single = { .size = sizeof(single), .name = "g_total" };
	struct percpu_family *f = NULL;
	struct percpu_counter *c = NULL;
	uint64_t end;

	(void)state;
	assert_non_null(family_of(s, 3));
	assert_int_equal(percpu_segment_counter(s, &single, &c), 0);
	c = NULL;
	end = s->control->end;
	assert_int_equal(declare_family(t, "f_total", PERCPU_METRIC_COUNTER, 4, &f), -EEXIST);
	says("f_total: its cap is 3 in the segment, 4 was asked for");
	assert_int_equal(declare_family(t, "f_total", PERCPU_METRIC_FCOUNTER, 3, &f), -EEXIST);
	says("f_total: is a counter in the segment, a counter of doubles was asked for");
	assert_int_equal(percpu_segment_counter(t, &m, &c), -EEXIST);
	says("f_total: it has the label \"a\" in the segment, which was not asked for");
	assert_int_equal(declare_family(t, "g_total", PERCPU_METRIC_COUNTER, 3, &f), -EEXIST);
	says("g_total: it has no label \"a\" in the segment, which was asked for");
	assert_int_equal(s->control->end, end);
	assert_null(f);
	assert_null(c);
}

/* A metric with the same labels is no series of the family. */
static void metrics_are_no_series(void **state)
{
	const char *const labels[] = { "a" }, *const values[] = { "x" };
	struct percpu_metric m = { .size = sizeof(m),
				   .name = "f_total",
				   .label_names = labels,
				   .label_values = values,
				   .labels = 1 };
	struct percpu_family *f = NULL;
	struct percpu_counter *c = NULL;

	(void)state;
	assert_int_equal(count_in(family_of(s, 3), "x", 1), 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(percpu_segment_counter(i == 0 ? s : t, &m, &c), -EEXIST);
		says("f_total: is a family of metrics in the segment, a metric "
		     "without a family was asked for");
	}
	assert_null(c);
	m.name = "g_total";
	assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
	assert_int_equal(declare_family(t, "g_total", PERCPU_METRIC_COUNTER, 3, &f), -EEXIST);
	says("g_total: is a metric without a family in the segment, a family of metrics was "
	     "asked for");
	assert_null(f);
}

static void other_parameters_are_refused(void **state)
{
	static const char *const labels[] = { "a" }, *const x[] = { "x" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "h", .label_names = labels, .labels = 1
	};
	struct percpu_histogram_options o = { .size = sizeof(o), .min = 1, .max = 64 };
	struct percpu_declaration d = {
		.size = sizeof(d), OF_METRIC(m), .kind = PERCPU_METRIC_HISTOGRAM, .histogram = &o
	};
	struct percpu_family *f, *none = NULL;
	struct percpu_histogram *h, *overflow;

	(void)state;
	assert_int_equal(family_with_cap(s, &d, 1, &f), 0);
	o.max = 128; /* the declared value stays */
	assert_int_equal(percpu_family_histogram(f, x, &h), 0);
	assert_int_equal(percpu_family_histogram(f, (const char *const[]){ PERCPU_FAMILY_OVERFLOW },
						 &overflow),
			 0);
	assert_int_equal(h->high, overflow->high);
	assert_int_equal(h->low, overflow->low);
	assert_int_equal(family_with_cap(t, &d, 1, &none), -EEXIST);
	d.histogram = NULL;
	assert_int_equal(family_with_cap(s, &d, 1, &none), -EEXIST);
	assert_null(none);
}

/* Options of a newer version, with no new field set, are kept like those that are known. */
static void options_may_be_of_a_newer_version(void **state)
{
	static const char *const labels[] = { "a" }, *const x[] = { "x" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "h", .label_names = labels, .labels = 1
	};
	union {
		struct percpu_histogram_options known;
		unsigned char byte[1024];
	} o = { .byte = { 0 } };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_HISTOGRAM,
					      .histogram = &o.known };
	struct percpu_histogram *h = NULL;
	struct percpu_family *f;

	(void)state;
	o.known.size = sizeof(o);
	assert_int_equal(family_with_cap(s, &d, 1, &f), 0);
	assert_int_equal(percpu_family_histogram(f, x, &h), 0);
}

static void structs_are_refused(const struct percpu_declaration *d, const char *sentence)
{
	struct percpu_family *f = NULL;

	assert_int_equal(family_with_cap(s, d, 1, &f), -EINVAL);
	says(sentence);
	assert_null(f);
}

static void wrong_families_are_refused(void **state)
{
	static const char *const labels[] = { "a" };
	const struct percpu_declaration good = { .size = sizeof(good),
						 .name = "f_total",
						 .label_names = labels,
						 .labels = 1,
						 .kind = PERCPU_METRIC_COUNTER };
	static const char of_another_size[] =
		"a struct percpu_declaration has another size, or fields that are not known";
	static const char kinds[] = "a family is of single values, of no info and no statistics";
	struct percpu_declaration d = good;
	struct percpu_family *f = NULL;
	char longest[2000];

	(void)state;
	memset(longest, 'x', sizeof(longest));
	longest[sizeof(longest) - 1] = '\0';
	assert_int_equal(family_with_cap(NULL, &d, 1, &f), -EINVAL);
	assert_int_equal(family_with_cap(s, NULL, 1, &f), -EINVAL);
	assert_int_equal(family_with_cap(s, &d, 1, NULL), -EINVAL);
	says("there is no place for the family");
	assert_int_equal(family_with_cap(s, &d, 0, &f), -EINVAL);
	says("f_total: a family of 0 series: 1 to 1000000");
	assert_int_equal(family_with_cap(s, &d, PERCPU_FAMILY_CAP + 1, &f), -EINVAL);
	d.label_values = labels;
	assert_int_equal(family_with_cap(s, &d, 1, &f), -EINVAL);
	says("f_total: a family has names of labels, and no values");
	d = good;
	d.labels = 0;
	assert_int_equal(family_with_cap(s, &d, 1, &f), -EINVAL);
	says("f_total: a family has labels, and .labels is 0");
	d.labels = PERCPU_METRIC_LABELS + 1;
	assert_int_equal(family_with_cap(s, &d, 1, &f), -E2BIG);
	d = good;
	d.kind = 0;
	d.name = NULL;
	assert_int_equal(family_with_cap(s, &d, 1, &f), -EINVAL);
	says("a family: a family is of single values, of no info and no statistics");
	d.name = longest;
	assert_int_equal(family_with_cap(s, &d, 1, &f), -EINVAL);
	assert_non_null(strstr(percpu_error(), kinds));
	d.kind = PERCPU_METRIC_INFO;
	d.name = "f_info";
	assert_int_equal(family_with_cap(s, &d, 1, &f), -EINVAL);
	assert_non_null(strstr(percpu_error(), kinds));
	d = good;
	d.size--;
	structs_are_refused(&d, of_another_size);
	d = good;
	d.histogram = &(const struct percpu_histogram_options){ .size = 1 };
	structs_are_refused(&d, "f_total: its options have another size, or fields that are not "
				"known");
	d.histogram = &(const struct percpu_histogram_options){ .size = sizeof(*d.histogram) };
	structs_are_refused(&d, "f_total: options of a histogram are not for a counter");
	d = good;
	d.fields = &(const struct percpu_metric_fields){ sizeof(*d.fields), "l", labels, 1 };
	structs_are_refused(&d, "f_total: fields are not for a counter");
	d = good;
	d.flags = 1;
	structs_are_refused(&d, "f_total: flags 0x1 are not known of a counter");
	assert_null(f);
	assert_int_equal(s->control->end, 0);
}

/* Values that cannot be labels count in the overflow, and are counted apart. */
static void values_that_are_no_labels_overflow(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	static char name[PERCPU_METRIC_VALUE + 2], huge[70000];
	const char *const values[] = { name }, *const large[] = { huge };
	struct percpu_counter *c = NULL;

	(void)state;
	memset(huge, 'x', sizeof(huge) - 1);
	huge[sizeof(huge) - 1] = '\0';
	memcpy(name, huge, sizeof(name));
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(percpu_family_counter(f, values, &c), 0);
	says("f_total: the value of label a has more than 4096 bytes");
	assert_int_equal(percpu_family_add(f, large, 3), 0);
	assert_int_equal(percpu_family_remove(f, values), -ENAMETOOLONG);
	strcpy(name, "\xff");
	assert_int_equal(percpu_family_add(f, values, 4), 0);
	says("f_total: the value of label a is not UTF-8");
	assert_int_equal(percpu_family_remove(f, values), -EILSEQ);
	assert_int_equal(percpu_family_invalid(f), 3);
	assert_int_equal(percpu_family_invalid(family_of(t, 3)), 3);
	assert_int_equal(percpu_family_invalid(NULL), 0);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_ptr_equal(c, counter_of(f, PERCPU_FAMILY_OVERFLOW));
	assert_int_equal(percpu_counter_fetch(c), 7);
}

/* Values fill a record, and have no room if there is one byte more. */
static void values_fill_a_record(void **state)
{
	static const char *const labels[] = { "a", "b", "c", "d", "e", "f", "g", "h",
					      "i", "j", "k", "l", "m", "n", "o", "p" };
	static char text[16][PERCPU_METRIC_VALUE + 1];
	const struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "r", "h", labels, 16, 3);
	/* Beside the values: a name, 16 labels, and lengths of values. */
	size_t room = 65448 - 1 - 16 * 3 - 16 * 2;
	struct percpu_counter *c, *same, *overflow;
	const char *values[16];
	struct percpu_family *f;

	(void)state;
	for (int i = 0; i < 16; i++) {
		const size_t n = room < PERCPU_METRIC_VALUE ? room : PERCPU_METRIC_VALUE;

		memset(text[i], 'v', n);
		values[i] = text[i];
		room -= n;
	}
	assert_int_equal(percpu_segment_family(s, &d, &f), 0);
	assert_int_equal(percpu_family_counter(f, values, &c), 0);
	assert_int_equal(percpu_family_counter(f, values, &same), 0);
	assert_ptr_equal(c, same);
	assert_int_equal(percpu_family_invalid(f), 0);
	text[15][strlen(text[15])] = 'v';
	assert_int_equal(percpu_family_counter(f, values, &overflow), 0);
	assert_ptr_not_equal(c, overflow);
	says("r: the values of its labels have 65400 bytes, and there is room for 65399");
	assert_int_equal(percpu_family_invalid(f), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

static void wrong_values_are_refused(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	struct percpu_counter *const there = counter_of(f, "there"), *c = there;
	char name[PERCPU_METRIC_NAME + 1];
	const char *values[] = { NULL };
	struct percpu_gauge *g = NULL;
	const uint64_t end = s->control->end;

	(void)state;
	assert_int_equal(percpu_family_counter(f, values, &c), -EINVAL);
	says("f_total: the value of label a is NULL");
	assert_int_equal(percpu_family_add(f, values, 1), -EINVAL);
	assert_int_equal(percpu_family_add(f, NULL, 1), -EINVAL);
	assert_int_equal(percpu_family_record(f, NULL, 1), -EINVAL);
	assert_int_equal(percpu_family_remove(f, values), -EINVAL);
	assert_int_equal(percpu_family_counter(f, NULL, &c), -EINVAL);
	assert_int_equal(percpu_family_remove(f, NULL), -EINVAL);
	values[0] = "x";
	assert_int_equal(percpu_family_counter(NULL, values, &c), -EINVAL);
	assert_int_equal(percpu_family_remove(NULL, values), -EINVAL);
	assert_int_equal(percpu_family_add(NULL, values, 1), -EINVAL);
	assert_int_equal(percpu_family_record(NULL, values, 1), -EINVAL);
	assert_int_equal(percpu_family_record(f, values, 1), -EINVAL);
	says("f_total: is a family of another kind");
	assert_int_equal(percpu_family_counter(f, values, NULL), -EINVAL);
	assert_int_equal(percpu_family_gauge(f, values, &g), -EINVAL);
	says("f_total: is a family of another kind");
	assert_ptr_equal(c, there);
	assert_null(g);
	assert_int_equal(s->control->end, end);
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(percpu_family_invalid(f), 0);
	name[PERCPU_METRIC_NAME] = '\0';
	memset(name, 'x', PERCPU_METRIC_NAME);
	assert_int_equal(count_in(f, name, 1), 1);
	assert_int_equal(count_in(family_of(t, 3), name, 1), 2);
}

/* The sentence names the label of the first wrong value. A NULL is an error whatever the others
 * are. */
static void the_first_wrong_value_is_told(void **state)
{
	char longest[PERCPU_METRIC_NAME + 1], sentence[400];
	const char *const labels[] = { "first", "a", longest, "b" };
	const char *values[] = { NULL, "\xff", NULL, "\xff" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "g_total", .label_names = labels, .labels = 4
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *c = NULL;
	struct percpu_family *f;

	(void)state;
	memset(longest, 'x', PERCPU_METRIC_NAME);
	longest[PERCPU_METRIC_NAME] = '\0';
	assert_int_equal(family_with_cap(s, &d, 3, &f), 0);
	assert_int_equal(percpu_family_counter(f, values, &c), -EINVAL);
	says("g_total: the value of label first is NULL");
	values[0] = "x";
	assert_int_equal(percpu_family_counter(f, values, &c), -EINVAL);
	snprintf(sentence, sizeof(sentence), "g_total: the value of label %s is NULL", longest);
	says(sentence);
	assert_null(c);
	values[2] = "x";
	assert_int_equal(percpu_family_counter(f, values, &c), 0);
	says("g_total: the value of label a is not UTF-8");
	values[1] = "x";
	assert_int_equal(percpu_family_counter(f, values, &c), 0);
	says("g_total: the value of label b is not UTF-8");
	assert_int_equal(percpu_family_invalid(f), 2);
}

/* In a file that cannot grow, series that do not fit count in the overflow. One that has a record
 * gets its object once there is room. */
static int fill_file(void *arg)
{
	const size_t chunk = percpu_chunk_size(PERCPU_STRIDE, s->region->cpus);
	const struct rlimit limit = { 2 * chunk, 2 * chunk };
	static const char *const labels[] = { "a" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "h", .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_HISTOGRAM };
	static const char *const first[] = { "h0" };
	struct percpu_segment *f = NULL;
	struct percpu_histogram *h, *of_all;
	struct percpu_family *family;
	char value[32];
	const char *values[] = { value };
	unsigned n = 0;

	test_child_require(setrlimit(RLIMIT_FSIZE, &limit) == 0, "a limit");
	test_child_require(percpu_segment_open(arg, ALL, NULL, &f) == 0, "a segment");
	test_child_require(family_with_cap(f, &d, 10000, &family) == 0, "a family");
	strcpy(value, PERCPU_FAMILY_OVERFLOW);
	test_child_require(percpu_family_histogram(family, values, &of_all) == 0, "the overflow");
	do {
		snprintf(value, sizeof(value), "h%u", n++);
		test_child_require(percpu_family_histogram(family, values, &h) == 0, "a handle");
		percpu_histogram_record(h, 1);
	} while (h != of_all && n < 10000);
	test_child_require(h == of_all && n > 2, "a full file");
	test_child_require(percpu_family_overflows(family) == 1, "which is counted");
	test_child_require(f->series.used == n + 1, "the last one has a record");
	test_child_require(percpu_family_remove(family, first) == 0, "one goes");
	percpu_segment_close(f);
	test_child_require(percpu_segment_open(arg, ALL, NULL, &f) == 0, "it again");
	test_child_require(family_with_cap(f, &d, 10000, &family) == 0, "the family");
	test_child_require(percpu_family_histogram(family, values, &h) == 0, "the last one");
	test_child_require(percpu_family_overflows(family) == 1, "has room");
	test_child_require(f->series.used == n + 1, "and the record that it had");
	percpu_segment_close(f);
	return 0;
}

static void full_files_overflow(void **state)
{
	char full[160];

	(void)state;
	snprintf(full, sizeof(full), "%s.full", path);
	test_in_child(fill_file, full);
	assert_int_equal(unlink(full), 0);
}

/* Without /proc or a descriptor, this process could not show that it has handles. */
static void families_need_the_file(void **state)
{
	struct percpu_family *f = NULL;
	const int fd = s->region->file.fd, kept = dup(fd);
	struct rlimit most, none;

	(void)state;
	assert_int_equal(close(fd), 0);
	assert_int_equal(declare_family(s, "f_total", PERCPU_METRIC_COUNTER, 3, &f), -EBADF);
	says("f_total: the file cannot be opened once more by /proc, or locked: the program has "
	     "closed the segment's descriptor: let it be open, and open the segment again");
	assert_null(f);
	assert_int_equal(s->control->end, 0);
	assert_int_equal(dup2(kept, fd), fd);
	assert_int_equal(close(kept), 0);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &most), 0);
	none = (struct rlimit){ 0, most.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(declare_family(s, "f_total", PERCPU_METRIC_COUNTER, 3, &f), -EMFILE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &most), 0);
	says("f_total: the file cannot be opened once more by /proc, or locked: the process has no "
	     "free descriptor (RLIMIT_NOFILE)");
	assert_null(f);
	assert_non_null(family_of(s, 3));
}

/* A removed series that cannot begin anew counts in the overflow. The sentence names the cause. */
static void closed_descriptors_are_named(void **state)
{
	struct percpu_family *f = family_of(s, 3);
	const int fd = s->region->file.fd, kept = dup(fd);

	(void)state;
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	assert_int_equal(close(fd), 0);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
	says("f_total: the program has closed the segment's descriptor: let it be open, and open "
	     "the segment again");
	assert_int_equal(dup2(kept, fd), fd);
	assert_int_equal(close(kept), 0);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
}

static void nothing_is_kept(void **state)
{
	struct test_holding before;
	struct percpu_segment *r;

	(void)state;
	assert_non_null(family_of(s, 3));
	before = test_holding_now();
	r = open_family_file(path, ALL);
	assert_int_equal(count_in(family_of(r, 3), "x", 1), 1);
	assert_int_equal(test_holding_now().fds, before.fds + 1); /* the segment's own */
	percpu_segment_close(r);
	test_assert_holding(before);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(each_kind_has_families),
		both(the_same_values_have_the_same_handle),
		both(caps_hold_and_nothing_is_lost),
		both(overflows_are_hidden_until_they_are_needed),
		both(counts_by_values_are_of_the_series),
		both(the_cap_is_told),
		both(each_value_counts),
		both(records_of_series_have_no_cap),
		both(one_value_of_overflow_is_a_series),
		both(other_families_of_a_name_are_refused),
		both(metrics_are_no_series),
		both(other_parameters_are_refused),
		both(options_may_be_of_a_newer_version),
		both(wrong_families_are_refused),
		both(values_that_are_no_labels_overflow),
		both(values_fill_a_record),
		both(wrong_values_are_refused),
		both(the_first_wrong_value_is_told),
		both(full_files_overflow),
		both(families_need_the_file),
		both(closed_descriptors_are_named),
		both(nothing_is_kept),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_clash.c - metrics that an exposition format would give series of one name.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "declared.h"
#include "support.h"
#include "segments.h"

static struct percpu_segment *s;

static int open_segment(void **state)
{
	(void)state;
	return percpu_segment_open(test_path("clash"), ALL, NULL, &s);
}

static int close_segment(void **state)
{
	(void)state;
	percpu_segment_close(s);
	return unlink(test_path("clash"));
}

static int declare(unsigned kind, const char *name)
{
	static const char *const names[] = { "x", "y" };
	struct percpu_metric m = { .size = sizeof(m), .name = name };
	struct percpu_metric_fields f = { sizeof(f), "field", names, 2 };
	struct percpu_declaration d = { .size = sizeof(d), OF_METRIC(m), .kind = kind };
	void *handle;

	d.ret.counter = kind != PERCPU_METRIC_INFO ? (void *)&handle : NULL;
	d.fields = kind == PERCPU_METRIC_STATS ? &f : NULL;
	return percpu_segment_declare(s, &d, 1);
}

struct both {
	unsigned first;
	const char *name;
	unsigned second;
	const char *other;
};

static void series_of_one_name_clash(void **state)
{
	static const struct both pairs[] = {
		{ PERCPU_METRIC_HISTOGRAM, "a", PERCPU_METRIC_COUNTER, "a_count" },
		{ PERCPU_METRIC_HISTOGRAM, "b", PERCPU_METRIC_EXTREMA, "b_sum" },
		{ PERCPU_METRIC_HISTOGRAM, "c", PERCPU_METRIC_INFO, "c_bucket" },
		{ PERCPU_METRIC_COUNTER, "d", PERCPU_METRIC_EXTREMA, "d_total" },
		{ PERCPU_METRIC_FCOUNTER, "e", PERCPU_METRIC_COUNTER, "e_total" },
		{ PERCPU_METRIC_STATS, "f", PERCPU_METRIC_EXTREMA, "f_total" },
		{ PERCPU_METRIC_INFO, "g", PERCPU_METRIC_EXTREMA, "g_info" },
		{ PERCPU_METRIC_COUNTER, "h_count", PERCPU_METRIC_HISTOGRAM, "h" },
		{ PERCPU_METRIC_COUNTER, "i_count_total", PERCPU_METRIC_COUNTER, "i_count" },
		{ PERCPU_METRIC_COUNTER, "j_count", PERCPU_METRIC_COUNTER, "j_count_total" },
		{ PERCPU_METRIC_COUNTER, "_total", PERCPU_METRIC_EXTREMA, "_total_total" },
	};
	char sentence[200];

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		for (int turned = 0; turned < 2; turned++) {
			const struct both *p = &pairs[i];
			const unsigned kind[] = { p->first, p->second };
			const char *const name[] = { p->name, p->other };

			assert_int_equal(close_segment(state), 0);
			assert_int_equal(open_segment(state), 0);
			assert_int_equal(declare(kind[turned], name[turned]), 0);
			assert_int_equal(declare(kind[!turned], name[!turned]), -EEXIST);
			(void)snprintf(sentence, sizeof(sentence), "row 0: %s: ", name[!turned]);
			assert_ptr_equal(strstr(percpu_error(), sentence), percpu_error());
			(void)snprintf(sentence, sizeof(sentence), "and so has %s in the segment",
				       name[turned]);
			assert_non_null(strstr(percpu_error(), sentence));
			assert_int_equal(declare(kind[turned], name[turned]), 0);
		}
}

static void others_do_not(void **state)
{
	static const struct both pairs[] = {
		{ PERCPU_METRIC_EXTREMA, "m", PERCPU_METRIC_COUNTER, "m_total" },
		{ PERCPU_METRIC_HISTOGRAM, "n", PERCPU_METRIC_COUNTER, "n_total" },
		{ PERCPU_METRIC_EXTREMA, "o", PERCPU_METRIC_EXTREMA, "o_count" },
		{ PERCPU_METRIC_COUNTER, "p", PERCPU_METRIC_EXTREMA, "p_info" },
		{ PERCPU_METRIC_HISTOGRAM, "q", PERCPU_METRIC_EXTREMA, "q_buckets" },
		{ PERCPU_METRIC_EXTREMA, "r_total", PERCPU_METRIC_INFO, "r" },
		{ PERCPU_METRIC_COUNTER, "s_total", PERCPU_METRIC_EXTREMA, "s_total_total" },
		{ PERCPU_METRIC_EXTREMA, "t_info_info", PERCPU_METRIC_INFO, "t_info" },
		{ PERCPU_METRIC_EXTREMA, "_total", PERCPU_METRIC_COUNTER, "_count" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		assert_int_equal(declare(pairs[i].first, pairs[i].name), 0);
		assert_int_equal(declare(pairs[i].second, pairs[i].other), 0);
	}
}

static void both_metrics_and_the_series_are_told(void **state)
{
	(void)state;
	assert_int_equal(declare(PERCPU_METRIC_HISTOGRAM, "a"), 0);
	assert_int_equal(declare(PERCPU_METRIC_COUNTER, "a_count_total"), 0);
	assert_int_equal(declare(PERCPU_METRIC_STATS, "a_sum"), -EEXIST);
	assert_string_equal(percpu_error(),
			    "row 0: a_sum: statistics of that name has series "
			    "named a_sum, and so has a in the segment, a histogram");
	assert_int_equal(declare(PERCPU_METRIC_EXTREMA, "b_total"), 0);
	assert_int_equal(declare(PERCPU_METRIC_COUNTER, "b"), -EEXIST);
	assert_string_equal(percpu_error(), "row 0: b: a counter of that name has series named "
					    "b_total, and so has b_total in the segment, extrema");
}

/* The longest names are as long as an end allows, and longer. */
static void long_names_are_compared(void **state)
{
	char name[256], end[256];

	(void)state;
	memset(name, 'x', sizeof(name));
	name[249] = '\0';
	memcpy(end, name, 249);
	memcpy(end + 249, "_total", 7);
	assert_int_equal(declare(PERCPU_METRIC_EXTREMA, end), 0);
	assert_int_equal(declare(PERCPU_METRIC_COUNTER, name), -EEXIST);
	memset(name, 'y', sizeof(name));
	name[255] = '\0';
	assert_int_equal(declare(PERCPU_METRIC_COUNTER, name), 0);
	name[254] = '\0';
	assert_int_equal(declare(PERCPU_METRIC_HISTOGRAM, name), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(series_of_one_name_clash, open_segment,
						close_segment),
		cmocka_unit_test_setup_teardown(both_metrics_and_the_series_are_told, open_segment,
						close_segment),
		cmocka_unit_test_setup_teardown(others_do_not, open_segment, close_segment),
		cmocka_unit_test_setup_teardown(long_names_are_compared, open_segment,
						close_segment),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

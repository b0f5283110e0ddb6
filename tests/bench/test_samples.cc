/* SPDX-License-Identifier: MIT */
/* test_samples.cc - statistics that all benchmarks print. */
#include <cmath>
#include <numeric>

#include "samples.h"
#include "test.h"

static bool is_near(double a, double b)
{
	return std::fabs(a - b) < 1e-9;
}

/* Return 1, 2 and so on. */
static samples up_to(size_t n)
{
	samples v(n);

	std::iota(v.begin(), v.end(), 1);
	return v;
}

static void known_figures(void **)
{
	const summary s = summarize({ 9, 2, 5, 4, 4, 4, 7, 5 });

	assert_int_equal(s.n, 8);
	assert_true(is_near(s.min, 2));
	assert_true(is_near(s.max, 9));
	assert_true(is_near(s.median, 4.5));
	assert_true(is_near(s.mean, 5));
	assert_true(s.deviation && is_near(*s.deviation, std::sqrt(32.0 / 7)));
}

static void median_of_an_odd_number(void **)
{
	assert_true(is_near(summarize({ 8, 1, 3 }).median, 3));
	assert_true(is_near(summarize(up_to(21)).median, 11));
}

static void one_figure(void **)
{
	const summary s = summarize({ 3 });

	assert_int_equal(s.n, 1);
	assert_true(is_near(s.min, 3) && is_near(s.max, 3));
	assert_true(is_near(s.median, 3) && is_near(s.mean, 3));
	assert_false(s.deviation.has_value());
}

static void equal_figures(void **)
{
	const summary s = summarize(samples(21, 0.25));
	const median_ratio r = ratio_of(samples(21, 0.5), samples(21, 0.25));

	assert_true(s.deviation && is_near(*s.deviation, 0));
	assert_true(is_near(r.value, 2));
	assert_true(r.interval && is_near(r.interval->first, 2) && is_near(r.interval->second, 2));
}

/* Medians of 301 figures that are drawn from 1 to 301 are spread like a binomial distribution's
 * share of 1/2: 95 % are within 1.96 sqrt(301) / 2 = 17 of 151, 90 % within 14. */
static void interval_has_95_percent(void **)
{
	const median_ratio r = ratio_to(up_to(301), 1);

	assert_true(is_near(r.value, 151));
	assert_true(r.interval.has_value());
	assert_true(std::fabs(r.interval->first - 134) < 1.5);
	assert_true(std::fabs(r.interval->second - 168) < 1.5);
}

/* Both medians vary: their ratio, near 1, does so by the square root of 2 as much. */
static void interval_of_two_rows(void **)
{
	samples v = up_to(301), w = up_to(301);

	for (double &x : v)
		x = 10000 + x;
	for (double &x : w)
		x = 5000 + x / 2;

	const median_ratio r = ratio_of(v, w), inverse = ratio_of(w, v);
	const double half = 17 * std::sqrt(2) / 10151;

	assert_true(is_near(r.value, 2) && is_near(inverse.value, 0.5));
	assert_true(r.interval && inverse.interval);
	assert_true(std::fabs((r.interval->second - r.interval->first) / 2 - 2 * half) < half / 5);
	assert_true(r.interval->first < 2 && r.interval->second > 2);
	assert_true(inverse.interval->first < 0.5 && inverse.interval->second > 0.5);
}

static void interval_in_terms_of_a_constant(void **)
{
	const median_ratio r = ratio_to({ 1, 2, 3, 4, 5 }, 2), s = ratio_to({ 1, 2, 3, 4, 5 }, 1);

	assert_true(is_near(r.value, 1.5) && is_near(s.value, 3));
	assert_true(r.interval && s.interval);
	assert_true(is_near(r.interval->first * 2, s.interval->first));
	assert_true(is_near(r.interval->second * 2, s.interval->second));
}

static void same_figures_have_the_same_interval(void **)
{
	const median_ratio r = ratio_of(up_to(21), up_to(10)), s = ratio_of(up_to(21), up_to(10));

	assert_true(r.interval && r.interval == s.interval);
}

static void one_figure_has_no_interval(void **)
{
	assert_true(is_near(ratio_of({ 3 }, { 1, 2, 3 }).value, 1.5));
	assert_false(ratio_of({ 3 }, { 1, 2, 3 }).interval.has_value());
	assert_false(ratio_of({ 1, 2, 3 }, { 3 }).interval.has_value());
	assert_false(ratio_to({ 3 }, 2).interval.has_value());
}

/* A divisor that may be 0 or less gives no interval, and nothing that is no number. */
static void divisor_that_may_be_0(void **)
{
	assert_false(ratio_of({ 1, 2, 3 }, { 0, 1, 2 }).interval.has_value());
	assert_false(ratio_of({ 1, 2, 3 }, { -1, 1, 2 }).interval.has_value());
	assert_true(ratio_of({ 0, 0, 1 }, { 1, 1, 2 }).interval.has_value());
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_figures),
		cmocka_unit_test(median_of_an_odd_number),
		cmocka_unit_test(one_figure),
		cmocka_unit_test(equal_figures),
		cmocka_unit_test(interval_has_95_percent),
		cmocka_unit_test(interval_of_two_rows),
		cmocka_unit_test(interval_in_terms_of_a_constant),
		cmocka_unit_test(same_figures_have_the_same_interval),
		cmocka_unit_test(one_figure_has_no_interval),
		cmocka_unit_test(divisor_that_may_be_0),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}

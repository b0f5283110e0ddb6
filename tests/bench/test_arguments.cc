/* SPDX-License-Identifier: MIT */
/* test_arguments.cc - the command line of all benchmarks. */
#include "arguments.h"
#include "test.h"

static arguments parse(std::vector<const char *> args)
{
	args.insert(args.begin(), "bench");
	return parse_arguments(int(args.size()), const_cast<char **>(args.data()));
}

static void no_options(void **)
{
	const arguments o = parse({});

	assert_false(o.full || o.quick || o.is_lower_tier || o.json_path);
	assert_true(o.wrong.empty() && o.others.empty());
	assert_true(o.want("any") && o.want(""));
}

static void own_options_and_others(void **)
{
	const arguments o = parse(
		{ "--full", "--benchmark_x=1", "--json", "file", "--quick", "more", "--tier" });

	assert_true(o.full && o.quick && o.is_lower_tier && o.wrong.empty());
	assert_string_equal(o.json_path, "file");
	assert_int_equal(o.others.size(), 2);
	assert_string_equal(o.others[0], "--benchmark_x=1");
	assert_string_equal(o.others[1], "more");
}

static void filter_is_an_extended_expression(void **)
{
	const arguments o = parse({ "--benchmark_filter=1024|^delay$" });

	assert_true(o.want("1024 flows") && o.want("delay"));
	assert_false(o.want("delays") || o.want("64 flows"));
	assert_int_equal(o.others.size(), 1);
}

static void filter_excludes(void **)
{
	const arguments o = parse({ "--benchmark_filter=-flows" });

	assert_true(o.want("delay"));
	assert_false(o.want("64 flows"));
}

static void last_filter_counts(void **)
{
	const arguments o = parse({ "--benchmark_filter=a", "--benchmark_filter=b" });

	assert_true(o.want("b") && !o.want("a"));
	assert_true(parse({ "--benchmark_filter=a", "--benchmark_filter=all" }).want("b"));
}

static void bad_options_are_named(void **)
{
	for (const char *bad : { "--benchmark_filter=[", "--benchmark_filter=-(",
				 "--benchmark_repetitions=0", "--benchmark_repetitions=-1",
				 "--benchmark_repetitions=x", "--benchmark_repetitions=" }) {
		const std::string option(bad, std::string(bad).find('='));

		assert_int_equal(parse({ bad }).wrong.compare(0, option.size(), option), 0);
		assert_true(parse({ bad }).wrong.size() > option.size());
	}
	assert_true(parse({ "--benchmark_repetitions=1" }).wrong.empty());
	assert_string_equal(parse({ "--quick", "--json" }).wrong.c_str(), "--json takes a file");
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_options),
		cmocka_unit_test(own_options_and_others),
		cmocka_unit_test(filter_is_an_extended_expression),
		cmocka_unit_test(filter_excludes),
		cmocka_unit_test(last_filter_counts),
		cmocka_unit_test(bad_options_are_named),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}

/* SPDX-License-Identifier: MIT */
/* test_events.cc - the hardware events of the course work: all rows, and what the kernel gets. */
#include <cstdlib>
#include <set>

#include "published/events.h"
#include "test.h"

static void all_rows_are_there(void **)
{
	std::set<std::string> seen;
	unsigned first_level = 0;

	for (auto &e : events) {
		first_level += std::string(e.what, 2) == "L1";
		assert_true(seen.insert(e.what).second);
		assert_true(!e.names.empty());
	}
	assert_int_equal(first_level, 3);
	assert_int_equal(events.size(), 22);
}

/* A Xeon E5620 is a Westmere. Each row has an event of its own there. */
static void xeon_of_the_course_work_has_all(void **)
{
	std::set<uint64_t> seen;

#ifndef HAVE_LIBPFM
	skip();
#endif
	for (auto &e : events) {
		auto code = encode(std::string("wsm_dp::") + e.names[0]);

		assert_true(code.has_value());
		assert_int_equal(code->type, 4); /* PERF_TYPE_RAW */
		assert_true(seen.insert(code->config).second);
	}
}

/* Codes of Intel's manual: event and unit mask. */
static void codes_are_the_manuals(void **)
{
	static const struct {
		const char *name;
		uint64_t config;
	} known[] = {
		{ "wsm_dp::L1D_PREFETCH:MISS", 0x24e },	 { "wsm_dp::L2_RQSTS:RFOS", 0xc24 },
		{ "wsm_dp::L2_WRITE:LOCK_HIT", 0xe027 }, { "skl::L2_RQSTS:ALL_RFO", 0xe224 },
		{ "skl::L2_RQSTS:MISS", 0x3f24 },
	};

#ifndef HAVE_LIBPFM
	skip();
#endif
	for (auto &k : known) {
		auto code = encode(k.name);

		assert_true(code && code->config == k.config);
	}
}

static void first_event_that_is_there(void **)
{
#ifndef HAVE_LIBPFM
	skip();
#endif
	auto code = encode_first(
		{ "skl::L2_RQSTS:RFOS", "skl::L2_RQSTS:ALL_RFO", "skl::L2_RQSTS:MISS" });

	assert_true(code && code->config == 0xe224);
	assert_false(encode_first({ "skl::L2_RQSTS:RFOS" }).has_value());
}

static void unknown_event(void **)
{
	assert_false(encode("wsm_dp::NO_SUCH_EVENT").has_value());
}

/* Either the kernel counts an event, or there is a reason. */
static void each_event_is_counted_or_has_a_reason(void **)
{
	const event_counts counts;

	for (size_t i = 0; i < events.size(); i++)
		assert_true(counts.why_not(i).empty() || !counts.of(i).has_value());
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_rows_are_there),
		cmocka_unit_test(xeon_of_the_course_work_has_all),
		cmocka_unit_test(codes_are_the_manuals),
		cmocka_unit_test(first_event_that_is_there),
		cmocka_unit_test(unknown_event),
		cmocka_unit_test(each_event_is_counted_or_has_a_reason),
	};

	setenv("LIBPFM_ENCODE_INACTIVE", "1", 1); /* also events of other CPUs */
	return cmocka_run_group_tests(tests, nullptr, nullptr);
}

/* SPDX-License-Identifier: MIT */
/* test_flows.cc - which flows the packets of the data-plane benchmark belong to. */
#include <set>

#include "published/flows.h"
#include "test.h"

static const uint64_t most = UINT64_MAX;

static void flows_have_a_home(void **)
{
	for (unsigned worker = 0; worker < 3; worker++)
		for (uint64_t random : { uint64_t(0), uint64_t(1) << 63, most }) {
			assert_int_equal(flow_of(AT_HOME, worker, 3, 9, 998, random) % 3, worker);
			assert_true(flow_of(AT_HOME, worker, 3, 9, 998, random) < 9);
		}
}

static void one_packet_in_1000_is_elsewhere(void **)
{
	unsigned away = 0;

	for (uint64_t nth = 0; nth < 5000; nth++)
		away += flow_of(AT_HOME, 1, 2, 8, nth, nth << 40) % 2 != 1;
	assert_int_equal(away, 5);
}

static void without_affinity_all_flows_are_everywhere(void **)
{
	for (unsigned worker = 0; worker < 2; worker++) {
		std::set<size_t> seen;

		for (uint64_t i = 0; i < 64; i++)
			seen.insert(flow_of(ANYWHERE, worker, 2, 8, i, i << 58));
		assert_int_equal(seen.size(), 8);
		assert_int_equal(*seen.rbegin(), 7);
	}
}

static void one_flow_is_that_of_all(void **)
{
	for (unsigned worker = 0; worker < 4; worker++)
		assert_int_equal(flow_of(ONE_FLOW, worker, 4, 1024, 999, most), 0);
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flows_have_a_home),
		cmocka_unit_test(one_packet_in_1000_is_elsewhere),
		cmocka_unit_test(without_affinity_all_flows_are_everywhere),
		cmocka_unit_test(one_flow_is_that_of_all),
	};

	return cmocka_run_group_tests(tests, nullptr, nullptr);
}

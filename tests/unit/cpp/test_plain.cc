/* SPDX-License-Identifier: MIT */
/* test_plain.cc - without exceptions and RTTI: each class is made, or refused, by an error code. */
#include "cpp.h"

#if defined(__cpp_exceptions) || defined(__cpp_rtti)
#error "this is compiled without exceptions and RTTI"
#endif

using namespace std::chrono_literals;

struct port {
	uint64_t packets, bytes;
};

static void in_a_segment(void **)
{
	std::error_code ec = std::make_error_code(std::errc::io_error);
	percpu::segment s(test_path("plain"), ec);

	holds(s && !ec);

	const percpu::counter c{ s, "c", ec };
	const percpu::latency<> l{ s, "l", ec };
	const percpu::stats<port> p{ s, "p", "field", { "packets", "bytes" }, ec };
	const percpu::family<percpu::counter, 1> f{ s, "f", { "user" }, 10, ec };
	const percpu::owned_gauge o{ s, "o", PERCPU_OWNED_MAX, ec };

	holds(c && l && p && f && o && !ec);
	c.inc();
	l.record(1ms);
	{
		const auto t = l.time();
	}
	assert_int_equal(p.update({ 1, 2 }), 0);
	assert_int_equal(f.add(2, "ann"), 0);
	assert_int_equal(o.set(3), 0);
	assert_int_equal(c.fetch(), 1);
	assert_int_equal(l.fetch(ec)->count, 2);
	assert_int_equal(p.fetch(ec).bytes, 2);
	assert_int_equal(f.with(ec, "ann").fetch(), 2);
	assert_int_equal(o.fetch(PERCPU_OWNED_ALL, ec).value_or(0), 3);
	holds(!ec);
	holds(!percpu::gauge(s, "c", ec) && ec == std::errc::file_exists);
}

static void alone(void **)
{
	std::error_code ec;
	const auto c = percpu::make<percpu::counter>(ec);
	percpu::histogram_options o;

	holds(c && !ec);
	c->add(2);
	assert_int_equal(c->fetch(), 2);
	o.buckets_per_octave = 3;
	holds(!percpu::make<percpu::histogram>(o, ec) && ec == std::errc::invalid_argument);
}

int main()
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(in_a_segment),
					    cmocka_unit_test(alone) };

	return cmocka_run_group_tests(tests, nullptr, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/* test_latency.cc - histograms of durations: ticks, units, conversions, and timers. */
#include <thread>

#include "cpp.h"

using namespace std::chrono_literals;
using std::chrono::duration;
using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/* Neither a multiple of a nanosecond, nor a nanosecond of it. */
using frames = duration<int, std::ratio<1, 44100>>;

/* What one duration leaves in a new histogram. */
struct outcome {
	uint64_t count, ticks, refused;
	double sum;
};

template <class Latency, class Duration> static outcome recorded(Duration d)
{
	const auto h = percpu::make<Latency>();

	h->record(d);

	const auto s = h->fetch();
	outcome got = { s->count, 0, s->refused, s->sum };

	for (uint32_t i = 0; i < s->n; i++)
		got.ticks += s->bucket[i].ticks;
	return got;
}

static void whole_ticks(void **)
{
	using ns = percpu::latency<nanoseconds>;

	assert_int_equal(recorded<ns>(1234567ns).ticks, 1234567);
	assert_int_equal(recorded<ns>(5ms).ticks, 5000000);
	assert_int_equal(recorded<ns>(3h).ticks, 10800000000000);
	holds(recorded<ns>(5ms).sum == 0.005);
	holds(recorded<ns>(duration<double>(0.25)).sum == 0.25);
	assert_int_equal(recorded<ns>(duration<double, std::nano>(2.75)).ticks, 3);
	assert_int_equal(recorded<percpu::latency<microseconds>>(2999ns).ticks, 2);
	assert_int_equal(recorded<percpu::latency<microseconds>>(7us).ticks, 7);
	assert_int_equal(recorded<ns>(0ns).count, 1);
	assert_int_equal(recorded<percpu::latency<microseconds>>(frames(44100)).ticks, 1000000);
	assert_int_equal(recorded<ns>(frames(1)).ticks, 22675);
}

static void doubles(void **)
{
	holds(recorded<percpu::latency<>>(250ms).sum == 0.25);
	holds(recorded<percpu::latency<>>(2s).sum == 2);
	holds(recorded<percpu::latency<>>(duration<double, std::milli>(0.5)).sum == 0.0005);
	assert_int_equal(recorded<percpu::latency<>>(1s).ticks, 0);
}

/* The exported unit is that of the type. */
static void units(void **)
{
	using in_ms = percpu::latency<microseconds, milliseconds>;
	using of_ms = percpu::latency<duration<double>, milliseconds>;

	assert_int_equal(recorded<in_ms>(1500us).ticks, 1500);
	holds(recorded<in_ms>(1500us).sum == 1.5);
	holds(recorded<of_ms>(1500us).sum == 1.5);
}

static void refused(void **)
{
	using ns = percpu::latency<nanoseconds>;

	/* 64 bits have a small number of the ticks of that many hours. */
	for (const outcome got :
	     { recorded<ns>(-1ns), recorded<ns>(-1h), recorded<ns>(std::chrono::hours::max()),
	       recorded<ns>(std::chrono::hours(5124096)), recorded<percpu::latency<>>(-1s),
	       recorded<percpu::latency<microseconds>>(-1ns), recorded<ns>(frames(-1)),
	       recorded<ns>(duration<uint64_t, std::nano>(UINT64_MAX)),
	       recorded<ns>(duration<double>(NAN)) }) {
		assert_int_equal(got.count, 0);
		assert_int_equal(got.refused, 1);
	}
}

/* Return the unit of the metric in a picture. */
static std::string unit_of(const char *path, const char *name)
{
	struct percpu_reader_series at;
	percpu_reader *r;
	std::string unit;

	if (percpu_reader_open(path, &r) != 0 || percpu_reader_read(r) != 0)
		return "no picture";
	for (size_t i = 0; percpu_reader_series(r, i, &at) == 0; i++)
		if (std::strcmp(at.name, name) == 0)
			unit = at.unit;
	percpu_reader_close(r);
	return unit;
}

/* A metric of that unit, which is its name, too, has it in a picture. */
template <class Unit> static void exported(percpu::segment &s, const char *unit)
{
	const percpu::latency<duration<double>, Unit> declared{ s, unit };

	holds(unit_of(test_path("declared"), unit) == unit);
}

/* A metric has the unit of its type, and C finds it with its options. */
static void declared(void **)
{
	const char *const path = test_path("declared");
	percpu::segment s(path);
	const percpu::latency<> seconds{ s, "seconds" };
	const percpu::latency<microseconds, milliseconds> ms{ s, percpu::metric("ms").unit("x") };
	const percpu::family<percpu::latency<nanoseconds>, 1> f{ s, "f", { "a" }, 2 };
	percpu_histogram_options o = percpu::histogram_options();
	const percpu_metric m = percpu::metric("ms").unit("milliseconds").get();
	percpu_histogram *same;

	seconds.record(1s);
	ms.record(1s);
	f.with("v").record(1s);
	holds(unit_of(path, "seconds") == "seconds");
	holds(unit_of(path, "ms") == "milliseconds");
	holds(unit_of(path, "f") == "seconds");
	exported<nanoseconds>(s, "nanoseconds");
	exported<microseconds>(s, "microseconds");
	exported<std::chrono::minutes>(s, "minutes");
	exported<std::chrono::hours>(s, "hours");
	exported<duration<int, std::ratio<86400>>>(s, "days");
	o.ticks_per_unit = 1000;
	assert_int_equal(percpu_segment_histogram(s.get(), &m, &o, &same), 0);
	assert_ptr_equal(same, ms.get());
}

/* A timer records once, when its scope ends, also by an exception. */
template <class Latency> static void timed(double in_a_second)
{
	const auto h = percpu::make<Latency>();
	const auto begun = std::chrono::steady_clock::now();

	{
		const auto t = h->time();

		std::this_thread::sleep_for(2ms);
		assert_int_equal(h->fetch()->count, 0);
	}

	const duration<double> most = std::chrono::steady_clock::now() - begun;
	const auto s = h->fetch();

	assert_int_equal(s->count, 1);
	holds(s->sum >= 0.0019 * in_a_second && s->sum <= most.count() * 1.01 * in_a_second);
	try {
		const typename Latency::timer t(*h);

		throw 1;
	} catch (int) {
	}
	assert_int_equal(h->fetch()->count, 2);
}

static void timers(void **)
{
	timed<percpu::latency<>>(1);
	timed<percpu::latency<nanoseconds>>(1);
	timed<percpu::latency<duration<double>, milliseconds>>(1000);
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whole_ticks), cmocka_unit_test(doubles),  cmocka_unit_test(units),
		cmocka_unit_test(refused),     cmocka_unit_test(declared), cmocka_unit_test(timers),
	};

	return cmocka_run_group_tests(tests, nullptr, test_remove_paths);
}

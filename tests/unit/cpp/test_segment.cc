/* SPDX-License-Identifier: MIT */
/* test_segment.cc - metrics and families of a segment, as C and readers have them; errors. */
#include <utility>

#include "cpp.h"

struct port {
	uint64_t packets, bytes;
};

/* Return the series of that name in a picture; asserts that there is one. */
static struct percpu_reader_series series_of(const percpu_reader *r, const char *name)
{
	struct percpu_reader_series at;

	for (size_t i = 0; percpu_reader_series(r, i, &at) == 0; i++)
		if (std::strcmp(at.name, name) == 0)
			return at;
	fail_msg("no series %s", name);
	return at;
}

/* Open a segment in a new file, by its descriptor so that each test has its own. */
static percpu::segment opened(const char *name)
{
	return percpu::segment(test_path(name));
}

/* Each kind is the object that C declares under the name. */
static void kinds(void **)
{
	percpu::segment s = opened("kinds");
	const percpu_metric c = percpu::metric("c").get(), h = percpu::metric("h").get();
	const percpu::counter counter{ s, "c" };
	const percpu::fcounter fcounter{ s, "f" };
	const percpu::gauge gauge{ s, "g" };
	const percpu::fgauge fgauge{ s, "fg" };
	const percpu::latest latest{ s, "l" };
	const percpu::extrema<int64_t> words{ s, "w" };
	const percpu::extrema<double> doubles{ s, "d" };
	const percpu::owned_gauge owned{ s, "o" };
	const percpu::owned_fgauge most{ s, "m", PERCPU_OWNED_MAX | PERCPU_OWNED_KEEP };
	const percpu::histogram histogram{ s, "h" };
	percpu_counter *same;
	percpu_histogram *same_histogram;

	counter.inc();
	(void)fcounter.add(0.5);
	gauge.inc();
	(void)fgauge.add(0.5);
	(void)latest.set(1);
	(void)words.observe(1);
	(void)doubles.observe(0.5);
	holds(!most.fetch().has_value());
	assert_int_equal(owned.fetch().value(), 0);
	assert_int_equal(owned.inc(), 0);
	assert_int_equal(owned.inc(), 0);
	assert_int_equal(owned.dec(), 0);
	assert_int_equal(owned.add(4), 0);
	assert_int_equal(most.set(2.5), 0);
	assert_int_equal(owned.fetch().value(), 5);
	holds(most.fetch(PERCPU_OWNED_ALL) == 2.5);
	assert_int_equal(percpu_owned_fgauge_rule(most.get()), PERCPU_OWNED_MAX);
	assert_int_equal(percpu_segment_counter(s.get(), &c, &same), 0);
	assert_ptr_equal(same, counter.get());
	assert_int_equal(percpu_segment_histogram(s.get(), &h, nullptr, &same_histogram), 0);
	assert_ptr_equal(same_histogram, histogram.get());
}

/* Names, help, units and labels arrive at a reader. */
static void texts(void **)
{
	percpu::segment s = opened("texts");
	const percpu::metric sent = percpu::metric("sent_total").help("What was sent.").unit("x");
	const percpu::counter one{ s, sent.label("code", "200").label("method", "GET") };
	const percpu::family<percpu::counter, 1> family{
		s, percpu::metric("family_total").help("Of a family.").unit("y"), { "user" }, 9
	};
	percpu_reader *r;

	s.info(percpu::metric("build_info").label("version", "1"));
	one.add(3);
	assert_int_equal(family.add(1, "ann"), 0);
	assert_int_equal(percpu_reader_open(test_path("texts"), &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);

	const struct percpu_reader_series got = series_of(r, "sent_total");

	assert_string_equal(got.help, "What was sent.");
	assert_string_equal(got.unit, "x");
	assert_int_equal(got.labels, 2);
	assert_string_equal(got.label_names[0], "code");
	assert_string_equal(got.label_values[0], "200");
	assert_string_equal(got.label_names[1], "method");
	assert_string_equal(got.label_values[1], "GET");
	assert_string_equal(series_of(r, "build_info").label_values[0], "1");
	assert_string_equal(series_of(r, "family_total").help, "Of a family.");
	assert_string_equal(series_of(r, "family_total").unit, "y");
	percpu_reader_close(r);
}

static void statistics(void **)
{
	percpu::segment s = opened("stats");
	const percpu::stats<port> p{ s, "events_total", "event", { "packets", "bytes" } };
	std::error_code ec;
	struct percpu_reader_series got;
	percpu_reader *r;

	assert_int_equal(p.update({ 2, 30 }), 0);
	assert_int_equal(p.fetch().bytes, 30);
	assert_int_equal(percpu_reader_open(test_path("stats"), &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	got = series_of(r, "events_total");
	assert_int_equal(got.kind, PERCPU_METRIC_STATS);
	percpu_reader_close(r);

	const percpu::stats<port> other{ s, "events_total", "event", { "packets", "octets" }, ec };

	holds(!other && ec == std::errc::file_exists);
}

static void exemplars(void **)
{
	percpu::segment s = opened("exemplars");
	const percpu::metric m("slow_total");
	std::error_code ec;
	percpu_exemplar got;

	holds(!percpu::exemplars(s, m, ec) && ec == std::errc::no_such_file_or_directory);

	const percpu::counter c{ s, m };
	const percpu::exemplars x{ s, m };

	assert_int_equal(x.store(2, { { "trace_id", "4bf9" }, { "span_id", "a3" } }), 0);
	assert_int_equal(percpu_exemplars_fetch(x.get(), 0, &got), 0);
	assert_int_equal(got.labels, 2);
	assert_string_equal(got.text + got.label_values[1], "a3");
}

/* Handles stay valid when their segment is moved, and it is closed once. An owner that was moved
 * from is none. NOLINTBEGIN(bugprone-use-after-move) */
static void moved(void **)
{
	percpu::segment first = opened("moved"), second;
	const percpu::counter c{ first, "c" };
	percpu_segment *const in_c = first.get();

	second = std::move(first);
	holds(!first && second.get() == in_c);
	c.add(2);

	percpu::segment third(std::move(second));

	c.add(3);
	holds(third && !second);
	assert_int_equal(percpu::counter(third, "c").fetch(), 5);
	third = percpu::segment(test_path("moved"));
	assert_int_equal(percpu::counter(third, "c").fetch(), 5);
}
/* NOLINTEND(bugprone-use-after-move) */

/* The descriptor that each open segment has is closed. */
static void closed(void **)
{
	const test_holding before = test_holding_now();

	for (int i = 0; i < 3; i++) {
		percpu::segment s = opened("closed"), other = opened("closed_too");

		s = std::move(other);
		percpu::counter(s, "c").inc();
		assert_int_equal(test_holding_now().fds, before.fds + 1);
	}
	assert_int_equal(test_holding_now().fds, before.fds);
}

/* Flags and options are passed on. */
static void options(void **)
{
	percpu::segment_options o;
	std::error_code ec;

	o.program = "test";
	{
		percpu::segment s(test_path("options"), PERCPU_SEGMENT_CREATE, o);

		percpu::counter(s, "c").add(3);
	}
	o.program = "other";
	holds(!percpu::segment(test_path("options"), 0, o, ec) && ec == std::errc::file_exists);
	assert_throws([&] { percpu::segment(test_path("options"), 0, o); }, std::errc::file_exists,
		      percpu_error());
	o.program = "test";

	percpu::segment s(test_path("options"), PERCPU_SEGMENT_ANEW, o);

	assert_int_equal(percpu::counter(s, "c").fetch(), 0);
	s.join("7");
	s.join("7", 0, ec);
	holds(!ec);
	s.join("", 0, ec);
	holds(ec == std::errc::invalid_argument);
	ec.clear();
	s.join("7", ~PERCPU_OWNERS_RESUME, ec);
	holds(ec == std::errc::invalid_argument);
	assert_throws([&] { s.join("7", ~PERCPU_OWNERS_RESUME); }, std::errc::invalid_argument,
		      percpu_error());
}

/* Both ways of a call say the same. */
static void errors(void **)
{
	percpu::segment s = opened("errors");
	const percpu::counter c{ s, "c" };
	std::error_code ec;

	holds(!percpu::gauge(s, "c", ec) && ec == std::errc::file_exists);

	const std::string sentence = percpu_error();

	holds(sentence.find("c: ") == 0);
	holds(ec.category() == std::generic_category());
	assert_throws([&] { percpu::gauge(s, "c"); }, std::errc::file_exists, sentence.c_str());
	holds(percpu::counter(s, "c", ec) && !ec);
	s.info(percpu::metric("no labels \xff"), ec);
	holds(ec == std::errc::illegal_byte_sequence);
	assert_throws([&] { s.info(percpu::metric("no labels \xff")); },
		      std::errc::illegal_byte_sequence, percpu_error());
	holds(!percpu::segment(test_path("no/such"), ec));
	holds(ec == std::errc::no_such_file_or_directory);
	assert_throws([] { percpu::segment(test_path("no/such")); },
		      std::errc::no_such_file_or_directory, percpu_error());
	holds(!percpu::counter(s, nullptr, ec) && ec == std::errc::invalid_argument);

	percpu::segment none;

	assert_throws([&] { none.join("x"); }, std::errc::invalid_argument, percpu_error());
	holds(!percpu::counter(none, "c", ec) && ec == std::errc::invalid_argument);
}

static void too_many_labels(void **)
{
	percpu::segment s = opened("labels");
	percpu::metric m("c");
	std::string names[PERCPU_METRIC_LABELS + 2];
	std::error_code ec;

	for (size_t i = 0; i < PERCPU_METRIC_LABELS; i++) {
		names[i] = "label" + std::to_string(i);
		m = m.label(names[i].c_str(), "v");
	}
	holds(percpu::counter(s, m, ec) && !ec);
	m = m.label("one", "v").label("more", "v");
	holds(!percpu::counter(s, m, ec) && ec == std::errc::argument_list_too_long);
}

static void families(void **)
{
	percpu::segment s = opened("families");
	const percpu::metric m = percpu::metric("requests_total").help("Requests.");
	const percpu::family<percpu::counter, 2> f{ s, m, { "method", "code" }, 3 };
	const char text[] = "GET404POST";
	const std::string code = "200";
	const char *const values[] = { "GET", "404" };
	std::error_code ec;
	percpu_counter *same;

	assert_int_equal(f.add(2, "GET", code), 0);
	f.with(std::string_view(text, 3), std::string_view(text + 3, 3)).inc();
	ec = left();
	f.with(ec, "GET", "404").inc();
	holds(!ec);
	ec = left();
	holds(percpu::family<percpu::counter, 2>(s, m, { "method", "code" }, 3, ec) && !ec);
	assert_int_equal(percpu_family_counter(f.get(), values, &same), 0);
	assert_ptr_equal(same, f.with("GET", "404").get());
	assert_int_equal(f.with("GET", "404").fetch(), 2);
	assert_int_equal(f.with("GET", "200").fetch(), 2);
	(void)f.with(ec, "", std::string_view());
	holds(!ec);
	assert_int_equal(f.overflows(), 0);
	assert_int_equal(f.add(1, "PUT", "200"), 0);
	assert_int_equal(f.overflows(), 1);
	assert_int_equal(f.invalid(), 0);
	assert_int_equal(f.add(1, "\xff", "200"), 0);
	assert_int_equal(f.add(1, std::string_view("2\0", 2), "200"), 0);
	assert_int_equal(f.invalid(), 2);
	assert_int_equal(f.with(PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW).fetch(), 3);

	const percpu::family<percpu::gauge, 2> other{ s, m, { "method", "code" }, 3, ec };

	holds(!other && ec == std::errc::file_exists);
	assert_throws(
		[&] {
			percpu::family<percpu::counter, 2>(s, m, { "method", "code" }, 4);
		},
		std::errc::file_exists, percpu_error());
	assert_throws([&] { (void)other.with("a", "b"); }, std::errc::invalid_argument,
		      percpu_error());
	assert_int_equal(other.add(1, "a", "b"), -EINVAL);
	assert_int_equal((percpu::family<percpu::histogram, 1>().record(1, "a")), -EINVAL);
	(void)percpu::family<percpu::counter, 2>(s, m.label("x", "y"), { "a", "b" }, 4, ec);
	holds(ec == std::errc::invalid_argument);
}

/* Families of kinds with options have these. */
static void families_of_kinds(void **)
{
	using namespace std::chrono_literals;
	percpu::segment s = opened("kinds_of_families");
	const percpu::family<percpu::owned_gauge, 1> o{ s, "o", { "a" }, 9, PERCPU_OWNED_MAX };
	const percpu::family<percpu::owned_fgauge, 1> m{ s, "m", { "a" }, 9, PERCPU_OWNED_MIN };
	const percpu::family<percpu::fcounter, 1> d{ s, "d", { "a" }, 9 };
	const percpu::family<percpu::extrema<double>, 1> x{ s, "x", { "a" }, 9 };
	percpu::histogram_options bounds;
	const double bound = 4;

	bounds.bounds = &bound;
	bounds.bounds_n = 1;

	const percpu::family<percpu::histogram, 1> h{ s, "h", { "a" }, 9, bounds };
	const percpu::family<percpu::latency<std::chrono::nanoseconds>, 1> l{ s, "l", { "a" }, 9 };

	assert_int_equal(percpu_owned_gauge_rule(o.with("v").get()), PERCPU_OWNED_MAX);
	assert_int_equal(o.add(1, "v"), 0);
	assert_int_equal(percpu_owned_fgauge_rule(m.with("v").get()), PERCPU_OWNED_MIN);
	assert_int_equal(d.add(0.5, "v"), 0);
	assert_int_equal(d.add(NAN, "v"), -EDOM);
	holds(d.with("v").fetch() == 0.5);
	assert_int_equal(x.with("v").observe(0.5), 0);
	assert_int_equal(h.record(7, "v"), 0);
	assert_int_equal(h.with("v").fetch()->bucket[1].count, 1);
	assert_int_equal(l.record(20ms, "v"), 0);
	assert_int_equal(l.with("v").fetch()->ticks_per_unit, 1000000000);
	holds(l.with("v").fetch()->sum == 0.02);
}

static int remove_paths(void **state)
{
	return test_remove_paths(state);
}

int main()
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kinds),	   cmocka_unit_test(texts),
		cmocka_unit_test(statistics),	   cmocka_unit_test(exemplars),
		cmocka_unit_test(moved),	   cmocka_unit_test(closed),
		cmocka_unit_test(options),	   cmocka_unit_test(errors),
		cmocka_unit_test(families),	   cmocka_unit_test(families_of_kinds),
		cmocka_unit_test(too_many_labels),
	};

	return cmocka_run_group_tests(tests, nullptr, remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * cpp.cc - percpu.hpp in each dialect, with and without exceptions; and uses that must not compile.
 * headers.sh compiles it.
 */
#include <percpu/percpu.hpp>

struct port {
	uint64_t packets, bytes;
};

/* Arrays and structs in it are of uint64_t, too. */
struct nested {
	port in, out[2];
	uint64_t by_size[2];
};

struct number {
	double one;
	uint64_t other;
};

struct halves {
	uint32_t half[2];
};

struct bits {
	uint64_t low : 32, high : 32, word;
};

struct nothing {
};

struct large {
	uint64_t field[PERCPU_STATS_MAX_COMMIT + 1];
};

using seconds = percpu::latency<std::chrono::nanoseconds>;

/* Handles are copied, and owners are moved into functions and out of them. */
static percpu::segment passed(percpu::segment s)
{
	return s;
}

static int counts(percpu::segment &s)
{
	std::error_code ec;
	const percpu::counter c{ s, "requests_total", ec };
	const percpu::stats<port> p{ s, "port_total", "event", { "packets", "bytes" }, ec };
	const percpu::family<percpu::counter, 2> f{ s, "f_total", { "a", "b" }, 9, ec };
	const seconds l{ s, "seconds", ec };
	const percpu::unique<percpu::gauge> owner = percpu::make<percpu::gauge>(ec);
	const percpu::counter copy = c;
	const percpu::stats<nested> none;

	if (ec || !copy || !owner || none)
		return 1;
	copy.inc();
	owner->inc();
	p.add(&port::packets, 1);
	(void)p.update({ 1, 2 });
	(void)f.add(1, "x", "y");
	{
		const auto t = l.time();
	}
#ifdef REFUSED_COPY_OF_SEGMENT
	percpu::segment second = s;
#endif
#ifdef REFUSED_COPY_OF_OWNER
	percpu::unique<percpu::gauge> second = owner;
#endif
#ifdef REFUSED_HANDLE_OF_TEMPORARY_SEGMENT
	percpu::counter of_none{ percpu::segment("x", ec), "requests_total", ec };
#endif
#ifdef REFUSED_FAMILY_OF_TEMPORARY_SEGMENT
	percpu::family<percpu::counter, 1> of_none{ percpu::segment("x", ec), "f", { "a" }, 9, ec };
#endif
#ifdef REFUSED_HANDLE_OF_TEMPORARY_OWNER
	percpu::counter of_none = *percpu::make<percpu::counter>(ec);
#endif
#ifdef REFUSED_OWNED_GAUGE_WITHOUT_SEGMENT
	auto alone = percpu::make<percpu::owned_gauge>(ec);
#endif
#ifdef REFUSED_FEWER_VALUES /* "one value for each label of the family" */
	(void)f.add(1, "x");
#endif
#ifdef REFUSED_MORE_VALUES /* "one value for each label of the family" */
	(void)f.with(ec, "x", "y", "z");
#endif
#ifdef REFUSED_VALUE_THAT_IS_A_NUMBER
	(void)f.add(1, "x", 200);
#endif
#ifdef REFUSED_MORE_LABELS
	percpu::family<percpu::counter, 1> more{ s, "f_total", { "a", "b" }, 9, ec };
#endif
#ifdef REFUSED_FAMILY_OF_STATISTICS
	percpu::family<percpu::stats<port>, 1> stats{ s, "f_total", { "a" }, 9, ec };
#endif
#ifdef REFUSED_RECORD_IN_COUNTERS
	(void)f.record(1, "x", "y");
#endif
#ifdef REFUSED_FEWER_NAMES /* "statistics have one name per field of the struct" */
	percpu::stats<port> fewer{ s, "port_total", "event", { "packets" }, ec };
#endif
#ifdef REFUSED_MORE_NAMES /* "statistics have one name per field of the struct" */
	percpu::stats<port> more{ s, "port_total", "event", { "a", "b", "c" }, ec };
#endif
#ifdef REFUSED_FIELD_OF_ANOTHER
	p.add(&large::field, 1, 1);
#endif
#ifdef REFUSED_FIELD_THAT_IS_A_DOUBLE /* "statistics are of a struct of uint64_t" */
	(void)percpu::stats<number>().update({ 0.5, 1 });
#endif
#ifdef REFUSED_FIELDS_OF_FOUR_BYTES /* "statistics are of a struct of uint64_t" */
	percpu::stats<halves> of_halves;
#endif
#ifdef REFUSED_BIT_FIELDS /* "statistics are of a struct of uint64_t" */
	percpu::stats<bits> of_bits;
#endif
#ifdef REFUSED_STRUCT_WITHOUT_FIELDS /* "statistics are of a struct of uint64_t" */
	percpu::stats<nothing> of_nothing;
#endif
#ifdef REFUSED_LARGE /* "statistics have at most PERCPU_STATS_MAX_COMMIT fields" */
	percpu::stats<large> too_large;
#endif
#ifdef REFUSED_PART_OF_A_COUNT /* "a series of integers counts whole numbers" */
	(void)f.add(0.9, "x", "y");
#endif
#ifdef REFUSED_EXTREMA_OF_FLOAT /* "extrema are of int64_t or of double" */
	percpu::extrema<float> x{ s, "x", ec };
#endif
#ifdef REFUSED_NUMBER_AS_DURATION
	l.record(1.5);
#endif
#ifdef REFUSED_PARTS_OF_TICKS /* "a unit has a whole number of ticks" */
	percpu::latency<std::chrono::seconds, std::chrono::milliseconds> parts;
#endif
#ifdef REFUSED_UNIT_WITHOUT_NAME /* "a unit from nanoseconds to days" */
	percpu::latency<std::chrono::nanoseconds, std::chrono::duration<int, std::ratio<7>>> weeks;
#endif
#ifdef REFUSED_COPY_OF_TIMER
	const auto t = l.time();
	const auto second = t;
#endif
#ifdef REFUSED_TIMER_OF_NUMBERS
	const auto t = percpu::histogram(s, "x", ec).time();
#endif
	return copy.fetch() == 1 && p.fetch(ec).packets == 2 && f.with(ec, "x", "y").fetch() == 1 ?
		       0 :
		       1;
}

int main(int argc, char **argv)
{
	std::error_code ec;
	percpu::segment s = passed(percpu::segment(argc == 2 ? argv[1] : "", ec));

	if (ec || counts(s) != 0)
		return 1;
#ifdef __cpp_exceptions
	try {
		percpu::gauge(s, "requests_total");
	} catch (const percpu::error &e) {
		return e.code() == std::errc::file_exists && *e.what() ? 0 : 1;
	}
	return 1;
#else
	return 0;
#endif
}

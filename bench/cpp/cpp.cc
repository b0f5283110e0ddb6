/* SPDX-License-Identifier: MIT */
/*
 * cpp.cc - the benchmark of percpu.hpp: adds, records and look-ups in C, in C++, and by
 * prometheus-cpp; and what a server counts of a request, written with both, in lines and in time.
 *
 * usage: cpp [--quick] [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <fstream>
#include <string>

#include <unistd.h>

#include <percpu/percpu.hpp>

#include "objects.h"
#include "prometheus.h"
#include "requests.h"

#define IN_C ", in C"
#define IN_CPP ", in C++"
#define PROMETHEUS ", prometheus-cpp"
#define COUNT "one add"
#define RECORD "one record of seconds"
#define LOOK_UP "an add by 2 labels"
#define REQUEST "a request"
#define OURS ", percpu.hpp"

static const char *const labels[cells][2] = {
	{ "GET", "200" }, { "GET", "404" },  { "POST", "201" }, { "PUT", "200" },
	{ "GET", "304" }, { "HEAD", "200" }, { "POST", "500" }, { "DELETE", "204" },
};

/* The same path for all segments of this process: it is removed as soon as it is open. */
static std::string segment_path()
{
	return "/dev/shm/percpu-bench-cpp." + std::to_string(getpid());
}

static percpu::segment open_segment()
{
	percpu::segment s(segment_path().c_str());

	unlink(segment_path().c_str());
	return s;
}

struct add_in_cpp : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu::counter(at(i)).add(1);
	}
};

struct record_in_c : on_histogram<of_doubles> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record(h, in_seconds[i]);
	}
};

struct record_in_cpp : on_histogram<of_doubles> {
	[[gnu::always_inline]] void add(unsigned i)
	{
		const percpu::latency<> l(histogram);

		l.record(std::chrono::duration<double>(in_seconds[i]));
	}
};

struct on_family {
	static inline percpu::segment file;
	static inline percpu::family<percpu::counter, 2> family;

	static void make()
	{
		if (family)
			return;
		file = open_segment();
		family = { file, "requests_total", { "method", "status" }, 100 };
		reset();
	}
	static void reset()
	{
		for (const auto &l : labels)
			family.with(l[0], l[1]).zero();
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (const auto &l : labels)
			sum += family.with(l[0], l[1]).fetch();
		return sum;
	}
};

struct look_up_in_c : on_family {
	percpu_family *const f = family.get();

	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_family_add(f, labels[i], 1);
	}
};

struct look_up_in_cpp : on_family {
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)family.add(1, labels[i][0], labels[i][1]);
	}
};

struct request_ours {
	static void make()
	{
		open_percpu(segment_path().c_str());
		unlink(segment_path().c_str());
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		begin_percpu();
		end_percpu(labels[i][1], in_seconds[i]);
	}
};

#ifdef HAVE_PROMETHEUS
#include <prometheus/family.h>
#include <prometheus/registry.h>

struct look_up_prometheus {
	static inline std::unique_ptr<prometheus::Registry> registry;
	static inline prometheus::Family<prometheus::Counter> *family;

	static void reset()
	{
		registry = std::make_unique<prometheus::Registry>();
		family = &prometheus::BuildCounter().Name("requests_total").Register(*registry);
	}
	static double total()
	{
		double sum = 0;

		for (const auto &l : labels)
			sum += family->Add({ { "method", l[0] }, { "status", l[1] } }).Value();
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		family->Add({ { "method", labels[i][0] }, { "status", labels[i][1] } }).Increment();
	}
};

struct request_prometheus {
	static void make()
	{
		open_prometheus();
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		begin_prometheus();
		end_prometheus(labels[i][1], in_seconds[i]);
	}
};
#endif

/* Return how many lines of a source have code. */
static unsigned lines_of(const std::string &name)
{
	std::ifstream source(SOURCES "/" + name);
	std::string line;
	unsigned n = 0;

	while (std::getline(source, line)) {
		const size_t begin = line.find_first_not_of(" \t");

		if (begin != std::string::npos && line.compare(begin, 2, "/*") != 0)
			n++;
	}
	return n;
}

static void register_all()
{
	measure<counter_add>(COUNT IN_C);
	measure<add_in_cpp>(COUNT IN_CPP);
	measure<record_in_c, in_turn>(RECORD IN_C);
	measure<record_in_cpp, in_turn>(RECORD IN_CPP);
	measure<look_up_in_c, in_turn>(LOOK_UP IN_C);
	measure<look_up_in_cpp, in_turn>(LOOK_UP IN_CPP);
	measure<request_ours, in_turn>(REQUEST OURS);
#ifdef HAVE_PROMETHEUS
	measure<prometheus_add<prometheus::Counter>>(COUNT PROMETHEUS);
	measure<prometheus_record, in_turn>(RECORD PROMETHEUS);
	measure<look_up_prometheus, in_turn>(LOOK_UP PROMETHEUS);
	measure<request_prometheus, in_turn>(REQUEST PROMETHEUS);
#endif
}

int main(int argc, char **argv)
{
	report all("cpp", argc, argv);

	fprintf(stderr, "cpp: measuring, for about half a minute ...\n");
	register_all();
	all.run();
	print_rows(all.rows, "One update, ns, CPU time per thread: median (best)",
		   { COUNT IN_C, COUNT IN_CPP, COUNT PROMETHEUS, RECORD IN_C, RECORD IN_CPP,
		     RECORD PROMETHEUS, LOOK_UP IN_C, LOOK_UP IN_CPP, LOOK_UP PROMETHEUS });
	print_rows(all.rows, "Requests by status, latency, in flight: a request",
		   { REQUEST OURS, REQUEST PROMETHEUS });
	for (const std::string name : { "requests_percpu.cc", "requests_prometheus.cc" }) {
		all.add_figure(name, lines_of(name), "lines of code");
		printf("%-27s %u lines of code\n", name.c_str(), lines_of(name));
	}
#ifndef HAVE_PROMETHEUS
	all.skip(PROMETHEUS + 2, "prometheus-cpp is not installed");
#endif
	for (const std::string what : { COUNT, RECORD, LOOK_UP })
		for (int threads : { 1, 2 })
			all.add_aim(
				what + " in C++ to one in C, threads: " + std::to_string(threads),
				1.05, all.rows.ratio(what + IN_CPP, threads, what + IN_C, threads));
	all.print_sections();
	return all.finish();
}

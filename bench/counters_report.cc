/* SPDX-License-Identifier: MIT */
/*
 * counters_report.cc - collects what google-benchmark reports, judges the
 * aims, and writes everything as JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <algorithm>
#include <fstream>

#include <nlohmann/json.hpp>

#include <percpu/percpu.h>

#include "counters.h"

using nlohmann::json;

double row::median() const
{
	std::vector<double> v = ns;

	std::sort(v.begin(), v.end());
	return (v[(v.size() - 1) / 2] + v[v.size() / 2]) / 2;
}

double row::best() const
{
	return *std::min_element(ns.begin(), ns.end());
}

bool results::ReportContext(const Context &)
{
	return true;
}

/* Called with all repetitions of one benchmark at one number of threads. */
void results::ReportRuns(const std::vector<Run> &runs)
{
	row r = {};

	for (auto &run : runs) {
		if (run.error_occurred) {
			fprintf(stderr, "%s: %s\n", run.benchmark_name().c_str(),
				run.error_message.c_str());
			continue;
		}
		if (run.run_type != Run::RT_Iteration)
			continue;

		/* Manual time is that of processes, which the library does not know. */
		bool processes = run.run_name.time_type == "manual_time";
		bool cpu_time = run.run_name.time_type.empty();

		r.name = run.run_name.function_name;
		r.threads = processes ? int(usable_cpus().size()) : int(run.threads);
		for (auto &[name, value] : run.counters) {
			if (name == "ops") {
				r.ns.push_back((cpu_time ? run.cpu_accumulated_time :
							   run.real_accumulated_time) *
					       1e9 / value);
				r.ops += value * (processes ? r.threads : 1);
			} else if (name == "lost") {
				r.lost = r.lost.value_or(0) + value;
			} else {
				r.events[name] += value / double(run.repetitions);
			}
		}
	}
	if (!r.ns.empty())
		rows.push_back(r);
}

const row *results::find(const std::string &name, int threads) const
{
	for (auto &r : rows)
		if (r.name == name && r.threads == threads)
			return &r;
	return nullptr;
}

std::string results::to_json() const
{
	json all = json::array();

	for (auto &r : rows) {
		json j = {
			{ "name", r.name },	     { "threads", r.threads },
			{ "ns_per_op", r.median() }, { "ns_best", r.best() },
			{ "lost", nullptr },	     { "ops", int64_t(r.ops) },
			{ "repetitions_ns", r.ns },
		};

		if (r.lost)
			j["lost"] = int64_t(*r.lost);
		if (!r.events.empty())
			j["events"] = r.events;
		all.push_back(j);
	}
	return all.dump();
}

void results::add_json(const std::string &text)
{
	for (auto &j : json::parse(text)) {
		row r = {};

		r.name = j["name"];
		r.threads = j["threads"];
		r.ns = j["repetitions_ns"].get<std::vector<double>>();
		r.ops = j["ops"];
		if (j["lost"].is_number())
			r.lost = j["lost"].get<double>();
		rows.push_back(r);
	}
}

bool results::save(const std::string &path) const
{
	std::ofstream file(path);
	json all = { { "conditions", json::object() }, { "aims", json::array() } };

	for (auto &[name, value] : conditions(*this))
		all["conditions"][name] = value;
	for (auto &a : aims(*this)) {
		all["aims"].push_back({ { "aim", a.what },
					{ "at_most", a.at_most },
					{ "ratio", nullptr },
					{ "verdict", a.verdict() } });
		if (a.ratio)
			all["aims"].back()["ratio"] = *a.ratio;
	}
	all["rows"] = json::parse(to_json());
	file << all.dump(1, '\t') << "\n";
	file.close();
	return !file.fail();
}

static std::string cpu_model()
{
	std::ifstream info("/proc/cpuinfo");
	std::string line;

	while (std::getline(info, line))
		if (line.rfind("model name", 0) == 0)
			return line.substr(line.find(':') + 2);
	return "unknown";
}

static std::string load_average()
{
	double load[3] = {};
	char text[64];

	getloadavg(load, 3);
	snprintf(text, sizeof(text), "%.2f %.2f %.2f", load[0], load[1], load[2]);
	return text;
}

/* Before the benchmark adds to it. */
static const std::string load_at_start = load_average();

std::vector<std::pair<std::string, std::string>> conditions(const results &r)
{
	auto *st = percpu_status();
	const row *add = r.find(ADD);
	utsname u;

	uname(&u);
	return {
		{ "CPU", cpu_model() },
		{ "CPUs usable", std::to_string(usable_cpus().size()) },
		{ "CPUs possible", std::to_string(st->possible_cpus) },
		{ "kernel", std::string(u.release) + " " + u.machine },
#ifdef __GLIBC__
		{ "libc", std::string("glibc ") + gnu_get_libc_version() },
#endif
#ifdef __clang__
		{ "compiler", __VERSION__ },
#else
		{ "compiler", "GCC " __VERSION__ },
#endif
#ifndef __OPTIMIZE__
		{ "WARNING", "compiled without optimization" },
#endif
		{ "tier", std::string(percpu_tier_name(st->tier)) + ": " + st->reason },
		{ "load average at start", load_at_start },
		{ "load average at end", load_average() },
		{ "repetitions",
		  std::to_string(add ? add->ns.size() : 0) + ", interleaved at random" },
		{ "hardware events", hardware_events() },
	};
}

const char *aim::verdict() const
{
	if (!ratio)
		return "not measured";
	return *ratio <= at_most ? "met" : "missed";
}

std::vector<aim> aims(const results &r)
{
	auto ratio = [&r](const char *a, int a_threads, const char *b) {
		const row *x = r.find(a, a_threads), *y = r.find(b);

		return x && y ? std::optional<double>(x->median() / y->median()) : std::nullopt;
	};

	return {
		{ "an add to an unprotected per-CPU add", 1.2, ratio(ADD, 1, UNPROTECTED) },
		{ "the same, 8 counters in turn", 1.2, ratio(ADD IN_TURN, 1, UNPROTECTED IN_TURN) },
		{ "an add to librseq's", 0.75, ratio(ADD, 1, LIBRSEQ) },
		{ "the same, 8 counters in turn", 0.75, ratio(ADD IN_TURN, 1, LIBRSEQ IN_TURN) },
		{ "an add to a per-CPU locked add", 0.4, ratio(ADD, 1, LOCKED) },
		{ "the same, 8 counters in turn", 0.4, ratio(ADD IN_TURN, 1, LOCKED IN_TURN) },
		/* As fast: within the tenth that medians differ from run to run. */
		{ "an add in 2 threads to one in 1", 1.1, ratio(ADD, 2, ADD) },
	};
}

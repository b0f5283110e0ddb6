/* SPDX-License-Identifier: MIT */
/*
 * scrape.cc - the cost of a scrape of "percpu serve", the release build of the tool: by series,
 * lanes, formats, and processes that have counted and ended; beside other exporters; and what the
 * programs that count notice of it.
 *
 * All figures but the time until the last byte are CPU time: of the server's process, and of the
 * threads that count.
 *
 * usage: scrape [--quick] [--json FILE] [--benchmark_filter=REGEX]
 */
#include <cstdio>
#include <functional>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/family.h>

#include "scrape.h"

#define FIRST "first scrape, "
#define LATER "later scrape, "

static constexpr size_t most = 12800000; /* words of CPU lanes: 100 MB */
static constexpr size_t in_a_segment = 500000;
static constexpr size_t families = 10;
static constexpr size_t few = 100; /* series, in segments of many processes */

static const size_t series_of[] = { 10, 100, 1000, 10000, 100000, 1000000 };
static const unsigned lanes_of[] = { 2, 32, 512 };
static const unsigned processes_of[] = { 1, 100, 10000 };

static const form gzipped = { "text 0.0.4, gzip", "text/plain;version=0.0.4", "text/plain", true };
static const form forms[] = {
	text_004,
	{ "text 1.0.0", "text/plain;version=1.0.0;escaping=allow-utf-8", "text/plain", false },
	{ "OpenMetrics", "application/openmetrics-text;version=1.0.0",
	  "application/openmetrics-text", false },
	{ "protobuf",
	  "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	  "application/vnd.google.protobuf", false },
};

/* Segments. */

static std::string path_of(size_t nth)
{
	static const int pid = getpid();

	return text("/dev/shm/percpu.bench-scrape-%d-%zu", pid, nth);
}

files::~files()
{
	for (auto &path : paths)
		unlink(path.c_str());
}

/* Also of a program that ends by must(). */
static void remove_all()
{
	for (int i = 0; i < 2; i++)
		unlink(path_of(size_t(i)).c_str());
}

percpu_segment *files::make(uint32_t cpus)
{
	static const int at_exit = atexit(remove_all);
	percpu_segment_options o = {};
	percpu_segment *s;

	must(at_exit != 0 ? -ENOMEM : 0, "to remove files at the end");
	o.size = sizeof(o);
	o.cpus = cpus;
	paths.push_back(path_of(paths.size()));
	must(percpu_segment_open(paths.back().c_str(), PERCPU_SEGMENT_CREATE, &o, &s), "a segment");
	return s;
}

static percpu_family *declare_family(percpu_segment *s, size_t nth)
{
	static const char *const labels[] = { "code", "path" };
	const std::string name = text("bench_requests_%zu_total", nth);
	percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_COUNTER, name.c_str(),
						     "Requests that were answered.");
	percpu_family *f;

	d.label_names = labels;
	d.labels = 2;
	d.cap = in_a_segment;
	must(percpu_segment_family(s, &d, &f), "a family");
	return f;
}

std::vector<percpu_counter *> declare_series(percpu_segment *s, size_t first, size_t n)
{
	std::vector<percpu_counter *> all(n);
	std::vector<percpu_family *> family;

	for (size_t i = 0; i < families; i++)
		family.push_back(declare_family(s, i));
	for (size_t i = 0; i < n; i++) {
		const size_t nth = first + i;
		const std::string code = std::to_string(200 + nth % 7),
				  path = "/items/" + std::to_string(nth);
		const char *const values[] = { code.c_str(), path.c_str() };

		must(percpu_family_counter(family[nth % families], values, &all[i]), "a series");
	}
	return all;
}

/* Make segments in which each counter was counted on in each lane. */
static void count_in_lanes(files &to, size_t series, unsigned lanes)
{
	for (size_t first = 0; first < series; first += in_a_segment) {
		percpu_segment *s = to.make(lanes);
		const size_t n = std::min(series - first, in_a_segment);

		for (percpu_counter *c : declare_series(s, first, n))
			for (unsigned lane = 0; lane < lanes; lane++)
				*(uint64_t *)((char *)c + lane * PERCPU_STRIDE) = first + lane + 1;
		percpu_segment_close(s);
	}
}

/* Make a segment of histograms with a thousand values each. */
static void record_in_histograms(files &to, size_t series)
{
	percpu_segment *s = to.make(2);
	percpu_histogram *h;

	for (size_t i = 0; i < series; i++) {
		const std::string name = text("bench_latency_%zu_seconds", i);
		const percpu_metric m = metric(name);

		must(percpu_segment_histogram(s, &m, nullptr, &h), "a histogram");
		for (size_t k = 0; k < 1000; k++)
			percpu_histogram_record(h, 1e-6 * double((k * 7919 + i) % 100000 + 1));
	}
	percpu_segment_close(s);
}

/* Make a segment in which so many processes have counted on each counter. */
static void count_in_processes(files &to, unsigned processes)
{
	percpu_segment *s = to.make(0);
	const std::vector<percpu_counter *> counters = declare_series(s, 0, few);
	int status;

	for (unsigned i = 0; i < processes; i++) {
		const pid_t pid = fork();

		if (pid == 0) {
			for (percpu_counter *c : counters)
				percpu_counter_inc(c);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			must(-ECHILD, "a process that counts");
	}
	percpu_segment_close(s);
}

/* Scrapes. */

static row *row_of(std::vector<row> &rows, const std::string &name)
{
	for (row &r : rows)
		if (r.name == name)
			return &r;
	rows.emplace_back();
	rows.back().name = name;
	rows.back().threads = 1;
	return &rows.back();
}

static void take(row *to, const answer &a)
{
	to->ns.push_back(a.cpu_ns);
	to->ops++;
	to->events["bytes"] = double(a.bytes);
	to->events["wall_ns"] += (a.wall_ns - to->events["wall_ns"]) / to->ops;
}

/* How often a scrape of so many series is repeated. */
static size_t repetitions(size_t series)
{
	return quick ? 2 : series > 100000 ? 3 : series > 10000 ? 7 : 11;
}

/* What is scraped. */
struct subject {
	std::string name;
	size_t series; /* at least so many samples are in an answer as text */
	bool in_all_forms;
};

/* Scrape with a new server, once and again. The peak is that of both as text. */
static void scrape_anew(std::vector<row> &rows, const subject &what, const files &of)
{
	const server here(of.paths);

	for (const char *when : { FIRST, LATER }) {
		const answer a = here.scrape(text_004);
		row *r = row_of(rows, when + what.name + ", " + text_004.name);

		must(a.samples < what.series ? -EPROTO : 0, "all series of an answer");
		take(r, a);
		r->events["peak_bytes"] = std::max(r->events["peak_bytes"], here.peak());
	}
}

static void scrape(report &all, const subject &what, const files &of)
{
	const size_t n = repetitions(what.series);
	std::vector<row> rows;

	fprintf(stderr, "scrape: %s\n", what.name.c_str());
	for (size_t i = 0; i < n; i++)
		scrape_anew(rows, what, of);
	if (what.in_all_forms) {
		const server here(of.paths);

		here.scrape(text_004);
		for (size_t i = 0; i < n; i++) {
			for (const form &f : forms)
				if (f.name != text_004.name)
					take(row_of(rows, LATER + what.name + ", " + f.name),
					     here.scrape(f));
			take(row_of(rows, LATER + what.name + ", " + gzipped.name),
			     here.scrape(gzipped));
		}
	}
	for (const row &r : rows)
		all.rows.add(r);
}

/* Subjects. */

static std::string by_size(size_t series, unsigned lanes)
{
	return text("%zu counters, %u lanes", series, lanes);
}

static std::string by_age(unsigned processes)
{
	return text("%zu counters, %u processes that ended", few, processes);
}

static const char histograms[] = "1000 histograms, 2 lanes";

/* Not if it takes too much time or memory; with --quick, little is. */
static bool is_in_reach(size_t series, unsigned lanes)
{
	if (quick)
		return series <= 1000 && lanes <= 32;
	return series * lanes <= most && (lanes == 2 || series == 10000);
}

static std::vector<std::string> subjects()
{
	std::vector<std::string> names;

	for (size_t series : series_of)
		for (unsigned lanes : lanes_of)
			if (is_in_reach(series, lanes))
				names.push_back(by_size(series, lanes));
	names.push_back(histograms);
	for (unsigned processes : processes_of)
		if (!quick || processes <= 100)
			names.push_back(by_age(processes));
	return names;
}

static void measure(report &all, const subject &what, const std::function<void(files &)> &make)
{
	files here;

	if (!all.given.want(what.name))
		return;
	make(here);
	scrape(all, what, here);
}

static void measure_subjects(report &all)
{
	for (unsigned processes : processes_of)
		if (!quick || processes <= 100)
			measure(all, { by_age(processes), few, false },
				[=](files &to) { count_in_processes(to, processes); });
	for (size_t series : series_of)
		for (unsigned lanes : lanes_of)
			if (is_in_reach(series, lanes))
				measure(all, { by_size(series, lanes), series, lanes == 2 },
					[=](files &to) { count_in_lanes(to, series, lanes); });
	measure(all, { histograms, 1000, true }, [](files &to) { record_in_histograms(to, 1000); });
}

/* The table. */

static std::string ms(const row *r)
{
	return r ? text("%.3g", r->median() / 1e6) : "-";
}

static std::string event(const row *r, const char *name, double unit)
{
	return r ? text("%.3g", r->events.at(name) / unit) : "-";
}

static std::vector<std::string> line_of(const report &all, const std::string &what)
{
	const row *first = all.rows.find(FIRST + what + ", " + text_004.name),
		  *later = all.rows.find(LATER + what + ", " + text_004.name);
	std::vector<std::string> line = { what, ms(first) };

	for (const form &f : forms)
		line.push_back(ms(all.rows.find(LATER + what + ", " + f.name)));
	line.push_back(ms(all.rows.find(LATER + what + ", " + gzipped.name)));
	line.push_back(event(later, "wall_ns", 1e6));
	line.push_back(event(later, "bytes", 1e6));
	line.push_back(event(later, "peak_bytes", 1e6));
	return line;
}

static void print_subjects(const report &all)
{
	std::vector<std::vector<std::string>> lines = {
		{ "", "first, text 0.0.4", "later, text 0.0.4", "text 1.0.0", "OpenMetrics",
		  "protobuf", "text, gzip", "last byte, ms", "answer, MB", "peak, MB" }
	};

	for (const std::string &what : subjects())
		lines.push_back(line_of(all, what));
	printf("\nA scrape of percpu serve: ms of CPU time of the server. The last byte is that of a\n"
	       "later answer as text 0.0.4; the peak is the server's memory, with its program\n\n");
	print_table(lines);
}

static void add_aims(report &all)
{
	const std::string in_text = std::string(", ") + text_004.name;
	const std::string large = by_size(1000000, 2) + in_text;
	const row *peak = all.rows.find(LATER + large);

	all.add_aim("the first scrape of 10000 series, to 10 ms", 1.0,
		    all.rows.ratio(FIRST + by_size(10000, 2) + in_text, 1, 1e7));
	all.add_aim("the first scrape of a million series, to 2 s", 1.0,
		    all.rows.ratio(FIRST + large, 1, 2e9));
	all.add_aim("peak memory with a million series, to 500 MB", 1.0,
		    peak ? std::optional(ratio_to({ peak->events.at("peak_bytes") }, 500e6)) :
			   std::nullopt);
	all.add_aim(
		"a scrape after 10000 processes to one after 1", 1.1,
		all.rows.ratio(LATER + by_age(10000) + in_text, 1, LATER + by_age(1) + in_text, 1));
}

int main(int argc, char **argv)
{
	report all("scrape", argc, argv);

	if (tool() == nullptr) {
		fprintf(stderr,
			"scrape: no tool to measure: ./dev bench scrape builds it, and needs cargo\n");
		return 1;
	}
	fprintf(stderr, "scrape: measuring, for 4 minutes ...\n");
	measure_subjects(all);
	measure_writers(all);
	measure_peers(all);
	print_subjects(all);
	print_peers(all);
	add_aims(all);
	add_aims_of_writers(all);
	all.print_sections();
	return all.finish();
}

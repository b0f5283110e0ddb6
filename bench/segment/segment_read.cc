/* SPDX-License-Identifier: MIT */
/*
 * segment_read.cc - the cost of reading all metrics of a segment from outside: by the number of
 * metrics, by lanes, by processes that have counted and ended, and by processes that count
 * meanwhile. Beside it, a copy of the same bytes in memory, and the collector of Python's
 * prometheus_client in its multi-process mode.
 */
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <vector>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "add.h"
#include "segment.h"

#define PASS "a pass"
#define COPY "memcpy of its bytes"
#define PREAD "pread of its bytes, 64 KiB each"
#define DECLARING "declaring all of them"
#define LONGEST "the longest call of a first picture"
#define COUNTING " that count"
#define COLLECTOR "prometheus_client collect()"

/* Simulated lanes: this program stores to their cells. */
static const unsigned lanes_of[] = { 2, 8, 32, 128, 512 };
static const size_t series_of[] = { 10, 100, 1000, 10000, 100000, 1000000 };
static const unsigned processes_of[] = { 1, 100, 10000 };
static const unsigned workers_of[] = { 1, 4, 16, 64 };
static constexpr size_t few = 100;	 /* series, in segments of many processes */
static constexpr size_t most = 12800000; /* words of CPU lanes: 100 MB */

/* A segment to be read, and its expected contents. */
struct counted {
	percpu_reader *reader;
	size_t series;
	uint64_t sum;
};

static std::string by_size(size_t series, unsigned lanes)
{
	return text(", %zu series, %u lanes", series, lanes);
}

static std::string by_age(unsigned processes)
{
	return text(", %zu series, %u processes", few, processes);
}

static std::string by_work(unsigned processes)
{
	return by_age(processes) + COUNTING;
}

/* Return whether it is measured: not if it takes too much time or memory; with --quick, little
 * is. */
static bool is_in_reach(size_t series, unsigned lanes)
{
	if (quick)
		return series <= 1000 && lanes <= 8;
	return series * lanes <= most && (series <= 100000 || lanes == 2);
}

static bool is_in_reach(unsigned processes)
{
	return !quick || processes <= 100;
}

static bool can_count(unsigned workers)
{
	return !quick || workers <= 4;
}

static std::vector<percpu_counter *> declare_counters(percpu_segment *s, size_t n)
{
	std::vector<percpu_counter *> all(n);

	for (size_t i = 0; i < n; i++) {
		const std::string name = "metric_" + std::to_string(i) + "_total";
		const percpu_metric m = metric(name);

		must(percpu_segment_counter(s, &m, &all[i]), "to declare a counter");
	}
	return all;
}

static counted open_counted(int fd, size_t series, uint64_t sum)
{
	counted c = { nullptr, series, sum };

	must(percpu_reader_open_fd(fd, &c.reader), "a reader");
	close(fd);
	return c;
}

static double cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/* Take the first picture in calls that have 100 ms each. Returns the CPU time of the longest
 * one. */
static double longest_call(percpu_reader *r)
{
	double longest = 0, begin;
	int e = -EAGAIN;

	must(percpu_reader_set_timeout(r, 100 * 1000 * 1000), "to limit a picture");
	for (int i = 0; i < 10000 && e == -EAGAIN; i++) {
		begin = cpu_ns();
		e = percpu_reader_read(r);
		longest = std::max(longest, cpu_ns() - begin);
	}
	must(e, "a picture in several calls");
	must(percpu_reader_set_timeout(r, 0), "to have no limit");
	return longest;
}

/* Make a segment in which each counter was counted on in each lane. */
static counted count_in_lanes(report &all, size_t series, unsigned lanes)
{
	int fd;
	percpu_segment *s = make_segment(lanes, &fd);
	const double begin = cpu_ns();
	const std::vector<percpu_counter *> counters = declare_counters(s, series);
	row declared = {};

	declared.name = DECLARING + by_size(series, lanes);
	declared.threads = 1;
	declared.ns = { (cpu_ns() - begin) / double(series) };
	declared.ops = double(series);
	all.rows.add(declared);
	for (percpu_counter *c : counters)
		for (unsigned lane = 0; lane < lanes; lane++)
			*(uint64_t *)((char *)c + lane * PERCPU_STRIDE) = 1;
	percpu_segment_close(s);

	const counted c = open_counted(fd, series, uint64_t(series) * lanes);
	row longest = declared;

	longest.name = LONGEST + by_size(series, lanes);
	longest.ns = { longest_call(c.reader) };
	longest.ops = 1;
	all.rows.add(longest);
	return c;
}

/* Run as one process of many, and end. */
[[noreturn]] static void count_and_end(const std::vector<percpu_counter *> &counters,
				       percpu_owned_gauge *in_flight)
{
	for (percpu_counter *c : counters)
		percpu_counter_inc(c);
	_exit(percpu_owned_gauge_add(in_flight, 1) == 0 ? 0 : 1);
}

/* Make a segment in which so many processes have counted on each counter, and had a share in a
 * gauge. */
static counted count_in_processes(unsigned processes)
{
	const std::string name = "in_flight";
	const percpu_metric m = metric(name);
	percpu_owned_gauge *g;
	int fd, status;
	percpu_segment *s = make_segment(0, &fd);
	const std::vector<percpu_counter *> counters = declare_counters(s, few);

	must(percpu_segment_owned_gauge(s, &m, PERCPU_OWNED_SUM, &g), "an owned gauge");
	for (unsigned i = 0; i < processes; i++) {
		pid_t pid = fork();

		if (pid == 0)
			count_and_end(counters, g);
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
			must(-ECHILD, "a process that counts");
	}
	percpu_segment_close(s);
	return open_counted(fd, few, uint64_t(few) * processes);
}

/* Shared by the workers of a run and the reader. */
struct progress {
	std::atomic<unsigned> ready;
	std::atomic<bool> over;
	std::atomic<uint64_t> counted;
};

/* Run as a child: add to each counter about 1000 times a second, until the run is over. */
[[noreturn]] static void count_until_over(const std::vector<percpu_counter *> &counters,
					  progress *p)
{
	const timespec pause = { 0, 1000 * 1000 };
	uint64_t counted = 0;

	do {
		for (percpu_counter *c : counters)
			percpu_counter_inc(c);
		if (counted == 0)
			p->ready++;
		counted += counters.size();
		nanosleep(&pause, nullptr);
	} while (!p->over);
	p->counted += counted;
	_exit(0);
}

/* Processes that count in a segment for as long as this object lives. */
class workers
{
      public:
	workers(const std::vector<percpu_counter *> &counters, unsigned n)
	{
		void *p = mmap(nullptr, sizeof(progress), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

		must(p == MAP_FAILED ? -errno : 0, "shared memory");
		shared = new (p) progress();
		for (unsigned i = 0; i < n; i++) {
			pids.push_back(fork());
			if (pids.back() == 0)
				count_until_over(counters, shared);
			must(pids.back() < 0 ? -errno : 0, "a worker");
		}
		while (shared->ready < n)
			usleep(1000);
	}
	/* End the processes. Returns the number of their adds. */
	uint64_t end()
	{
		int status;

		shared->over = true;
		for (pid_t pid : pids)
			if (waitpid(pid, &status, 0) != pid || status != 0)
				must(-ECHILD, "a worker that counts");
		return shared->counted;
	}
	~workers()
	{
		munmap(shared, sizeof(progress));
	}

      private:
	progress *shared;
	std::vector<pid_t> pids;
};

/* Take a picture, and read all its values, like an exporter. Returns their sum. */
static uint64_t pass(percpu_reader *r)
{
	uint64_t sum = 0, value;

	must(percpu_reader_read(r), "to read a segment");
	for (size_t i = 0, n = percpu_reader_count(r); i < n; i++)
		if (percpu_reader_counter(r, i, &value) == 0)
			sum += value;
	return sum;
}

static void measure_pass(const std::string &name, const counted &c)
{
	benchmark::RegisterBenchmark((PASS + name).c_str(), [c](benchmark::State &state) {
		pinned here(0);
		uint64_t sum = 0;

		for (auto _ : state)
			sum = pass(c.reader);
		note_loss(state, double(c.sum) - double(sum));
		state.counters["ops"] = double(state.iterations());
	});
}

/* The workers are forked before the reader is pinned, and so run on all CPUs. */
static void measure_counting(const std::string &name, unsigned n)
{
	int fd;
	percpu_segment *s = make_segment(0, &fd);
	const std::vector<percpu_counter *> counters = declare_counters(s, few);
	const counted c = open_counted(fd, few, 0);

	benchmark::RegisterBenchmark((PASS + name).c_str(), [=](benchmark::State &state) {
		const uint64_t before = pass(c.reader);
		workers all(counters, n);
		{
			pinned here(0);

			for (auto _ : state)
				benchmark::DoNotOptimize(pass(c.reader));
		}
		const uint64_t expected = before + all.end();

		note_loss(state, double(expected) - double(pass(c.reader)));
		state.counters["ops"] = double(state.iterations());
	});
}

/* Measure copying bytes in memory. */
static void measure_copy(const std::string &name, size_t bytes)
{
	static const std::vector<char> from(most * sizeof(uint64_t), 1);
	static std::vector<char> to(most * sizeof(uint64_t), 2);

	benchmark::RegisterBenchmark((COPY + name).c_str(), [bytes](benchmark::State &state) {
		pinned here(0);

		for (auto _ : state) {
			memcpy(to.data(), from.data(), bytes);
			benchmark::DoNotOptimize(to.data());
			benchmark::ClobberMemory();
		}
		state.counters["ops"] = double(state.iterations());
	});
}

/* Measure the minimum of a reader that maps nothing: reading these bytes from a file in memory. */
static void measure_pread(const std::string &name, size_t bytes)
{
	static std::vector<char> to(65536, 1);
	const int fd = memfd_create("bytes", MFD_CLOEXEC);

	must(ftruncate(fd, off_t(bytes)) != 0 ? -errno : 0, "a file of bytes");
	for (size_t n = 0; n < bytes; n += to.size())
		must(pwrite(fd, to.data(), std::min(to.size(), bytes - n), off_t(n)) < 0 ? -errno :
											   0,
		     "bytes of a file");
	benchmark::RegisterBenchmark((PREAD + name).c_str(), [fd, bytes](benchmark::State &state) {
		pinned here(0);

		for (auto _ : state)
			for (size_t n = 0; n < bytes; n += to.size())
				must(pread(fd, to.data(), std::min(to.size(), bytes - n),
					   off_t(n)) < 0 ?
					     -errno :
					     0,
				     "bytes of a file");
		state.counters["ops"] = double(state.iterations());
	});
}

/* Measure the Python collector. Returns false if it cannot be measured. */
static bool measure_collector(report &all, const std::string &name, size_t series,
			      unsigned processes)
{
	const std::string command = "python3 '" COLLECTOR_SCRIPT "' " + std::to_string(series) +
				    " " + std::to_string(processes) + " 5 2>/dev/null";
	row r = {};
	double ns;

	r.name = COLLECTOR + name;
	if (!all.given.want(r.name))
		return true;

	FILE *f = popen(command.c_str(), "r");

	r.threads = 1;
	while (f && fscanf(f, "%lf", &ns) == 1)
		r.ns.push_back(ns);
	r.ops = double(r.ns.size());
	if (f && pclose(f) == 0 && !r.ns.empty()) {
		all.rows.add(r);
		return true;
	}
	return false;
}

/* Not for a million series: reading 100 000 takes almost a second. */
static void measure_collectors(report &all)
{
	bool is_there = true;

	for (size_t series : series_of)
		if (is_in_reach(series, 2) && series <= 100000)
			is_there &= measure_collector(all, by_size(series, 2), series, 1);
	for (unsigned processes : processes_of)
		if (is_in_reach(processes))
			is_there &= measure_collector(all, by_age(processes), few, processes);
	for (unsigned processes : workers_of)
		if (can_count(processes) && processes != 1) /* which is above */
			is_there &= measure_collector(all, by_age(processes), few, processes);
	if (!is_there)
		all.skip(COLLECTOR, "no python3, or none with prometheus_client");
}

static void measure_by_age(const report &all, unsigned processes)
{
	const std::string name = by_age(processes);

	if (is_in_reach(processes) && all.given.want(PASS + name))
		measure_pass(name, count_in_processes(processes));
}

static void measure_by_size(report &all, size_t series, unsigned lanes)
{
	const std::string name = by_size(series, lanes);
	const size_t bytes = series * lanes * sizeof(uint64_t);

	if (!is_in_reach(series, lanes))
		return;
	if (all.given.want(PASS + name))
		measure_pass(name, count_in_lanes(all, series, lanes));
	if (all.given.want(COPY + name))
		measure_copy(name, bytes);
	if (all.given.want(PREAD + name))
		measure_pread(name, bytes);
}

void register_passes(report &all)
{
	for (unsigned processes : processes_of)
		measure_by_age(all, processes);
	for (unsigned n : workers_of)
		if (can_count(n) && all.given.want(PASS + by_work(n)))
			measure_counting(by_work(n), n);
	measure_collectors(all);
	for (size_t series : series_of)
		for (unsigned lanes : lanes_of)
			measure_by_size(all, series, lanes);
}

/* Return microseconds as text. */
static std::string us(const report &all, const std::string &name)
{
	const row *r = all.rows.find(name);

	return r ? ns_text(r->median() / 1e3) : "-";
}

/* Print a column for each number of lanes. */
static void print_by_size(const report &all, const char *title, const std::string &what)
{
	std::vector<std::vector<std::string>> lines = { { "counters" } };

	for (unsigned lanes : lanes_of)
		lines[0].push_back(text("%u lanes", lanes));
	for (size_t series : series_of) {
		lines.push_back({ text("%zu", series) });
		for (unsigned lanes : lanes_of)
			lines.back().push_back(us(all, what + by_size(series, lanes)));
	}
	printf("\n%s; us of CPU time\n\n", title);
	print_table(lines);
}

static void print_collector(const report &all)
{
	std::vector<std::vector<std::string>> lines = { { "counters", "1 process" } };

	for (size_t series : series_of)
		lines.push_back({ text("%zu", series), us(all, COLLECTOR + by_size(series, 2)) });
	printf("\n%s; us of CPU time\n\n", COLLECTOR);
	print_table(lines);
}

static void print_by_age(const report &all)
{
	std::vector<std::vector<std::string>> lines = { { "processes", PASS, COLLECTOR } };

	for (unsigned processes : processes_of)
		lines.push_back({ text("%u", processes), us(all, PASS + by_age(processes)),
				  us(all, COLLECTOR + by_age(processes)) });
	printf("\n%zu counters after so many processes have counted on each, and ended; us of CPU time\n\n",
	       few);
	print_table(lines);
}

static void print_by_work(const report &all)
{
	std::vector<std::vector<std::string>> lines = { { "processes", PASS, COLLECTOR } };

	for (unsigned n : workers_of)
		lines.push_back({ text("%u", n), us(all, PASS + by_work(n)),
				  us(all, COLLECTOR + by_age(n)) });
	printf("\n%zu counters, while so many processes add to each of them 1000 times a second;\n"
	       "the collector after they have ended, which has as many files; us of CPU time\n\n",
	       few);
	print_table(lines);
}

void print_passes(report &all)
{
	const std::string name = by_size(10000, 128);

	print_by_size(all, "Declaring new metrics until there are so many: for each, once",
		      DECLARING);
	print_by_size(all, "The first picture in calls of 100 ms each: the longest one", LONGEST);
	print_by_size(all, "A pass over all counters", PASS);
	print_by_size(all, "memcpy of as many words as are in the lanes of CPUs", COPY);
	print_by_size(all, "pread of these from a file that has no others, 64 KiB at a time",
		      PREAD);
	print_collector(all);
	print_by_age(all);
	print_by_work(all);
	all.add_aim("a pass over 10000 series on 128 lanes, to 10 ms", 1.0,
		    all.rows.ratio(PASS + name, 1, 1e7));
	all.add_aim("the same to memcpy of as many words", 2.0,
		    all.rows.ratio(PASS + name, 1, COPY + name, 1));
	all.add_aim("a pass after 10000 processes to one after 1", 1.1,
		    all.rows.ratio(PASS + by_age(10000), 1, PASS + by_age(1), 1));
}

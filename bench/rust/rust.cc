/* SPDX-License-Identifier: MIT */
/*
 * rust.cc - the benchmark of the crates in bindings/rust: an add, a record and a look-up beside those
 * in C, on the same objects of one segment; the facade metrics with our recorder; other crates.
 *
 * The rows in Rust are in bench/rust/src. `./dev bench rust` builds them if there is a cargo, and sets
 * the name of the library in the environment. A row is called for a batch of 1024 events.
 *
 * usage: rust [--quick] [--json FILE] [--benchmark_...]
 */
#include <cstdlib>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <unistd.h>

#include "add.h"

#define ADD "percpu_counter_add"
#define RECORD "percpu_histogram_record"
#define BY_VALUES "percpu_family_add, 2 labels"
#define RUST_ADD "percpu::Counter::add"
#define RUST_RECORD "percpu::Histogram::record"
#define RUST_BY_VALUES "percpu::Family::add, 2 labels"
#define OURS ": percpu-metrics"
#define THEIRS ": exporter-prometheus"

/* As struct Row in lib.rs. */
struct row_in_batches {
	const char *name;
	void (*batch)();
	uint64_t (*total)(); /* how many were counted since the last call */
	bool may_lose;	     /* may count fewer */
};

static percpu_counter *counter;
static percpu_histogram *histogram;
static percpu_histogram_snapshot *snapshot;
static percpu_family *family;
static const char *const values[] = { "GET", "200" };

struct c_add {
	percpu_counter *const c = counter;

	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_counter_add(c, 1);
	}
};

/* The same as in ours.rs. */
static volatile const double seconds = 1.1e-6;

struct c_record {
	const percpu_histogram *const h = histogram;

	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_histogram_record(h, seconds);
	}
};

struct c_by_values {
	percpu_family *const f = family;

	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_family_add(f, values, 1);
	}
};

static uint64_t counted()
{
	return percpu_counter_fetch_zero(counter);
}

static uint64_t recorded()
{
	must(percpu_histogram_fetch_zero(histogram, 0, snapshot), "a snapshot");
	return snapshot->count;
}

static uint64_t counted_by_values()
{
	percpu_counter *c;

	must(percpu_family_counter(family, values, &c), "a series");
	return percpu_counter_fetch_zero(c);
}

static const row_in_batches rows_in_c[] = {
	{ ADD, run_batch<c_add, one_counter>, counted, false },
	{ ADD AMID_WORK, run_batch<c_add, amid_work>, counted, false },
	{ RECORD, run_batch<c_record, one_counter>, recorded, false },
	{ RECORD AMID_WORK, run_batch<c_record, amid_work>, recorded, false },
	{ BY_VALUES, run_batch<c_by_values, one_counter>, counted_by_values, false },
};

static percpu_metric metric(const char *name)
{
	percpu_metric m = {};

	m.size = sizeof(m);
	m.name = name;
	return m;
}

/* Make the segment of all rows at a path. It ends with the process. */
static void make_segment(const char *path)
{
	static const char *const labels[] = { "method", "code" };
	const percpu_metric adds = metric("adds_total"), records = metric("seconds");
	percpu_declaration d = percpu_declare_family(&family, PERCPU_METRIC_COUNTER,
						     "by_values_total", nullptr, labels, 2, 100);
	percpu_segment *s;

	must(percpu_segment_open(path, PERCPU_SEGMENT_CREATE, nullptr, &s), "a segment");
	must(percpu_segment_counter(s, &adds, &counter), "a counter");
	must(percpu_segment_histogram(s, &records, nullptr, &histogram), "a histogram");
	must(percpu_histogram_snapshot_create(histogram, &snapshot), "a snapshot");
	must(percpu_segment_family(s, &d, &family), "a family");
}

/* Return the rows in Rust; none if the library is not there. */
static std::vector<row_in_batches> rows_in_rust(const char *path)
{
	const char *name = getenv("PERCPU_BENCH_ROWS");
	void *library = name ? dlopen(name, RTLD_NOW) : nullptr;
	void *call = library ? dlsym(library, "rust_rows") : nullptr;
	size_t n = 0;

	if (name && !call)
		fprintf(stderr, "rust: %s\n", dlerror());
	if (!call)
		return {};

	auto *rows =
		reinterpret_cast<const row_in_batches *(*)(const char *, size_t *)>(call)(path, &n);

	return { rows, rows + n };
}

static void run_row(benchmark::State &state, const row_in_batches &r)
{
	pinned here(state.thread_index(), first_core);

	percpu_seq_attach();
	for (auto _ : state)
		r.batch();

	double ops = double(state.iterations()) * add_batch;

	state.counters["ops"] = ops;
	/* All threads have left the loop. */
	if (state.thread_index() == 0)
		note_loss(state, ops * state.threads() - double(r.total()), r.may_lose);
}

static void register_row(const row_in_batches &r)
{
	benchmark::RegisterBenchmark(r.name, [r](benchmark::State &s) { run_row(s, r); })
		->Setup([](const benchmark::State &) { first_core++; })
		->Threads(1)
		->Threads(2);
}

static void print_all(const results &r)
{
	print_rows(r, "Beside C, ns, CPU time per thread: median (best)",
		   { ADD, RUST_ADD, ADD AMID_WORK, RUST_ADD AMID_WORK, RECORD, RUST_RECORD,
		     RECORD AMID_WORK, RUST_RECORD AMID_WORK, BY_VALUES, RUST_BY_VALUES });

	std::vector<std::string> facade;

	for (std::string what : { "counter!", "counter!, 2 labels", "counter!, a value that varies",
				  "a kept counter", "a kept histogram" }) {
		facade.push_back(what + OURS);
		facade.push_back(what + THEIRS);
	}
	print_rows(r, "The facade metrics with two recorders", facade);
	print_rows(r, "Other crates",
		   { RUST_ADD, "crate prometheus: IntCounter", "crate prometheus-client: Counter",
		     RUST_RECORD, "crate prometheus: Histogram, 15 buckets",
		     "crate prometheus-client: Histogram, 15 buckets", RUST_BY_VALUES,
		     "crate prometheus: IntCounterVec, 2 labels",
		     "crate prometheus-client: Family, 2 labels" });
}

static void add_aims(report &all)
{
	const std::string pairs[][2] = { { RUST_ADD, ADD },
					 { RUST_ADD AMID_WORK, ADD AMID_WORK },
					 { RUST_RECORD, RECORD },
					 { RUST_RECORD AMID_WORK, RECORD AMID_WORK },
					 { RUST_BY_VALUES, BY_VALUES } };

	for (auto &p : pairs)
		for (int threads : { 1, 2 })
			all.add_aim(p[0] + " to C, threads: " + std::to_string(threads), 1.05,
				    all.rows.ratio(p[0], threads, p[1], threads));
	for (std::string what : { "counter!, 2 labels", "counter!, a value that varies",
				  "a kept counter", "a kept histogram" })
		for (int threads : { 1, 2 })
			all.add_aim(what + ", ours to theirs, threads: " + std::to_string(threads),
				    1,
				    all.rows.ratio(what + OURS, threads, what + THEIRS, threads));
}

int main(int argc, char **argv)
{
	report all("rust", argc, argv);
	static const std::string path = "/dev/shm/percpu.bench-rust-" + std::to_string(getpid());

	atexit([] { unlink(path.c_str()); });
	make_segment(path.c_str());

	const std::vector<row_in_batches> in_rust = rows_in_rust(path.c_str());

	for (auto &r : rows_in_c)
		register_row(r);
	for (auto &r : in_rust)
		register_row(r);
	all.run();
	if (in_rust.empty())
		all.skip("rows in Rust", "there is no cargo, or it could not build bench/rust");
	print_all(all.rows);
	add_aims(all);
	all.print_sections();
	return all.finish();
}

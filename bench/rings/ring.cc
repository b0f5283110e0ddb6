/* SPDX-License-Identifier: MIT */
/*
 * ring.cc - the benchmark of ring.h: the cost of a record, the throughput of a reader, and the
 * loss if it is slow. lttng-ust's events are measured beside it, with as much memory.
 *
 * usage: ring [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <cstring>

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>

#include <percpu/ring.h>

#include "report.h"
#include "ring_lttng.h"

#define PUT "percpu_ring_put"
#define PUT_SHARED "percpu_ring_put, shared"
#define COUNTER "the CPU's counter"
#define CLOCK "clock_gettime"
#define READ "percpu_ring_read"
#define READ_UNFENCED "percpu_ring_read, UNFENCED"
#define READ_SHARED "percpu_ring_read, shared"

static constexpr size_t bytes_per_cpu = 1 << 20;
static constexpr size_t sizes[] = { 8, 16, 64, 256 };
static constexpr uint64_t batch = 1000;

static lttng peer;
static std::atomic<uint64_t> emitted; /* to lttng-ust; dropped or read later */

static std::string row_name(const char *what, bool drop, size_t size)
{
	return text("%s%s, %zu bytes", what, drop ? ", drop" : "", size);
}

/* Rings, private or in a file; new ones if old records must not count. */
struct rings {
	percpu_region *region = nullptr;
	percpu_ring *ring = nullptr;

	rings(bool shared, unsigned flags)
	{
		percpu_region_options o = {};
		int fd;

		if (!shared) {
			must(percpu_ring_create(bytes_per_cpu, flags, &ring), "rings");
			return;
		}
		o.size = sizeof(o);
		o.lane_size = bytes_per_cpu + 128;
		fd = memfd_create("ring", MFD_CLOEXEC);
		must(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, &o,
					   &region),
		     "a region");
		must(percpu_ring_create_in(region, bytes_per_cpu, flags, &ring), "shared rings");
		close(fd);
	}
	~rings()
	{
		percpu_ring_destroy(ring);
		percpu_region_close(region);
	}
	rings(const rings &) = delete;
	rings &operator=(const rings &) = delete;
};

/* Put n records of size bytes, which begin with their number. Returns how many were refused. */
static uint64_t put(const percpu_ring *ring, size_t size, uint64_t n)
{
	char payload[256] = {};
	uint64_t refused = 0;

	for (uint64_t i = 0; i < n; i++) {
		memcpy(payload, &i, sizeof(i));
		refused += percpu_ring_put(ring, payload, size) != 0;
	}
	return refused;
}

/* Read all records. Returns how many there were. */
static uint64_t read_all(percpu_ring_reader *reader)
{
	percpu_ring_record r;
	uint64_t n = 0;

	while (percpu_ring_read(reader, &r) == 0)
		n++;
	return n;
}

/* A thread that reads the other threads' records. */
class reading
{
      public:
	explicit reading(const percpu_ring *ring)
	{
		must(percpu_ring_reader_create(ring, PERCPU_RING_ALL, PERCPU_RING_UNFENCED,
					       &reader),
		     "a reader");
		thread = std::thread([this] {
			while (!stop.load(std::memory_order_relaxed)) {
				read_all(reader);
				usleep(200);
			}
		});
	}
	~reading()
	{
		stop = true;
		thread.join();
		percpu_ring_reader_destroy(reader);
	}

      private:
	percpu_ring_reader *reader;
	std::atomic<bool> stop = false;
	std::thread thread;
};

/* If records are dropped, threads pause between batches: a refused put costs less, so the reader
 * must get time to read all. */
static void pause_for_reader(bool drop)
{
	if (drop)
		usleep(1000);
}

static void measure_puts(const char *what, const percpu_ring *ring, bool drop)
{
	for (size_t size : sizes) {
		auto fn = [=](benchmark::State &state) {
			std::optional<reading> reader;
			pinned here(state.thread_index());
			uint64_t n = 0, refused = 0;

			if (drop && state.thread_index() == 0)
				reader.emplace(ring);
			for (auto _ : state) {
				refused += put(ring, size, batch);
				n += batch;
				pause_for_reader(drop);
			}
			state.counters["ops"] = double(n);
			state.counters["lost"] = double(refused);
		};

		benchmark::RegisterBenchmark(row_name(what, drop, size).c_str(), fn)
			->ThreadRange(1, 2);
	}
}

static void measure_lttng(bool drop)
{
	for (size_t size : sizes) {
		auto fn = [=](benchmark::State &state) {
			pinned here(state.thread_index());
			uint64_t n = 0;

			for (auto _ : state) {
				peer.emit(drop, size, batch);
				n += batch;
				pause_for_reader(drop);
			}
			emitted += drop ? n : 0;
			state.counters["ops"] = double(n);
		};

		benchmark::RegisterBenchmark(row_name(LTTNG, drop, size).c_str(), fn)
			->ThreadRange(1, 2);
	}
}

/* Measure the time of a record that is read, of the full ring of a CPU. */
static void measure_reader(const char *what, bool shared, unsigned flags)
{
	for (size_t size : sizes) {
		auto fn = [=](benchmark::State &state) {
			rings of(shared, 0);
			percpu_ring_reader *reader;
			uint64_t n = 0;

			must(percpu_ring_reader_create(of.ring, PERCPU_RING_ALL, flags, &reader),
			     "a reader");
			for (auto _ : state) {
				state.PauseTiming();
				{
					pinned here(0);
					put(of.ring, size, bytes_per_cpu / (24 + size));
				}
				state.ResumeTiming();
				n += read_all(reader);
			}
			percpu_ring_reader_destroy(reader);
			state.counters["ops"] = double(n);
		};

		benchmark::RegisterBenchmark(row_name(what, false, size).c_str(), fn)
			->UseRealTime();
	}
}

/* Measure the times that records and events get. */
static void measure_clocks()
{
	auto counter = [](benchmark::State &state) {
		for (auto _ : state) {
#ifdef __x86_64__
			__asm__ volatile("lfence\n\trdtsc" : : : "rax", "rdx", "memory");
#elif defined(__aarch64__)
			uint64_t ticks;

			__asm__ volatile("isb\n\tmrs %0, cntvct_el0" : "=r"(ticks) : : "memory");
#endif
		}
		state.counters["ops"] = double(state.iterations());
	};
	auto clock = [](benchmark::State &state) {
		timespec t;

		for (auto _ : state)
			clock_gettime(CLOCK_MONOTONIC, &t);
		state.counters["ops"] = double(state.iterations());
	};

	benchmark::RegisterBenchmark(COUNTER, counter)->ThreadRange(1, 2);
	benchmark::RegisterBenchmark(CLOCK, clock)->ThreadRange(1, 2);
}

static void print_puts(const results &r, int64_t discarded)
{
	static const char *const whats[] = { PUT, PUT_SHARED, LTTNG };
	std::vector<std::vector<std::string>> lines = {
		{ "", "bytes", "1 thread", "2 threads", "drop: 1 thread", "2 threads", "lost" },
	};

	for (size_t size : sizes)
		for (const char *what : whats) {
			std::string drop = row_name(what, true, size);

			lines.push_back({ what, std::to_string(size) });
			for (bool d : { false, true })
				for (int threads : { 1, 2 })
					lines.back().push_back(median_best(
						r.find(row_name(what, d, size), threads)));
			lines.back().push_back(worst_loss(r, drop));
		}
	printf("\nA record, with its time: ns of CPU time per thread, median (best). The oldest are\n"
	       "overwritten, and nobody reads; or new ones are dropped, while a thread or, of\n"
	       "lttng-ust, its daemon reads. %zu KiB per CPU.\n\n",
	       bytes_per_cpu >> 10);
	print_table(lines);
	print_rows(r, "Of that, the time: the CPU's counter in a record, a clock in an event",
		   { COUNTER, CLOCK });
	if (discarded >= 0 && emitted > 0)
		printf("\nOf lttng-ust's events, %.1f %% were discarded in all.\n",
		       100 * double(discarded) / double(emitted));
}

/* Print the pair of the 2016 slides, and ours. Debian's lttng-ust uses no sequences. */
static void print_slides(const results &r)
{
	const std::string ours = row_name(PUT, false, 16), theirs = row_name(LTTNG, false, 16);
	std::vector<std::vector<std::string>> lines = {
		{ "ns per event", "without", "with", "ratio" },
		{ "2016 slides, LTTng-UST, i7-5600U", "109", "90", text("%.2f", 90.0 / 109) },
		{ "here, " LTTNG " and a ring, 16 bytes", median_best(r.find(theirs)),
		  median_best(r.find(ours)), ratio_text(r.ratio(ours, 1, theirs, 1)) },
	};

	printf("\nAn event without restartable sequences, and with them\n\n");
	print_table(lines);
}

static void print_reader(const results &r)
{
	std::vector<std::vector<std::string>> lines = { { "", "8 bytes", "16", "64", "256" } };

	for (const char *what : { READ, READ_UNFENCED, READ_SHARED }) {
		lines.push_back({ what });
		for (size_t size : sizes)
			lines.back().push_back(median_best(r.find(row_name(what, false, size))));
	}
	printf("\nReading a record: ns, median (best)\n\n");
	print_table(lines);
}

static uint64_t kept(bool drop, uint64_t n)
{
	rings of(false, drop ? PERCPU_RING_KEEP : 0);
	percpu_ring_reader *reader;
	pinned here(0);
	uint64_t found;

	put(of.ring, 16, n);
	must(percpu_ring_reader_create(of.ring, PERCPU_RING_ALL, 0, &reader), "a reader");
	found = read_all(reader);
	percpu_ring_reader_destroy(reader);
	return found;
}

/* Print how many records a reader finds that did not run meanwhile. */
static void print_kept(report &all, bool has_peer)
{
	std::vector<std::vector<std::string>> lines = {
		{ "records put", "ring", "with KEEP", LTTNG, "discard" },
	};

	for (uint64_t n : { 10000, 40000, 100000, 1000000 }) {
		lines.push_back({ std::to_string(n) });
		for (bool theirs : { false, true })
			for (bool drop : { false, true }) {
				pinned here(0);
				int64_t found = !theirs	 ? int64_t(kept(drop, n)) :
						has_peer ? peer.kept(drop, bytes_per_cpu, n) :
							   -1;

				lines.back().push_back(found < 0 ? "-" : std::to_string(found));
				if (found >= 0)
					all.add_figure(
						text("%s, %s, kept of %lu", theirs ? LTTNG : "ring",
						     drop ? "drop" : "overwrite", (unsigned long)n),
						double(found), "records");
			}
	}
	printf("\nRecords of 16 bytes that are there when a reader that was stopped goes on,\n"
	       "of those that one CPU has put meanwhile. %zu KiB per CPU.\n\n",
	       bytes_per_cpu >> 10);
	print_table(lines);
}

static void add_aims(report &all, const std::string &why)
{
	for (const char *what : { PUT, PUT_SHARED })
		for (size_t size : sizes) {
			std::string ours = row_name(what, false, size);

			for (int threads : { 1, 2 })
				all.add_aim(text("%s, to lttng-ust, %d thread%s", ours.c_str(),
						 threads, threads == 1 ? "" : "s"),
					    0.5,
					    all.rows.ratio(ours, threads,
							   row_name(LTTNG, false, size), threads),
					    why.empty() ? "not measured" : why);
			all.add_aim(ours + ", 2 threads to 1", 1.2,
				    all.rows.ratio(ours, 2, ours, 1));
		}
}

int main(int argc, char **argv)
{
	report all("ring", argc, argv);
	std::string why = peer.start(bytes_per_cpu);
	rings mine(false, 0), mine_kept(false, PERCPU_RING_KEEP);
	rings common(true, 0), common_kept(true, PERCPU_RING_KEEP);

	fprintf(stderr, "ring: measuring, for about 2 minutes ...\n");
	measure_puts(PUT, mine.ring, false);
	measure_puts(PUT, mine_kept.ring, true);
	measure_puts(PUT_SHARED, common.ring, false);
	measure_puts(PUT_SHARED, common_kept.ring, true);
	if (why.empty()) {
		measure_lttng(false);
		measure_lttng(true);
	} else {
		all.skip(LTTNG, why);
	}
	measure_clocks();
	measure_reader(READ, false, 0);
	measure_reader(READ_UNFENCED, false, PERCPU_RING_UNFENCED);
	measure_reader(READ_SHARED, true, 0);
	all.run();
	print_puts(all.rows, why.empty() ? peer.discarded() : -1);
	print_slides(all.rows);
	print_reader(all.rows);
	if (why.empty())
		peer.stop();
	print_kept(all, why.empty());
	add_aims(all, why);
	all.print_sections();
	return all.finish();
}

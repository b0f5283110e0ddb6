/* SPDX-License-Identifier: MIT */
/*
 * wbuf.cc - the benchmark of wbuf.h: transactions of 1, 2 and 4 adds, flushes included; and how
 * long single adds take, by size of the buffer and limit of a flush.
 *
 * usage: wbuf [--json FILE] [--benchmark_...]
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include <percpu/wbuf.h>

#include "objects.h"

namespace
{

/* A round has some flushes of the largest buffer, and is so short that other processes leave some
 * rounds alone. */
constexpr unsigned round_adds = 50000, all_rounds = 200;
constexpr unsigned words = 65536; /* which the adds of a row go to */

uint64_t now()
{
#ifdef __x86_64__
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc; lfence" : "=a"(low), "=d"(high) : : "memory");
	return uint64_t(high) << 32 | low;
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(t) : : "memory");
	return t;
#else
	return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

double ticks_per_ns()
{
	auto start = std::chrono::steady_clock::now(), end = start;
	uint64_t from = now();

	while (end - start < std::chrono::milliseconds(100))
		end = std::chrono::steady_clock::now();
	return double(now() - from) / std::chrono::duration<double, std::nano>(end - start).count();
}

/* How long single adds took, in ticks of the clock. */
class latencies
{
      public:
	void start_round()
	{
		longest = 0;
	}
	void add(uint64_t ticks)
	{
		count[std::min<uint64_t>(ticks, count.size() - 1)]++;
		longest = std::max(longest, ticks);
	}
	void end_round(bool counts)
	{
		if (!counts)
			std::fill(count.begin(), count.end(), 0);
		else
			quietest = std::min(quietest, longest);
	}
	uint64_t quantile(double q) const
	{
		uint64_t all = 0, below = 0;
		size_t i = 0;

		for (auto n : count)
			all += n;
		while (i + 1 < count.size() && (below += count[i]) < uint64_t(q * double(all)))
			i++;
		return i;
	}
	uint64_t quietest = UINT64_MAX; /* the longest add of the round where that is least */

      private:
	std::vector<uint32_t> count = std::vector<uint32_t>(1 << 18);
	uint64_t longest = 0;
};

struct latency_row {
	std::string name;
	percpu_wbuf *wbuf; /* or NULL: `array`, or nothing but the clock */
	percpu_counter_array *array;
	latencies seen;
};

alignas(64) uint64_t cell[words];

latency_row buffered_row(size_t entries, size_t limit)
{
	percpu_wbuf_options o = {};
	latency_row row = {};

	o.size = sizeof(o);
	o.entries = entries;
	o.flush_limit = limit;
	must(percpu_wbuf_create(&o, &row.wbuf), "a write buffer");
	row.name = text("wbuf, entries %zu", entries);
	if (limit != 0)
		row.name += text(", flush_limit %zu", limit);
	return row;
}

void run_round(latency_row &row)
{
	uint32_t random = 1;
	uint64_t from;

	row.seen.start_round();
	for (unsigned i = 0; i < (quick ? round_adds / 100 : round_adds); i++) {
		const unsigned at =
			(random = random * 1664525 + 1013904223) / (UINT32_MAX / words + 1);

		from = now();
		if (row.wbuf)
			(void)percpu_wbuf_add(row.wbuf, &cell[at], 1);
		else if (row.array)
			percpu_counter_array_add(row.array, at, 1);
		row.seen.add(now() - from);
	}
}

/* Measure each row in each round, so that what else the machine does meets all of them. */
void measure_latencies(report &all)
{
	std::vector<std::vector<std::string>> table = { { "An add, with its flush, ns", "p50",
							  "p99.9", "p99.99", "longest" } };
	std::vector<latency_row> rows(2);
	const pinned here(0);
	const double rate = ticks_per_ns();

	rows[0].name = "the clock alone";
	rows[1].name = "percpu_counter_array_add";
	must(percpu_counter_array_create(words, &rows[1].array), "an array");
	for (size_t entries : { 64, 256, 1024, 4096, 16384 })
		rows.push_back(buffered_row(entries, 0));
	for (size_t limit : { 1024, 256, 64, 16 })
		rows.push_back(buffered_row(16384, limit));
	percpu_seq_attach();
	for (unsigned round = 0; round <= (quick ? 1 : all_rounds); round++)
		for (auto &row : rows) {
			run_round(row);
			row.seen.end_round(round > 0);
		}
	for (auto &row : rows) {
		std::vector<std::string> line = { row.name };
		const std::pair<const char *, uint64_t> values[] = {
			{ "p50", row.seen.quantile(0.5) },
			{ "p99.9", row.seen.quantile(0.999) },
			{ "p99.99", row.seen.quantile(0.9999) },
			{ "longest", row.seen.quietest },
		};

		for (auto &[name, ticks] : values) {
			line.push_back(text("%.0f", double(ticks) / rate));
			all.add_figure(row.name + ", " + name, double(ticks) / rate, "ns");
		}
		table.push_back(line);
		percpu_wbuf_destroy(row.wbuf);
		percpu_counter_array_destroy(row.array);
	}
	print_table(table);
	printf("%u rounds of %u adds to %u cells at random; longest: in the quietest round\n\n",
	       all_rounds, round_adds, words);
}

} // namespace

int main(int argc, char **argv)
{
	report all("wbuf", argc, argv);

	fprintf(stderr, "wbuf: measuring, for about 30 seconds ...\n");
	measure<wbuf_add<1>>("percpu_wbuf_add");
	measure<wbuf_add<2>>("percpu_wbuf_add_n, 2 adds");
	measure<wbuf_add<4>>("percpu_wbuf_add_n, 4 adds");
	all.run();
	print_rows(all.rows, "A transaction, with its share of the flushes",
		   { "percpu_wbuf_add", "percpu_wbuf_add_n, 2 adds", "percpu_wbuf_add_n, 4 adds" });
	if (all.given.want("latency"))
		measure_latencies(all);
	all.print_sections();
	return all.finish();
}

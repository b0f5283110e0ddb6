/* SPDX-License-Identifier: MIT */
/* counter_read.cc - the cost of reading counters. */
#include <percpu/counter.h>
#include <percpu/region.h>
#include <percpu/status.h>

#include "add.h"
#include "counter.h"

static constexpr size_t million = 1000000;

/* Measure reading one counter in a region with so many CPU lanes, all of them used. */
static void measure_fetch(uint32_t cpus)
{
	percpu_region_options o = {};
	percpu_region *r;
	percpu_counter *c;

	o.size = sizeof(o);
	o.cpus = cpus;
	must(percpu_region_create(&o, &r), "a region of many lanes");
	must(percpu_counter_create_in(r, &c), "a counter");
	for (uint32_t cpu = 0; cpu < cpus; cpu++)
		*(uint64_t *)((char *)c + cpu * PERCPU_STRIDE) = 1;

	measure_call("percpu_counter_fetch, " + std::to_string(cpus) + " lanes",
		     [c] { return percpu_counter_fetch(c); });
}

/* Make a million counters, each counted on by every CPU. */
static percpu_counter_array *counted_million()
{
	percpu_counter_array *a;

	must(percpu_counter_array_create(million, &a), "a million counters");
	for (unsigned cpu = 0; cpu < usable_cpus().size(); cpu++) {
		pinned here(cpu);

		for (size_t i = 0; i < million; i++)
			percpu_counter_array_add(a, i, 1);
	}
	return a;
}

/* Sum as many bytes as reading these has to: a word per CPU, and the bias. */
static uint64_t plain_sum()
{
	static const std::vector<uint64_t> memory(million * (percpu_status()->possible_cpus + 1),
						  1);
	uint64_t sum = 0;

	for (uint64_t v : memory)
		sum += v;
	return sum;
}

/* Measure reading them all, and the plain sum. Before each timed run of one, the other runs
 * untimed, so that neither finds its own data in the cache. */
static void measure_sum()
{
	static percpu_counter_array *const a = counted_million();
	static std::vector<uint64_t> out(million);

	benchmark::RegisterBenchmark("percpu_counter_array_fetch_all", [](benchmark::State &state) {
		pinned here(0);
		double lost = 0;

		for (auto _ : state) {
			state.PauseTiming();
			benchmark::DoNotOptimize(plain_sum());
			state.ResumeTiming();
			percpu_counter_array_fetch_all(a, out.data());
		}
		for (uint64_t v : out)
			lost += double(usable_cpus().size()) - double(v);
		state.counters["ops"] = double(state.iterations()) * million;
		note_loss(state, lost);
	});
	benchmark::RegisterBenchmark("plain sum of as many bytes", [](benchmark::State &state) {
		pinned here(0);

		for (auto _ : state) {
			state.PauseTiming();
			percpu_counter_array_fetch_all(a, out.data());
			state.ResumeTiming();
			benchmark::DoNotOptimize(plain_sum());
		}
		state.counters["ops"] = double(state.iterations()) * million;
	});
}

void register_reads()
{
	measure_fetch(percpu_status()->possible_cpus);
	measure_fetch(128);
	measure_sum();
}

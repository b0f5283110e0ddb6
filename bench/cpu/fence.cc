/* SPDX-License-Identifier: MIT */
/*
 * fence.cc - the benchmark of fence.h: the cost of a fence while other threads count.
 *
 * usage: fence [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include <atomic>
#include <thread>

#include <percpu/counter.h>
#include <percpu/fence.h>

#include "add.h"

static constexpr uint64_t second = 1000000000;

/* Measure a fence, while this many other threads count. */
template <class F> static void measure_fence(const std::string &name, unsigned busy, F fence)
{
	auto fn = [busy, fence](benchmark::State &state) {
		std::atomic<bool> stop(false);
		std::vector<std::thread> counting;
		percpu_counter *c;

		must(percpu_counter_create(&c), "a counter");
		for (unsigned i = 0; i < busy; i++)
			counting.emplace_back([c, i, &stop] {
				pinned here(i + 1);

				while (!stop.load(std::memory_order_relaxed))
					percpu_counter_add(c, 1);
			});
		for (auto _ : state)
			must(fence(), "a fence");
		stop = true;
		for (auto &t : counting)
			t.join();
		percpu_counter_destroy(c);
		state.counters["ops"] = double(state.iterations());
	};

	benchmark::RegisterBenchmark((name + (busy ? ", busy" : ", idle")).c_str(), fn)
		->UseRealTime();
}

int main(int argc, char **argv)
{
	report all("fence", argc, argv);
	unsigned others = usable_cpus().size() - 1;

	for (unsigned busy : { 0u, others }) {
		measure_fence("percpu_fence", busy, percpu_fence);
		measure_fence("percpu_fence_all", busy,
			      [] { return percpu_fence_all(10 * second, nullptr); });
		if (others == 0)
			break;
	}
	all.run();
	print_rows(all.rows, "A fence, while the other CPUs are idle or count",
		   { "percpu_fence, idle", "percpu_fence, busy", "percpu_fence_all, idle",
		     "percpu_fence_all, busy" });
	all.print_sections();
	return all.finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * counters_costs.cc - what the rest costs: finding the CPU number, reading
 * counters, fencing.
 */
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include <percpu/percpu.h>

#include "counters.h"

static constexpr unsigned batch = 64;
static constexpr size_t million = 1000000;
static constexpr uint64_t second = 1000000000;

template <class F> static benchmark::internal::Benchmark *measure(const std::string &name, F fn)
{
	return benchmark::RegisterBenchmark((name + row_suffix).c_str(), fn);
}

/* The CPU number. As in the slides, each in a loop of its own, and the empty
 * loop for comparison. */
template <class F> static void measure_cpu_number(const char *name, F number)
{
	measure(std::string("CPU number: ") + name, [number](benchmark::State &state) {
		pinned here(0);

		for (auto _ : state)
			for (unsigned i = 0; i < batch; i++)
				benchmark::DoNotOptimize(number());
		state.counters["ops"] = double(state.iterations()) * batch;
	});
}

#ifdef __x86_64__
/* The kernel keeps CPU and node in the limit of a segment: __CPUNODE_SEG. */
static unsigned lsl_cpu()
{
	unsigned limit;

	__asm__ volatile("lsl %1, %0" : "=r"(limit) : "r"(0x7b) : "cc");
	return limit & 0xfff;
}
#endif

static void register_cpu_number()
{
	measure_cpu_number("empty loop", [] { return 0u; });
	measure_cpu_number("rseq area",
			   [] { return (unsigned)*(volatile int32_t *)&percpu_self->cpu_id; });
#ifdef __x86_64__
	measure_cpu_number("lsl", lsl_cpu);
#endif
	/* getcpu(), for glibc's sched_getcpu() reads the rseq area. */
	measure_cpu_number("vDSO getcpu", [] {
		unsigned cpu = 0;

		getcpu(&cpu, nullptr);
		return cpu;
	});
	measure_cpu_number("system call", [] {
		unsigned cpu = 0;

		syscall(SYS_getcpu, &cpu, nullptr, nullptr);
		return cpu;
	});
}

/* Reading one counter in a region with so many CPU lanes, all of them used. */
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

	measure("percpu_counter_fetch, " + std::to_string(cpus) + " lanes",
		[c](benchmark::State &state) {
			pinned here(0);

			for (auto _ : state)
				for (unsigned i = 0; i < batch; i++)
					benchmark::DoNotOptimize(percpu_counter_fetch(c));
			state.counters["ops"] = double(state.iterations()) * batch;
		});
}

/* A million counters, each counted on by every CPU. */
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

/* Reading them all; and the plain sum of as many bytes as that has to read: a
 * word per CPU, and the bias. */
static void measure_sum()
{
	measure("percpu_counter_array_fetch_all", [](benchmark::State &state) {
		static percpu_counter_array *const a = counted_million();
		static std::vector<uint64_t> out(million);
		pinned here(0);
		double lost = 0;

		for (auto _ : state)
			percpu_counter_array_fetch_all(a, out.data());
		for (uint64_t v : out)
			lost += double(usable_cpus().size()) - double(v);
		state.counters["ops"] = double(state.iterations()) * million;
		state.counters["lost"] = lost;
	});
	measure("plain sum of as many bytes", [](benchmark::State &state) {
		static const std::vector<uint64_t> memory(
			million * (percpu_status()->possible_cpus + 1), 1);
		pinned here(0);

		for (auto _ : state) {
			uint64_t sum = 0;

			for (uint64_t v : memory)
				sum += v;
			benchmark::DoNotOptimize(sum);
			benchmark::ClobberMemory();
		}
		state.counters["ops"] = double(state.iterations()) * million;
	});
}

/* A fence, while this many other threads count. */
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
		for (auto _ : state) {
			int e = fence();

			if (e != 0)
				state.SkipWithError(strerror(-e));
		}
		stop = true;
		for (auto &t : counting)
			t.join();
		percpu_counter_destroy(c);
		state.counters["ops"] = double(state.iterations());
	};

	measure(name + (busy ? ", busy" : ", idle"), fn)->UseRealTime();
}

void register_costs()
{
	unsigned others = usable_cpus().size() - 1;

	register_cpu_number();
	measure_fetch(percpu_status()->possible_cpus);
	measure_fetch(128);
	measure_sum();
	for (unsigned busy : { 0u, others }) {
		measure_fence("percpu_fence", busy, percpu_fence);
		measure_fence("percpu_fence_all", busy,
			      [] { return percpu_fence_all(10 * second, nullptr); });
		if (others == 0)
			break;
	}
}

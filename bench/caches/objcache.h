/* SPDX-License-Identifier: MIT */
/*
 * objcache.h - shared by the parts of the benchmark of object caches.
 *
 * objcache.cc measures caches beside allocators, and runs and prints everything.
 * objcache_ways.cc measures the library's design beside alternatives, objcache_memory.cc what
 * caches keep for many threads.
 */
#ifndef BENCH_OBJCACHE_H
#define BENCH_OBJCACHE_H

#include <functional>
#include <string>
#include <vector>

#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "report.h"

constexpr unsigned pairs = 200; /* of get and put in an iteration, at least */
constexpr size_t size = 64;	/* bytes of an object */

struct cache {
	percpu_objcache *oc;

	explicit cache(const percpu_objcache_options *o = nullptr, size_t bytes = size)
	{
		must(percpu_objcache_create("bench", bytes, o, &oc), "an object cache");
	}
	/* Return an object, or NULL if there is none, like malloc. */
	void *get()
	{
		void *obj;

		return percpu_objcache_get(oc, 0, &obj) == 0 ? obj : nullptr;
	}
	void put(void *obj)
	{
		percpu_objcache_put(oc, obj);
	}
};

inline std::string row_name(const std::string &what, unsigned batch)
{
	return what + text(", %u at a time", batch);
}

template <class C> void run(benchmark::State &state, C &c, unsigned batch)
{
	pinned here(state.thread_index());
	std::vector<void *> objects(batch);
	benchmark::DoNotOptimize(objects.data());
	unsigned rounds = (pairs + batch - 1) / batch;

	percpu_seq_attach();
	for (auto _ : state)
		for (unsigned round = 0; round < rounds; round++) {
			for (unsigned i = 0; i < batch; i++)
				objects[i] = c.get();
			benchmark::ClobberMemory();
			for (unsigned i = 0; i < batch; i++)
				c.put(objects[i]);
		}
	state.counters["ops"] = double(state.iterations()) * rounds * batch;
}

void register_ways();
void print_ways(const results &r);

/* What gives objects of memory_size bytes. */
struct allocator {
	const char *name;
	std::function<void *()> get;
	std::function<void(void *)> put;
};
constexpr size_t memory_size = 512;

void print_memory(report &all, const std::vector<allocator> &allocators);

#endif

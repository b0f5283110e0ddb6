/* SPDX-License-Identifier: MIT */
/*
 * zone_alloc.cc - allocate and free, in zones and with other allocators.
 *
 * A contender is a struct that is made for a size, with alloc() and free(). All are called as a
 * program calls them, in their shared libraries. Threads are pinned, and do not touch what they
 * allocate.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/zone.h>

#ifdef HAVE_LIBRSEQ
#include <rseq/mempool.h>
#endif

#include "zone.h"

/* Pairs of alloc and free in an iteration, at least. */
static constexpr unsigned pairs = 200;

std::string row_name(const std::string &what, unsigned size, unsigned batch)
{
	return what + text(", %u bytes, %u at a time", size, batch);
}

struct zone {
	percpu_zone *z;
	const unsigned flags;

	explicit zone(size_t size, const percpu_zone_options *o = nullptr, unsigned flags = 0)
		: flags(flags)
	{
		must(percpu_zone_create("bench", size, o, &z), "a zone");
	}
	void *alloc()
	{
		void *item;

		must(percpu_zone_alloc(z, flags, &item), "an item");
		return item;
	}
	void free(void *item)
	{
		percpu_zone_free(z, item);
	}
};

struct zeroing_zone : zone {
	explicit zeroing_zone(size_t size) : zone(size, nullptr, PERCPU_ZONE_ZERO)
	{
	}
};

/* A zone with a limit that is not reached. */
struct limited_zone : zone {
	static const percpu_zone_options *limit()
	{
		static percpu_zone_options o = {};

		o.size = sizeof(o);
		o.limit = 1000000;
		return &o;
	}
	explicit limited_zone(size_t size) : zone(size, limit())
	{
	}
};

/* A zone with items in a file: here an unnamed one in memory. */
struct shared_zone : zone {
	static const percpu_zone_options *in_file()
	{
		static percpu_zone_options o = {};
		int fd = memfd_create("bench-zone", MFD_CLOEXEC);

		if (fd < 0)
			must(-errno, "memfd_create");
		o.size = sizeof(o);
		must(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, nullptr,
					   &o.region),
		     "a shared region");
		close(fd);
		return &o;
	}
	explicit shared_zone(size_t size) : zone(size, in_file())
	{
	}
};

struct glibc {
	const size_t size;

	explicit glibc(size_t size) : size(size)
	{
	}
	void *alloc()
	{
		return malloc(size);
	}
	void free(void *item)
	{
		::free(item);
	}
};

/* An allocator that has many other items allocated. */
template <class allocator> struct in_use : allocator {
	explicit in_use(size_t size) : allocator(size)
	{
		for (size_t i = 0; i < many; i++)
			benchmark::DoNotOptimize(this->alloc());
	}
};

#ifdef HAVE_LIBRSEQ
struct librseq {
	rseq_mempool *pool;

	explicit librseq(size_t size)
	{
		rseq_mempool_attr *attr = rseq_mempool_attr_create();

		if (!attr ||
		    rseq_mempool_attr_set_percpu(attr, 0, percpu_status()->possible_cpus) != 0)
			must(-ENOMEM, "attributes of a mempool");
		pool = rseq_mempool_create("bench", size, attr);
		if (!pool)
			must(-errno, "rseq_mempool_create");
		rseq_mempool_attr_destroy(attr);
	}
	void *alloc()
	{
		return rseq_mempool_percpu_malloc(pool);
	}
	void free(void *item)
	{
		librseq_mempool_percpu_free(item, RSEQ_MEMPOOL_STRIDE);
	}
};
#endif

template <class C> static void run(benchmark::State &state, C &c, unsigned batch)
{
	pinned here(state.thread_index());
	std::vector<void *> items(batch);
	benchmark::DoNotOptimize(items.data());
	unsigned rounds = (pairs + batch - 1) / batch;

	percpu_seq_attach();
	for (auto _ : state)
		for (unsigned round = 0; round < rounds; round++) {
			for (unsigned i = 0; i < batch; i++)
				items[i] = c.alloc();
			benchmark::ClobberMemory();
			for (unsigned i = 0; i < batch; i++)
				c.free(items[i]);
		}
	state.counters["ops"] = double(state.iterations()) * rounds * batch;
}

/* The rows of one size share an allocator. */
template <class C> static void measure(const char *name, unsigned size)
{
	auto c = std::make_shared<C>(size);

	for (unsigned batch : batches)
		benchmark::RegisterBenchmark(
			row_name(name, size, batch).c_str(),
			[c, batch](benchmark::State &state) { run(state, *c, batch); })
			->ThreadRange(1, 2);
}

void register_allocs()
{
	for (unsigned size : sizes) {
		measure<zone>(ZONE, size);
		measure<glibc>(GLIBC, size);
#ifdef HAVE_LIBRSEQ
		measure<librseq>(LIBRSEQ, size);
#endif
	}
	measure<zeroing_zone>(ZONE_ZERO, 64);
	measure<limited_zone>(ZONE_LIMIT, 64);
	measure<shared_zone>(ZONE_SHARED, 64);
	measure<in_use<zone>>(ZONE_IN_USE, 64);
	measure<in_use<glibc>>(GLIBC_IN_USE, 64);
}

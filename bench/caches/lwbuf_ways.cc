/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_ways.cc - access a page of a file, load a word of it, and give it back.
 *
 * A contender is a struct that is made for a file, with access(). Threads are pinned. The file
 * is in memory (memfd), so that no device is measured.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include <percpu/lwbuf.h>
#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/sfbuf.h>

#include "lwbuf.h"

static constexpr size_t page_size = 4096;
static constexpr unsigned pages = 16384; /* in memory */
static constexpr unsigned steps = 65536; /* accesses before the order of pages repeats */

/* Make a sealed memfd with so many pages, which has size bytes. */
static int make_file(off_t size)
{
	int fd = memfd_create("bench-lwbuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	std::vector<uint64_t> words(page_size / sizeof(uint64_t));

	if (fd < 0)
		must(-errno, "memfd_create");
	for (unsigned p = 0; p < pages; p++) {
		words[0] = p;
		if (pwrite(fd, words.data(), page_size, off_t(p) * off_t(page_size)) !=
		    ssize_t(page_size))
			must(-errno, "pwrite");
	}
	if (ftruncate(fd, size) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		must(-errno, "a sealed memfd");
	return fd;
}

static int file()
{
	static int fd = make_file(off_t(pages) * off_t(page_size));

	return fd;
}

/* Return such a file that is too large to be mapped as a whole. */
static int large_file()
{
	static int fd = make_file(off_t(1) << 46);

	return fd;
}

template <percpu_lwbuf_backend backend, unsigned keep> struct lwbuf {
	typedef percpu_lwbuf handle;
	percpu_lwbufs *f;

	lwbuf()
	{
		percpu_lwbuf_options o = {};

		o.size = sizeof(o);
		o.backend = backend;
		o.max_excess = excess;
		must(percpu_lwbuf_create(backend == PERCPU_LWBUF_AUTO ? large_file() : file(), &o,
					 &f),
		     "buffers of a file");
		if (keep == 0)
			must(percpu_lwbuf_set_max_excess(f, 0), "max_excess");
	}
	void get(uint64_t page, handle &b)
	{
		if (int e = percpu_lwbuf_alloc(f, page, 0, &b); e != 0)
			must(e, "a buffer");
	}
	static uint64_t word(const handle &b)
	{
		return *static_cast<uint64_t *>(percpu_lwbuf_kva(&b));
	}
	void put(handle &b)
	{
		percpu_lwbuf_free(f, &b);
	}
	uint64_t access(uint64_t page)
	{
		percpu_lwbuf b;
		uint64_t first;

		get(page, b);
		first = word(b);
		put(b);
		return first;
	}
};

struct sfbuf {
	typedef percpu_sfbuf *handle;
	percpu_lwbufs *f;

	sfbuf()
	{
		percpu_lwbuf_options o = {};

		o.size = sizeof(o);
		o.backend = PERCPU_LWBUF_WINDOW;
		o.max_excess = excess;
		must(percpu_lwbuf_create(file(), &o, &f), "buffers of a file");
	}
	void get(uint64_t page, handle &b)
	{
		if (int e = percpu_sfbuf_alloc(f, page, 0, &b); e != 0)
			must(e, "a shared buffer");
	}
	static uint64_t word(handle b)
	{
		return *static_cast<uint64_t *>(percpu_sfbuf_kva(b));
	}
	void put(handle b)
	{
		percpu_sfbuf_free(f, b);
	}
	uint64_t access(uint64_t page)
	{
		percpu_sfbuf *b;
		uint64_t first;

		get(page, b);
		first = word(b);
		put(b);
		return first;
	}
};

struct map_each {
	static uint64_t access(uint64_t page)
	{
		void *at = mmap(nullptr, page_size, PROT_READ, MAP_SHARED, file(),
				off_t(page) * off_t(page_size));
		uint64_t word;

		if (at == MAP_FAILED)
			must(-errno, "mmap");
		word = *static_cast<uint64_t *>(at);
		munmap(at, page_size);
		return word;
	}
};

struct read_each {
	static uint64_t access(uint64_t page)
	{
		static thread_local uint64_t words[page_size / sizeof(uint64_t)];

		if (pread(file(), words, page_size, off_t(page) * off_t(page_size)) !=
		    ssize_t(page_size))
			must(-EIO, "pread");
		return words[0];
	}
};

/* Like QEMU's map cache: a table of windows with references, and one lock around it. Windows
 * without references are replaced in the order of their use. */
struct locked_table {
	struct entry {
		uint64_t page;
		unsigned refs;
		char *at;
		std::list<entry *>::iterator place; /* if there are no references */
	};
	typedef entry *handle;
	std::mutex lock;
	std::unordered_map<uint64_t, std::unique_ptr<entry>> table;
	std::list<entry *> unused;

	entry *get(uint64_t page)
	{
		std::lock_guard<std::mutex> guard(lock);
		auto found = table.find(page);

		if (found != table.end()) {
			if (found->second->refs++ == 0)
				unused.erase(found->second->place);
			return found->second.get();
		}
		auto e = std::make_unique<entry>();
		if (table.size() >= excess && !unused.empty()) {
			auto oldest = table.find(unused.front()->page);

			unused.pop_front();
			e = std::move(oldest->second);
			table.erase(oldest);
		}
		void *at = mmap(e->at, page_size, PROT_READ,
				MAP_SHARED | (e->at != nullptr ? MAP_FIXED : 0), file(),
				off_t(page) * off_t(page_size));
		if (at == MAP_FAILED)
			must(-errno, "mmap");
		e->at = static_cast<char *>(at);
		e->page = page;
		e->refs = 1;
		return (table[page] = std::move(e)).get();
	}
	void put(entry *e)
	{
		std::lock_guard<std::mutex> guard(lock);

		if (--e->refs == 0)
			e->place = unused.insert(unused.end(), e);
	}
	void get(uint64_t page, handle &e)
	{
		e = get(page);
	}
	static uint64_t word(handle e)
	{
		return *reinterpret_cast<uint64_t *>(e->at);
	}
	uint64_t access(uint64_t page)
	{
		entry *e = get(page);
		uint64_t first = word(e);

		put(e);
		return first;
	}
};

static uint64_t next(uint64_t &state)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* Return the pages that one thread accesses, in order. */
static std::vector<uint32_t> hot_and_cold(unsigned rate, unsigned thread)
{
	std::vector<uint32_t> order(steps);
	uint64_t random = thread + 1;
	unsigned cold = hot + thread * (pages / 2);

	for (auto &p : order)
		if (next(random) % 100 < rate) {
			p = uint32_t(next(random) % hot);
		} else {
			cold = cold + 1 < pages ? cold + 1 : hot;
			p = cold;
		}
	return order;
}

static std::vector<uint32_t> one_of(unsigned set, unsigned thread)
{
	std::vector<uint32_t> order(steps);
	uint64_t random = thread + 1;

	for (auto &p : order)
		p = uint32_t(next(random) % set);
	return order;
}

struct pattern {
	std::vector<uint32_t> orders[2]; /* one per thread */
};

template <class C> static void run(benchmark::State &state, C &c, const pattern &way)
{
	constexpr unsigned batch = 256;
	const auto &order = way.orders[state.thread_index()];
	pinned here(unsigned(state.thread_index()));
	unsigned at = 0;

	percpu_seq_attach();
	/* Until the tables are in their final state, or for 50 ms. */
	auto begin = std::chrono::steady_clock::now();
	for (unsigned i = 0; i < 4 * steps; i++) {
		benchmark::DoNotOptimize(c.access(order[i % steps]));
		if (i % 256 == 0 &&
		    std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(50))
			break;
	}
	for (auto _ : state) {
		for (unsigned i = 0; i < batch; i++)
			if (c.access(order[at + i]) != order[at + i])
				must(-EIO, "the right page");
		at = (at + batch) % steps;
	}
	state.counters["ops"] = double(state.iterations()) * batch;
}

/* Allocate so many buffers, load a word of each, and free them. */
template <class C>
static void run_held(benchmark::State &state, C &c, const pattern &way, unsigned number)
{
	const auto &order = way.orders[state.thread_index()];
	std::vector<typename C::handle> buffers(number);
	pinned here(unsigned(state.thread_index()));
	unsigned at = 0;

	percpu_seq_attach();
	for (auto _ : state) {
		for (unsigned i = 0; i < number; i++)
			c.get(order[(at + i) % steps], buffers[i]);
		for (unsigned i = 0; i < number; i++) {
			if (C::word(buffers[i]) != order[(at + i) % steps])
				must(-EIO, "the right page");
			c.put(buffers[i]);
		}
		at = (at + number) % steps;
	}
	state.counters["ops"] = double(state.iterations()) * number;
}

/* Return the order with each page n times in a row. */
static std::vector<uint32_t> repeated(const std::vector<uint32_t> &order, unsigned n)
{
	std::vector<uint32_t> result(order.size());

	for (size_t i = 0; i < order.size(); i++)
		result[i] = order[i / n];
	return result;
}

template <class C> static void measure_same(const char *name)
{
	for (unsigned number : sharers)
		for (int threads = 1; threads <= 2; threads++) {
			auto way = std::make_shared<pattern>(
				pattern{ { repeated(one_of(hot, 0), number),
					   repeated(one_of(hot, 1), number) } });
			auto c = std::make_shared<C>();

			benchmark::RegisterBenchmark(text(SAME, name, number).c_str(),
						     [c, way, number](benchmark::State &state) {
							     run_held(state, *c, *way, number);
						     })
				->Threads(threads);
		}
}

template <class C> static void measure_held(const char *name, std::shared_ptr<pattern> way)
{
	for (unsigned number : held)
		for (int threads = 1; threads <= 2; threads++) {
			auto c = std::make_shared<C>();

			benchmark::RegisterBenchmark(text(HELD, name, number).c_str(),
						     [c, way, number](benchmark::State &state) {
							     run_held(state, *c, *way, number);
						     })
				->Threads(threads);
		}
}

/* Each figure has its own contender: no other contender or thread fills its table. */
template <class C> static void add(const std::string &name, std::shared_ptr<pattern> way)
{
	for (int threads = 1; threads <= 2; threads++) {
		auto c = std::make_shared<C>();

		benchmark::RegisterBenchmark(name.c_str(), [c, way](benchmark::State &state) {
			run(state, *c, *way);
		})->Threads(threads);
	}
}

static std::map<unsigned, std::shared_ptr<pattern>> mixtures, working_sets;

template <class C> static void measure(const char *name)
{
	for (unsigned rate : rates)
		add<C>(text(HITS, name, rate), mixtures[rate]);
	for (unsigned set : sets)
		add<C>(text(SETS, name, set), working_sets[set]);
}

void register_ways()
{
	for (unsigned rate : rates)
		mixtures[rate] = std::make_shared<pattern>(
			pattern{ { hot_and_cold(rate, 0), hot_and_cold(rate, 1) } });
	for (unsigned set : sets)
		working_sets[set] =
			std::make_shared<pattern>(pattern{ { one_of(set, 0), one_of(set, 1) } });
	measure<lwbuf<PERCPU_LWBUF_WINDOW, 1>>(WINDOW);
	measure<lwbuf<PERCPU_LWBUF_WINDOW, 0>>(WINDOW_UNKEPT);
	measure<lwbuf<PERCPU_LWBUF_BOUNCE, 1>>(BOUNCE);
	measure<lwbuf<PERCPU_LWBUF_AUTO, 1>>(AUTO);
	measure<lwbuf<PERCPU_LWBUF_DIRECT, 1>>(DIRECT);
	measure<sfbuf>(SHARED);
	measure<map_each>(MMAP);
	measure<read_each>(PREAD);
	measure<locked_table>(LOCKED);
	auto way = std::make_shared<pattern>(pattern{ { one_of(held_of, 0), one_of(held_of, 1) } });
	measure_held<lwbuf<PERCPU_LWBUF_WINDOW, 1>>(WINDOW, way);
	measure_held<lwbuf<PERCPU_LWBUF_BOUNCE, 1>>(BOUNCE, way);
	measure_held<sfbuf>(SHARED, way);
	measure_held<locked_table>(LOCKED, way);
	measure_same<lwbuf<PERCPU_LWBUF_WINDOW, 1>>(WINDOW);
	measure_same<lwbuf<PERCPU_LWBUF_BOUNCE, 1>>(BOUNCE);
	measure_same<sfbuf>(SHARED);
	measure_same<locked_table>(LOCKED);
}

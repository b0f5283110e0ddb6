/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_load.cc - what a load takes of address space and mappings, and how many cache misses an
 * access has.
 *
 * The review of lwbuf(9) asked about both: 6656 pages of address space were set aside for sf_bufs on
 * a machine with 2 GB, and some hundred in use; and a large hash without locality spoils the
 * caches. Here 2 threads use pages of a file of 64 MiB: 9 of 10 accesses are to one of 256 hot
 * pages, the others to any page.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <thread>

#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/sfbuf.h>

#include "../perf_counter.h"
#include "lwbuf.h"

static constexpr size_t page_size = 4096;
static constexpr unsigned pages = 16384;
static constexpr unsigned set_aside = 6656; /* by the thread's kernel, for sf_bufs */

static constexpr unsigned samples_of_load = 20; /* per thread */

static unsigned rounds(unsigned number)
{
	return 60000 / number;
}

static uint64_t next(uint64_t &state)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static uint64_t next_page(uint64_t &state)
{
	return next(state) % 10 != 0 ? next(state) % hot : next(state) % pages;
}

static percpu_lwbufs *make_buffers(percpu_lwbuf_backend backend)
{
	int fd = memfd_create("bench-load", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	percpu_lwbuf_options o = {};
	percpu_lwbufs *f;

	o.size = sizeof(o);
	o.backend = backend;
	if (fd < 0 || ftruncate(fd, off_t(pages) * off_t(page_size)) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		must(-errno, "a sealed memfd");
	must(percpu_lwbuf_create(fd, &o, &f), "buffers of a file");
	close(fd);
	return f;
}

/* The most of each that was seen. */
struct peak {
	std::atomic<uint64_t> address, mapped, used;

	static void raise(std::atomic<uint64_t> &to, uint64_t n)
	{
		uint64_t was = to;

		while (was < n && !to.compare_exchange_weak(was, n))
			;
	}
};

/* Return how many mappings the process has of the file. Neighbors that show pages which follow one
 * another are one. */
static uint64_t mappings()
{
	std::ifstream maps("/proc/self/maps");
	std::string line;
	uint64_t n = 0;

	while (std::getline(maps, line))
		n += line.find("memfd:bench-load") != std::string::npos;
	return n;
}

static void note(percpu_lwbufs *f, peak &most)
{
	struct percpu_lwbuf_stats s;
	struct percpu_sfbuf_stats shared;

	percpu_lwbuf_stats(f, &s);
	percpu_sfbuf_stats(f, &shared);
	peak::raise(most.address, s.address);
	peak::raise(most.mapped, mappings());
	peak::raise(most.used, s.used + shared.used);
}

/* Let a thread have so many buffers at a time. */
static void use_windows(percpu_lwbufs *f, unsigned thread, unsigned number, peak &most)
{
	std::vector<percpu_lwbuf> buffers(number);
	uint64_t state = thread + 1;
	pinned here(thread);

	percpu_seq_attach();
	for (unsigned n = 0; n < rounds(number); n++) {
		for (auto &b : buffers)
			must(percpu_lwbuf_alloc(f, next_page(state), 0, &b), "a buffer");
		if (n % (rounds(number) / samples_of_load) == 0)
			note(f, most);
		for (auto &b : buffers)
			percpu_lwbuf_free(f, &b);
	}
}

static void use_shared(percpu_lwbufs *f, unsigned thread, unsigned number, peak &most)
{
	std::vector<percpu_sfbuf *> buffers(number);
	uint64_t state = thread + 1;
	pinned here(thread);

	for (unsigned n = 0; n < rounds(number); n++) {
		for (auto &b : buffers)
			must(percpu_sfbuf_alloc(f, next_page(state), 0, &b), "a shared buffer");
		if (n % (rounds(number) / samples_of_load) == 0)
			note(f, most);
		for (auto &b : buffers)
			percpu_sfbuf_free(f, b);
	}
}

typedef void load_fn(percpu_lwbufs *f, unsigned thread, unsigned number, peak &most);

static std::string in_pages(uint64_t bytes)
{
	return text("%llu", static_cast<unsigned long long>(bytes / page_size));
}

static void add_load(std::vector<std::vector<std::string>> &lines, const std::string &name,
		     load_fn *fn, unsigned number)
{
	percpu_lwbufs *f = make_buffers(PERCPU_LWBUF_WINDOW);
	std::vector<std::thread> threads;
	struct percpu_lwbuf_stats after;
	peak most = {};

	for (unsigned i = 0; i < 2; i++)
		threads.emplace_back(fn, f, i, number, std::ref(most));
	for (auto &thread : threads)
		thread.join();
	must(percpu_lwbuf_reclaim(f), "a reclaim");
	percpu_lwbuf_stats(f, &after);
	lines.push_back({ name, in_pages(most.address),
			  text("%llu", (unsigned long long)most.mapped),
			  text("%llu", (unsigned long long)most.used), in_pages(after.address) });
	must(percpu_lwbuf_destroy(f), "destroyed buffers");
}

void print_load()
{
	std::vector<std::vector<std::string>> lines = { { "", "pages of address space",
							  "mappings at most", "in use at most",
							  "address space after a reclaim" } };

	lines.push_back(
		{ "sf_bufs of the review, 2 GB of memory", text("%u", set_aside), "", "", "" });
	for (unsigned number : { 1, 8, 150 })
		add_load(lines, text("window, %u per thread at a time", number), use_windows,
			 number);
	add_load(lines, "shared buffer, 150 per thread at a time", use_shared, 150);
	printf("\nAddress space and mappings of a load of 2 threads, in pages of 4 KiB\n\n");
	print_table(lines);
}

/* Cache misses */

struct event {
	const char *name;
	encoding of;
};

static constexpr uint64_t cache_event(uint64_t cache, uint64_t result)
{
	return cache | PERF_COUNT_HW_CACHE_OP_READ << 8 | result << 16;
}

static constexpr event events[] = {
	{ "L1 data misses",
	  { PERF_TYPE_HW_CACHE,
	    cache_event(PERF_COUNT_HW_CACHE_L1D, PERF_COUNT_HW_CACHE_RESULT_MISS) } },
	{ "TLB misses",
	  { PERF_TYPE_HW_CACHE,
	    cache_event(PERF_COUNT_HW_CACHE_DTLB, PERF_COUNT_HW_CACHE_RESULT_MISS) } },
	{ "misses of the last cache", { PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES } },
};

/* Return the misses per access of hits in the table, or why they cannot be had. */
static std::string misses(const event &e, percpu_lwbuf_backend backend, unsigned working_set)
{
	percpu_lwbufs *f = make_buffers(backend);
	constexpr unsigned accesses = 1000000;
	std::optional<double> before, after;
	perf_counter counter(e.of);
	uint64_t state = 1;
	pinned here(0);

	percpu_seq_attach();
	for (unsigned n = 0; n < 2 * accesses; n++) {
		percpu_lwbuf b;

		if (n == accesses)
			before = counter.count();
		must(percpu_lwbuf_alloc(f, next(state) % working_set, 0, &b), "a buffer");
		benchmark::DoNotOptimize(*static_cast<volatile char *>(percpu_lwbuf_kva(&b)));
		percpu_lwbuf_free(f, &b);
	}
	after = counter.count();
	must(percpu_lwbuf_destroy(f), "destroyed buffers");
	if (!before || !after)
		return "not measured here: " + counter.why_not();
	return text("%.2f", (*after - *before) / accesses);
}

void print_misses(report &all)
{
	std::vector<std::vector<std::string>> lines = { { "" } };

	for (const event &e : events) {
		const std::string why = perf_counter(e.of).why_not();

		if (!why.empty()) {
			all.skip(e.name, "not measured here: " + why);
			continue;
		}
		for (auto [backend, name] : { std::pair{ PERCPU_LWBUF_WINDOW, WINDOW },
					      std::pair{ PERCPU_LWBUF_DIRECT, DIRECT } }) {
			lines.push_back({ text("%s, %s", name, e.name) });
			for (unsigned set : { 64, 512, 1024 })
				lines.back().push_back(misses(e, backend, set));
		}
	}
	if (lines.size() == 1)
		return;
	for (unsigned set : { 64, 512, 1024 })
		lines[0].push_back(text("%u pages", set));
	printf("\nCache misses per access that finds its window\n\n");
	print_table(lines);
}

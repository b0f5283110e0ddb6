/* SPDX-License-Identifier: MIT */
/*
 * zone_stride.cc - the reason for the distance between lanes.
 *
 * Reading sums a counter over 128 lanes at some distance. A cache that is indexed by physical
 * address sees that distance only inside a huge page. Writing adds 1 to this CPU's cell, where
 * the distance is a constant to multiply by, a power of two to shift by, or loaded from memory.
 */
#include <sys/mman.h>

#include <cerrno>
#include <cstdio>
#include <memory>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "zone.h"

static constexpr unsigned lanes = 128;
static constexpr unsigned batch = 64;
static constexpr const char *pages[] = { "small pages", "huge pages" };

#if defined(__x86_64__) && !defined(PERCPU_GENERIC)
#define HAVE_SHIFT
#endif

static constexpr const char *ours = "68 KiB + 64";

static const struct {
	const char *name;
	size_t bytes;
} strides[] = {
	{ "64 KiB", 65536 },	     { "68 KiB", 65536 + 4096 },
	{ ours, 65536 + 4096 + 64 }, /* PERCPU_STRIDE on x86-64 */
	{ "2 MiB", 1 << 21 },	     { "2 MiB + 4 KiB", (1 << 21) + 4096 },
};

/* Lanes at a distance, in memory of their own. */
class lane_memory
{
      public:
	lane_memory(size_t stride, bool huge) : stride(stride), size(lanes * stride + 4096)
	{
		base = (char *)mmap(nullptr, size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (base == MAP_FAILED)
			must(-errno, "lanes");
		madvise(base, size, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
		for (unsigned lane = 0; lane < lanes; lane++)
			*(uint64_t *)(base + lane * stride) = 1;
	}
	~lane_memory()
	{
		munmap(base, size);
	}
	uint64_t sum() const
	{
		const char *cell = base;
		uint64_t sum = 0;

		for (unsigned lane = 0; lane < lanes; lane++, cell += stride)
			sum += *(const volatile uint64_t *)cell;
		return sum;
	}

      private:
	const size_t stride, size;
	char *base;
};

static std::string sum_name(const char *stride, const char *page)
{
	return text("sum over 128 lanes, %s apart, %s", stride, page);
}

static void measure_sum(const char *name, size_t stride)
{
	for (auto page : pages) {
		auto memory = std::make_shared<lane_memory>(stride, page == pages[1]);

		benchmark::RegisterBenchmark(
			sum_name(name, page).c_str(), [memory](benchmark::State &state) {
				pinned here(0);

				for (auto _ : state)
					for (unsigned i = 0; i < batch; i++)
						benchmark::DoNotOptimize(memory->sum());
				state.counters["ops"] = double(state.iterations()) * batch;
			});
	}
}

/* The sequence of percpu_counter_add(), with the distance applied in three ways. */

struct multiply {
	static constexpr const char *name = "multiply by a constant";

	static int add(char *cell)
	{
		return percpu_seq_add(cell, PERCPU_STRIDE, 1);
	}
};

struct multiply_loaded {
	static constexpr const char *name = "multiply by what a handle holds";

	static int add(char *cell)
	{
		static volatile size_t stride = PERCPU_STRIDE;

		return percpu_seq_add(cell, stride, 1);
	}
};

#ifdef HAVE_SHIFT
struct shift {
	static constexpr const char *name = "shift by a constant";

	static int add(char *cell)
	{
		__asm__ __volatile__ goto(
			PERCPU_SEQ_START("shift", "") "shlq $16, %%rax\n\t"
						      "addq %[cell], %%rax\n\t"
						      "addq $1, (%%rax)\n" PERCPU_SEQ_END
			: /* none */
			: [rs] "r"(percpu_self), [cell] "r"(cell)
			: PERCPU_SEQ_CLOBBERS
			: slow);
		return 0;
slow:
		return PERCPU_SEQ_SLOW;
	}
};
#endif

template <class C> static void measure_add()
{
	static percpu_region *region;
	static void *cells;

	must(percpu_region_create(nullptr, &region), "a region");
	must(percpu_region_alloc(region, 64, 64, &cells), "8 cells");
	benchmark::RegisterBenchmark(C::name, [](benchmark::State &state) {
		pinned here(0);

		percpu_seq_attach();
		for (auto _ : state)
			for (unsigned i = 0; i < batch; i += 8)
				for (unsigned k = 0; k < 8; k++)
					C::add((char *)cells + k * 8);
		state.counters["ops"] = double(state.iterations()) * batch;
	});
}

void register_strides()
{
	for (auto &s : strides)
		measure_sum(s.name, s.bytes);
	measure_add<multiply>();
	measure_add<multiply_loaded>();
#ifdef HAVE_SHIFT
	measure_add<shift>();
#endif
}

void print_strides(report &all)
{
	const results &r = all.rows;
	std::vector<std::vector<std::string>> sums = { { "distance of lanes", pages[0], "ratio",
							 pages[1], "ratio" } };
	std::vector<std::vector<std::string>> adds = { { "CPU number to lane", "add", "ratio" } };

	for (auto &s : strides) {
		sums.push_back({ s.name });
		for (auto page : pages) {
			std::string name = sum_name(s.name, page);

			sums.back().push_back(median_best(r.find(name)));
			sums.back().push_back(
				ratio_text(r.ratio(name, 1, sum_name(ours, page), 1)));
		}
	}
	for (auto name :
	     { "multiply by a constant", "multiply by what a handle holds", "shift by a constant" })
		adds.push_back({ name, median_best(r.find(name)),
				 ratio_text(r.ratio(name, 1, multiply::name, 1)) });
	printf("\nThe distance between lanes: a sum over 128, ns; ratios are to %s bytes, ours\n\n",
	       ours);
	print_table(sums);
	printf("\nAnd an add, 8 counters in turn, ns\n\n");
	print_table(adds);
#ifndef HAVE_SHIFT
	all.skip("shift by a constant", "its sequence is written for x86-64");
#endif
}

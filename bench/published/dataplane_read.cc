/* SPDX-License-Identifier: MIT */
/*
 * dataplane_read.cc - the cost of reading for the reader: objects of 4 fields, over the lanes of
 * this machine and over 128.
 */
#include <unistd.h>

#include <cstdio>

#include <percpu/percpu.h>

#include "dataplane.h"

static constexpr size_t million = 1000000;
static constexpr size_t numbers[] = { 10, 1000, million };
static constexpr size_t fields = 4;

/* All bytes of these lanes are in use: 2 banks of 32 MB times 128 are 8 GB. */
static constexpr double memory_of_most = 16e9;

static const struct {
	const char *name;
	int (*read)(const percpu_stats *s, size_t first, size_t n, void *out);
} calls[] = {
	{ "percpu_stats_fetch", percpu_stats_fetch },
	{ "percpu_stats_snapshot", percpu_stats_snapshot },
	{ "percpu_stats_fetch_zero", percpu_stats_fetch_zero },
};

static std::string read_name(const char *call, size_t n, uint32_t lanes)
{
	return text("%s, %zu objects, %u lanes", call, n, lanes);
}

/* Make objects in which each CPU has counted, in both banks. */
static percpu_stats *counted(size_t n, uint32_t lanes)
{
	percpu_region_options o = {};
	percpu_region *r;
	percpu_stats *s;

	o.size = sizeof(o);
	o.cpus = lanes;
	o.lane_size = 2 * n * fields * 8 + 4096;
	must(percpu_region_create(&o, &r), "a region of many lanes");
	must(percpu_stats_create_in(r, fields * 8, n, 0, &s), "objects");
	for (uint32_t lane = 0; lane < lanes; lane++)
		for (size_t bank = 0; bank < 2; bank++)
			for (size_t i = 0; i < n * fields; i++)
				*(uint64_t *)(s->block.base + lane * s->block.stride +
					      bank * s->banks + i * 8) = 1;
	return s;
}

/* Return whether any of them is wanted. */
static bool register_read(const arguments &given, size_t n, uint32_t lanes)
{
	bool wanted = false;

	for (auto &c : calls) {
		wanted |= given.want(read_name(c.name, n, lanes));
		auto *b = benchmark::RegisterBenchmark(
			read_name(c.name, n, lanes).c_str(), [=](benchmark::State &state) {
				/* All three calls use one set, and so one region. */
				static std::map<std::pair<size_t, uint32_t>, percpu_stats *> sets;
				static std::vector<uint64_t> out(million * fields);
				percpu_stats *&s = sets[{ n, lanes }];
				pinned here(0);

				if (!s)
					s = counted(n, lanes);
				for (auto _ : state)
					must(c.read(s, 0, n, out.data()), c.name);
				state.counters["ops"] = double(state.iterations());
			});

		b->UseRealTime();
		if (n == million) /* seconds, over 128 lanes */
			b->Iterations(1)->Repetitions(5);
	}
	return wanted;
}

bool register_reads(report &all)
{
	bool wanted = false;
	double memory = double(sysconf(_SC_AVPHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));

	for (uint32_t lanes : { uint32_t(percpu_status()->possible_cpus), 128u })
		for (size_t n : numbers) {
			if (n == million && lanes == 128 && memory < memory_of_most)
				all.skip("1 000 000 objects over 128 lanes",
					 "less than 16 GB free");
			else
				wanted |= register_read(all.given, n, lanes);
		}
	return wanted;
}

void print_reads(const results &r)
{
	std::vector<std::vector<std::string>> lines = {
		{ "us, real time: median (best)", "lanes", "10 objects", "1 000", "1 000 000" },
	};

	for (uint32_t lanes : { uint32_t(percpu_status()->possible_cpus), 128u })
		for (auto &c : calls) {
			lines.push_back({ c.name, std::to_string(lanes) });
			for (size_t n : numbers) {
				const row *x = r.find(read_name(c.name, n, lanes));

				lines.back().push_back(x ? ns_text(x->median() / 1e3) + " (" +
								       ns_text(x->best() / 1e3) +
								       ")" :
							   "-");
			}
		}
	printf("\nThe reader's cost: objects of 4 fields, all lanes in use\n\n");
	print_table(lines);
}

/* SPDX-License-Identifier: MIT */
/*
 * stats_group.cc - the benchmark of stats_group.h: an update of two objects beside two updates, and
 * beside one update of as many fields; objects that come and go; reading; memory per object; and how
 * many snapshots of two sets differ, of one moment and of two.
 *
 * usage: stats_group [--quick] [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include <percpu/stats_group.h>

#include "objects.h"

static constexpr size_t objects = 64;
static constexpr size_t flow = 40, total = 1;

template <unsigned fields> struct on_group {
	static constexpr unsigned adds = 2 * fields;
	static constexpr uint64_t ones[fields] = { 1, 1 };
	static inline percpu_stats_group *group;

	static void make()
	{
		if (!group)
			must(percpu_stats_group_create(8 * fields, 2, objects, &group), "a group");
	}
	static uint64_t sum(int (*read)(const percpu_stats_group *, size_t, size_t, void *))
	{
		uint64_t out[objects * fields], n = 0;

		must(read(group, 0, objects, out), "reading a group");
		for (uint64_t o : out)
			n += o;
		return n;
	}
	static inline uint64_t before;
	static void reset()
	{
		before = sum(percpu_stats_group_fetch);
	}
	static uint64_t total_sum()
	{
		return sum(percpu_stats_group_fetch) - before;
	}
};

/* The words that are added come from registers, as the length of a packet does. */
template <unsigned fields> [[gnu::always_inline]] inline void set_words(uint64_t (&n)[fields])
{
	uint64_t one = 1;

	__asm__("" : "+r"(one));
	for (unsigned w = 0; w < fields; w++)
		n[w] = one;
}

template <unsigned fields> struct both : on_group<fields> {
	static uint64_t total()
	{
		return on_group<fields>::total_sum();
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		uint64_t n[fields];

		set_words(n);
		(void)percpu_stats_group_update_both(on_group<fields>::group, flow, n, ::total, n,
						     fields);
	}
};

template <unsigned fields, unsigned updates> struct on_sets {
	static constexpr unsigned adds = fields * updates;
	static inline percpu_stats *sets[2];

	static void make()
	{
		for (percpu_stats *&s : sets)
			if (!s)
				must(percpu_stats_create(8 * fields, objects, 0, &s), "statistics");
	}
	static inline uint64_t before;
	static uint64_t sum()
	{
		uint64_t out[objects * fields], n = 0;

		for (percpu_stats *s : sets) {
			must(percpu_stats_fetch(s, 0, objects, out), "fetch");
			for (uint64_t o : out)
				n += o;
		}
		return n;
	}
	static void reset()
	{
		before = sum();
	}
	static uint64_t total()
	{
		return sum() - before;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		uint64_t n[fields];

		set_words(n);
		(void)percpu_stats_update(sets[0], flow, 0, n, fields);
		if (updates == 2)
			(void)percpu_stats_update(sets[1], ::total, 0, n, fields);
	}
};

#define BOTH2 "a flow and a total, 2 fields each"
#define BOTH4 "a flow and a total, 4 fields each"
#define TWO2 "two updates of 2 fields"
#define TWO4 "two updates of 4 fields"
#define ONE4 "one update of 4 fields"
#define ONE8 "one update of 8 fields"
#define COME_AND_GO "percpu_stats_group_alloc and _free"
#define FETCH "percpu_stats_group_fetch, 64 objects"
#define SNAPSHOT "percpu_stats_group_snapshot, 64 objects"

static void register_tiers()
{
	measure<both<2>>(BOTH2);
}

static uint64_t come_and_go()
{
	size_t i;

	must(percpu_stats_group_alloc(on_group<2>::group, &i), "an object");
	must(percpu_stats_group_free(on_group<2>::group, i, 0), "to free");
	return i;
}

static uint64_t fetch()
{
	static uint64_t out[2 * objects];

	must(percpu_stats_group_fetch(on_group<2>::group, 0, objects, out), "fetch");
	return out[0];
}

static uint64_t snapshot()
{
	static uint64_t out[2 * objects];

	must(percpu_stats_group_snapshot(on_group<2>::group, 0, objects, out, nullptr), "snapshot");
	return out[0];
}

static void register_all()
{
	measure<both<4>>(BOTH4);
	measure<on_sets<2, 2>>(TWO2);
	measure<on_sets<4, 2>>(TWO4);
	measure<on_sets<4, 1>>(ONE4);
	measure<on_sets<8, 1>>(ONE8);
	on_group<2>::make();
	measure_call(COME_AND_GO, come_and_go, 1);
	measure_call(FETCH, fetch, 1);
	measure_call(SNAPSHOT, snapshot, 1);
}

/* How many pairs of snapshots of a flow and its total differ, while another thread counts. */

static constexpr unsigned pairs = 2000;

template <class Count, class Read> static unsigned differing(Count count, Read read)
{
	std::atomic<bool> over{ false };
	std::atomic<uint64_t> counted{ 0 };
	std::thread counter([&] {
		pinned here(1);

		while (!over) {
			count();
			counted.store(counted.load(std::memory_order_relaxed) + 1,
				      std::memory_order_relaxed);
		}
	});
	pinned here(0);
	uint64_t a[2], b[2], seen = 0;
	unsigned differ = 0;

	for (unsigned i = 0; i < pairs; i++) {
		while (counted.load(std::memory_order_relaxed) == seen)
			; /* the counting thread does not run */
		seen = counted.load(std::memory_order_relaxed);
		read(a, b);
		differ += a[0] != b[0] || a[1] != b[1];
	}
	over = true;
	counter.join();
	return differ;
}

static void print_pairs(report &all)
{
	static const uint64_t n[2] = { 1, 60 };
	percpu_stats *flows, *totals;
	percpu_stats_group *g;

	must(percpu_stats_create(16, 2, 0, &flows), "flows");
	must(percpu_stats_create(16, 2, 0, &totals), "totals");
	must(percpu_stats_group_create(16, 1, 2, &g), "a group");

	unsigned of_two = differing(
		[=] {
			(void)percpu_stats_update(flows, 0, 0, n, 2);
			(void)percpu_stats_update(totals, 0, 0, n, 2);
		},
		[=](uint64_t *a, uint64_t *b) {
			must(percpu_stats_snapshot(flows, 0, 1, a), "a snapshot");
			must(percpu_stats_snapshot(totals, 0, 1, b), "a snapshot");
		});
	unsigned of_one = differing(
		[=] { (void)percpu_stats_group_update_both(g, 1, n, 0, n, 2); },
		[=](uint64_t *a, uint64_t *b) {
			uint64_t out[4];

			must(percpu_stats_group_snapshot(g, 0, 2, out, nullptr), "a snapshot");
			b[0] = out[0], b[1] = out[1], a[0] = out[2], a[1] = out[3];
		});

	printf("\nSnapshots of a flow and of its total, while a thread counts for both\n\n");
	print_table({ { "of 2000 pairs, those that differ", "" },
		      { "two sets: two updates, two snapshots", std::to_string(of_two) },
		      { "a group: one update, one snapshot", std::to_string(of_one) } });
	all.add_figure("pairs of snapshots that differ, two sets", of_two, "pairs");
	all.add_figure("pairs of snapshots that differ, a group", of_one, "pairs");
	percpu_stats_destroy(flows);
	percpu_stats_destroy(totals);
	percpu_stats_group_destroy(g);
}

/* Memory of objects of 2 fields that each CPU has counted in */

static double resident()
{
	std::ifstream status("/proc/self/status");
	double sum = 0;

	for (std::string line, name; std::getline(status, line);) {
		std::istringstream in(line);
		double kb = 0;

		if (in >> name >> kb && (name == "RssAnon:" || name == "RssShmem:"))
			sum += kb * 1024;
	}
	return sum;
}

template <class F> static double growth(F &&f)
{
	double before = resident();

	for (unsigned i = 0; i < usable_cpus().size(); i++)
		std::thread([&f, i] {
			pinned here(i);

			f();
		}).join();
	return resident() - before;
}

static void print_memory(report &all)
{
	static constexpr size_t n = 100000;
	static const uint64_t ones[2] = { 1, 1 };
	std::vector<percpu_stats *> own(n);
	percpu_stats_group *g;

	must(percpu_stats_group_create(16, 1, n + 1, &g), "a group");
	for (size_t i = 0, k; i < n; i++)
		must(percpu_stats_group_alloc(g, &k), "an object");

	/* A snapshot makes the other bank count. */
	std::vector<uint64_t> out(2 * (n + 1));
	auto count = [=] {
		for (size_t i = 1; i <= n; i++)
			(void)percpu_stats_group_update_both(g, i, ones, 0, ones, 2);
	};
	auto count_alone = [&] {
		for (percpu_stats *&s : own) {
			if (!s)
				must(percpu_stats_create(16, 1, 0, &s), "an object");
			(void)percpu_stats_update(s, 0, 0, ones, 2);
		}
	};
	double in_group = growth(count), alone;

	must(percpu_stats_group_snapshot(g, 0, n + 1, out.data(), nullptr), "a snapshot");
	in_group += growth(count);
	alone = growth(count_alone);
	for (percpu_stats *s : own)
		must(percpu_stats_snapshot(s, 0, 1, out.data()), "a snapshot");
	alone += growth(count_alone);

	printf("\nMemory of 100 000 objects of 2 fields in which %zu CPUs have counted, in both "
	       "banks\n\n",
	       usable_cpus().size());
	print_table({ { "bytes per object", "" },
		      { "an object of a group", ns_text(in_group / n) },
		      { "an object of its own", ns_text(alone / n) } });
	all.add_figure("bytes of an object of a group", in_group / n, "B");
	all.add_figure("bytes of an object of its own", alone / n, "B");
	percpu_stats_group_destroy(g);
	for (percpu_stats *s : own)
		percpu_stats_destroy(s);
}

static void print_updates(report &all)
{
	print_rows(all.rows, "An update of two objects", { BOTH2, TWO2, ONE4, BOTH4, TWO4, ONE8 });
	print_rows(all.rows, "Objects that come and go, and reading",
		   { COME_AND_GO, FETCH, SNAPSHOT });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(all.rows, ("The lower tiers:" + tier).c_str(), { BOTH2 + tier });
	for (int threads : { 1, 2 }) {
		std::string with = threads == 1 ? ", 1 thread" : ", 2 threads";

		all.add_aim("2 fields each, to one update of 4" + with, 1.3,
			    all.rows.ratio(BOTH2, threads, ONE4, threads));
		all.add_aim("4 fields each, to one update of 8" + with, 1.3,
			    all.rows.ratio(BOTH4, threads, ONE8, threads));
	}
	all.add_aim("2 fields each, to two updates", 1.3, all.rows.ratio(BOTH2, 1, TWO2, 1));
	all.add_aim("4 fields each, to two updates", 1.3, all.rows.ratio(BOTH4, 1, TWO4, 1));
}

int main(int argc, char **argv)
{
	report all("stats_group", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about half a minute"))
		return 0;
	print_updates(all);
	print_pairs(all);
	print_memory(all);
	all.print_sections();
	return all.finish();
}

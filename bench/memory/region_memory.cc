/* SPDX-License-Identifier: MIT */
/*
 * region_memory.cc - what a million counters, and a hundred thousand statistics, leave of the
 * memory that they took, after they are destroyed and after percpu_reclaim().
 *
 * Resident is the growth of the process since before they were made, files aside.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <thread>

#include <percpu/percpu.h>
#include <percpu/stats.h>

#include "region.h"

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

/* Let a function run on each CPU in turn. */
template <class F> static void on_each_cpu(F &&f)
{
	for (unsigned i = 0; i < usable_cpus().size(); i++)
		std::thread([&f, i] {
			pinned here(i);

			f();
		}).join();
}

template <class T, class Create, class Add, class Destroy>
static void print_share(report &all, const char *what, size_t n, Create &&create, Add &&add,
			Destroy &&destroy)
{
	std::vector<T *> objects(n, nullptr);

	on_each_cpu([] {}); /* the stacks of threads stay */
	percpu_reclaim();

	double before = resident();

	for (T *&object : objects)
		must(create(&object), what);
	on_each_cpu([&] {
		for (T *object : objects)
			add(object);
	});

	double full = resident() - before;

	for (T *object : objects)
		destroy(object);

	double destroyed = resident() - before;

	percpu_reclaim();

	double left = resident() - before;

	printf("%-34s%8.2f MiB%8.2f MiB%8.2f MiB%8.1f %%\n", what, full / (1 << 20),
	       destroyed / (1 << 20), left / (1 << 20), 100 * left / full);
	all.add_figure(std::string("left by ") + what, 100 * left / full, "%");
}

static void print_shares(report &all, const char *counters, const char *stats, percpu_region *r)
{
	print_share<percpu_counter>(
		all, counters, 1000000,
		[r](percpu_counter **ret) {
			return r ? percpu_counter_create_in(r, ret) : percpu_counter_create(ret);
		},
		[](percpu_counter *c) { percpu_counter_add(c, 1); }, percpu_counter_destroy);
	print_share<percpu_stats>(
		all, stats, 100000,
		[r](percpu_stats **ret) {
			return r ? percpu_stats_create_in(r, 16, 1, 0, ret) :
				   percpu_stats_create(16, 1, 0, ret);
		},
		[](percpu_stats *s) { percpu_stats_add_slow(s, 0, 0, 1); }, percpu_stats_destroy);
}

void print_memory(report &all)
{
	int fd = memfd_create("region", MFD_CLOEXEC);
	percpu_region *shared;

	must(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, nullptr,
				   &shared),
	     "a region in memory");
	close(fd);
	printf("\n%-34s%12s%12s%12s%10s\n\n", "Resident memory; all CPUs count", "in use",
	       "destroyed", "reclaimed", "left");
	print_shares(all, "1 000 000 counters", "100 000 statistics", nullptr);
	print_shares(all, "1 000 000 counters, shared", "100 000 statistics, shared", shared);
	percpu_region_close(shared);
}

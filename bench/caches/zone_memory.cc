/* SPDX-License-Identifier: MIT */
/*
 * zone_memory.cc - the memory of a zone: at first, with 100 000 items that every CPU has
 * touched, after they are freed, and after the zone was reclaimed.
 *
 * Resident is the growth of the process since before the zone was made.
 */
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include <percpu/percpu.h>
#include <percpu/zone.h>

#include "zone.h"

static constexpr size_t item_size = 64;

static double resident()
{
	std::ifstream statm("/proc/self/statm");
	double size = 0, pages = 0;

	statm >> size >> pages;
	return pages * double(sysconf(_SC_PAGESIZE));
}

static void print_step(report &all, const char *when, double bytes, double items)
{
	unsigned cpus = usable_cpus().size();

	printf("%-32s%8.2f MiB", when, bytes / (1 << 20));
	if (items > 0)
		printf("  %.1f bytes per item and CPU", bytes / items / cpus);
	puts("");
	all.add_figure(std::string("resident memory of a zone, ") + when, bytes, "bytes");
}

void print_memory(report &all)
{
	std::vector<void *> items(many, nullptr);
	percpu_zone *z;
	double before = resident();

	must(percpu_zone_create("memory", item_size, nullptr, &z), "a zone");
	printf("\nResident memory of a zone of %zu-byte items; %zu CPUs touch them\n\n", item_size,
	       usable_cpus().size());
	print_step(all, "created", resident() - before, 0);

	for (void *&item : items)
		must(percpu_zone_alloc(z, 0, &item), "an item");
	print_step(all, "100 000 allocated", resident() - before, 0);

	/* Each CPU touches the items, as in a program. */
	for (unsigned i = 0; i < usable_cpus().size(); i++)
		std::thread([&items, i] {
			pinned here(i);

			for (void *item : items)
				*(volatile char *)percpu_zone_get(item, usable_cpus()[i]) = 1;
		}).join();
	print_step(all, "and touched", resident() - before, double(many));

	for (void *item : items)
		must(percpu_zone_free(z, item), "a free");
	print_step(all, "all freed", resident() - before, 0);

	size_t given_back = percpu_zone_reclaim(z);

	print_step(all, "reclaimed", resident() - before, 0);
	printf("\npercpu_zone_reclaim() gave back the memory of %.1f MiB of address space.\n",
	       double(given_back) / (1 << 20));
	must(percpu_zone_destroy(z), "destroying the zone");
}

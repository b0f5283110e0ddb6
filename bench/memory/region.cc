/* SPDX-License-Identifier: MIT */
/*
 * region.cc - the benchmark of region.h: allocating cells, finding objects, opening files; and
 * what is left of the memory of objects.
 *
 * usage: region [--json FILE] [--benchmark_...]
 */
#include <cerrno>

#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/region.h>

#include "add.h"
#include "region.h"

static const char *const path = "/dev/shm/bench-region";
static percpu_region *own, *shared;

static int alloc_and_free(percpu_region *r)
{
	void *cell;

	must(percpu_region_alloc(r, 64, 64, &cell), "a cell");
	return percpu_region_free(r, cell, 64);
}

static int attach_and_detach()
{
	percpu_counter_array *a;

	must(percpu_counter_array_open(shared, 0, 8, &a), "an array");
	percpu_counter_array_detach(a);
	return 0;
}

static int open_and_close()
{
	percpu_region *r;

	must(percpu_region_open(path, PERCPU_REGION_WRITE, nullptr, &r), "opening a region");
	percpu_region_close(r);
	return 0;
}

int main(int argc, char **argv)
{
	report all("region", argc, argv);

	must(percpu_region_create(nullptr, &own), "a private region");
	must(percpu_region_open(path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, nullptr, &shared),
	     path);
	measure_call("alloc and free, private", [] { return alloc_and_free(own); });
	measure_call("alloc and free, shared", [] { return alloc_and_free(shared); });
	measure_call("open at a root and detach", attach_and_detach);
	measure_call("percpu_region_open and _close", open_and_close, 1);
	all.run();
	unlink(path);
	print_rows(all.rows, "Regions, ns for both calls",
		   { "alloc and free, private", "alloc and free, shared",
		     "open at a root and detach", "percpu_region_open and _close" });
	print_memory(all);
	all.print_sections();
	return all.finish();
}

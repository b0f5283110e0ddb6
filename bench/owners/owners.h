/* SPDX-License-Identifier: MIT */
/*
 * owners.h - owners in a file, whose name is removed once they are made, and an add to a gauge that
 * belongs to them.
 */
#ifndef BENCH_OWNERS_H
#define BENCH_OWNERS_H

#include <string>

#include <unistd.h>

#include <percpu/percpu.h>

#include "report.h"

inline percpu_owners *owners_in_file()
{
	const std::string path = "/dev/shm/percpu-bench-" + std::to_string(getpid());
	percpu_region *region;
	percpu_owners *owners;

	must(percpu_region_open(path.c_str(),
				PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS,
				nullptr, &region),
	     path.c_str());
	unlink(path.c_str());
	must(percpu_owners_create_in(region, &owners), "owners");
	return owners;
}

/* An add to this process's share of a gauge. */
struct owned_add {
	static inline percpu_owners *owners;
	static inline percpu_owned_gauge *gauge;

	static void make()
	{
		if (gauge)
			return;
		owners = owners_in_file();
		must(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &gauge), "a gauge");
	}
	static void reset()
	{
		must(percpu_owned_gauge_set(gauge, 0), "to set");
	}
	static uint64_t total()
	{
		int64_t v;

		must(percpu_owned_gauge_fetch(gauge, PERCPU_OWNED_LIVING, &v), "to fetch");
		return uint64_t(v);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_owned_gauge_add(gauge, 1);
	}
};

#endif

/* SPDX-License-Identifier: MIT */
/* owners.h - owners in a file, whose name is removed once they are made. */
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

#endif

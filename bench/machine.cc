/* SPDX-License-Identifier: MIT */
/* machine.cc - describe this machine, and pin threads to its CPUs. */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

#include <fstream>

#include <percpu/percpu.h>

#include "report.h"
#include "topology.h"

void must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(-error));
	exit(1);
}

static const std::vector<core> &usable_cores()
{
	static const std::vector<core> cores = [] {
		std::vector<int> list;
		cpu_set_t set;

		if (sched_getaffinity(0, sizeof(set), &set) != 0)
			must(-errno, "sched_getaffinity");
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &set))
				list.push_back(cpu);
		return cores_of(list, "/sys/devices/system/cpu");
	}();

	return cores;
}

const std::vector<int> &usable_cpus()
{
	static const std::vector<int> cpus = placement(usable_cores(), 0);

	return cpus;
}

static void allow(const std::vector<int> &cpus)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int cpu : cpus)
		CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) != 0)
		must(-errno, "sched_setaffinity");
}

pinned::pinned(unsigned nth, unsigned first_core)
{
	const std::vector<int> cpus = placement(usable_cores(), first_core);

	allow({ cpus[nth % cpus.size()] });
}

pinned::~pinned()
{
	allow(usable_cpus());
}

static std::string cpu_model()
{
	std::ifstream info("/proc/cpuinfo");
	std::string line;

	while (std::getline(info, line))
		if (line.rfind("model name", 0) == 0)
			return line.substr(line.find(':') + 2);
	return "unknown";
}

std::string load_average()
{
	double load[3] = {};

	getloadavg(load, 3);
	return text("%.2f %.2f %.2f", load[0], load[1], load[2]);
}

std::vector<fact> machine()
{
	auto *st = percpu_status();
	utsname u;

	uname(&u);
	return {
		{ "CPU", cpu_model() },
		{ "CPUs usable", std::to_string(usable_cpus().size()) },
		{ "cores usable", std::to_string(usable_cores().size()) },
		{ "CPUs possible", std::to_string(st->possible_cpus) },
		{ "kernel", std::string(u.release) + " " + u.machine },
#ifdef __GLIBC__
		{ "libc", std::string("glibc ") + gnu_get_libc_version() },
#endif
#ifdef __clang__
		{ "compiler", __VERSION__ },
#else
		{ "compiler", "GCC " __VERSION__ },
#endif
#ifndef __OPTIMIZE__
		{ "WARNING", "compiled without optimization" },
#endif
		{ "priority", std::to_string(getpriority(PRIO_PROCESS, 0)) },
		{ "tier", std::string(percpu_tier_name(st->tier)) + ": " + st->reason },
	};
}

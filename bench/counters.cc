/* SPDX-License-Identifier: MIT */
/*
 * counters.cc - the counter benchmark: runs everything on the fastest tier,
 * then the rows that every tier has in a child process per lower tier.
 *
 * usage: counters [--full] [--json FILE] [--benchmark_...]
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "counters.h"

bool full;
std::string row_suffix;

void must(int error, const char *what)
{
	if (error == 0)
		return;
	fprintf(stderr, "counters: %s: %s\n", what, strerror(-error));
	exit(1);
}

const std::vector<int> &usable_cpus()
{
	static const std::vector<int> cpus = [] {
		std::vector<int> list;
		cpu_set_t set;

		if (sched_getaffinity(0, sizeof(set), &set) != 0)
			must(-errno, "sched_getaffinity");
		for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
			if (CPU_ISSET(cpu, &set))
				list.push_back(cpu);
		return list;
	}();

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

pinned::pinned(unsigned nth)
{
	allow({ usable_cpus()[nth % usable_cpus().size()] });
}

pinned::~pinned()
{
	allow(usable_cpus());
}

/* Runs this program again on a lower tier and takes over its rows. */
static void run_tier(results &r, const char *tier, const std::vector<char *> &args)
{
	char buf[4096];
	std::string text;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	if (pipe(fds) != 0)
		must(-errno, "pipe");
	pid = fork();
	if (pid < 0)
		must(-errno, "fork");
	if (pid == 0) {
		std::vector<char *> argv = args;

		dup2(fds[1], 1);
		close(fds[0]);
		close(fds[1]);
		setenv("PERCPU_TIER", tier, 1);
		argv.insert(argv.begin() + 1, const_cast<char *>("--tier"));
		argv.push_back(nullptr);
		execv("/proc/self/exe", argv.data());
		_exit(127);
	}
	close(fds[1]);
	while ((n = read(fds[0], buf, sizeof(buf))) > 0)
		text.append(buf, n);
	close(fds[0]);
	if (waitpid(pid, &status, 0) != pid || status != 0) {
		fprintf(stderr, "counters: no figures of tier %s\n", tier);
		return;
	}
	r.add_json(text);
}

int main(int argc, char **argv)
{
	/* Defaults of google-benchmark; what the user gives comes after. */
	static char defaults[][64] = {
		"--benchmark_enable_random_interleaving=true",
		"--benchmark_repetitions=21",
		"--benchmark_min_time=0.02",
	};
	std::vector<char *> args(argv, argv + argc), bench_args = { argv[0] };
	const char *json = nullptr;
	bool lower_tier = false;
	results r;
	int n;

	for (auto &d : defaults)
		bench_args.push_back(d);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--full"))
			full = true;
		else if (!strcmp(argv[i], "--tier"))
			lower_tier = true;
		else if (!strcmp(argv[i], "--json") && i + 1 < argc)
			json = argv[++i];
		else
			bench_args.push_back(argv[i]);
	}
	n = bench_args.size();
	bench_args.push_back(nullptr);
	benchmark::Initialize(&n, bench_args.data());
	if (benchmark::ReportUnrecognizedArguments(n, bench_args.data()))
		return 2;

	if (lower_tier) {
		row_suffix = std::string(" (tier ") + percpu_tier_name(percpu_status()->tier) + ")";
		register_adds(false);
		benchmark::RunSpecifiedBenchmarks(&r);
		puts(r.to_json().c_str());
		return 0;
	}

	fprintf(stderr, "counters: measuring, for about %s minutes ...\n", full ? "10" : "3");
	register_adds(true);
	register_costs();
	register_processes();
	benchmark::RunSpecifiedBenchmarks(&r);
	run_tier(r, "cpu", args);
	run_tier(r, "shared", args);
	print_tables(r);
	if (json && !r.save(json)) {
		fprintf(stderr, "counters: cannot write %s\n", json);
		return 1;
	}
	return 0;
}

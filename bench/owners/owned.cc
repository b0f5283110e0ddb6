/* SPDX-License-Identifier: MIT */
/*
 * owned.cc - the benchmark of owner.h and owned.h: updates, beside a counter's and beside
 * atomics that all processes share; reads; joining.
 *
 * usage: owned [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "cells.h"
#include "owners.h"

static percpu_owned_fgauge *fgauge;

struct fgauge_add {
	static void make()
	{
		owned_add::make();
		if (!fgauge)
			must(percpu_owned_fgauge_create_in(owned_add::owners, PERCPU_OWNED_SUM,
							   &fgauge),
			     "a gauge");
	}
	static void reset()
	{
		must(percpu_owned_fgauge_set(fgauge, 0), "to set");
	}
	static uint64_t total()
	{
		double v;

		must(percpu_owned_fgauge_fetch(fgauge, PERCPU_OWNED_LIVING, &v), "to fetch");
		return uint64_t(v);
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_owned_fgauge_add(fgauge, 1);
	}
};

struct atomic_add {
	alignas(64) static inline std::atomic<int64_t> n;

	[[gnu::always_inline]] void add(unsigned)
	{
		n.fetch_add(1, std::memory_order_relaxed);
	}
};

struct atomic_double_add {
	alignas(64) static inline std::atomic<double> n;

	[[gnu::always_inline]] void add(unsigned)
	{
		double was = n.load(std::memory_order_relaxed);

		while (!n.compare_exchange_weak(was, was + 1, std::memory_order_relaxed))
			;
	}
};

/* Start other owners with a share, which live as long as this program. */
static std::vector<pid_t> start_others(unsigned n)
{
	std::vector<pid_t> others;
	int ready[2];
	char c;

	if (pipe(ready) != 0)
		abort();
	for (unsigned i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			must(percpu_owned_gauge_add(owned_add::gauge, 0), "a share");
			if (write(ready[1], "x", 1) == 1)
				pause();
			_exit(0);
		}
		others.push_back(pid);
	}
	for (unsigned i = 0; i < n; i++)
		if (read(ready[0], &c, 1) != 1)
			abort();
	close(ready[0]);
	close(ready[1]);
	return others;
}

static int64_t fetch(percpu_owned_of of)
{
	int64_t v;

	must(percpu_owned_gauge_fetch(owned_add::gauge, of, &v), "to fetch");
	return v;
}

static uint64_t leave_and_join()
{
	percpu_owners_leave(owned_add::owners);
	must(percpu_owners_join(owned_add::owners), "to join");
	return percpu_owners_self(owned_add::owners);
}

static void register_pattern(const std::string &what, bool work)
{
	if (work) {
		measure<counter_add, amid_work>("percpu_counter_add" + what);
		measure<owned_add, amid_work>("percpu_owned_gauge_add" + what);
		measure<fgauge_add, amid_work>("percpu_owned_fgauge_add" + what);
		measure<atomic_add, amid_work>("std::atomic<int64_t>" + what);
		measure<atomic_double_add, amid_work>("std::atomic<double>" + what);
	} else {
		measure<counter_add>("percpu_counter_add" + what);
		measure<owned_add>("percpu_owned_gauge_add" + what);
		measure<fgauge_add>("percpu_owned_fgauge_add" + what);
		measure<atomic_add>("std::atomic<int64_t>" + what);
		measure<atomic_double_add>("std::atomic<double>" + what);
	}
}

static const std::vector<std::string> contenders = {
	"percpu_counter_add",	"percpu_owned_gauge_add", "percpu_owned_fgauge_add",
	"std::atomic<int64_t>", "std::atomic<double>",
};

int main(int argc, char **argv)
{
	report all("owned", argc, argv);
	std::vector<std::string> amid;
	std::vector<pid_t> others;

	fprintf(stderr, "owned: measuring, for about 30 seconds ...\n");
	register_pattern("", false);
	register_pattern(AMID_WORK, true);
	others = start_others(15);
	measure_call("fetch of all, 16 owners", [] { return fetch(PERCPU_OWNED_ALL); });
	measure_call(
		"fetch of the living, 16 owners", [] { return fetch(PERCPU_OWNED_LIVING); }, 4);
	measure_call("leave and join, 16 owners", leave_and_join, 4);
	all.run();
	for (pid_t pid : others) {
		kill(pid, SIGKILL);
		waitpid(pid, nullptr, 0);
	}
	print_rows(all.rows, "Updates, ns", contenders);
	for (auto &name : contenders)
		amid.push_back(name + AMID_WORK);
	print_rows(all.rows, "The same with other work before each, which counts as well", amid);
	print_rows(all.rows, "Reads and joining",
		   { "fetch of all, 16 owners", "fetch of the living, 16 owners",
		     "leave and join, 16 owners" });
	for (std::string how : { "", AMID_WORK }) {
		const std::string counter = "percpu_counter_add" + how;

		all.add_aim("owned gauge / counter" + how, 4,
			    all.rows.ratio("percpu_owned_gauge_add" + how, 1, counter, 1));
		/* Not met on machines where a compare-and-swap alone takes longer. */
		all.add_aim("owned gauge of doubles / counter" + how, 4,
			    all.rows.ratio("percpu_owned_fgauge_add" + how, 1, counter, 1));
	}
	all.print_sections();
	return all.finish();
}

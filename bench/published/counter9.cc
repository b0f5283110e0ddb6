/* SPDX-License-Identifier: MIT */
/*
 * counter9.cc - processes that count between system calls, as in the announcement of counter(9)
 * and the course work on it.
 *
 * There, a system call of a test module did the adds in the kernel. Here, each call is a
 * getppid(), and its adds follow in user space, to memory that the processes share. The time is
 * the parent's, from the start of the children to the end of the last one. There is one child
 * per CPU.
 *
 * usage: counter9 [--full] [--json FILE] [--benchmark_...]
 */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <percpu/percpu.h>

#include "../report.h"
#include "events.h"

/* The mean CPU time of a process, in seconds: what the work takes if the machine has other work. */
#define CPU_TIME "CPU time"

namespace
{

struct board {
	alignas(64) volatile uint64_t racy;
	alignas(64) uint64_t atomic;
	alignas(64) std::atomic<unsigned> ready;
	std::atomic<bool> go;
	std::atomic<uint64_t> cpu_ns; /* of all children, for their adds and calls */
};

board *shared;
percpu_counter *counter;

struct count_racy {
	static constexpr const char *name = "+=";
	static constexpr bool loses = true;

	static void add()
	{
		shared->racy = shared->racy + 1;
	}
	static uint64_t total()
	{
		return shared->racy;
	}
};

struct count_atomic {
	static constexpr const char *name = "atomic";
	static constexpr bool loses = false;

	static void add()
	{
		__atomic_fetch_add(&shared->atomic, 1, __ATOMIC_RELAXED);
	}
	static uint64_t total()
	{
		return shared->atomic;
	}
};

struct count_percpu {
	static constexpr const char *name = "counter";
	static constexpr bool loses = false;

	static void add()
	{
		percpu_counter_add(counter, 1);
	}
	static uint64_t total()
	{
		return percpu_counter_fetch(counter);
	}
};

uint64_t cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

template <class C> [[noreturn]] void child(unsigned nth, bool bound, uint64_t calls, uint64_t adds)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (bound)
		new pinned(nth); /* until it exits */
	shared->ready++;
	while (!shared->go)
		sched_yield();

	const uint64_t begin = cpu_ns();

	for (uint64_t i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		for (uint64_t k = 0; k < adds; k++)
			C::add();
	}
	shared->cpu_ns += cpu_ns() - begin;
	_exit(0);
}

template <class C> void run(benchmark::State &state, bool bound, uint64_t calls, uint64_t adds)
{
	unsigned n = usable_cpus().size();
	std::vector<pid_t> children;

	for (auto _ : state) {
		uint64_t before = C::total();
		std::optional<event_counts> counts;
		bool failed = false;

		if (calls == 1)
			counts.emplace();
		shared->ready = 0;
		shared->go = false;
		shared->cpu_ns = 0;
		for (unsigned i = 0; i < n; i++) {
			pid_t pid = fork();

			if (pid == 0)
				child<C>(i, bound, calls, adds);
			if (pid < 0)
				must(-errno, "fork");
			children.push_back(pid);
		}
		while (shared->ready < n) {
			if (waitpid(-1, nullptr, WNOHANG) != 0)
				must(-ECHILD, "a process that should count");
			usleep(100);
		}

		auto start = std::chrono::steady_clock::now();

		shared->go = true;
		for (pid_t pid : children) {
			int status = 0;

			failed |= waitpid(pid, &status, 0) != pid || status != 0;
		}
		state.SetIterationTime(
			std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
				.count());
		must(failed ? -ECHILD : 0, "a process that counts");
		for (size_t i = 0; counts && i < events.size(); i++)
			if (auto n = counts->of(i))
				state.counters[events[i].what] = *n;
		state.counters[CPU_TIME] = double(shared->cpu_ns) / 1e9 / n;
		note_loss(state, double(n * calls * adds) - double(C::total() - before), C::loses);
		/* The operations of one process, so that the time per operation is that of a
		 * process. */
		state.counters["ops"] = double(calls * adds);
	}
}

template <class C> void measure(const char *table, bool bound, uint64_t calls, uint64_t adds)
{
	std::string name = std::string(table) + ": " + C::name;

	benchmark::RegisterBenchmark(name.c_str(), run<C>, bound, calls, adds)
		->UseManualTime()
		->Iterations(1)
		->Repetitions(full ? 10 : 5);
}

template <class C> void measure_all()
{
	unsigned scale = full ? 1 : 10;

	measure<C>("processes, bound", true, 1000000, 1);
	measure<C>("processes, unbound", false, 1000000, 1);
	measure<C>("calls of 10 adds", true, 10000000 / scale, 10);
	measure<C>("one call", true, 1, 1000000000 / scale);
}

void register_processes()
{
	int fd = memfd_create("bench-counters", MFD_CLOEXEC);
	percpu_region *r;

	shared = (board *)mmap(nullptr, sizeof(*shared), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || shared == MAP_FAILED)
		must(-errno, "shared memory");
	must(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, nullptr, &r),
	     "a shared region");
	must(percpu_counter_create_in(r, &counter), "a shared counter");
	close(fd);

	measure_all<count_racy>();
	measure_all<count_atomic>();
	measure_all<count_percpu>();
}

/* Return the median time of a process, in seconds for so many adds. */
std::string seconds(const row *r, double adds)
{
	return r ? text("%.3f s", r->median() * adds / 1e9) : "-";
}

std::string cpu_seconds(const row *r)
{
	return r ? text("%.3f s", r->events.at(CPU_TIME)) : "-";
}

/* A line of a table of processes: what is published, and what they take here. */
using line = std::vector<std::string>;

/* Return the ratio of a row to counter(9)'s in the same setting. */
std::string to_counter(const results &r, const std::string &setting, const char *ours)
{
	int n = usable_cpus().size();

	return ratio_text(r.ratio(setting + ours, n, setting + "counter", n));
}

void print_announcement(const results &r)
{
	const struct {
		const char *name;
		double bound, unbound;
		const char *loss;
		const char *ours;
	} published[] = {
		{ "counter(9)", 17.66, 21.83, "0", "counter" },
		{ "racy +=", 18.55, 25.44, "25 %, 20 %", "+=" },
		{ "atomic(9)", 34.16, 32.85, "0", "atomic" },
	};
	const std::string bound = "processes, bound: ", unbound = "processes, unbound: ";
	std::vector<line> lines = { { "", "bound", "ratio", "CPU", "unbound", "ratio", "CPU",
				      "lost" } };
	int n = usable_cpus().size();

	for (auto &p : published) {
		const row *x = r.find(bound + p.ours, n), *y = r.find(unbound + p.ours, n);

		lines.push_back({ p.name, text("%.2f s", p.bound),
				  text("%.2f", p.bound / published[0].bound), "",
				  text("%.2f s", p.unbound),
				  text("%.2f", p.unbound / published[0].unbound), "", p.loss });
		lines.push_back({ "  here", seconds(x, 1e6), to_counter(r, bound, p.ours),
				  cpu_seconds(x), seconds(y, 1e6), to_counter(r, unbound, p.ours),
				  cpu_seconds(y), loss(x) + ", " + loss(y) });
	}
	printf("\nFreeBSD counter(9), announcement of 2013: a process per core, each adding 10^6\n"
	       "times, in a system call. Published: 4 processes, Xeon E5620, time of the parent.\n"
	       "Here: %d processes, each add after a system call. Ratios are to counter(9). CPU is the\n"
	       "CPU time of a process, a mean.\n\n",
	       n);
	print_table(lines);
}

void print_course_work(const results &r)
{
	const struct table {
		const char *title, *ours;
		struct {
			const char *name;
			double seconds;
			const char *loss, *ours;
		} rows[3];
	} tables[] = {
		{ "10^7 calls of 10 adds",
		  "calls of 10 adds: ",
		  { { "+=", 4.24, "12.9 %", "+=" },
		    { "atomic(9)", 7.02, "0", "atomic" },
		    { "counter(9)", 3.52, "0", "counter" } } },
		{ "1 call of 10^9 adds",
		  "one call: ",
		  { { "+=", 3.65, "74.9 %", "+=" },
		    { "atomic(9)", 58.74, "0", "atomic" },
		    { "counter(9)", 2.50, "0", "counter" } } },
	};
	int n = usable_cpus().size();

	printf("\nThe course work on counter(9): 4 processes on even CPUs, Xeon E5620.\n"
	       "Here: %d processes, one per CPU%s.\nRatios are to counter(9).\n",
	       n, full ? "" : ", and a 10th of the adds (--full: all of them)");
	for (auto &t : tables) {
		std::vector<line> lines = { { t.title, "publ.", "ratio", "lost", "here", "ratio",
					      "CPU", "lost" } };

		for (auto &p : t.rows) {
			const row *x = r.find(std::string(t.ours) + p.ours, n);

			lines.push_back({ p.name, text("%.2f s", p.seconds),
					  text("%.2f", p.seconds / t.rows[2].seconds), p.loss,
					  x ? seconds(x, x->ops / n / x->ns.size()) : "-",
					  to_counter(r, t.ours, p.ours), cpu_seconds(x), loss(x) });
		}
		puts("");
		print_table(lines);
	}
}

/* Print the hardware events of the setting with one call, published and here. */
void print_events(report &all)
{
	const int n = usable_cpus().size();
	const std::string ours = "one call: ";
	std::vector<line> lines = { { "", "+=", "atomic(9)", "counter(9)", "here: +=", "atomic",
				      "counter" } };
	const event_counts offered;

	for (size_t i = 0; i < events.size(); i++) {
		const event &e = events[i];

		lines.push_back({ e.what, e.racy, e.atomic, e.counter });
		for (const char *way : { "+=", "atomic", "counter" }) {
			const row *x = all.rows.find(ours + way, n);
			bool seen = x && x->events.count(e.what);

			lines.back().push_back(seen ? text("%.2e", x->events.at(e.what)) : "-");
		}
		if (!offered.why_not(i).empty())
			all.skip(e.what, offered.why_not(i));
	}
	printf("\nHardware events of a call of 10^9 adds; published 2.81e14, which is 2^48, is no "
	       "count\n\n");
	print_table(lines);
}

} // namespace

int main(int argc, char **argv)
{
	report all("counter9", argc, argv);

	register_processes();
	fprintf(stderr, "counter9: measuring, for about %s ...\n", full ? "8 minutes" : "a minute");
	all.run();
	print_announcement(all.rows);
	print_course_work(all.rows);
	print_events(all);
	all.print_sections();
	return all.finish();
}

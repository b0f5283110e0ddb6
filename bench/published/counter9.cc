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
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>

#include <percpu/percpu.h>

#include "../report.h"

namespace
{

struct board {
	alignas(64) volatile uint64_t racy;
	alignas(64) uint64_t atomic;
	alignas(64) std::atomic<unsigned> ready;
	std::atomic<bool> go;
};

board *shared;
percpu_counter *counter;

struct count_racy {
	static constexpr const char *name = "+=";

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

	static void add()
	{
		percpu_counter_add(counter, 1);
	}
	static uint64_t total()
	{
		return percpu_counter_fetch(counter);
	}
};

/* Hardware events of the children, if the machine counts them: those of the course work. */
struct event {
	const char *name;
	uint32_t type;
	uint64_t config;
};

constexpr event events[] = {
	{ "l1_prefetch_misses", PERF_TYPE_HW_CACHE,
	  PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_PREFETCH << 8 |
		  PERF_COUNT_HW_CACHE_RESULT_MISS << 16 },
	{ "l2_rfo", PERF_TYPE_RAW, 0xe224 }, /* Intel's L2_RQSTS.ALL_RFO */
};

int open_event(const event &e)
{
	perf_event_attr attr = {};

	attr.size = sizeof(attr);
	attr.type = e.type;
	attr.config = e.config;
	attr.disabled = 1;
	attr.inherit = 1;
	attr.exclude_kernel = 1;
#ifdef __x86_64__
	if (e.type == PERF_TYPE_RAW && !__builtin_cpu_is("intel"))
		return -1;
#else
	if (e.type == PERF_TYPE_RAW)
		return -1;
#endif
	return syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

class event_counts
{
      public:
	event_counts()
	{
		for (auto &e : events)
			fds.push_back(open_event(e));
		for (int fd : fds)
			if (fd >= 0)
				ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	}
	~event_counts()
	{
		for (int fd : fds)
			if (fd >= 0)
				close(fd);
	}
	void report(benchmark::State &state)
	{
		for (size_t i = 0; i < fds.size(); i++) {
			uint64_t n;

			if (fds[i] >= 0 && read(fds[i], &n, sizeof(n)) == sizeof(n))
				state.counters[events[i].name] = double(n);
		}
	}

      private:
	std::vector<int> fds;
};

template <class C> [[noreturn]] void child(unsigned nth, bool bound, uint64_t calls, uint64_t adds)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	alarm(300);
	if (bound)
		new pinned(nth); /* until it exits */
	shared->ready++;
	while (!shared->go)
		sched_yield();
	for (uint64_t i = 0; i < calls; i++) {
		syscall(SYS_getppid);
		for (uint64_t k = 0; k < adds; k++)
			C::add();
	}
	_exit(0);
}

template <class C> void run(benchmark::State &state, bool bound, uint64_t calls, uint64_t adds)
{
	unsigned n = usable_cpus().size();
	std::vector<pid_t> children;

	for (auto _ : state) {
		uint64_t before = C::total();
		event_counts counts;
		bool failed = false;

		shared->ready = 0;
		shared->go = false;
		for (unsigned i = 0; i < n; i++) {
			pid_t pid = fork();

			if (pid == 0)
				child<C>(i, bound, calls, adds);
			if (pid < 0)
				must(-errno, "fork");
			children.push_back(pid);
		}
		while (shared->ready < n)
			usleep(100);

		auto start = std::chrono::steady_clock::now();

		shared->go = true;
		for (pid_t pid : children) {
			int status = 0;

			failed |= waitpid(pid, &status, 0) != pid || status != 0;
		}
		state.SetIterationTime(
			std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
				.count());
		if (failed)
			state.SkipWithError("a child did not finish");
		counts.report(state);
		state.counters["lost"] = double(n * calls * adds) - double(C::total() - before);
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

std::string hardware_events()
{
	std::string offered;

	for (auto &e : events) {
		int fd = open_event(e);

		if (fd < 0)
			continue;
		close(fd);
		offered += std::string(offered.empty() ? "" : ", ") + e.name;
	}
	return offered.empty() ? "not offered by this machine" : offered;
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
	std::vector<line> lines = { { "", "bound", "ratio", "unbound", "ratio", "lost" } };
	int n = usable_cpus().size();

	for (auto &p : published) {
		const row *x = r.find(bound + p.ours, n), *y = r.find(unbound + p.ours, n);

		lines.push_back({ p.name, text("%.2f s", p.bound),
				  text("%.2f", p.bound / published[0].bound),
				  text("%.2f s", p.unbound),
				  text("%.2f", p.unbound / published[0].unbound), p.loss });
		lines.push_back({ "  here", seconds(x, 1e6), to_counter(r, bound, p.ours),
				  seconds(y, 1e6), to_counter(r, unbound, p.ours),
				  loss(x) + ", " + loss(y) });
	}
	printf("\nFreeBSD counter(9), announcement of 2013: a process per core, each adding 10^6\n"
	       "times, in a system call. Published: 4 processes, Xeon E5620, time of the parent.\n"
	       "Here: %d processes, each add after a system call. Ratios are to counter(9).\n\n",
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
	const char *const published_events[3] = { "4.8e7, 3.7e7", "1.0e9, 1.0e9", "2.6e4, 3.7e4" };
	int n = usable_cpus().size();

	printf("\nThe course work on counter(9): 4 processes on even CPUs, Xeon E5620.\n"
	       "Here: %d processes, one per CPU%s.\nRatios are to counter(9).\n",
	       n, full ? "" : ", and a 10th of the adds (--full: all of them)");
	for (auto &t : tables) {
		std::vector<line> lines = { { t.title, "publ.", "ratio", "lost", "here", "ratio",
					      "lost" } };

		for (auto &p : t.rows) {
			const row *x = r.find(std::string(t.ours) + p.ours, n);

			lines.push_back({ p.name, text("%.2f s", p.seconds),
					  text("%.2f", p.seconds / t.rows[2].seconds), p.loss,
					  x ? seconds(x, x->ops / n / x->ns.size()) : "-",
					  to_counter(r, t.ours, p.ours), loss(x) });
		}
		puts("");
		print_table(lines);
	}
	printf("\nHardware events, L1 prefetch misses and L2 RFO requests: %s\n",
	       hardware_events().c_str());
	for (int i = 0; i < 3; i++) {
		const row *x = r.find(tables[0].ours + std::string(tables[0].rows[i].ours), n);
		std::string here;

		for (auto &[name, value] : x ? x->events : std::map<std::string, double>())
			here += text(" %s %.1e", name.c_str(), value);
		printf("%-24s%s  %s\n", tables[0].rows[i].name, published_events[i], here.c_str());
	}
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
	all.add_condition("hardware events", hardware_events());
	all.print_sections();
	return all.finish();
}

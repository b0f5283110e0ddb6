/* SPDX-License-Identifier: MIT */
/*
 * counters_processes.cc - processes that count between system calls, as in the
 * announcement of counter(9) and the course work on it.
 *
 * There, a system call of a test module did the adds in the kernel. Here, each
 * call is a getppid(), and its adds follow in user space, to memory that the
 * processes share. The time is the parent's, from letting the children go to
 * the end of the last. They are as many as there are CPUs.
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
#include <cstring>

#include <percpu/percpu.h>

#include "counters.h"

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

/*
 * Hardware events of the children, where there are such: the course work's.
 */
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
		/* Each process's own, so that the time per operation is that of a
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

} // namespace

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
	must(percpu_region_create_fd(fd, nullptr, &r), "a shared region");
	must(percpu_counter_create_in(r, &counter), "a shared counter");
	close(fd);

	measure_all<count_racy>();
	measure_all<count_atomic>();
	measure_all<count_percpu>();
}

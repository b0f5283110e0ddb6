/* SPDX-License-Identifier: MIT */
/*
 * start.cc - the cost of a process's first count: time, system calls, page faults, threads,
 * memory; on the machine as it is, and with loops on all CPUs. Beside it a program that adds to
 * an atomic word, and the time until tier rseq is proven.
 *
 * usage: start [--json FILE]
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include <percpu/counter.h>

#include "report.h"
#include "start.h"

static constexpr int repetitions = 101;
static constexpr useconds_t pause_us = 2000;

static double now_ns()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/* Start the program. In a child that is traced, it stops before it begins. */
static pid_t start(const char *how, int fd, bool traced)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	if (dup2(fd, START_FD) < 0 || (traced && ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0))
		_exit(1);
	execl(START_ONE, START_ONE, how, nullptr);
	_exit(1);
}

/* The costs of a process that counts once. */
struct run {
	start_figures inside;
	double whole_ns; /* from fork to the end */
};

static bool measure(const char *how, run *ret)
{
	int fds[2], status = -1;
	double begin;
	bool has;
	pid_t pid;

	if (pipe(fds) != 0)
		must(-errno, "pipe");
	begin = now_ns();
	pid = start(how, fds[1], false);
	close(fds[1]);
	has = read(fds[0], &ret->inside, sizeof(ret->inside)) == sizeof(ret->inside);
	has = waitpid(pid, &status, 0) == pid && status == 0 && has;
	ret->whole_ns = now_ns() - begin;
	close(fds[0]);
	return has;
}

/* Return the system call that a thread of the child begins; -1 if it ends one. */
static long call_begun(pid_t tid)
{
#ifdef PTRACE_GET_SYSCALL_INFO
	__ptrace_syscall_info info = {};

	if (ptrace(__ptrace_request(PTRACE_GET_SYSCALL_INFO), tid, sizeof(info), &info) > 0 &&
	    info.op == PTRACE_SYSCALL_INFO_ENTRY)
		return long(info.entry.nr);
#endif
	return -1;
}

/* System calls of all threads between the two getppid() of start_one. The process waits for
 * those of the first thread. -1: it cannot be traced. */
struct calls {
	int first, others;
};

static calls count_calls(const char *how)
{
	const long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
	calls n = { 0, 0 };
	int fds[2], status, marks = 0;
	pid_t pid, tid;

	if (pipe(fds) != 0)
		must(-errno, "pipe");
	pid = start(how, fds[1], true);
	if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) {
		close(fds[0]);
		close(fds[1]);
		return { -1, -1 };
	}
	ptrace(PTRACE_SETOPTIONS, pid, nullptr, options);
	ptrace(PTRACE_SYSCALL, pid, nullptr, nullptr);
	while ((tid = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status))
			continue;
		if (WSTOPSIG(status) == (SIGTRAP | 0x80)) {
			long nr = call_begun(tid);

			if (tid == pid && nr == SYS_getppid)
				marks++;
			else if (nr >= 0 && marks > 0)
				(tid != pid ? n.others :
				 marks == 1 ? n.first :
					      marks) += tid != pid || marks == 1;
		}
		ptrace(PTRACE_SYSCALL, tid, nullptr, nullptr);
	}
	close(fds[0]);
	close(fds[1]);
	return n;
}

/* Loops at normal priority, two for each CPU. */
class busy
{
      public:
	busy()
	{
		for (size_t i = 0; i < 2 * usable_cpus().size(); i++) {
			pid_t pid = fork();

			if (pid == 0)
				for (;;)
					benchmark::DoNotOptimize(pid);
			loops.push_back(pid);
		}
	}
	~busy()
	{
		for (pid_t pid : loops) {
			kill(pid, SIGKILL);
			waitpid(pid, nullptr, 0);
		}
	}

      private:
	std::vector<pid_t> loops;
};

static const char *const programs[] = { "atomic", "percpu", "proof" };

static std::string title(const char *how)
{
	if (!strcmp(how, "atomic"))
		return "an atomic add";
	return !strcmp(how, "percpu") ? "percpu_counter_create, and an add" :
					"the same, and the proof of tier rseq";
}

/* Measure the programs in turn, so that a disturbance affects all of them. */
static void measure_all(report &all, const std::string &when)
{
	row inside[3] = {}, whole[3] = {};
	run r;

	for (int i = 0; i < repetitions; i++)
		for (int k = 0; k < 3; k++) {
			usleep(pause_us);
			if (!measure(programs[k], &r))
				continue;
			inside[k].ns.push_back(r.inside.ns);
			whole[k].ns.push_back(r.whole_ns);
		}
	for (int k = 0; k < 3; k++) {
		inside[k].name = title(programs[k]) + when;
		whole[k].name = "whole process: " + inside[k].name;
		for (row *x : { &inside[k], &whole[k] }) {
			x->threads = 1;
			x->ops = double(x->ns.size());
			if (!x->ns.empty())
				all.rows.add(*x);
		}
	}
}

static std::string us(const row *r)
{
	return r ? text("%.1f (%.1f)", r->median() / 1e3, r->best() / 1e3) : "-";
}

static void print_times(const results &r)
{
	std::vector<std::vector<std::string>> lines = { { "us: median (best)", "idle", "busy",
							  "process, idle", "busy" } };

	for (auto how : programs) {
		lines.push_back({ title(how) });
		for (std::string what : { "", "whole process: " })
			for (std::string when : { "", ", busy" })
				lines.back().push_back(us(r.find(what + title(how) + when)));
	}
	printf("\nFrom main() to the first count, and from fork to the end of the process.\n"
	       "Busy: two loops per CPU, at the same priority.\n\n");
	print_table(lines);
}

static std::string number(double n)
{
	return n < 0 ? "-" : text("%.0f", n);
}

/* Print the costs that are the same in each run. */
static void print_costs(report &all)
{
	std::vector<std::vector<std::string>> lines = { { "", "system calls", "of its threads",
							  "page faults", "threads", "KiB of memory",
							  "of address space" } };

	for (auto how : programs) {
		calls n = count_calls(how);
		run r = {};

		if (!measure(how, &r))
			continue;
		lines.push_back({ title(how), number(n.first), number(n.others),
				  number(r.inside.faults), number(r.inside.threads),
				  number(r.inside.kb), number(r.inside.space_kb) });
		all.add_figure("system calls: " + title(how), n.first, "");
		all.add_figure("system calls of threads: " + title(how), n.others, "");
		all.add_figure("page faults: " + title(how), r.inside.faults, "");
		all.add_figure("threads: " + title(how), r.inside.threads, "");
		all.add_figure("memory: " + title(how), r.inside.kb, "KiB");
		all.add_figure("address space: " + title(how), r.inside.space_kb, "KiB");
	}
	printf("\nUntil then; threads and memory as they are then.\n\n");
	print_table(lines);
}

int main(int argc, char **argv)
{
	report all("start", argc, argv);

	fprintf(stderr, "start: measuring, for about 10 seconds ...\n");
	measure_all(all, "");
	{
		busy loops;

		measure_all(all, ", busy");
	}
	print_times(all.rows);
	print_costs(all);
	all.add_aim("the first count, idle, to 0.2 ms", 1.0,
		    all.rows.ratio(title("percpu"), 1, 2e5));
	all.print_sections();
	return all.finish();
}

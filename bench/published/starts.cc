/* SPDX-License-Identifier: MIT */
/*
 * starts.cc - process starts, as in the thread on DragonFly's lwbuf: there, a shell ran "sh &" 3000
 * times, and the kernel's exec mapped the pages of sh by its windows. Here each process gets the
 * pages of sh from a page server, examples/pageserver.c, and executes what it got. The server reads
 * the file, or maps windows of it; or there is no server.
 *
 * usage: starts [--full] [--quick] [--json FILE] [--benchmark_filter=...]
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>

#include "../report.h"

#define FROM_FILE "sh from its file"
#define BY_READS "sh from a page server that reads"
#define BY_WINDOWS "sh from a page server, by windows"

static constexpr unsigned at_once = 64; /* processes, at most */
static constexpr size_t page_size = 65536;

static char *const sh[] = { const_cast<char *>("sh"), nullptr };
static char program[PATH_MAX], directory[] = "/tmp/bench-starts-XXXXXX";

static sockaddr_un address()
{
	sockaddr_un a = {};

	a.sun_family = AF_UNIX;
	snprintf(a.sun_path, sizeof(a.sun_path), "%s/socket", directory);
	return a;
}

static void clean_up()
{
	unlink(address().sun_path);
	rmdir(directory);
}

static void end_by_signal(int)
{
	clean_up();
	_exit(1);
}

static bool read_all(int fd, void *to, size_t size)
{
	return recv(fd, to, size, MSG_WAITALL) == ssize_t(size);
}

/* Write the file as the server has it. Returns whether that is all. */
static bool fetch(int server, int file)
{
	static char page[page_size];
	uint32_t length = page_size;

	for (uint64_t n = 0; length == page_size; n++)
		if (write(server, &n, sizeof(n)) != sizeof(n) ||
		    !read_all(server, &length, sizeof(length)) || length > page_size ||
		    !read_all(server, page, length) || write(file, page, length) != ssize_t(length))
			return false;
	return true;
}

/* What a process does: it ends as "sh" that has nothing to read. */
[[noreturn]] static void start(bool served)
{
	const sockaddr_un a = address();
	int server, file, nothing = open("/dev/null", O_RDONLY);

	dup2(nothing, 0);
	if (!served) {
		execv(program, sh);
		_exit(127);
	}
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	file = memfd_create("sh", MFD_CLOEXEC);
	if (connect(server, reinterpret_cast<const sockaddr *>(&a), sizeof(a)) == 0 &&
	    fetch(server, file))
		fexecve(file, sh, environ);
	_exit(127);
}

static void end_one()
{
	int status = 0;

	if (wait(&status) < 0 || status != 0)
		must(-ECHILD, "a process that should have been sh");
}

static double seconds(const timeval &t)
{
	return double(t.tv_sec) + double(t.tv_usec) / 1e6;
}

/* Start the server; returns when it listens. */
static pid_t serve(const char *mode)
{
	const sockaddr_un a = address();
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		execl(PAGESERVER, "pageserver", program, a.sun_path, "4096", mode, nullptr);
		_exit(127);
	}
	for (int tries = 0; access(a.sun_path, F_OK) != 0; tries++) {
		if (pid < 0 || tries == 1000 || waitpid(pid, nullptr, WNOHANG) == pid)
			must(-ESRCH, PAGESERVER);
		usleep(10000);
	}
	return pid;
}

namespace
{
/* One way to start processes, and its repetitions: ns per process. */
struct way {
	const char *name, *mode; /* no mode: no server */
	bool served;
	samples real, user, system, server;

	void run(unsigned n);
};
} // namespace

void way::run(unsigned n)
{
	pid_t helper = served ? serve(mode) : -1;
	rusage before, after, of_server = {};
	auto begin = std::chrono::steady_clock::now();
	pid_t pid;

	getrusage(RUSAGE_CHILDREN, &before);
	for (unsigned i = 0; i < n; i++) {
		if (i >= at_once)
			end_one();
		pid = fork();
		if (pid == 0)
			start(served);
		must(pid < 0 ? -errno : 0, "fork");
	}
	for (unsigned i = 0; i < std::min(n, at_once); i++)
		end_one();

	std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;

	getrusage(RUSAGE_CHILDREN, &after);
	if (served) { /* its time is not in the other children's, as it is waited for last */
		kill(helper, SIGTERM);
		wait4(helper, nullptr, 0, &of_server);
		unlink(address().sun_path);
	}
	real.push_back(took.count() * 1e9 / n);
	user.push_back((seconds(after.ru_utime) - seconds(before.ru_utime)) * 1e9 / n);
	system.push_back((seconds(after.ru_stime) - seconds(before.ru_stime)) * 1e9 / n);
	if (served)
		server.push_back((seconds(of_server.ru_utime) + seconds(of_server.ru_stime)) * 1e9 /
				 n);
}

static void print(const std::vector<way> &ways, unsigned n)
{
	/* Medians of the ten runs of each kind. */
	static const char *const published[][4] = {
		{ "SMP, before the patch", "12.15", "21.30", "1.61" },
		{ "SMP, with lwbuf", "12.11", "21.33", "1.54" },
		{ "UP, before the patch", "22.38", "20.80", "0.86" },
		{ "UP, with lwbuf", "22.38", "20.84", "0.83" },
	};
	std::vector<std::vector<std::string>> lines = { { "", "real", "user", "sys", "server" } };
	auto of_3000 = [](const samples &ns) {
		return text("%.2f", summarize(ns).median * 3000 / 1e9);
	};

	for (auto &p : published)
		lines.push_back({ p[0], p[1], p[2], p[3] });
	for (auto &w : ways)
		lines.push_back({ std::string("here: ") + w.name, of_3000(w.real), of_3000(w.user),
				  of_3000(w.system), w.served ? of_3000(w.server) : "-" });
	printf("\nStarts of sh: seconds of 3000, medians. Published: \"sh &\" on a T5450 of 1.66 GHz,\n"
	       "DragonFly, 2009. Here: %u at a time, %u at once at most; \"server\" is its CPU time.\n\n",
	       n, at_once);
	print_table(lines);
}

int main(int argc, char **argv)
{
	report all("starts", argc, argv);
	std::vector<way> ways = {
		{ FROM_FILE, nullptr, false, {}, {}, {}, {} },
		{ BY_READS, nullptr, true, {}, {}, {}, {} },
		{ BY_WINDOWS, "keeps-size", true, {}, {}, {}, {} },
	};
	const unsigned n = full ? 3000 : quick ? 30 : 300, repetitions = quick ? 3 : 10;

	ways.erase(std::remove_if(ways.begin(), ways.end(),
				  [&](const way &w) { return !all.given.want(w.name); }),
		   ways.end());
	if (!realpath("/bin/sh", program) || !mkdtemp(directory))
		must(-errno, "sh, and a directory for a socket");
	atexit(clean_up);
	signal(SIGINT, end_by_signal);
	signal(SIGTERM, end_by_signal);
	fprintf(stderr, "starts: measuring ...\n");
	for (unsigned i = 0; i < repetitions; i++)
		for (auto &w : ways)
			w.run(n);
	for (auto &w : ways) {
		all.rows.add({ std::string(w.name) + ", real", 1, w.real, double(n), {}, {} });
		all.rows.add({ std::string(w.name) + ", user", 1, w.user, double(n), {}, {} });
		all.rows.add({ std::string(w.name) + ", sys", 1, w.system, double(n), {}, {} });
		if (w.served)
			all.rows.add({ std::string(w.name) + ", server",
				       1,
				       w.server,
				       double(n),
				       {},
				       {} });
	}
	print(ways, n);
	all.add_aim("windows to reads, CPU time of the server", 1.0,
		    all.rows.ratio(BY_WINDOWS ", server", 1, BY_READS ", server", 1));
	all.print_sections();
	return all.finish();
}

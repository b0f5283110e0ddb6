/* SPDX-License-Identifier: MIT */
/* scrape_server.cc - the tool as a process, and a client of it. */
#include <cstdlib>
#include <cstring>
#include <fstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scrape.h"

const form text_004 = { "text 0.0.4", "text/plain;version=0.0.4", "text/plain", false };

const char *tool()
{
	return getenv("PERCPU_BENCH_TOOL");
}

/* The server. */

[[noreturn]] static void serve(const std::vector<std::string> &files, int log)
{
	std::vector<const char *> argv = { tool(), "serve", "--listen", "127.0.0.1:0" };

	for (auto &file : files)
		argv.push_back(file.c_str());
	argv.push_back(nullptr);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* whatever ends this program */
	dup2(log, STDERR_FILENO);
	execv(tool(), const_cast<char *const *>(argv.data()));
	_exit(127);
}

/* Return the port in the first line of the log, http://ADDRESS:PORT/metrics; 0 if there is none. */
static unsigned read_port(int log)
{
	std::string line;
	unsigned port = 0;
	char c;

	while (read(log, &c, 1) == 1 && c != '\n')
		line += c;

	const size_t at = line.find("://127.0.0.1:");

	return at != line.npos && sscanf(line.c_str() + at, "://127.0.0.1:%u/", &port) == 1 ? port :
											      0;
}

server::server(const std::vector<std::string> &files)
{
	int log[2];

	must(pipe2(log, O_CLOEXEC) != 0 ? -errno : 0, "a pipe");
	pid = fork();
	must(pid < 0 ? -errno : 0, "a process for the server");
	if (pid == 0)
		serve(files, log[1]);
	close(log[1]);
	rest_of_log = log[0]; /* less than a pipe holds */
	port = read_port(rest_of_log);
	must(port == 0 ? -ECHILD : 0, "percpu serve");
}

server::~server()
{
	kill(pid, SIGTERM);
	waitpid(pid, nullptr, 0);
	close(rest_of_log);
}

double server::cpu_ns() const
{
	clockid_t clock;
	timespec t;

	must(-clock_getcpuclockid(pid, &clock), "the clock of the server");
	must(clock_gettime(clock, &t) != 0 ? -errno : 0, "the CPU time of the server");
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/* Return its CPU time, once it has nothing left to do for a scrape. */
double server::settled_cpu_ns() const
{
	double before, now = cpu_ns();

	for (int i = 0; i < 200; i++) {
		before = now;
		usleep(5000);
		now = cpu_ns();
		if (now - before < 200e3)
			break;
	}
	return now;
}

double server::peak() const
{
	std::ifstream status("/proc/" + std::to_string(pid) + "/status");
	std::string line;
	double kib = 0;

	while (getline(status, line))
		if (sscanf(line.c_str(), "VmHWM: %lf kB", &kib) == 1)
			break;
	return kib * 1024;
}

/* The client. */

static int connect_to(unsigned port)
{
	sockaddr_in at = {};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	at.sin_family = AF_INET;
	at.sin_port = htons(uint16_t(port));
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(fd < 0 ? -errno : 0, "a socket");
	must(connect(fd, (sockaddr *)&at, sizeof(at)) != 0 ? -errno : 0, "to connect");
	return fd;
}

static void ask(int fd, const form &f)
{
	const std::string text = std::string("GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
					     "Connection: close\r\nAccept: ") +
				 f.accept + (f.gzip ? "\r\nAccept-Encoding: gzip" : "") +
				 "\r\n\r\n";

	must(write(fd, text.data(), text.size()) != ssize_t(text.size()) ? -EIO : 0, "to ask");
}

/* Reads an answer to its end. */
class reading
{
      public:
	explicit reading(int fd) : fd(fd)
	{
	}
	/* Return the next bytes; none at the end. */
	std::string_view more()
	{
		const ssize_t n = read(fd, buffer, sizeof(buffer));

		must(n < 0 ? -errno : 0, "to read an answer");
		return { buffer, size_t(n) };
	}

      private:
	const int fd;
	char buffer[1 << 18];
};

static bool is_what_was_asked(const std::string &head, const form &f)
{
	return head.rfind("HTTP/1.1 200 ", 0) == 0 &&
	       head.find(std::string("content-type: ") + f.content_type) != head.npos &&
	       (head.find("content-encoding: gzip") != head.npos) == f.gzip;
}

/* Read the head. Returns what follows it. */
static std::string_view read_head(reading &from, const form &f, std::string &head)
{
	const char end[] = "\r\n\r\n";
	size_t at = head.npos;

	while (at == head.npos) {
		const std::string_view more = from.more();

		must(more.empty() ? -EPROTO : 0, "the head of an answer");
		head += more;
		at = head.find(end);
	}
	must(!is_what_was_asked(head.substr(0, at), f) ? -EPROTO : 0, "the answer of percpu serve");
	return std::string_view(head).substr(at + strlen(end));
}

static double wall_ns()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

answer server::fetch(const form &f) const
{
	answer a = {};
	std::string head;
	char last = '\n';
	const double asked = wall_ns();
	const int fd = connect_to(port);

	ask(fd, f);
	reading from(fd);
	for (std::string_view body = read_head(from, f, head); !body.empty(); body = from.more()) {
		a.bytes += body.size();
		for (char c : body) {
			a.samples += last == '\n' && c != '#';
			last = c;
		}
	}
	a.wall_ns = wall_ns() - asked;
	close(fd);
	return a;
}

answer server::scrape(const form &f) const
{
	const double begin = settled_cpu_ns();
	answer a = fetch(f);

	a.cpu_ns = settled_cpu_ns() - begin;
	return a;
}

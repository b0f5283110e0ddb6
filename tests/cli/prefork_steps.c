/* SPDX-License-Identifier: MIT */
/*
 * prefork_steps PREFORK - step a worker of the example through a request instruction by
 * instruction, and check its promises after each one. Then kill a worker in each place where
 * something has changed that other processes see.
 *
 * Speaks TAP.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/gauge.h>
#include <percpu/region.h>

#include "../../examples/prefork/prefork.h"

enum {
	PLACES = 6,
	PATIENCE = 10000, /* ms to wait for the master */
	ALARM = 200,	  /* s, after which a stuck worker ends */
};

/* The effects of a request so far. */
struct progress {
	uint64_t observations, bytes, requests;
	int64_t in_flight;
	double seconds;
	size_t answered; /* bytes that the client has received */
};

static pid_t master;
static int failures;

static void fail(const char *why)
{
	printf("# %s\n", why);
	failures++;
}

static void give_up(const char *what)
{
	printf("not ok 1 - %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct metrics_values read_metrics(void)
{
	struct metrics_values v;

	errno = -metrics_read(&v);
	if (errno != 0)
		give_up("reading metrics");
	return v;
}

/* Start the server. Returns its port. */
static unsigned start_server(const char *program, const char *segment)
{
	unsigned port = 0;
	int ends[2];
	FILE *f;

	if (pipe(ends) != 0)
		give_up("pipe");
	master = fork();
	if (master == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		execl(program, program, "-p", "0", "-w", "1", segment, (char *)NULL);
		_exit(1);
	}
	close(ends[1]);
	f = fdopen(ends[0], "r");
	if (!f || fscanf(f, "listening on 127.0.0.1:%u", &port) != 1)
		give_up("starting the server");
	fclose(f);
	return port;
}

/* Return the only worker, when there is one. */
static pid_t find_worker(void)
{
	char path[64];
	int pid = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", master, master);
	for (int ms = 0; pid == 0 && ms < PATIENCE; ms++) {
		FILE *f = fopen(path, "r");

		if (!f || fscanf(f, "%d", &pid) != 1)
			usleep(1000);
		if (f)
			fclose(f);
	}
	return pid;
}

static int ask(unsigned port)
{
	static const char request[] = "GET / HTTP/1.1\r\nHost: test\r\n\r\n";
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) != 0 ||
	    send(fd, request, sizeof(request) - 1, 0) != sizeof(request) - 1)
		give_up("asking");
	return fd;
}

static struct progress look(const struct metrics_values *before, int fd)
{
	char answer[4096];
	struct metrics_values v = read_metrics();
	ssize_t n = recv(fd, answer, sizeof(answer), MSG_PEEK | MSG_DONTWAIT);

	return (struct progress){
		.observations = v.observations - before->observations,
		.bytes = v.bytes - before->bytes,
		.requests = v.all_requests - before->all_requests,
		.in_flight = v.in_flight,
		.seconds = v.seconds - before->seconds,
		.answered = n > 0 ? (size_t)n : 0,
	};
}

static bool same(const struct progress *a, const struct progress *b)
{
	return a->observations == b->observations && a->bytes == b->bytes &&
	       a->requests == b->requests && a->in_flight == b->in_flight &&
	       a->answered == b->answered;
}

/* Check, at any instruction, what the example's README.md promises. */
static void check(const struct progress *p)
{
	bool none = p->observations == 0 && p->bytes == 0 && p->requests == 0;
	bool all = p->observations == 1 && p->bytes > 0 && p->requests == 1;

	if (p->answered != 0 && (!all || p->answered != p->bytes))
		fail("the client has what is not counted");
	if (p->in_flight == 0 && !(none && p->answered == 0) && !(all && p->answered != 0))
		fail("counts and answers differ, and nothing is in flight");
	if (p->in_flight < 0 || p->in_flight > 1 || p->observations > 1 || p->requests > 1)
		fail("more than one request");
	if ((p->observations == 1) != (p->seconds > 0))
		fail("an observation without its seconds, or these alone");
}

/* Step one instruction, or up to a system call or out of it. */
static void step(pid_t worker, int request)
{
	int status;

	if (ptrace(request, worker, 0, 0) != 0 || waitpid(worker, &status, __WALL) < 0 ||
	    !WIFSTOPPED(status))
		give_up("stepping");
}

/* Let the worker run until it reads the request: it counts nothing before that. */
static void follow_to_read(pid_t worker)
{
	struct user_regs_struct regs = { 0 };

	while (regs.orig_rax != SYS_recvfrom) {
		step(worker, PTRACE_SYSCALL);
		if (ptrace(PTRACE_GETREGS, worker, 0, &regs) != 0)
			give_up("reading registers");
	}
}

/* Step until so many changes were seen, or the request is over. Returns how many were seen. */
static int follow(pid_t worker, const struct metrics_values *before, int fd, int places,
		  struct progress *now)
{
	struct progress next;
	long instructions = 0;
	int seen = 0;

	while (seen < places && failures == 0) {
		step(worker, PTRACE_SINGLESTEP);
		instructions++;
		next = look(before, fd);
		check(&next);
		if (same(now, &next))
			continue;
		*now = next;
		seen++;
		if (now->in_flight == 0)
			break;
	}
	printf("# %ld instructions: timed %" PRIu64 ", bytes %" PRIu64 ", requests %" PRIu64
	       ", in flight %" PRId64 ", the client has %zu bytes\n",
	       instructions, now->observations, now->bytes, now->requests, now->in_flight,
	       now->answered);
	return seen;
}

static void check_dead(const struct metrics_values *before, int fd, const struct progress *last)
{
	struct progress p;
	uint64_t restarts = 0;

	for (int ms = 0; restarts != before->restarts + 1 && ms < PATIENCE; ms++) {
		restarts = read_metrics().restarts;
		usleep(1000);
	}
	if (restarts != before->restarts + 1)
		fail("the worker was not replaced");
	p = look(before, fd);
	if (p.in_flight != 0)
		fail("a dead worker has a request in flight");
	p.in_flight = last->in_flight;
	if (!same(&p, last))
		fail("the kill has changed the counts");
}

/* Send a request to a worker, which is killed at that place. */
static void kill_at(unsigned port, int place)
{
	struct metrics_values before = read_metrics();
	struct progress now = { 0 };
	pid_t worker = find_worker();
	int fd, status;

	if (ptrace(PTRACE_SEIZE, worker, 0, 0) != 0) {
		printf("ok %d - killed # SKIP no ptrace: %s\n", place, strerror(errno));
		return;
	}
	if (ptrace(PTRACE_INTERRUPT, worker, 0, 0) != 0 || waitpid(worker, &status, __WALL) < 0)
		give_up("stopping a worker");
	fd = ask(port);
	follow_to_read(worker);
	if (follow(worker, &before, fd, place, &now) != place)
		fail("the request was over before");
	kill(worker, SIGKILL);
	waitpid(worker, &status, __WALL);
	check_dead(&before, fd, &now);
	close(fd);
	printf("%s %d - killed at place %d\n", failures == 0 ? "ok" : "not ok", place, place);
	fflush(stdout);
}

/* Return whether this machine has atomic pairs, which the server's latest value in a file needs. */
static bool has_latest(const char *path)
{
	struct percpu_latest *latest = NULL;
	struct percpu_region *r;
	int e = percpu_region_open(
		path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL, NULL, &r);

	if (e == 0) {
		e = percpu_latest_create_in(r, &latest);
		percpu_latest_destroy(latest);
		percpu_region_close(r);
		unlink(path);
	}
	return e != -ENOTSUP;
}

int main(int argc, char **argv)
{
	char directory[] = "/tmp/prefork-steps-XXXXXX", segment[64];
	unsigned port;
	int status;

	if (argc != 2 || !mkdtemp(directory))
		return 2;
	alarm(ALARM);
	snprintf(segment, sizeof(segment), "%s/segment", directory);
	if (!has_latest(segment)) {
		printf("1..0 # SKIP this machine has no latest values in files\n");
		rmdir(directory);
		return 0;
	}
	printf("1..%d\n", PLACES);
	port = start_server(argv[1], segment);
	if (metrics_open(segment, false) != 0)
		give_up("opening the segment");
	for (int place = 1; place <= PLACES && failures == 0; place++)
		kill_at(port, place);
	metrics_close();
	kill(master, SIGTERM);
	waitpid(master, &status, 0);
	unlink(segment);
	rmdir(directory);
	return failures != 0 || status != 0;
}

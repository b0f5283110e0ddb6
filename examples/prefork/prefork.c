/* SPDX-License-Identifier: MIT */
/*
 * prefork.c - an HTTP server of several processes, which counts in a segment: this is the
 * master, which starts the workers, replaces those that die, and ends them.
 *
 *	prefork [-p PORT] [-w WORKERS] [-n] SEGMENT	serve on 127.0.0.1, until SIGTERM; with -n
 *							no request is counted, to compare
 *	prefork -r SEGMENT [PID]			print the counts
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prefork.h"

enum { MOST_WORKERS = 256 };

/* Return a listening socket, or -1. */
static int listen_at(unsigned port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	socklen_t size = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), yes = 1;

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
	    bind(fd, (struct sockaddr *)&a, size) != 0 || listen(fd, SOMAXCONN) != 0 ||
	    getsockname(fd, (struct sockaddr *)&a, &size) != 0) {
		fprintf(stderr, "prefork: port %u: %s\n", port, strerror(errno));
		return -1;
	}
	printf("listening on 127.0.0.1:%u\n", ntohs(a.sin_port));
	fflush(stdout);
	return fd;
}

/* Start a worker. Returns its process ID, or -1. */
static pid_t start_worker(int listener)
{
	pid_t master = getpid(), pid = fork();

	if (pid < 0)
		fprintf(stderr, "prefork: cannot start a worker: %s\n", strerror(errno));
	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGTERM); /* no worker outlives the master */
	if (getppid() != master)
		_exit(1);
	exit(worker_run(listener));
}

/* Replace workers that were killed. Returns -1 if one could not be replaced, or ended by itself:
 * a worker does so only if it cannot serve. */
static int replace(pid_t *workers, unsigned n, int listener)
{
	int status, result = 0;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (unsigned i = 0; i < n; i++) {
			if (workers[i] != pid)
				continue;
			workers[i] = WIFSIGNALED(status) ? start_worker(listener) : -1;
			if (workers[i] > 0)
				metrics_restarted();
			else
				result = -1;
		}
	}
	return result;
}

static int end_workers(const pid_t *workers, unsigned n)
{
	int status, result = 0;

	for (unsigned i = 0; i < n; i++)
		if (workers[i] > 0)
			kill(workers[i], SIGTERM);
	while (wait(&status) > 0)
		if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
			result = 1;
	return result;
}

static int serve(int listener, unsigned n)
{
	pid_t workers[MOST_WORKERS];
	int number = SIGCHLD, failed = 0;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (unsigned i = 0; i < n; i++) {
		workers[i] = start_worker(listener);
		if (workers[i] < 0)
			failed = 1;
	}
	while (!failed && number == SIGCHLD) {
		if (sigwait(&set, &number) == 0 && number == SIGCHLD)
			failed = replace(workers, n, listener) != 0;
	}
	return end_workers(workers, n) || failed;
}

static int print(uint32_t pid)
{
	static const char *const classes[] = { "2xx", "3xx", "4xx", "5xx" };
	int64_t share = pid != 0 ? metrics_in_flight_of(pid) : 0;
	struct metrics_values v;
	int e = metrics_read(&v);

	if (e != 0) {
		fprintf(stderr, "prefork: %s\n", strerror(-e));
		return 1;
	}
	for (int i = 0; i < 4; i++)
		printf("requests %s %" PRIu64 "\n", classes[i], v.requests[i]);
	printf("bytes %" PRIu64 "\n", v.bytes);
	printf("observations %" PRIu64 "\n", v.observations);
	printf("seconds %.9f\n", v.seconds);
	printf("in flight %" PRId64 "\n", v.in_flight);
	if (pid != 0)
		printf("in flight of %" PRIu32 " %" PRId64 "\n", pid, share);
	printf("restarts %" PRIu64 "\n", v.restarts);
	printf("starts %" PRIu64 "\n", v.starts);
	return 0;
}

static int usage(void)
{
	fputs("usage: prefork [-p PORT] [-w WORKERS] [-n] SEGMENT\n"
	      "       prefork -r SEGMENT [PID]\n",
	      stderr);
	return 2;
}

int main(int argc, char **argv)
{
	unsigned long port = 8080, workers = 4;
	bool to_read = false;
	int option, status = 1, listener;

	while ((option = getopt(argc, argv, "p:w:rn")) != -1) {
		if (option == 'p')
			port = strtoul(optarg, NULL, 10);
		else if (option == 'w')
			workers = strtoul(optarg, NULL, 10);
		else if (option == 'r')
			to_read = true;
		else if (option == 'n')
			metrics_off();
		else
			return usage();
	}
	if (optind == argc || optind + 1 + to_read < argc || port > 65535 || workers == 0 ||
	    workers > MOST_WORKERS)
		return usage();
	if (metrics_open(argv[optind], !to_read) != 0)
		return 1;
	if (to_read) {
		status = print(optind + 1 < argc ? (uint32_t)strtoul(argv[optind + 1], NULL, 10) :
						   0);
	} else {
		listener = listen_at((unsigned)port);
		if (listener >= 0) {
			metrics_started();
			status = serve(listener, (unsigned)workers);
			close(listener);
		}
	}
	metrics_close();
	return status;
}

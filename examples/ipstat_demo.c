/* SPDX-License-Identifier: MIT */
/*
 * ipstat_demo.c - the demonstration: count real traffic with several processes,
 * kill one of them on the way, and check the totals.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipstat.h"

enum {
	SECONDS = 10,
	QUIET_US = 300000, /* us without a change in the kernel's counters */
	QUIET_TRIES = 20,
	SAMPLE_PACKETS = 1000000,
};

static void introduce(const struct session *s, const char *what)
{
	(void)percpu_selftest(); /* wait for the verdict, to print the final tier */
	printf("%u processes of %u threads count %s.\n", s->crew.processes, s->crew.threads, what);
	printf("Counters: %s, tier %s. In another terminal: ipstat --attach %s -s 10\n\n", s->path,
	       percpu_tier_name(percpu_status()->tier), s->path);
	fflush(stdout);
}

static void kill_one(const struct session *s)
{
	pid_t victim = s->crew.pid[s->crew.processes - 1];

	if (victim > 0)
		kill(victim, SIGKILL);
}

static pid_t start_traffic(unsigned seconds)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	traffic_run(seconds);
	_exit(EXIT_OK);
}

/* The last acknowledgments may still be on their way when the sender has ended. */
static void wait_until_quiet(struct kernel_counts *ret)
{
	struct kernel_counts last;

	kernel_read(ret);
	for (unsigned i = 0; i < QUIET_TRIES; i++) {
		last = *ret;
		usleep(QUIET_US);
		kernel_read(ret);
		if (memcmp(&last, ret, sizeof(last)) == 0)
			return;
	}
}

static int count_traffic(struct session *s, unsigned seconds)
{
	struct kernel_counts before, after;
	struct ring_totals rings;
	struct counts ours;
	bool killed = false, running = session_start(s) == 0;
	pid_t traffic = -1;

	kernel_read(&before);
	if (running)
		traffic = start_traffic(seconds);
	if (traffic < 0) {
		session_finish(s);
		return EXIT_USAGE;
	}
	while (waitpid(traffic, NULL, WNOHANG) == 0) {
		session_step(s);
		if (!killed && now() - s->picture.start > seconds / 2.0) {
			kill_one(s);
			killed = true;
		}
	}
	wait_until_quiet(&after);
	session_finish(s);
	session_read(s, &ours);
	rings_totals(s->crew.rings, s->crew.processes * s->crew.threads, &rings);
	printf("\nAll counters that are not 0:\n");
	show_totals(&ours);
	printf("\nThe kernel counted the same packets:\n");
	if (!check_kernel(&ours, &before, &after, s->crew.board, &rings))
		return EXIT_WRONG;
	return s->crew.failed ? EXIT_USAGE : EXIT_OK;
}

static int demo_traffic(const struct options *o)
{
	struct options live = *o;
	struct session s;
	int status;

	live.interface = "lo";
	live.seconds = o->seconds ? o->seconds : SECONDS;
	if (session_open(&live, &s))
		return EXIT_USAGE;
	introduce(&s, "TCP, UDP and ICMP traffic on a loopback interface of their own");
	status = count_traffic(&s, live.seconds);
	session_close(&s);
	return status;
}

static int count_sample(struct session *s, const struct counts *known)
{
	struct counts ours = { 0 };
	bool failed = session_start(s) != 0;

	while (!failed && ours.link.links_total < SAMPLE_PACKETS / 2 && !interrupted()) {
		usleep(500);
		session_read(s, &ours);
		failed = s->crew.failed;
	}
	kill_one(s);
	session_finish(s);
	session_read(s, &ours);
	printf("\nThe file's content is known:\n");
	if (!check_sample(&ours, known, s->crew.board))
		return EXIT_WRONG;
	return s->crew.failed ? EXIT_USAGE : EXIT_OK;
}

static int demo_sample(const struct options *o, const char *path)
{
	struct options offline = *o;
	struct session s;
	struct counts known;
	int status;

	if (sample_write(path, SAMPLE_PACKETS, &known))
		return EXIT_USAGE;
	offline.file = path;
	if (session_open(&offline, &s))
		return EXIT_USAGE;
	introduce(&s, "a capture file");
	status = count_sample(&s, &known);
	session_close(&s);
	return status;
}

static int demo_file(const struct options *o)
{
	const char *directory = getenv("TMPDIR");
	char path[256];
	int fd, status;

	snprintf(path, sizeof(path), "%s/ipstat-XXXXXX", directory ? directory : "/tmp");
	fd = mkstemp(path);
	if (fd < 0) {
		complain("cannot make a capture file in %s: %s; set TMPDIR to another directory",
			 directory ? directory : "/tmp", strerror(errno));
		return EXIT_USAGE;
	}
	close(fd);
	status = demo_sample(o, path);
	unlink(path);
	return status;
}

int demo(const struct options *o)
{
	int err = network_own(), status, compared;

	if (!err)
		err = rings_permitted();
	if (err)
		printf("Capturing is not permitted here (%s; root, or CAP_NET_RAW and CAP_NET_ADMIN, "
		       "may).\nSo this counts a capture file, which it makes itself.\n\n",
		       strerror(-err));
	status = err ? demo_file(o) : demo_traffic(o);
	if (status == EXIT_USAGE || interrupted())
		return status;
	printf("\n");
	compared = compare();
	return status ? status : compared;
}

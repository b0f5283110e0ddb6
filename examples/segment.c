/* SPDX-License-Identifier: MIT */
/*
 * segment.c - a server whose workers count in named metrics, are killed, and start again; and a
 * reader of these metrics.
 *
 *	cc segment.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#define WORKERS 4
#define REQUESTS 1000

/* All metrics of the program, in one place. */

static struct percpu_counter *requests;
static struct percpu_counter *bytes;
static struct percpu_histogram *seconds;

static struct percpu_segment *open_metrics(const char *path, unsigned flags)
{
	struct percpu_declaration table[] = {
		percpu_declare_counter(&requests, "demo_requests_total",
				       "Requests that were answered."),
		percpu_declare_counter(&bytes, "demo_sent_bytes_total", "Bytes of all answers."),
		percpu_declare_histogram(&seconds, "demo_request_seconds",
					 "How long requests took.", NULL),
	};
	struct percpu_segment *s;

	table[1].unit = "bytes";
	table[2].unit = "seconds";
	if (percpu_segment_open_table(path, flags, NULL, table, 3, &s) != 0) {
		fprintf(stderr, "%s\n", percpu_error());
		exit(1);
	}
	return s;
}

/* Start a worker. It opens the file itself, so it need not be a child of the others. */
static pid_t start_worker(const char *path, int requests_left)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)open_metrics(path, PERCPU_SEGMENT_CREATE);
	for (; requests_left > 0; requests_left--) {
		percpu_counter_inc(requests);
		percpu_counter_add(bytes, 500);
		percpu_histogram_record(seconds, 0.002);
	}
	raise(SIGKILL); /* nothing is released, and nothing is lost */
	_exit(1);
}

int main(void)
{
	struct percpu_segment *s;
	char path[64];
	uint64_t n;

	snprintf(path, sizeof(path), "/tmp/percpu-segment-%ld", (long)getpid());
	for (int i = 0; i < WORKERS; i++)
		waitpid(start_worker(path, REQUESTS), NULL, 0);

	s = open_metrics(path, 0); /* to read */
	unlink(path);
	n = percpu_counter_fetch(requests);
	printf("demo_requests_total %" PRIu64 "\n", n);
	printf("demo_sent_bytes_total %" PRIu64 "\n", percpu_counter_fetch(bytes));
	percpu_segment_close(s);
	return n != (uint64_t)WORKERS * REQUESTS;
}

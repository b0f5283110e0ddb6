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

static const struct percpu_metric requests_total = {
	.size = sizeof(requests_total),
	.name = "demo_requests_total",
	.help = "Requests that were answered.",
};

static const struct percpu_metric bytes_total = {
	.size = sizeof(bytes_total),
	.name = "demo_sent_bytes_total",
	.help = "Bytes of all answers.",
	.unit = "bytes",
};

static const struct percpu_metric request_seconds = {
	.size = sizeof(request_seconds),
	.name = "demo_request_seconds",
	.help = "How long requests took.",
	.unit = "seconds",
};

static const struct percpu_declaration table[] = {
	{ .size = sizeof(table[0]),
	  .metric = &requests_total,
	  .kind = PERCPU_METRIC_COUNTER,
	  .ret = &requests },
	{ .size = sizeof(table[0]),
	  .metric = &bytes_total,
	  .kind = PERCPU_METRIC_COUNTER,
	  .ret = &bytes },
	{ .size = sizeof(table[0]),
	  .metric = &request_seconds,
	  .kind = PERCPU_METRIC_HISTOGRAM,
	  .ret = &seconds },
};

#define ROWS (sizeof(table) / sizeof(table[0]))

static struct percpu_segment *open_metrics(const char *path, unsigned flags)
{
	struct percpu_segment *s;
	int e = percpu_segment_open(path, flags, NULL, &s);

	if (e != 0) {
		fprintf(stderr, "%s\n", percpu_error());
		exit(1);
	}
	e = percpu_segment_declare(s, table, ROWS);
	if (e != 0) {
		fprintf(stderr, "%s: %s\n", path, percpu_error());
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
	(void)open_metrics(path, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_CREATE);
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
	printf("%s %" PRIu64 "\n", requests_total.name, n);
	printf("%s %" PRIu64 "\n", bytes_total.name, percpu_counter_fetch(bytes));
	percpu_segment_close(s);
	return n != (uint64_t)WORKERS * REQUESTS;
}

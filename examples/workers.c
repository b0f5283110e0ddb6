/* SPDX-License-Identifier: MIT */
/*
 * workers.c - a server whose workers count in a file: it may be started again, or twice, and its
 * workers may be killed. examples/monitor.c reads the counts.
 *
 *	workers [FILE]		by default /dev/shm/percpu-workers, which stays
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workers.h"

enum { WORKERS = 4, REQUESTS_EACH = 100000 };

static void serve(struct percpu_counter_array *counters)
{
	for (int i = 0; i < REQUESTS_EACH; i++) {
		percpu_counter_array_add(counters, REQUESTS, 1);
		percpu_counter_array_add(counters, BYTES, 1500);
	}
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/dev/shm/percpu-workers";
	struct percpu_region *region;
	struct percpu_counter_array *counters;
	int err =
		percpu_region_open(path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &region);
	int status = 0, started = 0;

	if (!err)
		err = percpu_counter_array_open(region, ROOT_COUNTERS, COUNTERS, &counters);
	if (err) {
		fprintf(stderr, "workers: %s: %s\n", path, workers_error(err));
		return 1;
	}
	percpu_counter_array_add(counters, STARTS, 1);
	while (started < WORKERS) {
		pid_t pid = fork();

		if (pid == 0) {
			serve(counters);
			_exit(0);
		}
		if (pid < 0) {
			fprintf(stderr, "workers: cannot fork: %s\n", strerror(errno));
			break;
		}
		started++;
	}
	for (int i = 0; i < started; i++)
		wait(&status);
	percpu_counter_array_detach(counters);
	percpu_region_close(region);
	return started == WORKERS ? 0 : 1;
}

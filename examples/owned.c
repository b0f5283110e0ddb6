/* SPDX-License-Identifier: MIT */
/*
 * owned.c - a small server whose workers are killed at random, in the middle of requests. A
 * killed worker's requests in flight are no longer counted.
 *
 *	cc owned.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)
#define WORKERS 4

static pid_t start_worker(struct percpu_owned_gauge *in_flight)
{
	pid_t pid = fork();

	while (pid == 0) { /* one request */
		if (percpu_owned_gauge_add(in_flight, 1) != 0)
			_exit(1);
		usleep(500);
		percpu_owned_gauge_add(in_flight, -1);
	}
	return pid;
}

static int64_t level(struct percpu_owned_gauge *in_flight)
{
	int64_t n = -1;

	return percpu_owned_gauge_fetch(in_flight, PERCPU_OWNED_LIVING, &n) == 0 ? n : -1;
}

int main(void)
{
	struct percpu_owned_gauge *in_flight;
	struct percpu_owners *owners;
	struct percpu_region *region;
	pid_t worker[WORKERS];
	char path[64];
	int e;

	snprintf(path, sizeof(path), "/tmp/percpu-owned-%ld", (long)getpid());
	e = percpu_region_open(path, FLAGS, NULL, &region);
	unlink(path);
	if (e == 0)
		e = percpu_owners_open(region, 0, &owners);
	if (e == 0)
		e = percpu_owned_gauge_open(owners, 1, PERCPU_OWNED_SUM, &in_flight);
	if (e != 0) {
		fprintf(stderr, "owned: %s\n", strerror(-e));
		return 1;
	}
	for (int i = 0; i < WORKERS; i++)
		worker[i] = start_worker(in_flight);
	for (int i = 0; i < 20; i++) {
		usleep(5000);
		kill(worker[i % WORKERS], SIGKILL);
		waitpid(worker[i % WORKERS], NULL, 0);
		worker[i % WORKERS] = start_worker(in_flight);
	}
	usleep(20000);
	printf("requests in flight: %" PRId64 "\n", level(in_flight));
	for (int i = 0; i < WORKERS; i++) {
		kill(worker[i], SIGKILL);
		waitpid(worker[i], NULL, 0);
	}
	printf("when all workers are dead: %" PRId64 "\n", level(in_flight));
	e = level(in_flight) != 0;
	percpu_owned_gauge_destroy(in_flight);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
	return e;
}

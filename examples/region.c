/* SPDX-License-Identifier: MIT */
/*
 * region.c - counters that processes share, and that outlive the processes that counted.
 *
 *	cc region.c $(pkg-config --cflags --libs percpu)
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

int main(void)
{
	struct percpu_counter_array *a;
	struct percpu_region *r;
	int fd = memfd_create("counters", MFD_CLOEXEC); /* or percpu_region_open() with a path */
	int e = percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE, NULL, &r);
	uint64_t sum;
	pid_t child;

	if (e == 0)
		e = percpu_counter_array_open(r, 0, 64, &a);
	if (e != 0) {
		fprintf(stderr, "region: %s\n", strerror(-e));
		return 1;
	}
	child = fork();
	if (child == 0) {
		for (int i = 0; i < 1000; i++)
			percpu_counter_array_add(a, 0, 1);
		raise(SIGKILL);
	}
	waitpid(child, NULL, 0);
	sum = percpu_counter_array_fetch(a, 0);
	printf("a worker counted %" PRIu64 ", and was killed\n", sum);
	percpu_counter_array_detach(a);
	percpu_region_close(r);
	return sum != 1000;
}

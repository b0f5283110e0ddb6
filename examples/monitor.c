/* SPDX-License-Identifier: MIT */
/*
 * monitor.c - read the counters of examples/workers.c from another process: before the
 * workers are started, while they run, and after they have ended.
 *
 *	monitor [FILE [SECONDS]]	wait so long for the file; default 0
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "workers.h"

static int try_to_open(const char *path, struct percpu_region **ret_region,
		       struct percpu_counter_array **ret)
{
	int err = percpu_region_open(path, 0, NULL, ret_region);

	if (err)
		return err;
	err = percpu_counter_array_open(*ret_region, ROOT_COUNTERS, COUNTERS, ret);
	if (err)
		percpu_region_close(*ret_region);
	return err;
}

int main(int argc, char **argv)
{
	const char *path = argc > 1 ? argv[1] : "/dev/shm/percpu-workers";
	long tries = argc > 2 ? 10 * strtol(argv[2], NULL, 10) : 0;
	struct percpu_region *region;
	struct percpu_counter_array *counters;
	int err = try_to_open(path, &region, &counters);

	/* There is no file yet, or no object at the root. */
	for (; err == -ENOENT && tries > 0; tries--) {
		usleep(100000);
		err = try_to_open(path, &region, &counters);
	}
	if (err) {
		fprintf(stderr, "monitor: %s: %s\n", path, workers_error(err));
		return 1;
	}
	printf("starts %" PRIu64 ", requests %" PRIu64 ", bytes %" PRIu64 "\n",
	       percpu_counter_array_fetch(counters, STARTS),
	       percpu_counter_array_fetch(counters, REQUESTS),
	       percpu_counter_array_fetch(counters, BYTES));
	percpu_counter_array_detach(counters);
	percpu_region_close(region);
	return 0;
}

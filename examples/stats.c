/* SPDX-License-Identifier: MIT */
/*
 * stats.c - counters that belong together: sum and number of an average are read at one moment.
 *
 *	cc stats.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

struct port {
	uint64_t packets, bytes;
};

static PERCPU_STATS(struct port) ports;

int main(void)
{
	struct port now;
	int e = PERCPU_STATS_CREATE(&ports, 1, 0);

	for (uint64_t i = 0; i < 1000 && e == 0; i++)
		e = PERCPU_STATS_UPDATE(ports, 0, .packets = 1, .bytes = 64 + i % 2);
	if (e == 0)
		e = PERCPU_STATS_SNAPSHOT(ports, 0, 1, &now);
	PERCPU_STATS_DESTROY(ports);
	if (e != 0) {
		fprintf(stderr, "stats: %s\n", strerror(-e));
		return 1;
	}
	printf("%" PRIu64 " packets, %" PRIu64 " bytes\n", now.packets, now.bytes);
	return now.bytes != 64500;
}

/* SPDX-License-Identifier: MIT */
/*
 * flows.c - flows that come and go: each packet counts for its flow and for all flows, with one
 * commit. What a flow had stays in a total when it ends.
 *
 *	cc flows.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/stats_group.h>

struct traffic {
	uint64_t packets, bytes;
};

enum { ALL, PAST, TOTALS };

#define OBJECTS 16
#define FIELDS (sizeof(struct traffic) / sizeof(uint64_t))

static struct percpu_stats_group *traffic;

/* Count the packets of a flow, from its begin to its end. */
static int count_flow(uint64_t packets, uint64_t bytes)
{
	const struct traffic n = { .packets = 1, .bytes = bytes };
	size_t flow;
	int e = percpu_stats_group_alloc(traffic, &flow);

	if (e != 0)
		return e;
	for (uint64_t i = 0; i < packets && e == 0; i++)
		e = percpu_stats_group_update_both(traffic, flow, &n.packets, ALL, &n.packets,
						   FIELDS);
	return e != 0 ? e : percpu_stats_group_free(traffic, flow, PAST);
}

int main(void)
{
	struct traffic now[OBJECTS];
	uint64_t when;
	int e = percpu_stats_group_create(sizeof(struct traffic), TOTALS, OBJECTS, &traffic);

	for (uint64_t i = 0; i < 100 && e == 0; i++)
		e = count_flow(10, 64 + i);
	if (e == 0)
		e = percpu_stats_group_snapshot(traffic, 0, OBJECTS, now, &when);
	percpu_stats_group_destroy(traffic);
	if (e != 0) {
		fprintf(stderr, "flows: %s\n", strerror(-e));
		return 1;
	}
	printf("%" PRIu64 " packets, %" PRIu64 " of them of flows that have ended\n",
	       now[ALL].packets, now[PAST].packets);
	return now[ALL].packets != 1000 || now[PAST].bytes != now[ALL].bytes;
}

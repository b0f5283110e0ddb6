/* SPDX-License-Identifier: MIT */
/*
 * compact.c - a million counters in half the memory, such as one per flow.
 *
 *	cc compact.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/compact.h>
#include <percpu/percpu.h>

enum { FLOWS = 1000000 };

int main(void)
{
	struct percpu_compact *flows;
	uint64_t bytes;
	int e = percpu_compact_create(FLOWS, &flows);

	if (e != 0) {
		fprintf(stderr, "compact: no memory for %d flows: %s\n", FLOWS, strerror(-e));
		return 1;
	}
	for (size_t i = 0; i < 3000; i++)
		percpu_compact_add(flows, i * 7919 % FLOWS, 1500);
	bytes = percpu_compact_fetch(flows, 7919);
	printf("flow 7919: %" PRIu64 " bytes\n", bytes);
	percpu_compact_destroy(flows);
	return bytes != 1500;
}

/* SPDX-License-Identifier: MIT */
/*
 * zone.c - objects that are made and freed, each with a record per CPU.
 *
 *	cc zone.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/zone.h>

struct load {
	uint64_t jobs, nanoseconds;
};

static void print(void *cell, unsigned cpu, void *arg)
{
	const struct load *l = cell;

	printf("%s, CPU %u: %llu jobs\n", (const char *)arg, cpu, (unsigned long long)l->jobs);
}

int main(void)
{
	char name[] = "tenant 1";
	struct percpu_zone *z;
	void *tenant;
	int e = percpu_zone_create("tenants", sizeof(struct load), NULL, &z);

	if (e == 0)
		e = percpu_zone_alloc(z, PERCPU_ZONE_ZERO, &tenant);
	if (e != 0) {
		fprintf(stderr, "zone: %s\n", strerror(-e));
		return 1;
	}
	((struct load *)percpu_zone_get(tenant, 0))->jobs = 1; /* no other thread knows of it yet */
	percpu_zone_foreach(z, tenant, print, name);
	e = percpu_zone_free(z, tenant);
	return e != 0 || percpu_zone_destroy(z) != 0;
}

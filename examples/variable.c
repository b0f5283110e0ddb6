/* SPDX-License-Identifier: MIT */
/*
 * variable.c - variables at file scope of which each CPU has a copy.
 *
 *	cc variable.c $(pkg-config --cflags --libs percpu)
 */
#include <inttypes.h>
#include <stdio.h>

#include <percpu/percpu.h>
#include <percpu/variable.h>

static PERCPU_VARIABLE(uint64_t, packets);
static PERCPU_VARIABLE(unsigned, burst) = 32;

int main(void)
{
	unsigned cpus = percpu_status()->possible_cpus;
	uint64_t sum;

	for (int i = 0; i < 1000; i++)
		PERCPU_VARIABLE_ADD(packets, 1);
	sum = PERCPU_VARIABLE_SUM(packets);
	printf("%" PRIu64 " packets; bursts of %u on CPU %u\n", sum,
	       *PERCPU_VARIABLE_PTR(burst, cpus - 1), cpus - 1);
	return sum != 1000;
}

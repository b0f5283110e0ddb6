/* SPDX-License-Identifier: MIT */
/*
 * status.c - how this process counts, and why; percpu-doctor prints more.
 *
 *	cc status.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>

#include <percpu/percpu.h>

int main(void)
{
	const struct percpu_status *st;

	(void)percpu_selftest(); /* waits for the verdict; a program need not */
	st = percpu_status();
	printf("tier %s: %s\n", percpu_tier_name(st->tier), st->reason);
	printf("%u possible CPUs\n", st->possible_cpus);
	return 0;
}

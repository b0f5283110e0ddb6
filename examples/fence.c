/* SPDX-License-Identifier: MIT */
/*
 * fence.c - wait until no sequence acts on the old state any more.
 *
 *	cc fence.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>
#include <string.h>

#include <percpu/fence.h>
#include <percpu/percpu.h>

int main(void)
{
	struct percpu_fence_report report;
	int e = percpu_fence();

	if (e != 0) {
		fprintf(stderr, "fence: no fence of this process: %s\n", strerror(-e));
		return 1;
	}
	e = percpu_fence_all(1000000000, &report);
	if (e == 0)
		printf("all sequences of all processes have committed, or restarted\n");
	else if (e == -EPERM || e == -ETIMEDOUT)
		printf("%u CPUs were not fenced, the first is %u: %s\n", report.unfenced,
		       report.first_unfenced, strerror(-e));
	else
		fprintf(stderr, "fence: %s\n", strerror(-e));
	return e != 0 && e != -EPERM && e != -ETIMEDOUT;
}

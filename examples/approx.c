/* SPDX-License-Identifier: MIT */
/*
 * approx.c - memory used by many threads: its approximate size, and a limit that it never
 * exceeds.
 *
 *	cc approx.c $(pkg-config --cflags --libs percpu)
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <percpu/approx.h>
#include <percpu/percpu.h>

#define MEMORY INT64_C(1000000)

int main(void)
{
	struct percpu_approx *used = NULL;
	int e = percpu_approx_create(NULL, &used);
	unsigned blocks = 0;

	while (e == 0) {
		e = percpu_approx_add_below(used, 4096, MEMORY);
		blocks += e == 0;
	}
	if (e != -ERANGE) {
		fprintf(stderr, "approx: %s\n", strerror(-e));
		return 1;
	}
	printf("%u blocks, %" PRId64 " bytes; about %" PRId64 ", give or take %" PRIu64 "\n",
	       blocks, percpu_approx_fetch(used), percpu_approx_estimate(used),
	       percpu_approx_bound(used));
	for (; blocks > 0; blocks--)
		percpu_approx_add(used, -4096);
	printf("all given back: %s\n", percpu_approx_compare(used, 0) == 0 ? "yes" : "no");
	percpu_approx_destroy(used);
	return 0;
}

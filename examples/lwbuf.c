/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.c - read some pages of a file that is not mapped.
 *
 *	cc lwbuf.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>
#include <string.h>

#include <percpu/lwbuf.h>

int main(void)
{
	FILE *file = tmpfile();
	struct percpu_lwbuf_options o = { .size = sizeof(o), .window = 65536 };
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;
	int e;

	if (file == NULL || fprintf(file, "%16383d\n", 42) < 0 || fflush(file) != 0)
		return 1;
	e = percpu_lwbuf_create(fileno(file), &o, &f);
	if (e == 0)
		e = percpu_lwbuf_alloc(f, 0, 0, &b);
	if (e != 0) {
		fprintf(stderr, "lwbuf: %s\n", strerror(-e));
		return 1;
	}
	printf("page %d has %zu bytes, which end with %.2s\n", (int)percpu_lwbuf_page(&b),
	       percpu_lwbuf_length(&b), (char *)percpu_lwbuf_kva(&b) + percpu_lwbuf_length(&b) - 3);
	return percpu_lwbuf_free(f, &b) != 0 || percpu_lwbuf_destroy(f) != 0;
}

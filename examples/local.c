/* SPDX-License-Identifier: MIT */
/*
 * local.c - a free list per CPU: push and pop without an atomic instruction.
 *
 *	cc local.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>
#include <string.h>

#include <percpu/local.h>
#include <percpu/percpu.h>

enum { ITEMS = 32 };

static char buffers[ITEMS][2048];

int main(void)
{
	struct percpu_local *list; /* an array of up to ITEMS pointers per CPU */
	int e = percpu_local_create(8 + ITEMS * sizeof(void *), PERCPU_LOCAL_LOCK, &list);
	void *got = NULL;

	for (int i = 0; i < ITEMS && e == 0; i++)
		e = percpu_local_push(list, ITEMS, buffers[i]);
	if (e == 0)
		e = percpu_local_pop(list, &got); /* -ENOENT: this CPU has none left */
	if (e != 0 && e != -ENOENT && e != -ENOSPC) {
		fprintf(stderr, "local: %s\n", strerror(-e));
		return 1;
	}
	if (got != NULL)
		printf("buffer %td\n", ((char *)got - buffers[0]) / 2048);
	percpu_local_destroy(list);
	return 0;
}

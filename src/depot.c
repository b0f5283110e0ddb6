/* SPDX-License-Identifier: MIT */
/*
 * depot.c - the free items of a zone that its CPUs' caches have no room for.
 *
 * An array that grows. Half a cache at a time comes and goes, under the lock
 * that serializes all allocation.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define FIRST_SIZE 256

int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n)
{
	size_t size = d->size != 0 ? d->size : FIRST_SIZE;
	void **larger;

	while (size < d->n + n)
		size *= 2;
	if (size > d->size) {
		larger = realloc(d->items, size * sizeof(*larger));
		if (larger == NULL)
			return -ENOMEM;
		d->items = larger;
		d->size = size;
	}
	memcpy(&d->items[d->n], items, n * sizeof(*items));
	__atomic_store_n(&d->n, d->n + n, __ATOMIC_RELAXED);
	return 0;
}

size_t percpu_depot_take(struct percpu_depot *d, void **ret, size_t n)
{
	n = d->n < n ? d->n : n;
	if (n != 0)
		memcpy(ret, &d->items[d->n - n], n * sizeof(*ret));
	__atomic_store_n(&d->n, d->n - n, __ATOMIC_RELAXED);
	return n;
}

void percpu_depot_fini(struct percpu_depot *d)
{
	free(d->items);
}

/* SPDX-License-Identifier: MIT */
/*
 * reader_parts.c - the cells of the series of a picture, in the lanes of CPUs and in the bias lane.
 * They are sorted in the order of the file, so that adjacent cells are read together.
 */
#include <stdlib.h>

#include "reader.h"

int percpu_reader_compare_parts(const void *a, const void *b)
{
	const struct percpu_part *x = a, *y = b;

	if (x->chunk != y->chunk)
		return x->chunk < y->chunk ? -1 : 1;
	return (x->offset > y->offset) - (x->offset < y->offset);
}

/* Return whether b can be joined to a: it follows a, is gathered in the same way, and has no
 * object. Of the parts that are gathered in one way, all have an object, or none has. */
static bool continues(const struct percpu_part *a, const struct percpu_part *b)
{
	return a->chunk == b->chunk && a->offset + a->bytes == b->offset &&
	       a->gather == b->gather && a->object == NULL;
}

void percpu_reader_collect_parts(struct percpu_reader *r)
{
	struct percpu_part *p = r->part;
	size_t n = 0, kept = 0;
	bool sorted = true; /* as cells are that were declared one after the other */

	for (size_t i = 0; i < r->n; i++)
		if (r->entry[i].cells.part.bytes != 0) {
			p[n++] = r->entry[i].cells.part;
			sorted &= n == 1 || percpu_reader_compare_parts(&p[n - 2], &p[n - 1]) <= 0;
		}
	if (!sorted)
		qsort(p, n, sizeof(*p), percpu_reader_compare_parts);
	for (size_t i = 0; i < n; i++)
		if (kept != 0 && continues(&p[kept - 1], &p[i]))
			p[kept - 1].bytes += p[i].bytes;
		else
			p[kept++] = p[i];
	r->parts = kept;
	p = realloc(p, (kept + 1) * sizeof(*p)); /* most series have no part of their own left */
	r->part = p != NULL ? p : r->part;
}

static int compare_places(const void *a, const void *b)
{
	const struct percpu_picture_series *const *x = a, *const *y = b;

	if ((*x)->cells.part.chunk != (*y)->cells.part.chunk)
		return (*x)->cells.part.chunk < (*y)->cells.part.chunk ? -1 : 1;
	return ((*x)->cells.bias_at > (*y)->cells.bias_at) -
	       ((*x)->cells.bias_at < (*y)->cells.bias_at);
}

/* Add a series behind the run to it, if the series is near. Returns whether it was added. */
static bool take_in(struct percpu_biases *run, const struct percpu_picture_series *s)
{
	const uint32_t end = s->cells.bias_at + s->cells.bias - run->offset;

	if (s->cells.part.chunk != run->chunk ||
	    s->cells.bias_at > run->offset + run->bytes + PERCPU_NEAR)
		return false;
	run->bytes = end > run->bytes ? end : run->bytes;
	run->n++;
	return true;
}

void percpu_reader_collect_sets(struct percpu_reader *r)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->entry[i].cells.bias != 0)
			r->set[r->sets++] = &r->entry[i];
	qsort(r->set, r->sets, sizeof(r->set[0]), compare_places);
	for (size_t i = 0; i < r->sets; i++)
		if (r->runs == 0 || !take_in(&r->run[r->runs - 1], r->set[i]))
			r->run[r->runs++] =
				(struct percpu_biases){ .chunk = r->set[i]->cells.part.chunk,
							.offset = r->set[i]->cells.bias_at,
							.bytes = r->set[i]->cells.bias,
							.first = i,
							.n = 1 };
}

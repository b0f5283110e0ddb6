/* SPDX-License-Identifier: MIT */
/*
 * reader_family.c - the families of a picture. A family has the help text of its series, and counts
 * the calls for which there was no room.
 */
#include <stdlib.h>
#include <string.h>

#include "reader.h"

static int compare_picture_families(const void *a, const void *b)
{
	const struct percpu_picture_family *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static void take_picture_family(struct percpu_reader *r, const struct percpu_record_copy *c,
				char **text, const struct percpu_segment_record *record)
{
	const struct percpu_segment_record *h = &c->head;
	struct percpu_picture_family *f = &r->family[r->families];

	*f = (struct percpu_picture_family){ .record = record, .cap = h->cap };
	f->name = percpu_reader_string(text, c->bytes, h->name);
	f->help = percpu_reader_string(
		text, c->bytes + h->name + h->unit + h->label_names + h->label_values, h->help);
	if (f->name != NULL && f->help != NULL && percpu_text_is_utf8(f->help, h->help))
		r->families++;
	else
		r->pending++;
}

static struct percpu_picture_family *picture_family_of(const struct percpu_reader *r,
						       const char *name)
{
	const struct percpu_picture_family key = { .name = name };

	return r->families == 0 ?
		       NULL :
		       bsearch(&key, r->family, r->families, sizeof(key), compare_picture_families);
}

/* Count for each family the series that were removed. An overflow was not: it may be hidden. */
static void count_removed(struct percpu_reader *r, struct percpu_record_copy *c)
{
	struct percpu_segment_record *record;
	char name[PERCPU_METRIC_NAME + 1], *end;
	struct percpu_picture_family *f;
	uint64_t at = 0;

	while (percpu_directory_next(r->s, PERCPU_REMOVED, &at, c, &record)) {
		end = name;
		if (c->head.name > PERCPU_METRIC_NAME ||
		    percpu_reader_string(&end, c->bytes, c->head.name) == NULL)
			continue;
		f = picture_family_of(r, name);
		if (f != NULL)
			f->removed += !percpu_record_is_overflow(c);
	}
}

int percpu_reader_list_families(struct percpu_reader *r, struct percpu_record_copy *c, char *text)
{
	struct percpu_segment_record *record;
	struct percpu_picture_series *s;
	uint64_t at = 0;
	size_t n = 0;

	while (percpu_directory_next(r->s, PERCPU_FAMILIES, &at, c, &record))
		n++;
	r->family = calloc(n + 1, sizeof(*r->family));
	if (r->family == NULL)
		return -ENOMEM;
	at = 0;
	while (percpu_directory_next(r->s, PERCPU_FAMILIES, &at, c, &record))
		take_picture_family(r, c, &text, record);
	qsort(r->family, r->families, sizeof(*r->family), compare_picture_families);
	count_removed(r, c);
	for (size_t i = 0; i < r->n; i++) {
		s = &r->entry[i];
		s->family = picture_family_of(r, s->name);
		if (s->family != NULL)
			s->help = s->family->help;
	}
	return 0;
}

int percpu_reader_overflows(struct percpu_reader *r)
{
	const size_t invalid = offsetof(struct percpu_segment_record, invalid);
	uint64_t words[2];
	const struct percpu_chunk *k;
	const char *at;
	int e = 0;

	_Static_assert(offsetof(struct percpu_segment_record, overflows) ==
			       offsetof(struct percpu_segment_record, invalid) + sizeof(uint64_t),
		       "one call reads both");
	for (size_t i = 0; i < r->families && e == 0; i++) {
		at = (const char *)r->family[i].record + invalid;
		k = percpu_chunk_of(at - 2 * PERCPU_STRIDE); /* it is in lane 2, the biases */
		e = percpu_reader_pread(
			r, words, sizeof(words),
			percpu_reader_file_offset(r, k->index, 2 * r->cpus,
						  (size_t)(at - percpu_chunk_lane(k, 2, 0))));
		r->family[i].invalid = words[0];
		r->family[i].overflows = words[1];
	}
	return e;
}

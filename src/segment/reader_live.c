/* SPDX-License-Identifier: MIT */
/*
 * reader_live.c - consistent pictures: all fields of statistics are of one moment. Such a snapshot
 * changes banks, and needs a fence. So the reader opens the segment, and maps it.
 */
#include <stdlib.h>

#include "reader.h"

static int open_live(struct percpu_reader *r, struct percpu_segment **ret)
{
	const unsigned flags = PERCPU_SEGMENT_FOREIGN;
	int e = percpu_reader_use(r);

	if (e != 0)
		return e;
	e = r->path != NULL ? percpu_segment_open(r->path, flags, NULL, ret) :
			      percpu_segment_open_fd(r->fd, flags, NULL, ret);
	return e == 0 ? 0 :
			percpu_reason_set(&r->why, e, "the file cannot be opened to write: %s",
					  percpu_strerror(e));
}

int percpu_reader_set_consistent(struct percpu_reader *r)
{
	struct percpu_segment *live = NULL;
	int e;

	if (r == NULL)
		return percpu_error_say(-EINVAL, "the reader is NULL");
	if (r->live != NULL)
		return 0;
	r->why.text[0] = '\0';
	e = percpu_reader_check_name(r);
	if (e == 0)
		e = open_live(r, &live);
	if (e == 0) /* check again: both must be the file that the name leads to now */
		e = percpu_reader_check_name(r);
	if (e != 0) {
		percpu_segment_close(live);
		return percpu_reader_keep_error(r, e);
	}
	percpu_reader_unlist(r);
	r->valid = false;
	r->live = live;
	return 0;
}

static int take_snapshot(struct percpu_reader *r, struct percpu_picture_series *s)
{
	int e = 0;

	if (s->values == NULL)
		s->values = calloc(s->fields, sizeof(*s->values));
	if (s->live == NULL)
		e = percpu_stats_attach(r->live->region, s->key, s->fields * sizeof(uint64_t), 1, 0,
					&s->live);
	if (e == 0 && s->values == NULL)
		e = -ENOMEM;
	return e != 0 ? e : percpu_stats_snapshot(s->live, 0, 1, s->values);
}

void percpu_reader_snapshot(struct percpu_reader *r)
{
	for (size_t i = 0; i < r->n && r->live != NULL; i++) {
		if (r->entry[i].kind != PERCPU_METRIC_STATS)
			continue;
		r->entry[i].error =
			percpu_reader_is_late(r) ? -EAGAIN : take_snapshot(r, &r->entry[i]);
		r->flawed |= r->entry[i].error != 0;
	}
}

void percpu_reader_free_snapshot(struct percpu_picture_series *s)
{
	percpu_stats_detach(s->live);
	free(s->values);
	s->live = NULL;
	s->values = NULL;
}

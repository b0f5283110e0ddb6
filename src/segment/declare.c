/* SPDX-License-Identifier: MIT */
/*
 * declare.c - declaring metrics: the object of a record, and the handle that this process has of
 * it.
 */
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define DECLARE_TRIES 100 /* others use up what this process makes room with */

/* What is asked for beside the metric. */
struct parameters {
	const struct percpu_histogram_options *histogram;
	unsigned flags; /* of extrema, or the rule of an owned gauge */
};

/* Find or create the object at the anchor; ret is the address of a pointer to its type. */
static int open_object(struct percpu_segment *s, struct percpu_anchor *at, unsigned kind,
		       const struct parameters *p, void *ret)
{
	struct percpu_plan info = { .size = sizeof(uint64_t), .align = sizeof(uint64_t) };
	struct percpu_histogram_options h;
	struct percpu_owners *o = NULL;
	int e = 0;

	switch (kind) {
	case PERCPU_METRIC_COUNTER:
		return percpu_counter_open_at(s->region, at, ret);
	case PERCPU_METRIC_FCOUNTER:
		return percpu_fcounter_open_at(s->region, at, ret);
	case PERCPU_METRIC_GAUGE:
		return percpu_gauge_open_at(s->region, at, ret);
	case PERCPU_METRIC_FGAUGE:
		return percpu_fgauge_open_at(s->region, at, ret);
	case PERCPU_METRIC_LATEST:
		return percpu_latest_open_at(s->region, at, ret);
	case PERCPU_METRIC_HISTOGRAM:
		if (percpu_options_read(&h, sizeof(h), p->histogram) != 0 || h.n > 1)
			return -EINVAL;
		return percpu_histogram_open_at(s->region, at, &h, ret);
	case PERCPU_METRIC_EXTREMA:
		return percpu_extrema_open_at(s->region, at, p->flags, ret);
	case PERCPU_METRIC_INFO:
		return percpu_block_open_at(s->region, at, &info, ret);
	default:
		o = percpu_segment_owners(s, &e);
	}
	if (o == NULL)
		return e;
	return kind == PERCPU_METRIC_OWNED_GAUGE ?
		       percpu_owned_gauge_open_at(o, at, p->flags, ret) :
		       percpu_owned_fgauge_open_at(o, at, p->flags, ret);
}

/* The other kinds have no memory of this process. */
static void detach_object(unsigned kind, void *handle)
{
	if (kind == PERCPU_METRIC_HISTOGRAM)
		percpu_histogram_detach(handle);
	else if (kind == PERCPU_METRIC_EXTREMA)
		percpu_extrema_detach(handle);
	else if (kind == PERCPU_METRIC_OWNED_GAUGE)
		percpu_owned_gauge_detach(handle);
	else if (kind == PERCPU_METRIC_OWNED_FGAUGE)
		percpu_owned_fgauge_detach(handle);
}

void percpu_segment_detach_all(struct percpu_segment *s)
{
	for (size_t i = 0; i < s->series.size; i++)
		if (s->series.slot[i].handle != NULL)
			detach_object(s->series.slot[i].kind, s->series.slot[i].handle);
}

static const char *words_of(int e)
{
	switch (e) {
	case -ENOENT:
		return "it is not there, and the segment was opened to read";
	case -EEXIST:
		return "what it was created with differs from what was asked for";
	case -ENOSPC:
		return "the disk is full, or the segment is";
	case -ENOMEM:
		return "there is no memory";
	case -ETIMEDOUT:
		return "another process has held the segment's lock for too long";
	case -EBADMSG:
		return "the file is damaged";
	case -ENOTSUP:
		return "this process cannot have such a metric in a file";
	default:
		return "what it is to be created with is no such thing";
	}
}

/* Find the object, or create it, with its record. */
static int find_object(struct percpu_declaring *d, const struct parameters *p, void *ret)
{
	int e = -EAGAIN;

	for (int try = 0; e == -EAGAIN && try < DECLARE_TRIES; try++) {
		e = percpu_directory_look(d);
		if (e == -EEXIST)
			return e;
		if (e == 0)
			e = open_object(d->s, &d->at, d->asked->head.kind, p, ret);
		if (e == -ECANCELED)
			return -EEXIST;
		if (e == -EAGAIN) {
			e = percpu_directory_extend(d->s, d->needed);
			e = e != 0 ? e : -EAGAIN;
		}
	}
	if (e != 0)
		(void)percpu_reason_set(d->why, e, "%.*s: %s", d->asked->head.name,
					(const char *)d->asked->bytes, words_of(e));
	return e == -ENOENT ? -EROFS : e;
}

/* The first handle of a series is that of all. Returns 0, and the handle, or -errno. */
static int keep_handle(struct percpu_segment *s, const struct percpu_record_copy *c, void **handle)
{
	struct percpu_series *found;
	void *spare = NULL;
	int e = percpu_directory_refresh(s);

	percpu_process_lock();
	found = e == 0 ? percpu_series_find(s, c, false) : NULL;
	if (found == NULL) {
		e = e != 0 ? e : -EBADMSG;
	} else if (found->handle == NULL) {
		found->handle = *handle;
		found->kind = c->head.kind;
	} else {
		spare = *handle;
		*handle = found->handle;
	}
	percpu_process_unlock();
	if (e != 0)
		spare = *handle;
	/* Handles that have no memory may be the same ones. */
	if (spare != NULL)
		detach_object(c->head.kind, spare);
	return e;
}

/* ret is the address of a pointer to the object's type; NULL only for what has none. */
static int declare(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind,
		   struct parameters p, void *ret)
{
	struct percpu_record_copy *asked;
	struct percpu_reason why;
	struct percpu_declaring d;
	void *handle = NULL;
	int e;

	if (s == NULL || (ret == NULL && kind != PERCPU_METRIC_INFO))
		return -EINVAL;
	asked = malloc(sizeof(*asked));
	if (asked == NULL)
		return percpu_segment_complain(
			s, percpu_reason_set(&why, -ENOMEM, "no memory for a metric"), &why);
	e = percpu_metric_read(m, kind, asked, &why);
	if (e == 0) {
		d = (struct percpu_declaring){ .s = s, .asked = asked, .why = &why };
		e = find_object(&d, &p, &handle);
	}
	if (e == 0) {
		e = keep_handle(s, asked, &handle);
		if (e != 0)
			(void)percpu_reason_set(&why, e, "%.*s: %s", asked->head.name,
						(const char *)asked->bytes, words_of(e));
	}
	free(asked);
	if (e != 0)
		return percpu_segment_complain(s, e, &why);
	if (ret != NULL)
		memcpy(ret, &handle, sizeof(handle));
	return 0;
}

int percpu_segment_counter(struct percpu_segment *s, const struct percpu_metric *m,
			   struct percpu_counter **ret)
{
	return declare(s, m, PERCPU_METRIC_COUNTER, (struct parameters){ 0 }, ret);
}

int percpu_segment_fcounter(struct percpu_segment *s, const struct percpu_metric *m,
			    struct percpu_fcounter **ret)
{
	return declare(s, m, PERCPU_METRIC_FCOUNTER, (struct parameters){ 0 }, ret);
}

int percpu_segment_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			 struct percpu_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_GAUGE, (struct parameters){ 0 }, ret);
}

int percpu_segment_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_FGAUGE, (struct parameters){ 0 }, ret);
}

int percpu_segment_latest(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_latest **ret)
{
	return declare(s, m, PERCPU_METRIC_LATEST, (struct parameters){ 0 }, ret);
}

int percpu_segment_histogram(struct percpu_segment *s, const struct percpu_metric *m,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret)
{
	return declare(s, m, PERCPU_METRIC_HISTOGRAM, (struct parameters){ .histogram = o }, ret);
}

int percpu_segment_extrema(struct percpu_segment *s, const struct percpu_metric *m, unsigned flags,
			   struct percpu_extrema **ret)
{
	return declare(s, m, PERCPU_METRIC_EXTREMA, (struct parameters){ .flags = flags }, ret);
}

int percpu_segment_owned_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			       enum percpu_owned_rule rule, struct percpu_owned_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_GAUGE, (struct parameters){ .flags = rule }, ret);
}

int percpu_segment_owned_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
				enum percpu_owned_rule rule, struct percpu_owned_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_FGAUGE, (struct parameters){ .flags = rule }, ret);
}

int percpu_segment_info(struct percpu_segment *s, const struct percpu_metric *m)
{
	return declare(s, m, PERCPU_METRIC_INFO, (struct parameters){ 0 }, NULL);
}

int percpu_segment_declare(struct percpu_segment *s, const struct percpu_declaration *table,
			   size_t n)
{
	const size_t row = table != NULL ? table->size : 0;
	struct percpu_declaration d;
	int e = s != NULL && (table != NULL || n == 0) ? 0 : -EINVAL;

	for (size_t i = 0; e == 0 && i < n; i++) {
		e = percpu_options_read(&d, sizeof(d), (const char *)table + i * row);
		if (e == 0 && (d.kind < PERCPU_METRIC_COUNTER || d.kind > PERCPU_METRIC_INFO))
			e = -EINVAL;
		if (e == 0)
			e = declare(
				s, d.metric, d.kind,
				(struct parameters){ .histogram = d.histogram, .flags = d.flags },
				d.ret);
	}
	return e;
}

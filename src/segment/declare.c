/* SPDX-License-Identifier: MIT */
/*
 * declare.c - declaring metrics: finding or creating the object of a record, and keeping the one
 * handle that this process has of the object.
 */
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define DECLARE_TRIES 100 /* while other processes take the room that this process makes */

/* Find or create the object at the anchor; ret is the address of a pointer to its type. */
static int open_object(struct percpu_segment *s, struct percpu_anchor *at, unsigned kind,
		       const struct percpu_parameters *p, void *ret)
{
	struct percpu_plan info = { .size = sizeof(uint64_t), .align = sizeof(uint64_t) };
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
		return percpu_histogram_open_at(s->region, at, p->histogram, ret);
	case PERCPU_METRIC_EXTREMA:
		return percpu_extrema_open_at(s->region, at, p->flags, ret);
	case PERCPU_METRIC_STATS:
		return percpu_stats_open_at(s->region, at, p->fields->n * sizeof(uint64_t), 1,
					    p->flags, ret);
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

void percpu_segment_detach(unsigned kind, void *handle)
{
	if (kind == PERCPU_METRIC_HISTOGRAM)
		percpu_histogram_detach(handle);
	else if (kind == PERCPU_METRIC_STATS)
		percpu_stats_detach(handle);
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
			percpu_segment_detach(s->series.slot[i].kind, s->series.slot[i].handle);
	for (size_t i = 0; i < s->retired.n; i++)
		percpu_segment_detach(s->retired.at[i].kind, s->retired.at[i].handle);
}

static const char *words_of(int e)
{
	switch (e) {
	case -ENOENT:
		return "it is not there, and the segment was opened to read: start the program "
		       "that counts first";
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
		return "the file cannot be mapped, or locked";
	}
}

/* Enter the handle of the series. If the series has a handle already, detach the new one and return
 * the old one in *handle. Returns 0, or -errno: -EAGAIN if the record that was found may be another
 * series' by now. */
static int keep_handle(const struct percpu_declaring *d, void **handle)
{
	struct percpu_segment *s = d->s;
	struct percpu_series_slot *found;
	void *spare = *handle;
	int e = percpu_reuse_refresh(s);

	PERCPU_STEP("segment: to be kept");
	percpu_process_lock();
	if (e == 0 && (s->changes != d->changes || !percpu_directory_is_unchanged(s, d->changes)))
		e = -EAGAIN;
	found = e == 0 ? percpu_series_find(s, d->asked, false) : NULL;
	if (e == 0 && found == NULL && (d->changes & 1))
		e = -EAGAIN; /* its removal had begun when it was found */
	if (e == 0 &&
	    (found == NULL || (found->handle != NULL && found->kind != d->asked->head.kind)))
		e = -EBADMSG;
	if (e == 0 && found->handle == NULL) {
		found->handle = *handle;
		found->kind = d->asked->head.kind;
		found->removable = d->member && !percpu_record_is_overflow(d->asked);
		spare = NULL;
	} else if (e == 0) {
		*handle = found->handle;
	}
	percpu_process_unlock();
	/* If handles of this kind have no memory, both may be equal. Detaching does nothing
	 * then. */
	if (spare != NULL)
		percpu_segment_detach(d->asked->head.kind, spare);
	return e;
}

/* Find the object, or create it with its record. Returns 0 or -errno. If records have changed
 * meanwhile, an error in opening the object becomes -EAGAIN. */
static int try_to_find(struct percpu_declaring *d, const struct percpu_parameters *p, void **handle)
{
	const bool family = d->asked->head.state == PERCPU_RECORD_FAMILY;
	int e = percpu_directory_anchor(d);

	if (e != 0)
		return e == -EEXIST ? -ECANCELED : e;
	if (d->handle != NULL && d->known) {
		*handle = d->handle;
		return 0;
	}
	e = open_object(d->s, &d->at, family ? PERCPU_METRIC_INFO : d->asked->head.kind, p, handle);
	if (e == 0)
		return family ? 0 : keep_handle(d, handle);
	if (e == -EEXIST)
		e = percpu_parameters_compare(d, p);
	return d->differs || percpu_directory_is_unchanged(d->s, d->changes) ? e : -EAGAIN;
}

int percpu_segment_open_metric(struct percpu_declaring *d, const struct percpu_parameters *p,
			       void **handle)
{
	int e = -EAGAIN, missing;

	for (int try = 0; e == -EAGAIN && try < DECLARE_TRIES; try++) {
		e = try_to_find(d, p, handle);
		missing = e == -EAGAIN ? percpu_directory_make_room(d) : 0;
		e = missing != 0 ? missing : e;
	}
	if (e == -ECANCELED) /* *d->why is written already */
		return -EEXIST;
	if (e == -EAGAIN)
		e = -ETIMEDOUT;
	if (e != 0)
		(void)percpu_reason_set(d->why, e, "%.*s: %s", d->asked->head.name,
					(const char *)d->asked->bytes, words_of(e));
	return e == -ENOENT ? -EROFS : e;
}

/* Declare a metric. ret is the address of a pointer to the object's type; NULL for an info. Returns
 * 0, or -errno and why. */
static int declare_metric(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind,
			  struct percpu_parameters p, void *ret, struct percpu_reason *why)
{
	struct percpu_record_copy *asked;
	struct percpu_declaring d;
	void *handle = NULL;
	int e;

	if (s == NULL)
		return percpu_reason_set(why, -EINVAL, "the segment is NULL");
	asked = malloc(sizeof(*asked));
	if (asked == NULL)
		return percpu_reason_set(why, -ENOMEM, "no memory for a metric");
	e = percpu_metric_read(m, p.fields, kind, asked, why);
	if (e == 0 && m != NULL)
		e = percpu_parameters_check(m->name, kind, &p, why);
	if (e == 0 && m != NULL && (ret == NULL) != (kind == PERCPU_METRIC_INFO))
		e = percpu_reason_set(why, -EINVAL, "%s: %s", m->name,
				      ret == NULL ? "there is no place for the handle" :
						    "an info has no handle");
	if (e == 0) {
		d = (struct percpu_declaring){ .s = s, .asked = asked, .why = why };
		e = percpu_segment_open_metric(&d, &p, &handle);
	}
	free(asked);
	if (e == 0 && ret != NULL)
		memcpy(ret, &handle, sizeof(handle));
	return e;
}

/* Declare a metric, and keep why that failed. */
static int declare(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind,
		   struct percpu_parameters p, void *ret)
{
	struct percpu_reason why;
	int e = declare_metric(s, m, kind, p, ret, &why);

	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

int percpu_segment_counter(struct percpu_segment *s, const struct percpu_metric *m,
			   struct percpu_counter **ret)
{
	return declare(s, m, PERCPU_METRIC_COUNTER, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_fcounter(struct percpu_segment *s, const struct percpu_metric *m,
			    struct percpu_fcounter **ret)
{
	return declare(s, m, PERCPU_METRIC_FCOUNTER, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			 struct percpu_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_GAUGE, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_FGAUGE, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_latest(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_latest **ret)
{
	return declare(s, m, PERCPU_METRIC_LATEST, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_histogram(struct percpu_segment *s, const struct percpu_metric *m,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret)
{
	return declare(s, m, PERCPU_METRIC_HISTOGRAM, (struct percpu_parameters){ .histogram = o },
		       ret);
}

int percpu_segment_extrema(struct percpu_segment *s, const struct percpu_metric *m, unsigned flags,
			   struct percpu_extrema **ret)
{
	return declare(s, m, PERCPU_METRIC_EXTREMA, (struct percpu_parameters){ .flags = flags },
		       ret);
}

int percpu_segment_owned_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			       enum percpu_owned_rule rule, struct percpu_owned_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_GAUGE, (struct percpu_parameters){ .flags = rule },
		       ret);
}

int percpu_segment_owned_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
				enum percpu_owned_rule rule, struct percpu_owned_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_FGAUGE,
		       (struct percpu_parameters){ .flags = rule }, ret);
}

int percpu_segment_stats(struct percpu_segment *s, const struct percpu_metric *m,
			 const struct percpu_metric_fields *f, unsigned flags,
			 struct percpu_stats **ret)
{
	return declare(s, m, PERCPU_METRIC_STATS,
		       (struct percpu_parameters){ .fields = f, .flags = flags }, ret);
}

int percpu_segment_info(struct percpu_segment *s, const struct percpu_metric *m)
{
	return declare(s, m, PERCPU_METRIC_INFO, (struct percpu_parameters){ 0 }, NULL);
}

/* Declare the metric of a row. Returns 0, or -errno and why. */
static int declare_row(struct percpu_segment *s, const void *row, struct percpu_reason *why)
{
	struct percpu_declaration d;

	if (percpu_struct_read(&d, sizeof(d), row) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "a struct percpu_declaration has another size, or fields "
					 "that are not known");
	if (d.kind < PERCPU_METRIC_COUNTER || d.kind > PERCPU_METRIC_STATS)
		return percpu_reason_set(why, -EINVAL, "%u is no kind of a metric",
					 (unsigned)d.kind);
	return declare_metric(s, d.metric, d.kind,
			      (struct percpu_parameters){ .histogram = d.histogram,
							  .fields = d.fields,
							  .flags = d.flags },
			      d.ret, why);
}

/* All rows have the size that the first row says. */
int percpu_segment_declare(struct percpu_segment *s, const struct percpu_declaration *table,
			   size_t n)
{
	struct percpu_reason why, told;
	int e = 0;

	if (s == NULL || (table == NULL && n != 0))
		return percpu_error_say(-EINVAL,
					s == NULL ? "the segment is NULL" : "the table is NULL");
	for (size_t i = 0; e == 0 && i < n; i++) {
		e = declare_row(s, (const char *)table + i * table->size, &why);
		if (e != 0) {
			(void)percpu_reason_set(&told, e, "row %zu: %s", i, why.text);
			(void)percpu_error_keep(e, &told);
		}
	}
	return e;
}

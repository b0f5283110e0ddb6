/* SPDX-License-Identifier: MIT */
/*
 * reader_value.c - the values of a picture. Each object of the image is read by its own calls.
 */
#include <string.h>

#include "reader.h"

size_t percpu_reader_count(const struct percpu_reader *r)
{
	return r != NULL && r->valid ? r->n : 0;
}

/* Return series i, or NULL if there is none or it is of another kind. Kind 0 is any kind. */
static const struct percpu_picture_series *entry_of(const struct percpu_reader *r, size_t i,
						    unsigned kind)
{
	const struct percpu_picture_series *s = i < percpu_reader_count(r) ? &r->entry[i] : NULL;

	return s != NULL && (kind == 0 || s->kind == kind) ? s : NULL;
}

/* Times that differ by less mean the same: two clocks are asked one after the other. */
#define NEAR_NS 10000000

/* Return the time of a moment by CLOCK_REALTIME, as that clock was set when the picture was
 * taken. If it was not set since that moment, all readers return the same. */
static uint64_t real_time(const struct percpu_reader *r, const struct percpu_segment_time *then)
{
	const uint64_t age = percpu_segment_age(then, &r->taken);
	const uint64_t real = age < r->taken.real ? r->taken.real - age : 0; /* set far back */
	const uint64_t distance = real > then->real ? real - then->real : then->real - real;

	return distance < NEAR_NS && then->real <= r->taken.real ? then->real : real;
}

/* Return when the counts of a series began: when it was declared, or when the generation began,
 * whichever is later. */
static uint64_t since_of(const struct percpu_reader *r, const struct percpu_picture_series *s)
{
	const uint64_t declared = real_time(r, &s->declared), began = real_time(r, &r->began);

	return declared > began ? declared : began;
}

int percpu_reader_info(const struct percpu_reader *r, struct percpu_reader_info *ret)
{
	if (r == NULL || ret == NULL || !r->valid)
		return -EINVAL;
	*ret = (struct percpu_reader_info){
		.generation = r->state.generation,
		.since = real_time(r, &r->began),
		.read = r->taken.real,
		.cpus = r->cpus,
		.consistent = r->live != NULL,
		.pending = r->pending,
		.missing = r->missing,
	};
	memcpy(ret->program, r->s->control->program, PERCPU_SEGMENT_PROGRAM);
	percpu_text_make_printable(ret->program);
	return 0;
}

/* Return the flags of extrema, or the rule of an owned gauge and its flags; 0 for other kinds. */
static uint32_t flags_of(const struct percpu_picture_series *s)
{
	const struct percpu_kind_row *kind = percpu_kind_of(s->kind);

	return kind->read_flags != NULL ? kind->read_flags(s->object) : 0;
}

int percpu_reader_series(const struct percpu_reader *r, size_t i, struct percpu_reader_series *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	if (s == NULL || ret == NULL)
		return -EINVAL;
	*ret = (struct percpu_reader_series){
		.name = s->name,
		.help = s->help,
		.unit = s->unit,
		.label_names = s->label,
		.label_values = s->value,
		.field = s->fields != 0 ? s->label[s->labels] : "",
		.fields = s->value + s->labels,
		.labels = s->labels,
		.n = s->fields != 0 ? s->fields : 1,
		.kind = s->kind,
		.flags = flags_of(s),
		.cap = s->family != NULL ? s->family->cap : 0,
		.removed = s->family != NULL ? s->family->removed : 0,
		.overflows = s->family != NULL ? s->family->overflows : 0,
		.invalid = s->family != NULL ? s->family->invalid : 0,
		.since = since_of(r, s),
	};
	return 0;
}

int percpu_reader_counter(const struct percpu_reader *r, size_t i, uint64_t *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, PERCPU_METRIC_COUNTER);

	if (s == NULL || ret == NULL)
		return -EINVAL;
	if (s->error == 0)
		*ret = percpu_counter_fetch(s->object);
	return s->error;
}

int percpu_reader_gauge(const struct percpu_reader *r, size_t i, int64_t *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	if (s == NULL || ret == NULL)
		return -EINVAL;
	if (s->kind == PERCPU_METRIC_OWNED_GAUGE)
		return percpu_owned_gauge_fetch(s->object, percpu_owned_shown_of(s->object), ret);
	if (s->kind != PERCPU_METRIC_GAUGE)
		return -EINVAL;
	if (s->error == 0)
		*ret = percpu_gauge_fetch(s->object);
	return s->error;
}

static int latest_of(const struct percpu_picture_series *s, double *ret, uint64_t *ret_when)
{
	return s->error != 0 ? s->error : percpu_latest_fetch(s->object, ret, ret_when);
}

int percpu_reader_number(const struct percpu_reader *r, size_t i, double *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	if (s == NULL || ret == NULL || percpu_kind_of(s->kind)->read_number == NULL)
		return -EINVAL;
	return s->error != 0 ? s->error : percpu_kind_of(s->kind)->read_number(s->object, ret);
}

int percpu_reader_owned_fetch(const struct percpu_reader *r, size_t i, enum percpu_owned_of of,
			      double *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);
	int64_t level;
	int e;

	if (s != NULL && ret != NULL && s->kind == PERCPU_METRIC_OWNED_FGAUGE)
		return percpu_owned_fgauge_fetch(s->object, of, ret);
	if (s == NULL || ret == NULL || s->kind != PERCPU_METRIC_OWNED_GAUGE)
		return -EINVAL;
	e = percpu_owned_gauge_fetch(s->object, of, &level);
	if (e == 0)
		*ret = (double)level;
	return e;
}

int percpu_reader_when(const struct percpu_reader *r, size_t i, uint64_t *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, PERCPU_METRIC_LATEST);

	return s != NULL && ret != NULL ? latest_of(s, NULL, ret) : -EINVAL;
}

int percpu_reader_histogram(const struct percpu_reader *r, size_t i,
			    struct percpu_histogram_snapshot **ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, PERCPU_METRIC_HISTOGRAM);
	struct percpu_histogram_snapshot *snapshot;
	int e;

	if (s == NULL || ret == NULL)
		return -EINVAL;
	e = s->error != 0 ? s->error : percpu_histogram_snapshot_create(s->object, &snapshot);
	if (e != 0)
		return e;
	e = percpu_histogram_fetch(s->object, 0, snapshot);
	if (e == 0)
		*ret = snapshot;
	else
		percpu_histogram_snapshot_destroy(snapshot);
	return e;
}

int percpu_reader_exemplar(const struct percpu_reader *r, size_t i, size_t k,
			   struct percpu_exemplar *ret)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	return s != NULL ? percpu_exemplars_fetch(s->exemplars, k, ret) : -EINVAL;
}

int percpu_reader_extrema(const struct percpu_reader *r, size_t i, double *ret_min, double *ret_max)
{
	const struct percpu_picture_series *s = entry_of(r, i, PERCPU_METRIC_EXTREMA);
	int64_t min, max;
	int e;

	if (s == NULL || ret_min == NULL || ret_max == NULL)
		return -EINVAL;
	if (s->error != 0)
		return s->error;
	if (percpu_extrema_is_double(s->object))
		return percpu_extrema_fetch_double(s->object, ret_min, ret_max);
	e = percpu_extrema_fetch(s->object, &min, &max);
	if (e == 0) {
		*ret_min = (double)min;
		*ret_max = (double)max;
	}
	return e;
}

int percpu_reader_stats(const struct percpu_reader *r, size_t i, uint64_t *out, size_t n)
{
	const struct percpu_picture_series *s = entry_of(r, i, PERCPU_METRIC_STATS);

	if (s == NULL || out == NULL || n != s->fields)
		return -EINVAL;
	if (s->error == 0 && r->live == NULL)
		return percpu_stats_fetch(s->object, 0, 1, out);
	if (s->error == 0)
		memcpy(out, s->values, n * sizeof(*out));
	return s->error;
}

int percpu_reader_owned_each(const struct percpu_reader *r, size_t i,
			     struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	if (s != NULL && s->kind == PERCPU_METRIC_OWNED_GAUGE)
		return percpu_owned_gauge_each(s->object, PERCPU_OWNED_ALL, out, n, ret_n);
	if (s != NULL && s->kind == PERCPU_METRIC_OWNED_FGAUGE)
		return percpu_owned_fgauge_each(s->object, PERCPU_OWNED_ALL, out, n, ret_n);
	return -EINVAL;
}

size_t percpu_reader_owners(const struct percpu_reader *r, struct percpu_owner_info *out, size_t n)
{
	struct percpu_owners *o = NULL;
	int e;

	if (r != NULL && r->valid && (out != NULL || n == 0))
		o = percpu_segment_owners(r->s, &e);
	return o != NULL ? percpu_owners_list(o, out, n) : 0;
}

/* Read what each of n CPUs has counted. Returns 0 or -errno, and why. */
static int read_each_cpu(struct percpu_reader *r, const struct percpu_picture_series *s,
			 double *out, size_t n)
{
	uint64_t word;
	int e = percpu_reader_use(r);

	for (uint32_t cpu = 0; cpu < n && e == 0; cpu++) {
		e = percpu_reader_pread(r, &word, sizeof(word),
					percpu_reader_file_offset(r, s->cells.part.chunk, cpu,
								  s->cells.part.offset));
		if (e != 0)
			break;
		if (s->cells.part.gather == PERCPU_GATHER_DOUBLES)
			memcpy(&out[cpu], &word, sizeof(word));
		else
			out[cpu] = s->kind == PERCPU_METRIC_COUNTER ? (double)word :
								      (double)(int64_t)word;
	}
	return e != 0 ? e : percpu_reader_use(r); /* a thread may have closed it meanwhile */
}

/* Return why series i cannot be read for n CPUs, or NULL if it can be. */
static const char *refusal_of_cpus(const struct percpu_reader *r, size_t i, const double *out,
				   size_t n)
{
	const struct percpu_picture_series *s = entry_of(r, i, 0);

	if (r == NULL)
		return PERCPU_NO_READER;
	if (out == NULL)
		return "there is no place for what each CPU has";
	if (!r->valid)
		return "the reader has no picture";
	if (s == NULL)
		return "the picture has no series of that number";
	if (s->cells.part.bytes == 0 || s->cells.part.gather > PERCPU_GATHER_DOUBLES ||
	    s->fields != 0)
		return "the series is no counter or gauge";
	return n > r->cpus ? "the segment has lanes for fewer CPUs" : NULL;
}

int percpu_reader_cpus(struct percpu_reader *r, size_t i, double *out, size_t n)
{
	const char *refusal = refusal_of_cpus(r, i, out, n);
	const struct percpu_picture_series *s = entry_of(r, i, 0);
	struct percpu_draft d;
	int e, cancel;

	if (refusal != NULL)
		return percpu_error_say(-EINVAL, refusal);
	e = percpu_draft_begin(&d, n * sizeof(*out));
	if (e != 0)
		return percpu_error_say(e, "there is no memory for what each CPU has");
	r->why.text[0] = '\0';
	cancel = percpu_defer_cancel();
	e = read_each_cpu(r, s, (double *)d.words, n);
	percpu_draft_end(&d, out, d.size, e);
	percpu_restore_cancel(cancel);
	return e != 0 ? percpu_reader_keep_error(r, e) : 0;
}

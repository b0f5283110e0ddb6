/* SPDX-License-Identifier: MIT */
/*
 * family.c - families: series that are found or created when their values are first seen.
 */
#include <stdlib.h>
#include <string.h>

#include <percpu/family.h>

#include "segment.h"

struct percpu_family {
	struct percpu_family *next; /* in the segment's list; the process lock protects it */
	struct percpu_segment *s;
	struct percpu_segment_record *record; /* in the file */
	struct percpu_record_copy asked;
	struct percpu_histogram_options histogram;
	struct percpu_parameters parameters;
	void *overflow; /* the handle of the overflow */
};

static const char *const overflow_values[PERCPU_METRIC_LABELS] = {
	PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW,
	PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW,
	PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW,
	PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW,
	PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW,
	PERCPU_FAMILY_OVERFLOW,
};

static int check_declaration(const struct percpu_declaration *d, const struct percpu_metric *m,
			     size_t cap, struct percpu_reason *why)
{
	const char *const name = m->name != NULL ? m->name : "a family";

	if (d->ret != NULL || d->kind < PERCPU_METRIC_COUNTER ||
	    d->kind > PERCPU_METRIC_OWNED_FGAUGE)
		return percpu_reason_set(
			why, -EINVAL,
			"%.255s: a family is of single values, of no info and no statistics, and "
			"its row has no place for a handle",
			name);
	if (cap == 0 || cap > PERCPU_FAMILY_CAP)
		return percpu_reason_set(why, -EINVAL, "a family of %zu series: 1 to %d", cap,
					 PERCPU_FAMILY_CAP);
	if (m->label_values != NULL)
		return percpu_reason_set(why, -EINVAL,
					 "a family has names of labels, and no values");
	if (m->labels == 0)
		return percpu_reason_set(why, -EINVAL,
					 "%.255s: a family has labels, and .labels is 0", name);
	return 0;
}

/* Make the record of the family, and keep the parameters that its series are created with. */
static int read_family(struct percpu_family *f, const struct percpu_declaration *told, size_t cap,
		       struct percpu_reason *why)
{
	struct percpu_declaration d;
	struct percpu_metric m;
	int e;

	if (percpu_struct_read(&d, sizeof(d), told) != 0 ||
	    percpu_struct_read(&m, sizeof(m), d.metric) != 0 ||
	    percpu_options_read(&f->histogram, sizeof(f->histogram), d.histogram) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "a struct of another size, or a family without a metric");
	e = check_declaration(&d, &m, cap, why);
	if (e != 0)
		return e;
	m.label_values = overflow_values;
	f->parameters =
		(struct percpu_parameters){ .histogram = d.histogram != NULL ? &f->histogram : NULL,
					    .fields = d.fields, /* must be NULL */
					    .flags = d.flags };
	e = percpu_metric_read(&m, NULL, d.kind, &f->asked, why);
	if (e == 0)
		e = percpu_parameters_check(m.name, d.kind, &f->parameters, why);
	if (e == 0)
		percpu_record_make_family(&f->asked, cap);
	return e;
}

/* Make the record of the series with these values. The caller frees it. The values are checked
 * first: without memory a call gets the overflow, which is not for values that no label has. */
static int make_series(const struct percpu_family *f, const char *const *values,
		       struct percpu_record_copy **ret, struct percpu_reason *why)
{
	int e = percpu_record_check_values(&f->asked, values, why);

	if (e != 0)
		return e;
	*ret = malloc(sizeof(**ret));
	if (*ret == NULL)
		return percpu_reason_set(why, -ENOMEM, "no memory for a series");
	percpu_record_make_series(&f->asked, values, *ret);
	return 0;
}

/* Find or create a series. With known set, return at once a handle that this process already
 * has. */
static int find_series(struct percpu_family *f, const char *const *values, bool known,
		       void **handle, struct percpu_reason *why)
{
	struct percpu_declaring d = { .s = f->s, .member = true, .known = known, .why = why };
	int e = make_series(f, values, &d.asked, why);

	if (e == 0)
		e = percpu_segment_open_metric(&d, &f->parameters, handle);
	free(d.asked);
	return e;
}

/* Find or create the record of the family, and the overflow. Hold an epoch before the process has a
 * handle. */
static int open_family(struct percpu_family *f, struct percpu_reason *why)
{
	const struct percpu_parameters none = { .flags = 0 };
	struct percpu_declaring d = { .s = f->s, .asked = &f->asked, .why = why };
	void *unused;
	int e = percpu_epoch_hold(f->s);

	if (e != 0)
		return percpu_epoch_complain((const char *)f->asked.bytes, f->asked.head.name, e,
					     why);
	e = percpu_segment_open_metric(&d, &none, &unused);
	if (e != 0)
		return e;
	f->record = percpu_directory_at(f->s, d.where);
	PERCPU_STEP("family: declared");
	return find_series(f, overflow_values, false, &f->overflow, why);
}

/* Return the segment's family with the same record as f. If there is none, enter f and return
 * it. */
static struct percpu_family *enter_family(struct percpu_segment *s, struct percpu_family *f)
{
	struct percpu_family *there;

	PERCPU_STEP("family: to be entered");
	percpu_process_lock();
	for (there = s->resolved; there != NULL && there->record != f->record; there = there->next)
		;
	if (there == NULL) {
		f->next = s->resolved;
		s->resolved = f;
	}
	percpu_process_unlock();
	return there != NULL ? there : f;
}

int percpu_segment_family(struct percpu_segment *s, const struct percpu_declaration *d, size_t cap,
			  struct percpu_family **ret)
{
	struct percpu_family *f, *is;
	struct percpu_reason why;
	int e;

	if (s == NULL || d == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, s == NULL ? "the segment is NULL" :
						 d == NULL ? "the family's declaration is NULL" :
							     "there is no place for the family");
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return percpu_error_say(-ENOMEM, "no memory for a family");
	f->s = s;
	e = read_family(f, d, cap, &why);
	if (e == 0)
		e = open_family(f, &why);
	if (e != 0) {
		free(f);
		return percpu_error_keep(e, &why);
	}
	is = enter_family(s, f);
	if (is != f)
		free(f);
	*ret = is;
	return 0;
}

void percpu_segment_drop_families(struct percpu_segment *s)
{
	struct percpu_family *f = s->resolved, *next;

	for (; f != NULL; f = next) {
		next = f->next;
		free(f);
	}
}

/* Return whether a resolve that failed with e gets the overflow instead. */
static bool overflows(const struct percpu_family *f, int e)
{
	return f->s->region->writable && (e == -ENOSPC || e == -ENOMEM || e == -ETIMEDOUT);
}

/* Find or create a series. ret is the address of a pointer to the type of that kind. */
static int resolve(struct percpu_family *f, unsigned kind, const char *const *values, void *ret)
{
	struct percpu_reason why;
	void *handle = NULL;
	int e;

	if (f == NULL || values == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, f == NULL ? "the family is NULL" :
						 values == NULL ?
							     "the values of labels are NULL" :
							     "there is no place for the handle");
	e = f->asked.head.kind == kind ?
		    find_series(f, values, true, &handle, &why) :
		    percpu_reason_set(&why, -EINVAL, "%.*s: is a family of another kind",
				      f->asked.head.name, (const char *)f->asked.bytes);
	if (e == -EEXIST)
		e = percpu_reason_set(&why, -EBADMSG,
				      "%.*s: the file is damaged: the family is another one there",
				      f->asked.head.name, (const char *)f->asked.bytes);
	if (overflows(f, e)) {
		__atomic_fetch_add(&f->record->overflows, 1, __ATOMIC_RELAXED);
		handle = f->overflow;
		e = 0;
	}
	if (e != 0)
		return percpu_error_keep(e, &why);
	memcpy(ret, &handle, sizeof(handle));
	return 0;
}

int percpu_family_counter(struct percpu_family *f, const char *const *values,
			  struct percpu_counter **ret)
{
	return resolve(f, PERCPU_METRIC_COUNTER, values, ret);
}

int percpu_family_fcounter(struct percpu_family *f, const char *const *values,
			   struct percpu_fcounter **ret)
{
	return resolve(f, PERCPU_METRIC_FCOUNTER, values, ret);
}

int percpu_family_gauge(struct percpu_family *f, const char *const *values,
			struct percpu_gauge **ret)
{
	return resolve(f, PERCPU_METRIC_GAUGE, values, ret);
}

int percpu_family_fgauge(struct percpu_family *f, const char *const *values,
			 struct percpu_fgauge **ret)
{
	return resolve(f, PERCPU_METRIC_FGAUGE, values, ret);
}

int percpu_family_latest(struct percpu_family *f, const char *const *values,
			 struct percpu_latest **ret)
{
	return resolve(f, PERCPU_METRIC_LATEST, values, ret);
}

int percpu_family_histogram(struct percpu_family *f, const char *const *values,
			    struct percpu_histogram **ret)
{
	return resolve(f, PERCPU_METRIC_HISTOGRAM, values, ret);
}

int percpu_family_extrema(struct percpu_family *f, const char *const *values,
			  struct percpu_extrema **ret)
{
	return resolve(f, PERCPU_METRIC_EXTREMA, values, ret);
}

int percpu_family_owned_gauge(struct percpu_family *f, const char *const *values,
			      struct percpu_owned_gauge **ret)
{
	return resolve(f, PERCPU_METRIC_OWNED_GAUGE, values, ret);
}

int percpu_family_owned_fgauge(struct percpu_family *f, const char *const *values,
			       struct percpu_owned_fgauge **ret)
{
	return resolve(f, PERCPU_METRIC_OWNED_FGAUGE, values, ret);
}

uint64_t percpu_family_overflows(const struct percpu_family *f)
{
	return f != NULL ? __atomic_load_n(&f->record->overflows, __ATOMIC_RELAXED) : 0;
}

uint64_t percpu_segment_removals(const struct percpu_segment *s)
{
	return s != NULL ? __atomic_load_n(&s->control->removals, __ATOMIC_ACQUIRE) : 0;
}

static int remove_series(struct percpu_family *f, const struct percpu_record_copy *c,
			 struct percpu_reason *why)
{
	const char *const name = (const char *)f->asked.bytes;
	int e;

	if (percpu_record_is_overflow(c))
		return percpu_reason_set(why, -EINVAL, "%.*s: the overflow stays",
					 f->asked.head.name, name);
	e = f->s->region->writable ? percpu_reuse_remove(f->s, c) : -EROFS;
	if (e != 0)
		(void)percpu_reason_set(why, e, "%.*s: %s", f->asked.head.name, name,
					e == -ENOENT ? "there is no such series" :
					e == -EROFS  ? "the segment was opened to read" :
						       "the series cannot be removed");
	return e;
}

int percpu_family_remove(struct percpu_family *f, const char *const *values)
{
	struct percpu_record_copy *c = NULL;
	struct percpu_reason why;
	int e;

	if (f == NULL || values == NULL)
		return percpu_error_say(-EINVAL, f == NULL ? "the family is NULL" :
							     "the values of labels are NULL");
	e = make_series(f, values, &c, &why);
	if (e == 0)
		e = remove_series(f, c, &why);
	free(c);
	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

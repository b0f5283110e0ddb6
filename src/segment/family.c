/* SPDX-License-Identifier: MIT */
/*
 * family.c - families: series that are found or created when their values are first seen.
 */
#include <stdlib.h>
#include <string.h>

#include <percpu/calls.h>
#include <percpu/family.h>

#include "family.h"

static int check_declaration(const struct percpu_declaration *d, struct percpu_reason *why)
{
	const char *const name = d->name != NULL ? d->name : "a family";

	if (percpu_kind_of(d->kind) == NULL || !percpu_kind_of(d->kind)->in_families)
		return percpu_reason_set(why, -EINVAL,
					 "%.255s: a family is of single values, of no info and no "
					 "statistics",
					 name);
	if (d->cap == 0 || d->cap > PERCPU_FAMILY_CAP)
		return percpu_reason_set(why, -EINVAL, "%.255s: a family of %zu series: 1 to %d",
					 name, d->cap, PERCPU_FAMILY_CAP);
	if (d->label_values != NULL)
		return percpu_reason_set(
			why, -EINVAL, "%.255s: a family has names of labels, and no values", name);
	if (d->labels == 0)
		return percpu_reason_set(why, -EINVAL,
					 "%.255s: a family has labels, and .labels is 0", name);
	return 0;
}

static void free_family(struct percpu_family *f)
{
	percpu_family_table_free(&f->series);
	percpu_family_table_free(&f->exemplars);
	free(f->bounds);
	free(f);
}

/* Make the record of the family, and keep the parameters that its series are created with. */
static int read_family(struct percpu_family *f, const struct percpu_declaration *d,
		       struct percpu_reason *why)
{
	const char *overflow[PERCPU_METRIC_LABELS];
	struct percpu_metric m = percpu_declared_metric(d);
	int e = check_declaration(d, why);

	if (e != 0)
		return e;
	if (percpu_options_read(&f->histogram, sizeof(f->histogram), d->histogram) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "%.255s: its options have another size, or fields that "
					 "are not known",
					 d->name != NULL ? d->name : "a family");
	for (size_t i = 0; i < PERCPU_METRIC_LABELS; i++)
		overflow[i] = PERCPU_FAMILY_OVERFLOW;
	m.label_values = overflow;
	f->parameters = (struct percpu_parameters){
		.histogram = d->histogram != NULL ? &f->histogram : NULL,
		.fields = d->fields, /* must be NULL */
		.flags = d->flags,
	};
	e = percpu_metric_read(&m, NULL, d->kind, &f->asked, why);
	if (e == 0)
		e = percpu_parameters_check(m.name, &f->asked, &f->parameters, why);
	if (e == 0)
		e = percpu_bounds_keep(&f->histogram, &f->bounds, why);
	if (e == 0)
		percpu_record_make_family(&f->asked, d->cap);
	return e;
}

/* The values are checked first: without memory a call gets the overflow, which is not for values
 * that no label has. */
int percpu_family_make_series(const struct percpu_family *f, const struct percpu_text *values,
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

/* Find or create a series, and the place of its record. Returns 0, or -errno and why. */
static int find_series(struct percpu_family *f, const struct percpu_text *values, void **handle,
		       uint64_t *at, struct percpu_reason *why)
{
	struct percpu_asked m = { .parameters = &f->parameters, .member = true };
	int e = percpu_family_make_series(f, values, &m.record, why);

	if (e == 0)
		e = percpu_segment_open_metric(f->s, &m, handle, at, why);
	free(m.record);
	return e;
}

/* Find or create the record of the family, and the overflow. Be present before the process has a
 * handle. */
static int open_family(struct percpu_family *f, struct percpu_reason *why)
{
	const struct percpu_parameters none = { .flags = 0 };
	const struct percpu_asked m = { .record = &f->asked, .parameters = &none };
	struct percpu_family_values overflow;
	uint64_t at;
	void *unused;
	int e = percpu_presence_hold(f->s);

	if (e != 0)
		return percpu_presence_complain((const char *)f->asked.bytes, f->asked.head.name, e,
						why);
	e = percpu_segment_open_metric(f->s, &m, &unused, &at, why);
	if (e != 0)
		return e;
	f->record = percpu_directory_at(f->s, at);
	PERCPU_STEP("family: declared");
	for (size_t i = 0; i < f->asked.head.labels; i++)
		overflow.of[i] = (struct percpu_text){ PERCPU_FAMILY_OVERFLOW,
						       sizeof(PERCPU_FAMILY_OVERFLOW) - 1 };
	return find_series(f, overflow.of, &f->overflow, &f->overflow_at, why);
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

int percpu_segment_declare_family(struct percpu_segment *s, const struct percpu_declaration *d,
				  struct percpu_family **ret, struct percpu_reason *why)
{
	struct percpu_family *f, *is;
	int e;

	if (ret == NULL)
		return percpu_reason_set(why, -EINVAL, "there is no place for the family");
	f = calloc(1, sizeof(*f));
	if (f == NULL)
		return percpu_reason_set(why, -ENOMEM, "no memory for a family");
	f->s = s;
	e = read_family(f, d, why);
	if (e == 0)
		e = open_family(f, why);
	if (e != 0) {
		free_family(f);
		return e;
	}
	is = enter_family(s, f);
	if (is != f)
		free_family(f);
	*ret = is;
	return 0;
}

int percpu_segment_family(struct percpu_segment *s, const struct percpu_declaration *d,
			  struct percpu_family **ret)
{
	struct percpu_declaration known;
	struct percpu_reason why;
	int e;

	if (s == NULL || d == NULL)
		return percpu_error_say(-EINVAL, s == NULL ? "the segment is NULL" :
							     "the family's declaration is NULL");
	e = percpu_struct_read(&known, sizeof(known), d);
	if (e != 0)
		return percpu_error_say(-EINVAL, "a struct percpu_declaration has another size, or "
						 "fields that are not known");
	e = percpu_segment_declare_family(s, &known, ret, &why);
	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

void percpu_segment_drop_families(struct percpu_segment *s)
{
	struct percpu_family *f = s->resolved, *next;

	for (; f != NULL; f = next) {
		next = f->next;
		free_family(f);
	}
}

/* Return whether the values cannot be labels. */
static bool is_invalid(int e)
{
	return e == -EILSEQ || e == -ENAMETOOLONG;
}

/* Return whether a call that failed with e gets the overflow instead. */
static bool overflows(int e)
{
	return is_invalid(e) || e == -ENOSPC || e == -ENOMEM || e == -ETIMEDOUT || e == -EBADF ||
	       e == -ENOLCK;
}

/* Get the overflow, because of e, and keep why. */
static void *get_overflow(struct percpu_family *f, int e, const struct percpu_reason *why)
{
	uint64_t *const times = is_invalid(e) ? &f->record->invalid : &f->record->overflows;

	__atomic_fetch_add(times, 1, __ATOMIC_RELAXED);
	percpu_series_show(f->s, f->overflow_at);
	(void)percpu_error_keep(e, why);
	return f->overflow;
}

/* Find or create a series that was not looked up. Returns 0 or -errno, which is kept. */
static int resolve_slowly(struct percpu_family *f, const struct percpu_family_key *key,
			  void **handle)
{
	struct percpu_reason why;
	uint64_t at;
	void *there;
	int e = find_series(f, key->values, &there, &at, &why);

	if (e == 0 && there == f->overflow) {
		percpu_series_show(f->s, at);
	} else if (e == 0) {
		percpu_family_table_enter(&f->series, key, there,
					  &percpu_directory_at(f->s, at)->state);
	} else if (overflows(e)) {
		there = get_overflow(f, e, &why);
	} else {
		if (e == -EEXIST)
			e = percpu_reason_set(
				&why, -EBADMSG,
				"%.*s: the file is damaged: the family is another one there",
				f->asked.head.name, (const char *)f->asked.bytes);
		return percpu_error_keep(e, &why);
	}
	*handle = there;
	return 0;
}

/* Write the value of which label is NULL. Returns -EINVAL. */
static int complain_of_null(const struct percpu_family *f, const struct percpu_text *values,
			    struct percpu_reason *why)
{
	struct percpu_family_values given;

	for (size_t i = 0; i < f->asked.head.labels; i++)
		given.of[i] = (struct percpu_text){ values[i].at, 0 };
	return percpu_record_check_values(&f->asked, given.of, why);
}

int percpu_family_find(struct percpu_family *f, const struct percpu_text *values, void **handle)
{
	struct percpu_reason why;
	struct percpu_family_key key;
	void *there;

	if (!percpu_family_key_make(values, f->asked.head.labels, &f->s->key, &key))
		return percpu_error_keep(complain_of_null(f, values, &why), &why);
	there = percpu_family_table_find(&f->series, &key);
	if (there == NULL)
		return resolve_slowly(f, &key, handle);
	*handle = there;
	return 0;
}

void percpu_family_measure(const struct percpu_family *f, const char *const *values,
			   struct percpu_family_values *ret)
{
	for (size_t i = 0; i < f->asked.head.labels; i++)
		ret->of[i] = (struct percpu_text){ values[i],
						   values[i] != NULL ? strlen(values[i]) : 0 };
}

/* Check the arguments of a look-up. Returns 0 or -errno, which is kept. */
static int check_call(const struct percpu_family *f, unsigned kind, const void *values,
		      const void *ret)
{
	struct percpu_reason why;

	if (f == NULL || values == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, f == NULL ? "the family is NULL" :
						 values == NULL ?
							     "the values of labels are NULL" :
							     "there is no place for the handle");
	if (f->asked.head.kind == kind)
		return 0;
	(void)percpu_reason_set(&why, -EINVAL, "%.*s: is a family of another kind",
				f->asked.head.name, (const char *)f->asked.bytes);
	return percpu_error_keep(-EINVAL, &why);
}

int percpu_family_series(struct percpu_family *f, enum percpu_metric_kind kind,
			 const struct percpu_text *values, void **ret)
{
	int e = check_call(f, kind, values, ret);

	return e == 0 ? percpu_family_find(f, values, ret) : e;
}

/* Find or create a series of a family of that kind. ret is the address of a pointer to the type of
 * that kind. Returns 0 or -errno, which is kept. */
static int resolve(struct percpu_family *f, unsigned kind, const char *const *values, void *ret)
{
	struct percpu_family_values texts;
	void *handle;
	int e = check_call(f, kind, values, ret);

	if (e != 0)
		return e;
	percpu_family_measure(f, values, &texts);
	e = percpu_family_find(f, texts.of, &handle);
	if (e == 0)
		memcpy(ret, &handle, sizeof(handle));
	return e;
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

/* Counting by values, by the functions that calls.h has: so there is one copy of each sequence. */

int percpu_family_add(struct percpu_family *f, const char *const *values, uint64_t n)
{
	void *counter;
	int e = resolve(f, PERCPU_METRIC_COUNTER, values, &counter);

	if (e == 0)
		percpu_counter_add_call(counter, (int64_t)n);
	return e;
}

int percpu_family_record(struct percpu_family *f, const char *const *values, double v)
{
	void *histogram;
	int e = resolve(f, PERCPU_METRIC_HISTOGRAM, values, &histogram);

	if (e == 0)
		percpu_histogram_record_call(histogram, v);
	return e;
}

uint64_t percpu_family_overflows(const struct percpu_family *f)
{
	return f != NULL ? __atomic_load_n(&f->record->overflows, __ATOMIC_RELAXED) : 0;
}

uint64_t percpu_family_invalid(const struct percpu_family *f)
{
	return f != NULL ? __atomic_load_n(&f->record->invalid, __ATOMIC_RELAXED) : 0;
}

static int remove_series(struct percpu_family *f, const struct percpu_record_copy *c,
			 struct percpu_reason *why)
{
	const char *const name = (const char *)f->asked.bytes;
	int e;

	if (percpu_record_is_overflow(c))
		return percpu_reason_set(why, -EINVAL, "%.*s: the overflow stays",
					 f->asked.head.name, name);
	e = percpu_series_remove(f->s, c, why);
	if (e != 0)
		(void)percpu_reason_set(why, e, "%.*s: %s", f->asked.head.name, name,
					e == -ENOENT ? "there is no such series" :
						       "the series cannot be removed");
	return e;
}

int percpu_family_remove(struct percpu_family *f, const char *const *values)
{
	struct percpu_record_copy *c = NULL;
	struct percpu_family_values texts;
	struct percpu_reason why;
	int e;

	if (f == NULL || values == NULL)
		return percpu_error_say(-EINVAL, f == NULL ? "the family is NULL" :
							     "the values of labels are NULL");
	percpu_family_measure(f, values, &texts);
	e = percpu_family_make_series(f, texts.of, &c, &why);
	if (e == 0)
		e = remove_series(f, c, &why);
	free(c);
	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

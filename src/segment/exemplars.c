/* SPDX-License-Identifier: MIT */
/*
 * exemplars.c - exemplars of the series of a segment.
 *
 * The record of a series has a key for its exemplars. A process that asks for them creates them like
 * an object: under the lock of the allocator, noted in percpu_header.placed until the key is there.
 *
 * A reader that has listed the series looks at records again when control->changes has grown. So the
 * process that creates exemplars adds 2 to that number, and then notes in the exemplars that it has.
 * If it is killed before that, the next process that asks for these exemplars does it. No process
 * stores an exemplar earlier.
 */
#include <stdlib.h>

#include "family.h"

static struct percpu_anchor anchor_of_exemplars(const struct percpu_segment *s, uint64_t at)
{
	struct percpu_anchor a = percpu_directory_anchor(s, at);

	a.word = &percpu_directory_at(s, at)->exemplars;
	a.word_key += offsetof(struct percpu_segment_record, exemplars) -
		      offsetof(struct percpu_segment_record, key);
	return a;
}

int percpu_series_reset_exemplars(struct percpu_segment *s, uint64_t key)
{
	int e = key != 0 ? percpu_exemplars_reset_at(s->region, key) : 0;

	return e == -ENOMEM ? e : 0; /* in a damaged file the key leads elsewhere */
}

void percpu_series_free_exemplars(struct percpu_segment *s, uint64_t at)
{
	const struct percpu_anchor a = anchor_of_exemplars(s, at);

	percpu_anchor_free(s->region, &a);
}

/* Let readers look for the exemplars, unless a process has done so since they were created. */
static void announce_exemplars(struct percpu_segment *s, const struct percpu_exemplars *x)
{
	uint64_t *const announced = &percpu_exemplars_control(x)->announced;

	if (__atomic_load_n(announced, __ATOMIC_RELAXED) != 0)
		return;
	(void)__atomic_fetch_add(&s->control->changes, 2, __ATOMIC_SEQ_CST);
	PERCPU_STEP("exemplars: announced");
	__atomic_store_n(announced, 1, __ATOMIC_RELEASE);
}

/* Return the entry of the record at this place, if this process has a handle of the series. The
 * caller has the process lock. */
static struct percpu_series_slot *entry_at(struct percpu_segment *s, uint64_t at)
{
	struct percpu_series_slot *slot = NULL;

	if (percpu_directory_load(s, at, &s->copy) != 0)
		slot = percpu_series_at(s, &s->copy, at);
	return slot != NULL && slot->handle != NULL ? slot : NULL;
}

/* Keep the handle of the exemplars. If the series has one already, detach the new one and return
 * the old one in *x. Returns 0 or -EBADMSG. */
static int keep_exemplars(struct percpu_segment *s, uint64_t at, struct percpu_exemplars **x)
{
	struct percpu_exemplars *spare = *x;
	struct percpu_series_slot *slot;

	PERCPU_STEP("exemplars: to be kept");
	percpu_process_lock();
	slot = entry_at(s, at);
	if (slot != NULL && slot->exemplars == NULL) {
		slot->exemplars = *x;
		spare = NULL;
	} else if (slot != NULL) {
		*x = slot->exemplars;
	}
	percpu_process_unlock();
	percpu_exemplars_detach(spare);
	return slot != NULL ? 0 : -EBADMSG;
}

/* Find or create the exemplars of the series at this place. Returns 0 or -errno. */
static int open_exemplars(struct percpu_segment *s, uint64_t at, struct percpu_exemplars **ret)
{
	struct percpu_anchor anchor = anchor_of_exemplars(s, at);
	struct percpu_exemplars *x = NULL;
	const struct percpu_histogram *h;
	struct percpu_series_slot *slot;
	int e = -EBADMSG;

	PERCPU_STEP("exemplars: to be opened");
	percpu_process_lock();
	slot = entry_at(s, at);
	if (slot != NULL) {
		h = percpu_histogram_of_kind(slot->kind, slot->handle);
		x = slot->exemplars;
	}
	percpu_process_unlock();
	if (slot != NULL && x == NULL) {
		e = percpu_exemplars_open_at(s->region, &anchor, h, &x);
		if (e == 0) {
			announce_exemplars(s, x);
			e = keep_exemplars(s, at, &x);
		}
	} else if (slot != NULL) {
		e = 0;
	}
	if (e == 0)
		*ret = x;
	return e;
}

/* Do so, and keep why that failed. The sentence begins with the name of the metric. */
static int open_or_complain(struct percpu_segment *s, uint64_t at, const struct percpu_text *name,
			    struct percpu_exemplars **ret)
{
	struct percpu_reason why;
	int e = open_exemplars(s, at, ret);

	if (e == 0)
		return 0;
	e = e == -EEXIST ? -EBADMSG : e;
	(void)percpu_reason_set(&why, e, "%.*s: %s", (int)name->n, name->at,
				e == -EBADMSG ? "the file is damaged" :
						"there is no room for its exemplars");
	return percpu_error_keep(e, &why);
}

static int refuse_exemplars(unsigned kind, const struct percpu_text *name)
{
	struct percpu_reason why;

	return percpu_error_keep(percpu_reason_set(&why, -EINVAL, "%.*s: %s has no exemplars",
						   (int)name->n, name->at,
						   percpu_kind_of(kind)->name),
				 &why);
}

/* Find the place of a metric that this process has declared, and its kind. Returns false if there is
 * none. */
static bool find_declared_at(struct percpu_segment *s, const struct percpu_record_copy *asked,
			     uint64_t *ret_at, unsigned *ret_kind)
{
	const struct percpu_series_slot *slot;

	PERCPU_STEP("exemplars: to be looked up");
	percpu_process_lock();
	slot = percpu_series_find(s, asked);
	if (slot != NULL && slot->handle == NULL)
		slot = NULL;
	if (slot != NULL) {
		*ret_at = slot->at - 1;
		*ret_kind = slot->kind;
	}
	percpu_process_unlock();
	return slot != NULL;
}

static int exemplars_of(struct percpu_segment *s, const struct percpu_record_copy *asked,
			struct percpu_exemplars **ret)
{
	const struct percpu_text name = percpu_record_name(asked);
	struct percpu_reason why;
	unsigned kind;
	uint64_t at;

	if (!find_declared_at(s, asked, &at, &kind))
		return percpu_error_keep(
			percpu_reason_set(&why, -ENOENT,
					  "%.*s: this process has not declared such a metric",
					  (int)name.n, name.at),
			&why);
	return percpu_kind_of(kind)->has_exemplars ? open_or_complain(s, at, &name, ret) :
						     refuse_exemplars(kind, &name);
}

int percpu_segment_exemplars(struct percpu_segment *s, const struct percpu_metric *m,
			     struct percpu_exemplars **ret)
{
	struct percpu_record_copy *asked;
	struct percpu_reason why;
	int e;

	if (s == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, s == NULL ? "the segment is NULL" :
							     "there is no place for the exemplars");
	asked = malloc(sizeof(*asked));
	e = asked == NULL ? percpu_reason_set(&why, -ENOMEM, "no memory for a metric") :
			    percpu_metric_read(m, NULL, PERCPU_METRIC_GAUGE, asked, &why);
	e = e != 0 ? percpu_error_keep(e, &why) : exemplars_of(s, asked, ret);
	free(asked);
	return e;
}

/* Families. */

/* Find the place of the series with these values, whose handle was found before. Returns 0 or
 * -errno, which is kept. */
static int find_place(const struct percpu_family *f, const struct percpu_text *values,
		      uint64_t *ret)
{
	struct percpu_record_copy *c = NULL;
	struct percpu_reason why;
	unsigned kind;
	int e = percpu_family_make_series(f, values, &c, &why);

	if (e == 0 && !find_declared_at(f->s, c, ret, &kind))
		e = percpu_reason_set(&why, -EBADMSG, "%.*s: the file is damaged",
				      f->asked.head.name, (const char *)f->asked.bytes);
	free(c);
	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

/* Find or create the exemplars of a series that was not looked up. */
static int resolve_exemplars(struct percpu_family *f, const struct percpu_family_key *key,
			     struct percpu_exemplars **ret)
{
	const struct percpu_text name = percpu_record_name(&f->asked);
	uint64_t at = f->overflow_at;
	void *handle;
	int e = percpu_family_find(f, key->values, &handle);

	if (e == 0 && handle != f->overflow)
		e = find_place(f, key->values, &at);
	if (e == 0)
		e = open_or_complain(f->s, at, &name, ret);
	if (e == 0 && at != f->overflow_at)
		percpu_family_table_enter(&f->exemplars, key, *ret,
					  &percpu_directory_at(f->s, at)->state);
	return e;
}

int percpu_family_exemplars(struct percpu_family *f, const char *const *values,
			    struct percpu_exemplars **ret)
{
	struct percpu_family_values texts;
	struct percpu_family_key key;
	struct percpu_text name;
	void *there;
	int e;

	if (f == NULL || values == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, f == NULL	? "the family is NULL" :
						 values == NULL ? "the values of labels are NULL" :
								  "there is no place for the "
								  "exemplars");
	name = percpu_record_name(&f->asked);
	if (!percpu_kind_of(f->asked.head.kind)->has_exemplars)
		return refuse_exemplars(f->asked.head.kind, &name);
	percpu_family_measure(f, values, &texts);
	if (!percpu_family_key_make(texts.of, f->asked.head.labels, &f->s->key, &key))
		return percpu_family_find(f, texts.of, &there); /* a value is NULL */
	there = percpu_family_table_find(&f->exemplars, &key);
	e = there == NULL ? resolve_exemplars(f, &key, ret) : 0;
	if (there != NULL)
		*ret = there;
	return e;
}

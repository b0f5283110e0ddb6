/* SPDX-License-Identifier: MIT */
/*
 * reader_owned.c - what readers show of owned gauges that have a value for each owner.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

/* The values of a gauge. */
struct owner_rows {
	struct percpu_owned_value *row;
	size_t n;
};

static bool is_shown_by_owner(const struct percpu_picture_series *s)
{
	return (s->kind == PERCPU_METRIC_OWNED_GAUGE || s->kind == PERCPU_METRIC_OWNED_FGAUGE) &&
	       (percpu_owned_rule_and_flags(s->object) & PERCPU_OWNED_EACH) != 0;
}

static int list_rows(const struct percpu_picture_series *s, struct owner_rows *rows)
{
	const enum percpu_owned_of of = percpu_owned_shown_of(s->object);

	return s->kind == PERCPU_METRIC_OWNED_GAUGE ?
		       percpu_owned_gauge_each(s->object, of, rows->row, PERCPU_OWNERS_MAX,
					       &rows->n) :
		       percpu_owned_fgauge_each(s->object, of, rows->row, PERCPU_OWNERS_MAX,
						&rows->n);
}

/* Drop the rows of owners whose slot another process has taken, and give each other one a name. */
static void name_rows(struct owner_rows *rows)
{
	struct percpu_owned_value *v;
	size_t kept = 0;

	for (size_t i = 0; i < rows->n; i++) {
		v = &rows->row[kept];
		*v = rows->row[i];
		if (v->pid == 0)
			continue;
		if (v->name[0] == '\0')
			snprintf(v->name, sizeof(v->name), "%u", v->pid);
		kept++;
	}
	rows->n = kept;
}

/* Compare rows by names, and of one name by owners, for qsort(3): the living last. */
static int compare_rows(const void *a, const void *b)
{
	const struct percpu_owned_value *x = a, *y = b;
	const int names = strcmp(x->name, y->name);

	if (names != 0)
		return names;
	if (x->alive != y->alive)
		return x->alive < y->alive ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

/* Fold the value of a row into that of the next one, of the same name. */
static void fold_row(const struct percpu_picture_series *s, const struct percpu_owned_value *from,
		     struct percpu_owned_value *to)
{
	const struct percpu_owned_handle *h = s->object;
	const bool is_double = s->kind == PERCPU_METRIC_OWNED_FGAUGE;
	uint64_t value = is_double ? percpu_owned_bits(to->fvalue) : (uint64_t)to->value;
	uint64_t when = h->rule == PERCPU_OWNED_RECENT ? to->when : 1;

	percpu_owned_fold(h, is_double ? percpu_owned_bits(from->fvalue) : (uint64_t)from->value,
			  from->when, &value, &when);
	if (is_double)
		to->fvalue = percpu_owned_double(value);
	else
		to->value = (int64_t)value;
	if (h->rule == PERCPU_OWNED_RECENT)
		to->when = when;
}

/* Make one row of those that have the same name. */
static void join_rows(const struct percpu_picture_series *s, struct owner_rows *rows)
{
	struct percpu_owned_value *const row = rows->row;
	size_t kept = 0;

	for (size_t i = 0; i < rows->n; i++) {
		if (i + 1 < rows->n && strcmp(row[i].name, row[i + 1].name) == 0)
			fold_row(s, &row[i], &row[i + 1]);
		else
			row[kept++] = row[i];
	}
	rows->n = kept;
}

static int make_rows(const struct percpu_picture_series *s, struct owner_rows *rows)
{
	int e;

	rows->row = malloc(PERCPU_OWNERS_MAX * sizeof(*rows->row));
	if (rows->row == NULL)
		return -ENOMEM;
	e = list_rows(s, rows);
	if (e != 0) {
		free(rows->row);
		return e;
	}
	name_rows(rows);
	qsort(rows->row, rows->n, sizeof(*rows->row), compare_rows);
	join_rows(s, rows);
	return 0;
}

int percpu_reader_list_shown(const struct percpu_reader *r, size_t i,
			     struct percpu_owned_value **ret, size_t *ret_n)
{
	const struct percpu_picture_series *const s =
		i < percpu_reader_count(r) ? &r->entry[i] : NULL;
	struct owner_rows rows;
	int e;

	if (s == NULL || !is_shown_by_owner(s))
		return -EINVAL;
	e = s->error != 0 ? s->error : make_rows(s, &rows);
	if (e != 0)
		return e;
	*ret = rows.row;
	*ret_n = rows.n;
	return 0;
}

int percpu_reader_owned_shown(const struct percpu_reader *r, size_t i,
			      struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	struct percpu_owned_value *row;
	size_t there;
	int cancel, e;

	if ((out == NULL && n != 0) || ret_n == NULL)
		return -EINVAL;
	cancel = percpu_defer_cancel();
	e = percpu_reader_list_shown(r, i, &row, &there);
	if (e == 0) {
		*ret_n = there;
		if (n != 0)
			memcpy(out, row, (there < n ? there : n) * sizeof(*out));
		free(row);
	}
	percpu_restore_cancel(cancel);
	return e;
}

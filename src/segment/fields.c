/* SPDX-License-Identifier: MIT */
/*
 * fields.c - statistics in a segment: the fields of a struct are counters of one metric. The names
 * of the fields are the values of one more label, stored in the record behind the metric's own
 * labels.
 */
#include <stdio.h>
#include <string.h>

#include "segment.h"

static int check_field(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       size_t i, struct percpu_reason *why)
{
	const char *const name = f->names[i];
	char number[24];

	if (name == NULL || *name == '\0')
		return percpu_reason_set(why, -EINVAL, "%s: field %zu has no name", m->name, i);
	for (size_t k = 0; k < i; k++)
		if (strcmp(name, f->names[k]) == 0)
			return percpu_reason_set(
				why, -EINVAL, "%s: two fields are named \"%.255s\"", m->name, name);
	(void)snprintf(number, sizeof(number), "%zu", i);
	return percpu_metric_check_text(m->name, name, PERCPU_METRIC_NAME, "name of field ", number,
					why);
}

int percpu_fields_check(const struct percpu_metric *m, unsigned kind,
			const struct percpu_metric_fields *f, struct percpu_reason *why)
{
	int e;

	if (f->n == 0 || f->n > PERCPU_STATS_MAX_COMMIT)
		return percpu_reason_set(why, -EINVAL,
					 "%s: statistics have 1 to %d fields, not %zu", m->name,
					 PERCPU_STATS_MAX_COMMIT, f->n);
	if (f->label == NULL || f->names == NULL)
		return percpu_reason_set(why, -EINVAL, "%s: its fields have no label, or no names",
					 m->name);
	e = percpu_metric_check_label(m, kind, f->label, m->labels, why);
	for (size_t i = 0; e == 0 && i < f->n; i++)
		e = check_field(m, f, i, why);
	return e;
}

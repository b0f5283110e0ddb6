/* SPDX-License-Identifier: MIT */
/*
 * metric.c - checks of descriptions of metrics. What an exposition format can carry is accepted.
 * What naming guides would say is advice: advice.c.
 */
#include <stdio.h>
#include <string.h>

#include "segment.h"

#define OF_FAMILIES "percpu_family_"
#define SHOWN 40 /* bytes of a wrong text that a sentence shows */

/* Return how many bytes of a text a sentence shows. */
static int shown_of(const char *text)
{
	return percpu_text_shown(text, strnlen(text, SHOWN + 1), SHOWN);
}

static int check_metric_name(const char *name, struct percpu_reason *why)
{
	if (name == NULL || *name == '\0')
		return percpu_reason_set(why, -EINVAL, "a metric has no name");
	if (strnlen(name, PERCPU_METRIC_NAME + 1) > PERCPU_METRIC_NAME)
		return percpu_reason_set(why, -ENAMETOOLONG,
					 "%.*s...: the name has more than %d bytes", shown_of(name),
					 name, PERCPU_METRIC_NAME);
	if (!percpu_text_is_utf8(name, strlen(name)))
		return percpu_reason_set(why, -EILSEQ, "%.*s: the name is not UTF-8",
					 shown_of(name), name);
	if (strncmp(name, OF_FAMILIES, strlen(OF_FAMILIES)) == 0)
		return percpu_reason_set(why, -EINVAL,
					 "%.*s: names that begin with " OF_FAMILIES " are those by "
					 "which percpu_reader_print() tells of families",
					 shown_of(name), name);
	return 0;
}

int percpu_metric_check_text(const char *name, const char *text, size_t most, const char *what,
			     const char *which, struct percpu_reason *why)
{
	if (strnlen(text, most + 1) > most)
		return percpu_reason_set(why, -ENAMETOOLONG, "%s: the %s%s has more than %zu bytes",
					 name, what, which, most);
	if (!percpu_text_is_utf8(text, strlen(text)))
		return percpu_reason_set(why, -EILSEQ, "%s: the %s%s is not UTF-8", name, what,
					 which);
	return 0;
}

int percpu_metric_check_label(const struct percpu_metric *m, unsigned kind, const char *label,
			      size_t n, struct percpu_reason *why)
{
	const char *const own = percpu_kind_of(kind)->own_label;
	char number[24];
	int e;

	(void)snprintf(number, sizeof(number), "%zu", n);
	if (*label == '\0')
		return percpu_reason_set(why, -EINVAL, "%s: the name of label %s is empty", m->name,
					 number);
	e = percpu_metric_check_text(m->name, label, PERCPU_METRIC_NAME, "name of label ", number,
				     why);
	if (e != 0)
		return e;
	if (strcmp(label, "__name__") == 0)
		return percpu_reason_set(why, -EINVAL,
					 "%s: no label is named __name__: that is the metric's "
					 "name in Prometheus",
					 m->name);
	if (own != NULL && strcmp(label, own) == 0)
		return percpu_reason_set(why, -EINVAL,
					 "%s: no label is named %s: by that label the values of "
					 "%s are told from each other",
					 m->name, own, percpu_kind_of(kind)->name);
	for (size_t i = 0; i < n; i++)
		if (strcmp(label, m->label_names[i]) == 0)
			return percpu_reason_set(why, -EINVAL, "%s: two labels are named %s",
						 m->name, label);
	return 0;
}

static int check_label(const struct percpu_metric *m, unsigned kind, size_t i,
		       struct percpu_reason *why)
{
	const char *const label = m->label_names[i];
	int e;

	if (label == NULL)
		return percpu_reason_set(why, -EINVAL, "%s: the name of label %zu is NULL", m->name,
					 i);
	e = percpu_metric_check_label(m, kind, label, i, why);
	if (e == 0 && m->label_values[i] == NULL)
		return percpu_reason_set(why, -EINVAL, "%s: the value of label %s is NULL", m->name,
					 label);
	return e != 0 ? e :
			percpu_metric_check_text(m->name, m->label_values[i], PERCPU_METRIC_VALUE,
						 "value of label ", label, why);
}

static int check_labels(const struct percpu_metric *m, unsigned kind, struct percpu_reason *why)
{
	int e = 0;

	if (m->labels > PERCPU_METRIC_LABELS)
		return percpu_reason_set(why, -E2BIG, "%s: %zu labels are more than %d", m->name,
					 m->labels, PERCPU_METRIC_LABELS);
	if (m->labels != 0 && (m->label_names == NULL || m->label_values == NULL))
		return percpu_reason_set(why, -EINVAL, "%s: it has labels, and %s is NULL", m->name,
					 m->label_names == NULL ? ".label_names" : ".label_values");
	if (m->labels == 0 && (m->label_names != NULL || m->label_values != NULL))
		return percpu_reason_set(why, -EINVAL, "%s: it has labels, and .labels is 0",
					 m->name);
	for (size_t i = 0; e == 0 && i < m->labels; i++)
		e = check_label(m, kind, i, why);
	return e;
}

static size_t bytes_of_row(const char *const *text, size_t n)
{
	size_t bytes = n * sizeof(uint16_t);

	for (size_t i = 0; i < n; i++)
		bytes += strlen(text[i]);
	return bytes;
}

/* Check that all texts have room in one record. f may be NULL. */
static int check_room(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		      struct percpu_reason *why)
{
	size_t bytes = strlen(m->name) + (m->unit != NULL ? strlen(m->unit) : 0) +
		       (m->help != NULL ? strlen(m->help) : 0) +
		       bytes_of_row(m->label_names, m->labels) +
		       bytes_of_row(m->label_values, m->labels);

	if (f != NULL)
		bytes += bytes_of_row(&f->label, 1) + bytes_of_row(f->names, f->n);
	return bytes <= PERCPU_RECORD_BYTES ?
		       0 :
		       percpu_reason_set(why, -E2BIG,
					 "%s: its texts have %zu bytes, and there is room for %d",
					 m->name, bytes, (int)PERCPU_RECORD_BYTES);
}

int percpu_metric_check(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			unsigned kind, struct percpu_reason *why)
{
	int e = check_metric_name(m->name, why);

	if (e == 0 && m->unit != NULL)
		e = percpu_metric_check_text(m->name, m->unit, PERCPU_METRIC_NAME, "unit", "", why);
	if (e == 0 && m->help != NULL)
		e = percpu_metric_check_text(m->name, m->help, PERCPU_METRIC_HELP, "help text", "",
					     why);
	if (e == 0)
		e = check_labels(m, kind, why);
	if (e == 0 && f != NULL)
		e = percpu_fields_check(m, kind, f, why);
	return e == 0 ? check_room(m, f, why) : e;
}

struct percpu_metric percpu_declared_metric(const struct percpu_declaration *d)
{
	return (struct percpu_metric){
		.size = sizeof(struct percpu_metric),
		.name = d->name,
		.help = d->help,
		.unit = d->unit,
		.label_names = d->label_names,
		.label_values = d->label_values,
		.labels = d->labels,
	};
}

int percpu_metric_read(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       unsigned kind, struct percpu_record_copy *ret, struct percpu_reason *why)
{
	const bool has_fields = percpu_kind_of(kind)->has_fields;
	struct percpu_metric_fields fields = { .n = 0 };
	struct percpu_metric known;
	int e;

	if (m == NULL)
		return percpu_reason_set(why, -EINVAL, "a struct percpu_metric is NULL");
	if (percpu_struct_read(&known, sizeof(known), m) != 0)
		return percpu_reason_set(
			why, -EINVAL,
			"a struct percpu_metric has a .size of %zu, or fields that this library "
			"does not know: .size is sizeof(struct percpu_metric)",
			m->size);
	if (has_fields && percpu_struct_read(&fields, sizeof(fields), f) != 0)
		return percpu_reason_set(
			why, -EINVAL, "%.*s: the fields are NULL, or their struct has another size",
			known.name != NULL ? shown_of(known.name) : 0, known.name);
	e = percpu_metric_check(&known, has_fields ? &fields : NULL, kind, why);
	if (e == 0)
		percpu_record_make(&known, &fields, kind, ret);
	return e;
}

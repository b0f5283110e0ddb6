/* SPDX-License-Identifier: MIT */
/*
 * metric.c - descriptions of metrics: checking them, making records of them, and comparing records.
 * The texts of a record are, in this order, its name, its unit, the labels' names, the labels'
 * values, and the help text.
 */
#include <stdio.h>
#include <string.h>

#include "segment.h"

#define SHOWN 40 /* bytes of a wrong text that a sentence shows */

static const char *const units[] = {
	"seconds", "bytes",  "ratio", "joules",	 "volts",
	"amperes", "meters", "grams", "celsius", "kelvin",
};

static const char *const kinds[] = {
	NULL,
	"a counter",
	"a counter of doubles",
	"a gauge",
	"a gauge of doubles",
	"a latest value",
	"a histogram",
	"extrema",
	"an owned gauge",
	"an owned gauge of doubles",
	"an info",
	"statistics",
};

/* The caller has checked that the kind is known. */
const char *percpu_metric_kind_name(unsigned kind)
{
	return kinds[kind];
}

/* Where the texts of a record are. */

const unsigned char *percpu_record_labels(const struct percpu_record_copy *c)
{
	return c->bytes + c->head.name + c->head.unit;
}

const unsigned char *percpu_record_values(const struct percpu_record_copy *c)
{
	return percpu_record_labels(c) + c->head.label_names;
}

size_t percpu_record_values_size(const struct percpu_record_copy *c)
{
	const unsigned char *const values = percpu_record_values(c);
	const size_t all = c->head.label_values;
	size_t n = 0;

	if (c->head.fields == 0)
		return all;
	for (unsigned i = 0; i < c->head.labels && n < all; i++)
		n += (size_t)1 + values[n];
	return n < all ? n : all;
}

/* Checks of the program's description. */

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name(const char *s)
{
	if (!is_letter(*s))
		return false;
	for (; *s != '\0'; s++)
		if (!is_letter(*s) && !(*s >= '0' && *s <= '9'))
			return false;
	return true;
}

static bool ends_in(const char *name, size_t length, const char *end)
{
	const size_t n = strlen(end);

	return length > n && memcmp(name + length - n, end, n) == 0;
}

static int check_suffix(const char *name, unsigned kind, struct percpu_reason *why)
{
	static const char *const reserved[] = { "_bucket", "_count", "_sum", "_created" };
	const bool counts = kind == PERCPU_METRIC_COUNTER || kind == PERCPU_METRIC_FCOUNTER ||
			    kind == PERCPU_METRIC_STATS;
	const size_t n = strlen(name);

	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (ends_in(name, n, reserved[i]))
			return percpu_reason_set(why, -EINVAL, "%s: the end %s is reserved", name,
						 reserved[i]);
	if (ends_in(name, n, "_total") != counts)
		return percpu_reason_set(why, -EINVAL, "%s: %s ends in _total", name,
					 counts ? "the name of a counter" :
						  "only the name of a counter, or of statistics,");
	if (ends_in(name, n, "_info") != (kind == PERCPU_METRIC_INFO))
		return percpu_reason_set(why, -EINVAL, "%s: %s ends in _info", name,
					 kind == PERCPU_METRIC_INFO ? "the name of an info" :
								      "only the name of an info");
	return 0;
}

/* Return how many bytes of a text a sentence shows: a few, in whole characters. */
static int shown_size(const char *text)
{
	size_t n = strnlen(text, SHOWN);

	while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
		n--;
	return (int)n;
}

static int check_metric_name(const char *name, unsigned kind, struct percpu_reason *why)
{
	if (name == NULL || *name == '\0')
		return percpu_reason_set(why, -EINVAL, "a metric has no name");
	if (strnlen(name, PERCPU_METRIC_NAME + 1) > PERCPU_METRIC_NAME)
		return percpu_reason_set(why, -ENAMETOOLONG,
					 "%.*s...: the name has more than %d bytes",
					 shown_size(name), name, PERCPU_METRIC_NAME);
	if (!is_name(name))
		return percpu_reason_set(why, -EINVAL,
					 "\"%s\": a name is letters, digits and _, and begins with "
					 "no digit",
					 name);
	return check_suffix(name, kind, why);
}

static int check_unit(const struct percpu_metric *m, unsigned kind, struct percpu_reason *why)
{
	const char *const end = ends_in(m->name, strlen(m->name), "_total") ? "_total" : "";
	char suffix[32];
	size_t i;

	if (m->unit == NULL || *m->unit == '\0')
		return 0;
	for (i = 0; i < sizeof(units) / sizeof(units[0]) && strcmp(m->unit, units[i]) != 0; i++)
		;
	if (i == sizeof(units) / sizeof(units[0]) || kind == PERCPU_METRIC_INFO)
		return percpu_reason_set(why, -EINVAL,
					 "%s: \"%.*s\" is no unit of such a metric; units are "
					 "seconds, bytes, ratio, joules, volts, amperes, meters, "
					 "grams, celsius and kelvin, of all kinds but infos",
					 m->name, shown_size(m->unit), m->unit);
	snprintf(suffix, sizeof(suffix), "_%s%s", units[i], end);
	if (!ends_in(m->name, strlen(m->name), suffix))
		return percpu_reason_set(why, -EINVAL, "%s: the unit is %s, so the name ends in %s",
					 m->name, m->unit, suffix);
	return 0;
}

int percpu_metric_check_text(const char *name, const char *text, size_t most, const char *what,
			     const char *which, struct percpu_reason *why)
{
	if (strnlen(text, most + 1) > most)
		return percpu_reason_set(why, -ENAMETOOLONG, "%s: the %s%s has more than %zu bytes",
					 name, what, which, most);
	if (!percpu_text_is_utf8(text))
		return percpu_reason_set(why, -EILSEQ, "%s: the %s%s is not UTF-8", name, what,
					 which);
	return 0;
}

int percpu_metric_check_label(const struct percpu_metric *m, const char *label, size_t n,
			      struct percpu_reason *why)
{
	char number[24];
	int e;

	(void)snprintf(number, sizeof(number), "%zu", n);
	e = percpu_metric_check_text(m->name, label, PERCPU_METRIC_NAME, "name of label ", number,
				     why);
	if (e != 0)
		return e;
	if (!is_name(label) || strncmp(label, "__", 2) == 0 || strcmp(label, "le") == 0 ||
	    strcmp(label, "quantile") == 0)
		return percpu_reason_set(why, -EINVAL, "%s: a label cannot be named \"%s\"",
					 m->name, label);
	for (size_t i = 0; i < n; i++)
		if (strcmp(label, m->label_names[i]) == 0)
			return percpu_reason_set(why, -EINVAL, "%s: two labels are named %s",
						 m->name, label);
	return 0;
}

static int check_label(const struct percpu_metric *m, size_t i, struct percpu_reason *why)
{
	const char *const label = m->label_names[i];
	int e;

	if (label == NULL)
		return percpu_reason_set(why, -EINVAL, "%s: the name of label %zu is NULL", m->name,
					 i);
	e = percpu_metric_check_label(m, label, i, why);
	if (e == 0 && m->label_values[i] == NULL)
		return percpu_reason_set(why, -EINVAL, "%s: the value of label %s is NULL", m->name,
					 label);
	return e != 0 ? e :
			percpu_metric_check_text(m->name, m->label_values[i], PERCPU_METRIC_NAME,
						 "value of label ", label, why);
}

int percpu_metric_check(const struct percpu_metric *m, unsigned kind, struct percpu_reason *why)
{
	int e = check_metric_name(m->name, kind, why);

	if (e == 0)
		e = check_unit(m, kind, why);
	if (e == 0 && m->help != NULL)
		e = percpu_metric_check_text(m->name, m->help, PERCPU_METRIC_HELP, "help text", "",
					     why);
	if (e == 0 && m->labels > PERCPU_METRIC_LABELS)
		return percpu_reason_set(why, -E2BIG, "%s: %zu labels are more than %d", m->name,
					 m->labels, PERCPU_METRIC_LABELS);
	if (e == 0 && m->labels != 0 && (m->label_names == NULL || m->label_values == NULL))
		return percpu_reason_set(why, -EINVAL, "%s: it has labels, and %s is NULL", m->name,
					 m->label_names == NULL ? ".label_names" : ".label_values");
	if (e == 0 && m->labels == 0 && (m->label_names != NULL || m->label_values != NULL))
		return percpu_reason_set(why, -EINVAL, "%s: it has labels, and .labels is 0",
					 m->name);
	for (size_t i = 0; e == 0 && i < m->labels; i++)
		e = check_label(m, i, why);
	return e;
}

/* Append texts to *at, and return how many bytes that were. */

static uint16_t put_text(unsigned char **at, const char *text)
{
	const size_t n = text != NULL ? strlen(text) : 0;

	if (n != 0)
		memcpy(*at, text, n);
	*at += n;
	return (uint16_t)n;
}

static uint16_t put_row(unsigned char **at, const char *const *text, size_t n)
{
	const unsigned char *const begin = *at;

	for (size_t i = 0; i < n; i++) {
		*(*at)++ = (unsigned char)strlen(text[i]);
		(void)put_text(at, text[i]);
	}
	return (uint16_t)(*at - begin);
}

/* Make a record of a checked description. */
static void put_metric(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       struct percpu_record_copy *ret)
{
	struct percpu_segment_record *const r = &ret->head;
	unsigned char *at = ret->bytes;

	r->name = put_text(&at, m->name);
	r->unit = put_text(&at, m->unit);
	r->label_names = put_row(&at, m->label_names, m->labels);
	r->label_names += put_row(&at, &f->label, f->n != 0);
	r->label_values = put_row(&at, m->label_values, m->labels);
	r->label_values += put_row(&at, f->names, f->n);
	r->help = put_text(&at, m->help);
	r->labels = (uint8_t)m->labels;
	r->fields = (uint8_t)f->n;
	for (; (at - ret->bytes) % 8 != 0; at++)
		*at = 0;
	r->size = (uint32_t)(sizeof(*r) + (size_t)(at - ret->bytes));
}

int percpu_metric_read(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       unsigned kind, struct percpu_record_copy *ret, struct percpu_reason *why)
{
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
	e = percpu_metric_check(&known, kind, why);
	if (e == 0 && kind == PERCPU_METRIC_STATS) {
		if (percpu_struct_read(&fields, sizeof(fields), f) != 0)
			return percpu_reason_set(
				why, -EINVAL,
				"%s: the fields are NULL, or their struct has another size",
				known.name);
		e = percpu_fields_check(&known, &fields, why);
	}
	if (e != 0)
		return e;
	ret->head = (struct percpu_segment_record){ .kind = (uint16_t)kind };
	put_metric(&known, &fields, ret);
	return 0;
}

/* Records. */

/* Continue an FNV-1a hash over n bytes. */
static uint64_t hash_on(uint64_t hash, const unsigned char *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

uint64_t percpu_record_name_hash(const struct percpu_record_copy *c, uint64_t seed)
{
	return hash_on(seed, c->bytes, c->head.name);
}

uint64_t percpu_record_series_hash(const struct percpu_record_copy *c, uint64_t seed)
{
	return hash_on(percpu_record_name_hash(c, seed), percpu_record_values(c),
		       percpu_record_values_size(c));
}

bool percpu_record_same_name(const struct percpu_record_copy *a, const struct percpu_record_copy *b)
{
	return a->head.name == b->head.name && memcmp(a->bytes, b->bytes, a->head.name) == 0;
}

bool percpu_record_same_series(const struct percpu_record_copy *a,
			       const struct percpu_record_copy *b)
{
	const size_t n = percpu_record_values_size(a);

	return percpu_record_same_name(a, b) && percpu_record_values_size(b) == n &&
	       memcmp(percpu_record_values(a), percpu_record_values(b), n) == 0;
}

/* Return how many bytes the text at this place of a row has; -1 if the row ends here. */
static int text_size(const unsigned char *at, const unsigned char *end)
{
	return at < end && *at < end - at ? *at : -1;
}

int percpu_record_complain(const struct percpu_record_copy *asked, const char *what,
			   struct percpu_texts is, struct percpu_texts wants,
			   struct percpu_reason *why)
{
	const char *const name = (const char *)asked->bytes;
	int has = text_size(is.at, is.end), size = text_size(wants.at, wants.end);
	size_t i = 0;

	for (; has >= 0 && has == size && memcmp(is.at, wants.at, 1 + (size_t)has) == 0; i++) {
		is.at += 1 + has;
		wants.at += 1 + size;
		has = text_size(is.at, is.end);
		size = text_size(wants.at, wants.end);
	}
	if (has < 0 && size < 0)
		return -EBADMSG;
	if (has < 0)
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: it has no %s \"%.*s\" in the segment, which was asked for",
			asked->head.name, name, what, size, (const char *)wants.at + 1);
	if (size < 0)
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: it has the %s \"%.*s\" in the segment, which was not asked for",
			asked->head.name, name, what, has, (const char *)is.at + 1);
	return percpu_reason_set(
		why, -EEXIST, "%.*s: its %s %zu is \"%.*s\" in the segment, \"%.*s\" was asked for",
		asked->head.name, name, what, i, has, (const char *)is.at + 1, size,
		(const char *)wants.at + 1);
}

static struct percpu_texts label_names(const struct percpu_record_copy *c)
{
	return (struct percpu_texts){ percpu_record_labels(c), percpu_record_values(c) };
}

static int compare_labels(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	if (there->head.labels == asked->head.labels &&
	    there->head.label_names == asked->head.label_names &&
	    memcmp(percpu_record_labels(there), percpu_record_labels(asked),
		   asked->head.label_names) == 0)
		return 0;
	return percpu_record_complain(asked, "label", label_names(there), label_names(asked), why);
}

int percpu_record_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	const char *const name = (const char *)asked->bytes;
	int e;

	if (there->head.kind != asked->head.kind)
		return percpu_reason_set(
			why, -EEXIST, "%.*s: is %s in the segment, %s was asked for",
			asked->head.name, name, percpu_metric_kind_name(there->head.kind),
			percpu_metric_kind_name(asked->head.kind));
	if (there->head.unit != asked->head.unit ||
	    memcmp(there->bytes + there->head.name, name + asked->head.name, asked->head.unit) != 0)
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: unit is \"%.*s\" in the segment, \"%.*s\" was asked for",
			asked->head.name, name, there->head.unit < SHOWN ? there->head.unit : SHOWN,
			(const char *)there->bytes + there->head.name, asked->head.unit,
			name + asked->head.name);
	e = compare_labels(there, asked, why);
	return e != 0 ? e : percpu_fields_compare(there, asked, why);
}

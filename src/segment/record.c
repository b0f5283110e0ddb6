/* SPDX-License-Identifier: MIT */
/*
 * record.c - records of metrics, in memory of this process: making them of descriptions, and
 * comparing them. The texts of a record are, in this order, its name, its unit, the labels' names,
 * the labels' values, and the help text. Each name and value of a label has its length in front, in
 * two bytes.
 */
#include <string.h>

#include <percpu/family.h>

#include "segment.h"

_Static_assert(UINT16_MAX >= PERCPU_RECORD_BYTES, "a length has two bytes");

/* Where the texts of a record are. */

const unsigned char *percpu_record_labels(const struct percpu_record_copy *c)
{
	return c->bytes + c->head.name + c->head.unit;
}

const unsigned char *percpu_record_values(const struct percpu_record_copy *c)
{
	return percpu_record_labels(c) + c->head.label_names;
}

bool percpu_texts_next(struct percpu_texts *row, struct percpu_text *ret)
{
	uint16_t n;

	*ret = (struct percpu_text){ (const char *)row->at, 0 };
	if (row->end - row->at < (ptrdiff_t)sizeof(n))
		return false;
	memcpy(&n, row->at, sizeof(n));
	if (row->end - row->at - (ptrdiff_t)sizeof(n) < n)
		return false;
	*ret = (struct percpu_text){ (const char *)row->at + sizeof(n), n };
	row->at += sizeof(n) + n;
	return true;
}

struct percpu_texts percpu_record_label_names(const struct percpu_record_copy *c)
{
	return (struct percpu_texts){ percpu_record_labels(c), percpu_record_values(c) };
}

static struct percpu_texts all_values(const struct percpu_record_copy *c)
{
	const unsigned char *const at = percpu_record_values(c);

	return (struct percpu_texts){ at, at + c->head.label_values };
}

/* Go past the values of labels. */
static struct percpu_texts values_behind(const struct percpu_record_copy *c)
{
	struct percpu_texts row = all_values(c);
	struct percpu_text text;

	for (unsigned i = 0; i < c->head.labels && percpu_texts_next(&row, &text); i++)
		;
	return row;
}

size_t percpu_record_values_size(const struct percpu_record_copy *c)
{
	return c->head.fields == 0 ? c->head.label_values :
				     (size_t)(values_behind(c).at - percpu_record_values(c));
}

struct percpu_texts percpu_record_fields(const struct percpu_record_copy *c)
{
	return values_behind(c);
}

/* Making a record. Each function appends texts to *at, and returns how many bytes that were. */

static uint16_t put_text(unsigned char **at, const char *text)
{
	const size_t n = text != NULL ? strlen(text) : 0;

	if (n != 0)
		memcpy(*at, text, n);
	*at += n;
	return (uint16_t)n;
}

/* Put a text with its length in front. */
static void put_measured(unsigned char **at, const char *text, size_t n)
{
	const uint16_t length = (uint16_t)n;

	memcpy(*at, &length, sizeof(length));
	memcpy(*at + sizeof(length), text, n);
	*at += sizeof(length) + n;
}

static uint16_t put_row(unsigned char **at, const char *const *text, size_t n)
{
	const unsigned char *const begin = *at;

	for (size_t i = 0; i < n; i++)
		put_measured(at, text[i], strlen(text[i]));
	return (uint16_t)(*at - begin);
}

/* Set the size of a record whose texts end here, and clear the bytes behind them. */
static void end_record(struct percpu_record_copy *c, unsigned char *end)
{
	for (; (end - c->bytes) % 8 != 0; end++)
		*end = 0;
	c->head.size = (uint32_t)(sizeof(c->head) + (size_t)(end - c->bytes));
}

void percpu_record_make(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			unsigned kind, struct percpu_record_copy *ret)
{
	struct percpu_segment_record *const r = &ret->head;
	unsigned char *at = ret->bytes;

	*r = (struct percpu_segment_record){ .kind = (uint16_t)kind };
	r->name = put_text(&at, m->name);
	r->unit = put_text(&at, m->unit);
	r->label_names = put_row(&at, m->label_names, m->labels);
	r->label_names += put_row(&at, &f->label, f->n != 0);
	r->label_values = put_row(&at, m->label_values, m->labels);
	r->label_values += put_row(&at, f->names, f->n);
	r->help = put_text(&at, m->help);
	r->labels = (uint8_t)m->labels;
	r->fields = (uint8_t)f->n;
	end_record(ret, at);
}

/* Hashes. */

uint64_t percpu_name_hash(const struct percpu_text *name, const struct percpu_hash_key *key)
{
	struct percpu_hash h = percpu_hash_begin(key);

	percpu_hash_text(&h, name->at, name->n);
	return percpu_hash_end(h);
}

struct percpu_text percpu_record_name(const struct percpu_record_copy *c)
{
	return (struct percpu_text){ (const char *)c->bytes, c->head.name };
}

uint64_t percpu_record_series_hash(const struct percpu_record_copy *c,
				   const struct percpu_hash_key *key)
{
	struct percpu_hash h = percpu_hash_begin(key);

	percpu_hash_text(&h, c->bytes, c->head.name);
	percpu_hash_text(&h, percpu_record_values(c), percpu_record_values_size(c));
	return percpu_hash_end(h);
}

/* Comparing. */

bool percpu_record_has_name(const struct percpu_record_copy *c, const struct percpu_text *name)
{
	return c->head.name == name->n && memcmp(c->bytes, name->at, name->n) == 0;
}

bool percpu_record_same_series(const struct percpu_record_copy *a,
			       const struct percpu_record_copy *b)
{
	const struct percpu_text name = percpu_record_name(b);
	const size_t n = percpu_record_values_size(a);

	return percpu_record_has_name(a, &name) && percpu_record_values_size(b) == n &&
	       memcmp(percpu_record_values(a), percpu_record_values(b), n) == 0;
}

static bool is_same_text(const struct percpu_text *a, const struct percpu_text *b)
{
	return a->n == b->n && memcmp(a->at, b->at, a->n) == 0;
}

/* Return how many bytes of a name a sentence shows: all of those that can be. */
static int shown(const struct percpu_text *text)
{
	return percpu_text_shown(text->at, text->n, PERCPU_METRIC_NAME);
}

/* Write which text is the first that differs. In the sentence, what names such a text. Returns
 * -EEXIST; or -EBADMSG, without a sentence, if no text differs. */
static int tell_texts(const struct percpu_record_copy *asked, const char *what,
		      struct percpu_texts is, struct percpu_texts wants, struct percpu_reason *why)
{
	const char *const name = (const char *)asked->bytes;
	const int n = asked->head.name;
	struct percpu_text has, wanted;
	bool there, asks;
	size_t i = 0;

	do {
		there = percpu_texts_next(&is, &has);
		asks = percpu_texts_next(&wants, &wanted);
		i++;
	} while (there && asks && is_same_text(&has, &wanted));
	if (!there && !asks)
		return -EBADMSG;
	if (!there)
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: it has no %s \"%.*s\" in the segment, which was asked for", n, name,
			what, shown(&wanted), wanted.at);
	if (!asks)
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: it has the %s \"%.*s\" in the segment, which was not asked for", n,
			name, what, shown(&has), has.at);
	return percpu_reason_set(
		why, -EEXIST, "%.*s: its %s %zu is \"%.*s\" in the segment, \"%.*s\" was asked for",
		n, name, what, i - 1, shown(&has), has.at, shown(&wanted), wanted.at);
}

static bool is_same_row(const struct percpu_texts *a, const struct percpu_texts *b)
{
	return a->end - a->at == b->end - b->at &&
	       memcmp(a->at, b->at, (size_t)(a->end - a->at)) == 0;
}

static int compare_labels(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	const struct percpu_texts is = percpu_record_label_names(there),
				  wants = percpu_record_label_names(asked);

	if (there->head.labels == asked->head.labels && is_same_row(&is, &wants))
		return 0;
	return tell_texts(asked, "label", is, wants, why);
}

static int compare_fields(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	const struct percpu_texts is = percpu_record_fields(there),
				  wants = percpu_record_fields(asked);

	if (there->head.fields == asked->head.fields &&
	    (asked->head.fields == 0 || is_same_row(&is, &wants)))
		return 0;
	return tell_texts(asked, "field", is, wants, why);
}

int percpu_record_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why)
{
	const char *const name = (const char *)asked->bytes;
	const struct percpu_text is = { (const char *)there->bytes + there->head.name,
					there->head.unit };
	const struct percpu_text wants = { name + asked->head.name, asked->head.unit };
	int e;

	if (there->head.kind != asked->head.kind)
		return percpu_reason_set(
			why, -EEXIST, "%.*s: is %s in the segment, %s was asked for",
			asked->head.name, name, percpu_kind_of(there->head.kind)->name,
			percpu_kind_of(asked->head.kind)->name);
	if (!is_same_text(&is, &wants))
		return percpu_reason_set(
			why, -EEXIST,
			"%.*s: unit is \"%.*s\" in the segment, \"%.*s\" was asked for",
			asked->head.name, name, shown(&is), is.at, shown(&wants), wants.at);
	e = compare_labels(there, asked, why);
	return e != 0 ? e : compare_fields(there, asked, why);
}

/* Records of families and of their series. */

bool percpu_record_is_overflow(const struct percpu_record_copy *c)
{
	static const struct percpu_text value = { PERCPU_FAMILY_OVERFLOW,
						  sizeof(PERCPU_FAMILY_OVERFLOW) - 1 };
	struct percpu_texts row = all_values(c);
	struct percpu_text text;
	unsigned n = 0;

	while (percpu_texts_next(&row, &text) && is_same_text(&text, &value))
		n++;
	return n != 0 && n == c->head.labels && row.at == row.end;
}

void percpu_record_make_family(struct percpu_record_copy *c, size_t cap)
{
	unsigned char *values = c->bytes + (percpu_record_values(c) - c->bytes);

	memmove(values, values + c->head.label_values, c->head.help);
	c->head.label_values = 0;
	c->head.state = PERCPU_RECORD_FAMILY;
	c->head.cap = (uint32_t)cap;
	end_record(c, values + c->head.help);
}

/* Check the value of a label. */
static int check_value(const struct percpu_record_copy *c, const struct percpu_text *label,
		       const struct percpu_text *value, struct percpu_reason *why)
{
	const char *const name = (const char *)c->bytes, *const text = label->at;
	const int n = c->head.name, length = shown(label);

	if (value->at == NULL)
		return percpu_reason_set(why, -EINVAL, "%.*s: the value of label %.*s is NULL", n,
					 name, length, text);
	if (value->n > PERCPU_METRIC_VALUE)
		return percpu_reason_set(why, -ENAMETOOLONG,
					 "%.*s: the value of label %.*s has more than %d bytes", n,
					 name, length, text, PERCPU_METRIC_VALUE);
	if (memchr(value->at, '\0', value->n) != NULL)
		return percpu_reason_set(why, -EILSEQ, "%.*s: the value of label %.*s has a byte 0",
					 n, name, length, text);
	if (!percpu_text_is_utf8(value->at, value->n))
		return percpu_reason_set(why, -EILSEQ, "%.*s: the value of label %.*s is not UTF-8",
					 n, name, length, text);
	return 0;
}

int percpu_record_check_values(const struct percpu_record_copy *family,
			       const struct percpu_text *values, struct percpu_reason *why)
{
	size_t room = PERCPU_RECORD_BYTES - (size_t)(percpu_record_values(family) - family->bytes);
	struct percpu_texts names = percpu_record_label_names(family);
	struct percpu_text label;
	size_t bytes = 0;
	int e = 0;

	for (size_t i = 0; i < family->head.labels && percpu_texts_next(&names, &label); i++) {
		e = check_value(family, &label, &values[i], why);
		if (e != 0)
			return e;
		bytes += sizeof(uint16_t) + values[i].n;
	}
	return bytes <= room ?
		       0 :
		       percpu_reason_set(why, -ENAMETOOLONG,
					 "%.*s: the values of its labels have %zu bytes, and "
					 "there is room for %zu",
					 family->head.name, (const char *)family->bytes, bytes,
					 room);
}

void percpu_record_make_series(const struct percpu_record_copy *family,
			       const struct percpu_text *values, struct percpu_record_copy *ret)
{
	const size_t common = (size_t)(percpu_record_values(family) - family->bytes);
	unsigned char *at = ret->bytes + common;

	ret->head = family->head;
	ret->head.state = PERCPU_RECORD_IN_USE;
	ret->head.cap = 0;
	ret->head.help = 0; /* the family has it */
	memcpy(ret->bytes, family->bytes, common);
	for (size_t i = 0; i < family->head.labels; i++)
		put_measured(&at, values[i].at, values[i].n);
	ret->head.label_values = (uint16_t)(at - ret->bytes - common);
	end_record(ret, at);
}

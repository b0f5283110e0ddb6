/* SPDX-License-Identifier: MIT */
/*
 * member.c - records of families and of their series.
 */
#include <string.h>

#include <percpu/family.h>

#include "segment.h"

static const unsigned char *member_values(const struct percpu_record_copy *c)
{
	return c->bytes + c->head.name + c->head.unit + c->head.label_names;
}

bool percpu_record_is_overflow(const struct percpu_record_copy *c)
{
	static const char value[] = "\x09" PERCPU_FAMILY_OVERFLOW;
	const size_t n = sizeof(value) - 1;
	const unsigned char *at = member_values(c);

	if (c->head.labels == 0 || c->head.label_values != c->head.labels * n)
		return false;
	for (size_t i = 0; i < c->head.labels; i++)
		if (memcmp(at + i * n, value, n) != 0)
			return false;
	return true;
}

/* Set the size of a record with so many bytes of texts, and clear the bytes behind them. */
static void end_record(struct percpu_record_copy *c, size_t bytes)
{
	c->head.size = (uint32_t)(sizeof(c->head) + (bytes + 7) / 8 * 8);
	memset(c->bytes + bytes, 0, sizeof(c->bytes) - bytes);
}

void percpu_record_make_family(struct percpu_record_copy *c, size_t cap)
{
	unsigned char *values = c->bytes + (member_values(c) - c->bytes);

	memmove(values, values + c->head.label_values, c->head.help);
	c->head.label_values = 0;
	c->head.state = PERCPU_RECORD_FAMILY;
	c->head.cap = (uint32_t)cap;
	end_record(c, (size_t)(values - c->bytes) + c->head.help);
}

void percpu_record_drop_help(struct percpu_record_copy *c)
{
	c->head.help = 0;
	end_record(c, (size_t)(member_values(c) - c->bytes) + c->head.label_values);
}

/* Check the value of a label, which is a text of a row. */
static int check_value(const struct percpu_record_copy *c, const unsigned char *label,
		       const char *value, struct percpu_reason *why)
{
	const char *const name = (const char *)c->bytes, *const text = (const char *)label + 1;

	if (value == NULL)
		return percpu_reason_set(why, -EINVAL, "%.*s: the value of label %.*s is NULL",
					 c->head.name, name, *label, text);
	if (strnlen(value, PERCPU_METRIC_NAME + 1) > PERCPU_METRIC_NAME)
		return percpu_reason_set(why, -ENAMETOOLONG,
					 "%.*s: the value of label %.*s has more than %d bytes",
					 c->head.name, name, *label, text, PERCPU_METRIC_NAME);
	if (!percpu_text_is_utf8(value))
		return percpu_reason_set(why, -EILSEQ, "%.*s: the value of label %.*s is not UTF-8",
					 c->head.name, name, *label, text);
	return 0;
}

int percpu_record_check_values(const struct percpu_record_copy *family, const char *const *values,
			       struct percpu_reason *why)
{
	const unsigned char *label = percpu_record_labels(family);
	int e = 0;

	for (size_t i = 0; i < family->head.labels && e == 0; i++, label += 1 + *label)
		e = check_value(family, label, values[i], why);
	return e;
}

void percpu_record_make_series(const struct percpu_record_copy *family, const char *const *values,
			       struct percpu_record_copy *ret)
{
	const size_t common = (size_t)(member_values(family) - family->bytes);
	unsigned char *at = ret->bytes + common;

	ret->head = family->head;
	ret->head.state = PERCPU_RECORD_IN_USE;
	ret->head.cap = 0;
	memcpy(ret->bytes, family->bytes, common);
	for (size_t i = 0; i < family->head.labels; i++) {
		*at = (unsigned char)strlen(values[i]);
		memcpy(at + 1, values[i], *at);
		at += 1 + *at;
	}
	ret->head.label_values = (uint16_t)(at - ret->bytes - common);
	percpu_record_drop_help(ret);
}

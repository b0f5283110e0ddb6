/* SPDX-License-Identifier: MIT */
/*
 * advice.c - what promtool and naming guides say of a metric that a segment accepts.
 */
#include <string.h>

#include "segment.h"

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_plain(const char *s, bool colons)
{
	if (!is_letter(*s) && !(colons && *s == ':'))
		return false;
	for (; *s != '\0'; s++)
		if (!is_letter(*s) && !(*s >= '0' && *s <= '9') && !(colons && *s == ':'))
			return false;
	return true;
}

static bool has_end(const char *name, const char *end)
{
	const size_t n = strlen(name), k = strlen(end);

	return n > k && strcmp(name + n - k, end) == 0;
}

static bool is_base_unit(const char *unit)
{
	static const char *const units[] = { "seconds", "bytes",  "ratio", "joules",  "volts",
					     "amperes", "meters", "grams", "celsius", "kelvin" };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (strcmp(unit, units[i]) == 0)
			return true;
	return false;
}

/* Return whether the name ends in the unit, but for _total. */
static bool ends_in_unit(const char *name, const char *unit)
{
	const size_t n = strlen(name) - (has_end(name, "_total") ? strlen("_total") : 0);
	const size_t k = strlen(unit);

	return n > k && name[n - k - 1] == '_' && memcmp(name + n - k, unit, k) == 0;
}

static bool has_end_of_others(const char *name)
{
	return has_end(name, "_bucket") || has_end(name, "_count") || has_end(name, "_sum") ||
	       has_end(name, "_created");
}

/* Return whether one of the name's words, between '_', is one of these; the last is NULL. */
static bool has_word(const char *name, const char *const *words)
{
	size_t n;

	for (; *name != '\0'; name += n + (name[n] == '_')) {
		n = strcspn(name, "_");
		for (size_t i = 0; words[i] != NULL; i++)
			if (strlen(words[i]) == n && memcmp(words[i], name, n) == 0)
				return true;
	}
	return false;
}

static bool has_type(const char *name)
{
	static const char *const types[] = { "counter", "gauge", "histogram", "summary", NULL };

	return has_word(name, types);
}

static bool has_abbreviation(const char *name)
{
	static const char *const short_units[] = { "s",	 "ms", "us", "ns", "sec", "b", "kb", "mb",
						   "gb", "tb", "pb", "m",  "h",	  "d", NULL };

	return has_word(name, short_units);
}

static bool has_odd_unit(const char *name)
{
	static const char *const units[] = { "milliseconds", "microseconds", "nanoseconds",
					     "minutes",	     "hours",	     "days",
					     "kilobytes",    "megabytes",    "gigabytes",
					     "bits",	     "percent",	     NULL };

	return has_word(name, units);
}

/* Return whether a capital letter follows a small one. */
static bool has_camel_case(const char *name)
{
	for (; name[0] != '\0'; name++)
		if (name[0] >= 'a' && name[0] <= 'z' && name[1] >= 'A' && name[1] <= 'Z')
			return true;
	return false;
}

static bool has_reserved_label(const struct percpu_metric *m)
{
	for (size_t i = 0; i < m->labels && m->label_names != NULL; i++)
		if (m->label_names[i] != NULL && (strncmp(m->label_names[i], "__", 2) == 0 ||
						  strcmp(m->label_names[i], "le") == 0 ||
						  strcmp(m->label_names[i], "quantile") == 0))
			return true;
	return false;
}

static bool has_odd_label(const struct percpu_metric *m)
{
	for (size_t i = 0; i < m->labels && m->label_names != NULL; i++)
		if (m->label_names[i] != NULL && !is_plain(m->label_names[i], false))
			return true;
	return false;
}

/* Return the nth sentence of those that apply, or NULL. */
static const char *choose(const struct percpu_metric *m, const struct percpu_kind_row *kind,
			  size_t n)
{
	const bool counts = strcmp(kind->ending, "_total") == 0;
	const bool informs = strcmp(kind->ending, "_info") == 0;
	const char *const unit = m->unit != NULL ? m->unit : "";
	const struct {
		bool applies;
		const char *sentence;
	} all[] = {
		{ !is_plain(m->name, true),
		  "the name has other characters than letters, digits and '_', or begins with a "
		  "digit: queries must quote it" },
		{ is_plain(m->name, true) && !is_plain(m->name, false),
		  "the name has a ':', which is for recording rules" },
		{ has_camel_case(m->name),
		  "the words of a name are of small letters, with '_' between" },
		{ has_type(m->name),
		  "the name does not say the type: counter, gauge, histogram, summary" },
		{ has_abbreviation(m->name), "a unit in the name is not abbreviated" },
		{ *unit == '\0' && has_odd_unit(m->name),
		  "a unit in the name is a base unit: seconds and not milliseconds, bytes and not bits" },
		{ counts && !has_end(m->name, "_total"), "the name of a counter ends in _total" },
		{ !counts && has_end(m->name, "_total"),
		  "only the name of a counter ends in _total" },
		{ informs && !has_end(m->name, "_info"), "the name of an info ends in _info" },
		{ !informs && has_end(m->name, "_info"), "only the name of an info ends in _info" },
		{ has_end_of_others(m->name),
		  "the ends _bucket, _count, _sum and _created are those of other metrics' "
		  "series" },
		{ *unit != '\0' && !is_base_unit(unit),
		  "the unit is no base unit: seconds, bytes, ratio, joules, volts, amperes, "
		  "meters, grams, celsius, kelvin" },
		{ *unit != '\0' && !ends_in_unit(m->name, unit),
		  "the name does not end in the unit" },
		{ has_odd_label(m), "a label's name has other characters than letters, digits and "
				    "'_', or begins with a digit: queries must quote it" },
		{ has_reserved_label(m),
		  "a label is named le, quantile, or begins with __: exposition formats use such "
		  "names themselves" },
		{ m->help == NULL || *m->help == '\0', "there is no help text" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].applies && n-- == 0)
			return all[i].sentence;
	return NULL;
}

const char *percpu_metric_advice(const struct percpu_metric *m, enum percpu_metric_kind kind,
				 size_t n)
{
	const struct percpu_kind_row *const row = percpu_kind_of((unsigned)kind);
	struct percpu_metric known;

	if (row == NULL || m == NULL || percpu_struct_read(&known, sizeof(known), m) != 0 ||
	    known.name == NULL)
		return NULL;
	return choose(&known, row, n);
}

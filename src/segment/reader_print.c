/* SPDX-License-Identifier: MIT */
/*
 * reader_print.c - a picture as text: for Prometheus, or as JSON. Both are lists of samples: a name,
 * labels and a number.
 */
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "reader.h"

/* What is being printed. */
struct printing {
	FILE *to;
	bool json;
	const char *last; /* the name whose type was printed last */
	size_t samples;
	struct percpu_reader_series s;
};

/* Whether exposition formats have the name without quotes. */
static bool is_bare(const char *name, bool colons)
{
	if (*name >= '0' && *name <= '9')
		return false;
	for (; *name != '\0'; name++)
		if (!(*name >= 'a' && *name <= 'z') && !(*name >= 'A' && *name <= 'Z') &&
		    !(*name >= '0' && *name <= '9') && *name != '_' && !(colons && *name == ':'))
			return false;
	return true;
}

/* Print a text between quotes, or, with quotes false, the text of a comment. */
static void put_escaped(const struct printing *p, const char *text, bool quotes)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			fputs("\\n", p->to);
		else if (*text == '\\' || (quotes && *text == '"'))
			fprintf(p->to, "\\%c", *text);
		else if ((unsigned char)*text < ' ' && p->json)
			fprintf(p->to, "\\u%04x", (unsigned)*text);
		else
			fputc(*text, p->to);
	}
}

static void put_quoted(const struct printing *p, const char *text)
{
	fputc('"', p->to);
	put_escaped(p, text, true);
	fputc('"', p->to);
}

/* Print a name and what is behind it, with quotes where they are needed. */
static void put_name(const struct printing *p, const char *name, const char *suffix, bool quotes)
{
	if (quotes)
		fputc('"', p->to);
	put_escaped(p, name, true);
	fputs(suffix, p->to);
	if (quotes)
		fputc('"', p->to);
}

static const char *type_of(const struct printing *p)
{
	return p->s.kind == PERCPU_METRIC_HISTOGRAM			? "histogram" :
	       strcmp(percpu_kind_of(p->s.kind)->ending, "_total") == 0 ? "counter" :
									  "gauge";
}

/* Print the help text and the type, before the first sample of a name. */
static void put_type(struct printing *p)
{
	const bool quotes = !is_bare(p->s.name, true);

	if (strcmp(p->last, p->s.name) == 0)
		return;
	p->last = p->s.name;
	fputs("# HELP ", p->to);
	put_name(p, p->s.name, "", quotes);
	fputc(' ', p->to);
	put_escaped(p, p->s.help, false);
	fputs("\n# TYPE ", p->to);
	put_name(p, p->s.name, "", quotes);
	fprintf(p->to, " %s\n", type_of(p));
}

static void put_label(const struct printing *p, const char *before, const char *name,
		      const char *value)
{
	fputs(before, p->to);
	put_name(p, name, "", p->json || !is_bare(name, false));
	fputs(p->json ? ": " : "=", p->to);
	put_quoted(p, value);
}

/* Print the labels of the series, and one more if name is not "". before is in front of the
 * first. Returns whether there was one. */
static bool put_labels(const struct printing *p, const char *before, const char *name,
		       const char *value)
{
	for (uint32_t k = 0; k < p->s.labels; k++, before = ", ")
		put_label(p, before, p->s.label_names[k], p->s.label_values[k]);
	if (*name != '\0')
		put_label(p, before, name, value);
	return p->s.labels != 0 || *name != '\0';
}

/* Print one number of the series, with a suffix or one more label that tells it from the others. */
static void put_sample(struct printing *p, const char *suffix, const char *label, const char *value,
		       const char *number)
{
	const bool quotes = !p->json && !is_bare(p->s.name, true);

	if (p->json) {
		fprintf(p->to, "%s{\"type\": \"%s\", \"name\": ", p->samples != 0 ? ",\n" : "",
			type_of(p));
		put_name(p, p->s.name, suffix, true);
		fputs(", \"labels\": {", p->to);
		(void)put_labels(p, "", label, value);
		/* JSON has no infinities. */
		fprintf(p->to,
			strpbrk(number, "IN") ? "}, \"value\": \"%s\"}" : "}, \"value\": %s}",
			number);
	} else {
		put_type(p);
		if (quotes)
			fputc('{', p->to);
		put_name(p, p->s.name, suffix, quotes);
		if (put_labels(p, quotes ? ", " : "{", label, value) || quotes)
			fputc('}', p->to);
		fprintf(p->to, " %s\n", number);
	}
	p->samples++;
}

/* Numbers as text. */
struct number {
	char text[32];
};

static struct number whole_number(uint64_t n)
{
	struct number t;

	snprintf(t.text, sizeof(t.text), "%" PRIu64, n);
	return t;
}

/* Write v with a point, whatever the program's locale has in its place. */
static void write_double(double v, struct number *out)
{
	const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	const locale_t before = uselocale(c);

	snprintf(out->text, sizeof(out->text), "%.17g", v);
	(void)uselocale(before);
	if (c != (locale_t)0)
		freelocale(c);
}

/* Return a number that reads as v again, or Prometheus's words for infinities and NaN. */
static struct number decimal_number(double v)
{
	struct number t;

	if (isfinite(v))
		write_double(v, &t);
	else
		strcpy(t.text, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
	return t;
}

/* Print a histogram. Its buckets end at powers of two: counts below these are exact. */
static void put_histogram(struct printing *p, const struct percpu_histogram_snapshot *h)
{
	for (int k = h->low; k <= h->high + 1; k++)
		put_sample(p, "_bucket", "le",
			   decimal_number(k > h->high ? INFINITY : ldexp(1, k)).text,
			   whole_number(k > h->high ?
						h->count :
						percpu_histogram_count_below(h, ldexp(1, k), NULL))
				   .text);
	put_sample(p, "_sum", "", "", decimal_number(h->sum).text);
	put_sample(p, "_count", "", "", whole_number(h->count).text);
}

/* Print the values of series i. Leave out those that it does not have. */
static void put_values(struct printing *p, const struct percpu_reader *r, size_t i)
{
	uint64_t counts[PERCPU_STATS_MAX_COMMIT];
	struct percpu_histogram_snapshot *h;
	double v, max;

	if (percpu_reader_counter(r, i, counts) == 0)
		put_sample(p, "", "", "", whole_number(counts[0]).text);
	else if (percpu_reader_number(r, i, &v) == 0)
		put_sample(p, "", "", "", decimal_number(v).text);
	else if (percpu_reader_extrema(r, i, &v, &max) == 0) {
		put_sample(p, "", "extreme", "min", decimal_number(v).text);
		put_sample(p, "", "extreme", "max", decimal_number(max).text);
	} else if (percpu_reader_stats(r, i, counts, p->s.n) == 0)
		for (uint32_t k = 0; k < p->s.n; k++)
			put_sample(p, "", p->s.field, p->s.fields[k], whole_number(counts[k]).text);
	else if (percpu_reader_histogram(r, i, &h) == 0) {
		put_histogram(p, h);
		percpu_histogram_snapshot_destroy(h);
	}
}

/* Print how often families had no room for a series, or refused a value. All series of a family say
 * so, and follow each other. */
static void put_families(struct printing *p, const struct percpu_reader *r)
{
	static const char *const names[] = { "family", "reason" };
	const char *last = "", *values[2];
	struct percpu_reader_series f;

	for (size_t i = 0; percpu_reader_series(r, i, &f) == 0; i++) {
		if (f.cap == 0 || strcmp(f.name, last) == 0)
			continue;
		last = values[0] = f.name;
		p->s = (struct percpu_reader_series){
			.name = "percpu_family_overflows_total",
			.help = "How often a call got the overflow.",
			.label_names = names,
			.label_values = values,
			.labels = 2,
			.kind = PERCPU_METRIC_COUNTER,
		};
		values[1] = "room";
		put_sample(p, "", "", "", whole_number(f.overflows).text);
		values[1] = "invalid";
		put_sample(p, "", "", "", whole_number(f.invalid).text);
	}
}

int percpu_reader_print(const struct percpu_reader *r, FILE *to, enum percpu_print_format format)
{
	struct printing p = { .to = to, .json = format == PERCPU_PRINT_JSON, .last = "" };

	if (r == NULL || to == NULL || !r->valid || format > PERCPU_PRINT_JSON)
		return -EINVAL;
	if (p.json)
		fputs("[\n", to);
	for (size_t i = 0; percpu_reader_series(r, i, &p.s) == 0; i++)
		put_values(&p, r, i);
	put_families(&p, r);
	if (p.json)
		fputs("\n]\n", to);
	return fflush(to) != 0 || ferror(to) ? -EIO : 0;
}

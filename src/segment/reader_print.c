/* SPDX-License-Identifier: MIT */
/*
 * reader_print.c - a picture as text: for Prometheus, or as JSON. Both are lists of samples: a name,
 * labels and a number.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reader.h"

/* What is being printed. */
struct printing {
	FILE *to;
	bool json;
	bool is_summary;  /* of histograms: all series of this name are summaries */
	const char *name; /* of the series that are being printed */
	const char *last; /* the name whose type was printed last */
	size_t samples;
	struct percpu_reader_series s;
	struct percpu_exemplar exemplar;
	bool has_exemplar; /* the next sample has it */
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
	return p->s.kind == PERCPU_METRIC_HISTOGRAM && p->is_summary	? "summary" :
	       p->s.kind == PERCPU_METRIC_HISTOGRAM			? "histogram" :
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

/* Print the exemplar of a sample. */
static void put_exemplar(struct printing *p)
{
	const struct percpu_exemplar *const x = &p->exemplar;

	p->has_exemplar = false;
	fputs(", \"exemplar\": {\"labels\": {", p->to);
	for (uint32_t k = 0; k < x->labels; k++)
		put_label(p, k != 0 ? ", " : "", x->text + x->label_names[k],
			  x->text + x->label_values[k]);
	fprintf(p->to, "}, \"value\": %s, \"time\": %" PRIu64 ".%09u}",
		percpu_number_of(x->value).text, (uint64_t)(x->time / PERCPU_SECOND),
		(unsigned)(x->time % PERCPU_SECOND));
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
		fprintf(p->to, strpbrk(number, "IN") ? "}, \"value\": \"%s\"" : "}, \"value\": %s",
			number);
		if (p->has_exemplar)
			put_exemplar(p);
		fputc('}', p->to);
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

/* Let the next sample have the latest exemplar of series i whose value is above low and not above
 * high, if there is one. */
static void take_exemplar(struct printing *p, const struct percpu_reader *r, size_t i, double low,
			  double high)
{
	struct percpu_exemplar x;
	int e = 0;

	for (size_t k = 0; e != -EINVAL && p->json; k++) {
		e = percpu_reader_exemplar(r, i, k, &x);
		if (e != 0 || !(x.value > low && x.value <= high) ||
		    (p->has_exemplar && x.time < p->exemplar.time))
			continue;
		p->exemplar = x;
		p->has_exemplar = true;
	}
}

static struct percpu_number whole_number(uint64_t n)
{
	struct percpu_number t;

	snprintf(t.text, sizeof(t.text), "%" PRIu64, n);
	return t;
}

/* Print how many observations are not above the bound. */
static void put_bucket(struct printing *p, double bound, uint64_t count)
{
	put_sample(p, "_bucket", "le", percpu_number_of(bound).text, whole_number(count).text);
}

/* Print the buckets up to each own bound. */
static void put_own_buckets(struct printing *p, const struct percpu_reader *r, size_t i,
			    const struct percpu_histogram_snapshot *h)
{
	double low = -INFINITY;
	uint64_t count = 0;

	for (uint32_t b = 0; b < h->n - 1; b++) {
		count += h->bucket[b].count;
		take_exemplar(p, r, i, low, h->bounds[b]);
		put_bucket(p, h->bounds[b], count);
		low = h->bounds[b];
	}
	take_exemplar(p, r, i, low, INFINITY);
}

/* Print the buckets up to each power of two: counts below these are exact. */
static void put_octaves(struct printing *p, const struct percpu_reader *r, size_t i,
			const struct percpu_histogram_snapshot *h)
{
	double low = -INFINITY;

	for (int k = h->low; k <= h->high; k++) {
		take_exemplar(p, r, i, low, ldexp(1, k));
		put_bucket(p, ldexp(1, k), percpu_histogram_count_below(h, ldexp(1, k), NULL));
		low = ldexp(1, k);
	}
	take_exemplar(p, r, i, low, INFINITY);
}

/* Print a histogram. A summary has no buckets. */
static void put_histogram(struct printing *p, const struct percpu_reader *r, size_t i,
			  const struct percpu_histogram_snapshot *h)
{
	if (h->bounds != NULL)
		put_own_buckets(p, r, i, h);
	else
		put_octaves(p, r, i, h);
	if (!p->is_summary)
		put_bucket(p, INFINITY, h->count);
	put_sample(p, "_sum", "", "", percpu_number_of(h->sum).text);
	put_sample(p, "_count", "", "", whole_number(h->count).text);
}

static bool is_for_each_owner(const struct printing *p)
{
	return (p->s.kind == PERCPU_METRIC_OWNED_GAUGE ||
		p->s.kind == PERCPU_METRIC_OWNED_FGAUGE) &&
	       (p->s.flags & PERCPU_OWNED_EACH) != 0;
}

/* Print what each owner has. Returns 0 or -errno. */
static int put_owners(struct printing *p, const struct percpu_reader *r, size_t i)
{
	const bool is_whole = p->s.kind == PERCPU_METRIC_OWNED_GAUGE;
	struct percpu_owned_value *row;
	size_t n;
	int e = percpu_reader_list_shown(r, i, &row, &n);

	if (e != 0)
		return e;
	for (size_t k = 0; k < n; k++)
		put_sample(p, "", PERCPU_OWNED_LABEL, row[k].name,
			   percpu_number_of(is_whole ? (double)row[k].value : row[k].fvalue).text);
	free(row);
	return 0;
}

/* Print the values of series i. Leave out those that it does not have. Returns 0 or -ENOMEM. */
static int put_values(struct printing *p, const struct percpu_reader *r, size_t i)
{
	uint64_t counts[PERCPU_STATS_MAX_COMMIT];
	struct percpu_histogram_snapshot *h;
	double v, max;
	int e = 0;

	if (p->s.kind != PERCPU_METRIC_HISTOGRAM)
		take_exemplar(p, r, i, -INFINITY, INFINITY);
	if (is_for_each_owner(p))
		e = put_owners(p, r, i);
	else if (percpu_reader_counter(r, i, counts) == 0)
		put_sample(p, "", "", "", whole_number(counts[0]).text);
	else if (percpu_reader_number(r, i, &v) == 0)
		put_sample(p, "", "", "", percpu_number_of(v).text);
	else if (percpu_reader_extrema(r, i, &v, &max) == 0) {
		put_sample(p, "", "extreme", "min", percpu_number_of(v).text);
		put_sample(p, "", "extreme", "max", percpu_number_of(max).text);
	} else if (percpu_reader_stats(r, i, counts, p->s.n) == 0) {
		for (uint32_t k = 0; k < p->s.n; k++)
			put_sample(p, "", p->s.field, p->s.fields[k], whole_number(counts[k]).text);
	} else {
		e = percpu_reader_histogram(r, i, &h);
		if (e == 0) {
			put_histogram(p, r, i, h);
			percpu_histogram_snapshot_destroy(h);
		}
	}
	p->has_exemplar = false; /* of a value that the picture does not have */
	return e == -ENOMEM ? e : 0;
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

/* Begin the series of a name, of which series i is the first. Some may be summaries, and others
 * histograms: then all are printed as histograms. */
static void begin_name(struct printing *p, const struct percpu_reader *r, size_t i)
{
	struct percpu_reader_series s = p->s;

	p->name = s.name;
	do
		p->is_summary = s.flags == PERCPU_HISTOGRAM_SUMMARY;
	while (p->is_summary && percpu_reader_series(r, ++i, &s) == 0 &&
	       strcmp(s.name, p->name) == 0);
}

int percpu_reader_print(const struct percpu_reader *r, FILE *to, enum percpu_print_format format)
{
	struct printing p = {
		.to = to, .json = format == PERCPU_PRINT_JSON, .name = "", .last = ""
	};
	int e = 0;

	if (r == NULL || to == NULL || !r->valid || format > PERCPU_PRINT_JSON)
		return -EINVAL;
	if (p.json)
		fputs("[\n", to);
	for (size_t i = 0; e == 0 && percpu_reader_series(r, i, &p.s) == 0; i++) {
		if (strcmp(p.name, p.s.name) != 0)
			begin_name(&p, r, i);
		e = put_values(&p, r, i);
	}
	if (e != 0)
		return e;
	put_families(&p, r);
	if (p.json)
		fputs("\n]\n", to);
	return fflush(to) != 0 || ferror(to) ? -EIO : 0;
}

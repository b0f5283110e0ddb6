/* SPDX-License-Identifier: MIT */
/*
 * percpu-show.c - show all metrics of a segment, with the counts of all processes: as a table,
 * as text for Prometheus (0.0.4), or as JSON. Metrics without a value are left out. One more
 * metric says how often each family had no room for a series.
 *
 *	percpu-show [--text | --json] SEGMENT
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <percpu/percpu.h>

static enum { TABLE, TEXT, JSON } format;
static struct percpu_reader_series s; /* the one being shown */

static void put_escaped(const char *text, const char *special)
{
	for (; *text != '\0'; text++) {
		if (*text == '\n')
			fputs("\\n", stdout);
		else if (strchr(special, *text))
			printf("\\%c", *text);
		else if ((unsigned char)*text < ' ' && format == JSON)
			printf("\\u%04x", (unsigned)*text);
		else
			putchar(*text);
	}
}

static void put_label(const char *before, const char *name, const char *value)
{
	printf(format == JSON ? "%s\"%s\": \"" : "%s%s=\"", before, name);
	put_escaped(value, "\\\"");
	putchar('"');
}

static const char *type(void)
{
	return s.kind == PERCPU_METRIC_HISTOGRAM				 ? "histogram" :
	       s.kind <= PERCPU_METRIC_FCOUNTER || s.kind == PERCPU_METRIC_STATS ? "counter" :
										   "gauge";
}

/* Print one value, and a suffix or one more label that tells it from the series' other values. */
static void put(const char *suffix, const char *name, const char *key, const char *value)
{
	static const char *separator = "", *last = "";
	const char *before = "{";

	if (format == TEXT && strcmp(last, s.name) != 0) {
		printf("# HELP %s ", s.name);
		put_escaped(s.help, "\\");
		printf("\n# TYPE %s %s\n", s.name, type());
	}
	last = s.name;
	if (format == TABLE)
		printf("%24s  ", value);
	else if (format == JSON)
		printf("%s{\"type\": \"%s\", \"name\": \"", separator, type());
	printf(format == JSON ? "%s%s\", \"labels\": " : "%s%s", s.name, suffix);
	for (uint32_t k = 0; k < s.labels; k++, before = ", ")
		put_label(before, s.label_names[k], s.label_values[k]);
	if (*name != '\0')
		put_label(before, name, key);
	fputs(s.labels > 0 || *name != '\0' ? "}" : format == JSON ? "{}" : "", stdout);
	if (format == JSON) /* JSON has no infinities */
		printf(strpbrk(value, "IN") ? ", \"value\": \"%s\"}" : ", \"value\": %s}", value);
	else
		printf(format == TEXT ? " %s\n" : "\n", value);
	separator = ",\n";
}

static const char *whole(uint64_t n)
{
	static char text[32];

	snprintf(text, sizeof(text), "%" PRIu64, n);
	return text;
}

/* Return a number that reads as v again, or Prometheus's words for infinities and NaN. */
static const char *decimal(double v)
{
	static char text[32];

	snprintf(text, sizeof(text), "%.17g", v);
	return isfinite(v) ? text : isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf";
}

/* Print a histogram. Its buckets end at powers of two, as counts below these are exact. */
static void put_histogram(const struct percpu_histogram_snapshot *h)
{
	for (int k = h->low; format != TABLE && k <= h->high + 1; k++)
		put("_bucket", "le", decimal(k > h->high ? INFINITY : ldexp(1, k)),
		    whole(k > h->high ? h->count :
					percpu_histogram_count_below(h, ldexp(1, k), NULL)));
	put("_sum", "", "", decimal(h->sum));
	put("_count", "", "", whole(h->count));
}

static void put_series(const struct percpu_reader *r, size_t i)
{
	uint64_t counts[PERCPU_STATS_MAX_COMMIT];
	struct percpu_histogram_snapshot *h;
	double v, max;

	if (percpu_reader_counter(r, i, counts) == 0)
		put("", "", "", whole(counts[0]));
	else if (percpu_reader_number(r, i, &v) == 0)
		put("", "", "", decimal(v));
	else if (percpu_reader_extrema(r, i, &v, &max) == 0) {
		put("", "extreme", "min", decimal(v));
		put("", "extreme", "max", decimal(max));
	} else if (s.n <= PERCPU_STATS_MAX_COMMIT && percpu_reader_stats(r, i, counts, s.n) == 0)
		for (uint32_t k = 0; k < s.n; k++)
			put("", s.field, s.fields[k], whole(counts[k]));
	else if (percpu_reader_histogram(r, i, &h) == 0) {
		put_histogram(h);
		percpu_histogram_snapshot_destroy(h);
	}
}

/* Print how often each family had no room. All series of a family say so, and follow each other. */
static void put_overflows(const struct percpu_reader *r)
{
	static const char *const labels[] = { "family" };
	const char *last = "";
	struct percpu_reader_series f;

	for (size_t i = 0; percpu_reader_series(r, i, &f) == 0; i++) {
		if (f.cap == 0 || strcmp(f.name, last) == 0)
			continue;
		last = f.name;
		s = (struct percpu_reader_series){
			.name = "percpu_family_overflows_total",
			.help = "How often there was no room for a series.",
			.label_names = labels,
			.label_values = &last,
			.labels = 1,
			.kind = PERCPU_METRIC_COUNTER
		};
		put("", "", "", whole(f.overflows));
	}
}

int main(int argc, char **argv)
{
	const char *const option = argc == 3 ? argv[1] : "", *const name = argv[argc - 1];
	struct percpu_reader_info info = { .missing = 0 };
	struct percpu_reader *r = NULL;
	int e;

	format = strcmp(option, "--text") == 0 ? TEXT :
		 strcmp(option, "--json") == 0 ? JSON :
						 TABLE;
	if (argc != (format == TABLE ? 2 : 3) || *name == '-')
		return fputs("usage: percpu-show [--text | --json] SEGMENT\n", stderr) < 0 ? 1 : 2;
	e = percpu_reader_open(name, &r);
	e = e != 0 ? e : percpu_reader_read(r);
	if (r == NULL)
		fprintf(stderr, "percpu-show: %s\n", percpu_error());
	else if (e != 0)
		fprintf(stderr, "percpu-show: %s: %s\n", name, percpu_error());
	else if (format == JSON)
		puts("[");
	for (size_t i = 0; e == 0 && percpu_reader_series(r, i, &s) == 0; i++)
		put_series(r, i);
	if (e == 0)
		put_overflows(r);
	if (e == 0 && format == JSON)
		puts("\n]");
	if (e == 0 && percpu_reader_info(r, &info) == 0 && info.missing != 0)
		fprintf(stderr, "percpu-show: %s: %s\n", name, percpu_error());
	percpu_reader_close(r);
	return e != 0 || fclose(stdout) != 0;
}

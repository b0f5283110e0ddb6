/* SPDX-License-Identifier: MIT */
/*
 * table.c - tables of declarations.
 */
#include "segment.h"

/* Declare the metric or the family of a row. Returns 0, or -errno and why. */
static int declare_row(struct percpu_segment *s, const void *row, struct percpu_reason *why)
{
	struct percpu_declaration d;
	struct percpu_metric m;

	if (percpu_struct_read(&d, sizeof(d), row) != 0)
		return percpu_reason_set(why, -EINVAL,
					 "a struct percpu_declaration has another size, or fields "
					 "that are not known");
	if (percpu_kind_of(d.kind) == NULL)
		return percpu_reason_set(why, -EINVAL, "%u is no kind of a metric",
					 (unsigned)d.kind);
	if (d.cap != 0)
		return percpu_segment_declare_family(s, &d, d.ret.family, why);
	m = percpu_declared_metric(&d);
	return percpu_segment_declare_metric(s, &m, d.kind,
					     (struct percpu_parameters){ .histogram = d.histogram,
									 .fields = d.fields,
									 .flags = d.flags },
					     d.ret.counter, why);
}

/* All rows have the size that the first row says. */
int percpu_segment_declare(struct percpu_segment *s, const struct percpu_declaration *table,
			   size_t n)
{
	struct percpu_reason why, told;
	int e = 0;

	if (s == NULL || (table == NULL && n != 0))
		return percpu_error_say(-EINVAL,
					s == NULL ? "the segment is NULL" : "the table is NULL");
	for (size_t i = 0; e == 0 && i < n; i++) {
		e = declare_row(s, (const char *)table + i * table->size, &why);
		if (e != 0) {
			(void)percpu_reason_set(&told, e, "row %zu: %s", i, why.text);
			(void)percpu_error_keep(e, &told);
		}
	}
	return e;
}

/* Declare the table. If that fails, close the segment. Returns 0 or -errno. */
static int declare_or_close(struct percpu_segment *s, const struct percpu_declaration *table,
			    size_t n)
{
	int e = percpu_segment_declare(s, table, n);

	if (e != 0)
		percpu_segment_close(s);
	return e;
}

int percpu_segment_open_table(const char *name, unsigned flags,
			      const struct percpu_segment_options *o,
			      const struct percpu_declaration *table, size_t n,
			      struct percpu_segment **ret)
{
	struct percpu_segment *s = NULL;
	int e;

	if (ret == NULL)
		return percpu_error_say(-EINVAL, "there is no place for the segment");
	e = percpu_segment_open(name, flags, o, &s);
	if (e != 0)
		return e;
	e = declare_or_close(s, table, n);
	/* The file may have no room for a row, or have another metric of its name. */
	if (e != 0 && percpu_segment_falls_back(flags, e) &&
	    percpu_segment_open_private(name, flags, o, &s) == 0)
		e = declare_or_close(s, table, n);
	if (e == 0)
		*ret = s;
	return e;
}

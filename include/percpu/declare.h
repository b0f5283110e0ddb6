/* SPDX-License-Identifier: MIT */
/*
 * declare.h - tables of the metrics and families of a segment.
 *
 * A program lists what it counts, and opens its segment and declares all of it by one call.
 */
#ifndef PERCPU_DECLARE_H
#define PERCPU_DECLARE_H

#include <percpu/segment.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: functions that return a declaration: everywhere. The others: any thread; not a signal
 * handler.
 * Ordering: none. A process that finds a metric finds its complete record.
 * Progress: functions that return a declaration are wait-free. The others take a lock of the
 * process, and may take one between processes, for which a call waits a second at most.
 */

struct percpu_family;

/** Where the handle of a metric goes: the member for its kind; for a family, that for families. For
 *  an info, set none. */
union percpu_declared {
	struct percpu_counter **counter;
	struct percpu_fcounter **fcounter;
	struct percpu_gauge **gauge;
	struct percpu_fgauge **fgauge;
	struct percpu_latest **latest;
	struct percpu_histogram **histogram;
	struct percpu_extrema **extrema;
	struct percpu_owned_gauge **owned_gauge;
	struct percpu_owned_fgauge **owned_fgauge;
	struct percpu_stats **stats;
	struct percpu_family **family;
};

/** A metric or a family (family.h) to declare. It may be constant. The functions below make one, and
 *  a program may set more of its fields: those up to labels are as in struct percpu_metric. */
struct percpu_declaration {
	size_t size; /* sizeof(struct percpu_declaration) */
	const char *name;
	const char *help;
	const char *unit;
	const char *const *label_names;
	const char *const *label_values;
	size_t labels;
	uint32_t kind;	/* enum percpu_metric_kind */
	uint32_t flags; /* of extrema and statistics; rule and flags of an owned gauge */
	size_t cap;	/* of a family: the most series beside the overflow; else 0 */
	const struct percpu_histogram_options *histogram; /* NULL: all defaults */
	const struct percpu_metric_fields *fields;	  /* of statistics */
	union percpu_declared ret;
};

/* Return a declaration without a place for the handle. */
PERCPU_INLINE struct percpu_declaration percpu_declaration_of(enum percpu_metric_kind kind,
							      const char *name, const char *help)
{
	struct percpu_declaration d;

	__builtin_memset(&d, 0, sizeof(d));
	d.size = sizeof(d);
	d.name = name;
	d.help = help;
	d.kind = (uint32_t)kind;
	return d;
}

/** Return the declaration of a metric. Its handle goes to *ret. */
PERCPU_INLINE struct percpu_declaration percpu_declare_counter(struct percpu_counter **ret,
							       const char *name, const char *help)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_COUNTER, name, help);

	d.ret.counter = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration percpu_declare_fcounter(struct percpu_fcounter **ret,
								const char *name, const char *help)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_FCOUNTER, name, help);

	d.ret.fcounter = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration percpu_declare_gauge(struct percpu_gauge **ret,
							     const char *name, const char *help)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_GAUGE, name, help);

	d.ret.gauge = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration percpu_declare_fgauge(struct percpu_fgauge **ret,
							      const char *name, const char *help)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_FGAUGE, name, help);

	d.ret.fgauge = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration percpu_declare_latest(struct percpu_latest **ret,
							      const char *name, const char *help)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_LATEST, name, help);

	d.ret.latest = ret;
	return d;
}

/** o may be NULL for all defaults. */
PERCPU_INLINE struct percpu_declaration
percpu_declare_histogram(struct percpu_histogram **ret, const char *name, const char *help,
			 const struct percpu_histogram_options *o)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_HISTOGRAM, name, help);

	d.histogram = o;
	d.ret.histogram = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration percpu_declare_extrema(struct percpu_extrema **ret,
							       const char *name, const char *help,
							       unsigned flags)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_EXTREMA, name, help);

	d.flags = flags;
	d.ret.extrema = ret;
	return d;
}

/** rule is as for percpu_segment_owned_gauge(). */
PERCPU_INLINE struct percpu_declaration percpu_declare_owned_gauge(struct percpu_owned_gauge **ret,
								   const char *name,
								   const char *help, unsigned rule)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_OWNED_GAUGE, name, help);

	d.flags = rule;
	d.ret.owned_gauge = ret;
	return d;
}

PERCPU_INLINE struct percpu_declaration
percpu_declare_owned_fgauge(struct percpu_owned_fgauge **ret, const char *name, const char *help,
			    unsigned rule)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_OWNED_FGAUGE, name, help);

	d.flags = rule;
	d.ret.owned_fgauge = ret;
	return d;
}

/** For a handle h of PERCPU_STATS(), pass PERCPU_STATS_RET(&h) as ret. */
PERCPU_INLINE struct percpu_declaration percpu_declare_stats(struct percpu_stats **ret,
							     const char *name, const char *help,
							     const struct percpu_metric_fields *f)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_STATS, name, help);

	d.fields = f;
	d.ret.stats = ret;
	return d;
}

/** Return the declaration of an info with these labels. */
PERCPU_INLINE struct percpu_declaration percpu_declare_info(const char *name, const char *help,
							    const char *const *label_names,
							    const char *const *label_values,
							    size_t labels)
{
	struct percpu_declaration d = percpu_declaration_of(PERCPU_METRIC_INFO, name, help);

	d.label_names = label_names;
	d.label_values = label_values;
	d.labels = labels;
	return d;
}

/** Return the declaration of a family of that kind, with these names of labels and this cap. */
PERCPU_INLINE struct percpu_declaration
percpu_declare_family(struct percpu_family **ret, enum percpu_metric_kind kind, const char *name,
		      const char *help, const char *const *label_names, size_t labels, size_t cap)
{
	struct percpu_declaration d = percpu_declaration_of(kind, name, help);

	d.label_names = label_names;
	d.labels = labels;
	d.cap = cap;
	d.ret.family = ret;
	return d;
}

/**
 * Declare the metrics and families of a table of n rows, one after the other.
 *
 * Returns 0; or, for the first row that fails, the error of the call for one metric, and the
 * sentence of percpu_error() begins with the number of the row, from 0. The rows before it are
 * declared, and their handles stored. -EINVAL is also for a kind that this library does not know.
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_segment_declare(struct percpu_segment *s, const struct percpu_declaration *table, size_t n);

/**
 * Open a segment, as percpu_segment_open(), and declare a table of n rows. If that fails, no segment
 * is open. percpu_error() says which row failed, and why.
 *
 * Returns as percpu_segment_open() and percpu_segment_declare().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_open_table(const char *name, unsigned flags,
							   const struct percpu_segment_options *o,
							   const struct percpu_declaration *table,
							   size_t n, struct percpu_segment **ret);

PERCPU_END_DECLS

#endif

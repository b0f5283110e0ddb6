/* SPDX-License-Identifier: MIT */
/*
 * kinds_owned.c - kinds of metrics in which each process has a share. A reset leaves them: a share
 * belongs to its owner.
 */
#include <stdio.h>

#include "segment.h"

static int rule_check(const char *name, const struct percpu_record_copy *asked,
		      const struct percpu_parameters *p, struct percpu_reason *why)
{
	(void)asked;
	return p->flags <= PERCPU_OWNED_RECENT ?
		       0 :
		       percpu_reason_set(why, -EINVAL, "%s: %u is no rule of an owned gauge", name,
					 p->flags);
}

static const char *name_of_rule(unsigned rule)
{
	switch (rule) {
	case PERCPU_OWNED_SUM:
		return "sum";
	case PERCPU_OWNED_MIN:
		return "least value";
	case PERCPU_OWNED_MAX:
		return "greatest value";
	default:
		return "most recent value";
	}
}

static void rule_write(unsigned rule, struct percpu_words *out)
{
	snprintf(out->text, sizeof(out->text), "an owned gauge that is the %s", name_of_rule(rule));
}

static void rule_describe_asked(const struct percpu_parameters *p, struct percpu_words *out)
{
	rule_write(p->flags, out);
}

/* Of integers. */

static int owned_gauge_open(struct percpu_segment *s, struct percpu_anchor *at,
			    const struct percpu_parameters *p, void *ret)
{
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	return o != NULL ? percpu_owned_gauge_open_at(o, at, p->flags, ret) : e;
}

static int owned_gauge_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	(void)fields;
	return o != NULL ? percpu_owned_gauge_attach(o, key, ret) : e;
}

static void owned_gauge_detach(void *handle)
{
	percpu_owned_gauge_detach(handle);
}

static unsigned owned_gauge_rule(const void *handle)
{
	return (unsigned)percpu_owned_gauge_rule(handle);
}

static void owned_gauge_describe(const void *handle, struct percpu_words *out)
{
	rule_write(owned_gauge_rule(handle), out);
}

static int owned_gauge_read(const void *handle, double *ret)
{
	int64_t level;
	int e = percpu_owned_gauge_fetch(handle, PERCPU_OWNED_LIVING, &level);

	if (e == 0)
		*ret = (double)level;
	return e;
}

const struct percpu_kind_row percpu_kind_owned_gauge = {
	.name = "an owned gauge",
	.ending = "",
	.series = percpu_series_of_gauges,
	.flags = ~0U,
	.in_families = true,
	.check = rule_check,
	.open = owned_gauge_open,
	.attach = owned_gauge_attach,
	.detach = owned_gauge_detach,
	.read_flags = owned_gauge_rule,
	.describe = owned_gauge_describe,
	.describe_asked = rule_describe_asked,
	.read_number = owned_gauge_read,
	.release = percpu_owned_free_at,
};

/* Of doubles. */

static int owned_fgauge_open(struct percpu_segment *s, struct percpu_anchor *at,
			     const struct percpu_parameters *p, void *ret)
{
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	return o != NULL ? percpu_owned_fgauge_open_at(o, at, p->flags, ret) : e;
}

static int owned_fgauge_attach(struct percpu_segment *s, uint64_t key, size_t fields, void *ret)
{
	int e = 0;
	struct percpu_owners *o = percpu_segment_owners(s, &e);

	(void)fields;
	return o != NULL ? percpu_owned_fgauge_attach(o, key, ret) : e;
}

static void owned_fgauge_detach(void *handle)
{
	percpu_owned_fgauge_detach(handle);
}

static unsigned owned_fgauge_rule(const void *handle)
{
	return (unsigned)percpu_owned_fgauge_rule(handle);
}

static void owned_fgauge_describe(const void *handle, struct percpu_words *out)
{
	rule_write(owned_fgauge_rule(handle), out);
}

static int owned_fgauge_read(const void *handle, double *ret)
{
	return percpu_owned_fgauge_fetch(handle, PERCPU_OWNED_LIVING, ret);
}

const struct percpu_kind_row percpu_kind_owned_fgauge = {
	.name = "an owned gauge of doubles",
	.ending = "",
	.series = percpu_series_of_gauges,
	.flags = ~0U,
	.in_families = true,
	.check = rule_check,
	.open = owned_fgauge_open,
	.attach = owned_fgauge_attach,
	.detach = owned_fgauge_detach,
	.read_flags = owned_fgauge_rule,
	.describe = owned_fgauge_describe,
	.describe_asked = rule_describe_asked,
	.read_number = owned_fgauge_read,
	.release = percpu_owned_free_at,
};

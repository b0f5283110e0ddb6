/* SPDX-License-Identifier: MIT */
/*
 * kinds_owned.c - kinds of metrics in which each process has a share. A reset leaves them: a share
 * belongs to its owner.
 */
#include <stdio.h>
#include <string.h>

#include "segment.h"

static int check_labels_of_owners(const char *name, const struct percpu_record_copy *asked,
				  struct percpu_reason *why)
{
	struct percpu_texts names = percpu_record_label_names(asked);
	struct percpu_text label;

	while (percpu_texts_next(&names, &label))
		if (label.n == sizeof(PERCPU_OWNED_LABEL) - 1 &&
		    memcmp(label.at, PERCPU_OWNED_LABEL, label.n) == 0)
			return percpu_reason_set(
				why, -EINVAL,
				"%s: no label of an owned gauge with PERCPU_OWNED_EACH is named "
				"%s: by that label the values of owners are told from each other",
				name, PERCPU_OWNED_LABEL);
	return 0;
}

static int rule_check(const char *name, const struct percpu_record_copy *asked,
		      const struct percpu_parameters *p, struct percpu_reason *why)
{
	if ((p->flags & ~PERCPU_OWNED_FLAGS) > PERCPU_OWNED_RECENT)
		return percpu_reason_set(why, -EINVAL, "%s: %u is no rule of an owned gauge", name,
					 p->flags);
	return p->flags & PERCPU_OWNED_EACH ? check_labels_of_owners(name, asked, why) : 0;
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
	snprintf(out->text, sizeof(out->text), "an owned gauge%s that is the %s%s",
		 rule & PERCPU_OWNED_EACH ? ", shown for each owner," : "",
		 name_of_rule(rule & ~PERCPU_OWNED_FLAGS),
		 rule & PERCPU_OWNED_KEEP ? " of all owners that ever were" : "");
}

static void rule_describe_asked(const struct percpu_parameters *p, struct percpu_words *out)
{
	rule_write(p->flags, out);
}

static void rule_describe(const void *handle, struct percpu_words *out)
{
	rule_write(percpu_owned_rule_and_flags(handle), out);
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

static int owned_gauge_read(const void *handle, double *ret)
{
	int64_t level;
	int e = percpu_owned_gauge_fetch(handle, percpu_owned_shown_of(handle), &level);

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
	.read_flags = percpu_owned_rule_and_flags,
	.describe = rule_describe,
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

static int owned_fgauge_read(const void *handle, double *ret)
{
	return percpu_owned_fgauge_fetch(handle, percpu_owned_shown_of(handle), ret);
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
	.read_flags = percpu_owned_rule_and_flags,
	.describe = rule_describe,
	.describe_asked = rule_describe_asked,
	.read_number = owned_fgauge_read,
	.release = percpu_owned_free_at,
};

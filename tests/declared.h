/* SPDX-License-Identifier: MIT */
/* declared.h - declarations of metrics, in tests that have a struct percpu_metric. */
#ifndef TESTS_DECLARED_H
#define TESTS_DECLARED_H

#include <percpu/family.h>

/** The fields of a declaration that are those of the metric. */
#define OF_METRIC(m)                                                                               \
	.name = (m).name, .help = (m).help, .unit = (m).unit, .label_names = (m).label_names,      \
	.label_values = (m).label_values, .labels = (m).labels

/** Declare a family with that cap. */
static inline int family_with_cap(struct percpu_segment *s, const struct percpu_declaration *d,
				  size_t cap, struct percpu_family **ret)
{
	struct percpu_declaration capped;

	if (d == NULL)
		return percpu_segment_family(s, NULL, ret);
	capped = *d;
	capped.cap = cap;
	return percpu_segment_family(s, &capped, ret);
}

#endif

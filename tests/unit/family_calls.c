/* SPDX-License-Identifier: MIT */
/* family_calls.c - see family_calls.h. */
#include "family_calls.h"

#include <stdio.h>
#include <unistd.h>

#include "../declared.h"
#include "../support.h"
#include "root_file.h"

struct percpu_segment *s, *t;

int open_both(void **state)
{
	(void)state;
	s = open_family_file(path, ALL);
	t = open_family_file(path, ALL);
	return 0;
}

int close_both(void **state)
{
	(void)state;
	percpu_segment_close(s);
	percpu_segment_close(t);
	s = t = NULL;
	return unlink(path);
}

struct percpu_segment *open_family_file(const char *path, unsigned flags)
{
	struct percpu_segment *s = NULL;

	assert_int_equal(percpu_segment_open(path, flags, NULL, &s), 0);
	return s;
}

int declare_family(struct percpu_segment *s, const char *name, unsigned kind, size_t cap,
		   struct percpu_family **ret)
{
	static const char *const labels[] = { "a" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = name,
					 .help = "What is counted.",
					 .label_names = labels,
					 .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d), OF_METRIC(m), .kind = kind };

	return family_with_cap(s, &d, cap, ret);
}

struct percpu_family *family_of(struct percpu_segment *s, size_t cap)
{
	struct percpu_family *f = NULL;

	if (declare_family(s, "f_total", PERCPU_METRIC_COUNTER, cap, &f) != 0)
		fprintf(stderr, "%s\n", percpu_error());
	return f;
}

struct percpu_counter *counter_of(struct percpu_family *f, const char *value)
{
	const char *const values[] = { value };
	struct percpu_counter *c = NULL;

	return percpu_family_counter(f, values, &c) == 0 ? c : NULL;
}

int64_t count_in(struct percpu_family *f, const char *value, int64_t add)
{
	struct percpu_counter *c = counter_of(f, value);

	if (c == NULL)
		return -1;
	percpu_counter_add(c, add);
	return (int64_t)percpu_counter_fetch(c);
}

int remove_value(struct percpu_family *f, const char *value)
{
	const char *const values[] = { value };

	return percpu_family_remove(f, values);
}

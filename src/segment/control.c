/* SPDX-License-Identifier: MIT */
/*
 * control.c - the control of a segment, at root 0 of its region: its creation, its version, and
 * which program made it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "segment.h"

/* The handle of a plan: the control, and what it gets if it is new. */
struct planned {
	struct percpu_block block;
	const struct percpu_making *making;
};

static struct percpu_segment_control *control_of(const struct percpu_block *b)
{
	return (struct percpu_segment_control *)percpu_block_bias(b);
}

/* CLOCK_BOOTTIME is another clock in each time namespace, so each counts as a boot of its own. */
uint64_t percpu_segment_boot(void)
{
	const uint64_t boot = percpu_boot_id();

	return boot != 0 ? boot ^ percpu_namespace("time") << 32 : 0;
}

static struct percpu_segment_time moment_in(uint64_t boot)
{
	return (struct percpu_segment_time){ percpu_clock_ns(CLOCK_REALTIME),
					     percpu_clock_ns(CLOCK_BOOTTIME), boot };
}

struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s)
{
	return moment_in(s->boot);
}

static void start_segment(struct percpu_block *b)
{
	const struct percpu_making *making = ((const struct planned *)b)->making;
	struct percpu_segment_control *c = control_of(b);

	c->version = PERCPU_SEGMENT_VERSION;
	c->started[1] = moment_in(percpu_segment_boot());
	c->generation = c->completed = 1;
	memcpy(c->program, making->program, sizeof(c->program));
}

static int adopt_segment(const struct percpu_block *found, struct percpu_plan *p)
{
	(void)p;
	return __atomic_load_n(&control_of(found)->version, __ATOMIC_RELAXED) ==
			       PERCPU_SEGMENT_VERSION ?
		       0 :
		       -EPROTO;
}

/* Find the control, or create it. The caller frees *ret. */
static int find_control(struct percpu_region *r, const struct percpu_making *making,
			struct percpu_block **ret)
{
	struct planned none = { .making = making };
	struct percpu_plan p = {
		.kind = PERCPU_KIND_SEGMENT,
		.size = sizeof(struct percpu_segment_control),
		.align = PERCPU_BLOCK_ALIGN,
		.handle = &none,
		.handle_size = sizeof(none),
		.start = start_segment,
		.adopt = adopt_segment,
	};
	int e = percpu_block_open(r, PERCPU_SEGMENT_ROOT, &p, ret);

	return e == -EEXIST ? -EBADMSG : e;
}

int percpu_control_make(struct percpu_region *r, const void *arg)
{
	const struct percpu_making *making = arg;
	struct percpu_block *b = NULL;
	int e = find_control(r, making, &b);

	free(b);
	if (e == 0)
		percpu_counting_announce(r);
	if (e == 0 && making->mode != 0 &&
	    fchmod(percpu_descriptor_kept(r), (mode_t)making->mode) != 0)
		e = percpu_errno();
	return e;
}

int percpu_control_open(struct percpu_segment *s, const struct percpu_making *making)
{
	struct percpu_block *b = NULL;
	int e = find_control(s->region, making, &b);

	if (e != 0)
		return e;
	s->control = control_of(b);
	s->control_key = percpu_region_key(s->region, b->base);
	free(b);
	return 0;
}

/* Programs. */

int percpu_program_read(const char *asked, struct percpu_making *ret, struct percpu_reason *why)
{
	const char *const name = asked != NULL ? asked : program_invocation_short_name;
	const size_t most = sizeof(ret->program), n = strnlen(name, most + 1);

	if (asked != NULL && (n == 0 || n > most))
		return percpu_reason_set(why, n == 0 ? -EINVAL : -ENAMETOOLONG,
					 "the name of a program has 1 to %zu bytes", most);
	if (asked != NULL && !percpu_text_is_utf8(asked, n))
		return percpu_reason_set(why, -EILSEQ, "the name of the program is not UTF-8");
	memset(ret->program, 0, most);
	memcpy(ret->program, name, (size_t)percpu_text_shown(name, n, most));
	return 0;
}

int percpu_control_check_program(const struct percpu_segment *s, const char *asked,
				 struct percpu_reason *why)
{
	const char *const has = s->control->program;

	return asked == NULL || strncmp(has, asked, sizeof(s->control->program)) == 0 ?
		       0 :
		       percpu_reason_set(why, -EEXIST,
					 "it is a segment of the program \"%.*s\", and not of "
					 "\"%s\": use another name",
					 (int)sizeof(s->control->program), has, asked);
}

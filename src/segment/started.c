/* SPDX-License-Identifier: MIT */
/*
 * started.c - when a segment, and the counts of a series, have started. CLOCK_REALTIME may be set,
 * and CLOCK_BOOTTIME starts from 0 with each boot. So a start has both times, and the boot.
 */
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define MOMENT_TRIES 1000 /* while other processes reset the segment, or change records */

uint64_t percpu_segment_age(const struct percpu_segment_time *then,
			    const struct percpu_segment_time *now)
{
	if (then->boot != 0 && then->boot == now->boot && then->boottime <= now->boottime)
		return now->boottime - then->boottime;
	return then->real < now->real ? now->real - then->real : 0;
}

/* Return when the generation started. control->started keeps the starts of two generations: a start
 * is overwritten when the second generation after it begins. */
static struct percpu_segment_time start_of(const struct percpu_segment *s, uint64_t *generation)
{
	const struct percpu_segment_control *c = s->control;
	const struct percpu_segment_time *from;
	struct percpu_segment_time t;
	int try = 0;

	do {
		*generation = __atomic_load_n(&c->generation, __ATOMIC_ACQUIRE);
		from = &c->started[*generation % 2];
		PERCPU_STEP("segment: generation read");
		t.real = __atomic_load_n(&from->real, __ATOMIC_RELAXED);
		t.boottime = __atomic_load_n(&from->boottime, __ATOMIC_RELAXED);
		t.boot = __atomic_load_n(&from->boot, __ATOMIC_RELAXED);
		percpu_full_fence();
	} while (__atomic_load_n(&c->generation, __ATOMIC_RELAXED) != *generation &&
		 ++try < MOMENT_TRIES);
	return t;
}

static void tell_moment(const struct percpu_segment_time *t, uint64_t generation,
			const struct percpu_segment_time *now, struct percpu_segment_start *ret)
{
	*ret = (struct percpu_segment_start){ .generation = generation,
					      .real = t->real,
					      .boottime = t->boottime,
					      .age = percpu_segment_age(t, now),
					      .this_boot = t->boot != 0 && t->boot == now->boot };
}

static int refuse_null(const struct percpu_segment *s)
{
	return percpu_error_say(-EINVAL, s == NULL ? "the segment is NULL" :
						     "there is no place for the start");
}

int percpu_segment_started(struct percpu_segment *s, struct percpu_segment_start *ret)
{
	struct percpu_segment_time t, now;
	uint64_t generation;

	if (s == NULL || ret == NULL)
		return refuse_null(s);
	t = start_of(s, &generation);
	now = percpu_segment_now(s);
	tell_moment(&t, generation, &now, ret);
	return 0;
}

/* Find when the series was declared. Returns 0 or -errno. */
static int find_declared(struct percpu_segment *s, const struct percpu_record_copy *asked,
			 struct percpu_segment_time *ret)
{
	bool found = false, same = false;
	int e = percpu_directory_refresh(s);
	uint64_t changes;

	for (int try = 0; e == 0 && !same && try < MOMENT_TRIES; try++) {
		changes = __atomic_load_n(&s->control->changes, __ATOMIC_ACQUIRE);
		percpu_process_lock();
		found = percpu_series_find(s, asked) != NULL &&
			s->copy.head.state == PERCPU_RECORD_IN_USE;
		*ret = s->copy.head.declared;
		percpu_process_unlock();
		PERCPU_STEP("moment: looked");
		same = percpu_directory_is_unchanged(s, changes);
	}
	if (e == 0 && !same)
		e = -EAGAIN;
	return e == 0 && !found ? -ENOENT : e;
}

int percpu_segment_series_started(struct percpu_segment *s, const struct percpu_metric *m,
				  struct percpu_segment_start *ret)
{
	struct percpu_segment_time t = { 0, 0, 0 }, anew, now;
	struct percpu_record_copy *asked;
	struct percpu_reason why;
	uint64_t generation;
	int e;

	if (s == NULL || ret == NULL)
		return refuse_null(s);
	asked = malloc(sizeof(*asked));
	e = asked == NULL ? percpu_reason_set(&why, -ENOMEM, "no memory for a metric") :
			    percpu_metric_read(m, NULL, PERCPU_METRIC_GAUGE, asked, &why);
	if (e == 0) {
		e = find_declared(s, asked, &t);
		if (e != 0)
			(void)percpu_reason_set(&why, e, "%s: %s", m->name,
						e == -ENOENT ? "there is no such series" :
							       "the segment could not be read");
	}
	free(asked);
	if (e != 0)
		return percpu_error_keep(e, &why);
	anew = start_of(s, &generation);
	now = percpu_segment_now(s);
	tell_moment(percpu_segment_age(&anew, &now) < percpu_segment_age(&t, &now) ? &anew : &t,
		    generation, &now, ret);
	return 0;
}

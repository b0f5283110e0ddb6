/* SPDX-License-Identifier: MIT */
/*
 * operations_group.c - updates of two objects of a group of statistics in the shared region. The
 * first words of the model are those of the first object, and the next ones those of the second.
 */
#define _GNU_SOURCE
#include "stepping.h"

#include <string.h>

#include <percpu/stats_group.h>
#include <percpu/status.h>

#include "../support.h"

#define GROUP_WIDE 8 /* fields of the groups whose objects no store stores */

static struct percpu_stats_group *twos, *fours, *wide;

static struct model_result done(int code)
{
	return (struct model_result){ code, MODEL_UNSET };
}

static struct model_result run_twos(const struct model_case *c)
{
	const uint64_t *n = (const uint64_t *)c->n;

	return done(percpu_stats_group_update_both(twos, 2, n, 0, n + 2, 2));
}

static struct model_result run_fours(const struct model_case *c)
{
	const uint64_t *n = (const uint64_t *)c->n;

	return done(percpu_stats_group_update_both(fours, 2, n, 0, n + 4, 4));
}

/* Of a group of many fields both objects get the same. */
static struct model_result run_wide(const struct model_case *c)
{
	const uint64_t *n = (const uint64_t *)c->n;

	return done(percpu_stats_group_update_slow(wide, 2, n, 0, n, GROUP_WIDE));
}

static struct model_result run_twos_open(const struct model_case *c)
{
	return run_twos(c);
}

const struct stepping_operation stepping_group[] = {
	{ "group update of 2 and 2", MEMORY_SUMS, MODEL_ADD4, run_twos },
	{ "group update of 4 and 4", MEMORY_SUMS, MODEL_ADD8, run_fours },
	{ "group update of 8 and 8", MEMORY_SUMS, MODEL_ADD8, run_wide },
	{ "group update of 2 and 2, one is open", MEMORY_SUMS, MODEL_ADD4, run_twos_open },
	{ NULL, MEMORY_SUMS, MODEL_ADD, NULL },
};

void stepping_make_group(struct percpu_region *r)
{
	assert_int_equal(percpu_stats_group_create_in(r, 16, 1, 3, &twos), 0);
	assert_int_equal(percpu_stats_group_create_in(r, 32, 1, 3, &fours), 0);
	assert_int_equal(percpu_stats_group_create_in(r, GROUP_WIDE * 8, 1, 3, &wide), 0);
}

/* Let an update of both objects be open on each CPU, as if its thread had been killed in it. */
void stepping_fill_group(const struct stepping_operation *o)
{
	struct percpu_group_lane *l;
	uint64_t *first, *second;

	for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus && o->run == run_twos_open;
	     cpu++) {
		l = (struct percpu_group_lane *)(twos->block.base + cpu * twos->block.stride +
						 (*twos->bank & twos->banks));
		if ((l->turn ^ l->names) & 1)
			continue;
		first = (uint64_t *)((char *)l + twos->head + 2 * twos->record);
		second = (uint64_t *)((char *)l + twos->head);
		memcpy(l->old, first, 16);
		memcpy(l->old + 2, second, 16);
		l->names = percpu_group_names(2, 0) | ((l->turn + 1) & 1);
		first[0]++, second[1]++;
	}
}

static void read_both(const struct percpu_stats_group *g, int64_t *out)
{
	uint64_t all[3 * GROUP_WIDE];

	if (percpu_stats_group_fetch(g, 0, 3, all) != 0) {
		out[0] = INT64_MIN; /* in no model */
		return;
	}
	memcpy(out, all + 2 * g->words, g->words * 8);
	if (g != wide)
		memcpy(out + g->words, all, g->words * 8);
	else if (memcmp(all, all + 2 * g->words, g->words * 8) != 0)
		out[0] = INT64_MIN;
}

bool stepping_read_group(const struct stepping_operation *o, struct model_lane *out)
{
	if (o->run == run_twos || o->run == run_twos_open)
		read_both(twos, out->word);
	else if (o->run == run_fours)
		read_both(fours, out->word);
	else if (o->run == run_wide)
		read_both(wide, out->word);
	else
		return false;
	return true;
}

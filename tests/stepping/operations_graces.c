/* SPDX-License-Identifier: MIT */
/*
 * operations_graces.c - sections of grace periods, by the exported copies of the inline functions,
 * and by the functions that these call when their sequence was aborted.
 */
#include "stepping.h"

#include <percpu/calls.h>

#include "../support.h"
#include "owners/grace.h"

static struct percpu_grace *plain, *checked; /* checked ones take the slow path in all calls */

void stepping_make_graces(void)
{
	assert_int_equal(percpu_grace_create(0, &plain), 0);
	assert_int_equal(percpu_grace_create(0, &checked), 0);
	checked->in.cell = NULL;
}

static int32_t sections(struct percpu_grace *g)
{
	return (int32_t)percpu_participants_sum(&percpu_grace_handle(g)->part, 0);
}

/* Judge whether the sections changed by n; another section may come between. */
static struct model_result moved_by(struct percpu_grace *g, int32_t before, int32_t n, int result)
{
	int32_t by = sections(g) - before;

	return (struct model_result){ result != 0 || (by != n && by != 2 * n), MODEL_UNSET };
}

static struct model_result run_enter(const struct model_case *c)
{
	int32_t before = sections(plain);

	(void)c;
	return moved_by(plain, before, 1, percpu_grace_enter_call(plain) - (int)plain->in.tag);
}

static struct model_result run_exit(const struct model_case *c)
{
	int32_t before = sections(plain);

	(void)c;
	return moved_by(plain, before, -1, percpu_grace_exit_call(plain, (int)plain->in.tag));
}

static struct model_result run_enter_slow(const struct model_case *c)
{
	int32_t before = sections(checked);

	(void)c;
	return moved_by(checked, before, 1,
			percpu_grace_enter_call(checked) - (int)checked->in.tag);
}

static struct model_result run_exit_slow(const struct model_case *c)
{
	int32_t before = sections(checked);

	(void)c;
	return moved_by(checked, before, -1, percpu_grace_exit_call(checked, (int)checked->in.tag));
}

const struct stepping_operation stepping_graces[] = {
	{ "grace enter", MEMORY_PRIVATE, MODEL_ADD, run_enter },
	{ "grace exit", MEMORY_PRIVATE, MODEL_ADD, run_exit },
	{ "grace enter, slow", MEMORY_PRIVATE, MODEL_ADD, run_enter_slow },
	{ "grace exit, slow", MEMORY_PRIVATE, MODEL_ADD, run_exit_slow },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

/* SPDX-License-Identifier: MIT */
/*
 * operations_refs.c - reference counts, by the exported copies of the inline functions, and by the
 * functions that these call when their sequence was aborted.
 */
#include "stepping.h"

#include <percpu/calls.h>

#include "../support.h"

static struct percpu_ref *ref;

static void never(struct percpu_ref *r, void *arg)
{
	(void)r, (void)arg;
}

void stepping_make_refs(void)
{
	assert_int_equal(percpu_ref_create(never, NULL, 0, &ref), 0);
}

/* Judge whether the count changed by n; another update may come between. */
static struct model_result moved(int64_t before, int64_t n, bool right)
{
	int64_t by = percpu_ref_fetch(ref) - before;

	return (struct model_result){ !right || (by != n && by != 2 * n), MODEL_UNSET };
}

static struct model_result run_get(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, 1, percpu_ref_get_call(ref) == 0);
}

static struct model_result run_get_many(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, 3, percpu_ref_get_many_call(ref, 3) == 0);
}

static struct model_result run_put(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, -1, percpu_ref_put_call(ref) == 0);
}

static struct model_result run_put_many(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, -3, percpu_ref_put_many_call(ref, 3) == 0);
}

static struct model_result run_tryget(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, 1, percpu_ref_tryget_call(ref));
}

static struct model_result run_tryget_many(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, 3, percpu_ref_tryget_many_call(ref, 3));
}

static struct model_result run_tryget_live(const struct model_case *c)
{
	int64_t before = percpu_ref_fetch(ref);

	(void)c;
	return moved(before, 1, percpu_ref_tryget_live_call(ref));
}

const struct stepping_operation stepping_refs[] = {
	{ "ref get", MEMORY_PRIVATE, MODEL_ADD, run_get },
	{ "ref get_many", MEMORY_PRIVATE, MODEL_ADD, run_get_many },
	{ "ref put", MEMORY_PRIVATE, MODEL_ADD, run_put },
	{ "ref put_many", MEMORY_PRIVATE, MODEL_ADD, run_put_many },
	{ "ref tryget", MEMORY_PRIVATE, MODEL_ADD, run_tryget },
	{ "ref tryget_many", MEMORY_PRIVATE, MODEL_ADD, run_tryget_many },
	{ "ref tryget_live", MEMORY_PRIVATE, MODEL_ADD, run_tryget_live },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

/* SPDX-License-Identifier: MIT */
/*
 * operations_values.c - operations on doubles and other values, in a shared region.
 */
#include "stepping.h"

#include <string.h>

#include <percpu/calls.h>

#include "../support.h"

static struct percpu_fcounter *fcounter;
static struct percpu_fcounter_array *farray;

void stepping_make_values(struct percpu_region *r)
{
	assert_int_equal(percpu_fcounter_create_in(r, &fcounter), 0);
	assert_int_equal(percpu_fcounter_array_create_in(r, 2, &farray), 0);
}

static struct model_result run_fcounter(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_add(fcounter, (double)c->n[0]), MODEL_UNSET };
}

static struct model_result run_farray(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_array_add(farray, 1, (double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_fcounter_call(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_add_call(fcounter, (double)c->n[0]),
				      MODEL_UNSET };
}

static struct model_result run_farray_call(const struct model_case *c)
{
	return (struct model_result){ percpu_fcounter_array_add_call(farray, 1, (double)c->n[0]),
				      MODEL_UNSET };
}

bool stepping_read_values(const struct stepping_operation *o, struct model_lane *out)
{
	if (o->run == run_fcounter || o->run == run_fcounter_call)
		out->word[0] = (int64_t)percpu_fcounter_fetch(fcounter);
	else if (o->run == run_farray || o->run == run_farray_call)
		out->word[0] = (int64_t)percpu_fcounter_array_fetch(farray, 1);
	else
		return false;
	return true;
}

const struct stepping_operation stepping_values[] = {
	{ "counter of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter },
	{ "array of doubles, add", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray },
	{ "counter of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_fcounter_call },
	{ "array of doubles, called", MEMORY_SUMS, MODEL_ADD_WHOLE, run_farray_call },
	{ NULL, MEMORY_SUMS, MODEL_ADD_WHOLE, NULL },
};

/* SPDX-License-Identifier: MIT */
/*
 * model_group.h - the part of the model that is about groups: lanes with two banks, each a
 * struct percpu_group_lane with three records.
 *
 * The real sequence leaves a record half changed while its update is open. So lanes are compared by
 * their valid words: in a record of an open update those that were saved.
 */
#ifndef TESTS_MODEL_GROUP_H
#define TESTS_MODEL_GROUP_H

#include "model.h"

/** Return whether the operation is one of groups. */
static inline bool model_is_group(enum model_op op)
{
	return op >= MODEL_GROUP_UPDATE2 && op <= MODEL_GROUP_UNDO;
}

/** As the functions of model.h, for these operations. */
void model_fill_group(struct model_lane *lane, enum model_op op, uint64_t *random);
void model_choose_group(struct model_case *c, bool refuse, uint64_t *random);
struct model_result model_apply_group(struct model_lane *lane, const struct model_case *c);

/** Replace each bank by its valid words, and whether an update is open, if that matters. */
void model_clear_group(struct model_lane *lane, enum model_op op);

#endif

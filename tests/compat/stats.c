/* SPDX-License-Identifier: MIT */
/*
 * stats.c - statistics by type and field, in C and C++: updates of one field, and of as many as
 * possible; objects of another unit; and uses that must not compile, also of variables with a copy
 * per CPU. headers.sh compiles it.
 */
#include <percpu/segment.h>
#include <percpu/variable.h>

#include "stats.h"

struct full {
	uint64_t field[PERCPU_STATS_MAX_COMMIT];
};

struct larger {
	uint64_t field[PERCPU_STATS_MAX_COMMIT + 1];
};

/* Fields of the same size as one of statistics, which are none. */
struct others {
	uint64_t right;
	double number;
	int64_t level;
	void *pointer;
	uint64_t list[1];
	struct {
		uint64_t in;
	} inner;
};

struct packed {
	uint32_t half;
	uint64_t field;
} __attribute__((packed));
static PERCPU_STATS(struct packed) packed __attribute__((unused));

/* Variables that are no uint64_t. */
static PERCPU_VARIABLE(uint32_t, half);
static PERCPU_VARIABLE(double, number);

/* Names of fields: as many as the struct has, one less, and one more. */
static const char *const names[PERCPU_STATS_MAX_COMMIT] = { "a" };
static const char *const names_but_one[PERCPU_STATS_MAX_COMMIT - 1]
	__attribute__((unused)) = { "a" };
static const char *const names_and_one[PERCPU_STATS_MAX_COMMIT + 1]
	__attribute__((unused)) = { "a" };
static const struct percpu_metric_fields fields = PERCPU_METRIC_FIELDS(struct full, "l", names);

/* A second declaration with the same type. */
extern PERCPU_STATS(struct full) full;
PERCPU_STATS(struct full) full;

static int in_two_units(void)
{
	struct cache cache = { "a", NULL };
	struct hits now;
	int e = cache_create(&cache, &all_hits);

	if (e != 0)
		return 1;
	PERCPU_STATS_ADD(cache.hits, 0, misses, 3);
	e = cache_hit(&cache, all_hits, 100);
	if (e != 0 || PERCPU_STATS_FETCH(cache.hits, 0, 1, &now) != 0 || now.hits != 1 ||
	    now.misses != 3 || now.size[0] != 0 || now.size[1] != 100)
		return 1;
	if (PERCPU_STATS_FETCH_ZERO(all_hits, 0, 1, &now) != 0 || now.hits != 1 ||
	    now.misses != 0 || PERCPU_STATS_KEY(all_hits) != 0)
		return 1;
	PERCPU_STATS_DETACH(all_hits);
	PERCPU_STATS_DESTROY(cache.hits);
	return 0;
}

/* Each argument is evaluated once, and all of 16 values are added. */
static int updates_by_field(void)
{
	PERCPU_STATS(struct full) many[2] = { NULL, NULL }, *next = many;
	uint64_t n = 1, sum = 0;
	struct full now;
	size_t i = 0;
	int e = PERCPU_STATS_CREATE(next++, 2, 0);

	if (e != 0 || next != many + 1)
		return 1;
	e = PERCPU_STATS_UPDATE(*--next, i++, .field[0] = n++, .field[1] = n++, .field[2] = n++,
				.field[3] = n++, .field[4] = n++, .field[5] = n++, .field[6] = n++,
				.field[7] = n++, .field[8] = n++, .field[9] = n++, .field[10] = n++,
				.field[11] = n++, .field[12] = n++, .field[13] = n++,
				.field[14] = n++, .field[63] = n++);
	if (e != 0 || i != 1 || next != many || n != 17 ||
	    PERCPU_STATS_FETCH(many[0], 0, 1, &now) != 0)
		return 1;
	for (size_t k = 0; k < PERCPU_STATS_MAX_COMMIT; k++)
		sum += now.field[k] * (k + 1);
	PERCPU_STATS_DESTROY(many[0]);
	/* 1*1 + 2*2 + ... + 15*15, and 16*64. */
	return sum != 1240 + 1024;
}

/* A call that fails leaves the handle alone. */
static int refused_at_run_time(void)
{
	PERCPU_STATS(struct larger) none = NULL;

	return PERCPU_STATS_CREATE(&none, 1, PERCPU_STATS_WHOLE) != -E2BIG || none != NULL ||
	       PERCPU_STATS_OF(none) != NULL;
}

int main(void)
{
	PERCPU_STATS(struct larger) larger;
	PERCPU_STATS(struct others) others;
	const struct full delta = { { 1, 2 } };
	struct full now;
	struct larger out;
	int e = PERCPU_STATS_CREATE(&full, 1, 0);

	if (e != 0)
		return 1;
	e = PERCPU_STATS_CREATE(&larger, 1, 0);
	if (e != 0)
		return 1;
	e = PERCPU_STATS_CREATE(&others, 1, 0);
	if (e != 0)
		return 1;
	e = PERCPU_STATS_UPDATE_ALL(full, 0, &delta);
	if (e != 0 || PERCPU_STATS_SNAPSHOT(full, 0, 1, &now) != 0 || now.field[1] != 2)
		return 1;
	PERCPU_STATS_ADD(larger, 0, field[64], 3);
	PERCPU_STATS_ADD(others, 0, right, 1);
	PERCPU_STATS_ADD(others, 0, list[0], 1);
	PERCPU_STATS_ADD(others, 0, inner.in, 1);
#ifdef REFUSED_LARGER /* "an update adds to at most PERCPU_STATS_MAX_COMMIT fields" */
	e = PERCPU_STATS_UPDATE_ALL(larger, 0, &out);
#endif
#ifdef REFUSED_UPDATE_OF_LARGER /* "an update adds to at most PERCPU_STATS_MAX_COMMIT fields" */
	e = PERCPU_STATS_UPDATE(larger, 0, .field[0] = 1);
#endif
#ifdef REFUSED_ANOTHER_STRUCT /* C: "a pointer to the struct of these statistics" */
	e = PERCPU_STATS_UPDATE_ALL(full, 0, &out);
#endif
#ifdef REFUSED_SNAPSHOT_OF_ANOTHER /* C: "a pointer to the struct of these statistics" */
	e = PERCPU_STATS_SNAPSHOT(full, 0, 1, &out);
#endif
#ifdef REFUSED_HANDLE_OF_ANOTHER /* in C a warning, as for any pointer of another type */
#pragma GCC diagnostic error "-Wincompatible-pointer-types"
	larger = full;
#endif
#ifdef REFUSED_CREATE_BY_VALUE
	e = PERCPU_STATS_CREATE(full, 1, 0);
#endif
#ifdef REFUSED_ADDRESS_OF_HANDLE
	PERCPU_STATS_ADD(&full, 0, field[0], 1);
#endif
#ifdef REFUSED_NO_FIELD
	PERCPU_STATS_ADD(others, 0, wrong, 1);
#endif
#ifdef REFUSED_DOUBLE /* "a field of statistics is a uint64_t" */
	PERCPU_STATS_ADD(others, 0, number, 1);
#endif
#ifdef REFUSED_SIGNED /* "a field of statistics is a uint64_t" */
	PERCPU_STATS_ADD(others, 0, level, 1);
#endif
#ifdef REFUSED_POINTER /* "a field of statistics is a uint64_t" */
	PERCPU_STATS_ADD(others, 0, pointer, 1);
#endif
#ifdef REFUSED_WITHIN_A_WORD
	PERCPU_STATS_ADD(packed, 0, field, 1);
#endif
#ifdef REFUSED_UPDATE_OF_PACKED /* "the struct of statistics is not packed" */
	e = PERCPU_STATS_UPDATE(packed, 0, .field = 1);
#endif
#ifdef REFUSED_FEWER_NAMES /* "statistics have one name per field of the struct" */
	const struct percpu_metric_fields fewer =
		PERCPU_METRIC_FIELDS(struct full, "l", names_but_one);
#endif
#ifdef REFUSED_MORE_NAMES /* "statistics have one name per field of the struct" */
	const struct percpu_metric_fields more =
		PERCPU_METRIC_FIELDS(struct full, "l", names_and_one);
#endif
#ifdef REFUSED_ARRAY /* "a field of statistics is a uint64_t" */
	PERCPU_STATS_ADD(others, 0, list, 1);
#endif
#ifdef REFUSED_STRUCT /* "a field of statistics is a uint64_t" */
	PERCPU_STATS_ADD(others, 0, inner, 1);
#endif
#ifdef REFUSED_UPDATE_OF_DOUBLE /* "a field of statistics is a uint64_t" */
	e = PERCPU_STATS_UPDATE(others, 0, .right = 1, .number = 1);
#endif
#ifdef REFUSED_UPDATE_OF_SIGNED /* "a field of statistics is a uint64_t" */
	e = PERCPU_STATS_UPDATE(others, 0, .level = 1, .right = 1);
#endif
#ifdef REFUSED_UPDATE_BY_POINTER
	e = PERCPU_STATS_UPDATE(full, 0, &delta);
#endif
#ifdef REFUSED_ADD_TO_HALF /* C: "PERCPU_VARIABLE_ADD() and _SUM() take a uint64_t" */
	PERCPU_VARIABLE_ADD(half, 1);
#endif
#ifdef REFUSED_SUM_OF_DOUBLES /* C: "PERCPU_VARIABLE_ADD() and _SUM() take a uint64_t" */
	e = PERCPU_VARIABLE_SUM(number) != 0;
#endif
	if (e != 0 || *PERCPU_VARIABLE_PTR(half, 0) != 0 || *PERCPU_VARIABLE_PTR(number, 0) > 0)
		return 1;
	if (PERCPU_STATS_FETCH(larger, 0, 1, &out) != 0 || out.field[64] != 3)
		return 1;
	PERCPU_STATS_DESTROY(full);
	PERCPU_STATS_DESTROY(larger);
	PERCPU_STATS_DESTROY(others);
	return fields.n != PERCPU_STATS_MAX_COMMIT || in_two_units() || updates_by_field() ||
	       refused_at_run_time();
}

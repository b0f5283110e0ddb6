/* SPDX-License-Identifier: MIT */
/*
 * check.c - a program with every inline operation, which judges its own
 * records. C and C++; with -DSECOND, a further unit that has the same inline
 * function. records.sh builds it in many ways.
 *
 * -DPLANTED=1 to 3 adds a record that is wrong: a handler without signature,
 * one inside its sequence, one that is not code.
 */
#include <stdio.h>

#include <percpu/percpu.h>

#ifdef __cplusplus
#define INLINE inline
#else
#define INLINE static inline
#endif

/* What the operations are on. */
struct objects {
	struct percpu_local *local;
	struct percpu_counter *counter;
	struct percpu_counter_array *array;
	struct percpu_stats *stats;
	struct percpu_compact *compact;
	struct percpu_wbuf *wbuf;
	size_t n;
};

INLINE void every_local_operation(struct percpu_local *l)
{
	int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, v;
	void *item;

	(void)percpu_local_add(l, n[0]);
	(void)percpu_local_add_return(l, n[0], &v);
	(void)percpu_local_add_limit(l, n[0], n[7], &v);
	(void)percpu_local_store(l, n[0]);
	(void)percpu_local_cmpxchg(l, n[0], n[1], &v);
	(void)percpu_local_xchg(l, n[0], &v);
	(void)percpu_local_push(l, 8, &n[0]);
	(void)percpu_local_pop(l, &item);
	(void)percpu_local_copy(l, 7, (const uint64_t *)n, 8);
}

INLINE void every_operation(const struct objects *o)
{
	const int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const uint64_t u[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	uint64_t cell = 0;
	const struct percpu_wbuf_entry adds[4] = {
		{ &cell, 1 }, { &cell, 2 }, { &cell, 3 }, { &cell, 4 }
	};

	every_local_operation(o->local);
	percpu_counter_add(o->counter, n[0]);
	percpu_counter_array_add(o->array, 0, n[0]);
	percpu_counter_array_add2(o->array, 0, n);
	percpu_counter_array_add4(o->array, 0, n);
	percpu_counter_array_add8(o->array, 0, n);
	percpu_stats_add(o->stats, 0, 0, n[0]);
	(void)percpu_stats_update(o->stats, 0, 0, u, 2);
	(void)percpu_stats_update(o->stats, 0, 0, u, 4);
	(void)percpu_stats_update(o->stats, 0, 0, u, 8);
	percpu_compact_add(o->compact, 0, n[0]);
	(void)percpu_wbuf_add(o->wbuf, &cell, 1);
	(void)percpu_wbuf_add_n(o->wbuf, adds, 2);
	(void)percpu_wbuf_add_n(o->wbuf, adds, 4);
	(void)percpu_wbuf_add_n(o->wbuf, adds, o->n);
}

void second_unit(const struct objects *o);

#ifdef SECOND

void second_unit(const struct objects *o)
{
	every_operation(o);
}

#else

#ifdef __cplusplus
extern "C" {
#endif
#include "records.h"
#ifdef __cplusplus
}
#endif

/* So that the compiler does not know what it is. */
static const struct objects *volatile objects;

static int complain(const char *what, size_t i)
{
	printf("record %u: %s\n", (unsigned)i, what);
	return 1;
}

#ifdef PLANTED
static void code(void)
{
	puts("not executed, but longer than the sequence that it is said to be");
}

static int data;

__attribute__((section("__rseq_cs"),
	       used)) static struct record planted = { 0, 0, (uintptr_t)&code, 4,
						       PLANTED == 1 ? (uintptr_t)&code + 5 :
						       PLANTED == 2 ? (uintptr_t)&code + 2 :
								      (uintptr_t)&data };
#endif

int main(int argc, char **argv)
{
	size_t n;
	const struct record *r = records(&n);
	const char *fault;

	(void)argv;
	if (argc > 1) { /* never; but the operations must stay */
		every_operation(objects);
		second_unit(objects);
	}
	for (size_t i = 0; i < n; i++) {
		fault = record_fault(&r[i], PERCPU_SEQ_SIGNATURE);
		if (fault)
			return complain(fault, i);
	}
	fault = records_fault();
	if (fault)
		return complain(fault, 0);
	printf("%u records\n", (unsigned)n);
	return n < 23; /* as many as there are operations */
}

#endif

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

INLINE void every_operation(struct percpu_local *l, struct percpu_counter *c,
			    struct percpu_counter_array *a)
{
	int64_t n[8] = { 1, 2, 3, 4, 5, 6, 7, 8 }, v;
	void *item;

	percpu_counter_add(c, n[0]);
	percpu_counter_array_add(a, 0, n[0]);
	percpu_counter_array_add2(a, 0, n);
	percpu_counter_array_add4(a, 0, n);
	percpu_counter_array_add8(a, 0, n);
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

void second_unit(struct percpu_local *l, struct percpu_counter *c, struct percpu_counter_array *a);

#ifdef SECOND

void second_unit(struct percpu_local *l, struct percpu_counter *c, struct percpu_counter_array *a)
{
	every_operation(l, c, a);
}

#else

#ifdef __cplusplus
extern "C" {
#endif
#include "records.h"
#ifdef __cplusplus
}
#endif

/* So that the compiler does not know what they are. */
static struct percpu_local *volatile local;
static struct percpu_counter *volatile counter;
static struct percpu_counter_array *volatile array;

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
		every_operation(local, counter, array);
		second_unit(local, counter, array);
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
	return n < 14; /* as many as there are operations */
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * inlined.c - a sequence of each kind, in the C that is also C++, for units with other compiler
 * options: options.sh. Each function has something to clean up when it is left, also by an
 * exception.
 */
#include <percpu/compact.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>

PERCPU_ASSERT(sizeof(enum percpu_tier) == 4 && sizeof(enum percpu_registrar) == 4 &&
		      sizeof(enum percpu_selftest) == 4 && sizeof(enum percpu_local_fallback) == 4,
	      "enums are as the library has them");

static void count_end(struct percpu_counter **c)
{
	percpu_counter_inc(*c);
}

#define COUNTED struct percpu_counter *end __attribute__((cleanup(count_end), unused)) = c

static int count(struct percpu_counter *c, struct percpu_counter_array *a)
{
	const int64_t two[2] = { 1, 2 };
	COUNTED;

	percpu_counter_inc(c);
	percpu_counter_array_add_n(a, 0, two, 2);
	return percpu_counter_array_fetch(a, 1) == 2 ? 0 : 2;
}

static int update(struct percpu_counter *c, struct percpu_stats *s, struct percpu_compact *m)
{
	const uint64_t four[4] = { 1, 2, 3, 4 };
	COUNTED;

	percpu_stats_add(s, 0, 0, 1);
	percpu_compact_add(m, 0, 1);
	return percpu_compact_fetch(m, 0) == 1 && percpu_stats_update(s, 0, 0, four, 4) == 0 ? 0 :
											       3;
}

static int schedule(struct percpu_counter *c, struct percpu_wbuf *w)
{
	static uint64_t cell;
	COUNTED;

	return percpu_wbuf_add(w, &cell, 1) == 0 ? 0 : 4;
}

static int change(struct percpu_counter *c, struct percpu_local *l)
{
	int64_t v;
	void *item;
	COUNTED;

	if (percpu_local_add_return(l, 1, &v) != 0 || percpu_local_push(l, 4, &v) != 0)
		return 5;
	return percpu_local_pop(l, &item) == 0 ? 0 : 6;
}

int main(void)
{
	struct percpu_counter *c;
	struct percpu_counter_array *a;
	struct percpu_stats *s;
	struct percpu_compact *m;
	struct percpu_wbuf *w;
	struct percpu_local *l;
	int e;

	if (percpu_counter_create(&c) != 0 || percpu_counter_array_create(2, &a) != 0 ||
	    percpu_stats_create(32, 1, 0, &s) != 0 || percpu_compact_create(1, &m) != 0 ||
	    percpu_wbuf_create(NULL, &w) != 0 ||
	    percpu_local_create(64, PERCPU_LOCAL_LOCK, &l) != 0)
		return 1;
	e = count(c, a);
	if (e == 0)
		e = update(c, s, m);
	if (e == 0)
		e = schedule(c, w);
	if (e == 0)
		e = change(c, l);
	if (e == 0 && percpu_counter_fetch(c) != 5)
		e = 7;
	percpu_local_destroy(l);
	percpu_wbuf_destroy(w);
	percpu_compact_destroy(m);
	percpu_stats_destroy(s);
	percpu_counter_array_destroy(a);
	percpu_counter_destroy(c);
	return e;
}

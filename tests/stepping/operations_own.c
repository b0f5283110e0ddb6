/* SPDX-License-Identifier: MIT */
/*
 * operations_own.c - operations on the child's own memory, which judge themselves: on sums that
 * grow, zones, and the self-test.
 */
#include "stepping.h"

#include <percpu/compact.h>
#include <percpu/freebsd.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>
#include <percpu/variable.h>
#include <percpu/zone.h>

#include "../support.h"
#include "memory/memory.h"

#define ITEMS 100 /* more than a zone caches per CPU */

static struct percpu_compact *within;	/* its cells are far from the end of a window */
static struct percpu_compact *crossing; /* its cells are one short of a crossing */

static PERCPU_VARIABLE(uint64_t, variable);
static uma_zone_t zpcpu_zone __attribute__((used)); /* keeps the leak checker quiet */
static uint64_t *zpcpu;
static struct counter_rate rate = { .cr_period = INT32_MAX };
static struct counter_rate early_rate = { .cr_rate = EARLY_COUNTER, .cr_period = INT32_MAX };
static struct percpu_wbuf *wbuf;
static uint64_t buffered; /* the cell that wbuf adds to */

/* Zones with an empty cache, and with items in it; and items out of them, last those of full. */
static struct percpu_zone *cold, *warm, *full;
static void *held[5 * ITEMS];
static unsigned helds;

static struct model_result alloc_from(struct percpu_zone *z)
{
	struct model_result r = { 0, MODEL_UNSET };
	void *item;

	r.code = percpu_zone_alloc(z, 0, &item);
	for (unsigned i = 0; i < helds && r.code == 0; i++)
		r.code = held[i] == item;
	held[helds++] = item;
	return r;
}

static struct percpu_zone *make_zone(unsigned allocs, unsigned frees)
{
	struct percpu_zone *z;

	assert_int_equal(percpu_zone_create("stepping", 8, NULL, &z), 0);
	while (allocs--)
		assert_int_equal(alloc_from(z).code, 0);
	while (frees--)
		assert_int_equal(percpu_zone_free(z, held[--helds]), 0);
	return z;
}

/* Make a counter whose first add on any CPU needs a checkpoint. */
static void make_crossing(void)
{
	assert_int_equal(percpu_compact_create(1, &within), 0);
	assert_int_equal(percpu_compact_create(1, &crossing), 0);
	for (unsigned i = 0; i < test_cpus(); i++) {
		test_pin(0, test_cpu(i));
		stepping_add_to_compact(crossing, (int64_t)crossing->half - 1);
	}
	test_unpin(0);
}

void stepping_make_own(unsigned cpu)
{
	assert_int_equal(percpu_wbuf_create(NULL, &wbuf), 0);
	rate.cr_rate = counter_u64_alloc(M_WAITOK);
	percpu_static_counter_setup(percpu_freebsd_early(early_rate.cr_rate));
	(void)counter_ratecheck(&rate, INT64_MAX); /* the first call begins a period, with a
						      reset */
	(void)counter_ratecheck(&early_rate, INT64_MAX);
	make_crossing();
	test_pin(0, cpu);
	zpcpu_zone =
		uma_zcreate("stepping", 8, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	zpcpu = uma_zalloc_pcpu(zpcpu_zone, M_WAITOK | M_ZERO);
	cold = make_zone(0, 0);
	warm = make_zone(ITEMS, 8);
	full = make_zone(3 * ITEMS, 0);
	test_unpin(0);
}

/* Judge a private sum after an add of 1: another add may come between. */
static struct model_result grown(uint64_t from, uint64_t to)
{
	return (struct model_result){ to - from != 1 && to - from != 2, MODEL_UNSET };
}

static struct model_result run_wbuf(const struct model_case *c)
{
	const struct percpu_wbuf_entry add = percpu_wbuf_entry_u64(&buffered, 1);
	uint64_t before;
	int e;

	(void)c;
	percpu_wbuf_flush(wbuf);
	before = buffered;
	e = percpu_wbuf_add_slow(wbuf, &add, 1);
	percpu_wbuf_flush(wbuf);
	return e == 0 ? grown(before, buffered) : (struct model_result){ e, MODEL_UNSET };
}

static struct model_result run_variable(const struct model_case *c)
{
	uint64_t before = PERCPU_VARIABLE_SUM(variable);

	(void)c;
	percpu_variable_add_slow(&percpu_image, &percpu_variable_variable, 1);
	return grown(before, PERCPU_VARIABLE_SUM(variable));
}

static uint64_t sum_zpcpu(void)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++)
		sum += *zpcpu_get_cpu(zpcpu, cpu);
	return sum;
}

static struct model_result run_zpcpu(const struct model_case *c)
{
	uint64_t before = sum_zpcpu();

	(void)c;
	zpcpu_add_protected(zpcpu, 1);
	return grown(before, sum_zpcpu());
}

static struct model_result check_rate(struct counter_rate *cr)
{
	uint64_t before = counter_u64_fetch(cr->cr_rate);

	if (counter_ratecheck(cr, INT64_MAX) != 0)
		return (struct model_result){ -1, MODEL_UNSET };
	return grown(before, counter_u64_fetch(cr->cr_rate));
}

static struct model_result run_rate(const struct model_case *c)
{
	(void)c;
	return check_rate(&rate);
}

static struct model_result run_early_rate(const struct model_case *c)
{
	(void)c;
	return check_rate(&early_rate);
}

static struct model_result add_and_judge(const struct percpu_compact *set)
{
	uint64_t before = percpu_compact_fetch(set, 0);

	stepping_add_to_compact(set, 1);
	return grown(before, percpu_compact_fetch(set, 0));
}

static struct model_result run_within(const struct model_case *c)
{
	(void)c;
	return add_and_judge(within);
}

static struct model_result run_crossing(const struct model_case *c)
{
	(void)c;
	return add_and_judge(crossing);
}

/* Run the self-test. Whatever happens to it, it must not accuse the kernel. */
static struct model_result run_selftest(const struct model_case *c)
{
	(void)c;
	return (struct model_result){ percpu_selftest() == PERCPU_SELFTEST_FAILED, MODEL_UNSET };
}

static struct model_result run_cold(const struct model_case *c)
{
	(void)c;
	return alloc_from(cold);
}

static struct model_result run_warm(const struct model_case *c)
{
	(void)c;
	return alloc_from(warm);
}

/* Free more items than the cache takes. Each freed item must come back once. */
static struct model_result run_full(const struct model_case *c)
{
	struct model_result r = { 0, MODEL_UNSET };

	(void)c;
	for (unsigned i = 0; i < ITEMS && r.code == 0; i++)
		r.code = percpu_zone_free(full, held[--helds]);
	for (unsigned i = 0; i < 3 && r.code == 0; i++)
		r = alloc_from(full);
	return r;
}

const struct stepping_operation stepping_own[] = {
	{ "compact add, within", MEMORY_PRIVATE, MODEL_ADD, run_within },
	{ "compact add, crossing", MEMORY_PRIVATE, MODEL_ADD, run_crossing },
	{ "write buffer add", MEMORY_PRIVATE, MODEL_ADD, run_wbuf },
	{ "variable add", MEMORY_PRIVATE, MODEL_ADD, run_variable },
	{ "zpcpu add", MEMORY_PRIVATE, MODEL_ADD, run_zpcpu },
	{ "rate", MEMORY_PRIVATE, MODEL_ADD, run_rate },
	{ "rate, early", MEMORY_PRIVATE, MODEL_ADD, run_early_rate },
	{ "zone alloc, cold", MEMORY_PRIVATE, MODEL_ADD, run_cold },
	{ "zone alloc", MEMORY_PRIVATE, MODEL_ADD, run_warm },
	{ "zone free", MEMORY_PRIVATE, MODEL_ADD, run_full },
	{ "self-test", MEMORY_PRIVATE, MODEL_ADD, run_selftest },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

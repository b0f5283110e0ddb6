/* SPDX-License-Identifier: MIT */
/*
 * operations_critical.c - critical sections, sections of kernel code, and write buffers: by the
 * exported copies of the inline functions, and by the functions that these call when their
 * sequence was aborted.
 */
#include "stepping.h"

#include <percpu/calls.h>
#include <percpu/section.h>

#include "../support.h"

static struct percpu_critical *lanes;
static uint64_t *item; /* of sections */
static struct percpu_wbuf *buffer;
static uint64_t hinted; /* its cells */
static uint32_t narrow;
static double real;
static struct percpu_counter *counter;
static struct percpu_static_counter early = PERCPU_STATIC_COUNTER_INIT;

void stepping_make_critical(void)
{
	assert_int_equal(percpu_critical_create(sizeof(uint64_t), &lanes), 0);
	item = percpu_section_alloc(sizeof(*item), sizeof(*item));
	assert_non_null(item);
	assert_int_equal(percpu_wbuf_create(NULL, &buffer), 0);
	assert_int_equal(percpu_counter_create(&counter), 0);
	assert_int_equal(percpu_static_counter_setup(&early), 0);
	percpu_section_enter(); /* the first one allocates */
	percpu_section_exit();
}

/* Judge whether a sum has grown by 1; another operation may come between. */
static struct model_result judge(uint64_t before, uint64_t after, int e)
{
	return (struct model_result){ e != 0 || (after - before != 1 && after - before != 2),
				      MODEL_UNSET };
}

static uint64_t sum_of_lanes(void)
{
	uint64_t sum = 0;

	for (unsigned lane = 0; lane < percpu_critical_lanes(lanes); lane++)
		sum += *(const uint64_t *)percpu_critical_cell(lanes, lane);
	return sum;
}

static int add_in_lane(int e, uint64_t *cell)
{
	if (e != 0)
		return e;
	++*cell;
	return percpu_critical_exit_call(lanes, cell);
}

static struct model_result run_critical(const struct model_case *c)
{
	const uint64_t before = sum_of_lanes();
	void *cell = NULL;
	int e = percpu_critical_enter_call(lanes, &cell);

	(void)c;
	e = add_in_lane(e, cell);
	return judge(before, sum_of_lanes(), e);
}

static struct model_result run_critical_slow(const struct model_case *c)
{
	const uint64_t before = sum_of_lanes();
	void *cell = NULL;
	int e = percpu_critical_enter_slow(lanes, &cell);

	(void)c;
	e = add_in_lane(e, cell);
	return judge(before, sum_of_lanes(), e);
}

static uint64_t sum_of_copies(void)
{
	uint64_t sum = 0;

	for (unsigned cpu = 0; cpu < percpu_section_cpus(); cpu++)
		sum += *(const uint64_t *)percpu_section_copy(item, cpu);
	return sum;
}

static struct model_result run_section(const struct model_case *c)
{
	const uint64_t before = sum_of_copies();

	(void)c;
	percpu_section_enter();
	++*(uint64_t *)percpu_section_copy(item, percpu_section_cpu());
	percpu_section_exit();
	return judge(before, sum_of_copies(), 0);
}

/* The end of the section adds. */
static struct model_result run_word(const struct model_case *c)
{
	const uint64_t before = percpu_counter_fetch(counter);

	(void)c;
	percpu_section_enter();
	++*percpu_section_word(counter);
	percpu_section_exit();
	return judge(before, percpu_counter_fetch(counter), 0);
}

static struct model_result run_early_word(const struct model_case *c)
{
	const uint64_t before = percpu_static_counter_fetch(&early);

	(void)c;
	percpu_section_enter();
	++*percpu_section_word((char *)&early + 1);
	percpu_section_exit();
	return judge(before, percpu_static_counter_fetch(&early), 0);
}

static struct model_result run_u32(const struct model_case *c)
{
	const uint32_t before = narrow;
	const int e = percpu_wbuf_add_u32_call(buffer, &narrow, 1);

	(void)c;
	percpu_wbuf_flush(buffer);
	return judge(before, narrow, e);
}

static struct model_result run_double(const struct model_case *c)
{
	const double before = real;
	const int e = percpu_wbuf_add_double_call(buffer, &real, 1);

	(void)c;
	percpu_wbuf_flush(buffer);
	return judge((uint64_t)before, (uint64_t)real, e);
}

/* Hint, and see that nothing is lost which was added before. */
static struct model_result hint(void (*fn)(void))
{
	const uint64_t before = hinted;
	const int e = percpu_wbuf_add(buffer, &hinted, 1);

	fn();
	percpu_wbuf_flush(buffer);
	return judge(before, hinted, e);
}

static void hint_called(void)
{
	percpu_wbuf_hint_flush_call(buffer);
}

static void hint_slow(void)
{
	percpu_wbuf_hint_flush_slow(buffer, PERCPU_SEQ_SLOW);
}

static struct model_result run_hint(const struct model_case *c)
{
	(void)c;
	return hint(hint_called);
}

static struct model_result run_hint_slow(const struct model_case *c)
{
	(void)c;
	return hint(hint_slow);
}

const struct stepping_operation stepping_critical[] = {
	{ "critical enter", MEMORY_PRIVATE, MODEL_ADD, run_critical },
	{ "critical enter, slow", MEMORY_PRIVATE, MODEL_ADD, run_critical_slow },
	{ "section", MEMORY_PRIVATE, MODEL_ADD, run_section },
	{ "section's word", MEMORY_PRIVATE, MODEL_ADD, run_word },
	{ "section's word, static", MEMORY_PRIVATE, MODEL_ADD, run_early_word },
	{ "write buffer add_u32, called", MEMORY_PRIVATE, MODEL_ADD, run_u32 },
	{ "write buffer add_double, called", MEMORY_PRIVATE, MODEL_ADD, run_double },
	{ "hint", MEMORY_PRIVATE, MODEL_ADD, run_hint },
	{ "hint, slow", MEMORY_PRIVATE, MODEL_ADD, run_hint_slow },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

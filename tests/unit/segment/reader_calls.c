/* SPDX-License-Identifier: MIT */
/* reader_calls.c - see reader_calls.h. */
#include "reader_calls.h"

#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "picture.h"
#include "support.h"

char path[128];
struct percpu_segment *s;
struct percpu_reader *r;
struct percpu_counter *a, *b;

static struct picture_past past;
static bool is_damaged;

static void make_file(const struct percpu_segment_options *o)
{
	strcpy(path, test_path("reader"));
	assert_int_equal(percpu_segment_open(path, ALL, o, &s), 0);
}

int make_segment(void **state)
{
	(void)state;
	make_file(NULL);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	return 0;
}

int make_two(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o),
						  .cpus = percpu_status()->possible_cpus + 2 };

	(void)state;
	make_file(&o);
	a = counter("a_total");
	b = counter("b_total");
	percpu_counter_add(a, 100);
	percpu_counter_add(b, 200);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	return 0;
}

int remove_segment(void **state)
{
	(void)state;
	percpu_reader_close(r);
	percpu_segment_close(s);
	r = NULL;
	s = NULL;
	is_damaged = false;
	forget();
	(void)unlink(path);
	return 0;
}

struct percpu_counter *counter(const char *name)
{
	struct percpu_counter *c = NULL;

	assert_int_equal(percpu_segment_counter(s, METRIC(name), &c), 0);
	return c;
}

int take(void)
{
	const int e = percpu_reader_read(r);
	const char *wrong = NULL;

	if (e == 0)
		wrong = picture_check(r, is_damaged);
	if (e == 0 && wrong == NULL && !is_damaged)
		wrong = picture_grows(r, &past);
	if (wrong != NULL)
		fail_msg("the picture has %s", wrong);
	return e;
}

void forget(void)
{
	picture_forget(&past);
}

void damage(void)
{
	is_damaged = true;
}

size_t look(void)
{
	const int e = take();

	if (e != 0)
		print_error("%s\n", percpu_error());
	assert_int_equal(e, 0);
	return percpu_reader_count(r);
}

struct percpu_reader_series series_of(size_t i)
{
	struct percpu_reader_series ret = { .name = NULL };

	assert_int_equal(percpu_reader_series(r, i, &ret), 0);
	return ret;
}

struct percpu_reader_info info_of(void)
{
	struct percpu_reader_info ret = { .cpus = 0 };

	assert_int_equal(percpu_reader_info(r, &ret), 0);
	return ret;
}

uint64_t count_of(size_t i)
{
	uint64_t n = 0;

	assert_int_equal(percpu_reader_counter(r, i, &n), 0);
	return n;
}

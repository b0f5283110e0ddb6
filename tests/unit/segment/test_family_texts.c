/* SPDX-License-Identifier: MIT */
/*
 * test_family_texts.c - look-ups in families by texts with a length: percpu_family_series().
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <percpu/percpu.h>

#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

static struct percpu_family *pairs(struct percpu_segment *of)
{
	static const char *const labels[] = { "a", "b" };
	const struct percpu_declaration d = percpu_declare_family(
		NULL, PERCPU_METRIC_COUNTER, "p_total", "Pairs.", labels, 2, 10);
	struct percpu_family *f;

	assert_int_equal(percpu_segment_family(of, &d, &f), 0);
	return f;
}

#define PAGES 0x10000 /* bytes; whole pages everywhere */

/* Return a text at the end of memory: a read behind it is a fault. */
static struct percpu_text text(const char *bytes, size_t n)
{
	char *at =
		mmap(NULL, 2 * PAGES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(at, MAP_FAILED);
	assert_int_equal(mprotect(at + PAGES, PAGES, PROT_NONE), 0);
	at += PAGES - n;
	memcpy(at, bytes, n);
	return (struct percpu_text){ at, n };
}

static void free_text(const struct percpu_text *t)
{
	assert_int_equal(munmap((char *)t->at + t->n - PAGES, 2 * PAGES), 0);
}

static void *find(struct percpu_family *f, const char *a, size_t a_size, const char *b,
		  size_t b_size)
{
	const struct percpu_text values[] = { text(a, a_size), text(b, b_size) };
	void *ret = NULL;

	assert_int_equal(percpu_family_series(f, PERCPU_METRIC_COUNTER, values, &ret), 0);
	free_text(&values[0]);
	free_text(&values[1]);
	return ret;
}

static struct percpu_counter *by_strings(struct percpu_family *f, const char *a, const char *b)
{
	const char *const values[] = { a, b };
	struct percpu_counter *c;

	assert_int_equal(percpu_family_counter(f, values, &c), 0);
	return c;
}

/* Texts and strings of the same bytes are the same series, whichever was there first. */
static void texts_and_strings_are_one_series(void **state)
{
	struct percpu_family *f = pairs(s), *other = pairs(t);
	struct percpu_counter *c = find(f, "GET", 3, "", 0);

	(void)state;
	assert_ptr_equal(c, by_strings(f, "GET", ""));
	assert_ptr_equal(c, find(f, "GET", 3, "", 0));
	percpu_counter_add(c, 2);
	assert_int_equal(percpu_counter_fetch(by_strings(other, "GET", "")), 2);
	assert_int_equal(percpu_counter_fetch(find(other, "GET", 3, "", 0)), 2);
	c = by_strings(f, "PUT", "500");
	assert_ptr_equal(c, find(f, "PUT500", 3, "5000", 3));
	assert_int_equal(percpu_family_overflows(f) + percpu_family_invalid(f), 0);
}

/* Only the whole of all values decides. */
static void other_ends_are_other_series(void **state)
{
	struct percpu_family *f = pairs(s);
	void *const c[] = {
		find(f, "ab", 2, "c", 1), find(f, "a", 1, "bc", 2), find(f, "abc", 3, "", 0),
		find(f, "", 0, "abc", 3), find(f, "ab", 2, "", 0),  find(f, "ab", 2, "d", 1),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++)
		for (size_t k = 0; k < i; k++)
			assert_ptr_not_equal(c[i], c[k]);
	assert_ptr_equal(by_strings(f, "a", "bc"), c[1]);
}

/* A 0, a part of a character, and too many bytes are no values of labels. */
static void texts_that_are_no_labels_overflow(void **state)
{
	static char longest[PERCPU_METRIC_VALUE + 1];
	struct percpu_family *f = pairs(s);
	struct percpu_counter *const overflow =
		by_strings(f, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW);

	(void)state;
	(void)by_strings(f, "a", "b");
	memset(longest, 'x', sizeof(longest));
	assert_ptr_equal(find(f, "a\0b", 3, "", 0), overflow);
	assert_string_equal(percpu_error(), "p_total: the value of label a has a byte 0");
	assert_ptr_equal(find(f, "a", 1, "\0", 1), overflow);
	assert_ptr_equal(find(f, "\xc3\xa9", 1, "b", 1), overflow);
	assert_ptr_equal(find(f, "a", 1, longest, sizeof(longest)), overflow);
	assert_int_equal(percpu_family_invalid(f), 4);
	assert_ptr_not_equal(find(f, "\xc3\xa9", 2, "b", 1), overflow);
	assert_ptr_not_equal(find(f, "a", 1, longest, sizeof(longest) - 1), overflow);
	assert_int_equal(percpu_family_invalid(f), 4);
	assert_int_equal(percpu_family_overflows(f), 0);
}

/* A page that was read is in memory. */
static void texts_that_are_too_long_are_not_read(void **state)
{
	static const uint64_t sizes[] = { PERCPU_METRIC_VALUE + 1, 0x10001, UINT64_C(0x100000001),
					  UINT64_MAX };
	char *const zeros = mmap(NULL, PAGES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct percpu_family *f = pairs(s);
	void *const overflow = by_strings(f, PERCPU_FAMILY_OVERFLOW, PERCPU_FAMILY_OVERFLOW);
	struct percpu_text values[] = { { "a", 1 }, { zeros, 0 } };
	unsigned char was_read = 1;
	void *ret = NULL;

	(void)state;
	assert_ptr_not_equal(zeros, MAP_FAILED);
	(void)by_strings(f, "a", "b");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		values[1].n = (size_t)sizes[i];
		if (values[1].n != sizes[i] && sizes[i] != UINT64_MAX)
			continue; /* a size has 32 bits */
		assert_int_equal(percpu_family_series(f, PERCPU_METRIC_COUNTER, values, &ret), 0);
		assert_string_equal(percpu_error(),
				    "p_total: the value of label b has more than 4096 bytes");
		assert_ptr_equal(ret, overflow);
		assert_int_equal(mincore(zeros, 1, &was_read), 0);
		assert_int_equal(was_read, 0);
	}
	assert_int_equal(munmap(zeros, PAGES), 0);
}

static void wrong_calls_are_refused(void **state)
{
	const struct percpu_text good[] = { { "a", 1 }, { "b", 1 } };
	const struct percpu_text bad[] = { { "a", 1 }, { NULL, 0 } };
	struct percpu_family *f = pairs(s);
	void *ret = f;

	(void)state;
	assert_int_equal(percpu_family_series(f, PERCPU_METRIC_COUNTER, bad, &ret), -EINVAL);
	assert_string_equal(percpu_error(), "p_total: the value of label b is NULL");
	assert_int_equal(percpu_family_series(f, PERCPU_METRIC_GAUGE, good, &ret), -EINVAL);
	assert_string_equal(percpu_error(), "p_total: is a family of another kind");
	assert_int_equal(percpu_family_series(NULL, PERCPU_METRIC_COUNTER, good, &ret), -EINVAL);
	assert_int_equal(percpu_family_series(f, PERCPU_METRIC_COUNTER, NULL, &ret), -EINVAL);
	assert_int_equal(percpu_family_series(f, PERCPU_METRIC_COUNTER, good, NULL), -EINVAL);
	assert_ptr_equal(ret, f);
}

#define both(f) cmocka_unit_test_setup_teardown(f, open_both, close_both)

int main(void)
{
	const struct CMUnitTest tests[] = {
		both(texts_and_strings_are_one_series),	 both(other_ends_are_other_series),
		both(texts_that_are_no_labels_overflow), both(texts_that_are_too_long_are_not_read),
		both(wrong_calls_are_refused),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

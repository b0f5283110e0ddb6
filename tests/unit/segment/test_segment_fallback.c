/* SPDX-License-Identifier: MIT */
/*
 * test_segment_fallback.c - segments that are private because their file cannot be had.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/family.h>

#include "declared.h"
#include "support.h"
#include "segments.h"

#include "segment/segment.h"

#define WITH_FALLBACK (ALL | PERCPU_SEGMENT_FALLBACK)

static int no_memfd; /* the error of memfd_create(), or 0 */

int __real_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_memfd_create(const char *name, unsigned flags)
{
	assert_true(flags & MFD_CLOEXEC);
	if (no_memfd == 0)
		return __real_memfd_create(name, flags);
	errno = no_memfd;
	return -1;
}

static struct percpu_counter *counted;

static int count_in_child(void *arg)
{
	(void)arg;
	percpu_counter_add(counted, 10);
	return 0;
}

/* Assert that all works, in children of fork, too. */
static void works(struct percpu_segment *s)
{
	static const char *const label = "user", *const value = "ann";
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "f_total", .label_names = &label, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *same, *c;
	struct percpu_family *f;

	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &counted), 0);
	percpu_counter_inc(counted);
	test_in_child(count_in_child, NULL);
	assert_int_equal(percpu_segment_counter(s, METRIC("a_total"), &same), 0);
	assert_ptr_equal(counted, same);
	assert_int_equal(percpu_counter_fetch(counted), 11);
	assert_int_equal(family_with_cap(s, &d, 10, &f), 0);
	assert_true((s->presence == NULL) == (percpu_segment_fallback(s) != NULL));
	assert_int_equal(percpu_family_add(f, &value, 3), 0);
	assert_int_equal(percpu_family_counter(f, &value, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 3);
}

/* Assert that the segment of that name is private, for this error, whose sentence has these words. */
static void falls_back(const char *name, int e, const char *words)
{
	struct percpu_segment *s = NULL;
	char sentence[1024];
	struct stat before, after;
	const bool there = stat(name, &before) == 0;
	const unsigned open = test_holding_now().fds;

	assert_int_equal(percpu_segment_open(name, ALL, NULL, &s), e);
	assert_null(s);
	(void)snprintf(sentence, sizeof(sentence), "%s", percpu_error());
	assert_non_null(strstr(sentence, words));
	assert_int_equal(percpu_segment_open(name, WITH_FALLBACK, NULL, &s), 0);
	assert_string_equal(percpu_error(), sentence);
	assert_int_equal(percpu_segment_info(s, METRIC("")), -EINVAL); /* another sentence */
	assert_string_equal(percpu_segment_fallback(s), sentence);
	works(s);
	percpu_segment_close(s);
	assert_int_equal(test_holding_now().fds, open);
	assert_int_equal(stat(name, &after) == 0, there);
	assert_true(!there || before.st_size == after.st_size);
}

static void files_that_cannot_be_had_are_told(void **state)
{
	char path[256];
	struct percpu_segment *s;
	uint32_t version = 1;
	int fd;

	(void)state;
	falls_back("/nowhere/at/all", -ENOENT, "there is no such directory");
	falls_back("/tmp", -EISDIR, "it is a directory");
	(void)snprintf(path, sizeof(path), "%s", test_path("empty"));
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	falls_back(path, -EBADMSG, "the file is empty");
	(void)snprintf(path, sizeof(path), "%s", test_path("older"));
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	s->control->version = version;
	falls_back(path, -EPROTO, "another version");
	s->control->version = PERCPU_SEGMENT_VERSION;
	percpu_segment_close(s);
}

static void descriptors_fall_back_too(void **state)
{
	struct percpu_segment *s;

	(void)state;
	assert_int_equal(percpu_segment_open_fd(-1, WITH_FALLBACK, NULL, &s), 0);
	assert_non_null(strstr(percpu_segment_fallback(s), "segment of descriptor -1"));
	works(s);
	percpu_segment_close(s);
}

static void files_that_can_be_had_are_used(void **state)
{
	struct percpu_segment *s, *t;
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_segment_open(test_path("there"), WITH_FALLBACK, NULL, &s), 0);
	assert_null(percpu_segment_fallback(s));
	works(s);
	assert_int_equal(percpu_segment_open(test_path("there"), WITH_FALLBACK, NULL, &t), 0);
	assert_null(percpu_segment_fallback(t));
	assert_int_equal(percpu_segment_counter(t, METRIC("a_total"), &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 11);
	percpu_segment_close(s);
	percpu_segment_close(t);
	assert_null(percpu_segment_fallback(NULL));
}

static void mistakes_are_not_covered(void **state)
{
	struct percpu_segment *s = NULL;
	const struct percpu_segment_options o = { .size = 1 };

	(void)state;
	assert_int_equal(percpu_segment_open("a b", WITH_FALLBACK, NULL, &s), -EINVAL);
	assert_int_equal(percpu_segment_open(NULL, WITH_FALLBACK, NULL, &s), -EINVAL);
	assert_int_equal(percpu_segment_open("x", WITH_FALLBACK, NULL, NULL), -EINVAL);
	assert_int_equal(percpu_segment_open("x", WITH_FALLBACK | 0x800, NULL, &s), -EINVAL);
	assert_int_equal(percpu_segment_open("x", WITH_FALLBACK, &o, &s), -EINVAL);
	assert_null(s);
}

/* The error is that of the file, and no descriptor is left. */
static void there_may_be_no_memfd(void **state)
{
	struct percpu_segment *s = NULL;

	(void)state;
	no_memfd = ENOSYS;
	assert_int_equal(percpu_segment_open("/nowhere/at/all", WITH_FALLBACK, NULL, &s), -ENOENT);
	assert_non_null(strstr(percpu_error(), "there is no such directory"));
	no_memfd = 0;
	assert_null(s);
}

/* Options are those of the file. A segment need not be made: without CREATE there is one, too. */
static void a_private_segment_is_always_made(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .cpus = 64 };
	struct percpu_segment *s;

	(void)state;
	assert_int_equal(percpu_segment_open(test_path("missing"), PERCPU_SEGMENT_FALLBACK, &o, &s),
			 0);
	assert_non_null(percpu_segment_fallback(s));
	assert_true(s->region->cpus >= 64);
	works(s);
	percpu_segment_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(files_that_cannot_be_had_are_told),
		cmocka_unit_test(descriptors_fall_back_too),
		cmocka_unit_test(files_that_can_be_had_are_used),
		cmocka_unit_test(mistakes_are_not_covered),
		cmocka_unit_test(there_may_be_no_memfd),
		cmocka_unit_test(a_private_segment_is_always_made),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_sfbuf_steps.c - another thread uses a shared buffer between two steps of a free.
 */
#define _GNU_SOURCE
#include "steps.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/sfbuf.h>

#include "support.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

static struct percpu_lwbufs *f;
static struct percpu_sfbuf *other, *given; /* given: freed when references are seen */
static const char *allocate_at, *free_at;  /* steps */

void test_step(const char *name)
{
	struct percpu_sfbuf *mine = other;

	if (allocate_at != NULL && strcmp(name, allocate_at) == 0) {
		allocate_at = NULL;
		assert_int_equal(percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &other), 0);
	} else if (free_at != NULL && strcmp(name, free_at) == 0) {
		free_at = NULL;
		other = NULL;
		*(char *)percpu_sfbuf_kva(mine) = 2;
		assert_int_equal(percpu_sfbuf_free(f, mine), 0);
	} else if (given != NULL && strcmp(name, "sfbuf: references seen") == 0) {
		mine = given;
		given = NULL;
		assert_int_equal(percpu_sfbuf_free(f, mine), 0);
	}
}

/* A thread frees the last reference and writes the page back. Meanwhile another thread gets a
 * reference, and stores after the write: before the first free ends, or later. */
static void store_meanwhile(const char *at, const char *until)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	int fd = memfd_create("between", MFD_CLOEXEC);
	struct percpu_sfbuf *b;
	char byte = 0;

	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &b), 0);
	*(char *)percpu_sfbuf_kva(b) = 1;
	allocate_at = at;
	free_at = until;
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_null(allocate_at);
	if (other != NULL) {
		*(char *)percpu_sfbuf_kva(other) = 2;
		assert_int_equal(percpu_sfbuf_free(f, other), 0);
		other = NULL;
	}
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 2);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static void stores_are_written_back(void **state)
{
	static const char *const from[] = { "sfbuf: to be written back",
					    "lwbuf: about to write back" };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		store_meanwhile(from[i], "sfbuf: last reference");
		store_meanwhile(from[i], NULL);
	}
	store_meanwhile("sfbuf: last reference", NULL);
}

/* A thread that has no reference tries to take one while the last one is freed. */
static void references_are_not_taken_of_none(void **state)
{
	int fd = memfd_create("between", MFD_CLOEXEC);
	struct percpu_sfbuf *b;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)PAGE), 0);
	assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 0, 0, &b), 0);
	given = b;
	assert_int_equal(percpu_sfbuf_ref(f, b), -EINVAL);
	assert_null(given);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stores_are_written_back),
		cmocka_unit_test(references_are_not_taken_of_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

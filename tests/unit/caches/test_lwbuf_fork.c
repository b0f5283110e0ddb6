/* SPDX-License-Identifier: MIT */
/* test_lwbuf_fork.c - when a child of fork may destroy windows and shared buffers. */
#include "../lwbuf.h"

#define REQUIRE(x) test_child_require((x), #x)

static struct percpu_lwbufs *f;
static struct percpu_lwbuf held[2];
static struct percpu_sfbuf *shared;

/* Run fn in a child, for each backend. The parent has two buffers and a shared one. */
static void with_each(int (*fn)(void *arg))
{
	static const uint32_t flags[] = { 0, PERCPU_LWBUF_DEBUG };

	for (unsigned backend = 0; backend < 4; backend++)
		for (unsigned i = 0; i < 2; i++) {
			f = lw_create(lw_memfd(8, PAGE, true), backend, 0, flags[i]);
			for (unsigned n = 0; n < 2; n++)
				assert_int_equal(percpu_lwbuf_alloc(f, n, 0, &held[n]), 0);
			assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
			test_in_child(fn, NULL);
			for (unsigned n = 0; n < 2; n++) {
				assert_true(lw_is_right(percpu_lwbuf_kva(&held[n]), n, PAGE));
				assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
				assert_int_equal(percpu_lwbuf_free(f, &held[n]), 0);
			}
			assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
			assert_int_equal(percpu_sfbuf_free(f, shared), 0);
			assert_int_equal(percpu_lwbuf_destroy(f), 0);
		}
}

/* A buffer that the child has allocated keeps f from being destroyed. */
static void use_one(uint64_t page)
{
	struct percpu_lwbuf b;

	REQUIRE(percpu_lwbuf_alloc(f, page, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(lw_is_right(percpu_lwbuf_kva(&b), page, PAGE));
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
}

static int free_one_by_one(void *arg)
{
	(void)arg;
	use_one(7);
	REQUIRE(percpu_lwbuf_free(f, &held[0]) == 0);
	use_one(7);
	REQUIRE(percpu_lwbuf_free(f, &held[1]) == 0);
	use_one(7);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static int free_none(void *arg)
{
	(void)arg;
	REQUIRE(lw_touch(f, 0) != NULL);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void what_it_frees_does_not_count(void **state)
{
	(void)state;
	with_each(free_one_by_one);
	with_each(free_none);
}

/* A grandchild inherits the buffers of the child as well. */
static struct percpu_lwbuf childs;

static int be_grandchild(void *arg)
{
	(void)arg;
	REQUIRE(percpu_lwbuf_free(f, &childs) == 0);
	use_one(7);
	REQUIRE(percpu_lwbuf_free(f, &held[1]) == 0);
	use_one(7);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static int have_a_child(void *arg)
{
	(void)arg;
	REQUIRE(percpu_lwbuf_free(f, &held[0]) == 0);
	REQUIRE(percpu_lwbuf_alloc(f, 3, 0, &childs) == 0);
	REQUIRE(test_wait(test_fork(be_grandchild, NULL), 30) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_lwbuf_free(f, &childs) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void grandchildren_inherit_from_both(void **state)
{
	(void)state;
	with_each(have_a_child);
}

/* Shared buffers */

static int free_shared_and_use_another(void *arg)
{
	struct percpu_sfbuf *b;

	(void)arg;
	REQUIRE(percpu_sfbuf_free(f, shared) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 6, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(lw_is_right(percpu_sfbuf_kva(b), 6, PAGE));
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

/* The child takes references to a buffer that it has inherited. */
static int refer_to_shared(void *arg)
{
	struct percpu_sfbuf *b;

	(void)arg;
	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &b) == 0 && b == shared);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_sfbuf_ref(f, b) == 0);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

/* The parent had two references. The child frees one. */
static int give_one_of_two(void *arg)
{
	struct percpu_sfbuf *b;

	(void)arg;
	REQUIRE(percpu_sfbuf_free(f, shared) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &b) == 0 && b == shared);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static int refer_twice(void *arg)
{
	(void)arg;
	REQUIRE(percpu_sfbuf_ref(f, shared) == 0);
	REQUIRE(test_wait(test_fork(give_one_of_two, NULL), 30) == 0);
	REQUIRE(percpu_sfbuf_free(f, shared) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static int destroy_many(void *arg)
{
	struct percpu_sfbuf *b;

	(void)arg;
	REQUIRE(percpu_sfbuf_alloc(f, 199, 0, &b) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 200, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == -EBUSY);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 199, 0, &b) == 0 && percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_sfbuf_free(f, b) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

/* More of them than a block has. */
static void many_references_are_inherited(void **state)
{
	struct percpu_sfbuf *b[200];

	(void)state;
	f = lw_create(lw_memfd(201, PAGE, true), PERCPU_LWBUF_WINDOW, 0, 0);
	for (unsigned p = 0; p < 200; p++)
		assert_int_equal(percpu_sfbuf_alloc(f, p, 0, &b[p]), 0);
	test_in_child(destroy_many, NULL);
	for (unsigned p = 0; p < 200; p++)
		assert_int_equal(percpu_sfbuf_free(f, b[p]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void references_of_its_own_count(void **state)
{
	(void)state;
	with_each(free_shared_and_use_another);
	with_each(refer_to_shared);
	with_each(refer_twice);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_it_frees_does_not_count),
		cmocka_unit_test(grandchildren_inherit_from_both),
		cmocka_unit_test(references_of_its_own_count),
		cmocka_unit_test(many_references_are_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

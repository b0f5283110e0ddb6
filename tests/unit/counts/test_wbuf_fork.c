/* SPDX-License-Identifier: MIT */
/*
 * test_wbuf_fork.c - write buffers in a child of fork: only the parent applies the pending adds,
 * and no other thread flushes during a fork.
 */
#define _GNU_SOURCE
#include "steps.h"
#include "wbuf.h"

static void (*at_applied)(void); /* run in a flush, before the tail of an applied queue moves */

void test_step(const char *name)
{
	if (at_applied != NULL && strcmp(name, "wbuf: applied") == 0)
		at_applied();
}

/* The child of a fork: only the parent applies the pending adds. */

struct family {
	struct percpu_wbuf *w;
	uint64_t *cell; /* shared */
};

static int flush_in_child(void *arg)
{
	struct family *f = arg;
	struct percpu_wbuf_stats s;

	percpu_wbuf_stats(f->w, &s);
	test_child_require(s.pending == 0, "nothing is pending");
	percpu_wbuf_flush(f->w);
	test_child_require(*f->cell == 0, "nothing is counted twice");
	for (int i = 0; i < 100; i++)
		test_child_require(percpu_wbuf_add(f->w, f->cell, 1) == 0, "add");
	percpu_wbuf_flush(f->w);
	test_child_require(*f->cell == 100, "the child's own");
	percpu_wbuf_destroy(f->w);
	return 0;
}

static void children_begin_with_empty_buffers(void **state)
{
	struct family f = { make(SMALL), test_share(sizeof(uint64_t)) };

	(void)state;
	assert_int_equal(percpu_wbuf_add(f.w, f.cell, 5), 0);
	if (!buffered())
		*f.cell = 0; /* the add was applied at once */
	test_in_child(flush_in_child, &f);
	assert_int_equal(*f.cell, 100);
	percpu_wbuf_destroy(f.w);
	assert_int_equal(*f.cell, buffered() ? 105 : 100);
}

/* Another thread is in the middle of a flush. The fork must wait for it, because the lock would
 * stay taken in the child. */
static bool flushing;

static void take_time(void)
{
	at_applied = NULL;
	__atomic_store_n(&flushing, true, __ATOMIC_RELEASE);
	test_sleep_us(100000);
	__atomic_store_n(&flushing, false, __ATOMIC_RELEASE);
}

static void flush_in_thread(unsigned i, void *arg)
{
	(void)i;
	percpu_wbuf_flush(arg);
}

static int use_in_child(void *arg)
{
	struct percpu_wbuf *w = arg;
	uint64_t cell = 0;

	test_child_require(!flushing, "the flush had come to its end");
	test_child_require(percpu_wbuf_add(w, &cell, 2) == 0, "add");
	percpu_wbuf_flush(w);
	test_child_require(cell == 2, "flush");
	return 0;
}

static void forks_wait_for_flushes(void **state)
{
	struct percpu_wbuf *w = make(SMALL);
	struct test_team team;
	uint64_t cell = 0;

	(void)state;
	if (!buffered())
		test_skip("this thread uses no buffer");
	assert_int_equal(percpu_wbuf_add(w, &cell, 1), 0);
	at_applied = take_time;
	test_team_start(&team, 1, flush_in_thread, w);
	while (!__atomic_load_n(&flushing, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	test_in_child(use_in_child, w);
	test_team_join(&team);
	assert_int_equal(cell, 1);
	percpu_wbuf_destroy(w);
}

static int flush_own_in_child(void *arg)
{
	struct family *f = arg;
	struct own_lock *own = *(struct own_lock **)(f + 1);

	pthread_mutex_unlock(&own->mutex); /* as the caller's own handler would */
	return flush_in_child(f);
}

static void children_begin_with_an_empty_list(void **state)
{
	struct own_lock own;
	struct {
		struct family f;
		struct own_lock *own;
	} both = { { make_own(SMALL, &own), test_share(sizeof(uint64_t)) }, &own };

	(void)state;
	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < 20; i++)
		assert_int_equal(percpu_wbuf_add(both.f.w, both.f.cell, 1), 0);
	assert_int_equal(stats(both.f.w).pending, 20);
	test_in_child(flush_own_in_child, &both);
	assert_int_equal(*both.f.cell, 100);
	pthread_mutex_unlock(&own.mutex);
	percpu_wbuf_destroy(both.f.w);
	assert_int_equal(*both.f.cell, 120);
}

/* Test the rest of a list: an add that finds the lock free applies a part of it. The rest is not
 * lost when there is a new list, and the child does not apply it. */
static void rest_of_the_list_is_kept(void **state)
{
	static struct own_lock own;
	struct {
		struct family f;
		struct own_lock *own;
	} both = { { make_own(SMALL, &own), test_share(sizeof(uint64_t)) }, &own };
	uint64_t other = 0;

	(void)state;
	for (int round = 0; round < 2; round++) {
		pthread_mutex_lock(&own.mutex);
		for (int i = 0; i < 100; i++)
			assert_int_equal(percpu_wbuf_add(both.f.w, &other, 1), 0);
		pthread_mutex_unlock(&own.mutex);
		assert_int_equal(percpu_wbuf_add(both.f.w, &other, 1), 0);
		assert_true(stats(both.f.w).pending > SMALL);
	}
	percpu_wbuf_flush(both.f.w);
	assert_int_equal(other, 2 * 101);

	pthread_mutex_lock(&own.mutex);
	for (int i = 0; i < 100; i++)
		assert_int_equal(percpu_wbuf_add(both.f.w, both.f.cell, 1), 0);
	pthread_mutex_unlock(&own.mutex);
	assert_int_equal(percpu_wbuf_add(both.f.w, both.f.cell, 1), 0);
	other = *both.f.cell; /* adds that were applied */
	*both.f.cell = 0;
	pthread_mutex_lock(&own.mutex);
	test_in_child(flush_own_in_child, &both);
	pthread_mutex_unlock(&own.mutex);
	assert_int_equal(*both.f.cell, 100);
	percpu_wbuf_destroy(both.f.w);
	assert_int_equal(*both.f.cell, 100 + 101 - other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(children_begin_with_empty_buffers),
		cmocka_unit_test(children_begin_with_an_empty_list),
		cmocka_unit_test(forks_wait_for_flushes),
		cmocka_unit_test(rest_of_the_list_is_kept),
		cmocka_unit_test(thread_may_lose_its_registration),
		cmocka_unit_test(children_begin_with_an_empty_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

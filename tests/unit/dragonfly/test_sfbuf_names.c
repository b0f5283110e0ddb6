/* SPDX-License-Identifier: MIT */
/* test_sfbuf_names.c - shared buffers by DragonFly's names, as its sendfile(2) uses them. */
#include "../lwbuf.h"

#include <percpu/dragonfly/lwbuf.h>
#include <percpu/dragonfly/sfbuf.h>

enum { TRANSFERS = 300 };

static void one_page_has_one_address(void **state)
{
	struct percpu_lwbufs *f =
		lw_create(lw_memfd(4, PAGE, true), PERCPU_LWBUF_WINDOW, 0, PERCPU_LWBUF_WRITABLE);
	struct vm_page m = { f, 1, PERCPU_LWBUF_WRITE }, beyond = { f, 4, 0 };
	struct sf_buf *a = sf_buf_alloc(&m), *b = sf_buf_alloc(&m);

	(void)state;
	assert_true(a != NULL && b != NULL && a != b);
	assert_int_equal(sf_buf_kva(a), sf_buf_kva(b));
	assert_ptr_equal(sf_buf_page(a), &m);
	assert_null(sf_buf_alloc(&beyond));
	sf_buf_ref(a);
	assert_int_equal(sf_buf_free(a), 0);
	assert_true(lw_is_right((void *)sf_buf_kva(a), 1, PAGE));
	assert_int_equal(sf_buf_free(a), 1);
	assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
	assert_int_equal(sf_buf_free(b), 1);
	assert_int_equal(sf_buf_free(NULL), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Begin a transfer of each page before one ends. */
static void transfers_wait_for_nobody(void **state)
{
	struct percpu_lwbufs *f =
		lw_create(lw_memfd(TRANSFERS, PAGE, true), PERCPU_LWBUF_WINDOW, 16, 0);
	struct sf_buf *sf[TRANSFERS];
	struct vm_page m[TRANSFERS];
	struct percpu_sfbuf_stats s;

	(void)state;
	for (unsigned i = 0; i < TRANSFERS; i++) {
		m[i] = (struct vm_page){ f, i, 0 };
		sf[i] = sf_buf_alloc(&m[i]);
		assert_non_null(sf[i]);
	}
	for (unsigned i = 0; i < TRANSFERS; i++) {
		assert_true(lw_is_right((void *)sf_buf_kva(sf[i]), i, PAGE));
		assert_int_equal(sf_buf_free(sf[i]), 1);
	}
	percpu_sfbuf_stats(f, &s);
	assert_true(s.used == 0 && s.excess == 16);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_page_has_one_address),
		cmocka_unit_test(transfers_wait_for_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

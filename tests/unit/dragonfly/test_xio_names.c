/* SPDX-License-Identifier: MIT */
/* test_xio_names.c - lists of pages by DragonFly's names. */
#include "../lwbuf.h"

#include <percpu/dragonfly/xio.h>

#define PAGES 4

static unsigned char model[PAGES][65536], found[PAGES * 65536];

/* Pages of two files in one list. */
static void lists_are_copied(void **state)
{
	int size = (int)PAGE, fd[2];
	struct vm_page m[PAGES], *list[PAGES];
	struct percpu_lwbufs *f[2];
	struct xio x;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fd[i] = lw_memfd(PAGES, PAGE, true);
		f[i] = lw_create(dup(fd[i]), PERCPU_LWBUF_WINDOW, 0, PERCPU_LWBUF_WRITABLE);
	}
	for (unsigned i = 0; i < PAGES; i++) {
		m[i] = (struct vm_page){ f[i % 2], PAGES - 1 - i, PERCPU_LWBUF_WRITE };
		list[i] = &m[i];
		assert_int_equal(pread(fd[i % 2], model[i], PAGE, (off_t)((PAGES - 1 - i) * PAGE)),
				 PAGE);
	}
	assert_int_equal(xio_init_pages(&x, list, PAGES, XIOF_READ | XIOF_WRITE), 0);
	assert_true(x.xio_npages == PAGES && x.xio_bytes == PAGES * size && x.xio_offset == 0);
	x.xio_offset = 10;
	x.xio_bytes -= 10;
	assert_int_equal(xio_remaining(&x, 5), PAGES * size - 15);
	assert_int_equal(xio_copy_xtok(&x, 5, found, PAGES * size - 15), 0);
	assert_memory_equal(found, model[0] + 15, PAGE - 15);
	assert_memory_equal(found + size - 15, model[1], PAGE);
	assert_memory_equal(found + 3 * size - 15, model[3], PAGE);
	assert_int_equal(xio_copy_ktox(&x, size - 10 - 2, "four", 4), 0);
	assert_int_equal(pread(fd[0], found, 2, (off_t)(PAGES * PAGE - 2)), 2);
	assert_int_equal(pread(fd[1], found + 2, 2, (off_t)((PAGES - 2) * PAGE)), 2);
	assert_memory_equal(found, "four", 4);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(percpu_lwbuf_destroy(f[i]), 0);
		close(fd[i]);
	}
}

static void bad_lists_are_refused(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(1, PAGE, true), PERCPU_LWBUF_WINDOW, 0, 0);
	struct vm_page m = { f, 0, 0 }, beyond = { f, 1, 0 };
	struct vm_page *list[XIO_INTERNAL_PAGES + 1];
	struct xio x;

	(void)state;
	for (unsigned i = 0; i <= XIO_INTERNAL_PAGES; i++)
		list[i] = &m;
	assert_int_equal(xio_init_pages(&x, list, XIO_INTERNAL_PAGES + 1, XIOF_READ), EINVAL);
	assert_true(x.xio_npages == 0 && x.xio_error == EINVAL);
	assert_int_equal(xio_copy_xtok(&x, 0, found, 1), EFAULT);
	assert_int_equal(xio_init_pages(&x, list, -1, XIOF_READ), EINVAL);
	assert_int_equal(xio_init_pages(&x, list, XIO_INTERNAL_PAGES, XIOF_READ), 0);
	list[1] = NULL;
	assert_int_equal(xio_init_pages(&x, list, 3, XIOF_READ), EFAULT);
	assert_int_equal(xio_copy_xtok(&x, 0, found, 1), EFAULT);
	list[1] = &beyond;
	assert_int_equal(xio_init_pages(&x, list, 2, XIOF_READ), 0);
	assert_int_equal(xio_copy_xtok(&x, 0, found, 2 * (int)PAGE), ERANGE);
	assert_int_equal(xio_copy_xtok(&x, 0, found, (int)PAGE), 0);
	assert_true(lw_is_right(found, 0, PAGE));
	assert_int_equal(xio_copy_xtok(&x, -1, found, 1), EFAULT);
	assert_int_equal(xio_copy_xtok(&x, 0, found, -1), EFAULT);
	assert_int_equal(xio_copy_xtok(&x, 1, found, 2 * (int)PAGE), EFAULT);
	assert_int_equal(xio_copy_ktox(&x, 0, found, 1), EACCES);
	x.xio_offset = 1; /* then the list has fewer bytes than xio_bytes says */
	assert_int_equal(xio_copy_xtok(&x, 2 * (int)PAGE - 1, found, 1), EFAULT);
	for (unsigned i = 0; i < 2; i++) {
		xio_release(&x);
		assert_true(x.xio_npages == 0 && x.xio_error == ENOBUFS);
		assert_int_equal(xio_copy_xtok(&x, 0, found, 1), EFAULT);
	}
	xio_init(&x);
	assert_int_equal(xio_copy_xtok(&x, 0, found, 0), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_copied),
		cmocka_unit_test(bad_lists_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* test_lwbuf_names.c - DragonFly's and FreeBSD's names for windows and shared buffers. */
#include "../lwbuf.h"

#include <percpu/dragonfly/lwbuf.h>
#include <percpu/freebsd/sf_buf.h>

/* Copy between a buffer and pages, with the names of the kernel's own function. */
static int copy_pages(struct vm_page *ma, size_t offset, char *cp, size_t n, bool out)
{
	struct lwbuf lwb_cache, *lwb;

	while (n > 0) {
		size_t page_offset = offset & (PAGE - 1);
		size_t cnt = PAGE - page_offset < n ? PAGE - page_offset : n;
		vm_page_t m = &ma[offset / PAGE];

		lwb = lwbuf_alloc(m, &lwb_cache);
		if (lwb == NULL || lwbuf_page(lwb) != m)
			return EFAULT;
		lwbuf_set_global(lwb);
		if (out)
			memcpy((char *)lwbuf_kva(lwb) + page_offset, cp, cnt);
		else
			memcpy(cp, (char *)lwbuf_kva(lwb) + page_offset, cnt);
		lwbuf_free(lwb);
		cp += cnt;
		offset += cnt;
		n -= cnt;
	}
	return 0;
}

static void copies_go_through_windows(void **state)
{
	(void)state;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		int fd = lw_memfd(4, PAGE, sealed);
		struct percpu_lwbufs *f = lw_create(dup(fd), 0, 0, PERCPU_LWBUF_WRITABLE);
		char *bytes = malloc(4 * PAGE), *copy = malloc(4 * PAGE);
		struct vm_page ma[5];
		char c;

		for (unsigned i = 0; i < 5; i++)
			ma[i] = (struct vm_page){ f, i, PERCPU_LWBUF_WRITE };
		assert_int_equal(pread(fd, bytes, 4 * PAGE, 0), 4 * PAGE);
		assert_int_equal(copy_pages(ma, 100, copy, 3 * PAGE, false), 0);
		assert_memory_equal(copy, bytes + 100, 3 * PAGE);
		memset(copy, 7, 2 * PAGE);
		assert_int_equal(copy_pages(ma, PAGE - 1, copy, PAGE + 2, true), 0);
		for (size_t i = PAGE - 2; i < 2 * PAGE + 2; i++) {
			assert_int_equal(pread(fd, &c, 1, (off_t)i), 1);
			assert_int_equal(c, i < PAGE - 1 || i > 2 * PAGE ? bytes[i] : 7);
		}
		assert_int_equal(copy_pages(ma, 4 * PAGE, copy, 1, false), EFAULT);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		free(bytes);
		free(copy);
		close(fd);
	}
}

static void shared_buffers_have_their_names(void **state)
{
	int fd = lw_memfd(4, PAGE, true);
	struct sf_buf *a, *b, *c;
	struct percpu_lwbufs *f = lw_create(fd, PERCPU_LWBUF_WINDOW, 0, 0);
	struct vm_page m[5];

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		m[i] = (struct vm_page){ f, i, 0 };
	a = sf_buf_alloc(&m[1], SFB_DEFAULT);
	b = sf_buf_alloc(&m[1], SFB_CATCH | SFB_CPUPRIVATE);
	c = sf_buf_alloc(&m[2], SFB_NOWAIT);
	assert_int_equal(sf_buf_kva(a), sf_buf_kva(b));
	assert_ptr_equal(sf_buf_page(c), &m[2]);
	assert_null(sf_buf_alloc(&m[4], SFB_DEFAULT)); /* the file has four pages */
	sf_buf_ref(c);
	sf_buf_free(c);
	assert_true(lw_is_right((void *)sf_buf_kva(c), 2, PAGE));
	sf_buf_free(c);
	c = sf_buf_alloc(&m[3], SFB_NOWAIT);
	assert_non_null(c);
	sf_buf_free(c);
	sf_buf_free(a);
	assert_true(lw_is_right((void *)sf_buf_kva(b), 1, PAGE));
	sf_buf_free(b);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_go_through_windows),
		cmocka_unit_test(shared_buffers_have_their_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* test_twin_buffers.c - buffers of pages, shared and private ones, tested in the same way. */
#define _GNU_SOURCE
#include <percpu/sfbuf.h>

#include "../lwbuf.h"

#define UNKNOWN 0x100 /* a flag */

static int number_of(void **state)
{
	return (int)(uintptr_t)*state;
}

enum buffer { OWN_BUFFER, SHARED_BUFFER, BUFFERS };

#define WRITE 0x1 /* the flag of both */

_Static_assert(PERCPU_LWBUF_WRITE == WRITE && PERCPU_SFBUF_WRITE == WRITE, "one flag for both");

struct held {
	struct percpu_lwbuf lw;
	struct percpu_sfbuf *sf;
};

static const enum percpu_lwbuf_backend backends[] = { PERCPU_LWBUF_AUTO, PERCPU_LWBUF_DIRECT,
						      PERCPU_LWBUF_WINDOW, PERCPU_LWBUF_BOUNCE };

static int take(enum buffer k, struct percpu_lwbufs *f, uint64_t page, unsigned flags,
		struct held *h)
{
	return k == OWN_BUFFER ? percpu_lwbuf_alloc(f, page, flags, h != NULL ? &h->lw : NULL) :
				 percpu_sfbuf_alloc(f, page, flags, h != NULL ? &h->sf : NULL);
}

static int give(enum buffer k, struct percpu_lwbufs *f, struct held *h)
{
	return k == OWN_BUFFER ? percpu_lwbuf_free(f, h != NULL ? &h->lw : NULL) :
				 percpu_sfbuf_free(f, h != NULL ? h->sf : NULL);
}

static void *kva_of(enum buffer k, const struct held *h)
{
	return k == OWN_BUFFER ? percpu_lwbuf_kva(&h->lw) : percpu_sfbuf_kva(h->sf);
}

static void expect_page(enum buffer k, struct percpu_lwbufs *f, uint64_t page, size_t length)
{
	struct held h;

	assert_int_equal(take(k, f, page, 0, &h), 0);
	assert_int_equal(k == OWN_BUFFER ? percpu_lwbuf_page(&h.lw) : percpu_sfbuf_page(h.sf),
			 page);
	assert_int_equal(k == OWN_BUFFER ? percpu_lwbuf_length(&h.lw) : percpu_sfbuf_length(h.sf),
			 length);
	if (page < 3)
		assert_true(lw_is_right(kva_of(k, &h), page, length));
	assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
	assert_int_equal(give(k, f, &h), 0);
}

/* Each page is shown, also the last one, as the file is now. */
static void each_page_is_shown(void **state)
{
	const enum buffer k = (enum buffer)number_of(state);

	for (unsigned i = 0; i < 4; i++) {
		int fd = lw_memfd(3, PAGE, true);
		struct percpu_lwbufs *f;

		assert_int_equal(ftruncate(fd, (off_t)(3 * PAGE + 16)), 0);
		f = lw_create(dup(fd), backends[i], 0, 0);
		for (int round = 0; round < 3; round++) {
			for (uint64_t page = 0; page < 3; page++)
				expect_page(k, f, page, PAGE);
			expect_page(k, f, 3, 16);
		}
		assert_int_equal(ftruncate(fd, (off_t)(4 * PAGE)), 0);
		expect_page(k, f, 3, PAGE);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

static void expect_refused(enum buffer k, struct percpu_lwbufs *f, uint64_t page, unsigned flags,
			   int e)
{
	struct held h, before;

	memset(&h, 0x55, sizeof(h));
	before = h;
	assert_int_equal(take(k, f, page, flags, &h), e);
	assert_memory_equal(&h, &before, sizeof(h));
}

static void buffers_refuse_what_is_wrong(void **state)
{
	const enum buffer k = (enum buffer)number_of(state);

	for (unsigned i = 0; i < 4; i++) {
		int fd = lw_memfd(3, PAGE, true);
		struct percpu_lwbufs *f = lw_create(dup(fd), backends[i], 0, 0);
		struct percpu_lwbufs *other = lw_create(fd, backends[i], 0, 0);
		struct held h, copy;

		expect_refused(k, f, 3, 0, -ERANGE);
		expect_refused(k, f, UINT64_C(1) << 45, 0, -ERANGE);
		expect_refused(k, f, UINT64_MAX, 0, -ERANGE);
		expect_refused(k, f, 0, UNKNOWN, -EINVAL);
		expect_refused(k, f, 0, WRITE, -EACCES);
		expect_refused(k, NULL, 0, 0, -EINVAL);
		assert_int_equal(take(k, f, 0, 0, NULL), -EINVAL);
		assert_int_equal(take(k, f, 1, 0, &h), 0);
		assert_int_equal(give(k, f, NULL), -EINVAL);
		assert_int_equal(give(k, NULL, &h), -EINVAL);
		assert_int_equal(give(k, other, &h), -EINVAL);
		copy = h;
		assert_int_equal(give(k, f, &h), 0);
		h.sf = copy.sf;
		assert_int_equal(give(k, f, &h), -EINVAL);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		assert_int_equal(percpu_lwbuf_destroy(other), 0);
	}
}

static void what_is_stored_reaches_the_file(void **state)
{
	const enum buffer k = (enum buffer)number_of(state);
	uint64_t word;

	for (unsigned i = 0; i < 4; i++) {
		int fd = lw_memfd(3, PAGE, true);
		struct percpu_lwbufs *f = lw_create(dup(fd), backends[i], 0, PERCPU_LWBUF_WRITABLE);
		struct held h;

		for (uint64_t n = 1; n < 4; n++) {
			assert_int_equal(take(k, f, 1, WRITE, &h), 0);
			((uint64_t *)kva_of(k, &h))[1] = n;
			assert_int_equal(give(k, f, &h), 0);
			assert_int_equal(pread(fd, &word, 8, (off_t)(PAGE + 8)), 8);
			assert_int_equal(word, n);
			assert_int_equal(take(k, f, 1, 0, &h), 0);
			assert_int_equal(((uint64_t *)kva_of(k, &h))[1], n);
			assert_int_equal(give(k, f, &h), 0);
		}
		expect_page(k, f, 0, PAGE);
		expect_page(k, f, 2, PAGE);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

static const char *const buffer_names[BUFFERS] = { "buffer", "shared buffer" };

static const struct {
	const char *name;
	void (*run)(void **state);
} bodies[] = {
	{ "each page is shown", each_page_is_shown },
	{ "what is wrong is refused", buffers_refuse_what_is_wrong },
	{ "stores reach the file", what_is_stored_reaches_the_file },
};

#define BODIES (sizeof(bodies) / sizeof(bodies[0]))

int main(void)
{
	static struct CMUnitTest tests[BODIES * BUFFERS];
	static char names[BODIES * BUFFERS][80];
	size_t n = 0;

	for (size_t i = 0; i < BODIES; i++)
		for (int k = 0; k < BUFFERS; k++, n++) {
			snprintf(names[n], sizeof(names[n]), "%s: %s", buffer_names[k],
				 bodies[i].name);
			tests[n] = (struct CMUnitTest){ .name = names[n],
							.test_func = bodies[i].run,
							.initial_state = (void *)(uintptr_t)k };
		}
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* test_sfbuf.c - buffers that threads share. */
#include "../lwbuf.h"
#include "caches/lwbuf.h"

static struct percpu_lwbufs *create(bool sealed, uint64_t pages, size_t max_excess, uint32_t flags,
				    enum percpu_lwbuf_backend backend)
{
	return lw_create(lw_memfd(pages, PAGE, sealed), backend, max_excess, flags);
}

static struct percpu_sfbuf *get(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_sfbuf *b = NULL;

	assert_int_equal(percpu_sfbuf_alloc(f, page, 0, &b), 0);
	assert_int_equal(percpu_sfbuf_page(b), page);
	assert_true(lw_is_right(percpu_sfbuf_kva(b), page, percpu_sfbuf_length(b)));
	return b;
}

static struct percpu_sfbuf_stats stats(const struct percpu_lwbufs *f)
{
	struct percpu_sfbuf_stats s;

	percpu_sfbuf_stats(f, &s);
	return s;
}

static void one_page_has_one_buffer(void **state)
{
	(void)state;
	for (unsigned backend = 0; backend < 4; backend++) {
		struct percpu_lwbufs *f = create(true, 8, 4, 0, backend);
		struct percpu_sfbuf *a = get(f, 3), *b = get(f, 3), *c = get(f, 4);

		assert_ptr_equal(a, b);
		assert_ptr_not_equal(a, c);
		assert_int_equal(stats(f).used, 2);
		assert_int_equal(percpu_sfbuf_ref(f, a), 0);
		assert_int_equal(percpu_sfbuf_free(f, a), 0);
		assert_int_equal(percpu_sfbuf_free(f, a), 0);
		assert_true(lw_is_right(percpu_sfbuf_kva(a), 3, PAGE));
		assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
		assert_int_equal(percpu_sfbuf_free(f, a), 0);
		assert_int_equal(percpu_sfbuf_free(f, a), -EINVAL);
		assert_int_equal(percpu_sfbuf_ref(f, a), -EINVAL);
		assert_int_equal(percpu_sfbuf_free(f, a + 1), -EINVAL);
		assert_int_equal(percpu_sfbuf_free(f, (struct percpu_sfbuf *)(void *)&f), -EINVAL);
		assert_int_equal(percpu_sfbuf_free(f, c), 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

static void put(struct percpu_lwbufs *f, struct percpu_sfbuf *b)
{
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
}

/* Return whether the page is mapped that begins at this address. */
static bool is_mapped(const void *at)
{
	bool mapped;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	mapped = write(p[1], at, 1) == 1;
	close(p[0]);
	close(p[1]);
	return mapped;
}

/* A buffer without references stays mapped while fewer than max_excess were freed after it. */
static void buffers_keep_their_pages(void **state)
{
	struct percpu_lwbufs *f = create(true, 16, 2, 0, PERCPU_LWBUF_WINDOW);
	static const unsigned order[] = { 2, 3, 0, 1 };
	struct percpu_sfbuf *b[4];
	const void *at[4];
	uint64_t fills;

	(void)state;
	for (unsigned p = 0; p < 4; p++) {
		b[p] = get(f, p);
		at[p] = percpu_sfbuf_kva(b[p]);
	}
	for (unsigned i = 0; i < 4; i++) {
		put(f, b[order[i]]);
		assert_int_equal(stats(f).excess, i < 2 ? i + 1 : 2);
	}
	assert_true(is_mapped(at[0]) && is_mapped(at[1]));
	assert_false(is_mapped(at[2]) || is_mapped(at[3]));
	fills = stats(f).fills;
	assert_ptr_equal(get(f, 0), b[0]); /* after its free page 1 is the oldest one */
	assert_int_equal(stats(f).excess, 1);
	put(f, b[0]);
	assert_int_equal(stats(f).fills, fills);
	put(f, get(f, 5));
	assert_int_equal(stats(f).fills, fills + 1);
	put(f, get(f, 0));
	assert_int_equal(stats(f).fills, fills + 1);
	put(f, get(f, 1));
	assert_int_equal(stats(f).fills, fills + 2);
	assert_true(stats(f).excess == 2 && stats(f).used == 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* No number of buffers in use makes an allocation wait or fail. */
static void any_number_may_be_in_use(void **state)
{
	enum { MANY = 1000 };
	struct percpu_sfbuf *b[MANY];
	struct percpu_sfbuf none;

	(void)state;
	for (unsigned backend = 0; backend < 4; backend++) {
		struct percpu_lwbufs *f = create(true, MANY, 3, 0, backend);

		for (unsigned p = 0; p < MANY; p++)
			b[p] = get(f, p);
		assert_int_equal(stats(f).used, MANY);
		for (unsigned p = 0; p < MANY; p++) {
			assert_ptr_equal(get(f, p), b[p]);
			assert_int_equal(percpu_sfbuf_ref(f, b[p]), 0);
			assert_true(lw_is_right(percpu_sfbuf_kva(b[p]), p, PAGE));
			assert_int_equal(percpu_sfbuf_ref(f, (void *)((char *)b[p] + 1)), -EINVAL);
		}
		assert_int_equal(percpu_sfbuf_ref(f, &none), -EINVAL);
		assert_int_equal(stats(f).fills, MANY);
		for (unsigned i = 0; i < 3; i++)
			for (unsigned p = 0; p < MANY; p++) {
				assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
				put(f, b[p]);
			}
		assert_int_equal(stats(f).used, 0);
		assert_int_equal(stats(f).excess, backend == PERCPU_LWBUF_WINDOW ? 3 : 0);
		for (unsigned p = 0; p < MANY; p++)
			assert_int_equal(percpu_sfbuf_free(f, b[p]), -EINVAL);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

/* Buffers in use do not count for the limit, whatever it is. */
static void the_excess_can_be_limited(void **state)
{
	struct percpu_lwbufs *f = create(true, 32, 0, 0, PERCPU_LWBUF_WINDOW);
	struct percpu_sfbuf *b[20];
	const void *at[20];

	(void)state;
	assert_int_equal(stats(f).max_excess, lw_stats(f).max_excess);
	for (unsigned p = 0; p < 20; p++) {
		b[p] = get(f, p);
		at[p] = percpu_sfbuf_kva(b[p]);
	}
	for (unsigned p = 0; p < 10; p++)
		put(f, b[p]);
	assert_int_equal(stats(f).excess, 10);
	assert_int_equal(percpu_sfbuf_set_max_excess(f, 4), 0);
	assert_true(stats(f).excess == 4 && stats(f).max_excess == 4);
	for (unsigned p = 0; p < 10; p++)
		assert_int_equal(is_mapped(at[p]), p >= 6);
	assert_int_equal(percpu_sfbuf_set_max_excess(f, 0), 0);
	assert_int_equal(stats(f).excess, 0);
	for (unsigned p = 10; p < 20; p++) {
		assert_true(lw_is_right(percpu_sfbuf_kva(b[p]), p, PAGE));
		put(f, b[p]);
		assert_false(is_mapped(at[p]));
	}
	assert_true(stats(f).excess == 0 && stats(f).used == 0);
	assert_int_equal(percpu_sfbuf_set_max_excess(f, SIZE_MAX), 0);
	for (unsigned p = 0; p < 32; p++)
		put(f, get(f, p));
	assert_int_equal(stats(f).excess, 32);
	assert_int_equal(lw_stats(f).excess, 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* A page that is mapped whole, a copy, and with PERCPU_LWBUF_DEBUG a window: none is kept. */
static void only_mapped_windows_are_kept(void **state)
{
	(void)state;
	for (unsigned backend = 1; backend < 4; backend++) {
		uint32_t flags = backend == PERCPU_LWBUF_WINDOW ? PERCPU_LWBUF_DEBUG : 0;
		struct percpu_lwbufs *f = create(true, 4, 8, flags, backend);

		put(f, get(f, 1));
		put(f, get(f, 1));
		assert_true(stats(f).excess == 0 && stats(f).fills == 2);
		assert_int_equal(lw_stats(f).used, 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_lwbufs *f = create(false, 4, 2, 0, PERCPU_LWBUF_AUTO);
	struct percpu_sfbuf *a = get(f, 0), *b = get(f, 1), *c = NULL;

	(void)state;
	for (unsigned flag = 2; flag != 0; flag *= 2)
		assert_int_equal(percpu_sfbuf_alloc(f, 2, flag, &c), -EINVAL);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, 0, NULL), -EINVAL);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_WRITE, &c), -EACCES);
	put(f, a);
	assert_int_equal(percpu_sfbuf_alloc(f, 4, 0, &c), -ERANGE);
	assert_int_equal(percpu_sfbuf_alloc(f, UINT64_MAX, 0, &c), -ERANGE);
	assert_int_equal(percpu_sfbuf_alloc(f, UINT64_MAX - 1, 0, &c), -ERANGE);
	assert_null(c);
	put(f, get(f, 3));
	put(f, b);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* A file may be longer than all pages that a buffer can have. */
static void a_page_may_be_beyond_all_buffers(void **state)
{
	static const enum percpu_lwbuf_backend backends[] = { PERCPU_LWBUF_WINDOW,
							      PERCPU_LWBUF_BOUNCE };
	const uint64_t most = PERCPU_LWBUF_MAX_PAGE;
	struct percpu_sfbuf *b = NULL;
	struct percpu_lwbufs *f;
	int fd;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fd = memfd_create("long", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd < 0 || ftruncate(fd, (off_t)((most + 3) * PAGE)) != 0)
			test_skip("no file is so long here");
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
		f = lw_create(fd, backends[i], 2, 0);
		assert_int_equal(percpu_sfbuf_alloc(f, most + 1, 0, &b), -ERANGE);
		assert_null(b);
		if (sizeof(void *) == 8) { /* others cannot map so far into a file */
			assert_int_equal(percpu_sfbuf_alloc(f, most, 0, &b), 0);
			assert_int_equal(percpu_sfbuf_free(f, b), 0);
			b = NULL;
		}
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

/* A page that the file does not have takes the place of no other, however often it is asked for. */
static void pages_beyond_the_end_drive_out_none(void **state)
{
	struct percpu_lwbufs *f = create(true, 4, 2, 0, PERCPU_LWBUF_WINDOW);
	struct percpu_sfbuf *b[2] = { get(f, 0), get(f, 1) }, *none = NULL;
	struct percpu_sfbuf_stats before;

	(void)state;
	put(f, b[0]);
	put(f, b[1]);
	before = stats(f);
	for (unsigned n = 0; n < 1000; n++)
		assert_int_equal(percpu_sfbuf_alloc(f, 4 + n, 0, &none), -ERANGE);
	assert_null(none);
	assert_true(stats(f).excess == 2 && stats(f).used == 0);
	assert_ptr_equal(get(f, 0), b[0]);
	assert_ptr_equal(get(f, 1), b[1]);
	assert_int_equal(stats(f).fills, before.fills + 1000);
	put(f, b[0]);
	put(f, b[1]);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* The allocation of a page fails, the file grows, and the next allocation succeeds. */
static void pages_that_were_not_there_may_come(void **state)
{
	struct percpu_sfbuf *b = NULL;
	struct percpu_lwbufs *f;

	(void)state;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		int fd = lw_memfd(2, PAGE, sealed);

		assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), 0);
		assert_int_equal(percpu_sfbuf_free(f, get(f, 0)), 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(percpu_sfbuf_alloc(f, 2, 0, &b), -ERANGE);
		lw_fill(fd, 3, PAGE);
		assert_int_equal(percpu_sfbuf_free(f, get(f, 2)), 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

/* A page that the file had only a part of is mapped again, as the file may have grown. Only when it
 * is whole does the next allocation find it. */
static void a_part_of_a_page_is_no_hit(void **state)
{
	int fd = lw_memfd(2, PAGE, false);
	struct percpu_sfbuf *b;
	struct percpu_lwbufs *f;

	(void)state;
	assert_int_equal(ftruncate(fd, (off_t)PAGE + 100), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	f = lw_create(dup(fd), PERCPU_LWBUF_WINDOW, 4, 0);
	b = get(f, 1);
	assert_int_equal(percpu_sfbuf_length(b), 100);
	put(f, b);
	lw_fill(fd, 2, PAGE);
	for (unsigned n = 0; n < 3; n++) {
		b = get(f, 1);
		assert_int_equal(percpu_sfbuf_length(b), PAGE);
		assert_true(stats(f).fills == 2 && stats(f).hits == n);
		put(f, b);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static void copies_are_read_again(void **state)
{
	int fd = lw_memfd(2, PAGE, false);
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	struct percpu_sfbuf *a, *b;
	struct percpu_lwbufs *f;
	char byte = 1;

	(void)state;
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	assert_int_equal(percpu_sfbuf_free(f, get(f, 0)), 0);
	assert_int_equal(pwrite(fd, &byte, 1, 0), 1);
	assert_int_equal(percpu_sfbuf_alloc(f, 0, 0, &a), 0);
	assert_int_equal(*(char *)percpu_sfbuf_kva(a), 1);
	/* The free of the last reference writes the page back, though another one had the flag. */
	assert_int_equal(percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &b), 0);
	*(char *)percpu_sfbuf_kva(b) = 2;
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(percpu_sfbuf_free(f, a), 0);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, 2);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* A page that is only read is not written back, also by a buffer that was stored to before. */
static void what_is_only_read_is_not_written(void **state)
{
	int fd = lw_memfd(1, PAGE, false);
	struct percpu_lwbufs *f;
	struct percpu_sfbuf *b;
	char byte;

	(void)state;
	f = lw_create(dup(fd), PERCPU_LWBUF_BOUNCE, 0, PERCPU_LWBUF_WRITABLE);
	assert_int_equal(percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &b), 0);
	*(char *)percpu_sfbuf_kva(b) = 1;
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 0, 0, &b), 0);
	assert_int_equal(pwrite(fd, "2", 1, 0), 1);
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(pread(fd, &byte, 1, 0), 1);
	assert_int_equal(byte, '2');
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* However many buffers are in use, each is found without the lock. */
static void any_number_is_found_without_the_lock(void **state)
{
	enum { PAGES = 300 };
	struct percpu_lwbufs *f = create(false, PAGES, 1, 0, PERCPU_LWBUF_BOUNCE);
	struct percpu_sfbuf *b[PAGES];

	(void)state;
	for (unsigned p = 0; p < PAGES; p++)
		b[p] = get(f, p);
	for (unsigned p = 0; p < PAGES; p++) {
		assert_ptr_equal(get(f, p), b[p]);
		put(f, b[p]);
	}
	assert_true(stats(f).hits == 0 && stats(f).fills == PAGES);
	for (unsigned p = 0; p < PAGES; p++)
		put(f, b[p]);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Little space */

/* Hold 64 windows of 64 KiB: their address space was reserved together. */
static int share_little_space(void *arg)
{
	struct percpu_lwbufs *f = lw_create_wide(lw_large_file(), PERCPU_LWBUF_WINDOW, 64);
	struct percpu_sfbuf *b[64], *more = NULL;

	(void)arg;
	for (unsigned p = 0; p < 64; p++)
		test_child_require(percpu_sfbuf_alloc(f, p, 0, &b[p]) == 0, "64 windows");
	lw_limit_address_space(0);
	test_child_require(percpu_sfbuf_alloc(f, 64, 0, &more) == -ENOMEM, "no space");
	test_child_require(more == NULL && stats(f).used == 64, "no buffer");
	for (unsigned p = 0; p < 64; p++)
		test_child_require(percpu_sfbuf_free(f, b[p]) == 0, "free");
	test_child_require(stats(f).excess == 64, "all are kept");
	test_child_require(percpu_sfbuf_alloc(f, 64, 0, &more) == 0, "space of a free one");
	test_child_require(*(char *)percpu_sfbuf_kva(more) == 0, "its bytes");
	test_child_require(stats(f).excess == 32, "half of them");
	test_child_require(percpu_sfbuf_alloc(f, 63, 0, &b[63]) == 0, "the youngest one");
	test_child_require(stats(f).fills == 66 && stats(f).excess == 31, "is kept");
	test_child_require(percpu_sfbuf_free(f, more) == 0 && percpu_sfbuf_free(f, b[63]) == 0,
			   "free");
	return percpu_lwbuf_destroy(f);
}

static void free_buffers_make_room(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(share_little_space, NULL);
}

/* Free windows hold all address space, and then free shared buffers do: each makes room for the
 * other kind. */
static int take_each_others_space(void *arg)
{
	struct percpu_lwbufs *f = lw_create_wide(lw_large_file(), PERCPU_LWBUF_WINDOW, 64);
	struct percpu_sfbuf *s[64];
	struct percpu_lwbuf b;

	(void)arg;
	test_child_require(test_pin(0, test_cpu(0)), "pin");
	for (unsigned p = 0; p < 64; p++)
		test_child_require(percpu_lwbuf_alloc(f, p, 0, &b) == 0 &&
					   percpu_lwbuf_free(f, &b) == 0,
				   "64 windows");
	test_child_require(lw_stats(f).excess == 64, "all of them free");
	lw_limit_address_space(0);
	for (unsigned p = 0; p < 64; p++)
		test_child_require(percpu_sfbuf_alloc(f, p, 0, &s[p]) == 0, "space of windows");
	test_child_require(lw_stats(f).excess == 0, "which are all taken");
	for (unsigned p = 0; p < 64; p++)
		test_child_require(percpu_sfbuf_free(f, s[p]) == 0, "free");
	test_child_require(stats(f).excess == 64, "all shared buffers are free");
	test_child_require(percpu_lwbuf_alloc(f, 100, 0, &b) == 0, "space of a shared one");
	test_child_require(*(char *)percpu_lwbuf_kva(&b) == 0, "its bytes");
	test_child_require(stats(f).excess == 32, "half of them");
	test_child_require(percpu_lwbuf_free(f, &b) == 0, "free");
	return percpu_lwbuf_destroy(f);
}

static void each_kind_makes_room_for_the_other(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(take_each_others_space, NULL);
}

/* With PERCPU_LWBUF_DEBUG, buffers that were freed rest. Where there is no memory for more buffers,
 * they are used again. All blocks of buffers are in use here, and the next one would be mapped. */
static int use_what_rests(void *arg)
{
	enum { PAGES = 64 * 31 };
	struct percpu_lwbufs *f =
		create(false, PAGES + 1, 1, PERCPU_LWBUF_DEBUG, PERCPU_LWBUF_BOUNCE);
	struct percpu_sfbuf *b[PAGES], *more = NULL;

	(void)arg;
	for (unsigned p = 0; p < PAGES; p++)
		test_child_require(percpu_sfbuf_alloc(f, p, 0, &b[p]) == 0, "all buffers");
	test_child_require(percpu_sfbuf_free(f, b[7]) == 0, "free");
	lw_limit_address_space(0);
	test_child_require(percpu_sfbuf_alloc(f, PAGES, 0, &more) == 0, "the one that rests");
	test_child_require(more == b[7], "is used again");
	test_child_require(lw_is_right(percpu_sfbuf_kva(more), PAGES, PAGE), "its bytes");
	return 0;
}

static void no_buffer_rests_for_ever(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(use_what_rests, NULL);
}

/* Where there is no memory for more buffers, those that are kept are used again, the oldest first. */
static int use_what_is_kept(void *arg)
{
	enum { PAGES = 64 * 31 };
	struct percpu_lwbufs *f = create(true, PAGES + 1, PAGES, 0, PERCPU_LWBUF_WINDOW);
	struct percpu_sfbuf *b[PAGES], *more = NULL;

	(void)arg;
	for (unsigned p = 0; p < PAGES; p++)
		test_child_require(percpu_sfbuf_alloc(f, p, 0, &b[p]) == 0, "all buffers");
	lw_limit_address_space(0);
	test_child_require(percpu_sfbuf_alloc(f, PAGES, 0, &more) == -ENOMEM, "none is kept");
	test_child_require(percpu_sfbuf_free(f, b[7]) == 0 && percpu_sfbuf_free(f, b[3]) == 0,
			   "free");
	test_child_require(percpu_sfbuf_alloc(f, PAGES, 0, &more) == 0, "one that is kept");
	test_child_require(more == b[7], "the oldest one");
	test_child_require(lw_is_right(percpu_sfbuf_kva(more), PAGES, PAGE), "its bytes");
	test_child_require(stats(f).used == PAGES - 1 && stats(f).excess == 1, "the other is kept");
	test_child_require(percpu_sfbuf_alloc(f, 3, 0, &b[3]) == 0 && stats(f).fills == PAGES + 1,
			   "and found");
	return 0;
}

static void kept_buffers_are_used_again(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(use_what_is_kept, NULL);
}

/* Threads */

static void use_shared(unsigned i, void *arg)
{
	struct percpu_lwbufs *f = arg;
	struct percpu_sfbuf *b[2];
	uint64_t state = i + 1;

	for (unsigned n = test_rounds(40000); n > 0; n--) {
		uint64_t p = test_random(&state) % 12;

		if (lw_is_wrong(percpu_sfbuf_alloc(f, p, 0, &b[0]) != 0))
			return;
		if (lw_is_wrong(b[0]->page != p || ((uint64_t *)b[0]->kva)[3] != lw_word(p, 3)))
			return;
		if (lw_is_wrong(percpu_sfbuf_alloc(f, p, 0, &b[1]) != 0 || b[1] != b[0]))
			return;
		if (lw_is_wrong(percpu_sfbuf_free(f, b[0]) != 0 || percpu_sfbuf_free(f, b[1]) != 0))
			return;
	}
}

static void threads_share_buffers(void **state)
{
	(void)state;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		struct percpu_lwbufs *f =
			create(sealed, 12, 5, 0, sealed ? PERCPU_LWBUF_WINDOW : 0);

		test_team_run(8, use_shared, f);
		assert_false(lw_wrong);
		assert_int_equal(stats(f).used, 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

/* Hold some pages at a time, so that the number of buffers grows while others search them. */
static void hold_some(unsigned i, void *arg)
{
	enum { HELD = 60 };
	struct percpu_lwbufs *f = arg;
	struct percpu_sfbuf *b[HELD];
	uint64_t state = i + 1, p;

	for (unsigned n = test_rounds(40); n > 0; n--) {
		for (unsigned k = 0; k < HELD; k++) {
			p = test_random(&state) % 600;
			if (lw_is_wrong(percpu_sfbuf_alloc(f, p, 0, &b[k]) != 0))
				return;
			if (lw_is_wrong(b[k]->page != p ||
					((uint64_t *)b[k]->kva)[5] != lw_word(p, 5)))
				return;
		}
		if (lw_is_wrong(i == 0 && percpu_sfbuf_set_max_excess(f, n % 5 * 50) != 0))
			return;
		for (unsigned k = 0; k < HELD; k++)
			if (lw_is_wrong(percpu_sfbuf_free(f, b[k]) != 0))
				return;
	}
}

static void buffers_grow_while_threads_search(void **state)
{
	(void)state;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		struct percpu_lwbufs *f =
			create(sealed, 600, 50, 0, sealed ? PERCPU_LWBUF_WINDOW : 0);
		struct percpu_sfbuf_stats s;

		test_team_run(8, hold_some, f);
		assert_false(lw_wrong);
		s = stats(f);
		assert_true(s.used == 0 && s.excess <= s.max_excess);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

static bool given; /* atomic; it orders nothing */

static void store_once(unsigned i, void *arg)
{
	struct percpu_sfbuf *b;

	(void)i;
	if (!lw_is_wrong(percpu_sfbuf_alloc(arg, 0, PERCPU_SFBUF_WRITE, &b) != 0)) {
		*(char *)percpu_sfbuf_kva(b) = 1;
		lw_is_wrong(percpu_sfbuf_free(arg, b) != 0);
	}
	__atomic_store_n(&given, true, __ATOMIC_RELAXED);
}

/* Only the count of references orders the other thread's store before the write back:
 * ThreadSanitizer says whether that is enough. */
static void the_last_one_sees_what_others_stored(void **state)
{
	struct percpu_lwbufs *f = create(false, 2, 2, PERCPU_LWBUF_WRITABLE, 0);
	struct percpu_sfbuf *b;
	struct test_team team;

	(void)state;
	given = false;
	assert_int_equal(percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &b), 0);
	test_team_start(&team, 1, store_once, f);
	while (!__atomic_load_n(&given, __ATOMIC_RELAXED))
		test_sleep_us(100);
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	test_team_join(&team);
	assert_false(lw_wrong);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Add to this thread's own word of a page that other threads use: no addition is lost. */
static void store_shared(unsigned i, void *arg)
{
	struct percpu_lwbufs *f = arg;
	struct percpu_sfbuf *b;

	for (unsigned n = test_rounds(5000); n > 0; n--) {
		if (lw_is_wrong(percpu_sfbuf_alloc(f, n % 3, PERCPU_SFBUF_WRITE, &b) != 0))
			return;
		((uint64_t *)b->kva)[i]++;
		if (lw_is_wrong(percpu_sfbuf_free(f, b) != 0))
			return;
	}
}

static void stores_to_copies_are_kept(void **state)
{
	int fd = memfd_create("stores", MFD_CLOEXEC);
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	struct percpu_lwbufs *f;
	uint64_t sum = 0, words[4];

	(void)state;
	if (test_thread_sanitizer())
		test_skip("threads store to a page while another one writes it back");
	assert_int_equal(ftruncate(fd, (off_t)(3 * PAGE)), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	test_team_run(4, store_shared, f);
	assert_false(lw_wrong);
	for (unsigned p = 0; p < 3; p++) {
		assert_int_equal(pread(fd, words, sizeof(words), (off_t)(p * PAGE)), sizeof(words));
		sum += words[0] + words[1] + words[2] + words[3];
	}
	assert_int_equal(sum, 4 * test_rounds(5000));
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_page_has_one_buffer),
		cmocka_unit_test(buffers_keep_their_pages),
		cmocka_unit_test(any_number_may_be_in_use),
		cmocka_unit_test(the_excess_can_be_limited),
		cmocka_unit_test(only_mapped_windows_are_kept),
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(a_page_may_be_beyond_all_buffers),
		cmocka_unit_test(pages_beyond_the_end_drive_out_none),
		cmocka_unit_test(pages_that_were_not_there_may_come),
		cmocka_unit_test(a_part_of_a_page_is_no_hit),
		cmocka_unit_test(copies_are_read_again),
		cmocka_unit_test(what_is_only_read_is_not_written),
		cmocka_unit_test(any_number_is_found_without_the_lock),
		cmocka_unit_test(free_buffers_make_room),
		cmocka_unit_test(each_kind_makes_room_for_the_other),
		cmocka_unit_test(no_buffer_rests_for_ever),
		cmocka_unit_test(kept_buffers_are_used_again),
		cmocka_unit_test(threads_share_buffers),
		cmocka_unit_test(buffers_grow_while_threads_search),
		cmocka_unit_test(the_last_one_sees_what_others_stored),
		cmocka_unit_test(stores_to_copies_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

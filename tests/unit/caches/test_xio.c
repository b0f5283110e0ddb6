/* SPDX-License-Identifier: MIT */
/* test_xio.c - byte ranges over pages of a file, windows mapped ahead, windows reclaimed. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include <percpu/xio.h>

#include "../happen.h"
#include "../lwbuf.h"
#include "caches/lwbuf.h"

#define PAGES 8

#ifndef MADV_POPULATE_READ /* since Linux 5.14; not in the headers of older C libraries */
#define MADV_POPULATE_READ 22
#endif

static int fd;
static struct percpu_lwbufs *f;
static unsigned char model[2 * PAGES * 65536], found[2 * PAGES * 65536];
static size_t size; /* of a page */

static void fill_model(void)
{
	uint64_t state = 1;

	for (size_t i = 0; i < PAGES * size; i++)
		model[i] = (unsigned char)test_random(&state);
	assert_int_equal(pwrite(fd, model, PAGES * size, 0), PAGES * size);
}

static void setup(enum percpu_lwbuf_backend backend, bool sealed, uint32_t flags)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .backend = backend, .flags = flags };

	assert_true(test_pin(0, test_cpu(0)));
	size = PAGE;
	assert_true(size <= 65536);
	fd = lw_memfd(0, PAGE, sealed);
	fill_model();
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
}

static void finish(void)
{
	assert_int_equal(times, 0); /* all has happened */
	assert_int_equal(lw_stats(f).used, 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static void expect_file(void)
{
	assert_int_equal(pread(fd, found, PAGES * size, 0), PAGES * size);
	assert_memory_equal(found, model, PAGES * size);
}

#define W PERCPU_LWBUF_WRITABLE

static const struct {
	enum percpu_lwbuf_backend backend;
	bool sealed;
	uint32_t flags;
} kinds[] = {
	{ PERCPU_LWBUF_DIRECT, true, W },
	{ PERCPU_LWBUF_WINDOW, true, W },
	{ PERCPU_LWBUF_WINDOW, true, W | PERCPU_LWBUF_DEBUG },
	{ PERCPU_LWBUF_AUTO, true, W },
	{ PERCPU_LWBUF_AUTO, true, W | PERCPU_LWBUF_DEBUG },
	{ PERCPU_LWBUF_BOUNCE, false, W },
	{ PERCPU_LWBUF_BOUNCE, false, W | PERCPU_LWBUF_DEBUG },
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static void setup_kind(unsigned i)
{
	setup(kinds[i].backend, kinds[i].sealed, kinds[i].flags);
}

/* Any range of the file is copied out and in, and no byte beside it. */
static void ranges_are_copied(void **state)
{
	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		uint64_t random = i + 1;

		setup_kind(i);
		for (unsigned n = 0; n < 300; n++) {
			size_t begin = test_random(&random) % (PAGES * size), most;
			size_t bytes = test_random(&random) % (PAGES * size - begin + 1), skip, k;
			struct percpu_xio x;

			assert_int_equal(percpu_xio_init(&x, f, begin, bytes), 0);
			skip = bytes != 0 ? test_random(&random) % bytes : 0;
			most = bytes - skip;
			memset(found, 0xee, sizeof(found));
			assert_int_equal(percpu_xio_copy_out(&x, skip, found + 1, most), 0);
			assert_memory_equal(found + 1, model + begin + skip, most);
			assert_true(found[0] == 0xee && found[most + 1] == 0xee);
			for (k = 0; k < most; k++)
				model[begin + skip + k] ^= 0x55;
			assert_int_equal(percpu_xio_copy_in(&x, skip, model + begin + skip, most),
					 0);
			if (n % 16 == 0)
				expect_file();
		}
		expect_file();
		finish();
	}
}

/* The pages of a list may be in any order, and may come twice. */
static void lists_are_copied(void **state)
{
	static const uint64_t pages[] = { 5, 0, 7, 7, 2 };
	const size_t n = sizeof(pages) / sizeof(pages[0]);
	struct percpu_xio x;

	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		setup_kind(i);
		assert_int_equal(percpu_xio_init_pages(&x, f, pages, n, 3, n * size - 5), 0);
		assert_int_equal(percpu_xio_copy_out(&x, 0, found, n * size - 5), 0);
		for (size_t k = 3; k < n * size - 2; k++)
			assert_int_equal(found[k - 3], model[pages[k / size] * size + k % size]);
		/* Across the end of page 5 into page 0. */
		memset(model + 6 * size - 10, 'i', 10);
		memset(model, 'i', 20);
		memset(found, 'i', 30);
		assert_int_equal(percpu_xio_copy_in(&x, size - 3 - 10, found, 30), 0);
		expect_file();
		finish();
	}
}

/* A run may begin and end anywhere, but not beyond itself. */
static void runs_have_ends(void **state)
{
	struct percpu_xio x;

	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		char c[4] = "old";

		setup_kind(i);
		assert_int_equal(percpu_xio_init(&x, f, size - 2, 4), 0);
		assert_int_equal(percpu_xio_copy_out(&x, 0, c, 5), -ERANGE);
		assert_int_equal(percpu_xio_copy_out(&x, 3, c, 2), -ERANGE);
		assert_int_equal(percpu_xio_copy_out(&x, 5, c, 0), -ERANGE);
		assert_int_equal(percpu_xio_copy_out(&x, SIZE_MAX, c, 2), -ERANGE);
		assert_int_equal(percpu_xio_copy_in(&x, 1, c, SIZE_MAX), -ERANGE);
		assert_string_equal(c, "old");
		assert_int_equal(percpu_xio_copy_out(&x, 4, c, 0), 0);
		assert_int_equal(percpu_xio_copy_out(&x, 0, c, 4), 0);
		assert_memory_equal(c, model + size - 2, 4);
		expect_file();
		finish();
	}
}

/* Of a range that the file has a part of, nothing is copied. */
static void the_file_may_end_before(void **state)
{
	uint64_t pages[] = { 1, PAGES, 2 };
	struct percpu_xio x;

	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		setup_kind(i);
		for (unsigned k = 0; k < 3; k++) {
			memset(found, 'x', sizeof(found));
			if (k == 0)
				assert_int_equal(percpu_xio_init(&x, f, size, PAGES * size), 0);
			else
				assert_int_equal(
					percpu_xio_init_pages(&x, f, pages, 3, 0, 3 * size), 0);
			/* Then the list has a page that no file has. */
			pages[1] = PERCPU_LWBUF_MAX_PAGE;
			assert_int_equal(percpu_xio_copy_in(&x, 0, found, x.bytes), -ERANGE);
			assert_int_equal(percpu_xio_copy_out(&x, 0, found, x.bytes), -ERANGE);
			assert_true(found[0] == 'x' && found[x.bytes - 1] == 'x');
			expect_file();
		}
		/* What comes before the hole is there. */
		assert_int_equal(percpu_xio_copy_out(&x, 0, found, size), 0);
		assert_memory_equal(found, model + size, size);
		assert_int_equal(percpu_xio_copy_out(&x, 2 * size, found, size), 0);
		assert_memory_equal(found, model + 2 * size, size);
		pages[1] = PAGES;
		finish();
	}
}

/* A last page of which the file has a part. */
static void the_last_page_may_be_short(void **state)
{
	struct percpu_xio x;

	(void)state;
	for (unsigned i = 0; i < KINDS; i++) {
		setup_kind(i);
		assert_int_equal(pwrite(fd, "the end", 7, (off_t)(PAGES * size)), 7);
		assert_int_equal(percpu_xio_init(&x, f, PAGES * size - 1, 100), 0);
		assert_int_equal(percpu_xio_copy_out(&x, 0, found, 9), -ERANGE);
		assert_int_equal(percpu_xio_copy_out(&x, 0, found, 8), 0);
		assert_memory_equal(found + 1, "the end", 7);
		assert_int_equal(percpu_xio_copy_in(&x, 1, "ThE eNd", 7), 0);
		assert_int_equal(percpu_xio_copy_in(&x, 1, "ThE eNd!", 8), -ERANGE);
		assert_int_equal(pread(fd, found, 100, (off_t)(PAGES * size)), 7);
		assert_memory_equal(found, "ThE eNd", 7);
		finish();
	}
}

static void cut(void)
{
	assert_int_equal(ftruncate(fd, (off_t)(size + 1)), 0);
}

/* The file is cut after the range was seen: the copy fails, and the file stays cut. */
static void the_file_may_be_cut_meanwhile(void **state)
{
	struct percpu_xio x;
	struct stat st;

	(void)state;
	for (unsigned written = 0; written < 2; written++) {
		setup(PERCPU_LWBUF_BOUNCE, false, W);
		assert_int_equal(percpu_xio_init(&x, f, size, 2 * size), 0);
		let_happen(cut, "xio: range seen", 1);
		if (written)
			assert_int_equal(percpu_xio_copy_in(&x, 0, model, 2 * size), -ERANGE);
		else
			assert_int_equal(percpu_xio_copy_out(&x, 0, found, 2 * size), -ERANGE);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, size + 1);
		finish();
	}
}

/* A copy into a file that is never mapped changes no byte beside it, although another process may
 * be writing those. */
static void neighbors_are_not_written(void **state)
{
	static const char four[] = { 'f', 'o', 'u', 'r' };
	struct percpu_xio x;

	(void)state;
	setup(PERCPU_LWBUF_BOUNCE, false, W);
	assert_int_equal(percpu_xio_init(&x, f, 10, 4), 0);
	assert_int_equal(percpu_xio_copy_in(&x, 0, four, 4), 0);
	memcpy(model + 10, four, 4);
	expect_file();
	assert_int_equal(lw_stats(f).bounced, 0);
	assert_int_equal(percpu_xio_copy_out(&x, 0, found, 4), 0);
	assert_int_equal(lw_stats(f).bounced, 0);
	assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
	assert_int_equal(percpu_xio_copy_in(&x, 0, "more", 4), -ENOTSUP);
	expect_file();
	finish();
}

/* Copies use the windows that are mapped. */
static void windows_are_used_again(void **state)
{
	struct percpu_xio x;

	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, W);
	assert_int_equal(percpu_xio_init(&x, f, 1, PAGES * size - 2), 0);
	for (unsigned n = 0; n < 3; n++)
		assert_int_equal(percpu_xio_copy_out(&x, 0, found, x.bytes), 0);
	assert_int_equal(lw_stats(f).mapped, PAGES);
	assert_int_equal(lw_stats(f).windows, 3 * PAGES);
	finish();
}

static void bad_calls_are_refused(void **state)
{
	const uint64_t pages[] = { 0, 1 }, beyond[] = { 0, PERCPU_LWBUF_MAX_PAGE + 1 };
	struct percpu_xio x = { 0 }, before = { .bytes = 7 };
	char c[8] = "";

	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_xio_copy_out(&x, 0, c, 1), -EINVAL);
	assert_int_equal(percpu_xio_copy_in(&x, 0, c, 1), -EINVAL);
	x = before;
	assert_int_equal(percpu_xio_init(NULL, f, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init(&x, NULL, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init(&x, f, UINT64_MAX, 1), -ERANGE);
	assert_int_equal(percpu_xio_init(&x, f, (PERCPU_LWBUF_MAX_PAGE + 1) * size, 1), -ERANGE);
	assert_int_equal(percpu_xio_init(&x, f, (PERCPU_LWBUF_MAX_PAGE + 1) * size - 1, 2),
			 -ERANGE);
	assert_int_equal(percpu_xio_init_pages(NULL, f, pages, 2, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, NULL, pages, 2, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, NULL, 2, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 2, size, 1), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 2, 1, 2 * size), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 0, 0, 1), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 2, 0, SIZE_MAX), -EINVAL);
	assert_int_equal(percpu_xio_init_pages(&x, f, beyond, 2, 0, 1), -ERANGE);
	assert_memory_equal(&x, &before, sizeof(x));
	assert_int_equal(percpu_xio_init(&x, f, (PERCPU_LWBUF_MAX_PAGE + 1) * size - 1, 1), 0);
	assert_int_equal(percpu_xio_copy_out(&x, 0, c, 1), -ERANGE);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 2, 1, 2 * size - 1), 0);
	assert_int_equal(percpu_xio_copy_out(NULL, 0, c, 1), -EINVAL);
	assert_int_equal(percpu_xio_copy_out(&x, 0, NULL, 1), -EINVAL);
	assert_int_equal(percpu_xio_copy_in(&x, 0, NULL, 1), -EINVAL);
	assert_int_equal(percpu_xio_copy_in(&x, 0, c, 1), -EACCES);
	assert_int_equal(percpu_xio_init_pages(&x, f, pages, 0, 0, 0), 0);
	assert_int_equal(percpu_xio_copy_out(&x, 0, c, 0), 0);
	finish();
}

/* Windows mapped ahead */

static void pages_are_mapped_ahead(void **state)
{
	uint64_t mapped = 0;

	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_lwbuf_populate(f, 2, 4, &mapped), 0);
	assert_int_equal(mapped, 4);
	assert_true(lw_stats(f).excess == 4 && lw_stats(f).windows == 0);
	for (uint64_t page = 2; page < 6; page++) {
		struct percpu_lwbuf b;

		assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
		assert_memory_equal(percpu_lwbuf_kva(&b), model + page * size, size);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	}
	assert_int_equal(lw_stats(f).mapped, 4);
	/* Those that are there already are not mapped again. */
	assert_int_equal(percpu_lwbuf_populate(f, 0, PAGES, NULL), 0);
	assert_int_equal(lw_stats(f).mapped, PAGES);
	finish();
}

/* Return whether the page at this address is mapped, so that a load raises no page fault. -1: the
 * kernel does not say. */
static int is_present(const void *at)
{
	int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	off_t entry = (off_t)((uintptr_t)at / PAGE * sizeof(uint64_t));
	uint64_t word = 0;
	bool known = map >= 0 && pread(map, &word, sizeof(word), entry) == sizeof(word);

	if (map >= 0)
		close(map);
	return known ? word >> 63 != 0 : -1;
}

/* Whether this kernel brings pages into memory, and says so. */
static bool is_told_what_is_present(void)
{
	char *at = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
	bool told = at != MAP_FAILED && is_present(at) == 0 &&
		    madvise(at, PAGE, MADV_POPULATE_READ) == 0 && is_present(at) == 1;

	assert_int_equal(munmap(at, PAGE), 0);
	return told;
}

/* A load of a page that was mapped ahead raises no page fault. */
static void pages_ahead_are_in_memory(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		setup(i == 0 ? PERCPU_LWBUF_WINDOW : PERCPU_LWBUF_DIRECT, true, 0);
		if (!is_told_what_is_present()) {
			finish();
			test_skip("the kernel does not say what is in memory");
		}
		assert_int_equal(percpu_lwbuf_populate(f, 2, 3, NULL), 0);
		for (uint64_t page = 2; page < 5; page++) {
			assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
			assert_int_equal(is_present(percpu_lwbuf_kva(&b)), 1);
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		}
		finish();
	}
}

/* Pages that were mapped ahead stay longer than those that were used before. */
static void pages_ahead_are_young(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 4), 0);
	for (uint64_t page = 0; page < 2; page++) {
		assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	}
	assert_int_equal(percpu_lwbuf_populate(f, 4, 2, NULL), 0);
	for (uint64_t page = 7; page > 3; page--) {
		assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	}
	assert_int_equal(lw_stats(f).mapped, 6); /* 0, 1; 4, 5; 7, 6 */
	finish();
}

/* Pages of a file that AUTO does not map whole get windows at once. */
static void automatic_pages_are_mapped_ahead(void **state)
{
	int large = memfd_create("large", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct percpu_lwbuf b;
	uint64_t mapped = 0;

	(void)state;
	if (sizeof(void *) < 8)
		test_skip("AUTO maps each file that this process can have");
	if (large < 0 || ftruncate(large, (off_t)1 << 46) != 0)
		test_skip("no such large file");
	assert_int_equal(fcntl(large, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	f = lw_create(large, PERCPU_LWBUF_AUTO, 0, 0);
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(percpu_lwbuf_populate(f, 100, 3, &mapped), 0);
	assert_int_equal(mapped, 3);
	assert_int_equal(percpu_lwbuf_alloc(f, 101, 0, &b), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_true(lw_stats(f).bounced == 0 && lw_stats(f).mapped == 3);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* No more windows are mapped than may stay so, and none makes room. */
static void the_limit_holds_ahead(void **state)
{
	uint64_t mapped = 0;

	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 3), 0);
	assert_int_equal(percpu_lwbuf_populate(f, 0, PAGES, &mapped), 0);
	assert_int_equal(mapped, 3);
	assert_int_equal(percpu_lwbuf_populate(f, 4, 2, &mapped), 0);
	assert_int_equal(mapped, 0);
	assert_int_equal(percpu_lwbuf_populate(f, 0, 3, &mapped), 0);
	assert_int_equal(mapped, 3);
	assert_true(lw_stats(f).excess == 3 && lw_stats(f).mapped == 3);
	finish();
}

static void pages_beyond_are_not_mapped(void **state)
{
	uint64_t mapped = 77;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		setup(i == 0 ? PERCPU_LWBUF_WINDOW : PERCPU_LWBUF_DIRECT, true, 0);
		assert_int_equal(percpu_lwbuf_populate(NULL, 0, 1, &mapped), -EINVAL);
		assert_int_equal(percpu_lwbuf_populate(f, 0, PAGES + 1, &mapped), -ERANGE);
		assert_int_equal(percpu_lwbuf_populate(f, PAGES, 1, &mapped), -ERANGE);
		assert_int_equal(percpu_lwbuf_populate(f, 1, UINT64_MAX, &mapped), -ERANGE);
		assert_int_equal(percpu_lwbuf_populate(f, UINT64_MAX, 2, &mapped), -ERANGE);
		assert_true(mapped == 77 && lw_stats(f).mapped == 0);
		assert_int_equal(percpu_lwbuf_populate(f, PAGES, 0, &mapped), 0);
		assert_int_equal(mapped, 0);
		assert_int_equal(percpu_lwbuf_populate(f, 1, 3, &mapped), 0);
		assert_int_equal(mapped, 3);
		finish();
		mapped = 77;
	}
	setup(PERCPU_LWBUF_BOUNCE, false, 0);
	assert_int_equal(percpu_lwbuf_populate(f, 0, 1, &mapped), -ENOTSUP);
	finish();
	setup(PERCPU_LWBUF_WINDOW, true, PERCPU_LWBUF_DEBUG);
	assert_int_equal(percpu_lwbuf_populate(f, 0, 1, &mapped), -ENOTSUP);
	assert_int_equal(mapped, 77);
	finish();
}

/* Pages that a file has got since it was mapped whole get windows. */
static void a_file_may_have_grown(void **state)
{
	uint64_t mapped = 0;

	(void)state;
	setup(PERCPU_LWBUF_DIRECT, true, 0);
	assert_int_equal(ftruncate(fd, (off_t)((PAGES + 2) * size)), 0);
	assert_int_equal(percpu_lwbuf_populate(f, PAGES - 2, 4, &mapped), 0);
	assert_int_equal(mapped, 4);
	assert_int_equal(lw_stats(f).mapped, 2);
	finish();
}

/* Reclaiming */

static void free_windows_are_reclaimed(void **state)
{
	struct percpu_lwbuf b;
	uint64_t windows;

	(void)state;
	assert_int_equal(percpu_lwbuf_reclaim(NULL), -EINVAL);
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_lwbuf_populate(f, 0, PAGES, NULL), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_int_equal(lw_stats(f).excess, 0);
	assert_true(lw_stats(f).address >= PAGES * size);
	assert_memory_equal(percpu_lwbuf_kva(&b), model + 3 * size, size);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	/* Now that none is in use, their addresses are given back. */
	windows = lw_stats(f).windows;
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_int_equal(lw_stats(f).address, 0);
	assert_int_equal(lw_stats(f).windows, windows);
	assert_int_equal(percpu_lwbuf_free(f, &b), -EINVAL);
	for (uint64_t page = 0; page < PAGES; page++) {
		assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &b), 0);
		assert_memory_equal(percpu_lwbuf_kva(&b), model + page * size, size);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	}
	assert_int_equal(lw_stats(f).windows, windows + PAGES);
	assert_int_equal(lw_stats(f).excess, PAGES);
	finish();
}

/* A copy of a buffer from before the reclaim is none of the buffers after it. */
static void what_was_reclaimed_is_known(void **state)
{
	struct percpu_lwbuf b, copy;

	(void)state;
	for (unsigned i = 1; i < KINDS; i++) {
		if (kinds[i].flags & PERCPU_LWBUF_DEBUG)
			continue;
		setup_kind(i);
		assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
		copy = b;
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		assert_int_equal(percpu_lwbuf_reclaim(f), 0);
		if (copy.window != NULL)
			assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
		assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
		if (copy.window != NULL)
			assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
		assert_memory_equal(percpu_lwbuf_kva(&b), model + 3 * size, size);
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		finish();
	}
}

/* Bounce buffers, and shared ones, in use and free. */
static void buffers_in_use_stay(void **state)
{
	struct percpu_lwbuf b[2];
	struct percpu_sfbuf *s;

	(void)state;
	setup(PERCPU_LWBUF_BOUNCE, false, 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b[0]), 0);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_memory_equal(percpu_lwbuf_kva(&b[1]), model + size, size);
	assert_int_equal(lw_stats(f).used, 1);
	assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
	assert_int_equal(percpu_lwbuf_free(f, &b[1]), 0);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_int_equal(lw_stats(f).address, 0);
	assert_int_equal(lw_stats(f).used, 0);
	finish();
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, 0, &s), 0);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_memory_equal(percpu_sfbuf_kva(s), model + 2 * size, size);
	assert_int_equal(percpu_sfbuf_free(f, s), 0);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_int_equal(lw_stats(f).address, 0);
	finish();
}

/* Threads */

#define THREADS 3

static void copy_and_reclaim(unsigned i, void *arg)
{
	unsigned char mine[3 * 65536];
	uint64_t random = i + 1;
	struct percpu_xio x;

	(void)arg;
	for (unsigned n = test_rounds(2000); n > 0; n--) {
		size_t begin = test_random(&random) % (PAGES * size - 2 * size);
		size_t bytes = test_random(&random) % (2 * size);

		if (lw_is_wrong(percpu_xio_init(&x, f, begin, bytes) != 0 ||
				percpu_xio_copy_out(&x, 0, mine, bytes) != 0 ||
				memcmp(mine, model + begin, bytes) != 0))
			return;
		if (i == 0 && n % 8 == 0 && lw_is_wrong(percpu_lwbuf_reclaim(f) != 0))
			return;
		if (i == 1 && n % 8 == 0 &&
		    lw_is_wrong(percpu_lwbuf_populate(f, n % 4, 4, NULL) != 0))
			return;
	}
}

static void threads_copy_while_one_reclaims(void **state)
{
	(void)state;
	setup(PERCPU_LWBUF_WINDOW, true, 0);
	test_unpin(0);
	test_team_run(THREADS, copy_and_reclaim, NULL);
	assert_false(lw_wrong);
	assert_int_equal(percpu_lwbuf_reclaim(f), 0);
	assert_int_equal(lw_stats(f).address, 0);
	finish();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_are_copied),
		cmocka_unit_test(lists_are_copied),
		cmocka_unit_test(runs_have_ends),
		cmocka_unit_test(the_file_may_end_before),
		cmocka_unit_test(the_last_page_may_be_short),
		cmocka_unit_test(the_file_may_be_cut_meanwhile),
		cmocka_unit_test(neighbors_are_not_written),
		cmocka_unit_test(windows_are_used_again),
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(pages_are_mapped_ahead),
		cmocka_unit_test(pages_ahead_are_in_memory),
		cmocka_unit_test(pages_ahead_are_young),
		cmocka_unit_test(automatic_pages_are_mapped_ahead),
		cmocka_unit_test(the_limit_holds_ahead),
		cmocka_unit_test(pages_beyond_are_not_mapped),
		cmocka_unit_test(a_file_may_have_grown),
		cmocka_unit_test(free_windows_are_reclaimed),
		cmocka_unit_test(what_was_reclaimed_is_known),
		cmocka_unit_test(buffers_in_use_stay),
		cmocka_unit_test(threads_copy_while_one_reclaims),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

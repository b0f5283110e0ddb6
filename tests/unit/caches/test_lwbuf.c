/* SPDX-License-Identifier: MIT */
/* test_lwbuf.c - windows, bounce buffers and direct addresses of pages of a file. */
#include "../lwbuf.h"

#include <sys/stat.h>

#include <percpu/xio.h>

#define DIRECT PERCPU_LWBUF_DIRECT
#define WINDOW PERCPU_LWBUF_WINDOW
#define BOUNCE PERCPU_LWBUF_BOUNCE
#define AUTO PERCPU_LWBUF_AUTO

static const enum percpu_lwbuf_backend backends[] = { AUTO, DIRECT, WINDOW, BOUNCE };

/* Pin the thread, so that it finds the windows that it has freed. */
static int stay(void **state)
{
	(void)state;
	return test_pin(0, test_cpu(0)) ? 0 : 1;
}

static void each_backend_has_the_page(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		for (size_t size = PAGE; size <= 1 << 20; size *= 16) {
			struct percpu_lwbuf_options o = { .size = sizeof(o),
							  .window = size,
							  .backend = backends[i] };
			int fd = lw_memfd(5, size, true);
			struct percpu_lwbufs *f;

			assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
			close(fd);
			for (unsigned round = 0; round < 3; round++)
				for (uint64_t p = 0; p < 5; p++)
					assert_non_null(lw_touch(f, p));
			assert_int_equal(lw_stats(f).used, 0);
			assert_int_equal(percpu_lwbuf_destroy(f), 0);
		}
}

static void stores_reach_the_file(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		int fd = lw_memfd(3, PAGE, true);
		struct percpu_lwbufs *f = lw_create(dup(fd), backends[i], 0, PERCPU_LWBUF_WRITABLE);
		struct percpu_lwbuf b;
		char c = 0;

		for (unsigned n = 1; n < 4; n++) {
			assert_int_equal(percpu_lwbuf_alloc(f, 1, PERCPU_LWBUF_WRITE, &b), 0);
			((char *)percpu_lwbuf_kva(&b))[PAGE - 1] = (char)n;
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
			assert_int_equal(pread(fd, &c, 1, (off_t)(2 * PAGE - 1)), 1);
			assert_int_equal(c, n);
		}
		assert_non_null(lw_touch(f, 2));
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

/* Return how many descriptors a program run by exec(2) would inherit. */
static unsigned inherited(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++) {
		const int flags = fcntl(fd, F_GETFD);

		n += flags >= 0 && !(flags & FD_CLOEXEC);
	}
	return n;
}

static void the_descriptor_is_not_inherited(void **state)
{
	const unsigned before = inherited();
	struct percpu_lwbufs *f;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		f = lw_create(lw_memfd(1, PAGE, true), backends[i], 0, 0);
		assert_non_null(lw_touch(f, 0));
		assert_int_equal(inherited(), before);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

/* A bounce buffer allocated without PERCPU_LWBUF_WRITE is not written back. */
static void copies_are_not_written_back(void **state)
{
	int fd = lw_memfd(2, PAGE, false);
	struct percpu_lwbufs *f = lw_create(dup(fd), BOUNCE, 0, PERCPU_LWBUF_WRITABLE);
	struct percpu_lwbuf b;

	(void)state;
	assert_int_equal(percpu_lwbuf_alloc(f, 0, 0, &b), 0);
	memset(percpu_lwbuf_kva(&b), 0, PAGE);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_non_null(lw_touch(f, 0));
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static void the_end_is_known(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		int fd = lw_memfd(3, PAGE, true);
		struct percpu_lwbufs *f;
		struct percpu_lwbuf b = { .page = 7 };

		assert_int_equal(ftruncate(fd, (off_t)(3 * PAGE + 16)), 0);
		f = lw_create(dup(fd), backends[i], 0, 0);
		for (unsigned n = 0; n < 3; n++) {
			assert_int_equal(percpu_lwbuf_alloc(f, 4, 0, &b), -ERANGE);
			assert_int_equal(percpu_lwbuf_alloc(f, UINT64_MAX, 0, &b), -ERANGE);
			assert_int_equal(percpu_lwbuf_alloc(f, UINT64_MAX / PAGE, 0, &b), -ERANGE);
			assert_int_equal(b.page, n == 0 ? 7 : 0);
			assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
			assert_int_equal(percpu_lwbuf_length(&b), 16);
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		}
		/* The file grows. */
		lw_fill(fd, 5, PAGE);
		assert_int_equal(percpu_lwbuf_alloc(f, 3, 0, &b), 0);
		assert_int_equal(percpu_lwbuf_length(&b), PAGE);
		assert_true(lw_is_right(percpu_lwbuf_kva(&b), 3, PAGE));
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		assert_non_null(lw_touch(f, 4));
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

static void empty_files_have_no_page(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct percpu_lwbuf_options o = { .size = sizeof(o), .backend = backends[i] };
		int fd = lw_memfd(0, PAGE, true);
		struct percpu_lwbufs *f;
		struct percpu_lwbuf b;

		assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
		assert_int_equal(percpu_lwbuf_alloc(f, 0, 0, &b), -ERANGE);
		lw_fill(fd, 2, PAGE);
		assert_non_null(lw_touch(f, 1));
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

/* The creation refuses PERCPU_LWBUF_WRITABLE of a memfd that is sealed against writing. */
static void sealed_files_are_not_writable(void **state)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	const int seals[] = { F_SEAL_WRITE, 0x0010 /* F_SEAL_FUTURE_WRITE */ };
	struct percpu_lwbufs *f;

	(void)state;
	for (unsigned k = 0; k < 2; k++)
		for (unsigned i = 0; i < 4; i++) {
			int fd = lw_memfd(2, PAGE, true);

			if (fcntl(fd, F_ADD_SEALS, seals[k]) == 0) {
				o.backend = backends[i];
				f = NULL;
				assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EPERM);
				assert_null(f);
				f = lw_create(dup(fd), backends[i], 0, 0);
				assert_non_null(lw_touch(f, 1));
				assert_int_equal(percpu_lwbuf_destroy(f), 0);
			}
			close(fd);
		}
}

static void bad_input_is_refused(void **state)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o) };
	int fd = lw_memfd(1, PAGE, false), p[2], append, more;
	struct percpu_lwbufs *f = NULL;

	(void)state;
	assert_int_equal(percpu_lwbuf_create(-1, NULL, &f), -EBADF);
	assert_int_equal(pipe(p), 0);
	assert_int_equal(percpu_lwbuf_create(p[0], NULL, &f), -EINVAL);
	close(p[0]);
	close(p[1]);
	for (size_t window = 1; window <= 4 << 20; window = window * 2 + 1) {
		o.window = window;
		assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	}
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .window = 2 << 20 };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .window = PAGE / 2 };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .max_excess = 65537 };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .flags = PERCPU_LWBUF_WRITE };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .backend = BOUNCE + 1 };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -EINVAL);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .backend = WINDOW };
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -ENOTSUP);
	o.backend = DIRECT;
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), -ENOTSUP);
	o = (struct percpu_lwbuf_options){ .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	more = open(test_path("lwbuf"), O_RDWR | O_CREAT, 0600);
	append = open(test_path("lwbuf"), O_RDWR | O_APPEND);
	assert_int_equal(percpu_lwbuf_create(append, &o, &f), -EINVAL);
	close(append);
	append = open(test_path("lwbuf"), O_RDONLY);
	assert_int_equal(percpu_lwbuf_create(append, &o, &f), -EACCES);
	close(append);
	append = open(test_path("lwbuf"), O_WRONLY);
	o.flags = 0;
	assert_int_equal(percpu_lwbuf_create(append, &o, &f), -EACCES);
	close(append);
	close(more);
	assert_null(f);
	close(fd);
}

/* A file is sealed after the creation: windows stay mapped, and AUTO can still read. */
static void files_may_be_sealed_later(void **state)
{
	const enum percpu_lwbuf_backend all[] = { AUTO, WINDOW, BOUNCE };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		int fd = lw_memfd(4, PAGE, true);
		bool read = all[i] != WINDOW, write = all[i] == BOUNCE;
		/* With DEBUG, AUTO does not map the whole file. */
		struct percpu_lwbufs *f =
			lw_create(dup(fd), all[i], 0, PERCPU_LWBUF_WRITABLE | PERCPU_LWBUF_DEBUG);
		struct percpu_lwbuf b;

		assert_non_null(lw_touch(f, 1));
		if (fcntl(fd, F_ADD_SEALS, 0x0010 /* F_SEAL_FUTURE_WRITE */) == 0) {
			for (unsigned n = 0; n < 4; n++)
				assert_int_equal(lw_touch(f, 2) != NULL, read);
			assert_int_equal(percpu_lwbuf_alloc(f, 2, 0, &b), read ? 0 : -EPERM);
			assert_int_equal(read ? percpu_lwbuf_free(f, &b) : 0, 0);
			assert_int_equal(percpu_lwbuf_alloc(f, 3, PERCPU_LWBUF_WRITE, &b),
					 write ? 0 : -EPERM);
			assert_int_equal(write ? percpu_lwbuf_free(f, &b) : -EPERM, -EPERM);
		}
		assert_true(lw_stats(f).mapped <= lw_stats(f).windows);
		assert_int_equal(lw_stats(f).used, 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
}

/* Another holder of the open file sets O_APPEND: nothing is appended. */
static void appending_files_are_not_written(void **state)
{
	int fd = open(test_path("append"), O_RDWR | O_CREAT, 0600);
	struct percpu_lwbufs *f;
	struct percpu_sfbuf *sf;
	struct percpu_lwbuf b;
	struct stat st;
	char c = 0;

	(void)state;
	lw_fill(fd, 3, PAGE);
	f = lw_create(dup(fd), BOUNCE, 0, PERCPU_LWBUF_WRITABLE);
	for (int appends = 1; appends >= 0; appends--) {
		assert_int_equal(percpu_lwbuf_alloc(f, 1, PERCPU_LWBUF_WRITE, &b), 0);
		assert_int_equal(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_WRITE, &sf), 0);
		memset(percpu_lwbuf_kva(&b), 'b', PAGE);
		memset(percpu_sfbuf_kva(sf), 's', PAGE);
		assert_int_equal(fcntl(fd, F_SETFL, appends ? O_APPEND : 0), 0);
		assert_int_equal(percpu_lwbuf_free(f, &b), appends ? -ENOTSUP : 0);
		assert_int_equal(percpu_sfbuf_free(f, sf), appends ? -ENOTSUP : 0);
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(st.st_size, 3 * PAGE);
		if (appends) {
			assert_non_null(lw_touch(f, 1));
			assert_non_null(lw_touch(f, 2));
		}
	}
	assert_true(pread(fd, &c, 1, (off_t)PAGE) == 1 && c == 'b');
	assert_true(pread(fd, &c, 1, (off_t)(2 * PAGE)) == 1 && c == 's');
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

static int without_descriptors(void *arg)
{
	struct rlimit limit = { .rlim_max = 3 };
	int fd = lw_memfd(2, PAGE, true);
	struct percpu_lwbufs *f = NULL;

	(void)arg;
	for (; limit.rlim_max > 0; limit.rlim_max--) {
		limit.rlim_cur = limit.rlim_max;
		test_child_require(setrlimit(RLIMIT_NOFILE, &limit) == 0, "RLIMIT_NOFILE");
		test_child_require(percpu_lwbuf_create(fd, NULL, &f) == -EMFILE && f == NULL,
				   "-EMFILE");
	}
	return 0;
}

static void no_descriptors_is_an_error(void **state)
{
	(void)state;
	test_in_child(without_descriptors, NULL);
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(4, PAGE, true), WINDOW, 0, 0);
	struct percpu_lwbufs *other = lw_create(lw_memfd(4, PAGE, true), WINDOW, 0, 0);
	struct percpu_lwbuf b = { 0 }, copy;

	(void)state;
	assert_int_equal(percpu_lwbuf_free(f, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b), -EACCES);
	assert_int_equal(percpu_lwbuf_alloc(f, 0, 2, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_alloc(f, 0, 0, &b), 0);
	copy = b;
	assert_int_equal(percpu_lwbuf_free(other, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_destroy(f), -EBUSY);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b), -EINVAL);
	assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
	/* Also when the window is allocated again. */
	assert_int_equal(percpu_lwbuf_alloc(f, 0, 0, &b), 0);
	assert_ptr_equal(percpu_lwbuf_kva(&b), copy.kva);
	assert_int_equal(percpu_lwbuf_free(f, &copy), -EINVAL);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 1 << 20), -EINVAL);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	assert_int_equal(percpu_lwbuf_destroy(other), 0);
}

/* No other buffer has the address while it is allocated, except one of the same page, which may
 * share the mapping. */
static void buffers_are_exclusive(void **state)
{
	struct percpu_lwbuf b[300];

	(void)state;
	for (unsigned i = 2; i < 4; i++) {
		struct percpu_lwbufs *f = lw_create(lw_memfd(100, PAGE, true), backends[i], 16, 0);
		bool shares = backends[i] == WINDOW;

		for (unsigned n = 0; n < 300; n++) {
			assert_int_equal(percpu_lwbuf_alloc(f, n % 100, 0, &b[n]), 0);
			for (unsigned k = 0; k < n; k++)
				assert_true(b[k].kva != b[n].kva ||
					    (shares && b[k].page == b[n].page));
		}
		for (unsigned n = 0; n < 300; n++)
			assert_true(lw_is_right(b[n].kva, n % 100, PAGE));
		assert_int_equal(lw_stats(f).used, 300);
		for (unsigned n = 0; n < 300; n++)
			assert_int_equal(percpu_lwbuf_free(f, &b[n]), 0);
		assert_true(lw_stats(f).excess <= 16);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
}

static void freed_windows_are_found_again(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), WINDOW, 64, 0);
	void *at[64];

	(void)state;
	for (uint64_t p = 0; p < 64; p++)
		at[p] = lw_touch(f, p);
	assert_int_equal(lw_stats(f).mapped, 64);
	for (unsigned round = 0; round < 10; round++)
		for (uint64_t p = 0; p < 64; p++)
			assert_ptr_equal(lw_touch(f, p), at[p]);
	assert_int_equal(lw_stats(f).mapped, 64);
	assert_int_equal(lw_stats(f).windows, 11 * 64);
	assert_int_equal(lw_stats(f).excess, 64);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* With room for few windows, those that were used last stay. */
static void the_oldest_is_replaced(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), WINDOW, 4, 0);
	uint64_t mapped;

	(void)state;
	assert_non_null(lw_touch(f, 0));
	assert_non_null(lw_touch(f, 1));
	for (uint64_t p = 2; p < 64; p++) {
		assert_non_null(lw_touch(f, p));
		mapped = lw_stats(f).mapped;
		assert_int_equal(mapped, p + 1);
		assert_non_null(lw_touch(f, 0));
		assert_non_null(lw_touch(f, 1));
		assert_int_equal(lw_stats(f).mapped, mapped);
		assert_true(lw_stats(f).excess <= 4);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void the_limit_can_change(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), WINDOW, 64, 0);
	struct percpu_lwbuf held[8];
	uint64_t mapped;

	(void)state;
	for (uint64_t p = 0; p < 64; p++)
		assert_non_null(lw_touch(f, p));
	assert_int_equal(lw_stats(f).excess, 64);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 63), 0);
	assert_int_equal(lw_stats(f).excess, 63);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 10), 0);
	for (uint64_t p = 0; p < 64; p++)
		assert_non_null(lw_touch(f, p));
	assert_int_equal(lw_stats(f).excess, 10);
	/* Windows in use do not count as excess. */
	for (uint64_t p = 0; p < 8; p++)
		assert_int_equal(percpu_lwbuf_alloc(f, p, 0, &held[p]), 0);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
	assert_int_equal(lw_stats(f).excess, 0);
	for (uint64_t p = 0; p < 8; p++) {
		assert_true(lw_is_right(held[p].kva, p, PAGE));
		assert_int_equal(percpu_lwbuf_free(f, &held[p]), 0);
		assert_int_equal(lw_stats(f).excess, 0);
	}
	mapped = lw_stats(f).mapped;
	assert_non_null(lw_touch(f, 1));
	assert_int_equal(lw_stats(f).mapped, mapped + 1);
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 4096), 0);
	for (unsigned round = 0; round < 2; round++)
		for (uint64_t p = 0; p < 64; p++)
			assert_non_null(lw_touch(f, p));
	assert_int_equal(lw_stats(f).mapped, mapped + 65);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* At the limit, a window of another CPU that shows the page is taken from there. */
static void other_cpus_windows_are_found(void **state)
{
	struct percpu_lwbufs *f;
	void *at[8];

	(void)state;
	if (test_cpus() < 2)
		test_skip("there is one CPU");
	f = lw_create(lw_memfd(64, PAGE, true), WINDOW, 8, 0);
	for (uint64_t p = 0; p < 8; p++)
		at[p] = lw_touch(f, p);
	assert_true(test_pin(0, test_cpu(1)));
	for (uint64_t p = 0; p < 8; p++)
		assert_ptr_equal(lw_touch(f, p), at[p]);
	assert_int_equal(lw_stats(f).mapped, 8);
	/* This CPU has no window, so another CPU's window for another page is taken. */
	assert_true(test_pin(0, test_cpu(0)));
	assert_non_null(lw_touch(f, 20));
	assert_int_equal(lw_stats(f).excess, 8);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* The first piece of address space is for 64 windows; each piece is as large as all before it. */
static void address_space_grows(void **state)
{
	static const struct {
		unsigned used, room;
	} steps[] = { { 1, 64 }, { 64, 64 }, { 65, 128 }, { 128, 128 }, { 129, 256 } };
	struct percpu_lwbufs *f = lw_create(lw_memfd(129, PAGE, true), WINDOW, 0, 0);
	struct percpu_lwbuf b[129];
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (; n < steps[i].used; n++)
			assert_int_equal(percpu_lwbuf_alloc(f, n, 0, &b[n]), 0);
		assert_int_equal(lw_stats(f).address, steps[i].room * PAGE);
	}
	while (n > 0)
		assert_int_equal(percpu_lwbuf_free(f, &b[--n]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void the_descriptor_may_be_closed(void **state)
{
	struct test_holding before = test_holding_now();
	struct percpu_lwbufs *f;
	int fd = lw_memfd(4, PAGE, true);

	(void)state;
	f = lw_create(fd, WINDOW, 0, 0);
	assert_non_null(lw_touch(f, 3));
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	test_assert_holding(before);
}

/* The program closes the library's descriptor, and another file gets its number. */
static void another_files_bytes_are_not_written(void **state)
{
	static const enum percpu_lwbuf_backend kinds[] = { BOUNCE, WINDOW };
	struct test_holding before = test_holding_now();
	int fd, number, victim = lw_memfd(4, PAGE, true);
	struct percpu_lwbufs *f;
	struct percpu_sfbuf *s;
	struct percpu_lwbuf b;
	struct percpu_xio x;
	char byte = 1;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		fd = lw_memfd(4, PAGE, true);
		number = dup(fd); /* the lowest that is free */
		close(number);
		f = lw_create(fd, kinds[i], 0, PERCPU_LWBUF_WRITABLE);
		assert_int_equal(percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b), 0);
		memset(percpu_lwbuf_kva(&b), 0, PAGE);
		assert_int_equal(percpu_sfbuf_alloc(f, 1, PERCPU_SFBUF_WRITE, &s), 0);
		memset(percpu_sfbuf_kva(s), 0, PAGE);
		assert_int_equal(percpu_xio_init(&x, f, 2 * PAGE, 1), 0);
		assert_int_equal(dup2(victim, number), number);
		assert_int_equal(percpu_lwbuf_free(f, &b), i == 0 ? -EBADF : 0);
		assert_int_equal(percpu_sfbuf_free(f, s), i == 0 ? -EBADF : 0);
		assert_int_equal(percpu_xio_copy_in(&x, 0, &byte, 1), -EBADF);
		if (i == 1) /* no window of the other file is mapped */
			assert_int_equal(percpu_lwbuf_alloc(f, 3, PERCPU_LWBUF_WRITE, &b), -EBADF);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
	f = lw_create(victim, BOUNCE, 0, 0);
	for (uint64_t p = 0; p < 4; p++)
		assert_non_null(lw_touch(f, p));
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	test_assert_holding(before);
}

/* Many threads */

#define THREADS 4

static void use_pages(unsigned i, void *arg)
{
	struct percpu_lwbufs *f = arg;
	uint64_t state = i + 1;
	struct percpu_lwbuf b[3];

	for (unsigned n = test_rounds(30000); n > 0; n--) {
		unsigned held = 1 + test_random(&state) % 3;

		for (unsigned k = 0; k < held; k++) {
			uint64_t p = test_random(&state) % 48;

			if (lw_is_wrong(percpu_lwbuf_alloc(f, p, 0, &b[k]) != 0 || b[k].page != p))
				return;
		}
		for (unsigned k = 0; k < held; k++) {
			const uint64_t *words = percpu_lwbuf_kva(&b[k]);

			if (lw_is_wrong(words[0] != lw_word(b[k].page, 0) ||
					words[9] != lw_word(b[k].page, 9)))
				return;
		}
		for (unsigned k = 0; k < held; k++)
			if (lw_is_wrong(percpu_lwbuf_free(f, &b[k]) != 0))
				return;
		if (i == 0 && n % 1000 == 0)
			(void)!percpu_lwbuf_set_max_excess(f, n / 1000 % 2 ? 8 : 32);
	}
}

static void threads_share_the_windows(void **state)
{
	(void)state;
	test_unpin(0);
	for (unsigned i = 2; i < 4; i++) {
		struct percpu_lwbufs *f = lw_create(lw_memfd(48, PAGE, true), backends[i], 32, 0);

		test_team_run(THREADS, use_pages, f);
		assert_false(lw_wrong);
		assert_int_equal(lw_stats(f).used, 0);
		assert_true(lw_stats(f).excess <= 32 + THREADS);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
	stay(state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_backend_has_the_page),
		cmocka_unit_test(stores_reach_the_file),
		cmocka_unit_test(the_descriptor_is_not_inherited),
		cmocka_unit_test(copies_are_not_written_back),
		cmocka_unit_test(the_end_is_known),
		cmocka_unit_test(empty_files_have_no_page),
		cmocka_unit_test(sealed_files_are_not_writable),
		cmocka_unit_test(files_may_be_sealed_later),
		cmocka_unit_test(appending_files_are_not_written),
		cmocka_unit_test(no_descriptors_is_an_error),
		cmocka_unit_test(bad_input_is_refused),
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(buffers_are_exclusive),
		cmocka_unit_test(freed_windows_are_found_again),
		cmocka_unit_test(the_oldest_is_replaced),
		cmocka_unit_test(the_limit_can_change),
		cmocka_unit_test(other_cpus_windows_are_found),
		cmocka_unit_test(address_space_grows),
		cmocka_unit_test(the_descriptor_may_be_closed),
		cmocka_unit_test(another_files_bytes_are_not_written),
		cmocka_unit_test(threads_share_the_windows),
	};

	return cmocka_run_group_tests(tests, stay, test_remove_paths);
}

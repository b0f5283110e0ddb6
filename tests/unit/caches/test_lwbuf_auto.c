/* SPDX-License-Identifier: MIT */
/*
 * test_lwbuf_auto.c - which pages get windows if the file is too large to be mapped.
 */
#include "../lwbuf.h"

#define REQUIRE(x) test_child_require((x), #x)

static struct percpu_lwbufs *create_small(size_t max_excess)
{
	struct percpu_lwbufs *f;

	lw_limit_address_space((size_t)64 << 20);
	REQUIRE(test_pin(0, test_cpu(0)));
	f = lw_create_wide(lw_large_file(), PERCPU_LWBUF_AUTO, max_excess);
	REQUIRE(lw_stats(f).backend == PERCPU_LWBUF_WINDOW);
	return f;
}

static void use(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_lwbuf b;

	REQUIRE(percpu_lwbuf_alloc(f, page, 0, &b) == 0);
	REQUIRE(*(char *)percpu_lwbuf_kva(&b) == 0);
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
}

static void use_first(struct percpu_lwbufs *f, uint64_t pages)
{
	for (uint64_t page = 0; page < pages; page++)
		use(f, page);
}

/* A page gets a window the second time. Pages that are used once do not replace it. */
static int use_some_again(void *arg)
{
	struct percpu_lwbufs *f = create_small(8);
	uint64_t bounced;

	(void)arg;
	for (unsigned i = 0; i < 24; i++) {
		use(f, i % 8);
		REQUIRE(lw_stats(f).mapped == (i < 8 ? 0 : i < 16 ? i - 7 : 8));
		REQUIRE(lw_stats(f).bounced == (i < 8 ? i + 1 : 8));
	}
	for (unsigned i = 8; i < 4000; i++)
		use(f, i);
	bounced = lw_stats(f).bounced;
	use_first(f, 8);
	REQUIRE(lw_stats(f).mapped == 8 && lw_stats(f).bounced == bounced);
	/* More pages come again than there is room for: few get a window. */
	for (unsigned i = 0; i < 1280; i++)
		use(f, 100 + i % 12);
	REQUIRE(lw_stats(f).mapped > 8 && lw_stats(f).mapped < 20);
	return 0;
}

static void windows_are_for_pages_that_come_again(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(use_some_again, NULL);
}

/* If max_excess is 0, no page gets a window, however often it comes. */
static int use_without_windows(void *arg)
{
	struct percpu_lwbufs *f = create_small(8);

	(void)arg;
	use_first(f, 8);
	use_first(f, 8);
	REQUIRE(lw_stats(f).mapped == 8 && lw_stats(f).excess == 8);
	REQUIRE(percpu_lwbuf_set_max_excess(f, 0) == 0);
	use_first(f, 8);
	use_first(f, 8);
	REQUIRE(lw_stats(f).mapped == 8 && lw_stats(f).excess == 0);
	REQUIRE(lw_stats(f).bounced == 24);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void no_window_is_mapped_where_none_may_stay(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(use_without_windows, NULL);
}

/* A file larger than a quarter of RLIMIT_AS is not mapped, though there is room for it. */
static int map_no_more_than_a_quarter(void *arg)
{
	static const enum percpu_lwbuf_backend backends[] = { PERCPU_LWBUF_WINDOW,
							      PERCPU_LWBUF_DIRECT };
	struct percpu_lwbufs *f;
	struct rlimit limit;
	int fd;

	(void)arg;
	lw_limit_address_space((size_t)64 << 20);
	REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
	for (size_t i = 0; i < 2; i++) {
		fd = memfd_create("file", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		REQUIRE(fd >= 0);
		REQUIRE(ftruncate(fd, i == 0 ? (off_t)(limit.rlim_cur / 4 + 1) : 4096) == 0);
		REQUIRE(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0);
		f = lw_create(fd, PERCPU_LWBUF_AUTO, 8, 0);
		REQUIRE(lw_stats(f).backend == backends[i]);
		REQUIRE(percpu_lwbuf_destroy(f) == 0);
	}
	return 0;
}

static void a_quarter_of_the_limit_is_mapped(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(map_no_more_than_a_quarter, NULL);
}

/* A thread that moves to another CPU takes its windows from there, after they were not used for
 * 8 max_excess misses. No page is mapped again. */
static int use_them_elsewhere(void *arg)
{
	struct percpu_lwbufs *f = create_small(8);
	uint64_t bounced;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(1)));
	use_first(f, 8); /* this CPU remembers the pages */
	REQUIRE(test_pin(0, test_cpu(0)));
	use_first(f, 8);
	use_first(f, 8);
	REQUIRE(lw_stats(f).mapped == 8 && lw_stats(f).bounced == 16);
	REQUIRE(test_pin(0, test_cpu(1)));
	for (unsigned i = 1; i <= 7; i++) { /* the windows were used not long ago */
		use_first(f, 8);
		REQUIRE(lw_stats(f).bounced == 16 + i * 8);
	}
	for (unsigned i = 0; i < 60; i++)
		use_first(f, 8);
	bounced = lw_stats(f).bounced;
	REQUIRE(bounced < 256);
	use_first(f, 8);
	REQUIRE(lw_stats(f).bounced == bounced);
	REQUIRE(lw_stats(f).mapped == 8);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void windows_follow_to_another_cpu(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	if (test_cpus() < 2 || test_tier() != PERCPU_TIER_RSEQ)
		test_skip("there is one CPU, or the CPU is not known");
	test_in_child(use_them_elsewhere, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(windows_are_for_pages_that_come_again),
		cmocka_unit_test(no_window_is_mapped_where_none_may_stay),
		cmocka_unit_test(windows_follow_to_another_cpu),
		cmocka_unit_test(a_quarter_of_the_limit_is_mapped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

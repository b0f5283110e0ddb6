/* SPDX-License-Identifier: MIT */
/* test_sfbuf.c - buffers that threads share. */
#include "../lwbuf.h"

#include <signal.h>

static struct percpu_lwbufs *create(bool sealed, uint64_t pages, size_t most, uint32_t flags,
				    enum percpu_lwbuf_backend backend)
{
	struct percpu_lwbuf_options o = {
		.size = sizeof(o), .max_shared = most, .flags = flags, .backend = backend
	};
	int fd = lw_memfd(pages, PAGE, sealed);
	struct percpu_lwbufs *f = NULL;

	test_child_require(percpu_lwbuf_create(fd, &o, &f) == 0, "create");
	close(fd);
	return f;
}

static struct percpu_sfbuf *get(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_sfbuf *b = NULL;

	assert_int_equal(percpu_sfbuf_alloc(f, page, PERCPU_SFBUF_NOWAIT, &b), 0);
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

/* A buffer without references keeps its page until it is the one that was freed longest ago. */
static void buffers_keep_their_pages(void **state)
{
	struct percpu_lwbufs *f = create(true, 16, 4, 0, PERCPU_LWBUF_WINDOW);
	struct percpu_sfbuf *b[4];
	uint64_t fills;

	(void)state;
	for (uint64_t p = 0; p < 4; p++)
		b[p] = get(f, p);
	for (unsigned i = 0; i < 4; i++) /* the order of frees is 2 3 0 1 */
		assert_int_equal(percpu_sfbuf_free(f, b[(i + 2) % 4]), 0);
	fills = stats(f).fills;
	assert_ptr_equal(get(f, 2), b[2]); /* after its free the order is 3 0 1 2 */
	assert_int_equal(percpu_sfbuf_free(f, b[2]), 0);
	assert_int_equal(stats(f).fills, fills);
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_equal(get(f, 8 + i), b[(3 + i) % 4]);
		assert_int_equal(stats(f).fills, fills + 1 + i);
	}
	assert_ptr_equal(get(f, 2), b[2]);
	assert_int_equal(stats(f).fills, fills + 3);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(percpu_sfbuf_free(f, b[i]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

static void bad_calls_are_refused(void **state)
{
	struct percpu_lwbufs *f = create(false, 4, 2, 0, PERCPU_LWBUF_AUTO);
	struct percpu_sfbuf *a = get(f, 0), *b = get(f, 1), *c = NULL;

	(void)state;
	assert_int_equal(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_NOWAIT, &c), -ENOSPC);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, 8, &c), -EINVAL);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, 0, NULL), -EINVAL);
	assert_int_equal(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_WRITE, &c), -EACCES);
	assert_int_equal(percpu_sfbuf_free(f, a), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 4, PERCPU_SFBUF_NOWAIT, &c), -ERANGE);
	assert_int_equal(percpu_sfbuf_alloc(f, UINT64_MAX, PERCPU_SFBUF_NOWAIT, &c), -ERANGE);
	assert_int_equal(percpu_sfbuf_alloc(f, UINT64_MAX - 1, PERCPU_SFBUF_NOWAIT, &c), -ERANGE);
	assert_null(c);
	/* A failed allocation keeps no buffer. */
	assert_int_equal(percpu_sfbuf_free(f, get(f, 3)), 0);
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* The allocation of a page fails, the file grows, and the next allocation succeeds. */
static void pages_that_were_not_there_may_come(void **state)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .max_shared = 1 };
	struct percpu_sfbuf *b = NULL;
	struct percpu_lwbufs *f;

	(void)state;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		int fd = lw_memfd(2, PAGE, sealed);

		assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
		assert_int_equal(percpu_sfbuf_free(f, get(f, 0)), 0);
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_NOWAIT, &b),
					 -ERANGE);
		lw_fill(fd, 3, PAGE);
		assert_int_equal(percpu_sfbuf_free(f, get(f, 2)), 0);
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
		close(fd);
	}
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

/* Waiting */

static struct percpu_lwbufs *shared;
static struct percpu_sfbuf *theirs;
static int result;
static bool returned;

static void wait_for_one(unsigned i, void *arg)
{
	(void)i;
	result = percpu_sfbuf_alloc(shared, 9, *(unsigned *)arg, &theirs);
	__atomic_store_n(&returned, true, __ATOMIC_RELEASE);
}

static void until_it_waits(void)
{
	while (stats(shared).waits == 0)
		test_sleep_us(1000);
	test_sleep_us(20000);
}

static void who_waits_is_woken(void **state)
{
	struct percpu_sfbuf *b;
	struct test_team team;
	unsigned flags = 0;

	(void)state;
	shared = create(true, 16, 1, 0, PERCPU_LWBUF_WINDOW);
	b = get(shared, 1);
	test_team_start(&team, 1, wait_for_one, &flags);
	until_it_waits();
	assert_null(theirs);
	assert_int_equal(percpu_sfbuf_free(shared, b), 0);
	test_team_join(&team);
	assert_int_equal(result, 0);
	assert_true(lw_is_right(percpu_sfbuf_kva(theirs), 9, PAGE));
	assert_int_equal(percpu_sfbuf_free(shared, theirs), 0);
	assert_int_equal(percpu_lwbuf_destroy(shared), 0);
}

static volatile sig_atomic_t signals;

static void on_signal(int signo)
{
	(void)signo;
	signals = 1;
}

/* Interrupt a thread that waits for a buffer. Without PERCPU_SFBUF_CATCH it goes on waiting. */
static void interrupt(unsigned flags, int restarts, int expected)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = restarts };
	struct percpu_sfbuf *b;
	struct test_team team;

	assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
	shared = create(true, 16, 1, 0, PERCPU_LWBUF_WINDOW);
	theirs = NULL;
	signals = 0;
	returned = false;
	b = get(shared, 1);
	test_team_start(&team, 1, wait_for_one, &flags);
	until_it_waits();
	pthread_kill(team.thread[0], SIGUSR1);
	while (!signals)
		test_sleep_us(1000);
	/* A thread whose wait shall end gets no buffer for a long time. Then it gets one, so that
	 * the test ends even if the signal does not end the wait. */
	for (unsigned n = 0;
	     expected != 0 && n < 5000 && !__atomic_load_n(&returned, __ATOMIC_ACQUIRE); n++)
		test_sleep_us(1000);
	assert_int_equal(percpu_sfbuf_free(shared, b), 0);
	test_team_join(&team);
	assert_int_equal(result, expected);
	if (expected == 0)
		assert_int_equal(percpu_sfbuf_free(shared, theirs), 0);
	assert_int_equal(percpu_lwbuf_destroy(shared), 0);
}

static void a_signal_ends_the_wait_that_catches_it(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer keeps signals until a call that it knows");
	interrupt(PERCPU_SFBUF_CATCH, SA_RESTART, -EINTR);
	interrupt(0, SA_RESTART, 0);
	interrupt(0, 0, 0);
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
	struct percpu_lwbuf_options o = { .size = sizeof(o),
					  .flags = PERCPU_LWBUF_WRITABLE,
					  .max_shared = 4 };
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
		cmocka_unit_test(bad_calls_are_refused),
		cmocka_unit_test(pages_that_were_not_there_may_come),
		cmocka_unit_test(copies_are_read_again),
		cmocka_unit_test(who_waits_is_woken),
		cmocka_unit_test(a_signal_ends_the_wait_that_catches_it),
		cmocka_unit_test(threads_share_buffers),
		cmocka_unit_test(the_last_one_sees_what_others_stored),
		cmocka_unit_test(stores_to_copies_are_kept),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_lwbuf_limits.c - windows with little address space, few mappings, a file that shrinks,
 * or a fork; and the messages of PERCPU_LWBUF_DEBUG.
 */
#include "../lwbuf.h"

#include <signal.h>
#include <sys/wait.h>

#define REQUIRE(x) test_child_require((x), #x)

static int in_little_space(void *arg)
{
	enum percpu_lwbuf_backend backend = *(enum percpu_lwbuf_backend *)arg;
	struct percpu_lwbuf b[1024];
	struct percpu_lwbufs *f;
	unsigned n = 0;
	int e = 0;

	lw_limit_address_space((size_t)40 << 20);
	f = lw_create_wide(lw_large_file(), backend, 64);
	REQUIRE(lw_stats(f).backend == PERCPU_LWBUF_WINDOW);
	/* Use each page of the file, one at a time, more than twice. */
	for (unsigned i = 0; i < 40000; i++) {
		REQUIRE(percpu_lwbuf_alloc(f, i % 16384, 0, &b[0]) == 0);
		REQUIRE(*(char *)percpu_lwbuf_kva(&b[0]) == 0);
		REQUIRE(percpu_lwbuf_free(f, &b[0]) == 0);
	}
	/* Allocate as many as there is room for. */
	while (e == 0 && n < 1024) {
		e = percpu_lwbuf_alloc(f, n, 0, &b[n]);
		n += e == 0;
	}
	REQUIRE(e == -ENOMEM && n > 100);
	while (n > 0)
		REQUIRE(percpu_lwbuf_free(f, &b[--n]) == 0);
	REQUIRE(percpu_lwbuf_alloc(f, 9, 0, &b[0]) == 0 && percpu_lwbuf_free(f, &b[0]) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void little_space_is_enough(void **state)
{
	enum percpu_lwbuf_backend backend = PERCPU_LWBUF_WINDOW;

	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(in_little_space, &backend);
	backend = PERCPU_LWBUF_AUTO;
	test_in_child(in_little_space, &backend);
}

/* All windows are in the table of another CPU: they are enough. */
static int use_another_cpus_windows(void *arg)
{
	struct percpu_lwbufs *f = lw_create_wide(lw_large_file(), PERCPU_LWBUF_WINDOW, 64);
	struct percpu_lwbuf b[8];

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(1)));
	for (unsigned i = 0; i < 64; i++)
		REQUIRE(percpu_lwbuf_alloc(f, i, 0, b) == 0 && percpu_lwbuf_free(f, b) == 0);
	lw_limit_address_space(0);
	REQUIRE(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(percpu_lwbuf_alloc(f, 100 + i, 0, &b[i]) == 0);
	REQUIRE(lw_stats(f).excess == 56);
	for (unsigned i = 0; i < 8; i++)
		REQUIRE(percpu_lwbuf_free(f, &b[i]) == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void windows_of_another_cpu_are_enough(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	if (test_cpus() < 2 || test_tier() == PERCPU_TIER_SHARED)
		test_skip("there is one CPU, or the CPU is not known");
	test_in_child(use_another_cpus_windows, NULL);
}

/* There is address space for 64 windows: pages beyond them drive none of them out. */
static int map_ahead_in_little_space(void *arg)
{
	struct percpu_lwbufs *f = lw_create_wide(lw_large_file(), PERCPU_LWBUF_WINDOW, 100);
	uint64_t mapped = 0;
	struct percpu_lwbuf b;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(0)));
	REQUIRE(percpu_lwbuf_populate(f, 0, 64, &mapped) == 0 && mapped == 64);
	lw_limit_address_space(0);
	mapped = 77;
	REQUIRE(percpu_lwbuf_populate(f, 64, 8, &mapped) == -ENOMEM && mapped == 77);
	for (unsigned i = 0; i < 64; i++)
		REQUIRE(percpu_lwbuf_alloc(f, i, 0, &b) == 0 && percpu_lwbuf_free(f, &b) == 0);
	REQUIRE(lw_stats(f).mapped == 64 && lw_stats(f).excess == 64);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void pages_ahead_drive_out_none(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS has no effect here");
	test_in_child(map_ahead_in_little_space, NULL);
}

/* There is address space for the whole file, and a limit that says so. */
static int in_much_space(void *arg)
{
	struct rlimit limit;
	struct percpu_lwbufs *f;

	(void)arg;
	REQUIRE(getrlimit(RLIMIT_AS, &limit) == 0);
	if (limit.rlim_max != RLIM_INFINITY)
		return 0;
	limit.rlim_cur = RLIM_INFINITY - 1;
	REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
	f = lw_create(lw_memfd(6, PAGE, true), PERCPU_LWBUF_AUTO, 0, 0);
	REQUIRE(lw_stats(f).backend == PERCPU_LWBUF_DIRECT && lw_touch(f, 5) != NULL);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void a_large_limit_is_none(void **state)
{
	(void)state;
	test_in_child(in_much_space, NULL);
}

/* In an emulator /proc/self/maps is not true once there are no mappings left. */
#ifdef __x86_64__
#define IS_TOLD true
#else
#define IS_TOLD false
#endif

/* Return how many pages the windows map. */
static size_t pages_mapped(void)
{
	unsigned long begin, end;
	size_t pages = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");

	REQUIRE(f != NULL);
	while (fgets(line, sizeof(line), f) != NULL)
		if (strstr(line, "memfd:lwbuf") != NULL &&
		    sscanf(line, "%lx-%lx", &begin, &end) == 2)
			pages += (end - begin) / PAGE;
	fclose(f);
	return pages;
}

/* Use up all mappings, and then use windows. */
static int with_few_mappings(void *arg)
{
	int fd = lw_memfd(64, PAGE, true), e = 0;
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b[128];
	unsigned n = 0;
	char *at;

	(void)arg;
	f = lw_create(fd, PERCPU_LWBUF_WINDOW, 64, 0);
	for (uint64_t p = 0; p < 64; p += 2)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(lw_stats(f).excess == 32);
	do
		at = mmap(NULL, PAGE, n++ % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);
	while (at != MAP_FAILED);
	/* Free windows make room, until there are none left. */
	for (n = 0; n < 128 && e == 0; n += e == 0)
		e = percpu_lwbuf_alloc(f, 1 + n * 2 % 64, 0, &b[n]);
	REQUIRE(e == -ENOMEM && n >= 8);
	for (unsigned i = 0; i < 40; i++) /* a window that was not mapped is not counted */
		REQUIRE(percpu_lwbuf_alloc(f, 63, 0, &b[n]) == -ENOMEM);
	for (unsigned i = 0; i < n; i++)
		REQUIRE(lw_is_right(b[i].kva, b[i].page, PAGE));
	for (unsigned i = 0; i < n; i++)
		REQUIRE(percpu_lwbuf_free(f, &b[i]) == 0);
	REQUIRE(!IS_TOLD || lw_stats(f).excess == pages_mapped());
	REQUIRE(lw_stats(f).used == 0 && lw_touch(f, 5) != NULL);
	return 0;
}

static void few_mappings_are_enough(void **state)
{
	(void)state;
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers need mappings");
	test_in_child(with_few_mappings, NULL);
}

/* Files that shrink */

static int read_while_it_is_cut(void *arg)
{
	int fd = *(int *)arg;
	struct percpu_lwbufs *f = lw_create(dup(fd), PERCPU_LWBUF_AUTO, 0, PERCPU_LWBUF_WRITABLE);
	unsigned beyond = 0, there = 0;
	struct percpu_lwbuf b;

	for (uint64_t i = 0; i < 20000 || beyond == 0 || there == 0; i++) {
		int e = percpu_lwbuf_alloc(f, i % 64, i % 2, &b);

		REQUIRE(e == 0 || e == -ERANGE);
		beyond += e == -ERANGE;
		there += e == 0;
		if (e != 0)
			continue;
		memset(percpu_lwbuf_kva(&b), 7, percpu_lwbuf_length(&b));
		e = percpu_lwbuf_free(f, &b);
		REQUIRE(e == 0 || e == -ERANGE);
	}
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void truncation_is_an_error(void **state)
{
	int fd = lw_memfd(64, PAGE, false), status;
	pid_t pid = test_fork(read_while_it_is_cut, &fd);

	(void)state;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		assert_int_equal(ftruncate(fd, (off_t)(3 * PAGE + 5)), 0);
		assert_int_equal(ftruncate(fd, (off_t)(64 * PAGE)), 0);
	}
	assert_int_equal(status, 0);
	close(fd);
}

static int cut_what_is_stored_to(void *arg)
{
	int fd = lw_memfd(4, PAGE, false);
	struct percpu_lwbufs *f = lw_create(dup(fd), PERCPU_LWBUF_AUTO, 0, PERCPU_LWBUF_WRITABLE);
	struct percpu_sfbuf *sf;
	struct percpu_lwbuf b;

	(void)arg;
	REQUIRE(percpu_lwbuf_alloc(f, 3, PERCPU_LWBUF_WRITE, &b) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 2, PERCPU_SFBUF_WRITE, &sf) == 0);
	REQUIRE(ftruncate(fd, (off_t)PAGE) == 0);
	*(char *)percpu_lwbuf_kva(&b) = 1;
	*(char *)percpu_sfbuf_kva(sf) = 1;
	REQUIRE(percpu_lwbuf_free(f, &b) == -ERANGE);
	REQUIRE(percpu_sfbuf_free(f, sf) == -ERANGE);
	REQUIRE(lseek(fd, 0, SEEK_END) == (off_t)PAGE);
	REQUIRE(percpu_lwbuf_alloc(f, 3, 0, &b) == -ERANGE);
	REQUIRE(percpu_sfbuf_alloc(f, 2, 0, &sf) == -ERANGE);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void what_was_cut_off_stays_off(void **state)
{
	(void)state;
	test_in_child(cut_what_is_stored_to, NULL);
}

/* Forks */

static struct percpu_lwbufs *forked;
static struct percpu_lwbuf held;

static int use_in_child(void *arg)
{
	struct percpu_lwbuf b;

	(void)arg;
	for (unsigned i = 0; i < 500; i++)
		REQUIRE(lw_touch(forked, i % 32) != NULL);
	REQUIRE(lw_is_right(percpu_lwbuf_kva(&held), 7, PAGE));
	REQUIRE(percpu_lwbuf_alloc(forked, 3, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(forked) == -EBUSY);
	REQUIRE(percpu_lwbuf_free(forked, &b) == 0);
	REQUIRE(percpu_lwbuf_destroy(forked) == 0);
	return 0;
}

static bool stop; /* atomic */

static void use_meanwhile(unsigned i, void *arg)
{
	(void)arg;
	for (uint64_t p = i; !__atomic_load_n(&stop, __ATOMIC_RELAXED); p++)
		if (lw_is_wrong(lw_touch(forked, p % 32) == NULL))
			return;
}

static void children_have_their_own(void **state)
{
	struct test_team team;
	int status = 0;

	(void)state;
	forked = lw_create(lw_memfd(32, PAGE, true), PERCPU_LWBUF_WINDOW, 8, 0);
	assert_int_equal(percpu_lwbuf_alloc(forked, 7, 0, &held), 0);
	__atomic_store_n(&stop, false, __ATOMIC_RELAXED);
	test_team_start(&team, 3, use_meanwhile, NULL);
	for (unsigned n = 0; n < 10 && status == 0; n++)
		status = test_wait(test_fork(use_in_child, NULL), 30);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	assert_int_equal(status, 0);
	assert_false(lw_wrong);
	assert_true(lw_is_right(percpu_lwbuf_kva(&held), 7, PAGE));
	assert_int_equal(percpu_lwbuf_free(forked, &held), 0);
	assert_int_equal(percpu_lwbuf_destroy(forked), 0);
}

/* If pwrite(2) fails with -EINVAL, the free returns -EIO: the caller's arguments are right. */
static void a_failed_write_frees_the_buffer(void **state)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	int fd = open("/tmp", O_TMPFILE | O_RDWR | O_DIRECT, 0600);
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;

	(void)state;
	if (fd < 0)
		test_skip("no O_DIRECT, or no O_TMPFILE, in /tmp");
	assert_int_equal(ftruncate(fd, 5), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b), 0);
	if (pwrite(fd, percpu_lwbuf_kva(&b), 5, 0) == 5) {
		assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	} else {
		assert_int_equal(percpu_lwbuf_free(f, &b), -EIO);
		assert_int_equal(percpu_lwbuf_free(f, &b), -EINVAL);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	close(fd);
}

/* PERCPU_LWBUF_DEBUG */

static int free_twice(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0 && percpu_lwbuf_free(f, &b) == 0);
	return percpu_lwbuf_free(f, &b);
}

static int free_a_copy(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b, copy;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0);
	copy = b;
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
	return percpu_lwbuf_free(f, &copy);
}

static int free_foreign(struct percpu_lwbufs *f)
{
	struct percpu_lwbufs *other = lw_create(lw_memfd(6, PAGE, true), 0, 0, PERCPU_LWBUF_DEBUG);
	struct percpu_lwbuf b;

	REQUIRE(percpu_lwbuf_alloc(other, 5, 0, &b) == 0);
	return percpu_lwbuf_free(f, &b);
}

/* The buffer's file is destroyed, so the message cannot name its window. */
static int free_what_was_of_a_destroyed_file(struct percpu_lwbufs *f)
{
	struct percpu_lwbufs *other = lw_create(lw_memfd(6, PAGE, true), 0, 0, PERCPU_LWBUF_DEBUG);
	struct percpu_lwbuf b, copy;

	REQUIRE(percpu_lwbuf_alloc(other, 5, 0, &b) == 0);
	copy = b;
	REQUIRE(percpu_lwbuf_free(other, &b) == 0 && percpu_lwbuf_destroy(other) == 0);
	return percpu_lwbuf_free(f, &copy);
}

/* The buffer has the second window of two, and windows are searched before bounce buffers. */
static int free_a_window_twice(struct percpu_lwbufs *f)
{
	struct percpu_lwbufs *w =
		lw_create(lw_memfd(6, PAGE, true), PERCPU_LWBUF_WINDOW, 0, PERCPU_LWBUF_DEBUG);
	struct percpu_lwbuf first, b;

	(void)f;
	REQUIRE(percpu_lwbuf_alloc(w, 4, 0, &first) == 0 && percpu_lwbuf_alloc(w, 5, 0, &b) == 0);
	REQUIRE(percpu_lwbuf_free(w, &b) == 0);
	return percpu_lwbuf_free(w, &b);
}

/* An even generation is that of a free window. */
static int free_a_copy_of_what_is_free(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b, copy;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0);
	copy = b;
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
	copy.generation++;
	return percpu_lwbuf_free(f, &copy);
}

static int free_shared_foreign(struct percpu_lwbufs *f)
{
	struct percpu_lwbufs *other = lw_create(lw_memfd(6, PAGE, true), 0, 0, PERCPU_LWBUF_DEBUG);
	struct percpu_sfbuf *sf;

	REQUIRE(percpu_sfbuf_alloc(other, 5, 0, &sf) == 0);
	return percpu_sfbuf_free(f, sf);
}

/* Free the third shared buffer, of which only two are allocated. */
static int free_shared_unallocated(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *sf[2];

	for (unsigned i = 0; i < 2; i++)
		REQUIRE(percpu_sfbuf_alloc(f, i, 0, &sf[i]) == 0);
	return percpu_sfbuf_free(f, (struct percpu_sfbuf *)((uintptr_t)sf[1] +
							    ((uintptr_t)sf[1] - (uintptr_t)sf[0])));
}

static int ask_after_free(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b, copy;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0);
	copy = b;
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
	return percpu_lwbuf_kva(&copy) == NULL;
}

static int use_after_free(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b;
	char *at;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0);
	at = percpu_lwbuf_kva(&b);
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0); /* has another address than the first */
	return *(volatile char *)at == 0;
}

static int free_shared_twice(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *sf;

	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &sf) == 0 && percpu_sfbuf_free(f, sf) == 0);
	return percpu_sfbuf_free(f, sf);
}

/* Another page gets another buffer, so that the second free is noticed. */
static int free_shared_twice_soon(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *sf, *other;

	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &sf) == 0 && percpu_sfbuf_free(f, sf) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 3, 0, &other) == 0);
	return percpu_sfbuf_free(f, sf);
}

/* The buffer has had page 5, and then page 3. */
static int free_shared_twice_later(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *first, *sf;

	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &first) == 0 && percpu_sfbuf_free(f, first) == 0);
	do {
		REQUIRE(percpu_sfbuf_alloc(f, 3, 0, &sf) == 0 && percpu_sfbuf_free(f, sf) == 0);
	} while (sf != first);
	return percpu_sfbuf_free(f, sf);
}

static int use_shared_after_free(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *sf;
	char *at;

	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &sf) == 0);
	at = percpu_sfbuf_kva(sf);
	REQUIRE(percpu_sfbuf_free(f, sf) == 0);
	return *(volatile char *)at == 0;
}

static int store_unasked(struct percpu_lwbufs *f)
{
	struct percpu_lwbuf b;

	REQUIRE(percpu_lwbuf_alloc(f, 5, 0, &b) == 0);
	*(volatile char *)percpu_lwbuf_kva(&b) = 1;
	return 0;
}

static int store_shared_unasked(struct percpu_lwbufs *f)
{
	struct percpu_sfbuf *sf;

	REQUIRE(percpu_sfbuf_alloc(f, 5, 0, &sf) == 0);
	*(volatile char *)percpu_sfbuf_kva(sf) = 1;
	return 0;
}

/* Run fn in a child. Return its wait status, and its standard error in text. */
static int run_debug(int (*fn)(struct percpu_lwbufs *), bool sealed, char *text, size_t size)
{
	size_t len = 0;
	int p[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		signal(SIGSEGV, SIG_DFL);
		dup2(p[1], STDERR_FILENO);
		_exit(fn(lw_create(lw_memfd(6, PAGE, sealed), 0, 0,
				   PERCPU_LWBUF_DEBUG | PERCPU_LWBUF_WRITABLE)));
	}
	close(p[1]);
	while ((n = read(p[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void debug_names_what_is_wrong(void **state)
{
	static const struct {
		int (*fn)(struct percpu_lwbufs *);
		const char *says; /* NULL: a signal of the kernel, and no message */
	} rows[] = {
		{ free_twice, "page 5, generation 1: is freed, but not allocated: freed twice" },
		{ free_twice, "for page 5, and has generation 2" },
		{ free_a_copy, "page 5, generation 1: is freed twice" },
		{ free_foreign, "page 5, generation 1: is not of the file" },
		{ free_foreign, "for page 5, and has generation 1" },
		{ free_what_was_of_a_destroyed_file, "page 5, generation 1: is not of the file" },
		{ free_a_window_twice, "page 5, generation 1: is freed, but not allocated" },
		{ free_a_window_twice, "for page 5, and has generation 2" },
		{ free_a_copy_of_what_is_free, "page 5, generation 2: is freed twice" },
		{ free_shared_foreign, ": is not of this file" },
		{ free_shared_unallocated, ": has no reference: freed twice" },
		{ ask_after_free, "page 5, generation 1: used after" },
		{ use_after_free, NULL },
		{ free_shared_twice, "page 5: has no reference: freed twice" },
		{ free_shared_twice_soon, "page 5: has no reference: freed twice" },
		{ free_shared_twice_later, "page 3: has no reference: freed twice" },
		{ use_shared_after_free, NULL },
		{ store_unasked, NULL },
		{ store_shared_unasked, NULL },
	};
	char text[1024];
	int status;

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		for (unsigned sealed = 0; sealed < 2; sealed++) {
			status = run_debug(rows[i].fn, sealed, text, sizeof(text));
			if (rows[i].says == NULL) {
				/* Sanitizers have a handler for SIGSEGV, which exits. */
				assert_int_not_equal(status, 0);
				assert_true(!WIFSIGNALED(status) || WTERMSIG(status) == SIGSEGV);
				continue;
			}
			assert_non_null(strstr(text, rows[i].says));
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		}
}

/* A buffer that was never allocated has had no page, and one of another file has none of this file.
 * The message names none. */
static void debug_names_no_page_that_was_not_there(void **state)
{
	char text[1024];

	(void)state;
	(void)run_debug(free_shared_unallocated, true, text, sizeof(text));
	assert_non_null(strstr(text, "libpercpu: sfbuf "));
	assert_null(strstr(text, "page"));
	(void)run_debug(free_shared_foreign, true, text, sizeof(text));
	assert_non_null(strstr(text, "libpercpu: sfbuf "));
	assert_null(strstr(text, "page"));
}

/* With the flag for stores a thread may store to the page, even to a shared buffer that another
 * thread has without the flag. */
static int store_where_checked(void *arg)
{
	int fd = lw_memfd(6, PAGE, *(bool *)arg);
	struct percpu_lwbufs *f =
		lw_create(dup(fd), 0, 0, PERCPU_LWBUF_DEBUG | PERCPU_LWBUF_WRITABLE);
	struct percpu_sfbuf *reader, *writer;
	struct percpu_lwbuf b;
	char c[2] = { 0 };

	for (unsigned n = 0; n < 100; n++)
		REQUIRE(lw_touch(f, n % 6) != NULL);
	REQUIRE(percpu_lwbuf_alloc(f, 2, PERCPU_LWBUF_WRITE, &b) == 0);
	*(char *)percpu_lwbuf_kva(&b) = 7;
	REQUIRE(percpu_lwbuf_free(f, &b) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 3, 0, &reader) == 0);
	REQUIRE(percpu_sfbuf_alloc(f, 3, PERCPU_SFBUF_WRITE, &writer) == 0 && reader == writer);
	*(char *)percpu_sfbuf_kva(writer) = 8;
	REQUIRE(percpu_sfbuf_free(f, writer) == 0 && percpu_sfbuf_free(f, reader) == 0);
	REQUIRE(pread(fd, &c[0], 1, (off_t)(2 * PAGE)) == 1 && c[0] == 7);
	REQUIRE(pread(fd, &c[1], 1, (off_t)(3 * PAGE)) == 1 && c[1] == 8);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void debug_lets_writers_store(void **state)
{
	bool sealed = false;

	(void)state;
	test_in_child(store_where_checked, &sealed);
	sealed = true;
	test_in_child(store_where_checked, &sealed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(little_space_is_enough),
		cmocka_unit_test(windows_of_another_cpu_are_enough),
		cmocka_unit_test(pages_ahead_drive_out_none),
		cmocka_unit_test(a_large_limit_is_none),
		cmocka_unit_test(few_mappings_are_enough),
		cmocka_unit_test(truncation_is_an_error),
		cmocka_unit_test(what_was_cut_off_stays_off),
		cmocka_unit_test(children_have_their_own),
		cmocka_unit_test(a_failed_write_frees_the_buffer),
		cmocka_unit_test(debug_names_what_is_wrong),
		cmocka_unit_test(debug_names_no_page_that_was_not_there),
		cmocka_unit_test(debug_lets_writers_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

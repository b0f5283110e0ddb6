/* SPDX-License-Identifier: MIT */
/*
 * test_lwbuf_refused.c - the kernel refuses mappings or fences, or a file has no small pages; reads
 * and writes of bounce buffers end early, and then fail.
 */
#include "../lwbuf.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define REQUIRE(x) test_child_require((x), #x)

/* Mappings */

static void use_up_mappings(void)
{
	unsigned n = 0;

	while (mmap(NULL, PAGE, n++ % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0) != MAP_FAILED)
		;
}

/* One free window is enough, whatever page it shows. */
static int use_the_last_window(void *arg)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, 16, 0);
	struct percpu_lwbuf held[10];
	struct percpu_sfbuf *b;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 10; i++)
		REQUIRE(percpu_lwbuf_alloc(f, 40 + 2 * i, 0, &held[i]) == 0);
	REQUIRE(lw_touch(f, 0) != NULL);
	use_up_mappings();
	for (uint64_t p = 1; p < 40; p += 3)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(percpu_sfbuf_alloc(f, 2, 0, &b) == 0);
	REQUIRE(lw_is_right(percpu_sfbuf_kva(b), 2, PAGE) && percpu_sfbuf_free(f, b) == 0);
	for (unsigned i = 0; i < 10; i++) {
		REQUIRE(lw_is_right(held[i].kva, 40 + 2 * i, PAGE));
		REQUIRE(percpu_lwbuf_free(f, &held[i]) == 0);
	}
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

/* A free shared buffer is enough, too. */
static int use_the_last_shared_buffers(void *arg)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, 16, 0);
	struct percpu_sfbuf *s[16];

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < 16; i++)
		REQUIRE(percpu_sfbuf_alloc(f, 2 * i, 0, &s[i]) == 0);
	use_up_mappings();
	for (unsigned i = 0; i < 16; i++)
		REQUIRE(percpu_sfbuf_free(f, s[i]) == 0);
	for (uint64_t p = 1; p < 40; p += 3)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void need_few_mappings(void)
{
	if (test_address_sanitizer() || test_thread_sanitizer())
		test_skip("sanitizers need mappings");
}

static void a_free_window_is_enough(void **state)
{
	(void)state;
	need_few_mappings();
	test_in_child(use_the_last_window, NULL);
	test_in_child(use_the_last_shared_buffers, NULL);
}

/* Free a bounce buffer between two that are in use: one mapping might have held all three. */
static void freed_memory_has_no_access(void **state)
{
	struct percpu_lwbuf b[3];
	struct percpu_lwbufs *f;
	int status;
	pid_t pid;
	char *at;

	(void)state;
	need_few_mappings();
	f = lw_create(lw_memfd(4, PAGE, true), PERCPU_LWBUF_BOUNCE, 0, PERCPU_LWBUF_DEBUG);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_lwbuf_alloc(f, i, 0, &b[i]), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGSEGV, SIG_DFL);
		use_up_mappings();
		at = percpu_lwbuf_kva(&b[1]);
		_exit(percpu_lwbuf_free(f, &b[1]) == 0 ? *(volatile char *)at == 0 : 2);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_lwbuf_free(f, &b[i]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Fences */

static bool refuse_fences(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(steps) / sizeof(steps[0]), .filter = steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int lower_the_limit(void *arg)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(64, PAGE, true), PERCPU_LWBUF_WINDOW, 16, 0);
	int e;

	(void)arg;
	REQUIRE(test_pin(0, test_cpu(1)));
	for (uint64_t p = 0; p < 8; p++)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(test_pin(0, test_cpu(0)));
	if (!refuse_fences())
		return 0;
	e = percpu_lwbuf_set_max_excess(f, 0);
	REQUIRE(e == 0 || e == -EPERM || e == -EAGAIN);
	REQUIRE(lw_stats(f).excess == (e == 0 ? 0 : 8) && lw_stats(f).max_excess == 0);
	/* The limit has changed nonetheless, and all windows can be used. */
	for (uint64_t p = 10; p < 20; p++)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(lw_stats(f).excess <= 8);
	REQUIRE(test_pin(0, test_cpu(1)));
	for (uint64_t p = 0; p < 8; p++)
		REQUIRE(lw_touch(f, p) != NULL);
	REQUIRE(percpu_lwbuf_set_max_excess(f, 0) == 0 && lw_stats(f).excess == 0);
	REQUIRE(percpu_lwbuf_destroy(f) == 0);
	return 0;
}

static void a_limit_says_what_it_cannot_unmap(void **state)
{
	(void)state;
	if (test_cpus() < 2)
		test_skip("there is one CPU");
	test_in_child(lower_the_limit, NULL);
}

/* Files of huge pages have no windows. All huge pages may be in use. */
static void huge_pages_have_no_windows(void **state)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB), e;
	struct percpu_lwbuf_options o = { .size = sizeof(o) };
	struct percpu_lwbufs *f;
	struct percpu_sfbuf *sf;
	struct percpu_lwbuf b;

	(void)state;
	if (fd < 0 || ftruncate(fd, 4 << 20) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
		test_skip("no huge pages of 2 or 4 MiB");
	for (o.backend = 0; o.backend <= PERCPU_LWBUF_BOUNCE; o.backend++) {
		e = percpu_lwbuf_create(fd, &o, &f);
		if (o.backend == PERCPU_LWBUF_WINDOW)
			assert_int_equal(e, -ENOTSUP);
		else if (o.backend != PERCPU_LWBUF_DIRECT || e != -ENOMEM)
			assert_int_equal(e, 0);
		if (e != 0)
			continue;
		for (unsigned round = 0; round < 3; round++) {
			assert_int_equal(percpu_lwbuf_alloc(f, 1, 0, &b), 0);
			assert_int_equal(*(char *)percpu_lwbuf_kva(&b), 0);
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
			assert_int_equal(percpu_sfbuf_alloc(f, 1, 0, &sf), 0);
			assert_int_equal(*(char *)percpu_sfbuf_kva(sf), 0);
			assert_int_equal(percpu_sfbuf_free(f, sf), 0);
		}
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
	close(fd);
}

/* The results of the next calls of pread64(2) and pwrite64(2): an error, or the most bytes that the
 * call transfers. 0 ends the plan; later calls transfer all bytes. */
static const int *plan;

/* Return whether the next call fails. If it does not, reduce *n to the bytes it transfers. */
static bool fails(size_t *n)
{
	int now = 0;

	if (plan != NULL && *plan != 0)
		now = *plan++;
	if (now < 0)
		errno = -now;
	else if (now > 0 && (size_t)now < *n)
		*n = (size_t)now;
	return now < 0;
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	return fails(&n) ? -1 : __real_pread64(fd, to, n, at);
}

ssize_t __real_pwrite64(int fd, const void *from, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t n, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t n, off_t at)
{
	return fails(&n) ? -1 : __real_pwrite64(fd, from, n, at);
}

#define PART 1024 /* of a page */

static const struct {
	int plan[6];
	int result;
} transfers[] = {
	{ { -EIO }, -EIO },
	{ { PART, -EIO }, -EIO },
	{ { PART, PART, -ENXIO }, -ENXIO },
	{ { PART, -EINTR, -EIO }, -EIO },
	{ { -EINTR }, 0 },
	{ { PART, -EINTR }, 0 },
	{ { PART, -EINTR, -EINTR, PART / 2 }, 0 },
	{ { PART, PART }, 0 },
};
#define TRANSFERS (sizeof(transfers) / sizeof(transfers[0]))

static int begin_plan(size_t i)
{
	plan = transfers[i].plan;
	return transfers[i].result;
}

static void end_plan(void)
{
	assert_int_equal(*plan, 0); /* all calls of the plan were made */
	plan = NULL;
}

/* A read that fails leaves nothing that the next allocation finds. */
static void what_cannot_be_read_is_no_end(void **state)
{
	struct percpu_lwbufs *f = lw_create(lw_memfd(2, PAGE, false), PERCPU_LWBUF_BOUNCE, 0, 0);
	struct percpu_sfbuf *sf;
	struct percpu_lwbuf b;
	int e;

	(void)state;
	for (size_t i = 0; i < TRANSFERS; i++)
		for (unsigned round = 0; round < 2; round++) {
			e = round == 0 ? begin_plan(i) : 0;
			assert_int_equal(percpu_lwbuf_alloc(f, 1, 0, &b), e);
			if (e == 0) {
				assert_int_equal(percpu_lwbuf_length(&b), PAGE);
				assert_true(lw_is_right(percpu_lwbuf_kva(&b), 1, PAGE));
				assert_int_equal(percpu_lwbuf_free(f, &b), 0);
			}
			if (round == 0)
				end_plan();
			assert_int_equal(lw_stats(f).used, 0);
			e = round == 0 ? begin_plan(i) : 0;
			assert_int_equal(percpu_sfbuf_alloc(f, 1, 0, &sf), e);
			if (e == 0) {
				assert_int_equal(percpu_sfbuf_length(sf), PAGE);
				assert_true(lw_is_right(percpu_sfbuf_kva(sf), 1, PAGE));
				assert_int_equal(percpu_sfbuf_free(f, sf), 0);
			}
			if (round == 0)
				end_plan();
			/* The shared buffer may have kept page 1, so give it another page. */
			assert_int_equal(percpu_sfbuf_alloc(f, 0, 0, &sf), 0);
			assert_int_equal(percpu_sfbuf_free(f, sf), 0);
		}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* The free returns the error of a failed write, and the buffer is free in any case. */
static void what_cannot_be_written_is_told(void **state)
{
	const int fd = lw_memfd(2, PAGE, false);
	struct percpu_lwbufs *f = lw_create(dup(fd), PERCPU_LWBUF_BOUNCE, 0, PERCPU_LWBUF_WRITABLE);
	struct percpu_sfbuf *sf;
	struct percpu_lwbuf b;
	char *now = malloc(PAGE), *const page = malloc(PAGE);
	int e;

	(void)state;
	for (size_t i = 0; i < 2 * TRANSFERS; i++) {
		memset(page, (int)i + 1, PAGE);
		if (i % 2 == 0) {
			assert_int_equal(percpu_lwbuf_alloc(f, 1, PERCPU_LWBUF_WRITE, &b), 0);
			memcpy(percpu_lwbuf_kva(&b), page, PAGE);
			e = begin_plan(i / 2);
			assert_int_equal(percpu_lwbuf_free(f, &b), e);
		} else {
			assert_int_equal(percpu_sfbuf_alloc(f, 1, PERCPU_SFBUF_WRITE, &sf), 0);
			memcpy(percpu_sfbuf_kva(sf), page, PAGE);
			e = begin_plan(i / 2);
			assert_int_equal(percpu_sfbuf_free(f, sf), e);
		}
		end_plan();
		assert_int_equal(lw_stats(f).used, 0);
		assert_int_equal(pread(fd, now, PAGE, (off_t)PAGE), (ssize_t)PAGE);
		if (transfers[i / 2].result == 0)
			assert_memory_equal(now, page, PAGE);
	}
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	free(page);
	free(now);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_free_window_is_enough),
		cmocka_unit_test(freed_memory_has_no_access),
		cmocka_unit_test(a_limit_says_what_it_cannot_unmap),
		cmocka_unit_test(huge_pages_have_no_windows),
		cmocka_unit_test(what_cannot_be_read_is_no_end),
		cmocka_unit_test(what_cannot_be_written_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

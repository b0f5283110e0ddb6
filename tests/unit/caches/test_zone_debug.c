/* SPDX-License-Identifier: MIT */
/*
 * test_zone_debug.c - PERCPU_ZONE_DEBUG finds and explains errors, also in a child of fork.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../zone.h"

/* Errors that a debug zone finds: the child prints what is wrong, and aborts. */

static int free_twice(struct percpu_zone *z)
{
	void *item;

	return percpu_zone_alloc(z, 0, &item) || percpu_zone_free(z, item) ||
	       percpu_zone_free(z, item);
}

static int free_foreign(struct percpu_zone *z)
{
	int local;

	return percpu_zone_free(z, &local);
}

static int free_the_middle(struct percpu_zone *z)
{
	char *item;

	return percpu_zone_alloc(z, 0, (void **)&item) || percpu_zone_free(z, item + 8);
}

static int use_after_free(struct percpu_zone *z)
{
	void *item;

	if (percpu_zone_alloc(z, 0, &item) || percpu_zone_free(z, item))
		return 1;
	*(uint64_t *)percpu_zone_get(item, percpu_zone_cpus(z) - 1) += 1;
	return percpu_zone_alloc(z, 0, &item);
}

static int free_within_a_unit(struct percpu_zone *z)
{
	char *item;

	return percpu_zone_alloc(z, 0, (void **)&item) || percpu_zone_free(z, item + 4);
}

static int use_last_byte(struct percpu_zone *z)
{
	char *item;

	if (percpu_zone_alloc(z, 0, (void **)&item) || percpu_zone_free(z, item))
		return 1;
	item[23] = 1;
	return percpu_zone_alloc(z, 0, (void **)&item);
}

static int use_after_reclaim(struct percpu_zone *z)
{
	percpu_zone_reclaim(z);
	return use_after_free(z);
}

/* Free a cell that the program has allocated in the region, in a chunk without items. */
static int free_what_others_have(struct percpu_zone *z)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_region *r;
	void *item, *cell;

	(void)z;
	if (percpu_region_create(NULL, &r) != 0)
		return 1;
	o.region = r;
	z = make(24, &o);
	item = take(z, 0);
	do
		if (percpu_region_alloc(r, PERCPU_LANE_SIZE / 2, 8, &cell) != 0)
			return 1;
	while ((uintptr_t)cell - (uintptr_t)item < PERCPU_LANE_SIZE ||
	       (uintptr_t)item - (uintptr_t)cell < PERCPU_LANE_SIZE);
	return percpu_zone_free(z, cell);
}

/* Run fn with a debug zone in a child. Return its wait status, and its standard error in text. */
static int run_debug(int (*fn)(struct percpu_zone *z), char *text, size_t size)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z = make(24, &o);
	size_t len = 0;
	ssize_t n;
	int fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	if (pid == 0) {
		signal(SIGABRT, SIG_DFL);
		dup2(fd[1], STDERR_FILENO);
		_exit(fn(z));
	}
	close(fd[1]);
	while ((n = read(fd[0], text + len, size - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(fd[0]);
	assert_int_equal(percpu_zone_destroy(z), 0);
	return test_wait(pid, 60);
}

static void expect_abort(int (*fn)(struct percpu_zone *z), const char *said)
{
	char text[256];
	int status = run_debug(fn, text, sizeof(text));

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	if (strstr(text, said) == NULL)
		fail_msg("said \"%s\" instead of \"%s\"", text, said);
	assert_non_null(strstr(text, "\"test\""));
}

static void debug_zones_catch_misuse(void **state)
{
	(void)state;
	expect_abort(free_twice, "freed twice");
	expect_abort(free_foreign, "is not of this zone");
	expect_abort(free_the_middle, "not its start");
	expect_abort(free_within_a_unit, "not its start");
	expect_abort(free_what_others_have, "freed twice");
	expect_abort(use_after_free, "after it was freed");
	expect_abort(use_last_byte, "after it was freed");
	expect_abort(use_after_reclaim, "after it was freed");
}

/* Fill a file that may not become larger. Without a limit PERCPU_ZONE_WAIT does not wait. */
static int fill_a_file(void)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct rlimit limit = { .rlim_cur = 0, .rlim_max = RLIM_INFINITY };
	int fd = memfd_create("zone", MFD_CLOEXEC), e = 0;
	struct percpu_zone *z;
	size_t chunk;
	void *item;

	if (percpu_region_memory_size(NULL, &chunk) != 0)
		return 1;
	signal(SIGXFSZ, SIG_IGN);
	limit.rlim_cur = 3 * chunk;
	if (setrlimit(RLIMIT_FSIZE, &limit) != 0 || test_region_new_fd(fd, NULL, &o.region) != 0)
		return 1;
	z = make(16384, &o);
	while (e == 0)
		e = percpu_zone_alloc(z, 0, &item);
	return e == percpu_zone_alloc(z, PERCPU_ZONE_WAIT, &item) ? e : 1;
}

/* Make calls that fail, and print the reason to standard error. */
static int ask_in_vain(struct percpu_zone *z)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *none = NULL;
	void *item;
	int refused = percpu_zone_create("empty", 0, &o, &none) == -EINVAL;

	refused += percpu_zone_create("large", PERCPU_LANE_SIZE + 1, &o, &none) == -EINVAL;
	o.align = 24;
	refused += percpu_zone_create("crooked", 8, &o, &none) == -EINVAL;
	percpu_zone_set_limit(z, 1);
	if (percpu_zone_alloc(z, 0, &item) != 0)
		return 1;
	refused += percpu_zone_alloc(z, 0, &item) == -ENOSPC;
	refused += fill_a_file() == -ENOSPC;
	return refused == 5 && none == NULL ? 0 : 1;
}

static void debug_zones_explain_failures(void **state)
{
	static const char *const said[] = { "\"empty\" is created with items of 0 bytes",
					    "\"large\" is created with items",
					    "\"crooked\" is created with an alignment",
					    "\"test\" is at its limit",
					    "\"test\" has no room for another item" };
	char text[1024];

	(void)state;
	assert_int_equal(run_debug(ask_in_vain, text, sizeof(text)), 0);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		if (strstr(text, said[i]) == NULL)
			fail_msg("said \"%s\" without \"%s\"", text, said[i]);
}

/* Pages that were given back contain zeros; that is no store to a freed item. */
static void debug_zones_may_be_reclaimed(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z = make(4096, &o);
	void *item[8];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 8; i++)
			item[i] = take(z, 0);
		for (int i = 0; i < 8; i++)
			assert_int_equal(percpu_zone_free(z, item[i]), 0);
		percpu_zone_reclaim(z);
	}
	assert_int_equal(percpu_zone_destroy(z), 0);
}

enum { HELD = 6 };

static void *held[HELD];
static bool once_more;

/* Free and allocate in a child whose parent has freed every other item. */
static int free_what_was_inherited(struct percpu_zone *z)
{
	void *item;

	if (once_more)
		return percpu_zone_free(z, held[1]);
	for (unsigned i = 0; i < HELD; i += 2)
		if (percpu_zone_free(z, held[i]) != 0)
			return 1;
	for (unsigned i = 0; i < 2 * HELD; i++)
		if (percpu_zone_alloc(z, 0, &item) != 0)
			return 1;
	return percpu_zone_free(z, item);
}

/* A child may use its copies of the items as the parent may. */
static void debug_zones_know_of_forks(void **state)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z = make(24, &o);
	int status, fd[2];
	pid_t pid;

	(void)state;
	for (unsigned i = 0; i < HELD; i++)
		held[i] = take(z, 0);
	for (unsigned i = 1; i < HELD; i += 2)
		assert_int_equal(percpu_zone_free(z, held[i]), 0);
	for (unsigned n = 0; n < 2; n++) {
		once_more = n != 0;
		assert_int_equal(pipe(fd), 0);
		pid = fork();
		if (pid == 0) {
			signal(SIGABRT, SIG_DFL);
			dup2(fd[1], STDERR_FILENO);
			_exit(free_what_was_inherited(z));
		}
		status = test_wait(pid, 60);
		close(fd[0]);
		close(fd[1]);
		if (once_more)
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		else
			assert_int_equal(status, 0);
	}
	for (unsigned i = 0; i < HELD; i += 2)
		assert_int_equal(percpu_zone_free(z, held[i]), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
}

/* In a region with other users, they may store to memory that the zone has freed. */
static int share_with_others(void *arg)
{
	struct percpu_zone_options o = { .size = sizeof(o), .flags = PERCPU_ZONE_DEBUG };
	struct percpu_zone *z;
	void *item, *cell;

	(void)arg;
	test_child_require(percpu_region_create(NULL, &o.region) == 0, "a region");
	test_child_require(percpu_zone_create("test", 8, &o, &z) == 0, "a zone in it");
	test_child_require(percpu_zone_alloc(z, 0, &item) == 0, "an item");
	test_child_require(percpu_zone_free(z, item) == 0, "freed");
	test_child_require(percpu_region_alloc(o.region, 8, 8, &cell) == 0, "somebody's cell");
	test_child_require(cell == item, "the same");
	*(uint64_t *)cell = 1;
	test_child_require(percpu_region_free(o.region, cell, 8) == 0, "freed");
	test_child_require(percpu_zone_alloc(z, 0, &cell) == 0, "an item again");
	return cell == item ? 0 : 1;
}

static void debug_zones_let_others_store(void **state)
{
	(void)state;
	test_in_child(share_with_others, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(debug_zones_catch_misuse),
		cmocka_unit_test(debug_zones_explain_failures),
		cmocka_unit_test(debug_zones_may_be_reclaimed),
		cmocka_unit_test(debug_zones_let_others_store),
		cmocka_unit_test(debug_zones_know_of_forks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

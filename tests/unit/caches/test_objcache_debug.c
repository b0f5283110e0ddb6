/* SPDX-License-Identifier: MIT */
/* test_objcache_debug.c - PERCPU_OBJCACHE_DEBUG finds and names the errors of a program. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "objcache.h"

static struct percpu_objcache_options checked(void)
{
	return (struct percpu_objcache_options){ .size = sizeof(struct percpu_objcache_options),
						 .flags = PERCPU_OBJCACHE_DEBUG };
}

static struct percpu_objcache *oc;
static uint64_t *objects[100];

static void put_foreign(void)
{
	uint64_t mine = 0;

	percpu_objcache_put(oc, &mine);
}

static void put_another_caches(void)
{
	struct percpu_objcache_options o = checked();
	struct percpu_objcache *other;
	void *obj;

	if (percpu_objcache_create("other", 64, &o, &other) == 0 &&
	    percpu_objcache_get(other, 0, &obj) == 0)
		percpu_objcache_put(oc, obj);
}

/* The cache has never had an object. */
static void put_into_empty(void)
{
	struct percpu_objcache_options o = checked();
	uint64_t mine = 0;

	if (percpu_objcache_create("test", 64, &o, &oc) == 0)
		percpu_objcache_put(oc, &mine);
}

static void put_inside(void)
{
	percpu_objcache_put(oc, objects[5] + 1);
}

static void put_twice(void)
{
	percpu_objcache_put(oc, objects[5]);
	percpu_objcache_put(oc, objects[5]);
}

static void destroy_free(void)
{
	percpu_objcache_put(oc, objects[5]);
	(void)percpu_objcache_dtor(oc, objects[5]);
}

static void destroy_foreign(void)
{
	uint64_t mine = 0;

	(void)percpu_objcache_dtor(oc, &mine);
}

static void put_destroyed(void)
{
	(void)percpu_objcache_dtor(oc, objects[5]);
	percpu_objcache_put(oc, objects[5]);
}

static void store_after_put(void)
{
	percpu_objcache_put(oc, objects[5]);
	objects[5][7] = 1;
	objects[0] = get(oc);
}

static void store_before_reclaim(void)
{
	percpu_objcache_put(oc, objects[5]);
	objects[5][7] = 1;
	(void)percpu_objcache_reclaim(oc);
}

/*
 * Call fn in a child, which must abort. Return what is on its standard error: the library's
 * message, and after it a line of an emulator that tells the signal.
 */
static const char *errors_of(void (*fn)(void))
{
	static char said[512];
	size_t length = 0;
	int fds[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	if (pid == 0) {
		dup2(fds[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		fn();
		_exit(0);
	}
	close(fds[1]);
	while ((n = read(fds[0], said + length, sizeof(said) - 1 - length)) > 0)
		length += n;
	said[length] = '\0';
	close(fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	return said;
}

static void errors_are_named(void **state)
{
	static const struct {
		void (*fn)(void);
		const char *said;
		bool names; /* the message names the object */
	} errors[] = {
		{ put_foreign, "is put, but is not of this cache", false },
		{ put_another_caches, "is put, but is not of this cache", false },
		{ put_into_empty, "is put, but is not of this cache", false },
		{ put_inside, "is put, but is not of this cache", false },
		{ put_twice, "is put, but is free", true },
		{ destroy_free, "is destroyed, but is free", true },
		{ destroy_foreign, "is destroyed, but is not of this cache", false },
		{ put_destroyed, "is put, but is not of this cache, or was destroyed", true },
		{ store_after_put, "was written to after it was put", true },
		{ store_before_reclaim, "was written to after it was put", true },
	};
	struct percpu_objcache_options o = checked();
	char name[64];
	const char *said;

	(void)state;
	oc = make_cache(&o);
	for (unsigned i = 0; i < 100; i++)
		objects[i] = get(oc);
	snprintf(name, sizeof(name), "objcache \"test\": object %p ", (void *)objects[5]);
	for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		said = errors_of(errors[i].fn);
		assert_non_null(strstr(said, errors[i].said));
		assert_non_null(strstr(said, "objcache \"test\": object "));
		if (errors[i].names)
			assert_non_null(strstr(said, name));
	}
	for (unsigned i = 0; i < 100; i++)
		percpu_objcache_put(oc, objects[i]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void put_foreign_to_odd_name(void)
{
	struct percpu_objcache_options o = checked();
	uint64_t mine = 0;

	if (percpu_objcache_create("a\n\x1b\x7f\x1f\xc3\xa9 ~", 64, &o, &oc) == 0)
		percpu_objcache_put(oc, &mine);
}

/* A name can have any bytes. The message is one line all the same, and moves no cursor. */
static void names_are_printable(void **state)
{
	static const char begin[] = "libpercpu: objcache \"a????\xc3\xa9 ~\": object ";
	static const char end[] = " is put, but is not of this cache, or was destroyed\n";
	const char *said = errors_of(put_foreign_to_odd_name);
	const char *newline = strchr(said, '\n');

	(void)state;
	assert_memory_equal(said, begin, sizeof(begin) - 1);
	assert_non_null(newline);
	assert_ptr_equal(strstr(said, end), newline + 1 - (sizeof(end) - 1));
}

static void fail_at_the_limit(void)
{
	void *obj;

	percpu_objcache_set_limit(oc, 1);
	if (percpu_objcache_get(oc, 0, &obj) == -ENOSPC)
		abort();
}

static void ask_wrongly(void)
{
	void *obj;

	if (percpu_objcache_get(oc, PERCPU_OBJCACHE_DEBUG, &obj) == -EINVAL)
		abort();
}

static uint64_t only[8];

static void *alloc_the_only_one(void *backend, unsigned flags)
{
	(void)backend, (void)flags;
	return only;
}

static void *alloc_none(void *backend, unsigned flags)
{
	(void)backend, (void)flags;
	return NULL;
}

static void free_nothing(void *obj, void *backend)
{
	(void)obj, (void)backend;
}

static void get_from(void *(*alloc)(void *backend, unsigned flags))
{
	struct percpu_objcache_options o = checked();
	void *obj;

	o.alloc = alloc;
	o.free = free_nothing;
	if (percpu_objcache_create("odd", 64, &o, &oc) != 0)
		return;
	while (percpu_objcache_get(oc, 0, &obj) == 0)
		;
	abort();
}

static void get_the_only_one(void)
{
	get_from(alloc_the_only_one);
}

static void get_none(void)
{
	get_from(alloc_none);
}

static void backends_are_checked(void **state)
{
	(void)state;
	assert_non_null(strstr(errors_of(get_the_only_one),
			       "was returned by the backend, which has it out already"));
	assert_non_null(strstr(errors_of(get_none), "objcache \"odd\" has no object to return"));
}

static void failures_are_explained(void **state)
{
	struct percpu_objcache_options o = checked();

	(void)state;
	oc = make_cache(&o);
	objects[0] = get(oc);
	assert_non_null(strstr(errors_of(fail_at_the_limit), "objcache \"test\" is at its limit"));
	assert_non_null(strstr(errors_of(ask_wrongly), "objcache \"test\" was asked with flags"));
	percpu_objcache_put(oc, objects[0]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

/* Get, put and destroy objects in a random order, which moves them in the table. */
static int use_at_random(void *arg)
{
	struct percpu_objcache_options o = checked();
	uint64_t seed = 1;
	bool out[100] = { false };
	unsigned i;

	(void)arg;
	oc = make_cache(&o);
	for (unsigned n = 0; n < 20000; n++) {
		i = (unsigned)(test_random(&seed) % 100);
		if (!out[i])
			test_child_require(percpu_objcache_get(oc, 0, (void **)&objects[i]) == 0,
					   "get");
		else if (test_random(&seed) % 4 == 0)
			test_child_require(percpu_objcache_dtor(oc, objects[i]) == 0, "dtor");
		else
			percpu_objcache_put(oc, objects[i]);
		out[i] = !out[i];
		if (n % 1000 == 0)
			(void)percpu_objcache_reclaim(oc);
	}
	for (i = 0; i < 100; i++)
		if (out[i])
			percpu_objcache_put(oc, objects[i]);
	test_child_require(percpu_objcache_destroy(oc) == 0, "destroy");
	test_child_require(made.wrong == 0 && made.freed == made.allocated &&
				   made.destroyed == made.constructed,
			   "each is constructed and destroyed once");
	return 0;
}

static void what_is_right_is_let_pass(void **state)
{
	(void)state;
	test_in_child(use_at_random, NULL);
}

static void put_what_the_parent_put(void)
{
	percpu_objcache_put(oc, objects[1]);
}

static int put_what_was_inherited(void *arg)
{
	void *obj[4];

	(void)arg;
	percpu_objcache_put(oc, objects[0]);
	for (unsigned i = 0; i < 4; i++)
		test_child_require(percpu_objcache_get(oc, 0, &obj[i]) == 0, "get");
	for (unsigned i = 0; i < 4; i++)
		percpu_objcache_put(oc, obj[i]);
	return percpu_objcache_destroy(oc);
}

/* A child may use its copies of the objects as the parent may. */
static void forks_are_known(void **state)
{
	struct percpu_objcache_options o = checked();

	(void)state;
	oc = make_cache(&o);
	objects[0] = get(oc);
	objects[1] = get(oc);
	percpu_objcache_put(oc, objects[1]);
	assert_non_null(strstr(errors_of(put_what_the_parent_put), "is put, but is free"));
	test_in_child(put_what_was_inherited, NULL);
	percpu_objcache_put(oc, objects[0]);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

static void hold_some(unsigned i, void *arg)
{
	void *obj[4];

	(void)i;
	for (unsigned n = 0; n < *(unsigned *)arg; n++) {
		for (unsigned k = 0; k < 4; k++)
			if (percpu_objcache_get(oc, 0, &obj[k]) != 0)
				return;
		for (unsigned k = 0; k < 4; k++)
			percpu_objcache_put(oc, obj[k]);
	}
}

static void threads_may_use_it(void **state)
{
	struct percpu_objcache_options o = checked();
	unsigned rounds = test_rounds(2000);

	(void)state;
	oc = make_cache(&o);
	test_team_run(4, hold_some, &rounds);
	assert_int_equal(stats_of(oc).requested, 16 * rounds);
	assert_int_equal(percpu_objcache_destroy(oc), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_are_named),	     cmocka_unit_test(names_are_printable),
		cmocka_unit_test(failures_are_explained),    cmocka_unit_test(backends_are_checked),
		cmocka_unit_test(what_is_right_is_let_pass), cmocka_unit_test(threads_may_use_it),
		cmocka_unit_test(forks_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

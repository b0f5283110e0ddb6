/* SPDX-License-Identifier: MIT */
/*
 * test_debug.c - PERCPU_DEBUG=1 in the environment turns on the debug modes of all objects, and no
 * other value does. What each mode finds, the objects' own tests know.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/owner.h>
#include <percpu/ref.h>
#include <percpu/region.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/zone.h>

#include "support.h"

/* Each misuses an object, and returns what the object's call returned: without a debug mode, an
 * error. */

static int free_twice(void)
{
	struct percpu_zone *z;
	void *item;

	test_child_require(percpu_zone_create("z", 8, NULL, &z) == 0, "zone");
	test_child_require(percpu_zone_alloc(z, 0, &item) == 0, "item");
	test_child_require(percpu_zone_free(z, item) == 0, "free");
	return percpu_zone_free(z, (char *)item + 8);
}

static int put_foreign(void)
{
	static char foreign[16];
	struct percpu_objcache *oc;

	test_child_require(percpu_objcache_create("o", 16, NULL, &oc) == 0, "objcache");
	percpu_objcache_put(oc, foreign);
	return 0;
}

static void release(struct percpu_ref *ref, void *arg)
{
	(void)ref;
	(void)arg;
}

static int reinit_live(void)
{
	struct percpu_ref *ref;

	test_child_require(percpu_ref_create(release, NULL, 0, &ref) == 0, "ref");
	return percpu_ref_reinit(ref);
}

static int reinit_atomic(void)
{
	struct percpu_ref *ref;

	test_child_require(percpu_ref_create(release, NULL, PERCPU_REF_INIT_ATOMIC, &ref) == 0,
			   "ref");
	return percpu_ref_reinit(ref);
}

static int put_too_often(void)
{
	struct percpu_ref *ref;
	int e;

	test_child_require(percpu_ref_create(release, NULL, 0, &ref) == 0, "ref");
	e = percpu_ref_put(ref);
	return e == 0 ? percpu_ref_put(ref) : e;
}

static int exit_twice(void)
{
	struct percpu_grace *g;
	int token;

	test_child_require(percpu_grace_create(0, &g) == 0, "grace");
	token = percpu_grace_enter(g);
	test_child_require(token >= 0 && percpu_grace_exit(g, token) == 0, "section");
	return percpu_grace_exit(g, token);
}

static int unlock_twice(void)
{
	struct percpu_rwlock *l;

	test_child_require(percpu_rwlock_create(0, &l) == 0, "rwlock");
	test_child_require(percpu_rwlock_read_lock(l) == 0 && percpu_rwlock_read_unlock(l) == 0,
			   "read");
	return percpu_rwlock_read_unlock(l);
}

static int put_too_long(void)
{
	static char record[PERCPU_RING_MIN + 8];
	struct percpu_ring *r;

	test_child_require(percpu_ring_create(PERCPU_RING_MIN, 0, &r) == 0, "ring");
	return percpu_ring_put(r, record, sizeof(record));
}

static int put_too_long_to_keep(void)
{
	static char record[PERCPU_RING_MIN + 8];
	struct percpu_ring *r;

	test_child_require(percpu_ring_create(PERCPU_RING_MIN, PERCPU_RING_KEEP, &r) == 0, "ring");
	return percpu_ring_put(r, record, sizeof(record));
}

/* A handle of rings that were created without the mode. */
static int put_too_long_as_it_is(void)
{
	static char record[PERCPU_RING_MIN + 8];
	struct percpu_region *shared;
	struct percpu_ring *r;
	int fd = memfd_create("debug", MFD_CLOEXEC);

	test_child_require(test_region_new_fd(fd, NULL, &shared) == 0, "region");
	test_child_require(percpu_ring_open(shared, 3, PERCPU_RING_MIN, 0, &r) == 0, "create");
	test_child_require(percpu_ring_open(shared, 3, 0, 0, &r) == 0, "open");
	return percpu_ring_put(r, record, sizeof(record));
}

/* A handle by the key, for which a program cannot ask for the mode. */
static int put_too_long_by_key(void)
{
	static char record[PERCPU_RING_MIN + 8];
	struct percpu_region *shared;
	struct percpu_ring *r;
	int fd = memfd_create("debug", MFD_CLOEXEC);

	test_child_require(percpu_region_open_fd(fd, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE,
						 NULL, &shared) == 0,
			   "region");
	test_child_require(percpu_ring_create_in(shared, PERCPU_RING_MIN, 0, &r) == 0, "create");
	test_child_require(percpu_ring_attach(shared, percpu_ring_key(r), &r) == 0, "attach");
	return percpu_ring_put(r, record, sizeof(record));
}

static struct percpu_lwbufs *open_file(void)
{
	struct percpu_lwbufs *f;
	int fd = memfd_create("debug", MFD_CLOEXEC);

	test_child_require(ftruncate(fd, 4096) == 0, "file");
	test_child_require(percpu_lwbuf_create(fd, NULL, &f) == 0, "lwbufs");
	return f;
}

static int free_window_twice(void)
{
	struct percpu_lwbufs *f = open_file();
	struct percpu_lwbuf b, copy;

	test_child_require(percpu_lwbuf_alloc(f, 0, 0, &b) == 0, "lwbuf");
	copy = b;
	test_child_require(percpu_lwbuf_free(f, &b) == 0, "free");
	return percpu_lwbuf_free(f, &copy);
}

static int free_sfbuf_of_none(void)
{
	struct percpu_lwbufs *f = open_file();
	struct percpu_sfbuf *sf, *none = (struct percpu_sfbuf *)(void *)&f;

	test_child_require(percpu_sfbuf_alloc(f, 0, 0, &sf) == 0, "sfbuf");
	return percpu_sfbuf_free(f, none);
}

struct misuse {
	const char *name;
	int (*fn)(void);
	int error; /* without the mode; 0: such a misuse cannot be tried then */
};

static const struct misuse misuses[] = {
	{ "zone \"z\"", free_twice, 0 },
	{ "objcache \"o\"", put_foreign, 0 },
	{ "reference count ", reinit_live, -EALREADY },
	{ "reference count ", reinit_atomic, -EALREADY },
	{ "reference count ", put_too_often, 0 },
	{ "grace periods ", exit_twice, 0 },
	{ "rwlock ", unlock_twice, 0 },
	{ "ring ", put_too_long, -EMSGSIZE },
	{ "ring ", put_too_long_to_keep, -EMSGSIZE },
	{ "ring ", put_too_long_as_it_is, -EMSGSIZE },
	{ "ring ", put_too_long_by_key, -EMSGSIZE },
	{ "lwbuf ", free_window_twice, 0 },
	{ "sfbuf ", free_sfbuf_of_none, -EINVAL },
};

#define MISUSES (sizeof(misuses) / sizeof(misuses[0]))

struct trial {
	const struct misuse *misuse;
	const char *value; /* of the environment variable */
};

static int misuse(void *arg)
{
	const struct trial *t = arg;
	int e;

	signal(SIGABRT, SIG_DFL);
	setvbuf(stderr, NULL, _IOFBF, BUFSIZ); /* what stays in a buffer is lost when it aborts */
	if (t->value != NULL)
		setenv("PERCPU_DEBUG", t->value, 1);
	else
		unsetenv("PERCPU_DEBUG");
	e = t->misuse->fn();
	return e == t->misuse->error ? 0 : 1;
}

static void one_turns_all_modes_on(void **state)
{
	char said[1024], start[64];

	(void)state;
	for (size_t i = 0; i < MISUSES; i++) {
		struct trial t = { &misuses[i], "1" };
		int status = test_listen(misuse, &t, said, sizeof(said));

		snprintf(start, sizeof(start), "libpercpu: %s", misuses[i].name);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
		    strncmp(said, start, strlen(start)) != 0 || strchr(said, '\n') == NULL ||
		    strchr(said, '\n')[1] != '\0')
			fail_msg("misuse %zu ended with %#x, and said: %s", i, status, said);
	}
}

static void other_values_do_not(void **state)
{
	static const char *const values[] = { NULL, "", "0", "11", "yes" };
	char said[1024];

	(void)state;
	for (size_t i = 0; i < MISUSES; i++)
		for (size_t v = 0; misuses[i].error != 0 && v < sizeof(values) / sizeof(*values);
		     v++) {
			struct trial t = { &misuses[i], values[v] };

			assert_int_equal(test_listen(misuse, &t, said, sizeof(said)), 0);
			assert_string_equal(said, "");
		}
}

/* The file is opened to write, which the mode does not change. */
static int store_to_file(void *arg)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_WRITABLE };
	struct percpu_lwbufs *f;
	struct percpu_lwbuf b;
	int fd = memfd_create("debug", MFD_CLOEXEC);

	(void)arg;
	setenv("PERCPU_DEBUG", "1", 1);
	test_child_require(ftruncate(fd, 4096) == 0, "file");
	test_child_require(percpu_lwbuf_create(fd, &o, &f) == 0, "lwbufs");
	return percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b);
}

static void modes_change_no_other_flag(void **state)
{
	(void)state;
	test_in_child(store_to_file, NULL);
}

static int change_environment(void *arg)
{
	struct percpu_ref *ref;

	(void)arg;
	unsetenv("PERCPU_DEBUG");
	test_child_require(percpu_ref_create(release, NULL, 0, &ref) == 0, "ref");
	setenv("PERCPU_DEBUG", "1", 1);
	return reinit_live() == -EALREADY ? 0 : 1;
}

static void the_environment_is_read_once(void **state)
{
	(void)state;
	test_in_child(change_environment, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_turns_all_modes_on),
		cmocka_unit_test(other_values_do_not),
		cmocka_unit_test(modes_change_no_other_flag),
		cmocka_unit_test(the_environment_is_read_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

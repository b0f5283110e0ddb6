/* SPDX-License-Identifier: MIT */
/*
 * operations_items.c - object caches and windows, on the child's own memory. While one thread has
 * an object, no other thread gets it.
 */
#define _GNU_SOURCE
#include "stepping.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/calls.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>

#include "../support.h"

#define ALL 8
#define PAGES 4

/* Caches with empty arrays, and with objects in them. */
static struct percpu_objcache *cold, *warm;
/* Files with empty tables; with the page of each CPU in them; and a mapped one. */
static struct percpu_lwbufs *unseen, *seen, *direct;

static struct percpu_objcache *make_objcache(void)
{
	struct percpu_objcache *oc;

	assert_int_equal(percpu_objcache_create("stepping", 64, NULL, &oc), 0);
	return oc;
}

static struct percpu_lwbufs *make_file(enum percpu_lwbuf_backend backend)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .backend = backend };
	int fd = memfd_create("stepping", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct percpu_lwbufs *f;

	o.max_excess = PAGES;
	assert_int_equal(ftruncate(fd, (off_t)ALL * sysconf(_SC_PAGESIZE)), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	close(fd);
	return f;
}

static bool use_page(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_lwbuf b;

	return percpu_lwbuf_alloc(f, page, 0, &b) == 0 && *(char *)percpu_lwbuf_kva(&b) == 0 &&
	       percpu_lwbuf_free(f, &b) == 0;
}

void stepping_make_items(void)
{
	void *obj[2];

	cold = make_objcache();
	warm = make_objcache();
	unseen = make_file(PERCPU_LWBUF_WINDOW);
	seen = make_file(PERCPU_LWBUF_WINDOW);
	direct = make_file(PERCPU_LWBUF_DIRECT);
	for (unsigned i = 0; i < test_cpus(); i++) {
		test_pin(0, test_cpu(i));
		for (unsigned k = 0; k < 2; k++)
			assert_int_equal(percpu_objcache_get_call(warm, 0, &obj[k]), 0);
		for (unsigned k = 0; k < 2; k++)
			percpu_objcache_put_call(warm, obj[k]);
		assert_true(use_page(seen, i % PAGES));
	}
	test_unpin(0);
}

static struct model_result judge(bool right)
{
	return (struct model_result){ !right, MODEL_UNSET };
}

/* Get an object, check that no other thread has it, and put it. Another update may come between,
 * with an object of its own. */
static bool use_object(struct percpu_objcache *oc)
{
	uint32_t *obj;
	void *got;

	if (percpu_objcache_get_call(oc, 0, &got) != 0)
		return false;
	obj = got;
	if (__atomic_exchange_n(&obj[8], 1, __ATOMIC_RELAXED) == 1)
		return false;
	__atomic_store_n(&obj[8], 0, __ATOMIC_RELAXED);
	percpu_objcache_put_call(oc, obj);
	return true;
}

static struct model_result run_cold(const struct model_case *c)
{
	(void)c;
	return judge(use_object(cold));
}

/* Use two objects. A stopped get takes the slow path, so a second one follows. */
static struct model_result run_warm(const struct model_case *c)
{
	bool used = use_object(warm);

	(void)c;
	used = use_object(warm) && used;
	return judge(used);
}

static struct model_result run_direct(const struct model_case *c)
{
	(void)c;
	return judge(use_page(direct, 0));
}

static struct model_result run_seen(const struct model_case *c)
{
	(void)c;
	return judge(use_page(seen, 0) && use_page(seen, 1));
}

/* Use several pages at a time that have the same place in their sets. */
static struct model_result run_unseen(const struct model_case *c)
{
	struct percpu_lwbuf b[PAGES];
	bool right = true;

	(void)c;
	for (unsigned i = 0; i < PAGES; i++)
		right &= percpu_lwbuf_alloc(unseen, i, 0, &b[i]) == 0;
	for (unsigned i = 0; i < PAGES && right; i++)
		right &= percpu_lwbuf_free(unseen, &b[i]) == 0;
	return judge(right);
}

/* Two buffers of one page, which share its window. */
static struct model_result run_shared(const struct model_case *c)
{
	struct percpu_lwbuf b[2];
	bool right = percpu_lwbuf_alloc(seen, 0, 0, &b[0]) == 0 &&
		     percpu_lwbuf_alloc(seen, 0, 0, &b[1]) == 0;

	(void)c;
	for (unsigned i = 0; i < 2 && right; i++)
		right &= percpu_lwbuf_free(seen, &b[i]) == 0;
	return judge(right);
}

const struct stepping_operation stepping_items[] = {
	{ "object, from the backend", MEMORY_PRIVATE, MODEL_ADD, run_cold },
	{ "object, from an array", MEMORY_PRIVATE, MODEL_ADD, run_warm },
	{ "page of a mapping", MEMORY_PRIVATE, MODEL_ADD, run_direct },
	{ "window from the table", MEMORY_PRIVATE, MODEL_ADD, run_seen },
	{ "window, shared", MEMORY_PRIVATE, MODEL_ADD, run_shared },
	{ "window, mapped", MEMORY_PRIVATE, MODEL_ADD, run_unseen },
	{ NULL, MEMORY_PRIVATE, MODEL_ADD, NULL },
};

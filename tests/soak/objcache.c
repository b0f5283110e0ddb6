/* SPDX-License-Identifier: MIT */
/*
 * objcache.c - the soak test's operations on object caches. The backend keeps a ledger of the
 * objects that it has handed out, that are constructed and that are free again. A user stamps an
 * object that it holds, so that a second holder notices.
 *
 * A thread waits for an object only while it holds none, and holds no item for which other threads
 * wait. It puts all its objects when it ends. So no thread waits for ever. Constructors fail now
 * and then. In the end each object was constructed once and destroyed once, and none is left.
 */
#include <errno.h>
#include <stdlib.h>

#include <percpu/objcache.h>

#include "../support.h"
#include "soak.h"

#define FEW 5	 /* objects of that cache: fewer than its users want */
#define MOST 100 /* the highest limit of the cache whose limit changes */
#define CONSTRUCTED UINT64_C(0x6f626a656374)
#define REFUSED (-ENXIO) /* by a constructor */

enum which { UNLIMITED, LIMITED, CHANGING, CHECKED };

struct object {
	uint64_t state; /* CONSTRUCTED, or the token of its holder */
	uint64_t which;
	uint64_t bytes[6];
};

static const struct {
	const char *name;
	size_t limit;
	uint32_t flags;
} kinds[SOAK_CACHES] = {
	[UNLIMITED] = { "unlimited", 0, 0 },
	[LIMITED] = { "limited", FEW, 0 },
	[CHANGING] = { "changing", MOST, 0 },
	[CHECKED] = { "checked", 0, PERCPU_OBJCACHE_DEBUG },
};

static struct percpu_objcache *cache[SOAK_CACHES];

/* The backend's numbers; atomic. */
static struct {
	uint64_t out;	      /* objects that exist */
	uint64_t constructed; /* the constructed ones of these */
	uint64_t calls;	      /* calls of constructors */
} ledger[SOAK_CACHES];

static bool alone; /* in a child of fork: the objects' holders may be missing */

static size_t most(size_t which)
{
	return kinds[which].limit != 0 ? kinds[which].limit : SIZE_MAX;
}

static void *allocate(void *backend, unsigned flags)
{
	size_t which = (size_t)((const char *)backend - (const char *)kinds) / sizeof(kinds[0]);
	uint64_t out = __atomic_add_fetch(&ledger[which].out, 1, __ATOMIC_SEQ_CST);
	struct object *o = calloc(1, sizeof(*o));

	(void)flags;
	soak_require(out <= most(which), "objects that exist, and the limit", most(which), out);
	o->which = which;
	return o;
}

static void release(void *obj, void *backend)
{
	struct object *o = obj;

	(void)backend;
	soak_require_equal("an object that is freed is not constructed", 0, o->state);
	__atomic_fetch_sub(&ledger[o->which].out, 1, __ATOMIC_SEQ_CST);
	free(o);
}

static int construct(void *obj, void *arg, unsigned flags)
{
	struct object *o = obj;

	(void)arg;
	(void)flags;
	soak_require_equal("an object is constructed once", 0, o->state);
	/* A checked cache would print each failure. */
	if (o->which != CHECKED &&
	    __atomic_add_fetch(&ledger[o->which].calls, 1, __ATOMIC_RELAXED) % 16 == 0)
		return REFUSED;
	o->state = CONSTRUCTED;
	__atomic_fetch_add(&ledger[o->which].constructed, 1, __ATOMIC_SEQ_CST);
	return 0;
}

static void destruct(void *obj, void *arg)
{
	struct object *o = obj;

	(void)arg;
	soak_require_equal("an object that is destroyed is nobody's", CONSTRUCTED, o->state);
	o->state = 0;
	__atomic_fetch_sub(&ledger[o->which].constructed, 1, __ATOMIC_SEQ_CST);
}

void soak_objcache_create(void)
{
	struct percpu_objcache_options o;

	for (int i = 0; i < SOAK_CACHES; i++) {
		o = (struct percpu_objcache_options){ .size = sizeof(o) };
		o.limit = kinds[i].limit;
		o.flags = kinds[i].flags;
		o.ctor = construct;
		o.dtor = destruct;
		o.alloc = allocate;
		o.free = release;
		o.backend = (void *)(uintptr_t)&kinds[i];
		soak_require_equal("create an object cache", 0,
				   (uint64_t)percpu_objcache_create(
					   kinds[i].name, sizeof(struct object), &o, &cache[i]));
	}
}

static bool holds_none(const struct soak_thread *t)
{
	for (int c = 0; c < SOAK_CACHES; c++)
		for (int i = 0; i < SOAK_HELD; i++)
			if (t->object[c][i].item != NULL)
				return false;
	return soak_zone_holds_none(t);
}

static void obtain(struct soak_thread *t, unsigned c, struct soak_item *h)
{
	bool limited = c == LIMITED || c == CHANGING;
	bool wait = limited && !alone && holds_none(t);
	uint64_t *count = t->slot->journal[0].count;
	struct object *o;
	void *obj;
	int r = percpu_objcache_get(cache[c], wait ? PERCPU_OBJCACHE_WAIT : 0, &obj);

	soak_require(r == 0 || r == REFUSED || (r == -ENOSPC && !wait && limited), "get an object",
		     0, (uint64_t)r);
	count[r == 0 ? SOAK_OBJCACHE_GET : SOAK_OBJCACHE_FULL]++;
	if (r != 0)
		return;
	o = obj;
	h->item = obj;
	h->token = soak_token(t);
	soak_require_equal("an object that was got is of its cache", c, o->which);
	soak_require_equal("an object that was got is constructed, and nobody's", CONSTRUCTED,
			   __atomic_exchange_n(&o->state, h->token, __ATOMIC_ACQ_REL));
	o->bytes[5] = h->token;
}

static void give(struct soak_thread *t, unsigned c, struct soak_item *h, bool keep)
{
	struct object *o = h->item;

	soak_require_equal("an object is its holder's", h->token, o->state);
	soak_require_equal("an object keeps its contents", h->token, o->bytes[5]);
	o->state = CONSTRUCTED;
	h->item = NULL;
	if (keep)
		percpu_objcache_put(cache[c], o);
	else
		soak_require_equal("destroy an object", 0,
				   (uint64_t)percpu_objcache_dtor(cache[c], o));
	t->slot->journal[0].count[keep ? SOAK_OBJCACHE_PUT : SOAK_OBJCACHE_DTOR]++;
}

static void operate(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), kind = r >> 32;
	unsigned c = r % SOAK_CACHES;
	struct soak_item *h = &t->object[c][r / 8 % SOAK_HELD];

	if (kind % 500 == 0) {
		(void)percpu_objcache_reclaim(cache[c]);
		t->slot->journal[0].count[SOAK_OBJCACHE_RECLAIM]++;
	} else if (kind % 500 < 4) {
		percpu_objcache_set_limit(cache[CHANGING], 1 + kind / 1000 % MOST);
		t->slot->journal[0].count[SOAK_OBJCACHE_LIMIT]++;
	} else if (h->item != NULL) {
		give(t, c, h, kind % 16 != 0);
	} else {
		obtain(t, c, h);
	}
}

void soak_objcache_op(struct soak_thread *t)
{
	for (uint64_t n = test_random(&t->random) % 64; n > 0; n--)
		operate(t);
}

void soak_objcache_leave(struct soak_thread *t)
{
	for (unsigned c = 0; c < SOAK_CACHES; c++)
		for (int i = 0; i < SOAK_HELD; i++)
			if (t->object[c][i].item != NULL)
				give(t, c, &t->object[c][i], true);
}

void soak_objcache_forked(void)
{
	alone = true;
}

void soak_objcache_destroy(void)
{
	struct percpu_objcache_stats s;

	for (int i = 0; i < SOAK_CACHES; i++) {
		percpu_objcache_stats(cache[i], &s);
		soak_require_equal("objects with users when all were put", 0, s.used);
		soak_require_equal("objects that exist when all were put", ledger[i].out, s.cached);
		soak_require_equal("destroy an object cache", 0,
				   (uint64_t)percpu_objcache_destroy(cache[i]));
		soak_require_equal("objects that are left", 0, ledger[i].out);
		soak_require_equal("objects that are left constructed", 0, ledger[i].constructed);
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * zone.c - the soak test's operations on zones. The holder of an item stamps every CPU's copy of
 * it, and wipes it before it frees the item. So an item that was handed out twice, or whose
 * contents changed, has another stamp.
 *
 * A thread waits for an item of a zone only while it holds none, and frees all its items when it
 * ends, so that no thread waits for ever.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/region.h>
#include <percpu/zone.h>

#include "../support.h"
#include "soak.h"

#define FEW 6 /* items of that zone: fewer than its users want */
#define MADE UINT64_C(0x6d616465)

enum which { MANY, LIMITED, BUILT, CHECKED, SHARED, LARGE };

/* The start of a copy. The last word of the copy has the stamp, too. */
struct item {
	uint64_t stamp;
	uint64_t made; /* set by the constructor */
};

static const struct {
	const char *name;
	size_t size;
	size_t limit;
	uint32_t flags;
} kinds[SOAK_ZONES] = {
	[MANY] = { "many", 1000, 0, 0 },   [LIMITED] = { "limited", 24, FEW, 0 },
	[BUILT] = { "built", 96, 0, 0 },   [CHECKED] = { "checked", 40, 0, PERCPU_ZONE_DEBUG },
	[SHARED] = { "shared", 56, 0, 0 }, [LARGE] = { "large", 40000, 0, 0 },
};

static struct percpu_zone *zone[SOAK_ZONES];
static struct item *parked; /* an item of MANY that any thread may take */
static uint32_t held;	    /* items of LIMITED that are in use */
static bool alone;	    /* in a child of fork: the holders of LIMITED's items may be missing */

static void construct(void *cell, unsigned cpu, void *arg)
{
	(void)arg;
	((struct item *)cell)->made = MADE + cpu;
}

static void destruct(void *cell, unsigned cpu, void *arg)
{
	struct item *item = cell;

	(void)arg;
	soak_require_equal("what the constructor stored", MADE + cpu, item->made);
	item->made = 0;
}

void soak_zone_create(struct percpu_region *shared)
{
	struct percpu_zone_options o;

	for (int i = 0; i < SOAK_ZONES; i++) {
		o = (struct percpu_zone_options){ .size = sizeof(o) };
		o.limit = kinds[i].limit;
		o.flags = kinds[i].flags;
		o.region = i == SHARED ? shared : NULL;
		o.ctor = i == BUILT ? construct : NULL;
		o.dtor = i == BUILT ? destruct : NULL;
		soak_require_equal(
			"create a zone", 0,
			(uint64_t)percpu_zone_create(kinds[i].name, kinds[i].size, &o, &zone[i]));
	}
}

static uint64_t *last_word(const struct item *copy, unsigned z)
{
	return (uint64_t *)copy + kinds[z].size / 8 - 1;
}

static struct item *copy_of(struct item *item, unsigned cpu)
{
	return percpu_zone_get(item, cpu);
}

/* Check a new item, and stamp it. A new item is as its last user left it, wiped. In some zones
 * that does not hold: their memory had other uses, or a check fills it. */
static void stamp(struct item *item, unsigned z, uint64_t token, bool wiped)
{
	uint64_t was = __atomic_exchange_n(&item->stamp, token, __ATOMIC_ACQ_REL);
	struct item *copy;

	if (wiped)
		soak_require_equal("a new item is nobody's", 0, was);
	for (unsigned cpu = 0; cpu < percpu_zone_cpus(zone[z]); cpu++) {
		copy = copy_of(item, cpu);
		if (wiped)
			soak_require_equal("a new item is as its last user left it", 0,
					   *last_word(copy, z));
		if (z == BUILT)
			soak_require_equal("a new item is constructed", MADE + cpu, copy->made);
		copy->stamp = token;
		*last_word(copy, z) = token ^ cpu;
	}
}

static void verify(struct item *item, unsigned z, uint64_t token)
{
	for (unsigned cpu = 0; cpu < percpu_zone_cpus(zone[z]); cpu++) {
		soak_require_equal("an item is its holder's", token, copy_of(item, cpu)->stamp);
		soak_require_equal("an item keeps its contents", token ^ cpu,
				   *last_word(copy_of(item, cpu), z));
	}
}

static void release(struct soak_thread *t, unsigned z, struct soak_item *h)
{
	struct item *item = h->item;
	int r;

	verify(item, z, h->token);
	for (unsigned cpu = 0; cpu < percpu_zone_cpus(zone[z]); cpu++) {
		*last_word(copy_of(item, cpu), z) = 0;
		copy_of(item, cpu)->stamp = 0;
	}
	h->item = NULL;
	if (z == LIMITED)
		__atomic_fetch_sub(&held, 1, __ATOMIC_RELAXED);
	r = percpu_zone_free(zone[z], item);
	soak_require(r == 0 || (z == SHARED && r == -ETIMEDOUT), "free an item", 0, (uint64_t)r);
	t->slot->journal[0].count[SOAK_ZONE_FREE]++;
}

static bool holds_none(const struct soak_thread *t, unsigned z)
{
	for (int i = 0; i < SOAK_HELD; i++)
		if (t->item[z][i].item != NULL)
			return false;
	return true;
}

bool soak_zone_holds_none(const struct soak_thread *t)
{
	return holds_none(t, LIMITED);
}

static void obtain(struct soak_thread *t, unsigned z, struct soak_item *h)
{
	unsigned flags = test_random(&t->random) % 4 == 0 ? PERCPU_ZONE_ZERO : 0;
	uint64_t *count = t->slot->journal[0].count, now;
	bool wait = z == LIMITED && !alone && holds_none(t, z);
	void *item;
	int r;

	r = percpu_zone_alloc(zone[z], flags | (wait ? PERCPU_ZONE_WAIT : 0), &item);
	soak_require(r == 0 || (z == SHARED && r == -ETIMEDOUT) ||
			     (r == -ENOSPC && !wait && (z == MANY || z == LIMITED)),
		     "allocate an item", 0, (uint64_t)r);
	count[r == 0 ? SOAK_ZONE_ALLOC : SOAK_ZONE_FULL]++;
	if (r != 0)
		return;
	if (z == LIMITED) {
		now = __atomic_add_fetch(&held, 1, __ATOMIC_RELAXED);
		soak_require(now <= FEW, "no more items than the limit", FEW, now);
	}
	h->item = item;
	h->token = soak_token(t);
	stamp(item, z, h->token, flags != 0 || (z != CHECKED && z != SHARED));
}

/* Exchange an item with another thread, which may free it. */
static void exchange(struct soak_item *h)
{
	h->item = __atomic_exchange_n(&parked, (struct item *)h->item, __ATOMIC_ACQ_REL);
	if (h->item == NULL)
		return;
	h->token = ((struct item *)h->item)->stamp;
	soak_require_token("the stamp of an item", h->token);
}

struct visit {
	uint64_t token;
	unsigned cpus;
};

static void visit(void *cell, unsigned cpu, void *arg)
{
	struct visit *v = arg;
	unsigned here = cpu;

	(void)syscall(SYS_getcpu, &here, NULL, NULL);
	soak_require_equal("zone_run is on the copy's CPU", cpu, here);
	soak_require_equal("zone_run has the item", v->token, ((struct item *)cell)->stamp);
	v->cpus++;
}

static void run(struct soak_thread *t, unsigned z, const struct soak_item *h)
{
	struct visit v = { .token = h->token };
	int r = percpu_zone_run(zone[z], h->item, visit, &v, UINT64_C(1000000000), NULL);

	soak_require(r == 0 || r == -EPERM || r == -ETIMEDOUT, "zone_run", 0, (uint64_t)r);
	soak_require(r != 0 || v.cpus >= test_cpus(), "zone_run visits the CPUs", test_cpus(),
		     v.cpus);
	t->slot->journal[0].count[SOAK_ZONE_RUN]++;
}

void soak_zone_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), kind = r >> 32;
	unsigned z = r % SOAK_ZONES;
	struct soak_item *h = &t->item[z][r / 8 % SOAK_HELD];

	if (kind % 1000 == 0) {
		if (kind / 1000 % 4 == 0)
			percpu_reclaim();
		else
			(void)percpu_zone_reclaim(zone[z]);
		t->slot->journal[0].count[SOAK_ZONE_RECLAIM]++;
	} else if (kind % 1000 < 4) {
		percpu_zone_set_limit(zone[MANY], kind / 1000 % 2 ? kind / 2000 % 64 : 0);
		t->slot->journal[0].count[SOAK_ZONE_LIMIT]++;
	} else if (kind % 1000 < 6 && h->item != NULL) {
		run(t, z, h);
	} else if (kind % 10 == 9 && z == MANY) {
		exchange(h);
	} else if (h->item != NULL) {
		release(t, z, h);
	} else {
		obtain(t, z, h);
	}
}

void soak_zone_leave(struct soak_thread *t)
{
	for (unsigned z = 0; z < SOAK_ZONES; z++)
		for (int i = 0; i < SOAK_HELD; i++)
			if (t->item[z][i].item != NULL)
				release(t, z, &t->item[z][i]);
}

void soak_zone_forked(void)
{
	alone = true;
}

void soak_zone_destroy(void)
{
	struct percpu_zone_stats s;

	if (parked != NULL)
		soak_require_equal("free an item", 0,
				   (uint64_t)percpu_zone_free(zone[MANY], parked));
	for (int i = 0; i < SOAK_ZONES; i++) {
		percpu_zone_stats(zone[i], &s);
		soak_require_equal("items in use when all are freed", 0, s.used);
		soak_require_equal("destroy a zone", 0, (uint64_t)percpu_zone_destroy(zone[i]));
	}
}

/* SPDX-License-Identifier: MIT */
/*
 * ring.c - per-CPU rings: how they are created, and puts by threads that cannot run sequences.
 * ring_read.c reads the rings.
 *
 * Each lane has a ring, a struct percpu_ring_lane. Sequences write the ring of a CPU lane;
 * threads that hold its lock write that of an atomic lane. Both write it in the same way, and
 * store head last. A thread that is killed before that has put nothing, and the next record
 * overwrites what it left. The control block is in the bias lane.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../cpu/debug.h"
#include "../memory/stale.h"
#include "rings.h"

#define HEAD offsetof(struct percpu_ring_lane, slot)
#define NUMBER_UNIT 65536 /* a name is number * NUMBER_UNIT + size */

_Static_assert(offsetof(struct percpu_ring, block) == 0, "begins every handle");
_Static_assert(offsetof(struct percpu_ring_lane, tail) == 64 && HEAD == 128, "sequences");
_Static_assert(offsetof(struct percpu_ring_lane, dropped) ==
		       offsetof(struct percpu_ring_control, bias),
	       "a sum of the lanes subtracts it");
_Static_assert(offsetof(struct percpu_ring_control, rate) <= PERCPU_BLOCK_ALIGN, "adopt()");
_Static_assert(PERCPU_RING_MAX_RECORD < NUMBER_UNIT, "a name has the size");

/* Private rings, for children of fork. The process lock protects the list. */
static struct percpu_ring *private_rings;

/* Mark all locks of private rings as those of dead holders: another thread of the parent may have
 * held one. */
static void ring_mend_in_child(void)
{
	struct percpu_ring_lane *lane;

	for (const struct percpu_ring *r = private_rings; r != NULL; r = r->next)
		for (uint32_t i = 0; i < 2 * r->block.chunk->cpus; i++) {
			lane = percpu_ring_at(r, i);
			percpu_robust_orphan(&lane->lock);
			percpu_robust_orphan(&lane->consumer);
		}
}

__attribute__((constructor)) static void ring_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = ring_mend_in_child };

	percpu_fork_register(PERCPU_FORK_RINGS, &part);
}

static void enlist_ring(struct percpu_ring *r)
{
	if (r->block.chunk->shared)
		return;
	percpu_process_lock();
	r->next = private_rings;
	private_rings = r;
	percpu_process_unlock();
}

static void delist_ring(const struct percpu_ring *r)
{
	struct percpu_ring **at;

	percpu_process_lock();
	for (at = &private_rings; *at != NULL && *at != r; at = &(*at)->next)
		;
	if (*at == r)
		*at = r->next;
	percpu_process_unlock();
}

/* Creation */

static bool is_ring_size(uint64_t size, unsigned flags)
{
	return size >= PERCPU_RING_MIN && size <= PERCPU_RING_MAX && (size & (size - 1)) == 0 &&
	       (flags & ~PERCPU_RING_KEEP) == 0;
}

static void lay_out_ring(struct percpu_ring *r, size_t size, unsigned flags)
{
	memset(r, 0, sizeof(*r));
	r->debug = percpu_debug_flags(flags & PERCPU_RING_DEBUG, PERCPU_RING_DEBUG);
	r->mask = size / sizeof(uint64_t) - 1;
	r->keep = flags & PERCPU_RING_KEEP ? UINT64_MAX : 0;
}

static void start_ring(struct percpu_block *b)
{
	const struct percpu_ring *r = (struct percpu_ring *)b;
	struct percpu_ring_control *c = percpu_ring_control(r);

	c->size = (r->mask + 1) * sizeof(uint64_t);
	c->flags = r->keep != 0 ? PERCPU_RING_KEEP : 0;
	c->clock = PERCPU_RING_CLOCK;
	percpu_ring_note_moment(c);
	c->lock_boot = c->boot != 0 ? c->boot : b->chunk->region->boot;
}

static void complete_ring(struct percpu_block *b)
{
	struct percpu_ring *r = (struct percpu_ring *)b;

	/* If the region is read-only, longest stays 0: the slow path then refuses all puts. */
	if (b->chunk->region->writable)
		r->longest = percpu_ring_longest(r);
}

/* Note the counter's rate. Do not call this during creation: the control block may still be that
 * of earlier rings. */
static void note_rate(const struct percpu_ring *r)
{
	if (r->block.chunk->region->writable)
		percpu_ring_note_rate(percpu_ring_control(r));
}

static void mark_ring(const struct percpu_stale *s, const void *object)
{
	const struct percpu_ring *r = object;
	const struct percpu_chunk *k = r->block.chunk;

	for (uint32_t i = 0; i < 2 * k->cpus;
	     i = i + 1 < k->cpus ? i + 1 : percpu_used_lane(k, i + 1)) {
		percpu_stale_mark(s, &percpu_ring_at(r, i)->lock);
		percpu_stale_mark(s, &percpu_ring_at(r, i)->consumer);
	}
}

static void attach_to_ring(const struct percpu_ring *r)
{
	const struct percpu_chunk *k = r->block.chunk;

	if (k->region->shared && k->region->writable)
		percpu_stale_recover(k->region, &percpu_ring_control(r)->lock_boot, mark_ring, r);
	note_rate(r);
}

/* Read the layout that the creator wrote. Another process may have damaged it since, so load each
 * word once, and check it. If the mask in the plan's handle is 0, any size and flags will do. */
static int adopt_ring(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_ring *t = p->handle, wanted = *t;
	const struct percpu_ring_control *c = (struct percpu_ring_control *)percpu_chunk_bias(
		found->chunk, (size_t)(found->base - found->chunk->base));
	uint64_t size = __atomic_load_n(&c->size, __ATOMIC_RELAXED);
	uint32_t flags = __atomic_load_n(&c->flags, __ATOMIC_RELAXED);

	if (!is_ring_size(size, flags))
		return -ENOENT;
	lay_out_ring(t, size, flags | wanted.debug);
	if (wanted.mask != 0 && (wanted.mask != t->mask || wanted.keep != t->keep))
		return -ENOENT;
	if (__atomic_load_n(&c->clock, __ATOMIC_RELAXED) != PERCPU_RING_CLOCK)
		return -ENOTSUP;
	p->size = p->touched = HEAD + size;
	return 0;
}

static struct percpu_plan ring_plan(struct percpu_ring *t, size_t size)
{
	return (struct percpu_plan){
		.kind = PERCPU_KIND_RING,
		.size = HEAD + size,
		.touched = HEAD + size,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_ring,
		.complete = complete_ring,
		.adopt = adopt_ring,
	};
}

/* Check the size and the flags, and set *ret to the plan. Returns 0 or -EINVAL. */
static int plan_ring(size_t size, unsigned flags, struct percpu_ring *t, struct percpu_plan *ret)
{
	if (!is_ring_size(size, flags & ~(unsigned)PERCPU_RING_DEBUG))
		return -EINVAL;
	lay_out_ring(t, size, flags);
	*ret = ring_plan(t, size);
	return 0;
}

int percpu_ring_create(size_t size, unsigned flags, struct percpu_ring **ret)
{
	struct percpu_ring t;
	struct percpu_plan p;
	int e = plan_ring(size, flags, &t, &p);

	if (e == 0)
		e = percpu_block_create(&p, ret);
	if (e == 0)
		enlist_ring(*ret);
	return e;
}

int percpu_ring_create_in(struct percpu_region *r, size_t size, unsigned flags,
			  struct percpu_ring **ret)
{
	struct percpu_ring t;
	struct percpu_plan p;
	int e = plan_ring(size, flags, &t, &p);

	if (e == 0)
		e = percpu_block_create_in(r, &p, ret);
	if (e == 0)
		enlist_ring(*ret);
	return e;
}

/* Attach to the rings at the root, whatever their size. */
static int open_as_it_is(struct percpu_region *r, unsigned root, unsigned flags,
			 struct percpu_ring **ret)
{
	struct percpu_ring t = { .debug = flags };
	struct percpu_plan p = ring_plan(&t, PERCPU_RING_MIN);
	uint64_t key = percpu_region_root(r, root);
	int e;

	if (r == NULL || ret == NULL || root >= PERCPU_REGION_ROOTS || !r->shared ||
	    (flags & ~(unsigned)PERCPU_RING_DEBUG))
		return -EINVAL;
	if (key == 0)
		return -ENOENT;
	e = percpu_block_attach(r, key, &p, ret);
	return e == -ENOENT ? -EEXIST : e; /* another object is at the root */
}

int percpu_ring_open(struct percpu_region *r, unsigned root, size_t size, unsigned flags,
		     struct percpu_ring **ret)
{
	struct percpu_ring t;
	struct percpu_plan p;
	int e = size != 0 ? plan_ring(size, flags, &t, &p) : 0;

	if (e == 0)
		e = size != 0 ? percpu_block_open(r, root, &p, ret) :
				open_as_it_is(r, root, flags, ret);
	if (e == 0)
		attach_to_ring(*ret);
	return e;
}

int percpu_ring_attach(struct percpu_region *r, uint64_t key, struct percpu_ring **ret)
{
	struct percpu_ring t = { .mask = 0 };
	struct percpu_plan p = ring_plan(&t, PERCPU_RING_MIN);
	int e = percpu_block_attach(r, key, &p, ret);

	if (e == 0)
		attach_to_ring(*ret);
	return e;
}

void percpu_ring_detach(struct percpu_ring *r)
{
	if (r == NULL)
		return;
	note_rate(r);
	delist_ring(r);
	free(r);
}

uint64_t percpu_ring_key(const struct percpu_ring *r)
{
	return percpu_block_key(r, PERCPU_KIND_RING);
}

void percpu_ring_destroy(struct percpu_ring *r)
{
	if (r != NULL)
		delist_ring(r);
	percpu_block_destroy(r);
}

size_t percpu_ring_longest(const struct percpu_ring *r)
{
	return r != NULL ? percpu_ring_longest_of((r->mask + 1) * sizeof(uint64_t)) : 0;
}

/* Puts */

static size_t offset_of_dropped(const struct percpu_ring *r)
{
	return (size_t)(r->block.base - r->block.chunk->base) +
	       offsetof(struct percpu_ring_lane, dropped);
}

uint64_t percpu_ring_dropped(const struct percpu_ring *r)
{
	return r != NULL ? percpu_chunk_sum(r->block.chunk, offset_of_dropped(r)) : 0;
}

static void count_dropped(const struct percpu_ring *r)
{
	char *cell = r->block.base + offsetof(struct percpu_ring_lane, dropped);
	int e = PERCPU_SEQ_SLOW;

	for (int try = 0; percpu_seq_prepare_try(e, try); try++)
		e = percpu_seq_add(cell, r->block.stride, 1);
	if (e != 0)
		percpu_chunk_add_atomic(r->block.chunk, offset_of_dropped(r), 1);
}

/* Store a word at position `at`, and return the next position. Release: a reader that loads the
 * word also finds the head that was stored before it, or a later one. */
static uint64_t put_word(const struct percpu_ring *r, struct percpu_ring_lane *lane, uint64_t at,
			 uint64_t word)
{
	__atomic_store_n(&lane->slot[at & r->mask], word, __ATOMIC_RELEASE);
	return at + 1;
}

/* Do what the sequence does, in C. The caller has the lock of the lane. */
static int put_locked(const struct percpu_ring *r, struct percpu_ring_lane *lane, const char *src,
		      size_t size)
{
	uint64_t head = __atomic_load_n(&lane->head, __ATOMIC_RELAXED), at = head, word;
	uint64_t used = (head - __atomic_load_n(&lane->tail, __ATOMIC_ACQUIRE)) & r->keep;
	uint64_t name = __atomic_load_n(&lane->slot[(head - 1) & r->mask], __ATOMIC_RELAXED);

	if (used + percpu_ring_words(size) > r->mask + 1)
		return PERCPU_SEQ_REFUSED;
	name = (name / NUMBER_UNIT + 1) * NUMBER_UNIT + size;
	at = put_word(r, lane, at, name);
	at = put_word(r, lane, at, percpu_ticks());
	for (size_t left = size; left > 0; left -= left < sizeof(word) ? left : sizeof(word)) {
		word = 0;
		memcpy(&word, src + size - left, left < sizeof(word) ? left : sizeof(word));
		at = put_word(r, lane, at, word);
		PERCPU_STEP("ring: word written");
	}
	at = put_word(r, lane, at, name);
	PERCPU_STEP("ring: record written");
	__atomic_store_n(&lane->head, at, __ATOMIC_RELEASE);
	return 0;
}

static int put_by_lock(const struct percpu_ring *r, const void *src, size_t size)
{
	struct percpu_ring_lane *lane = percpu_ring_at(r, percpu_chunk_choose_lane(r->block.chunk));
	struct percpu_robust h;
	int e = percpu_robust_lock(&h, &lane->lock, PERCPU_LOCK_NS);

	if (e != 0)
		return e;
	e = put_locked(r, lane, src, size);
	percpu_robust_unlock(&h);
	return e;
}

static int put_by_sequence(const struct percpu_ring *r, const char *src, size_t size)
{
	size_t at = (size - 1) / sizeof(uint64_t) * sizeof(uint64_t);
	uint64_t last = 0;

	memcpy(&last, src + at, size - at);
	return percpu_seq_put(r->block.base, r->block.stride, r->mask, r->keep, src, size, last);
}

/* Return 0 if a record can have this size, or -EINVAL or -EMSGSIZE. If the handle is for debugging,
 * abort instead of returning an error. */
static int check_record(const struct percpu_ring *r, size_t size)
{
	int e = size == 0 ? -EINVAL : size > percpu_ring_longest(r) ? -EMSGSIZE : 0;

	if (e != 0 && r->debug != 0)
		percpu_debug_die("ring %p of %zu bytes: a record has 1 to %zu bytes, not %zu",
				 (const void *)r, (size_t)(r->mask + 1) * sizeof(uint64_t),
				 percpu_ring_longest(r), size);
	return e;
}

int percpu_ring_put_slow(const struct percpu_ring *r, const void *src, size_t size)
{
	int e = check_record(r, size);

	if (e != 0)
		return e;
	if (!r->block.chunk->region->writable)
		return -EROFS;
	e = PERCPU_SEQ_SLOW;
	for (int try = 0; percpu_seq_prepare_try(e, try); try++)
		e = put_by_sequence(r, src, size);
	if (e == PERCPU_SEQ_SLOW)
		e = put_by_lock(r, src, size);
	if (e == PERCPU_SEQ_REFUSED) {
		count_dropped(r);
		e = -ENOBUFS;
	}
	return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - the allocator of a region's cells.
 *
 * A bit per unit of a lane, kept off the lanes, says what is in use in all of
 * them. Allocation is rare, so the lock of the process serializes it. Between
 * processes a robust lock does; wherever its holder is killed, the bits are right,
 * but for units that nobody has and that are not free.
 */
#include <errno.h>

#include "internal.h"

#define KEY_SHIFT 40 /* key: chunk index + 1 above, offset in the lane below */

struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell)
{
	if ((uintptr_t)cell - (uintptr_t)r->first->base < r->lane_size)
		return r->first;
	/* A region of other geometry has only that one. */
	return r->lane_size == PERCPU_LANE_SIZE ? percpu_region_lookup(r, cell) : NULL;
}

static size_t units_of(const struct percpu_chunk *k, size_t size)
{
	return (size + k->unit - 1) / k->unit;
}

static bool is_used(const struct percpu_chunk *k, size_t unit)
{
	return __atomic_load_n(&k->header->used[unit / 64], __ATOMIC_RELAXED) >> (unit % 64) & 1;
}

static void set_used(struct percpu_chunk *k, size_t first, size_t n, bool used)
{
	size_t in_word;

	for (; n > 0; first += in_word, n -= in_word) {
		uint64_t *word = &k->header->used[first / 64], bits;

		in_word = n < 64 - first % 64 ? n : 64 - first % 64;
		bits = UINT64_MAX >> (64 - in_word) << (first % 64);
		if (used)
			__atomic_fetch_or(word, bits, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(word, ~bits, __ATOMIC_RELAXED);
	}
}

/* The first unit from one on that is in use, or is not; end if there is none. */
static size_t next_unit(const struct percpu_chunk *k, size_t unit, size_t end, bool used)
{
	uint64_t bits;

	for (; unit < end; unit = (unit / 64 + 1) * 64) {
		bits = __atomic_load_n(&k->header->used[unit / 64], __ATOMIC_RELAXED);
		bits = (used ? bits : ~bits) >> (unit % 64);
		if (bits != 0) {
			unit += (size_t)__builtin_ctzll(bits);
			break;
		}
	}
	return unit < end ? unit : end;
}

/* First run of n free units at a multiple of step, from a unit on. Returns false
 * if there is none. */
static bool find_run(const struct percpu_chunk *k, size_t from, size_t n, size_t step, size_t *ret)
{
	size_t end = k->lane_size / k->unit, first, used;

	for (first = from;; first = used) {
		first = (next_unit(k, first, end, false) + step - 1) / step * step;
		if (first + n > end)
			return false;
		used = next_unit(k, first, first + n, true);
		if (used == first + n) {
			*ret = first;
			return true;
		}
	}
}

/* Allocate from the chunk. -ENOENT: it is full; -ENOSPC: the disk is. The caller
 * has both locks. */
static int alloc_in(struct percpu_chunk *k, size_t size, size_t cpu_size, size_t align, void **ret)
{
	size_t n = units_of(k, size), step = align > k->unit ? align / k->unit : 1, first;
	int e;

	k->hint = next_unit(k, k->hint, k->lane_size / k->unit, false);
	/* Another process may have freed what is below the hint. */
	if (!find_run(k, k->hint, n, step, &first) &&
	    (!k->shared || !find_run(k, 0, n, step, &first)))
		return -ENOENT;
	e = percpu_chunk_reserve(k, first * k->unit, cpu_size, size);
	if (e != 0)
		return e;
	set_used(k, first, n, true);
	if (first == k->hint)
		k->hint = first + n;
	*ret = k->base + first * k->unit;
	return 0;
}

/* Up to n cells; returns how many, or -errno if there is none. */
static ssize_t alloc_anywhere(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			      size_t n, void **ret)
{
	int e = percpu_region_refresh(r);
	bool disk_full = false;
	size_t got = 0;

	for (uint32_t i = r->n; e == 0 && got < n && i-- > 0;) {
		while (e == 0 && got < n) {
			e = alloc_in(r->chunks->at[i], size, cpu_size, align, &ret[got]);
			got += e == 0;
		}
		disk_full |= e == -ENOSPC;
		if (e == -ENOENT || e == -ENOSPC)
			e = 0;
	}
	if (got > 0)
		return (ssize_t)got;
	if (e != 0)
		return e;
	/* Another chunk takes more of the disk than these cells do. */
	if (!percpu_region_is_zone(r) || disk_full)
		return -ENOSPC;
	e = percpu_region_grow(r);
	while (e == 0 && got < n) {
		e = alloc_in(r->chunks->at[r->n - 1], size, cpu_size, align, &ret[got]);
		got += e == 0;
	}
	return got > 0 ? (ssize_t)got : e;
}

/* Between processes first, then in this one: whoever waits for another process
 * holds nothing that a thread of this one could wait for. */
static int lock_region(struct percpu_region *r, struct percpu_robust *h)
{
	int e = r->shared ? percpu_robust_lock(h, &r->first->header->alloc_lock, PERCPU_LOCK_NS) :
			    0;

	if (e == 0)
		percpu_process_lock();
	return e;
}

static void unlock_region(struct percpu_region *r, struct percpu_robust *h)
{
	percpu_process_unlock();
	if (r->shared)
		percpu_robust_unlock(h);
}

/* A process may have been killed with an object that it, or another one, had freed:
 * complete its last update before the cells are handed out. Whoever has the journal
 * does so without us. */
static void settle_journals(struct percpu_region *r)
{
	uint32_t n = __atomic_load_n(&r->n, __ATOMIC_ACQUIRE);
	struct percpu_chunk_table *t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < n; i++)
		(void)percpu_journal_settle(t->at[i], 0);
}

static ssize_t alloc_cells(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			   size_t n, void **ret)
{
	struct percpu_robust h;
	ssize_t got;

	if (!r->writable)
		return -EROFS;
	settle_journals(r);
	got = lock_region(r, &h);
	if (got != 0)
		return got;
	got = alloc_anywhere(r, size, cpu_size, align, n, ret);
	unlock_region(r, &h);
	return got;
}

ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret)
{
	return alloc_cells(r, size, size, align, n, ret);
}

int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret)
{
	ssize_t got;

	if (r == NULL || ret == NULL || size == 0 || size > r->lane_size || align == 0 ||
	    (align & (align - 1)) != 0 || align > 4096)
		return -EINVAL;
	got = alloc_cells(r, size, cpu_size, align, 1, ret);
	return got < 0 ? (int)got : 0;
}

int percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret)
{
	return percpu_region_alloc_narrow(r, size, size, align, ret);
}

static int free_one(struct percpu_region *r, const void *cell, size_t size, uint64_t timeout_ns)
{
	struct percpu_chunk *k = percpu_region_chunk(r, cell);
	size_t offset, first;
	int e;

	if (k == NULL)
		return -EINVAL;
	offset = (size_t)((const char *)cell - k->base);
	first = offset / k->unit;
	if (offset % k->unit != 0 || offset + size > k->lane_size || !is_used(k, first))
		return -EINVAL;
	/* What a killed process wrote down to be stored here must not be stored
	 * when the cells have another owner. */
	e = percpu_journal_settle(k, timeout_ns);
	if (e != 0)
		return e;
	percpu_process_lock();
	set_used(k, first, units_of(k, size), false);
	if (first < k->hint)
		k->hint = first;
	percpu_process_unlock();
	return 0;
}

int percpu_region_free(struct percpu_region *r, void *cell, size_t size)
{
	if (cell == NULL)
		return 0;
	if (r == NULL || size == 0 || size > r->lane_size)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
	return free_one(r, cell, size, PERCPU_LOCK_NS);
}

size_t percpu_region_free_many(struct percpu_region *r, void *const *cells, size_t n, size_t size)
{
	uint64_t patience_ns = PERCPU_LOCK_NS; /* of all together */
	size_t freed = 0;

	for (size_t i = 0; i < n; i++) {
		if (free_one(r, cells[i], size, patience_ns) == 0)
			freed++;
		else
			patience_ns = 0;
	}
	return freed;
}

uint64_t percpu_region_key(const struct percpu_region *r, const void *cell)
{
	struct percpu_chunk *k = r != NULL ? percpu_region_chunk(r, cell) : NULL;

	if (k == NULL)
		return 0;
	return ((uint64_t)k->index + 1) << KEY_SHIFT | (uint64_t)((const char *)cell - k->base);
}

void *percpu_region_at(struct percpu_region *r, uint64_t key, size_t size)
{
	uint64_t index = (key >> KEY_SHIFT) - 1, offset = key & ((UINT64_C(1) << KEY_SHIFT) - 1);
	struct percpu_chunk *k = NULL;
	void *cell = NULL;

	if (r == NULL || key >> KEY_SHIFT == 0 || size == 0)
		return NULL;
	percpu_process_lock();
	(void)percpu_region_refresh(r);
	if (index < r->n)
		k = r->chunks->at[index];
	if (k != NULL && offset < k->lane_size && size <= k->lane_size - offset) {
		cell = k->base + offset;
		for (size_t u = offset / k->unit; u <= (offset + size - 1) / k->unit; u++)
			if (!is_used(k, u))
				cell = NULL;
	}
	percpu_process_unlock();
	return cell;
}

int percpu_region_attach(struct percpu_region *r, uint64_t key, size_t n, size_t size, size_t align,
			 void **ret)
{
	void *cell;

	if (r == NULL || !percpu_fits_lane(n, size))
		return -EINVAL;
	/* Lane 0 is aligned to more than that, and so is what a key has above the offset. */
	cell = key % align == 0 ? percpu_region_at(r, key, n * size) : NULL;
	if (cell == NULL)
		return -ENOENT;
	*ret = cell;
	return 0;
}

int percpu_region_set_root(struct percpu_region *r, uint64_t key)
{
	if (!r->writable)
		return -EROFS;
	__atomic_store_n(&r->first->header->root, key, __ATOMIC_RELEASE);
	return 0;
}

uint64_t percpu_region_root(const struct percpu_region *r)
{
	return __atomic_load_n(&r->first->header->root, __ATOMIC_ACQUIRE);
}

static size_t reclaim_chunk(struct percpu_chunk *k)
{
	size_t end = k->lane_size / k->unit, first, last, bytes = 0;

	for (first = 0; first < end; first = last + 1) {
		for (last = first; last < end && !is_used(k, last); last++)
			;
		if (last > first) {
			percpu_chunk_discard(k, first * k->unit, (last - first) * k->unit);
			bytes += (last - first) * k->unit * (2 * (size_t)k->cpus + 1);
		}
	}
	return bytes;
}

size_t percpu_region_reclaim(struct percpu_region *r)
{
	struct percpu_robust h;
	size_t bytes = 0;

	if (!r->writable || lock_region(r, &h) != 0)
		return 0;
	for (uint32_t i = 0; i < r->n; i++)
		bytes += reclaim_chunk(r->chunks->at[i]);
	unlock_region(r, &h);
	return bytes;
}

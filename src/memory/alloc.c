/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - the allocator of a region's cells.
 *
 * The header has a bit per unit of a lane, which says whether the unit is in use in all lanes.
 * Allocation is rare, so the process lock serializes the threads of a process, and a robust lock
 * the processes. If a holder of that lock is killed, units may stay in use that no process knows
 * of; but no unit that a process uses is free.
 *
 * An object for a root, or for another word, is created under the robust lock. root.c notes its
 * cells before they are in use, and frees them if their creator was killed before it set the word.
 *
 * A second bit says that an allocation begins with the unit. So the length of each allocation is
 * known: no call can free a part of one, or attach to more than one.
 */
#include <errno.h>

#include "memory.h"

struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell)
{
	struct percpu_chunk *k;

	if ((uintptr_t)cell - (uintptr_t)r->first->base < r->lane_size)
		return r->first;
	/* A region of other geometry has only one chunk. */
	k = r->lane_size == PERCPU_LANE_SIZE ? percpu_region_lookup(r, cell) : NULL;
	return k != NULL && percpu_chunk_is_committed(k) ? k : NULL;
}

static size_t units_of(const struct percpu_chunk *k, size_t size)
{
	return (size + k->unit - 1) / k->unit;
}

static bool get_bit(const uint64_t *bitmap, size_t unit)
{
	return __atomic_load_n(&bitmap[unit / 64], __ATOMIC_ACQUIRE) >> (unit % 64) & 1;
}

static void set_bits(uint64_t *bitmap, size_t first, size_t n, bool value)
{
	size_t in_word;

	for (; n > 0; first += in_word, n -= in_word) {
		uint64_t *word = &bitmap[first / 64], bits;

		in_word = n < 64 - first % 64 ? n : 64 - first % 64;
		bits = UINT64_MAX >> (64 - in_word) << (first % 64);
		if (value)
			__atomic_fetch_or(word, bits, __ATOMIC_RELEASE);
		else
			__atomic_fetch_and(word, ~bits, __ATOMIC_RELEASE);
		PERCPU_STEP("region: bits stored");
	}
}

static bool is_used(const struct percpu_chunk *k, size_t unit)
{
	return get_bit(k->header->used, unit);
}

static bool is_start(const struct percpu_chunk *k, size_t unit)
{
	return get_bit(k->header->starts, unit);
}

/* Mark where the allocation begins before it is in use. The bit of the first unit is never
 * cleared: a thread that frees the cells in front may be looking for their end. */
static void mark_used(struct percpu_chunk *k, size_t first, size_t n)
{
	set_bits(k->header->starts, first, 1, true);
	set_bits(k->header->starts, first + 1, n - 1, false);
	set_bits(k->header->used, first, n, true);
}

/* Free the last units first: if the caller is killed, a shorter allocation is left. */
static void mark_free(struct percpu_chunk *k, size_t first, size_t n)
{
	for (size_t end = first + n, begin; end > first; end = begin) {
		begin = (end - 1) / 64 * 64;
		if (begin < first)
			begin = first;
		set_bits(k->header->used, begin, end - begin, false);
		PERCPU_STEP("region: units freed");
	}
}

/* Return the number of units from this one, which is in use, to the end of the allocation. */
static size_t units_left(const struct percpu_chunk *k, size_t unit)
{
	size_t end = percpu_next_bit(k->header->used, unit + 1, k->lane_size / k->unit, false);

	return percpu_next_bit(k->header->starts, unit + 1, end, true) - unit;
}

/* Find the first run of n free units that begins at a multiple of step, from unit `from` on.
 * Returns false if there is none. */
static bool find_run(const struct percpu_chunk *k, size_t from, size_t n, size_t step, size_t *ret)
{
	const uint64_t *bitmap = k->header->used;
	size_t end = k->lane_size / k->unit, first, used;

	for (first = from;; first = used) {
		first = (percpu_next_bit(bitmap, first, end, false) + step - 1) / step * step;
		if (first + n > end)
			return false;
		used = percpu_next_bit(bitmap, first, first + n, true);
		if (used == first + n) {
			*ret = first;
			return true;
		}
	}
}

void percpu_region_free_there(struct percpu_chunk *k, size_t offset)
{
	size_t first = offset / k->unit;

	if (!is_used(k, first) || !is_start(k, first))
		return;
	mark_free(k, first, units_left(k, first));
	if (first < k->hint)
		k->hint = first;
}

/* What to allocate. */
struct want {
	size_t size;
	size_t cpu_size; /* bytes that are ever touched in a CPU lane */
	size_t align;
	const struct percpu_anchor *at; /* the anchor of the object, or NULL */
};

/* Allocate from the chunk. Returns 0, -ENOENT (the chunk is full), -ENOSPC (the disk is
 * full) or another error. The caller has both locks. */
static int alloc_in(struct percpu_chunk *k, const struct want *w, void **ret)
{
	size_t n = units_of(k, w->size), step = w->align > k->unit ? w->align / k->unit : 1, first;
	int e;

	k->hint = percpu_next_bit(k->header->used, k->hint, k->lane_size / k->unit, false);
	/* Another process may have freed units below the hint. */
	if (!find_run(k, k->hint, n, step, &first) &&
	    (!k->shared || !find_run(k, 0, n, step, &first)))
		return -ENOENT;
	e = percpu_chunk_reserve(k, first * k->unit, w->cpu_size, w->size);
	if (e != 0) {
		(void)percpu_chunk_reclaim(k); /* give back the pages reserved before the failure */
		return e;
	}
	*ret = k->base + first * k->unit;
	if (w->at != NULL)
		percpu_creation_note(k->region, w->at, *ret);
	mark_used(k, first, n);
	return 0;
}

/* Allocate up to n cells. Returns their number, or -errno if it is 0: -EBADMSG if a new chunk is
 * full, because the file has bits there. The caller has both locks. */
static ssize_t alloc_anywhere(struct percpu_region *r, const struct want *w, size_t n, void **ret)
{
	struct percpu_chunk *k;
	bool disk_full = false;
	size_t got = 0;
	int e = 0;

	for (uint32_t i = r->n; e == 0 && got < n && i-- > 0;) {
		k = r->chunks->at[i];
		while (percpu_chunk_is_committed(k) && e == 0 && got < n) {
			e = alloc_in(k, w, &ret[got]);
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
	/* A disk that has no room for the cells has none for another chunk. */
	if (!percpu_region_has_default_lanes(r) || disk_full)
		return -ENOSPC;
	e = percpu_region_grow(r, &k);
	while (e == 0 && got < n) {
		e = alloc_in(k, w, &ret[got]);
		got += e == 0;
	}
	return got > 0 ? (ssize_t)got : e == -ENOENT ? -EBADMSG : e;
}

void percpu_region_unlock_both(struct percpu_region *r, struct percpu_robust *h)
{
	percpu_process_unlock();
	if (r->shared)
		percpu_robust_unlock(h);
}

/* Take the lock between processes first: a thread that waits for another process must not
 * hold a lock that other threads of this process wait for. Then map all chunks, and undo the
 * creation that a killed holder left incomplete. */
int percpu_region_lock(struct percpu_region *r, struct percpu_robust *h)
{
	int e = r->shared ? percpu_robust_lock(h, &r->first->header->alloc_lock, PERCPU_LOCK_NS) :
			    0;

	if (e != 0)
		return e;
	percpu_process_lock();
	e = percpu_region_refresh(r);
	if (e == 0)
		percpu_creation_recover(r);
	else
		percpu_region_unlock_both(r, h);
	return e;
}

/* If the lock of one journal cannot be had in that time, wait for no other one. */
int percpu_region_recover_journals(struct percpu_region *r, uint64_t timeout_ns)
{
	uint32_t n = __atomic_load_n(&r->n, __ATOMIC_ACQUIRE);
	struct percpu_chunk_table *t;
	int e = 0, failed;

	PERCPU_STEP("region: chunks counted");
	t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		failed = percpu_journal_recover(t->at[i], e == 0 ? timeout_ns : 0);
		if (failed != 0)
			e = failed;
	}
	return e;
}

static ssize_t alloc_cells(struct percpu_region *r, const struct want *w, size_t n, void **ret)
{
	struct percpu_robust h;
	ssize_t got;

	if (!r->writable)
		return -EROFS;
	(void)percpu_region_recover_journals(r, 0);
	got = percpu_region_lock(r, &h);
	if (got != 0)
		return got;
	got = alloc_anywhere(r, w, n, ret);
	percpu_region_unlock_both(r, &h);
	return got;
}

ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret)
{
	const struct want w = { size, size, align, NULL };

	return alloc_cells(r, &w, n, ret);
}

int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret)
{
	const struct want w = { size, cpu_size, align, NULL };
	ssize_t got;

	if (r == NULL || ret == NULL || size == 0 || size > r->lane_size || align == 0 ||
	    (align & (align - 1)) != 0 || align > 4096)
		return -EINVAL;
	got = alloc_cells(r, &w, 1, ret);
	return got < 0 ? (int)got : 0;
}

int percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret)
{
	return percpu_region_alloc_narrow(r, size, size, align, ret);
}

int percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
			   size_t cpu_size, size_t align, struct percpu_robust *h, void **ret)
{
	const struct want w = { size, cpu_size, align, at };
	ssize_t got;

	if (size == 0 || size > r->lane_size)
		return -EINVAL;
	(void)percpu_region_recover_journals(r, 0);
	got = percpu_region_lock(r, h);
	if (got != 0)
		return (int)got;
	got = __atomic_load_n(at->word, __ATOMIC_ACQUIRE) != 0 ? -EEXIST :
								 alloc_anywhere(r, &w, 1, ret);
	if (got < 0)
		percpu_region_unlock_both(r, h);
	else
		percpu_process_unlock();
	return got < 0 ? (int)got : 0;
}

void percpu_region_unlock(struct percpu_region *r, struct percpu_robust *h)
{
	percpu_process_lock();
	percpu_creation_recover(r);
	percpu_region_unlock_both(r, h);
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
	if (offset % k->unit != 0 || !is_used(k, first) || !is_start(k, first) ||
	    units_left(k, first) != units_of(k, size))
		return -EINVAL;
	/* A killed process may have left an update of these cells in the journal. It must be
	 * complete before the cells belong to another object. */
	e = percpu_journal_recover(k, timeout_ns);
	if (e != 0)
		return e;
	percpu_process_lock();
	mark_free(k, first, units_of(k, size));
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
	uint64_t patience_ns = PERCPU_LOCK_NS; /* after one wait that fails, do not wait again */
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
	return ((uint64_t)k->index + 1) << PERCPU_KEY_CHUNK_SHIFT |
	       (uint64_t)((const char *)cell - k->base);
}

uint64_t percpu_region_object_key(const struct percpu_chunk *k, enum percpu_kind kind,
				  const void *base)
{
	if (!k->shared)
		return 0;
	return (uint64_t)kind << PERCPU_KEY_KIND_SHIFT | percpu_region_key(k->region, base);
}

/* Return whether the allocation at this offset fits a key of this kind. */
static bool is_there(const struct percpu_chunk *k, enum percpu_kind kind, uint64_t offset,
		     size_t size)
{
	size_t first, units, left;

	if (offset >= k->lane_size)
		return false;
	first = offset / k->unit;
	units = (offset + size - 1) / k->unit - first + 1;
	if (!is_used(k, first))
		return false;
	left = units_left(k, first);
	if (kind != PERCPU_KIND_CELL && (offset % k->unit != 0 || !is_start(k, first)))
		return false;
	/* The place of a compact set's cells depends on how many counters it has. */
	return kind == PERCPU_KIND_COMPACT ? units == left : units <= left;
}

/* Find the chunk with this index, and map it if it is not mapped yet. Only that takes the process
 * lock, which costs two system calls: a reader attaches to each series. Returns 0, -ENOENT or
 * -ENOMEM. */
static int reach(struct percpu_region *r, uint64_t index, struct percpu_chunk **ret)
{
	int e = 0;

	if (index >= __atomic_load_n(&r->n, __ATOMIC_ACQUIRE)) {
		percpu_process_lock();
		e = percpu_region_reach(r, index);
		percpu_process_unlock();
	}
	if (e == 0)
		*ret = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE)->at[index];
	return e;
}

int percpu_region_attach(struct percpu_region *r, uint64_t key, enum percpu_kind kind, size_t size,
			 size_t align, void **ret)
{
	const uint64_t below_kind = key & PERCPU_KEY_CELL;
	uint64_t index = (below_kind >> PERCPU_KEY_CHUNK_SHIFT) - 1;
	uint64_t offset = key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1);
	struct percpu_chunk *k;
	int e;

	/* key % align is that of the cell's address: lane 0, and the key's bits above the offset,
	 * are multiples of align. */
	if (key % align != 0 || key >> PERCPU_KEY_KIND_SHIFT != (uint64_t)kind ||
	    below_kind >> PERCPU_KEY_CHUNK_SHIFT == 0)
		return -ENOENT;
	e = reach(r, index, &k);
	if (e == 0 && !is_there(k, kind, offset, size))
		e = -ENOENT;
	if (e == 0)
		*ret = k->base + offset;
	return e;
}

void *percpu_region_at(struct percpu_region *r, uint64_t key, size_t size)
{
	void *cell = NULL;

	if (r != NULL && size != 0)
		(void)percpu_region_attach(r, key, PERCPU_KIND_CELL, size, 1, &cell);
	return cell;
}

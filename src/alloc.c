/* SPDX-License-Identifier: MIT */
/*
 * alloc.c - the allocator of a region's cells.
 *
 * A bit per unit of a lane, kept off the lanes, says what is in use in all of
 * them. Allocation is rare, so one mutex serializes it in the process. Between
 * processes a record lock on the file's first byte does, which the kernel
 * releases when its holder dies; the bits stay right wherever that happens.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "internal.h"

#define KEY_SHIFT 40 /* key: chunk index + 1 above, offset in the lane below */

/*
 * The lock between processes. It is held by an open file of its own: a lock of
 * the process would be lost as soon as any thread, of the library or not,
 * closes any descriptor of the file. Only where the file cannot be opened once
 * more (no /proc, no descriptor left) the process holds it.
 */
static int lock_file(const struct percpu_region *r, int *ret_fd)
{
	struct flock fl = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	char name[32];
	int fd, e = 0;

	*ret_fd = -1;
	if (r->fd < 0)
		return 0;
	(void)snprintf(name, sizeof(name), "/proc/self/fd/%d", r->fd);
	fd = open(name, O_RDWR | O_CLOEXEC);
	while (e == 0 && fcntl(fd < 0 ? r->fd : fd, fd < 0 ? F_SETLKW : F_OFD_SETLKW, &fl) != 0)
		if (errno != EINTR)
			e = percpu_errno();
	if (e != 0 && fd >= 0)
		close(fd);
	else
		*ret_fd = fd;
	return e;
}

static void unlock_file(const struct percpu_region *r, int fd)
{
	struct flock fl = { .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };

	if (fd >= 0)
		close(fd);
	else if (r->fd >= 0)
		(void)fcntl(r->fd, F_SETLK, &fl);
}

struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell)
{
	uint32_t n = __atomic_load_n(&r->n, __ATOMIC_ACQUIRE);
	const struct percpu_chunk_table *chunks = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	const char *p = cell;

	for (uint32_t i = 0; i < n; i++)
		if (p >= chunks->at[i]->base && p < chunks->at[i]->base + r->lane_size)
			return chunks->at[i];
	return NULL;
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
	for (size_t u = first; u < first + n; u++) {
		uint64_t bit = UINT64_C(1) << (u % 64), *word = &k->header->used[u / 64];

		if (used)
			__atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
		else
			__atomic_fetch_and(word, ~bit, __ATOMIC_RELAXED);
	}
}

/* First run of n free units at a multiple of step, from a unit on. Returns false
 * if there is none. */
static bool find_run(const struct percpu_chunk *k, size_t from, size_t n, size_t step, size_t *ret)
{
	size_t end = k->lane_size / k->unit, first, run;

	for (first = (from + step - 1) / step * step; first + n <= end;
	     first = (first + run) / step * step + step) {
		for (run = 0; run < n && !is_used(k, first + run); run++)
			;
		if (run == n) {
			*ret = first;
			return true;
		}
	}
	return false;
}

/* Allocate from the chunk, or -ENOSPC; the caller has both locks. */
static int alloc_in(struct percpu_chunk *k, size_t size, size_t align, void **ret)
{
	size_t n = units_of(k, size), step = align > k->unit ? align / k->unit : 1, first;
	int e;

	/* Another process may have freed what is below the hint. */
	if (!find_run(k, k->hint, n, step, &first) &&
	    (k->fd < 0 || !find_run(k, 0, n, step, &first)))
		return -ENOSPC;
	e = percpu_chunk_reserve(k, first * k->unit, size);
	if (e != 0)
		return e;
	set_used(k, first, n, true);
	if (first <= k->hint)
		k->hint = first + n;
	*ret = k->base + first * k->unit;
	return 0;
}

static int alloc_anywhere(struct percpu_region *r, size_t size, size_t align, void **ret)
{
	int e = percpu_region_refresh(r);

	for (uint32_t i = r->n; e == 0 && i-- > 0;) {
		e = alloc_in(r->chunks->at[i], size, align, ret);
		if (e != -ENOSPC)
			return e;
		e = 0;
	}
	if (e != 0)
		return e;
	if (!percpu_region_is_zone(r))
		return -ENOSPC;
	e = percpu_region_grow(r);
	return e != 0 ? e : alloc_in(r->chunks->at[r->n - 1], size, align, ret);
}

int percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret)
{
	int fd, e;

	if (r == NULL || ret == NULL || size == 0 || size > r->lane_size || align == 0 ||
	    (align & (align - 1)) != 0 || align > 4096)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
	pthread_mutex_lock(&percpu_lock);
	e = lock_file(r, &fd);
	if (e == 0) {
		e = alloc_anywhere(r, size, align, ret);
		unlock_file(r, fd);
	}
	pthread_mutex_unlock(&percpu_lock);
	return e;
}

int percpu_region_free(struct percpu_region *r, void *cell, size_t size)
{
	struct percpu_chunk *k;
	size_t offset, n;
	int e = -EINVAL;

	if (cell == NULL)
		return 0;
	if (r == NULL || size == 0 || size > r->lane_size)
		return -EINVAL;
	if (!r->writable)
		return -EROFS;
	pthread_mutex_lock(&percpu_lock);
	k = percpu_region_chunk(r, cell);
	if (k != NULL) {
		offset = (size_t)((char *)cell - k->base);
		n = units_of(k, size);
		if (offset % k->unit == 0 && offset + size <= k->lane_size &&
		    is_used(k, offset / k->unit)) {
			set_used(k, offset / k->unit, n, false);
			if (offset / k->unit < k->hint)
				k->hint = offset / k->unit;
			e = 0;
		}
	}
	pthread_mutex_unlock(&percpu_lock);
	return e;
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
	pthread_mutex_lock(&percpu_lock);
	(void)percpu_region_refresh(r);
	if (index < r->n)
		k = r->chunks->at[index];
	if (k != NULL && offset < k->lane_size && size <= k->lane_size - offset) {
		cell = k->base + offset;
		for (size_t u = offset / k->unit; u <= (offset + size - 1) / k->unit; u++)
			if (!is_used(k, u))
				cell = NULL;
	}
	pthread_mutex_unlock(&percpu_lock);
	return cell;
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
	size_t bytes = 0;
	int fd;

	if (!r->writable)
		return 0;
	pthread_mutex_lock(&percpu_lock);
	if (lock_file(r, &fd) == 0) {
		for (uint32_t i = 0; i < r->n; i++)
			bytes += reclaim_chunk(r->chunks->at[i]);
		unlock_file(r, fd);
	}
	pthread_mutex_unlock(&percpu_lock);
	return bytes;
}

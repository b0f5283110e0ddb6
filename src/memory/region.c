/* SPDX-License-Identifier: MIT */
/*
 * region.c - the regions of the process: how private ones are created, and the list of all.
 * file.c creates and opens regions in files; grow.c makes the chunks of both.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "memory.h"
#include "stale.h"

#define FENCE_NS (5 * PERCPU_SECOND)

static struct percpu_region *regions;	     /* the process lock protects it */
static struct percpu_region *default_region; /* changed under the process lock */

/* Mark the locks in private memory as those of dead holders: another thread of the parent may have
 * held one, and the child does not have that thread. Leave locks in files alone: their holder goes
 * on in the parent. */
static void region_mend_in_child(void)
{
	for (struct percpu_region *r = regions; r != NULL; r = r->next) {
		r->pins.threads = 0; /* those threads are in the parent */
		percpu_descriptor_renew(r);
		if (r->shared)
			continue;
		for (uint32_t i = 0; i < r->n; i++)
			if (percpu_chunk_is_committed(r->chunks->at[i]))
				percpu_robust_orphan(&r->chunks->at[i]->header->journal_lock);
		if (r->in_child != NULL)
			r->in_child(r->owner);
	}
}

__attribute__((constructor)) static void region_join_forks(void)
{
	static const struct percpu_fork_part part = { .in_child = region_mend_in_child };

	percpu_fork_register(PERCPU_FORK_REGIONS, &part);
}

void percpu_region_on_fork(struct percpu_region *r, void (*in_child)(const void *),
			   const void *owner)
{
	percpu_process_lock();
	r->in_child = in_child;
	r->owner = owner;
	percpu_process_unlock();
}

bool percpu_region_has_default_lanes(const struct percpu_region *r)
{
	return r->lane_size == PERCPU_LANE_SIZE;
}

int percpu_region_new(bool shared, bool writable, size_t lane_size, uint32_t cpus,
		      struct percpu_region **ret)
{
	struct percpu_region *r = calloc(1, sizeof(*r));

	if (r == NULL)
		return -ENOMEM;
	r->file.fd = -1;
	r->shared = shared;
	r->writable = writable;
	r->lane_size = lane_size;
	r->cpus = cpus;
	r->capacity = 1;
	if (percpu_region_has_default_lanes(r))
		r->capacity = shared ? PERCPU_MAX_FILE_CHUNKS : PERCPU_KEY_CHUNKS;
	*ret = r;
	return 0;
}

static void drop_spares(struct percpu_region *r)
{
	if (r->spare != NULL)
		percpu_chunk_unmap(r->spare);
	if (r->seed != NULL)
		percpu_chunk_unmap_seed(r->seed);
	r->spare = NULL;
	r->seed = NULL;
}

void percpu_region_drop(struct percpu_region *r)
{
	struct percpu_chunk_table *t, *older;

	percpu_descriptor_drop(r);
	for (uint32_t i = 0; i < r->n; i++) {
		if (!percpu_chunk_is_committed(r->chunks->at[i]))
			percpu_region_commit(r, i); /* so that it knows its size */
		percpu_chunk_unmap(r->chunks->at[i]);
	}
	drop_spares(r);
	for (t = r->chunks; t != NULL; t = older) {
		older = t->older;
		free(t);
	}
	free(r);
}

static void region_enlist(struct percpu_region *r)
{
	if (r->writable)
		percpu_note_lanes(r->cpus);
	percpu_process_lock();
	r->next = regions;
	regions = r;
	percpu_process_unlock();
}

int percpu_region_begin(struct percpu_region *r, int fd, bool exists, struct percpu_region **ret)
{
	int e = r->shared && r->writable ? percpu_boot_id_read(&r->boot) : 0;
	struct percpu_chunk *k;

	if (e == 0)
		e = percpu_region_map_first(r, fd);
	if (e == 0) {
		percpu_process_lock();
		e = exists ? percpu_region_append_spare(r) : percpu_region_grow(r, &k);
		if (e == 0 && exists)
			e = percpu_region_refresh(r);
		percpu_process_unlock();
	}
	if (e != 0) {
		percpu_region_drop(r);
		return e;
	}
	if (r->shared && r->writable)
		percpu_stale_recover_region(r);
	region_enlist(r);
	/* Do this last: it may start threads, and a process with several threads maps memory more
	 * slowly. */
	percpu_init();
	*ret = r;
	return 0;
}

int percpu_region_check(const struct percpu_region_options *o, struct percpu_region_options *ret)
{
	uint32_t certain = 0;
	int cpus = percpu_possible_cpus(&certain);
	size_t unit;

	if (percpu_options_read(ret, sizeof(*ret), o) != 0)
		return -EINVAL;
	if (cpus < 0 || ret->cpus > PERCPU_MAX_CPUS)
		return -E2BIG;
	if (ret->cpus == 0)
		ret->cpus = cpus;
	if (ret->cpus < certain || ret->lane_size > PERCPU_MAX_LANE || (ret->mode & ~07777U))
		return -EINVAL;
	if (ret->lane_size == 0)
		ret->lane_size = PERCPU_LANE_SIZE;
	percpu_note_cpus(certain);
	unit = percpu_unit(ret->lane_size);
	ret->lane_size = (ret->lane_size + unit - 1) / unit * unit;
	if (ret->mode == 0)
		ret->mode = 0600;
	return 0;
}

/* Return the size of a private region with one chunk, in bytes. */
static uint64_t memory_of(const struct percpu_region_options *o)
{
	return PERCPU_HEAD + percpu_chunk_size(percpu_stride(o->lane_size), o->cpus);
}

int percpu_region_memory_size(const struct percpu_region_options *o, size_t *ret)
{
	struct percpu_region_options opt;
	int e = ret != NULL ? percpu_region_check(o, &opt) : -EINVAL;

	if (e != 0)
		return e;
	if (memory_of(&opt) > SIZE_MAX / 2)
		return -ENOMEM;
	*ret = (size_t)memory_of(&opt);
	return 0;
}

static int check_memory(const struct percpu_region_options *o)
{
	if (o->memory == NULL)
		return o->memory_size == 0 ? 0 : -EINVAL;
	if ((uintptr_t)o->memory % PERCPU_REGION_MEMORY_ALIGN != 0)
		return -EINVAL;
	return o->memory_size < memory_of(o) ? -ENOSPC : 0;
}

int percpu_region_create(const struct percpu_region_options *o, struct percpu_region **ret)
{
	struct percpu_region_options opt;
	struct percpu_region *r;
	int e;

	if (ret == NULL)
		return -EINVAL;
	e = percpu_region_check(o, &opt);
	if (e == 0)
		e = check_memory(&opt);
	if (e != 0)
		return e;
	percpu_init();
	e = percpu_region_new(false, true, opt.lane_size, opt.cpus, &r);
	if (e != 0)
		return e;
	if (opt.memory != NULL) {
		r->memory = opt.memory;
		r->capacity = 1;
	}
	return percpu_region_begin(r, -1, false, ret);
}

int percpu_region_create_for(uint64_t size, struct percpu_region **ret)
{
	struct percpu_region_options o = { .size = sizeof(o), .lane_size = (size_t)size };

	return size <= PERCPU_MAX_LANE ? percpu_region_create(&o, ret) : -ENOMEM;
}

static void region_delist(struct percpu_region *r)
{
	struct percpu_region **at;

	percpu_pins_close(&r->pins);
	percpu_process_lock();
	for (at = &regions; *at != r; at = &(*at)->next)
		;
	*at = r->next;
	percpu_process_unlock();
}

void percpu_region_close(struct percpu_region *r)
{
	if (r == NULL)
		return;
	region_delist(r);
	percpu_region_drop(r);
}

void percpu_region_quarantine(struct percpu_region *r)
{
	region_delist(r);
	percpu_descriptor_drop(r);
	for (uint32_t i = 0; i < r->n; i++)
		percpu_chunk_bar(r->chunks->at[i]);
	drop_spares(r);
}

bool percpu_region_maps(const struct percpu_region *r, const void *address)
{
	uint32_t n = __atomic_load_n(&r->n, __ATOMIC_ACQUIRE);
	const struct percpu_chunk_table *t;

	PERCPU_STEP("region: chunks to be searched");
	t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < n; i++) {
		const size_t offset = (uintptr_t)address - (uintptr_t)t->at[i];

		if (offset >= PERCPU_HEAD && offset < t->at[i]->map_size)
			return true;
	}
	return false;
}

int percpu_region_default(struct percpu_region **ret)
{
	struct percpu_region *r;
	int e = 0;

	if (__atomic_load_n(&default_region, __ATOMIC_ACQUIRE) == NULL) {
		e = percpu_region_create(NULL, &r);
		if (e != 0)
			return e;
		PERCPU_STEP("region: default made");
		percpu_process_lock();
		if (default_region == NULL) {
			__atomic_store_n(&default_region, r, __ATOMIC_RELEASE);
			r = NULL;
		}
		percpu_process_unlock();
		percpu_region_close(r); /* another thread was first */
	}
	*ret = __atomic_load_n(&default_region, __ATOMIC_ACQUIRE);
	return 0;
}

struct percpu_region *percpu_region_find(const void *cell)
{
	struct percpu_region *r;

	percpu_process_lock();
	for (r = regions; r != NULL && percpu_region_chunk(r, cell) == NULL; r = r->next)
		;
	percpu_process_unlock();
	return r;
}

void percpu_region_keep(struct percpu_region *r)
{
	percpu_process_lock();
	r->kept = true;
	percpu_process_unlock();
}

/* Return the first region from this one on that can be reclaimed, and pin it. The caller has the
 * process lock. */
static struct percpu_region *pin_region(struct percpu_region *r)
{
	while (r != NULL && (r->kept || !percpu_pins_add(&r->pins)))
		r = r->next;
	return r;
}

void percpu_regions_reclaim(void)
{
	struct percpu_region *r, *next;

	percpu_process_lock();
	for (r = pin_region(regions); r != NULL; r = next) {
		percpu_process_unlock();
		(void)percpu_region_reclaim(r);
		percpu_process_lock();
		next = pin_region(r->next);
		percpu_pins_remove(&r->pins);
	}
	percpu_process_unlock();
}

/* Fence only CPUs that have a lane: on another CPU, no sequence stores to the region. */
int percpu_region_fence(const struct percpu_region *r)
{
	return r->shared ? percpu_fence_below(r->cpus, FENCE_NS, NULL) : percpu_fence();
}

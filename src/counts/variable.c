/* SPDX-License-Identifier: MIT */
/*
 * variable.c - the per-CPU copies of file-scope variables.
 *
 * All variables of an image have the same distance to their copies. So the address of a copy is
 * the address of the variable plus a constant.
 */
#include <errno.h>
#include <string.h>

#include <percpu/variable.h>

#include "counts.h"

#define IMAGE_ALIGN 64 /* a copy has the same offset in a cache line as the variable */

static pthread_mutex_t setup_lock = PTHREAD_MUTEX_INITIALIZER;

static void lock_setup(void)
{
	percpu_mutex_lock(&setup_lock);
}

static void unlock_setup(void)
{
	percpu_mutex_unlock(&setup_lock);
}

__attribute__((constructor)) static void variable_join_forks(void)
{
	static const struct percpu_fork_part part = { .before = lock_setup, .after = unlock_setup };

	percpu_fork_register(PERCPU_FORK_VARIABLES, &part);
}

/* Copy the image into new copies, which are zero. Store only pieces that are not zero, so that the
 * first touch of a page of zeros comes from its CPU. */
static void copy_image(char *to, const char *from, size_t size)
{
	static const char zeros[64];

	for (size_t n; size > 0; to += n, from += n, size -= n) {
		n = size < sizeof(zeros) ? size : sizeof(zeros);
		if (memcmp(from, zeros, n) != 0)
			memcpy(to, from, n);
	}
}

static int make_copies(struct percpu_image *image)
{
	size_t size = (size_t)(image->stop - image->start),
	       head = (uintptr_t)image->start % IMAGE_ALIGN;
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_chunk *k;
	struct percpu_region *r;
	void *cell;
	int e;

	if (head + size > PERCPU_LANE_SIZE)
		o.lane_size = head + size;
	e = percpu_region_create(&o, &r);
	if (e != 0)
		return e;
	e = percpu_region_alloc(r, head + size, IMAGE_ALIGN, &cell);
	if (e != 0) {
		percpu_region_close(r);
		return e;
	}
	PERCPU_STEP("variable: to be copied");
	k = percpu_region_chunk(r, cell);
	percpu_chunk_numa(k);
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		copy_image((char *)cell + cpu * k->stride + head, image->start, size);
	image->chunk = k;
	image->distance = (intptr_t)((uintptr_t)cell + head - (uintptr_t)image->start);
	PERCPU_STEP("variable: to be found");
	__atomic_store_n(&image->stride, k->stride, __ATOMIC_RELEASE);
	return 0;
}

int percpu_image_setup(struct percpu_image *image)
{
	int e, cancel;

	if (image->start == image->stop || __atomic_load_n(&image->stride, __ATOMIC_ACQUIRE) != 0)
		return 0;
	e = __atomic_load_n(&image->error, __ATOMIC_ACQUIRE);
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel();
	PERCPU_STEP("variable: to be set up");
	lock_setup();
	if (image->stride == 0 && image->error == 0) {
		e = make_copies(image);
		__atomic_store_n(&image->error, e, __ATOMIC_RELEASE);
	}
	e = image->error;
	unlock_setup();
	percpu_restore_cancel(cancel);
	return e;
}

void *percpu_variable_at(struct percpu_image *image, void *variable, unsigned cpu)
{
	if (percpu_image_setup(image) != 0)
		return variable;
	return (char *)variable + image->distance + cpu * image->stride;
}

void percpu_variable_add_slow(struct percpu_image *image, uint64_t *variable, int64_t n)
{
	int r = PERCPU_SEQ_SLOW;
	char *cell;

	if (percpu_image_setup(image) != 0) {
		__atomic_fetch_add(variable, (uint64_t)n, __ATOMIC_RELAXED);
		return;
	}
	cell = (char *)variable + image->distance;
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_add(cell, image->stride, n);
	if (r != 0)
		percpu_chunk_add_atomic(image->chunk, (size_t)(cell - image->chunk->base), n);
}

uint64_t percpu_variable_sum(struct percpu_image *image, const uint64_t *variable)
{
	const char *cell;

	if (percpu_image_setup(image) != 0)
		return __atomic_load_n(variable, __ATOMIC_RELAXED);
	cell = (const char *)variable + image->distance;
	return percpu_chunk_sum(image->chunk, (size_t)(cell - image->chunk->base));
}

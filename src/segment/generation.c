/* SPDX-License-Identifier: MIT */
/*
 * generation.c - resetting a segment. All objects are reset, and later counts are of the next
 * generation.
 *
 * The process that resets the segment holds a lock of the file, which the kernel drops if the
 * process is killed. It increments the generation and resets one object after the other. Each
 * record says for which generation its object was reset last, and the control says for which
 * generation all objects were. A process that opens the segment, and finds objects left to
 * reset, takes the same lock and resets them. So an object may be reset twice. Once a
 * process has opened the segment, no object is reset for that generation any more. Until
 * then a count is of the old generation or of the new one.
 */
#include <stdlib.h>
#include <unistd.h>

#include "segment.h"

#define POLL_NS (PERCPU_SECOND / 1000)

/* Return the byte of the file that is locked: that of the control. No owner locks this byte. */
static uint64_t byte_of_control(const struct percpu_segment *s)
{
	const struct percpu_chunk *k =
		s->region->chunks->at[(s->control_key >> PERCPU_KEY_CHUNK_SHIFT) - 1];

	return percpu_descriptor_byte(
		k, (size_t)(s->control_key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1)));
}

/* The id of the process while one of its threads resets objects; else 0. A lock of the file does
 * not exclude threads that use one descriptor from each other; if the file cannot be opened again,
 * it does not exclude any threads of the process. So one thread of a process at a time resets
 * objects. A child of fork ignores its parent's id. */
static uint32_t resetting;

static bool begin_alone(void)
{
	const uint32_t me = (uint32_t)getpid();
	uint32_t other = __atomic_load_n(&resetting, __ATOMIC_RELAXED);

	PERCPU_STEP("segment: alone");
	return other != me && __atomic_compare_exchange_n(&resetting, &other, me, false,
							  __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static void end_alone(void)
{
	__atomic_store_n(&resetting, 0, __ATOMIC_RELEASE);
}

static int try_lock_of_resets(const struct percpu_segment *s)
{
	int e = begin_alone() ? 0 : -EAGAIN;

	if (e != 0)
		return e;
	e = percpu_descriptor_lock(s->region, byte_of_control(s));
	if (e != 0)
		end_alone();
	return e;
}

void percpu_resets_unlock(const struct percpu_segment *s)
{
	percpu_descriptor_unlock(s->region, byte_of_control(s));
	end_alone();
}

int percpu_resets_lock(const struct percpu_segment *s)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	uint32_t never = 0;
	int e;

	while (e = try_lock_of_resets(s), e == -EAGAIN) {
		if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
		percpu_futex_sleep(&never, FUTEX_WAIT, 0, POLL_NS);
	}
	return e;
}

/* Reset the object of a record, if there is one. Set a gauge to 0. Leave latest values and owned
 * gauges: they are no counts. Returns 0 or -errno: a missing object is no error. */
static int reset_object(struct percpu_segment *s, const struct percpu_segment_record *c)
{
	const struct percpu_kind_row *kind = percpu_kind_of(c->kind);
	void *handle;
	int e;

	if (kind->reset == NULL)
		return 0;
	e = kind->attach(s, c->key, c->fields, &handle);
	if (e != 0)
		return e == -ENOMEM ? e : 0;
	e = kind->reset(handle);
	percpu_kind_detach(c->kind, handle);
	return e;
}

/* Reset the objects that were not reset for this generation. The caller has the lock of the file.
 *
 * If the segment has families, be present meanwhile, so that no object is freed. Otherwise its cells
 * could be used for a series of this generation, whose counts the reset would drop. Families that
 * are declared later need no presence: their series are of this generation, and are not reset. */
static int reset_all(struct percpu_segment *s, uint64_t generation)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_segment_record *r;
	void *presence = NULL;
	uint64_t at = 0;
	int e = c != NULL ? percpu_directory_refresh(s) : -ENOMEM;

	if (e == 0 && s->has_families)
		e = percpu_presence_take(s, &presence);
	PERCPU_STEP("segment: present");
	while (e == 0 && percpu_directory_next(s, PERCPU_SERIES, &at, c, &r)) {
		if (c->head.generation == generation)
			continue;
		e = reset_object(s, &c->head);
		if (e == 0)
			e = percpu_series_reset_exemplars(s, c->head.exemplars);
		PERCPU_STEP("segment: object reset");
		if (e == 0)
			__atomic_store_n(&r->generation, generation, __ATOMIC_RELEASE);
		PERCPU_STEP("segment: reset noted");
	}
	percpu_presence_drop(presence);
	free(c);
	if (e == 0)
		__atomic_store_n(&s->control->completed, generation, __ATOMIC_RELEASE);
	return e;
}

/* Increment the generation, under the lock of the allocator. So no process adds a record meanwhile,
 * which would be of neither generation. */
static int next_generation(struct percpu_segment *s)
{
	struct percpu_segment_control *c = s->control;
	struct percpu_robust h;
	uint64_t generation;
	int e = percpu_robust_lock(&h, &s->region->first->header->alloc_lock, PERCPU_LOCK_NS);

	if (e != 0)
		return e;
	generation = __atomic_load_n(&c->generation, __ATOMIC_ACQUIRE) + 1;
	c->started[generation % 2] = percpu_segment_now(s);
	PERCPU_STEP("segment: start noted");
	__atomic_store_n(&c->generation, generation, __ATOMIC_RELEASE);
	percpu_robust_unlock(&h);
	PERCPU_STEP("segment: generation begun");
	return 0;
}

/* Return whether all objects were reset for the current generation. */
static bool is_generation_complete(const struct percpu_segment *s)
{
	return __atomic_load_n(&s->control->completed, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
}

int percpu_generation_complete(struct percpu_segment *s, bool anew)
{
	int e;

	if (!anew && is_generation_complete(s))
		return 0;
	e = percpu_resets_lock(s);
	if (e != 0)
		return e;
	if (anew)
		e = next_generation(s);
	if (e == 0 && !is_generation_complete(s))
		e = reset_all(s, __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE));
	percpu_resets_unlock(s);
	return e;
}

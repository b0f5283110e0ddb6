/* SPDX-License-Identifier: MIT */
/*
 * generation.c - resetting a segment. All objects are reset, and later counts are of the next
 * generation.
 *
 * The process that resets the segment holds a lock of the file, which the kernel drops if the
 * process is killed. It increments the generation and resets one object after the other. Each
 * record says for which generation its object was reset last, and the control says for which
 * generation all objects were. A process that opens the segment to write, and finds objects left to
 * reset, takes the same lock and resets them. So an object may be reset twice. Once a
 * process has opened the segment to write, no object is reset for that generation any more. Until
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

/* The id of the process while one of its threads resets a segment whose file cannot be opened
 * again; else 0. Locks of such a file belong to the process, and do not exclude its threads from
 * each other, so one thread at a time resets such segments. A child of fork ignores its parent's
 * id. */
static uint32_t resetting;

static bool begin_alone(const struct percpu_segment *s)
{
	const uint32_t me = (uint32_t)getpid();
	uint32_t other = __atomic_load_n(&resetting, __ATOMIC_RELAXED);

	PERCPU_STEP("segment: alone");
	return !s->region->file.inherited ||
	       (other != me && __atomic_compare_exchange_n(&resetting, &other, me, false,
							   __ATOMIC_ACQUIRE, __ATOMIC_RELAXED));
}

static void end_alone(const struct percpu_segment *s)
{
	if (s->region->file.inherited)
		__atomic_store_n(&resetting, 0, __ATOMIC_RELEASE);
}

static int try_generation(const struct percpu_segment *s)
{
	int e = begin_alone(s) ? 0 : -EAGAIN;

	if (e != 0)
		return e;
	e = percpu_descriptor_lock(s->region, byte_of_control(s));
	if (e != 0)
		end_alone(s);
	return e;
}

static void unlock_generation(const struct percpu_segment *s)
{
	percpu_descriptor_unlock(s->region, byte_of_control(s));
	end_alone(s);
}

static int lock_generation(const struct percpu_segment *s)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	uint32_t never = 0;
	int e;

	while (e = try_generation(s), e == -EAGAIN) {
		if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
		percpu_futex_sleep(&never, FUTEX_WAIT, 0, POLL_NS);
	}
	return e;
}

/* Return whether the object was attached. Set *e to -ENOMEM for lack of memory, else to 0: a
 * missing object is no error. */
static bool is_attached(int attached, int *e)
{
	*e = attached == -ENOMEM ? attached : 0;
	return attached == 0;
}

/* Reset the object of a record, if there is one. Set a gauge to 0. Leave latest values and owned
 * gauges: they are no counts. */
static int reset_object(const struct percpu_segment *s, const struct percpu_segment_record *c)
{
	const size_t size = c->fields * sizeof(uint64_t);
	const unsigned kind = c->kind;
	const uint64_t key = c->key;
	uint64_t counts[PERCPU_STATS_MAX_COMMIT];
	struct percpu_histogram *histogram;
	struct percpu_fcounter *fcounter;
	struct percpu_extrema *extrema;
	struct percpu_counter *counter;
	struct percpu_fgauge *fgauge;
	struct percpu_gauge *gauge;
	struct percpu_stats *stats;
	int e = 0;

	if (kind == PERCPU_METRIC_COUNTER &&
	    is_attached(percpu_counter_attach(s->region, key, &counter), &e)) {
		percpu_counter_zero(counter);
	} else if (kind == PERCPU_METRIC_FCOUNTER &&
		   is_attached(percpu_fcounter_attach(s->region, key, &fcounter), &e)) {
		percpu_fcounter_zero(fcounter);
	} else if (kind == PERCPU_METRIC_GAUGE &&
		   is_attached(percpu_gauge_attach(s->region, key, &gauge), &e)) {
		e = percpu_gauge_set(gauge, 0);
	} else if (kind == PERCPU_METRIC_FGAUGE &&
		   is_attached(percpu_fgauge_attach(s->region, key, &fgauge), &e)) {
		e = percpu_fgauge_set(fgauge, 0);
	} else if (kind == PERCPU_METRIC_HISTOGRAM &&
		   is_attached(percpu_histogram_attach(s->region, key, &histogram), &e)) {
		for (size_t i = 0; e == 0 && i < histogram->n; i++)
			e = percpu_histogram_zero(histogram, i);
		percpu_histogram_detach(histogram);
	} else if (kind == PERCPU_METRIC_EXTREMA &&
		   is_attached(percpu_extrema_attach(s->region, key, &extrema), &e)) {
		e = percpu_extrema_reset(extrema);
		percpu_extrema_detach(extrema);
	} else if (kind == PERCPU_METRIC_STATS &&
		   is_attached(percpu_stats_attach(s->region, key, size, 1, 0, &stats), &e)) {
		e = percpu_stats_fetch_zero(stats, 0, 1, counts);
		percpu_stats_detach(stats);
	}
	return e;
}

/* Reset the objects that were not reset for this generation. The caller has the lock of the file.
 *
 * If the segment has families, hold an epoch meanwhile, so that no object is freed. Otherwise its
 * cells could be used for a series of this generation, whose counts the reset would drop. Families
 * that are declared later need no epoch: their series are of this generation, and are not reset. */
static int reset_all(struct percpu_segment *s, uint64_t generation)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_segment_record *r;
	void *epoch = NULL;
	uint64_t at = 0;
	int e = c != NULL ? percpu_reuse_refresh(s) : -ENOMEM;

	if (e == 0 && s->has_families)
		e = percpu_epoch_take(s, &epoch);
	PERCPU_STEP("segment: epoch taken");
	while (e == 0 && percpu_directory_next(s, PERCPU_SERIES, &at, c, &r)) {
		if (c->head.generation == generation)
			continue;
		e = reset_object(s, &c->head);
		PERCPU_STEP("segment: object reset");
		if (e == 0)
			__atomic_store_n(&r->generation, generation, __ATOMIC_RELEASE);
		PERCPU_STEP("segment: reset noted");
	}
	percpu_epoch_drop(epoch);
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
	e = lock_generation(s);
	if (e != 0)
		return e;
	if (anew)
		e = next_generation(s);
	if (e == 0 && !is_generation_complete(s))
		e = reset_all(s, __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE));
	unlock_generation(s);
	return e;
}

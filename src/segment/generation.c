/* SPDX-License-Identifier: MIT */
/*
 * generation.c - starting anew: all objects are reset, and what is counted from then on is of
 * the next generation.
 *
 * Who does that holds a lock of the file, which the kernel drops if it is killed. It counts the
 * generation up, resets one object after the other, and notes in each record for which
 * generation that was done, and in the control when all are done. Whoever opens the segment to
 * write, and finds that not all are, takes the same lock and goes on. An object may be reset twice
 * then, but not after the call has returned for anybody: until then counts are of the old
 * generation or of the new one.
 */
#include <stdlib.h>
#include <unistd.h>

#include "segment.h"

#define POLL_NS (PERCPU_SECOND / 1000)

/* The byte that is locked; no owner's is there. */
static uint64_t byte_of_control(const struct percpu_segment *s)
{
	const struct percpu_chunk *k =
		s->region->chunks->at[(s->control_place >> PERCPU_KEY_CHUNK_SHIFT) - 1];

	return percpu_descriptor_byte(
		k, (size_t)(s->control_place & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1)));
}

/* Where a file cannot be opened once more, its locks are those of the process, and do not keep its
 * threads apart. So one at a time starts anew what it has no open file of its own for: this is the
 * id of the process, which a child of fork does not take for its own. */
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

/* What cannot be looked at for lack of memory is not taken for what is not there. */
static bool is_attached(int attached, int *e)
{
	*e = attached == -ENOMEM ? attached : 0;
	return attached == 0;
}

/* Levels become 0. Latest values, and what owners have, are no counts, and stay. An object that is
 * not there is none to reset. */
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

/* Reset what was not reset for this generation. The caller has the lock of the file. No object goes
 * away meanwhile, and becomes that of a series of this generation: an epoch is held. It is needed
 * only if there are families by now: series of those that others declare later are of this
 * generation, and not reset. */
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
		__atomic_store_n(&s->control->settled, generation, __ATOMIC_RELEASE);
	return e;
}

/* Count the generation up. No record is being added meanwhile: it would be of neither. */
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

static bool is_settled(const struct percpu_segment *s)
{
	return __atomic_load_n(&s->control->settled, __ATOMIC_ACQUIRE) ==
	       __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
}

int percpu_generation_settle(struct percpu_segment *s, bool anew)
{
	int e;

	if (!anew && is_settled(s))
		return 0;
	e = lock_generation(s);
	if (e != 0)
		return e;
	if (anew)
		e = next_generation(s);
	if (e == 0 && !is_settled(s))
		e = reset_all(s, __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE));
	unlock_generation(s);
	return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * participant.c - enter and leave where no sequence was inlined or committed; sum up the cells;
 * wait until no thread is inside. participant.h says how it works. participant_join.c creates
 * objects, and finds the participants.
 */
#include <errno.h>
#include <limits.h>

#include "participant.h"

static struct percpu_participant_cells own_cells(const struct percpu_participants *p)
{
	const struct percpu_block *b = &p->in.block;

	if (p->owners != NULL)
		return percpu_participants_cells(p, __atomic_load_n(&p->last, __ATOMIC_ACQUIRE));
	return (struct percpu_participant_cells){ b->chunk, (size_t)(b->base - b->chunk->base) };
}

static uint32_t *cell_at(struct percpu_participant_cells c, size_t lane, unsigned bank)
{
	return (uint32_t *)percpu_chunk_lane(c.chunk, lane, c.offset) + bank;
}

static uint64_t *participants_state(const struct percpu_participants *p)
{
	return &p->control->state;
}

static int try_to_add(const struct percpu_participants *p, unsigned bank, int32_t n,
		      uint64_t expected)
{
	uint32_t *cell = cell_at(own_cells(p), 0, bank);
	int r = PERCPU_SEQ_SLOW;

	__atomic_signal_fence(__ATOMIC_RELEASE);
	for (int try = 0; percpu_seq_prepare_try(r, try); try++)
		r = percpu_seq_narrow_add_if(cell, p->in.stride, n, participants_state(p),
					     expected);
	__atomic_signal_fence(__ATOMIC_ACQUIRE);
	return r;
}

static uint32_t *atomic_cell(const struct percpu_participants *p, unsigned bank)
{
	const struct percpu_participant_cells c = own_cells(p);

	return cell_at(c, percpu_chunk_choose_lane(c.chunk), bank);
}

/* The subtraction after a refusal is in the same lane as the addition. In another lane, a sum might
 * include the subtraction without the addition, and be 0 with a thread inside. */
int percpu_participants_enter(struct percpu_participants *p, unsigned bank, uint64_t expected)
{
	int r = try_to_add(p, bank, 1, expected);
	uint32_t *cell;

	if (r != PERCPU_SEQ_SLOW)
		return r;
	cell = atomic_cell(p, bank);
	__atomic_fetch_add(cell, 1, __ATOMIC_RELAXED);
	PERCPU_STEP("participant: counted");
	percpu_full_fence();
	if (__atomic_load_n(participants_state(p), __ATOMIC_ACQUIRE) == expected)
		return 0;
	__atomic_fetch_sub(cell, 1, __ATOMIC_RELEASE);
	PERCPU_STEP("participant: taken back");
	percpu_participants_wake(p);
	return PERCPU_SEQ_REFUSED;
}

void percpu_participants_leave(struct percpu_participants *p, unsigned bank, uint64_t idle)
{
	if (try_to_add(p, bank, -1, idle) == 0)
		return;
	__atomic_fetch_sub(atomic_cell(p, bank), 1, __ATOMIC_RELEASE);
	PERCPU_STEP("participant: left");
	percpu_full_fence();
	if (__atomic_load_n(participants_state(p), __ATOMIC_RELAXED) != idle)
		percpu_participants_wake(p);
}

void percpu_participants_add(struct percpu_participants *p, unsigned bank, int32_t n)
{
	__atomic_fetch_add(atomic_cell(p, bank), (uint32_t)n, __ATOMIC_ACQ_REL);
	percpu_full_fence();
}

uint32_t percpu_participants_sum_cells(const struct percpu_chunk *k, size_t offset, unsigned bank)
{
	const struct percpu_participant_cells c = { (struct percpu_chunk *)k, offset };
	uint32_t sum = 0;

	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		sum += __atomic_load_n(cell_at(c, cpu, bank), __ATOMIC_ACQUIRE);
	PERCPU_STEP("participant: lanes of CPUs summed");
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, lane + 1))
		sum += __atomic_load_n(cell_at(c, lane, bank), __ATOMIC_ACQUIRE);
	return sum;
}

uint32_t percpu_participants_sum_own(const struct percpu_participants *p, unsigned bank)
{
	const uint64_t id = percpu_participants_self(p);
	const struct percpu_participant_cells c = own_cells(p);

	if (id == 0)
		return 0;
	if (p->owners == NULL)
		return percpu_participants_sum_cells(c.chunk, c.offset, bank);
	return percpu_participants_sum_cells(c.chunk, c.offset, bank) -
	       __atomic_load_n(&percpu_participants_record(p, id)->left[bank], __ATOMIC_RELAXED);
}

static void add_to_sum(uint64_t id, uint32_t n, void *arg)
{
	uint32_t *sum = arg;

	(void)id;
	*sum += n;
}

uint32_t percpu_participants_sum(const struct percpu_participants *p, unsigned bank)
{
	uint32_t sum = 0;

	percpu_participants_each(p, bank, add_to_sum, &sum);
	return sum;
}

/* What was found in a bank. */
struct participants_count {
	uint32_t inside;
	bool has_deficit; /* a participant has left more often than it entered */
};

static void add_to_participants(uint64_t id, uint32_t n, void *arg)
{
	struct participants_count *count = arg;

	(void)id;
	if ((int32_t)n > 0)
		count->inside += n;
	else if (n != 0)
		count->has_deficit = true;
}

static struct participants_count count_participants(const struct percpu_participants *p,
						    unsigned bank)
{
	struct participants_count count = { 0 };

	percpu_participants_each(p, bank, add_to_participants, &count);
	return count;
}

uint32_t percpu_participants_inside(const struct percpu_participants *p, unsigned bank)
{
	return count_participants(p, bank).inside;
}

/* In which object and bank to correct negative counts. */
struct participants_deficit {
	struct percpu_participants *p;
	unsigned bank;
};

/* Set a negative count to 0. If a thread leaves once too often meanwhile, the count is negative
 * again. */
static void set_right(uint64_t id, uint32_t n, void *arg)
{
	const struct participants_deficit *d = arg;

	if ((int32_t)n >= 0)
		return;
	if (d->p->owners == NULL) {
		percpu_participants_add(d->p, d->bank, -(int32_t)n);
		return;
	}
	__atomic_fetch_add(&percpu_participants_record(d->p, id)->left[d->bank], n,
			   __ATOMIC_RELEASE);
}

/* Set negative counts to 0, and return -EPROTO. In a region the lock keeps the records with their
 * owners. If it cannot be taken in time, the counts stay, and the next waiter finds them. */
static int clear_deficits(struct percpu_participants *p, unsigned bank)
{
	struct participants_deficit d = { .p = p, .bank = bank };
	struct percpu_robust lock;

	PERCPU_STEP("participant: left too often");
	if (p->owners == NULL) {
		percpu_participants_each(p, bank, set_right, &d);
	} else if (percpu_participants_lock(p, &lock) == 0) {
		percpu_participants_each(p, bank, set_right, &d);
		percpu_robust_unlock(&lock);
	}
	return -EPROTO;
}

int percpu_participants_drain(struct percpu_participants *p, unsigned bank, uint64_t deadline_ns)
{
	struct participants_count count;
	uint64_t asked = 0, now;
	uint32_t value;

	for (;;) {
		value = __atomic_load_n(&p->control->drained, __ATOMIC_ACQUIRE);
		count = count_participants(p, bank);
		if (count.inside == 0)
			return count.has_deficit ? clear_deficits(p, bank) : 0;
		PERCPU_STEP("participant: somebody is inside");
		now = percpu_now_ns();
		if (p->owners != NULL && now >= asked + PERCPU_PARTICIPANTS_SLICE) {
			(void)percpu_participants_drop_dead(p);
			asked = now;
			continue;
		}
		if (now >= deadline_ns)
			return -ETIMEDOUT;
		percpu_participants_sleep(p, &p->control->drained, value, deadline_ns);
	}
}

void percpu_participants_wake(struct percpu_participants *p)
{
	__atomic_fetch_add(&p->control->drained, 1, __ATOMIC_RELEASE);
	PERCPU_STEP("participant: to be woken");
	percpu_participants_rouse(p, &p->control->drained);
}

void percpu_participants_sleep(const struct percpu_participants *p, uint32_t *word, uint32_t value,
			       uint64_t deadline_ns)
{
	const bool shared = p->owners != NULL;
	const int saved = errno;
	uint64_t now, ns = 0;

	if (deadline_ns != PERCPU_PARTICIPANTS_FOREVER) {
		now = percpu_now_ns();
		if (now >= deadline_ns)
			return;
		ns = deadline_ns - now;
	}
	if (shared && (ns == 0 || ns > PERCPU_PARTICIPANTS_SLICE))
		ns = PERCPU_PARTICIPANTS_SLICE;
	percpu_futex_sleep(word, shared ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, value, ns);
	errno = saved;
}

void percpu_participants_rouse(const struct percpu_participants *p, uint32_t *word)
{
	const int saved = errno;

	percpu_futex_rouse(word, p->owners != NULL ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, INT_MAX);
	errno = saved;
}

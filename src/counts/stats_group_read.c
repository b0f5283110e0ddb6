/* SPDX-License-Identifier: MIT */
/*
 * stats_group_read.c - reading groups of statistics.
 *
 * Snapshots work as those of stats_read.c: sum the bank at rest, make it count, fence, and sum the
 * other. An update that was cut short may be in the bank at rest. It is still open, and the saved
 * words of its two objects are the valid ones.
 *
 * The biases are read first. So an object has at least what was moved from it, and no value is
 * negative. Moves and resets of other threads during a snapshot would make it wrong; "moves" tells,
 * and the reader starts over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <time.h>

#include "counts.h"

#define GROUP_TRIES 8
#define GROUP_WORD_TRIES 10000 /* of a lane's object */

/* Load word w of object i. If an update of that object is open, the saved word is valid. Acquire: the
 * caller compares turn and names afterwards. */
static uint64_t load_group_word(const struct percpu_stats_group *g,
				const struct percpu_group_lane *l, uint64_t turn, uint64_t names,
				size_t i, size_t w)
{
	const uint64_t *word = (const uint64_t *)((const char *)l + g->head + i * g->record) + w;

	if (percpu_group_is_open(turn, names)) {
		if (percpu_group_first(names) == i)
			word = percpu_group_saved(g, l, 0) + w;
		else if (percpu_group_second(names) == i)
			word = percpu_group_saved(g, l, 1) + w;
	}
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Add sign times the words of an object in one lane to out. A word is valid if turn and names have
 * not changed after the load. In a bank at rest the first try succeeds. Returns 0 or -EAGAIN. */
static int add_group_object(const struct percpu_stats_group *g, const struct percpu_group_lane *l,
			    size_t i, uint64_t sign, uint64_t *out)
{
	uint64_t turn = __atomic_load_n(&l->turn, __ATOMIC_ACQUIRE), turn_now;
	uint64_t names = __atomic_load_n(&l->names, __ATOMIC_ACQUIRE), names_now, value;
	unsigned tries = 0;

	for (size_t w = 0; w < g->words; turn = turn_now, names = names_now) {
		PERCPU_STEP("group: turn loaded");
		value = load_group_word(g, l, turn, names, i, w);
		PERCPU_STEP("group: word loaded");
		turn_now = __atomic_load_n(&l->turn, __ATOMIC_ACQUIRE);
		names_now = __atomic_load_n(&l->names, __ATOMIC_ACQUIRE);
		if (turn_now == turn && names_now == names)
			out[w++] += sign * value;
		else if (++tries == GROUP_WORD_TRIES)
			return -EAGAIN;
	}
	return 0;
}

static int add_group_objects(const struct percpu_stats_group *g, const struct percpu_group_lane *l,
			     size_t first, size_t n, uint64_t sign, uint64_t *out)
{
	int e = 0;

	for (size_t i = 0; i < n && e == 0; i++)
		e = add_group_object(g, l, first + i, sign, out + i * g->words);
	return e;
}

/* Add n objects of one bank from all CPU lanes. */
static int add_group_bank(const struct percpu_stats_group *g, uint64_t bank, size_t first, size_t n,
			  uint64_t *out)
{
	const struct percpu_chunk *k = g->block.chunk;
	const size_t offset = (size_t)(g->block.base - k->base) + bank;
	int e = 0;

	for (uint32_t cpu = 0; cpu < k->cpus && e == 0; cpu++)
		e = add_group_objects(
			g, (const struct percpu_group_lane *)percpu_chunk_lane(k, cpu, offset),
			first, n, 1, out);
	return e;
}

static size_t bytes_of_objects(const struct percpu_stats_group *g, size_t n)
{
	return n * g->words * sizeof(uint64_t);
}

int percpu_stats_group_sum_biases(const struct percpu_stats_group *g, size_t first, size_t n,
				  uint64_t *out)
{
	memset(out, 0, bytes_of_objects(g, n));
	return add_group_objects(g, percpu_stats_group_biases(g), first, n, -UINT64_C(1), out);
}

int percpu_stats_group_sum(const struct percpu_stats_group *g, size_t first, size_t n,
			   uint64_t *out)
{
	int e = percpu_stats_group_sum_biases(g, first, n, out);

	PERCPU_STEP("group: bias loaded");
	if (e == 0)
		e = add_group_bank(g, 0, first, n, out);
	return e != 0 ? e : add_group_bank(g, g->banks, first, n, out);
}

int percpu_stats_group_fetch(const struct percpu_stats_group *g, size_t first, size_t n, void *out)
{
	struct percpu_draft d;
	int e;

	if (g == NULL || out == NULL || !percpu_stats_group_has(g, first, n))
		return -EINVAL;
	e = percpu_draft_begin(&d, bytes_of_objects(g, n));
	if (e != 0)
		return e;
	e = percpu_stats_group_sum(g, first, n, d.words);
	return percpu_draft_end(&d, out, d.size, e);
}

/* Fence, so that no sequence still adds to the bank that no longer counts. */
static int fence_group(const struct percpu_stats_group *g, struct percpu_stats_group_control *c,
		       uint64_t bank)
{
	int e = percpu_region_fence(g->block.chunk->region);

	if (e == 0)
		__atomic_store_n(&c->fenced, bank, __ATOMIC_RELEASE);
	return e;
}

/* Read the biases under the lock, so that no update by the lock is in them in part. */
static int begin_with_moves(const struct percpu_stats_group *g, size_t first, size_t n,
			    uint64_t *ret_moves, uint64_t *out)
{
	struct percpu_robust h;
	int e = percpu_stats_group_lock_all(g, &h);

	if (e != 0)
		return e;
	*ret_moves = __atomic_load_n(&percpu_stats_group_control(g)->moves, __ATOMIC_RELAXED);
	e = percpu_stats_group_sum_biases(g, first, n, out);
	percpu_robust_unlock(&h);
	return e;
}

/* Return whether no thread has switched banks, moved or reset since this one did. */
static bool is_undisturbed(struct percpu_stats_group_control *c, uint64_t bank, uint64_t moves)
{
	return __atomic_load_n(&c->moves, __ATOMIC_ACQUIRE) == moves &&
	       __atomic_load_n(&c->bank, __ATOMIC_ACQUIRE) == bank;
}

/* Reset the objects that have the values in out. Returns 0, -EAGAIN if another thread came between,
 * or another error. */
static int reset_objects(const struct percpu_stats_group *g, uint64_t bank, uint64_t moves,
			 size_t first, size_t n, const uint64_t *out)
{
	static const uint64_t nothing[PERCPU_STATS_MAX_COMMIT];
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	struct percpu_robust h;
	int e = percpu_stats_group_lock_all(g, &h);

	if (e != 0)
		return e;
	if (is_undisturbed(c, bank, moves)) {
		__atomic_store_n(&c->moves, moves + 1, __ATOMIC_RELEASE);
		for (size_t i = 0; i < n; i++, out += g->words) {
			percpu_stats_group_change(g, first + i, out, first + i, nothing);
			PERCPU_STEP("group: object reset");
		}
	} else {
		e = -EAGAIN;
	}
	percpu_robust_unlock(&h);
	return e;
}

/* Sum both banks, the one that counts after it was switched. Returns 0, -EAGAIN if another reader
 * came between, or another error. */
static int sum_banks(const struct percpu_stats_group *g, struct percpu_stats_group_control *c,
		     size_t first, size_t n, uint64_t *ret_bank, uint64_t *ret_ns, uint64_t *out)
{
	uint64_t bank = __atomic_load_n(&c->bank, __ATOMIC_ACQUIRE), next;
	const uint64_t counting = (bank & g->banks) != 0 ? g->banks : 0,
		       resting = g->banks - counting;
	int e = 0;

	/* Fence first if the last reader was killed, could not fence, or has not fenced yet. */
	if (__atomic_load_n(&c->fenced, __ATOMIC_ACQUIRE) != bank)
		e = fence_group(g, c, bank);
	if (e == 0)
		e = add_group_bank(g, resting, first, n, out);
	if (e != 0)
		return e;
	next = (bank & -PERCPU_STATS_FLIP) + PERCPU_STATS_FLIP + resting;
	PERCPU_STEP("group: bank to be changed");
	if (!__atomic_compare_exchange_n(&c->bank, &bank, next, false, __ATOMIC_SEQ_CST,
					 __ATOMIC_RELAXED))
		return -EAGAIN;
	PERCPU_STEP("group: bank changed");
	*ret_ns = percpu_clock_ns(CLOCK_REALTIME);
	*ret_bank = next;
	e = fence_group(g, c, next);
	return e != 0 ? e : add_group_bank(g, counting, first, n, out);
}

/* Try to take a snapshot. Returns as sum_banks(). */
static int take_group(const struct percpu_stats_group *g, size_t first, size_t n, bool zero,
		      uint64_t *ret_ns, uint64_t *out)
{
	struct percpu_stats_group_control *c = percpu_stats_group_control(g);
	uint64_t moves, bank;
	int e = begin_with_moves(g, first, n, &moves, out);

	if (e != 0)
		return e;
	PERCPU_STEP("group: moves loaded");
	e = sum_banks(g, c, first, n, &bank, ret_ns, out);
	if (e != 0)
		return e;
	if (zero)
		return reset_objects(g, bank, moves, first, n, out);
	return is_undisturbed(c, bank, moves) ? 0 : -EAGAIN;
}

static int group_snapshot(const struct percpu_stats_group *g, size_t first, size_t n, bool zero,
			  void *out, uint64_t *ret_ns)
{
	uint64_t ns = 0;
	uint32_t *reader, me;
	struct percpu_draft d;
	int e, cancel;

	if (g == NULL || out == NULL || !percpu_stats_group_has(g, first, n))
		return -EINVAL;
	if (!g->block.chunk->region->writable)
		return -EROFS;
	e = percpu_draft_begin(&d, bytes_of_objects(g, n));
	if (e != 0)
		return e;
	reader = &percpu_stats_group_control(g)->reader;
	me = percpu_turn_id(g->block.chunk->region);
	cancel = percpu_defer_cancel();
	e = -EAGAIN;
	for (int try = 0; try < GROUP_TRIES && e == -EAGAIN; try++) {
		percpu_turn_wait(reader, me);
		e = take_group(g, first, n, zero, &ns, d.words);
		percpu_turn_end(reader, me);
	}
	if (e == 0 && ret_ns != NULL)
		*ret_ns = ns;
	percpu_draft_end(&d, out, d.size, e);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_stats_group_snapshot(const struct percpu_stats_group *g, size_t first, size_t n,
				void *out, uint64_t *ret_ns)
{
	return group_snapshot(g, first, n, false, out, ret_ns);
}

int percpu_stats_group_fetch_zero(const struct percpu_stats_group *g, size_t first, size_t n,
				  void *out, uint64_t *ret_ns)
{
	return group_snapshot(g, first, n, true, out, ret_ns);
}

/* SPDX-License-Identifier: MIT */
/*
 * owned_own.c - a process reads its own value in an owned gauge.
 */
#include "owners.h"

/* Load the value of the account: one word, unless it changes under the journal's lock together with
 * its time. Returns 0 or -ETIMEDOUT. */
static int load_own_value(const struct percpu_owned_handle *h, size_t block,
			  const struct percpu_owned_account *a, uint64_t *ret)
{
	struct percpu_chunk *const k = __atomic_load_n(&h->chunks[block], __ATOMIC_RELAXED);
	struct percpu_pair_value both;
	int e;

	if (h->rule != PERCPU_OWNED_RECENT || percpu_pair_is_atomic()) {
		*ret = __atomic_load_n(&a->value, __ATOMIC_RELAXED);
		return 0;
	}
	e = percpu_pair_load(k, percpu_chunk_bias_lane(k), percpu_owned_offset(h, block, a), &both);
	if (e == 0)
		*ret = both.first;
	return e;
}

/* Find this process's account, and load its value. No other process makes another account valid
 * while this one has the slot. */
static int find_own_value(const struct percpu_owned_handle *h, uint64_t *ret)
{
	const uint64_t id = percpu_owners_self(h->owners);
	const size_t slot = id % PERCPU_OWNERS_MAX, block = slot / PERCPU_OWNER_SLOTS;
	const size_t i = slot % PERCPU_OWNER_SLOTS;
	struct percpu_owned_shares *s;
	uint64_t turn;
	int e;

	if (id == 0)
		return -ENODATA;
	s = percpu_owned_shares_of(h, block, false, &e);
	if (s == NULL)
		return e == -ENOENT || e == -EBADMSG ? -ENODATA : e;
	turn = __atomic_load_n(&s->turn[i], __ATOMIC_ACQUIRE);
	if (!percpu_owned_is_turn_of(h, id, turn))
		return -ENODATA;
	return load_own_value(h, block, &s->account[i][turn % 2], ret);
}

static int read_own_value(const struct percpu_owned *g, const void *out, uint64_t *ret)
{
	const uint64_t *mine;
	int cancel, e;

	if (g == NULL || out == NULL)
		return -EINVAL;
	mine = __atomic_load_n(&g->mine, __ATOMIC_ACQUIRE);
	if (mine != NULL) {
		*ret = __atomic_load_n(mine, __ATOMIC_RELAXED);
		return 0;
	}
	cancel = percpu_defer_cancel();
	e = find_own_value((const struct percpu_owned_handle *)g, ret);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_owned_gauge_own(const struct percpu_owned_gauge *g, int64_t *ret)
{
	uint64_t bits = 0;
	int e = read_own_value((const struct percpu_owned *)g, ret, &bits);

	if (e == 0)
		*ret = (int64_t)bits;
	return e;
}

int percpu_owned_fgauge_own(const struct percpu_owned_fgauge *g, double *ret)
{
	uint64_t bits = 0;
	int e = read_own_value((const struct percpu_owned *)g, ret, &bits);

	if (e == 0)
		*ret = percpu_owned_double(bits);
	return e;
}

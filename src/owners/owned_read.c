/* SPDX-License-Identifier: MIT */
/*
 * owned_read.c - read owned gauges, slot by slot, with one load of each value. A value is a living
 * owner's if the owner that filled in the account, or one that has resumed its values, still has
 * the slot, and lives.
 */
#include "owners.h"

/* What a slot has in a gauge. */
struct owned_share {
	struct percpu_owned_account account;
	uint64_t id; /* of its owner: that which filled it in, or the last one that resumed it */
	struct percpu_owner_seen seen; /* the slot of the owner */
	bool has_slot;		       /* no other owner has taken the slot */
	bool alive;
};

static void look_at_owner(const struct percpu_owned_handle *h, struct owned_share *s)
{
	struct percpu_owner_seen *seen = &s->seen;
	const uint64_t slot = s->id % PERCPU_OWNERS_MAX;
	const bool taken = percpu_owner_look(h->owners, slot, seen);

	s->has_slot =
		percpu_owner_has_those_of(seen->word / 2, seen->first, s->id / PERCPU_OWNERS_MAX);
	s->alive = s->has_slot && taken && percpu_owner_lives(h->owners, seen, 0);
	if (s->has_slot)
		s->id = seen->word / 2 * PERCPU_OWNERS_MAX + slot;
}

/* Load a slot's share; look at its owner only if whole is set. Returns 1, or 0 if the slot has no
 * share, or -errno. If the block of shares does not exist or is damaged, set *slot to the last slot
 * of the block. If there is no memory to look at the block, it may exist: -ENOMEM. */
static int load_owned_share(const struct percpu_owned_handle *h, size_t *slot, bool whole,
			    struct owned_share *ret)
{
	int64_t turn = percpu_owned_load(h, *slot, &ret->account);

	if (turn == -ENOENT || turn == -EBADMSG) {
		*slot |= PERCPU_OWNER_SLOTS - 1;
		return 0;
	}
	if (turn <= 0)
		return (int)turn;
	ret->id = (uint64_t)turn / 2 * PERCPU_OWNERS_MAX + *slot;
	ret->alive = false;
	ret->has_slot = false;
	if (whole && percpu_owner_is_hidden(h->owners, *slot))
		return -ENOMEM;
	if (whole)
		look_at_owner(h, ret);
	return 1;
}

static int fold_all(const struct percpu_owned_handle *h, enum percpu_owned_of of, uint64_t *ret)
{
	uint64_t sum = 0, there = 0;
	struct owned_share s;
	int r;

	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX; slot++) {
		r = load_owned_share(h, &slot, of == PERCPU_OWNED_LIVING, &s);
		if (r < 0)
			return r;
		if (r == 0)
			continue;
		if (of == PERCPU_OWNED_ALL && s.account.left_when != 0)
			percpu_owned_fold(h, s.account.left, s.account.left_when, &sum, &there);
		if (of == PERCPU_OWNED_ALL || s.alive)
			percpu_owned_fold(h, s.account.value, s.account.when, &sum, &there);
	}
	if (there == 0 && h->rule != PERCPU_OWNED_SUM)
		return -ENODATA;
	*ret = sum;
	return 0;
}

static int fetch_owned(const struct percpu_owned *g, enum percpu_owned_of of, const void *out,
		       uint64_t *ret)
{
	int cancel, e;

	if (g == NULL || out == NULL || (unsigned)of > PERCPU_OWNED_LIVING)
		return -EINVAL;
	cancel = percpu_defer_cancel();
	e = fold_all((const struct percpu_owned_handle *)g, of, ret);
	percpu_restore_cancel(cancel);
	return e;
}

int percpu_owned_gauge_fetch(const struct percpu_owned_gauge *g, enum percpu_owned_of of,
			     int64_t *ret)
{
	uint64_t bits;
	int e = fetch_owned((const struct percpu_owned *)g, of, ret, &bits);

	if (e == 0)
		*ret = (int64_t)bits;
	return e;
}

int percpu_owned_fgauge_fetch(const struct percpu_owned_fgauge *g, enum percpu_owned_of of,
			      double *ret)
{
	uint64_t bits;
	int e = fetch_owned((const struct percpu_owned *)g, of, ret, &bits);

	if (e == 0)
		*ret = percpu_owned_double(bits);
	return e;
}

static struct percpu_owned_value owned_value_of(const struct percpu_owned_handle *h,
						const struct owned_share *s)
{
	const bool is_double = h->number == PERCPU_OWNED_DOUBLE;
	struct percpu_owned_value v = {
		.id = s->id,
		.when = s->account.when,
		.value = is_double ? 0 : (int64_t)s->account.value,
		.fvalue = is_double ? percpu_owned_double(s->account.value) : 0,
		.pid = s->has_slot ? s->seen.pid : 0,
		.alive = s->alive,
	};

	if (s->has_slot)
		percpu_owner_name(h->owners, &s->seen, v.name);
	return v;
}

/* List the first n values in out, and store in *ret_n how many there are. Returns 0 or -errno. */
static int list_into(const struct percpu_owned_handle *h, enum percpu_owned_of of,
		     struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	struct owned_share s;
	size_t found = 0;
	int r;

	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX; slot++) {
		r = load_owned_share(h, &slot, true, &s);
		if (r < 0)
			return r;
		if (r == 0 || (of == PERCPU_OWNED_LIVING && !s.alive))
			continue;
		if (found < n)
			out[found] = owned_value_of(h, &s);
		found++;
	}
	*ret_n = found;
	return 0;
}

static int list_owned(const struct percpu_owned *g, enum percpu_owned_of of,
		      struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	const size_t room = n < PERCPU_OWNERS_MAX ? n : PERCPU_OWNERS_MAX;
	struct percpu_draft d;
	size_t found = 0;
	int cancel, e;

	if (g == NULL || ret_n == NULL || (out == NULL && n != 0) ||
	    (unsigned)of > PERCPU_OWNED_LIVING)
		return -EINVAL;
	e = percpu_draft_begin(&d, room * sizeof(*out));
	if (e != 0)
		return e;
	cancel = percpu_defer_cancel();
	e = list_into((const struct percpu_owned_handle *)g, of,
		      (struct percpu_owned_value *)d.words, room, &found);
	percpu_draft_end(&d, out, (found < room ? found : room) * sizeof(*out), e);
	percpu_restore_cancel(cancel);
	if (e == 0)
		*ret_n = found;
	return e;
}

int percpu_owned_gauge_each(const struct percpu_owned_gauge *g, enum percpu_owned_of of,
			    struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	return list_owned((const struct percpu_owned *)g, of, out, n, ret_n);
}

int percpu_owned_fgauge_each(const struct percpu_owned_fgauge *g, enum percpu_owned_of of,
			     struct percpu_owned_value *out, size_t n, size_t *ret_n)
{
	return list_owned((const struct percpu_owned *)g, of, out, n, ret_n);
}

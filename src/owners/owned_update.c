/* SPDX-License-Identifier: MIT */
/*
 * owned_update.c - updates of owned gauges: an owner's first update makes its account, and later
 * ones change the value there. An owner that has resumed a dead one's values uses its account.
 * owned_own.c reads this process's own value.
 */
#include <math.h>
#include <time.h>

#include "owners.h"

#define OWNED_MAX_EXPONENT (1023 + 1000) /* that of 2^1000, with the bias; values are below */

_Static_assert(offsetof(struct percpu_owned_account, value) == 0, "a handle points to it");

static struct percpu_owned_handle *owned_handle(struct percpu_owned *g)
{
	return (struct percpu_owned_handle *)g;
}

struct owned_update {
	uint64_t value;
	uint64_t when;
};

static void fill_in_account(struct percpu_owned_account *a, const struct percpu_owned_account *from)
{
	__atomic_store_n(&a->value, from->value, __ATOMIC_RELEASE);
	__atomic_store_n(&a->when, from->when, __ATOMIC_RELEASE);
	__atomic_store_n(&a->left, from->left, __ATOMIC_RELEASE);
	__atomic_store_n(&a->left_when, from->left_when, __ATOMIC_RELEASE);
}

/* Fill in the other account for this owner, and make it valid, unless turn has changed or the
 * process is no longer that owner. Returns whether it did so. */
static bool turn_over(struct percpu_owned_handle *h, uint64_t id, struct percpu_owned_shares *s,
		      uint64_t turn, const struct percpu_owned_account *next)
{
	const size_t i = id % PERCPU_OWNER_SLOTS;
	const uint64_t other = turn % 2 == 0;
	struct percpu_owned_account *a = &s->account[i][other];
	bool mine;

	percpu_process_lock();
	mine = percpu_owner_is_still(h->owners, id) &&
	       __atomic_load_n(&s->turn[i], __ATOMIC_ACQUIRE) == turn;
	if (mine) {
		fill_in_account(a, next);
		PERCPU_STEP("owned: account filled in");
		__atomic_store_n(&s->turn[i], id / PERCPU_OWNERS_MAX * 2 + other, __ATOMIC_RELEASE);
		PERCPU_STEP("owned: turned");
		if (h->rule != PERCPU_OWNED_RECENT)
			__atomic_store_n(&h->owned.mine, &a->value, __ATOMIC_RELEASE);
	}
	percpu_process_unlock();
	return mine;
}

/* The place of this process's account. */
struct owned_place {
	struct percpu_owned_account *account;
	size_t block;
};

bool percpu_owned_is_turn_of(const struct percpu_owned_handle *h, uint64_t id, uint64_t turn)
{
	return turn != 0 && percpu_owner_has_those_of(id / PERCPU_OWNERS_MAX,
						      percpu_owner_first(h->owners, id), turn / 2);
}

/* Find this process's account. Returns whether it has one. The turn of another owner is never taken
 * for its own: no two owners have the same number. */
static bool find_account(struct percpu_owned_handle *h, struct percpu_owned_shares *s, uint64_t id,
			 struct owned_place *ret)
{
	const size_t i = id % PERCPU_OWNER_SLOTS;
	const uint64_t turn = __atomic_load_n(&s->turn[i], __ATOMIC_ACQUIRE);

	if (id == 0 || !percpu_owned_is_turn_of(h, id, turn)) {
		PERCPU_STEP("owned: no account found");
		return false;
	}
	PERCPU_STEP("owned: account found");
	ret->block = id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS;
	ret->account = &s->account[i][turn % 2];
	percpu_process_lock();
	if (h->rule != PERCPU_OWNED_RECENT && percpu_owner_is_still(h->owners, id))
		__atomic_store_n(&h->owned.mine, &ret->account->value, __ATOMIC_RELEASE);
	percpu_process_unlock();
	return true;
}

/* Make this owner's account, with its first update in it. Returns 1; or 0 if another thread has
 * made it, turn has changed, or the process has left; or -errno. */
static int make_account(struct percpu_owned_handle *h, struct percpu_owned_shares *s, uint64_t id,
			struct owned_update u)
{
	struct percpu_owned_account last = { .value = 0 }, next;
	int64_t turn = percpu_owned_load(h, id % PERCPU_OWNERS_MAX, &last);

	if (turn < 0)
		return (int)turn;
	if (percpu_owned_is_turn_of(h, id, (uint64_t)turn))
		return 0;
	next = (struct percpu_owned_account){ u.value, u.when, last.left, last.left_when };
	if (turn != 0)
		percpu_owned_fold(h, last.value, last.when, &next.left, &next.left_when);
	PERCPU_STEP("owned: account to be made");
	return turn_over(h, id, s, (uint64_t)turn, &next);
}

/* Return whether another thread has left the owners, or is leaving them. */
static bool has_left(const struct percpu_owned_handle *h, uint64_t id)
{
	bool left;

	percpu_process_lock();
	left = !percpu_owner_is_still(h->owners, id);
	percpu_process_unlock();
	return left;
}

/*
 * Begin to update the gauge by this handle. Returns 1 if this made the account, which then includes
 * the update; or 0 if this process has an account: its place is in ret, and the update is still to
 * be made; or -errno.
 */
static int begin_account(struct percpu_owned_handle *h, struct owned_update u,
			 struct owned_place *ret)
{
	const uint64_t deadline = percpu_now_ns() + PERCPU_LOCK_NS;
	struct percpu_owned_shares *s;
	uint64_t id;
	int r;

	for (int try = 0; try < OWNED_TRIES;) {
		r = percpu_owner_await_leave(h->owners, deadline);
		if (r == 0)
			r = percpu_owners_join(h->owners);
		if (r != 0)
			return r;
		PERCPU_STEP("owned: joined");
		id = percpu_owners_self(h->owners); /* 0 if another thread has left meanwhile */
		s = percpu_owned_shares_of(h, id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS, true,
					   &r);
		if (s == NULL)
			return r;
		if (find_account(h, s, id, ret))
			return 0;
		r = make_account(h, s, id, u);
		if (r != 0)
			return r;
		if (!has_left(h, id))
			try++;
		else if (percpu_now_ns() >= deadline)
			return -ETIMEDOUT;
	}
	return -EBADMSG;
}

int percpu_owned_gauge_add_slow(struct percpu_owned_gauge *g, int64_t n)
{
	struct percpu_owned_handle *h = owned_handle(&g->owned);
	struct owned_place p;
	int r;

	if (h->rule == PERCPU_OWNED_RECENT)
		return -EINVAL;
	r = begin_account(h, (struct owned_update){ (uint64_t)n, 0 }, &p);
	if (r == 0)
		__atomic_fetch_add(&p.account->value, (uint64_t)n, __ATOMIC_RELAXED);
	return r < 0 ? r : 0;
}

/* Return whether a double is infinite, not a number, or too large. One test of the exponent finds
 * all three. */
static bool is_owned_too_large(uint64_t bits)
{
	return (bits >> 52 & 0x7ff) >= OWNED_MAX_EXPONENT;
}

static int check_owned_double(double v)
{
	if (!is_owned_too_large(percpu_owned_bits(v)))
		return 0;
	return isfinite(v) ? -ERANGE : -EDOM;
}

static uint64_t owned_sum(uint64_t bits, double n)
{
	return percpu_owned_bits(percpu_owned_double(bits) + n);
}

/*
 * Add n to the value. First guess the old value from `when`: the last add left it there, and
 * gauges of these rules have no other use for `when`. A CPU can load `when` at once, while a load
 * of the value would wait for the exchange before it. A wrong guess does no harm: the exchange
 * fails, and gives the value.
 */
static int add_to_double(uint64_t *mine, double n)
{
	struct percpu_owned_account *a = (struct percpu_owned_account *)mine;
	uint64_t old = __atomic_load_n(&a->when, __ATOMIC_RELAXED), new;

	if (percpu_unlikely(is_owned_too_large(owned_sum(old, n))))
		old = __atomic_load_n(mine, __ATOMIC_RELAXED);
	do {
		new = owned_sum(old, n);
		if (percpu_unlikely(is_owned_too_large(new)))
			return check_owned_double(n) == -EDOM ? -EDOM : -ERANGE;
	} while (!__atomic_compare_exchange_n(mine, &old, new, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	__atomic_store_n(&a->when, new, __ATOMIC_RELAXED);
	return 0;
}

int percpu_owned_fgauge_add(struct percpu_owned_fgauge *g, double n)
{
	struct percpu_owned_handle *h = g != NULL ? owned_handle(&g->owned) : NULL;
	struct owned_place p;
	uint64_t *mine;
	int r;

	if (h == NULL)
		return -EINVAL;
	mine = __atomic_load_n(&h->owned.mine, __ATOMIC_ACQUIRE);
	if (percpu_likely(mine != NULL))
		return add_to_double(mine, n);
	r = h->rule != PERCPU_OWNED_RECENT ? check_owned_double(n) : -EINVAL;
	if (r == 0)
		r = begin_account(h, (struct owned_update){ percpu_owned_bits(n), 0 }, &p);
	if (r == 0)
		return add_to_double(&p.account->value, n);
	return r < 0 ? r : 0;
}

/* Set value and time, unless another thread has set a later time. Returns 0 or -errno. */
static int set_recent(const struct percpu_owned_handle *h, struct owned_place p,
		      struct percpu_pair_value v)
{
	const size_t offset = percpu_owned_offset(h, p.block, p.account);
	struct percpu_chunk *k = __atomic_load_n(&h->chunks[p.block], __ATOMIC_RELAXED);
	struct percpu_pair_value was;
	int e = percpu_pair_load(k, percpu_chunk_bias_lane(k), offset, &was);

	while (e == 0 && was.second <= v.second) {
		PERCPU_STEP("owned: value to be set");
		e = percpu_pair_cmpxchg(k, percpu_chunk_bias_lane(k), offset, &was, v);
		if (e == 0)
			break;
		e = e == -EAGAIN ? 0 : e;
	}
	return e;
}

static int set_owned_bits(struct percpu_owned_handle *h, uint64_t bits)
{
	const struct owned_update u = { bits, h->rule == PERCPU_OWNED_RECENT ?
						      percpu_clock_ns(CLOCK_REALTIME) :
						      0 };
	uint64_t *mine = __atomic_load_n(&h->owned.mine, __ATOMIC_ACQUIRE);
	struct owned_place p = { 0 };
	int r;

	if (percpu_likely(mine != NULL)) {
		__atomic_store_n(mine, bits, __ATOMIC_RELAXED);
		return 0;
	}
	r = begin_account(h, u, &p);
	if (r != 0)
		return r < 0 ? r : 0;
	if (h->rule == PERCPU_OWNED_RECENT)
		return set_recent(h, p, (struct percpu_pair_value){ u.value, u.when });
	__atomic_store_n(&p.account->value, bits, __ATOMIC_RELAXED);
	return 0;
}

int percpu_owned_gauge_set(struct percpu_owned_gauge *g, int64_t v)
{
	return g != NULL ? set_owned_bits(owned_handle(&g->owned), (uint64_t)v) : -EINVAL;
}

int percpu_owned_fgauge_set(struct percpu_owned_fgauge *g, double v)
{
	int e = g != NULL ? check_owned_double(v) : -EINVAL;

	return e != 0 ? e : set_owned_bits(owned_handle(&g->owned), percpu_owned_bits(v));
}

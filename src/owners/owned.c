/* SPDX-License-Identifier: MIT */
/*
 * owned.c - owned gauges: create and free them, and load a slot's account. owned_update.c updates
 * them, and owned_read.c reads them.
 *
 * A slot has two accounts in a gauge. Its turn says which one is valid, and which owner has filled
 * it in. An owner's first update fills in the other account: with its own value, and with what all
 * earlier owners of the slot have left. One store of turn makes that account valid. So a dead
 * owner's value is folded exactly once, whichever process is killed. Nothing needs to be done when
 * an owner dies: no living owner has its turn.
 */
#include <stdlib.h>

#include "owners.h"

_Static_assert(offsetof(struct percpu_owned_handle, owned.block) == 0, "begins every handle");
_Static_assert(offsetof(struct percpu_owned_shares, account) % 16 == 0, "pairs");

static struct percpu_owned_control *owned_control(const struct percpu_owned_handle *h)
{
	return (struct percpu_owned_control *)percpu_block_bias(&h->owned.block);
}

/* Return the word `number` of the control block, for the handle's kind of numbers and rule. */
static uint32_t number_of(const struct percpu_owned_handle *h)
{
	const bool pairs = h->rule == PERCPU_OWNED_RECENT && percpu_pair_is_atomic();

	return h->number | (pairs ? PERCPU_OWNED_PAIRS : 0);
}

static void start_owned(struct percpu_block *b)
{
	const struct percpu_owned_handle *h = (struct percpu_owned_handle *)b;
	struct percpu_owned_control *c = owned_control(h);

	c->owners = percpu_owners_key(h->owners);
	c->rule = h->rule | h->flags;
	c->number = number_of(h);
}

/* Check what another process has written; load each word once. If the plan's rule is ANY_RULE, take
 * the gauge's, and its flags. Returns 0, -ENOENT or -ENOTSUP. */
static int adopt_owned(const struct percpu_block *found, struct percpu_plan *p)
{
	struct percpu_owned_handle *t = p->handle;
	const struct percpu_owned_control *c =
		(struct percpu_owned_control *)percpu_block_bias(found);
	const uint32_t both = __atomic_load_n(&c->rule, __ATOMIC_RELAXED);
	const uint32_t rule = both & ~PERCPU_OWNED_FLAGS, flags = both & PERCPU_OWNED_FLAGS;
	const uint32_t number = __atomic_load_n(&c->number, __ATOMIC_RELAXED);

	if (rule > PERCPU_OWNED_RECENT ||
	    (t->rule <= PERCPU_OWNED_RECENT && (t->rule != rule || t->flags != flags)) ||
	    (number & ~(uint32_t)PERCPU_OWNED_PAIRS) != t->number ||
	    __atomic_load_n(&c->owners, __ATOMIC_RELAXED) != percpu_owners_key(t->owners))
		return -ENOENT;
	t->rule = rule;
	t->flags = flags;
	return number == number_of(t) ? 0 : -ENOTSUP;
}

#define ANY_RULE (PERCPU_OWNED_RECENT + 1)

/* rule has its flags, or is ANY_RULE. */
static struct percpu_plan owned_plan(struct percpu_owned_handle *t, struct percpu_owners *o,
				     unsigned rule, uint32_t number)
{
	*t = (struct percpu_owned_handle){ .owners = o,
					   .rule = rule & ~PERCPU_OWNED_FLAGS,
					   .flags = rule & PERCPU_OWNED_FLAGS,
					   .number = number };
	return (struct percpu_plan){
		.kind = PERCPU_KIND_OWNED,
		.size = sizeof(struct percpu_owned_control),
		.touched = 0,
		.align = PERCPU_BLOCK_ALIGN,
		.handle = t,
		.handle_size = sizeof(*t),
		.start = start_owned,
		.adopt = adopt_owned,
	};
}

/* Forget the account: this process is no longer its owner. */
static void forget_account(struct percpu_owners_user *u)
{
	struct percpu_owned_handle *h =
		percpu_owners_user_in(u, offsetof(struct percpu_owned_handle, user));

	__atomic_store_n(&h->owned.mine, NULL, __ATOMIC_RELAXED);
}

/* Enter the gauge in the list of its owners, and store it at ret, the address of a pointer to its
 * type. If e is an error, do nothing. Returns e. */
static int enlist_owned(int e, struct percpu_owned_handle *h, void *ret)
{
	if (e != 0)
		return e;
	h->user.forget = forget_account;
	percpu_owner_enlist(h->owners, &h->user);
	__builtin_memcpy(ret, &h, sizeof(h));
	return 0;
}

static int create_owned(struct percpu_owners *o, unsigned rule, uint32_t number, void *ret)
{
	struct percpu_owned_handle t, *h = NULL;
	struct percpu_plan p = owned_plan(&t, o, rule, number);
	int e;

	if (o == NULL || ret == NULL || rule > PERCPU_OWNED_RECENT)
		return -EINVAL;
	e = percpu_block_create_in(o->block.chunk->region, &p, &h);
	return enlist_owned(e, h, ret);
}

static int open_owned(struct percpu_owners *o, unsigned root, unsigned rule, uint32_t number,
		      void *ret)
{
	struct percpu_owned_handle t, *h = NULL;
	struct percpu_plan p = owned_plan(&t, o, rule, number);
	int e;

	if (o == NULL || ret == NULL || rule > PERCPU_OWNED_RECENT)
		return -EINVAL;
	e = percpu_block_open(o->block.chunk->region, root, &p, &h);
	return enlist_owned(e, h, ret);
}

static int open_owned_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
			 uint32_t number, void *ret)
{
	struct percpu_owned_handle t, *h = NULL;
	struct percpu_plan p = owned_plan(&t, o, rule, number);
	int e;

	e = percpu_block_open_at(o->block.chunk->region, at, &p, &h);
	return enlist_owned(e, h, ret);
}

int percpu_owned_gauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
			       struct percpu_owned_gauge **ret)
{
	return open_owned_at(o, at, rule, PERCPU_OWNED_INTEGER, ret);
}

int percpu_owned_fgauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
				struct percpu_owned_fgauge **ret)
{
	return open_owned_at(o, at, rule, PERCPU_OWNED_DOUBLE, ret);
}

static int attach_owned(struct percpu_owners *o, uint64_t key, uint32_t number, void *ret)
{
	struct percpu_owned_handle t, *h = NULL;
	struct percpu_plan p = owned_plan(&t, o, ANY_RULE, number);
	int e;

	if (o == NULL || ret == NULL)
		return -EINVAL;
	e = percpu_block_attach(o->block.chunk->region, key, &p, &h);
	return enlist_owned(e, h, ret);
}

static void detach_owned(void *g)
{
	struct percpu_owned_handle *h = g;

	if (h != NULL)
		percpu_owner_delist(h->owners, &h->user);
	free(h);
}

static int destroy_owned(void *g)
{
	struct percpu_owned_handle *h = g;
	const uint64_t *keys;
	struct percpu_region *r;

	if (h == NULL)
		return 0;
	r = h->owned.block.chunk->region;
	keys = owned_control(h)->block;
	if (percpu_owner_reach_blocks(r, keys, sizeof(struct percpu_owned_shares)) != 0)
		return -ENOMEM;
	percpu_owner_delist(h->owners, &h->user);
	percpu_owner_free_blocks(r, keys, sizeof(struct percpu_owned_shares));
	percpu_block_destroy(h);
	return 0;
}

void percpu_owned_free_at(struct percpu_region *r, const struct percpu_anchor *at)
{
	const uint64_t key = __atomic_load_n(at->word, __ATOMIC_ACQUIRE);
	struct percpu_anchor shares = { .root = PERCPU_REGION_ROOTS };
	struct percpu_owned_control *c;
	struct percpu_block b;
	void *cell;

	if (percpu_region_attach(r, key, PERCPU_KIND_OWNED, sizeof(*c), PERCPU_BLOCK_ALIGN,
				 &cell) == 0) {
		b = (struct percpu_block){ .base = cell, .chunk = percpu_region_chunk(r, cell) };
		c = (struct percpu_owned_control *)percpu_block_bias(&b);
		for (size_t i = 0; i < PERCPU_OWNER_BLOCKS; i++) {
			shares.word = &c->block[i];
			shares.word_key = (key & PERCPU_KEY_CELL) +
					  offsetof(__typeof__(*c), block) + i * sizeof(c->block[0]);
			percpu_anchor_free(r, &shares);
		}
	}
	percpu_anchor_free(r, at);
}

static int rule_of(const void *g)
{
	const struct percpu_owned_handle *h = g;

	return h != NULL ? (int)h->rule : -EINVAL;
}

unsigned percpu_owned_rule_and_flags(const void *gauge)
{
	const struct percpu_owned_handle *h = gauge;

	return h->rule | h->flags;
}

enum percpu_owned_of percpu_owned_shown_of(const void *gauge)
{
	const struct percpu_owned_handle *h = gauge;

	return h->flags & PERCPU_OWNED_KEEP ? PERCPU_OWNED_ALL : PERCPU_OWNED_LIVING;
}

int percpu_owned_gauge_create_in(struct percpu_owners *o, enum percpu_owned_rule rule,
				 struct percpu_owned_gauge **ret)
{
	return create_owned(o, rule, PERCPU_OWNED_INTEGER, ret);
}

int percpu_owned_gauge_open(struct percpu_owners *o, unsigned root, enum percpu_owned_rule rule,
			    struct percpu_owned_gauge **ret)
{
	return open_owned(o, root, rule, PERCPU_OWNED_INTEGER, ret);
}

int percpu_owned_gauge_attach(struct percpu_owners *o, uint64_t key,
			      struct percpu_owned_gauge **ret)
{
	return attach_owned(o, key, PERCPU_OWNED_INTEGER, ret);
}

uint64_t percpu_owned_gauge_key(const struct percpu_owned_gauge *g)
{
	return percpu_block_key(g, PERCPU_KIND_OWNED);
}

int percpu_owned_gauge_rule(const struct percpu_owned_gauge *g)
{
	return rule_of(g);
}

void percpu_owned_gauge_detach(struct percpu_owned_gauge *g)
{
	detach_owned(g);
}

int percpu_owned_gauge_destroy(struct percpu_owned_gauge *g)
{
	return destroy_owned(g);
}

int percpu_owned_fgauge_create_in(struct percpu_owners *o, enum percpu_owned_rule rule,
				  struct percpu_owned_fgauge **ret)
{
	return create_owned(o, rule, PERCPU_OWNED_DOUBLE, ret);
}

int percpu_owned_fgauge_open(struct percpu_owners *o, unsigned root, enum percpu_owned_rule rule,
			     struct percpu_owned_fgauge **ret)
{
	return open_owned(o, root, rule, PERCPU_OWNED_DOUBLE, ret);
}

int percpu_owned_fgauge_attach(struct percpu_owners *o, uint64_t key,
			       struct percpu_owned_fgauge **ret)
{
	return attach_owned(o, key, PERCPU_OWNED_DOUBLE, ret);
}

uint64_t percpu_owned_fgauge_key(const struct percpu_owned_fgauge *g)
{
	return percpu_block_key(g, PERCPU_KIND_OWNED);
}

int percpu_owned_fgauge_rule(const struct percpu_owned_fgauge *g)
{
	return rule_of(g);
}

void percpu_owned_fgauge_detach(struct percpu_owned_fgauge *g)
{
	detach_owned(g);
}

int percpu_owned_fgauge_destroy(struct percpu_owned_fgauge *g)
{
	return destroy_owned(g);
}

struct percpu_owned_shares *percpu_owned_shares_of(const struct percpu_owned_handle *h,
						   size_t block, bool make, int *e)
{
	struct percpu_owned_shares *s = __atomic_load_n(&h->shares[block], __ATOMIC_ACQUIRE);
	struct percpu_owned_handle *cache = (struct percpu_owned_handle *)h;
	struct percpu_owner_block b = { .size = sizeof(*s) };

	*e = 0;
	if (s != NULL)
		return s;
	*e = percpu_owner_block(h->owned.block.chunk->region, &owned_control(h)->block[block], make,
				&b);
	if (*e != 0)
		return NULL;
	__atomic_store_n(&cache->chunks[block], b.chunk, __ATOMIC_RELAXED);
	__atomic_store_n(&cache->shares[block], (struct percpu_owned_shares *)b.bias,
			 __ATOMIC_RELEASE);
	return b.bias;
}

size_t percpu_owned_offset(const struct percpu_owned_handle *h, size_t block,
			   const struct percpu_owned_account *a)
{
	const struct percpu_chunk *k = __atomic_load_n(&h->chunks[block], __ATOMIC_RELAXED);

	return (size_t)((const char *)a - percpu_chunk_bias(k, 0));
}

/* Load value and time together. Returns 0 or -errno. */
static int load_value(const struct percpu_owned_handle *h, size_t block,
		      const struct percpu_owned_account *a, struct percpu_pair_value *ret)
{
	struct percpu_chunk *k = __atomic_load_n(&h->chunks[block], __ATOMIC_RELAXED);

	if (h->rule == PERCPU_OWNED_RECENT)
		return percpu_pair_load(k, percpu_chunk_bias_lane(k),
					percpu_owned_offset(h, block, a), ret);
	*ret = (struct percpu_pair_value){ __atomic_load_n(&a->value, __ATOMIC_ACQUIRE), 0 };
	return 0;
}

int64_t percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
			  struct percpu_owned_account *ret)
{
	const size_t block = slot / PERCPU_OWNER_SLOTS, i = slot % PERCPU_OWNER_SLOTS;
	struct percpu_pair_value v = { 0, 0 };
	const struct percpu_owned_account *a;
	struct percpu_owned_shares *s;
	uint64_t turn = 0;
	int e;

	s = percpu_owned_shares_of(h, block, false, &e);
	if (s == NULL)
		return e;
	for (int try = 0; try < OWNED_TRIES && e == 0; try++) {
		turn = __atomic_load_n(&s->turn[i], __ATOMIC_ACQUIRE);
		if (turn == 0)
			return 0;
		a = &s->account[i][turn % 2];
		e = load_value(h, block, a, &v);
		PERCPU_STEP("owned: value loaded");
		*ret = (struct percpu_owned_account){
			.value = v.first,
			.when = v.second,
			.left = __atomic_load_n(&a->left, __ATOMIC_ACQUIRE),
			.left_when = __atomic_load_n(&a->left_when, __ATOMIC_ACQUIRE),
		};
		/* With turn unchanged, no process has begun to fill in this account again. */
		if (__atomic_load_n(&s->turn[i], __ATOMIC_RELAXED) == turn)
			break;
	}
	return e != 0 ? e : (int64_t)(turn & INT64_MAX);
}

/* Return whether value a replaces value b by the rule, which is MIN or MAX. */
static bool precedes(const struct percpu_owned_handle *h, uint64_t a, uint64_t b)
{
	const bool less = h->number == PERCPU_OWNED_DOUBLE ?
				  percpu_owned_double(a) < percpu_owned_double(b) :
				  (int64_t)a < (int64_t)b;

	return h->rule == PERCPU_OWNED_MIN ? less : !less;
}

void percpu_owned_fold(const struct percpu_owned_handle *h, uint64_t value, uint64_t when,
		       uint64_t *left, uint64_t *left_when)
{
	if (h->rule == PERCPU_OWNED_SUM) {
		*left = h->number == PERCPU_OWNED_DOUBLE ?
				percpu_owned_bits(percpu_owned_double(*left) +
						  percpu_owned_double(value)) :
				*left + value;
		*left_when = 1;
	} else if (*left_when == 0 ||
		   (h->rule == PERCPU_OWNED_RECENT ? when >= *left_when :
						     precedes(h, value, *left))) {
		*left = value;
		*left_when = h->rule == PERCPU_OWNED_RECENT ? when : 1;
	}
}

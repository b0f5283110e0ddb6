/* SPDX-License-Identifier: MIT */
/*
 * owner_slot.c - one slot: which owner it has, whether that owner lives, and how another process
 * takes the slot over.
 *
 * A process takes a slot with the table's lock held. It locks the slot's byte of the file, marks
 * the slot free, stores its name and its identity, and stores the word that makes it the owner. If
 * it is killed before the last store, the slot is free; after it, the slot is a dead owner's.
 *
 * A process that resumes the values of a dead owner takes that owner's slot, and leaves the name.
 * Until the last store they are the dead owner's, and then its own: accounts do not change.
 */
#include "owners.h"

#define SLOTS_SIZE (PERCPU_OWNER_SLOTS * sizeof(struct percpu_owner_slot))
#define OWNER_TRIES 100 /* while another process keeps storing to the slot */
#define FREE_SLOT 1
#define BUSY_SLOTS 8 /* after so many bytes that are locked, take a slot without its lock */
#define LIVES 1	     /* in percpu_owners.lives */
#define DEAD 2	     /* in percpu_owners.lives */

static struct percpu_owners_control *table_control(const struct percpu_owners *o)
{
	return (struct percpu_owners_control *)percpu_block_bias(&o->block);
}

/* Make a block and store its key in the word, unless another thread was first. The lock of the
 * allocator is held until the key is stored: other threads wait, and if this one is killed its
 * block is freed. Returns 0 or -errno. */
static int make_slots(struct percpu_region *r, uint64_t *word, const struct percpu_owner_block *b)
{
	const char *in_bias = (const char *)word;
	struct percpu_anchor at = {
		.word = word,
		.word_key = percpu_region_key(r, in_bias - 2 * (size_t)r->cpus *
								   percpu_stride(r->lane_size)),
		.root = PERCPU_REGION_ROOTS,
	};
	struct percpu_robust h;
	struct percpu_chunk *k;
	void *cell;
	int e;

	e = percpu_region_alloc_at(r, &at, b->size, b->cpu_size, PERCPU_BLOCK_ALIGN, &h, &cell);
	if (e != 0)
		return e == -EEXIST ? 0 : e;
	k = percpu_region_chunk(r, cell);
	percpu_chunk_clear(k, (size_t)((char *)cell - k->base), b->cpu_size, b->size);
	PERCPU_STEP("owner: block made");
	__atomic_store_n(word, percpu_region_key(r, cell), __ATOMIC_RELEASE);
	percpu_region_unlock(r, &h);
	return 0;
}

int percpu_owner_block(struct percpu_region *r, uint64_t *word, bool make,
		       struct percpu_owner_block *b)
{
	uint64_t key = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	void *cell;
	int e = 0;

	if (key == 0 && !make)
		return -ENOENT;
	PERCPU_STEP("owner: block looked for");
	if (key == 0) {
		e = make_slots(r, word, b);
		key = __atomic_load_n(word, __ATOMIC_ACQUIRE);
	}
	if (e == 0)
		e = percpu_region_attach(r, key, PERCPU_KIND_CELL, b->size, PERCPU_BLOCK_ALIGN,
					 &cell);
	if (e != 0)
		return e == -ENOENT ? -EBADMSG : e;
	b->chunk = percpu_region_chunk(r, cell);
	b->offset = (size_t)((char *)cell - b->chunk->base);
	b->bias = percpu_chunk_bias(b->chunk, b->offset);
	return 0;
}

int percpu_owner_reach_blocks(struct percpu_region *r, const uint64_t *keys, size_t size)
{
	void *cell;
	int e = 0;

	for (size_t b = 0; b < PERCPU_OWNER_BLOCKS && r->writable && e != -ENOMEM; b++)
		if (keys[b] != 0)
			e = percpu_region_attach(r, keys[b], PERCPU_KIND_CELL, size, 1, &cell);
	return e == -ENOMEM ? e : 0; /* damaged blocks are not freed */
}

void percpu_owner_free_blocks(struct percpu_region *r, const uint64_t *keys, size_t size)
{
	for (size_t b = 0; b < PERCPU_OWNER_BLOCKS && r->writable; b++)
		if (keys[b] != 0)
			(void)percpu_region_free(r, percpu_region_at(r, keys[b], size), size);
}

/* Return the slots of a block; or NULL, with -errno in *e. If make is set, make them. */
static struct percpu_owner_slot *slots_of(const struct percpu_owners *o, size_t block, bool make,
					  int *e)
{
	struct percpu_owner_slot *s = __atomic_load_n(&o->slots[block], __ATOMIC_ACQUIRE);
	struct percpu_owners *cache = (struct percpu_owners *)o;
	struct percpu_owner_block b = { .size = SLOTS_SIZE };

	if (s != NULL)
		return s;
	*e = percpu_owner_block(o->block.chunk->region, &table_control(o)->block[block], make, &b);
	if (*e != 0)
		return NULL;
	__atomic_store_n(&cache->bytes[block], percpu_descriptor_byte(b.chunk, b.offset),
			 __ATOMIC_RELAXED);
	__atomic_store_n(&cache->slots[block], (struct percpu_owner_slot *)b.bias,
			 __ATOMIC_RELEASE);
	return b.bias;
}

static struct percpu_owner_slot *slot_at(const struct percpu_owners *o, size_t slot)
{
	int e;
	struct percpu_owner_slot *s = slots_of(o, slot / PERCPU_OWNER_SLOTS, false, &e);

	return s != NULL ? s + slot % PERCPU_OWNER_SLOTS : NULL;
}

bool percpu_owner_is_hidden(const struct percpu_owners *o, size_t slot)
{
	int e = 0;

	return slots_of(o, slot / PERCPU_OWNER_SLOTS, false, &e) == NULL && e != -ENOENT &&
	       e != -EBADMSG;
}

static uint64_t byte_of(const struct percpu_owners *o, size_t slot)
{
	return __atomic_load_n(&o->bytes[slot / PERCPU_OWNER_SLOTS], __ATOMIC_RELAXED) +
	       slot % PERCPU_OWNER_SLOTS;
}

static bool is_free_slot(uint64_t word)
{
	return word == 0 || (word & FREE_SLOT);
}

bool percpu_owner_look(const struct percpu_owners *o, size_t slot, struct percpu_owner_seen *ret)
{
	const struct percpu_owner_slot *s = slot_at(o, slot);
	uint64_t word;

	*ret = (struct percpu_owner_seen){ .word = 0 };
	if (s == NULL)
		return false;
	for (int try = 0; try < OWNER_TRIES; try++) {
		word = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE);
		*ret = (struct percpu_owner_seen){
			.word = word,
			.started = __atomic_load_n(&s->started, __ATOMIC_ACQUIRE),
			.space = __atomic_load_n(&s->space, __ATOMIC_ACQUIRE),
			.byte = byte_of(o, slot),
			.first = __atomic_load_n(&s->first, __ATOMIC_ACQUIRE),
			.pid = __atomic_load_n(&s->pid, __ATOMIC_ACQUIRE),
			.locked = __atomic_load_n(&s->locked, __ATOMIC_ACQUIRE),
			.slot = (uint32_t)slot,
		};
		PERCPU_STEP("owner: slot copied");
		if (__atomic_load_n(&s->word, __ATOMIC_RELAXED) == word)
			break;
	}
	return !is_free_slot(ret->word);
}

uint64_t percpu_owner_first(const struct percpu_owners *o, uint64_t id)
{
	const struct percpu_owner_slot *s = slot_at(o, id % PERCPU_OWNERS_MAX);

	return s != NULL ? __atomic_load_n(&s->first, __ATOMIC_ACQUIRE) : 0;
}

void percpu_owner_name(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
		       char ret[PERCPU_OWNER_NAME_SIZE])
{
	if (seen->first == 0)
		*ret = '\0';
	else
		percpu_owner_load_name(slot_at(o, seen->slot), seen->first, seen->word / 2, ret);
}

/*
 * In the owner's space (its boot and namespaces) ask the kernel about the process. Its lock says
 * nothing more: a process that has closed the descriptor lives, and children may keep the lock of a
 * process that has ended. From another space, only the lock can be asked for.
 */
static bool ask_whether_it_lives(const struct percpu_owners *o,
				 const struct percpu_owner_seen *seen, unsigned joining)
{
	/* Look for joining threads first. A thread that is no longer joining has become the owner,
	 * and is found as that below. */
	const bool joins = percpu_owner_joins(joining);
	struct percpu_identity me;

	if (percpu_owner_is_ours(o, seen->byte))
		return true;
	PERCPU_STEP("owner: not ours");
	me = percpu_owner_me();
	if (seen->space != 0 && seen->space == me.space) {
		if (seen->pid == me.pid) /* this process: before exec, or still joining */
			return seen->started == me.started && joins;
		return percpu_life(seen->pid, seen->started) != PERCPU_LIFE_GONE;
	}
	return !seen->locked || percpu_descriptor_locked(o->block.chunk->region, seen->byte) != 0;
}

bool percpu_owner_lives(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
			unsigned joining)
{
	bool lives;

	if (o->lives != NULL && o->lives[seen->slot] != 0)
		return o->lives[seen->slot] == LIVES;
	lives = ask_whether_it_lives(o, seen, joining);
	if (o->lives != NULL)
		o->lives[seen->slot] = lives ? LIVES : DEAD;
	return lives;
}

/* A slot that a process is about to take. */
struct slot_choice {
	size_t slot;
	uint64_t word;
	bool bare;    /* take the slot also if another process has locked its byte */
	bool resumes; /* the values and the name of its last owner */
};

/* Return whether a process that resumes still has the right slot, with the table's lock held: the
 * name is there; or if it has chosen a slot without the name, it is still nowhere. */
static bool is_right_choice(const struct percpu_owners *o, const struct percpu_owner_wish *w,
			    const struct slot_choice *c)
{
	struct percpu_owner_seen seen;

	if (c->resumes) {
		(void)percpu_owner_look(o, c->slot, &seen);
		return percpu_owner_has_name(o, &seen, w->name);
	}
	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX && w->resumes; slot++) {
		(void)percpu_owner_look(o, slot, &seen);
		if (percpu_owner_has_name(o, &seen, w->name))
			return false;
	}
	return true;
}

static void become_owner(struct percpu_owner_slot *s, uint64_t word, bool locked,
			 const struct percpu_identity *me, const char *name)
{
	__atomic_store_n(&s->word, word | FREE_SLOT, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot freed");
	if (name != NULL)
		percpu_owner_store_name(s, word / 2 + 1, name);
	__atomic_store_n(&s->started, me->started, __ATOMIC_RELEASE);
	__atomic_store_n(&s->space, me->space, __ATOMIC_RELEASE);
	__atomic_store_n(&s->pid, me->pid, __ATOMIC_RELEASE);
	__atomic_store_n(&s->locked, locked, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot filled in");
	__atomic_store_n(&s->word, (word / 2 + 1) * 2, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot taken");
}

/* Take the slot if its word is still the same. Returns 0, or -EAGAIN (the word has changed), -ESTALE
 * (the name has come or gone), -EBUSY (the byte is locked), -ENOLCK, -ETIMEDOUT. */
static int take_slot(struct percpu_owners *o, const struct percpu_owner_wish *w,
		     const struct slot_choice *c)
{
	const struct percpu_identity me = percpu_owner_me();
	struct percpu_owner_slot *s = slot_at(o, c->slot);
	struct percpu_robust h;
	int e, locked;

	PERCPU_STEP("owner: slot found");
	e = percpu_robust_lock(&h, &table_control(o)->lock, PERCPU_LOCK_NS);
	if (e != 0)
		return e;
	/* The lock of the byte belongs to the process: it succeeds also if another thread has
	 * locked the byte for this slot. So check first that no other thread has taken the slot. */
	if (__atomic_load_n(&s->word, __ATOMIC_ACQUIRE) != c->word)
		e = -EAGAIN;
	else if (!is_right_choice(o, w, c))
		e = -ESTALE;
	if (e != 0) {
		percpu_robust_unlock(&h);
		return e;
	}
	locked = percpu_descriptor_lock(o->block.chunk->region, byte_of(o, c->slot));
	PERCPU_STEP("owner: byte locked");
	if (locked == -EAGAIN && !c->bare)
		e = -EBUSY;
	else if (locked != 0 && me.space == 0)
		e = -ENOLCK;
	else
		become_owner(s, c->word, locked == 0, &me, c->resumes ? NULL : w->name);
	percpu_robust_unlock(&h);
	return e;
}

/* Find the first slot from *slot on that is free or a dead owner's. If spares is set, only look at
 * the slots that there are, and spare those that have a name. Otherwise make more slots if there is
 * none. The first block is made in any case: else another process could make it meanwhile, and have
 * a name there that is not spared. Returns 0 or -errno. */
static int find_slot(struct percpu_owners *o, bool spares, size_t *slot, uint64_t *ret_word)
{
	struct percpu_owner_seen seen;
	bool taken;
	int e = 0;

	for (; *slot < PERCPU_OWNERS_MAX; ++*slot) {
		if (slots_of(o, *slot / PERCPU_OWNER_SLOTS, !spares || *slot < PERCPU_OWNER_SLOTS,
			     &e) == NULL)
			return spares && e == -ENOENT ? -EUSERS : e;
		taken = percpu_owner_look(o, *slot, &seen);
		if (spares && !percpu_owner_has_name(o, &seen, ""))
			continue;
		if (!taken || !percpu_owner_lives(o, &seen, 1)) {
			*ret_word = seen.word;
			return 0;
		}
	}
	return -EUSERS;
}

/* Take a slot that find_slot() finds. Returns 0 or -errno. */
static int take_any(struct percpu_owners *o, const struct percpu_owner_wish *w, bool spares,
		    struct slot_choice *c)
{
	unsigned busy = 0;
	int e;

	*c = (struct slot_choice){ .slot = 0 };
	for (;; c->slot++) {
		e = find_slot(o, spares, &c->slot, &c->word);
		c->bare = busy >= BUSY_SLOTS;
		if (e == 0)
			e = take_slot(o, w, c);
		if (e != -EAGAIN && e != -EBUSY)
			return e;
		busy += e == -EBUSY;
	}
}

/* Find the first slot that has the name, and is free or a dead owner's. Returns 0; -ENOENT; -EEXIST
 * if a living owner has the name and the process resumes; or -ENOMEM if there is no memory to look
 * at all slots. */
static int find_namesake(const struct percpu_owners *o, struct percpu_owner_wish *w,
			 struct slot_choice *c)
{
	struct percpu_owner_seen seen;
	int e = -ENOENT;
	bool taken;

	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX; slot++) {
		if (percpu_owner_is_hidden(o, slot))
			return -ENOMEM;
		taken = percpu_owner_look(o, slot, &seen);
		if (!percpu_owner_has_name(o, &seen, w->name))
			continue;
		if (taken && percpu_owner_lives(o, &seen, 1)) {
			w->living = seen.pid;
			if (w->resumes)
				return -EEXIST;
		} else if (e != 0) {
			*c = (struct slot_choice){ .slot = slot, .word = seen.word };
			e = 0;
		}
	}
	return e;
}

/* Take the slot of a dead owner of the name, also if another process has locked its byte. Returns 0;
 * -ENOENT if there is none, or it is not needed and could not be had; -ESTALE if the process is to
 * look again; or -errno. */
static int take_namesake(struct percpu_owners *o, struct percpu_owner_wish *w,
			 struct slot_choice *c)
{
	int e = *w->name != '\0' ? find_namesake(o, w, c) : -ENOENT;

	if (e != 0)
		return e;
	PERCPU_STEP("owner: namesake found");
	c->bare = c->resumes = w->resumes;
	e = take_slot(o, w, c);
	if (e == -EAGAIN || e == -EBUSY)
		return w->resumes ? -ESTALE : -ENOENT;
	return e;
}

/* Prefer the slot of a dead owner of the same name, so that the name is there once. Spare other
 * names while there is room: they may be resumed. */
int percpu_owner_take(struct percpu_owners *o, struct percpu_owner_wish *w, uint64_t *ret_id)
{
	struct slot_choice c;
	int e = -ESTALE;

	for (int try = 0; try < OWNER_TRIES && e == -ESTALE; try++) {
		e = take_namesake(o, w, &c);
		if (e == -ENOENT)
			e = take_any(o, w, true, &c);
		if (e == -EUSERS)
			e = take_any(o, w, false, &c);
	}
	if (e == 0)
		*ret_id = (c.word / 2 + 1) * PERCPU_OWNERS_MAX + c.slot;
	return e == -ESTALE ? -ETIMEDOUT : e;
}

/* Unlock the byte first. Once the slot is free, another thread of this process may take it, and
 * lock the same byte. */
void percpu_owner_give_back(struct percpu_owners *o, uint64_t id)
{
	const size_t slot = id % PERCPU_OWNERS_MAX;
	uint64_t word = id / PERCPU_OWNERS_MAX * 2;

	percpu_descriptor_unlock(o->block.chunk->region, byte_of(o, slot));
	PERCPU_STEP("owner: byte unlocked");
	(void)__atomic_compare_exchange_n(&slot_at(o, slot)->word, &word, word | FREE_SLOT, false,
					  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* The locks of these slots ended with exec. While a thread is joining, the slot may be that
 * thread's, so it stays. The thread calls this again when it has joined. */
void percpu_owner_give_back_former(const struct percpu_owners *o)
{
	const struct percpu_identity me = percpu_owner_me();
	struct percpu_owner_seen seen;

	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX && slot_at(o, slot) != NULL; slot++)
		if (percpu_owner_look(o, slot, &seen) && seen.pid == me.pid &&
		    seen.started == me.started && seen.space == me.space && me.space != 0 &&
		    !percpu_owner_lives(o, &seen, 0))
			(void)__atomic_compare_exchange_n(&slot_at(o, slot)->word, &seen.word,
							  seen.word | FREE_SLOT, false,
							  __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

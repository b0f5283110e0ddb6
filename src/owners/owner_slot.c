/* SPDX-License-Identifier: MIT */
/*
 * owner_slot.c - one slot: which owner it has, whether that owner lives, and how another process
 * takes the slot over.
 *
 * A process takes a slot with the table's lock held. It locks the slot's byte of the file, marks
 * the slot free, stores its identity, and stores the word that makes it the owner. If it is killed
 * before the last store, the slot is free; after it, the slot is a dead owner's.
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

	ret->word = 0;
	if (s == NULL)
		return false;
	for (int try = 0; try < OWNER_TRIES; try++) {
		word = __atomic_load_n(&s->word, __ATOMIC_ACQUIRE);
		*ret = (struct percpu_owner_seen){
			.word = word,
			.started = __atomic_load_n(&s->started, __ATOMIC_ACQUIRE),
			.space = __atomic_load_n(&s->space, __ATOMIC_ACQUIRE),
			.byte = byte_of(o, slot),
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

static void become_owner(struct percpu_owner_slot *s, uint64_t word, bool locked,
			 const struct percpu_identity *me)
{
	__atomic_store_n(&s->word, word | FREE_SLOT, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot freed");
	__atomic_store_n(&s->started, me->started, __ATOMIC_RELEASE);
	__atomic_store_n(&s->space, me->space, __ATOMIC_RELEASE);
	__atomic_store_n(&s->pid, me->pid, __ATOMIC_RELEASE);
	__atomic_store_n(&s->locked, locked, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot filled in");
	__atomic_store_n(&s->word, (word / 2 + 1) * 2, __ATOMIC_RELEASE);
	PERCPU_STEP("owner: slot taken");
}

/* Take the slot if its word is still the same. If another process has locked its byte, take it only
 * if bare is set. Returns 0, or -EAGAIN (the word has changed), -EBUSY (the byte is locked),
 * -ENOLCK, -ETIMEDOUT. */
static int take_slot(struct percpu_owners *o, size_t slot, uint64_t word, bool bare)
{
	const struct percpu_identity me = percpu_owner_me();
	struct percpu_owner_slot *s = slot_at(o, slot);
	struct percpu_robust h;
	int e, locked;

	PERCPU_STEP("owner: slot found");
	e = percpu_robust_lock(&h, &table_control(o)->lock, PERCPU_LOCK_NS);
	if (e != 0)
		return e;
	/* The lock of the byte belongs to the process: it succeeds also if another thread has
	 * locked the byte for this slot. So check first that no other thread has taken the slot. */
	if (__atomic_load_n(&s->word, __ATOMIC_ACQUIRE) != word) {
		percpu_robust_unlock(&h);
		return -EAGAIN;
	}
	locked = percpu_descriptor_lock(o->block.chunk->region, byte_of(o, slot));
	PERCPU_STEP("owner: byte locked");
	if (locked == -EAGAIN && !bare)
		e = -EBUSY;
	else if (locked != 0 && me.space == 0)
		e = -ENOLCK;
	else
		become_owner(s, word, locked == 0, &me);
	percpu_robust_unlock(&h);
	return e;
}

/* Find the first slot from *slot on that is free or a dead owner's. Make more slots if there is
 * none. Returns 0 or -errno. */
static int find_slot(struct percpu_owners *o, size_t *slot, uint64_t *ret_word)
{
	struct percpu_owner_seen seen;
	int e = 0;

	for (; *slot < PERCPU_OWNERS_MAX; ++*slot) {
		if (slots_of(o, *slot / PERCPU_OWNER_SLOTS, true, &e) == NULL)
			return e;
		if (!percpu_owner_look(o, *slot, &seen) || !percpu_owner_lives(o, &seen, 1)) {
			*ret_word = seen.word;
			return 0;
		}
	}
	return -EUSERS;
}

int percpu_owner_take(struct percpu_owners *o, uint64_t *ret_id)
{
	unsigned busy = 0;
	uint64_t word = 0;
	size_t slot = 0;
	int e;

	for (;; slot++) {
		e = find_slot(o, &slot, &word);
		if (e == 0)
			e = take_slot(o, slot, word, busy >= BUSY_SLOTS);
		if (e != -EAGAIN && e != -EBUSY)
			break;
		busy += e == -EBUSY;
	}
	if (e == 0)
		*ret_id = (word / 2 + 1) * PERCPU_OWNERS_MAX + slot;
	return e;
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

/* SPDX-License-Identifier: MIT */
/*
 * owners.h - what the sources of owners and of owned gauges share among themselves.
 */
#ifndef PERCPU_OWNERS_H
#define PERCPU_OWNERS_H

#include <percpu/owned.h>

#include "../memory/memory.h"

/* owner.c, owner_slot.c, owner_name.c */

#define PERCPU_OWNERS_BITS 12 /* the low bits of an owner's number, which are its slot */

_Static_assert(PERCPU_OWNERS_MAX == 1 << PERCPU_OWNERS_BITS &&
		       PERCPU_OWNERS_MAX == PERCPU_OWNER_BLOCKS * PERCPU_OWNER_SLOTS,
	       "slots");
#define PERCPU_OWNER_NAME_WORDS 8 /* words of an owner's name, with a 0 behind it */

_Static_assert(PERCPU_OWNER_NAME_SIZE == PERCPU_OWNER_NAME_WORDS * sizeof(uint64_t), "names");

/** The part of an object's handle that the owners know. */
struct percpu_owners_user {
	struct percpu_owners_user *next; /* of the owners; the process lock protects it */
	/* Called with the process lock when this process stops being its owner: in a child of fork,
	 * and when it leaves. Forgets what the handle has of that owner. */
	void (*forget)(struct percpu_owners_user *u);
};

/** Return the struct in which u is at this offset. */
static inline void *percpu_owners_user_in(struct percpu_owners_user *u, size_t offset)
{
	return (char *)u - offset;
}

/* A handle of a table. Reads take a const handle and still fill in slots and bytes: these only
 * remember where blocks are. */
struct percpu_owners {
	struct percpu_block block;
	struct percpu_owners *next;	  /* of the process; the process lock protects it */
	struct percpu_owners_user *users; /* the process lock protects the list */
	uint64_t self;			  /* atomic: id, or 0; changed under the process lock */
	/* A futex: 1 while a thread leaves. Atomic; changed under the process lock. */
	uint32_t leaving;
	uint32_t naming;	/* a futex: 1 while a thread joins by a name; atomic */
	uint64_t device, inode; /* of the file */
	/* Atomic: the slots of each block; NULL: not looked up. */
	struct percpu_owner_slot *slots[PERCPU_OWNER_BLOCKS];
	/* The file's byte of each block's first slot. Stored before the pointer in slots. */
	uint64_t bytes[PERCPU_OWNER_BLOCKS];
	/* Of a reader's image: what percpu_owner_lives() has found out, for each slot; 0: nothing
	 * yet. Or NULL: it asks each time. */
	unsigned char *lives;
};

/** A slot as it was at one moment. */
struct percpu_owner_seen {
	uint64_t word;
	uint64_t started;
	uint64_t space;
	uint64_t byte;
	uint64_t first; /* percpu_owner_slot.first */
	uint32_t pid;
	uint32_t locked;
	uint32_t slot;
};

/** The name that a process joins by. */
struct percpu_owner_wish {
	const char *name; /* "": none */
	bool resumes;	  /* with PERCPU_OWNERS_RESUME */
	uint32_t living;  /* out, with -EEXIST: the process that has the name */
};

/** Enter the handle in the list of its owners. */
void percpu_owner_enlist(struct percpu_owners *o, struct percpu_owners_user *u);

/** Take the handle out of the list of its owners. */
void percpu_owner_delist(struct percpu_owners *o, const struct percpu_owners_user *u);

/** Return whether the process is still that owner; false for 0. The caller has the process lock. */
static inline bool percpu_owner_is_still(const struct percpu_owners *o, uint64_t id)
{
	return id != 0 && o->self == id && !o->leaving;
}

/** A block that percpu_owner_block() finds or makes. */
struct percpu_owner_block {
	size_t size;		    /* in the bias lane; the caller sets it */
	size_t cpu_size;	    /* used in each other lane; the caller sets it */
	void *bias;		    /* the block in the bias lane */
	struct percpu_chunk *chunk; /* of the block */
	size_t offset;		    /* in the lanes */
};

/** Find the block of b's size whose key is in the word, and fill in the rest of b. If make is set
 *  and the word is 0, make the block. Returns 0, or -ENOENT if there is none, or -errno. */
int percpu_owner_block(struct percpu_region *r, uint64_t *word, bool make,
		       struct percpu_owner_block *b);

/** Look at a slot. Returns whether it has an owner, dead or alive. */
bool percpu_owner_look(const struct percpu_owners *o, size_t slot, struct percpu_owner_seen *ret);

/** Return whether the slot may exist, but there is no memory to look at it. */
bool percpu_owner_is_hidden(const struct percpu_owners *o, size_t slot);

/** Wait until no thread is leaving the table. Returns 0 or -ETIMEDOUT. */
int percpu_owner_await_leave(struct percpu_owners *o, uint64_t deadline_ns);

/** Return whether the owner that was seen lives. joining is 1 if the calling thread is joining, or
 *  else 0. */
bool percpu_owner_lives(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
			unsigned joining);

/** Take a slot by that name. Returns 0 or -errno. */
int percpu_owner_take(struct percpu_owners *o, struct percpu_owner_wish *w, uint64_t *ret_id);

/** Join by a name that is not NULL, as percpu_owners_join_as(). Returns 0 or -errno. */
int percpu_owner_join_as(struct percpu_owners *o, struct percpu_owner_wish *w);

/** Return whether the owner with the number `now` of a slot has what the one with the number `taken`
 *  has: they are one owner, or `now` has resumed the values of `taken`. `first` is
 *  percpu_owner_slot.first. */
static inline bool percpu_owner_has_those_of(uint64_t now, uint64_t first, uint64_t taken)
{
	return taken == now || (first != 0 && first <= taken && taken < now);
}

/** Return percpu_owner_slot.first of an owner's slot. */
uint64_t percpu_owner_first(const struct percpu_owners *o, uint64_t id);

/** Copy the name of the owner that was seen, also if it has left: "" if it has none, or another
 *  owner's name is being stored there. */
void percpu_owner_name(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
		       char ret[PERCPU_OWNER_NAME_SIZE]);

/** Return whether the owner that was seen has that name. */
bool percpu_owner_has_name(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
			   const char *name);

/** Check a name that is not NULL. Returns 0, -EINVAL, -ENAMETOOLONG or -EILSEQ. */
int percpu_owner_check_name(const char *name);

/** Store a name in a free slot: that of the next owner, which has the number `first`. "" is no
 *  name. */
void percpu_owner_store_name(struct percpu_owner_slot *s, uint64_t first, const char *name);

/** Load the name that the owner with the number `now` has; "" if it has none. */
void percpu_owner_load_name(const struct percpu_owner_slot *s, uint64_t first, uint64_t now,
			    char ret[PERCPU_OWNER_NAME_SIZE]);

/** Check that this process can look at all of the PERCPU_OWNER_BLOCKS blocks that have keys, and so
 *  can free them. Returns 0 or -ENOMEM. */
int percpu_owner_reach_blocks(struct percpu_region *r, const uint64_t *keys, size_t size);

/** Free the blocks that percpu_owner_block() has made, unless the region is read-only. */
void percpu_owner_free_blocks(struct percpu_region *r, const uint64_t *keys, size_t size);

/** Free this process's slot. */
void percpu_owner_give_back(struct percpu_owners *o, uint64_t id);

/** Free the slots that this process had before exec. */
void percpu_owner_give_back_former(const struct percpu_owners *o);

/** Return whether the slot of that byte of the table's file is this process's. */
bool percpu_owner_is_ours(const struct percpu_owners *o, uint64_t byte);

/** Return whether more threads of this process are joining than the known ones. Then any slot may
 *  become this process's. */
bool percpu_owner_joins(unsigned known);

/** Return this process's identity, as other processes find it in a slot. */
struct percpu_identity percpu_owner_me(void);

/* owned.c, owned_update.c, owned_read.c, owned_own.c */

#define OWNED_TRIES 1000 /* while another process keeps storing to turn */

/* The handle of an owned gauge. Reads take a const handle and still fill in shares and chunks. */
struct percpu_owned_handle {
	struct percpu_owned owned;
	struct percpu_owners_user user;
	struct percpu_owners *owners;
	enum percpu_owned_rule rule;
	uint32_t flags;	 /* PERCPU_OWNED_KEEP, PERCPU_OWNED_EACH */
	uint32_t number; /* enum percpu_owned_number */
	/* Atomic: the shares of each block of slots; NULL: not looked up. */
	struct percpu_owned_shares *shares[PERCPU_OWNER_BLOCKS];
	/* The chunk of each block. Stored before the pointer in shares. */
	struct percpu_chunk *chunks[PERCPU_OWNER_BLOCKS];
};

/** Leave, and take the struct off this process's list of tables, as percpu_owners_detach(), but do
 *  not free the struct. Objects may still be on its list. */
void percpu_owners_unlist(struct percpu_owners *o);

/** Return the shares of a block of slots, and set *e to 0; if there are none, return NULL, and set
 *  *e to -errno. If make is set, make them. */
struct percpu_owned_shares *percpu_owned_shares_of(const struct percpu_owned_handle *h,
						   size_t block, bool make, int *e);

/** Return the offset in the lanes of an account. Its block must have been looked up. */
size_t percpu_owned_offset(const struct percpu_owned_handle *h, size_t block,
			   const struct percpu_owned_account *a);

/** Return whether an account of that turn is the owner's: that owner has made it, or a dead one has
 *  whose values it resumes. */
bool percpu_owned_is_turn_of(const struct percpu_owned_handle *h, uint64_t id, uint64_t turn);

/** Load the valid account of a slot. Returns its turn; or 0 if the slot has none; or -errno:
 *  -ENOENT if the whole block of slots has none. */
int64_t percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
			  struct percpu_owned_account *ret);

/** Fold a value into *left by the gauge's rule. *left_when is 0 while *left has no value. */
void percpu_owned_fold(const struct percpu_owned_handle *h, uint64_t value, uint64_t when,
		       uint64_t *left, uint64_t *left_when);

static inline double percpu_owned_double(uint64_t bits)
{
	double v;

	__builtin_memcpy(&v, &bits, sizeof(v));
	return v;
}

static inline uint64_t percpu_owned_bits(double v)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	return bits;
}

#define PERCPU_OWNED_FLAGS (PERCPU_OWNED_KEEP | PERCPU_OWNED_EACH)

/** Return the rule of an owned gauge of either kind, and its flags. */
unsigned percpu_owned_rule_and_flags(const void *gauge);

/** Return whose values readers show of an owned gauge of either kind. */
enum percpu_owned_of percpu_owned_shown_of(const void *gauge);

/* Owned gauges at any word of a file, as percpu_counter_open_at(). The rule has its flags. */

int percpu_owned_gauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
			       struct percpu_owned_gauge **ret);
int percpu_owned_fgauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
				struct percpu_owned_fgauge **ret);

/** Free the owned gauge whose key is in the word, and its shares. The caller has the lock of the
 *  allocator. Parts of the gauge may have been freed before. */
void percpu_owned_free_at(struct percpu_region *r, const struct percpu_anchor *at);

#endif

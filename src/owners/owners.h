/* SPDX-License-Identifier: MIT */
/*
 * owners.h - what the sources of owners and of owned gauges share among themselves.
 */
#ifndef PERCPU_OWNERS_H
#define PERCPU_OWNERS_H

#include <percpu/owned.h>

#include "../memory/memory.h"

/* owner.c, owner_slot.c */

#define PERCPU_OWNERS_BITS 12 /* of an owner's number: its slot */

_Static_assert(PERCPU_OWNERS_MAX == 1 << PERCPU_OWNERS_BITS &&
		       PERCPU_OWNERS_MAX == PERCPU_OWNER_BLOCKS * PERCPU_OWNER_SLOTS,
	       "slots");

/** What belongs to a handle, and is forgotten when this process is not that owner any more: in a
 *  child of fork, and when it leaves. The caller has the process lock. */
struct percpu_owners_user {
	struct percpu_owners_user *next; /* of the owners; the process lock protects it */
	void (*forget)(struct percpu_owners_user *u);
};

/** Return the struct that has u at this offset. */
static inline void *percpu_owners_user_in(struct percpu_owners_user *u, size_t offset)
{
	return (char *)u - offset;
}

/* Reads take a constant handle, and yet fill in slots and bytes, which only remember where
 * blocks are. */
struct percpu_owners {
	struct percpu_block block;
	struct percpu_owners *next;	  /* of the process; the process lock protects it, */
	struct percpu_owners_user *users; /* and these */
	uint64_t self;			  /* id, or 0; changed under the process lock */
	uint32_t leaving;		  /* likewise; a futex */
	uint64_t device, inode;		  /* of the file */
	struct percpu_owner_slot *slots[PERCPU_OWNER_BLOCKS]; /* atomic; NULL: not looked up */
	uint64_t bytes[PERCPU_OWNER_BLOCKS]; /* of the first of them; stored before */
};

/** A slot as it was at one moment. */
struct percpu_owner_seen {
	uint64_t word;
	uint64_t started;
	uint64_t space;
	uint64_t byte;
	uint32_t pid;
	uint32_t locked;
};

/** Enter the handle in the list of its owners; take it out. */
void percpu_owner_enlist(struct percpu_owners *o, struct percpu_owners_user *u);
void percpu_owner_delist(struct percpu_owners *o, const struct percpu_owners_user *u);

/** Whether the process is still that owner, which nobody is by the number 0. The caller has the
 *  process lock. */
static inline bool percpu_owner_is_still(const struct percpu_owners *o, uint64_t id)
{
	return id != 0 && o->self == id && !o->leaving;
}

/** A block of size bytes in the bias lane, of which cpu_size are used in the other lanes, too;
 *  in the end: where it is. */
struct percpu_owner_block {
	size_t size;
	size_t cpu_size;
	void *bias; /* in the bias lane */
	struct percpu_chunk *chunk;
	size_t offset; /* in the lanes */
};

/** Find the block of that size whose key is in the word; if make is set and the word is 0, make
 *  one. Returns 0, or -ENOENT if there is none, or -errno. */
int percpu_owner_block(struct percpu_region *r, uint64_t *word, bool make,
		       struct percpu_owner_block *b);

/** Look at a slot. Returns whether it is somebody's, dead or alive. */
bool percpu_owner_look(const struct percpu_owners *o, size_t slot, struct percpu_owner_seen *ret);

/** Whether there may be a slot that the process has no memory to look at. */
bool percpu_owner_is_hidden(const struct percpu_owners *o, size_t slot);

/** Wait until no thread is leaving the table. Returns 0 or -ETIMEDOUT. */
int percpu_owner_await_leave(struct percpu_owners *o, uint64_t deadline_ns);

/** Whether the owner that was seen lives. joining is 1 if the calling thread is joining. */
bool percpu_owner_lives(const struct percpu_owners *o, const struct percpu_owner_seen *seen,
			unsigned joining);

/** Take a slot. Returns 0 or -errno. */
int percpu_owner_take(struct percpu_owners *o, uint64_t *ret_id);
/** Whether this process can look at all PERCPU_OWNER_BLOCKS blocks that have keys, and so can free
 *  them: 0 or -ENOMEM. */
int percpu_owner_reach_blocks(struct percpu_region *r, const uint64_t *keys, size_t size);

/** Free the blocks, which percpu_owner_block() has made, unless the region is only read. */
void percpu_owner_free_blocks(struct percpu_region *r, const uint64_t *keys, size_t size);

void percpu_owner_give_back(struct percpu_owners *o, uint64_t id);

/** Free the slots that this process had before exec. */
void percpu_owner_give_back_former(const struct percpu_owners *o);

/** Whether this process has that byte's slot of the table's file, or, by more threads than those
 *  that the caller knows to be joining, may have. */
bool percpu_owner_is_ours(const struct percpu_owners *o, uint64_t byte);
bool percpu_owner_joins(unsigned known);

/** Return what this process is, as others know it. */
struct percpu_identity percpu_owner_me(void);

/* owned.c, owned_update.c, owned_read.c */

#define OWNED_TRIES 1000 /* another process stores to turn, over and over */

/* As in struct percpu_owners, reads fill in shares and chunks. */
struct percpu_owned_handle {
	struct percpu_owned owned;
	struct percpu_owners_user user;
	struct percpu_owners *owners;
	enum percpu_owned_rule rule;
	uint32_t number;					 /* enum percpu_owned_number */
	struct percpu_owned_shares *shares[PERCPU_OWNER_BLOCKS]; /* atomic; NULL: not looked up */
	struct percpu_chunk *chunks[PERCPU_OWNER_BLOCKS];	 /* of these; stored before */
};

/** Leave the table, and forget it, but keep the struct: what percpu_owners_detach() does before it
 *  frees it. And the same of an owned gauge. */
void percpu_owners_retire(struct percpu_owners *o);
void percpu_owned_retire(void *gauge);

/** Return the shares of a block of slots, and *e = 0; or NULL, and *e = -errno. */
struct percpu_owned_shares *percpu_owned_shares_of(const struct percpu_owned_handle *h,
						   size_t block, bool make, int *e);

/** Where an account of a block that was looked up is in the lanes. */
size_t percpu_owned_offset(const struct percpu_owned_handle *h, size_t block,
			   const struct percpu_owned_account *a);

/** Load the valid account. Returns its turn, or 0 if there is none, or -errno:
 *  -ENOENT if the block of slots has none. */
int64_t percpu_owned_load(const struct percpu_owned_handle *h, size_t slot,
			  struct percpu_owned_account *ret);

/** Fold a value into *left by the gauge's rule. *left_when is 0 as long as *left has no value. */
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

/* The gauges at any word of a file, as percpu_counter_open_at(). */

int percpu_owned_gauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
			       struct percpu_owned_gauge **ret);
int percpu_owned_fgauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
				struct percpu_owned_fgauge **ret);

/** Free the owned gauge that the word leads to, and its shares, under the lock of the allocator. It
 *  may have been freed in part. */
void percpu_owned_free_at(struct percpu_region *r, const struct percpu_anchor *at);

#endif

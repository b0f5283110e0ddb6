/* SPDX-License-Identifier: MIT */
/*
 * owner.h - which processes are there: each has a slot in a file that they share, and
 * everybody can ask the kernel whether it still lives.
 *
 * What belongs to a living process, such as its share of a gauge (owned.h), is kept by its
 * slot. A slot is given to another process when its owner has ended, however it ended.
 */
#ifndef PERCPU_OWNER_H
#define PERCPU_OWNER_H

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A table of owners in a shared region. */
struct percpu_owners;

/** The most owners that a table has slots for at a time. */
#define PERCPU_OWNERS_MAX 4096

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork has no slot: it takes one of
 * its own when it joins. A child of vfork() is its parent.
 * Ordering: none. A process that finds an owner sees what that owner stored before it joined.
 * Progress: creating, opening and joining take locks of the process and one between processes,
 * for which a call waits a second at most (-ETIMEDOUT). Asking takes none between processes,
 * and makes some system calls for each owner.
 */

/**
 * Create a table in a shared region that was opened with PERCPU_REGION_OWNERS; attach to the
 * one at a root, or create it if there is none; attach to the one at a key. A process that may
 * only read the region can attach, and ask.
 *
 * Return 0, or
 *	-EINVAL	a NULL, no such root, or a private region
 *	-ENOENT	no owners there
 *	-EEXIST	something else is at the root
 *	-ENOTSUP  the region was opened without PERCPU_REGION_OWNERS: open it with that flag
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_create_in(struct percpu_region *r,
							 struct percpu_owners **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_open(struct percpu_region *r, unsigned root,
						    struct percpu_owners **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_owners **ret);

/** The table's key in its region. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owners_key(const struct percpu_owners *o);

/** Leave, and give back what this process has of the table, which stays. All objects of these
 *  owners, which are gauges, locks and grace periods, are detached first: what is done by one of
 *  their handles later, detaching it too, uses memory that was freed. NULL is fine. */
PERCPU_API void percpu_owners_detach(struct percpu_owners *o);

/** Free the table, which nobody may be using. All objects of these owners (gauges, locks, grace
 *  periods) are destroyed or detached first, as above. NULL is fine. If a root has it, set that to
 *  0 before: percpu_region_set_root(). Returns 0, or -ENOMEM: there is no memory or address space
 *  for what another process has added to the file. Then nothing is freed, and the handle stays. */
PERCPU_API int percpu_owners_destroy(struct percpu_owners *o);

/**
 * Take a slot for this process, unless it has one by this handle. All of its threads have it
 * together. The first update of an owned gauge, the first lock of a read-mostly lock (rwlock.h),
 * and the first section of grace periods (grace.h) join by themselves.
 *
 * Returns 0, or
 *	-EINVAL	o is NULL
 *	-EROFS	the region was opened to read
 *	-EUSERS	PERCPU_OWNERS_MAX processes have slots, and live
 *	-EBADMSG  the file is damaged
 *	-ENOLCK	nobody could ever find out that this process has ended: neither does the
 *		file system give it a lock, nor is there a /proc
 *	-ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API int percpu_owners_join(struct percpu_owners *o);

/** Give the slot back: what it has in gauges is a dead owner's from now on, what it has locked is
 *  as if it had died with it (rwlock.h), and it is in no section (grace.h). Let no other thread
 *  update one of them, lock, unlock, or begin or end a section meanwhile: that may be lost, or
 *  count for a later owner of the slot, whichever process that is. Any of these after that joins
 *  again. */
PERCPU_API void percpu_owners_leave(struct percpu_owners *o);

/** The owner that this process is, by this handle; 0: none. No other owner of the table, ever,
 *  has the same number. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owners_self(const struct percpu_owners *o);

/**
 * Whether that owner lives: 1 or 0. A process that is stopped lives. One that has ended does
 * not, reaped or not, also if another process has its number now. One that has called exec lives
 * until it ends, or joins again. 0 also for a number that is no owner's, and for NULL. 1 also if there is
 * no memory or address space to look.
 *
 * In another PID namespace than the owner's, the owner's lock on the file is all that shows that
 * it lives. If its program has closed descriptors that it did not open, the lock may be gone,
 * and the owner is taken for dead there. docs/owners/owner.md has all cases.
 */
PERCPU_API int percpu_owners_alive(const struct percpu_owners *o, uint64_t id);

/** What is known of an owner. */
struct percpu_owner_info {
	uint64_t id;
	uint64_t started; /* the kernel's ticks; 0: not known */
	uint32_t pid;	  /* in its own PID namespace */
	uint32_t alive;	  /* 1; 0: dead, and nobody has taken its slot since */
};

/** List the owners that have a slot, the first n of them in out. Returns how many there are;
 *  some may come and go meanwhile, and those are not among them that there is no memory or address
 *  space to look at. */
PERCPU_API size_t percpu_owners_list(const struct percpu_owners *o, struct percpu_owner_info *out,
				     size_t n);

/** The head of objects that count the threads inside (rwlock.h). The fields are the library's. */
struct percpu_participant {
	struct percpu_block block;
	char *cell; /* of this process, in lane 0; NULL: the slow path knows. Atomic */
	size_t stride;
	uint64_t *state;
	uint32_t tag; /* the object's own, in this process */
	uint32_t reserved;
};

/* The cell. It may be kept in a register until the next call or barrier, as a plain load: a thread
 * that changes it first makes sure that no thread is between the load and the sequence, but for
 * those that find NULL. Without sequences none is needed. */
PERCPU_INLINE char *percpu_participant_cell(const struct percpu_participant *p)
{
#if defined(PERCPU_GENERIC)
	(void)p;
	return NULL;
#else
	return p->cell;
#endif
}

PERCPU_END_DECLS

#endif

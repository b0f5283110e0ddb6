/* SPDX-License-Identifier: MIT */
/*
 * owner.h - tables of the processes that share a file. Each process has a slot in the table, and
 * any process can ask the kernel whether the owner of a slot still lives.
 *
 * What belongs to a living process, such as its share of a gauge (owned.h), is kept by its slot.
 * When an owner has ended, in whatever way, another process may take its slot. An owner may have a
 * name, by which a later one finds what it has left.
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

/** Bytes of an owner's name, with the 0 behind it. */
#define PERCPU_OWNER_NAME_SIZE 64

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork has no slot: it takes one of its own
 * when it joins. A child of vfork() counts as its parent.
 * Ordering: none. A process that finds an owner sees what that owner stored before it joined.
 * Progress: creating, opening and joining take locks of the process and one between processes,
 * for which a call waits a second at most (-ETIMEDOUT). Asking takes no lock between processes,
 * and makes some system calls for each owner.
 */

/**
 * Create a table in a shared region that was opened with PERCPU_REGION_OWNERS.
 *
 * Return 0, or
 *	-EINVAL	a NULL, or a private region
 *	-ENOTSUP  the region was opened without PERCPU_REGION_OWNERS: open it with that flag
 *	-EROFS, -ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_create_in(struct percpu_region *r,
							 struct percpu_owners **ret);

/**
 * Attach to the table at a root, or create it if there is none. A process that may only read the
 * region can attach, and ask.
 *
 * Return as percpu_owners_create_in(), or
 *	-EINVAL	no such root
 *	-ENOENT	no owners there
 *	-EEXIST	something else is at the root
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_open(struct percpu_region *r, unsigned root,
						    struct percpu_owners **ret);

/** Attach to the table at a key, also in a region that was opened to read. Return as
 *  percpu_owners_create_in(), or -ENOENT: no owners there. */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_attach(struct percpu_region *r, uint64_t key,
						      struct percpu_owners **ret);

/** Return the table's key in its region. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owners_key(const struct percpu_owners *o);

/** Leave, and free the handle; the table stays. Detach all objects of these owners (gauges, locks,
 *  grace periods) first: a later call by one of their handles, detaching included, uses freed
 *  memory. NULL is fine. */
PERCPU_API void percpu_owners_detach(struct percpu_owners *o);

/** Free the table, which no process may be using. Destroy or detach all objects of these owners
 *  first, as for percpu_owners_detach(). If a root has the table, set that to 0 before:
 *  percpu_region_set_root(). NULL is fine. Return 0, or -ENOMEM if there is no memory or address
 *  space for blocks that another process has added to the file. Then nothing is freed, and the
 *  handle stays. */
PERCPU_API int percpu_owners_destroy(struct percpu_owners *o);

/**
 * Take a slot for this process, unless it has one by this handle. All of its threads share the
 * slot. The first update of an owned gauge, the first lock of a read-mostly lock (rwlock.h), and
 * the first section of grace periods (grace.h) join without this call.
 *
 * Return 0, or
 *	-EINVAL	o is NULL
 *	-EROFS	the region was opened to read
 *	-EUSERS	PERCPU_OWNERS_MAX processes have slots, and live
 *	-EBADMSG  the file is damaged
 *	-ENOLCK	no process could find out that this one has ended: the file system gives no lock,
 *		and there is no /proc
 *	-ENOSPC, -ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_join(struct percpu_owners *o);

/** For percpu_owners_join_as(): resume the values of a dead owner. */
#define PERCPU_OWNERS_RESUME 1U

/**
 * Join, as percpu_owners_join(), and have a name, such as the number of a worker. Call this before
 * the first update of a gauge, which would join without a name.
 *
 * Any number of owners may have the same name. percpu_owners_list() and percpu_owned_gauge_each()
 * tell the names. This process takes the slot of a dead owner of the name, if there is one; of
 * several, that of the first in the list. An owner that has left is dead here, too.
 *
 * With PERCPU_OWNERS_RESUME the process goes on with the values that this dead owner has in gauges:
 * from this call on they are its own. Without the flag, or without such an owner, it begins without
 * values. It never has the locks, sections and references of a dead owner.
 *
 * A name ends when another owner takes the slot. Processes that join, by whatever call, spare the
 * slots of other names while the table has free slots; but they take them before the table grows.
 *
 * Return 0, also if this process has this name already by this handle; or
 *	-EINVAL	a NULL, an empty name, or flags that are not known
 *	-ENAMETOOLONG  the name has more than 63 bytes
 *	-EILSEQ	the name is not UTF-8
 *	-EEXIST	with PERCPU_OWNERS_RESUME: a living owner has the name; percpu_owners_list() has its
 *		pid. The process can join without the flag, or under another name. Of processes that
 *		resume one name at the same time, one succeeds
 *	-EALREADY  this process has a slot by this handle, under another name or none
 *	others	as percpu_owners_join(). -ENOMEM also if there is no memory to look at all names;
 *		-ETIMEDOUT also if another thread is joining by this handle for a second
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_owners_join_as(struct percpu_owners *o, const char *name,
						       unsigned flags);

/** Give the slot back. The process's values in gauges become those of a dead owner, its locks are
 *  treated as if it had died with them (rwlock.h), and it is in no section (grace.h). Meanwhile no
 *  other thread may update a gauge, lock, unlock, or begin or end a section: that may be lost, or
 *  count for a later owner of the slot, in any process. Such a call after that joins again. */
PERCPU_API void percpu_owners_leave(struct percpu_owners *o);

/** Return the number of the owner that this process is, by this handle; 0 if it is none. No other
 *  owner of the table ever has the same number. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_owners_self(const struct percpu_owners *o);

/**
 * Return 1 if that owner lives, or 0. A stopped process lives. A process that has ended does not,
 * reaped or not, also if another process has its number now. For other processes, one that has
 * called exec lives until it ends, or joins again. Return 0 also for NULL and for a number that is no owner's; 1 also
 * if there is no memory or address space to look.
 *
 * In another PID namespace than the owner's, only the owner's lock on the file shows that it
 * lives. If its program has closed descriptors that it did not open, the lock may be gone, and the
 * owner is taken for dead there. docs/owners/owner.md has all cases.
 */
PERCPU_API int percpu_owners_alive(const struct percpu_owners *o, uint64_t id);

/** An owner in the list of percpu_owners_list(). */
struct percpu_owner_info {
	uint64_t id;
	uint64_t started;		   /* the kernel's ticks; 0: not known */
	uint32_t pid;			   /* in its own PID namespace */
	uint32_t alive;			   /* 1; 0: dead, and no process has taken its slot since */
	char name[PERCPU_OWNER_NAME_SIZE]; /* UTF-8; "": none */
};

/** List the owners that have a slot, the first n of them in out. Return how many there are. Owners
 *  may join and leave meanwhile. An owner is left out if there is no memory or address space to
 *  look at it. */
PERCPU_API size_t percpu_owners_list(const struct percpu_owners *o, struct percpu_owner_info *out,
				     size_t n);

/** The head of objects that count the threads inside (rwlock.h, grace.h). The fields are the
 *  library's. */
struct percpu_participant {
	struct percpu_block block;
	char *cell; /* of this process, in lane 0; atomic; NULL: take the slow path */
	size_t stride;
	uint64_t *state;
	uint32_t tag; /* the object's own, in this process */
	uint32_t reserved;
};

/* Return the cell. As with any plain load, the compiler may keep it in a register until the next
 * call or barrier. A thread that changes it first makes sure that no thread is between the load and
 * the sequence, except threads that find NULL. Without sequences no cell is needed. */
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

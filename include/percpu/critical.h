/* SPDX-License-Identifier: MIT */
/*
 * critical.h - critical sections per CPU: memory in lanes, of which a thread gets one for itself
 * for a moment. Inside, the thread changes any number of words by plain C.
 *
 *	struct flows { uint64_t packets, bytes, largest; } *f;
 *
 *	if (percpu_critical_enter(c, (void **)&f) == 0) {
 *		f->packets++;
 *		f->bytes += n;
 *		f->largest = n > f->largest ? n : f->largest;
 *		percpu_critical_exit(c, f);
 *	}
 *
 * A thread usually gets its CPU's lane, by one restartable sequence. If another thread has that
 * lane, because it was preempted or stopped inside, the thread takes a spare lane instead, by an
 * atomic exchange. So nobody waits for a preempted thread while a spare lane is free. There is a
 * spare lane for each CPU. A program that wants a total adds up the cells of all lanes.
 *
 * NetBSD has percpu_getref(9) for this, Linux get_cpu_ptr(), FreeBSD critical_enter(9). These stop
 * preemption, which user space cannot. A section here stops nothing: it only makes the lane busy.
 */
#ifndef PERCPU_CRITICAL_H
#define PERCPU_CRITICAL_H

#include <errno.h>
#include <pthread.h>

#include <percpu/owner.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** Lanes with a cell each. The fields are the library's. */
struct percpu_critical {
	struct percpu_block block;
	size_t size;	/* of a cell */
	uint64_t owner; /* what this process stores in a lane it has; or PERCPU_CRITICAL_... */
} PERCPU_ALIGNED_WORD;

/** Values of percpu_critical.owner. */
#define PERCPU_CRITICAL_BY_THREAD 0	      /* private: each thread stores a number of its own */
#define PERCPU_CRITICAL_NOT_JOINED UINT64_MAX /* this process has not joined the owners */

/** What each lane begins with. The cell is behind it. */
struct percpu_critical_head {
	uint64_t inside; /* the owner that entered by a sequence, or 0. Atomic */
	uint64_t taken;	 /* the owner that took the lane otherwise, or 0. Atomic */
} PERCPU_ALIGNED_WORD;

PERCPU_ASSERT(sizeof(struct percpu_critical_head) == 16, "cells are aligned to 16 bytes");

/** The largest size of a cell. */
#define PERCPU_CRITICAL_MAX_SIZE ((size_t)1 << 30)

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; creating, opening, detaching and destroying not in a signal handler.
 *
 * A thread may enter while it is inside: it gets another lane. So a signal handler may enter, also
 * if it interrupts a section. In a region, the first enter of a process, or of a child of fork,
 * joins the owners, and must not be in a signal handler.
 *
 * A section belongs to its thread, and in a region also to its process. Another thread must not
 * exit it. If a thread ends inside, no other thread gets its lane: of private lanes as long as they
 * exist, in a region until the process ends or leaves the owners.
 *
 * A child of fork is in the private sections that the forking thread was in. Private lanes of other
 * threads of the parent are free in the child: it has their cells as they were at the fork, with
 * some words changed and others not, and is not told. In a region the lanes stay the parent's, and
 * the child is in no section: an exit of the parent's section is -EPERM there.
 *
 * Ordering: what a thread did in a lane happens before a later thread enters that lane.
 *
 * Progress: an enter takes no lock; but one that looks for dead owners of a region takes a lock of
 * the process for some instructions. An enter gets its CPU's lane or a spare one; a thread that
 * cannot run sequences (status.h) gets spare lanes alone. If none of these is free, it waits for
 * one, a second at most. Joining and creating take locks of the process and one between processes,
 * for which a call waits a second at most.
 */

/**
 * Create lanes with cells of size bytes in memory of this process. All bytes are 0. Cells are
 * aligned to 16 bytes.
 *
 * Return 0, or
 *	-EINVAL	ret is NULL, or size is 0 or above PERCPU_CRITICAL_MAX_SIZE
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_create(size_t size, struct percpu_critical **ret);

/**
 * Create lanes in the owners' region.
 *
 * When a process dies inside, its lane comes back, and the thread that gets it is told.
 *
 * Return as percpu_critical_create(), or
 *	-EINVAL	a NULL, or the size is more than the region's lanes have
 *	-EROFS, -ENOSPC, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_create_in(struct percpu_owners *o, size_t size,
							   struct percpu_critical **ret);

/**
 * Attach to the lanes at a root, or create them if there are none.
 *
 * Return as percpu_critical_create_in(), or
 *	-EINVAL	no such root
 *	-ENOENT	in a region that was opened to read: nothing at the root yet
 *	-EEXIST	something else is at the root, also lanes of another size or of other owners
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_open(struct percpu_owners *o, unsigned root,
						      size_t size, struct percpu_critical **ret);

/** Attach to the lanes at a key, whatever their size is. Return as percpu_critical_create_in(), or
 *  -ENOENT: no lanes of these owners there. */
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_attach(struct percpu_owners *o, uint64_t key,
							struct percpu_critical **ret);

/** Return the key in the region; 0 for private lanes. Context: signal handlers, too. */
PERCPU_API uint64_t percpu_critical_key(const struct percpu_critical *c);

/** Free the handle, which no thread may be using. Lanes in a region stay; private ones go. NULL is
 *  fine. */
PERCPU_API void percpu_critical_detach(struct percpu_critical *c);

/** Free the lanes, which no thread may be using. If a root has them, set that to 0 before:
 *  percpu_region_set_root(). NULL is fine. */
PERCPU_API void percpu_critical_destroy(struct percpu_critical *c);

/** Return the size of a cell in bytes; 0 for NULL. Context: signal handlers, too. */
PERCPU_API size_t percpu_critical_size(const struct percpu_critical *c);

/** Return the number of lanes, twice the number of CPUs; 0 for NULL. Context: signal handlers,
 *  too. */
PERCPU_API unsigned percpu_critical_lanes(const struct percpu_critical *c);

/**
 * Return the cell of a lane, to read without entering; NULL if there is no such lane. Lane n below
 * half of percpu_critical_lanes() is that of CPU n; the others are spare.
 *
 * A thread may be inside: load each word by an atomic load, and expect words of different moments.
 * Context: signal handlers, too.
 */
PERCPU_API const void *percpu_critical_cell(const struct percpu_critical *c, unsigned lane);

PERCPU_API PERCPU_MUST_CHECK int percpu_critical_enter_slow(struct percpu_critical *c, void **ret);
PERCPU_API int percpu_critical_exit_slow(struct percpu_critical *c, void *cell);

/* Return an address that two threads of a process do not have at a time: the thread pointer. Units
 * of all kinds, and the library, find the same one. */
PERCPU_INLINE uint64_t percpu_critical_thread(void)
{
	uint64_t at;

#if defined(__x86_64__) && defined(__LP64__)
	__asm__("{movq %%fs:0, %0|mov %0, qword ptr fs:0}" : "=r"(at));
#elif defined(__aarch64__)
	__asm__("mrs %0, tpidr_el0" : "=r"(at));
#else
	at = (uint64_t)(uintptr_t)pthread_self();
#endif
	return at;
}

/* Return what this thread stores in a lane. */
PERCPU_INLINE uint64_t percpu_critical_self(const struct percpu_critical *c)
{
	const uint64_t owner = __atomic_load_n(&c->owner, __ATOMIC_RELAXED);

	return percpu_likely(owner == PERCPU_CRITICAL_BY_THREAD) ? percpu_critical_thread() : owner;
}

/**
 * Enter: store in *ret a cell that is this thread's alone until percpu_critical_exit(). It has what
 * earlier threads left in it.
 *
 * Return 0, or
 *	-EOWNERDEAD  the thread is inside, and *ret is set. The last process that was in this lane
 *		died there, so some words of the cell may be changed and others not. No other
 *		thread is told
 *	-ETIMEDOUT  its CPU's lane and all spare lanes were taken for a second
 *	-EROFS	the region was opened to read
 *	-EUSERS, -EBADMSG, -ENOLCK, -ENOSPC, -ENOMEM  as percpu_owners_join(), which the first enter
 *		of a process calls in a region
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_critical_enter(struct percpu_critical *c, void **ret)
{
	uint64_t self = __atomic_load_n(&c->owner, __ATOMIC_RELAXED);
	void *lane = PERCPU_NULL(void *);

	if (percpu_likely(self == PERCPU_CRITICAL_BY_THREAD))
		self = percpu_critical_thread();
	else if (self == PERCPU_CRITICAL_NOT_JOINED)
		return percpu_critical_enter_slow(c, ret);
	if (percpu_unlikely(percpu_seq_enter(c->block.base, c->block.stride, self, &lane)))
		return percpu_critical_enter_slow(c, ret);
	*ret = (char *)lane + sizeof(struct percpu_critical_head);
	return 0;
}

/**
 * Exit the section that has this cell, by the handle that entered. Afterwards the thread must not
 * use the cell.
 *
 * Return 0, or
 *	-EPERM	this thread (in a region: this process) has not entered that lane, or has left its
 *		owners since. Nothing is changed
 */
PERCPU_INLINE int percpu_critical_exit(struct percpu_critical *c, void *cell)
{
	struct percpu_critical_head *const h =
		PERCPU_POINTER(struct percpu_critical_head *, cell) - 1;

	if (percpu_unlikely(__atomic_load_n(&h->inside, __ATOMIC_RELAXED) !=
			    percpu_critical_self(c)))
		return percpu_critical_exit_slow(c, cell);
	__atomic_store_n(&h->inside, 0, __ATOMIC_RELEASE);
	return 0;
}

/**
 * Enter a certain lane, to read or change it while no thread is inside. Threads that run on its CPU
 * take spare lanes meanwhile. A reader that enters one lane after the other finds each cell as its
 * last section left it.
 *
 * Return as percpu_critical_enter(), or
 *	-EINVAL	a NULL, or no such lane
 *	-ETIMEDOUT  a thread was inside this lane for a second, perhaps this one itself
 *	-EPERM, -ENOMEM, -EAGAIN  sequences cannot be fenced, as percpu_fence() and
 *		percpu_fence_all()
 *
 * Context: not a signal handler.
 * Progress: makes system calls, and waits for the thread inside.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_critical_enter_lane(struct percpu_critical *c,
							    unsigned lane, void **ret);

PERCPU_END_DECLS

#endif

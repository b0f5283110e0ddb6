/* SPDX-License-Identifier: MIT */
/*
 * participant.h - count the threads inside an object: what read-mostly locks and grace periods
 * share. A participant is a process. It counts its own threads inside the object, per CPU.
 *
 * The control block of an object has a 64-bit state; the object defines what it means. A thread
 * enters by adding 1 to a 32-bit cell of its CPU if the state is as expected, in one sequence:
 * percpu_seq_narrow_add_if(). A thread leaves by subtracting 1 in the same way, on any CPU; it need
 * not be the thread that entered. Each participant has two cells in every lane, for bank 0 and
 * bank 1. A thread without sequences adds to an atomic lane, fences, and loads the state. If the
 * state is not as expected, the thread subtracts 1 again, in the same lane.
 *
 * A thread that waits until no thread is inside (the waiter) stores another state, and fences:
 * percpu_participants_fence(). After the fence no sequence enters or leaves by the old state, so
 * the CPU lanes no longer change. A thread that leaves then subtracts in an atomic lane, and wakes
 * the waiter. So once no thread enters a bank any more, the sum of the bank only falls. A sum of 0
 * means that no thread is inside, although it is read lane by lane. What a thread did inside
 * happens before the waiter reads that 0. The fence orders the threads that left before it; release
 * and acquire of the atomic lane order the other threads.
 *
 * In a region, participants are owners (owner.h), and each has its own cells. When a participant
 * has died, what its cells still hold is dropped: its record stores their sums, and later sums
 * leave these out. The record changes under the lock between processes. Storing the same sums
 * again changes nothing.
 */
#ifndef PERCPU_OWNERS_PARTICIPANT_H
#define PERCPU_OWNERS_PARTICIPANT_H

#include "owners.h"

/** The handle of an object in this process. Each object's own handle begins with it. */
struct percpu_participants {
	/* What inline functions read. in.cell is NULL until this process has joined. It stays NULL
	 * if `checked` is set, and if the stride is not PERCPU_STRIDE. */
	struct percpu_participant in;
	struct percpu_owners_user user;
	struct percpu_owners *owners; /* NULL: private */
	struct percpu_participants_control *control;
	/* Atomic: the owner that this process has joined as; 0: it has not joined. In private
	 * memory: PERCPU_PARTICIPANT_PRIVATE. */
	uint64_t self;
	/* Atomic: the last value of self other than 0. If the process leaves its owners while
	 * threads are inside, they still count in that owner's cells, not in another owner's. */
	uint64_t last;
	bool checked; /* in.cell stays NULL: all calls take the slow path */
	/* Atomic: the blocks of records; NULL: not looked up. */
	struct percpu_participant_records *records[PERCPU_OWNER_BLOCKS];
	/* The chunk of each block. Stored before the pointer in records. */
	struct percpu_chunk *chunks[PERCPU_OWNER_BLOCKS];
	/* The offset of each block in the lanes. Stored before the pointer in records. */
	size_t offsets[PERCPU_OWNER_BLOCKS];
};

#define PERCPU_PARTICIPANT_PRIVATE 1 /* no owner has this id */
#define PERCPU_PARTICIPANT_CELL (PERCPU_BANKS * sizeof(uint32_t))
#define PERCPU_PARTICIPANTS_FOREVER UINT64_MAX /* a deadline */

/** Which object of the owners' region a caller means. */
struct percpu_participants_at {
	enum {
		PERCPU_AT_NEW,	/* a new one; number is not used */
		PERCPU_AT_ROOT, /* the object at this root, or a new one there */
		PERCPU_AT_KEY,	/* the object with this key */
	} where;
	uint64_t number; /* of the root, or the key */
};

/**
 * Create an object for threads of this process.
 *
 * The handle has handle_size bytes; those behind struct percpu_participants are 0. The control
 * block is 0. ret is the address of a pointer to the handle.
 *
 * Return 0 or -errno as percpu_counter_create().
 */
int percpu_participants_create(size_t handle_size, void *ret);

/**
 * Create an object in the owners' region, or attach to one.
 *
 * The handle has handle_size bytes; those behind struct percpu_participants are 0. In the control
 * block of a new object all words are 0 but `owners` and `lock_boot`. ret is the address of a
 * pointer to the handle.
 *
 * Return 0 or -errno as percpu_owned_gauge_create_in(), _open() and _attach(). A process that may
 * only read the region can attach.
 */
int percpu_participants_open(struct percpu_owners *o, struct percpu_participants_at at,
			     enum percpu_kind kind, size_t handle_size, void *ret);

/** Free the handle; a private object goes with it. NULL is fine. No thread may be using the
 *  handle. */
void percpu_participants_detach(struct percpu_participants *p);

/** Free the object and the handle. NULL is fine. No thread may be using the handle. */
void percpu_participants_destroy(struct percpu_participants *p);

/**
 * Make this process a participant, unless it is one. It is none at first in a region, after
 * percpu_owners_leave(), and in a child of fork. In private memory this does nothing.
 *
 * Returns 0, or -errno as percpu_owners_join() and percpu_region_alloc().
 */
int percpu_participants_join(struct percpu_participants *p);

/** Return the owner that this process has joined as; 0: it has not joined. Unlike
 *  percpu_participants_self(), this finds an owner also if the process has joined only by another
 *  handle. Not in signal handlers of a process that has not joined by this handle. */
uint64_t percpu_participants_adopt(struct percpu_participants *p);

/** Return the owner that this process has joined as by this handle; 0: it has not joined. Signal
 *  handlers, too. */
static inline uint64_t percpu_participants_self(const struct percpu_participants *p)
{
	return __atomic_load_n(&p->self, __ATOMIC_ACQUIRE);
}

/** Where the two cells of a slot are. */
struct percpu_participant_cells {
	struct percpu_chunk *chunk;
	size_t offset; /* in the lanes */
};

/** Return where the cells of that owner are; id may also be the number of a slot. The block must
 *  have been looked up. */
static inline struct percpu_participant_cells
percpu_participants_cells(const struct percpu_participants *p, uint64_t id)
{
	const size_t block = id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS;

	return (struct percpu_participant_cells){
		__atomic_load_n(&p->chunks[block], __ATOMIC_RELAXED),
		__atomic_load_n(&p->offsets[block], __ATOMIC_RELAXED) +
			id % PERCPU_OWNER_SLOTS * PERCPU_PARTICIPANT_CELL,
	};
}

/** Return the record of that owner; id may also be the number of a slot. The block must have been
 *  looked up. */
static inline struct percpu_participant_record *
percpu_participants_record(const struct percpu_participants *p, uint64_t id)
{
	const size_t block = id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS;

	return &__atomic_load_n(&p->records[block], __ATOMIC_ACQUIRE)
			->slot[id % PERCPU_OWNER_SLOTS];
}

/**
 * Enter if the state is as expected: by a sequence, or, if none commits, in an atomic lane. This
 * process must have joined. Signal handlers, too.
 *
 * Returns 0, or PERCPU_SEQ_REFUSED: the state is another one, and the thread has not entered.
 */
int percpu_participants_enter(struct percpu_participants *p, unsigned bank, uint64_t expected);

/** Leave, and wake the waiters unless the state is `idle`, a state in which no thread waits. If a
 *  thread waits in the state that the caller has loaded, pass a value that no state has. Signal
 *  handlers, too. */
void percpu_participants_leave(struct percpu_participants *p, unsigned bank, uint64_t idle);

/** Add n to this process's count in an atomic lane, whatever the state is. */
void percpu_participants_add(struct percpu_participants *p, unsigned bank, int32_t n);

/** Return how many threads are inside, of all participants. The sum is exact if no thread enters or
 *  leaves meanwhile, and never too low if no thread enters. Acquire. */
uint32_t percpu_participants_sum(const struct percpu_participants *p, unsigned bank);

/** Return how many threads of this process are inside. The sum is exact if no thread enters or
 *  leaves meanwhile. Acquire. */
uint32_t percpu_participants_sum_own(const struct percpu_participants *p, unsigned bank);

/** Return the sum over the participants with a positive count. So a participant that has left more
 *  often than it entered hides no thread of another one. */
uint32_t percpu_participants_inside(const struct percpu_participants *p, unsigned bank);

/** Fence all sequences of all participants, after the state was stored. Returns 0, or -errno as
 *  percpu_fence() and percpu_fence_all(), or -ENOMEM or -EBADMSG: the cells of other processes
 *  cannot be found. Not in signal handlers. */
int percpu_participants_fence(const struct percpu_participants *p);

/** Find the cells of all participants that have entered before the last fence. Returns 0 or
 *  -errno. */
int percpu_participants_look_up(const struct percpu_participants *p);

/** Drop the counts of dead participants in both banks. For each bank where one was not 0, set the
 *  bank's bit in control->died. Returns 0, or -ETIMEDOUT if a process was stopped with the lock.
 *  Not in signal handlers. */
int percpu_participants_drop_dead(struct percpu_participants *p);

/** Wait until no thread is inside the bank. Before this call no thread enters the bank any more,
 *  and percpu_participants_fence() has succeeded. Participants that die meanwhile are dropped.
 *
 *  Returns 0 or -ETIMEDOUT; or -EPROTO: no thread is inside, and a participant has left more often
 *  than it entered. Its count is then set to 0, unless the lock cannot be taken in time. Not in
 *  signal handlers. */
int percpu_participants_drain(struct percpu_participants *p, unsigned bank, uint64_t deadline_ns);

/** Wake the threads in percpu_participants_drain(). */
void percpu_participants_wake(struct percpu_participants *p);

/** Return the sum of a bank's cells over all lanes. */
uint32_t percpu_participants_sum_cells(const struct percpu_chunk *k, size_t offset, unsigned bank);

/** Call fn for each participant, dead or alive, whose count n in the bank is not 0. In private
 *  memory call it once, for any count. */
void percpu_participants_each(const struct percpu_participants *p, unsigned bank,
			      void (*fn)(uint64_t id, uint32_t n, void *arg), void *arg);

/** Return whether that participant lives. Makes system calls. Takes the process lock, so not in a
 *  signal handler that may interrupt a thread with a lock of the library. */
bool percpu_participants_alive(const struct percpu_participants *p, uint64_t id);

/** Which process a participant is. */
struct percpu_participant_seen {
	uint64_t id;	  /* 0: private */
	uint32_t pid;	  /* in its own PID namespace; 0: not known */
	uint32_t stopped; /* 1: it is stopped; 0: it is not, or that is not known */
};

/** Store in ret which process that participant is. Makes system calls. */
void percpu_participants_identify(const struct percpu_participants *p, uint64_t id,
				  struct percpu_participant_seen *ret);

/** The longest sleep between processes: the process that was to wake the sleeper may have been
 *  killed. */
#define PERCPU_PARTICIPANTS_SLICE (PERCPU_SECOND / 50)

/** Sleep while that word of the control block has this value: until the deadline at most, and
 *  between processes for PERCPU_PARTICIPANTS_SLICE at most. */
void percpu_participants_sleep(const struct percpu_participants *p, uint32_t *word, uint32_t value,
			       uint64_t deadline_ns);

/** Wake the threads that sleep on that word. */
void percpu_participants_rouse(const struct percpu_participants *p, uint32_t *word);

/** Take the lock of the control block between processes, for changes of more than one word. Returns
 *  0 or -ETIMEDOUT; percpu_robust_unlock() unlocks it.
 *
 *  Not while the process lock is held. Not in private memory: a child of fork could find it held by
 *  a thread that the child does not have. */
int percpu_participants_lock(const struct percpu_participants *p, struct percpu_robust *h);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * participant.h - who is inside: what read-mostly locks and grace periods share. A participant is
 * a process; it counts those of its threads that are inside of one object, per CPU.
 *
 * The control block of an object has a state of 64 bits, whose meaning is the object's own. Who
 * enters adds 1 to a cell of 32 bits of its CPU if the state is as expected: one sequence,
 * percpu_seq_narrow_add_if(). Who leaves subtracts 1 the same way, on whatever CPU, and need not
 * be the thread that entered. Each participant has two cells in every lane, bank 0 and bank 1.
 * Threads without sequences add to an atomic lane, fence, and look at the state; if it is not as
 * expected, they take that back in the same lane.
 *
 * Who waits until nobody is inside stores another state, and fences
 * (percpu_participants_fence()). From then on no sequence enters or leaves by the old state: the
 * CPU lanes are at rest, those who leave subtract in an atomic lane, and wake the one who waits.
 * So the sum of a bank that nobody enters any more only falls, and a sum of 0, though it is read
 * lane by lane, means that nobody is inside. All that was done inside by those who have left
 * happens before that: by the fence for those who left before it, and by release and acquire of
 * the atomic lane for the others.
 *
 * In a region, participants are owners (owner.h), each with cells of its own. What a participant
 * that has died still has in them is dropped: its record says from which values its cells count.
 * That is stored under the lock between processes, and storing it again changes nothing.
 */
#ifndef PERCPU_OWNERS_PARTICIPANT_H
#define PERCPU_OWNERS_PARTICIPANT_H

#include "owners.h"

/** The handle of an object in this process; the handles of objects begin with it. */
struct percpu_participants {
	struct percpu_participant in; /* what inline functions read; in.cell is NULL until this
					 process has joined, where checks are wanted, and
					 where the stride is not PERCPU_STRIDE */
	struct percpu_owners_user user;
	struct percpu_owners *owners; /* NULL: private */
	struct percpu_participants_control *control;
	uint64_t self; /* atomic: the owner that this process has joined as; 0: it has not;
			  private: PERCPU_PARTICIPANT_PRIVATE */
	uint64_t last; /* atomic: that owner, also when this process is it no more: who leaves it
			  while threads are inside does not have them count for another one */
	bool checked;  /* in.cell stays NULL: all calls take the slow path */
	struct percpu_participant_records *records[PERCPU_OWNER_BLOCKS]; /* atomic; NULL: not
									    looked up */
	struct percpu_chunk *chunks[PERCPU_OWNER_BLOCKS];		 /* of these; */
	size_t offsets[PERCPU_OWNER_BLOCKS];				 /* stored before */
};

#define PERCPU_PARTICIPANT_PRIVATE 1 /* no owner has this id */
#define PERCPU_PARTICIPANT_CELL (PERCPU_BANKS * sizeof(uint32_t))
#define PERCPU_PARTICIPANTS_FOREVER UINT64_MAX /* a deadline */

/** Which object of the owners' region is meant. */
struct percpu_participants_at {
	enum {
		PERCPU_AT_NEW,	/* one that is to be created */
		PERCPU_AT_ROOT, /* the one at the root of this number, or a new one there */
		PERCPU_AT_KEY,	/* the one whose key this is */
	} where;
	uint64_t number;
};

/**
 * Create an object for threads of this process; create one in the owners' region, or attach to
 * one. The handle has handle_size bytes, which are 0 behind struct percpu_participants; the
 * control block is 0 but for what is the part's own. ret is the address of a pointer to the
 * handle.
 *
 * Return 0 or -errno as percpu_owned_gauge_create_in() and the like. A process that may only
 * read the region can attach.
 */
int percpu_participants_create(size_t handle_size, void *ret);
int percpu_participants_open(struct percpu_owners *o, struct percpu_participants_at at,
			     enum percpu_kind kind, size_t handle_size, void *ret);

/** Give back the handle; and free the object, too. NULL is fine. Nobody is using the handle. */
void percpu_participants_detach(struct percpu_participants *p);
void percpu_participants_destroy(struct percpu_participants *p);

/**
 * Make this process a participant, unless it is: the first time in a region, after
 * percpu_owners_leave(), and in a child of fork. In private memory this does nothing.
 *
 * Returns 0, or -errno as percpu_owners_join() and percpu_region_alloc().
 */
int percpu_participants_join(struct percpu_participants *p);

/** Return the owner that this process is in the object, also if it has joined by another handle
 *  alone; 0: it has not joined. Not in signal handlers of a process that has not joined by this
 *  handle. */
uint64_t percpu_participants_adopt(struct percpu_participants *p);

/** The owner that this process is in the object; 0: it has not joined. Signal handlers, too. */
static inline uint64_t percpu_participants_self(const struct percpu_participants *p)
{
	return __atomic_load_n(&p->self, __ATOMIC_ACQUIRE);
}

/** Where the two cells of an owner are, or of a slot, whose block was looked up. */
struct percpu_participant_cells {
	struct percpu_chunk *chunk;
	size_t offset;
};

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

/** Likewise its record. */
static inline struct percpu_participant_record *
percpu_participants_record(const struct percpu_participants *p, uint64_t id)
{
	const size_t block = id % PERCPU_OWNERS_MAX / PERCPU_OWNER_SLOTS;

	return &__atomic_load_n(&p->records[block], __ATOMIC_ACQUIRE)
			->slot[id % PERCPU_OWNER_SLOTS];
}

/**
 * Enter if the state is as expected: by a sequence, or in the end in an atomic lane. This process
 * has joined. Signal handlers, too.
 *
 * Returns 0, or PERCPU_SEQ_REFUSED: the state is another one, and nobody has entered.
 */
int percpu_participants_enter(struct percpu_participants *p, unsigned bank, uint64_t expected);

/** Leave. Who waits is woken, unless the state is `idle`, the state that was loaded last if it
 *  says that nobody waits; give any other value if it does not. Signal handlers, too. */
void percpu_participants_leave(struct percpu_participants *p, unsigned bank, uint64_t idle);

/** Add to this process's count in an atomic lane, whatever the state is. */
void percpu_participants_add(struct percpu_participants *p, unsigned bank, int32_t n);

/** How many are inside, of all participants; of this process. They are exact if nobody enters or
 *  leaves; with nobody entering, the former is never too low. Acquire. */
uint32_t percpu_participants_sum(const struct percpu_participants *p, unsigned bank);
uint32_t percpu_participants_sum_own(const struct percpu_participants *p, unsigned bank);

/** The former, without participants that have left more often than they entered: their deficit
 *  hides nobody. */
uint32_t percpu_participants_inside(const struct percpu_participants *p, unsigned bank);

/** Fence all sequences of all participants, after the state was stored. Returns 0 or -errno, as
 *  percpu_fence() and percpu_fence_all(), or -ENOMEM or -EBADMSG if the cells of others cannot be
 *  found. Not in signal handlers. */
int percpu_participants_fence(const struct percpu_participants *p);

/** Find the cells of all who have entered before the last fence. Returns 0 or -errno. */
int percpu_participants_look_up(const struct percpu_participants *p);

/** Drop what participants that have died have in both banks. For each bank where that was not 0
 *  its bit is set in control->died. Returns 0, or -ETIMEDOUT if a process was stopped with the
 *  lock. Not in signal handlers. */
int percpu_participants_drop_dead(struct percpu_participants *p);

/** Wait until nobody is inside of the bank, which nobody enters any more, with
 *  percpu_participants_fence() done. Participants that die meanwhile are dropped. Returns 0,
 *  -ETIMEDOUT, or -EPROTO: nobody is inside, and somebody left more often than it entered, whose
 *  count was set to 0. Not in signal handlers. */
int percpu_participants_drain(struct percpu_participants *p, unsigned bank, uint64_t deadline_ns);

/** Wake those in percpu_participants_drain(). */
void percpu_participants_wake(struct percpu_participants *p);

/** Return the sum of a cell over all lanes. */
uint32_t percpu_participants_sum_cells(const struct percpu_chunk *k, size_t offset, unsigned bank);

/** Call fn for each participant, dead or alive, that has a count in the bank which is not 0; in
 *  private memory also if it is. */
void percpu_participants_each(const struct percpu_participants *p, unsigned bank,
			      void (*fn)(uint64_t id, uint32_t n, void *arg), void *arg);

/** Whether that participant lives. A system call or more. Not in signal handlers of threads that
 *  may be in the library's locks: it takes the process lock. */
bool percpu_participants_alive(const struct percpu_participants *p, uint64_t id);

/** Which process a participant is. */
struct percpu_participant_seen {
	uint64_t id;	  /* 0: private */
	uint32_t pid;	  /* in its own PID namespace; 0: not known */
	uint32_t stopped; /* 1; 0: also if that is not known */
};

/** Say which process that participant is. Makes system calls. */
void percpu_participants_identify(const struct percpu_participants *p, uint64_t id,
				  struct percpu_participant_seen *ret);

/** Wait on, and wake, a word of the control block, until the deadline at most. Between processes
 *  a sleep is short (PERCPU_PARTICIPANTS_SLICE), because who was to wake may have been killed. */
#define PERCPU_PARTICIPANTS_SLICE (PERCPU_SECOND / 50)
void percpu_participants_sleep(const struct percpu_participants *p, uint32_t *word, uint32_t value,
			       uint64_t deadline_ns);
void percpu_participants_rouse(const struct percpu_participants *p, uint32_t *word);

/** Take the lock of the control block between processes, for what is more than a word. Returns 0
 *  or -ETIMEDOUT; percpu_robust_unlock() unlocks it. Not while the process lock is held, and not
 *  in private memory, where a child of fork could find it held by a thread that it does not
 *  have. */
int percpu_participants_lock(const struct percpu_participants *p, struct percpu_robust *h);

#endif

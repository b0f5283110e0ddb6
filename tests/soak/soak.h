/* SPDX-License-Identifier: MIT */
/*
 * soak.h - what the parts of the soak test share.
 *
 * soak.c directs rounds of processes and kills some; worker.c is such a
 * process with its threads; shared.c operates on one region file that all of
 * them count in, private.c on objects of one process; model.c knows what the
 * result must be. A worker announces each operation on the shared region in
 * its slot of a plain mapping, and notes there that it is done, so that one
 * who is killed leaves at most one operation in doubt.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SOAK_SLOTS 4096
#define SOAK_SINGLES 4
#define SOAK_CELLS 16
#define SOAK_OBJECTS (SOAK_SINGLES + SOAK_CELLS)
#define SOAK_THREADS 4	/* at most, in one process, besides its first */
#define SOAK_SECONDS 60 /* a process that lives longer is stuck */
#define SOAK_FAILED 3	/* exit status: the board says why */

/** The shared objects: four counters, then the cells of an array. */
enum soak_object {
	SOAK_GROWS,   /* never reset, never decremented */
	SOAK_WANDERS, /* up and down */
	SOAK_TAKEN,   /* read and reset */
	SOAK_ZEROED,  /* reset, and what it was is not known */
	SOAK_CELL,    /* the first 8 cells take vectors, the next 4 are taken */
};

enum soak_kind {
	SOAK_ADD,
	SOAK_VECTOR,
	SOAK_FETCH,
	SOAK_TAKE,
	SOAK_ZERO,
	SOAK_CREATE,
	SOAK_ALLOC,
	SOAK_OPEN,
	SOAK_COUNTER,
	SOAK_STATIC,
	SOAK_LARGE,
	SOAK_REGION,
	SOAK_SPLIT,
	SOAK_LOCK,
	SOAK_REFS,
	SOAK_STORE,
	SOAK_PUSH,
	SOAK_POP,
	SOAK_APPEND,
	SOAK_DRAIN,
	SOAK_FENCE,
	SOAK_FENCE_ALL,
	SOAK_SIGNAL,
	SOAK_MOVE,
	SOAK_THREAD,
	SOAK_FORK,
	SOAK_KINDS
};

/** What an interrupted or killed thread may or may not have done: add n to the
 *  words from object on, or take what object held. */
struct soak_pending {
	enum { SOAK_NOTHING, SOAK_ADDING, SOAK_TAKING } what;
	uint32_t object;
	uint32_t words;
	int64_t n[8];
};

/** A thread has one for itself and one for its signal handler. */
struct soak_journal {
	uint64_t added[SOAK_OBJECTS];
	uint64_t taken[SOAK_OBJECTS];
	struct soak_pending pending;
	uint64_t count[SOAK_KINDS];
};

struct soak_slot {
	pid_t pid;
	pid_t tid;
	bool doomed; /* a timer kills the process */
	bool killed; /* and has */
	struct soak_journal journal[2];
} __attribute__((aligned(64)));

/** The plain shared mapping. */
struct soak_board {
	char path[128]; /* of the region */
	uint64_t key[SOAK_SINGLES];
	uint64_t array_key;
	pid_t director;
	bool stop;
	uint32_t slots; /* in use */
	uint32_t failed;
	char what[128];
	uint64_t expected;
	uint64_t found;
	struct soak_slot slot[SOAK_SLOTS];
};

/** The private objects that operations are tallied on. */
enum soak_tally {
	SOAK_OF_COUNTER,
	SOAK_OF_STATIC,
	SOAK_OF_LARGE,
	SOAK_OF_SPLIT,
	SOAK_OF_LOCK,
	SOAK_OF_REFS,
	SOAK_OF_STACK,
	SOAK_OF_QUEUE,
	SOAK_TALLIES
};

/** A thread of a worker: it may come and go, its slot and its sums stay. */
struct soak_thread {
	struct soak_slot *slot;
	uint64_t random;
	uint64_t sum[2][SOAK_TALLIES]; /* its own, its signal handler's */
	uint64_t grows;		       /* what SOAK_GROWS was when last read */
	uint32_t number;	       /* in its process */
	uint32_t sent;
	pthread_t thread;
	bool running;
};

extern struct soak_board *soak_board;

/* soak.c */

/** End the process, for the board says that something is wrong; the one that
 *  directs prints it. */
void soak_give_up(void);

/* model.c */

/** Take the next free slot; NULL if all are in use. */
struct soak_slot *soak_slot_new(void);

/** Announce, do, note: see struct soak_pending. */
void soak_begin(struct soak_journal *j, const struct soak_pending *p);
void soak_end(struct soak_journal *j);

/** Say that an invariant does not hold, and end the process. The first one to
 *  say so is heard. */
void soak_require(bool ok, const char *what, uint64_t expected, uint64_t found);
void soak_require_equal(const char *what, uint64_t expected, uint64_t found);

/** While workers run: SOAK_GROWS is within what they have done and announced. */
void soak_check_bounds(void);

/** When no worker runs: every shared object is what the slots say. */
void soak_check_totals(void);

/** Add what was done in this round to count[]; the operations left in doubt. */
unsigned soak_collect(uint64_t count[SOAK_KINDS]);

/* shared.c */

void soak_shared_create(void);
void soak_shared_open(void);
void soak_shared_close(void);
uint64_t soak_shared_fetch(uint32_t object);
void soak_shared_zero(uint32_t object);

/** Add n to the object, times over. */
void soak_shared_add(struct soak_journal *j, uint32_t object, int64_t n, unsigned times);

/** One operation, chosen at random. */
void soak_shared_op(struct soak_thread *t);

/* private.c */

void soak_private_create(void);
void soak_private_destroy(void);
uint64_t soak_private_found(enum soak_tally tally);
void soak_private_op(struct soak_thread *t);

/** What a signal handler may do. */
void soak_private_signal(struct soak_thread *t);

/** Empty the queues of all CPUs; for the first thread of a process. */
void soak_private_drain(struct soak_thread *t);

/** Say whether the private objects are what the n threads have made of them,
 *  starting from what was found before. */
void soak_private_check(const uint64_t before[SOAK_TALLIES], const struct soak_thread *t,
			unsigned n);

/* worker.c */

/** Be a worker until the board says stop; an exit status. */
int soak_worker(uint64_t random);

/** Whether a child ended as it should; a doomed one may be killed. */
bool soak_ended_well(pid_t pid, int status);

#endif

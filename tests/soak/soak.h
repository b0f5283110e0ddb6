/* SPDX-License-Identifier: MIT */
/*
 * soak.h - what the parts of the soak test share.
 *
 * soak.c directs rounds of processes and kills some of them. worker.c is such a process, with its
 * threads. shared.c operates on one region file in which all of them count, private.c on objects of
 * one process. stats.c, group.c, compact.c, extrema.c, zone.c, objcache.c, local.c, ring.c, wbuf.c,
 * window.c, values.c, owned.c, limits.c, ref.c, grace.c and rwlock.c operate on the objects that
 * they are named after, private and shared. reader.c has processes of its own, which read segments.
 * model.c knows what the result must be.
 *
 * A worker announces each operation on the shared region in its slot of a plain mapping, and notes
 * there when it is done. So a killed worker leaves at most one operation in doubt.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <percpu/sfbuf.h>

#define SOAK_SLOTS 4096
#define SOAK_SINGLES 4
#define SOAK_CELLS 16
#define SOAK_SETS 4 /* of statistics, each with two objects */
#define SOAK_COMPACTS 4
#define SOAK_EXTREMA 2
#define SOAK_HISTOGRAMS 3
#define SOAK_ELEMENTS 512 /* objects that grace.c replaces */
#define SOAK_ZONES 6
#define SOAK_CACHES 4
#define SOAK_HELD 3	/* items that a thread has of a zone, and objects of a cache */
#define SOAK_WINDOWS 3	/* of one thread */
#define SOAK_THREADS 4	/* the most in one process, besides its first */
#define SOAK_SECONDS 60 /* a process that lives longer is stuck */
#define SOAK_FAILED 3	/* exit status: the board says why */

/** The shared objects: four counters, then the cells of an array, statistics,
 *  compact counters, and values. */
enum soak_object {
	SOAK_GROWS,   /* never reset, never decremented */
	SOAK_WANDERS, /* up and down */
	SOAK_TAKEN,   /* read and reset */
	SOAK_ZEROED,  /* reset; its value before is not known */
	SOAK_CELL,    /* the first 8 cells take vectors, the next 4 are taken */
	SOAK_STATS = SOAK_CELL + SOAK_CELLS,
	SOAK_COMPACT = SOAK_STATS + 2 * SOAK_SETS,
	SOAK_FCOUNTER = SOAK_COMPACT + SOAK_COMPACTS, /* read and reset */
	SOAK_GAUGE,
	SOAK_FGAUGE,
	SOAK_HISTOGRAM, /* counts and sums of SOAK_HISTOGRAMS; the second is read and reset */
	SOAK_OWNED = SOAK_HISTOGRAM + 2 * SOAK_HISTOGRAMS, /* gauges, never reset */
	SOAK_OWNED_DOUBLE,
	SOAK_RATE,		     /* events of two: admitted, refused */
	SOAK_APPROX = SOAK_RATE + 4, /* a sum that wanders */
	SOAK_LIMITED,		     /* a sum with a limit */
	SOAK_OBJECTS
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
	SOAK_VARIABLE,
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
	SOAK_STATS_ADD,
	SOAK_STATS_UPDATE,
	SOAK_STATS_TAKE,
	SOAK_SNAPSHOT,
	SOAK_SHARED_SNAPSHOT,
	SOAK_COMPACT_ADD,
	SOAK_COMPACT_TAKE,
	SOAK_COMPACT_FETCH,
	SOAK_OBSERVE,
	SOAK_RESET,
	SOAK_WBUF_ADD,
	SOAK_WBUF_FLUSH,
	SOAK_RING_PUT,
	SOAK_RING_LOOK,
	SOAK_ZONE_ALLOC,
	SOAK_ZONE_FULL,
	SOAK_ZONE_FREE,
	SOAK_ZONE_LIMIT,
	SOAK_ZONE_RECLAIM,
	SOAK_ZONE_RUN,
	SOAK_OBJCACHE_GET,
	SOAK_OBJCACHE_FULL,
	SOAK_OBJCACHE_PUT,
	SOAK_OBJCACHE_DTOR,
	SOAK_OBJCACHE_LIMIT,
	SOAK_OBJCACHE_RECLAIM,
	SOAK_WINDOW,
	SOAK_SHARED_BUFFER,
	SOAK_WINDOW_CUT,
	SOAK_REF,
	SOAK_VALUE_ADD,
	SOAK_VALUE_TAKE,
	SOAK_RECORD,
	SOAK_OWNED_ADD,
	SOAK_SECTION,
	SOAK_PERIOD,
	SOAK_CALLBACK,
	SOAK_READ_LOCK,
	SOAK_WRITE_LOCK,
	SOAK_EVENT,
	SOAK_APPROX_ADD,
	SOAK_PERMITS,
	SOAK_PERMITS_OUT,
	SOAK_SIGNAL,
	SOAK_MOVE,
	SOAK_THREAD,
	SOAK_UNREGISTER,
	SOAK_FORK,
	SOAK_KINDS
};

/** An operation that an interrupted or killed thread may or may not have done: add n to the
 *  words from object on, or take what object held. */
struct soak_pending {
	enum { SOAK_NOTHING, SOAK_ADDING, SOAK_TAKING } what;
	uint32_t object;
	uint32_t words;
	int64_t n[8];
};

/** The extremes of a series; empty if both are 0, which is never observed. */
struct soak_extremes {
	int64_t min, max;
};

/** The words that a lock protects. */
struct soak_words {
	uint64_t first, second;
};

/** What was done. A thread has one journal for itself and one for its signal handler. */
struct soak_journal {
	uint64_t added[SOAK_OBJECTS];
	uint64_t taken[SOAK_OBJECTS];
	struct soak_pending pending;
	uint64_t put[2];  /* records of the shared rings */
	uint64_t refused; /* by the ring that keeps old records */
	int putting;	  /* in doubt: a record of ring number - 1 */
	uint64_t written; /* under the shared lock */
	bool writing;	  /* in doubt: one write more */
	struct soak_extremes announced[SOAK_EXTREMA];
	struct soak_extremes observed[SOAK_EXTREMA];
	struct soak_extremes got; /* by resets of the extrema of doubles */
	bool resetting;
	uint64_t count[SOAK_KINDS];
};

struct soak_slot {
	pid_t pid;
	pid_t tid;
	bool doomed; /* a timer kills the process */
	bool killed; /* the timer has killed it */
	struct soak_journal journal[2];
} __attribute__((aligned(64)));

/** The plain shared mapping. */
struct soak_board {
	char path[128]; /* of the region */
	uint64_t key[SOAK_SINGLES];
	uint64_t array_key;
	uint64_t stats_key[SOAK_SETS];
	uint64_t group_key;
	uint64_t compact_key;
	uint64_t extrema_key[SOAK_EXTREMA];
	uint64_t ring_key[2];
	uint64_t value_key[3 + SOAK_HISTOGRAMS];
	uint64_t owned_key[4];
	uint64_t grace_key;
	uint32_t element[SOAK_ELEMENTS];
	uint32_t current; /* the element in use */
	uint64_t rwlock_key;
	struct soak_words words;
	uint64_t rate_key[2];
	uint64_t approx_key[2]; /* 0: none */
	uint64_t begun_ns;
	int64_t out;			      /* permits that workers have */
	uint64_t read_begun[4], read_done[4]; /* of counters that readers read from outside */
	uint64_t pictures[3];		      /* that readers took: of intact segments; of
						 damaged ones; refused */
	pid_t director;
	bool stop;
	uint32_t slots; /* in use */
	uint32_t failed;
	char what[128];
	uint64_t expected;
	uint64_t found;
	struct soak_slot slot[SOAK_SLOTS];
};

/** The private objects whose operations are counted. */
enum soak_tally {
	SOAK_OF_COUNTER,
	SOAK_OF_STATIC,
	SOAK_OF_VARIABLE,
	SOAK_OF_LARGE,
	SOAK_OF_SPLIT,
	SOAK_OF_LOCK,
	SOAK_OF_REFS,
	SOAK_OF_STACK,
	SOAK_OF_QUEUE,
	SOAK_OF_COMPACT,
	SOAK_OF_WBUF,
	SOAK_OF_RING,
	SOAK_OF_FCOUNTER,
	SOAK_OF_HISTOGRAM,
	SOAK_OF_REF,
	SOAK_OF_RWLOCK,
	SOAK_OF_STATS,
	SOAK_TALLIES = SOAK_OF_STATS + 2 * SOAK_SETS
};

/** An item of a zone, and its stamp. */
struct soak_item {
	void *item;
	uint64_t token;
};

/** A window of a file of window.c. */
struct soak_window {
	struct percpu_lwbuf buffer;
	int file;
	bool held;
};

/** A thread of a worker. It may come and go; its slot and its sums stay. */
struct soak_thread {
	struct soak_slot *slot;
	uint64_t random;
	uint64_t sum[2][SOAK_TALLIES]; /* of the thread, of its signal handler */
	uint64_t grows;		       /* SOAK_GROWS when it was last read */
	uint64_t compact;	       /* the compact counter that grows, when last read */
	uint64_t single[2][SOAK_SETS]; /* statistics when last read, private and shared */
	struct soak_extremes extremes; /* the extrema that are never reset, when last read */
	struct soak_item item[SOAK_ZONES][SOAK_HELD];
	struct soak_item object[SOAK_CACHES][SOAK_HELD];
	struct soak_window window[SOAK_WINDOWS];
	struct percpu_sfbuf *shared; /* or NULL */
	int shared_file;
	uint32_t number; /* in its process */
	uint32_t sent;
	pthread_t thread;
	bool running;
	bool unregistered; /* has no sequences */
	unsigned op;	   /* the operation it is at; atomic */
	unsigned seen;	   /* op when the signal handler last looked */
	unsigned times;	   /* how often in a row it was the same */
};

extern struct soak_board *soak_board;

/* soak.c */

/** End the process: the board says what is wrong, and the directing process prints it. */
void soak_give_up(void);

/* model.c */

/** Take the next free slot, or return NULL if all are in use. */
struct soak_slot *soak_slot_new(void);

/** Return how many slots are in use. */
uint32_t soak_slots(void);

/** Announce an operation before it is done: see struct soak_pending. */
void soak_begin(struct soak_journal *j, const struct soak_pending *p);

/** Note that the announced operation is done. */
void soak_end(struct soak_journal *j);

/** If ok is false, store what is wrong on the board, and end the process. Only the first failure
 *  is stored. */
void soak_require(bool ok, const char *what, uint64_t expected, uint64_t found);
void soak_require_equal(const char *what, uint64_t expected, uint64_t found);

/** Return whether a call has succeeded. refused is the error by which it may decline. A call may
 *  always time out: the thread that holds a lock, perhaps until a CPU is fenced, may not run for
 *  a second where one CPU emulates many, or the machine is busy. */
bool soak_did(const char *what, int r, int refused);

/** Return a value that differs from all other tokens. */
uint64_t soak_token(struct soak_thread *t);
void soak_require_token(const char *what, uint64_t v);

/** While workers run, check that SOAK_GROWS is within what they have done and announced. */
void soak_check_bounds(void);

/** When no worker runs, check that each shared object has the value that the slots say. */
void soak_check_totals(void);

/** Add what was done in this round to count[]. Return the number of operations in doubt. */
unsigned soak_collect(uint64_t count[SOAK_KINDS]);

/* shared.c */

void soak_shared_create(void);
void soak_shared_open(void);
void soak_shared_close(void);
uint64_t soak_shared_fetch(uint32_t object);

/** Set the object to zero. Return whether that was possible. */
bool soak_shared_zero(uint32_t object);

struct percpu_region *soak_shared_region(void);

/** Add n to the object, that many times. */
void soak_shared_add(struct soak_journal *j, uint32_t object, int64_t n, unsigned times);

/** Do one operation, chosen at random. */
void soak_shared_op(struct soak_thread *t);

/* private.c */

void soak_private_create(void);
void soak_private_destroy(void);
uint64_t soak_private_found(enum soak_tally tally);
void soak_private_op(struct soak_thread *t);

/** Do an operation that a signal handler may do. */
void soak_private_signal(struct soak_thread *t);

/** Check that the private objects hold what the n threads have added to what was found before. */
void soak_private_check(const uint64_t before[SOAK_TALLIES], const struct soak_thread *t,
			unsigned n);

/* local.c */

void soak_local_create(void);
void soak_local_destroy(void);
uint64_t soak_local_found(enum soak_tally tally);
void soak_local_op(struct soak_thread *t, enum soak_kind kind);
void soak_local_signal(struct soak_thread *t);

/** Empty the queues of all CPUs. For the first thread of a process. */
void soak_local_drain(struct soak_thread *t);

/* stats.c: objects are numbered from 0 */

void soak_stats_create(void);
void soak_stats_destroy(void);
void soak_shared_stats_create(struct percpu_region *r);
void soak_shared_stats_open(struct percpu_region *r);
void soak_shared_stats_close(void);
uint64_t soak_stats_fetch(bool shared, uint32_t object);
bool soak_shared_stats_zero(uint32_t object);
void soak_stats_op(struct soak_thread *t, bool shared);
void soak_stats_signal(struct soak_thread *t);

/* group.c */

void soak_group_create(void);
void soak_group_destroy(void);
void soak_shared_group_create(struct percpu_region *r);
void soak_shared_group_open(struct percpu_region *r);
void soak_shared_group_close(void);
void soak_group_op(struct soak_thread *t, bool shared);

/* compact.c */

void soak_compact_create(void);
void soak_compact_destroy(void);
uint64_t soak_compact_found(void);
void soak_compact_op(struct soak_thread *t);
void soak_compact_signal(struct soak_thread *t);
void soak_shared_compact_create(struct percpu_region *r);
void soak_shared_compact_open(struct percpu_region *r);
void soak_shared_compact_close(void);
uint64_t soak_shared_compact_fetch(uint32_t object);
void soak_shared_compact_zero(uint32_t object);
void soak_shared_compact_op(struct soak_thread *t);

/* extrema.c */

void soak_shared_extrema_create(struct percpu_region *r);
void soak_shared_extrema_open(struct percpu_region *r);
void soak_shared_extrema_close(void);
void soak_shared_extrema_op(struct soak_thread *t);
void soak_extrema_signal(struct soak_thread *t);

/** Check, when no worker runs, that the extrema are what the n journals say. */
typedef struct soak_journal *soak_journal_fn(uint32_t i);
void soak_extrema_check(uint32_t n, soak_journal_fn *journal);

/* wbuf.c */

void soak_wbuf_create(void);
void soak_wbuf_destroy(void);
uint64_t soak_wbuf_found(void);
void soak_wbuf_op(struct soak_thread *t);

/* ring.c: puts into shared rings are in the journal. The directing process watches the rings
 * while workers run, and checks them when none does */

void soak_ring_create(void);
void soak_ring_destroy(void);
uint64_t soak_ring_found(void);
void soak_shared_ring_create(struct percpu_region *r);
void soak_shared_ring_open(struct percpu_region *r);
void soak_shared_ring_close(void);
void soak_ring_op(struct soak_thread *t);
void soak_ring_signal(struct soak_thread *t);
void soak_ring_watch(uint64_t random);
void soak_ring_check(void);

/* zone.c */

void soak_zone_create(struct percpu_region *shared);

/** Check that all items are free, and destroy the zones. */
void soak_zone_destroy(void);
void soak_zone_op(struct soak_thread *t);

/** Free what the thread holds. */
void soak_zone_leave(struct soak_thread *t);

/** Return whether the thread holds no item that other threads wait for. */
bool soak_zone_holds_none(const struct soak_thread *t);

/** In a child of fork: leave the items of other threads to them. */
void soak_zone_forked(void);

/* objcache.c: as zone.c */

void soak_objcache_create(void);
void soak_objcache_destroy(void);
void soak_objcache_op(struct soak_thread *t);
void soak_objcache_leave(struct soak_thread *t);
void soak_objcache_forked(void);

/* window.c */

void soak_window_create(void);

/** Check the windows, and destroy them, also in a child of fork. */
void soak_window_destroy(void);
void soak_window_op(struct soak_thread *t);

/* ref.c: a reference count */

void soak_ref_create(void);
void soak_ref_destroy(void);
uint64_t soak_ref_found(void);
void soak_ref_op(struct soak_thread *t);
void soak_ref_signal(struct soak_thread *t);

/** Free what the thread has. */
void soak_window_leave(struct soak_thread *t);

/** In a child of fork. */
void soak_window_forked(void);

/* values.c */

void soak_values_create(void);
void soak_values_destroy(void);
uint64_t soak_values_found(enum soak_tally tally);
void soak_values_op(struct soak_thread *t);
void soak_values_signal(struct soak_thread *t);
void soak_shared_values_create(struct percpu_region *r);
void soak_shared_values_open(struct percpu_region *r);
void soak_shared_values_close(void);
uint64_t soak_shared_values_fetch(uint32_t object);
bool soak_shared_values_zero(uint32_t object);
void soak_shared_values_op(struct soak_thread *t);

/* owned.c: the directing process watches, and checks when no worker lives */

void soak_owned_create(struct percpu_region *r);
void soak_owned_open(struct percpu_region *r);
void soak_owned_close(void);
uint64_t soak_owned_fetch(uint32_t object);
void soak_owned_op(struct soak_thread *t);
void soak_owned_watch(void);
void soak_owned_check(void);
struct percpu_owners *soak_owners(void);

/* grace.c */

void soak_grace_create(void);
void soak_grace_destroy(void);
void soak_grace_op(struct soak_thread *t);
void soak_shared_grace_create(void);
void soak_shared_grace_open(void);
void soak_shared_grace_close(void);
void soak_shared_grace_op(struct soak_thread *t);
void soak_grace_signal(void);

/* rwlock.c: the directing process checks when no worker lives */

void soak_rwlock_create(void);
void soak_rwlock_destroy(void);

/** In a child of fork. */
void soak_rwlock_forked(void);
uint64_t soak_rwlock_found(void);
void soak_rwlock_op(struct soak_thread *t);
void soak_shared_rwlock_create(void);
void soak_shared_rwlock_open(void);
void soak_shared_rwlock_close(void);
void soak_shared_rwlock_op(struct soak_thread *t);
void soak_rwlock_signal(void);
void soak_rwlock_check(uint32_t n, soak_journal_fn *journal);

/* limits.c */

void soak_limits_create(struct percpu_region *r);
void soak_limits_open(struct percpu_region *r);
void soak_limits_close(void);
uint64_t soak_limits_fetch(uint32_t object);
bool soak_limits_zero(uint32_t object);
void soak_limits_op(struct soak_thread *t);
void soak_limits_signal(struct soak_thread *t);

/** While workers run, check that no more was admitted than the limits allow. */
void soak_limits_watch(void);

/** When no worker runs, and the sums were set to 0: check also that no less was admitted, though
 *  many workers were killed, and that the limit can be reached. */
void soak_limits_check(void);

/* reader.c */

/** Start processes that read from outside, count for them, and damage what they read. */
void soak_reader_start(uint64_t random);

/** When they have ended, store how many pictures they have taken: of intact segments; of damaged
 *  ones; and how many were refused. */
void soak_reader_check(uint64_t pictures[3]);

/* worker.c */

/** Be a worker until the board says stop. Return an exit status. */
int soak_worker(uint64_t random);

/** Return whether a child ended as it should. A doomed child may be killed. */
bool soak_ended_well(pid_t pid, int status);

#endif

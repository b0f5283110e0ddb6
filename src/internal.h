/* SPDX-License-Identifier: MIT */
/*
 * internal.h - what the sources share among themselves.
 */
#ifndef PERCPU_INTERNAL_H
#define PERCPU_INTERNAL_H

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "kernel.h"

/* Libraries that make up for it use locks, which other processes do not take. */
#ifndef __GCC_HAVE_SYNC_COMPARE_AND_SWAP_8
#error "libpercpu needs a machine with 64-bit atomic instructions (x86: -march=i586 or later)"
#endif

/** What a call that failed says, negative: also to compilers and analyzers,
 *  which do not know that errno is positive. */
static inline int percpu_errno(void)
{
	int e = -errno;

	return e < 0 ? e : -EIO;
}

/** No pthread_cancel() takes effect in the calling thread from here on; hand
 *  what it returns to percpu_restore_cancel(). */
static inline int percpu_defer_cancel(void)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return state;
}

static inline void percpu_restore_cancel(int state)
{
	pthread_setcancelstate(state, &state);
}

/**
 * A place, which it names, where a test may stop, delay or kill the caller, or
 * interfere. Nothing in the library; such tests compile the sources once more,
 * with a definition of their own (tests/steps.h).
 */
#ifndef PERCPU_STEP
#define PERCPU_STEP(name) ((void)0)
#endif

/* cpus.c */

/**
 * Lanes needed for every CPU that this kernel can have: the highest possible
 * CPU number + 1, or more where the kernel's own lists cannot be read; or -E2BIG.
 *
 * In *ret_certain, which may be NULL, how many there are at least: a process that
 * could read one made its regions for no fewer.
 */
int percpu_possible_cpus(uint32_t *ret_certain);

/** Whether the CPU may be online: false if the kernel says that it is not. */
bool percpu_cpu_online(unsigned cpu);

/** Let the thread, 0 for the calling one, run on that CPU alone: 0 or -errno. */
int percpu_pin(pid_t tid, unsigned cpu);

/** Read a list of the kernel's such as "0-3,8". Returns false if there is none. */
bool percpu_read_list(const char *path, char *buf, size_t size);

/** Next range of a list; returns false at its end or where it is malformed. */
bool percpu_next_range(const char **list, unsigned long *first, unsigned long *last);

/* record.c: what the library knows of a thread */

enum percpu_thread_state {
	PERCPU_THREAD_FRESH,	  /* not looked at yet */
	PERCPU_THREAD_REGISTERED, /* the kernel confirmed it; the self-test is not through */
	PERCPU_THREAD_ATTACHED,	  /* may run sequences */
	PERCPU_THREAD_UNABLE,	  /* no sequences in this thread */
};

struct percpu_record {
#ifdef PERCPU_LATE
	struct percpu_rseq *self; /* percpu_self; first, for who has the value of the key */
#endif
	struct percpu_rseq *area; /* what percpu_self is when not shared */
	struct percpu_rseq *registered;
	enum percpu_thread_state state;
	unsigned shared;	 /* tasks that use this record besides its thread */
	struct percpu_rseq own;	 /* registered where libc has no area */
	struct percpu_rseq none; /* a thread's own nobody, against false sharing */
};

/** The calling thread's. Where it cannot have one of its own, one that is unable. */
struct percpu_record *percpu_record(void);

/** Once, before the first registration. Returns whether threads have records. */
bool percpu_record_init(void);

/** See that percpu_thread_detach() is called when the thread ends. */
bool percpu_record_keep(struct percpu_record *r);

/* thread.c */

/** The calling thread, whose record it is, is about to end. */
void percpu_thread_detach(struct percpu_record *r);

/** Start a short-lived thread that gets none of the program's signals, with the
 *  caller's scheduling policy or, if that is a real-time one, the normal one.
 *  It should not allocate memory: in glibc an arena of 64 MiB of address space
 *  would stay behind. Returns 0 or -errno. */
int percpu_thread_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg);

/** Prepare registration; called once. Fills in the rseq part of the status. */
void percpu_thread_init(struct percpu_status *st);

/** See that the calling thread is registered. Returns by whom. It does not run
 *  sequences yet. */
enum percpu_owner percpu_thread_register(void);

/** From now on, sequences in the calling thread, which is registered. */
void percpu_thread_attach(void);

/** From now on, no sequences in the calling thread. */
void percpu_thread_give_up(void);

/** Note the CPU that the thread is on; no sequences if some region has no lane
 *  for it, or for another that was noted. */
void percpu_thread_look(void);

/** This task and another are about to share the thread's TLS: no sequences,
 *  until as many calls of percpu_thread_unshare(). */
void percpu_thread_share(void);
void percpu_thread_unshare(void);

/** Nanoseconds of a clock that does not go back. */
static inline uint64_t percpu_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

#define PERCPU_SECOND 1000000000ULL

/** Wait on a word while it has that value, at most ns, or without limit if that is
 *  0: FUTEX_WAIT or, in this process alone, FUTEX_WAIT_PRIVATE. No cancellation
 *  point. */
void percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);

/** The same in this process. Wake all who do. */
void percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void percpu_futex_wake(uint32_t *word);

/* selftest.c */

/** The verdict before percpu_init(). */
#define PERCPU_SELFTEST_UNKNOWN (PERCPU_SELFTEST_PENDING + 1)

/** From now on the verdict is pending, or skipped. What goes with it is known. */
void percpu_selftest_init(bool possible);

/** Start the self-test, unless this process has threads at it. Returns 0 or
 *  -errno. Not in signal handlers. */
int percpu_selftest_start(void);

/** Before a fork; and in the child: the parent's threads did not come along. */
void percpu_selftest_before_fork(void);
void percpu_selftest_in_child(void);

/** What the process goes by: unknown, skipped, pending, or what the self-test has
 *  found. Atomic; written by selftest.c alone. */
extern uint32_t percpu_selftest_word;

/** The same, where it is pending, or else what a relative has found meanwhile. */
uint32_t percpu_selftest_ask_family(void);

static inline uint32_t percpu_selftest_verdict(void)
{
	uint32_t verdict = __atomic_load_n(&percpu_selftest_word, __ATOMIC_ACQUIRE);

	return percpu_likely(verdict != PERCPU_SELFTEST_PENDING) ? verdict :
								   percpu_selftest_ask_family();
}

/**
 * Whether threads of this process may be running sequences. If not, those that
 * start to later see all that the caller has stored before.
 */
bool percpu_sequences_may_run(void);

/* status.c */

/** Find out all that percpu_status() reports, unless done; and see that
 *  somebody is at the self-test if there is no verdict. Not in signal handlers. */
const struct percpu_status *percpu_init(void);

/** The tier if percpu_init() is done, otherwise PERCPU_TIER_SHARED; for slow
 *  paths, which may run in signal handlers and must not initialize. */
enum percpu_tier percpu_tier(void);

/* fork.c */

/** Serializes everything in the process that allocates, and its lists. Signals are
 *  blocked meanwhile. Fork waits for it, so nobody who has it waits for another process, or for another
 *  lock but those that fork.c lists behind it. */
void percpu_process_lock(void);
void percpu_process_unlock(void);

/** The locks of other parts, which a fork takes; see fork.c for the order. */
void percpu_names_lock(void);
void percpu_names_unlock(void);
void percpu_names_in_child(void);
void percpu_variables_lock(void);
void percpu_variables_unlock(void);
void percpu_zone_checks_lock(void);
void percpu_zone_checks_unlock(void);

/** Around a fork: the locks of all write buffers; and in the child, before they
 *  are released, forget what was pending. */
void percpu_wbufs_before_fork(void);
void percpu_wbufs_after_fork(void);
void percpu_wbufs_forget(void);

/** The process is going to count in a region with so many lanes of CPUs. */
void percpu_note_lanes(uint32_t cpus);

/** Its threads can be on CPUs 0 to cpus - 1. Returns whether one of them, or of
 *  those noted before, has no lane in some region. */
bool percpu_note_cpus(uint32_t cpus);

/* lock.c */

/** A robust lock that the thread holds. Signals are blocked meanwhile. */
struct percpu_robust {
	uint32_t *word;
	uint32_t tid;
	bool registered;	       /* own is the thread's list */
	struct robust_list_head *head; /* NULL: the kernel refuses */
	struct robust_list *pending;
	struct robust_list_head own;
	sigset_t signals;
};

/** Take the lock, a word that is 0 while it is free. Returns 0, or -ETIMEDOUT when
 *  one thread has had it for so long. Whoever takes it makes good what a killed
 *  holder may have left half done. */
int percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
void percpu_robust_unlock(struct percpu_robust *h);

/** Whether locks are taken over when their holder was killed. */
bool percpu_robust_supported(void);

/** In a child of fork: the holder did not come along. */
void percpu_robust_orphan(uint32_t *word);

/** How long to wait for a lock that is held for a few instructions, or system
 *  calls: its holder is stopped if it is not free then. */
#define PERCPU_LOCK_NS PERCPU_SECOND

/* local.c */

/** In a child of fork: nobody holds a guard. */
void percpu_local_after_fork(const struct percpu_local *l);

/* visit.c */

typedef void percpu_visit_fn(unsigned cpu, void *arg);

/**
 * Run a thread on each CPU from first to end - 1 in turn, and call fn there,
 * unless it is NULL. Waits for an fn that has begun. Returns and reports as
 * percpu_fence_all(); where there is an fn, offline CPUs count as not visited,
 * which is no error.
 */
int percpu_visit(unsigned first, unsigned end, percpu_visit_fn *fn, void *arg, uint64_t timeout_ns,
		 struct percpu_fence_report *ret_report);

/* fence.c */

/** Announce the fence to the kernel; true if membarrier(2) can do it. */
bool percpu_fence_init(uint32_t *ret_commands);

/** Fence all who count in the region; as percpu_fence(), or percpu_fence_all(). */
int percpu_fence_region(const struct percpu_region *r, uint64_t timeout_ns);

/** Fence this process's sequences on one CPU; as percpu_fence(). */
int percpu_fence_cpu(unsigned cpu);

/* chunk.c: one mapping of lanes, and the arithmetic on them */

/*
 * A chunk is mapped as follows. Lane 0 is aligned to PERCPU_LANE_SIZE, so that
 * in a chunk of default geometry a cell's address leads to the chunk.
 *
 *	struct percpu_chunk	64 KiB reserved, private to the process
 *	struct percpu_header	64 KiB reserved \
 *	lanes of CPUs		N               | in a shared region: the file,
 *	lanes of atomic adds	N               | from its offset on
 *	bias lane		1               /
 */
#define PERCPU_HEAD 65536
#define PERCPU_UNITS 8192

/** Words of the bias lane that change together; see journal.c. */
#define PERCPU_JOURNAL_WORDS 64
struct percpu_journal {
	uint64_t turn;	 /* odd: the values below are being stored */
	uint64_t offset; /* of the first word in the lane */
	uint64_t words;
	uint64_t value[PERCPU_JOURNAL_WORDS];
} PERCPU_ALIGNED_WORD;

/** The part other processes see, and may have damaged: never trusted after
 *  the chunk was validated, except where any value is harmless. */
struct percpu_header {
	uint64_t magic;
	uint32_t version;
	uint32_t index;	    /* of this chunk in its region */
	uint64_t lane_size; /* usable bytes of a lane */
	uint64_t stride;
	uint32_t cpus;			    /* N */
	uint32_t chunks;		    /* in chunk 0: complete chunks of the region; grows */
	uint64_t root[PERCPU_REGION_ROOTS]; /* in chunk 0: keys for the user */
	uint64_t atomic_lanes[PERCPU_MAX_CPUS / 64]; /* in use; bits are only set */
	uint64_t used[PERCPU_UNITS / 64];	     /* allocated units of a lane */
	uint64_t starts[PERCPU_UNITS / 64];	     /* of these: the first of an allocation */
	uint32_t alloc_lock;			     /* in chunk 0: of those who allocate; robust */
	uint32_t journal_lock;			     /* likewise, of those who use the journal */
	struct percpu_journal journal;
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_header) == 168 + 3 * 1024 + 8 + 24 + 512, "file layout");
_Static_assert(offsetof(struct percpu_header, root) == 40, "file layout");
_Static_assert(offsetof(struct percpu_header, atomic_lanes) == 168, "file layout");
_Static_assert(offsetof(struct percpu_header, journal.turn) % 8 == 0, "atomic words");

#define PERCPU_MAGIC 0x31557043726550ffULL /* bytes: ff P e r C p U 1 */
#define PERCPU_VERSION 4

/** What this process knows of a chunk; constant once it is mapped. */
struct percpu_chunk {
	const struct percpu_chunk *self; /* tells a chunk from other memory */
	struct percpu_region *region;
	struct percpu_header *header;
	char *base; /* lane 0 */
	size_t lane_size;
	size_t stride;
	size_t unit; /* bytes that a bit of header->used stands for */
	size_t hint; /* under the process lock: units below it were in use when last seen */
	uint32_t cpus;
	uint32_t index;
	bool shared;	 /* a file */
	size_t map_size; /* from this struct on */
};

/** Distance between lanes of so many usable bytes. */
static inline size_t percpu_stride(size_t lane_size)
{
	size_t page = PERCPU_STRIDE - PERCPU_LANE_SIZE - 64;

	return (lane_size + page - 1) / page * page + page + 64;
}

/** Bytes that a bit of percpu_header.used stands for. */
static inline size_t percpu_unit(size_t lane_size)
{
	size_t unit = sizeof(uint64_t);

	while (unit * PERCPU_UNITS < lane_size)
		unit *= 2;
	return unit;
}

/** Bytes of a chunk behind struct percpu_chunk: its share of the file. */
uint64_t percpu_chunk_size(size_t stride, uint32_t cpus);

/* map.c */

static inline size_t percpu_page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/** Map the chunk described by the geometry of t: private memory, or the file's
 *  first. Where grows is set, a page of the file behind it is mapped as well,
 *  percpu_chunk_seed(). Returns 0 or -errno. */
int percpu_chunk_map(const struct percpu_chunk *t, int fd, bool writable, bool grows,
		     struct percpu_chunk **ret);
void percpu_chunk_unmap(struct percpu_chunk *k);

/** The page behind the chunk, with which the file's next one begins. It is the
 *  region's: it moves when that chunk unfolds, and then the place is the program's. */
char *percpu_chunk_seed(const struct percpu_chunk *k);
void percpu_chunk_unmap_seed(char *seed);

/** Map the chunk whose first page is at *seed, which then is not any more. It
 *  takes no descriptor. */
int percpu_chunk_unfold(const struct percpu_chunk *t, char **seed, bool grows,
			struct percpu_chunk **ret);

/** In the CPU lanes of a private chunk, no huge page that reaches beyond this
 *  offset, behind which nothing is going to be touched. */
void percpu_chunk_small_pages(const struct percpu_chunk *k, size_t offset);

/* chunk.c: what is in the lanes */

/** Copy the header that another process wrote: 0, or -EBADMSG. */
int percpu_chunk_read_header(const struct percpu_chunk *k, struct percpu_header *ret);

/** Write the header of a new chunk and reserve what every user touches. */
int percpu_chunk_format(struct percpu_chunk *k);

/** Reserve the bytes in all lanes that plain or atomic adds may touch, cpu_size
 *  of them in the CPU lanes, so that no store finds the file system full.
 *  Returns 0 or -errno. */
int percpu_chunk_reserve(struct percpu_chunk *k, size_t offset, size_t cpu_size, size_t size);

/** Sum, reset and atomic add at an offset; see percpu_counter_*(). In a region that was
 *  opened to read, a reset resets nothing. */
uint64_t percpu_chunk_sum(const struct percpu_chunk *k, size_t offset);
uint64_t percpu_chunk_reset(struct percpu_chunk *k, size_t offset);
void percpu_chunk_add_atomic(struct percpu_chunk *k, size_t offset, int64_t n);

/** Set size bytes, rounded up to a multiple of 8, to zero in every lane. No thread
 *  may be using them. */
void percpu_chunk_clear(struct percpu_chunk *k, size_t offset, size_t size);

/** Return the pages that hold only these bytes of every lane to the system. */
void percpu_chunk_discard(struct percpu_chunk *k, size_t offset, size_t size);

/** Atomic lanes in use, 64 per word, as far as the chunk has them. */
uint64_t percpu_chunk_atomic_lanes(const struct percpu_chunk *k, uint32_t word);

static inline char *percpu_chunk_lane(const struct percpu_chunk *k, size_t lane, size_t offset)
{
	return k->base + lane * k->stride + offset;
}

/** The chunk of a cell in a region of default geometry. */
static inline struct percpu_chunk *percpu_chunk_of(const void *cell)
{
	uintptr_t lane = (uintptr_t)cell & ~((uintptr_t)PERCPU_LANE_SIZE - 1);

	return (struct percpu_chunk *)(lane - 2 * PERCPU_HEAD);
}

/* pin.c */

/** Whether the kernel fills new mappings, by mlockall(MCL_FUTURE): of private memory,
 *  if it has filled this page, which nobody has touched. */
bool percpu_pin_fills(const char *page);

/** Let it fill these pages, and lock them, no sooner than they are touched. */
void percpu_pin_on_touch(char *first, size_t size);

/** Let it fill the chunk now, but for the atomic lanes. */
void percpu_chunk_pin(const struct percpu_chunk *k);

/* journal.c */

/** Lock the journal of the chunk: 0 or -ETIMEDOUT. percpu_robust_unlock(). */
int percpu_journal_lock(struct percpu_chunk *k, struct percpu_robust *h);

/** Complete what a killed holder has written down. Returns 0 or -ETIMEDOUT. */
int percpu_journal_settle(struct percpu_chunk *k, uint64_t timeout_ns);

/** Add delta to words of the bias lane, all or none, also when the process is
 *  killed meanwhile. At most PERCPU_JOURNAL_WORDS. The caller has the lock. */
void percpu_journal_add(struct percpu_chunk *k, size_t offset, const uint64_t *delta, size_t words);

/** Read words of the bias lane between such changes. Returns 0 or -errno. */
int percpu_journal_read(struct percpu_chunk *k, size_t offset, uint64_t *out, size_t words);

/* array.c */

/** Words that one store of this machine commits: 2, 4 or 8. */
unsigned percpu_vector_words(void);

/* stats.c, stats_read.c */

/** What all who count in objects look at: in the bias lane, at the key, so that
 *  who attaches finds it before the layout is known. Readers change it. */
struct percpu_stats_control {
	uint64_t bank;	 /* which one counts: 0, or their distance; above that, changes */
	uint64_t fenced; /* the value of bank that a fence has followed last */
	uint64_t resets; /* changes under the lock of the journal; odd: one has begun */
	uint64_t size;
	uint64_t n;
	uint32_t flags;	 /* of percpu_stats_create() */
	uint32_t copies; /* 1: each object is there in two copies; 0: once */
	uint32_t reader; /* id of the thread that takes a snapshot; or 0 */
	uint32_t unused;
} PERCPU_ALIGNED_WORD;

_Static_assert(sizeof(struct percpu_stats_control) == 56, "file layout");

/** What bank grows by with each change: more than any distance. */
#define PERCPU_STATS_FLIP (UINT64_C(1) << 40)

/** Where the first field of object i is in the atomic lanes and the bias lane. */
static inline size_t percpu_stats_offset(const struct percpu_stats *s, size_t i)
{
	return (size_t)(s->base - s->chunk->base) + s->banks + i * s->record + s->head;
}

/** The control of objects whose first one is at this address of lane 0. */
static inline struct percpu_stats_control *percpu_stats_control_at(const struct percpu_chunk *k,
								   const char *base)
{
	return (struct percpu_stats_control *)percpu_chunk_lane(k, 2 * (size_t)k->cpus,
								(size_t)(base - k->base));
}

static inline struct percpu_stats_control *percpu_stats_control(const struct percpu_stats *s)
{
	return percpu_stats_control_at(s->chunk, s->base);
}

/* zone_check.c */

struct percpu_zone_check;

int percpu_zone_check_create(const char *name, const struct percpu_region *r, bool own, size_t size,
			     struct percpu_zone_check **ret);
void percpu_zone_check_destroy(struct percpu_zone_check *c);

/** Say on standard error what a zone was asked for in vain. */
void percpu_zone_check_explain(const char *name, const char *what);

/** Note that the item is allocated or free; complain and abort if it was not as
 *  it should be. Allocating returns 0 or -ENOMEM. */
int percpu_zone_check_alloc(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_free(struct percpu_zone_check *c, const void *item);
void percpu_zone_check_poison(const struct percpu_zone_check *c, void *item);

/** Around returning pages to the system. */
void percpu_zone_check_reclaim(struct percpu_zone_check *c, bool begins);

/* place.c */

/** On machines with several NUMA nodes, let each CPU's lanes of a shared chunk
 *  have their pages on that CPU's node, whoever reserves them. */
void percpu_chunk_place(const struct percpu_chunk *k);

/* region.c */

/** The longest lane there is, and the longest that a process can ask for. */
#define PERCPU_LONGEST_LANE (UINT64_C(1) << 40)
#define PERCPU_MAX_LANE (UINT64_C(1) << (sizeof(void *) < 8 ? 30 : 40))

/** Whether n things of size bytes, at least one, fit into the longest lane. */
static inline bool percpu_fits_lane(size_t n, size_t size)
{
	return n != 0 && n <= PERCPU_MAX_LANE / size && n <= SIZE_MAX / size;
}

/** A region's chunks. One that has become too small stays for those who read
 *  it, until the region is closed. */
struct percpu_chunk_table {
	struct percpu_chunk_table *older;
	uint32_t size;		   /* power of two */
	struct percpu_chunk *at[]; /* size chunks by index; then 2 * size places, by
				      percpu_chunk_hash() or behind; NULL: none */
};

/** For a region of default geometry: where in those 2 * size places to look
 *  for the chunk that has the cell in its lane 0. */
static inline size_t percpu_chunk_hash(const void *cell)
{
	return (size_t)((uintptr_t)cell / PERCPU_LANE_SIZE * UINT64_C(0x9e3779b97f4a7c15) >> 32);
}

struct percpu_region {
	struct percpu_region *next; /* of all regions of the process */
	struct percpu_chunk *first;
	struct percpu_chunk_table *chunks; /* grows under the process lock, read without */
	uint32_t n;			   /* likewise; stored after what it counts */
	uint32_t capacity;		   /* chunks that there is room for */
	char *seed;			   /* the page that the next chunk unfolds from, or NULL */
	struct percpu_chunk *spare;	   /* mapped, but not complete yet */
	struct percpu_local *local;	   /* what has the region for itself, or NULL */
	bool shared;			   /* a file */
	bool writable;
	size_t lane_size;
	uint32_t cpus;
};

/** percpu_region_chunk() for a region of default geometry. */
static inline struct percpu_chunk *percpu_region_lookup(const struct percpu_region *r,
							const void *cell)
{
	struct percpu_chunk_table *t = __atomic_load_n(&r->chunks, __ATOMIC_ACQUIRE);
	const struct percpu_chunk *wanted = percpu_chunk_of(cell); /* not to be followed */
	size_t mask = 2 * (size_t)t->size - 1;
	struct percpu_chunk *k;

	for (size_t i = percpu_chunk_hash(cell);; i++) {
		k = __atomic_load_n(&t->at[t->size + (i & mask)], __ATOMIC_ACQUIRE);
		if (k == NULL || k == wanted)
			return k;
	}
}

/** The private region that single counters and small arrays come from. */
int percpu_region_default(struct percpu_region **ret);

/** Whether cells of r can be single counters. */
bool percpu_region_is_zone(const struct percpu_region *r);

/** In a child of fork: the locks in private memory are free, whoever had them. */
void percpu_regions_after_fork(void);

/** Add a chunk. The caller has the lock between processes and that of this one. */
int percpu_region_grow(struct percpu_region *r);

/** Map the chunks that other processes have added. The caller has the process lock. */
int percpu_region_refresh(struct percpu_region *r);

/** The region that the cell, any pointer, is in; NULL if none. */
struct percpu_region *percpu_region_find(const void *cell);

/* depot.c */

/** Items kept for the next allocation. All zero, it takes none. */
struct percpu_depot {
	struct percpu_shelf *shelves;
	unsigned count;
	struct percpu_depot *next;
};

/** Returns 0 or -ENOMEM. */
int percpu_depot_init(struct percpu_depot *d, unsigned cpus);
void percpu_depot_fini(struct percpu_depot *d);

/** Keep n items; -ENOMEM, or -EBUSY if other threads are at all shelves. */
int percpu_depot_put(struct percpu_depot *d, void *const *items, size_t n);

/** Take up to n; returns how many. Unless it waits for those who are at a
 *  shelf, it passes by. */
size_t percpu_depot_take(struct percpu_depot *d, bool wait, void **ret, size_t n);

/** Give the memory of empty shelves back. */
void percpu_depot_trim(struct percpu_depot *d);

/** How many items there are. */
size_t percpu_depot_count(const struct percpu_depot *d);

/** Around a fork; the caller has the process lock. */
void percpu_depots_before_fork(void);
void percpu_depots_after_fork(void);

/* alloc.c */

/** The chunk of r whose lane 0 the cell, any pointer, is in; NULL if none. */
struct percpu_chunk *percpu_region_chunk(const struct percpu_region *r, const void *cell);

/** What a key leads to; part of the key, and so of the file format. */
enum percpu_kind {
	PERCPU_KIND_CELL, /* bytes in an allocation, a counter among them */
	PERCPU_KIND_ARRAY,
	PERCPU_KIND_COMPACT,
	PERCPU_KIND_STATS,
};

/** The key of an object of that kind that begins at base, in lane 0 of the chunk;
 *  0 in private memory. */
uint64_t percpu_region_object_key(const struct percpu_chunk *k, enum percpu_kind kind,
				  const void *base);

/**
 * What each attach call checks: find n things of size bytes, the first of them
 * aligned to align, up to 64, at a key that another process may have made up.
 * The region may have been opened to read; it is the caller's to store nothing.
 *
 * Returns 0, -EINVAL (r is NULL, or n such things cannot be), or -ENOENT (they
 * are not there: the key is of another kind, or these bytes were not allocated
 * together, or not so aligned; of a compact set they must be all that were).
 */
int percpu_region_attach(struct percpu_region *r, uint64_t key, enum percpu_kind kind, size_t n,
			 size_t size, size_t align, void **ret);

/** As percpu_region_alloc(), where no more than the first cpu_size bytes of the
 *  CPU lanes are going to be touched. */
int percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size, size_t align,
			       void **ret);

/** As percpu_region_alloc(), for up to n cells at once. Returns how many, at
 *  least one, or -errno. */
ssize_t percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align, size_t n,
				 void **ret);

/** Free n cells that are certainly in use. Returns how many: the others stay in use,
 *  for a process that is stopped keeps them from being freed. */
size_t percpu_region_free_many(struct percpu_region *r, void *const *cells, size_t n, size_t size);

/** Return the pages that hold no cell to the system. Returns bytes, counted in
 *  every lane, whether or not they had been touched. */
size_t percpu_region_reclaim(struct percpu_region *r);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.h - declarations that the lwbuf*.c files and sfbuf.c share.
 *
 * A window is a piece of address space, with a struct that describes it. Each window is in one of
 * three places: in a CPU's table (mapped; found by its page), with one caller alone (loose), or in
 * the pool (not mapped). Bounce buffers are windows of a second pool; they are plain memory, and
 * are never in a table.
 *
 * A window in a table has four seats. Each buffer of the window has one of them. lwbuf_seats.c says
 * how buffers take and leave their seats.
 */
#ifndef PERCPU_CACHES_LWBUF_H
#define PERCPU_CACHES_LWBUF_H

#include <percpu/lwbuf.h>

#include "../rings/rings.h"
#include "caches.h"

#define PERCPU_WINDOW_SEATS 4
#define PERCPU_LWBUF_MAX_PAGE ((UINT64_C(1) << 40) - 2)

/* Aligned to 128 bytes: CPUs fetch cache lines in pairs, and other CPUs use the next windows. */
struct percpu_window {
	char *at;	 /* NULL if another mapping has taken the address */
	uint64_t page;	 /* the page that is mapped */
	uint32_t length; /* bytes of the page that the file had; 0 if no page is mapped; atomic */
	uint32_t id;	 /* in its pool, from 1 */
	uint64_t freed;	 /* the file's clock at the last free; atomic */
	uint32_t slot;	 /* distance of its word from the first set, or LOOSE; atomic */
	uint8_t away;	 /* seats that were freed on other CPUs; atomic */
	bool bounces;	 /* a bounce buffer, of the second pool */
	/* Of each seat: odd while a buffer has it; atomic. Buffers have the lower half. */
	uint64_t generation[PERCPU_WINDOW_SEATS] PERCPU_ALIGNED_WORD;
	struct percpu_window *next;
	uint32_t owner; /* thread that allocated it, with PERCPU_LWBUF_DEBUG */
} __attribute__((aligned(128)));

#define PERCPU_WINDOW_LOOSE UINT32_MAX /* for slot: in no table */

#define PERCPU_WINDOW_BLOCK 64 /* structs that are allocated together */
#define PERCPU_WINDOW_IDS (1 << 20)

struct percpu_window_pool {
	bool bounces;
	bool lost;		       /* atomic: another mapping has taken a window's address */
	unsigned shift;		       /* log2 of the distance of two windows in bytes */
	struct percpu_window **blocks; /* by id; a block is set before there is an id in it */
	/* under the lock */
	uint32_t made; /* how many windows there are */
	uint32_t most; /* how many there ever were; also read without the lock */
	uint32_t out;  /* how many of them are not on the list; also read without the lock */
	struct percpu_window *first, **last;
	struct percpu_space *spaces; /* pieces of reserved address space, the newest first */
	size_t room;		     /* windows in all pieces; also read without the lock */
};

struct percpu_sfbufs;

struct percpu_lwbufs {
	/* constant, except set_shift; the fields that a hit needs come first */
	uint64_t direct_pages;
	char *sets; /* the table's sets, in lane 0 */
	char *guard;
	size_t stride;
	unsigned cpus;
	unsigned set_shift; /* shifts the hash of a page right to the number of its set; atomic */
	struct percpu_window **blocks;
	size_t size;
	struct percpu_counter *used; /* buffers that have windows */
	uint32_t flags;
	unsigned shift;
	bool maps; /* windows may be mapped: the file keeps its size, and has small pages */
	enum percpu_lwbuf_backend backend;
	int fd;
	uint64_t device, inode; /* of the file: the program may close fd, and reuse its number */
	char *direct;
	struct percpu_counter *addresses; /* direct buffers with callers */
	struct percpu_counter *sharers;	  /* seats in tables, without the first of each window */
	struct percpu_local *table;
	size_t slots; /* of the table, per CPU */
	struct percpu_sfbufs *shared;

	/* atomic */
	size_t max_excess;
	size_t shown;	/* windows in tables and with callers */
	uint64_t clock; /* counts misses */
	uint64_t mapped;
	uint64_t bounced;

	int64_t inherited; /* buffers in use that were allocated before the last fork */
	uint32_t forks;	   /* how many forks made this process; changes only in a fork */

	pthread_mutex_t lock; /* of both pools */
	struct percpu_window_pool windows;
	struct percpu_window_pool bounces;
	struct percpu_lwbufs *next; /* under the lock of the list */
};

/* lwbuf_pool.c */

int percpu_window_pool_init(const struct percpu_lwbufs *f, struct percpu_window_pool *p,
			    bool bounces);
void percpu_window_pool_fini(struct percpu_window_pool *p);

/** Take a window that shows no page, or a bounce buffer. Returns 0 or -ENOMEM. */
int percpu_window_get(struct percpu_lwbufs *f, bool bounces, struct percpu_window **ret);
void percpu_window_put(struct percpu_lwbufs *f, struct percpu_window *w);

/** Return the memory of free bounce buffers to the system, and the address space of a pool whose
 *  windows are all free. */
void percpu_window_discard(struct percpu_lwbufs *f);

/** Return the window with that id, in the blocks of its pool. */
static inline struct percpu_window *percpu_window_at(struct percpu_window *const *blocks,
						     uint32_t id)
{
	return &blocks[id / PERCPU_WINDOW_BLOCK][id % PERCPU_WINDOW_BLOCK];
}

/** Return how many bytes of the page the file has: 0 to f->size, or -errno. Of a file that may be
 *  written, -EBADF also says that the descriptor is another file's. */
int64_t percpu_window_length(const struct percpu_lwbufs *f, uint64_t page);

/** Map the page in the window. length is how many bytes of it the file has. Returns 0 or -errno. */
int percpu_window_show(const struct percpu_lwbufs *f, struct percpu_window *w, uint64_t page,
		       size_t length);

/** Replace the window's page by a mapping without access. If the kernel refuses that, the window
 *  goes on showing the page. Returns false if another mapping has taken the address: then the
 *  window must not be used any more. */
bool percpu_window_hide(struct percpu_lwbufs *f, struct percpu_window *w);

/** For PERCPU_LWBUF_DEBUG: allow or forbid stores to the window. Returns 0 or -errno. */
int percpu_window_allow_stores(const struct percpu_lwbufs *f, const struct percpu_window *w,
			       bool allowed);

/** Read the page into a bounce buffer. Returns 0 or -errno. */
int percpu_window_read(const struct percpu_lwbufs *f, struct percpu_window *w, uint64_t page);

/** Write a bounce buffer back to its page. Returns 0 or -errno. */
int percpu_window_write(const struct percpu_lwbufs *f, const struct percpu_window *w);

/** Read bytes of a page, from the byte `from` of it, until the end of the file. *ret becomes how
 *  many there were. Returns 0 or -errno. */
int percpu_page_read(const struct percpu_lwbufs *f, uint64_t page, size_t from, char *to,
		     size_t bytes, size_t *ret);

/** Write bytes to a page, from the byte `from` of it, unless they end beyond the file. Returns 0 or
 *  -errno. */
int percpu_page_write(const struct percpu_lwbufs *f, uint64_t page, size_t from, const char *bytes,
		      size_t n);

/* lwbuf_table.c */

#define PERCPU_WINDOW_WAYS 8 /* words of a set */

/* A word has, from the lowest bit: the window's id, a bit for each of its seats that is taken, and
 * the page's number + 1. A ghost has a page, but no id. */
#define PERCPU_WINDOW_ID (PERCPU_WINDOW_IDS - 1)
#define PERCPU_WINDOW_SEATS_SHIFT 20
#define PERCPU_WINDOW_PAGE_SHIFT (PERCPU_WINDOW_SEATS_SHIFT + PERCPU_WINDOW_SEATS)

/** Return a word of a table. seats has a bit for each seat that is taken. */
static inline uint64_t percpu_window_word(uint64_t page, uint32_t seats, uint32_t id)
{
	return (page + 1) << PERCPU_WINDOW_PAGE_SHIFT |
	       (uint64_t)seats << PERCPU_WINDOW_SEATS_SHIFT | id;
}

static inline uint64_t percpu_window_tag_of(uint64_t word)
{
	return word >> PERCPU_WINDOW_PAGE_SHIFT;
}

static inline uint32_t percpu_window_seats_of(uint64_t word)
{
	return word >> PERCPU_WINDOW_SEATS_SHIFT & ((1 << PERCPU_WINDOW_SEATS) - 1);
}

static inline uint32_t percpu_window_id_of(uint64_t word)
{
	return word & PERCPU_WINDOW_ID;
}

/** Return whether two words are of the same window and page. */
static inline bool percpu_window_is_same(uint64_t word, uint64_t other)
{
	const uint64_t seats = ((1 << PERCPU_WINDOW_SEATS) - 1) << PERCPU_WINDOW_SEATS_SHIFT;

	return ((word ^ other) & ~seats) == 0;
}

int percpu_window_table_create(struct percpu_lwbufs *f, size_t windows);

/** Set the number of sets for so many windows. Returns whether it has changed. Then the table's
 *  windows can no longer be found by their pages, and should be drained. */
bool percpu_window_table_fit(struct percpu_lwbufs *f, size_t windows);

/** Return the thread's CPU, when percpu_seq_cpu() does not know it. */
unsigned percpu_window_cpu(const struct percpu_lwbufs *f);

/** Return the distance of the page's set from the first set, in bytes. */
static inline size_t percpu_window_set(const struct percpu_lwbufs *f, uint64_t page)
{
	return (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >>
			__atomic_load_n(&f->set_shift, __ATOMIC_RELAXED)) *
	       (PERCPU_WINDOW_WAYS * sizeof(uint64_t));
}

/** Return the words of a set, in the table of the thread's CPU. */
static inline uint64_t *percpu_window_words(const struct percpu_lwbufs *f, size_t set)
{
	int cpu = percpu_seq_cpu();

	if (percpu_unlikely(cpu < 0 || (unsigned)cpu >= f->cpus))
		cpu = (int)percpu_window_cpu(f);
	return (uint64_t *)(void *)(f->sets + (unsigned)cpu * f->stride + set);
}

static inline uint64_t percpu_window_load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/** Replace old by word in this CPU's table, at a distance from the first set. Returns false if
 *  another value was there. */
static inline bool percpu_window_cmpxchg(const struct percpu_lwbufs *f, size_t at, uint64_t old,
					 uint64_t word)
{
	struct percpu_local slot;
	int64_t was;
	int r = percpu_seq_cmpxchg(f->sets + at, f->guard, f->stride, (int64_t)old, (int64_t)word,
				   &was);

	if (percpu_likely(r != PERCPU_SEQ_SLOW))
		return r == 0;
	slot = *f->table;
	slot.cell = f->sets + at;
	return percpu_local_cmpxchg_slow(&slot, (int64_t)old, (int64_t)word, &was) == 0;
}

/** Put a loose window into this CPU's table, with these seats taken. Returns a window that must
 *  leave the table, w itself if there is no place for it, or NULL. */
struct percpu_window *percpu_window_keep(const struct percpu_lwbufs *f, struct percpu_window *w,
					 uint32_t seats);

/** Remember that the page was asked for, unless windows fill its set. */
void percpu_window_remember(const struct percpu_lwbufs *f, uint64_t page);

/** Take the page's window out of another CPU's table, if it was freed so long ago that the CPU may
 *  have no use for it. Returns NULL if there is none. */
struct percpu_window *percpu_window_move(const struct percpu_lwbufs *f, uint64_t page);

/** Take a window that was freed long ago out of the table of any CPU, or another CPU's window
 *  that shows the page. Returns NULL if there is none. */
struct percpu_window *percpu_window_evict(const struct percpu_lwbufs *f, uint64_t page);

/** Unmap windows in the tables of all CPUs until goal are left. Returns 0, or the error of a
 *  fence: without a fence the call cannot take windows out of a table. */
int percpu_window_drain(struct percpu_lwbufs *f, uint64_t goal);

/** Return the word at a distance from the first set, in the table of any CPU. */
static inline uint64_t *percpu_window_word_at(const struct percpu_lwbufs *f, unsigned cpu,
					      size_t at)
{
	return (uint64_t *)(void *)(f->sets + cpu * f->stride + at);
}

/** The sequence, not inlined, for all but the usual case. */
bool percpu_window_swap(const struct percpu_lwbufs *f, size_t at, uint64_t old, uint64_t word);

/** Return whether this CPU's table has a window of the page. */
bool percpu_window_is_there(const struct percpu_lwbufs *f, uint64_t page);

/** Return whether this CPU's table has a place for a window of the page that no window has. */
bool percpu_window_has_place(const struct percpu_lwbufs *f, uint64_t page);

/* lwbuf_seats.c */

/** The rest of percpu_window_find(), not inlined: the window is shared, a ghost was found, or the
 *  swap failed. */
struct percpu_window *percpu_window_find_slow(const struct percpu_lwbufs *f, uint64_t page,
					      unsigned *ret_seat, bool *ret_known);

/** Take a seat of a window that shows this page, in this CPU's table. If there is none, return
 *  NULL, and set *ret_known if the page was asked for before. */
static inline struct percpu_window *percpu_window_find(const struct percpu_lwbufs *f, uint64_t page,
						       unsigned *ret_seat, bool *ret_known)
{
	size_t set = percpu_window_set(f, page);
	const uint64_t *words = percpu_window_words(f, set);
	uint64_t word;

	for (size_t way = 0; way < PERCPU_WINDOW_WAYS; way++) {
		word = percpu_window_load(&words[way]);
		if (percpu_window_tag_of(word) != page + 1)
			continue;
		PERCPU_STEP("lwbuf: window seen");
		*ret_seat = 0;
		if (percpu_likely(percpu_window_id_of(word) != 0 &&
				  percpu_window_seats_of(word) == 0) &&
		    percpu_likely(percpu_window_cmpxchg(
			    f, set + way * sizeof(word), word,
			    percpu_window_word(page, 1, percpu_window_id_of(word)))))
			return percpu_window_at(f->blocks, percpu_window_id_of(word));
		return percpu_window_find_slow(f, page, ret_seat, ret_known);
	}
	return NULL;
}

/** Claim that all taken seats of the word's window were freed on other CPUs. Returns false if a
 *  buffer has the window. Otherwise no other thread can take it out of its table until
 *  percpu_window_unclaim() or percpu_window_loosen(). */
bool percpu_window_claim(const struct percpu_lwbufs *f, uint64_t word);
void percpu_window_unclaim(const struct percpu_lwbufs *f, uint64_t word);

/** Return the window of a word that was claimed, and then taken out of its table. */
struct percpu_window *percpu_window_loosen(const struct percpu_lwbufs *f, uint64_t word);

/** What percpu_window_leave() did. */
enum percpu_window_left {
	PERCPU_WINDOW_KEPT,  /* the window is in its table */
	PERCPU_WINDOW_TAKEN, /* the window is loose: it was to leave the table, or is in a set where
				its page is no longer looked for */
	PERCPU_WINDOW_AWAY,  /* the window is in another CPU's table, or may be */
};

/** The rest of percpu_window_leave(), not inlined: for all but the usual case. */
enum percpu_window_left percpu_window_leave_slow(const struct percpu_lwbufs *f,
						 struct percpu_window *w, unsigned seat, bool keep);

/** Leave a seat of a window that is in a table. If no other buffer has the window, take it out of
 *  this CPU's table if it is not to be kept. */
static inline enum percpu_window_left percpu_window_leave(const struct percpu_lwbufs *f,
							  struct percpu_window *w, unsigned seat,
							  bool keep)
{
	size_t at = __atomic_load_n(&w->slot, __ATOMIC_RELAXED);
	uint64_t rest = percpu_window_word(w->page, 0, w->id);
	uint64_t word = rest | UINT64_C(1) << (PERCPU_WINDOW_SEATS_SHIFT + seat);

	/* The window is in the set where its page is looked for, with this buffer alone. */
	if (percpu_likely(keep && percpu_window_load(percpu_window_words(f, at)) == word) &&
	    percpu_likely(at - percpu_window_set(f, w->page) <
			  PERCPU_WINDOW_WAYS * sizeof(uint64_t))) {
		PERCPU_STEP("lwbuf: last seat to be left");
		if (percpu_likely(percpu_window_cmpxchg(f, at, word, rest)))
			return PERCPU_WINDOW_KEPT;
	}
	return percpu_window_leave_slow(f, w, seat, keep);
}

/** Take seats that were freed on other CPUs off the word of a window. The word is at this distance
 *  from the first set in the table of any CPU. Returns the window if none is left: it is loose.
 *  Returns NULL if some are, if the window is gone, or if a fence fails. */
struct percpu_window *percpu_window_settle(const struct percpu_lwbufs *f, size_t at, uint64_t word);

/** Return how much too large percpu_window_excess() is because of this window. */
unsigned percpu_window_excess_error(const struct percpu_lwbufs *f, const struct percpu_window *w);

/* lwbuf_check.c */

/** Clear a buffer that was freed, except the fields that the message on a second free prints. */
void percpu_lwbuf_clear_checked(struct percpu_lwbuf *b);

/** Return the window of a buffer of f, or of another file that still exists. Returns NULL if it
 *  has none. */
const struct percpu_window *percpu_lwbuf_window_checked(const struct percpu_lwbufs *f,
							const struct percpu_lwbuf *b);

/** Print to standard error what is wrong with a buffer, and abort. */
void percpu_lwbuf_complain(const struct percpu_lwbuf *b, const struct percpu_window *w,
			   const char *what) __attribute__((noreturn));

/* lwbuf_create.c */

/** Return whether wanted has been created and not yet destroyed. */
bool percpu_lwbufs_exist(const struct percpu_lwbufs *wanted);

/** Unmap the windows of all files that are not in use, and return the memory of free bounce
 *  buffers to the system. */
void percpu_lwbufs_reclaim(void);

/* sfbuf.c */

/** Unmap half of the shared buffers that have no reference, to make room. Returns false if there is
 *  none. */
bool percpu_sfbufs_give_way(struct percpu_lwbufs *f);

/** Give up the windows of shared buffers that have no reference. */
void percpu_sfbufs_reclaim(struct percpu_lwbufs *f);

int percpu_sfbufs_create(size_t max_excess, struct percpu_sfbufs **ret);

/** Return false if a buffer has references that were not inherited by a fork. */
bool percpu_sfbufs_idle(const struct percpu_sfbufs *s);
void percpu_sfbufs_destroy(struct percpu_sfbufs *s);

/** Return how many shared buffers are bounce buffers. */
uint64_t percpu_sfbufs_bounces(const struct percpu_sfbufs *s);

/** Called around a fork. */
void percpu_sfbufs_lock(struct percpu_sfbufs *s);
void percpu_sfbufs_unlock(struct percpu_sfbufs *s);
void percpu_sfbufs_in_child(struct percpu_sfbufs *s);

/* lwbuf.c */

/** Return how many windows are mapped, but not in use. Seats that were freed on another CPU than
 *  the window's can make that too many. */
uint64_t percpu_window_excess(const struct percpu_lwbufs *f);

/** Return whether as many windows are mapped as may stay so. */
bool percpu_window_is_full(const struct percpu_lwbufs *f);

/** Unmap a window that is not in use. */
void percpu_window_release(struct percpu_lwbufs *f, struct percpu_window *w);

/** For sfbuf.c: get a window or a bounce buffer of the page for a shared buffer. Returns 0 or
 *  -errno. */
int percpu_window_open(struct percpu_lwbufs *f, uint64_t page, struct percpu_window **ret);
void percpu_window_close(struct percpu_lwbufs *f, struct percpu_window *w);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * lwbuf.c - buffers for the pages of a file: chooses the backend of an allocation, and keeps or
 * unmaps a window that is freed. lwbuf_table.c has the mapped windows that are not in use,
 * lwbuf_pool.c those that are not mapped.
 *
 * With PERCPU_LWBUF_AUTO the first use of a page gets a bounce buffer, which costs less than a
 * mapping. If the page is asked for again while the table remembers it, it gets a window, as long
 * as fewer windows are mapped than max_excess. From then on only one miss in 256 replaces a window
 * that was not used for long. So a working set of any size keeps the windows that it has, and new
 * pages slowly replace unused ones. If the scheduler has moved a thread, its windows are in the
 * table of its old CPU. So one miss in 8 looks for the page's window on other CPUs, and takes it
 * if it was not used for long. That needs a fence, but no mapping.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/counter.h>

#include "lwbuf.h"

/* Of the allocations that find no window, one in so many may replace a window. */
#define REPLACE_EVERY 256
/* Of the allocations that find no window, one in so many looks in the tables of other CPUs. */
#define MOVE_EVERY 8
#define SEAT_SHIFT 16 /* of the seat, in the flags of a buffer */

uint64_t percpu_window_excess(const struct percpu_lwbufs *f)
{
	/* With the shown ones, which may be in use: all but the first seat of each window. */
	uint64_t shown = __atomic_load_n(&f->shown, __ATOMIC_RELAXED) +
			 (uint64_t)percpu_counter_fetch(f->sharers);
	uint64_t used = percpu_counter_fetch(f->used);

	return shown > used ? shown - used : 0;
}

bool percpu_window_is_full(const struct percpu_lwbufs *f)
{
	return __atomic_load_n(&f->shown, __ATOMIC_RELAXED) >=
	       __atomic_load_n(&f->max_excess, __ATOMIC_RELAXED);
}

static bool is_too_many(const struct percpu_lwbufs *f)
{
	size_t most = __atomic_load_n(&f->max_excess, __ATOMIC_RELAXED);

	return __atomic_load_n(&f->shown, __ATOMIC_RELAXED) > most &&
	       percpu_window_excess(f) > most;
}

void percpu_window_release(struct percpu_lwbufs *f, struct percpu_window *w)
{
	percpu_window_close(f, w);
	__atomic_fetch_sub(&f->shown, 1, __ATOMIC_RELAXED);
}

/* Allocation */

static void give_window(struct percpu_lwbufs *f, struct percpu_window *w, unsigned seat,
			unsigned flags, struct percpu_lwbuf *ret)
{
	uint64_t generation = w->generation[seat] + 1;

	__atomic_store_n(&w->generation[seat], generation, __ATOMIC_RELAXED);
	if (percpu_unlikely(f->flags & PERCPU_LWBUF_DEBUG)) {
		w->owner = (uint32_t)syscall(SYS_gettid);
		/* If mprotect(2) fails, such a store is not noticed. */
		if (!(flags & PERCPU_LWBUF_WRITE))
			(void)percpu_window_allow_stores(f, w, false);
	}
	/* Field by field: a copy of a whole struct would wait for the stores that made it. */
	ret->kva = w->at;
	ret->page = w->page;
	ret->of = f;
	ret->length = __atomic_load_n(&w->length, __ATOMIC_RELAXED);
	ret->window = w;
	ret->generation = (uint32_t)generation;
	ret->flags = flags | (f->flags & PERCPU_LWBUF_DEBUG) | seat << SEAT_SHIFT;
	ret->forks = f->forks;
}

static int bounce_page(struct percpu_lwbufs *f, uint64_t page, struct percpu_window **ret)
{
	struct percpu_window *w;
	int e = percpu_window_get(f, true, &w);

	if (e != 0)
		return e;
	e = percpu_window_read(f, w, page);
	if (e != 0) {
		percpu_window_put(f, w);
		return e;
	}
	*ret = w;
	return 0;
}

/* Get a window. It may show no page, another page, or, if another CPU had it, the page. */
static int find_window(struct percpu_lwbufs *f, uint64_t page, struct percpu_window **ret)
{
	struct percpu_window *w = NULL;
	int e;

	if (percpu_window_is_full(f) && percpu_window_excess(f) != 0)
		w = percpu_window_evict(f, page);
	if (w == NULL) {
		e = percpu_window_get(f, false, &w);
		if (e == 0)
			__atomic_fetch_add(&f->shown, 1, __ATOMIC_RELAXED);
		else if (percpu_window_excess(f) != 0)
			w = percpu_window_evict(f, page);
		if (e != 0 && w == NULL)
			return e;
	}
	*ret = w;
	return 0;
}

/* Unmap half of the free windows, and take one of those. */
static int get_drained(struct percpu_lwbufs *f, struct percpu_window **ret)
{
	(void)percpu_window_drain(f, percpu_window_excess(f) / 2);
	return percpu_window_get(f, false, ret);
}

/* Map the page in the window. If there are too many mappings, do so in one that was unmapped just
 * now: it may need fewer mappings than a window that was never mapped. On failure *w is closed. */
static int show_in_some(struct percpu_lwbufs *f, struct percpu_window **w, uint64_t page,
			size_t length)
{
	int e = percpu_window_show(f, *w, page, length);

	if (e == -ENOMEM && percpu_window_excess(f) != 0) {
		percpu_window_close(f, *w);
		e = get_drained(f, w);
		if (e != 0)
			return e;
		e = percpu_window_show(f, *w, page, length);
	}
	if (e != 0)
		percpu_window_close(f, *w);
	return e;
}

/* Get a loose window that shows the page, of which the file has so many bytes. */
static int map_page(struct percpu_lwbufs *f, uint64_t page, size_t length,
		    struct percpu_window **ret)
{
	struct percpu_window *w = NULL;
	int e = find_window(f, page, &w);

	if (e != 0)
		return e;
	PERCPU_STEP("lwbuf: window to be mapped");
	if (w->length == 0 || w->page != page) {
		e = show_in_some(f, &w, page, length);
		__atomic_fetch_add(&f->mapped, e == 0, __ATOMIC_RELAXED);
	}
	if (e != 0) {
		__atomic_fetch_sub(&f->shown, 1, __ATOMIC_RELAXED);
		return e;
	}
	w->length = (uint32_t)length;
	*ret = w;
	return 0;
}

/* Return whether a page that may be a copy gets a window. */
static bool deserves_window(const struct percpu_lwbufs *f, bool known, uint64_t misses)
{
	size_t most = __atomic_load_n(&f->max_excess, __ATOMIC_RELAXED);

	return known && most != 0 && (!percpu_window_is_full(f) || misses % REPLACE_EVERY == 0);
}

/* Read the length of a last page again: the file may have grown. Others may have the window. */
static void refresh(const struct percpu_lwbufs *f, struct percpu_window *w)
{
	int64_t length;

	if (percpu_likely(__atomic_load_n(&w->length, __ATOMIC_RELAXED) == f->size))
		return;
	length = percpu_window_length(f, w->page);
	if (length > 0)
		__atomic_store_n(&w->length, (uint32_t)length, __ATOMIC_RELAXED);
}

/* Get another CPU's window of the page, if may_move is set, or a bounce buffer. */
static int move_or_copy(struct percpu_lwbufs *f, uint64_t page, bool may_move,
			struct percpu_window **ret)
{
	struct percpu_window *w = may_move ? percpu_window_move(f, page) : NULL;

	if (w == NULL) {
		percpu_window_remember(f, page);
		return bounce_page(f, page, ret);
	}
	refresh(f, w);
	*ret = w;
	return 0;
}

/* Get a window or bounce buffer for a page that has no window in this CPU's table. */
static int miss_window(struct percpu_lwbufs *f, uint64_t page, unsigned flags, bool known,
		       struct percpu_window **ret)
{
	bool may_copy = f->backend == PERCPU_LWBUF_AUTO && !(flags & PERCPU_LWBUF_WRITE);
	uint64_t misses;
	int64_t length;
	int e;

	if (page > PERCPU_LWBUF_MAX_PAGE)
		return -ERANGE;
	if (!f->maps)
		return bounce_page(f, page, ret);
	misses = __atomic_fetch_add(&f->clock, 1, __ATOMIC_RELAXED);
	if (may_copy && !deserves_window(f, known, misses))
		return move_or_copy(f, page, known && misses % MOVE_EVERY == 0, ret);
	length = percpu_window_length(f, page);
	if (length <= 0)
		return length == 0 ? -ERANGE : (int)length;
	e = map_page(f, page, (size_t)length, ret);
	if (e == -ENOMEM && percpu_sfbufs_give_way(f))
		e = map_page(f, page, (size_t)length, ret);
	/* -EPERM: the file was sealed against writing, so no writable window can be mapped. */
	return (e == -ENOMEM || e == -EPERM) && may_copy ? bounce_page(f, page, ret) : e;
}

static struct percpu_window *find_in_table(const struct percpu_lwbufs *f, uint64_t page,
					   unsigned *ret_seat, bool *ret_known)
{
	struct percpu_window *w = NULL;

	if (f->maps && percpu_likely(page <= PERCPU_LWBUF_MAX_PAGE))
		w = percpu_window_find(f, page, ret_seat, ret_known);
	if (w != NULL)
		refresh(f, w);
	return w;
}

/* Put a window that was just mapped into the table, so that others can share it. Its buffer has
 * the first seat, or has the window alone. */
static void share_window(struct percpu_lwbufs *f, struct percpu_window *w)
{
	struct percpu_window *replaced = NULL;

	if (!(f->flags & PERCPU_LWBUF_DEBUG))
		replaced = percpu_window_keep(f, w, 1);
	if (replaced != NULL && replaced != w)
		percpu_window_release(f, replaced);
}

/* Allocate a buffer of a page that has no window with a free seat in this CPU's table. */
static __attribute__((noinline)) int alloc_missed(struct percpu_lwbufs *f, uint64_t page,
						  unsigned flags, bool known,
						  struct percpu_lwbuf *ret)
{
	struct percpu_window *w;
	int e = miss_window(f, page, flags, known, &w);

	if (e != 0)
		return e;
	if (w->bounces)
		__atomic_fetch_add(&f->bounced, 1, __ATOMIC_RELAXED);
	else
		percpu_counter_inc(f->used);
	give_window(f, w, 0, flags, ret);
	if (!w->bounces)
		share_window(f, w);
	return 0;
}

int percpu_lwbuf_alloc(struct percpu_lwbufs *f, uint64_t page, unsigned flags,
		       struct percpu_lwbuf *ret)
{
	struct percpu_window *w;
	bool known = false;
	unsigned seat = 0;

	if (f == NULL || ret == NULL || (flags & ~PERCPU_LWBUF_WRITE))
		return -EINVAL;
	if ((flags & PERCPU_LWBUF_WRITE) && !(f->flags & PERCPU_LWBUF_WRITABLE))
		return -EACCES;
	if (page < f->direct_pages) {
		*ret = (struct percpu_lwbuf){
			.kva = f->direct + (page << f->shift),
			.page = page,
			.of = f,
			.length = (uint32_t)f->size,
			.flags = flags,
			.forks = f->forks,
		};
		percpu_counter_inc(f->addresses);
		return 0;
	}
	w = find_in_table(f, page, &seat, &known);
	if (percpu_unlikely(w == NULL))
		return alloc_missed(f, page, flags, known, ret);
	percpu_counter_inc(f->used);
	give_window(f, w, seat, flags, ret);
	return 0;
}

/* Freeing */

/* Keep a loose window that is freed in the table, or unmap it. */
static void keep_or_release(struct percpu_lwbufs *f, struct percpu_window *w)
{
	struct percpu_window *too_many = w;

	if (!(f->flags & PERCPU_LWBUF_DEBUG) && !is_too_many(f))
		too_many = percpu_window_keep(f, w, 0);
	if (too_many != NULL)
		percpu_window_release(f, too_many);
}

/* Free a seat of a window that is not in its place, or not to be kept there. */
static __attribute__((noinline)) void free_seat_slow(struct percpu_lwbufs *f,
						     struct percpu_window *w, size_t at,
						     uint64_t word, enum percpu_window_left left)
{
	if (left == PERCPU_WINDOW_TAKEN) {
		keep_or_release(f, w);
		return;
	}
	/* Not w: it may be another buffer's by now. */
	w = is_too_many(f) ? percpu_window_settle(f, at, word) : NULL;
	if (w != NULL)
		keep_or_release(f, w);
}

/* Free a buffer's seat of a window. */
static void free_seat(struct percpu_lwbufs *f, struct percpu_window *w, unsigned seat)
{
	size_t at = __atomic_load_n(&w->slot, __ATOMIC_RELAXED);
	uint64_t word = percpu_window_word(w->page, 0, w->id);
	enum percpu_window_left left = PERCPU_WINDOW_TAKEN;

	__atomic_store_n(&w->freed, __atomic_load_n(&f->clock, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	percpu_counter_dec(f->used);
	if (percpu_likely(at != PERCPU_WINDOW_LOOSE))
		left = percpu_window_leave(f, w, seat, !is_too_many(f));
	if (percpu_unlikely(left != PERCPU_WINDOW_KEPT))
		free_seat_slow(f, w, at, word, left);
}

/* Return what is wrong with a buffer that is to be freed, or NULL. */
static const char *find_misuse(const struct percpu_lwbufs *f, const struct percpu_lwbuf *b,
			       const struct percpu_window *w, unsigned seat)
{
	if (b->of == NULL)
		return "is freed, but not allocated: freed twice, or never allocated";
	if (b->of != f)
		return "is not of the file that it is freed to";
	if (w == NULL)
		return "is freed, but is none that was ever allocated";
	if ((uint32_t)__atomic_load_n(&w->generation[seat], __ATOMIC_RELAXED) != b->generation ||
	    b->generation % 2 == 0)
		return "is freed twice: a copy of it was freed before";
	return NULL;
}

/* In a child of fork: a buffer that was allocated before the fork no longer counts as inherited. */
static void forget_inherited(struct percpu_lwbufs *f, const struct percpu_lwbuf *b)
{
	if (percpu_unlikely(b->forks != f->forks))
		__atomic_fetch_sub(&f->inherited, 1, __ATOMIC_RELAXED);
}

int percpu_lwbuf_free(struct percpu_lwbufs *f, struct percpu_lwbuf *b)
{
	struct percpu_window *w;
	const char *fault;
	unsigned seat;
	uint32_t flags;
	int e = 0;

	if (f == NULL || b == NULL)
		return -EINVAL;
	if (b->of == f && b->window == NULL && f->direct != NULL) {
		forget_inherited(f, b);
		percpu_counter_dec(f->addresses);
		memset(b, 0, sizeof(*b));
		return 0;
	}
	w = b->of == f ? b->window : NULL;
	flags = b->flags;
	seat = flags >> SEAT_SHIFT & (PERCPU_WINDOW_SEATS - 1);
	fault = find_misuse(f, b, w, seat);
	if (percpu_unlikely(fault != NULL)) {
		if (f->flags & PERCPU_LWBUF_DEBUG)
			percpu_lwbuf_complain(b, percpu_lwbuf_window_checked(f, b), fault);
		return -EINVAL;
	}
	forget_inherited(f, b);
	if (percpu_unlikely(f->flags & PERCPU_LWBUF_DEBUG))
		percpu_lwbuf_clear_checked(b);
	else
		memset(b, 0, sizeof(*b));
	__atomic_store_n(&w->generation[seat], w->generation[seat] + 1, __ATOMIC_RELAXED);
	if (percpu_likely(!w->bounces)) {
		free_seat(f, w, seat);
		return 0;
	}
	if (flags & PERCPU_LWBUF_WRITE)
		e = percpu_window_write(f, w);
	percpu_window_put(f, w);
	return e;
}

/* For sfbuf.c */

int percpu_window_open(struct percpu_lwbufs *f, uint64_t page, struct percpu_window **ret)
{
	struct percpu_window *w;
	int64_t length;
	int e;

	if (!f->maps)
		return bounce_page(f, page, ret);
	length = percpu_window_length(f, page);
	if (length <= 0)
		return length == 0 ? -ERANGE : (int)length;
	e = percpu_window_get(f, false, &w);
	if (e != 0 && percpu_window_excess(f) != 0)
		e = get_drained(f, &w);
	if (e != 0)
		return e;
	e = show_in_some(f, &w, page, (size_t)length);
	if (e == 0)
		*ret = w;
	return e;
}

void percpu_window_close(struct percpu_lwbufs *f, struct percpu_window *w)
{
	if (w->bounces || percpu_window_hide(f, w))
		percpu_window_put(f, w);
}

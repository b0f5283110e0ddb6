/* SPDX-License-Identifier: MIT */
/*
 * sfbuf.c - buffers for pages of a file that threads share.
 *
 * A buffer is in a bucket of the hash while it has a page. Without references it is on one of two
 * lists: kept, while its page stays mapped; or empty. The lock protects the hash, the lists, and
 * each change of a reference count from or to 0. Other changes of a count need no lock.
 *
 * A search of a bucket without the lock may follow a buffer into another bucket, or into another
 * hash after a growth. It reads valid memory nonetheless, because no buffer and no hash is freed
 * until all are destroyed; and what it misses is found under the lock. A buffer gets another
 * page only while it has no reference, and its word of references then gets a value that it did
 * not have before. So a thread loads the word, then sees the page, and then adds a reference by a
 * compare-and-swap from that word: the reference is to that page.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "../cpu/debug.h"
#include "sfbuf.h"

#define LONGEST_BUCKET 64 /* buffers that a search without the lock looks at */
#define QUARANTINE 64	  /* buffers that are not used again at once, with PERCPU_LWBUF_DEBUG */

/* References */

/* Take a reference. Return false if there is none. */
static bool try_reference(struct percpu_sfbuf_item *b)
{
	uint64_t refs = __atomic_load_n(&b->refs, __ATOMIC_RELAXED);

	while ((uint32_t)refs != 0) {
		PERCPU_STEP("sfbuf: references seen");
		if (__atomic_compare_exchange_n(&b->refs, &refs, refs + 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return true;
	}
	return false;
}

static uint64_t page_seen(const struct percpu_sfbuf_item *b)
{
	return __atomic_load_n(&b->sf.page, __ATOMIC_RELAXED);
}

/* Take a reference. Return false if there is none, or the buffer has another page. It must not take
 * a reference and free it again: that might be the last one, and an error of the write back would
 * reach no thread. */
static bool try_reference_to(struct percpu_sfbuf_item *b, uint64_t page)
{
	uint64_t refs = __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE);

	while ((uint32_t)refs != 0 && page_seen(b) == page) {
		PERCPU_STEP("sfbuf: buffer seen");
		if (__atomic_compare_exchange_n(&b->refs, &refs, refs + 1, false, __ATOMIC_ACQUIRE,
						__ATOMIC_ACQUIRE))
			return true;
	}
	return false;
}

/* After a free that left so many references. A child of fork cannot tell references apart, so the
 * inherited ones count as freed last. */
static void lower_inherited(struct percpu_sfbuf_item *b, uint32_t left)
{
	uint32_t n = __atomic_load_n(&b->inherited, __ATOMIC_RELAXED);

	while (percpu_unlikely(n > left)) {
		PERCPU_STEP("sfbuf: inherited reference given");
		if (__atomic_compare_exchange_n(&b->inherited, &n, left, false, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return;
	}
}

/* Free a reference that is not the last one. Return false if it is, and set *ret_refs to the word
 * as it was. Acquire: this thread then sees what other threads have stored to the page. */
static bool try_unreference(struct percpu_sfbuf_item *b, uint64_t *ret_refs)
{
	uint64_t refs = __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE);

	while ((uint32_t)refs > 1)
		if (__atomic_compare_exchange_n(&b->refs, &refs, refs - 1 + PERCPU_SFBUF_GIVEN,
						false, __ATOMIC_RELEASE, __ATOMIC_ACQUIRE)) {
			lower_inherited(b, (uint32_t)refs - 1);
			return true;
		}
	*ret_refs = refs;
	return false;
}

/* Return a window or bounce buffer to its pool. NULL is fine. */
static void close_window(struct percpu_lwbufs *f, struct percpu_window *w)
{
	if (w == NULL)
		return;
	if (w->bounces)
		__atomic_fetch_sub(&f->shared->bounces, 1, __ATOMIC_RELAXED);
	percpu_window_close(f, w);
}

/* Keep a buffer that has lost its last reference, if its page is mapped, and then no more than
 * max_excess of them. Return the window that is to be closed, or NULL. A copy is not worth
 * keeping: it would be read again. */
static struct percpu_window *keep_buffer(struct percpu_lwbufs *f, struct percpu_sfbuf_item *b)
{
	struct percpu_sfbufs *s = f->shared;

	if (b->window == NULL || b->window->bounces || (f->flags & PERCPU_LWBUF_DEBUG))
		return percpu_sfbufs_detach(s, b);
	percpu_sfbufs_add(&s->kept, b);
	if (s->kept.items <= s->max_excess)
		return NULL;
	b = s->kept.oldest;
	percpu_sfbufs_remove(&s->kept, b);
	return percpu_sfbufs_detach(s, b);
}

/* Unmap the kept buffer that was freed longest ago. Return false if there are no more than `most`.
 */
static bool unmap_oldest(struct percpu_lwbufs *f, size_t most)
{
	struct percpu_sfbufs *s = f->shared;
	struct percpu_window *w = NULL;
	struct percpu_sfbuf_item *b;

	percpu_sfbufs_lock(s);
	if (s->kept.items > most) {
		b = s->kept.oldest;
		percpu_sfbufs_remove(&s->kept, b);
		w = percpu_sfbufs_detach(s, b);
	}
	percpu_sfbufs_unlock(s);
	close_window(f, w);
	return w != NULL;
}

bool percpu_sfbufs_give_way(struct percpu_lwbufs *f)
{
	size_t kept = __atomic_load_n(&f->shared->kept.items, __ATOMIC_RELAXED);
	bool given = unmap_oldest(f, kept / 2);

	while (unmap_oldest(f, kept / 2))
		;
	return given;
}

void percpu_sfbufs_reclaim(struct percpu_lwbufs *f)
{
	size_t n = __atomic_load_n(&f->shared->kept.items, __ATOMIC_RELAXED);

	while (n-- > 0 && unmap_oldest(f, 0))
		;
}

/* Free the last reference, under the lock. Return false if the word has changed: another thread
 * has, or had, a reference meanwhile, and may have stored to the page. */
static bool give_last(struct percpu_lwbufs *f, struct percpu_sfbuf_item *b, uint64_t refs,
		      struct percpu_window **ret_closing)
{
	if (!__atomic_compare_exchange_n(&b->refs, &refs, refs - 1, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return false;
	lower_inherited(b, 0);
	PERCPU_STEP("sfbuf: last reference given");
	*ret_closing = keep_buffer(f, b);
	return true;
}

/* Free a reference. If it is the last one, write the page back before that, and again if another
 * thread may have stored to it meanwhile. */
static int drop_reference(struct percpu_lwbufs *f, struct percpu_sfbuf_item *b)
{
	struct percpu_window *closing = NULL;
	struct percpu_sfbufs *s = f->shared;
	bool given = false, dirty;
	uint64_t refs;
	int e = 0;

	while (!given && !try_unreference(b, &refs)) {
		PERCPU_STEP("sfbuf: to be written back");
		dirty = __atomic_exchange_n(&b->dirty, false, __ATOMIC_RELAXED);
		if (dirty && b->window != NULL && b->window->bounces)
			e = percpu_window_write(f, b->window);
		PERCPU_STEP("sfbuf: last reference");
		percpu_sfbufs_lock(s);
		given = give_last(f, b, refs, &closing);
		percpu_sfbufs_unlock(s);
		if (!given && dirty)
			__atomic_store_n(&b->dirty, true, __ATOMIC_RELAXED);
		if (!given)
			e = 0; /* the thread that frees the last one writes again */
	}
	close_window(f, closing);
	return e;
}

/* Allocation */

static struct percpu_sfbuf_item *next_seen(struct percpu_sfbuf_item *const *from)
{
	return __atomic_load_n(from, __ATOMIC_ACQUIRE);
}

/* Find the page's buffer without the lock, if it has references, and take one. */
static struct percpu_sfbuf_item *find_used(struct percpu_lwbufs *f, uint64_t page)
{
	struct percpu_sfbuf_item *b = next_seen(percpu_sfbufs_bucket(f->shared, page));

	for (int n = 0; b != NULL && n < LONGEST_BUCKET; n++, b = next_seen(&b->in_bucket)) {
		if (page_seen(b) != page)
			continue;
		if (!try_reference_to(b, page))
			return NULL;
		PERCPU_STEP("sfbuf: reference taken");
		return b;
	}
	return NULL;
}

/* Take a buffer without a page, under the lock. If there is no memory for another one, take the
 * kept one that was freed longest ago. It has its window until it is filled. */
static struct percpu_sfbuf_item *take_buffer(struct percpu_lwbufs *f)
{
	struct percpu_sfbufs *s = f->shared;
	struct percpu_sfbuf_item *b =
		percpu_sfbufs_take(s, f->flags & PERCPU_LWBUF_DEBUG ? QUARANTINE : 0);

	if (b == NULL && s->kept.oldest != NULL) {
		b = s->kept.oldest;
		percpu_sfbufs_remove(&s->kept, b);
		percpu_sfbufs_leave(s, b);
	}
	return b;
}

/* Get a buffer for the page, with a reference, under the lock. If *ret_fill is set, the caller
 * must fill it. */
static int get_buffer(struct percpu_lwbufs *f, uint64_t page, struct percpu_sfbuf_item **ret,
		      bool *ret_fill)
{
	struct percpu_sfbufs *s = f->shared;
	struct percpu_sfbuf_item *b = percpu_sfbufs_find(s, page);
	uint64_t refs;

	if (b != NULL && percpu_sfbuf_refs(b) != 0) {
		__atomic_fetch_add(&b->refs, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(&s->hits, 1, __ATOMIC_RELAXED);
		*ret = b;
		return 0;
	}
	if (b != NULL) {
		*ret_fill = b->sf.length != f->size;
		__atomic_fetch_add(&s->hits, !*ret_fill, __ATOMIC_RELAXED);
		percpu_sfbufs_remove(&s->kept, b);
	} else {
		*ret_fill = true;
		b = take_buffer(f);
		if (b == NULL)
			return -ENOMEM;
		percpu_sfbufs_enter(s, b, page);
	}
	if (*ret_fill) {
		__atomic_store_n(&b->state, PERCPU_SFBUF_FILLING, __ATOMIC_RELAXED);
		__atomic_fetch_add(&s->fills, 1, __ATOMIC_RELAXED);
	}
	/* A value that the word did not have before: see try_reference_to(). */
	refs = __atomic_load_n(&b->refs, __ATOMIC_RELAXED) & -PERCPU_SFBUF_GIVEN;
	__atomic_store_n(&b->refs, refs + PERCPU_SFBUF_GIVEN + 1, __ATOMIC_RELEASE);
	*ret = b;
	return 0;
}

/* Get a window or bounce buffer of the page. If there is no memory, address space or mapping left,
 * kept buffers make room, after free windows. */
static int open_window(struct percpu_lwbufs *f, uint64_t page, struct percpu_window **ret)
{
	int e = percpu_window_open(f, page, ret);

	return e == -ENOMEM && percpu_sfbufs_give_way(f) ? percpu_window_open(f, page, ret) : e;
}

/* Bring the page into the buffer. No other thread uses its window. */
static int fill_buffer(struct percpu_lwbufs *f, struct percpu_sfbuf_item *b)
{
	struct percpu_window *before = b->window;
	uint64_t page = b->sf.page;
	int e;

	b->window = NULL;
	close_window(f, before);
	if (page < f->direct_pages) {
		b->sf.kva = f->direct + (page << f->shift);
		b->sf.length = f->size;
		return 0;
	}
	e = open_window(f, page, &b->window);
	if (e != 0)
		return e;
	if (b->window->bounces)
		__atomic_fetch_add(&f->shared->bounces, 1, __ATOMIC_RELAXED);
	b->sf.kva = b->window->at;
	b->sf.length = b->window->length;
	if (f->flags & PERCPU_LWBUF_DEBUG)
		(void)percpu_window_allow_stores(f, b->window, false);
	return 0;
}

static void fill_and_tell(struct percpu_lwbufs *f, struct percpu_sfbuf_item *b)
{
	int e = fill_buffer(f, b);

	PERCPU_STEP("sfbuf: filled");
	if (e != 0) {
		percpu_sfbufs_lock(f->shared);
		percpu_sfbufs_leave(f->shared, b);
		percpu_sfbufs_unlock(f->shared);
		b->error = e;
	}
	__atomic_store_n(&b->state, e == 0 ? PERCPU_SFBUF_READY : PERCPU_SFBUF_FAILED,
			 __ATOMIC_RELEASE);
	percpu_futex_wake(&b->state);
}

int percpu_sfbuf_alloc(struct percpu_lwbufs *f, uint64_t page, unsigned flags,
		       struct percpu_sfbuf **ret)
{
	bool must_fill = false;
	struct percpu_sfbuf_item *b;
	int e = 0;

	if (f == NULL || ret == NULL || (flags & ~PERCPU_SFBUF_WRITE))
		return -EINVAL;
	if ((flags & PERCPU_SFBUF_WRITE) && !(f->flags & PERCPU_LWBUF_WRITABLE))
		return -EACCES;
	if (page > PERCPU_LWBUF_MAX_PAGE)
		return -ERANGE;
	b = find_used(f, page);
	if (b == NULL) {
		percpu_sfbufs_lock(f->shared);
		e = get_buffer(f, page, &b, &must_fill);
		percpu_sfbufs_unlock(f->shared);
	}
	if (e != 0)
		return e;
	if (must_fill)
		fill_and_tell(f, b);
	while (__atomic_load_n(&b->state, __ATOMIC_ACQUIRE) == PERCPU_SFBUF_FILLING && e == 0) {
		e = percpu_is_forking() ? -EDEADLK : 0;
		if (e == 0)
			percpu_futex_wait(&b->state, PERCPU_SFBUF_FILLING, 0);
	}
	if (e == 0 && b->state == PERCPU_SFBUF_FAILED)
		e = b->error;
	else if (e == 0 && (flags & PERCPU_SFBUF_WRITE) && (f->flags & PERCPU_LWBUF_DEBUG))
		e = percpu_window_allow_stores(f, b->window, true);
	if (e != 0) {
		(void)drop_reference(f, b);
		return e;
	}
	if (flags & PERCPU_SFBUF_WRITE)
		__atomic_store_n(&b->dirty, true, __ATOMIC_RELAXED);
	*ret = &b->sf;
	return 0;
}

/* Print what is wrong with a buffer, and abort. b is NULL if sf is not of the file, or has had no
 * page yet. */
__attribute__((noreturn)) static void complain_of_sfbuf(const struct percpu_sfbuf *sf,
							const struct percpu_sfbuf_item *b,
							const char *what)
{
	uint64_t page;

	if (b == NULL)
		percpu_debug_die("sfbuf %p: %s", (const void *)sf, what);
	page = page_seen(b) != PERCPU_SFBUF_NO_PAGE ? page_seen(b) : b->page_before;
	percpu_debug_die("sfbuf %p, page %llu: %s", (const void *)sf, (unsigned long long)page,
			 what);
}

/* Return whether the buffer was ever allocated: that makes the upper half of the word not 0. */
static bool has_had_page(const struct percpu_sfbuf_item *b)
{
	return __atomic_load_n(&b->refs, __ATOMIC_RELAXED) != 0;
}

/* Return the buffer, or NULL if sf is not of the file, or has no references. */
static struct percpu_sfbuf_item *checked(struct percpu_lwbufs *f, struct percpu_sfbuf *sf)
{
	struct percpu_sfbuf_item *b;
	const char *fault = NULL;

	if (f == NULL || sf == NULL)
		return NULL;
	b = percpu_sfbufs_own(f->shared, sf);
	if (b == NULL)
		fault = "is not of this file";
	else if (percpu_sfbuf_refs(b) == 0)
		fault = "has no reference: freed twice, or used after it was freed";
	if (fault != NULL && (f->flags & PERCPU_LWBUF_DEBUG))
		complain_of_sfbuf(sf, b != NULL && has_had_page(b) ? b : NULL, fault);
	return fault == NULL ? b : NULL;
}

int percpu_sfbuf_ref(struct percpu_lwbufs *f, struct percpu_sfbuf *sf)
{
	struct percpu_sfbuf_item *b = checked(f, sf);

	return b != NULL && try_reference(b) ? 0 : -EINVAL;
}

int percpu_sfbuf_free(struct percpu_lwbufs *f, struct percpu_sfbuf *sf)
{
	struct percpu_sfbuf_item *b = checked(f, sf);

	return b != NULL ? drop_reference(f, b) : -EINVAL;
}

int percpu_sfbuf_set_max_excess(struct percpu_lwbufs *f, size_t n)
{
	if (f == NULL)
		return -EINVAL;
	percpu_sfbufs_lock(f->shared);
	__atomic_store_n(&f->shared->max_excess, n, __ATOMIC_RELAXED);
	percpu_sfbufs_unlock(f->shared);
	while (unmap_oldest(f, n))
		;
	return 0;
}

void percpu_sfbuf_stats(const struct percpu_lwbufs *f, struct percpu_sfbuf_stats *ret)
{
	if (f == NULL || ret == NULL)
		return;
	*ret = (struct percpu_sfbuf_stats){
		.used = percpu_sfbufs_used(f->shared),
		.excess = __atomic_load_n(&f->shared->kept.items, __ATOMIC_RELAXED),
		.max_excess = __atomic_load_n(&f->shared->max_excess, __ATOMIC_RELAXED),
		.hits = __atomic_load_n(&f->shared->hits, __ATOMIC_RELAXED),
		.fills = __atomic_load_n(&f->shared->fills, __ATOMIC_RELAXED),
	};
}

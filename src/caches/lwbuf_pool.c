/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_pool.c - windows that are not mapped and bounce buffers that are free, and how a page
 * comes into them.
 *
 * Address space is reserved in pieces, each as large as all pieces before it, and stays reserved
 * until the buffers are destroyed. A window keeps its address; MAP_FIXED replaces the page there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lwbuf.h"

#define FIRST_BYTES ((size_t)4 << 20) /* of the first piece: 4 windows of the largest size */
#define FIRST_MOST 64
#define QUARANTINE 64 /* free windows that stay without access, with PERCPU_LWBUF_DEBUG */

/* A piece of reserved address space. */
struct percpu_space {
	struct percpu_space *before;
	char *at;
	size_t windows;
	size_t used; /* windows that were made in it */
};

/* With PERCPU_LWBUF_DEBUG bounce buffers have gaps between them, so that each is a mapping of its
 * own while it has access. Taking the access away then splits no mapping, which the kernel may
 * refuse. */
int percpu_window_pool_init(const struct percpu_lwbufs *f, struct percpu_window_pool *p,
			    bool bounces)
{
	p->bounces = bounces;
	p->shift = f->shift + (bounces && (f->flags & PERCPU_LWBUF_DEBUG));
	p->last = &p->first;
	p->blocks = calloc(PERCPU_WINDOW_IDS / PERCPU_WINDOW_BLOCK, sizeof(struct percpu_window *));
	return p->blocks != NULL ? 0 : -ENOMEM;
}

/* Unmap a piece. If another mapping has taken an address, leave the windows that were made to
 * percpu_window_pool_fini(), which unmaps them one by one. */
static void unmap_space(const struct percpu_window_pool *p, const struct percpu_space *s)
{
	size_t used = p->lost ? s->used : 0;

	if (used < s->windows)
		munmap(s->at + (used << p->shift), (s->windows - used) << p->shift);
}

void percpu_window_pool_fini(struct percpu_window_pool *p)
{
	struct percpu_space *s;

	while ((s = p->spaces) != NULL) {
		unmap_space(p, s);
		p->spaces = s->before;
		free(s);
	}
	for (uint32_t id = 1; p->lost && id <= p->made; id++)
		if (percpu_window_at(p->blocks, id)->at != NULL)
			munmap(percpu_window_at(p->blocks, id)->at, (size_t)1 << p->shift);
	for (size_t i = 0; p->blocks != NULL && p->blocks[i] != NULL; i++)
		free(p->blocks[i]);
	free(p->blocks);
}

/* Reserve address space for as many windows as there are, or for the first ones. */
static int reserve_windows(const struct percpu_lwbufs *f, struct percpu_window_pool *p)
{
	bool has_access = p->bounces && !(f->flags & PERCPU_LWBUF_DEBUG);
	int prot = has_access ? PROT_READ | PROT_WRITE : PROT_NONE;
	size_t n = FIRST_BYTES >> f->shift;
	struct percpu_space *s = malloc(sizeof(*s));

	if (s == NULL)
		return -ENOMEM;
	n = n < FIRST_MOST ? n : FIRST_MOST;
	if (p->room != 0)
		n = p->room;
	*s = (struct percpu_space){ .before = p->spaces, .windows = n };
	s->at = mmap(NULL, n << p->shift, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (n << p->shift >> p->shift != n || s->at == MAP_FAILED) {
		free(s);
		return -ENOMEM;
	}
	p->spaces = s;
	__atomic_store_n(&p->room, p->room + n, __ATOMIC_RELAXED);
	return 0;
}

/* Allocate structs of windows. Other threads load `freed` atomically, so no plain store sets it
 * after this. */
static struct percpu_window *make_block(void)
{
	size_t size = PERCPU_WINDOW_BLOCK * sizeof(struct percpu_window);
	struct percpu_window *block = aligned_alloc(_Alignof(struct percpu_window), size);

	if (block != NULL)
		memset(block, 0, size);
	return block;
}

/* Make another window. Ids begin with 1. */
static int make_window(const struct percpu_lwbufs *f, struct percpu_window_pool *p,
		       struct percpu_window **ret)
{
	struct percpu_window **block = &p->blocks[(p->made + 1) / PERCPU_WINDOW_BLOCK], *w;
	int e = 0;

	if (p->made + 1 == PERCPU_WINDOW_IDS)
		return -ENOMEM;
	if (*block == NULL)
		__atomic_store_n(block, make_block(), __ATOMIC_RELEASE);
	if (*block == NULL)
		return -ENOMEM;
	if (p->made == p->room)
		e = reserve_windows(f, p);
	if (e != 0)
		return e;
	w = percpu_window_at(p->blocks, p->made + 1);
	w->at = p->spaces->at + (p->spaces->used++ << p->shift);
	w->id = p->made + 1;
	w->bounces = p->bounces;
	w->slot = PERCPU_WINDOW_LOOSE;
	p->made++;
	if (p->made > p->most)
		__atomic_store_n(&p->most, p->made, __ATOMIC_RELEASE);
	*ret = w;
	return 0;
}

static struct percpu_window_pool *pool_of(struct percpu_lwbufs *f, bool bounces)
{
	return bounces ? &f->bounces : &f->windows;
}

/* Put the window where it is used first; with PERCPU_LWBUF_DEBUG where it is used last. */
void percpu_window_put(struct percpu_lwbufs *f, struct percpu_window *w)
{
	struct percpu_window_pool *p = pool_of(f, w->bounces);

	if (w->bounces && (f->flags & PERCPU_LWBUF_DEBUG))
		(void)mprotect(w->at, f->size, PROT_NONE);
	percpu_mutex_lock(&f->lock);
	w->next = f->flags & PERCPU_LWBUF_DEBUG ? NULL : p->first;
	if (f->flags & PERCPU_LWBUF_DEBUG) {
		*p->last = w;
		p->last = &w->next;
	} else {
		p->first = w;
	}
	__atomic_store_n(&p->out, p->out - 1, __ATOMIC_RELAXED);
	percpu_mutex_unlock(&f->lock);
}

int percpu_window_get(struct percpu_lwbufs *f, bool bounces, struct percpu_window **ret)
{
	struct percpu_window_pool *p = pool_of(f, bounces);
	int e;

	percpu_mutex_lock(&f->lock);
	/* With DEBUG, windows stay without access for a while, so that late accesses are seen. */
	if (p->first == NULL || ((f->flags & PERCPU_LWBUF_DEBUG) && p->made - p->out < QUARANTINE))
		e = make_window(f, p, ret);
	else
		e = -ENOMEM;
	if (e != 0 && p->first != NULL) {
		*ret = p->first;
		p->first = p->first->next;
		if (p->first == NULL)
			p->last = &p->first;
		e = 0;
	}
	if (e == 0)
		__atomic_store_n(&p->out, p->out + 1, __ATOMIC_RELAXED);
	PERCPU_STEP("lwbuf: window from the pool");
	percpu_mutex_unlock(&f->lock);
	if (e == 0 && bounces && (f->flags & PERCPU_LWBUF_DEBUG) &&
	    mprotect((*ret)->at, f->size, PROT_READ | PROT_WRITE) != 0) {
		percpu_window_put(f, *ret);
		e = -ENOMEM;
	}
	return e;
}

/* Return the address space of a pool. A window of it gets another address when it is made again,
 * and keeps its generations. If an address was lost, its window is not on the list. */
static void return_spaces(struct percpu_window_pool *p)
{
	struct percpu_space *s;

	if (p->out != 0)
		return;
	while ((s = p->spaces) != NULL) {
		unmap_space(p, s);
		p->spaces = s->before;
		free(s);
	}
	p->made = 0;
	p->first = NULL;
	p->last = &p->first;
	__atomic_store_n(&p->room, 0, __ATOMIC_RELAXED);
}

void percpu_window_discard(struct percpu_lwbufs *f)
{
	percpu_mutex_lock(&f->lock);
	return_spaces(&f->windows);
	return_spaces(&f->bounces);
	for (struct percpu_window *w = f->bounces.first; w != NULL; w = w->next)
		(void)madvise(w->at, f->size, MADV_DONTNEED);
	percpu_mutex_unlock(&f->lock);
}

/* Windows */

/* In all calls page is at most MAX_PAGE, so that its byte offset does not overflow. */
int64_t percpu_window_length(const struct percpu_lwbufs *f, uint64_t page)
{
	struct stat st;
	uint64_t begin = page << f->shift, size;

	if (fstat(f->fd, &st) != 0)
		return percpu_errno();
	if ((f->flags & PERCPU_LWBUF_WRITABLE) && (st.st_dev != f->device || st.st_ino != f->inode))
		return -EBADF;
	size = (uint64_t)st.st_size;
	if (begin >= size)
		return 0;
	return (int64_t)(size - begin < f->size ? size - begin : f->size);
}

int percpu_window_show(const struct percpu_lwbufs *f, struct percpu_window *w, uint64_t page,
		       size_t length)
{
	int prot = f->flags & PERCPU_LWBUF_WRITABLE ? PROT_READ | PROT_WRITE : PROT_READ;

	if (mmap(w->at, f->size, prot, MAP_SHARED | MAP_FIXED, f->fd, (off_t)(page << f->shift)) ==
	    MAP_FAILED)
		return percpu_errno();
	w->page = page;
	w->length = (uint32_t)length;
	return 0;
}

int percpu_window_allow_stores(const struct percpu_lwbufs *f, const struct percpu_window *w,
			       bool allowed)
{
	int prot = allowed ? PROT_READ | PROT_WRITE : PROT_READ;

	return mprotect(w->at, f->size, prot) == 0 ? 0 : percpu_errno();
}

/* If the process has too many mappings, the kernel refuses to replace one, but not to unmap it,
 * which makes room. Before the window is mapped again, another thread may map something there. */
bool percpu_window_hide(struct percpu_lwbufs *f, struct percpu_window *w)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	bool shows = w->length != 0;
	char *at;

	w->length = 0;
	if (mmap(w->at, f->size, PROT_NONE, flags | MAP_FIXED, -1, 0) != MAP_FAILED || !shows)
		return true;
	if (munmap(w->at, f->size) != 0)
		return true; /* it goes on showing its page, until another one takes its place */
	PERCPU_STEP("lwbuf: window unmapped");
	at = mmap(w->at, f->size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
	if (at == w->at)
		return true;
	if (at != MAP_FAILED)
		munmap(at, f->size);
	w->at = NULL;
	__atomic_store_n(&f->windows.lost, true, __ATOMIC_RELAXED);
	return false;
}

/* Bounce buffers */

int percpu_page_read(const struct percpu_lwbufs *f, uint64_t page, size_t from, char *to,
		     size_t bytes, size_t *ret)
{
	int state = percpu_defer_cancel(), e = 0;
	size_t done = 0;
	ssize_t n = 1;

	while (done < bytes && n > 0) {
		n = pread(f->fd, to + done, bytes - done,
			  (off_t)((page << f->shift) + from + done));
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno == EINTR)
			n = 1;
		else if (n < 0)
			e = percpu_errno();
	}
	percpu_restore_cancel(state);
	*ret = done;
	return e;
}

int percpu_window_read(const struct percpu_lwbufs *f, struct percpu_window *w, uint64_t page)
{
	size_t done;
	int e = percpu_page_read(f, page, 0, w->at, f->size, &done);

	w->page = page;
	w->length = (uint32_t)done;
	return e != 0 ? e : done == 0 ? -ERANGE : 0;
}

/* Return 0 if so many bytes from the page's first one may be written, or -errno. A process
 * that shares the open file may have set O_APPEND since; then pwrite(2) would append. */
static int check_write(const struct percpu_lwbufs *f, uint64_t page, size_t bytes)
{
	int64_t length = percpu_window_length(f, page);
	int mode = fcntl(f->fd, F_GETFL);

	if (length < 0)
		return (int)length;
	/* Bytes that were cut off must not come back. */
	if ((uint64_t)length < bytes)
		return -ERANGE;
	if (mode < 0)
		return percpu_errno();
	return mode & O_APPEND ? -ENOTSUP : 0;
}

int percpu_page_write(const struct percpu_lwbufs *f, uint64_t page, size_t from, const char *bytes,
		      size_t n)
{
	int state = percpu_defer_cancel(), e = check_write(f, page, from + n);
	size_t done = 0;
	ssize_t wrote;

	PERCPU_STEP("lwbuf: about to write back");
	while (e == 0 && done < n) {
		wrote = pwrite(f->fd, bytes + done, n - done,
			       (off_t)((page << f->shift) + from + done));
		if (wrote > 0)
			done += (size_t)wrote;
		else if (wrote == 0 || errno != EINTR)
			e = wrote == 0 || errno == EINVAL ? -EIO :
							    percpu_errno(); /* not the caller's */
	}
	percpu_restore_cancel(state);
	return e;
}

int percpu_window_write(const struct percpu_lwbufs *f, const struct percpu_window *w)
{
	return percpu_page_write(f, w->page, 0, w->at, w->length);
}

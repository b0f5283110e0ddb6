/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_ahead.c - map pages before they are asked for, limit how many stay mapped, and unmap those
 * that nobody asks for.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "lwbuf.h"

#ifndef MADV_POPULATE_READ /* since Linux 5.14; not in the headers of older C libraries */
#define MADV_POPULATE_READ 22
#endif

/* Return whether the file has all of these pages, of the last one at least a byte. */
static int check_pages(const struct percpu_lwbufs *f, uint64_t first, uint64_t n)
{
	uint64_t last = first + n - 1;
	int64_t length;

	if (last < first || last > PERCPU_LWBUF_MAX_PAGE)
		return -ERANGE;
	length = percpu_window_length(f, last);
	return length > 0 ? 0 : length == 0 ? -ERANGE : (int)length;
}

/* Give the page a window in this CPU's table, without unmapping another one. *ret becomes false if
 * there are enough windows, or they fill the page's set. */
static int populate_page(struct percpu_lwbufs *f, uint64_t page, bool *ret)
{
	struct percpu_window *w, *replaced;
	int64_t length;
	int e;

	*ret = percpu_window_is_there(f, page);
	if (*ret || percpu_window_is_full(f) || !percpu_window_has_place(f, page))
		return 0;
	length = percpu_window_length(f, page);
	if (length <= 0)
		return length == 0 ? -ERANGE : (int)length;
	e = percpu_window_get(f, false, &w);
	if (e != 0)
		return e;
	e = percpu_window_show(f, w, page, (size_t)length);
	if (e != 0) {
		percpu_window_close(f, w);
		return e;
	}
	__atomic_fetch_add(&f->shown, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&f->mapped, 1, __ATOMIC_RELAXED);
	(void)madvise(w->at, f->size, MADV_POPULATE_READ);
	__atomic_store_n(&w->freed, __atomic_load_n(&f->clock, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
	replaced = percpu_window_keep(f, w, 0);
	*ret = replaced != w;
	if (replaced != NULL)
		percpu_window_release(f, replaced);
	return 0;
}

int percpu_lwbuf_populate(struct percpu_lwbufs *f, uint64_t first, uint64_t n, uint64_t *ret)
{
	uint64_t done = 0;
	bool more = true;
	int e;

	if (f == NULL)
		return -EINVAL;
	if ((f->direct == NULL && !f->maps) || (f->flags & PERCPU_LWBUF_DEBUG))
		return -ENOTSUP;
	e = n == 0 ? 0 : check_pages(f, first, n);
	if (e != 0)
		return e;
	if (first < f->direct_pages) {
		done = n < f->direct_pages - first ? n : f->direct_pages - first;
		(void)madvise(f->direct + (first << f->shift), (size_t)(done << f->shift),
			      MADV_POPULATE_READ);
	}
	while (done < n && more && e == 0) {
		e = f->maps ? populate_page(f, first + done, &more) : 0;
		more = more && f->maps;
		done += more && e == 0;
	}
	if (e == 0 && ret != NULL)
		*ret = done;
	return e;
}

static size_t most_excess(const struct percpu_lwbufs *f)
{
	return f->maps ? f->slots : SIZE_MAX;
}

int percpu_lwbuf_set_max_excess(struct percpu_lwbufs *f, size_t n)
{
	if (f == NULL || n > most_excess(f))
		return -EINVAL;
	__atomic_store_n(&f->max_excess, n, __ATOMIC_SEQ_CST);
	if (!f->maps)
		return 0;
	return percpu_window_drain(f, percpu_window_table_fit(f, n) ? 0 : n);
}

int percpu_lwbuf_reclaim(struct percpu_lwbufs *f)
{
	int e = 0;

	if (f == NULL)
		return -EINVAL;
	percpu_sfbufs_reclaim(f);
	if (f->maps)
		e = percpu_window_drain(f, 0);
	percpu_window_discard(f);
	return e;
}

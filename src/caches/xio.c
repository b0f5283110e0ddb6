/* SPDX-License-Identifier: MIT */
/*
 * xio.c - copy ranges of bytes in and out of pages of a file.
 *
 * A copy looks whether the file has all of the bytes before it copies the first, so that a range
 * that is too long leaves nothing half done.
 */
#include <errno.h>
#include <string.h>

#include <percpu/xio.h>

#include "lwbuf.h"

/* A part of a run that is in one page. */
struct piece {
	uint64_t page;
	size_t from; /* its first byte in the page */
	size_t bytes;
};

/* Return the piece that begins with byte `at` of the run, and has at most so many bytes. */
static struct piece piece_at(const struct percpu_xio *x, size_t at, size_t most)
{
	uint64_t byte = (uint64_t)x->offset + at, i = byte >> x->of->shift;
	struct piece p = { .from = (size_t)(byte & (x->of->size - 1)) };

	p.page = x->pages != NULL ? x->pages[i] : x->first + i;
	p.bytes = x->of->size - p.from < most ? x->of->size - p.from : most;
	return p;
}

int percpu_xio_init(struct percpu_xio *x, struct percpu_lwbufs *f, uint64_t at, size_t bytes)
{
	if (x == NULL || f == NULL)
		return -EINVAL;
	if (at > UINT64_MAX - bytes || at + bytes > (PERCPU_LWBUF_MAX_PAGE + 1) << f->shift)
		return -ERANGE;
	*x = (struct percpu_xio){ .of = f,
				  .first = at >> f->shift,
				  .offset = (size_t)(at & (f->size - 1)),
				  .bytes = bytes };
	return 0;
}

int percpu_xio_init_pages(struct percpu_xio *x, struct percpu_lwbufs *f, const uint64_t *pages,
			  size_t n, size_t offset, size_t bytes)
{
	if (x == NULL || f == NULL || pages == NULL || offset >= f->size ||
	    bytes > SIZE_MAX - f->size || (offset + bytes + f->size - 1) >> f->shift > n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if (pages[i] > PERCPU_LWBUF_MAX_PAGE)
			return -ERANGE;
	*x = (struct percpu_xio){ .of = f, .pages = pages, .offset = offset, .bytes = bytes };
	return 0;
}

/* Return 0 if the run and the file have these bytes, or -errno. The pages of a range need one look
 * at the file, those of a list one each, unless they are mapped. */
static int check_range(const struct percpu_xio *x, size_t at, size_t bytes)
{
	struct piece p;
	int64_t length;

	if (at > x->bytes || bytes > x->bytes - at)
		return -ERANGE;
	if (x->pages == NULL && bytes != 0) {
		at += bytes - 1;
		bytes = 1;
	}
	for (; bytes != 0; at += p.bytes, bytes -= p.bytes) {
		p = piece_at(x, at, bytes);
		length = p.page < x->of->direct_pages ? (int64_t)x->of->size :
							percpu_window_length(x->of, p.page);
		if (length < 0)
			return (int)length;
		if ((uint64_t)length < p.from + p.bytes)
			return -ERANGE;
	}
	return 0;
}

/* Copy a piece by a buffer of its page: out of it into `to`, or into it from `from`. */
static int copy_by_buffer(struct percpu_lwbufs *f, struct piece p, char *to, const char *from)
{
	struct percpu_lwbuf b;
	char *at;
	int e = percpu_lwbuf_alloc(f, p.page, from != NULL ? PERCPU_LWBUF_WRITE : 0, &b), freed;

	if (e != 0)
		return e;
	PERCPU_STEP("xio: buffer allocated");
	at = (char *)percpu_lwbuf_kva(&b) + p.from;
	if (percpu_lwbuf_length(&b) < p.from + p.bytes)
		e = -ERANGE;
	else if (from != NULL)
		memcpy(at, from, p.bytes);
	else
		memcpy(to, at, p.bytes);
	freed = percpu_lwbuf_free(f, &b);
	return e != 0 ? e : freed;
}

static int copy_piece(struct percpu_lwbufs *f, struct piece p, char *to, const char *from)
{
	size_t done = 0;
	int e;

	if (f->maps || p.page < f->direct_pages)
		return copy_by_buffer(f, p, to, from);
	if (from != NULL)
		return percpu_page_write(f, p.page, p.from, from, p.bytes);
	e = percpu_page_read(f, p.page, p.from, to, p.bytes, &done);
	return e != 0 ? e : done < p.bytes ? -ERANGE : 0;
}

static int copy_range(const struct percpu_xio *x, size_t at, char *to, const char *from,
		      size_t bytes)
{
	struct piece p;
	int e;

	if (x == NULL || x->of == NULL || (to == NULL && from == NULL))
		return -EINVAL;
	if (from != NULL && !(x->of->flags & PERCPU_LWBUF_WRITABLE))
		return -EACCES;
	e = check_range(x, at, bytes);
	PERCPU_STEP("xio: range seen");
	while (e == 0 && bytes != 0) {
		p = piece_at(x, at, bytes);
		e = copy_piece(x->of, p, to, from);
		to = to != NULL ? to + p.bytes : NULL;
		from = from != NULL ? from + p.bytes : NULL;
		at += p.bytes;
		bytes -= p.bytes;
	}
	return e;
}

int percpu_xio_copy_out(const struct percpu_xio *x, size_t at, void *to, size_t bytes)
{
	return copy_range(x, at, to, NULL, bytes);
}

int percpu_xio_copy_in(const struct percpu_xio *x, size_t at, const void *from, size_t bytes)
{
	return copy_range(x, at, NULL, from, bytes);
}

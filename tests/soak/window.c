/* SPDX-License-Identifier: MIT */
/*
 * window.c - the soak test's operations on windows onto files, and on shared buffers. Each worker
 * has files of its own, which its children have, too. The words of a page follow from its number.
 * In files that are mapped two words are exempt: the worker's threads add to one, and the model
 * knows how much; its children add to the other. A file that is not mapped is cut and grows again
 * meanwhile: there a word may also be 0, and a page behind the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support.h"
#include "soak.h"

#define PAGES 24
#define ADDED_HERE 1 /* words of a page */
#define ADDED_BY_CHILDREN 2

enum { WINDOWS, DIRECT, CUT, FILES };

static const struct {
	enum percpu_lwbuf_backend backend;
	uint32_t flags;
} kinds[FILES] = {
	[WINDOWS] = { PERCPU_LWBUF_WINDOW, PERCPU_LWBUF_KEEPS_SIZE },
	[DIRECT] = { PERCPU_LWBUF_DIRECT, PERCPU_LWBUF_KEEPS_SIZE },
	[CUT] = { PERCPU_LWBUF_AUTO, 0 },
};

static struct percpu_lwbufs *buffers[FILES];
static uint64_t added[FILES][PAGES]; /* atomic */
static int cut;			     /* the file that is cut */
static size_t page_size;
static bool forked;

static uint64_t word_of(uint64_t page, size_t i)
{
	return (page + 1) * UINT64_C(0x9e3779b97f4a7c15) + i;
}

static int make_file(void)
{
	int fd = memfd_create("soak", MFD_CLOEXEC);
	uint64_t *words = malloc(page_size);

	soak_require(fd >= 0, "create a file", 1, 0);
	for (uint64_t page = 0; page < PAGES; page++) {
		for (size_t i = 0; i < page_size / sizeof(uint64_t); i++)
			words[i] = word_of(page, i);
		words[ADDED_HERE] = words[ADDED_BY_CHILDREN] = 0;
		soak_require_equal(
			"write a page", page_size,
			(uint64_t)pwrite(fd, words, page_size, (off_t)(page * page_size)));
	}
	free(words);
	return fd;
}

void soak_window_create(void)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o), .max_excess = 8 };
	int fd;

	page_size = (size_t)sysconf(_SC_PAGESIZE);
	for (int file = 0; file < FILES; file++) {
		o.backend = kinds[file].backend;
		o.flags = kinds[file].flags | PERCPU_LWBUF_WRITABLE;
		fd = make_file();
		soak_require_equal("create windows", 0,
				   (uint64_t)percpu_lwbuf_create(fd, &o, &buffers[file]));
		if (file == CUT)
			cut = fd;
		else
			close(fd);
	}
}

void soak_window_forked(void)
{
	forked = true;
}

/* Check the words of a page. */
static void check_page(int file, uint64_t page, const uint64_t *words, size_t length)
{
	static const size_t some[] = { 0, 3, 17, 100, 255, 511 };
	uint64_t word;

	for (unsigned i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		if (some[i] >= length / sizeof(*words))
			continue;
		word = __atomic_load_n(&words[some[i]], __ATOMIC_RELAXED);
		if (file != CUT || word != 0)
			soak_require_equal("a word of a page", word_of(page, some[i]), word);
	}
}

/* Store to a page of a buffer for writing. */
static void store(int file, uint64_t page, uint64_t *words, size_t length)
{
	size_t n = length / sizeof(*words);

	if (file == CUT) {
		for (size_t i = 0; i < n; i++)
			if (i != ADDED_HERE && i != ADDED_BY_CHILDREN)
				__atomic_store_n(&words[i], word_of(page, i), __ATOMIC_RELAXED);
		return;
	}
	__atomic_fetch_add(&words[forked ? ADDED_BY_CHILDREN : ADDED_HERE], 1, __ATOMIC_RELAXED);
	if (!forked)
		__atomic_fetch_add(&added[file][page], 1, __ATOMIC_RELAXED);
}

/* Return whether the call has succeeded. A file that is cut may not have the page. */
static bool has_done(const char *what, int file, int e, int refused)
{
	soak_require(e == 0 || e == refused || (file == CUT && e == -ERANGE), what, 0, (uint64_t)e);
	return e == 0;
}

/* Windows and bounce buffers */

static void open_window(struct soak_thread *t, struct soak_window *w, uint64_t random)
{
	uint64_t page = random / 4 % PAGES;
	unsigned flags = random / 128 % 2 ? PERCPU_LWBUF_WRITE : 0;

	w->file = (int)(random % FILES);
	w->held = has_done("allocate a window", w->file,
			   percpu_lwbuf_alloc(buffers[w->file], page, flags, &w->buffer), 0);
	if (!w->held)
		return;
	soak_require_equal("the page of a window", page, percpu_lwbuf_page(&w->buffer));
	check_page(w->file, page, percpu_lwbuf_kva(&w->buffer), percpu_lwbuf_length(&w->buffer));
	if (flags != 0)
		store(w->file, page, percpu_lwbuf_kva(&w->buffer), percpu_lwbuf_length(&w->buffer));
	t->slot->journal[0].count[SOAK_WINDOW]++;
}

static void close_window(struct soak_window *w)
{
	check_page(w->file, percpu_lwbuf_page(&w->buffer), percpu_lwbuf_kva(&w->buffer),
		   percpu_lwbuf_length(&w->buffer));
	w->held = false;
	(void)has_done("free a window", w->file, percpu_lwbuf_free(buffers[w->file], &w->buffer),
		       0);
}

/* Shared buffers */

static void open_shared(struct soak_thread *t, uint64_t random)
{
	unsigned flags = random / 128 % 2 ? PERCPU_SFBUF_WRITE : 0;
	uint64_t page = random / 4 % PAGES;
	int file = (int)(random % FILES);

	if (!has_done("allocate a shared buffer", file,
		      percpu_sfbuf_alloc(buffers[file], page, flags, &t->shared), 0))
		return;
	t->shared_file = file;
	soak_require_equal("the page of a shared buffer", page, percpu_sfbuf_page(t->shared));
	check_page(file, page, percpu_sfbuf_kva(t->shared), percpu_sfbuf_length(t->shared));
	if (flags & PERCPU_SFBUF_WRITE)
		store(file, page, percpu_sfbuf_kva(t->shared), percpu_sfbuf_length(t->shared));
	t->slot->journal[0].count[SOAK_SHARED_BUFFER]++;
}

static void close_shared(struct soak_thread *t)
{
	struct percpu_sfbuf *b = t->shared;

	check_page(t->shared_file, percpu_sfbuf_page(b), percpu_sfbuf_kva(b),
		   percpu_sfbuf_length(b));
	t->shared = NULL;
	(void)has_done("free a shared buffer", t->shared_file,
		       percpu_sfbuf_free(buffers[t->shared_file], b), 0);
}

static void cut_file(struct soak_thread *t, uint64_t random)
{
	off_t end = (off_t)(random % (PAGES * page_size / sizeof(uint64_t)) * sizeof(uint64_t));

	soak_require_equal("cut a file", 0, (uint64_t)ftruncate(cut, end));
	soak_require_equal("let it grow", 0, (uint64_t)ftruncate(cut, (off_t)(PAGES * page_size)));
	t->slot->journal[0].count[SOAK_WINDOW_CUT]++;
}

static void change_limit(uint64_t random)
{
	int e = percpu_lwbuf_set_max_excess(buffers[WINDOWS], random % 16);

	soak_require(e == 0 || e == -EPERM || e == -EAGAIN || e == -ETIMEDOUT, "set_max_excess", 0,
		     (uint64_t)e);
	soak_require_equal(
		"limit shared buffers", 0,
		(uint64_t)percpu_sfbuf_set_max_excess(buffers[WINDOWS], random / 16 % 4));
}

static void one_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), random = test_random(&t->random) >> 8;
	struct soak_window *w = &t->window[r / 64 % SOAK_WINDOWS];

	if (r % 64 == 0)
		cut_file(t, random);
	else if (r % 64 == 1)
		change_limit(random);
	else if (r % 64 < 20 && t->shared == NULL)
		open_shared(t, random);
	else if (r % 64 < 20)
		close_shared(t);
	else if (!w->held)
		open_window(t, w, random);
	else
		close_window(w);
}

void soak_window_op(struct soak_thread *t)
{
	for (uint64_t n = test_random(&t->random) % 32; n > 0; n--)
		one_op(t);
}

void soak_window_leave(struct soak_thread *t)
{
	for (int i = 0; i < SOAK_WINDOWS; i++)
		if (t->window[i].held)
			close_window(&t->window[i]);
	if (t->shared != NULL)
		close_shared(t);
}

/* Check the pages of a file, when no thread of this process uses it. */
static void check_file(int file)
{
	struct percpu_lwbuf b;
	uint64_t *words;

	for (uint64_t page = 0; page < PAGES; page++) {
		soak_require_equal("allocate a window in the end", 0,
				   (uint64_t)percpu_lwbuf_alloc(buffers[file], page, 0, &b));
		words = percpu_lwbuf_kva(&b);
		check_page(file, page, words, percpu_lwbuf_length(&b));
		if (file != CUT && !forked)
			soak_require_equal("what was added to a page", added[file][page],
					   words[ADDED_HERE]);
		soak_require_equal("destroy windows that are used", (uint64_t)-EBUSY,
				   (uint64_t)percpu_lwbuf_destroy(buffers[file]));
		(void)percpu_lwbuf_free(buffers[file], &b);
	}
}

/* Check all, and free it. In a child, the holdings of its parent's threads do not count. A
 * killed process may have left the file short. */
void soak_window_destroy(void)
{
	soak_require_equal("let the file grow", 0,
			   (uint64_t)ftruncate(cut, (off_t)(PAGES * page_size)));
	for (int file = 0; file < FILES; file++) {
		if (file != CUT || !forked)
			check_file(file);
		soak_require_equal("destroy windows", 0,
				   (uint64_t)percpu_lwbuf_destroy(buffers[file]));
	}
	close(cut);
}

/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_check.c - PERCPU_LWBUF_DEBUG: print what is wrong with a buffer, and abort.
 */
#include <stdio.h>

#include "../cpu/debug.h"
#include "lwbuf.h"

void percpu_lwbuf_clear_checked(struct percpu_lwbuf *b)
{
	struct percpu_lwbuf cleared = { .page = b->page,
					.window = b->window,
					.generation = b->generation };

	*b = cleared;
}

static const struct percpu_window *find_window_struct(const struct percpu_window_pool *p,
						      const struct percpu_window *w)
{
	uint32_t most = __atomic_load_n(&p->most, __ATOMIC_ACQUIRE);

	for (uint32_t id = 1; id <= most; id++)
		if (percpu_window_at(p->blocks, id) == w)
			return w;
	return NULL;
}

const struct percpu_window *percpu_lwbuf_window_checked(const struct percpu_lwbufs *f,
							const struct percpu_lwbuf *b)
{
	const struct percpu_window *w;

	if (b->of != NULL && percpu_lwbufs_exist(b->of))
		f = b->of;
	w = find_window_struct(&f->windows, b->window);
	return w != NULL ? w : find_window_struct(&f->bounces, b->window);
}

void percpu_lwbuf_complain(const struct percpu_lwbuf *b, const struct percpu_window *w,
			   const char *what)
{
	char memory[200] = "";

	if (w != NULL)
		(void)snprintf(memory, sizeof(memory),
			       "; its memory at %p was last allocated by thread %u for page %llu, "
			       "and has generation %u",
			       (void *)w->at, w->owner, (unsigned long long)w->page,
			       (uint32_t)w->generation[0]);
	percpu_debug_die("lwbuf %p, page %llu, generation %u: %s%s", (const void *)b,
			 (unsigned long long)b->page, b->generation, what, memory);
}

void *percpu_lwbuf_kva_checked(const struct percpu_lwbuf *b)
{
	const struct percpu_window *w = b->window; /* not NULL: with DEBUG no buffer is direct */

	if ((uint32_t)__atomic_load_n(&w->generation[0], __ATOMIC_ACQUIRE) != b->generation)
		percpu_lwbuf_complain(b, w, "used after it was freed, or never allocated");
	return b->kva;
}

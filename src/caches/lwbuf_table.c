/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_table.c - tables of mapped windows that are not in use, found by the page they show.
 *
 * Each CPU has a table in its lane: sets of 8 words, a cache line each. A word is 0, or has a page
 * and the window that shows it. Each page belongs to one set. An allocation loads the set's words.
 * If it finds the page, it replaces the word by 0 with one sequence (cmpxchg), and then has the
 * window. A free replaces a 0 by the window's word. The loads are only a hint, because the
 * sequence compares the whole word: it does not matter which thread had the window in between,
 * or on which CPU the sequence runs.
 *
 * A word may also have a page without a window: a ghost. It records that the page was asked for
 * and got a bounce buffer. An allocation that finds a ghost knows that the page came again.
 *
 * To take a window out of another CPU's table, a thread raises the guard of that lane, which
 * aborts the sequences there. While it is raised, threads of that CPU use atomic operations.
 */
#define _GNU_SOURCE
#include <stdlib.h>

#include <percpu/local.h>

#include "lwbuf.h"

#define WAYS PERCPU_WINDOW_WAYS
#define SET_BYTES (WAYS * sizeof(uint64_t))
#define ID_BITS PERCPU_WINDOW_ID_BITS
#define GHOST PERCPU_WINDOW_GHOST
#define LEAST_SLOTS 4096
#define SLOTS_PER_WINDOW 4
#define TABLE_TRIES 3
#define CANDIDATES 8 /* windows that are compared for the one that was freed longest ago */
#define NEAR_SETS 32 /* sets that are searched for these windows */
#define ELSEWHERE 16 /* CPUs in whose tables a page is looked for */
/* Another CPU's window was left behind if it was not used for LEFT_BEHIND * max_excess misses. If
 * threads on two CPUs use twice as many pages as there are windows, a page comes again after about
 * 3 * max_excess misses, and the CPUs must not take such windows from each other. */
#define LEFT_BEHIND 8

static uint64_t tag_of(uint64_t word)
{
	return word >> ID_BITS;
}

static uint32_t id_of(uint64_t word)
{
	return word & GHOST;
}

static uint64_t word_of(uint64_t page, uint32_t id)
{
	return (page + 1) << ID_BITS | id;
}

static bool has_window(uint64_t word)
{
	return word != 0 && id_of(word) != GHOST;
}

/* With half as many sets as windows, a set is seldom full, and the oldest of some sets is old. */
bool percpu_window_table_fit(struct percpu_lwbufs *f, size_t windows)
{
	unsigned old = f->set_shift, bits = 1;

	while (((size_t)WAYS << bits) < SLOTS_PER_WINDOW * windows &&
	       ((size_t)WAYS << bits) < f->slots)
		bits++;
	__atomic_store_n(&f->set_shift, 64 - bits, __ATOMIC_RELAXED);
	return old != 64 - bits;
}

int percpu_window_table_create(struct percpu_lwbufs *f, size_t windows)
{
	int e;

	for (f->slots = LEAST_SLOTS; f->slots < SLOTS_PER_WINDOW * windows;)
		f->slots *= 2;
	e = percpu_local_create_words(f->slots * sizeof(uint64_t) + SET_BYTES, &f->table);
	if (e != 0)
		return e;
	f->guard = f->table->guard;
	f->stride = f->table->stride;
	f->cpus = f->table->region->cpus;
	f->sets = f->table->cell + -(uintptr_t)f->table->cell % SET_BYTES;
	(void)percpu_window_table_fit(f, windows);
	return 0;
}

unsigned percpu_window_cpu(const struct percpu_lwbufs *f)
{
	int cpu = percpu_thread_cpu_seen();

	if (cpu < 0)
		cpu = percpu_thread_cpu();
	return cpu >= 0 && (unsigned)cpu < f->cpus ? (unsigned)cpu : 0;
}

static uint64_t *set_at(const struct percpu_lwbufs *f, unsigned cpu, size_t set)
{
	return (uint64_t *)(void *)(f->sets + cpu * f->stride + set);
}

/* The sequence, not inlined, for all but the usual case. */
static __attribute__((noinline)) bool swap_word(const struct percpu_lwbufs *f, size_t at,
						uint64_t old, uint64_t word)
{
	return percpu_window_cmpxchg(f, at, old, word);
}

/* Return the way of a window that shows the page, or else of the page's ghost, or -1. *ret becomes
 * the word there. */
static int find_tag(const uint64_t *set, uint64_t tag, uint64_t *ret)
{
	int ghost = -1;
	uint64_t word;

	for (int way = 0; way < WAYS; way++) {
		word = percpu_window_load(&set[way]);
		if (tag_of(word) != tag)
			continue;
		*ret = word;
		if (has_window(word))
			return way;
		ghost = way;
	}
	return ghost;
}

struct percpu_window *percpu_window_find_slow(const struct percpu_lwbufs *f, uint64_t page,
					      bool *ret_ghost)
{
	size_t set = percpu_window_set(f, page);
	uint64_t word = 0;
	int way;

	*ret_ghost = false;
	for (int try = 0; try < TABLE_TRIES; try++) {
		way = find_tag(percpu_window_words(f, set), page + 1, &word);
		if (way < 0)
			return NULL;
		PERCPU_STEP("lwbuf: window seen again");
		*ret_ghost = id_of(word) == GHOST;
		if (*ret_ghost)
			return NULL;
		if (percpu_likely(swap_word(f, set + (size_t)way * sizeof(word), word, 0)))
			return percpu_window_at(f->blocks, id_of(word));
	}
	return NULL;
}

/* Return when the window of a word, of any CPU, was freed. On Armv8 a thread that sees the word
 * sees the block (tests/litmus/window.litmus), but a commit without release does not promise it,
 * so the load is an acquire, and the block may be missing. */
static uint64_t freed_at(const struct percpu_lwbufs *f, uint64_t word)
{
	struct percpu_window *const *at = &f->blocks[id_of(word) / PERCPU_WINDOW_BLOCK];
	const struct percpu_window *block = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	return block != NULL ? percpu_window_load(&block[id_of(word) % PERCPU_WINDOW_BLOCK].freed) :
			       0;
}

/* Choose the way for a page: that of its ghost, or else an empty one, or another page's ghost.
 * *ret becomes the word there. Return -1 if windows have all ways. */
static int choose_way(const uint64_t *set, uint64_t tag, uint64_t *ret)
{
	int empty = -1, ghost = -1, way;
	uint64_t word, remembered = 0;

	/* Pages of a set begin at different ways, so that they do not replace only each other's
	 * ghosts. */
	for (unsigned n = 0; n < WAYS; n++) {
		way = (int)((tag + n) % WAYS);
		word = percpu_window_load(&set[way]);
		if (word != 0 && id_of(word) == GHOST && (ghost < 0 || tag_of(word) == tag)) {
			ghost = way;
			remembered = word;
		}
		if (word == 0 && empty < 0)
			empty = way;
	}
	*ret = remembered;
	if (empty < 0 || (ghost >= 0 && tag_of(remembered) == tag))
		return ghost;
	*ret = 0;
	return empty;
}

/* Return the way of the window that was freed longest ago. *ret becomes its word. */
static int choose_oldest_way(const struct percpu_lwbufs *f, const uint64_t *set, uint64_t *ret)
{
	uint64_t least = UINT64_MAX, word, freed;
	int oldest = 0;

	for (int way = 0; way < WAYS; way++) {
		word = percpu_window_load(&set[way]);
		freed = has_window(word) ? freed_at(f, word) : 0;
		if (freed < least) {
			least = freed;
			oldest = way;
			*ret = word;
		}
	}
	return oldest;
}

struct percpu_window *percpu_window_keep_slow(const struct percpu_lwbufs *f,
					      struct percpu_window *w)
{
	uint64_t word = word_of(w->page, w->id), old = 0;
	size_t set = percpu_window_set(f, w->page);
	const uint64_t *words;
	int way;

	for (int try = 0; try < TABLE_TRIES; try++) {
		words = percpu_window_words(f, set);
		way = choose_way(words, tag_of(word), &old);
		if (percpu_unlikely(way < 0)) {
			PERCPU_STEP("lwbuf: set full");
			way = choose_oldest_way(f, words, &old);
		}
		PERCPU_STEP("lwbuf: place chosen");
		w->place = (uint32_t)way;
		if (swap_word(f, set + (size_t)way * sizeof(word), old, word))
			return has_window(old) ? percpu_window_at(f->blocks, id_of(old)) : NULL;
	}
	return w;
}

void percpu_window_remember(const struct percpu_lwbufs *f, uint64_t page)
{
	size_t set = percpu_window_set(f, page);
	uint64_t old;
	int way = choose_way(percpu_window_words(f, set), page + 1, &old);

	if (way >= 0)
		(void)swap_word(f, set + (size_t)way * sizeof(old), old, word_of(page, GHOST));
}

/* Take the window of this word out of the table of any CPU. Return NULL if it is gone, or a fence
 * fails. */
static struct percpu_window *take_from(const struct percpu_lwbufs *f, unsigned cpu, size_t at,
				       uint64_t word)
{
	uint64_t *place = set_at(f, cpu, at);
	bool is_mine;

	if (percpu_local_raise(f->table, cpu) != 0)
		return NULL;
	is_mine = __atomic_compare_exchange_n(place, &word, 0, false, __ATOMIC_ACQ_REL,
					      __ATOMIC_RELAXED);
	PERCPU_STEP("lwbuf: window taken from another CPU");
	percpu_local_lower(f->table, cpu);
	return is_mine ? percpu_window_at(f->blocks, id_of(word)) : NULL;
}

/* A window that was seen in a table. word is 0 if none was found. */
struct seen_window {
	unsigned cpu;
	size_t at;
	uint64_t word;
	uint64_t freed;
};

/* Find, among some windows of that CPU near the page's set, the one that was freed longest ago. */
static struct seen_window find_old_window(const struct percpu_lwbufs *f, unsigned cpu,
					  uint64_t page)
{
	size_t sets = (size_t)1 << (64 - __atomic_load_n(&f->set_shift, __ATOMIC_RELAXED));
	size_t bytes = sets * SET_BYTES, set = percpu_window_set(f, page) % bytes;
	struct seen_window oldest = { .cpu = cpu, .freed = UINT64_MAX };
	const uint64_t *words;
	uint64_t word, freed;
	unsigned seen = 0;

	for (size_t n = 0; n < sets; n++, set = (set + SET_BYTES) % bytes) {
		if (seen >= CANDIDATES || (seen != 0 && n >= NEAR_SETS))
			break;
		words = set_at(f, cpu, set);
		for (size_t way = 0; way < WAYS; way++) {
			word = percpu_window_load(&words[way]);
			freed = has_window(word) ? freed_at(f, word) : UINT64_MAX;
			seen += has_window(word);
			if (has_window(word) && freed < oldest.freed) {
				oldest.freed = freed;
				oldest.word = word;
				oldest.at = set + way * sizeof(word);
			}
		}
	}
	return oldest;
}

/* Return the n-th nearest CPU, on one side and on the other in turn. */
static unsigned cpu_near(const struct percpu_lwbufs *f, unsigned here, unsigned n)
{
	unsigned far = (n + 1) / 2;

	return (n % 2 != 0 ? here + far : here + f->cpus - far) % f->cpus;
}

/* Find a window of another CPU that shows the page. */
static struct seen_window find_elsewhere(const struct percpu_lwbufs *f, unsigned here,
					 uint64_t page)
{
	size_t set = percpu_window_set(f, page);
	struct seen_window seen = { .freed = UINT64_MAX };
	uint64_t word = 0;
	int way;

	for (unsigned n = 1; n < f->cpus && n <= ELSEWHERE && seen.word == 0; n++) {
		seen.cpu = cpu_near(f, here, n);
		way = find_tag(set_at(f, seen.cpu, set), page + 1, &word);
		if (way < 0 || !has_window(word))
			continue;
		seen.at = set + (size_t)way * sizeof(word);
		seen.word = word;
		seen.freed = freed_at(f, word);
	}
	return seen;
}

/* Choose a window to take. This CPU's windows are preferred, because they need no fence. But
 * another CPU's window that shows the page needs no mapping. And if the other CPU's oldest window
 * was not used for twice as long as this CPU's, that CPU has too many windows. */
static struct seen_window choose_window(const struct percpu_lwbufs *f, unsigned here, uint64_t page)
{
	uint64_t clock = __atomic_load_n(&f->clock, __ATOMIC_RELAXED);
	struct seen_window own = find_old_window(f, here, page);
	struct seen_window same = find_elsewhere(f, here, page), other = { .word = 0 };

	if (same.word != 0 && same.freed <= own.freed)
		return same;
	if (clock % f->cpus != here)
		other = find_old_window(f, clock % f->cpus, page);
	if (other.word != 0 && (own.word == 0 || clock - other.freed > 2 * (clock - own.freed)))
		return other;
	return own;
}

/* Return the CPU whose table the thread works with. */
static unsigned cpu_here(const struct percpu_lwbufs *f)
{
	return (unsigned)((size_t)((char *)percpu_window_words(f, 0) - f->sets) / f->stride);
}

struct percpu_window *percpu_window_move(const struct percpu_lwbufs *f, uint64_t page)
{
	struct seen_window seen = find_elsewhere(f, cpu_here(f), page);
	uint64_t age = __atomic_load_n(&f->clock, __ATOMIC_RELAXED) - seen.freed;

	if (seen.word == 0 ||
	    age <= LEFT_BEHIND * __atomic_load_n(&f->max_excess, __ATOMIC_RELAXED))
		return NULL;
	return take_from(f, seen.cpu, seen.at, seen.word);
}

struct percpu_window *percpu_window_evict(const struct percpu_lwbufs *f, uint64_t page)
{
	unsigned here = cpu_here(f);
	struct percpu_window *w = NULL;
	struct seen_window seen;

	for (int try = 0; try < TABLE_TRIES && w == NULL; try++) {
		seen = choose_window(f, here, page);
		PERCPU_STEP("lwbuf: window chosen");
		if (seen.word == 0)
			break;
		if (seen.cpu != here)
			w = take_from(f, seen.cpu, seen.at, seen.word);
		else if (swap_word(f, seen.at, seen.word, 0))
			w = percpu_window_at(f->blocks, id_of(seen.word));
	}
	for (unsigned cpu = 0; cpu < f->cpus && w == NULL; cpu++) {
		seen = find_old_window(f, cpu, page);
		if (seen.word != 0)
			w = take_from(f, cpu, seen.at, seen.word);
	}
	return w;
}

int percpu_window_drain(struct percpu_lwbufs *f, uint64_t goal)
{
	uint64_t *place, word;
	int result = 0, e;

	for (unsigned cpu = 0; cpu < f->cpus && percpu_window_excess(f) > goal; cpu++) {
		e = percpu_local_raise(f->table, cpu);
		if (e != 0) {
			result = e;
			continue;
		}
		place = set_at(f, cpu, 0);
		for (size_t i = 0; i < f->slots; i++) {
			word = percpu_window_load(&place[i]);
			PERCPU_STEP("lwbuf: to be drained");
			if (!has_window(word) ||
			    !__atomic_compare_exchange_n(&place[i], &word, 0, false,
							 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
				continue;
			percpu_window_release(f, percpu_window_at(f->blocks, id_of(word)));
			if (percpu_window_excess(f) <= goal)
				break;
		}
		percpu_local_lower(f->table, cpu);
	}
	return percpu_window_excess(f) > goal ? result : 0;
}

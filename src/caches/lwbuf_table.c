/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_table.c - tables of mapped windows, found by the page they show.
 *
 * Each CPU has a table in its lane: sets of 8 words, a cache line each. A word is 0, or has a page,
 * the window that shows it, and a bit for each seat of the window that is taken (lwbuf_seats.c).
 * Each page belongs to one set. An allocation loads the set's words. If it finds the page, it takes
 * a seat with one sequence (cmpxchg), and then has the window. The loads are only a hint, because
 * the sequence compares the whole word: it does not matter which thread had the window in between,
 * or on which CPU the sequence runs. A window that finds its set full of windows in use stays
 * loose: its one buffer has it alone, and the next free tries again.
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

static bool has_window(uint64_t word)
{
	return percpu_window_id_of(word) != 0;
}

static bool is_ghost(uint64_t word)
{
	return word != 0 && !has_window(word);
}

/* With half as many sets as windows, a set is seldom full, and the oldest of some sets is old. */
bool percpu_window_table_fit(struct percpu_lwbufs *f, size_t windows)
{
	unsigned bits = 1;

	while (((size_t)WAYS << bits) < SLOTS_PER_WINDOW * windows &&
	       ((size_t)WAYS << bits) < f->slots)
		bits++;
	return __atomic_exchange_n(&f->set_shift, 64 - bits, __ATOMIC_RELAXED) != 64 - bits;
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

/* All callers run one copy of the sequence, also those of this source. */
__attribute__((noinline)) bool percpu_window_swap(const struct percpu_lwbufs *f, size_t at,
						  uint64_t old, uint64_t word)
{
	return percpu_window_cmpxchg(f, at, old, word);
}

/* On Armv8 a thread that sees the word sees the block (tests/litmus/window.litmus), but a commit
 * without release does not promise it, so the load is an acquire, and the block may be missing. */
static const struct percpu_window *window_seen(const struct percpu_lwbufs *f, uint64_t word)
{
	uint32_t id = percpu_window_id_of(word);
	struct percpu_window *const *at = &f->blocks[id / PERCPU_WINDOW_BLOCK];
	const struct percpu_window *block = __atomic_load_n(at, __ATOMIC_ACQUIRE);

	return block != NULL ? &block[id % PERCPU_WINDOW_BLOCK] : NULL;
}

/* Return when the window of a word, of any CPU, was freed. */
static uint64_t freed_at(const struct percpu_lwbufs *f, uint64_t word)
{
	const struct percpu_window *w = window_seen(f, word);

	return w != NULL ? percpu_window_load(&w->freed) : 0;
}

/* Return whether the word, of any CPU, is of a window that no buffer has. */
static bool is_window_idle(const struct percpu_lwbufs *f, uint64_t word)
{
	uint32_t seats = percpu_window_seats_of(word);
	const struct percpu_window *w;

	if (!has_window(word) || seats == 0)
		return has_window(word);
	w = window_seen(f, word);
	return w != NULL && __atomic_load_n(&w->away, __ATOMIC_RELAXED) == seats;
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
		if (is_ghost(word) && (ghost < 0 || percpu_window_tag_of(word) == tag)) {
			ghost = way;
			remembered = word;
		}
		if (word == 0 && empty < 0)
			empty = way;
	}
	*ret = remembered;
	if (empty < 0 || (ghost >= 0 && percpu_window_tag_of(remembered) == tag))
		return ghost;
	*ret = 0;
	return empty;
}

/* Return the way of the idle window that was freed longest ago, or -1. *ret becomes its word. */
static int choose_oldest_way(const struct percpu_lwbufs *f, const uint64_t *set, uint64_t *ret)
{
	uint64_t least = UINT64_MAX, word, freed;
	int oldest = -1;

	for (int way = 0; way < WAYS; way++) {
		word = percpu_window_load(&set[way]);
		freed = has_window(word) ? freed_at(f, word) : 0;
		if (freed < least && (word == 0 || is_ghost(word) || is_window_idle(f, word))) {
			least = freed;
			oldest = way;
			*ret = word;
		}
	}
	return oldest;
}

/* Put the word in place of a word that has no window, or an idle one. Return false if that has
 * changed. *ret becomes the window that had the place, or NULL. */
static bool replace_word(const struct percpu_lwbufs *f, size_t at, uint64_t old, uint64_t word,
			 struct percpu_window **ret)
{
	if (!percpu_window_claim(f, old))
		return false;
	if (!percpu_window_swap(f, at, old, word)) {
		percpu_window_unclaim(f, old);
		return false;
	}
	*ret = has_window(old) ? percpu_window_loosen(f, old) : NULL;
	return true;
}

struct percpu_window *percpu_window_keep(const struct percpu_lwbufs *f, struct percpu_window *w,
					 uint32_t seats)
{
	uint64_t word = percpu_window_word(w->page, seats, w->id), old = 0;
	size_t set = percpu_window_set(f, w->page);
	struct percpu_window *replaced;
	const uint64_t *words;
	int way;

	for (int try = 0; try < TABLE_TRIES; try++) {
		words = percpu_window_words(f, set);
		way = choose_way(words, percpu_window_tag_of(word), &old);
		if (percpu_unlikely(way < 0)) {
			PERCPU_STEP("lwbuf: set full");
			way = choose_oldest_way(f, words, &old);
		}
		PERCPU_STEP("lwbuf: place chosen");
		if (way < 0)
			break;
		__atomic_store_n(&w->slot, (uint32_t)(set + (size_t)way * sizeof(word)),
				 __ATOMIC_RELAXED);
		if (replace_word(f, w->slot, old, word, &replaced))
			return replaced;
	}
	__atomic_store_n(&w->slot, PERCPU_WINDOW_LOOSE, __ATOMIC_RELAXED);
	return w;
}

bool percpu_window_is_there(const struct percpu_lwbufs *f, uint64_t page)
{
	const uint64_t *words = percpu_window_words(f, percpu_window_set(f, page));
	bool found = false;
	uint64_t word;

	for (int way = 0; way < WAYS && !found; way++) {
		word = percpu_window_load(&words[way]);
		found = percpu_window_tag_of(word) == page + 1 && has_window(word);
	}
	return found;
}

bool percpu_window_has_place(const struct percpu_lwbufs *f, uint64_t page)
{
	uint64_t old;

	return choose_way(percpu_window_words(f, percpu_window_set(f, page)), page + 1, &old) >= 0;
}

void percpu_window_remember(const struct percpu_lwbufs *f, uint64_t page)
{
	size_t set = percpu_window_set(f, page);
	uint64_t old;
	int way = choose_way(percpu_window_words(f, set), page + 1, &old);

	if (way >= 0)
		(void)percpu_window_swap(f, set + (size_t)way * sizeof(old), old,
					 percpu_window_word(page, 0, 0));
}

/* With the guard raised: take the window of this word out of a table. Return NULL if a buffer has
 * it, or if it is gone. */
static struct percpu_window *take_at(const struct percpu_lwbufs *f, unsigned cpu, size_t at,
				     uint64_t word)
{
	uint64_t seen = word;

	if (!percpu_window_claim(f, word))
		return NULL;
	if (__atomic_compare_exchange_n(percpu_window_word_at(f, cpu, at), &seen, 0, false,
					__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return percpu_window_loosen(f, word);
	percpu_window_unclaim(f, word);
	return NULL;
}

/* Take the window of this word out of the table of any CPU. Return NULL also if a fence fails. */
static struct percpu_window *take_from(const struct percpu_lwbufs *f, unsigned cpu, size_t at,
				       uint64_t word)
{
	struct percpu_window *w;

	if (percpu_local_raise(f->table, cpu) != 0)
		return NULL;
	w = take_at(f, cpu, at, word);
	PERCPU_STEP("lwbuf: window taken from another CPU");
	percpu_local_lower(f->table, cpu);
	return w;
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
		words = percpu_window_word_at(f, cpu, set);
		for (size_t way = 0; way < WAYS; way++) {
			word = percpu_window_load(&words[way]);
			if (!is_window_idle(f, word))
				continue;
			freed = freed_at(f, word);
			seen++;
			if (freed < oldest.freed) {
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

/* Find an idle window of another CPU that shows the page. */
static struct seen_window find_elsewhere(const struct percpu_lwbufs *f, unsigned here,
					 uint64_t page)
{
	size_t set = percpu_window_set(f, page), at;
	struct seen_window seen = { .freed = UINT64_MAX };
	uint64_t word;

	for (unsigned n = 1; n < f->cpus && n <= ELSEWHERE && seen.word == 0; n++) {
		seen.cpu = cpu_near(f, here, n);
		for (at = set; at < set + SET_BYTES && seen.word == 0; at += sizeof(word)) {
			word = percpu_window_load(percpu_window_word_at(f, seen.cpu, at));
			if (percpu_window_tag_of(word) != page + 1 || !is_window_idle(f, word))
				continue;
			seen.at = at;
			seen.word = word;
			seen.freed = freed_at(f, word);
		}
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
		else
			(void)replace_word(f, seen.at, seen.word, 0, &w);
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
	struct percpu_window *w;
	int result = 0, e;
	uint64_t word;

	for (unsigned cpu = 0; cpu < f->cpus && percpu_window_excess(f) > goal; cpu++) {
		e = percpu_local_raise(f->table, cpu);
		if (e != 0) {
			result = e;
			continue;
		}
		for (size_t at = 0; at < f->slots * sizeof(word); at += sizeof(word)) {
			word = percpu_window_load(percpu_window_word_at(f, cpu, at));
			PERCPU_STEP("lwbuf: to be drained");
			w = has_window(word) ? take_at(f, cpu, at, word) : NULL;
			if (w == NULL)
				continue;
			percpu_window_release(f, w);
			if (percpu_window_excess(f) <= goal)
				break;
		}
		percpu_local_lower(f->table, cpu);
	}
	return percpu_window_excess(f) > goal ? result : 0;
}

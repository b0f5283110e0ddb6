/* SPDX-License-Identifier: MIT */
/*
 * lwbuf_seats.c - how the buffers of one window take and leave its seats.
 *
 * A window in a CPU's table has four seats, and its word has a bit for each that is taken. An
 * allocation on that CPU finds the word and sets a bit, and a free there clears it, each by one
 * sequence: so several buffers of a page share a mapping. A seat has a generation of its own,
 * which tells whether a buffer still has it.
 *
 * A free on another CPU cannot change the word without a fence. It sets the seat's bit in the
 * window's `away`, which is atomic, and the word keeps its bit. A window is idle if `away` has all
 * bits of its word. To clear bits of the word, or to take the window out of its table, a thread
 * first claims bits: it takes them out of `away`. Meanwhile the window is not idle for other
 * threads, so it stays in its table. If the word has changed, the thread puts the bits back.
 */
#include <percpu/counter.h>
#include <percpu/local.h>

#include "lwbuf.h"

#define SEAT_TRIES 3
#define ALL_SEATS ((1U << PERCPU_WINDOW_SEATS) - 1)

/* Return how many seats are taken, without the first. */
static int sharers_of(uint32_t seats)
{
	int n = __builtin_popcount(seats);

	return n > 1 ? n - 1 : 0;
}

/* After the commit of a word with other seats. All callers run one copy of the sequence. */
static __attribute__((noinline)) void count_sharers(const struct percpu_lwbufs *f, uint32_t before,
						    uint32_t after)
{
	int more = sharers_of(after) - sharers_of(before);

	if (more != 0)
		percpu_counter_add(f->sharers, more);
}

/* Take all bits of `away`. Return them. */
static uint32_t claim_seats(struct percpu_window *w)
{
	if (__atomic_load_n(&w->away, __ATOMIC_RELAXED) == 0)
		return 0;
	return __atomic_exchange_n(&w->away, 0, __ATOMIC_ACQ_REL);
}

static void unclaim_seats(struct percpu_window *w, uint32_t seats)
{
	if (seats != 0)
		__atomic_fetch_or(&w->away, (uint8_t)seats, __ATOMIC_ACQ_REL);
}

static struct percpu_window *window_of(const struct percpu_lwbufs *f, uint64_t word)
{
	return percpu_window_at(f->blocks, percpu_window_id_of(word));
}

bool percpu_window_claim(const struct percpu_lwbufs *f, uint64_t word)
{
	uint32_t seats = percpu_window_seats_of(word), claimed;

	if (seats == 0)
		return true;
	claimed = claim_seats(window_of(f, word));
	if (claimed == seats)
		return true;
	unclaim_seats(window_of(f, word), claimed);
	return false;
}

void percpu_window_unclaim(const struct percpu_lwbufs *f, uint64_t word)
{
	unclaim_seats(window_of(f, word), percpu_window_seats_of(word));
}

struct percpu_window *percpu_window_loosen(const struct percpu_lwbufs *f, uint64_t word)
{
	struct percpu_window *w = window_of(f, word);

	count_sharers(f, percpu_window_seats_of(word), 0);
	__atomic_store_n(&w->slot, PERCPU_WINDOW_LOOSE, __ATOMIC_RELAXED);
	return w;
}

/* Taking a seat */

/* Take a free seat, or one that was freed on another CPU. Return false if there is none, or if the
 * word has changed, which sets *ret_changed. */
static bool take_seat(const struct percpu_lwbufs *f, size_t at, uint64_t word, unsigned *ret_seat,
		      bool *ret_changed)
{
	struct percpu_window *w = window_of(f, word);
	uint32_t seats = percpu_window_seats_of(word), left, claimed = 0;
	uint64_t page = percpu_window_tag_of(word) - 1;

	if (seats != 0)
		claimed = claim_seats(w);
	left = seats & ~claimed;
	PERCPU_STEP("lwbuf: seat seen");
	if (left == ALL_SEATS)
		return false;
	*ret_seat = (unsigned)__builtin_ctz(~left);
	left |= 1U << *ret_seat;
	if (percpu_window_swap(f, at, word, percpu_window_word(page, left, w->id))) {
		count_sharers(f, seats, left);
		return true;
	}
	*ret_changed = true;
	unclaim_seats(w, claimed);
	return false;
}

struct percpu_window *percpu_window_find_slow(const struct percpu_lwbufs *f, uint64_t page,
					      unsigned *ret_seat, bool *ret_known)
{
	size_t set = percpu_window_set(f, page);
	const uint64_t *words;
	bool changed = true;
	uint64_t word;

	for (int try = 0; try < SEAT_TRIES && changed; try++) {
		changed = false;
		words = percpu_window_words(f, set);
		for (size_t way = 0; way < PERCPU_WINDOW_WAYS && !changed; way++) {
			word = percpu_window_load(&words[way]);
			if (percpu_window_tag_of(word) != page + 1)
				continue;
			*ret_known = true;
			if (percpu_window_id_of(word) == 0)
				continue;
			PERCPU_STEP("lwbuf: window seen again");
			if (take_seat(f, set + way * sizeof(word), word, ret_seat, &changed))
				return window_of(f, word);
		}
	}
	return NULL;
}

/* Leaving a seat */

/* Return whether the word at that distance is in the set where its page is looked for. */
static bool is_in_its_set(const struct percpu_lwbufs *f, size_t at, uint64_t page)
{
	return at - percpu_window_set(f, page) < PERCPU_WINDOW_WAYS * sizeof(uint64_t);
}

/* The free sets the bit after all that it has done with the window: from then on another thread may
 * take the window. */
static enum percpu_window_left leave_from_away(struct percpu_window *w, unsigned seat)
{
	__atomic_fetch_or(&w->away, (uint8_t)(1U << seat), __ATOMIC_RELEASE);
	return PERCPU_WINDOW_AWAY;
}

enum percpu_window_left percpu_window_leave_slow(const struct percpu_lwbufs *f,
						 struct percpu_window *w, unsigned seat, bool keep)
{
	size_t at = __atomic_load_n(&w->slot, __ATOMIC_RELAXED);
	uint64_t mine = percpu_window_word(w->page, 1U << seat, w->id), word, rest;
	uint32_t left;

	for (int try = 0; try < SEAT_TRIES; try++) {
		word = percpu_window_load(percpu_window_words(f, at));
		if (!percpu_window_is_same(word, mine))
			break;
		left = percpu_window_seats_of(word) & ~(1U << seat);
		rest = left != 0 || (keep && is_in_its_set(f, at, w->page)) ?
			       percpu_window_word(w->page, left, w->id) :
			       0;
		PERCPU_STEP("lwbuf: seat to be left");
		if (!percpu_window_swap(f, at, word, rest))
			continue;
		if (left != 0)
			count_sharers(f, left | 1U << seat, left);
		if (rest != 0)
			return PERCPU_WINDOW_KEPT;
		__atomic_store_n(&w->slot, PERCPU_WINDOW_LOOSE, __ATOMIC_RELAXED);
		return PERCPU_WINDOW_TAKEN;
	}
	PERCPU_STEP("lwbuf: to be left from another CPU");
	return leave_from_away(w, seat);
}

/* Seats that were left on other CPUs */

/* Return the CPU whose table has the window, or -1. *ret becomes the word there. */
static int find_cpu_of(const struct percpu_lwbufs *f, size_t at, uint64_t word, uint64_t *ret)
{
	for (unsigned cpu = 0; cpu < f->cpus; cpu++) {
		*ret = percpu_window_load(percpu_window_word_at(f, cpu, at));
		if (percpu_window_is_same(*ret, word))
			return (int)cpu;
	}
	return -1;
}

/* With the guard raised: the thread claims bits of `away`, and clears them in the word. */
static struct percpu_window *settle_at(const struct percpu_lwbufs *f, unsigned cpu, size_t at,
				       uint64_t word)
{
	struct percpu_window *w = window_of(f, word);
	uint64_t page = percpu_window_tag_of(word) - 1, old, rest;
	uint64_t *place = percpu_window_word_at(f, cpu, at);
	uint32_t claimed = claim_seats(w), left;

	old = percpu_window_load(place);
	while (claimed != 0 && percpu_window_is_same(old, word)) {
		left = percpu_window_seats_of(old) & ~claimed;
		rest = left != 0 ? percpu_window_word(page, left, w->id) : 0;
		PERCPU_STEP("lwbuf: to be settled");
		if (!__atomic_compare_exchange_n(place, &old, rest, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_RELAXED))
			continue;
		count_sharers(f, percpu_window_seats_of(old), left);
		return rest == 0 ? percpu_window_loosen(f, percpu_window_word(page, 0, w->id)) :
				   NULL;
	}
	unclaim_seats(w, claimed);
	return NULL;
}

struct percpu_window *percpu_window_settle(const struct percpu_lwbufs *f, size_t at, uint64_t word)
{
	struct percpu_window *w;
	uint64_t seen;
	int cpu = find_cpu_of(f, at, word, &seen);

	PERCPU_STEP("lwbuf: window found on another CPU");
	if (cpu < 0 || percpu_local_raise(f->table, (unsigned)cpu) != 0)
		return NULL;
	w = settle_at(f, (unsigned)cpu, at, word);
	percpu_local_lower(f->table, (unsigned)cpu);
	return w;
}

unsigned percpu_window_excess_error(const struct percpu_lwbufs *f, const struct percpu_window *w)
{
	uint32_t away = __atomic_load_n(&w->away, __ATOMIC_RELAXED);
	size_t at = __atomic_load_n(&w->slot, __ATOMIC_RELAXED);
	bool idle = false;
	uint64_t word;

	if (away == 0 || at == PERCPU_WINDOW_LOOSE)
		return 0;
	for (unsigned cpu = 0; cpu < f->cpus && !idle; cpu++) {
		word = percpu_window_load(percpu_window_word_at(f, cpu, at));
		idle = percpu_window_id_of(word) == w->id && percpu_window_seats_of(word) == away;
	}
	return (unsigned)__builtin_popcount(away) - idle;
}

/* SPDX-License-Identifier: MIT */
/*
 * exemplar_store.c - storing and reading exemplars: each slot has the last event that the program
 * has described.
 *
 * A slot is in the bias lane. It has a state, and two copies of an exemplar. The state says which
 * copy is valid, and whether a thread is storing in the other one:
 *
 *	turn	how often the slot was claimed
 *	resets	how often it was reset
 *	has	1: the slot has an exemplar
 *	valid	the copy that was stored last
 *	claim	0, or when the turn began, in 2^20 ns
 *
 *	from			to				by
 *	t, r, h, v, 0		t + 1, r, h, v, now		a thread that claims the slot
 *	t, r, h, v, old		t + 1, r, h, v, now		the same, a second after a claim that was
 *								left
 *	t, r, h, v, c		t, r, 1, !v, 0			the thread of turn t, when it has stored
 *	t, r, h, v, any		t, r + 1, 0, v, any		a reset
 *	t, later r, 0, v, c	t, later r, 0, v, 0		the thread of turn t, which stores nothing
 *
 * Each change is one compare-and-swap. The thread of a turn stores in the copy that is not valid.
 * Before each word it looks whether the state is still its own. A thread that was stopped meanwhile,
 * and whose claim another thread has taken over, so stores one more word at most. If that word is in
 * a copy which is complete by then, its checksum no longer fits, and readers take the other copy. The
 * checksum includes the number of resets: no reader takes a copy from before a reset.
 *
 *	a thread that is	leaves
 *	killed while it stores	a claim that lasts a second, and the valid copy
 *	stopped while it stores	the same; when it goes on, it stores nothing, or one word as above
 */
#include <errno.h>
#include <string.h>

#include "../cpu/text.h"
#include "counts.h"

#define CLAIM ((UINT64_C(1) << 24) - 1)
#define VALID (UINT64_C(1) << 24)
#define HAS (UINT64_C(1) << 25)
#define ONE_RESET (UINT64_C(1) << 26)
#define RESET_BITS (ONE_RESET * UINT16_MAX)
#define TURN (UINT64_C(1) << 42)
#define CLAIM_SHIFT 20
#define CLAIM_LASTS (PERCPU_SECOND >> CLAIM_SHIFT)
#define FETCH_TRIES 8 /* while other threads replace the exemplar */

#define COPY_TEXT sizeof(((struct percpu_exemplar_copy *)0)->text)

_Static_assert(COPY_TEXT == sizeof(((struct percpu_exemplar *)0)->text), "a text fits");
_Static_assert(COPY_TEXT <= UINT8_MAX + 1, "places in a text");

/* Labels. */

static bool has_name_before(const struct percpu_exemplar_label *labels, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(labels[k].name, labels[i].name) == 0)
			return true;
	return false;
}

static int check_exemplar_labels(const struct percpu_exemplar_label *labels, size_t n)
{
	size_t bytes = 0;

	if (n > PERCPU_EXEMPLAR_LABELS || (labels == NULL && n != 0))
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		if (labels[i].name == NULL || labels[i].value == NULL || labels[i].name[0] == '\0')
			return -EINVAL;
		bytes += strnlen(labels[i].name, PERCPU_EXEMPLAR_BYTES + 1) +
			 strnlen(labels[i].value, PERCPU_EXEMPLAR_BYTES + 1);
	}
	if (bytes > PERCPU_EXEMPLAR_BYTES)
		return -ENAMETOOLONG;
	for (size_t i = 0; i < n; i++) {
		if (!percpu_text_is_utf8(labels[i].name, strlen(labels[i].name)) ||
		    !percpu_text_is_utf8(labels[i].value, strlen(labels[i].value)))
			return -EILSEQ;
		if (has_name_before(labels, i))
			return -EINVAL;
	}
	return 0;
}

static size_t put_string(char *to, const char *from)
{
	const size_t n = strlen(from) + 1;

	memcpy(to, from, n);
	return n;
}

/* Fill in the text from checked labels. */
static void write_labels(const struct percpu_exemplar_label *labels, size_t n,
			 struct percpu_exemplar_copy *c)
{
	char *const text = (char *)c->text;

	for (size_t i = 0; i < n; i++) {
		c->bytes += put_string(text + c->bytes, labels[i].name);
		c->bytes += put_string(text + c->bytes, labels[i].value);
	}
}

/* Set *ret to the place of the next string in the text, and *at to the place behind it. Returns
 * false if the text has no more. */
static bool next_string(const struct percpu_exemplar *x, size_t bytes, size_t *at, uint8_t *ret)
{
	const size_t n = strnlen(x->text + *at, bytes - *at);

	if (*at + n == bytes)
		return false;
	*ret = (uint8_t)*at;
	*at += n + 1;
	return true;
}

/* Find the labels in a text of so many bytes, which a file has. Returns false if a program could
 * not have stored it. */
static bool read_labels(struct percpu_exemplar *x, size_t bytes)
{
	struct percpu_exemplar_label labels[PERCPU_EXEMPLAR_LABELS];
	size_t at = 0, n = 0;

	for (; at < bytes; n++) {
		if (n == PERCPU_EXEMPLAR_LABELS ||
		    !next_string(x, bytes, &at, &x->label_names[n]) ||
		    !next_string(x, bytes, &at, &x->label_values[n]))
			return false;
		labels[n].name = x->text + x->label_names[n];
		labels[n].value = x->text + x->label_values[n];
	}
	x->labels = (uint32_t)n;
	return check_exemplar_labels(labels, n) == 0;
}

/* Copies. */

/* Return how many words a copy with so many bytes of text has. */
static size_t words_of_exemplar(uint64_t bytes)
{
	return (offsetof(struct percpu_exemplar_copy, text) + (size_t)bytes + 7) / 8;
}

/* Return the checksum of a copy in a slot of this state. */
static uint64_t checksum_of(const struct percpu_exemplar_copy *c, uint64_t state)
{
	const uint64_t *const words = (const uint64_t *)c;
	uint64_t sum = UINT64_C(0xcbf29ce484222325) ^ (state & RESET_BITS) / ONE_RESET;

	for (size_t i = 1; i < words_of_exemplar(c->bytes); i++) {
		sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 32;
	}
	return sum;
}

/* Store a word in a slot, unless its turn is over. Returns whether it was stored. */
static bool put_in_turn(const struct percpu_exemplar_slot *s, uint64_t turn, uint64_t *to,
			uint64_t word)
{
	PERCPU_STEP("exemplar: turn to be checked");
	if (__atomic_load_n(&s->state, __ATOMIC_RELAXED) != turn)
		return false;
	PERCPU_STEP("exemplar: word to be stored");
	__atomic_store_n(to, word, __ATOMIC_RELAXED);
	return true;
}

/* Read the copy at `from`, in slot i of this state. Returns false if it is not whole. */
static bool read_exemplar_copy(const struct percpu_exemplars *x, size_t i,
			       const struct percpu_exemplar_copy *from, uint64_t state,
			       struct percpu_exemplar *ret)
{
	struct percpu_exemplar_copy c;
	uint64_t *const to = (uint64_t *)&c;
	const uint64_t bytes = __atomic_load_n(&from->bytes, __ATOMIC_RELAXED);
	size_t slot;

	if (bytes > COPY_TEXT)
		return false;
	for (size_t k = 0; k < words_of_exemplar(bytes); k++) {
		PERCPU_STEP("exemplar: word to be copied");
		to[k] = __atomic_load_n((const uint64_t *)from + k, __ATOMIC_RELAXED);
	}
	if (c.bytes != bytes || c.check != checksum_of(&c, state))
		return false;
	memset(ret, 0, sizeof(*ret));
	memcpy(&ret->value, &c.value, sizeof(ret->value));
	ret->time = c.time;
	memcpy(ret->text, c.text, (size_t)bytes);
	return percpu_exemplar_find_slot(x, ret->value, &slot) && slot == i &&
	       read_labels(ret, (size_t)bytes);
}

/* Storing and reading. */

/* Return the claim of a turn that begins now. */
static uint64_t claim_at(uint64_t ns)
{
	return (ns >> CLAIM_SHIFT) % CLAIM + 1;
}

/* Return whether a thread is storing in the slot, and has claimed it within the last second. If the
 * clock was set back, it seems to have claimed the slot long ago. */
static bool is_claimed(uint64_t state, uint64_t ns)
{
	return (state & CLAIM) != 0 &&
	       (claim_at(ns) + CLAIM - (state & CLAIM)) % CLAIM <= CLAIM_LASTS;
}

/* Return the state of the next turn. */
static uint64_t next_turn(uint64_t state, uint64_t ns)
{
	return ((state & ~CLAIM) + TURN) | claim_at(ns);
}

/* Give the slot back after a reset, unless another thread has taken the claim over. */
static void end_turn(struct percpu_exemplar_slot *s, uint64_t turn)
{
	uint64_t state = __atomic_load_n(&s->state, __ATOMIC_RELAXED);

	PERCPU_STEP("exemplar: turn to be ended");
	while (((state ^ turn) & ~(HAS | RESET_BITS)) == 0 &&
	       !__atomic_compare_exchange_n(&s->state, &state, state & ~CLAIM, false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

/* Store the words of a copy, and make it the valid one, unless the turn is over. Returns whether it
 * is valid. */
static bool fill_copy(struct percpu_exemplar_slot *s, uint64_t turn,
		      const struct percpu_exemplar_copy *c)
{
	const uint64_t *const words = (const uint64_t *)c;
	uint64_t *const to = (uint64_t *)&s->copy[turn & VALID ? 0 : 1], state = turn;

	for (size_t i = 0; i < words_of_exemplar(c->bytes); i++)
		if (!put_in_turn(s, turn, &to[i], words[i]))
			return false;
	PERCPU_STEP("exemplar: stored");
	return __atomic_compare_exchange_n(&s->state, &state, ((turn & ~CLAIM) ^ VALID) | HAS,
					   false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
}

/* Store the exemplar, all but its time and checksum. Returns 0 or -EBUSY. */
static int store_in(struct percpu_exemplar_slot *s, struct percpu_exemplar_copy *c)
{
	uint64_t state = __atomic_load_n(&s->state, __ATOMIC_RELAXED), turn;

	/* The clock is read after the state. So the order of the times is that of the turns. */
	PERCPU_STEP("exemplar: state loaded");
	c->time = percpu_clock_ns(CLOCK_REALTIME);
	turn = next_turn(state, c->time);
	if (is_claimed(state, c->time) ||
	    !__atomic_compare_exchange_n(&s->state, &state, turn, false, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return -EBUSY;
	PERCPU_STEP("exemplar: claimed");
	c->check = checksum_of(c, turn);
	if (fill_copy(s, turn, c))
		return 0;
	end_turn(s, turn);
	return -EBUSY;
}

int percpu_exemplars_store(struct percpu_exemplars *x, double value,
			   const struct percpu_exemplar_label *labels, size_t n)
{
	struct percpu_exemplar_copy c = { .bytes = 0 };
	size_t i;
	int e = x != NULL ? check_exemplar_labels(labels, n) : -EINVAL;

	if (e != 0)
		return e;
	if (!x->block.chunk->region->writable)
		return -EROFS;
	if (!percpu_exemplar_find_slot(x, value, &i))
		return percpu_double_is_number(value) ? -ERANGE : -EDOM;
	memcpy(&c.value, &value, sizeof(value));
	write_labels(labels, n, &c);
	return store_in(percpu_exemplar_slot(x, i), &c);
}

int percpu_exemplars_fetch(const struct percpu_exemplars *x, size_t i, struct percpu_exemplar *ret)
{
	const struct percpu_exemplar_slot *s;
	struct percpu_exemplar found;
	uint64_t state;

	if (x == NULL || ret == NULL || i >= x->n)
		return -EINVAL;
	s = percpu_exemplar_slot(x, i);
	for (int try = 0; try < FETCH_TRIES; try++) {
		state = __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
		PERCPU_STEP("exemplar: to be copied");
		if (!(state & HAS))
			return -ENODATA;
		if (read_exemplar_copy(x, i, &s->copy[state & VALID ? 1 : 0], state, &found) ||
		    read_exemplar_copy(x, i, &s->copy[state & VALID ? 0 : 1], state, &found)) {
			*ret = found;
			return 0;
		}
	}
	return -EAGAIN;
}

/* Return the state after a reset. */
static uint64_t reset_state(uint64_t state)
{
	const uint64_t resets = (state + ONE_RESET) & RESET_BITS;

	return (state & ~(HAS | RESET_BITS)) | resets;
}

/* Empty a slot. A thread that stores in it keeps its claim, so that no other one stores in the same
 * copy meanwhile. */
static void reset_slot(struct percpu_exemplar_slot *s)
{
	uint64_t state = __atomic_load_n(&s->state, __ATOMIC_RELAXED);

	PERCPU_STEP("exemplar: to be reset");
	while (!__atomic_compare_exchange_n(&s->state, &state, reset_state(state), false,
					    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

int percpu_exemplars_reset(struct percpu_exemplars *x)
{
	if (x == NULL)
		return -EINVAL;
	if (!x->block.chunk->region->writable)
		return -EROFS;
	for (size_t i = 0; i < x->n; i++)
		reset_slot(percpu_exemplar_slot(x, i));
	return 0;
}

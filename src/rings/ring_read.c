/* SPDX-License-Identifier: MIT */
/*
 * ring_read.c - readers of rings.
 *
 * A reader copies the words that were put since its last copy, and then finds the part of the
 * copy that is whole. In a ring that overwrites, a put may be storing the next record over the
 * oldest words: in the slots from head on, as many as the longest record has. A store to a slot
 * is not seen before the head of the record in front (arch/spec.h, "put"). So the head that is
 * loaded after the copy bounds those slots. The reader goes back from the end of the copy, record
 * by record, to the first one that is behind this bound.
 *
 * Another process may have written anything to the ring, so the reader checks all that it reads.
 *
 * For the order of time, the reader reads the counter, fences, and waits for locks. Then no
 * sequence or lock holder that read the counter before is still at work. So a copy that begins
 * later has all records up to that time.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rings.h"

#define SIZE_BITS 65535 /* the bits of a name that are the size; above is the number */
#define NUMBERS (UINT64_C(1) << 48)
#define TURNS 3
#define FENCING_NS (5 * PERCPU_SECOND)
#define PAUSE_NS (PERCPU_SECOND / 1000)

/* A reader's state for one ring. */
struct stream {
	struct percpu_ring_lane *lane;
	uint32_t number;   /* of the lane */
	bool known;	   /* next is known */
	bool ready;	   /* the record at `at` was checked */
	uint64_t next;	   /* number of the next record */
	uint64_t position; /* of the next word to copy, if this reader leaves records in the ring */
	uint64_t *words;   /* the copy: n words, those from `at` on not returned yet */
	size_t n, at, start; /* start: where the first record of the copy is */
	uint64_t copied;     /* ticks after the copy; no record in it has more */
	uint64_t ticks;	     /* of the record at `at`, or of the last one */
	uint64_t round;	     /* the reader's round in which the copy was made */
	uint64_t given_up;   /* a put that this reader has waited for in vain */
};

struct percpu_ring_reader {
	const struct percpu_ring *ring;
	unsigned flags;
	unsigned cpu;
	bool of_this_boot;
	bool of_this_clock;
	uint64_t round;
	uint64_t until; /* records from this time on are of a later round */
	uint64_t ns;	/* of the last record */
	struct percpu_moment from, to;
	uint32_t n;
	struct stream stream[];
};

static uint64_t load_ring_word(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static uint64_t ring_size(const struct percpu_ring *r)
{
	return r->mask + 1;
}

static bool takes(const struct percpu_ring_reader *reader)
{
	return reader->ring->keep != 0 && (reader->flags & PERCPU_RING_LOOK) == 0 &&
	       reader->ring->block.chunk->region->writable;
}

/* Return whether the lane was ever used. To look at one that was not would take memory. */
static bool is_used_stream(const struct percpu_ring_reader *reader, const struct stream *s)
{
	const struct percpu_chunk *k = reader->ring->block.chunk;

	return s->number < k->cpus || percpu_used_lane(k, s->number) == s->number;
}

/* Return whether there is anything to copy. If this reader takes records, that includes a tail
 * beyond head: puts are refused until the reader has mended it. */
static bool has_news(const struct percpu_ring_reader *reader, const struct stream *s)
{
	const uint64_t *end = takes(reader) ? &s->lane->tail : &s->position;

	return is_used_stream(reader, s) && load_ring_word(&s->lane->head) != load_ring_word(end);
}

/* The copy */

static void copy_slots(const struct percpu_ring *r, struct stream *s, uint64_t from, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		s->words[i] = load_ring_word(&s->lane->slot[(from + i) & r->mask]);
}

/* Return the number of words of the record with this name; 0 if no record can have it. */
static uint64_t words_of_name(const struct percpu_ring *r, uint64_t name)
{
	uint64_t size = name & SIZE_BITS;

	return size != 0 && size <= percpu_ring_longest(r) ? percpu_ring_words(size) : 0;
}

/* Return where the oldest record of the copy begins that is not in front of low; n if none. */
static size_t find_oldest(const struct percpu_ring *r, const uint64_t *words, size_t n, size_t low)
{
	size_t at = n;
	uint64_t size;

	while (at > low) {
		size = words_of_name(r, words[at - 1]);
		if (size == 0 || size > at - low || words[at - size] != words[at - 1])
			break;
		at -= size;
	}
	return at;
}

/* Return the position from which on the copied words are whole. */
static uint64_t find_whole(const struct percpu_ring *r, const struct stream *s)
{
	uint64_t whole = load_ring_word(&s->lane->head) +
			 percpu_ring_words(percpu_ring_longest(r)) - ring_size(r);
	uint64_t tail = load_ring_word(&s->lane->tail);

	return r->keep != 0 && (int64_t)(tail - whole) < 0 ? tail : whole;
}

/* Copy the words up to head, the last `most` of them if there are more. Returns 0, or -EAGAIN if
 * all of them were overwritten meanwhile, or -EBADMSG. */
static int copy_once(const struct percpu_ring *r, struct stream *s, uint64_t head, uint64_t most)
{
	uint64_t n = head - s->position, from, whole;
	size_t low;

	from = n > most ? head - most : s->position;
	n = head - from;
	copy_slots(r, s, from, n);
	PERCPU_STEP("ring: copied");
	whole = find_whole(r, s);
	low = (int64_t)(whole - from) <= 0 ? 0 : whole - from < n ? whole - from : n;
	s->start = from == s->position && low == 0 ? 0 : find_oldest(r, s->words, n, low);
	if (s->start == n && n - low >= percpu_ring_words(percpu_ring_longest(r)))
		return -EBADMSG;
	if (s->start == n)
		return -EAGAIN;
	s->n = n;
	s->at = s->start;
	s->position = head;
	return 0;
}

/* Copy the new words, and leave them in the ring. If puts overwrite the ring so fast that no word
 * of the copy is whole, make a smaller copy, which takes less time. */
static int look_at_words(const struct percpu_ring *r, struct stream *s)
{
	uint64_t head = load_ring_word(&s->lane->head);
	int e = -EAGAIN;

	for (uint64_t most = ring_size(r); most > 0 && e == -EAGAIN; most /= 2) {
		e = (int64_t)(head - s->position) < 0 ? -EBADMSG : copy_once(r, s, head, most);
		if (e == -EBADMSG)
			s->position = head;
		head = load_ring_word(&s->lane->head);
	}
	return e == -EAGAIN ? 0 : e;
}

/* Copy all words of the ring, and give their slots back. */
static int take_words(const struct percpu_ring *r, struct stream *s)
{
	struct percpu_robust h;
	uint64_t head, tail;
	int e = percpu_robust_lock(&h, &s->lane->consumer, PERCPU_LOCK_NS);

	if (e != 0)
		return e;
	head = load_ring_word(&s->lane->head);
	tail = load_ring_word(&s->lane->tail);
	if (head - tail <= ring_size(r)) {
		copy_slots(r, s, tail, head - tail);
		s->n = head - tail;
	} else {
		s->n = 0;
		e = -EBADMSG;
	}
	PERCPU_STEP("ring: copied");
	__atomic_store_n(&s->lane->tail, head, __ATOMIC_RELEASE);
	percpu_robust_unlock(&h);
	s->at = s->start = 0;
	s->known = false; /* other readers may have taken the records before these */
	return e;
}

/* Copy the new words of a ring of which all records were returned. */
static int fill_stream(struct percpu_ring_reader *reader, struct stream *s)
{
	const struct percpu_ring *r = reader->ring;
	int e;

	s->round = reader->round;
	if (!has_news(reader, s))
		return 0;
	if (s->words == NULL)
		s->words = malloc(ring_size(r) * sizeof(uint64_t));
	if (s->words == NULL)
		return -ENOMEM;
	e = takes(reader) ? take_words(r, s) : look_at_words(r, s);
	s->copied = reader->of_this_boot ? percpu_ticks() : UINT64_MAX - 1;
	percpu_ring_moments(percpu_ring_control(r), reader->of_this_clock, &reader->from,
			    &reader->to);
	return e;
}

/* The records of the copy */

/* Return the number of the record at s->at. */
static uint64_t number_at(const struct stream *s)
{
	return s->words[s->at] / (SIZE_BITS + 1);
}

static uint64_t lost_before(const struct stream *s)
{
	return s->known ? (number_at(s) - s->next) % NUMBERS : 0;
}

/* Check the next record of the copy, and find its time. Returns 0 or -EBADMSG. */
static int look_at_record(struct percpu_ring_reader *reader, struct stream *s)
{
	uint64_t size = words_of_name(reader->ring, s->words[s->at]), ticks;

	if (size == 0 || size > s->n - s->at || s->words[s->at + size - 1] != s->words[s->at] ||
	    (s->at != s->start && lost_before(s) != 0)) {
		s->at = s->n;
		return -EBADMSG;
	}
	ticks = s->words[s->at + 1];
	if (ticks > s->copied) /* no counter had this value yet */
		ticks = s->copied;
	if (ticks > s->ticks)
		s->ticks = ticks;
	s->ready = true;
	return 0;
}

/* Make the stream's next record of this round ready, if there is one. */
static int prepare_stream(struct percpu_ring_reader *reader, struct stream *s)
{
	int e = 0;

	if (s->ready)
		return 0;
	if (s->at == s->n && s->round != reader->round)
		e = fill_stream(reader, s);
	return e == 0 && s->at != s->n ? look_at_record(reader, s) : e;
}

static void return_record(struct percpu_ring_reader *reader, struct stream *s,
			  struct percpu_ring_record *ret)
{
	const uint32_t cpus = reader->ring->block.chunk->cpus;
	uint64_t ns = percpu_ring_ns(s->ticks, reader->from, reader->to);

	if (reader->ns < ns)
		reader->ns = ns;
	*ret = (struct percpu_ring_record){
		.cpu = s->number % cpus,
		.locked = s->number >= cpus,
		.number = number_at(s),
		.time = reader->ns,
		.lost = lost_before(s),
		.size = s->words[s->at] & SIZE_BITS,
		.data = &s->words[s->at + 2],
	};
	s->next = (ret->number + 1) % NUMBERS;
	s->known = true;
	s->at += percpu_ring_words(ret->size);
	s->ready = false;
}

/* Set *ret to the earliest record of this round. Returns 0, -ENOENT if there is none, or another
 * error. */
static int read_in_round(struct percpu_ring_reader *reader, struct percpu_ring_record *ret)
{
	struct stream *s, *first = NULL;
	int e;

	for (uint32_t i = 0; i < reader->n; i++) {
		s = &reader->stream[i];
		e = prepare_stream(reader, s);
		if (e != 0)
			return e;
		if (s->ready && (first == NULL || s->ticks < first->ticks))
			first = s;
	}
	if (first == NULL || first->ticks >= reader->until)
		return -ENOENT;
	return_record(reader, first, ret);
	return 0;
}

/* Rounds */

static bool is_anything_new(const struct percpu_ring_reader *reader)
{
	for (const struct stream *s = reader->stream; s < reader->stream + reader->n; s++)
		if (s->at != s->n || has_news(reader, s))
			return true;
	return false;
}

static int fence_rings(const struct percpu_ring_reader *reader)
{
	const struct percpu_region *r = reader->ring->block.chunk->region;

	if (reader->cpu == PERCPU_RING_ALL)
		return percpu_region_fence(r);
	return r->shared ?
		       percpu_visit(reader->cpu, reader->cpu + 1, NULL, NULL, FENCING_NS, NULL) :
		       percpu_barrier_cpu(reader->cpu);
}

/* Wait until the present holder of the ring's lock has released it. A reader that may not take
 * the lock waits for another holder, or for a committed record. If the put does not end, fail
 * once only: in a copy of a file, its thread may not exist. */
static int await_lock(const struct percpu_ring *r, struct stream *s)
{
	uint32_t holder = __atomic_load_n(&s->lane->lock, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK;
	uint32_t now = holder, local = 0;
	uint64_t head = load_ring_word(&s->lane->head), waited = 0;
	const uint64_t put = (uint64_t)holder << 32 | (uint32_t)head;
	struct percpu_robust h;
	int e = 0;

	if (holder == 0 || put == s->given_up)
		return 0;
	if (r->block.chunk->region->writable) {
		e = percpu_robust_lock(&h, &s->lane->lock, PERCPU_LOCK_NS);
		if (e == 0)
			percpu_robust_unlock(&h);
	} else {
		for (; now == holder && load_ring_word(&s->lane->head) == head && e == 0;
		     waited += PAUSE_NS) {
			percpu_futex_wait(&local, 0, PAUSE_NS);
			now = __atomic_load_n(&s->lane->lock, __ATOMIC_ACQUIRE) & FUTEX_TID_MASK;
			e = waited >= PERCPU_LOCK_NS ? -ETIMEDOUT : 0;
		}
	}
	s->given_up = e == -ETIMEDOUT ? put : 0;
	return e;
}

/* Begin a round, which returns the records that were put up to now. */
static int begin_round(struct percpu_ring_reader *reader)
{
	uint64_t until = UINT64_MAX;
	int e = 0;

	if (!is_anything_new(reader))
		return -EAGAIN;
	if ((reader->flags & PERCPU_RING_UNFENCED) == 0 && reader->of_this_boot) {
		until = percpu_ticks();
		e = fence_rings(reader);
		if (e == -EAGAIN) /* no thread can be started: this must not mean "no record" */
			e = -EPERM;
		for (uint32_t i = 0; i < reader->n && e == 0; i++)
			if (reader->stream[i].number >= reader->ring->block.chunk->cpus &&
			    is_used_stream(reader, &reader->stream[i]))
				e = await_lock(reader->ring, &reader->stream[i]);
	}
	if (e != 0)
		return e;
	reader->until = until;
	reader->round++;
	return 0;
}

int percpu_ring_read(struct percpu_ring_reader *reader, struct percpu_ring_record *ret)
{
	int e = -EINVAL;

	if (reader == NULL || ret == NULL)
		return e;
	for (int i = 0; i < TURNS; i++) {
		e = read_in_round(reader, ret);
		if (e != -ENOENT)
			return e;
		e = begin_round(reader);
		if (e != 0)
			return e;
	}
	return -EAGAIN;
}

/* Readers */

/* Begin the stream with the records that are in the ring. */
static int begin_stream(struct percpu_ring_reader *reader, struct stream *s, uint32_t lane)
{
	s->lane = percpu_ring_at(reader->ring, lane);
	s->number = lane;
	s->next = 1;
	s->known = !is_used_stream(reader, s) || load_ring_word(&s->lane->head) == 0;
	return takes(reader) ? 0 : fill_stream(reader, s);
}

int percpu_ring_reader_create(const struct percpu_ring *r, unsigned cpu, unsigned flags,
			      struct percpu_ring_reader **ret)
{
	const uint32_t cpus = r != NULL ? r->block.chunk->cpus : 0;
	const uint32_t n = cpu == PERCPU_RING_ALL ? 2 * cpus : 2;
	struct percpu_ring_reader *reader;
	int e = 0;

	if (r == NULL || ret == NULL || (cpu != PERCPU_RING_ALL && cpu >= cpus) ||
	    (flags & ~(unsigned)(PERCPU_RING_UNFENCED | PERCPU_RING_LOOK)) != 0)
		return -EINVAL;
	reader = calloc(1, sizeof(*reader) + n * sizeof(reader->stream[0]));
	if (reader == NULL)
		return -ENOMEM;
	reader->ring = r;
	reader->flags = flags;
	reader->cpu = cpu;
	reader->n = n;
	reader->of_this_boot = percpu_ring_is_of_this_boot(percpu_ring_control(r));
	reader->of_this_clock = percpu_ring_is_of_this_clock(percpu_ring_control(r));
	for (uint32_t i = 0; i < n && e != -ENOMEM; i++)
		e = begin_stream(reader, &reader->stream[i],
				 cpu == PERCPU_RING_ALL ? i : cpu + i * cpus);
	if (e == -ENOMEM) {
		percpu_ring_reader_destroy(reader);
		return e;
	}
	*ret = reader;
	return 0;
}

void percpu_ring_reader_destroy(struct percpu_ring_reader *reader)
{
	for (uint32_t i = 0; reader != NULL && i < reader->n; i++)
		free(reader->stream[i].words);
	free(reader);
}

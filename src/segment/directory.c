/* SPDX-License-Identifier: MIT */
/*
 * directory.c - the records of a segment.
 *
 * Records are in blocks of the bias lane, one behind the other. control->end says how many bytes
 * of them there are: who adds one holds the lock of the allocator, writes it behind the end,
 * creates the object, moves the end, and stores the object's key in the record, in this order.
 * So whoever is killed
 *
 * - before the end was moved has added nothing: the next one writes over it;
 * - before the key was stored leaves a record without an object, and whoever takes the lock next
 *   frees what it was creating (memory/root.c). Who declares the metric next creates it.
 *
 * What is read is copied first, and checked where it cannot change any more.
 */
#include <string.h>

#include "../objects/owner.h"
#include "segment.h"

#define LAST_END (UINT64_C(1) * PERCPU_SEGMENT_BLOCKS * PERCPU_SEGMENT_BLOCK)

_Static_assert(offsetof(struct percpu_declaring, at) == 0, "a pointer to the anchor leads to it");
_Static_assert(PERCPU_SEGMENT_BLOCK % 8 == 0 && sizeof(struct percpu_segment_record) % 8 == 0,
	       "records are aligned");

/* Return where the block is; NULL, and *e, if it is not there. Takes the process lock. */
static char *block_of(struct percpu_segment *s, size_t i, int *e)
{
	char *b = __atomic_load_n(&s->block[i], __ATOMIC_ACQUIRE);
	struct percpu_chunk *k;
	size_t offset;
	void *found;

	if (b != NULL)
		return b;
	*e = percpu_owner_block(s->region, &s->control->block[i], PERCPU_SEGMENT_BLOCK, false,
				&found, &k, &offset);
	if (*e != 0)
		return NULL;
	__atomic_store_n(&s->place[i],
			 ((uint64_t)k->index + 1) << PERCPU_KEY_CHUNK_SHIFT | (uint64_t)offset,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&s->block[i], found, __ATOMIC_RELEASE);
	return found;
}

int percpu_directory_extend(struct percpu_segment *s, size_t block)
{
	const struct percpu_plan plan = { .kind = PERCPU_KIND_CELL,
					  .size = PERCPU_SEGMENT_BLOCK,
					  .align = PERCPU_BLOCK_ALIGN };
	struct percpu_anchor at = {
		.word = &s->control->block[block],
		.place = s->control_place + offsetof(struct percpu_segment_control, block) +
			 block * sizeof(uint64_t),
		.root = PERCPU_REGION_ROOTS,
	};
	struct percpu_plan p = plan;
	void *cell;
	int e = percpu_block_open_at(s->region, &at, &p, &cell);

	return e == -EEXIST ? -EBADMSG : e;
}

struct percpu_segment_record *percpu_directory_at(const struct percpu_segment *s, uint64_t at)
{
	char *b = __atomic_load_n(&s->block[at / PERCPU_SEGMENT_BLOCK], __ATOMIC_ACQUIRE);

	return (struct percpu_segment_record *)(b + at % PERCPU_SEGMENT_BLOCK);
}

/* Return the size of the record, or 0 if none can be there: then there are no more in the block. */
static size_t size_at(const struct percpu_segment *s, uint64_t at)
{
	const size_t room = PERCPU_SEGMENT_BLOCK - (size_t)(at % PERCPU_SEGMENT_BLOCK);
	uint32_t size;

	if (room < sizeof(struct percpu_segment_record))
		return 0;
	size = __atomic_load_n(&percpu_directory_at(s, at)->size, __ATOMIC_ACQUIRE);
	return size % 8 == 0 && size >= sizeof(struct percpu_segment_record) && size <= room ?
		       size :
		       0;
}

/* Whether its parts are where they should be, and it is one that this library knows. */
static bool is_sound(const struct percpu_record_copy *c, size_t bytes)
{
	const struct percpu_segment_record *r = &c->head;

	return r->state == 0 && r->kind >= PERCPU_METRIC_COUNTER && r->kind <= PERCPU_METRIC_INFO &&
	       r->labels <= PERCPU_METRIC_LABELS &&
	       (size_t)r->name + r->unit + r->label_names + r->label_values + r->help <= bytes;
}

size_t percpu_directory_load(const struct percpu_segment *s, uint64_t at,
			     struct percpu_record_copy *ret)
{
	const size_t size = size_at(s, at);
	const uint64_t *from = (const uint64_t *)percpu_directory_at(s, at);
	uint64_t word;

	if (size == 0 || size > sizeof(*ret))
		return 0;
	for (size_t i = 0; i < size; i += sizeof(word)) {
		word = __atomic_load_n(&from[i / sizeof(word)], __ATOMIC_RELAXED);
		memcpy((char *)ret + i, &word, sizeof(word));
	}
	return is_sound(ret, size - sizeof(ret->head)) ? size : 0;
}

/* Return where all records end, as far as that can be. */
static uint64_t records_end(const struct percpu_segment *s)
{
	const uint64_t end = __atomic_load_n(&s->control->end, __ATOMIC_ACQUIRE);

	return end < LAST_END ? end / 8 * 8 : LAST_END;
}

static void go_on(struct percpu_segment *s, uint64_t seen)
{
	__atomic_store_n(&s->seen, seen, __ATOMIC_RELAXED);
}

/* Enter the next record. Returns 0 or -ENOMEM. */
static int walk_on(struct percpu_segment *s)
{
	const size_t size = size_at(s, s->seen);
	int e = 0;

	if (size == 0) {
		go_on(s, (s->seen / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK);
		return 0;
	}
	if (percpu_directory_load(s, s->seen, &s->walk) != 0)
		e = percpu_series_enter(s, &s->walk, s->seen);
	if (e == 0)
		go_on(s, s->seen + size);
	return e;
}

int percpu_directory_refresh(struct percpu_segment *s)
{
	const uint64_t end = records_end(s);
	uint64_t seen = __atomic_load_n(&s->seen, __ATOMIC_RELAXED);
	int e = 0;

	for (; seen < end; seen = (seen / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK)
		if (block_of(s, seen / PERCPU_SEGMENT_BLOCK, &e) == NULL)
			return e == -ENOENT ? -EBADMSG : e;
	percpu_process_lock();
	while (e == 0 && s->seen < end)
		e = walk_on(s);
	percpu_process_unlock();
	return e;
}

bool percpu_directory_next(const struct percpu_segment *s, uint64_t *at,
			   struct percpu_record_copy *ret, struct percpu_segment_record **ret_at)
{
	const uint64_t end = __atomic_load_n(&s->seen, __ATOMIC_RELAXED);
	uint64_t here;
	size_t size;

	for (here = *at; here < end; here = *at) {
		size = size_at(s, here);
		*at = size != 0 ? here + size :
				  (here / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK;
		if (size != 0 && percpu_directory_load(s, here, ret) != 0) {
			*ret_at = percpu_directory_at(s, here);
			return true;
		}
	}
	return false;
}

/* Let the anchor be that record's. */
static void anchor_record(struct percpu_declaring *d, uint64_t at)
{
	d->at.word = &percpu_directory_at(d->s, at)->key;
	d->at.place = __atomic_load_n(&d->s->place[at / PERCPU_SEGMENT_BLOCK], __ATOMIC_RELAXED) +
		      at % PERCPU_SEGMENT_BLOCK + offsetof(struct percpu_segment_record, key);
}

/* Look for the metric among what was entered. Returns 0, or -ENOENT, or -EEXIST and why. */
static int look_up_metric(struct percpu_declaring *d)
{
	struct percpu_segment *s = d->s;
	const struct percpu_series *found;
	uint64_t at = 0;
	int e = 0;

	percpu_process_lock();
	found = percpu_series_find(s, d->asked, true);
	if (found != NULL)
		e = percpu_record_compare(&s->copy, d->asked, d->why);
	if (e == 0) {
		found = percpu_series_find(s, d->asked, false);
		if (found != NULL)
			e = percpu_record_compare(&s->copy, d->asked, d->why);
		at = found != NULL ? found->at : 0;
	}
	percpu_process_unlock();
	if (e == 0 && at != 0)
		anchor_record(d, at - 1);
	return e == 0 && at == 0 ? -ENOENT : e;
}

/* Write the record behind the end. Returns 0, or -EAGAIN if a block must be made first, or
 * -errno. */
static int write_record(struct percpu_declaring *d)
{
	struct percpu_segment *s = d->s;
	const size_t size = d->asked->head.size;
	uint64_t at = records_end(s), room = PERCPU_SEGMENT_BLOCK - at % PERCPU_SEGMENT_BLOCK;
	struct percpu_segment_record head = d->asked->head, *r;
	int e = 0;

	if (room < size) { /* what a killed process has left there is no record */
		if (block_of(s, at / PERCPU_SEGMENT_BLOCK, &e) == NULL)
			return e == -ENOENT ? -EBADMSG : e;
		__atomic_store_n(&percpu_directory_at(s, at)->size, 0, __ATOMIC_RELEASE);
		at += room;
	}
	d->needed = (size_t)(at / PERCPU_SEGMENT_BLOCK);
	if (d->needed >= PERCPU_SEGMENT_BLOCKS)
		return -ENOSPC;
	if (block_of(s, d->needed, &e) == NULL)
		return e == -ENOENT ? -EAGAIN : e;
	r = percpu_directory_at(s, at);
	head.declared = percpu_segment_now(s);
	head.generation = __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
	memcpy(r, &head, sizeof(head));
	memcpy(r + 1, d->asked->bytes, size - sizeof(head));
	anchor_record(d, at);
	d->end = at + size;
	PERCPU_STEP("segment: record written");
	return 0;
}

/* Under the lock of the allocator: look again, and then add the record. */
static int choose_record(struct percpu_anchor *at)
{
	struct percpu_declaring *d = (struct percpu_declaring *)at;
	int e = percpu_directory_refresh(d->s);

	if (e == 0)
		e = look_up_metric(d);
	if (e == -ENOENT)
		return write_record(d);
	return e == -EEXIST ? -ECANCELED : e; /* another metric, and not this one's object */
}

static void announce_record(struct percpu_anchor *at)
{
	struct percpu_declaring *d = (struct percpu_declaring *)at;

	if (d->end != 0)
		__atomic_store_n(&d->s->control->end, d->end, __ATOMIC_RELEASE);
	PERCPU_STEP("segment: record announced");
}

int percpu_directory_look(struct percpu_declaring *d)
{
	int e = percpu_directory_refresh(d->s);

	d->at = (struct percpu_anchor){ .root = PERCPU_REGION_ROOTS };
	d->end = 0;
	if (e == 0)
		e = look_up_metric(d);
	if (e == -ENOENT) {
		d->at.choose = choose_record;
		d->at.announce = announce_record;
		e = 0;
	}
	return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * directory.c - the records of a segment.
 *
 * Records are in blocks of the bias lane, one behind the other. control->end says how many bytes of
 * records there are. A process that adds a record holds the lock of the allocator. It writes the
 * record behind the end, creates the object, moves the end, and stores the object's key in the
 * record, in this order. reuse.c has the states of a record, and what a killed process leaves.
 *
 * A process copies a record, and checks the copy, which no other process can change.
 */
#include <string.h>

#include "segment.h"

#define REFRESH_TRIES 100 /* while other processes change records */
#define LAST_END (UINT64_C(1) * PERCPU_SEGMENT_BLOCKS * PERCPU_SEGMENT_BLOCK)

_Static_assert(PERCPU_SEGMENT_BLOCK % 8 == 0 && sizeof(struct percpu_segment_record) % 8 == 0,
	       "records are aligned");

char *percpu_directory_block(struct percpu_segment *s, size_t i, int *e)
{
	char *b = __atomic_load_n(&s->block[i], __ATOMIC_ACQUIRE);
	struct percpu_owner_block found = { .size = PERCPU_SEGMENT_BLOCK };

	if (b != NULL)
		return b;
	*e = percpu_owner_block(s->region, &s->control->block[i], false, &found);
	if (*e != 0)
		return NULL;
	__atomic_store_n(&s->block_key[i],
			 ((uint64_t)found.chunk->index + 1) << PERCPU_KEY_CHUNK_SHIFT |
				 (uint64_t)found.offset,
			 __ATOMIC_RELAXED);
	__atomic_store_n(&s->block[i], (char *)found.bias, __ATOMIC_RELEASE);
	return found.bias;
}

struct percpu_segment_record *percpu_directory_at(const struct percpu_segment *s, uint64_t at)
{
	char *b = __atomic_load_n(&s->block[at / PERCPU_SEGMENT_BLOCK], __ATOMIC_ACQUIRE);

	return (struct percpu_segment_record *)(b + at % PERCPU_SEGMENT_BLOCK);
}

/* Return the size of the record at this place, or 0 if the block has no more records. */
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

/* Return whether this library knows such a record, and its texts fit into these bytes. */
static bool is_sound(const struct percpu_record_copy *c, size_t bytes)
{
	const struct percpu_segment_record *r = &c->head;

	return r->state <= PERCPU_RECORD_FAMILY && r->state != PERCPU_RECORD_FREE &&
	       r->kind >= PERCPU_METRIC_COUNTER && r->kind <= PERCPU_METRIC_STATS &&
	       r->labels <= PERCPU_METRIC_LABELS &&
	       (r->kind == PERCPU_METRIC_STATS) == (r->fields != 0) &&
	       r->fields <= PERCPU_STATS_MAX_COMMIT &&
	       (size_t)r->name + r->unit + r->label_names + r->label_values + r->help <= bytes;
}

/* Load the first word, which has the state, with acquire: it was stored last, with release. */
size_t percpu_directory_load(const struct percpu_segment *s, uint64_t at,
			     struct percpu_record_copy *ret)
{
	const size_t size = size_at(s, at);
	const uint64_t *from = (const uint64_t *)percpu_directory_at(s, at);
	uint64_t word;

	PERCPU_STEP("directory: size checked");
	if (size == 0 || size > sizeof(*ret))
		return 0;
	for (size_t i = 0; i < size; i += sizeof(word)) {
		word = __atomic_load_n(&from[i / sizeof(word)],
				       i == 0 ? __ATOMIC_ACQUIRE : __ATOMIC_RELAXED);
		memcpy((char *)ret + i, &word, sizeof(word));
	}
	ret->head.size = (uint32_t)size; /* the one that was checked */
	return is_sound(ret, size - sizeof(ret->head)) ? size : 0;
}

uint64_t percpu_directory_end(const struct percpu_segment *s)
{
	const uint64_t end = __atomic_load_n(&s->control->end, __ATOMIC_ACQUIRE);

	return end < LAST_END ? end / 8 * 8 : LAST_END;
}

bool percpu_directory_is_unchanged(const struct percpu_segment *s, uint64_t changes)
{
	percpu_full_fence();
	return __atomic_load_n(&s->control->changes, __ATOMIC_RELAXED) == changes;
}

bool percpu_directory_is_spare(const struct percpu_segment_record *r)
{
	return __atomic_load_n(&r->state, __ATOMIC_ACQUIRE) == PERCPU_RECORD_FREE &&
	       __atomic_load_n(&r->key, __ATOMIC_RELAXED) == 0;
}

/* Enter the record at *seen, and move *seen behind it. Returns 0 or -ENOMEM. */
static int walk_on(struct percpu_segment *s, uint64_t *seen)
{
	const size_t size = size_at(s, *seen);
	const struct percpu_listed_record spare = { .at = *seen, .size = size };
	int e = 0;

	if (size == 0) {
		*seen = (*seen / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK;
		return 0;
	}
	if (percpu_directory_load(s, *seen, &s->walk) != 0) {
		e = percpu_series_enter(s, &s->walk, *seen);
		s->unkeyed += s->walk.head.state == PERCPU_RECORD_IN_USE && s->walk.head.key == 0;
	} else if (percpu_directory_is_spare(percpu_directory_at(s, *seen))) {
		e = percpu_record_list_add(&s->spare, &spare);
	}
	if (e == 0)
		*seen += size;
	return e;
}

/* Enter the records from *seen up to the end. Their blocks were looked up before. */
static int walk_to(struct percpu_segment *s, uint64_t *seen, uint64_t end)
{
	int e = 0;

	while (e == 0 && *seen < end)
		e = walk_on(s, seen);
	return e;
}

/* Rebuild the tables from all records. On failure the old tables stay. */
static int walk_again(struct percpu_segment *s, uint64_t changes, uint64_t removals, uint64_t end)
{
	struct percpu_tables was = percpu_tables_take(s), made;
	uint64_t seen = 0;
	int e = walk_to(s, &seen, end);

	if (e == 0)
		e = percpu_directory_is_unchanged(s, changes) ? percpu_tables_inherit(s, &was) :
								-EAGAIN;
	if (e != 0) {
		made = percpu_tables_take(s);
		percpu_tables_put(s, &was);
		percpu_tables_free(&made);
		return e;
	}
	percpu_tables_free(&was);
	__atomic_store_n(&s->seen, seen, __ATOMIC_RELAXED);
	s->changes = changes;
	s->removals = removals;
	s->walks++;
	return 0;
}

/* Return whether the tables are complete for these numbers, other than new records. While changes
 * is odd, a series may have been removed since it was entered: then removals must be equal, too. */
static bool is_entered(const struct percpu_segment *s, uint64_t changes, uint64_t removals)
{
	return s->changes == changes && (!(changes & 1) || s->removals == removals);
}

/* Enter the records behind those that the tables have. Returns 0 or -errno. */
static int walk_further(struct percpu_segment *s, uint64_t end)
{
	uint64_t seen = s->seen;
	int e = walk_to(s, &seen, end);

	__atomic_store_n(&s->seen, seen, __ATOMIC_RELAXED);
	return e == 0 && !percpu_directory_is_unchanged(s, s->changes) ? -EAGAIN : e;
}

/* Look up the blocks of the records that are not entered yet. */
static int find_blocks(struct percpu_segment *s, uint64_t end)
{
	int e = 0;

	for (uint64_t b = __atomic_load_n(&s->seen, __ATOMIC_RELAXED) / PERCPU_SEGMENT_BLOCK;
	     b * PERCPU_SEGMENT_BLOCK < end; b++)
		if (percpu_directory_block(s, b, &e) == NULL)
			return e == -ENOENT ? -EBADMSG : e;
	return 0;
}

/* The tables may be used only if control->changes is the same before and after records are entered.
 * That also holds for an odd number: a record that is being rewritten is not in use until all of it
 * is stored. */
int percpu_directory_refresh(struct percpu_segment *s)
{
	uint64_t changes, removals, end;
	int e = -EAGAIN;

	for (int try = 0; e == -EAGAIN && try < REFRESH_TRIES; try++) {
		changes = __atomic_load_n(&s->control->changes, __ATOMIC_ACQUIRE);
		removals = __atomic_load_n(&s->control->removals, __ATOMIC_ACQUIRE);
		end = percpu_directory_end(s);
		e = find_blocks(s, end);
		if (e != 0)
			return e;
		PERCPU_STEP("directory: blocks found");
		percpu_process_lock();
		e = is_entered(s, changes, removals) ? walk_further(s, end) :
						       walk_again(s, changes, removals, end);
		percpu_process_unlock();
	}
	return e;
}

/* Copy a record as it is at one moment. Returns whether it is in one of those states. */
static bool load_at_once(const struct percpu_segment *s, uint64_t at, unsigned states,
			 struct percpu_record_copy *ret)
{
	uint64_t changes;
	size_t size;

	for (int try = 0; try < REFRESH_TRIES; try++) {
		changes = __atomic_load_n(&s->control->changes, __ATOMIC_ACQUIRE);
		size = percpu_directory_load(s, at, ret);
		PERCPU_STEP("directory: record copied");
		if (percpu_directory_is_unchanged(s, changes))
			return size != 0 && states >> ret->head.state & 1;
	}
	return false;
}

bool percpu_directory_next(const struct percpu_segment *s, unsigned states, uint64_t *at,
			   struct percpu_record_copy *ret, struct percpu_segment_record **ret_at)
{
	const uint64_t end = __atomic_load_n(&s->seen, __ATOMIC_RELAXED);
	uint64_t here;
	size_t size;

	for (here = *at; here < end; here = *at) {
		size = size_at(s, here);
		*at = size != 0 ? here + size :
				  (here / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK;
		if (size != 0 && *at <= end && load_at_once(s, here, states, ret) &&
		    ret->head.size == size) {
			*ret_at = percpu_directory_at(s, here);
			return true;
		}
	}
	return false;
}

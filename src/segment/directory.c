/* SPDX-License-Identifier: MIT */
/*
 * directory.c - the records of a segment.
 *
 * Records are in blocks of the bias lane, one behind the other. control->end says how many bytes of
 * records there are. A record stays where it is, with its texts, as long as the file. A process
 * that adds one holds the lock of the allocator: it writes the record behind the end, and moves the
 * end. remove.c has the states of a record.
 *
 * A process copies a record, and checks the copy, which no other process can change.
 */
#include <string.h>

#include "segment.h"

#define COPY_TRIES 100 /* while other processes change records */
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

struct percpu_anchor percpu_directory_anchor(const struct percpu_segment *s, uint64_t at)
{
	return (struct percpu_anchor){
		.word = &percpu_directory_at(s, at)->key,
		.word_key = __atomic_load_n(&s->block_key[at / PERCPU_SEGMENT_BLOCK],
					    __ATOMIC_RELAXED) +
			    at % PERCPU_SEGMENT_BLOCK + offsetof(struct percpu_segment_record, key),
		.root = PERCPU_REGION_ROOTS,
	};
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
	       percpu_kind_of(r->kind) != NULL && r->labels <= PERCPU_METRIC_LABELS &&
	       percpu_kind_of(r->kind)->has_fields == (r->fields != 0) &&
	       r->fields <= PERCPU_STATS_MAX_COMMIT &&
	       (size_t)r->name + r->unit + r->label_names + r->label_values + r->help <= bytes;
}

/* Load the first word, which has the state, with acquire: of what a change stores, it is stored
 * last, with release. */
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

/* Enter the record at *seen, and move *seen behind it. Returns 0 or -ENOMEM. */
static int walk_on(struct percpu_segment *s, uint64_t *seen)
{
	const size_t size = size_at(s, *seen);
	int e = 0;

	if (size == 0) {
		*seen = (*seen / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK;
		return 0;
	}
	if (percpu_directory_load(s, *seen, &s->walk) != 0)
		e = percpu_series_enter(s, &s->walk, *seen);
	if (e == 0)
		*seen += size;
	return e;
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

int percpu_directory_refresh(struct percpu_segment *s)
{
	const uint64_t end = percpu_directory_end(s);
	uint64_t seen;
	int e = find_blocks(s, end);

	if (e != 0)
		return e;
	PERCPU_STEP("directory: blocks found");
	percpu_process_lock();
	seen = s->seen;
	while (e == 0 && seen < end)
		e = walk_on(s, &seen);
	__atomic_store_n(&s->seen, seen, __ATOMIC_RELAXED);
	percpu_process_unlock();
	return e;
}

/* Return whether a record is in one of those states: most that are not wanted need no copy. */
static bool has_state(const struct percpu_segment *s, uint64_t at, unsigned states)
{
	const unsigned state =
		__atomic_load_n(&percpu_directory_at(s, at)->state, __ATOMIC_RELAXED);

	return state < 32 && (states >> state & 1);
}

/* Copy a record as it is at one moment. Returns whether it is in one of those states. */
static bool load_at_once(const struct percpu_segment *s, uint64_t at, unsigned states,
			 struct percpu_record_copy *ret)
{
	uint64_t changes;
	size_t size;

	for (int try = 0; try < COPY_TRIES && has_state(s, at, states); try++) {
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

/* Finding. */

static const char *family_or_not(bool family)
{
	return family ? "a family of metrics" : "a metric without a family";
}

/* Compare the record of that name, s->copy, with what is asked for: either both have a family or
 * neither has, and caps are equal. Returns 0, or -EEXIST and why. */
static int compare_families(const struct percpu_segment *s, const struct percpu_record_copy *asked,
			    bool member, struct percpu_reason *why)
{
	const struct percpu_segment_record *there = &s->copy.head, *wanted = &asked->head;
	const bool has = there->state == PERCPU_RECORD_FAMILY;
	const bool wants = member || wanted->state == PERCPU_RECORD_FAMILY;
	const char *name = (const char *)asked->bytes;

	if (has != wants)
		return percpu_reason_set(
			why, -EEXIST, "%.*s: is %s in the segment, %s was asked for", wanted->name,
			name, family_or_not(has), family_or_not(wants));
	if (wanted->state == PERCPU_RECORD_FAMILY && there->cap != wanted->cap)
		return percpu_reason_set(why, -EEXIST,
					 "%.*s: its cap is %u in the segment, %u was asked for",
					 wanted->name, name, there->cap, wanted->cap);
	return 0;
}

static struct percpu_finding finding(enum percpu_found found)
{
	return (struct percpu_finding){ .found = found };
}

/* What a comparison of records has returned, as a finding. */
static struct percpu_finding difference(int e)
{
	return finding(e == -EEXIST ? PERCPU_FOUND_OTHER : PERCPU_FOUND_DAMAGE);
}

/* A record that was found: s->copy is its copy. */
static struct percpu_finding found_at(const struct percpu_segment *s,
				      const struct percpu_series_slot *slot,
				      const struct percpu_record_copy *asked, bool member)
{
	if (slot->handle != NULL && slot->kind != asked->head.kind)
		return finding(PERCPU_FOUND_DAMAGE); /* the record has changed its kind */
	return (struct percpu_finding){
		.found = s->copy.head.state == PERCPU_RECORD_REMOVED &&
					 !(member && percpu_record_is_overflow(asked)) ?
				 PERCPU_FOUND_REMOVED :
				 PERCPU_FOUND_IT,
		.at = slot->at - 1,
		.handle = slot->handle,
	};
}

static struct percpu_finding find_record(struct percpu_segment *s,
					 const struct percpu_record_copy *asked, bool member,
					 struct percpu_reason *why)
{
	const struct percpu_text name = percpu_record_name(asked);
	const struct percpu_series_slot *slot, *family = percpu_series_find_name(s, &name);
	bool full;
	int e;

	if (family == NULL)
		return finding(member				    ? PERCPU_FOUND_DAMAGE :
			       percpu_metric_clashes(s, asked, why) ? PERCPU_FOUND_OTHER :
								      PERCPU_FOUND_NOTHING);
	full = member && !percpu_record_is_overflow(asked) && family->members >= s->copy.head.cap;
	e = percpu_record_compare(&s->copy, asked, why);
	if (e == 0)
		e = compare_families(s, asked, member, why);
	if (e != 0)
		return difference(e);
	if (asked->head.state == PERCPU_RECORD_FAMILY)
		return found_at(s, family, asked, false);
	slot = percpu_series_find(s, asked);
	if (slot == NULL)
		return finding(full ? PERCPU_FOUND_FULL : PERCPU_FOUND_NOTHING);
	e = percpu_record_compare(&s->copy, asked, why);
	return e != 0 ? difference(e) : found_at(s, slot, asked, member);
}

struct percpu_finding percpu_directory_find(struct percpu_segment *s,
					    const struct percpu_record_copy *asked, bool member,
					    struct percpu_reason *why)
{
	struct percpu_finding f;

	PERCPU_STEP("segment: to be looked up");
	percpu_process_lock();
	f = find_record(s, asked, member, why);
	percpu_process_unlock();
	return f;
}

/* SPDX-License-Identifier: MIT */
/*
 * record_anchor.c - the place of a declared metric's record: where it is, or where it will be
 * written. reuse.c has the states of a record.
 */
#include <string.h>

#include "segment.h"

_Static_assert(offsetof(struct percpu_declaring, at) == 0, "a pointer to the anchor leads to it");

/* Set d->at to the anchor in the record at this place. */
static void anchor_record(struct percpu_declaring *d, uint64_t at)
{
	d->at.word = &percpu_directory_at(d->s, at)->key;
	d->at.word_key =
		__atomic_load_n(&d->s->block_key[at / PERCPU_SEGMENT_BLOCK], __ATOMIC_RELAXED) +
		at % PERCPU_SEGMENT_BLOCK + offsetof(struct percpu_segment_record, key);
}

static const char *family_or_not(bool family)
{
	return family ? "a family of metrics" : "a metric without a family";
}

/* Compare the record of that name, d->s->copy, with what is asked for: either both have a family or
 * neither has, and caps are equal. Returns 0, or -EEXIST and why. */
static int compare_families(const struct percpu_declaring *d)
{
	const struct percpu_segment_record *there = &d->s->copy.head, *asked = &d->asked->head;
	const bool has = there->state == PERCPU_RECORD_FAMILY;
	const bool wants = d->member || asked->state == PERCPU_RECORD_FAMILY;
	const char *name = (const char *)d->asked->bytes;

	if (has != wants)
		return percpu_reason_set(
			d->why, -EEXIST, "%.*s: is %s in the segment, %s was asked for",
			asked->name, name, family_or_not(has), family_or_not(wants));
	if (asked->state == PERCPU_RECORD_FAMILY && there->cap != asked->cap)
		return percpu_reason_set(d->why, -EEXIST,
					 "%.*s: its cap is %u in the segment, %u was asked for",
					 asked->name, name, there->cap, asked->cap);
	return 0;
}

/* Return the entry of the record that is asked for, or NULL and *e: -EEXIST if the name is that of
 * another metric. Set d->full. */
static const struct percpu_series_slot *find_record(struct percpu_declaring *d, int *e)
{
	const struct percpu_series_slot *found, *family = percpu_series_find(d->s, d->asked, true);

	*e = d->member && family == NULL ? -EBADMSG : 0;
	d->full = d->member && family != NULL && !percpu_record_is_overflow(d->asked) &&
		  family->members >= d->s->copy.head.cap;
	if (family != NULL) {
		*e = percpu_record_compare(&d->s->copy, d->asked, d->why);
		if (*e == 0)
			*e = compare_families(d);
	}
	if (*e != 0 || d->asked->head.state == PERCPU_RECORD_FAMILY)
		return *e == 0 ? family : NULL;
	found = percpu_series_find(d->s, d->asked, false);
	if (found != NULL)
		*e = percpu_record_compare(&d->s->copy, d->asked, d->why);
	return found;
}

/* Look for the metric in the tables. Returns 0, -ENOENT, -EEXIST and why, or -EAGAIN if another
 * process has changed records meanwhile. */
static int look_up_metric(struct percpu_declaring *d)
{
	struct percpu_segment *s = d->s;
	const struct percpu_series_slot *found;
	int e;

	PERCPU_STEP("segment: to be looked up");
	percpu_process_lock();
	found = find_record(d, &e);
	d->changes = s->changes;
	if (!percpu_directory_is_unchanged(s, d->changes))
		e = -EAGAIN;
	if (e == 0 && found != NULL) {
		d->where = found->at - 1;
		d->handle = found->handle;
		if (d->handle != NULL && found->kind != d->asked->head.kind)
			e = -EBADMSG; /* the record has changed its kind */
	}
	percpu_process_unlock();
	if (e != 0)
		return e;
	if (found == NULL)
		return -ENOENT;
	anchor_record(d, d->where);
	return 0;
}

/* Choose a free record that is long enough. Returns whether there is one. */
static bool choose_spare(struct percpu_declaring *d)
{
	const struct percpu_record_list *l = &d->s->spare;
	bool found = false;

	percpu_process_lock();
	for (size_t i = l->n; i-- > 0 && !found;) {
		d->where = l->at[i].at;
		d->room = l->at[i].size;
		found = l->at[i].size >= d->asked->head.size &&
			percpu_directory_is_spare(percpu_directory_at(d->s, d->where));
	}
	percpu_process_unlock();
	if (found)
		anchor_record(d, d->where);
	return found;
}

/* Write the record behind the end. Returns 0, -EAGAIN if a block must be made first, or -errno. */
static int write_record(struct percpu_declaring *d)
{
	struct percpu_segment *s = d->s;
	const size_t size = d->asked->head.size;
	uint64_t at = percpu_directory_end(s),
		 room = PERCPU_SEGMENT_BLOCK - at % PERCPU_SEGMENT_BLOCK;
	struct percpu_segment_record head = d->asked->head, *r;
	int e = 0;

	if (room < size) { /* end the block: a killed process may have left a size there */
		if (percpu_directory_block(s, at / PERCPU_SEGMENT_BLOCK, &e) == NULL)
			return e == -ENOENT ? -EBADMSG : e;
		__atomic_store_n(&percpu_directory_at(s, at)->size, 0, __ATOMIC_RELEASE);
		at += room;
	}
	d->needed = (size_t)(at / PERCPU_SEGMENT_BLOCK);
	if (d->needed >= PERCPU_SEGMENT_BLOCKS)
		return -ENOSPC;
	if (percpu_directory_block(s, d->needed, &e) == NULL) {
		d->extends = e == -ENOENT;
		return d->extends ? -EAGAIN : e;
	}
	r = percpu_directory_at(s, at);
	d->where = at;
	head.declared = percpu_segment_now(s);
	head.generation = __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
	memcpy(r, &head, sizeof(head));
	memcpy(r + 1, d->asked->bytes, size - sizeof(head));
	anchor_record(d, at);
	d->end = at + size;
	PERCPU_STEP("segment: record written");
	return 0;
}

static bool has_removed(const struct percpu_segment *s)
{
	bool has;

	percpu_process_lock();
	has = s->removed.n != 0 || s->unkeyed != 0;
	percpu_process_unlock();
	return has;
}

/* Look for the metric again, and if it is not there, choose where to write its record. The caller
 * has the lock of the allocator. */
static int choose_record_callback(struct percpu_anchor *at)
{
	struct percpu_declaring *d = (struct percpu_declaring *)at;
	int e = percpu_changes_recover(d->s);

	if (e == 0)
		e = look_up_metric(d);
	d->differs = e == -EEXIST; /* the name is another metric's; this is not about the object */
	if (e != -ENOENT)
		return d->differs ? -ECANCELED : e;
	d->rewrites = !d->full && choose_spare(d);
	if (d->rewrites)
		return 0;
	d->wants_room = !d->reused && has_removed(d->s);
	if (d->wants_room)
		return -EAGAIN;
	return d->full ? -ENOSPC : write_record(d);
}

static void announce_record_callback(struct percpu_anchor *at)
{
	struct percpu_declaring *d = (struct percpu_declaring *)at;

	if (d->rewrites)
		percpu_reuse_rewrite(d);
	else if (d->end != 0)
		__atomic_store_n(&d->s->control->end, d->end, __ATOMIC_RELEASE);
	PERCPU_STEP("segment: record announced");
}

/* Let choose_record_callback() look again under the lock: a record without an object may be removed
 * before it gets one. In a full family take no lock. Return -EAGAIN once, so that removed series
 * are freed, and after that -ENOSPC. */
int percpu_directory_anchor(struct percpu_declaring *d)
{
	int e = percpu_directory_refresh(d->s);

	d->at = (struct percpu_anchor){ .root = PERCPU_REGION_ROOTS,
					.choose_callback = choose_record_callback,
					.announce_callback = announce_record_callback };
	d->end = 0;
	d->handle = NULL;
	d->differs = d->rewrites = d->extends = d->wants_room = false;
	if (e == 0)
		e = look_up_metric(d);
	if (e == -ENOENT && d->full && d->s->region->writable) {
		d->wants_room = !d->reused && has_removed(d->s);
		return d->wants_room ? -EAGAIN : -ENOSPC;
	}
	return e == -ENOENT || (e == -EAGAIN && d->s->region->writable) ? 0 : e;
}

/* Make this block of records. */
static int extend_directory(struct percpu_segment *s, size_t block)
{
	const struct percpu_plan plan = { .kind = PERCPU_KIND_CELL,
					  .size = PERCPU_SEGMENT_BLOCK,
					  .align = PERCPU_BLOCK_ALIGN };
	struct percpu_anchor at = {
		.word = &s->control->block[block],
		.word_key = s->control_key + offsetof(struct percpu_segment_control, block) +
			    block * sizeof(uint64_t),
		.root = PERCPU_REGION_ROOTS,
	};
	struct percpu_plan p = plan;
	void *cell;
	int e = percpu_block_open_at(s->region, &at, &p, &cell);

	return e == -EEXIST ? -EBADMSG : e;
}

int percpu_directory_make_room(struct percpu_declaring *d)
{
	if (d->extends)
		return extend_directory(d->s, d->needed);
	if (!d->wants_room)
		return 0;
	d->reused = true;
	return percpu_reuse_free(d->s, percpu_record_name_hash(d->asked, d->s->seed));
}

/* SPDX-License-Identifier: MIT */
/*
 * declare.c - declaring metrics: finding or adding a record, finding or creating its object, and
 * keeping the one handle that this process has of the object.
 */
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define ADD_TRIES 100 /* while other processes fill the blocks that this process makes */

void percpu_segment_detach_all(struct percpu_segment *s)
{
	for (size_t i = 0; i < s->series.size; i++) {
		percpu_exemplars_detach(s->series.slot[i].exemplars);
		if (s->series.slot[i].handle != NULL)
			percpu_kind_detach(s->series.slot[i].kind, s->series.slot[i].handle);
	}
}

/* Adding a record. */

/* Return where a record of this size goes: behind the end, or at the beginning of the next block. */
static uint64_t place_for(const struct percpu_segment *s, size_t size)
{
	const uint64_t at = percpu_directory_end(s);
	const uint64_t room = PERCPU_SEGMENT_BLOCK - at % PERCPU_SEGMENT_BLOCK;

	return room < size ? at + room : at;
}

/* Write the record at its place, whose block is there, and move the end behind it. The caller has
 * the lock of the allocator. */
static int append_record(struct percpu_segment *s, const struct percpu_asked *m, uint64_t at)
{
	const struct percpu_record_copy *const asked = m->record;
	const uint64_t end = percpu_directory_end(s);
	const size_t size = asked->head.size;
	struct percpu_segment_record head = asked->head, *r = percpu_directory_at(s, at);
	int e = 0;

	if (end != at) { /* end the block: a killed process may have left a size there */
		if (percpu_directory_block(s, end / PERCPU_SEGMENT_BLOCK, &e) == NULL)
			return e == -ENOENT ? -EBADMSG : e;
		__atomic_store_n(&percpu_directory_at(s, end)->size, 0, __ATOMIC_RELEASE);
	}
	if (m->member && percpu_record_is_overflow(asked))
		head.state = PERCPU_RECORD_REMOVED; /* until it is needed */
	head.declared = percpu_segment_now(s);
	head.generation = __atomic_load_n(&s->control->generation, __ATOMIC_ACQUIRE);
	memcpy(r, &head, sizeof(head));
	memcpy(r + 1, asked->bytes, size - sizeof(head));
	PERCPU_STEP("segment: record written");
	__atomic_store_n(&s->control->end, at + size, __ATOMIC_RELEASE);
	PERCPU_STEP("segment: record announced");
	return percpu_directory_refresh(s);
}

/* Make this block of records. */
static int make_block_of_records(struct percpu_segment *s, size_t block)
{
	struct percpu_plan p = { .kind = PERCPU_KIND_CELL,
				 .size = PERCPU_SEGMENT_BLOCK,
				 .align = PERCPU_BLOCK_ALIGN };
	struct percpu_anchor at = {
		.word = &s->control->block[block],
		.word_key = s->control_key + offsetof(struct percpu_segment_control, block) +
			    block * sizeof(uint64_t),
		.root = PERCPU_REGION_ROOTS,
	};
	void *cell;
	int e = percpu_block_open_at(s->region, &at, &p, &cell);

	return e == -EEXIST ? -EBADMSG : e;
}

/* Look for the metric once more, and add it. The caller has the lock of the allocator. If a block
 * of records must be made first, set *block to its number. Returns 0 or -errno. */
static int add_locked(struct percpu_segment *s, const struct percpu_asked *m,
		      struct percpu_finding *f, size_t *block, struct percpu_reason *why)
{
	uint64_t at;
	int e = 0;

	*f = percpu_directory_find(s, m->record, m->member, why);
	if (f->found != PERCPU_FOUND_NOTHING)
		return 0;
	at = place_for(s, m->record->head.size);
	if (at / PERCPU_SEGMENT_BLOCK >= PERCPU_SEGMENT_BLOCKS)
		return -ENOSPC;
	if (percpu_directory_block(s, at / PERCPU_SEGMENT_BLOCK, &e) == NULL) {
		*block = (size_t)(at / PERCPU_SEGMENT_BLOCK);
		return e == -ENOENT ? 0 : e;
	}
	*f = (struct percpu_finding){ .found = PERCPU_FOUND_IT, .at = at };
	return append_record(s, m, at);
}

/* Add the metric, which was not found. Returns 0 or -errno. */
static int add_record(struct percpu_segment *s, const struct percpu_asked *m,
		      struct percpu_finding *f, struct percpu_reason *why)
{
	struct percpu_robust h;
	int e = 0;

	f->found = PERCPU_FOUND_NOTHING;
	for (int try = 0; e == 0 && f->found == PERCPU_FOUND_NOTHING; try++) {
		size_t block = PERCPU_SEGMENT_BLOCKS;

		e = try < ADD_TRIES ? percpu_directory_lock(s, &h) : -ETIMEDOUT;
		if (e != 0)
			break;
		e = add_locked(s, m, f, &block, why);
		percpu_region_unlock(s->region, &h);
		if (e == 0 && block < PERCPU_SEGMENT_BLOCKS)
			e = make_block_of_records(s, block);
	}
	return e;
}

/* Write that the family has no room. Returns -ENOSPC. */
static int tell_cap(const struct percpu_asked *m, struct percpu_reason *why)
{
	return percpu_reason_set(why, -ENOSPC, "%.*s: the family has as many series as its cap",
				 m->record->head.name, (const char *)m->record->bytes);
}

/* Find the record of the metric, or add it. Let a removed series begin anew. Returns 0 or -errno. */
static int find_record_of(struct percpu_segment *s, const struct percpu_asked *m,
			  struct percpu_finding *f, struct percpu_reason *why)
{
	int e = percpu_directory_refresh(s);

	f->found = PERCPU_FOUND_DAMAGE;
	if (e != 0)
		return e;
	*f = percpu_directory_find(s, m->record, m->member, why);
	if (f->found == PERCPU_FOUND_NOTHING || f->found == PERCPU_FOUND_REMOVED ||
	    f->found == PERCPU_FOUND_FULL) {
		if (f->found == PERCPU_FOUND_NOTHING)
			e = add_record(s, m, f, why);
		if (e == 0 && f->found == PERCPU_FOUND_REMOVED)
			e = percpu_series_revive(s, m, f, why);
	}
	return e != 0				? e :
	       f->found == PERCPU_FOUND_IT	? 0 :
	       f->found == PERCPU_FOUND_REMOVED ? 0 :
	       f->found == PERCPU_FOUND_OTHER	? -EEXIST :
	       f->found == PERCPU_FOUND_FULL	? tell_cap(m, why) :
						  -EBADMSG;
}

/* Opening the object. */

static const char *words_of(int e)
{
	switch (e) {
	case -EEXIST:
		return "what it was created with differs from what was asked for";
	case -ENOSPC:
		return "the disk is full, or the segment is";
	case -ENOMEM:
		return "there is no memory";
	case -ETIMEDOUT:
		return "another process has held the segment's lock for too long";
	case -EBADMSG:
		return "the file is damaged";
	case -ENOTSUP:
		return "this process cannot have such a metric in a file";
	case -EBADF:
		return PERCPU_CLOSED;
	case -ENOLCK:
		return percpu_strerror(e);
	default:
		return "the file cannot be mapped, or locked";
	}
}

/* Write what is wrong with the metric. Returns e. */
static int complain_of_metric(const struct percpu_asked *m, int e, struct percpu_reason *why)
{
	return percpu_reason_set(why, e, "%.*s: %s", m->record->head.name,
				 (const char *)m->record->bytes, words_of(e));
}

/* Write how the parameters of the existing object differ from those that are asked for. Returns
 * -EEXIST. */
static int tell_parameters(struct percpu_segment *s, const struct percpu_asked *m, uint64_t at,
			   struct percpu_reason *why)
{
	const uint64_t key = __atomic_load_n(&percpu_directory_at(s, at)->key, __ATOMIC_ACQUIRE);
	struct percpu_words has, wants;

	if (!percpu_parameters_differ(s, m->record->head.kind, key, m->parameters, &has, &wants))
		return complain_of_metric(m, -EEXIST, why);
	return percpu_reason_set(why, -EEXIST, "%.*s: is %s in the segment, %s was asked for",
				 m->record->head.name, (const char *)m->record->bytes, has.text,
				 wants.text);
}

/* Enter the handle of the series. If the series has a handle already, detach the new one and return
 * the old one in *handle. Returns 0 or -EBADMSG. */
static int keep_handle(struct percpu_segment *s, const struct percpu_asked *m, uint64_t at,
		       void **handle)
{
	const unsigned kind = m->record->head.kind;
	struct percpu_series_slot *slot;
	void *spare = *handle;
	int e = 0;

	PERCPU_STEP("segment: to be kept");
	percpu_process_lock();
	slot = percpu_series_at(s, m->record, at);
	if (slot == NULL || (slot->handle != NULL && slot->kind != kind)) {
		e = -EBADMSG;
	} else if (slot->handle == NULL) {
		slot->handle = *handle;
		slot->kind = kind;
		spare = NULL;
	} else {
		*handle = slot->handle;
	}
	percpu_process_unlock();
	/* If handles of this kind have no memory, both may be equal. Detaching does nothing
	 * then. */
	if (spare != NULL)
		percpu_kind_detach(kind, spare);
	return e;
}

int percpu_segment_open_metric(struct percpu_segment *s, const struct percpu_asked *m,
			       void **handle, uint64_t *at, struct percpu_reason *why)
{
	const bool family = m->record->head.state == PERCPU_RECORD_FAMILY;
	const unsigned kind = family ? PERCPU_METRIC_INFO : m->record->head.kind;
	struct percpu_finding f;
	struct percpu_anchor anchor;
	int e = find_record_of(s, m, &f, why);

	if (e != 0)
		return e == -EEXIST || f.found == PERCPU_FOUND_FULL ? e :
								      complain_of_metric(m, e, why);
	*at = f.at;
	*handle = f.handle;
	/* All series of a family have its parameters. The overflow was compared with them. */
	if (f.handle != NULL && m->member && !percpu_record_is_overflow(m->record))
		return 0;
	anchor = percpu_directory_anchor(s, f.at);
	e = percpu_kind_of(kind)->open(s, &anchor, m->parameters, handle);
	if (e == -EEXIST)
		return family ? complain_of_metric(m, e, why) : tell_parameters(s, m, f.at, why);
	if (e == 0 && !family)
		e = keep_handle(s, m, f.at, handle);
	return e != 0 ? complain_of_metric(m, e, why) : 0;
}

int percpu_segment_declare_metric(struct percpu_segment *s, const struct percpu_metric *m,
				  unsigned kind, struct percpu_parameters p, void *ret,
				  struct percpu_reason *why)
{
	struct percpu_record_copy *asked;
	void *handle = NULL;
	uint64_t at;
	int e;

	if (s == NULL)
		return percpu_reason_set(why, -EINVAL, "the segment is NULL");
	asked = malloc(sizeof(*asked));
	if (asked == NULL)
		return percpu_reason_set(why, -ENOMEM, "no memory for a metric");
	e = percpu_metric_read(m, p.fields, kind, asked, why);
	if (e == 0 && m != NULL)
		e = percpu_parameters_check(m->name, asked, &p, why);
	if (e == 0 && m != NULL && (ret == NULL) != percpu_kind_of(kind)->has_no_value)
		e = percpu_reason_set(why, -EINVAL, "%s: %s", m->name,
				      ret == NULL ? "there is no place for the handle" :
						    "an info has no handle");
	if (e == 0) {
		const struct percpu_asked what = { .record = asked, .parameters = &p };

		e = percpu_segment_open_metric(s, &what, &handle, &at, why);
	}
	free(asked);
	if (e == 0 && ret != NULL)
		memcpy(ret, &handle, sizeof(handle));
	return e;
}

/* Declare a metric, and keep why that failed. */
static int declare(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind,
		   struct percpu_parameters p, void *ret)
{
	struct percpu_reason why;
	int e = percpu_segment_declare_metric(s, m, kind, p, ret, &why);

	return e != 0 ? percpu_error_keep(e, &why) : 0;
}

int percpu_segment_counter(struct percpu_segment *s, const struct percpu_metric *m,
			   struct percpu_counter **ret)
{
	return declare(s, m, PERCPU_METRIC_COUNTER, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_fcounter(struct percpu_segment *s, const struct percpu_metric *m,
			    struct percpu_fcounter **ret)
{
	return declare(s, m, PERCPU_METRIC_FCOUNTER, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			 struct percpu_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_GAUGE, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_FGAUGE, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_latest(struct percpu_segment *s, const struct percpu_metric *m,
			  struct percpu_latest **ret)
{
	return declare(s, m, PERCPU_METRIC_LATEST, (struct percpu_parameters){ 0 }, ret);
}

int percpu_segment_histogram(struct percpu_segment *s, const struct percpu_metric *m,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret)
{
	return declare(s, m, PERCPU_METRIC_HISTOGRAM, (struct percpu_parameters){ .histogram = o },
		       ret);
}

int percpu_segment_extrema(struct percpu_segment *s, const struct percpu_metric *m, unsigned flags,
			   struct percpu_extrema **ret)
{
	return declare(s, m, PERCPU_METRIC_EXTREMA, (struct percpu_parameters){ .flags = flags },
		       ret);
}

int percpu_segment_owned_gauge(struct percpu_segment *s, const struct percpu_metric *m,
			       unsigned rule, struct percpu_owned_gauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_GAUGE, (struct percpu_parameters){ .flags = rule },
		       ret);
}

int percpu_segment_owned_fgauge(struct percpu_segment *s, const struct percpu_metric *m,
				unsigned rule, struct percpu_owned_fgauge **ret)
{
	return declare(s, m, PERCPU_METRIC_OWNED_FGAUGE,
		       (struct percpu_parameters){ .flags = rule }, ret);
}

int percpu_segment_stats(struct percpu_segment *s, const struct percpu_metric *m,
			 const struct percpu_metric_fields *f, unsigned flags,
			 struct percpu_stats **ret)
{
	return declare(s, m, PERCPU_METRIC_STATS,
		       (struct percpu_parameters){ .fields = f, .flags = flags }, ret);
}

int percpu_segment_info(struct percpu_segment *s, const struct percpu_metric *m)
{
	return declare(s, m, PERCPU_METRIC_INFO, (struct percpu_parameters){ 0 }, NULL);
}

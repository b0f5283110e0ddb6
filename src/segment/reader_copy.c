/* SPDX-License-Identifier: MIT */
/*
 * reader_copy.c - copying the file into the image, other than the lanes of CPUs.
 *
 * The reader first copies the records, then the bits that say what is allocated, then the bias
 * lanes. A process that declares stores in the opposite order. So in the image, the object of a
 * record is complete, or the record's key leads nowhere.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "reader.h"

_Static_assert(sizeof(struct percpu_segment_control) % PERCPU_BLOCK_ALIGN == 0 &&
		       PERCPU_BLOCK_ALIGN == 8 * sizeof(uint64_t),
	       "bytes of bits");

int percpu_reader_pread(struct percpu_reader *r, void *to, size_t n, uint64_t at)
{
	char *p = to;
	ssize_t got;

	while (n != 0) {
		percpu_reader_charge(r, n);
		got = pread(r->fd, p, n, (off_t)at);
		if (got < 0 && percpu_errno() == -EINTR)
			continue;
		if (got < 0)
			return percpu_reason_set(&r->why, percpu_errno(), "cannot read the file");
		if (got == 0)
			return percpu_reason_set(&r->why, -EBADMSG,
						 "the file ends before byte %" PRIu64
						 ": it is cut short, or is no segment",
						 at + n);
		p += got;
		at += (uint64_t)got;
		n -= (size_t)got;
	}
	percpu_full_fence(); /* later reads load after this one */
	return 0;
}

uint64_t percpu_reader_file_offset(const struct percpu_reader *r, uint32_t chunk, uint32_t lane,
				   size_t offset)
{
	return chunk * r->chunk_size + PERCPU_HEAD + lane * (uint64_t)PERCPU_STRIDE + offset;
}

static struct percpu_chunk *image_chunk(const struct percpu_reader *r, uint32_t i)
{
	return r->s->region->chunks->at[i];
}

/* Copy words of a chunk's bias lane. */
static int copy_bias(struct percpu_reader *r, uint32_t chunk, size_t offset, size_t n)
{
	return percpu_reader_pread(r, percpu_chunk_lane(image_chunk(r, chunk), 2, offset), n,
				   percpu_reader_file_offset(r, chunk, 2 * r->cpus, offset));
}

/* Headers. */

static int pread_header(struct percpu_reader *r, uint32_t i, struct percpu_header *h)
{
	int e = percpu_reader_pread(r, h, sizeof(*h), i * r->chunk_size);

	if (e != 0)
		return e;
	e = percpu_header_check(h, i);
	if (e == 0 && (h->lane_size != PERCPU_LANE_SIZE || (r->cpus != 0 && h->cpus != r->cpus)))
		e = -EBADMSG;
	if (e == -EPROTO)
		return percpu_reason_set(&r->why, e,
					 "the file is of version %u, and not of %u, or another "
					 "architecture has made it: read it with the library that "
					 "made it",
					 h->version & 0xffff, PERCPU_FORMAT_MAJOR);
	return e == 0 ? 0 :
			percpu_reason_set(&r->why, e,
					  "the file is no segment, or is damaged: "
					  "a header is not valid");
}

int percpu_reader_copy_headers(struct percpu_reader *r)
{
	struct percpu_region *image = r->s->region;
	struct percpu_header h;
	uint32_t n;
	int e = pread_header(r, 0, &h);

	if (e != 0)
		return e;
	if (r->cpus == 0) {
		r->cpus = h.cpus;
		r->chunk_size = percpu_chunk_size(PERCPU_STRIDE, h.cpus);
	}
	n = h.chunks;
	if (n == 0 || n > PERCPU_MAX_FILE_CHUNKS || n < image->n)
		return percpu_reason_set(&r->why, -EBADMSG, "the file is damaged: it has %u chunks",
					 n);
	for (uint32_t i = 0; i < n && e == 0; i++) {
		e = i == 0 ? 0 : percpu_reader_hurry(r);
		if (e == 0 && i != 0)
			e = pread_header(r, i, &h);
		if (e == 0) /* grow only by a chunk that the file has */
			e = percpu_image_grow(image, i + 1);
		if (e == 0)
			percpu_image_set_header(image_chunk(r, i), &h);
	}
	return e;
}

/* The directory. */

/* Return the cells in the image that a key leads to; or NULL, *e and why. */
static char *find_cells(struct percpu_reader *r, uint64_t key, enum percpu_kind kind, size_t size,
			int *e)
{
	void *cell = NULL;

	*e = percpu_region_attach(r->s->region, key, kind, size, PERCPU_BLOCK_ALIGN, &cell);
	if (*e != 0)
		*e = percpu_reason_set(&r->why, -EBADMSG,
				       "the file is a region with other objects, or is damaged: it "
				       "has no directory");
	return cell;
}

/* Copy n bytes of the cells' biases, from a byte of the cells on. Returns 0, or -errno and why. */
static int copy_cells(struct percpu_reader *r, const char *cell, size_t from, size_t n)
{
	const struct percpu_chunk *k = percpu_chunk_of(cell);

	return copy_bias(r, k->index, (size_t)(cell - k->base) + from, n);
}

static void *image_bias(const char *cell)
{
	const struct percpu_chunk *k = percpu_chunk_of(cell);

	return percpu_chunk_lane(k, 2, (size_t)(cell - k->base));
}

/* Leave out the keys of blocks: copy_block() copies each when it is needed. */
int percpu_reader_copy_control(struct percpu_reader *r)
{
	const uint64_t key = r->s->region->first->header->root[PERCPU_SEGMENT_ROOT];
	struct percpu_segment_control *c;
	const char *cell;
	int e;

	if (key == 0)
		return percpu_reason_set(&r->why, -ENOENT,
					 "the file is a region without a segment");
	cell = find_cells(r, key, PERCPU_KIND_SEGMENT, sizeof(*c), &e);
	if (cell == NULL)
		return e;
	e = copy_cells(r, cell, 0, offsetof(struct percpu_segment_control, block));
	if (e != 0)
		return e;
	c = image_bias(cell);
	if (c->version != PERCPU_SEGMENT_VERSION)
		return percpu_reason_set(&r->why, -EPROTO,
					 "the segment is of version %u, and not of %u", c->version,
					 PERCPU_SEGMENT_VERSION);
	r->s->control = c;
	r->cell = cell;
	r->state = (struct percpu_directory_state){
		.generation = c->generation,
		.completed = c->completed,
		.changes = c->changes,
		.end = percpu_directory_end(r->s),
	};
	return 0;
}

/* Copy the records of block i between two of its bytes. */
static int copy_block(struct percpu_reader *r, size_t i, size_t from, size_t to)
{
	const size_t word = offsetof(struct percpu_segment_control, block) + i * sizeof(uint64_t);
	const char *cell;
	int e = copy_cells(r, r->cell, word, sizeof(uint64_t));

	if (e != 0)
		return e;
	cell = find_cells(r, r->s->control->block[i], PERCPU_KIND_CELL, PERCPU_SEGMENT_BLOCK, &e);
	if (cell == NULL)
		return e;
	r->has_records[percpu_chunk_of(cell)->index] = true;
	r->s->block[i] = image_bias(cell);
	return copy_cells(r, cell, from, to - from);
}

/* Copy the records from one place on, up to the end of their block, or up to end if that is before.
 * Returns where the next ones begin. */
static uint64_t copy_records(struct percpu_reader *r, uint64_t from, uint64_t end, int *e)
{
	uint64_t to = (from / PERCPU_SEGMENT_BLOCK + 1) * PERCPU_SEGMENT_BLOCK;

	to = to < end ? to : end;
	*e = copy_block(r, (size_t)(from / PERCPU_SEGMENT_BLOCK),
			(size_t)(from % PERCPU_SEGMENT_BLOCK),
			(size_t)((to - 1) % PERCPU_SEGMENT_BLOCK + 1));
	return to;
}

/* Return whether no record has been changed between the two. While the number of changes is odd, one
 * is being changed. */
static bool is_quiet(const struct percpu_directory_state *was,
		     const struct percpu_directory_state *is)
{
	return was->changes == is->changes && !(is->changes & 1);
}

/* Return whether the records in the image can be used for a picture, with the new ones behind them.
 * If others have changed records since, a list of them has to be made anew. But a list that is not
 * complete is continued, and one that no values were read of is used, or there would never be a
 * picture: what has changed is left out of it. */
static bool can_use_records(const struct percpu_reader *r, const struct percpu_directory_state *was)
{
	const struct percpu_directory_state *is = &r->state;

	if (was->generation != is->generation || was->completed != is->completed ||
	    was->end > is->end || (r->dropped && r->copied != is->end))
		return false;
	return !r->listed || r->fresh || (r->pending == 0 && is_quiet(was, is));
}

int percpu_reader_copy_directory(struct percpu_reader *r)
{
	const struct percpu_directory_state was = r->state;
	uint64_t from, to, end;
	int e = percpu_reader_copy_control(r);

	if (e != 0)
		return e;
	if (!can_use_records(r, &was))
		r->copied = 0;
	if (r->copied != 0) /* compare with when the first of them was copied */
		r->state.changes = was.changes;
	if ((r->begins != NULL || r->fresh) && r->copied != 0) /* such a list has no new records */
		r->state.end = r->copied;
	end = r->state.end;
	if (end > r->s->region->n * (uint64_t)PERCPU_LANE_SIZE)
		return percpu_reason_set(&r->why, -EBADMSG,
					 "the file is damaged: it has no room for its directory");
	r->dropped = r->dropped && r->copied != 0;
	if (r->copied == 0)
		memset(r->has_records, 0, sizeof(r->has_records));
	if (r->copied != end || end == 0)
		percpu_reader_unlist(r);
	for (from = r->copied; from < end && e == 0; from = to) {
		to = from;
		e = percpu_reader_hurry(r);
		if (e == 0)
			to = copy_records(r, from, end, &e);
		r->copied = e == 0 ? to : from;
	}
	r->kept = e != 0; /* the next try can use the records up to r->copied */
	if (!r->listed)	  /* the records will be listed */
		percpu_reader_expect(r, percpu_reader_cost_of_records(r->copied));
	return e;
}

/* Give back the whole pages between two addresses. If memory is locked, they stay. */
static void drop_pages(char *from, const char *to)
{
	const size_t page = percpu_page_size();
	char *first = from + (-(uintptr_t)from & (page - 1));
	const char *last = to - ((uintptr_t)to & (page - 1));

	if (first < last)
		(void)madvise(first, (size_t)(last - first), MADV_DONTNEED);
}

void percpu_reader_drop_records(struct percpu_reader *r)
{
	char *lane;

	if (!r->listed || r->dropped)
		return;
	for (uint32_t i = 0; i < r->s->region->n; i++)
		if (r->has_records[i]) {
			lane = percpu_chunk_lane(image_chunk(r, i), 2, 0);
			drop_pages(lane, lane + PERCPU_LANE_SIZE);
		}
	r->dropped = true;
}

int percpu_reader_recheck(struct percpu_reader *r)
{
	const struct percpu_directory_state was = r->state;
	int e = percpu_reader_copy_control(r);

	if (e != 0)
		return e;
	/* Fail unless all objects were reset before the copy, and no other generation has begun. */
	if (was.completed != was.generation || was.generation != r->state.generation)
		return percpu_reason_set(&r->why, -EAGAIN, "the segment is being reset");
	r->changed = !is_quiet(&was, &r->state);
	r->state = was;
	return 0;
}

/* pread(2) copies the words of a record in any order: a first copy may have the new state with the
 * old start. So the second copy has to be begun after the first has ended. A series was in use when
 * the first one read its state, and has the start of its list when the second one reads it: then it
 * had that start whenever its value was read before. */
int percpu_reader_leave_out(struct percpu_reader *r)
{
	int e = 0;

	for (int copy = 0; copy < 2 && e == 0; copy++) {
		for (uint64_t from = 0; from < r->copied && e == 0;)
			from = copy_records(r, from, r->copied, &e);
		if (e == 0)
			percpu_reader_drop_changed(r);
		PERCPU_STEP("reader: records copied again");
	}
	r->copied = 0; /* the next picture copies and lists all of them */
	return e;
}

/* Owners. */

/* The caller has copied the headers. Left out are keys of blocks that lead to none: such slots are not
 * looked at. */
int percpu_reader_copy_owners(struct percpu_reader *r)
{
	const uint64_t key = r->s->region->first->header->root[PERCPU_OWNERS_ROOT];
	const size_t size = PERCPU_OWNER_SLOTS * sizeof(struct percpu_owner_slot);
	const struct percpu_owners_control *c;
	const char *cell;
	int e = 0;

	if (key == 0)
		return 0;
	cell = find_cells(r, key, PERCPU_KIND_OWNERS, sizeof(*c), &e);
	if (cell == NULL)
		return e;
	e = copy_cells(r, cell, 0, sizeof(*c));
	c = image_bias(cell);
	for (size_t i = 0; i < PERCPU_OWNER_BLOCKS && e == 0; i++) {
		if (c->block[i] == 0)
			continue;
		cell = find_cells(r, c->block[i], PERCPU_KIND_CELL, size, &e);
		if (cell != NULL)
			e = copy_cells(r, cell, 0, size);
	}
	return e;
}

/* The rest of the bias lanes. */

/* Clear the bits of cells that shall not be copied. A byte has the bits of PERCPU_BLOCK_ALIGN
 * bytes. */
static void leave_out(uint64_t *bits, size_t offset, size_t size)
{
	memset((char *)bits + offset / PERCPU_BLOCK_ALIGN, 0, size / PERCPU_BLOCK_ALIGN);
}

static int copy_bias_of(struct percpu_reader *r, uint32_t chunk)
{
	const struct percpu_chunk *k = image_chunk(r, chunk);
	const size_t unit = sizeof(uint64_t);
	uint64_t bits[PERCPU_UNITS / 64];
	size_t first, end, next;
	int e = 0;

	memcpy(bits, k->header->used, sizeof(bits));
	if (percpu_chunk_of(r->cell) == k)
		leave_out(bits, (size_t)(r->cell - k->base), sizeof(*r->s->control));
	first = percpu_next_bit(bits, 0, PERCPU_UNITS, true);
	for (; first < PERCPU_UNITS && e == 0; first = next) {
		end = percpu_next_bit(bits, first, PERCPU_UNITS, false);
		next = percpu_next_bit(bits, end, PERCPU_UNITS, true);
		for (; (next - end) * unit <= PERCPU_NEAR && next < PERCPU_UNITS;
		     next = percpu_next_bit(bits, end, PERCPU_UNITS, true))
			end = percpu_next_bit(bits, next, PERCPU_UNITS, false);
		e = copy_bias(r, chunk, first * unit, (end - first) * unit);
	}
	return e;
}

int percpu_reader_copy_biases(struct percpu_reader *r)
{
	int e = 0;

	for (uint32_t i = 0; i < r->s->region->n && e == 0; i++)
		if (!r->has_records[i]) {
			e = percpu_reader_hurry(r);
			if (e == 0)
				e = copy_bias_of(r, i);
		}
	return e;
}

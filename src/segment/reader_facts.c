/* SPDX-License-Identifier: MIT */
/*
 * reader_facts.c - in which state the file of a segment is.
 *
 * The facts are those of now, and the reader may have a picture, which they must not change. So they
 * are read by another reader of the same file, which is dropped afterwards.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "reader.h"

#define FACTS_TRIES 16 /* while records are added */

/* The file. */

static int facts_of_file(const struct percpu_reader *r, struct percpu_reader_facts *f)
{
	uint64_t most;
	struct stat st;

	if (fstat(r->fd, &st) != 0)
		return percpu_errno();
	f->file_bytes = (uint64_t)st.st_size;
	f->disk_bytes = (uint64_t)st.st_blocks * 512;
	most = f->file_bytes / r->chunk_size;
	f->chunks = r->s->region->n;
	f->chunks_most = most < PERCPU_MAX_FILE_CHUNKS ? (uint32_t)most : PERCPU_MAX_FILE_CHUNKS;
	if (f->chunks_most < f->chunks) /* the file is cut short */
		f->chunks_most = f->chunks;
	return 0;
}

static void facts_of_headers(const struct percpu_reader *r, struct percpu_reader_facts *f)
{
	const struct percpu_region *image = r->s->region;
	const uint32_t version = image->first->header->version;
	uint64_t units = 0;

	for (uint32_t i = 0; i < image->n; i++)
		for (size_t k = 0; k < PERCPU_UNITS / 64; k++)
			units += (uint64_t)__builtin_popcountll(
				image->chunks->at[i]->header->used[k]);
	f->cells_used = units * (PERCPU_LANE_SIZE / PERCPU_UNITS);
	f->cells_free = (uint64_t)image->n * PERCPU_LANE_SIZE - f->cells_used;
	f->format_major = version & 0xffff;
	f->format_minor = version >> 16;
}

/* The image has no locks, so look at the lock in the file. A lock of another boot has a dead holder:
 * the next process that opens the file to write frees it. */
static int facts_of_lock(struct percpu_reader *r, struct percpu_reader_facts *f)
{
	const uint64_t then = r->s->region->first->header->lock_boot, now = percpu_boot_id();
	uint32_t word = 0;
	int e = percpu_reader_pread(r, &word, sizeof(word),
				    offsetof(struct percpu_header, alloc_lock));

	f->lock_holder = word & FUTEX_TID_MASK;
	if (f->lock_holder != 0)
		f->lock =
			then != 0 && now != 0 && then != now ? PERCPU_LOCK_DIED : PERCPU_LOCK_HELD;
	else
		f->lock = word & FUTEX_OWNER_DIED ? PERCPU_LOCK_DIED : PERCPU_LOCK_FREE;
	return e;
}

/* Records. */

static int facts_of_records(const struct percpu_reader *r, struct percpu_reader_facts *f)
{
	struct percpu_record_copy *c = malloc(sizeof(*c));
	struct percpu_segment_record *record;
	uint64_t at = 0;

	if (c == NULL)
		return -ENOMEM;
	r->s->seen = r->copied;
	while (percpu_directory_next(r->s, PERCPU_SERIES | PERCPU_FAMILIES | PERCPU_REMOVED, &at, c,
				     &record)) {
		if (c->head.state == PERCPU_RECORD_REMOVED) {
			f->records_removed++;
			continue;
		}
		f->records_in_use++;
		f->records_pending += c->head.key == 0;
	}
	free(c);
	return 0;
}

/* Owners. */

static int facts_of_owners(const struct percpu_reader *r, struct percpu_reader_facts *f)
{
	struct percpu_owner_seen seen;
	const struct percpu_owners *o;
	int e = 0;

	if (percpu_region_root(r->s->region, PERCPU_OWNERS_ROOT) == 0)
		return 0;
	o = percpu_segment_owners(r->s, &e);
	for (size_t slot = 0; slot < PERCPU_OWNERS_MAX && o != NULL; slot++) {
		if (!percpu_owner_look(o, slot, &seen))
			continue;
		if (percpu_owner_lives(o, &seen, 0))
			f->owners_alive++;
		else
			f->owners_dead++;
	}
	return o != NULL ? 0 : e;
}

/* Copy once what the facts are of. */
static int copy_for_facts(struct percpu_reader *now)
{
	int e = percpu_reader_copy_headers(now);

	if (e == 0)
		e = percpu_reader_copy_owners(now);
	if (e == 0)
		e = percpu_reader_copy_directory(now);
	return e;
}

/* A process may have added a chunk, or a block of records or owners, after the headers were copied.
 * Then the file seems damaged. So copy once more, and again if there are more records than before. */
static int copy_all_for_facts(struct percpu_reader *now)
{
	uint64_t end;
	int e = -EBADMSG;

	for (int try = 0; try < FACTS_TRIES && e == -EBADMSG; try++) {
		end = now->state.end;
		e = copy_for_facts(now);
		PERCPU_STEP("facts: copied");
		if (try != 0 && end == now->state.end)
			break;
	}
	return e;
}

static int gather_facts(struct percpu_reader *now, struct percpu_reader_facts *f)
{
	int e = copy_all_for_facts(now);

	if (e != 0)
		return e;
	f->version = now->s->control->version;
	f->records_bytes = now->state.end;
	f->records_most = (uint64_t)PERCPU_SEGMENT_BLOCKS * PERCPU_SEGMENT_BLOCK;
	f->reset_unfinished = now->state.generation != now->state.completed;
	f->counting = percpu_counting_ask(now);
	facts_of_headers(now, f);
	e = facts_of_file(now, f);
	if (e == 0)
		e = facts_of_lock(now, f);
	if (e == 0)
		e = facts_of_records(now, f);
	return e != 0 ? e : facts_of_owners(now, f);
}

int percpu_reader_facts(struct percpu_reader *r, struct percpu_reader_facts *ret)
{
	struct percpu_reader_facts f = { .file_bytes = 0 };
	struct percpu_reader *now = NULL;
	int cancel, e;

	if (r == NULL || ret == NULL)
		return percpu_error_say(-EINVAL, r == NULL ? PERCPU_NO_READER :
							     "there is no place for facts");
	r->why.text[0] = '\0';
	cancel = percpu_defer_cancel();
	e = percpu_reader_use(r);
	if (e == 0)
		e = percpu_reader_check_name(r);
	if (e == 0)
		e = percpu_reader_make(r->fd, &now, &r->why);
	if (e == 0) {
		e = gather_facts(now, &f);
		r->why = now->why;
	}
	percpu_reader_close(now);
	percpu_restore_cancel(cancel);
	if (e == -ENOENT) /* the file was a segment when it was opened */
		e = -EBADMSG;
	if (e != 0 && *r->why.text == '\0')
		(void)percpu_reason_set(&r->why, e, "%s", percpu_strerror(e));
	if (e != 0)
		return percpu_reader_keep_error(r, e);
	*ret = f;
	return 0;
}

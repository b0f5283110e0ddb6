/* SPDX-License-Identifier: MIT */
/*
 * reader_fold.c - what the CPUs have counted: lane by lane, each read into the same memory, and
 * added to the one lane of the image.
 *
 * A word of the file is read whole. Words that change together are read twice: if they are the
 * same, they are of one moment. After the lanes comes the bias lane once more, because whoever
 * sets a gauge, or resets extrema, changes what the lanes are counted from.
 */
#include <string.h>

#include "reader.h"

#define SETTLE_TRIES 64 /* for what changes while it is read */

static char *image_at(const struct percpu_reader *r, const struct percpu_part *p, uint32_t lane)
{
	return percpu_chunk_lane(r->s->region->chunks->at[p->chunk], lane, p->offset);
}

static void add_words(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* Add what a lane has in a part. What a thread adds atomically is in no second copy. */
static void fold_part(const struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
		      const unsigned char *bytes)
{
	char *to = image_at(r, p, 0);
	const bool is_atomic = lane >= r->cpus;
	const size_t words = p->bytes / sizeof(uint64_t);

	if (p->fold == PERCPU_FOLD_DOUBLES)
		percpu_double_gather((uint64_t *)to, (const uint64_t *)bytes, words);
	else if (p->fold == PERCPU_FOLD_HISTOGRAM)
		percpu_histogram_gather(p->object, to, bytes);
	else if (p->fold == PERCPU_FOLD_STATS && !is_atomic)
		percpu_stats_gather(p->object, to, bytes);
	else if (p->fold != PERCPU_FOLD_EXTREMA)
		add_words((uint64_t *)to, (const uint64_t *)bytes, words);
	else if (!is_atomic)
		percpu_extrema_gather(to, bytes);
}

/* Read a lane's bytes of a part, or of a run of parts that begins there. They are aligned as in
 * the file, and so the kernel copies what is aligned to 16 bytes by one instruction, on many
 * machines. Returns where they are; NULL, and *e, if that failed. */
static unsigned char *read_lane(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
				unsigned char *buffer, size_t bytes, int *e)
{
	unsigned char *to = buffer + p->offset % PERCPU_BLOCK_ALIGN;

	*e = percpu_reader_pread(r, to, bytes, percpu_reader_place(r, p->chunk, lane, p->offset));
	return *e == 0 ? to : NULL;
}

/* Read words that change together until they are the same twice. On a CPU that copies 16 bytes at
 * once they are of one moment anyhow; who counts without pause keeps others waiting no longer. */
static int settle_unit(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
		       size_t at, unsigned char *was)
{
	struct percpu_part unit = *p;
	const unsigned char *is;
	int e;

	unit.offset += (uint32_t)at;
	for (int try = 0; try < SETTLE_TRIES; try++) {
		is = read_lane(r, &unit, lane, r->third, p->unit, &e);
		if (is == NULL)
			return e;
		if (memcmp(was, is, p->unit) == 0)
			break;
		memcpy(was, is, p->unit);
	}
	return 0;
}

/* Let each unit of a part be of one moment. bytes is what was read of it. */
static int settle_part(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
		       unsigned char *bytes)
{
	int e;
	const unsigned char *again = read_lane(r, p, lane, r->second, p->bytes, &e);

	for (size_t at = 0; e == 0 && at < p->bytes; at += p->unit)
		if (memcmp(bytes + at, again + at, p->unit) != 0)
			e = settle_unit(r, p, lane, at, bytes + at);
	return e;
}

/* Add one lane of n parts that are near each other. */
static int fold_lane(struct percpu_reader *r, const struct percpu_part *p, size_t n, uint32_t lane)
{
	const struct percpu_part *last = &p[n - 1];
	const size_t size = last->offset + last->bytes - p->offset;
	int e;
	unsigned char *run = read_lane(r, p, lane, r->first, size, &e), *bytes;

	for (size_t i = 0; i < n && e == 0; i++) {
		bytes = run + (p[i].offset - p->offset);
		if (p[i].unit != 0)
			e = settle_part(r, &p[i], lane, bytes);
		if (e == 0)
			fold_part(r, &p[i], lane, bytes);
	}
	return e;
}

/* Add up all lanes of n parts of a chunk that are near each other. */
static int fold_run(struct percpu_reader *r, const struct percpu_part *p, size_t n,
		    const uint64_t *used)
{
	int e = 0;

	for (size_t i = 0; i < n; i++)
		memset(image_at(r, &p[i], 0), 0, p[i].bytes);
	for (uint32_t lane = 0; lane < r->cpus && e == 0; lane++)
		e = fold_lane(r, p, n, lane);
	for (size_t bit = percpu_next_bit(used, 0, r->cpus, true); bit < r->cpus && e == 0;
	     bit = percpu_next_bit(used, bit + 1, r->cpus, true))
		e = fold_lane(r, p, n, r->cpus + (uint32_t)bit);
	return e;
}

/* Return how many parts, of those from p on, are near each other. */
static size_t run_of(const struct percpu_part *p, size_t n)
{
	size_t i = 1;

	while (i < n && p[i].chunk == p->chunk &&
	       p[i].offset <= p[i - 1].offset + p[i - 1].bytes + PERCPU_NEAR)
		i++;
	return i;
}

/* Read which atomic lanes are used: after the biases, which may have what is there. */
static int read_used(struct percpu_reader *r, uint32_t chunk, uint64_t *ret)
{
	return percpu_reader_pread(r, ret, sizeof(((struct percpu_header *)0)->atomic_lanes),
				   chunk * r->chunk_size +
					   offsetof(struct percpu_header, atomic_lanes));
}

/* What a series has in the bias lane that may change. */
static struct percpu_part part_of(const struct percpu_entry *s)
{
	return (struct percpu_part){
		.chunk = s->part.chunk,
		.offset = s->bias_at,
		.bytes = s->bias,
	};
}

/* Whether the bias of a series is as it is in the image, which becomes what it is now. */
static bool is_same(const struct percpu_reader *r, const struct percpu_entry *s,
		    const unsigned char *now)
{
	const struct percpu_part p = part_of(s);
	char *was = image_at(r, &p, 2);

	if (memcmp(was, now, s->bias) == 0)
		return true;
	memcpy(was, now, s->bias);
	return false;
}

/* Read a series that was set until it is not set meanwhile. */
static int settle_entry(struct percpu_reader *r, struct percpu_entry *s)
{
	const struct percpu_part p = part_of(s);
	uint64_t used[PERCPU_MAX_CPUS / 64];
	const unsigned char *now;
	int e = 0;

	for (int try = 0; try < SETTLE_TRIES && s->error != 0 && e == 0; try++) {
		e = read_used(r, p.chunk, used);
		if (e == 0 && s->part.bytes != 0)
			e = fold_run(r, &s->part, 1, used);
		if (e != 0)
			break;
		now = read_lane(r, &p, 2 * r->cpus, r->first, s->bias, &e);
		if (now != NULL && is_same(r, s, now))
			s->error = 0;
	}
	return e;
}

/* Look whether the series of a run were set since their biases were copied, and read those again.
 * */
static int settle_run(struct percpu_reader *r, struct percpu_biases *run)
{
	const struct percpu_part p = { .chunk = run->chunk, .offset = run->offset };
	struct percpu_entry *const *s = &r->set[run->first];
	const unsigned char *now;
	int e;

	now = read_lane(r, &p, 2 * r->cpus, r->first, run->bytes, &e);
	if (now == NULL || (!run->failed && memcmp(image_at(r, &p, 2), now, run->bytes) == 0))
		return e;
	run->failed = false;
	for (size_t i = 0; i < run->n; i++)
		s[i]->error = is_same(r, s[i], now + (s[i]->bias_at - run->offset)) ? 0 : -EAGAIN;
	for (size_t i = 0; i < run->n && e == 0; i++) {
		if (s[i]->error != 0)
			e = settle_entry(r, s[i]);
		run->failed |= s[i]->error != 0;
	}
	return e;
}

int percpu_reader_gather(struct percpu_reader *r)
{
	uint64_t used[PERCPU_MAX_CPUS / 64];
	uint32_t chunk = UINT32_MAX;
	size_t n;
	int e = 0;

	for (size_t i = 0; i < r->parts && e == 0; i += n) {
		n = run_of(&r->part[i], r->parts - i);
		if (r->part[i].chunk != chunk) {
			chunk = r->part[i].chunk;
			e = read_used(r, chunk, used);
		}
		if (e == 0)
			e = fold_run(r, &r->part[i], n, used);
	}
	for (size_t i = 0; i < r->runs && e == 0; i++)
		e = settle_run(r, &r->run[i]);
	return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * reader_gather.c - what the CPUs have counted. Each lane is read into the same buffer, and added
 * to the one lane of the image.
 *
 * A word of the file is read whole. Words that change together are read twice: if both copies are
 * the same, the words are of one moment. After the lanes, the bias lane is read again: a thread
 * that sets a gauge or resets extrema changes what the lanes are counted from.
 */
#include <string.h>

#include "reader.h"

#define REREAD_TRIES 64 /* reads, at most, of a value that changes while it is read */
#define BATCH_PARTS 64	/* series, at most, that are read again at once */

static char *image_at(const struct percpu_reader *r, const struct percpu_part *p, uint32_t lane)
{
	return percpu_chunk_lane(r->s->region->chunks->at[p->chunk], lane, p->offset);
}

static void add_words(uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] += from[i];
}

/* Add what a lane has in a part to the image. Atomic lanes (from r->cpus on) have no second copy of
 * statistics, and no extrema. */
static void gather_part(const struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
			const unsigned char *bytes)
{
	char *to = image_at(r, p, 0);
	const bool is_atomic = lane >= r->cpus;
	const size_t words = p->bytes / sizeof(uint64_t);

	if (p->gather == PERCPU_GATHER_DOUBLES)
		percpu_double_gather((uint64_t *)to, (const uint64_t *)bytes, words);
	else if (p->gather == PERCPU_GATHER_HISTOGRAM)
		percpu_histogram_gather(p->object, to, bytes);
	else if (p->gather == PERCPU_GATHER_STATS && !is_atomic)
		percpu_stats_gather(p->object, to, bytes);
	else if (p->gather != PERCPU_GATHER_EXTREMA)
		add_words((uint64_t *)to, (const uint64_t *)bytes, words);
	else if (!is_atomic)
		percpu_extrema_gather(to, bytes);
}

/* Read so many bytes of a lane, from a part on. They are aligned in memory as in the file: so, on
 * many machines, the kernel copies each aligned 16 bytes by one instruction. Returns where they
 * are, or NULL and *e. */
static unsigned char *read_lane(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
				unsigned char *buffer, size_t bytes, int *e)
{
	unsigned char *to = buffer + p->offset % PERCPU_BLOCK_ALIGN;

	*e = percpu_reader_pread(r, to, bytes,
				 percpu_reader_file_offset(r, p->chunk, lane, p->offset));
	return *e == 0 ? to : NULL;
}

/* Read words that change together until two reads are the same. After REREAD_TRIES keep the last
 * read, so that a thread that counts without pause does not delay the reader longer. On a CPU that
 * copies 16 bytes at once the words are of one moment anyhow. */
static int reread_unit(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
		       size_t at, unsigned char *was)
{
	struct percpu_part unit = *p;
	const bool repeats = r->repeats;
	const unsigned char *is;
	int e = 0;

	unit.offset += (uint32_t)at;
	r->repeats = true;
	for (int try = 0; try < REREAD_TRIES && percpu_reader_may_repeat(r); try++) {
		is = read_lane(r, &unit, lane, r->third, p->unit, &e);
		if (is == NULL || memcmp(was, is, p->unit) == 0)
			break;
		memcpy(was, is, p->unit);
	}
	r->repeats = repeats;
	return e;
}

/* Read a part again until each of its units is of one moment. bytes is what was read before. */
static int reread_part(struct percpu_reader *r, const struct percpu_part *p, uint32_t lane,
		       unsigned char *bytes)
{
	int e;
	const unsigned char *again = read_lane(r, p, lane, r->second, p->bytes, &e);

	for (size_t at = 0; e == 0 && at < p->bytes; at += p->unit)
		if (memcmp(bytes + at, again + at, p->unit) != 0)
			e = reread_unit(r, p, lane, at, bytes + at);
	return e;
}

/* Add one lane of n parts that are near each other. */
static int gather_lane(struct percpu_reader *r, const struct percpu_part *p, size_t n,
		       uint32_t lane)
{
	const struct percpu_part *last = &p[n - 1];
	const size_t size = last->offset + last->bytes - p->offset;
	int e;
	unsigned char *run = read_lane(r, p, lane, r->first, size, &e), *bytes;

	for (size_t i = 0; i < n && e == 0; i++) {
		bytes = run + (p[i].offset - p->offset);
		if (p[i].unit != 0)
			e = reread_part(r, &p[i], lane, bytes);
		if (e == 0)
			gather_part(r, &p[i], lane, bytes);
	}
	return e;
}

/* Return the first lane from this one on that is in use and may have data; 2 * cpus if there is
 * none. used has a bit for each atomic lane that is in use. */
static uint32_t next_lane(struct percpu_reader *r, const struct percpu_part *p, size_t bytes,
			  const uint64_t *used, uint32_t lane)
{
	uint32_t found;

	for (;; lane = found) {
		if (lane >= r->cpus)
			lane = r->cpus +
			       (uint32_t)percpu_next_bit(used, lane - r->cpus, r->cpus, true);
		if (lane >= 2 * r->cpus)
			return 2 * r->cpus;
		found = percpu_reader_seek(r, p, bytes, lane);
		if (found == lane)
			return lane;
	}
}

/* Return whether there is time for another read, and, if values are read again, budget. */
static bool may_go_on(struct percpu_reader *r)
{
	return r->repeats ? percpu_reader_may_repeat(r) : !percpu_reader_is_late(r);
}

/* Add up all lanes of n parts of a chunk that are near each other. Stop early if time or budget run
 * out. */
static int gather_run(struct percpu_reader *r, const struct percpu_part *p, size_t n,
		      const uint64_t *used)
{
	const size_t bytes = p[n - 1].offset + p[n - 1].bytes - p->offset;
	uint32_t lane;
	int e = 0;

	for (size_t i = 0; i < n; i++)
		memset(image_at(r, &p[i], 0), 0, p[i].bytes);
	for (lane = next_lane(r, p, bytes, used, 0); lane < 2 * r->cpus && e == 0 && may_go_on(r);
	     lane = next_lane(r, p, bytes, used, lane + 1))
		e = gather_lane(r, p, n, lane);
	return e;
}

/* Return how many of the n parts from p on are near each other. */
static size_t run_of(const struct percpu_part *p, size_t n)
{
	size_t i = 1;

	while (i < n && p[i].chunk == p->chunk &&
	       p[i].offset <= p[i - 1].offset + p[i - 1].bytes + PERCPU_NEAR)
		i++;
	return i;
}

/* Read which atomic lanes are used. The caller has read the biases before: these may already count
 * what is in the lanes. */
static int read_used(struct percpu_reader *r, uint32_t chunk, uint64_t *ret)
{
	return percpu_reader_pread(r, ret, sizeof(((struct percpu_header *)0)->atomic_lanes),
				   chunk * r->chunk_size +
					   offsetof(struct percpu_header, atomic_lanes));
}

/* Return the bytes of the bias lane that a set or a reset of the series changes. */
static struct percpu_part part_of(const struct percpu_picture_series *s)
{
	return (struct percpu_part){
		.chunk = s->cells.part.chunk,
		.offset = s->cells.bias_at,
		.bytes = s->cells.bias,
	};
}

/* Return whether the bias of a series is the same as in the image. If not, store it there. */
static bool is_same(const struct percpu_reader *r, const struct percpu_picture_series *s,
		    const unsigned char *now)
{
	const struct percpu_part p = part_of(s);
	char *was = image_at(r, &p, 2);

	if (memcmp(was, now, s->cells.bias) == 0)
		return true;
	memcpy(was, now, s->cells.bias);
	return false;
}

/* Values that are set while they are read. */

/* Series whose parts and biases are near each other, to be read again at once. That takes at most
 * twice the time of one. */
struct batch {
	struct percpu_picture_series *const *s;
	size_t n; /* length of s, with the series in between that were not set */
	struct percpu_part biases;
	struct percpu_part part[BATCH_PARTS];
	size_t parts;
};

/* Return whether the series is near enough for the batch, and the batch has room. */
static bool has_room_for(const struct batch *b, const struct percpu_picture_series *s)
{
	if (s->cells.bias_at + s->cells.bias > b->biases.offset + PERCPU_NEAR)
		return false;
	return b->parts == 0 || s->cells.part.bytes == 0 ||
	       (b->parts < BATCH_PARTS &&
		s->cells.part.offset + s->cells.part.bytes <= b->part[0].offset + PERCPU_NEAR);
}

/* Make a batch of s[0], which was set, and of those behind it that have room. The n series are in
 * one chunk, in the order of their biases. Their parts are in the same order, because no two series
 * have cells in common (reader_list.c). */
static void make_batch(struct batch *b, struct percpu_picture_series *const *s, size_t n)
{
	size_t i = 0;

	b->s = s;
	b->biases = part_of(s[0]);
	b->parts = 0;
	do {
		if (s[i]->error != 0) {
			if (s[i]->cells.part.bytes != 0)
				b->part[b->parts++] = s[i]->cells.part;
			if (s[i]->cells.bias_at + s[i]->cells.bias >
			    b->biases.offset + b->biases.bytes)
				b->biases.bytes =
					s[i]->cells.bias_at + s[i]->cells.bias - b->biases.offset;
		}
		i++;
	} while (i < n && (s[i]->error == 0 || has_room_for(b, s[i])));
	b->n = i;
}

/* Read the biases of a batch into the image. With clears_errors set, clear the error of each series
 * whose bias has not changed. */
static int compare_biases(struct percpu_reader *r, const struct batch *b, bool clears_errors)
{
	const struct percpu_part *p = &b->biases;
	const unsigned char *now;
	int e;

	now = read_lane(r, p, 2 * r->cpus, r->first, p->bytes, &e);
	for (size_t i = 0; i < b->n && now != NULL; i++)
		if (b->s[i]->error != 0 &&
		    is_same(r, b->s[i], now + (b->s[i]->cells.bias_at - p->offset)) &&
		    clears_errors)
			b->s[i]->error = 0;
	return e;
}

/* Read the series of a batch again. */
static int reread_batch(struct percpu_reader *r, const struct batch *b)
{
	uint64_t used[PERCPU_MAX_CPUS / 64];
	int e = compare_biases(r, b, false);

	if (e == 0)
		e = read_used(r, b->biases.chunk, used);
	if (e == 0 && b->parts != 0)
		e = gather_run(r, b->part, b->parts, used);
	return e == 0 && may_go_on(r) ? compare_biases(r, b, true) : e;
}

/* Read those series of a run again that were set. */
static int reread_run(struct percpu_reader *r, struct percpu_biases *run)
{
	struct percpu_picture_series *const *s = &r->set[run->first];
	struct batch b;
	bool failed = false;
	int e = 0;

	for (size_t i = 0; i < run->n && e == 0; i++) {
		if (s[i]->error == 0)
			continue;
		if (!percpu_reader_may_repeat(r))
			return 0; /* run->failed stays set */
		make_batch(&b, &s[i], run->n - i);
		e = reread_batch(r, &b);
		for (size_t k = 0; k < b.n; k++)
			failed |= s[i + k]->error != 0;
		i += b.n - 1;
	}
	run->failed = failed;
	return e;
}

/* Mark the series of a run that were set since their biases were copied. */
static int look_at_run(struct percpu_reader *r, struct percpu_biases *run)
{
	const struct percpu_part p = { .chunk = run->chunk, .offset = run->offset };
	struct percpu_picture_series *const *s = &r->set[run->first];
	const unsigned char *now;
	int e;

	run->failed = false;
	now = read_lane(r, &p, 2 * r->cpus, r->first, run->bytes, &e);
	if (now == NULL || memcmp(image_at(r, &p, 2), now, run->bytes) == 0)
		return e;
	for (size_t i = 0; i < run->n; i++)
		if (!is_same(r, s[i], now + (s[i]->cells.bias_at - run->offset))) {
			s[i]->error = -EAGAIN;
			run->failed = r->flawed = true;
		}
	return e;
}

/* Look at all runs, and then read the series that were set again, one run after the other. So a
 * series that is set all the time does not delay the next run. */
static int reread_runs(struct percpu_reader *r)
{
	bool failed = false;
	int e = 0;

	for (size_t i = 0; i < r->runs && e == 0; i++) {
		e = look_at_run(r, &r->run[i]);
		failed |= r->run[i].failed;
	}
	r->repeats = true;
	for (int try = 0; try < REREAD_TRIES && failed && e == 0; try++) {
		failed = false;
		for (size_t i = 0; i < r->runs && e == 0; i++) {
			if (r->run[i].failed)
				e = reread_run(r, &r->run[i]);
			failed |= r->run[i].failed;
		}
		failed &= percpu_reader_may_repeat(r);
	}
	r->repeats = false;
	return e;
}

/* Give the series of this part, and of those behind it, an error: there was no time to read their
 * lanes. */
static void leave_part_out(struct percpu_reader *r, const struct percpu_part *p)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->entry[i].cells.part.bytes != 0 &&
		    percpu_reader_compare_parts(&r->entry[i].cells.part, p) >= 0)
			r->entry[i].error = -EAGAIN;
	r->flawed = true;
}

/* Add up the lanes of n parts of a chunk that are near each other, for the first time in a picture.
 * Decide before whether to search them for data. */
static int gather_first(struct percpu_reader *r, const struct percpu_part *p, size_t n,
			const uint64_t *used)
{
	const size_t bytes = p[n - 1].offset + p[n - 1].bytes - p->offset;
	size_t lanes = r->cpus;
	int e;

	for (size_t i = 0; i < PERCPU_MAX_CPUS / 64; i++)
		lanes += (size_t)__builtin_popcountll(used[i]);
	percpu_reader_plan(r, lanes, bytes);
	e = gather_run(r, p, n, used);
	if (e == 0 && r->late)
		leave_part_out(r, p);
	return e;
}

/* Updates of several words by a thread that was killed. */

/* Copy the journal of a chunk, whose copied header says that words of the bias lane are being
 * stored. If the file still says so, put the journal into the image, where values are read as if
 * these words had been stored. Otherwise they have been stored: set *ret_stored. */
static int take_journal(struct percpu_reader *r, uint32_t chunk, bool *ret_stored)
{
	struct percpu_journal *mine = &r->s->region->chunks->at[chunk]->header->journal, now;
	const uint64_t at = chunk * r->chunk_size + offsetof(struct percpu_header, journal);
	uint64_t turn;
	int e = percpu_reader_pread(r, &now, sizeof(now), at);

	PERCPU_STEP("reader: journal copied");
	if (e == 0)
		e = percpu_reader_pread(r, &turn, sizeof(turn), at);
	if (e != 0)
		return e;
	if (now.turn == mine->turn && turn == mine->turn) {
		*mine = now;
	} else {
		mine->turn = 0;
		*ret_stored = true;
	}
	return 0;
}

/* Look at the biases again, and at the journals. */
static int reread_biases(struct percpu_reader *r)
{
	bool stored = false;
	int e = reread_runs(r);

	PERCPU_STEP("reader: biases read again");
	for (uint32_t i = 0; i < r->s->region->n && e == 0; i++)
		if (r->s->region->chunks->at[i]->header->journal.turn & 1)
			e = take_journal(r, i, &stored);
	return e == 0 && stored ? reread_runs(r) : e;
}

int percpu_reader_gather(struct percpu_reader *r)
{
	uint64_t used[PERCPU_MAX_CPUS / 64] = { 0 };
	uint32_t chunk = UINT32_MAX;
	size_t n;
	int e = 0;

	for (size_t i = 0; i < r->n && r->flawed; i++)
		r->entry[i].error = 0;
	r->flawed = false;
	percpu_reader_measure(r);
	for (size_t i = 0; i < r->parts && e == 0 && !r->late; i += n) {
		n = run_of(&r->part[i], r->parts - i);
		if (r->part[i].chunk != chunk) {
			chunk = r->part[i].chunk;
			e = read_used(r, chunk, used);
		}
		if (e == 0)
			e = gather_first(r, &r->part[i], n, used);
	}
	return e == 0 ? reread_biases(r) : e;
}

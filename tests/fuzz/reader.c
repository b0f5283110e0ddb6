/* SPDX-License-Identifier: MIT */
/*
 * reader.c - readers of segments that another process damages, before they are opened, between
 * pictures, and during one. A reader must not crash, hang, wait, or take much more memory than
 * the file has bytes. When the file is mended, the same reader returns the same values as
 * before.
 *
 * An input says what to damage: see segment_file.h. Compiled without libFuzzer, this is a test
 * that makes its own inputs, as many as its argument says, the same in each run.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../blocks.h"
#include "../picture.h"
#include "../steps.h"
#include "fuzz.h"
#include "segment_file.h"

#include "segment/reader.h"

#define MOST 24 /* damages in an input */
#define TIMES 8 /* most memory that is taken at once, as a multiple of the file's length */

enum when {
	FIRST, /* before the first picture */
	AT_DIRECTORY,
	AT_BIASES,
	AT_LANES,
	SECOND, /* before the second one */
	WHENS,
};

struct input {
	uint8_t open_good; /* 1: the reader is opened before any damage; 2: and has a picture */
	uint8_t reader;	   /* 1: it does not know the boot; 2, 4: the time is over at a step */
	uint8_t unused[2];
	struct damage damage[MOST];
} __attribute__((packed));

static const struct input *now;
static size_t damages;
static unsigned steps_seen;  /* of the first picture, as bits */
static unsigned told, asked; /* pictures */
static struct percpu_reader *reads;

static void damage_when(enum when when)
{
	for (size_t i = 0; i < damages; i++)
		if (now->damage[i].when % WHENS == when)
			good_damage(&now->damage[i]);
}

void test_step(const char *name)
{
	const enum when when = strcmp(name, "reader: directory copied") == 0 ? AT_DIRECTORY :
			       strcmp(name, "reader: biases copied") == 0    ? AT_BIASES :
			       strcmp(name, "reader: lanes added up") == 0   ? AT_LANES :
									       WHENS;

	if (now == NULL || when == WHENS || steps_seen & 1U << when)
		return;
	steps_seen |= 1U << when;
	damage_when(when);
	if (reads != NULL &&
	    ((when == AT_DIRECTORY && now->reader & 2) || (when == AT_BIASES && now->reader & 4)))
		reads->deadline = 1;
}

/* Fail: a reader must not sleep. */
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __real_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	must(now == NULL, "a reader waits");
	__real_percpu_futex_sleep(word, operation, value, ns);
}

bool test_block_fails(enum test_block_call call, size_t size)
{
	(void)call;
	must(now == NULL || size <= TIMES * good_length, "so much memory at once");
	return false;
}

/* All returned values, as one number. */

static uint64_t digest;

static void note(const void *bytes, size_t n)
{
	const unsigned char *b = bytes;

	for (size_t i = 0; i < n; i++)
		digest = (digest ^ b[i]) * UINT64_C(0x100000001b3);
}

static void note_text(const char *s)
{
	must(s != NULL && strlen(s) <= PERCPU_METRIC_HELP, "a text");
	note(s, strlen(s) + 1);
}

static void note_error(int e)
{
	must(e == 0 || e == -EINVAL || e == -ENODATA || e == -EAGAIN, "an error of a value");
	note(&e, sizeof(e));
}

static void note_double(int e, double v)
{
	note_error(e);
	if (e == 0)
		note(&v, sizeof(v));
}

static void look_at_words(const struct percpu_reader *r, size_t i)
{
	uint64_t counts[PERCPU_STATS_MAX_COMMIT] = { 0 }, count = 0, when = 0;
	double number = 0, min = 0, max = 0;
	int64_t level = 0;

	for (size_t n = 1; n <= PERCPU_STATS_MAX_COMMIT; n++)
		note_error(percpu_reader_stats(r, i, counts, n));
	note(counts, sizeof(counts));
	note_error(percpu_reader_counter(r, i, &count));
	note(&count, sizeof(count));
	note_error(percpu_reader_gauge(r, i, &level));
	note(&level, sizeof(level));
	note_double(percpu_reader_number(r, i, &number), number);
	note_error(percpu_reader_when(r, i, &when));
	note(&when, sizeof(when));
	note_double(percpu_reader_extrema(r, i, &min, &max), min + max);
}

static void look_at_exemplars(struct percpu_reader *r, size_t i)
{
	struct percpu_exemplar x;
	int e = 0;

	for (size_t k = 0; e != -EINVAL; k++) {
		must(k <= PERCPU_EXEMPLAR_SLOTS, "so many slots");
		e = percpu_reader_exemplar(r, i, k, &x);
		note_error(e);
		if (e != 0)
			continue;
		must(isfinite(x.value) && x.labels <= PERCPU_EXEMPLAR_LABELS, "an exemplar");
		note_double(0, x.value);
		note(&x.time, sizeof(x.time));
		for (uint32_t n = 0; n < x.labels; n++) {
			note_text(x.text + x.label_names[n]);
			note_text(x.text + x.label_values[n]);
		}
	}
}

static void look_at_objects(struct percpu_reader *r, size_t i, uint32_t cpus)
{
	struct percpu_histogram_snapshot *shot = NULL;
	struct percpu_histogram_quantile median = { 0 };
	struct percpu_owned_value owned[4];
	double each[64] = { 0 };
	size_t n = 0;
	int e = percpu_reader_histogram(r, i, &shot);

	note_error(e);
	if (e == 0) {
		note(&shot->count, sizeof(shot->count));
		note_error(percpu_histogram_quantile(shot, 0.5, &median));
		note(&median, sizeof(median));
		percpu_histogram_snapshot_destroy(shot);
	}
	note_error(percpu_reader_owned_each(r, i, owned, 4, &n));
	must(n <= PERCPU_OWNERS_MAX, "so many owners");
	for (size_t k = 0; k < n && k < 4; k++)
		note(&owned[k].value, sizeof(owned[k].value));
	e = percpu_reader_cpus(r, i, each, cpus < 64 ? cpus : 64);
	must(e <= 0, "an error");
	note(each, sizeof(each));
}

static const char *look_at_series(const struct percpu_reader *r, size_t i, const char *before)
{
	struct percpu_reader_series s;

	must(percpu_reader_series(r, i, &s) == 0, "a series");
	note_text(s.name);
	note_text(s.help);
	note_text(s.unit);
	note_text(s.field);
	must(strcmp(before, s.name) <= 0, "the order of names");
	must(s.labels <= PERCPU_METRIC_LABELS && s.n >= 1 && s.n <= PERCPU_STATS_MAX_COMMIT,
	     "numbers");
	for (uint32_t k = 0; k < s.labels; k++) {
		note_text(s.label_names[k]);
		note_text(s.label_values[k]);
	}
	for (uint32_t k = 0; k < s.n && s.kind == PERCPU_METRIC_STATS; k++)
		note_text(s.fields[k]);
	note(&s.kind, sizeof(s.kind));
	note(&s.flags, sizeof(s.flags));
	note(&s.cap, sizeof(s.cap));
	note(&s.overflows, sizeof(s.overflows));
	return s.name;
}

/* Make all calls, also for what does not exist. Returns the number of all values. */
static uint64_t look(struct percpu_reader *r)
{
	const size_t count = percpu_reader_count(r);
	struct percpu_reader_info info = { .cpus = 1 };
	struct percpu_reader_series none;
	struct percpu_owner_info owners[4];
	const char *before = "";
	uint64_t n = 0;

	digest = UINT64_C(0xcbf29ce484222325);
	must(percpu_reader_info(r, &info) == 0, "what is known of the picture");
	must(count <= good_length / sizeof(struct percpu_segment_record), "so many series");
	for (size_t i = 0; i < count; i++)
		before = look_at_series(r, i, before);
	must(percpu_reader_series(r, count, &none) == -EINVAL, "no series");
	for (size_t i = 0; i < count + 2; i++) {
		look_at_words(r, i);
		look_at_objects(r, i, info.cpus);
		look_at_exemplars(r, i);
	}
	n = percpu_reader_owners(r, owners, 4);
	must(n <= PERCPU_OWNERS_MAX, "so many owners");
	note(&n, sizeof(n));
	note(&info.pending, sizeof(info.pending));
	note(&count, sizeof(count));
	return digest;
}

/* Facts, which have no value that is not bounded. */
static void look_at_facts(struct percpu_reader *r)
{
	struct percpu_reader_facts f = { .file_bytes = 0 };
	int e = percpu_reader_facts(r, &f);

	must(e == 0 || e == -EBADMSG || e == -EPROTO, "an error of facts");
	must(e == 0 || *percpu_error() != '\0', "no word about an error");
	if (e != 0)
		return;
	must(f.chunks >= 1 && f.chunks <= f.chunks_most && f.chunks_most <= PERCPU_MAX_FILE_CHUNKS,
	     "so many chunks");
	must(f.cells_used + f.cells_free == (uint64_t)f.chunks * PERCPU_LANE_SIZE, "so many cells");
	must(f.records_bytes <= f.records_most, "so many bytes of records");
	must(f.records_pending <= f.records_in_use &&
		     (uint64_t)f.records_in_use + f.records_removed <=
			     f.records_bytes / sizeof(struct percpu_segment_record),
	     "so many records");
	must(f.counting <= PERCPU_FACT_UNKNOWN && f.lock <= PERCPU_LOCK_DIED &&
		     f.lock_holder <= FUTEX_TID_MASK && f.reset_unfinished <= 1,
	     "a state");
	must(f.owners_alive + f.owners_dead <= PERCPU_OWNERS_MAX, "so many owners");
}

/* Pictures. */

static void fits(const struct percpu_reader *r, bool damaged)
{
	const char *wrong = picture_check(r, damaged);

	must(wrong == NULL, wrong);
}

static void read_damaged(struct percpu_reader *r)
{
	int e;

	reads = r;
	e = percpu_reader_read(r);
	reads = NULL;
	asked++;
	must(e == 0 || e == -EBADMSG || e == -EPROTO || e == -EAGAIN || e == -ENOENT,
	     "an error of a picture");
	must((e == 0) == (percpu_reader_count(r) != 0) || e == 0, "a picture after an error");
	must(e == 0 || *percpu_error() != '\0', "no word about an error");
	look_at_facts(r);
	if (e != 0)
		return;
	told++;
	fits(r, true);
	(void)look(r);
}

/* Read the mended file. The reader keeps unchanged records, so it is made to forget them. */
static void read_mended(struct percpu_reader *r, uint64_t expected)
{
	const uint32_t chunks = r->s->region->n;
	int e;

	r->copied = 0;
	e = percpu_reader_read(r);

	/* A chunk that the damage added stays. */
	if (e == -EBADMSG && chunks > good_length / r->chunk_size)
		return;
	must(e == 0, percpu_error());
	must(percpu_reader_count(r) == good_count, "all series");
	fits(r, false);
	must(look(r) == expected, "another value than before");
}

/* Read the undamaged file, if there is a reader. */
static void read_good(struct percpu_reader *r)
{
	if (r == NULL)
		return;
	must(percpu_reader_read(r) == 0, "to be read");
	fits(r, false);
}

static uint64_t begin_fuzzing(void)
{
	struct percpu_reader *r = NULL;
	uint64_t expected;

	percpu_selftest();
	good_make();
	good_restore();
	must(percpu_reader_open_fd(good_file, &r) == 0 && percpu_reader_read(r) == 0 &&
		     percpu_reader_count(r) == good_count,
	     "a picture of a good file");
	expected = look(r);
	fits(r, false);
	percpu_reader_close(r);
	return expected;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t head = offsetof(struct input, damage);
	static uint64_t expected;
	static struct input in;
	struct percpu_reader *r = NULL;

	if (expected == 0)
		expected = begin_fuzzing();
	if (size < head)
		return 0;
	size = size < sizeof(in) ? size : sizeof(in);
	memcpy(&in, data, size);
	damages = (size - head) / sizeof(in.damage[0]);
	good_restore();
	now = &in;
	steps_seen = ~0U;
	if (in.open_good & 1)
		must(percpu_reader_open_fd(good_file, &r) == 0, "to be opened");
	if (in.open_good & 2)
		read_good(r);
	steps_seen = 0;
	damage_when(FIRST);
	if (r != NULL || percpu_reader_open_fd(good_file, &r) == 0) {
		if (in.reader & 1)
			r->s->boot = 0;
		read_damaged(r);
		damage_when(SECOND);
		read_damaged(r);
		good_restore();
		steps_seen = ~0U;
		read_mended(r, expected);
		percpu_reader_close(r);
	}
	now = NULL;
	return 0;
}

/* Inputs. */

static void make_place(uint64_t *random, struct damage *d)
{
	const uint64_t r = next_random(random);

	d->what = (uint8_t)(r % WHATS);
	d->index = (uint8_t)(r >> 8);
	d->lane = (uint8_t)(r >> 16);
	d->when = (uint8_t)(r >> 24) % WHENS;
	d->more = (uint32_t)(r >> 32);
	if (d->what % WHATS == HEAD && (r >> 20) % 2 == 0) /* state, kind, key and lengths */
		d->more = d->more % 14;
}

/* Return a plausible value for a field: near its own, near a limit, or another field's. */
static uint64_t make_value(uint64_t *random, uint64_t was)
{
	const uint64_t r = next_random(random), one = 1;
	struct damage other = { 0 };

	switch (r % 11) {
	case 0:
		return was + (r >> 8) % 17 - 8;
	case 1:
		return one << (r >> 8) % 64;
	case 2:
		return (one << (r >> 8) % 64) - 1;
	case 3:
		return was ^ one << (r >> 8) % 64;
	case 4:
		return -((r >> 8) % 4096);
	case 5:
		return good_key((unsigned)(r >> 8) % MOST_RECORDS) + (r >> 40) % 3 * 64;
	case 6: /* a kind, a chunk, and an offset */
		return (r >> 8) % 32 << PERCPU_KEY_KIND_SHIFT |
		       (one + (r >> 16) % 3) << PERCPU_KEY_CHUNK_SHIFT |
		       (r >> 24) % (2 * (uint64_t)PERCPU_LANE_SIZE) / 8 * 8;
	case 7:
		return (r >> 8) % 70000;
	case 8: /* a double, or NaN or infinite */
		return (r >> 8) % 2 << 63 | (2040 + (r >> 9) % 8) << 52 | (r >> 12) % 2;
	case 9:
		make_place(random, &other);
		return good_word(good_place(&other));
	default:
		return r;
	}
}

static void make_damage(uint64_t *random, struct damage *d)
{
	make_place(random, d);
	if (d->what >= STATE) /* bits that select the change */
		d->value = next_random(random);
	else
		d->value = make_value(random, good_word(good_place(d)));
}

/* Returns the length of the changed input in bytes. */
const size_t longest_input = sizeof(struct input);

size_t mutate(void *input, size_t size, uint64_t *random)
{
	struct input *in = input;
	const size_t head = offsetof(struct input, damage);
	size_t n = size > head ? (size - head) / sizeof(in->damage[0]) : 0;
	const uint64_t r = next_random(random);

	if (r % 8 == 0) {
		in->open_good = (uint8_t)(r >> 8);
		in->reader = r >> 24 & 1 ? (uint8_t)(r >> 16) : 0;
	} else if (r % 8 < 3 && n > 0)
		make_damage(random, &in->damage[(r >> 8) % n]);
	else if (r % 8 < 4 && n > 0)
		in->damage[(r >> 8) % n].when = (uint8_t)(r >> 32);
	else if (n < MOST)
		make_damage(random, &in->damage[n++]);
	else
		n = 1 + (r >> 8) % MOST;
	return head + n * sizeof(in->damage[0]);
}

#ifndef PERCPU_FUZZER

/* A picture takes longer on more CPUs: on 64 emulated ones, 2000 would take half an hour. */
static long fewer_on_many_cpus(long inputs)
{
	const long cpus = sysconf(_SC_NPROCESSORS_CONF);

	return cpus > 4 ? inputs * 4 / cpus : inputs;
}

int main(int argc, char **argv)
{
	const long asked_for = argc > 1 && atol(argv[1]) > 0 ? atol(argv[1]) : 20000;
	const long inputs = fewer_on_many_cpus(asked_for);
	uint64_t random = 88172645463325252;
	struct input in = { 0 };
	size_t size = 0;

	tell_of_crashes();
	for (long i = 0; i < inputs; i++) {
		if (i % 8 == 0) {
			size = offsetof(struct input, damage);
			in.open_good = (uint8_t)next_random(&random);
			in.reader = in.open_good & 8 ? in.open_good >> 4 : 0;
			LLVMFuzzerTestOneInput((const uint8_t *)&in, size);
		}
		size = mutate(&in, size, &random);
		alarm(20); /* a reader that reads for so long hangs */
		LLVMFuzzerTestOneInput((const uint8_t *)&in, size);
	}
	alarm(0);
	printf("ok: %ld inputs, %u of %u pictures taken\n", inputs, told, asked);
	return 0;
}

#endif

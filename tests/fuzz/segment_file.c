/* SPDX-License-Identifier: MIT */
/* segment_file.c - see segment_file.h. */
#define _GNU_SOURCE
#include "segment_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../declared.h"

#include "fuzz.h"

#include "segment/segment.h"

#define CPUS 2 /* or as many as there are */
#define PAGE 4096
#define LANE_OF_BIAS (2 * cpus)
#define OBJECT_BYTES 168 /* of a histogram: control, cells and own bounds */

int good_file;
size_t good_length;
unsigned good_count;

static char *good;	/* the contents of the file */
static bool *has_bytes; /* whether each page of it has data */
static size_t chunk_size, cpus, control, owners, slots;

static struct {
	size_t at, size; /* of the record in the file */
	uint64_t key, exemplars;
} record[MOST_RECORDS];
static unsigned records;

/* Return where a lane has the bytes that a key leads to. */
static size_t place_in(uint64_t key, size_t lane)
{
	return ((size_t)(key % (UINT64_C(1) << PERCPU_KEY_KIND_SHIFT) >> PERCPU_KEY_CHUNK_SHIFT) -
		1) * chunk_size +
	       PERCPU_HEAD + lane * PERCPU_STRIDE +
	       (size_t)(key % (UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT));
}

uint64_t good_word(size_t at)
{
	uint64_t word;

	memcpy(&word, good + at, sizeof(word));
	return word;
}

/* Store an exemplar of a metric. */
static int describe(struct percpu_segment *s, const struct percpu_metric *m)
{
	const struct percpu_exemplar_label labels[] = { { "trace_id", "4bf92f3577b34da6" },
							{ "span_id", "00f067aa0ba902b7" } };
	struct percpu_exemplars *x;
	int e = percpu_segment_exemplars(s, m, &x);

	if (e == 0)
		e = percpu_exemplars_store(x, 3, labels, 1);
	return e != 0 ? e : percpu_exemplars_store(x, 2.5, labels, 2);
}

/* Count in a metric of each kind. */

static int count_words(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind)
{
	struct percpu_fcounter *fcounter;
	struct percpu_counter *counter;
	struct percpu_fgauge *fgauge;
	struct percpu_latest *latest;
	struct percpu_gauge *gauge;
	int e;

	if (kind == PERCPU_METRIC_COUNTER) {
		e = percpu_segment_counter(s, m, &counter);
		if (e == 0)
			percpu_counter_add(counter, 5);
		e = e != 0 ? e : describe(s, m);
	} else if (kind == PERCPU_METRIC_FCOUNTER) {
		e = percpu_segment_fcounter(s, m, &fcounter);
		e = e != 0 ? e : percpu_fcounter_add(fcounter, 0.5);
	} else if (kind == PERCPU_METRIC_GAUGE) {
		e = percpu_segment_gauge(s, m, &gauge);
		e = e != 0 ? e : percpu_gauge_set(gauge, -3);
		if (e == 0)
			percpu_gauge_add(gauge, 1);
	} else if (kind == PERCPU_METRIC_FGAUGE) {
		e = percpu_segment_fgauge(s, m, &fgauge);
		e = e != 0 ? e : percpu_fgauge_set(fgauge, 1.25);
	} else {
		e = percpu_segment_latest(s, m, &latest);
		e = e != 0 ? e : percpu_latest_set(latest, 37);
	}
	return e;
}

/* Record in a histogram with exponential buckets, with own bounds, or in a summary, by the number of
 * labels. */
static int record_in(struct percpu_segment *s, const struct percpu_metric *m)
{
	static const double bounds[] = { -0.5, 2.5, 7 };
	const struct percpu_histogram_options all[] = {
		{ .size = sizeof(all[0]), .min = 1, .max = 8, .buckets_per_octave = 2 },
		{ .size = sizeof(all[0]), .bounds = bounds, .bounds_n = 3 },
		{ .size = sizeof(all[0]), .ticks_per_unit = 10, .flags = PERCPU_HISTOGRAM_SUMMARY },
	};
	struct percpu_histogram *h;
	int e = percpu_segment_histogram(s, m, &all[m->labels % 3], &h);

	if (e == 0)
		percpu_histogram_record(h, 3);
	return e;
}

static int count_objects(struct percpu_segment *s, const struct percpu_metric *m, unsigned kind)
{
	static const char *const names[] = { "x", "yy", "z" };
	static const struct percpu_metric_fields fields = { sizeof(fields), "field", names, 3 };
	const unsigned flags = m->labels % 2;
	static const uint64_t ones[3] = { 1, 2, 3 };
	struct percpu_owned_fgauge *fowned;
	struct percpu_owned_gauge *owned;
	struct percpu_extrema *extrema;
	struct percpu_stats *stats;
	int e;

	if (kind == PERCPU_METRIC_HISTOGRAM) {
		e = record_in(s, m);
		e = e != 0 ? e : describe(s, m);
	} else if (kind == PERCPU_METRIC_EXTREMA) {
		e = percpu_segment_extrema(s, m, flags ? PERCPU_EXTREMA_DOUBLE : 0, &extrema);
		if (e == 0)
			e = flags ? percpu_extrema_observe_double(extrema, 2.5) :
				    percpu_extrema_observe(extrema, 7);
	} else if (kind == PERCPU_METRIC_OWNED_GAUGE) {
		e = percpu_segment_owned_gauge(s, m, flags ? PERCPU_OWNED_MAX : PERCPU_OWNED_SUM,
					       &owned);
		e = e != 0 ? e : percpu_owned_gauge_add(owned, 4);
	} else if (kind == PERCPU_METRIC_OWNED_FGAUGE) {
		e = percpu_segment_owned_fgauge(
			s, m, flags ? PERCPU_OWNED_RECENT : PERCPU_OWNED_SUM, &fowned);
		e = e != 0 ? e : percpu_owned_fgauge_set(fowned, 0.5);
	} else if (kind == PERCPU_METRIC_STATS) {
		e = percpu_segment_stats(s, m, &fields, flags ? PERCPU_STATS_WHOLE : 0, &stats);
		e = e != 0 ? e : percpu_stats_update(stats, 0, 0, ones, 3);
	} else {
		e = percpu_segment_info(s, m);
	}
	return e;
}

static int count_in(struct percpu_segment *s, unsigned i)
{
	static char help[900];
	static const char *const labels[] = { "a", "b" };
	static const char *const values[] = { "x", "yyyyyyyyyyyyyyyyyyyyy" };
	static const char *const ends[] = { "", "_total", "_total", "", "",	 "",
					    "", "",	  "",	    "", "_info", "_total" };
	const unsigned kind = 1 + i % PERCPU_METRIC_STATS, n = i / PERCPU_METRIC_STATS % 3;
	char name[32];
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = name,
					 .help = i >= 4 ? help : "What it counts.",
					 .label_names = n != 0 ? labels : NULL,
					 .label_values = n != 0 ? values : NULL,
					 .labels = n };

	memset(help, 'h', sizeof(help) - 1);
	snprintf(name, sizeof(name), "m%u%s", i, ends[kind]);
	return kind <= PERCPU_METRIC_LATEST ? count_words(s, &m, kind) : count_objects(s, &m, kind);
}

/* Make a family of two series, and use a third one. */
static void count_in_family(struct percpu_segment *s)
{
	static const char *const labels[] = { "code" }, *const values[] = { "a", "bb", "ccc" };
	const struct percpu_metric m = { .size = sizeof(m),
					 .name = "family_total",
					 .help = "What codes there were.",
					 .label_names = labels,
					 .labels = 1 };
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_exemplars *x = NULL;
	struct percpu_counter *c = NULL;
	struct percpu_family *f = NULL;

	must(family_with_cap(s, &d, 2, &f) == 0, percpu_error());
	for (size_t i = 0; i < 3; i++) {
		must(percpu_family_counter(f, &values[i], &c) == 0, "a series of a family");
		percpu_counter_add(c, 3);
		must(percpu_family_exemplars(f, &values[i], &x) == 0, "exemplars of a family");
		must(percpu_exemplars_store(x, 3, NULL, 0) == 0, "an exemplar of a family");
	}
}

/* Make a family with removed series, of which one was found again. */
static void come_and_go(struct percpu_segment *s)
{
	static const char *const labels[] = { "user" };
	static const char *const values[] = { "one", "two", "six", "ten" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "churn_total", .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_counter *c = NULL;
	struct percpu_family *f = NULL;

	must(family_with_cap(s, &d, 3, &f) == 0, percpu_error());
	for (size_t i = 0; i < 4; i++) {
		must(percpu_family_counter(f, &values[i], &c) == 0, "a series that goes");
		percpu_counter_add(c, (int64_t)i + 1);
		if (i % 2 == 0)
			must(percpu_family_remove(f, &values[i]) == 0, "a removal");
		if (i == 1)
			must(percpu_family_add(f, &values[0], 3) == 0, "a series that comes back");
	}
}

/* Note where records and other parts of the file are. */
static void note_places(struct percpu_segment *s)
{
	struct percpu_segment_record *r;
	struct percpu_record_copy *c = malloc(sizeof(*c));
	unsigned removed = 0;
	uint64_t at = 0, block;

	must(c != NULL, "memory");
	control = place_in(s->control_key, LANE_OF_BIAS);
	while (percpu_directory_next(s, PERCPU_SERIES | PERCPU_FAMILIES | PERCPU_REMOVED, &at, c,
				     &r)) {
		must(records < MOST_RECORDS, "so many records");
		block = (at - 1) / PERCPU_SEGMENT_BLOCK;
		record[records].size = c->head.size;
		record[records].key = c->head.key;
		record[records].exemplars = c->head.exemplars;
		record[records++].at = place_in(s->block_key[block], LANE_OF_BIAS) +
				       (size_t)((char *)r - s->block[block]);
		good_count += c->head.state == PERCPU_RECORD_IN_USE;
		removed += c->head.state == PERCPU_RECORD_REMOVED;
	}
	must(removed != 0, "a removed series");
	must(s->seen > PERCPU_SEGMENT_BLOCK, "two blocks");
	free(c);
}

static void note_bytes(void)
{
	must(pread(good_file, good, good_length, 0) == (ssize_t)good_length, "to be read");
	must(memcmp(good + record[0].at + sizeof(struct percpu_segment_record), "m0_total", 8) == 0,
	     "the first record");
	for (size_t i = 0; i < good_length; i++)
		has_bytes[i / PAGE] |= good[i] != 0;
	owners = place_in(good_word(offsetof(struct percpu_header, root) + 8 * PERCPU_OWNERS_ROOT),
			  LANE_OF_BIAS);
	slots = place_in(good_word(owners + offsetof(struct percpu_owners_control, block)),
			 LANE_OF_BIAS);
}

void good_make(void)
{
	struct percpu_segment_options o = { .size = sizeof(o) };
	static struct percpu_segment *s; /* stays open: this process owns values of gauges */

	good_file = memfd_create("fuzz", MFD_CLOEXEC);
	o.cpus = percpu_status()->possible_cpus > CPUS ? 0 : CPUS;
	must(percpu_segment_open_fd(good_file, PERCPU_SEGMENT_CREATE, &o, &s) == 0, "a good file");
	for (unsigned i = 0; i < MOST_SERIES || s->seen <= PERCPU_SEGMENT_BLOCK; i++)
		must(count_in(s, i) == 0 || !percpu_pair_is_atomic(), percpu_error());
	count_in_family(s);
	come_and_go(s);
	cpus = s->region->cpus;
	chunk_size = (size_t)percpu_chunk_size(PERCPU_STRIDE, (uint32_t)cpus);
	note_places(s);
	good_length = s->region->n * chunk_size;
	good = malloc(good_length);
	has_bytes = calloc(good_length / PAGE + 1, sizeof(*has_bytes));
	must(good != NULL && has_bytes != NULL, "memory");
	note_bytes();
}

void good_restore(void)
{
	must(ftruncate(good_file, 0) == 0 && ftruncate(good_file, (off_t)good_length) == 0,
	     "to be emptied");
	for (size_t i = 0; i < good_length; i += PAGE)
		if (has_bytes[i / PAGE])
			must(pwrite(good_file, good + i,
				    good_length - i < PAGE ? good_length - i : PAGE, (off_t)i) > 0,
			     "to be written");
}

uint64_t good_key(unsigned i)
{
	i %= records + 3;
	return i < records ? record[i].key :
			     good_word(control + offsetof(struct percpu_segment_control, block) +
				       8 * (size_t)(i - records));
}

/* Return where a lane has the object of a series, or of other users of the segment. */
static size_t place_of_object(const struct damage *d, size_t lane)
{
	const uint64_t key = record[d->index % records].key;

	return place_in(key != 0 ? key : good_key(records), lane);
}

/* Return where the exemplars of a record are; of one that has none, those of the first record. */
static size_t place_of_exemplars(size_t i)
{
	return place_in(record[record[i].exemplars != 0 ? i : 0].exemplars, LANE_OF_BIAS);
}

static size_t place_of_shares(const struct damage *d)
{
	const size_t at = place_of_object(d, LANE_OF_BIAS);
	const uint64_t key = good_word(at + offsetof(struct percpu_owned_control, block));

	return key % PERCPU_BLOCK_ALIGN == 0 &&
			       key >> PERCPU_KEY_CHUNK_SHIFT <= good_length / chunk_size &&
			       key >> PERCPU_KEY_CHUNK_SHIFT != 0 ?
		       place_in(key, LANE_OF_BIAS) :
		       at;
}

size_t good_place(const struct damage *d)
{
	const size_t words = d->more * (size_t)4, i = d->index % records;
	size_t at = d->index % (good_length / chunk_size) * chunk_size;

	switch ((enum what)(d->what % WHATS)) {
	case HEADER:
		at += words % offsetof(struct percpu_header, atomic_lanes);
		break;
	case LANES:
		at += offsetof(struct percpu_header, atomic_lanes) + words % 16;
		break;
	case USED:
		at += offsetof(struct percpu_header, used) + words % (PERCPU_UNITS / 8);
		break;
	case STARTS:
		at += offsetof(struct percpu_header, starts) + words % (PERCPU_UNITS / 8);
		break;
	case REST:
		at += offsetof(struct percpu_header, alloc_lock) +
		      words % (sizeof(struct percpu_header) -
			       offsetof(struct percpu_header, alloc_lock));
		break;
	case CONTROL:
		at = control + words % offsetof(struct percpu_segment_control, block);
		break;
	case BLOCK:
		at = control + offsetof(struct percpu_segment_control, block) +
		     words % (d->lane % 8 == 0 ? 8 * PERCPU_SEGMENT_BLOCKS : 24);
		break;
	case HEAD:
		at = record[i].at + words % sizeof(struct percpu_segment_record);
		break;
	case TEXT:
		at = record[i].at + sizeof(struct percpu_segment_record) +
		     words % (record[i].size - sizeof(struct percpu_segment_record));
		break;
	case OBJECT:
		at = place_of_object(d, LANE_OF_BIAS) + words % OBJECT_BYTES;
		break;
	case CELLS:
		at = place_of_object(d, d->lane % LANE_OF_BIAS) + words % 512;
		break;
	case OWNERS:
		at = owners + words % 32;
		break;
	case SLOT:
		at = slots + words % (3 * sizeof(struct percpu_owner_slot));
		break;
	case EXEMPLARS:
		at = place_of_exemplars(i) + words % (sizeof(struct percpu_exemplars_control) +
						      sizeof(struct percpu_exemplar_slot));
		break;
	case SHARES:
		at = place_of_shares(d) + (d->lane % 2 ? PERCPU_OWNER_SLOTS * 8 : 0) + words % 128;
		break;
	default:
		at = words;
	}
	return at % (good_length - sizeof(uint64_t));
}

static void copy_bytes(const struct damage *d)
{
	static char bytes[PAGE];
	const size_t to = record[d->index % records].at, from = record[d->lane % records].at;
	const size_t n = record[d->lane % records].size, page = d->more % (good_length / PAGE);

	if (d->value % 2 == 0) {
		(void)!pwrite(good_file, good + from, n < PAGE ? n : PAGE, (off_t)to);
		return;
	}
	memcpy(bytes, good + (size_t)(d->value / 2) % (good_length / PAGE) * PAGE, PAGE);
	(void)!pwrite(good_file, bytes, PAGE, (off_t)(page * PAGE));
}

static void write_at(size_t at, const void *bytes, size_t n)
{
	must(pwrite(good_file, bytes, n, (off_t)at) == (ssize_t)n, "a few bytes");
}

/* Change a record's state, as processes leave it that are killed while they remove, free or
 * rewrite it. */
static void change_state(const struct damage *d)
{
	const size_t at = record[d->index % records].at;
	const uint16_t state = (uint16_t)(d->value % (PERCPU_RECORD_FAMILY + 2));
	const uint64_t invalid = d->value >> 8 & 15, none = 0;
	uint64_t changes = good_word(control + offsetof(struct percpu_segment_control, changes));

	write_at(at + offsetof(struct percpu_segment_record, state), &state, sizeof(state));
	if (d->lane & 1)
		write_at(at + offsetof(struct percpu_segment_record, key), &none, sizeof(none));
	if (d->lane & 2)
		write_at(at + offsetof(struct percpu_segment_record, invalid), &invalid,
			 sizeof(invalid));
	changes += d->lane >> 2 & 3; /* odd: it is being rewritten */
	write_at(control + offsetof(struct percpu_segment_control, changes), &changes,
		 sizeof(changes));
}

/* Return a time: unchanged, at the clock's begin, in the future, or one that overflows. */
static uint64_t some_time(uint64_t was, unsigned which)
{
	const uint64_t hour = UINT64_C(3600) * 1000000000;
	const uint64_t times[] = { was, 0, 1, was + hour, was - hour, UINT64_MAX, -hour, was / 2 };

	return times[which % 8];
}

static void change_moment(const struct damage *d)
{
	const size_t generation = control + offsetof(struct percpu_segment_control, started) +
				  d->index % 2 * sizeof(struct percpu_segment_time);
	const size_t at = d->lane & 1 ? generation :
					record[d->index % records].at +
						offsetof(struct percpu_segment_record, declared);
	const uint64_t boot = good_word(at + offsetof(struct percpu_segment_time, boot));
	const struct percpu_segment_time t = {
		.real = some_time(good_word(at + offsetof(struct percpu_segment_time, real)),
				  (unsigned)d->value),
		.boottime =
			some_time(good_word(at + offsetof(struct percpu_segment_time, boottime)),
				  (unsigned)(d->value >> 8)),
		.boot = d->value >> 16 & 1 ? boot :
			d->value >> 17 & 1 ? 0 :
					     boot + 1,
	};

	write_at(at, &t, sizeof(t));
}

/* Change a slot's owner: this process, the first one, no process, an impossible id; alive, dead,
 * with another start, or elsewhere. */
static void change_owner(const struct damage *d)
{
	const uint32_t pids[] = { (uint32_t)getpid(), 1, 0, 0x7fffffff, UINT32_MAX, 2 };
	const size_t at = slots + d->index % 3 * sizeof(struct percpu_owner_slot);
	struct percpu_owner_slot s;

	memcpy(&s, good + slots, sizeof(s)); /* that of this process */
	s.word = d->value >> 8 & 7;
	s.pid = pids[(d->value >> 16) % 6];
	s.started = some_time(s.started, (unsigned)(d->value >> 24));
	s.space = d->value >> 32 & 1 ? s.space : d->value >> 33 & 3;
	s.locked = d->value >> 40 & 3;
	write_at(at, &s, sizeof(s));
}

void good_damage(const struct damage *d)
{
	const enum what what = (enum what)(d->what % WHATS);

	if (what == STATE)
		change_state(d);
	else if (what == MOMENT)
		change_moment(d);
	else if (what == OWNER)
		change_owner(d);
	else if (what == LENGTH)
		must(ftruncate(good_file, (off_t)(d->value % (2 * good_length))) == 0,
		     "its length");
	else if (what == HOLE)
		(void)!fallocate(good_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				 (off_t)(d->more % (good_length / PAGE) * PAGE),
				 (off_t)((1 + d->index % 16) * PAGE));
	else if (what == COPY)
		copy_bytes(d);
	else
		must(pwrite(good_file, &d->value, d->lane & 1 ? 4 : 8, (off_t)good_place(d)) > 0,
		     "a word");
}

/* SPDX-License-Identifier: MIT */
/*
 * segment.c - damaged files of segments: opened, declared in, counted in. A call must not crash,
 * hang, or reach beyond the lanes. For as many inputs as the argument says, words of a correct
 * file are replaced at random, the same in each run: of the header, of the control, of records,
 * and of the allocator's bits. Or a record gets another state, as a killed process would leave
 * it.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../declared.h"

#include "region_file.h"
#include "segment/segment.h"

#define METRICS 12

static unsigned refused; /* calls that failed, which may be */

#define BOUNDED 6 /* a metric that is a histogram with own bounds */
static uint64_t bounded_key;

/* Declare a histogram, and record in it. */
static int use_histogram(struct percpu_segment *s, const struct percpu_metric *m, bool bounded)
{
	static const double bounds[] = { -1, 0, 0.29, 3, 1e9 };
	const struct percpu_histogram_options own = {
		.size = sizeof(own), .ticks_per_unit = 100, .bounds = bounds, .bounds_n = 5
	};
	struct percpu_histogram *h;
	int e = percpu_segment_histogram(s, m, bounded ? &own : NULL, &h);

	if (e != 0)
		return e;
	check_block(s->region, h->block.base, h->block.size);
	percpu_histogram_record(h, 2);
	bounded_key = bounded ? percpu_histogram_key(h) : bounded_key;
	return 0;
}

/* Store and read an exemplar of a metric that was declared. */
static void use_exemplars(struct percpu_segment *s, const struct percpu_metric *m)
{
	struct percpu_exemplars *x;
	struct percpu_exemplar is;
	int e = percpu_segment_exemplars(s, m, &x);

	must(e == 0 || *percpu_error() != '\0', "no word about an error of exemplars");
	if (e != 0) {
		refused++;
		return;
	}
	check_block(s->region, x->block.base, x->block.size);
	refused += percpu_exemplars_store(x, 2, &(const struct percpu_exemplar_label){ "id", "2" },
					  1) != 0;
	for (size_t i = 0; i <= PERCPU_EXEMPLAR_SLOTS; i++)
		refused += percpu_exemplars_fetch(x, i, &is) != 0;
}

/* Declare metric i, and use it. Returns the declaration's result. */
static int use_metric(struct percpu_segment *s, unsigned i)
{
	static const char *const labels[] = { "a", "b" }, *const fields[] = { "x", "y", "z" };
	static const struct percpu_metric_fields three = { sizeof(three), "c", fields, 3 };
	static const uint64_t ones[3] = { 1, 1, 1 };
	const char *const values[] = { "x", "yyyyyyyyyyyyyyyyyyyyy" };
	char name[32];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = name,
				   .help = "What it counts.",
				   .label_names = i % 3 != 0 ? labels : NULL,
				   .label_values = i % 3 != 0 ? values : NULL,
				   .labels = i % 3 };
	struct percpu_owned_gauge *o;
	struct percpu_extrema *x;
	struct percpu_counter *c;
	struct percpu_stats *stats;
	uint64_t out[3];
	int64_t min, max;
	int e;

	snprintf(name, sizeof(name), "m%u%s", i, i % 5 == 0 || i % 5 == 3 ? "_total" : "");
	switch (i % 5) {
	case 0:
		e = percpu_segment_counter(s, &m, &c);
		if (e != 0)
			break;
		check_block(s->region, c, sizeof(uint64_t));
		percpu_counter_add(c, 1);
		refused += percpu_counter_fetch(c) == 0;
		use_exemplars(s, &m);
		break;
	case 1:
		e = use_histogram(s, &m, i == BOUNDED);
		if (e == 0 && (i == 1 || i == BOUNDED)) /* the others would need a chunk more */
			use_exemplars(s, &m);
		break;
	case 2:
		e = percpu_segment_extrema(s, &m, 0, &x);
		if (e != 0)
			break;
		check_block(s->region, x->block.base, x->block.size);
		refused += percpu_extrema_observe(x, 7) != 0;
		refused += percpu_extrema_fetch(x, &min, &max) != 0;
		break;
	case 3:
		e = percpu_segment_stats(s, &m, &three, 0, &stats);
		if (e != 0)
			break;
		check_block(s->region, stats->block.base, stats->block.size);
		refused += percpu_stats_update(stats, 0, 0, ones, 3) != 0;
		refused += percpu_stats_fetch(stats, 0, 1, out) != 0;
		break;
	default:
		e = percpu_segment_owned_gauge(s, &m, PERCPU_OWNED_SUM, &o);
		if (e != 0)
			break;
		check_block(s->region, o->owned.block.base, o->owned.block.size);
		refused += percpu_owned_gauge_add(o, 1) != 0;
		refused += percpu_owned_gauge_fetch(o, PERCPU_OWNED_ALL, &min) != 0;
	}
	must((e == 0) != (*percpu_error() != '\0') || e == 0, "no word about an error");
	return e;
}

static size_t control, block, bounded; /* offsets in the file */

/* Find or make a few series of a family, remove some, and find these again. */
static void use_family(struct percpu_segment *s, uint64_t r)
{
	static const char *const labels[] = { "a" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "family_total", .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };
	const char *const values[] = { "one", "two and longer", "three", "four" };
	struct percpu_exemplars *x;
	struct percpu_family *f;
	struct percpu_counter *c;

	if (family_with_cap(s, &d, 3, &f) != 0) {
		refused++;
		return;
	}
	for (unsigned i = 0; i < 8; i++) {
		if (percpu_family_counter(f, &values[(r + i) % 4], &c) != 0) {
			refused++;
			continue;
		}
		check_block(s->region, c, sizeof(uint64_t));
		percpu_counter_add(c, 1);
		refused += percpu_counter_fetch(c) == 0;
		refused += percpu_family_exemplars(f, &values[(r + i) % 4], &x) != 0;
		if (i % 3 == 1) {
			refused += percpu_family_remove(f, &values[(r + i) % 4]) != 0;
			refused += percpu_family_counter(f, &values[(r + i) % 4], &c) != 0;
		}
	}
	refused += percpu_family_add(f, &values[r % 4], 1) != 0;
	refused += percpu_family_overflows(f) != 0;
	refused += percpu_family_invalid(f) != 0;
}

/* Return where the file has the bytes of the bias lane with this key, of kind 0. */
static size_t offset_of(const struct percpu_segment *s, uint64_t key)
{
	const size_t cpus = s->region->cpus;

	return (size_t)((key >> PERCPU_KEY_CHUNK_SHIFT) - 1) *
		       (size_t)percpu_chunk_size(PERCPU_STRIDE, (uint32_t)cpus) +
	       PERCPU_HEAD + 2 * cpus * PERCPU_STRIDE +
	       (size_t)(key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1));
}

static void make_good_file(void)
{
	struct percpu_segment *s = NULL;
	struct stat st;
	size_t size;

	file = memfd_create("fuzz", MFD_CLOEXEC);
	must(percpu_segment_open_fd(file, PERCPU_SEGMENT_CREATE, NULL, &s) == 0, "a good file");
	for (unsigned i = 0; i < METRICS; i++)
		must(use_metric(s, i) == 0, percpu_error());
	use_family(s, 0);
	control = offset_of(s, s->control_key);
	block = offset_of(s, s->block_key[0]);
	bounded = offset_of(s, bounded_key & PERCPU_KEY_CELL);
	must(s->region->n == 2, "a chunk for the control, and one for records");
	size = 3 * (size_t)percpu_chunk_size(PERCPU_STRIDE, s->region->cpus); /* an empty one */
	must(fstat(file, &st) == 0 && (size_t)st.st_size >= size, "its length");
	percpu_segment_close(s);
	keep_file(size);
	must(memcmp(good + block + sizeof(struct percpu_segment_record), "m0_total", 8) == 0,
	     "the first record");
}

static size_t place_in(uint64_t r)
{
	const size_t words = (size_t)(r >> 8) % 4096 * 4;

	switch (r % 8) {
	case 0:
		return control + words % 128;
	case 1:
		return control + 128 + words % 32;
	case 2: /* heads of the first records, which have similar lengths */
		return block + words / 80 % 16 * 112 + words % 80;
	case 3:
	case 4:
		return block + words % 2400;
	case 5:
		return offsetof(struct percpu_header, creation) + words % 40;
	case 6:
		return offsetof(struct percpu_header, used) + words % 2048;
	default: /* or the histogram: control, cells and bounds */
		return r >> 32 & 1 ? bounded + words % (64 + 7 * 16 + 5 * 8) : words;
	}
}

static uint64_t value_in(uint64_t r, uint64_t now)
{
	const uint64_t one = 1;

	switch (r % 8) {
	case 0:
		return now + (r >> 8) % 17 - 8;
	case 1:
		return one << (r >> 8) % 64;
	case 2:
		return (one << (r >> 8) % 64) - 1;
	case 3:
		return now ^ one << (r >> 8) % 64;
	case 4:
		return 0;
	case 5: /* a kind, a chunk, and an offset */
		return (r >> 8) % 20 << PERCPU_KEY_KIND_SHIFT |
		       (one + ((r >> 16) % 8 == 0)) << PERCPU_KEY_CHUNK_SHIFT |
		       (r >> 24) % (2 * (uint64_t)PERCPU_LANE_SIZE) / 8 * 8;
	case 6:
		return (r >> 8) % 70000;
	default:
		return r;
	}
}

static void store(size_t at, const void *bytes, size_t n)
{
	must(pwrite(file, bytes, n, (off_t)at) == (ssize_t)n, "a state");
}

/* Return where a record is, or the first one. */
static size_t record_in(uint64_t r)
{
	const struct percpu_segment_record *h;
	size_t at = block;

	for (r %= METRICS + 8; r > 0; r--) {
		h = (const struct percpu_segment_record *)(good + at);
		if (h->size == 0)
			return block;
		at += h->size;
	}
	return at;
}

/* Let a record and the control be like those of killed processes: a record in any state, and the
 * control amid a change or a reset. */
static void leave_state(uint64_t r)
{
	const size_t at = record_in(r >> 32);
	const uint16_t state = (uint16_t)(r % (PERCPU_RECORD_FAMILY + 2));
	const uint64_t none = 0, number = r >> 8 & 7, odd = r >> 12 & 3, anew = r >> 14 & 3;
	struct percpu_segment_control c;

	memcpy(&c, good + control, offsetof(struct percpu_segment_control, block));
	c.changes += odd;
	c.generation += anew % 2;
	c.completed += anew / 2;
	store(at + offsetof(struct percpu_segment_record, state), &state, sizeof(state));
	if (r >> 16 & 1)
		store(at + offsetof(struct percpu_segment_record, key), &none, sizeof(none));
	if (r >> 17 & 1)
		store(at + offsetof(struct percpu_segment_record, invalid), &number,
		      sizeof(number));
	store(control, &c, offsetof(struct percpu_segment_control, block));
}

static void write_file(uint64_t *random)
{
	uint64_t r, value;
	size_t at;

	restore_file();
	r = next_random(random);
	if (r % 4 == 0)
		leave_state(r >> 2);
	if (r % 8 == 0)
		return;
	for (size_t n = 1 + next_random(random) % 8; n > 0; n--) {
		at = place_in(next_random(random)) % (length - 8);
		memcpy(&value, good + at, sizeof(value));
		r = next_random(random);
		value = value_in(r, value);
		must(pwrite(file, &value, r >> 63 ? 4 : 8, (off_t)at) > 0, "a patch");
	}
}

static void use_segment(uint64_t r)
{
	const unsigned anew = r % 16 == 1 ? PERCPU_SEGMENT_ANEW : 0;
	const struct percpu_metric first = { .size = sizeof(first), .name = "m0_total" };
	struct percpu_segment_start moment;
	struct percpu_segment *s;

	if (percpu_segment_open_fd(file, anew, NULL, &s) != 0)
		return;
	if (r >> 24 & 1)
		s->boot = 0; /* not known */
	must(percpu_segment_started(s, &moment) == 0, "a start");
	refused += percpu_segment_series_started(s, &first, &moment) != 0;
	for (unsigned i = 0; i < METRICS + 3; i++)
		refused += use_metric(s, (i + (unsigned)(r >> 8)) % (METRICS + 3)) != 0;
	use_family(s, r >> 16);
	percpu_segment_close(s);
}

int main(int argc, char **argv)
{
	const long inputs = argc > 1 && atol(argv[1]) > 0 ? atol(argv[1]) : 20000;
	uint64_t random = 88172645463325252;

	tell_of_crashes();
	percpu_selftest();
	make_good_file();
	for (long i = 0; i < inputs; i++) {
		write_file(&random);
		alarm(20); /* a call that waits for so long hangs */
		enter_library();
		use_segment(next_random(&random));
		leave_library();
	}
	alarm(0);
	printf("ok: %ld inputs, %u refused\n", inputs, refused);
	return 0;
}

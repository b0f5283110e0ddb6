/* SPDX-License-Identifier: MIT */
/*
 * region.c - damaged files of regions: opened, attached to, counted in and read. A call must not
 * crash, hang, or reach beyond the lanes.
 *
 * An input is short: what to do, and which words of a correct file to replace. So libFuzzer does
 * not have to guess the header, and mutations, its own and those here, are of fields and their
 * values. Compiled without libFuzzer, this is a test that makes its own inputs, as many as its
 * argument says, the same in each run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/percpu.h>
#include <percpu/rate.h>
#include <percpu/ring.h>

#include "region_file.h"
#include "counts/counts.h"
#include "owners/owners.h"

#define CPUS 2 /* or as many as there are */
#define N 5
#define MAX_PATCHES 24
#define RING_ROOT 5 /* the next root has another one, with PERCPU_RING_KEEP */
#define CELL_ROOT 7 /* a cell of 24 bytes */
#define DOUBLES_ROOT 8
#define HISTOGRAM_ROOT 13
#define OWNERS_ROOT 14
#define EXTREMA_ROOT 15
#define RATE_ROOT 9 /* whose root may be replaced */

/* What a patch can replace: words of the header, of a control block, of the bias lane, or
 * anywhere; the length of the file; cells of doubles and extremes, in the first lane or the
 * last; owners, and their shares of gauges. */
enum field {
	HEADER,
	ROOT,
	LANES,
	USED,
	STARTS,
	LOCKS,
	JOURNAL,
	CONTROL,
	WHOLE_CONTROL,
	RING_CONTROL,
	RING,
	ANYWHERE,
	LENGTH,
	DOUBLES,
	OWNERS,
	SLOT,
	OWNED,
	SHARES,
	EXTREMA,
	GROUP,
	FIELDS,
};

struct patch {
	uint8_t field, index, size, unused;
	uint64_t value;
} __attribute__((packed));

struct input {
	uint8_t writable, key_from, n, actions;
	struct patch patch[MAX_PATCHES];
} __attribute__((packed));

static uint64_t keys[PERCPU_REGION_ROOTS];
static unsigned refused; /* calls that failed, which may be */

static uint64_t owner_block;	/* key in the owners' control block */
static uint64_t owned_keys[2];	/* of the gauges: integers; doubles, the most recent */
static uint64_t owned_block[2]; /* keys in the gauges' control blocks */

static uint64_t group_key;
static uint64_t approx_key;  /* there is no root left for it */
static uint64_t bounded_key; /* nor for a histogram with own bounds */

#define BOUNDED 5			    /* bounds */
#define BOUNDED_BYTES (64 + 7 * 16 + 5 * 8) /* control, cells, bounds */

static void make_bounded(struct percpu_region *r)
{
	static const double bounds[BOUNDED] = { -1, 0, 0.29, 3, 1e9 };
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .ticks_per_unit = 100, .bounds = bounds, .bounds_n = BOUNDED
	};
	struct percpu_histogram *h = NULL;

	must(percpu_histogram_create_in(r, &o, &h) == 0, "own bounds");
	percpu_histogram_record(h, 1);
	bounded_key = percpu_histogram_key(h);
	percpu_histogram_detach(h);
}

/* Make a sum whose lanes are closed, because it has reached a limit. */
static void make_approx(struct percpu_region *r)
{
	const struct percpu_approx_options o = { .size = sizeof(o), .batch = 8 };
	struct percpu_approx *a = NULL;

	if (!percpu_pair_is_atomic())
		return;
	must(percpu_approx_create_in(r, &o, &a) == 0, "a sum");
	for (int i = 0; i < 20; i++)
		percpu_approx_add(a, 1);
	must(percpu_approx_add_below(a, 80, 100) == 0, "an add below a limit");
	must(percpu_approx_add_below(a, 1, 100) == -ERANGE, "a limit");
	approx_key = percpu_approx_key(a);
	percpu_approx_detach(a);
}

/* Make owners. This process joins them, and has shares of two gauges. */
static void make_owners(void)
{
	struct percpu_owned_fgauge *fgauge = NULL;
	struct percpu_owned_gauge *gauge = NULL;
	struct percpu_owners *o = NULL;
	struct percpu_region *r = NULL;

	must(percpu_region_open_fd(file, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL, &r) ==
			     0 &&
		     percpu_owners_open(r, OWNERS_ROOT, &o) == 0 &&
		     percpu_owned_gauge_create_in(o, PERCPU_OWNED_MIN, &gauge) == 0 &&
		     percpu_owned_fgauge_create_in(o, PERCPU_OWNED_RECENT, &fgauge) == 0 &&
		     percpu_owned_gauge_add(gauge, 3) == 0 &&
		     percpu_owned_fgauge_set(fgauge, 4) == 0,
	     "owners");
	owned_keys[0] = percpu_owned_gauge_key(gauge);
	owned_keys[1] = percpu_owned_fgauge_key(fgauge);
	owner_block = ((struct percpu_owners_control *)percpu_block_bias(&o->block))->block[0];
	owned_block[0] =
		((struct percpu_owned_control *)percpu_block_bias(&gauge->owned.block))->block[0];
	owned_block[1] =
		((struct percpu_owned_control *)percpu_block_bias(&fgauge->owned.block))->block[0];
	percpu_owned_gauge_detach(gauge);
	percpu_owned_fgauge_detach(fgauge);
	percpu_owners_detach(o);
	percpu_region_close(r);
}

static size_t group_banks; /* bytes from its first bank to the second */

static void make_group(struct percpu_region *r)
{
	const uint64_t ones[2] = { 1, 1 };
	struct percpu_stats_group *g;
	uint64_t out[2];
	size_t flow = 0;

	must(percpu_stats_group_create_in(r, 16, 1, N, &g) == 0 &&
		     percpu_stats_group_alloc(g, &flow) == 0 &&
		     percpu_stats_group_update_both(g, flow, ones, 0, ones, 2) == 0 &&
		     percpu_stats_group_fetch_zero(g, flow, 1, out, NULL) == 0 &&
		     percpu_stats_group_update_both(g, flow, ones, 0, ones, 2) == 0 &&
		     percpu_stats_group_free(g, flow, 0) == 0,
	     "a group");
	group_key = percpu_stats_group_key(g);
	group_banks = g->banks;
	percpu_stats_group_detach(g);
}

static void make_good_file(void)
{
	struct percpu_region_options o = { .size = sizeof(o) };
	struct percpu_counter_array *a = NULL;
	struct percpu_compact *c = NULL;
	struct percpu_stats *s = NULL, *whole = NULL;
	struct percpu_counter *single = NULL;
	struct percpu_ring *ring = NULL;
	struct percpu_fcounter_array *doubles = NULL;
	struct percpu_latest *latest = NULL;
	struct percpu_fgauge *fgauge = NULL;
	struct percpu_gauge *gauge = NULL;
	const struct percpu_histogram_options histogram = { .size = sizeof(histogram), .n = 2 };
	struct percpu_histogram *h = NULL;
	struct percpu_extrema *extrema = NULL;
	struct percpu_rate *rate = NULL;
	struct percpu_region *r;
	const uint64_t ones[4] = { 1, 1, 1, 1 };
	uint64_t out[4] = { 1 };
	void *cell = NULL;

	file = memfd_create("fuzz", MFD_CLOEXEC);
	o.cpus = percpu_status()->possible_cpus > CPUS ? 0 : CPUS;
	must(percpu_region_open_fd(file,
				   PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL,
				   &o, &r) == 0 &&
		     percpu_counter_array_open(r, 0, N, &a) == 0 &&
		     percpu_compact_open(r, 1, N, &c) == 0 &&
		     percpu_stats_open(r, 2, 32, N, 0, &s) == 0 &&
		     percpu_stats_open(r, 3, 32, N, PERCPU_STATS_WHOLE, &whole) == 0 &&
		     percpu_counter_create_in(r, &single) == 0 &&
		     percpu_fcounter_array_open(r, DOUBLES_ROOT, N, &doubles) == 0 &&
		     percpu_region_alloc(r, 24, 8, &cell) == 0,
	     "a good file");
	must(!percpu_pair_is_atomic() || (percpu_gauge_open(r, 12, &gauge) == 0 &&
					  percpu_fgauge_open(r, 10, &fgauge) == 0 &&
					  percpu_latest_open(r, 11, &latest) == 0),
	     "pairs that are shared");
	must(percpu_region_set_root(r, 4, 0, percpu_counter_key(single)) == 0 &&
		     percpu_region_set_root(r, CELL_ROOT, 0, percpu_region_key(r, cell)) == 0,
	     "roots");
	must(percpu_histogram_open(r, HISTOGRAM_ROOT, &histogram, &h) == 0, "a histogram");
	make_approx(r);
	make_group(r);
	make_bounded(r);
	percpu_histogram_record(h, 1);
	percpu_histogram_detach(h);
	must(percpu_rate_open(r, RATE_ROOT, N, 1000, &rate) == 0, "a rate");
	must(percpu_rate_check(rate), "an event");
	percpu_rate_detach(rate);
	for (unsigned i = 0; i < 2; i++) {
		must(percpu_ring_open(r, RING_ROOT + i, PERCPU_RING_MIN, i, &ring) == 0, "a ring");
		for (size_t n = 1; n <= sizeof(out[0]); n++)
			must(percpu_ring_put(ring, out, n) == 0, "a record");
		percpu_ring_detach(ring);
	}
	make_owners();
	must(percpu_extrema_open(r, EXTREMA_ROOT, 0, &extrema) == 0 &&
		     percpu_extrema_reset(extrema) == 0 &&
		     percpu_extrema_observe_in(extrema, *extrema->epoch, 3) == 0,
	     "extremes");
	percpu_extrema_detach(extrema);
	percpu_counter_array_add(a, 1, 5);
	percpu_compact_add(c, 2, 7);
	percpu_counter_add(single, 9);
	must(percpu_fcounter_array_add(doubles, 2, 0.5) == 0, "an add");
	percpu_fcounter_array_detach(doubles);
	must(percpu_stats_update(s, 1, 0, ones, 4) == 0, "an update");
	must(percpu_stats_fetch_zero(s, 1, 1, out) == 0, "a journal that was used");
	for (unsigned i = 0; i < PERCPU_REGION_ROOTS; i++)
		keys[i] = percpu_region_root(r, i);
	/* Keep the first chunk, in which all of these are. */
	length = (size_t)percpu_chunk_size(r->first->stride, r->first->cpus);
	keep_file(length);
	must(ftruncate(file, (off_t)length) == 0, "to be cut");
	percpu_counter_array_detach(a);
	percpu_compact_detach(c);
	percpu_stats_detach(s);
	percpu_stats_detach(whole);
	percpu_region_close(r);
}

/* Return where the bias lane is in the file. */
static size_t bias_lane(void)
{
	const struct percpu_header *h = (const struct percpu_header *)good;

	return PERCPU_HEAD + 2 * (size_t)h->cpus * (size_t)h->stride;
}

/* Return where the lane is in which make_good_file() has put records. */
static size_t first_ring(void)
{
	const struct percpu_header *h = (const struct percpu_header *)good;
	const uint64_t *head;
	size_t lane = 0;

	for (; lane < 2 * (size_t)h->cpus; lane++) {
		head = (const uint64_t *)(good + PERCPU_HEAD + lane * (size_t)h->stride +
					  keys[RING_ROOT] % PERCPU_LANE_SIZE);
		if (*head != 0)
			break;
	}
	return PERCPU_HEAD + lane * (size_t)h->stride;
}

static size_t offset_of(uint64_t key)
{
	return bias_lane() + (key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1));
}

static size_t control_at(unsigned root)
{
	return bias_lane() + (keys[root] & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1));
}

/* Return where the bytes are that a patch replaces: 4 or 8, all in the file. */
static size_t place_of(const struct patch *p)
{
	const size_t words = p->index * (size_t)4;
	size_t at = 0;

	switch ((enum field)(p->field % FIELDS)) {
	case HEADER:
		at = words % offsetof(struct percpu_header, root);
		break;
	case ROOT:
		at = offsetof(struct percpu_header, root) + words * 2 % 128;
		break;
	case LANES:
		at = offsetof(struct percpu_header, atomic_lanes) + words % 16;
		break;
	case USED:
		at = offsetof(struct percpu_header, used) + words;
		break;
	case STARTS:
		at = offsetof(struct percpu_header, starts) + words;
		break;
	case LOCKS:
		at = offsetof(struct percpu_header, alloc_lock) + words % 8;
		break;
	case JOURNAL:
		at = p->unused % 2 ? offsetof(struct percpu_header, creation) + words % 24 :
				     offsetof(struct percpu_header, journal) + words % 24;
		break;
	case CONTROL:
		at = control_at(2) + words % sizeof(struct percpu_stats_control);
		break;
	case WHOLE_CONTROL: /* or the rate's; or a histogram with its bounds */
		at = p->unused % 4 == 2 ?
			     offset_of(bounded_key) + words % BOUNDED_BYTES :
		     p->unused % 4 == 3 ?
			     control_at(RATE_ROOT) + words % sizeof(struct percpu_rate_control) :
			     control_at(3) + words % sizeof(struct percpu_stats_control);
		break;
	case RING_CONTROL:
		at = control_at(RING_ROOT + p->unused % 2) +
		     words % sizeof(struct percpu_ring_control);
		break;
	case RING: /* in the first atomic lane, for threads without sequences */
		at = control_at(RING_ROOT + p->unused % 2) - bias_lane() + first_ring() +
		     words % (sizeof(struct percpu_ring_lane) + 512);
		break;
	case ANYWHERE:
		at = p->unused * (size_t)4096 + words;
		break;
	case DOUBLES:
		at = control_at(DOUBLES_ROOT) - (p->unused % 2 ? 0 : bias_lane() - PERCPU_HEAD) +
		     words * 2 % (N * sizeof(double));
		break;
	case OWNERS:
		at = control_at(OWNERS_ROOT) + words % 32;
		break;
	case SLOT:
		at = offset_of(owner_block) + words % (3 * sizeof(struct percpu_owner_slot));
		break;
	case OWNED:
		at = offset_of(owned_keys[p->unused % 2]) + words % 32;
		break;
	case SHARES:
		at = offset_of(owned_block[p->unused % 2]) +
		     (words % 128 < 16 ? 0 : offsetof(struct percpu_owned_shares, account)) +
		     words % 128;
		break;
	case EXTREMA:
		at = control_at(EXTREMA_ROOT) - (p->unused % 2 ? 0 : bias_lane() - PERCPU_HEAD) +
		     words % sizeof(struct percpu_extrema_control);
		break;
	case GROUP: /* its control, its biases, or what the first CPU has */
		at = offset_of(group_key) +
		     (p->unused % 3 == 0 ? 0 : group_banks * (p->unused / 3 % 2)) -
		     (p->unused % 3 == 2 ? bias_lane() - PERCPU_HEAD : 0) + words % 128;
		break;
	case LENGTH:
	case FIELDS:
		break;
	}
	return at % (length - sizeof(uint64_t));
}

static void write_file(const struct input *in, size_t patches)
{
	off_t end = (off_t)length;
	uint64_t value;
	size_t at;

	restore_file();
	for (size_t i = 0; i < patches; i++) {
		value = in->patch[i].value;
		at = place_of(&in->patch[i]);
		if (in->patch[i].field % FIELDS == LENGTH)
			end = (off_t)(value % (2 * length + 1));
		else
			must(pwrite(file, &value, in->patch[i].size & 1 ? 4 : 8, (off_t)at) > 0,
			     "a patch");
	}
	must(ftruncate(file, end) == 0, "its length");
}

static void use_array(struct percpu_region *r, const struct input *in, uint64_t key, size_t n)
{
	uint64_t *out = malloc(n * sizeof(*out));
	struct percpu_counter_array *a;

	if (out != NULL && percpu_counter_array_attach(r, key, n, &a) == 0) {
		check_block(r, a->block.base, n * sizeof(uint64_t));
		percpu_counter_array_fetch_all(a, out);
		(void)percpu_counter_array_fetch(a, n - 1);
		if (in->writable & 1) {
			percpu_counter_array_add(a, n - 1, 1);
			percpu_counter_array_add_slow(a, 0, 1);
			percpu_counter_array_zero(a, n - 1);
		}
		if ((in->actions & 1) != 0)
			percpu_counter_array_destroy(a);
		else
			percpu_counter_array_detach(a);
	}
	free(out);
}

static void use_fcounter(struct percpu_region *r, const struct input *in, uint64_t key, size_t n)
{
	double *out = malloc(n * sizeof(*out));
	struct percpu_fcounter_array *a;
	struct percpu_fcounter *c;

	if (out != NULL && percpu_fcounter_array_attach(r, key, n, &a) == 0) {
		check_block(r, a->block.base, n * sizeof(*out));
		percpu_fcounter_array_fetch_all(a, out);
		if (in->writable & 1) {
			refused += percpu_fcounter_array_add(a, n - 1, 0.5) != 0;
			refused += percpu_fcounter_array_add_slow(a, 0, 1) != 0;
			out[0] = percpu_fcounter_array_fetch_zero(a, 0);
		}
		for (size_t i = 0; i < n; i++)
			must(isfinite(out[i]), "a sum is no number");
		percpu_fcounter_array_detach(a);
	}
	if (percpu_fcounter_attach(r, key, &c) == 0) {
		check_block(r, c, sizeof(double));
		must(isfinite(percpu_fcounter_fetch(c)), "a counter is no number");
	}
	free(out);
}

static void use_gauges(struct percpu_region *r, const struct input *in, uint64_t key)
{
	struct percpu_latest *l;
	struct percpu_fgauge *f;
	struct percpu_gauge *g;
	uint64_t ns;
	double v;

	if (percpu_gauge_attach(r, key, &g) == 0) {
		check_block(r, g, sizeof(uint64_t));
		refused += percpu_gauge_set(g, percpu_gauge_fetch(g) + 1) != 0;
	}
	if (percpu_fgauge_attach(r, key, &f) == 0) {
		check_block(r, f, 2 * sizeof(double));
		must(isfinite(percpu_fgauge_fetch(f)), "a gauge is no number");
		if (in->writable & 1)
			refused += percpu_fgauge_add(f, 1) != 0;
		refused += percpu_fgauge_set(f, 0.5) != 0;
	}
	if (percpu_latest_attach(r, key, &l) == 0) {
		check_block(r, l, 2 * sizeof(double));
		refused += percpu_latest_fetch(l, &v, &ns) != 0;
		refused += percpu_latest_set(l, 1) != 0;
	}
}

static void use_extrema(struct percpu_region *r, const struct input *in, uint64_t key)
{
	struct percpu_extrema *x;
	int64_t min = 0, max = 0;
	double low, high;

	if (percpu_extrema_attach(r, key, &x) != 0)
		return;
	check_block(r, x->block.base, x->block.size);
	for (unsigned i = 0; i < 3; i++) {
		refused += percpu_extrema_fetch(x, &min, &max) != 0;
		must(min <= max, "a minimum above the maximum");
		refused += percpu_extrema_fetch_double(x, &low, &high) != 0;
		if ((in->writable & 1) == 0)
			continue;
		refused += percpu_extrema_observe(x, in->key_from - 100) != 0;
		refused += percpu_extrema_observe_slow(x, x->kind, in->n) != 0;
		refused += percpu_extrema_observe_in(x, *x->epoch, in->n - 1) != 0;
		refused += percpu_extrema_reset(x) != 0;
	}
	if ((in->actions & 0x40) != 0)
		percpu_extrema_destroy(x);
	else
		percpu_extrema_detach(x);
}

static void use_compact(struct percpu_region *r, const struct input *in, uint64_t key, size_t n)
{
	uint64_t *out = malloc(n * sizeof(*out));
	struct percpu_compact *c;

	if (out != NULL && percpu_compact_attach(r, key, n, &c) == 0) {
		check_block(r, c->block.base, n * PERCPU_COMPACT_SHARE);
		percpu_compact_fetch_all(c, out);
		if (in->writable & 1) {
			percpu_compact_add(c, n - 1, INT32_MAX);
			percpu_compact_add(c, 0, 1);
			percpu_compact_zero(c, n - 1);
		}
		if ((in->actions & 2) != 0)
			percpu_compact_destroy(c);
		else
			percpu_compact_detach(c);
	}
	free(out);
}

static void use_stats(struct percpu_region *r, const struct input *in, uint64_t key, size_t n)
{
	const unsigned flags = in->actions & 4 ? PERCPU_STATS_WHOLE : 0;
	const size_t words = in->key_from & 0x40 ? 64 : 4;
	uint64_t *out = malloc(n * words * sizeof(*out));
	const uint64_t ones[4] = { 1, 1, 1, 1 };
	struct percpu_stats *s;

	if (out != NULL && percpu_stats_attach(r, key, words * 8, n, flags, &s) == 0) {
		check_block(r, s->block.base, s->block.size);
		refused += percpu_stats_fetch(s, 0, n, out) != 0;
		refused += percpu_stats_snapshot(s, 0, n, out) != 0;
		if (in->writable & 1) {
			percpu_stats_add(s, n - 1, words - 1, 1);
			refused += percpu_stats_update(s, n - 1, 0, ones, 4) != 0;
			(void)percpu_stats_update_slow(s, 0, 0, ones, 3);
			refused += percpu_stats_fetch_zero(s, 0, n, out) != 0;
		}
		if ((in->actions & 8) != 0)
			percpu_stats_destroy(s);
		else
			percpu_stats_detach(s);
	}
	free(out);
}

static void use_group(struct percpu_region *r, const struct input *in)
{
	const uint64_t ones[2] = { 1, 1 };
	struct percpu_stats_group *g;
	uint64_t out[2 * N], ns;
	size_t flow = 1;

	if (percpu_stats_group_attach(r, group_key, 16, 1, N, &g) != 0)
		return;
	check_block(r, g->block.base, g->block.size);
	refused += percpu_stats_group_fetch(g, 0, N, out) != 0;
	refused += percpu_stats_group_alloc(g, &flow) != 0;
	must(flow >= 1 && flow < N, "an object that does not exist");
	for (unsigned i = 0; i < 2 && (in->writable & 1); i++) {
		refused += percpu_stats_group_update_both(g, flow, ones, 0, ones, 2) != 0;
		refused += percpu_stats_group_update_slow(g, flow, ones, N - 1, ones, 2) != 0;
	}
	refused += percpu_stats_group_snapshot(g, 0, N, out, &ns) != 0;
	refused += percpu_stats_group_fetch_zero(g, 0, N, out, &ns) != 0;
	refused += percpu_stats_group_free(g, flow, 0) != 0;
	if ((in->actions & 16) != 0)
		percpu_stats_group_destroy(g);
	else
		percpu_stats_group_detach(g);
}

/* Read all records. No thread puts any more, so there is an end. */
static void read_ring(const struct percpu_ring *ring, unsigned flags)
{
	struct percpu_ring_reader *reader;
	struct percpu_ring_record record;
	const unsigned char *bytes;
	unsigned sum = 0, n = 0;
	int e = 0;

	if (percpu_ring_reader_create(ring, PERCPU_RING_ALL, flags, &reader) != 0)
		return;
	while ((e = percpu_ring_read(reader, &record)) == 0 || e == -EBADMSG) {
		must(++n < 10000, "records have no end");
		bytes = record.data;
		for (size_t i = 0; e == 0 && i < record.size; i++)
			sum += bytes[i];
		must(e != 0 || (record.size != 0 && record.size <= percpu_ring_longest(ring)),
		     "a record of no or of too many bytes");
	}
	refused += sum == 0;
	percpu_ring_reader_destroy(reader);
}

static void use_ring(struct percpu_region *r, const struct input *in, uint64_t key)
{
	const char bytes[100] = "fuzz";
	struct percpu_ring *ring;

	if (percpu_ring_attach(r, key, &ring) != 0)
		return;
	check_block(r, ring->block.base, ring->block.size);
	for (unsigned i = 0; i < 3; i++) {
		read_ring(ring, in->n % 4);
		if (in->writable & 1)
			refused += percpu_ring_put(ring, bytes, 1 + in->key_from % 99) != 0;
		refused += percpu_ring_dropped(ring) != 0;
	}
	if ((in->actions & 0x80) != 0)
		percpu_ring_destroy(ring);
	else
		percpu_ring_detach(ring);
}

/* Use a snapshot. Subtracted from itself, it must be empty. */
static void use_snapshot(const struct percpu_histogram_snapshot *s)
{
	struct percpu_histogram_quantile q;
	struct percpu_histogram_snapshot *f;

	refused += percpu_histogram_quantile(s, 0.5, &q) != 0;
	refused += percpu_histogram_count_below(s, 1, NULL) != 0;
	if (percpu_histogram_downscale(s, -4, &f) != 0) {
		refused++;
		return;
	}
	must(percpu_histogram_subtract(f, s) == 0 && f->count == 0 && f->sum == 0,
	     "nothing is left");
	percpu_histogram_snapshot_destroy(f);
}

static void use_histogram(struct percpu_region *r, const struct input *in, uint64_t key)
{
	struct percpu_histogram_snapshot *s;
	struct percpu_histogram *h;

	if (percpu_histogram_attach(r, key, &h) != 0)
		return;
	check_block(r, h->block.base, h->block.size);
	if (percpu_histogram_snapshot_create(h, &s) == 0) {
		for (size_t i = 0; i < 2; i++) {
			percpu_histogram_record_at(h, i < h->n ? i : 0, (double)in->key_from);
			percpu_histogram_record_ticks(h, in->key_from);
			refused += percpu_histogram_fetch_zero(h, h->n - 1, s) != 0;
			use_snapshot(s);
		}
		percpu_histogram_snapshot_destroy(s);
	}
	percpu_histogram_detach(h);
}

static void use_owned(struct percpu_owners *o, const struct input *in, uint64_t key)
{
	struct percpu_owned_value values[2];
	struct percpu_owned_fgauge *f;
	struct percpu_owned_gauge *g;
	size_t n = 0;
	int64_t v;
	double d;

	if (percpu_owned_gauge_attach(o, key, &g) == 0) {
		check_block(o->block.chunk->region, g->owned.block.base, g->owned.block.size);
		refused += percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v) != 0;
		refused += percpu_owned_gauge_each(g, PERCPU_OWNED_LIVING, values, 2, &n) != 0;
		must(n <= PERCPU_OWNERS_MAX, "more values than owners");
		if (in->writable & 1)
			refused += percpu_owned_gauge_add(g, 1) != 0;
		refused += percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v) != 0;
		if ((in->key_from & 1) != 0)
			percpu_owned_gauge_destroy(g);
		else
			percpu_owned_gauge_detach(g);
	}
	if (percpu_owned_fgauge_attach(o, key, &f) == 0) {
		refused += percpu_owned_fgauge_fetch(f, PERCPU_OWNED_ALL, &d) != 0;
		refused += percpu_owned_fgauge_set(f, 5) != 0;
		refused += percpu_owned_fgauge_each(f, PERCPU_OWNED_ALL, values, 2, &n) != 0;
		percpu_owned_fgauge_detach(f);
	}
}

static void use_owners(struct percpu_region *r, const struct input *in)
{
	struct percpu_owner_info list[2];
	struct percpu_owners *o;

	if (percpu_owners_attach(r, percpu_region_root(r, OWNERS_ROOT), &o) != 0)
		return;
	check_block(r, o->block.base, o->block.size);
	must(percpu_owners_list(o, list, 2) <= PERCPU_OWNERS_MAX, "more owners than slots");
	if ((in->actions & 1) == 0)
		refused += percpu_owners_join(o) != 0;
	else if ((in->actions & 8) != 0)
		refused += percpu_owners_join_as(o, "fuzz", PERCPU_OWNERS_RESUME) != 0;
	for (unsigned i = 0; i < 2; i++)
		use_owned(o, in, owned_keys[i]);
	refused += percpu_owners_alive(o, percpu_owners_self(o)) == 0;
	if ((in->key_from & 2) != 0)
		percpu_owners_destroy(o);
	else
		percpu_owners_detach(o);
}

static void use_rate(struct percpu_region *r, const struct input *in, uint64_t key)
{
	struct percpu_rate_mark mark = { 0, 0 };
	struct percpu_rate *rate;
	struct percpu_block *b;

	if (percpu_rate_attach(r, key, &rate) != 0)
		return;
	b = (struct percpu_block *)rate;
	check_block(r, b->base, b->size);
	for (unsigned i = 0; i < N; i++)
		refused += !percpu_rate_check(rate);
	must(percpu_rate_limit(rate) >= 0, "a limit below 0");
	refused += percpu_rate_set_limit(rate, 1 + in->n) != 0;
	refused += percpu_rate_per_second(rate, &mark) > 0;
	percpu_rate_detach(rate);
}

static void use_approx(struct percpu_region *r, const struct input *in, uint64_t key)
{
	struct percpu_approx *a;

	if (percpu_approx_attach(r, key, &a) != 0)
		return;
	check_block(r, a->block.base, a->block.size);
	for (int i = 0; i < 3; i++) {
		percpu_approx_add(a, (int64_t)in->key_from);
		refused += percpu_approx_add_below(a, 1 + in->n, INT64_MAX >> in->n % 63) != 0;
		refused += percpu_approx_compare(a, percpu_approx_estimate(a)) != 0;
		refused += percpu_approx_fetch_zero(a) == 0;
	}
	percpu_approx_detach(a);
}

static void use_cells(struct percpu_region *r, const struct input *in, uint64_t key, size_t n)
{
	struct percpu_counter *c;
	char *cell = percpu_region_at(r, key, n);
	void *more;

	if (cell != NULL)
		check_block(r, cell, n);
	if (percpu_counter_attach(r, key, &c) == 0) {
		check_block(r, c, sizeof(uint64_t));
		(void)percpu_counter_fetch(c);
		if (in->writable & 1) {
			percpu_counter_add(c, 1);
			percpu_counter_zero(c);
		}
	}
	if (cell != NULL && (in->actions & 0x10) != 0) {
		(void)percpu_region_free(r, cell, n);
		(void)percpu_region_reclaim(r);
	}
	for (int i = 0; i < 3 && (in->actions & 0x20) != 0; i++)
		if (percpu_region_alloc(r, n, 8, &more) == 0) {
			check_block(r, more, n);
			if (i == 1)
				(void)percpu_region_free(r, more, n);
		}
}

static void use_region(const struct input *in)
{
	static const size_t sizes[] = { 1, 2, N, 8, 24, 500, 4096, 8192 };
	const size_t n = sizes[in->n % (sizeof(sizes) / sizeof(sizes[0]))];
	struct percpu_region *r;
	uint64_t key;

	if (percpu_region_open_fd(
		    file, PERCPU_REGION_OWNERS | (in->writable & 1 ? PERCPU_REGION_WRITE : 0), NULL,
		    &r) != 0)
		return;
	use_owners(r, in);
	for (unsigned root = 0; root < PERCPU_REGION_ROOTS; root++) {
		key = percpu_region_root(r, root);
		if (key == 0)
			continue;
		use_array(r, in, key, n);
		use_fcounter(r, in, key, n);
		use_gauges(r, in, key);
		use_extrema(r, in, key);
		use_compact(r, in, key, n);
		use_stats(r, in, key, n);
		use_ring(r, in, key);
		use_histogram(r, in, key);
		use_rate(r, in, key);
		use_cells(r, in, key, n);
	}
	use_histogram(r, in, bounded_key);
	use_approx(r, in, approx_key);
	use_group(r, in);
	if (in->writable & 1 && (in->actions & 0x40) != 0)
		refused += percpu_region_set_root(r, RATE_ROOT, keys[RATE_ROOT], keys[0]) != 0;
	percpu_region_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const size_t head = offsetof(struct input, patch);
	struct input in = { 0 };

	if (size < head)
		return 0;
	if (good == NULL)
		make_good_file();
	size = size < sizeof(in) ? size : sizeof(in);
	memcpy(&in, data, size);
	write_file(&in, (size - head) / sizeof(struct patch));
	enter_library();
	use_region(&in);
	leave_library();
	return 0;
}

/* Return a plausible value for a field: near its own, or near a limit. */
static uint64_t interesting(uint64_t *random, uint64_t now)
{
	const uint64_t r = next_random(random), one = 1;

	switch (r % 10) {
	case 9: /* a double, or NaN or infinite */
		return (r >> 8) % 2 << 63 | (2040 + (r >> 9) % 8) << 52 | (r >> 12) % 2;
	case 0:
		return now + (r >> 8) % 17 - 8;
	case 1:
		return one << (r >> 8) % 64;
	case 2:
		return (one << (r >> 8) % 64) - 1;
	case 3:
		return now ^ one << (r >> 8) % 64;
	case 4:
		return -((r >> 8) % 4096);
	case 5:
		return keys[(r >> 8) % PERCPU_REGION_ROOTS] + ((r >> 16) % 1024) * 8;
	case 6: /* a kind, a chunk, and an offset */
		return (r >> 8) % 32 << PERCPU_KEY_KIND_SHIFT |
		       (one + ((r >> 16) % 8 == 0)) << PERCPU_KEY_CHUNK_SHIFT |
		       (r >> 24) % (2 * (uint64_t)PERCPU_LANE_SIZE);
	case 7:
		return (r >> 8) % 70000;
	default:
		return r;
	}
}

static void make_patch(uint64_t *random, struct patch *p)
{
	uint64_t r = next_random(random), now;

	p->field = (uint8_t)(r % FIELDS);
	p->index = (uint8_t)(r >> 8);
	p->size = (uint8_t)(r >> 16);
	p->unused = (uint8_t)(r >> 24);
	memcpy(&now, good + place_of(p), sizeof(now));
	p->value = interesting(random, now);
}

/* Returns the length of the changed input in bytes. */
const size_t longest_input = sizeof(struct input);

size_t mutate(void *input, size_t size, uint64_t *random)
{
	struct input *in = input;
	const size_t head = offsetof(struct input, patch);
	size_t patches = size > head ? (size - head) / sizeof(struct patch) : 0;
	uint64_t r = next_random(random);

	if (good == NULL)
		make_good_file();
	if (r % 4 == 0)
		memcpy(in, &(uint32_t){ (uint32_t)(r >> 32) }, head);
	else if (r % 4 == 1 && patches > 0)
		make_patch(random, &in->patch[(r >> 8) % patches]);
	else if (patches < MAX_PATCHES)
		make_patch(random, &in->patch[patches++]);
	else
		patches = 1 + (r >> 8) % MAX_PATCHES;
	return head + patches * sizeof(struct patch);
}

#ifndef PERCPU_FUZZER

int main(int argc, char **argv)
{
	const long inputs = argc > 1 && atol(argv[1]) > 0 ? atol(argv[1]) : 20000;
	uint64_t random = 88172645463325252;
	struct input in = { 0 };
	size_t size = 0;

	tell_of_crashes();
	percpu_selftest();
	for (long i = 0; i < inputs; i++) {
		if (i % 16 == 0)
			size = 0;
		size = mutate(&in, size, &random);
		LLVMFuzzerTestOneInput((const uint8_t *)&in, size);
	}
	printf("%ld inputs\n", inputs);
	return 0;
}

#endif

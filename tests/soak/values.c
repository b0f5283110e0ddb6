/* SPDX-License-Identifier: MIT */
/*
 * values.c - the soak test's operations on counters of doubles, gauges and histograms. Only whole
 * numbers are added, so that doubles are exact. A histogram is two objects of the model, its count
 * and its sum. Each recorded value is a power of two, the only one of its bucket. So each bucket
 * shows whether count and sum changed together, even if a thread was killed.
 */
#include <errno.h>

#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>

#include "../support.h"
#include "soak.h"

#define OCTAVES 10
#define PER_OCTAVE 8
#define RECORD UINT64_C(1000003) /* a record in the tally of the private histogram, and its value */

static struct percpu_fcounter *own, *fcounter;
static struct percpu_gauge *gauge;   /* NULL where pairs cannot be shared */
static struct percpu_fgauge *fgauge; /* NULL where pairs cannot be shared */
static struct percpu_histogram *own_histogram;

/* The shared histograms: of doubles, of ticks, of doubles with own bounds. */
enum { DOUBLES, TICKS, BOUNDS };

static struct percpu_histogram *histogram[SOAK_HISTOGRAMS];

static struct percpu_histogram_options options(unsigned which)
{
	static const double bounds[OCTAVES + 1] = { 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024 };
	struct percpu_histogram_options o = { .size = sizeof(o) };

	if (which == BOUNDS) {
		o.bounds = bounds;
		o.bounds_n = OCTAVES + 1;
		return o;
	}
	o.min = 1;
	o.max = 1 << OCTAVES;
	o.buckets_per_octave = PER_OCTAVE;
	o.ticks_per_unit = which == TICKS;
	return o;
}

void soak_values_create(void)
{
	const struct percpu_histogram_options o = options(DOUBLES);

	soak_require_equal("create a counter of doubles", 0,
			   (uint64_t)percpu_fcounter_create(&own));
	soak_require_equal("create a histogram", 0,
			   (uint64_t)percpu_histogram_create(&o, &own_histogram));
}

void soak_values_destroy(void)
{
	percpu_fcounter_destroy(own);
	percpu_histogram_destroy(own_histogram);
}

void soak_shared_values_create(struct percpu_region *r)
{
	struct percpu_histogram_options o;
	uint64_t *key = soak_board->value_key;

	gauge = NULL;
	fgauge = NULL;
	soak_require_equal("create a shared counter of doubles", 0,
			   (uint64_t)percpu_fcounter_create_in(r, &fcounter));
	(void)soak_did("create a shared gauge", percpu_gauge_create_in(r, &gauge), -ENOTSUP);
	(void)soak_did("create one of doubles", percpu_fgauge_create_in(r, &fgauge), -ENOTSUP);
	*key++ = percpu_fcounter_key(fcounter);
	*key++ = percpu_gauge_key(gauge);
	*key++ = percpu_fgauge_key(fgauge);
	for (unsigned i = 0; i < SOAK_HISTOGRAMS; i++) {
		o = options(i);
		soak_require_equal("create a shared histogram", 0,
				   (uint64_t)percpu_histogram_create_in(r, &o, &histogram[i]));
		*key++ = percpu_histogram_key(histogram[i]);
	}
}

void soak_shared_values_open(struct percpu_region *r)
{
	const uint64_t *key = soak_board->value_key;

	soak_require_equal("attach to shared values", 0,
			   (uint64_t)percpu_fcounter_attach(r, key[0], &fcounter));
	for (unsigned i = 0; i < SOAK_HISTOGRAMS; i++)
		soak_require_equal("attach to a histogram", 0,
				   (uint64_t)percpu_histogram_attach(r, key[3 + i], &histogram[i]));
	if (key[1] != 0)
		soak_require_equal("attach to gauges", 0,
				   (uint64_t)(percpu_gauge_attach(r, key[1], &gauge) |
					      percpu_fgauge_attach(r, key[2], &fgauge)));
}

void soak_shared_values_close(void)
{
	percpu_fcounter_detach(fcounter);
	percpu_gauge_detach(gauge);
	percpu_fgauge_detach(fgauge);
	for (unsigned i = 0; i < SOAK_HISTOGRAMS; i++)
		percpu_histogram_detach(histogram[i]);
}

static struct percpu_histogram_snapshot *new_snapshot(const struct percpu_histogram *h)
{
	struct percpu_histogram_snapshot *s = NULL;

	soak_require_equal("make a snapshot", 0, (uint64_t)percpu_histogram_snapshot_create(h, &s));
	return s;
}

/* Return the one value of bucket i that is recorded, or 0. */
static uint64_t value_of(const struct percpu_histogram_snapshot *s, uint32_t i)
{
	const uint32_t each = s->schema == PERCPU_HISTOGRAM_OWN_BOUNDS ? 1 : PER_OCTAVE;

	return i % each == 0 && i / each <= OCTAVES ? UINT64_C(1) << i / each : 0;
}

/* Check the buckets, when no thread records. */
static void check_buckets(const struct percpu_histogram_snapshot *s)
{
	uint64_t value, sum;

	for (uint32_t i = 0; i < s->n; i++) {
		value = value_of(s, i);
		sum = s->ticks_per_unit != 0 ? s->bucket[i].ticks : (uint64_t)s->bucket[i].sum;
		soak_require_equal("count and sum of a bucket", s->bucket[i].count * value, sum);
		soak_require(value != 0 || s->bucket[i].count == 0, "values of a bucket", 0,
			     s->bucket[i].count);
	}
}

static void read_histogram(const struct percpu_histogram *h, uint64_t *ret_count, uint64_t *ret_sum)
{
	struct percpu_histogram_snapshot *s = new_snapshot(h);

	soak_require_equal("read a histogram", 0, (uint64_t)percpu_histogram_fetch(h, 0, s));
	check_buckets(s);
	*ret_count = s->count;
	*ret_sum = (uint64_t)s->sum;
	percpu_histogram_snapshot_destroy(s);
}

uint64_t soak_values_found(enum soak_tally tally)
{
	uint64_t count, sum;

	if (tally == SOAK_OF_FCOUNTER)
		return (uint64_t)(int64_t)percpu_fcounter_fetch(own);
	read_histogram(own_histogram, &count, &sum);
	return count * RECORD + sum;
}

uint64_t soak_shared_values_fetch(uint32_t object)
{
	uint64_t both[2];

	switch (object) {
	case SOAK_FCOUNTER:
		return (uint64_t)(int64_t)percpu_fcounter_fetch(fcounter);
	case SOAK_GAUGE:
		return (uint64_t)percpu_gauge_fetch(gauge);
	case SOAK_FGAUGE:
		return (uint64_t)(int64_t)percpu_fgauge_fetch(fgauge);
	default:
		object -= SOAK_HISTOGRAM;
		read_histogram(histogram[object / 2], &both[0], &both[1]);
		return both[object % 2];
	}
}

bool soak_shared_values_zero(uint32_t object)
{
	const uint32_t part = object - SOAK_HISTOGRAM;
	int e = 0;

	if (object == SOAK_FCOUNTER)
		percpu_fcounter_zero(fcounter);
	else if (object == SOAK_GAUGE)
		e = gauge != NULL ? percpu_gauge_set(gauge, 0) : 0;
	else if (object == SOAK_FGAUGE)
		e = fgauge != NULL ? percpu_fgauge_set(fgauge, 0) : 0;
	else if (part % 2 == 0) /* the sum is checked later */
		return false;
	else
		e = percpu_histogram_zero(histogram[part / 2], 0);
	soak_require_equal("reset a value", 0, (uint64_t)e);
	return true;
}

static void add_one(uint32_t object, int64_t n)
{
	int e = 0;

	if (object == SOAK_FCOUNTER)
		e = percpu_fcounter_add(fcounter, (double)n);
	else if (object == SOAK_GAUGE)
		percpu_gauge_add(gauge, n);
	else
		e = percpu_fgauge_add(fgauge, (double)n);
	soak_require_equal("add to a value", 0, (uint64_t)e);
}

static void add(struct soak_journal *j, uint32_t object, int64_t n, unsigned times)
{
	const struct soak_pending p = { SOAK_ADDING, object, 1, { n } };

	if (gauge == NULL && object != SOAK_FCOUNTER)
		return;
	soak_begin(j, &p);
	while (times-- > 0) {
		add_one(object, n);
		__atomic_store_n(&j->added[object], j->added[object] + (uint64_t)n,
				 __ATOMIC_RELEASE);
		j->count[SOAK_VALUE_ADD]++;
	}
	soak_end(j);
}

static void record(struct soak_journal *j, unsigned which, uint64_t v, unsigned times)
{
	const uint32_t object = SOAK_HISTOGRAM + 2 * which;
	struct soak_pending p = { SOAK_ADDING, object, 2, { 1, (int64_t)v } };

	while (times-- > 0) {
		soak_begin(j, &p);
		if (which == TICKS)
			percpu_histogram_record_ticks(histogram[which], v);
		else
			percpu_histogram_record(histogram[which], (double)v);
		j->added[object]++;
		j->added[object + 1] += v;
		soak_end(j);
		j->count[SOAK_RECORD]++;
	}
}

static void take(struct soak_journal *j, bool of_histogram)
{
	const uint32_t object = of_histogram ? SOAK_HISTOGRAM + 2 * TICKS : SOAK_FCOUNTER;
	const struct soak_pending p = { SOAK_TAKING, object, 1 + (uint32_t)of_histogram, { 0 } };
	struct percpu_histogram_snapshot *s = new_snapshot(histogram[TICKS]);
	int e = 0;

	soak_begin(j, &p);
	if (of_histogram) {
		e = percpu_histogram_fetch_zero(histogram[TICKS], 0, s);
		j->taken[object] += s->count;
		j->taken[object + 1] += (uint64_t)s->sum;
	} else {
		j->taken[object] += (uint64_t)percpu_fcounter_fetch_zero(fcounter);
	}
	soak_end(j);
	percpu_histogram_snapshot_destroy(s);
	soak_require_equal("take from a histogram", 0, (uint64_t)e);
	j->count[SOAK_VALUE_TAKE]++;
}

void soak_shared_values_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), kind = r % 64;
	struct soak_journal *j = &t->slot->journal[0];
	unsigned times = 1 + (unsigned)(r >> 8) % 1000;
	int64_t n = 1 + (int64_t)(r >> 24) % 1000;

	if (kind < 2)
		take(j, kind);
	else if (kind < 20)
		add(j, SOAK_FCOUNTER, n, times);
	else if (kind < 40)
		add(j, kind % 2 ? SOAK_GAUGE : SOAK_FGAUGE, r >> 63 ? n : -n, times);
	else
		record(j, kind % SOAK_HISTOGRAMS, UINT64_C(1) << n % (OCTAVES + 1), times);
}

void soak_values_signal(struct soak_thread *t)
{
	soak_require_equal("add to a value in a handler", 0,
			   (uint64_t)percpu_fcounter_add(own, -7));
	t->sum[1][SOAK_OF_FCOUNTER] -= 7;
	percpu_histogram_record(own_histogram, 4);
	t->sum[1][SOAK_OF_HISTOGRAM] += RECORD + 4;
}

void soak_values_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random), times = r % 500,
		 v = UINT64_C(1) << (r >> 16) % OCTAVES;

	if (r >> 60 == 0) {
		t->sum[0][SOAK_OF_FCOUNTER] -= (uint64_t)(int64_t)percpu_fcounter_fetch_zero(own);
		t->slot->journal[0].count[SOAK_VALUE_TAKE]++;
		return;
	}
	for (uint64_t i = 0; i < times; i++) {
		soak_require_equal("add to a private value", 0,
				   (uint64_t)percpu_fcounter_add(own, 3));
		percpu_histogram_record(own_histogram, (double)v);
	}
	t->sum[0][SOAK_OF_FCOUNTER] += 3 * times;
	t->sum[0][SOAK_OF_HISTOGRAM] += times * (RECORD + v);
	t->slot->journal[0].count[SOAK_VALUE_ADD] += times;
	t->slot->journal[0].count[SOAK_RECORD] += times;
}

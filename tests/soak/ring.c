/* SPDX-License-Identifier: MIT */
/*
 * ring.c - the soak test's operations on rings. A writer is a thread or its signal handler. It
 * numbers its records. The writer and the number determine the contents of a record, and its
 * length.
 *
 * Of the two shared rings one overwrites old records, and one keeps them. The directing process
 * reads both from outside. Of the first ring the records returned and the records lost add up to
 * the records put. Of the second ring no number is missing. In every other round its readers fence,
 * and then each writer's numbers grow. A fence takes long while all CPUs are busy; with many CPUs
 * too long. Other processes look at the rings now and then.
 */
#include <errno.h>
#include <string.h>

#include <percpu/ring.h>

#include "../support.h"
#include "soak.h"

#define SHARED_SIZE 16384
#define OVERWRITES 0
#define KEEPS 1
#define WRITERS (2 * SOAK_SLOTS)
#define MOST 600 /* the most bytes of a record */
#define BUSY 10	 /* tries of a fence, of some seconds each, when no worker runs */
#define FEW 8	 /* the most CPUs that are fenced */

struct event {
	uint64_t writer;
	uint64_t number;
	unsigned char rest[MOST];
};

static struct percpu_ring *private, *shared[2];

/* The readers of the directing process. */
static struct percpu_ring_reader *reader[2];
static uint64_t returned[2], lost[2];
static bool fenced;
static struct {
	uint64_t last, n, sum; /* the last number returned, how many, and their sum */
} seen[2][WRITERS];

/* Fill in a record. Return its length. */
static size_t make(struct event *e, uint64_t writer, uint64_t number)
{
	size_t rest = number * 7 % 64 == 0 ? number % MOST : (number * 5 + writer) % 60;

	e->writer = writer;
	e->number = number;
	for (size_t i = 0; i < rest; i++)
		e->rest[i] = (unsigned char)(number + writer * 17 + i * 29);
	return offsetof(struct event, rest) + rest;
}

static const struct event *check_record(const struct percpu_ring_record *r)
{
	const struct event *e = r->data;
	struct event expected;

	soak_require(r->size >= offsetof(struct event, rest), "the size of a record",
		     offsetof(struct event, rest), r->size);
	soak_require(e->writer < WRITERS, "the writer of a record", WRITERS, e->writer);
	soak_require_equal("the size of a record", make(&expected, e->writer, e->number), r->size);
	soak_require(memcmp(e, &expected, r->size) == 0, "a record is whole", e->number, e->writer);
	return e;
}

/* Read a record. Where a CPU is busy the fence may be too late. */
static bool has_record(struct percpu_ring_reader *from, unsigned tries,
		       struct percpu_ring_record *ret)
{
	int e = -ETIMEDOUT;

	for (; tries > 0 && e == -ETIMEDOUT; tries--)
		e = percpu_ring_read(from, ret);
	soak_require(e == 0 || e == -EAGAIN || e == -EPERM || e == -ETIMEDOUT, "read a record", 0,
		     (uint64_t)e);
	return e == 0;
}

/* Shared rings, in the directing process */

void soak_shared_ring_create(struct percpu_region *r)
{
	static const unsigned flags[2] = { [OVERWRITES] = 0, [KEEPS] = PERCPU_RING_KEEP };

	fenced = !fenced && test_cpus() <= FEW;
	memset(seen, 0, sizeof(seen));
	for (int i = 0; i < 2; i++) {
		soak_require_equal(
			"create rings in the region", 0,
			(uint64_t)percpu_ring_create_in(r, SHARED_SIZE, flags[i], &shared[i]));
		soak_require_equal("create a reader of shared rings", 0,
				   (uint64_t)percpu_ring_reader_create(
					   shared[i], PERCPU_RING_ALL,
					   fenced ? 0 : PERCPU_RING_UNFENCED, &reader[i]));
		soak_board->ring_key[i] = percpu_ring_key(shared[i]);
		returned[i] = lost[i] = 0;
	}
}

static void watch(int ring, unsigned tries, uint64_t most)
{
	struct percpu_ring_record r;
	const struct event *e;

	for (; most > 0 && has_record(reader[ring], tries, &r); most--) {
		e = check_record(&r);
		soak_require(!fenced || e->number > seen[ring][e->writer].last,
			     "a writer's records are in order", seen[ring][e->writer].last + 1,
			     e->number);
		if (seen[ring][e->writer].last < e->number)
			seen[ring][e->writer].last = e->number;
		seen[ring][e->writer].n++;
		seen[ring][e->writer].sum += e->number;
		returned[ring]++;
		lost[ring] += r.lost;
	}
}

void soak_ring_watch(uint64_t random)
{
	if (fenced && random % 16 != 0)
		return;
	watch(OVERWRITES, 1, 1000);
	watch(KEEPS, 1, 1000);
}

/* Check the rings when no worker runs. A writer that was killed in the middle may have put one
 * more. */
void soak_ring_check(void)
{
	const struct soak_journal *j;
	uint64_t put[2] = { 0, 0 }, doubts[2] = { 0, 0 }, refused = 0, n;

	watch(OVERWRITES, BUSY, UINT64_MAX);
	watch(KEEPS, BUSY, UINT64_MAX);
	for (uint32_t writer = 0; writer < WRITERS; writer++) {
		j = &soak_board->slot[writer / 2].journal[writer % 2];
		for (int ring = 0; ring < 2; ring++) {
			put[ring] += j->put[ring];
			doubts[ring] += j->putting == ring + 1;
		}
		refused += j->refused;
		n = seen[KEEPS][writer].n;
		soak_require(n == j->put[KEEPS] ||
				     (j->putting == KEEPS + 1 && n == j->put[KEEPS] + 1),
			     "kept: the records of a writer", j->put[KEEPS], n);
		soak_require_equal("kept: none twice, none missing", n * (n + 1) / 2,
				   seen[KEEPS][writer].sum);
	}
	n = returned[OVERWRITES] + lost[OVERWRITES];
	soak_require(n >= put[OVERWRITES] && n <= put[OVERWRITES] + doubts[OVERWRITES],
		     "records returned and lost", put[OVERWRITES], n);
	soak_require_equal("kept: records lost", 0, lost[KEEPS]);
	n = percpu_ring_dropped(shared[KEEPS]);
	soak_require(n >= refused && n <= refused + doubts[KEEPS], "records refused", refused, n);
}

/* Shared rings, in all processes */

void soak_shared_ring_open(struct percpu_region *r)
{
	for (int i = 0; i < 2; i++)
		soak_require_equal(
			"attach to rings", 0,
			(uint64_t)percpu_ring_attach(r, soak_board->ring_key[i], &shared[i]));
}

void soak_shared_ring_close(void)
{
	for (int i = 0; i < 2; i++) {
		percpu_ring_reader_destroy(reader[i]);
		reader[i] = NULL;
		percpu_ring_detach(shared[i]);
	}
}

/* Put one record, and note it. writer is the number of this journal. */
static void put_shared(struct soak_journal *j, uint64_t writer, uint64_t random)
{
	int ring = (int)(random % 2), e;
	struct event event;
	size_t size = make(&event, writer, j->put[ring] + 1);

	__atomic_store_n(&j->putting, ring + 1, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	e = percpu_ring_put(shared[ring], &event, size);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	if (soak_did("put a record", e, ring == KEEPS ? -ENOBUFS : 0))
		__atomic_store_n(&j->put[ring], event.number, __ATOMIC_RELAXED);
	else
		j->refused += e == -ENOBUFS;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&j->putting, 0, __ATOMIC_RELAXED);
	j->count[SOAK_RING_PUT]++;
}

static uint64_t writer_of(const struct soak_thread *t, int journal)
{
	return 2 * (uint64_t)(t->slot - soak_board->slot) + (uint64_t)journal;
}

/* Private rings */

void soak_ring_create(void)
{
	soak_require_equal("create rings", 0, (uint64_t)percpu_ring_create(4096, 0, &private));
}

void soak_ring_destroy(void)
{
	percpu_ring_destroy(private);
}

/* Look at the records in the ring, at most so many. Return how many there ever were. */
static uint64_t look(const struct percpu_ring *ring, uint64_t most)
{
	unsigned flags = PERCPU_RING_LOOK | PERCPU_RING_UNFENCED;
	static __thread uint64_t number[PERCPU_MAX_CPUS][2];
	uint64_t sum = 0, *before;
	struct percpu_ring_reader *new;
	struct percpu_ring_record r;

	memset(number, 0, sizeof(number));
	soak_require_equal("create a reader", 0,
			   (uint64_t)percpu_ring_reader_create(ring, PERCPU_RING_ALL, flags, &new));
	for (; most > 0 && has_record(new, 1, &r); most--) {
		(void)check_record(&r);
		before = &number[r.cpu][r.locked];
		if (*before != 0)
			soak_require_equal("numbers of a ring", *before + 1 + r.lost, r.number);
		sum += r.number - *before;
		*before = r.number;
	}
	percpu_ring_reader_destroy(new);
	return sum;
}

uint64_t soak_ring_found(void)
{
	return look(private, UINT64_MAX);
}

void soak_ring_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	struct event event;
	size_t size;

	if (r % 64 == 0) {
		(void)look(r & 64 ? private : shared[r / 128 % 2], 1000);
		t->slot->journal[0].count[SOAK_RING_LOOK]++;
		return;
	}
	for (uint64_t n = r / 64 % 64; n > 0; n--) {
		if (n % 4 == 0) {
			size = make(&event, writer_of(t, 0), test_random(&t->random) >> 32);
			t->sum[0][SOAK_OF_RING] += soak_did(
				"put a private record", percpu_ring_put(private, &event, size), 0);
		} else {
			put_shared(&t->slot->journal[0], writer_of(t, 0), test_random(&t->random));
		}
	}
}

void soak_ring_signal(struct soak_thread *t)
{
	struct soak_journal *j = &t->slot->journal[1];

	put_shared(j, writer_of(t, 1), j->count[SOAK_SIGNAL]);
}

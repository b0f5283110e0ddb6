/* SPDX-License-Identifier: MIT */
/*
 * limits.c - the soak test's operations on rates and approximate sums, in the shared region.
 *
 * One rate has short periods. The other has a period that does not end: it never admits more events
 * than the limit says. One sum wanders. The other one counts permits below a limit. A thread counts
 * its permits in a plain word, as long as it has them. So that word never says more than there are,
 * even if a thread was killed. Permits of killed threads are not given back.
 */
#include <errno.h>

#include <percpu/approx.h>
#include <percpu/rate.h>

#include "../support.h"
#include "soak.h"

#define BATCH 16
#define PERMITS 300
#define EVENTS 5000 /* in a period of PERIOD_MS */
#define PERIOD_MS 20
#define ALL_EVENTS 50000	/* in the period that does not end */
#define MS UINT64_C(1000000)	/* in ns */
#define KEPT 32			/* CPUs keep at most this part of a limit */
#define TAKEN_BY_THE_KILLED 256 /* the most that a killed thread had taken */

enum { WANDERS, LIMITED };

static struct percpu_rate *rate[2];
static struct percpu_approx *approx[2]; /* NULL where these cannot be shared */

void soak_limits_create(struct percpu_region *r)
{
	const struct percpu_approx_options o = { .size = sizeof(o), .batch = BATCH };
	struct soak_board *b = soak_board;
	int e;

	b->begun_ns = test_now();
	soak_require_equal(
		"create rates", 0,
		(uint64_t)(percpu_rate_create_in(r, EVENTS, PERIOD_MS, &rate[0]) |
			   percpu_rate_create_in(r, ALL_EVENTS, PERCPU_RATE_MAX, &rate[1])));
	for (int i = 0; i < 2; i++) {
		b->rate_key[i] = percpu_rate_key(rate[i]);
		approx[i] = NULL;
		e = percpu_approx_create_in(r, &o, &approx[i]);
		(void)soak_did("create an approximate sum", e, -ENOTSUP);
		b->approx_key[i] = approx[i] != NULL ? percpu_approx_key(approx[i]) : 0;
	}
}

void soak_limits_open(struct percpu_region *r)
{
	const struct soak_board *b = soak_board;

	for (int i = 0; i < 2; i++) {
		soak_require_equal("attach to a rate", 0,
				   (uint64_t)percpu_rate_attach(r, b->rate_key[i], &rate[i]));
		if (b->approx_key[i] != 0)
			soak_require_equal(
				"attach to an approximate sum", 0,
				(uint64_t)percpu_approx_attach(r, b->approx_key[i], &approx[i]));
	}
}

void soak_limits_close(void)
{
	for (int i = 0; i < 2; i++) {
		percpu_rate_detach(rate[i]);
		percpu_approx_detach(approx[i]);
	}
}

/* Check the sum against its bound, when no thread adds. */
static void check_bound(const struct percpu_approx *a)
{
	int64_t sum = percpu_approx_fetch(a), off = sum - percpu_approx_estimate(a);

	soak_require((uint64_t)(off < 0 ? -off : off) <= percpu_approx_bound(a),
		     "an approximate sum is within its bound", percpu_approx_bound(a),
		     (uint64_t)off);
	soak_require(sum <= percpu_approx_highest(a), "the highest that a sum can be",
		     (uint64_t)percpu_approx_highest(a), (uint64_t)sum);
	soak_require_equal("a sum compared with what it is", 0,
			   (uint64_t)percpu_approx_compare(a, sum));
}

uint64_t soak_limits_fetch(uint32_t object)
{
	const uint32_t part = object - SOAK_RATE;

	if (object >= SOAK_APPROX) {
		if (approx[object - SOAK_APPROX] == NULL)
			return 0;
		check_bound(approx[object - SOAK_APPROX]);
		return (uint64_t)percpu_approx_fetch(approx[object - SOAK_APPROX]);
	}
	return part % 2 == 0 ? percpu_rate_allowed(rate[part / 2]) :
			       percpu_rate_refused(rate[part / 2]);
}

bool soak_limits_zero(uint32_t object)
{
	if (object >= SOAK_APPROX)
		percpu_approx_zero(approx[object - SOAK_APPROX]);
	return object >= SOAK_APPROX;
}

/* A check that has admitted an event may count it after the period. */
void soak_limits_watch(void)
{
	const uint64_t late = 2 * (uint64_t)soak_slots();
	uint64_t allowed = percpu_rate_allowed(rate[0]), periods;

	periods = (test_now() - soak_board->begun_ns) / (PERIOD_MS * MS) + 2;
	soak_require(allowed <= periods * EVENTS + late, "events in so many periods",
		     periods * EVENTS, allowed);
	allowed = percpu_rate_allowed(rate[1]);
	soak_require(allowed <= ALL_EVENTS, "events in the only period", ALL_EVENTS, allowed);
}

static unsigned killed_in_a_check(void)
{
	const struct soak_pending *p;
	unsigned n = 0;

	for (uint32_t i = 0; i < 2 * soak_slots(); i++) {
		p = &soak_board->slot[i / 2].journal[i % 2].pending;
		n += p->what == SOAK_ADDING && p->object == SOAK_RATE + 2;
	}
	return n;
}

/* Check the rate, when no worker runs. If it has refused an event, it has admitted all events of
 * its limit, except those that CPUs keep, and those that killed threads had taken. */
static void check_rate(void)
{
	uint64_t allowed = percpu_rate_allowed(rate[1]),
		 unused = ALL_EVENTS / KEPT + killed_in_a_check() * (uint64_t)TAKEN_BY_THE_KILLED;

	soak_require(percpu_rate_refused(rate[1]) == 0 || allowed + unused >= ALL_EVENTS,
		     "events before the first that was refused", ALL_EVENTS, allowed);
}

static bool did_add(int e)
{
	soak_require(e == 0 || e == -ERANGE || e == -EPERM || e == -EAGAIN || e == -ETIMEDOUT,
		     "add below a limit", 0, (uint64_t)e);
	return e == 0;
}

void soak_limits_check(void)
{
	const struct percpu_approx *a = approx[LIMITED];
	int e;

	soak_limits_watch();
	check_rate();
	if (a == NULL)
		return;
	e = percpu_approx_add_below(a, PERMITS, PERMITS);
	if (!did_add(e)) {
		soak_require(e != -ERANGE, "all permits can be had", 0, (uint64_t)e);
		return;
	}
	(void)did_add(percpu_approx_add_below(a, 1, PERMITS));
	soak_require_equal("permits when all are out", PERMITS, (uint64_t)percpu_approx_fetch(a));
	check_bound(a);
}

static void add(struct soak_journal *j, int64_t n, unsigned times)
{
	const struct soak_pending p = { SOAK_ADDING, SOAK_APPROX, 1, { n } };

	soak_begin(j, &p);
	while (times-- > 0) {
		percpu_approx_add(approx[WANDERS], n);
		__atomic_store_n(&j->added[SOAK_APPROX], j->added[SOAK_APPROX] + (uint64_t)n,
				 __ATOMIC_RELEASE);
		j->count[SOAK_APPROX_ADD]++;
	}
	soak_end(j);
}

static bool take_permits(struct soak_journal *j, int64_t n)
{
	const struct soak_pending p = { SOAK_ADDING, SOAK_LIMITED, 1, { n } };
	bool taken;

	soak_begin(j, &p);
	taken = did_add(percpu_approx_add_below(approx[LIMITED], n, PERMITS));
	if (taken)
		j->added[SOAK_LIMITED] += (uint64_t)n;
	soak_end(j);
	j->count[taken ? SOAK_PERMITS : SOAK_PERMITS_OUT]++;
	return taken;
}

static void give_back(struct soak_journal *j, int64_t n)
{
	const struct soak_pending p = { SOAK_ADDING, SOAK_LIMITED, 1, { -n } };

	soak_begin(j, &p);
	percpu_approx_add(approx[LIMITED], -n);
	j->added[SOAK_LIMITED] -= (uint64_t)n;
	soak_end(j);
}

static void use_permits(struct soak_thread *t, uint64_t r)
{
	struct soak_journal *j = &t->slot->journal[0];
	int64_t *out = &soak_board->out, n[32], now;
	unsigned have = 0;

	for (unsigned i = 0; i < r % 32; i++) {
		n[have] = 1 + (int64_t)(test_random(&t->random) % (2 * BATCH));
		if (!take_permits(j, n[have]))
			continue;
		now = __atomic_add_fetch(out, n[have++], __ATOMIC_SEQ_CST);
		soak_require(now <= PERMITS, "permits that are out", PERMITS, (uint64_t)now);
	}
	if (r / 32 % 2) /* other threads come near the limit meanwhile */
		test_sleep_us(100);
	while (have-- > 0) {
		__atomic_fetch_sub(out, n[have], __ATOMIC_SEQ_CST);
		give_back(j, n[have]);
	}
}

static void have_events(struct soak_journal *j, unsigned which, unsigned times)
{
	const uint32_t object = SOAK_RATE + 2 * which;
	const struct soak_pending p = { SOAK_ADDING, object, 2, { 1, 1 } };

	soak_begin(j, &p);
	while (times-- > 0) {
		j->added[object + !percpu_rate_check(rate[which])]++;
		j->count[SOAK_EVENT]++;
	}
	soak_end(j);
}

void soak_limits_signal(struct soak_thread *t)
{
	struct soak_journal *j = &t->slot->journal[1];

	have_events(j, j->count[SOAK_SIGNAL] % 2, 1);
	if (approx[WANDERS] != NULL)
		add(j, 3, 1);
}

void soak_limits_op(struct soak_thread *t)
{
	uint64_t r = test_random(&t->random);
	struct soak_journal *j = &t->slot->journal[0];
	int64_t n = 1 + (int64_t)(r >> 24) % (3 * BATCH);
	unsigned times = 1 + (unsigned)(r >> 8) % 1000;

	if (r % 4 == 0 || approx[WANDERS] == NULL)
		have_events(j, r / 4 % 2, 4 * times);
	else if (r % 4 == 1)
		use_permits(t, r >> 16);
	else
		add(j, r / 4 % 2 ? n : -n, times);
}

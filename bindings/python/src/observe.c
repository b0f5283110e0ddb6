/* SPDX-License-Identifier: MIT */
/*
 * observe.c - how values that are parts of a histogram or a summary record.
 *
 * prometheus_client keeps a sum and a number for each bucket of a histogram, and adds to the sum and
 * then to one bucket. All of these values are parts of one histogram of the segment. The sum
 * remembers the amount, and the bucket records it. A summary is told the count and then the sum,
 * which records.
 */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "value.h"

/* As many observations, and no more, can be added to a bucket by one call. */
#define RECORDS 1e6

/* Amounts that this thread has added to the sums of histograms, and not yet to a bucket. There is one
 * for each signal handler that has interrupted another one there. An amount that never gets to a
 * bucket stays at the bottom, until it has no room. */
#define PENDING 8

static _Thread_local struct {
	struct {
		const struct core_handle *of;
		double amount;
	} a[PENDING];
	size_t n;
} pending;

static void pending_push(const struct core_handle *of, double amount)
{
	if (pending.n == PENDING)
		memmove(&pending.a[0], &pending.a[1], --pending.n * sizeof(pending.a[0]));
	pending.a[pending.n].of = of;
	pending.a[pending.n++].amount = amount;
}

/* Take the amount of a histogram that was added last. Returns false if there is none. */
static bool pending_pop(const struct core_handle *of, double *ret)
{
	for (size_t i = pending.n; i-- > 0;) {
		if (pending.a[i].of == of) {
			*ret = pending.a[i].amount;
			pending.n = i; /* handlers that came later are done */
			return true;
		}
	}
	return false;
}

/* Whether a histogram refuses an amount: it is infinite, not a number, or 2^960 or more. */
static bool refuses(double amount)
{
	return !(fabs(amount) < 0x1p960);
}

void core_value_record(struct core_value *sum, double amount)
{
	if (refuses(amount))
		core_lose(sum->handle, -EDOM);
	percpu_histogram_record(core_handle_get(sum->handle), amount);
}

void core_value_add_to_sum(struct core_value *v, double amount)
{
	if (isnan(amount)) /* no bucket gets it */
		core_value_record(v, amount);
	else
		pending_push(v->handle, amount);
}

void core_value_add_to_bucket(struct core_value *v, double times)
{
	const struct percpu_histogram *h = core_handle_get(v->handle);
	size_t last = h->bounds_n - 1;
	double amount = h->bounds[(size_t)v->cell > last ? last : (size_t)v->cell];

	if ((size_t)v->cell > last)
		amount = nextafter(amount, INFINITY);
	(void)pending_pop(v->handle, &amount);
	if (refuses(amount) || !(times < RECORDS))
		core_lose(v->handle, -EDOM);
	for (; times >= 1 && times < RECORDS; times--)
		percpu_histogram_record(h, amount);
}

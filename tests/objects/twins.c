/* SPDX-License-Identifier: MIT */
/* twins.c - what counts, by the calls in C, for twins.py. It is also compiled as C++. */
#include <percpu/percpu.h>
#include <percpu/timer.h>

#include "twins.h"

#ifdef __cplusplus
extern "C" {
#endif

void counter_add(struct percpu_counter *c, int64_t n)
{
	percpu_counter_add(c, n);
}

void counter_inc(struct percpu_counter *c)
{
	percpu_counter_inc(c);
}

int fcounter_add(struct percpu_fcounter *c, double n)
{
	return percpu_fcounter_add(c, n);
}

void gauge_add(struct percpu_gauge *g, int64_t n)
{
	percpu_gauge_add(g, n);
}

void gauge_sub(struct percpu_gauge *g, int64_t n)
{
	percpu_gauge_sub(g, n);
}

void gauge_dec(struct percpu_gauge *g)
{
	percpu_gauge_dec(g);
}

int gauge_set(struct percpu_gauge *g, int64_t v)
{
	return percpu_gauge_set(g, v);
}

int fgauge_add(struct percpu_fgauge *g, double n)
{
	return percpu_fgauge_add(g, n);
}

int fgauge_sub(struct percpu_fgauge *g, double n)
{
	return percpu_fgauge_sub(g, n);
}

int latest_set(struct percpu_latest *l, double v)
{
	return percpu_latest_set(l, v);
}

int owned_gauge_add(struct percpu_owned_gauge *g, int64_t n)
{
	return percpu_owned_gauge_add(g, n);
}

int owned_gauge_dec(struct percpu_owned_gauge *g)
{
	return percpu_owned_gauge_add(g, -1);
}

void histogram_record(struct percpu_histogram *h, double v)
{
	percpu_histogram_record(h, v);
}

void histogram_record_ticks(struct percpu_histogram *h, uint64_t n)
{
	percpu_histogram_record_ticks(h, n);
}

void latency_record(struct percpu_histogram *h, double seconds)
{
	percpu_histogram_record(h, seconds);
}

void latency_record_ticks(struct percpu_histogram *h, int64_t ns)
{
	percpu_histogram_record_ticks(h, (uint64_t)ns);
}

int extrema_observe(struct percpu_extrema *x, int64_t v)
{
	return percpu_extrema_observe(x, v);
}

int extrema_observe_double(struct percpu_extrema *x, double v)
{
	return percpu_extrema_observe_double(x, v);
}

void stats_add(struct percpu_stats *s, int64_t n)
{
	percpu_stats_add(s, 0, 2, n);
}

int stats_update(struct percpu_stats *s, const struct port *n)
{
	return percpu_stats_update(s, 0, 0, (const uint64_t *)n, 4);
}

#ifdef __cplusplus
}
#endif

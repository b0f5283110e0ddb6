/* SPDX-License-Identifier: MIT */
/* twins.cc - what counts, by the classes of C++, for twins.py. */
#include <percpu/percpu.hpp>

#include "twins.h"

extern "C" {

void counter_add(percpu::counter c, int64_t n)
{
	c.add(n);
}

void counter_inc(percpu::counter c)
{
	c.inc();
}

int fcounter_add(percpu::fcounter c, double n)
{
	return c.add(n);
}

void gauge_add(percpu::gauge g, int64_t n)
{
	g.add(n);
}

void gauge_sub(percpu::gauge g, int64_t n)
{
	g.sub(n);
}

void gauge_dec(percpu::gauge g)
{
	g.dec();
}

int gauge_set(percpu::gauge g, int64_t v)
{
	return g.set(v);
}

int fgauge_add(percpu::fgauge g, double n)
{
	return g.add(n);
}

int fgauge_sub(percpu::fgauge g, double n)
{
	return g.sub(n);
}

int latest_set(percpu::latest l, double v)
{
	return l.set(v);
}

int owned_gauge_add(percpu::owned_gauge g, int64_t n)
{
	return g.add(n);
}

int owned_gauge_dec(percpu::owned_gauge g)
{
	return g.dec();
}

void histogram_record(percpu::histogram h, double v)
{
	h.record(v);
}

void histogram_record_ticks(percpu::histogram h, uint64_t n)
{
	h.record_ticks(n);
}

void latency_record(percpu::latency<> h, double seconds)
{
	h.record(std::chrono::duration<double>(seconds));
}

void latency_record_ticks(percpu::latency<std::chrono::nanoseconds> h, int64_t ns)
{
	h.record(std::chrono::nanoseconds(ns));
}

int extrema_observe(percpu::extrema<int64_t> x, int64_t v)
{
	return x.observe(v);
}

int extrema_observe_double(percpu::extrema<double> x, double v)
{
	return x.observe(v);
}

void stats_add(percpu::stats<port> s, int64_t n)
{
	s.add(&port::drops, n);
}

int stats_update(percpu::stats<port> s, const port *n)
{
	return s.update(*n);
}

} // extern "C"

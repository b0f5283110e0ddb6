/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - counting: counters, gauges, statistics, histograms, and the segments that name
 * them. Each header works alone, too. A program that uses one of these includes it by name:
 *
 *	percpu/approx.h		sums that are known approximately, and limits
 *	percpu/compact.h	counters of 4 bytes per CPU
 *	percpu/rate.h		rates: a limit of events per period
 *	percpu/timer.h		how long something takes, into a histogram
 *	percpu/wbuf.h		counters behind a buffer of each CPU
 *	percpu/variable.h	variables at file scope with a copy per CPU; it adds a
 *				constructor to the program or library that includes it
 *	percpu/local.h		words and short queues of a CPU
 *	percpu/ring.h		records of a CPU, and a reader
 *	percpu/zone.h, percpu/objcache.h	free items of a CPU; constructed objects
 *	percpu/lwbuf.h, percpu/sfbuf.h, percpu/xio.h	buffers for pages of a file
 *	percpu/rwlock.h, percpu/grace.h, percpu/ref.h
 *				read-mostly locks, grace periods, reference counts
 *	percpu/critical.h	critical sections: a lane for one thread
 *	percpu/fence.h		fences on other CPUs
 *	percpu/freebsd.h	counter(9), uma(9), sysctl(9) by FreeBSD's names, which
 *				have no prefix
 *	percpu/dragonfly/objcache.h  objcache(9) by DragonFly's names
 *	percpu/netbsd/percpu.h, percpu/linux/percpu.h  NetBSD's and Linux's names, on
 *				percpu/section.h
 *	percpu/calls.h		the inline functions as exported functions, for bindings
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <percpu/counter.h>
#include <percpu/error.h>
#include <percpu/exemplar.h>
#include <percpu/extrema.h>
#include <percpu/declare.h>
#include <percpu/family.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>
#include <percpu/owned.h>
#include <percpu/owner.h>
#include <percpu/reader.h>
#include <percpu/region.h>
#include <percpu/segment.h>
#include <percpu/stats.h>
#include <percpu/stats_group.h>
#include <percpu/status.h>

#endif

/* SPDX-License-Identifier: MIT */
/*
 * percpu.h - all objects of libpercpu. Each header works alone, too. A program that
 * wants one of these includes it by itself:
 *
 *	percpu/variable.h	variables at file scope with a copy per CPU; it gives
 *				the object that includes it a constructor
 *	percpu/freebsd.h	counter(9), uma(9), sysctl(9) by FreeBSD's names, which
 *				have no prefix
 *	percpu/dragonfly/objcache.h  objcache(9) by DragonFly's names
 *	percpu/calls.h		the inline functions as exported functions, for bindings
 */
#ifndef PERCPU_PERCPU_H
#define PERCPU_PERCPU_H

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/extrema.h>
#include <percpu/family.h>
#include <percpu/fcounter.h>
#include <percpu/fence.h>
#include <percpu/gauge.h>
#include <percpu/grace.h>
#include <percpu/histogram.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/owned.h>
#include <percpu/owner.h>
#include <percpu/rate.h>
#include <percpu/reader.h>
#include <percpu/ref.h>
#include <percpu/region.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/segment.h>
#include <percpu/seq.h>
#include <percpu/sfbuf.h>
#include <percpu/stats.h>
#include <percpu/status.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#endif

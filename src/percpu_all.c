/* SPDX-License-Identifier: MIT */
/*
 * percpu_all.c - the library in one unit, for programs that carry it along:
 *
 *	cc -std=gnu11 -Iinclude -c src/percpu_all.c
 */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include "alloc.c"
#include "array.c"
#include "chunk.c"
#include "clone.c"
#include "compact.c"
#include "counter.c"
#include "cpus.c"
#include "depot.c"
#include "fence.c"
#include "fork.c"
#include "freebsd.c"
#include "freebsd_sysctl.c"
#include "freebsd_uma.c"
#include "journal.c"
#include "local.c"
#include "lock.c"
#include "map.c"
#include "pin.c"
#include "place.c"
#include "record.c"
#include "region.c"
#include "root.c"
#include "selftest.c"
#include "stats.c"
#include "stats_read.c"
#include "status.c"
#include "stay.c"
#include "thread.c"
#include "variable.c"
#include "visit.c"
#include "wbuf.c"
#include "zone.c"
#include "zone_check.c"

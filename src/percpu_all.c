/* SPDX-License-Identifier: MIT */
/*
 * percpu_all.c - the library in one unit, for programs that carry it along:
 *
 *	cc -std=gnu11 -Iinclude -c src/percpu_all.c
 */
#define _GNU_SOURCE
#include "alloc.c"
#include "array.c"
#include "chunk.c"
#include "clone.c"
#include "counter.c"
#include "cpus.c"
#include "fence.c"
#include "freebsd.c"
#include "local.c"
#include "region.c"
#include "selftest.c"
#include "status.c"
#include "thread.c"
#include "zone.c"

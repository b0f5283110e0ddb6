/* SPDX-License-Identifier: MIT */
/*
 * freebsd.h - the per-CPU interfaces of FreeBSD's kernel under their own names,
 * for code written against them: counters, rates, structs of statistics, zones,
 * and reading by name. docs/freebsd.md lists the names, and the differences.
 */
#ifndef PERCPU_FREEBSD_H
#define PERCPU_FREEBSD_H

#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/pcpu.h>
#include <percpu/freebsd/pcpustat.h>
#include <percpu/freebsd/rate.h>
#include <percpu/freebsd/smp.h>
#include <percpu/freebsd/sysctl.h>
#include <percpu/freebsd/uma.h>

#endif

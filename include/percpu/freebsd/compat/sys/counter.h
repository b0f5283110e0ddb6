/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's sys/counter.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_COUNTER_H
#define PERCPU_FREEBSD_COMPAT_SYS_COUNTER_H

#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/rate.h>
#include <percpu/freebsd/pcpu.h>

#endif

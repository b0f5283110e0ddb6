/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's sys/pcpu.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_PCPU_H
#define PERCPU_FREEBSD_COMPAT_SYS_PCPU_H

#include <percpu/freebsd/dpcpu.h>
#include <percpu/freebsd/smp.h>

#endif

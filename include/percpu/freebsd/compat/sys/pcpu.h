/* SPDX-License-Identifier: MIT */
/* In place of FreeBSD's sys/pcpu.h, for sources that stay as they are. docs/freebsd.md says how to have it found. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_PCPU_H
#define PERCPU_FREEBSD_COMPAT_SYS_PCPU_H

#include <percpu/freebsd/dpcpu.h>
#include <percpu/freebsd/smp.h>

#endif

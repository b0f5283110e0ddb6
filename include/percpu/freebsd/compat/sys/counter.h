/* SPDX-License-Identifier: MIT */
/* In place of FreeBSD's sys/counter.h, for sources that stay as they are. docs/freebsd.md says how to have it found. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_COUNTER_H
#define PERCPU_FREEBSD_COMPAT_SYS_COUNTER_H

#include <percpu/freebsd/counter.h>
#include <percpu/freebsd/rate.h>
#include <percpu/freebsd/pcpu.h>

#endif

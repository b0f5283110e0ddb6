/* SPDX-License-Identifier: MIT */
/* In place of FreeBSD's sys/smp.h, for sources that stay as they are. docs/freebsd.md says how to have it found. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_SMP_H
#define PERCPU_FREEBSD_COMPAT_SYS_SMP_H

#include <percpu/freebsd/smp.h>

#endif

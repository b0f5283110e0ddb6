/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's sys/smp.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_SMP_H
#define PERCPU_FREEBSD_COMPAT_SYS_SMP_H

#include <percpu/freebsd/smp.h>

#endif

/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's sys/sysctl.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_SYSCTL_H
#define PERCPU_FREEBSD_COMPAT_SYS_SYSCTL_H

#include <percpu/freebsd/sysctl.h>

#endif

/* SPDX-License-Identifier: MIT */
/* Replaces NetBSD's sys/percpu.h for unchanged sources. docs/netbsd.md says how compilers find
 * it. */
#ifndef PERCPU_NETBSD_COMPAT_SYS_PERCPU_H
#define PERCPU_NETBSD_COMPAT_SYS_PERCPU_H

#include <percpu/netbsd/percpu.h>

#endif

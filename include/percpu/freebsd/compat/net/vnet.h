/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's net/vnet.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_NET_VNET_H
#define PERCPU_FREEBSD_COMPAT_NET_VNET_H

#include <percpu/freebsd/pcpustat.h>
#include <percpu/freebsd/sysctl.h>

#endif

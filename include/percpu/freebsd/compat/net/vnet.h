/* SPDX-License-Identifier: MIT */
/* In place of FreeBSD's net/vnet.h, for sources that stay as they are. docs/freebsd.md says how to have it found. */
#ifndef PERCPU_FREEBSD_COMPAT_NET_VNET_H
#define PERCPU_FREEBSD_COMPAT_NET_VNET_H

#include <percpu/freebsd/pcpustat.h>
#include <percpu/freebsd/sysctl.h>

#endif

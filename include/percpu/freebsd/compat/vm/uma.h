/* SPDX-License-Identifier: MIT */
/* In place of FreeBSD's vm/uma.h, for sources that stay as they are. docs/freebsd.md says how to have it found. */
#ifndef PERCPU_FREEBSD_COMPAT_VM_UMA_H
#define PERCPU_FREEBSD_COMPAT_VM_UMA_H

#include <percpu/freebsd/uma.h>

#endif

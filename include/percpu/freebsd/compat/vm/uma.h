/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's vm/uma.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_VM_UMA_H
#define PERCPU_FREEBSD_COMPAT_VM_UMA_H

#include <percpu/freebsd/uma.h>

#endif

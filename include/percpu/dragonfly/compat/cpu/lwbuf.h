/* SPDX-License-Identifier: MIT */
/* Replaces DragonFly's cpu/lwbuf.h for unchanged sources. docs/caches/lwbuf.md says how
 * compilers find it. */
#ifndef PERCPU_DRAGONFLY_COMPAT_CPU_LWBUF_H
#define PERCPU_DRAGONFLY_COMPAT_CPU_LWBUF_H

#include <percpu/dragonfly/lwbuf.h>

#endif

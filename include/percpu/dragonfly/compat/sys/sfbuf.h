/* SPDX-License-Identifier: MIT */
/* Replaces DragonFly's sys/sfbuf.h for unchanged sources. docs/caches/lwbuf.md says how
 * compilers find it. */
#ifndef PERCPU_DRAGONFLY_COMPAT_SYS_SFBUF_H
#define PERCPU_DRAGONFLY_COMPAT_SYS_SFBUF_H

#include <percpu/dragonfly/sfbuf.h>

#endif

/* SPDX-License-Identifier: MIT */
/* Replaces DragonFly's sys/xio.h for unchanged sources. docs/caches/lwbuf.md says how compilers
 * find it. */
#ifndef PERCPU_DRAGONFLY_COMPAT_SYS_XIO_H
#define PERCPU_DRAGONFLY_COMPAT_SYS_XIO_H

#include <percpu/dragonfly/xio.h>

#endif

/* SPDX-License-Identifier: MIT */
/* Replaces DragonFly's sys/malloc.h for unchanged sources. docs/caches/objcache.md says how
 * compilers find it. */
#ifndef PERCPU_DRAGONFLY_COMPAT_SYS_MALLOC_H
#define PERCPU_DRAGONFLY_COMPAT_SYS_MALLOC_H

#include <percpu/dragonfly/malloc.h>

#endif

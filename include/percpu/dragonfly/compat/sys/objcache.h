/* SPDX-License-Identifier: MIT */
/* Replaces DragonFly's sys/objcache.h for unchanged sources. docs/caches/objcache.md says how
 * compilers find it. */
#ifndef PERCPU_DRAGONFLY_COMPAT_SYS_OBJCACHE_H
#define PERCPU_DRAGONFLY_COMPAT_SYS_OBJCACHE_H

#include <percpu/dragonfly/objcache.h>

#endif

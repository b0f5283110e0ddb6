/* SPDX-License-Identifier: MIT */
/*
 * malloc_flags.h - malloc(9)'s flags that FreeBSD and DragonFly have in common, for code that
 * has none of its own.
 */
#ifndef PERCPU_FREEBSD_MALLOC_FLAGS_H
#define PERCPU_FREEBSD_MALLOC_FLAGS_H

#include <percpu/base.h>

#ifndef M_NOWAIT
#define M_NOWAIT 0x0001
#endif
#ifndef M_WAITOK
#define M_WAITOK 0x0002
#endif
#ifndef M_ZERO
#define M_ZERO 0x0100
#endif

#endif

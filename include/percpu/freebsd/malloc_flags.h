/* SPDX-License-Identifier: MIT */
/*
 * malloc_flags.h - the flags of malloc(9) that FreeBSD and DragonFly share, for code that
 * does not define them.
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

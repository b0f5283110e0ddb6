/* SPDX-License-Identifier: MIT */
/* Replaces FreeBSD's sys/sf_buf.h for unchanged sources. docs/freebsd.md says how
 * compilers find it. */
#ifndef PERCPU_FREEBSD_COMPAT_SYS_SF_BUF_H
#define PERCPU_FREEBSD_COMPAT_SYS_SF_BUF_H

#include <percpu/freebsd/sf_buf.h>

#endif

/* SPDX-License-Identifier: MIT */
/* Replaces Linux's linux/percpu.h for unchanged sources. docs/linux.md says how compilers find
 * it. */
#ifndef PERCPU_LINUX_COMPAT_LINUX_PERCPU_H
#define PERCPU_LINUX_COMPAT_LINUX_PERCPU_H

#include <percpu/linux/percpu.h>

#endif

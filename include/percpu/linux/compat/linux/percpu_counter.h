/* SPDX-License-Identifier: MIT */
/* Replaces Linux's linux/percpu_counter.h for unchanged sources. docs/linux.md says how
 * compilers find it. */
#ifndef PERCPU_LINUX_COMPAT_LINUX_PERCPU_COUNTER_H
#define PERCPU_LINUX_COMPAT_LINUX_PERCPU_COUNTER_H

#include <percpu/linux/percpu_counter.h>

#endif

/* SPDX-License-Identifier: MIT */
/*
 * process.h - processes, as other processes know them.
 */
#ifndef PERCPU_PROCESS_H
#define PERCPU_PROCESS_H

#include <stdint.h>

/** Return the number of this process's namespace of that kind ("pid", "time"); 0: not
 *  known. */
uint64_t percpu_namespace(const char *kind);

/** What tells a process from all others: its number, when it was started, in the kernel's
 *  ticks, and where these two are so: the boot, the PID namespace, the time namespace.
 *  Without /proc started and space are 0, which says that they are not known. */
struct percpu_identity {
	uint64_t started;
	uint64_t space;
	uint32_t pid;
};
struct percpu_identity percpu_identity(void);

enum percpu_life {
	PERCPU_LIFE_GONE,   /* it has ended, reaped or not, and another one may have its number */
	PERCPU_LIFE_THERE,  /* it runs, or is stopped */
	PERCPU_LIFE_HIDDEN, /* there is a process of that number, perhaps this one */
};

/** What has become of a process of the caller's own space. */
enum percpu_life percpu_life(uint32_t pid, uint64_t started);

#endif

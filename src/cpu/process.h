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

/** The identity of a process. */
struct percpu_identity {
	uint64_t started; /* when it was started, in the kernel's ticks; 0: not known (no /proc) */
	uint64_t space;	  /* hash of boot, PID namespace and time namespace; 0: not known */
	uint32_t pid;
};

/** Return the identity of this process. */
struct percpu_identity percpu_identity(void);

enum percpu_life {
	PERCPU_LIFE_GONE,   /* it has ended, reaped or not; another process may have its number */
	PERCPU_LIFE_THERE,  /* it runs, or is stopped */
	PERCPU_LIFE_HIDDEN, /* a process has that number, perhaps this one */
};

/** Return whether a process of the caller's own space lives. */
enum percpu_life percpu_life(uint32_t pid, uint64_t started);

#endif

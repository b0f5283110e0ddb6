/* SPDX-License-Identifier: MIT */
/*
 * jail.h - processes in mount namespaces of their own, where sysfs and /proc lie or
 * are missing. Which CPUs there are is found out once per process, so each case is
 * a child, and main() must not look.
 */
#ifndef TESTS_UNIT_JAIL_H
#define TESTS_UNIT_JAIL_H

#include <stdbool.h>

#define JAIL_POSSIBLE "/sys/devices/system/cpu/possible"
#define JAIL_ONLINE "/sys/devices/system/cpu/online"

/** Run fn in a child, and assert that it returns 0. The test is skipped where there
 *  are no two CPUs, or the child may not do what it, or one of the following, needs. */
void jail_run(int (*fn)(void *arg), void *arg);
void jail_need(bool ok);

/** From now on, mounts are the calling process's alone. */
void jail_enter(void);

/** Put a file of that text over another file. */
void jail_fake(const char *text, const char *over);

/** Put an empty directory over one, or nothing over a file, as containers do. */
void jail_hide(const char *directory);
void jail_mask(const char *file);

/** The highest CPU that the program may run on. */
unsigned jail_highest(void);

#endif

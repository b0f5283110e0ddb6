/* SPDX-License-Identifier: MIT */
/*
 * jail.h - processes in mount namespaces of their own, where sysfs and /proc are wrong or
 * missing. A process looks for CPUs once, so each case is a child, and main() must not look.
 */
#ifndef TESTS_UNIT_JAIL_H
#define TESTS_UNIT_JAIL_H

#include <stdbool.h>

#define JAIL_POSSIBLE "/sys/devices/system/cpu/possible"
#define JAIL_ONLINE "/sys/devices/system/cpu/online"

/** Run fn in a child, and assert that it returns 0. The test is skipped if there are no two CPUs,
 *  or if the child lacks a permission. */
void jail_run(int (*fn)(void *arg), void *arg);

/** In the child: skip the test unless ok. */
void jail_need(bool ok);

/** Give the calling process a mount namespace of its own. */
void jail_enter(void);

/** Put a file with that text over another file. */
void jail_fake(const char *text, const char *over);

/** Put an empty directory over a directory, as containers do. */
void jail_hide(const char *directory);

/** Put nothing over a file, as containers do. */
void jail_mask(const char *file);

/** Return the highest CPU that the program may run on. */
unsigned jail_highest(void);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * owners.h - a file with owners, opened to write, and to read as from outside; processes that
 * join them and stay; and what happens at a step of the library.
 */
#ifndef TESTS_UNIT_OWNERS_H
#define TESTS_UNIT_OWNERS_H

#include <stdint.h>
#include <sys/types.h>

#include <percpu/owned.h>

#define OWNERS_FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

extern struct percpu_region *region, *outside;
extern struct percpu_owners *owners, *asker; /* the latter from outside */
extern char owners_path[200];

/** The step where this process stops for good, having said that it is at stage 1; or where it
 *  calls a function once. */
extern const char *deadly;
extern void (*meanwhile)(void);

/** A step, and how often threads have come to it. */
extern const char *awaited;
extern uint32_t seen_there;

/** Around each test: a new file, of these options or the default ones, and the owners at its root
 *  0. */
int begin_owners_in(const struct percpu_region_options *o);
int begin_owners(void **state);
int end_owners(void **state);

/** Tell the other processes of the test how far this one is. */
void reach(uint32_t stage);

/** Wait until a child, or who is no child but 0, has come so far. */
void await(pid_t pid, uint32_t stage);

/** In a child: say that it is there, and do nothing else until it is killed. */
int stay(void);

/** Start a child. Returns when it is there, or is where it stops; the latter is this step. */
pid_t start(int (*fn)(void *), uintptr_t arg);
pid_t start_until(const char *step, int (*fn)(void *), uintptr_t arg);

/** Stop it as a signal does, and come back when it is; kill it. */
void suspend(pid_t pid);
void stop(pid_t pid);

#endif

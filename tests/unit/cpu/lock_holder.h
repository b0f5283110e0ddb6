/* SPDX-License-Identifier: MIT */
/* lock_holder.h - a robust lock that children share, and one that holds it. */
#ifndef TESTS_UNIT_LOCK_HOLDER_H
#define TESTS_UNIT_LOCK_HOLDER_H

#include "steps.h"
#include "support.h"

#include "memory/memory.h"

#define SHORT_NS (PERCPU_SECOND / 50)
#define LONG_NS (8 * PERCPU_SECOND)

struct shared {
	uint32_t word;
	uint32_t stage; /* what a child has come to */
	uint64_t sum[2];
};
extern struct shared *shared;

extern const char *step; /* where interfere() is called, in the thread that is there */
extern void (*interfere)(void);

int setup(void **state);
int reset(void **state);

/** Whether the lock of a holder that dies is taken over; says why not. */
bool recovers(void);

void reach(uint32_t stage);

/** Until a child has come so far. */
void wait_for_stage(pid_t pid, uint32_t stage);

/** Take the lock within so many ns, and let go; whatever was in the memory of its
 *  holder before. */
int lock_for(uint64_t ns);

/** In a child: take the lock, reach stage 1, wait for 2, let go, reach 3. */
int hold(void *arg);

#endif

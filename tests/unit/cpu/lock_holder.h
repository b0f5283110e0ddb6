/* SPDX-License-Identifier: MIT */
/* lock_holder.h - a robust lock that children share, and a child that holds it. */
#ifndef TESTS_UNIT_LOCK_HOLDER_H
#define TESTS_UNIT_LOCK_HOLDER_H

#include "steps.h"
#include "support.h"

#include "memory/memory.h"

#define SHORT_NS (PERCPU_SECOND / 50)
#define LONG_NS (8 * PERCPU_SECOND)

struct shared {
	uint32_t word;
	uint32_t stage; /* the stage that a child has reached */
	uint64_t sum[2];
};
extern struct shared *shared;

extern const char *step; /* the step at which interfere() is called */
extern void (*interfere)(void);

int setup(void **state);
int reset(void **state);

/** Return whether a dead holder's lock can be taken over; else say why not. */
bool recovers(void);

void reach(uint32_t stage);

/** Wait until a child has reached that stage. */
void wait_for_stage(pid_t pid, uint32_t stage);

/** Take the lock within so many ns, and release it, whatever its holder's memory was before. */
int lock_for(uint64_t ns);

/** In a child: take the lock, reach stage 1, wait for 2, release the lock, reach 3. */
int hold(void *arg);

#endif

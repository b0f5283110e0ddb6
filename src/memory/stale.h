/* SPDX-License-Identifier: MIT */
/*
 * stale.h - robust locks in files that outlive a boot of the machine.
 */
#ifndef PERCPU_STALE_H
#define PERCPU_STALE_H

#include "memory.h"

/** Locks that may have been held when the machine went down. */
struct percpu_stale {
	uint64_t *noted;  /* in the file: the boot in which they are held; 0: not known */
	uint64_t earlier; /* what that was, and is while no thread of this boot has them */
};

/** If the lock was held in the earlier boot, mark it as one whose holder died. */
void percpu_stale_mark(const struct percpu_stale *s, uint32_t *lock);

/** Return this boot; if it cannot be asked for now, that in which the region was opened, to write.
 *  0: not known. */
uint64_t percpu_stale_boot(const struct percpu_region *r);

/** Before this process takes any of the locks of an object: if they are of an earlier boot,
 *  call mark_all(), which marks each of them; and note this boot. The region is one in a file,
 *  and writable. */
void percpu_stale_settle(struct percpu_region *r, uint64_t *noted,
			 void (*mark_all)(const struct percpu_stale *s, const void *object),
			 const void *object);

/** Do so for the locks of the region, which has all its chunks mapped. */
void percpu_stale_settle_region(struct percpu_region *r);

#endif

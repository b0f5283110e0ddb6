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
	uint64_t earlier; /* what *noted is until a thread of this boot takes one of them */
};

/** If the lock was held in the earlier boot, mark it as one whose holder died. */
void percpu_stale_mark(const struct percpu_stale *s, uint32_t *lock);

/** Return the id of this boot, or 0 if it is not known. If the process has no descriptor to read
 *  it with, return the one that it read when it opened the region to write. */
uint64_t percpu_stale_boot(const struct percpu_region *r);

/** Call mark_all(), which marks each lock of an object, if the locks are of an earlier boot. Then
 *  note this boot. Call this before this process takes any of the locks. The region is in a file,
 *  and writable. */
void percpu_stale_recover(struct percpu_region *r, uint64_t *noted,
			  void (*mark_all)(const struct percpu_stale *s, const void *object),
			  const void *object);

/** Do the same for the locks of the region, which has all its chunks mapped. */
void percpu_stale_recover_region(struct percpu_region *r);

#endif

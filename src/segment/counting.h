/* SPDX-License-Identifier: MIT */
/*
 * counting.h - which processes have a segment open to count.
 */
#ifndef PERCPU_COUNTING_H
#define PERCPU_COUNTING_H

#include <stdbool.h>

struct percpu_descriptor;
struct percpu_region;
struct percpu_segment;

/** Be known to count in the new file of the region, before it has its name. */
void percpu_counting_announce(const struct percpu_region *r);

/** Be known to count as long as the segment is open, in this process or in a child of fork. path is
 *  that of the file, or NULL. Returns 0; -ESTALE if the path leads to another file now, or to none; or
 *  -ETIMEDOUT if for a second another process is about to remove the file. */
int percpu_counting_begin(const struct percpu_segment *s, const char *path);

/** Return whether the path leads to another file, or to none. A path that the process cannot follow
 *  to its end does not tell. */
bool percpu_path_leads_elsewhere(const char *path, const struct percpu_descriptor *d);

#endif

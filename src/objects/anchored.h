/* SPDX-License-Identifier: MIT */
/*
 * anchored.h - objects at any word of a file, as their open calls find or create them at roots.
 * The region is shared, and of the default geometry. A word that an anchor is yet to choose is
 * NULL.
 */
#ifndef PERCPU_OBJECTS_ANCHORED_H
#define PERCPU_OBJECTS_ANCHORED_H

#include <percpu/owned.h>
#include <percpu/stats.h>

#include "objects.h"

int percpu_counter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			   struct percpu_counter **ret);
int percpu_fcounter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			    struct percpu_fcounter **ret);
int percpu_gauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			 struct percpu_gauge **ret);
int percpu_fgauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_fgauge **ret);
int percpu_latest_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_latest **ret);
int percpu_histogram_open_at(struct percpu_region *r, struct percpu_anchor *at,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret);
int percpu_extrema_open_at(struct percpu_region *r, struct percpu_anchor *at, unsigned flags,
			   struct percpu_extrema **ret);
int percpu_owned_gauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
			       struct percpu_owned_gauge **ret);
int percpu_owned_fgauge_open_at(struct percpu_owners *o, struct percpu_anchor *at, unsigned rule,
				struct percpu_owned_fgauge **ret);
int percpu_stats_open_at(struct percpu_region *r, struct percpu_anchor *at, size_t size, size_t n,
			 unsigned flags, struct percpu_stats **ret);

/** Free the owned gauge that the word leads to, and its shares, under the lock of the allocator. It
 *  may have been freed in part. */
void percpu_owned_free_at(struct percpu_region *r, const struct percpu_anchor *at);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * reclaim.c - return what the whole process can do without. Free items come first: then their
 * cells and objects are free, too, when the pages of the regions are returned.
 */
#include <stdlib.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "lwbuf.h"

/* Empty one pool after the other. None is destroyed while it is pinned. */
static void reclaim_pools(void)
{
	struct percpu_thread_call within;
	struct percpu_pool *p = NULL;

	while ((p = percpu_pool_pin_next(p)) != NULL) {
		percpu_thread_enter_call(&within, &p->pins);
		PERCPU_STEP("pool: pinned");
		p->backend->reclaim(p->owner);
		percpu_thread_leave_call(&within);
	}
}

void percpu_reclaim(void)
{
	int state = percpu_defer_cancel();

	reclaim_pools();
	PERCPU_STEP("reclaim: pools emptied");
	percpu_lwbufs_reclaim();
	percpu_regions_reclaim();
#ifdef __GLIBC__
	(void)malloc_trim(0);
#endif
	percpu_restore_cancel(state);
}

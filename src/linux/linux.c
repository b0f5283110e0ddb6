/* SPDX-License-Identifier: MIT */
/*
 * linux.c - Linux's per-CPU variables, on top of percpu/variable.h.
 */
#include <percpu/linux/percpu.h>

#include "../cpu/debug.h"

void *percpu_linux_variable(struct percpu_image *image, void *variable)
{
	void *first = percpu_variable_at(image, variable, 0);

	if (image->stride != PERCPU_STRIDE)
		percpu_debug_die("per-CPU variables: no memory, or more than %d bytes",
				 PERCPU_LANE_SIZE);
	return first;
}

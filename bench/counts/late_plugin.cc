/* SPDX-License-Identifier: MIT */
/*
 * late_plugin.cc - the add of cells.h in a library that is loaded late: compiled with
 * PERCPU_LATE, and linked with the late library.
 */
#include <percpu/percpu.h>

#include "late_plugin.h"

static percpu_counter *counter[8];

static bool create()
{
	for (auto &c : counter)
		if (percpu_counter_create(&c) != 0)
			return false;
	return true;
}

template <unsigned n> static void batch()
{
	percpu_counter *const *const c = counter;

#pragma GCC unroll 8
	for (unsigned i = 0; i < late_batch; i++)
		percpu_counter_add(c[i % n], 1);
}

static void reset()
{
	for (auto c : counter)
		percpu_counter_zero(c);
}

static uint64_t total()
{
	uint64_t sum = 0;

	for (auto c : counter)
		sum += percpu_counter_fetch(c);
	return sum;
}

extern "C" PERCPU_API const late_plugin late;
const late_plugin late = { create, batch<1>, batch<8>, reset, total };

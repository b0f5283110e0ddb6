/* SPDX-License-Identifier: MIT */
/*
 * variable.cc - the benchmark of variable.h, beside a counter and a thread-local variable.
 *
 * usage: variable [--json FILE] [--benchmark_...]
 */
#include <percpu/variable.h>

#include "cells.h"

static PERCPU_VARIABLE(uint64_t, events);

struct variable_add {
	static inline uint64_t before;

	static void reset()
	{
		before = PERCPU_VARIABLE_SUM(events);
	}
	static uint64_t total()
	{
		return PERCPU_VARIABLE_SUM(events) - before;
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		PERCPU_VARIABLE_ADD(events, 1);
	}
};

int main(int argc, char **argv)
{
	report all("variable", argc, argv);

	measure<variable_add>("PERCPU_VARIABLE_ADD");
	measure<counter_add>(ADD);
	measure<tls_increment>("TLS increment");
	all.run();
	print_rows(all.rows, "One add", { "PERCPU_VARIABLE_ADD", ADD, "TLS increment" });
	all.print_sections();
	return all.finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * which.cc - one update of each kind of object that counts, in one run: the row of the table of
 * docs/which.md, and its picture. Beside them, an atomic add to one word.
 *
 * usage: which [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include "objects.h"
#include "owners/owners.h"

#define ATOMIC "std::atomic add"

/* The value is loaded, so that the compiler does not know its bucket. */
struct histogram_record : on_histogram<of_doubles> {
	static inline volatile const double value = 1.1e-6;

	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_histogram_record(h, value);
	}
};

int main(int argc, char **argv)
{
	report all("which", argc, argv);

	fprintf(stderr, "which: measuring, for about 40 seconds ...\n");
	measure<counter_add>(ADD);
	measure<array_add>("percpu_counter_array_add");
	measure<stats_add<0>>("percpu_stats_add");
	measure<stats_update<0>>("percpu_stats_update, 4 fields");
	measure<compact_add>("percpu_compact_add");
	measure<wbuf_add<1>>("percpu_wbuf_add");
	measure<fcounter_add>("percpu_fcounter_add");
	measure<gauge_add>("percpu_gauge_add");
	measure<histogram_record>("percpu_histogram_record");
	measure<extrema_observe<false>>("percpu_extrema_observe");
	measure<approx_add>("percpu_approx_add");
	measure<rate_check<PERCPU_RATE_MAX>>("percpu_rate_check");
	measure<owned_add>("percpu_owned_gauge_add");
	measure<atomic_add>(ATOMIC);
	all.run();
	print_rows(all.rows, "One update of each kind, ns, CPU time per thread: median (best)",
		   { ADD, "percpu_counter_array_add", "percpu_stats_add",
		     "percpu_stats_update, 4 fields", "percpu_compact_add", "percpu_wbuf_add",
		     "percpu_fcounter_add", "percpu_gauge_add", "percpu_histogram_record",
		     "percpu_extrema_observe", "percpu_approx_add", "percpu_rate_check",
		     "percpu_owned_gauge_add", ATOMIC });
	all.print_sections();
	return all.finish();
}

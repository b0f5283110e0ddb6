/* SPDX-License-Identifier: MIT */
/*
 * exemplar.cc - the benchmark of exemplar.h: storing an exemplar beside what it describes, and adds
 * to counters that have exemplars beside adds to those that have none.
 *
 * usage: exemplar [--json FILE] [--benchmark_...]
 */
#include <ctime>
#include <mutex>
#include <string>

#include <percpu/percpu.h>

#include "objects.h"

#define WITH "percpu_counter_add, of counters with exemplars"
#define STORE "percpu_exemplars_store, a trace id"
#define TWO "the same, two labels with 128 bytes"
#define BARE "the same, no labels"
#define ONE_SLOT "percpu_exemplars_store, one slot for all threads"
#define CLOCK "clock_gettime(CLOCK_REALTIME)"
#define BEHIND_MUTEX "a std::string and the time, under a mutex"
#define FETCH "percpu_exemplars_fetch"

static const percpu_exemplar_label trace_id = { "trace_id", "4bf92f3577b34da6a3ce929d0e0e4736" };
static const percpu_exemplar_label two_labels[] = {
	trace_id,
	{ "path",
	  "/a/path/of/some/length/that/fills/the/rest/of/the/bytes/of/an/exemplar/up/to/128/"
	  "abc" }
};

/* The counters of counter_add, each with exemplars. */
struct on_exemplars : on_counters {
	static inline percpu_exemplars *all[cells];

	static void make()
	{
		on_counters::make();
		for (unsigned i = 0; i < cells && !all[i]; i++)
			must(percpu_exemplars_create(nullptr, &all[i]), "exemplars");
	}
};

struct counter_with : on_exemplars {
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_add(at(i), 1);
	}
};

/* Each thread stores in slots of its own: most programs store rarely, and so seldom at once. */
template <unsigned n> struct store_own {
	static inline thread_local percpu_exemplars *own;

	[[gnu::always_inline]] void add(unsigned)
	{
		if (!own)
			must(percpu_exemplars_create(nullptr, &own), "exemplars");
		(void)percpu_exemplars_store(own, 1, two_labels, n);
	}
};

struct store_in_one {
	[[gnu::always_inline]] void add(unsigned)
	{
		static percpu_exemplars *const one = [] {
			percpu_exemplars *x;

			must(percpu_exemplars_create(nullptr, &x), "exemplars");
			return x;
		}();

		(void)percpu_exemplars_store(one, 1, &trace_id, 1);
	}
};

struct read_clock {
	[[gnu::always_inline]] void add(unsigned)
	{
		timespec t;

		clock_gettime(CLOCK_REALTIME, &t);
	}
};

/* What a program would do otherwise. */
struct store_locked {
	static inline std::mutex mutex;
	static inline std::string id;
	static inline timespec when;

	[[gnu::always_inline]] void add(unsigned)
	{
		const std::lock_guard<std::mutex> held(mutex);

		id = trace_id.value;
		clock_gettime(CLOCK_REALTIME, &when);
	}
};

static void register_tiers()
{
	measure<counter_add>(ADD);
	measure<counter_with>(WITH);
}

static void register_all()
{
	static percpu_exemplars *x;
	static percpu_exemplar found;

	measure<store_own<1>>(STORE);
	measure<store_own<2>>(TWO);
	measure<store_own<0>>(BARE);
	measure<store_in_one>(ONE_SLOT);
	measure<read_clock>(CLOCK);
	measure<store_locked>(BEHIND_MUTEX);
	must(percpu_exemplars_create(nullptr, &x), "exemplars");
	must(percpu_exemplars_store(x, 1, &trace_id, 1), "a store");
	measure_call(FETCH, [] { return percpu_exemplars_fetch(x, 0, &found); });
}

int main(int argc, char **argv)
{
	report all("exemplar", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "half a minute"))
		return 0;
	print_rows(all.rows, "Adds to counters, ns, CPU time per thread: median (best)",
		   { ADD, WITH });
	print_rows(all.rows, "Storing exemplars",
		   { STORE, TWO, BARE, ONE_SLOT, CLOCK, BEHIND_MUTEX });
	print_rows(all.rows, "Reading", { FETCH });
	all.add_aim("an add to a counter with exemplars, to one without", 1.05,
		    all.rows.ratio(WITH, 1, ADD, 1));
	all.print_sections();
	return all.finish();
}

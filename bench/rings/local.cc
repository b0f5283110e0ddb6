/* SPDX-License-Identifier: MIT */
/*
 * local.cc - the benchmark of local.h: words with each fallback, arrays, queues; and the
 * fallbacks themselves.
 *
 * usage: local [--json FILE] [--benchmark_...]
 */

#include <percpu/local.h>

#include "add.h"

static const std::vector<std::string> on_all_tiers = {
	"percpu_local_add, split",
	"percpu_local_add, lock",
	"percpu_local_add, refs",
};

template <percpu_local_fallback fallback> struct on_local {
	static inline percpu_local *l;
	static inline int64_t before;

	static void make()
	{
		if (!l)
			must(percpu_local_create(8, fallback, &l), "a word");
	}
	static void reset()
	{
		before = percpu_local_sum(l);
	}
	static uint64_t total()
	{
		return percpu_local_sum(l) - before;
	}
};

template <percpu_local_fallback fallback> struct local_add : on_local<fallback> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_local_add(on_local<fallback>::l, 1);
	}
};

struct local_add_return : on_local<PERCPU_LOCAL_LOCK> {
	[[gnu::always_inline]] void add(unsigned)
	{
		int64_t v;

		if (percpu_local_add_return(l, 1, &v) != 0)
			__builtin_trap();
	}
};

struct local_add_limit : on_local<PERCPU_LOCAL_LOCK> {
	[[gnu::always_inline]] void add(unsigned)
	{
		int64_t v;

		if (percpu_local_add_limit(l, 1, INT64_MAX, &v) != 0)
			__builtin_trap();
	}
};

/* Push and pop an item, as an allocator does. */
struct push_pop {
	static inline percpu_local *array;

	static void make()
	{
		must(percpu_local_create(8 + 64 * 8, PERCPU_LOCAL_LOCK, &array), "an array");
	}
	[[gnu::always_inline]] void add(unsigned)
	{
		void *item;

		if (percpu_local_push(array, 64, this) != 0 || percpu_local_pop(array, &item) != 0)
			__builtin_trap();
	}
};

static void register_tiers()
{
	measure<local_add<PERCPU_LOCAL_SPLIT>>(on_all_tiers[0]);
	measure<local_add<PERCPU_LOCAL_LOCK>>(on_all_tiers[1]);
	measure<local_add<PERCPU_LOCAL_REFS>>(on_all_tiers[2]);
}

static void register_all()
{
	measure<local_add_return>("percpu_local_add_return");
	measure<local_add_limit>("percpu_local_add_limit");
	measure<push_pop>("percpu_local_push and _pop");
	measure<hidden_cpu<local_add<PERCPU_LOCAL_SPLIT>>>("fallback: split counters");
	measure<hidden_cpu<local_add<PERCPU_LOCAL_LOCK>>>("fallback: flag with lock");
	measure<hidden_cpu<local_add<PERCPU_LOCAL_REFS>>>("fallback: reference count");
}

int main(int argc, char **argv)
{
	report all("local", argc, argv);

	if (!all.run_tiers(register_tiers, register_all, "about 40 seconds"))
		return 0;
	print_rows(all.rows, "Words and arrays of the current CPU", on_all_tiers);
	print_rows(all.rows, "What else there is, and the fallbacks on tier rseq",
		   { "percpu_local_add_return", "percpu_local_add_limit",
		     "percpu_local_push and _pop", "fallback: split counters",
		     "fallback: flag with lock", "fallback: reference count" });
	for (std::string tier : { " (tier cpu)", " (tier shared)" }) {
		std::vector<std::string> names;

		for (auto &name : on_all_tiers)
			names.push_back(name + tier);
		print_rows(all.rows, ("The lower tiers:" + tier).c_str(), names);
	}
	all.print_sections();
	return all.finish();
}

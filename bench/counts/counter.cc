/* SPDX-License-Identifier: MIT */
/*
 * counter.cc - the benchmark of counter.h: adds in every pattern, beside alternatives; several
 * words in one commit; reading; the lower tiers.
 *
 * usage: counter [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include <percpu/freebsd.h>

#include "counter.h"
#include "objects.h"

/* In turn, each add goes to its own cache line. */
template <unsigned words> struct vector_add : on_array {
	static constexpr unsigned adds = words;
	const percpu_counter_array *const a = array;

	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter_array_add_n(a, i * 8, ones, words);
	}
};

struct static_add {
	static inline percpu_static_counter statics[cells];

	static void make()
	{
		for (auto &s : statics)
			must(percpu_static_counter_setup(&s), "a static counter");
	}
	static void reset()
	{
		for (auto &s : statics)
			percpu_static_counter_zero(&s);
	}
	static uint64_t total()
	{
		uint64_t sum = 0;

		for (auto &s : statics)
			sum += percpu_static_counter_fetch(&s);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_static_counter_add(&statics[i], 1);
	}
};

struct freebsd_add : on_counters {
	[[gnu::always_inline]] void add(unsigned i)
	{
		counter_u64_add((counter_u64_t)(void *)at(i), 1);
	}
};

/* Words that the program has just stored, as in most programs. */
struct fresh_add : on_array {
	static constexpr unsigned adds = 2;
	const percpu_counter_array *const a = array;

	[[gnu::always_inline]] void add(unsigned i)
	{
		int64_t n[2] = { 1, 1 };

		__asm__ volatile("" : "+m"(n[0]), "+m"(n[1]));
		percpu_counter_array_add_n(a, i * 8, n, 2);
	}
};

static void register_tiers()
{
	measure<counter_add>(ADD);
	measure<array_add>("percpu_counter_array_add");
}

static void register_adds()
{
	measure<tls_increment>("TLS increment");
	measure<two_stores>("two stores");
	measure<unprotected>(UNPROTECTED);
	measure<unprotected, in_turn>(UNPROTECTED IN_TURN);
	measure<unprotected, amid_work>(UNPROTECTED AMID_WORK);
	measure<counter_add, in_turn>(ADD IN_TURN);
	measure<counter_add, amid_work>(ADD AMID_WORK);
#ifdef HAVE_LIBRSEQ
	measure<librseq_add>(LIBRSEQ);
	measure<librseq_add, in_turn>(LIBRSEQ IN_TURN);
	measure<librseq_add, amid_work>(LIBRSEQ AMID_WORK);
#endif
	measure<percpu_atomic>(LOCKED);
	measure<percpu_atomic, in_turn>(LOCKED IN_TURN);
	measure<percpu_atomic, amid_work>(LOCKED AMID_WORK);
	measure<percpu_atomic_getcpu>("per-CPU atomic inc, sched_getcpu()");
	measure<nothing, amid_work>("the work alone");
	measure<tls_increment, amid_work>("TLS increment" AMID_WORK);
	measure<static_add>("percpu_static_counter_add");
	measure<freebsd_add>("counter_u64_add");
	measure<hidden_cpu<counter_add>>("fallback: " ADD);
}

static void register_vectors()
{
	measure<vector_add<2>, in_turn>("percpu_counter_array_add_n, 2 words");
	measure<vector_add<4>, in_turn>("percpu_counter_array_add_n, 4 words");
	measure<vector_add<8>, in_turn>("percpu_counter_array_add_n, 8 words");
	measure<fresh_add, in_turn>("percpu_counter_array_add_n, 2 words, just stored");
	measure<vector_add<2>>("percpu_counter_array_add_n, 2 words, same line");
	measure<vector_add<2>, amid_work>("percpu_counter_array_add_n, 2 words" AMID_WORK);
	measure<vector_add<4>>("percpu_counter_array_add_n, 4 words, same line");
	measure<vector_add<4>, amid_work>("percpu_counter_array_add_n, 4 words" AMID_WORK);
	measure<vector_add<8>>("percpu_counter_array_add_n, 8 words, same line");
	measure<vector_add<8>, amid_work>("percpu_counter_array_add_n, 8 words" AMID_WORK);
}

static void print_sum(const results &r)
{
	const row *fetch = r.find("percpu_counter_array_fetch_all");
	const row *plain = r.find("plain sum of as many bytes");

	if (!fetch || !plain)
		return;
	printf("\nA sum over 1 000 000 counters: %.2f ms, %s ns per counter, wrong by %s.\n"
	       "A plain sum of as many bytes as it reads: %.2f ms; ratio %s.\n",
	       fetch->median(), ns_text(fetch->median()).c_str(), loss(fetch).c_str(),
	       plain->median(), ratio_text(ratio_of(fetch->ns, plain->ns)).c_str());
}

static void add_aims(report &all)
{
	const results &r = all.rows;

	all.add_aim("an add to an unprotected per-CPU add", 1.2, r.ratio(ADD, 1, UNPROTECTED, 1));
	all.add_aim("the same, 8 counters in turn", 1.2,
		    r.ratio(ADD IN_TURN, 1, UNPROTECTED IN_TURN, 1));
	all.add_aim("an add to librseq's", 0.75, r.ratio(ADD, 1, LIBRSEQ, 1));
	all.add_aim("the same, 8 counters in turn", 0.75,
		    r.ratio(ADD IN_TURN, 1, LIBRSEQ IN_TURN, 1));
	all.add_aim("an add to a per-CPU locked add", 0.4, r.ratio(ADD, 1, LOCKED, 1));
	all.add_aim("the same, 8 counters in turn", 0.4,
		    r.ratio(ADD IN_TURN, 1, LOCKED IN_TURN, 1));
	/* The same speed, within the tenth by which medians differ from run to run. */
	all.add_aim("an add in 2 threads to one in 1", 1.1, r.ratio(ADD, 2, ADD, 1));
}

static void print_adds(const results &r)
{
	print_rows(r, "One add, ns, CPU time per thread: median (best)",
		   { "TLS increment", "two stores", UNPROTECTED, ADD, LATE, LIBRSEQ, LOCKED,
		     "per-CPU atomic inc, sched_getcpu()", UNPROTECTED IN_TURN, ADD IN_TURN,
		     LATE IN_TURN, LIBRSEQ IN_TURN, LOCKED IN_TURN, "percpu_counter_array_add",
		     "percpu_static_counter_add", "counter_u64_add", "fallback: " ADD });
	print_rows(r, "The same amid other work, whose time is included",
		   { "the work alone", "TLS increment" AMID_WORK, UNPROTECTED AMID_WORK,
		     ADD AMID_WORK, LIBRSEQ AMID_WORK, LOCKED AMID_WORK });
	print_rows(r, "Several words in one commit; 8 cache lines in turn, or one",
		   { "percpu_counter_array_add_n, 2 words", "percpu_counter_array_add_n, 4 words",
		     "percpu_counter_array_add_n, 8 words",
		     "percpu_counter_array_add_n, 2 words, just stored",
		     "percpu_counter_array_add_n, 2 words, same line",
		     "percpu_counter_array_add_n, 4 words, same line",
		     "percpu_counter_array_add_n, 8 words, same line",
		     "percpu_counter_array_add_n, 2 words" AMID_WORK,
		     "percpu_counter_array_add_n, 4 words" AMID_WORK,
		     "percpu_counter_array_add_n, 8 words" AMID_WORK });
	for (std::string tier : { " (tier cpu)", " (tier shared)" })
		print_rows(r, ("The lower tiers:" + tier).c_str(),
			   { ADD + tier, "percpu_counter_array_add" + tier });
	print_rows(r, "Reading",
		   { "percpu_counter_fetch, 2 lanes", "percpu_counter_fetch, 128 lanes" });
}

/* The minimum of a sequence: it stores to the area and to the counter. */
static void print_floor(const results &r)
{
	auto ratio = r.ratio("two stores", 1, UNPROTECTED, 1);

	if (ratio)
		printf("\nTwo stores to two cache lines, which every sequence makes, take %s of an\n"
		       "unprotected per-CPU add, which makes one.\n",
		       ratio_text(ratio).c_str());
}

static void register_all()
{
	register_adds();
	register_vectors();
	register_late();
	register_reads();
}

int main(int argc, char **argv)
{
	report all("counter", argc, argv);

	if (!all.run_tiers(register_tiers, register_all,
			   "about 2 minutes and more where other programs run; prints at the end; "
			   "--benchmark_filter=REGEX measures a part"))
		return 0;
#ifndef HAVE_LIBRSEQ
	all.skip(LIBRSEQ, "pkg-config found no librseq");
#endif
	print_adds(all.rows);
	print_sum(all.rows);
	add_aims(all);
	all.print_sections();
	print_floor(all.rows);
	return all.finish();
}

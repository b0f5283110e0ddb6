/* SPDX-License-Identifier: MIT */
/*
 * counters_tables.cc - the tables that others have published, row by row, with
 * our figures beside them; and what only this benchmark has.
 */
#include <cstdio>

#include "counters.h"

/* Median time of a process, in seconds for so many adds. */
static std::string seconds(const row *r, double adds)
{
	return r ? text("%.3f s", r->median() * adds / 1e9) : "-";
}

static void print_slides(const results &r)
{
	static const struct {
		const char *name, *one, *eight;
		const char *ours;
	} published[] = {
		{ "global volatile inc (baseline)", "2.3", "", "global volatile inc" },
		{ "per-CPU rseq inc", "2.1", "2.6", ADD },
		{ "per-CPU rseq lock, cmpxchg", "3.0", "3.4", "per-CPU rseq lock, cmpxchg" },
		{ "per-CPU rseq spinlock", "4.9", "5.2", "per-CPU rseq spinlock" },
		{ "per-CPU atomic inc", "6.2", "6.9", LOCKED },
		{ "per-CPU atomic cmpxchg", "10.0", "11.6", "per-CPU atomic cmpxchg" },
		{ "global atomic inc", "6.2", "134", "global atomic inc" },
		{ "global atomic cmpxchg", "10.0", "356", "global atomic cmpxchg" },
		{ "global pthread mutex", "19.2", "993", "global pthread mutex" },
	};

	printf("\nRestartable sequences, 2016 slides: counter increment, ns, "
	       "CPU time per thread\n"
	       "Published: Xeon E5-2630 v3. Here: median (best); 8 threads share %zu CPUs.\n\n"
	       "%-32s%8s%8s  %-16s%-16s%-18s%s\n",
	       usable_cpus().size(), "", "publ. 1", "8", "here 1", "2", "8", "lost");
	for (auto &p : published)
		printf("%-32s%8s%8s  %-16s%-16s%-18s%s\n", p.name, p.one, p.eight,
		       median_best(r.find(p.ours, 1)).c_str(),
		       median_best(r.find(p.ours, 2)).c_str(),
		       median_best(r.find(p.ours, 8)).c_str(), worst_loss(r, p.ours).c_str());
}

static void print_announcement(const results &r)
{
	static const struct {
		const char *name;
		double bound, unbound;
		const char *loss;
		const char *ours;
	} published[] = {
		{ "counter(9)", 17.66, 21.83, "0", "counter" },
		{ "racy +=", 18.55, 25.44, "25 %, 20 %", "+=" },
		{ "atomic(9)", 34.16, 32.85, "0", "atomic" },
	};
	int n = usable_cpus().size();
	const row *base[2] = { r.find("processes, bound: counter", n),
			       r.find("processes, unbound: counter", n) };

	printf("\nFreeBSD counter(9), announcement of 2013: a process per core, each adding 10^6\n"
	       "times, in a system call. Published: 4 processes, Xeon E5620, time of the parent.\n"
	       "Here: %d processes, each add after a system call. Ratios are to counter(9).\n\n"
	       "%-12s%10s%7s%10s%7s  %-12s  %-16s%-16s%s\n",
	       n, "", "bound", "", "unbound", "", "lost", "here bound", "unbound", "lost");
	for (auto &p : published) {
		const row *bound = r.find(std::string("processes, bound: ") + p.ours, n);
		const row *unbound = r.find(std::string("processes, unbound: ") + p.ours, n);
		auto here = [](const row *x, const row *to) {
			return x && to ?
				       seconds(x, 1e6) + text(" %.2f", x->median() / to->median()) :
				       "-";
		};

		printf("%-12s%8.2f s%7.2f%8.2f s%7.2f  %-12s  %-16s%-16s%s, %s\n", p.name, p.bound,
		       p.bound / published[0].bound, p.unbound, p.unbound / published[0].unbound,
		       p.loss, here(bound, base[0]).c_str(), here(unbound, base[1]).c_str(),
		       loss(bound).c_str(), loss(unbound).c_str());
	}
}

static void print_course_work(const results &r)
{
	static const struct table {
		const char *title, *ours;
		struct {
			const char *name;
			double seconds;
			const char *loss, *ours;
		} rows[3];
	} tables[] = {
		{ "10^7 calls of 10 adds",
		  "calls of 10 adds: ",
		  { { "+=", 4.24, "12.9 %", "+=" },
		    { "atomic(9)", 7.02, "0", "atomic" },
		    { "counter(9)", 3.52, "0", "counter" } } },
		{ "1 call of 10^9 adds",
		  "one call: ",
		  { { "+=", 3.65, "74.9 %", "+=" },
		    { "atomic(9)", 58.74, "0", "atomic" },
		    { "counter(9)", 2.50, "0", "counter" } } },
	};
	static const char *const published_events[3] = { "4.8e7, 3.7e7", "1.0e9, 1.0e9",
							 "2.6e4, 3.7e4" };
	int n = usable_cpus().size();

	printf("\nThe course work on counter(9): 4 processes on even CPUs, Xeon E5620.\n"
	       "Here: %d processes, one per CPU%s. Ratios are to counter(9).\n",
	       n, full ? "" : ", and a 10th of the adds (--full: all of them)");
	for (auto &t : tables) {
		const row *base = r.find(std::string(t.ours) + "counter", n);

		printf("\n%-24s%8s%7s  %-8s  %-16s%s\n", t.title, "publ.", "ratio", "lost", "here",
		       "lost");
		for (auto &p : t.rows) {
			const row *x = r.find(std::string(t.ours) + p.ours, n);

			printf("%-24s%6.2f s%7.2f  %-8s  %-16s%s\n", p.name, p.seconds,
			       p.seconds / t.rows[2].seconds, p.loss,
			       x && base ? (seconds(x, x->ops / n / x->ns.size()) +
					    text(" %.2f", x->median() / base->median()))
						   .c_str() :
					   "-",
			       loss(x).c_str());
		}
	}
	printf("\nHardware events, L1 prefetch misses and L2 RFO requests: %s\n",
	       hardware_events().c_str());
	for (int i = 0; i < 3; i++) {
		const row *x = r.find(tables[0].ours + std::string(tables[0].rows[i].ours), n);
		std::string here;

		for (auto &[name, value] : x ? x->events : std::map<std::string, double>())
			here += text(" %s %.1e", name.c_str(), value);
		printf("%-24s%s  %s\n", tables[0].rows[i].name, published_events[i], here.c_str());
	}
}

static void print_cpu_number(const results &r)
{
	static const struct {
		const char *name;
		double ns;
	} published[] = {
		{ "empty loop", 0.8 },	 { "rseq area", 0.8 },	  { "lsl", 13.0 },
		{ "vDSO getcpu", 16.6 }, { "system call", 53.9 },
	};

	printf("\nThe CPU number, 2016 slides, ns\n\n%-24s%8s  %s\n", "", "publ.", "here");
	for (auto &p : published)
		printf("%-24s%8.1f  %s\n", p.name, p.ns,
		       median_best(r.find(std::string("CPU number: ") + p.name)).c_str());
}

static void print_sum(const results &r)
{
	const row *fetch = r.find("percpu_counter_array_fetch_all");
	const row *plain = r.find("plain sum of as many bytes");

	if (!fetch || !plain)
		return;
	printf("\nA sum over 1 000 000 counters: %.2f ms, %s ns per counter, wrong by %s.\n"
	       "A plain sum of as many bytes as it reads: %.2f ms; ratio %.2f.\n",
	       fetch->median(), ns_text(fetch->median()).c_str(), loss(fetch).c_str(),
	       plain->median(), fetch->median() / plain->median());
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
	/* As fast: within the tenth that medians differ from run to run. */
	all.add_aim("an add in 2 threads to one in 1", 1.1, r.ratio(ADD, 2, ADD, 1));
}

void print_tables(report &all)
{
	const results &r = all.rows;

	print_slides(r);
	print_announcement(r);
	print_course_work(r);
	print_cpu_number(r);
	print_rows(r, "One add, ns, CPU time per thread: median (best)",
		   { "TLS increment", "two stores", UNPROTECTED, ADD, LATE, LIBRSEQ, LOCKED,
		     "per-CPU atomic inc, sched_getcpu()", UNPROTECTED IN_TURN, ADD IN_TURN,
		     LATE IN_TURN, LIBRSEQ IN_TURN, LOCKED IN_TURN, "percpu_counter_array_add",
		     "percpu_static_counter_add", "counter_u64_add" });
	print_rows(r, "One update of each kind of counter",
		   { ADD, "percpu_counter_array_add", STATS_ADD, STATS_UPDATE, COMPACT, WBUF });
	print_rows(r, "The same amid other work, whose time is included",
		   { "the work alone", "TLS increment" AMID_WORK, UNPROTECTED AMID_WORK,
		     ADD AMID_WORK, LIBRSEQ AMID_WORK, LOCKED AMID_WORK });
	print_rows(r, "Several words in one commit; 8 cache lines in turn, or one",
		   { "percpu_counter_array_add2", "percpu_counter_array_add4",
		     "percpu_counter_array_add8", "percpu_counter_array_add2, same line",
		     "percpu_counter_array_add4, same line", "percpu_counter_array_add8, same line",
		     "percpu_counter_array_add2" AMID_WORK, "percpu_counter_array_add4" AMID_WORK,
		     "percpu_counter_array_add8" AMID_WORK });
	print_rows(r, "Statistics of 4 fields: one of them, or all with one commit",
		   { STATS_ADD, STATS_ADD IN_COPIES, STATS_UPDATE, STATS_UPDATE IN_COPIES });
	print_rows(r, "Operations that cannot be split, and their fallbacks on tier rseq",
		   { "percpu_local_add, split", "percpu_local_add, lock", "percpu_local_add, refs",
		     "percpu_local_add_return", "percpu_local_add_limit",
		     "fallback: split counters", "fallback: flag with lock",
		     "fallback: reference count", "fallback: " ADD });
	for (std::string tier : { " (tier cpu)", " (tier shared)" }) {
		std::vector<std::string> names;

		for (auto name : { ADD, "percpu_counter_array_add", "percpu_local_add, split",
				   "percpu_local_add, lock", "percpu_local_add, refs", STATS_ADD,
				   STATS_UPDATE })
			names.push_back(name + tier);
		print_rows(r, ("The lower tiers:" + tier).c_str(), names);
	}
	print_rows(r, "Reading and fencing",
		   { "percpu_counter_fetch, 2 lanes", "percpu_counter_fetch, 128 lanes",
		     "percpu_fence, idle", "percpu_fence, busy", "percpu_fence_all, idle",
		     "percpu_fence_all, busy" });
	print_sum(r);

	all.add_condition("hardware events", hardware_events());
	add_aims(all);
	all.print_sections();

	/* What no sequence gets below: it stores to the area and to the counter. */
	const row *floor = r.find("two stores"), *plain = r.find(UNPROTECTED);

	if (floor && plain)
		printf("\nTwo stores to two cache lines, which every sequence makes, take %.2f of an\n"
		       "unprotected per-CPU add, which makes one.\n",
		       floor->median() / plain->median());
}

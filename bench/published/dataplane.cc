/* SPDX-License-Identifier: MIT */
/*
 * dataplane.cc - statistics of a data plane, after the published benchmark of "Data Plane
 * Software Design": the time that updates of counters add to a packet whose domain logic takes
 * about 1000 cycles. As published, the CPU may count while it runs the logic. In a fenced
 * setting, it waits for either to be done, which shows latencies.
 *
 * usage: dataplane [--full] [--quick] [--json FILE] [--benchmark_...]
 *
 * --benchmark_filter takes names of settings, "delay", and names of calls that read.
 */
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "dataplane.h"

static constexpr double budget = 15; /* cycles per update */

static const setting settings[] = {
	{ "1024 flows", 1024, 2, 1, true, false, false },
	{ "64 flows", 64, 2, 1, true, false, false },
	{ "1 000 000 flows", 1000000, 2, 1, true, false, false },
	{ "16 counters", 1024, 8, 1, true, false, false },
	{ "apart", 1024, 2, 1, true, true, false },
	{ "unpinned", 1024, 2, 1, false, false, false },
	{ "4 threads per CPU", 1024, 2, 4, false, false, false },
	{ "fenced", 1024, 2, 1, true, false, true },
	{ "fenced, 16 counters", 1024, 8, 1, true, false, true },
	{ "no affinity", 1024, 2, 1, true, false, false, ANYWHERE },
	{ "one large flow", 1024, 2, 1, true, false, false, ONE_FLOW },
	{ "vectors of 32", 1024, 2, 1, true, false, false, AT_HOME, 32 },
};

/* Published core cycles per update of a counter: Cascade Lake with 4 and 20 cores, and BCM2711
 * with 4. */
static const struct {
	const char *name, *cascade_lake_4, *cascade_lake_20, *bcm2711;
} contenders_in_order[] = {
	{ NOTHING, "", "", "" },
	{ UNSYNCHRONIZED, "27", "273", "26" },
	{ "shared, spinlock", "436", "8236", "36" },
	{ TICKET_LOCK, "", "", "" },
	{ "shared, atomics", "56", "626", "85" },
	{ BUFFERED, "18", "18", "24" },
	{ BUFFERED_INLINED, "", "", "" },
	{ PER_CORE, "5", "4", "4" },
	{ PER_CORE_AT_HAND, "", "", "" },
	{ "per core, spinlock", "7", "7", "4" },
	{ PER_CORE_SEQCOUNT, "4", "4", "8" },
	{ FIELDS, "", "", "" },
	{ COMMIT, "", "", "" },
	{ SNAPSHOTS, "", "", "" },
	{ WHOLE, "", "", "" },
	{ WBUF, "", "", "" },
	{ COMPACT, "", "", "" },
	{ ARRAY, "", "", "" },
};

static double cycles_at(const row &r, double share)
{
	std::vector<double> v = r.ns;

	std::sort(v.begin(), v.end());
	return v[size_t(double(v.size() - 1) * share)] * cycles_per_ns();
}

static const char *const flows_text[] = { "", ", each on all cores",
					  ", but all packets are of one" };

static void print_setting(report &all, const setting &s)
{
	std::vector<std::vector<std::string>> lines = {
		{ "", "publ. 4", "20 cores", "A72", "here", "quartiles", "of 15", "lost" },
	};

	for (auto &c : contenders_in_order) {
		const row *r = all.rows.find(row_name(s, c.name), int(s.workers()));

		if (!r)
			continue;

		double cycles = r->median() * cycles_per_ns();

		lines.push_back({ c.name, c.cascade_lake_4, c.cascade_lake_20, c.bcm2711,
				  text("%.1f", cycles),
				  text("%.1f to %.1f", cycles_at(*r, 0.25), cycles_at(*r, 0.75)),
				  text("%.0f %%", cycles / budget * 100), loss(r) });
		all.add_figure(r->name, cycles, "TSC cycles per update");
	}
	printf("\n%s: %zu flows%s, %u counters per packet, %s, %u %s threads%s\n\n", s.name,
	       s.flows, flows_text[s.how], 2 * s.fields,
	       s.vector > 1 ? "the global ones updated once per vector" :
	       s.apart	    ? "updated at two points" :
			      "updated together",
	       s.workers(), s.pinned ? "pinned" : "unpinned",
	       s.fenced ? "; counting does not overlap with logic" : "");
	print_table(lines);
}

/* Return the possible error of the median, as the notches of box plots show it. */
static double notch(const row &r)
{
	return 1.57 * (cycles_at(r, 0.75) - cycles_at(r, 0.25)) / std::sqrt(double(r.ns.size()));
}

/* A ratio to a value that cannot be told from 0 would be noise. Then the ratio is to the least value
 * that could be told from it, or, if ours cannot be told from 0 either, there is none. */
static void add_aim(report &all, const setting &s, const char *ours, double at_most,
		    const char *theirs)
{
	const std::string name = row_name(s, ours) + ", to " + theirs;
	const row *o = all.rows.find(row_name(s, ours), int(s.workers()));
	const row *t = all.rows.find(row_name(s, theirs), int(s.workers()));

	if (!o || !t) {
		all.add_aim(name, at_most, {});
		return;
	}

	double mine = o->median() * cycles_per_ns(), other = t->median() * cycles_per_ns();
	const double seen = notch(*o) + notch(*t);

	if (mine <= seen && other <= seen) {
		all.add_aim(name, at_most, {}, "both too little to tell from nothing");
		return;
	}
	if (other > seen)
		all.add_aim(name, at_most, ratio_of(o->ns, t->ns));
	else
		all.add_aim(text("%s, taken as %.1f cycles", name.c_str(), seen), at_most,
			    ratio_to(o->ns, seen / cycles_per_ns()));
}

static void add_aims(report &all, const setting &s)
{
	add_aim(all, s, FIELDS, 1.2, PER_CORE);
	add_aim(all, s, COMMIT, 1.2, PER_CORE);
	add_aim(all, s, SNAPSHOTS, 1.0, PER_CORE_SEQCOUNT);
	add_aim(all, s, WBUF, 1.0, BUFFERED);
}

int main(int argc, char **argv)
{
	report all("dataplane", argc, argv);
	bool exact = true;

	const unsigned rounds = full ? 1600 : quick ? 100 : 800;

	fprintf(stderr, "dataplane: measuring, up to %u minutes ...\n", 1 + rounds / 100);
	printf("\nCycles of the TSC, %.2f GHz, per update of a counter: what counting adds to the\n"
	       "logic of a packet, about 1000 cycles; median of the rounds. Per core is per thread.\n",
	       cycles_per_ns());
	for (auto &s : settings) {
		if (!all.given.want(s.name))
			continue;
		if (s.workers() > s.flows) { /* flow_of() has no flow for each */
			all.skip(s.name, "more threads than flows");
			continue;
		}
		exact = measure(all, s, rounds) && exact;
		print_setting(all, s);
		fflush(stdout);
		add_aims(all, s);
	}
	if (all.given.want("delay"))
		measure_delays(all);
	if (register_reads(all)) {
		all.run();
		print_reads(all.rows);
	}
	all.print_sections();

	int status = all.finish();

	return exact ? status : 1;
}

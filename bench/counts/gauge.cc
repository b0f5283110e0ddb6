/* SPDX-License-Identifier: MIT */
/*
 * gauge.cc - the benchmark of gauge.h: adds beside those to counters, setting and reading,
 * beside prometheus-cpp's gauges.
 *
 * usage: gauge [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include "objects.h"
#include "prometheus.h"

#define GADD "percpu_gauge_add"
#define FGADD "percpu_fgauge_add"
#define PROMETHEUS "prometheus-cpp Gauge"

struct fgauge_add {
	static inline percpu_fgauge *gauge[cells];

	static void make()
	{
		for (auto &g : gauge)
			if (!g)
				must(percpu_fgauge_create(&g), "a gauge of doubles");
	}
	static void reset()
	{
		for (auto g : gauge)
			must(percpu_fgauge_set(g, 0), "to set a gauge");
	}
	static double total()
	{
		double sum = 0;

		for (auto g : gauge)
			sum += percpu_fgauge_fetch(g);
		return sum;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_fgauge_add(gauge[i], 1.0);
	}
};

template <class C> static void measure_patterns(const std::string &name)
{
	measure<C>(name);
	measure<C, in_turn>(name + IN_TURN);
	measure<C, amid_work>(name + AMID_WORK);
}

static void measure_calls()
{
	static percpu_gauge *g;
	static percpu_fgauge *f;
	static percpu_latest *l;
	static double v;
	static uint64_t ns;

	must(percpu_gauge_create(&g), "a gauge");
	must(percpu_fgauge_create(&f), "a gauge of doubles");
	must(percpu_latest_create(&l), "a latest value");
	must(percpu_latest_set(l, 1), "its value");
	measure_call("percpu_gauge_set", [] { return percpu_gauge_set(g, 1); });
	measure_call("percpu_fgauge_set", [] { return percpu_fgauge_set(f, 1); });
	measure_call("percpu_latest_set", [] { return percpu_latest_set(l, 1); });
	measure_call("percpu_gauge_fetch", [] { return percpu_gauge_fetch(g); });
	measure_call("percpu_fgauge_fetch", [] { return percpu_fgauge_fetch(f); });
	measure_call("percpu_latest_fetch", [] { return percpu_latest_fetch(l, &v, &ns); });
}

int main(int argc, char **argv)
{
	report all("gauge", argc, argv);

	fprintf(stderr, "gauge: measuring, for about half a minute ...\n");
	measure_patterns<counter_add>(ADD);
	measure_patterns<gauge_add>(GADD);
	measure_patterns<fgauge_add>(FGADD);
#ifdef HAVE_PROMETHEUS
	measure_patterns<prometheus_add<prometheus::Gauge>>(PROMETHEUS);
#else
	all.skip(PROMETHEUS, "prometheus-cpp is not installed");
#endif
	measure_calls();
	all.run();
	print_rows(all.rows, "One add, ns, CPU time per thread: median (best)",
		   { ADD, GADD, FGADD, PROMETHEUS, ADD IN_TURN, GADD IN_TURN, FGADD IN_TURN,
		     PROMETHEUS IN_TURN });
	print_rows(all.rows, "The same amid other work, whose time is included",
		   { ADD AMID_WORK, GADD AMID_WORK, FGADD AMID_WORK, PROMETHEUS AMID_WORK });
	print_rows(all.rows, "Setting and reading",
		   { "percpu_gauge_set", "percpu_fgauge_set", "percpu_latest_set",
		     "percpu_gauge_fetch", "percpu_fgauge_fetch", "percpu_latest_fetch" });
	all.add_aim("an add to a gauge to one to a counter", 1.05, all.rows.ratio(GADD, 1, ADD, 1));
	all.add_aim("the same, 8 in turn", 1.05, all.rows.ratio(GADD IN_TURN, 1, ADD IN_TURN, 1));
	all.print_sections();
	return all.finish();
}

/* SPDX-License-Identifier: MIT */
/*
 * segment.cc - the benchmark of segment.h: updates of metrics beside those of the same objects
 * in memory of the process, and of words in a shared table under a lock; declaring.
 *
 * usage: segment [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <string>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cells.h"

#define PLAIN ", plain"
#define NAMED ", in a segment"
#define COUNTER "percpu_counter_add"
#define FCOUNTER "percpu_fcounter_add"
#define GAUGE "percpu_gauge_add"
#define HISTOGRAM "percpu_histogram_record"
#define EXTREMA "percpu_extrema_observe"
#define TABLE "words in a shared table, under a lock"
#define AGAIN "declaring what is there, of 1000 metrics"

constexpr unsigned metrics = 1000;

/* One file for all; it ends with the process. */
static percpu_segment *segment()
{
	static percpu_segment *s;

	if (s)
		return s;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	must(fd < 0 ? -errno : 0, "a memfd");
	must(percpu_segment_open_fd(fd, PERCPU_SEGMENT_WRITE | PERCPU_SEGMENT_CREATE, nullptr, &s),
	     "a segment");
	close(fd);
	return s;
}

static percpu_metric metric(const std::string &name)
{
	percpu_metric m = {};

	m.size = sizeof(m);
	m.name = name.c_str();
	return m;
}

template <bool named> struct named_counter {
	static inline percpu_counter *c;
	percpu_counter *const mine = c;

	static void make()
	{
		const percpu_metric m = metric(name);

		if (!c)
			must(named ? percpu_segment_counter(segment(), &m, &c) :
				     percpu_counter_create(&c),
			     "a counter");
	}
	static inline const std::string name = "counter_total";
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_counter_add(mine, 1);
	}
};

template <bool named> struct named_fcounter {
	static inline percpu_fcounter *c;
	percpu_fcounter *const mine = c;

	static void make()
	{
		const percpu_metric m = metric(name);

		if (!c)
			must(named ? percpu_segment_fcounter(segment(), &m, &c) :
				     percpu_fcounter_create(&c),
			     "a counter of doubles");
	}
	static inline const std::string name = "fcounter_total";
	[[gnu::always_inline]] void add(unsigned)
	{
		(void)percpu_fcounter_add(mine, 1.0);
	}
};

template <bool named> struct named_gauge {
	static inline percpu_gauge *g;
	percpu_gauge *const mine = g;

	static void make()
	{
		const percpu_metric m = metric(name);

		if (!g)
			must(named ? percpu_segment_gauge(segment(), &m, &g) :
				     percpu_gauge_create(&g),
			     "a gauge");
	}
	static inline const std::string name = "gauge";
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_gauge_add(mine, 1);
	}
};

template <bool named> struct named_histogram {
	static inline percpu_histogram *h;
	percpu_histogram *const mine = h;

	static void make()
	{
		const percpu_metric m = metric(name);

		if (!h)
			must(named ? percpu_segment_histogram(segment(), &m, nullptr, &h) :
				     percpu_histogram_create(nullptr, &h),
			     "a histogram");
	}
	static inline const std::string name = "histogram";
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_histogram_record(mine, 0.001 * (i + 1));
	}
};

template <bool named> struct named_extrema {
	static inline percpu_extrema *x;
	percpu_extrema *const mine = x;

	static void make()
	{
		const percpu_metric m = metric(name);

		if (!x)
			must(named ? percpu_segment_extrema(segment(), &m, 0, &x) :
				     percpu_extrema_create(0, &x),
			     "extremes");
	}
	static inline const std::string name = "extrema";
	[[gnu::always_inline]] void add(unsigned i)
	{
		(void)percpu_extrema_observe(mine, i);
	}
};

/* As modules of servers have it that know no better. */
struct locked_table {
	struct shared {
		pthread_mutex_t lock;
		uint64_t word[cells];
	};
	static inline shared *table;

	static void make()
	{
		pthread_mutexattr_t a;

		if (table)
			return;
		void *p = mmap(nullptr, sizeof(shared), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		must(p == MAP_FAILED ? -errno : 0, "shared memory");
		table = (shared *)p;
		pthread_mutexattr_init(&a);
		pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
		must(-pthread_mutex_init(&table->lock, &a), "a lock");
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		pthread_mutex_lock(&table->lock);
		table->word[i]++;
		pthread_mutex_unlock(&table->lock);
	}
};

template <template <bool> class C> static void measure_both(const std::string &name)
{
	measure<C<false>, in_turn>(name + PLAIN);
	measure<C<true>, in_turn>(name + NAMED);
}

static percpu_counter *declare_again()
{
	static unsigned i;
	const std::string name = "metric_" + std::to_string(i++ % metrics) + "_total";
	const percpu_metric m = metric(name);
	percpu_counter *c;

	must(percpu_segment_counter(segment(), &m, &c), "to declare a counter");
	return c;
}

static void add_aims(report &all, const char *const (&names)[5])
{
	for (const std::string name : names)
		for (int threads : { 1, 2 })
			all.add_aim(name + (threads == 1 ? ", 1 thread" : ", 2 threads"), 1.05,
				    all.rows.ratio(name + NAMED, threads, name + PLAIN, threads));
}

int main(int argc, char **argv)
{
	report all("segment", argc, argv);

	fprintf(stderr, "segment: measuring, for about half a minute ...\n");
	measure_both<named_counter>(COUNTER);
	measure_both<named_fcounter>(FCOUNTER);
	measure_both<named_gauge>(GAUGE);
	measure_both<named_histogram>(HISTOGRAM);
	measure_both<named_extrema>(EXTREMA);
	measure<locked_table, in_turn>(TABLE);
	measure_call(AGAIN, declare_again);
	all.run();
	print_rows(all.rows, "One update, ns, CPU time per thread: median (best)",
		   { COUNTER PLAIN, COUNTER NAMED, FCOUNTER PLAIN, FCOUNTER NAMED, GAUGE PLAIN,
		     GAUGE NAMED, HISTOGRAM PLAIN, HISTOGRAM NAMED, EXTREMA PLAIN, EXTREMA NAMED,
		     TABLE });
	print_rows(all.rows, "Declaring", { AGAIN });
	add_aims(all, { COUNTER, FCOUNTER, GAUGE, HISTOGRAM, EXTREMA });
	all.print_sections();
	return all.finish();
}

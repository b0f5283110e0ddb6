/* SPDX-License-Identifier: MIT */
/*
 * segment.cc - the benchmark of segment.h: updates of metrics beside those of the same objects
 * in memory of the process, and beside other implementations; declaring; reading.
 *
 * usage: segment [--quick] [--json FILE] [--benchmark_...]
 */
#include <cstdio>
#include <string>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "add.h"
#include "mmv.h"
#include "prometheus.h"
#include "segment.h"

#define PLAIN ", plain"
#define NAMED ", in a segment"
#define COUNTER "percpu_counter_add"
#define FCOUNTER "percpu_fcounter_add"
#define GAUGE "percpu_gauge_add"
#define HISTOGRAM "percpu_histogram_record"
#define EXTREMA "percpu_extrema_observe"
#define PROMETHEUS "prometheus-cpp"
#define MMV "PCP MMV"
#define STATS "percpu_stats_update, 4 fields"
#define TABLE "words in a shared table, under a lock"
#define LOOK_UP "percpu_family_counter, 2 labels"
#define BY_VALUES "percpu_family_add, 2 labels"
#define AGAIN "declaring what is there, of 1000 metrics"

constexpr unsigned metrics = 1000;

percpu_segment *make_segment(uint32_t cpus, int *ret_fd)
{
	percpu_segment_options o = {};
	percpu_segment *s;
	int fd = memfd_create("segment", MFD_CLOEXEC);

	o.size = sizeof(o);
	o.cpus = cpus;
	must(fd < 0 ? -errno : 0, "a memfd");
	must(percpu_segment_open_fd(fd, PERCPU_SEGMENT_CREATE, &o, &s), "a segment");
	if (ret_fd)
		*ret_fd = fd;
	else
		close(fd);
	return s;
}

/* Return the segment for all updates; it ends with the process. */
static percpu_segment *segment()
{
	static percpu_segment *const s = make_segment(0, nullptr);

	return s;
}

/* The kinds. If there is total(), no update may be missing from it. */

struct counter_kind {
	using object = percpu_counter;
	static constexpr const char *end = "_total";

	static int create(object **ret)
	{
		return percpu_counter_create(ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		return percpu_segment_counter(segment(), m, ret);
	}
	[[gnu::always_inline]] static void update(object *c, unsigned)
	{
		percpu_counter_add(c, 1);
	}
	static double total(object *c)
	{
		return double(percpu_counter_fetch(c));
	}
};

struct fcounter_kind {
	using object = percpu_fcounter;
	static constexpr const char *end = "_of_doubles_total";

	static int create(object **ret)
	{
		return percpu_fcounter_create(ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		return percpu_segment_fcounter(segment(), m, ret);
	}
	[[gnu::always_inline]] static void update(object *c, unsigned)
	{
		(void)percpu_fcounter_add(c, 1.0);
	}
	static double total(object *c)
	{
		return percpu_fcounter_fetch(c);
	}
};

struct gauge_kind {
	using object = percpu_gauge;
	static constexpr const char *end = "_level";

	static int create(object **ret)
	{
		return percpu_gauge_create(ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		return percpu_segment_gauge(segment(), m, ret);
	}
	[[gnu::always_inline]] static void update(object *g, unsigned)
	{
		percpu_gauge_add(g, 1);
	}
	static double total(object *g)
	{
		return double(percpu_gauge_fetch(g));
	}
};

struct histogram_kind {
	using object = percpu_histogram;
	static constexpr const char *end = "_latency";

	static int create(object **ret)
	{
		return percpu_histogram_create(nullptr, ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		return percpu_segment_histogram(segment(), m, nullptr, ret);
	}
	[[gnu::always_inline]] static void update(object *h, unsigned i)
	{
		percpu_histogram_record(h, in_seconds[i]);
	}
	static double total(object *h)
	{
		percpu_histogram_snapshot *x;

		must(percpu_histogram_snapshot_create(h, &x), "a snapshot");
		must(percpu_histogram_fetch(h, 0, x), "a snapshot");

		const double count = double(x->count);

		percpu_histogram_snapshot_destroy(x);
		return count;
	}
};

struct extrema_kind {
	using object = percpu_extrema;
	static constexpr const char *end = "_extremes";

	static int create(object **ret)
	{
		return percpu_extrema_create(0, ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		return percpu_segment_extrema(segment(), m, 0, ret);
	}
	[[gnu::always_inline]] static void update(object *x, unsigned i)
	{
		(void)percpu_extrema_observe(x, i);
	}
};

struct stats_kind {
	using object = percpu_stats;
	static constexpr const char *end = "_of_fields_total";
	static constexpr unsigned adds = 4;
	static constexpr uint64_t ones[adds] = { 1, 1, 1, 1 };

	static int create(object **ret)
	{
		return percpu_stats_create(sizeof(ones), 1, 0, ret);
	}
	static int declare(const percpu_metric *m, object **ret)
	{
		static const char *const names[adds] = { "packets", "bytes", "drops", "errors" };
		percpu_metric_fields f = {};

		f.size = sizeof(f);
		f.label = "field";
		f.names = names;
		f.n = adds;
		return percpu_segment_stats(segment(), m, &f, 0, ret);
	}
	[[gnu::always_inline]] static void update(object *s, unsigned)
	{
		(void)percpu_stats_update(s, 0, 0, ones, adds);
	}
	static double total(object *s)
	{
		uint64_t fields[adds];

		must(percpu_stats_fetch(s, 0, 1, fields), "to read statistics");
		return double(fields[0] + fields[1] + fields[2] + fields[3]);
	}
};

/* 8 objects of a kind, in the segment or not. */
template <class Kind, bool in_segment> struct updated {
	static constexpr unsigned adds = adds_of<Kind>::value;
	static inline typename Kind::object *object[cells];
	static inline double before;

	static void make()
	{
		for (unsigned i = 0; i < cells && !object[cells - 1]; i++) {
			const std::string name = "n" + std::to_string(i) + Kind::end;
			const percpu_metric m = metric(name);

			must(in_segment ? Kind::declare(&m, &object[i]) : Kind::create(&object[i]),
			     name.c_str());
		}
	}
	template <class K = Kind> static auto sum() -> decltype(K::total(object[0]))
	{
		double all = 0;

		for (auto o : object)
			all += K::total(o);
		return all;
	}
	static void reset()
	{
		before = sum();
	}
	template <class K = Kind> static auto total() -> decltype(K::total(object[0]))
	{
		return sum() - before;
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		Kind::update(object[i], i);
	}
};

/* Series of a family with two labels, of which each was found before. */
static const char *const paths[cells][2] = {
	{ "GET", "/" },
	{ "GET", "/index.html" },
	{ "POST", "/api/v1/orders" },
	{ "GET", "/api/v1/users" },
	{ "PUT", "/api/v1/cart" },
	{ "GET", "/static/logo.png" },
	{ "GET", "/healthz" },
	{ "DELETE", "/api/v1/cart" },
};

static percpu_family *family()
{
	static percpu_family *f;
	static const char *const labels[] = { "method", "path" };
	const percpu_declaration d = percpu_declare_family(
		&f, PERCPU_METRIC_COUNTER, "requests_total", nullptr, labels, 2, 1000);

	if (!f)
		must(percpu_segment_declare(segment(), &d, 1), "a family");
	return f;
}

/* What such a look-up costs, and an add by the values. */
template <bool adds> struct looked_up {
	static inline percpu_family *f;
	static inline percpu_counter *object[cells];

	static void make()
	{
		f = family();
		for (unsigned i = 0; i < cells; i++)
			must(percpu_family_counter(f, paths[i], &object[i]), "a series");
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		percpu_counter *c;

		if (adds)
			(void)percpu_family_add(f, paths[i], 1);
		else if (percpu_family_counter(f, paths[i], &c) == 0)
			asm volatile("" : : "r"(c));
	}
};

/* A table under a lock, as modules of servers with several processes have it. */
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
	static void reset()
	{
		for (auto &w : table->word)
			w = 0;
	}
	static double total()
	{
		uint64_t sum = 0;

		for (auto w : table->word)
			sum += w;
		return double(sum);
	}
	[[gnu::always_inline]] void add(unsigned i)
	{
		pthread_mutex_lock(&table->lock);
		table->word[i]++;
		pthread_mutex_unlock(&table->lock);
	}
};

template <class Kind> static void measure_both(const std::string &name)
{
	measure<updated<Kind, false>, in_turn>(name + PLAIN);
	measure<updated<Kind, true>, in_turn>(name + NAMED);
}

static void measure_peers(report &all)
{
	measure<locked_table, in_turn>(TABLE);
#ifdef HAVE_PROMETHEUS
	measure<prometheus_add<prometheus::Counter>, in_turn>(PROMETHEUS " Counter");
	measure<prometheus_add<prometheus::Gauge>, in_turn>(PROMETHEUS " Gauge");
	measure<prometheus_record, in_turn>(PROMETHEUS " Histogram");
#else
	all.skip(PROMETHEUS, "it is not installed");
#endif
#ifdef HAVE_MMV
	const char *missing = mmv_values::open();

	if (missing) {
		all.skip(MMV, missing);
		return;
	}
	measure<mmv_counter, in_turn>(MMV " mmv_inc");
	measure<mmv_fcounter, in_turn>(MMV " mmv_inc_value, of doubles");
	measure<mmv_gauge, in_turn>(MMV " mmv_add");
#else
	all.skip(MMV, "its library is not installed: libpcp-mmv1-dev and libpcp3-dev");
#endif
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

static void add_aims(report &all, const char *const (&names)[6])
{
	for (const std::string name : names)
		for (int threads : { 1, 2 })
			all.add_aim(name + (threads == 1 ? ", 1 thread" : ", 2 threads"), 1.05,
				    all.rows.ratio(name + NAMED, threads, name + PLAIN, threads));
}

int main(int argc, char **argv)
{
	report all("segment", argc, argv);

	fprintf(stderr, "segment: measuring, for 3 minutes ...\n");
	register_passes(all);
	measure_both<counter_kind>(COUNTER);
	measure_both<fcounter_kind>(FCOUNTER);
	measure_both<gauge_kind>(GAUGE);
	measure_both<histogram_kind>(HISTOGRAM);
	measure_both<extrema_kind>(EXTREMA);
	measure_both<stats_kind>(STATS);
	measure<looked_up<false>, in_turn>(LOOK_UP);
	measure<looked_up<true>, in_turn>(BY_VALUES);
	measure_peers(all);
	measure_call(AGAIN, declare_again);
	all.run();
	print_rows(all.rows,
		   "One update, 8 metrics in turn, ns, CPU time per thread: median (best)",
		   { COUNTER PLAIN, COUNTER NAMED, FCOUNTER PLAIN, FCOUNTER NAMED, GAUGE PLAIN,
		     GAUGE NAMED, HISTOGRAM PLAIN, HISTOGRAM NAMED, EXTREMA PLAIN, EXTREMA NAMED,
		     STATS PLAIN, STATS NAMED });
	print_rows(all.rows, "Series by their values, 8 in turn, beside a counter by its handle",
		   { LOOK_UP, BY_VALUES, COUNTER NAMED });
	print_rows(all.rows, "The same by others",
		   { TABLE, PROMETHEUS " Counter", MMV " mmv_inc", MMV " mmv_inc_value, of doubles",
		     PROMETHEUS " Gauge", MMV " mmv_add", PROMETHEUS " Histogram" });
	print_rows(all.rows, "Declaring", { AGAIN });
	print_passes(all);
	add_aims(all, { COUNTER, FCOUNTER, GAUGE, HISTOGRAM, EXTREMA, STATS });
	all.add_aim(LOOK_UP ", as a multiple of 50 ns", 1, all.rows.ratio(LOOK_UP, 1, 50));
	all.print_sections();
	return all.finish();
}

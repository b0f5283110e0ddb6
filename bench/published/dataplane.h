/* SPDX-License-Identifier: MIT */
/*
 * dataplane.h - shared by the parts of the data-plane benchmark.
 *
 * dataplane.cc has the settings, the tables and the aims. dataplane_run.cc lets workers process
 * packets and takes the time; dataplane_published.cc counts in the published ways and
 * dataplane_ours.cc in ours, both by the loops below; dataplane_read.cc measures snapshots, and
 * dataplane_delay.cc how late a reader sees an add.
 */
#ifndef BENCH_DATAPLANE_H
#define BENCH_DATAPLANE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <memory>

#include <percpu/stats.h>

#include "../report.h"
#include "flows.h"

/* Zeroed words, on pages of their own; huge pages if they fit, as in large regions. */
class words
{
      public:
	explicit words(size_t n) : bytes(n * sizeof(uint64_t) + 4096)
	{
		void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

		must(p == MAP_FAILED ? -errno : 0, "memory");
		if (bytes >= 4 << 20)
			madvise(p, bytes, MADV_HUGEPAGE);
		at = static_cast<uint64_t *>(p);
	}
	words(const words &) = delete;
	~words()
	{
		munmap(at, bytes);
	}

	uint64_t *at;

      private:
	size_t bytes;
};

/* One way to run the benchmark. */
struct setting {
	const char *name;
	size_t flows;
	unsigned fields; /* of the global object, and of each flow's */
	unsigned threads_per_cpu;
	bool pinned;
	bool apart;  /* the logic counts in the two objects at two places */
	bool fenced; /* the CPU may not count while it runs the next packet's logic */
	spread how = AT_HOME;
	unsigned vector = 1; /* packets that are counted by one update of the global object */

	unsigned workers() const
	{
		return unsigned(usable_cpus().size()) * threads_per_cpu;
	}
};

/* What a worker has processed with one contender. */
struct work {
	unsigned worker, workers;
	size_t flows;
	uint64_t state, packets, bytes;
};

/* Sums over the global object or over those of all flows: of the first field, which counts
 * packets, and the second, which counts bytes. */
struct sums {
	uint64_t packets, bytes;
};

/* A way to count: a row of the tables. */
class contender
{
      public:
	virtual ~contender() = default;
	virtual void process(work &w, size_t packets) = 0;
	virtual void totals(sums &global, sums &flows) = 0;

	/* For the row that is read meanwhile. */
	virtual void snapshot()
	{
	}
};

using contenders = std::vector<std::pair<std::string, std::unique_ptr<contender>>>;

void add_published(contenders &all, const setting &s);
void add_ours(contenders &all, const setting &s);

/* Names that are used in several files. */
#define NOTHING "no counting"
#define UNSYNCHRONIZED "shared, no synchronization"
#define TICKET_LOCK "shared, ticket lock"
#define BUFFERED "shared, buffered"
#define BUFFERED_INLINED "shared, buffered, inlined"
#define PER_CORE "per core"
#define PER_CORE_AT_HAND "per core, id at hand"
#define PER_CORE_SEQCOUNT "per core, sequence counter"
#define FIELDS "ours: field by field"
#define COMMIT "ours: one commit"
#define SNAPSHOTS "ours: one commit, 10 snapshots/s"
#define WHOLE "ours: one commit, PERCPU_STATS_WHOLE"
#define WBUF "ours: wbuf"
#define COMPACT "ours: compact"
#define ARRAY "ours: counter array"

/* Return the name of a row: "1024 flows: per core". */
std::string row_name(const setting &s, const std::string &contender);

/* Measure the packets' time into all.rows. Returns whether our rows lost nothing. */
bool measure(report &all, const setting &s, unsigned rounds);

/* Return cycles of the TSC, or of the generic timer, per ns. */
double cycles_per_ns();

/* Register the calls that read. Returns whether any of them is wanted. */
bool register_reads(report &all);
void print_reads(const results &r);

/* Measure how late a reader on another CPU sees an add. */
void measure_delays(report &all);

/* Set the logic so that two halves take the time of a packet. */
void calibrate(bool fenced);

/* Run half of a packet's domain logic: about 500 cycles. All rows have the same code. If fenced,
 * it overlaps with nothing. */
uint64_t logic(uint64_t x, bool fenced);

/* The calling thread's worker, as DPDK keeps it for rte_lcore_id(): a function that counts per
 * core, and may be called from anywhere, finds its own counters by it. */
extern __thread unsigned lcore_id;

/* The numbers that packets add to an object. */
template <unsigned K> struct amounts {
	uint64_t n[K];

	amounts(uint64_t packets, uint64_t size)
	{
		for (unsigned k = 0; k < K; k++)
			n[k] = k * packets;
		n[0] = packets;
		n[1] = size;
	}
};

/* As published, a program counts by calling a function of its statistics. C counts n:
 * global(worker, n), flow(worker, i, n), or both(worker, i, n). */
template <class C, unsigned K> struct statistics_of {
	__attribute__((noinline)) static void global(C &c, unsigned w, uint64_t packets,
						     uint64_t size)
	{
		c.global(w, amounts<K>(packets, size).n);
	}
	__attribute__((noinline)) static void flow(C &c, unsigned w, size_t i, uint64_t size)
	{
		c.flow(w, i, amounts<K>(1, size).n);
	}
	__attribute__((noinline)) static void both(C &c, unsigned w, size_t i, uint64_t size)
	{
		c.both(w, i, amounts<K>(1, size).n);
	}
};

/* No counting: there is nothing to call. */
template <unsigned K> struct nothing {
	explicit nothing(const setting &)
	{
	}
	void totals(sums &, sums &)
	{
	}
	void snapshot()
	{
	}
};

template <unsigned K> struct statistics_of<nothing<K>, K> {
	static void global(nothing<K> &, unsigned, uint64_t packets, uint64_t size)
	{
		__asm__ volatile("" : : "r"(packets), "r"(size));
	}
	static void flow(nothing<K> &, unsigned, size_t i, uint64_t size)
	{
		__asm__ volatile("" : : "r"(i), "r"(size));
	}
	static void both(nothing<K> &, unsigned, size_t i, uint64_t size)
	{
		__asm__ volatile("" : : "r"(i), "r"(size));
	}
};

/* The loop over packets. */
template <class C, unsigned K> void process_with(C &c, const setting &s, work &w, size_t packets)
{
	using statistics = statistics_of<C, K>;

	const bool apart = s.apart, fenced = s.fenced;
	const spread how = s.how;
	uint64_t x = w.state, size;
	const unsigned me = w.worker;
	size_t flow;

	for (size_t i = 0; i < packets; i++) {
		x = logic(x, fenced);
		size = 64 + (x >> 20) % 1024;
		w.bytes += size;
		if (apart)
			statistics::global(c, me, 1, size);
		x = logic(x, fenced);
		flow = flow_of(how, me, w.workers, w.flows, w.packets + i, x);
		if (apart)
			statistics::flow(c, me, flow, size);
		else
			statistics::both(c, me, flow, size);
	}
	w.state = x;
	w.packets += packets;
}

/* The same, of packets that come in vectors: the global object is updated once for all of one. */
template <class C, unsigned K> void process_vectors(C &c, const setting &s, work &w, size_t packets)
{
	using statistics = statistics_of<C, K>;

	uint64_t x = w.state, size, together;
	const unsigned me = w.worker, vector = s.vector;

	for (size_t i = 0; i < packets; i += vector) {
		together = 0;
		for (unsigned k = 0; k < vector; k++) {
			x = logic(x, s.fenced);
			size = 64 + (x >> 20) % 1024;
			together += size;
			x = logic(x, s.fenced);
			statistics::flow(
				c, me, flow_of(s.how, me, w.workers, w.flows, w.packets + i + k, x),
				size);
		}
		statistics::global(c, me, vector, together);
		w.bytes += together;
	}
	w.state = x;
	w.packets += packets;
}

template <template <unsigned> class C, unsigned K> class row_of : public contender
{
      public:
	explicit row_of(const setting &s) : s(s), c(s)
	{
	}

	void process(work &w, size_t packets) override
	{
		if (s.vector > 1)
			process_vectors<C<K>, K>(c, s, w, packets);
		else
			process_with<C<K>, K>(c, s, w, packets);
	}

	void totals(sums &global, sums &flows) override
	{
		c.totals(global, flows);
	}

	void snapshot() override
	{
		c.snapshot();
	}

      private:
	const setting s;
	C<K> c;
};

/* Few fields are unrolled: the settings have two numbers of them. */
template <template <unsigned> class C>
void add_row(contenders &all, const char *name, const setting &s)
{
	if (s.fields == 2)
		all.emplace_back(name, new row_of<C, 2>(s));
	else
		all.emplace_back(name, new row_of<C, 8>(s));
}

#endif

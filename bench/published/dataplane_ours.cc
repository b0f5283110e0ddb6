/* SPDX-License-Identifier: MIT */
/*
 * dataplane_ours.cc - the packets counted with this library.
 */
#include <errno.h>

#include <percpu/compact.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>

#include "dataplane.h"

static void add_object(sums &s, const uint64_t *object)
{
	s.packets += object[0];
	s.bytes += object[1];
}

/* One global object, and one per flow. */
template <unsigned K, unsigned flags> struct statistics {
	percpu_stats *g, *f;
	std::vector<uint64_t> out;

	explicit statistics(const setting &s) : out((s.flows + 1) * K)
	{
		must(percpu_stats_create(K * 8, 1, flags, &g), "the global object");
		must(percpu_stats_create(K * 8, s.flows, flags, &f), "objects of flows");
	}
	statistics(const statistics &) = delete;
	~statistics()
	{
		percpu_stats_destroy(g);
		percpu_stats_destroy(f);
	}
	void snapshot()
	{
		must(percpu_stats_snapshot(g, 0, 1, out.data()), "a snapshot");
		must(percpu_stats_snapshot(f, 0, f->n, out.data() + K), "a snapshot of all flows");
	}
	void totals(sums &global, sums &flows)
	{
		snapshot();
		add_object(global, out.data());
		for (size_t i = 1; i <= f->n; i++)
			add_object(flows, out.data() + i * K);
	}
};

template <unsigned K> struct fields : statistics<K, 0> {
	using statistics<K, 0>::statistics;
	static void add_all(percpu_stats *s, size_t i, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			percpu_stats_add(s, i, k, int64_t(n[k]));
	}
	void global(unsigned, const uint64_t *n)
	{
		add_all(this->g, 0, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		add_all(this->f, i, n);
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		global(w, n);
		flow(w, i, n);
	}
};

template <unsigned K, unsigned flags> struct updates : statistics<K, flags> {
	using statistics<K, flags>::statistics;
	void global(unsigned, const uint64_t *n)
	{
		percpu_stats_update(this->g, 0, 0, n, K);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		percpu_stats_update(this->f, i, 0, n, K);
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		global(w, n);
		flow(w, i, n);
	}
};

template <unsigned K> using commit = updates<K, 0>;
template <unsigned K> using whole = updates<K, PERCPU_STATS_WHOLE>;

/* All counters in one set: the global object's, then the flows'. */
template <unsigned K, class set> struct in_a_set {
	set c;
	size_t n;

	explicit in_a_set(const setting &s) : n((s.flows + 1) * K)
	{
		must(c.create(n), "a set of counters");
	}
	in_a_set(const in_a_set &) = delete;
	~in_a_set()
	{
		c.destroy();
	}
	void global(unsigned, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			c.add(k, int64_t(n[k]));
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			c.add((i + 1) * K + k, int64_t(n[k]));
	}
	void both(unsigned w, size_t i, const uint64_t *n)
	{
		global(w, n);
		flow(w, i, n);
	}
	void totals(sums &global, sums &flows)
	{
		std::vector<uint64_t> out(n);

		c.fetch_all(out.data());
		add_object(global, out.data());
		for (size_t i = K; i < n; i += K)
			add_object(flows, out.data() + i);
	}
	void snapshot()
	{
	}
};

struct compact_set {
	percpu_compact *c;

	int create(size_t n)
	{
		return percpu_compact_create(n, &c);
	}
	void destroy()
	{
		percpu_compact_destroy(c);
	}
	void add(size_t i, int64_t n)
	{
		percpu_compact_add(c, i, n);
	}
	void fetch_all(uint64_t *out)
	{
		percpu_compact_fetch_all(c, out);
	}
};

struct array_set {
	percpu_counter_array *a;

	int create(size_t n)
	{
		return percpu_counter_array_create(n, &a);
	}
	void destroy()
	{
		percpu_counter_array_destroy(a);
	}
	void add(size_t i, int64_t n)
	{
		percpu_counter_array_add(a, i, n);
	}
	void fetch_all(uint64_t *out)
	{
		percpu_counter_array_fetch_all(a, out);
	}
};

template <unsigned K> using compact = in_a_set<K, compact_set>;
template <unsigned K> using array = in_a_set<K, array_set>;

template <unsigned K> struct buffered {
	percpu_wbuf *b;
	size_t flows;
	words cells;

	explicit buffered(const setting &s) : flows(s.flows), cells((s.flows + 1) * K)
	{
		must(percpu_wbuf_create(nullptr, &b), "a write buffer");
	}
	buffered(const buffered &) = delete;
	~buffered()
	{
		percpu_wbuf_destroy(b);
	}
	static void fill(percpu_wbuf_entry *adds, uint64_t *cell, const uint64_t *n)
	{
#pragma GCC unroll 8
		for (unsigned k = 0; k < K; k++)
			adds[k] = percpu_wbuf_entry_u64(cell + k, n[k]);
	}
	void one(uint64_t *cell, const uint64_t *n)
	{
		percpu_wbuf_entry adds[K];

		fill(adds, cell, n);
		if (percpu_wbuf_add_n(b, adds, K) != 0)
			must(-ENOMEM, "a transaction");
	}
	void global(unsigned, const uint64_t *n)
	{
		one(cells.at, n);
	}
	void flow(unsigned, size_t i, const uint64_t *n)
	{
		one(cells.at + (i + 1) * K, n);
	}
	void both(unsigned, size_t i, const uint64_t *n)
	{
		percpu_wbuf_entry adds[2 * K];

		fill(adds, cells.at, n);
		fill(adds + K, cells.at + (i + 1) * K, n);
		if (percpu_wbuf_add_n(b, adds, 2 * K) != 0)
			must(-ENOMEM, "a transaction");
	}
	void totals(sums &global, sums &flows)
	{
		percpu_wbuf_flush(b);
		add_object(global, cells.at);
		for (size_t i = 1; i <= this->flows; i++)
			add_object(flows, cells.at + i * K);
	}
	void snapshot()
	{
	}
};

void add_ours(contenders &all, const setting &s)
{
	bool in_a_vector = s.fields <= percpu_status()->commit_words;

	add_row<fields>(all, FIELDS, s);
	if (in_a_vector) {
		add_row<commit>(all, COMMIT, s);
		add_row<commit>(all, SNAPSHOTS, s);
	}
	if (s.fields > 2)
		add_row<whole>(all, WHOLE, s);
	add_row<buffered>(all, WBUF, s);
	add_row<compact>(all, COMPACT, s);
	add_row<array>(all, ARRAY, s);
}

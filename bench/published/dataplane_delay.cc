/* SPDX-License-Identifier: MIT */
/*
 * dataplane_delay.cc - how late a reader sees an add: the time from just before a packet is counted
 * until a thread on another CPU, which reads all the time, has the new value.
 *
 * A buffer is flushed after a packet, or after a batch of 32, as the published text supposes: the
 * delay is that of the first packet. The reader asks for each packet or batch, so that the worker
 * does not run ahead of it.
 */
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include <percpu/percpu.h>
#include <percpu/wbuf.h>

#include "dataplane.h"

namespace
{
using timer = std::chrono::steady_clock;

struct by_atomics {
	alignas(64) uint64_t word = 0;

	void add()
	{
		__atomic_fetch_add(&word, 1, __ATOMIC_RELAXED);
	}
	void flush()
	{
	}
	uint64_t read()
	{
		return __atomic_load_n(&word, __ATOMIC_RELAXED);
	}
};

/* One worker counts, and the reader sums two. */
struct by_core {
	struct alignas(64) line {
		uint64_t word = 0;
	} own[2];

	void add()
	{
		__atomic_store_n(&own[0].word, own[0].word + 1, __ATOMIC_RELAXED);
	}
	void flush()
	{
	}
	uint64_t read()
	{
		return __atomic_load_n(&own[0].word, __ATOMIC_RELAXED) +
		       __atomic_load_n(&own[1].word, __ATOMIC_RELAXED);
	}
};

struct by_counter {
	percpu_counter *c;

	by_counter()
	{
		must(percpu_counter_create(&c), "a counter");
	}
	~by_counter()
	{
		percpu_counter_destroy(c);
	}
	void add()
	{
		percpu_counter_add(c, 1);
	}
	void flush()
	{
	}
	uint64_t read()
	{
		return percpu_counter_fetch(c);
	}
};

template <int (*fetch)(const percpu_stats *, size_t, size_t, void *)> struct by_stats {
	percpu_stats *s;

	by_stats()
	{
		must(percpu_stats_create(16, 1, 0, &s), "an object");
	}
	~by_stats()
	{
		percpu_stats_destroy(s);
	}
	void add()
	{
		const uint64_t n[] = { 1, 64 };

		percpu_stats_update(s, 0, 0, n, 2);
	}
	void flush()
	{
	}
	uint64_t read()
	{
		uint64_t n[2] = {};

		must(fetch(s, 0, 1, n), "a read");
		return n[0];
	}
};

struct by_wbuf {
	percpu_wbuf *b;
	alignas(64) uint64_t word = 0;

	by_wbuf()
	{
		must(percpu_wbuf_create(nullptr, &b), "a write buffer");
	}
	~by_wbuf()
	{
		percpu_wbuf_destroy(b);
	}
	void add()
	{
		must(percpu_wbuf_add(b, &word, 1), "an add");
	}
	void flush()
	{
		percpu_wbuf_flush(b);
	}
	uint64_t read()
	{
		return __atomic_load_n(&word, __ATOMIC_RELAXED);
	}
};

/* The worker and the reader of one way. */
template <class C> class pair
{
      public:
	pair(unsigned batch, size_t rounds) : batch(batch), began(rounds), seen(rounds)
	{
	}
	samples run()
	{
		samples ns;

		std::thread worker([this] { work(); });
		read();
		worker.join();
		for (size_t r = 0; r < seen.size(); r++)
			ns.push_back(std::chrono::duration<double, std::nano>(seen[r] - began[r])
					     .count());
		return ns;
	}

      private:
	void work()
	{
		pinned here(0);
		uint64_t x = 1;

		for (size_t r = 0; r < began.size(); r++) {
			wait_until([&] { return asked.load() > r; });
			began[r] = timer::now();
			for (unsigned i = 0; i < batch; i++) {
				c.add();
				x = logic(logic(x, false), false);
			}
			c.flush();
		}
	}
	void read()
	{
		pinned here(1);

		for (size_t r = 0; r < seen.size(); r++) {
			asked = r + 1;
			wait_until([&] { return c.read() > r * batch; });
			seen[r] = timer::now();
		}
	}
	/* The other thread may wait for this CPU. */
	template <class F> static void wait_until(F done)
	{
		for (unsigned i = 1; !done(); i++)
			if (i % 65536 == 0)
				sched_yield();
	}

	C c;
	const unsigned batch;
	alignas(64) std::atomic<size_t> asked{ 0 };
	std::vector<timer::time_point> began, seen;
};
} // namespace

template <class C> static samples delays(unsigned batch)
{
	return pair<C>(batch, quick ? 500 : 2000).run();
}

static double share(samples v, double part)
{
	std::sort(v.begin(), v.end());
	return v[size_t(double(v.size() - 1) * part)];
}

void measure_delays(report &all)
{
	static const double soon = 200, packet = 400, vector = 13000; /* published, ns */
	static const struct {
		const char *name;
		double published;
		unsigned batch;
		samples (*measure)(unsigned batch);
	} ways[] = {
		{ "shared, atomics", soon, 1, delays<by_atomics> },
		{ "per core", soon, 1, delays<by_core> },
		{ "ours: counter", soon, 1, delays<by_counter> },
		{ "ours: one commit", soon, 1, delays<by_stats<percpu_stats_fetch>> },
		{ "ours: one commit, snapshots", soon, 1, delays<by_stats<percpu_stats_snapshot>> },
		{ "ours: wbuf, flushed after a packet", packet, 1, delays<by_wbuf> },
		{ "ours: wbuf, flushed after 32", vector, 32, delays<by_wbuf> },
	};
	std::vector<std::vector<std::string>> lines = { { "", "publ.", "here", "quartiles" } };

	if (usable_cpus().size() < 2) {
		all.skip("delay", "a worker and a reader need two CPUs");
		return;
	}
	calibrate(false);
	for (auto &w : ways) {
		row r = { std::string("delay: ") + w.name, 2, w.measure(w.batch), 0, {}, {} };

		lines.push_back({ w.name, text("%.0f", w.published), text("%.0f", r.median()),
				  text("%.0f to %.0f", share(r.ns, 0.25), share(r.ns, 0.75)) });
		all.rows.add(r);
	}
	for (auto &[ours, theirs] :
	     { std::pair{ "counter", "shared, atomics" }, std::pair{ "one commit", "per core" } })
		all.add_aim(text("delay: ours: %s, to %s", ours, theirs), 1.2,
			    all.rows.ratio(std::string("delay: ours: ") + ours, 2,
					   std::string("delay: ") + theirs, 2));
	printf("\nHow late a reader on another CPU sees an add: ns, real time, median. Published: a couple\n"
	       "of hundred ns at most; with a buffer, until it is flushed, at 2.5 GHz\n\n");
	print_table(lines);
}

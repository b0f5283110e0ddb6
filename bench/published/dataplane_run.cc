/* SPDX-License-Identifier: MIT */
/*
 * dataplane_run.cc - workers that process packets, and the time that counting adds to a packet.
 *
 * A round goes through all contenders, in an order of its own, and between any two of them
 * counts nothing: the time of a packet with a contender is compared with the two next to it, as
 * the clock of a CPU changes. All workers run the same contender at the same time. Time is CPU
 * time, as the machine may have other work, and is reported in cycles of the TSC.
 */
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "dataplane.h"

/* Few packets, so that a tick of the kernel's clock falls into few of the rounds. But those of 4
 * counters fill a write buffer twice, as far as it is filled between flushes, and a published
 * one three times, so that all rounds have as many flushes. */
static constexpr size_t warm_up = 1152, packets = 384;

/* A round takes a fifth of this if no other process needs the CPUs. */
static constexpr auto longest_round = std::chrono::milliseconds(100);

/* A snapshot is taken each 100 ms, so its row is measured for longer at a time. */
static constexpr auto snapshot_period = std::chrono::milliseconds(100);
static constexpr size_t packets_and_snapshots = 200000;

static constexpr double cycles_per_packet = 1000;
static unsigned steps = 100; /* of half of a packet's logic */

__thread unsigned lcore_id;

static uint64_t now()
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t t;

	__asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t));
	return t;
#else
	return std::chrono::steady_clock::now().time_since_epoch().count();
#endif
}

double cycles_per_ns()
{
	static const double rate = [] {
		auto start = std::chrono::steady_clock::now(), end = start;
		uint64_t from = now();

		while (end - start < std::chrono::milliseconds(100))
			end = std::chrono::steady_clock::now();
		return double(now() - from) / double(std::chrono::nanoseconds(end - start).count());
	}();

	return rate;
}

static double cpu_ns()
{
	timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

/* Wait until all earlier instructions are done before the next one starts. */
static void wait_for_all()
{
#ifdef __x86_64__
	__builtin_ia32_lfence();
#elif defined(__aarch64__)
	__asm__ volatile("dsb ld; isb" : : : "memory");
#endif
}

/* A chain: each step needs the result of the one before. */
__attribute__((noinline)) uint64_t logic(uint64_t x, bool fenced)
{
	if (fenced)
		wait_for_all();
	for (unsigned i = 0; i < steps; i++) {
		x *= 6364136223846793005;
		x ^= x >> 29;
	}
	if (fenced)
		wait_for_all();
	return x;
}

void calibrate(bool fenced)
{
	double best = 1e9;
	uint64_t x = 1;

	steps = 100;
	for (int i = 0; i < 50; i++) {
		double from = cpu_ns();

		for (int j = 0; j < 1000; j++)
			x = logic(x, fenced);
		__asm__ volatile("" : : "r"(x));
		best = std::min(best, (cpu_ns() - from) / 1000 * cycles_per_ns());
	}
	steps = unsigned(cycles_per_packet / 2 * 100 / best);
}

class barrier
{
      public:
	explicit barrier(unsigned n) : n(n)
	{
	}
	void wait()
	{
		unsigned t = turn.load();

		if (++arrived == n) {
			arrived = 0;
			turn = t + 1;
			return;
		}
		for (unsigned i = 0; turn.load(std::memory_order_relaxed) == t; i++)
			if (i > 1000)
				sched_yield();
	}

      private:
	const unsigned n;
	std::atomic<unsigned> arrived{ 0 }, turn{ 0 };
};

std::string row_name(const setting &s, const std::string &contender)
{
	return std::string(s.name) + ": " + contender;
}

namespace
{
/* The run of one setting. */
class run
{
      public:
	explicit run(const setting &s);
	void go(unsigned rounds);
	bool keep(report &to) const;

      private:
	struct lane {
		std::vector<work> done;			 /* per contender */
		std::vector<std::vector<double>> cycles; /* per contender and round */
	};

	double process(unsigned w, size_t contender, size_t n);
	void round(unsigned w, const std::vector<size_t> &order, size_t n);
	bool another(unsigned w, unsigned done, unsigned least);
	void worker(unsigned w, unsigned rounds);
	void read();
	double zero() const;

	const setting &s;
	contenders all;
	size_t nothing = 0, snapshots = 0;
	barrier meet;
	std::vector<lane> lanes;
	std::chrono::steady_clock::time_point deadline;
	std::atomic<bool> late{ false }, reading{ false }, stop{ false };
};
} // namespace

run::run(const setting &s) : s(s), meet(s.workers()), lanes(s.workers())
{
	add_published(all, s);
	add_ours(all, s);
	for (size_t i = 0; i < all.size(); i++) {
		if (all[i].first == NOTHING)
			nothing = i;
		if (all[i].first == SNAPSHOTS)
			snapshots = i;
	}
	for (unsigned w = 0; w < s.workers(); w++) {
		lanes[w].cycles.resize(all.size());
		lanes[w].done.assign(all.size(), { w, s.workers(), s.flows,
						   UINT64_C(88172645463325252) + w, 0, 0 });
	}
}

/* Process packets. Returns the cycles of one packet. */
double run::process(unsigned w, size_t contender, size_t n)
{
	work &done = lanes[w].done[contender];
	double from;

	meet.wait();
	all[contender].second->process(done, warm_up);
	from = cpu_ns();
	all[contender].second->process(done, n);
	return (cpu_ns() - from) * cycles_per_ns() / double(n);
}

void run::round(unsigned w, const std::vector<size_t> &order, size_t n)
{
	double before = process(w, nothing, n), with, after;

	for (size_t i : order) {
		with = process(w, i, n);
		after = process(w, nothing, n);
		lanes[w].cycles[i].push_back(with - (before + after) / 2);
		before = after;
	}
}

/* Return whether to run another round: fewer if other processes use the CPUs. One worker decides
 * for all. */
bool run::another(unsigned w, unsigned done, unsigned least)
{
	if (w == 0)
		late = done >= least && std::chrono::steady_clock::now() > deadline;
	meet.wait();

	bool go_on = !late;

	meet.wait(); /* before the next decision */
	return go_on;
}

void run::worker(unsigned w, unsigned rounds)
{
	std::optional<pinned> here;
	std::minstd_rand random; /* the same for all workers */
	std::vector<size_t> order;

	lcore_id = w;
	if (s.pinned)
		here.emplace(w);
	for (size_t i = 0; i < all.size(); i++)
		if (snapshots == 0 || i != snapshots)
			order.push_back(i);
	for (unsigned r = 0; r < rounds && another(w, r, 5); r++) {
		std::shuffle(order.begin(), order.end(), random);
		round(w, order, packets);
	}
	if (snapshots == 0)
		return;
	reading = true;
	for (unsigned r = 0; r < std::max(3U, rounds / 100) && another(w, r, 3); r++)
		round(w, { snapshots }, packets_and_snapshots);
}

void run::read()
{
	while (!stop) {
		std::this_thread::sleep_for(snapshot_period);
		if (reading)
			all[snapshots].second->snapshot();
	}
}

void run::go(unsigned rounds)
{
	deadline = std::chrono::steady_clock::now() + longest_round * rounds;
	std::vector<std::thread> threads;
	std::thread reader([this] { read(); });

	for (unsigned w = 0; w < s.workers(); w++)
		threads.emplace_back([this, w, rounds] { worker(w, rounds); });
	for (auto &t : threads)
		t.join();
	stop = true;
	reader.join();
}

/* Return what short rounds measure for no counting at all: near 0, and not 0, as a tick of the
 * clock falls into a neighbor more often than into the contender. */
double run::zero() const
{
	std::vector<double> v;

	for (size_t k = 0; k < lanes[0].cycles[nothing].size(); k++) {
		v.push_back(0);
		for (auto &l : lanes)
			v.back() += l.cycles[nothing][k] / double(lanes.size());
	}
	std::nth_element(v.begin(), v.begin() + long(v.size() / 2), v.end());
	return v[v.size() / 2];
}

/* Keep the rows. Their repetitions are rounds: the mean of the workers, per update of a counter.
 * Returns whether none of our rows has lost anything. */
bool run::keep(report &to) const
{
	const double updates = 2 * s.fields, per_update = 1 / updates / cycles_per_ns();
	const double zero = this->zero();
	bool exact = true;

	for (size_t i = 0; i < all.size(); i++) {
		row r = { row_name(s, all[i].first), int(s.workers()), {}, 0, 0, {} };
		uint64_t packets = 0, bytes = 0;
		sums global = {}, flows = {};

		r.ns.assign(lanes[0].cycles[i].size(),
			    snapshots != 0 && i == snapshots ? 0 : -zero * per_update);
		for (auto &l : lanes) {
			packets += l.done[i].packets;
			bytes += l.done[i].bytes;
			for (size_t k = 0; k < r.ns.size(); k++)
				r.ns[k] += l.cycles[i][k] * per_update / double(s.workers());
		}
		all[i].second->totals(global, flows);
		r.ops = double(packets);
		if (i != nothing)
			r.lost = double(packets) - double(global.packets);
		to.rows.add(r);
		if (i == nothing || all[i].first == UNSYNCHRONIZED ||
		    (global.packets == packets && global.bytes == bytes &&
		     flows.packets == packets && flows.bytes == bytes))
			continue;
		fprintf(stderr,
			"%s: wrong sums: %lu and %lu of %lu packets, %lu and %lu of %lu bytes\n",
			r.name.c_str(), global.packets, flows.packets, packets, global.bytes,
			flows.bytes, bytes);
		exact = false;
	}
	return exact;
}

bool measure(report &all, const setting &s, unsigned rounds)
{
	calibrate(s.fenced);

	run r(s);

	r.go(rounds);
	return r.keep(all);
}

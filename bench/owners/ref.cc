/* SPDX-License-Identifier: MIT */
/*
 * ref.cc - the benchmark of ref.h: a get and a put, beside adds to a counter, other
 * implementations of shared ownership, and counts per thread as in folly's TLRefCount; and the
 * cost of a kill.
 *
 * usage: ref [--json FILE] [--benchmark_...]
 */
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <vector>

#include <percpu/fence.h>
#include <percpu/ref.h>

#include "cells.h"

#define PAIR "percpu_ref_get and _put"
#define LIVE "percpu_ref_tryget_live and _put"
#define KILLED "percpu_ref_get and _put, atomic"
#define SHARED_PTR "std::shared_ptr, copied and dropped"
#define ATOMIC "std::atomic, up and down"
#define PER_THREAD "counts per thread, as TLRefCount"
#define KILL "percpu_ref_kill and _reinit"
#define SWITCH_THREADS "counts per thread: collected and back"

static void ignore(percpu_ref *, void *)
{
}

/* Each batch ends with as many references as it began with. */
template <unsigned flags> struct on_ref {
	static constexpr unsigned adds = 0;
	static inline percpu_ref *shared;
	percpu_ref *const ref = shared;

	static void make()
	{
		if (!shared)
			must(percpu_ref_create(ignore, nullptr, flags, &shared),
			     "a reference count");
	}
	static void reset()
	{
	}
	static uint64_t total()
	{
		return (uint64_t)(percpu_ref_fetch(shared) - 1);
	}
};

template <unsigned flags> struct get_put : on_ref<flags> {
	[[gnu::always_inline]] void add(unsigned)
	{
		percpu_ref_get(this->ref);
		percpu_ref_put(this->ref);
	}
};

struct live_put : on_ref<0> {
	[[gnu::always_inline]] void add(unsigned)
	{
		if (!percpu_ref_tryget_live(ref))
			__builtin_trap();
		percpu_ref_put(ref);
	}
};

struct shared_ptr_copy {
	static inline std::shared_ptr<int> shared = std::make_shared<int>(1);

	[[gnu::always_inline]] void add(unsigned)
	{
		std::shared_ptr<int> copy = shared;

		__asm__ volatile("" : : "r"(copy.get()) : "memory");
	}
};

alignas(64) static std::atomic<uint64_t> word{ 1 };

struct atomic_up_down {
	[[gnu::always_inline]] void add(unsigned)
	{
		word.fetch_add(1, std::memory_order_relaxed);
		if (word.fetch_sub(1, std::memory_order_acq_rel) == 1)
			__builtin_trap();
	}
};

/*
 * folly's TLRefCount, of one count only, so that a thread finds its own without a table. Each
 * thread has a count that no other thread stores to. It notes that it is about to store, loads
 * the state, and stores. The collecting thread changes the state, runs a barrier on all CPUs,
 * waits for the threads that are about to store, and sums up.
 */
class thread_counts
{
      public:
	struct alignas(64) local {
		std::atomic<int64_t> count{ 0 };
		std::atomic<bool> in_update{ false };
		local();
		~local();
	};

	[[gnu::always_inline]] bool update(int64_t n)
	{
		local &mine = here();
		bool done = false;

		mine.in_update.store(true, std::memory_order_relaxed);
		std::atomic_signal_fence(std::memory_order_seq_cst);
		if (__builtin_expect(!collected.load(std::memory_order_relaxed), true)) {
			mine.count.store(mine.count.load(std::memory_order_relaxed) + n,
					 std::memory_order_release);
			done = true;
		}
		mine.in_update.store(false, std::memory_order_release);
		return done;
	}
	[[gnu::always_inline]] void add(int64_t n)
	{
		if (!update(n))
			global.fetch_add(n, std::memory_order_acq_rel);
	}
	void collect()
	{
		std::lock_guard<std::mutex> held(lock);

		collected = true;
		must(percpu_fence(), "a barrier");
		for (auto l : all) {
			while (l->in_update.load(std::memory_order_acquire))
				;
			global += l->count.exchange(0);
		}
	}
	void spread()
	{
		collected = false;
	}

      private:
	static local &here()
	{
		static thread_local local mine;

		return mine;
	}
	static inline std::mutex lock;
	static inline std::vector<local *> all;
	std::atomic<bool> collected{ false };
	alignas(64) std::atomic<int64_t> global{ 1 };
};

static thread_counts per_thread;

thread_counts::local::local()
{
	std::lock_guard<std::mutex> held(lock);

	all.push_back(this);
}

thread_counts::local::~local()
{
	std::lock_guard<std::mutex> held(lock);

	per_thread.global += count;
	for (auto &l : all)
		if (l == this)
			l = all.back();
	all.pop_back();
}

struct per_thread_up_down {
	[[gnu::always_inline]] void add(unsigned)
	{
		per_thread.add(1);
		per_thread.add(-1);
	}
};

static percpu_ref *killed;

static int kill_and_reinit()
{
	must(percpu_ref_kill(killed), "a kill");
	return percpu_ref_reinit(killed);
}

static int collect_and_spread()
{
	per_thread.collect();
	per_thread.spread();
	return 0;
}

int main(int argc, char **argv)
{
	report all("ref", argc, argv);

	fprintf(stderr, "ref: measuring, for about 20 s ...\n");
	must(percpu_ref_create(ignore, nullptr, 0, &killed), "a reference count");
	measure<counter_add>(ADD);
	measure<get_put<0>>(PAIR);
	measure<live_put>(LIVE);
	measure<get_put<PERCPU_REF_INIT_ATOMIC>>(KILLED);
	measure<shared_ptr_copy>(SHARED_PTR);
	measure<atomic_up_down>(ATOMIC);
	measure<per_thread_up_down>(PER_THREAD);
	measure_call(KILL, kill_and_reinit);
	measure_call(SWITCH_THREADS, collect_and_spread);
	all.run();
	print_rows(all.rows, "A reference got and put, ns, CPU time per thread: median (best)",
		   { ADD, PAIR, LIVE, PER_THREAD, ATOMIC, SHARED_PTR, KILLED });
	print_rows(all.rows, "To one atomic word and back, idle", { KILL, SWITCH_THREADS });
	all.add_aim("a get and a put to adds to a counter", 2.5, all.rows.ratio(PAIR, 1, ADD, 1));
	all.print_sections();
	return all.finish();
}

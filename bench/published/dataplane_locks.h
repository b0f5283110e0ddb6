/* SPDX-License-Identifier: MIT */
/* dataplane_locks.h - the locks of the published ways to count. */
#ifndef BENCH_DATAPLANE_LOCKS_H
#define BENCH_DATAPLANE_LOCKS_H

#include <sched.h>

#include <atomic>

inline void relax()
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

class spinlock
{
      public:
	bool try_lock()
	{
		return !taken.exchange(true, std::memory_order_acquire);
	}
	void lock()
	{
		while (!try_lock())
			while (taken.load(std::memory_order_relaxed))
				relax();
	}
	void unlock()
	{
		taken.store(false, std::memory_order_release);
	}

      private:
	std::atomic<bool> taken{ false };
};

/* Threads get it in the order in which they ask, as by rte_ticketlock. While the next one does not
 * run, nobody gets it: a thread that has waited for long lets others run. */
class ticket_lock
{
      public:
	void lock()
	{
		const unsigned mine = next.fetch_add(1, std::memory_order_relaxed);

		for (unsigned i = 1; served.load(std::memory_order_acquire) != mine; i++)
			if (i % 1024 == 0)
				sched_yield();
			else
				relax();
	}
	void unlock()
	{
		served.store(served.load(std::memory_order_relaxed) + 1, std::memory_order_release);
	}

      private:
	std::atomic<unsigned> next{ 0 }, served{ 0 };
};

#endif

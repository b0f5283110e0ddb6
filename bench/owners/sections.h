/* SPDX-License-Identifier: MIT */
/*
 * sections.h - what sections of grace periods and reads of locks are compared with: reads of
 * std::shared_mutex, and sections of all flavors of liburcu, if that is installed. The add() of
 * a contender is the section, and nothing else.
 */
#ifndef BENCH_SECTIONS_H
#define BENCH_SECTIONS_H

#ifdef HAVE_URCU
#define _LGPL_SOURCE /* inlines sections */
#include <urcu/urcu-bp.h>
#include <urcu/urcu-mb.h>
#include <urcu/urcu-memb.h>
#include <urcu/urcu-qsbr.h>
#endif

#include <mutex>
#include <shared_mutex>

#include "cells.h"
#include "owners.h"

struct mutex_section {
	static inline std::shared_mutex mutex;

	[[gnu::always_inline]] void add(unsigned)
	{
		std::shared_lock<std::shared_mutex> lock(mutex);

		__asm__ volatile("" ::: "memory");
	}
};

#ifdef HAVE_URCU
#define URCU_FLAVORS(X) X(memb) X(mb) X(bp) X(qsbr)

/* In three flavors, readers are registered threads. */
template <void (*enter)(), void (*leave)()> struct registered {
	registered()
	{
		enter();
	}
	~registered()
	{
		leave();
	}
};

inline void nothing_to_do()
{
}

inline void quiescent_memb()
{
}

inline void quiescent_mb()
{
}

inline void quiescent_bp()
{
}

/* Without this no period of this flavor ends. Each batch of sections has one. */
inline void quiescent_qsbr()
{
	urcu_qsbr_quiescent_state();
}

#define enter_memb urcu_memb_register_thread
#define leave_memb urcu_memb_unregister_thread
#define enter_mb urcu_mb_register_thread
#define leave_mb urcu_mb_unregister_thread
#define enter_bp nothing_to_do
#define leave_bp nothing_to_do
#define enter_qsbr urcu_qsbr_register_thread
#define leave_qsbr urcu_qsbr_unregister_thread

#define URCU_SECTION(flavor)                                                                       \
	struct urcu_##flavor##_section {                                                           \
		urcu_##flavor##_section()                                                          \
		{                                                                                  \
			static thread_local registered<enter_##flavor, leave_##flavor> here;       \
			(void)here;                                                                \
			quiescent_##flavor();                                                      \
		}                                                                                  \
		[[gnu::always_inline]] void add(unsigned)                                          \
		{                                                                                  \
			urcu_##flavor##_read_lock();                                               \
			__asm__ volatile("" ::: "memory");                                         \
			urcu_##flavor##_read_unlock();                                             \
		}                                                                                  \
		static void wait()                                                                 \
		{                                                                                  \
			urcu_##flavor##_synchronize_rcu();                                         \
		}                                                                                  \
	};
URCU_FLAVORS(URCU_SECTION)
#endif

#endif

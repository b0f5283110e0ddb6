/* SPDX-License-Identifier: MIT */
/*
 * rwlock.cc - the benchmark of rwlock.h: locking and unlocking to read, and to write, beside
 * pthread_rwlock_t and std::shared_mutex; and beside read sides of liburcu, where that is
 * installed, which keep no writer out.
 *
 * usage: rwlock [--json FILE] [--benchmark_...]
 */
#ifdef HAVE_URCU
#define _LGPL_SOURCE /* sections inline */
#include <urcu/urcu-bp.h>
#include <urcu/urcu-mb.h>
#include <urcu/urcu-memb.h>
#endif

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <shared_mutex>

#include <pthread.h>
#include <unistd.h>

#include "cells.h"

#define READ "percpu_rwlock, to read"
#define SHARED_READ "percpu_rwlock in a file, to read"
#define FALLBACK_READ "percpu_rwlock, to read, atomic fallback"
#define PTHREAD_READ "pthread_rwlock_t, to read"
#define PTHREAD_SHARED_READ "pthread_rwlock_t between processes, to read"
#define MUTEX_READ "std::shared_mutex, to read"
#define MEMB "liburcu-memb, a section"
#define MB "liburcu-mb, a section"
#define BP "liburcu-bp, a section"
#define WRITE "percpu_rwlock, to write"
#define SHARED_WRITE "percpu_rwlock in a file, to write"
#define PTHREAD_WRITE "pthread_rwlock_t, to write"
#define MUTEX_WRITE "std::shared_mutex, to write"

static percpu_rwlock *private_one, *shared_one;
static pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER, between;
static std::shared_mutex mutex;

template <bool shared> struct percpu_read {
	percpu_rwlock *const l = shared ? shared_one : private_one;

	[[gnu::always_inline]] void add(unsigned)
	{
		if (percpu_unlikely(percpu_rwlock_read_lock(l) != 0))
			__builtin_trap();
		percpu_rwlock_read_unlock(l);
	}
};

template <pthread_rwlock_t *l> struct pthread_read {
	[[gnu::always_inline]] void add(unsigned)
	{
		pthread_rwlock_rdlock(l);
		pthread_rwlock_unlock(l);
	}
};

struct mutex_read {
	[[gnu::always_inline]] void add(unsigned)
	{
		std::shared_lock<std::shared_mutex> lock(mutex);

		__asm__ volatile("" ::: "memory");
	}
};

#ifdef HAVE_URCU
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

struct memb_read : registered<urcu_memb_register_thread, urcu_memb_unregister_thread> {
	[[gnu::always_inline]] void add(unsigned)
	{
		urcu_memb_read_lock();
		urcu_memb_read_unlock();
	}
};

struct mb_read : registered<urcu_mb_register_thread, urcu_mb_unregister_thread> {
	[[gnu::always_inline]] void add(unsigned)
	{
		urcu_mb_read_lock();
		urcu_mb_read_unlock();
	}
};

struct bp_read {
	[[gnu::always_inline]] void add(unsigned)
	{
		urcu_bp_read_lock();
		urcu_bp_read_unlock();
	}
};
#endif

static int write_once(percpu_rwlock *l)
{
	int e = percpu_rwlock_write_lock(l);

	return e == 0 ? percpu_rwlock_write_unlock(l) : e;
}

static int write_private()
{
	return write_once(private_one);
}

static int write_shared()
{
	return write_once(shared_one);
}

static int write_pthread()
{
	return pthread_rwlock_wrlock(&plain) | pthread_rwlock_unlock(&plain);
}

static int write_mutex()
{
	std::unique_lock<std::shared_mutex> lock(mutex);

	return 0;
}

static void make()
{
	constexpr unsigned flags =
		PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS;
	char path[] = "/dev/shm/percpu-bench-rwlock-XXXXXX";
	const int fd = mkstemp(path);
	pthread_rwlockattr_t attr;
	percpu_region *region;
	percpu_owners *owners;

	if (fd < 0 || close(fd) != 0 || unlink(path) != 0)
		must(-EIO, path);
	must(percpu_region_open(path, flags, nullptr, &region), path);
	unlink(path);
	must(percpu_owners_create_in(region, &owners), "owners");
	must(percpu_rwlock_create(0, &private_one), "a lock");
	must(percpu_rwlock_create_in(owners, 0, &shared_one), "a lock in a file");
	must(percpu_rwlock_read_lock(shared_one), "to join");
	percpu_rwlock_read_unlock(shared_one);
	pthread_rwlockattr_init(&attr);
	pthread_rwlockattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	must(-pthread_rwlock_init(&between, &attr), "a lock of libc");
}

static void measure_all()
{
	measure<counter_add>(ADD);
	measure<percpu_read<false>>(READ);
	measure<percpu_read<true>>(SHARED_READ);
	measure<hidden_cpu<percpu_read<false>>>(FALLBACK_READ);
	measure<pthread_read<&plain>>(PTHREAD_READ);
	measure<pthread_read<&between>>(PTHREAD_SHARED_READ);
	measure<mutex_read>(MUTEX_READ);
#ifdef HAVE_URCU
	measure<memb_read>(MEMB);
	measure<mb_read>(MB);
	measure<bp_read>(BP);
#endif
	measure_call(WRITE, write_private);
	measure_call(PTHREAD_WRITE, write_pthread);
	measure_call(MUTEX_WRITE, write_mutex);
	measure_call(SHARED_WRITE, write_shared, 4);
}

int main(int argc, char **argv)
{
	report all("rwlock", argc, argv);

	fprintf(stderr, "rwlock: measuring, for about half a minute ...\n");
	make();
	measure_all();
	all.run();
	print_rows(all.rows, "Lock and unlock to read, ns, CPU time per thread: median (best)",
		   { ADD, READ, SHARED_READ, FALLBACK_READ, PTHREAD_READ, PTHREAD_SHARED_READ,
		     MUTEX_READ, MEMB, MB, BP });
	print_rows(all.rows, "Lock and unlock to write, nobody reads",
		   { WRITE, PTHREAD_WRITE, MUTEX_WRITE, SHARED_WRITE });
#ifndef HAVE_URCU
	all.skip("liburcu", "it is not installed");
#endif
	all.add_aim("lock and unlock to read, to one add to a counter", 3.0,
		    all.rows.ratio(READ, 1, ADD, 1));
	all.add_aim("the same with 2 threads to that with 1", 1.2,
		    all.rows.ratio(READ, 2, READ, 1));
	all.add_aim("2 threads, to pthread_rwlock_t", 0.1,
		    all.rows.ratio(READ, 2, PTHREAD_READ, 2));
	all.print_sections();
	return all.finish();
}

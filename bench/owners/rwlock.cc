/* SPDX-License-Identifier: MIT */
/*
 * rwlock.cc - the benchmark of rwlock.h: locking and unlocking to read, and to write, beside
 * pthread_rwlock_t and std::shared_mutex; and beside read sides of liburcu, if that is
 * installed, which exclude no writer.
 *
 * usage: rwlock [--json FILE] [--benchmark_...]
 */
#include <cstdio>

#include <pthread.h>

#include <percpu/rwlock.h>

#include "sections.h"

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
	std::unique_lock<std::shared_mutex> lock(mutex_section::mutex);

	return 0;
}

static void make()
{
	pthread_rwlockattr_t attr;

	must(percpu_rwlock_create(0, &private_one), "a lock");
	must(percpu_rwlock_create_in(owners_in_file(), 0, &shared_one), "a lock in a file");
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
	measure<mutex_section>(MUTEX_READ);
#ifdef HAVE_URCU
	measure<urcu_memb_section>(MEMB);
	measure<urcu_mb_section>(MB);
	measure<urcu_bp_section>(BP);
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

/* SPDX-License-Identifier: MIT */
/*
 * sweep_wraps.c - count the locks that a thread holds, and let allocations of cells fail. These
 * functions replace libc's and the library's own, see --wrap in ld(1).
 */
#include <errno.h>
#include <pthread.h>

#include "support.h"
#include "memory/memory.h"
#include "sweep.h"

enum { MOST = 64 };

static __thread pthread_mutex_t *held[MOST];
static __thread unsigned mutexes, robust_locks;

unsigned sweep_mutexes(void)
{
	return mutexes;
}

unsigned sweep_robust_locks(void)
{
	return robust_locks;
}

static void note(pthread_mutex_t *m)
{
	if (mutexes < MOST)
		held[mutexes] = m;
	mutexes++;
}

static unsigned place_of(const pthread_mutex_t *m)
{
	unsigned i = 0;

	while (i < mutexes && i < MOST && held[i] != m)
		i++;
	return i;
}

/* A thread that holds the mutex would wait for ever, so this asserts. Only the test's thread
 * counts. */
int __real_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m);
int __wrap_pthread_mutex_lock(pthread_mutex_t *m)
{
	int e;

	if (mutexes < MOST && place_of(m) < mutexes)
		fail_msg("a mutex is locked by a thread that has it");
	e = __real_pthread_mutex_lock(m);
	note(m);
	return e;
}

int __real_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *m)
{
	int e = __real_pthread_mutex_trylock(m);

	if (e == 0)
		note(m);
	return e;
}

int __real_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *m)
{
	unsigned i = place_of(m);

	mutexes--;
	for (; i < mutexes && i + 1 < MOST; i++)
		held[i] = held[i + 1];
	return __real_pthread_mutex_unlock(m);
}

int __real_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns)
{
	int e = __real_percpu_robust_lock(h, word, timeout_ns);

	robust_locks += e == 0;
	return e;
}

void __real_percpu_robust_unlock(struct percpu_robust *h);
void __wrap_percpu_robust_unlock(struct percpu_robust *h);
void __wrap_percpu_robust_unlock(struct percpu_robust *h)
{
	robust_locks--;
	__real_percpu_robust_unlock(h);
}

/* Let allocations of cells fail, whether or not there is room. */
int __real_percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret);
int __wrap_percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret);
int __wrap_percpu_region_alloc(struct percpu_region *r, size_t size, size_t align, void **ret)
{
	return fault_fails(FAULT_CELLS) ? -ENOMEM : __real_percpu_region_alloc(r, size, align, ret);
}

int __real_percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size,
				      size_t align, void **ret);
int __wrap_percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size,
				      size_t align, void **ret);
int __wrap_percpu_region_alloc_narrow(struct percpu_region *r, size_t size, size_t cpu_size,
				      size_t align, void **ret)
{
	return fault_fails(FAULT_CELLS) ?
		       -ENOMEM :
		       __real_percpu_region_alloc_narrow(r, size, cpu_size, align, ret);
}

ssize_t __real_percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align,
					size_t n, void **ret);
ssize_t __wrap_percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align,
					size_t n, void **ret);
ssize_t __wrap_percpu_region_alloc_many(struct percpu_region *r, size_t size, size_t align,
					size_t n, void **ret)
{
	return fault_fails(FAULT_CELLS) ? -ENOMEM :
					  __real_percpu_region_alloc_many(r, size, align, n, ret);
}

int __real_percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
				  size_t cpu_size, size_t align, struct percpu_robust *h,
				  void **ret);
int __wrap_percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
				  size_t cpu_size, size_t align, struct percpu_robust *h,
				  void **ret);
int __wrap_percpu_region_alloc_at(struct percpu_region *r, struct percpu_anchor *at, size_t size,
				  size_t cpu_size, size_t align, struct percpu_robust *h,
				  void **ret)
{
	return fault_fails(FAULT_CELLS) ?
		       -ENOMEM :
		       __real_percpu_region_alloc_at(r, at, size, cpu_size, align, h, ret);
}

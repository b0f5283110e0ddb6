/* SPDX-License-Identifier: MIT */
/*
 * objcache.h - a cache of objects that stay constructed while they are free. After
 * DragonFly's objcache(9), and Bonwick's magazines.
 *
 * A constructor runs once for each object that the backend (malloc, unless the program
 * has its own) hands out, and a destructor once before it goes back. In between, a get is
 * a pop from an array of the CPU, and a put a push onto it, in a restartable sequence
 * each. What a user puts must be in the state in which the constructor leaves an object.
 *
 * percpu/dragonfly/objcache.h has DragonFly's names.
 */
#ifndef PERCPU_OBJCACHE_H
#define PERCPU_OBJCACHE_H

#include <percpu/counter.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** The fields are the library's. */
struct percpu_objcache {
	char *cell;
	char *guard;
	size_t stride;
	uint64_t room PERCPU_ALIGNED_WORD; /* atomic */
	struct percpu_counter *requests;
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, not a signal handler; percpu_objcache_stats() also in signal
 * handlers. A child of fork has a copy of the cache, and of the objects if the backend's
 * memory is copied; what other threads of the parent had taken, or waited for, stays taken.
 * Ordering: what a thread did with an object before it put it happens before the get that
 * returns it. Nothing else is ordered.
 * Progress: a call that goes to another CPU's array, or to the depot that all arrays
 * share, takes a lock for a few instructions. What the backend and the constructor do takes
 * as long as it takes.
 *
 * The backend's functions, the constructor and the destructor are called without a lock
 * of the library, so they may use caches, also this one; but at its limit they do not wait
 * (-EDEADLK, see percpu_objcache_get()). They must return, and run on one stack until then: no
 * longjmp, no exceptions, no switch to another fiber. A
 * thread that is canceled meanwhile is canceled after the call. While a thread allows
 * asynchronous cancellation, it must not create a cache, get or put: what it has got but not
 * yet stored, or is about to put, would stay taken.
 */

/**
 * Construct an object. flags are those of percpu_objcache_get(). If that fails, the
 * destructor is not called: what was made of the object is undone by the constructor.
 *
 * Returns 0, or -errno, which percpu_objcache_get() then returns, when it has given the
 * memory back to the backend; or any other number, for -EIO.
 */
typedef int percpu_objcache_ctor_fn(void *obj, void *arg, unsigned flags);
typedef void percpu_objcache_dtor_fn(void *obj, void *arg);

/** Return the memory of another object; NULL if there is none. */
typedef void *percpu_objcache_alloc_fn(void *arg, unsigned flags);
typedef void percpu_objcache_free_fn(void *obj, void *arg);

/** For percpu_objcache_options.flags: check each put, see percpu_objcache_put(), and print
 *  to standard error why a get failed. Without arrays, so gets and puts take a lock. */
#define PERCPU_OBJCACHE_DEBUG 0x2

/** Options of a cache. Set size; zero in another field means the default. */
struct percpu_objcache_options {
	size_t size;   /* sizeof(struct percpu_objcache_options) */
	size_t limit;  /* most objects at a time, those that are free included;
				   default none */
	size_t cached; /* most objects in the arrays of all CPUs together, but 2 per
				   CPU are always allowed; default, and most, 510 per CPU, or
				   half of the limit. What they have no room for is in the
				   depot, which has no bound but the limit */
	percpu_objcache_ctor_fn *ctor;
	percpu_objcache_dtor_fn *dtor;
	void *arg;			 /* passed to both */
	percpu_objcache_alloc_fn *alloc; /* the backend: both or none; default malloc */
	percpu_objcache_free_fn *free;
	void *backend;	   /* passed to both */
	uint32_t flags;	   /* PERCPU_OBJCACHE_DEBUG */
	uint32_t reserved; /* 0 */
};

/**
 * Create a cache of objects.
 *
 * Parameters
 *	name	for diagnostics; copied, cut to 31 characters
 *	size	bytes of an object, at least 1: for malloc, and for PERCPU_OBJCACHE_DEBUG,
 *		which looks at so many bytes of an object of any backend
 *	o	may be NULL
 *
 * Returns 0, or
 *	-EINVAL	a NULL, a size of 0, one function of a backend without the other, or
 *		options that this library does not know
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_objcache_create(const char *name, size_t size,
							const struct percpu_objcache_options *o,
							struct percpu_objcache **ret);

/** Destroy a cache and the objects in it. Returns 0, or -EBUSY while objects are with users,
 *  or if a destructor has put one that was made meanwhile: the cache then goes on. A destructor
 *  that does so each time leaves one each time. NULL is fine.
 *
 *  Call it when no other thread uses the cache any more: -EBUSY tells of objects, not of
 *  threads. */
PERCPU_API PERCPU_MUST_CHECK int percpu_objcache_destroy(struct percpu_objcache *oc);

/** For percpu_objcache_get(): at the limit, wait until an object is put. */
#define PERCPU_OBJCACHE_WAIT 0x1
/** Flags that only the constructor and the backend look at. */
#define PERCPU_OBJCACHE_USER 0xffff0000U

PERCPU_API PERCPU_MUST_CHECK int percpu_objcache_get_slow(struct percpu_objcache *oc,
							  unsigned flags, void **ret);
PERCPU_API int percpu_objcache_put_slow(struct percpu_objcache *oc, void *obj);

/**
 * Get an object. It is as the constructor left it, or as its last user put it.
 *
 * Returns 0, or
 *	-ENOSPC	the limit is reached, and no object is free on any CPU (without
 *		PERCPU_OBJCACHE_WAIT). Those that another thread is moving between an array and
 *		the depot at that moment are not found
 *	-EDEADLK	the same with PERCPU_OBJCACHE_WAIT, in a constructor, destructor or
 *		function of the backend of this cache: the object that it works on counts for
 *		the limit, so all might wait there for each other; or in a handler of
 *		pthread_atfork() for which all other threads wait (docs/cpu/process.md)
 *	-ENOMEM	the backend returned NULL
 *	-EINVAL	ret is NULL, or unknown flags: only a call that finds no object on its CPU
 *		looks at either; with an object there, a ret of NULL is SIGSEGV
 *	-EPERM, -ETIMEDOUT, -EAGAIN  also with PERCPU_OBJCACHE_WAIT: no object can be made,
 *		only other CPUs have free ones, and nobody can get at these, because
 *		membarrier(2) is refused (percpu_fence()), or, for -ETIMEDOUT, a thread of a
 *		lower tier was stopped there. Another try may help, but not for -EPERM
 *	-EIO	the constructor returned a positive number
 *	or what the constructor returned, also if it is one of these.
 *
 * Progress: usually a pop from this CPU's array. Before the call fails it takes an object
 * from the depot or from another CPU's array. Threads that wait are served in the order in
 * which they came; only a call that began before they waited may overtake them. Signal
 * handlers run meanwhile, and the call goes on waiting. It is no cancellation point. Nothing
 * but an object or a higher limit ends a wait: docs/caches/objcache.md says how a program stops.
 */
PERCPU_INLINE PERCPU_MUST_CHECK int percpu_objcache_get(struct percpu_objcache *oc, unsigned flags,
							void **ret)
{
	void *obj = PERCPU_NULL(void *); /* some compilers cannot tell that it is set */

	if (percpu_unlikely(percpu_seq_pop(oc->cell, oc->guard, oc->stride, &obj)))
		return percpu_objcache_get_slow(oc, flags, ret);
	percpu_counter_inc(oc->requests);
	*ret = obj;
	return 0;
}

/**
 * Put an object, constructed as it was, that no thread uses any more. NULL is fine.
 *
 * Returns 0.
 *
 * With PERCPU_OBJCACHE_DEBUG the library prints what was wrong to standard error, and
 * aborts, for an object of another cache, for a second put, and for a store to an object
 * after its put, which the next get of it finds; percpu_objcache_dtor() does so for the
 * first two. Without it, each of these is the program's own error, and nothing finds it.
 */
PERCPU_INLINE int percpu_objcache_put(struct percpu_objcache *oc, void *obj)
{
	uint64_t room = __atomic_load_n(&oc->room, __ATOMIC_RELAXED);

	if (percpu_unlikely(obj == NULL ||
			    percpu_seq_push(oc->cell, oc->guard, oc->stride, room, obj)))
		return percpu_objcache_put_slow(oc, obj);
	/* A thread began to wait, or the limit was lowered. */
	if (percpu_unlikely(__atomic_load_n(&oc->room, __ATOMIC_RELAXED) != room))
		return percpu_objcache_put_slow(oc, PERCPU_NULL(void *));
	return 0;
}

/** Destroy an object that a user has, instead of putting it: for one that cannot be brought
 *  back to its constructed state. NULL is fine. Returns 0, or -EINVAL (oc is NULL). */
PERCPU_API int percpu_objcache_dtor(struct percpu_objcache *oc, void *obj);

/** Change the limit; 0 is none. If more objects exist, free ones are destroyed at once, and
 *  then those that are put, until no more exist than that. */
PERCPU_API void percpu_objcache_set_limit(struct percpu_objcache *oc, size_t limit);

/** Destroy the objects that are free. Returns how many. */
PERCPU_API size_t percpu_objcache_reclaim(struct percpu_objcache *oc);

/** Filled by percpu_objcache_stats(). While no other thread uses the cache, all are exact;
 *  otherwise they are not of the same moment. */
struct percpu_objcache_stats {
	char name[32];
	size_t size;	    /* bytes of an object */
	size_t limit;	    /* 0: none */
	uint64_t requested; /* gets that returned an object */
	uint64_t used;	    /* objects with users */
	uint64_t cached;    /* free objects */
	uint64_t exhausted; /* gets that found the limit reached, and no object free */
	uint64_t failed;    /* gets that returned an error, but for bad arguments */
	uint64_t allocated; /* objects that the backend has returned and ctor constructed */
	uint64_t waited;    /* gets that waited */
	uint64_t array;	    /* objects at which a CPU's array is full */
};

PERCPU_API void percpu_objcache_stats(const struct percpu_objcache *oc,
				      struct percpu_objcache_stats *ret);

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * objcache.h - a cache of objects that stay constructed while they are free. After
 * DragonFly's objcache(9), and Bonwick's magazines.
 *
 * The backend (malloc, unless the program has its own) provides the memory of objects. The
 * constructor runs once when an object comes from the backend, the destructor once before it
 * goes back. In between, a get pops the object from an array of the CPU, and a put pushes it
 * there; each is one restartable sequence. Put an object in the state in which the constructor
 * leaves it.
 *
 * percpu/dragonfly/objcache.h has DragonFly's names.
 */
#ifndef PERCPU_OBJCACHE_H
#define PERCPU_OBJCACHE_H

#include <percpu/counter.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/** A cache. Only the library uses the fields. */
struct percpu_objcache {
	char *cell;
	char *guard;
	size_t stride;
	uint64_t room PERCPU_ALIGNED_WORD; /* atomic */
	struct percpu_counter *requests;
};

/*
 * All calls of this header have this in common, unless the comment on a call says otherwise.
 *
 * Context: any thread, not a signal handler; percpu_objcache_stats() also in signal
 * handlers. A child of fork has a copy of the cache, and of the objects if fork copies the
 * backend's memory. Objects that other threads of the parent had, or were about to get, stay
 * taken in the child.
 * Ordering: what a thread did with an object before it put it happens before the get that
 * returns it. Nothing else is ordered.
 * Progress: a call that uses another CPU's array, or the depot that all arrays share, takes a
 * lock for a few instructions. The backend and the constructor may take any time.
 *
 * The library calls the backend's functions, the constructor and the destructor without a lock.
 * So they may use caches, also this one; but at its limit they do not wait (-EDEADLK, see
 * percpu_objcache_get()). They must return, and run on one stack until then: no longjmp, no
 * exceptions, no switch to another fiber. If a thread is canceled during the call, the
 * cancellation takes effect after the call. While a thread allows asynchronous cancellation, it
 * must not create a cache, get or put: an object that it has got but not yet stored, or is about
 * to put, would stay taken.
 */

/**
 * Construct an object. flags are those of percpu_objcache_get(). A constructor that fails undoes
 * its own work: the destructor is not called.
 *
 * Returns 0 or -errno. percpu_objcache_get() gives the memory back to the backend and returns
 * that error; for a positive number it returns -EIO.
 */
typedef int percpu_objcache_ctor_fn(void *obj, void *arg, unsigned flags);
typedef void percpu_objcache_dtor_fn(void *obj, void *arg);

/** Return memory for an object, or NULL if there is none. */
typedef void *percpu_objcache_alloc_fn(void *arg, unsigned flags);
typedef void percpu_objcache_free_fn(void *obj, void *arg);

/** For percpu_objcache_options.flags: check each put, see percpu_objcache_put(), and print
 *  to standard error why a get failed. The cache then has no arrays, so each get and put takes a
 *  lock. */
#define PERCPU_OBJCACHE_DEBUG 0x2

/** Options of a cache. Set size. Zero in another field means the default. */
struct percpu_objcache_options {
	size_t size;   /* sizeof(struct percpu_objcache_options) */
	size_t limit;  /* most objects at a time, free ones included; default none */
	size_t cached; /* most objects in the arrays of all CPUs together, but 2 per CPU are
			  always allowed. Default, and most: 510 per CPU, or half of the limit.
			  The depot takes the rest; only the limit bounds it */
	percpu_objcache_ctor_fn *ctor;
	percpu_objcache_dtor_fn *dtor;
	void *arg;			 /* passed to ctor and dtor */
	percpu_objcache_alloc_fn *alloc; /* the backend: both or none; default malloc */
	percpu_objcache_free_fn *free;
	void *backend;	   /* passed to alloc and free */
	uint32_t flags;	   /* PERCPU_OBJCACHE_DEBUG */
	uint32_t reserved; /* 0 */
};

/**
 * Create a cache of objects.
 *
 * Parameters
 *	name	for diagnostics; copied, cut to 31 characters
 *	size	bytes of an object, at least 1. The default backend allocates so many, and
 *		PERCPU_OBJCACHE_DEBUG checks so many bytes of an object of any backend
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

/** Destroy a cache and its free objects. Returns 0, or -EBUSY while users have objects, or if a
 *  destructor has put an object that was made meanwhile. After -EBUSY the cache can still be
 *  used. If a destructor puts a new object each time, each call returns -EBUSY. NULL is fine.
 *
 *  Call it when no other thread uses the cache any more. 0 or -EBUSY says nothing about
 *  threads. */
PERCPU_API int percpu_objcache_destroy(struct percpu_objcache *oc);

/** For percpu_objcache_get(): at the limit, wait until an object is put. */
#define PERCPU_OBJCACHE_WAIT 0x1
/** Flags that only the constructor and the backend look at. */
#define PERCPU_OBJCACHE_USER 0xffff0000U

PERCPU_API int percpu_objcache_get_slow(struct percpu_objcache *oc, unsigned flags, void **ret);
PERCPU_API void percpu_objcache_put_slow(struct percpu_objcache *oc, void *obj);

/**
 * Get an object, in the state in which the constructor left it, or its last user put it.
 *
 * Returns 0, or
 *	-ENOSPC	the limit is reached, and no object is free on any CPU (without
 *		PERCPU_OBJCACHE_WAIT). The call does not find objects that another thread is
 *		moving between an array and the depot at that moment
 *	-EDEADLK	the limit is reached, with PERCPU_OBJCACHE_WAIT, and the call comes from a
 *		constructor, destructor or backend function of this cache: the object that it
 *		works on counts for the limit, so all such calls might wait for each other. Or
 *		it comes from a handler of pthread_atfork() for which all other threads wait
 *		(docs/cpu/process.md)
 *	-ENOMEM	the backend returned NULL
 *	-EINVAL	ret is NULL, or unknown flags. Only a call that finds no object on its CPU
 *		checks either; if it finds one, a ret of NULL raises SIGSEGV
 *	-EPERM, -ETIMEDOUT, -EAGAIN  also with PERCPU_OBJCACHE_WAIT: no object can be made, and
 *		all free ones are in arrays of other CPUs, from which the call cannot take them:
 *		membarrier(2) is refused (percpu_fence()), or, for -ETIMEDOUT, a thread of a
 *		lower tier was stopped there. Another try may help, but not after -EPERM
 *	-EIO	the constructor returned a positive number
 *	or the constructor's own error, which may be one of the above.
 *
 * Progress: usually one pop from this CPU's array. Before the call fails it takes an object
 * from the depot or from another CPU's array. Waiting threads get objects in the order in which
 * they came; only a call that began before they waited may overtake them. Signal handlers run
 * during the wait, and do not end it. The wait is no cancellation point. Only an object or a
 * higher limit ends it: docs/caches/objcache.md says how a program stops.
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
 * Put an object that no thread uses any more, in its constructed state. NULL is fine. If the CPU's
 * array is full, the object and half of the array go to the depot; if there is no memory for them,
 * or other threads hold all locks of the depot, the call destroys them, also below the limit.
 *
 * With PERCPU_OBJCACHE_DEBUG the library prints the error to standard error and aborts for an
 * object of another cache, and for a second put. The next get of the object, or its destruction,
 * does so for a store to it after its put. Without PERCPU_OBJCACHE_DEBUG the library notices none
 * of these errors.
 */
PERCPU_INLINE void percpu_objcache_put(struct percpu_objcache *oc, void *obj)
{
	uint64_t room = __atomic_load_n(&oc->room, __ATOMIC_RELAXED);

	if (percpu_unlikely(obj == NULL ||
			    percpu_seq_push(oc->cell, oc->guard, oc->stride, room, obj)))
		percpu_objcache_put_slow(oc, obj);
	/* A thread began to wait, or the limit was lowered. */
	else if (percpu_unlikely(__atomic_load_n(&oc->room, __ATOMIC_RELAXED) != room))
		percpu_objcache_put_slow(oc, PERCPU_NULL(void *));
}

/** Destroy an object that a user has, instead of putting it: for an object that cannot be brought
 *  back to its constructed state. NULL is fine. Returns 0, or -EINVAL (oc is NULL). With
 *  PERCPU_OBJCACHE_DEBUG it checks the object as percpu_objcache_put() does. */
PERCPU_API int percpu_objcache_dtor(struct percpu_objcache *oc, void *obj);

/** Change the limit; 0 means none. If more objects exist than the new limit allows, the library
 *  destroys free ones at once, and then each object that is put, until no more exist. */
PERCPU_API void percpu_objcache_set_limit(struct percpu_objcache *oc, size_t limit);

/** Destroy the free objects. Returns how many. */
PERCPU_API size_t percpu_objcache_reclaim(struct percpu_objcache *oc);

/** Filled by percpu_objcache_stats(). While no other thread uses the cache, all numbers are
 *  exact; otherwise they are not of the same instant. */
struct percpu_objcache_stats {
	char name[32];
	size_t size;	    /* bytes of an object */
	size_t limit;	    /* 0: none */
	uint64_t requested; /* gets that returned an object */
	uint64_t used;	    /* objects with users */
	uint64_t cached;    /* free objects */
	uint64_t exhausted; /* gets that found the limit reached, and no object free */
	uint64_t failed;    /* gets that returned an error, bad arguments aside */
	uint64_t allocated; /* objects that the backend returned and ctor constructed */
	uint64_t waited;    /* gets that waited */
	uint64_t array;	    /* objects in a CPU's array that is full */
};

PERCPU_API void percpu_objcache_stats(const struct percpu_objcache *oc,
				      struct percpu_objcache_stats *ret);

PERCPU_END_DECLS

#endif

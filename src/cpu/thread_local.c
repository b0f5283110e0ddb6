/* SPDX-License-Identifier: MIT */
/*
 * thread_local.c - the library's struct of each thread.
 *
 * In a program that is linked with the library, the struct of each thread is in thread-local
 * storage, at a distance from the thread pointer that is fixed when the program starts.
 *
 * A library that is loaded late, by dlopen(), may get no such storage: musl refuses it, and
 * glibc has about 1.6 KB for all libraries. glibc allocates the other kind of thread-local
 * storage with malloc() at a thread's first access, which may be in a signal
 * handler that has interrupted malloc(). So with PERCPU_LATE the library has no
 * thread-local storage. Each thread's struct is a mapping, and a thread-specific key has its
 * address as value. pthread_getspecific() can be called in signal handlers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "cpu.h"

/* The function to call when a thread ends: see percpu_thread_key_init(). Constant once
 * percpu_init() is done. */
static void (*at_end)(struct percpu_thread *);

#ifdef PERCPU_LATE

/* The number of keys for whose values each thread of glibc has room. For the value of a further
 * key pthread_setspecific() calls malloc(). musl has room for all keys. */
#ifdef __GLIBC__
#define KEYS 32
#else
#define KEYS PERCPU_NO_KEY
#endif

/* The library stores to key and not to percpu_key, because that name may resolve to the library
 * that the program is linked with. */
static pthread_key_t key = PERCPU_NO_KEY;
extern pthread_key_t percpu_key __attribute__((alias("key")));

/* The common struct, for all threads that cannot have one of their own. These threads change
 * only `shared` in it, which has no effect in this state. */
static struct percpu_thread unable = {
	.self = &unable.none,
	.own.cpu_id = -1,
	.none.cpu_id = -1,
	.area = &unable.none,
	.state = PERCPU_THREAD_UNABLE,
};

static bool is_common(const struct percpu_thread *r)
{
	return r == &unable;
}

static void end_of_thread(void *arg)
{
	struct percpu_thread *r = arg;

	/* libc has cleared the value, which signal handlers that count still need. */
	pthread_setspecific(key, r);
	if (at_end != NULL)
		at_end(r);
	pthread_setspecific(key, NULL);
	if (!is_common(r) && r->shared == 0)
		munmap(r, sizeof(*r));
}

static void create_key(void)
{
	pthread_key_t created;

	if (pthread_key_create(&created, end_of_thread) != 0)
		return;
	if (created < KEYS)
		key = created;
	else
		pthread_key_delete(created);
}

/* Create the key in a constructor; or earlier, if another constructor calls the library. A
 * thread's first add would be too late, because it may be in a signal handler. */
__attribute__((constructor)) static void have_key(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, create_key);
}

bool percpu_thread_key_init(void (*detach)(struct percpu_thread *))
{
	at_end = detach;
	have_key();
	return key != PERCPU_NO_KEY;
}

bool percpu_thread_keep(struct percpu_thread *r)
{
	return !is_common(r);
}

static struct percpu_thread *map_struct(void)
{
	struct percpu_thread *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return &unable;
	r->own.cpu_id = r->none.cpu_id = -1;
	r->area = r->self = &r->none;
	return r;
}

static struct percpu_thread *make_struct(void)
{
	struct percpu_thread *r;
	int saved = errno;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_getspecific(key);
	if (r == NULL) {
		r = map_struct();
		pthread_setspecific(key, r);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return r;
}

struct percpu_thread *percpu_thread(void)
{
	struct percpu_thread *r;

	if (key == PERCPU_NO_KEY)
		return &unable;
	r = pthread_getspecific(key);
	return percpu_likely(r != NULL) ? r : make_struct();
}

/* The key whose values are the numbers of threads that have the common struct. For these values
 * glibc may call malloc(). The process lock protects the key until it is created. */
static pthread_key_t number_key = PERCPU_NO_KEY;

static uint64_t common_number(void)
{
	const pthread_key_t k = __atomic_load_n(&number_key, __ATOMIC_ACQUIRE);

	return k != PERCPU_NO_KEY ? (uintptr_t)pthread_getspecific(k) : 0;
}

/* Set the number of a thread that has the common struct. Returns whether that succeeded. */
static bool set_common_number(uint64_t number)
{
	pthread_key_t k = number_key;

	if (k == PERCPU_NO_KEY) {
		if (pthread_key_create(&k, NULL) != 0)
			return false;
		__atomic_store_n(&number_key, k, __ATOMIC_RELEASE);
	}
	return pthread_setspecific(k, (void *)(uintptr_t)number) == 0;
}

static uint64_t thread_number(void)
{
	const struct percpu_thread *r = percpu_thread();

	return is_common(r) ? common_number() : r->number;
}

static bool set_thread_number(uint64_t number)
{
	struct percpu_thread *r = percpu_thread();

	if (is_common(r))
		return set_common_number(number);
	r->number = number;
	return true;
}

struct percpu_rseq **percpu_self_at(void)
{
	return &percpu_thread()->self;
}

#else

/* The area that percpu_self points to until the thread's first slow path. All threads write to
 * it, but they read only its cpu_id, which does not change. */
static struct percpu_rseq nobody = { .cpu_id = -1 };

/* "used" because link-time optimization does not see that the sequences use it. */
__thread struct percpu_rseq *percpu_self __attribute__((used, tls_model("initial-exec"))) = &nobody;

static __thread struct percpu_thread thread __attribute__((tls_model("initial-exec"))) = {
	.own.cpu_id = -1,
	.none.cpu_id = -1,
	.area = &nobody,
};

/* Plugins that are compiled with PERCPU_LATE use these two if their program has this library. */
PERCPU_API extern const pthread_key_t percpu_key;
const pthread_key_t percpu_key = (pthread_key_t)-1;
PERCPU_API struct percpu_rseq **percpu_self_at(void);

/* The compiler must not inline this, or keep its result: a fiber may move to another thread
 * between two calls. */
__attribute__((noinline)) struct percpu_rseq **percpu_self_at(void)
{
	__asm__ __volatile__("" ::: "memory");
	return &percpu_self;
}

static bool is_common(const struct percpu_thread *r)
{
	(void)r;
	return false;
}

static pthread_key_t key;
static bool has_key;

static void end_of_thread(void *arg)
{
	at_end(arg);
}

bool percpu_thread_key_init(void (*detach)(struct percpu_thread *))
{
	at_end = detach;
	has_key = pthread_key_create(&key, end_of_thread) == 0;
	return true;
}

bool percpu_thread_keep(struct percpu_thread *r)
{
	return has_key && pthread_setspecific(key, r) == 0;
}

struct percpu_thread *percpu_thread(void)
{
	struct percpu_rseq *seen = &nobody;

	/* A compare-and-swap, because a signal handler may be attaching the thread. */
	if (percpu_self == &nobody)
		__atomic_compare_exchange_n(&percpu_self, &seen, &thread.none, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return &thread;
}

/* The thread's number. It is not in the struct, whose size is a multiple of its alignment. */
static __thread uint64_t number __attribute__((tls_model("initial-exec")));

static uint64_t thread_number(void)
{
	return number;
}

static bool set_thread_number(uint64_t n)
{
	number = n;
	return true;
}

#endif

uint64_t percpu_thread_number(void)
{
	static uint64_t last; /* the process lock protects it */
	uint64_t n = thread_number();

	if (percpu_likely(n != 0))
		return n;
	percpu_process_lock();
	if (set_thread_number(last + 1))
		n = ++last;
	percpu_process_unlock();
	return n;
}

void percpu_thread_enter_call(struct percpu_thread_call *w, const void *object)
{
	struct percpu_thread *r = percpu_thread();

	*w = (struct percpu_thread_call){ .object = object, .outer = r->within };
	if (!is_common(r))
		r->within = w;
}

void percpu_thread_leave_call(const struct percpu_thread_call *w)
{
	struct percpu_thread *r = percpu_thread();

	if (!is_common(r))
		r->within = w->outer;
}

bool percpu_thread_is_in_call(const void *object)
{
	const struct percpu_thread_call *w = percpu_thread()->within;

	while (w != NULL && w->object != object)
		w = w->outer;
	return w != NULL;
}

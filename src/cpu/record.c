/* SPDX-License-Identifier: MIT */
/*
 * record.c - where the library keeps what it knows of the calling thread.
 *
 * A program that is linked with the library has it in thread-local storage, at a
 * distance from the thread pointer that is fixed when the program starts.
 *
 * What is loaded late, by dlopen(), may get no such storage: musl refuses, and
 * glibc has about 1.6 KB for all libraries. Storage of the other kind glibc
 * allocates with malloc() at a thread's first access, which may be in a signal
 * handler that has interrupted malloc(). So with PERCPU_LATE the library has no
 * thread-local storage. Each thread's record is a mapping, and the value of a
 * thread-specific key. pthread_getspecific() can be called in signal handlers.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>

#include "cpu.h"

/* What else is to be done when a thread ends. Constant once percpu_init() is done. */
static void (*at_end)(struct percpu_record *);

#ifdef PERCPU_LATE

/* glibc has room for the values of so many keys in each thread; for the value of
 * a further key pthread_setspecific() calls malloc(). musl has room for all. */
#ifdef __GLIBC__
#define KEYS 32
#else
#define KEYS PERCPU_NO_KEY
#endif

/* Not stored to by its public name, which may be that of the program's library. */
static pthread_key_t key = PERCPU_NO_KEY;
extern pthread_key_t percpu_key __attribute__((alias("key")));

/* Of all threads that cannot have one of their own. They change nothing in it
 * but shared, which makes no difference here. */
static struct percpu_record unable = {
	.self = &unable.none,
	.own.cpu_id = -1,
	.none.cpu_id = -1,
	.area = &unable.none,
	.state = PERCPU_THREAD_UNABLE,
};

static void end_of_thread(void *arg)
{
	struct percpu_record *r = arg;

	/* For signal handlers that count meanwhile. */
	pthread_setspecific(key, r);
	if (at_end != NULL)
		at_end(r);
	pthread_setspecific(key, NULL);
	if (r != &unable && r->shared == 0)
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

/* Not on a thread's first use, which may be in a signal handler: in a constructor, or
 * before, in another one that creates something. */
__attribute__((constructor)) static void have_key(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, create_key);
}

bool percpu_record_init(void (*detach)(struct percpu_record *))
{
	at_end = detach;
	have_key();
	return key != PERCPU_NO_KEY;
}

bool percpu_record_keep(struct percpu_record *r)
{
	return r != &unable;
}

static struct percpu_record *map_record(void)
{
	struct percpu_record *r =
		mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (r == MAP_FAILED)
		return &unable;
	r->own.cpu_id = r->none.cpu_id = -1;
	r->area = r->self = &r->none;
	return r;
}

static struct percpu_record *make_record(void)
{
	struct percpu_record *r;
	int saved = errno;
	sigset_t all, old;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_getspecific(key);
	if (r == NULL) {
		r = map_record();
		pthread_setspecific(key, r);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = saved;
	return r;
}

struct percpu_record *percpu_record(void)
{
	struct percpu_record *r;

	if (key == PERCPU_NO_KEY)
		return &unable;
	r = pthread_getspecific(key);
	return percpu_likely(r != NULL) ? r : make_record();
}

struct percpu_rseq **percpu_self_at(void)
{
	return &percpu_record()->self;
}

#else

/* What a thread points to before it is looked at. Written by all, read by
 * none but for its cpu_id, which stays. */
static struct percpu_rseq nobody = { .cpu_id = -1 };

/* Used: by the assembly of sequences, which link-time optimization cannot see. */
__thread struct percpu_rseq *percpu_self __attribute__((used, tls_model("initial-exec"))) = &nobody;

static __thread struct percpu_record thread __attribute__((tls_model("initial-exec"))) = {
	.own.cpu_id = -1,
	.none.cpu_id = -1,
	.area = &nobody,
};

/* For plugins with PERCPU_LATE, which find this library in their program. */
PERCPU_API extern const pthread_key_t percpu_key;
const pthread_key_t percpu_key = (pthread_key_t)-1;
PERCPU_API struct percpu_rseq **percpu_self_at(void);

/* Neither inlined nor called once for many: a fiber may move between calls. */
__attribute__((noinline)) struct percpu_rseq **percpu_self_at(void)
{
	__asm__ __volatile__("" ::: "memory");
	return &percpu_self;
}

static pthread_key_t key;
static bool has_key;

static void end_of_thread(void *arg)
{
	at_end(arg);
}

bool percpu_record_init(void (*detach)(struct percpu_record *))
{
	at_end = detach;
	has_key = pthread_key_create(&key, end_of_thread) == 0;
	return true;
}

bool percpu_record_keep(struct percpu_record *r)
{
	return has_key && pthread_setspecific(key, r) == 0;
}

struct percpu_record *percpu_record(void)
{
	struct percpu_rseq *seen = &nobody;

	/* In one step: a signal handler may be attaching the thread meanwhile. */
	if (percpu_self == &nobody)
		__atomic_compare_exchange_n(&percpu_self, &seen, &thread.none, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return &thread;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * host.c - a program that does not know of the library, and loads late.c.
 *
 *	host [keys] PLUGIN [LIBRARY...]
 *
 * It loads other libraries first, and with "keys" takes many thread-specific keys. Then threads
 * count that existed before, and new ones. Each counts first in a signal handler, in which
 * malloc() must not be called, and last when it ends, in a destructor that runs before and after
 * the plugin's.
 *
 * Prints the tier. Exits with 0 if every count was exact, and with 2 if the plugin cannot be
 * loaded.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "late.h"

#define THREADS 4 /* half of them start before the plugin is loaded */
#define ADDS 1000
#define HANDLED 100
#define CHILDREN 20
#define SHORT 1000 /* threads one after the other */
#define ENDS 3
#define KEYS 40
#ifndef EMULATED /* qemu-user keeps some memory, and its vfork() is a fork() */
#define EMULATED 0
#endif

static const struct late *late;
static sem_t loaded;
static pthread_key_t end;
static uint64_t all, more; /* atomic: counts in all objects, counts in the counter alone */
static bool failed;	   /* atomic */
static __thread volatile sig_atomic_t handling;

static void require(bool ok, const char *what)
{
	if (!ok && !__atomic_exchange_n(&failed, true, __ATOMIC_RELAXED))
		printf("failed: %s\n", what);
}

#ifdef __GLIBC__
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);

static bool allocated; /* atomic */

static void note_allocation(void)
{
	if (handling)
		__atomic_store_n(&allocated, true, __ATOMIC_RELAXED);
}

void *malloc(size_t size)
{
	note_allocation();
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	note_allocation();
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	note_allocation();
	return __libc_realloc(p, size);
}

void *memalign(size_t align, size_t size)
{
	note_allocation();
	return __libc_memalign(align, size);
}
#else
static const bool allocated;
#endif

static void count_one(void)
{
	__atomic_fetch_add(&more, 1, __ATOMIC_RELAXED);
	late->count_one();
}

static void handler(int signo)
{
	(void)signo;
	handling = 1;
	count_one();
	handling = 0;
}

/* Count at the end of a thread, several times: the plugin's destructor may have run. */
static void at_end(void *left)
{
	count_one();
	if ((uintptr_t)left > 1)
		pthread_setspecific(end, (void *)((uintptr_t)left - 1));
}

static void *count(void *wait)
{
	if (wait != NULL)
		while (sem_wait(&loaded) != 0)
			;
	pthread_setspecific(end, (void *)ENDS);
	raise(SIGUSR1);
	for (unsigned i = 0; i < ADDS; i++) {
		late->count();
		if (i % (ADDS / HANDLED) == 0)
			raise(SIGUSR1);
	}
	__atomic_fetch_add(&all, ADDS, __ATOMIC_RELAXED);
	require(late->on_tier(), "a thread is on the tier of the process");
	return NULL;
}

static void *count_shortly(void *arg)
{
	pthread_setspecific(end, (void *)ENDS);
	count_one();
	return arg;
}

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg) != 0)
		exit(1);
}

static long pages(void)
{
	FILE *f = fopen("/proc/self/statm", "r");
	long n = 0;

	if (f == NULL || fscanf(f, "%ld", &n) != 1)
		exit(1);
	fclose(f);
	return n;
}

static void run_short(void)
{
	pthread_t thread;

	for (unsigned i = 0; i < SHORT; i++) {
		start(&thread, count_shortly, NULL);
		pthread_join(thread, NULL);
	}
}

static void load(char **libraries)
{
	void *plugin;

	for (char **other = libraries + 1; *other != NULL; other++)
		if (dlopen(*other, RTLD_NOW) == NULL) {
			printf("%s\n", dlerror());
			exit(1);
		}
	plugin = dlopen(*libraries, RTLD_NOW);
	late = plugin ? (const struct late *)dlsym(plugin, "late") : NULL;
	if (late == NULL) {
		printf("%s\n", dlerror());
		exit(2);
	}
	if (!late->prepare()) {
		puts("failed: create all objects");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	bool keys = argc > 1 && strcmp(argv[1], "keys") == 0;
	struct sigaction sa = { .sa_handler = handler };
	pthread_t thread[THREADS];
	pthread_key_t taken;
	long before;

	if (argc < 2 + keys || pthread_key_create(&end, at_end) != 0)
		return 1;
	for (unsigned i = 0; keys && i < KEYS; i++)
		pthread_key_create(&taken, NULL);
	sigaction(SIGUSR1, &sa, NULL);
	sem_init(&loaded, 0, 0);
	for (unsigned i = 0; i < THREADS / 2; i++)
		start(&thread[i], count, &loaded);
	load(argv + 1 + keys);
	for (unsigned i = 0; i < THREADS / 2; i++)
		sem_post(&loaded);
	for (unsigned i = THREADS / 2; i < THREADS; i++)
		start(&thread[i], count, NULL);
	for (unsigned i = 0; !EMULATED && i < CHILDREN; i++) {
		require(late->children(), "a child that shares memory runs no sequences");
		__atomic_fetch_add(&more, 2, __ATOMIC_RELAXED);
	}
	count(NULL);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	run_short();
	before = pages();
	run_short();
	require(EMULATED || pages() < before + SHORT / 2,
		"threads that have ended leave no memory behind");
	require(!__atomic_load_n(&allocated, __ATOMIC_RELAXED), "no allocation in a handler");
	require(late->check(all, more), "counts are exact");
	printf("tier=%s\n", late->tier());
	return failed;
}

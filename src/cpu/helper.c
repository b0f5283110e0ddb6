/* SPDX-License-Identifier: MIT */
/*
 * helper.c - the threads that the library starts.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <signal.h>

#include "cpu.h"

#define STACK (256 * 1024) /* the default may not fit RLIMIT_AS */

/* The size of the thread-local storage that glibc puts on each thread's stack, or more. Written
 * once, by percpu_init(). */
static size_t tls;

/* Add the size of the thread-local storage of an object. That of objects that are loaded later
 * is elsewhere. */
static int add_tls(struct dl_phdr_info *info, size_t size, void *arg)
{
	size_t *sum = arg;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_TLS)
			*sum += info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
	return 0;
}

void percpu_helper_init(void)
{
	size_t sum = 0;

	dl_iterate_phdr(add_tls, &sum);
	tls = sum;
}

static bool is_real_time(void)
{
	int policy = sched_getscheduler(0);

	return policy == SCHED_FIFO || policy == SCHED_RR;
}

int percpu_helper_start(pthread_t *ret, bool normal, void *(*fn)(void *), void *arg)
{
	struct sched_param param = { 0 };
	sigset_t all, old;
	pthread_attr_t attr;
	int r;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK + tls);
	if (normal && is_real_time()) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(&attr, SCHED_OTHER);
		pthread_attr_setschedparam(&attr, &param);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, &attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	/* pthread_create() returns EINVAL if the kernel starts no thread because of
	 * unshare(CLONE_NEWPID). */
	return r == 0 || r == ENOMEM ? -r : -EAGAIN;
}

int percpu_helper_start_for_program(pthread_t *ret, void *(*fn)(void *), void *arg)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r == 0 || r == ENOMEM ? -r : -EAGAIN;
}

/* SPDX-License-Identifier: MIT */
/* hold.c - see hold.h. */
#define _GNU_SOURCE
#include "hold.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "support.h"

static uint32_t held;	 /* atomic: new threads of the library wait before they do anything */
static uint32_t refused; /* atomic: this thread and later ones are refused; 0: none */
static uint32_t waiting; /* atomic: how many threads are held */
static uint32_t started; /* atomic: how many threads were started in all */
static uint32_t absent;	 /* atomic: the self-test's intruder does not wake up by itself */
static uint32_t nowhere; /* atomic: no thread gets a CPU to itself */
static uint32_t rested;	 /* atomic: how many rests are noted */
static uint64_t rests[RESTS];

void hold_threads(bool on)
{
	__atomic_store_n(&held, on, __ATOMIC_SEQ_CST);
}

void refuse_threads(uint32_t nth)
{
	__atomic_store_n(&refused, nth, __ATOMIC_SEQ_CST);
}

struct start {
	void *(*fn)(void *);
	void *arg;
};

static void *start_later(void *arg)
{
	struct start start = *(struct start *)arg;

	free(arg);
	__atomic_fetch_add(&waiting, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&held, __ATOMIC_SEQ_CST))
		test_sleep_us(100);
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_SEQ_CST);
	return start.fn(start.arg);
}

int __real_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);

/* Only the library starts threads with all signals blocked. */
int __wrap_pthread_create(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	struct start *later;
	sigset_t signals;
	uint32_t nth;

	pthread_sigmask(SIG_SETMASK, NULL, &signals);
	if (!sigismember(&signals, SIGTERM))
		return __real_pthread_create(ret, attr, fn, arg);
	nth = __atomic_load_n(&refused, __ATOMIC_SEQ_CST);
	if (nth == 1)
		return EAGAIN;
	if (nth > 1)
		refuse_threads(nth - 1);
	__atomic_fetch_add(&started, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&held, __ATOMIC_SEQ_CST))
		return __real_pthread_create(ret, attr, fn, arg);
	later = malloc(sizeof(*later));
	*later = (struct start){ fn, arg };
	return __real_pthread_create(ret, attr, start_later, later);
}

int __real_percpu_pin(pid_t tid, unsigned cpu);
int __wrap_percpu_pin(pid_t tid, unsigned cpu);
int __wrap_percpu_pin(pid_t tid, unsigned cpu)
{
	return __atomic_load_n(&nowhere, __ATOMIC_SEQ_CST) ? -EINVAL : __real_percpu_pin(tid, cpu);
}

void __real_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns);

/* The intruder's first nap is shorter than all other waits. If it finds no CPU, it only rests. */
void __wrap_percpu_futex_wait(uint32_t *word, uint32_t value, uint64_t ns)
{
	bool for_good = ns < 1000000 && __atomic_load_n(&absent, __ATOMIC_SEQ_CST);
	uint32_t n = __atomic_load_n(&rested, __ATOMIC_RELAXED);

	if (__atomic_load_n(&nowhere, __ATOMIC_SEQ_CST) && ns != 0 && gettid() != getpid() &&
	    n < RESTS) {
		rests[n] = ns;
		__atomic_store_n(&rested, n + 1, __ATOMIC_RELEASE);
	}
	__real_percpu_futex_wait(word, value, for_good ? 0 : ns);
}

void wait_until_held(uint32_t n)
{
	while (__atomic_load_n(&waiting, __ATOMIC_SEQ_CST) != n)
		test_sleep_us(100);
}

uint32_t threads_started(void)
{
	return __atomic_load_n(&started, __ATOMIC_SEQ_CST);
}

void let_nobody_intrude(void)
{
	__atomic_store_n(&absent, 1, __ATOMIC_SEQ_CST);
}

const uint64_t *rests_of_the_intruder(void)
{
	__atomic_store_n(&nowhere, 1, __ATOMIC_SEQ_CST);
	hold_threads(false);
	while (__atomic_load_n(&rested, __ATOMIC_ACQUIRE) != RESTS)
		test_sleep_us(1000);
	__atomic_store_n(&nowhere, 0, __ATOMIC_SEQ_CST);
	return rests;
}

/* SPDX-License-Identifier: MIT */
/* inject.c - see inject.h. */
#define _GNU_SOURCE
#include "inject.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/status.h>

#include "../support.h"

#define LONG_WAIT (UINT64_C(1) << 33)
#define RETRIES 1000

__thread struct inject_point inject_point;

/* The present experiment, for the handlers and the other thread. */
struct inject_experiment inject_now;

bool inject_possible(void)
{
#ifdef PERCPU_ARCH_GENERIC_H
	return false;
#else
	return percpu_status()->tier == PERCPU_TIER_RSEQ && percpu_seq_attach()->cpu_id >= 0;
#endif
}

bool inject_read(pid_t pid, struct inject_point *ret)
{
	const struct iovec here = { ret, sizeof(*ret) }, there = { &inject_point, sizeof(*ret) };

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == sizeof(*ret);
}

bool inject_go(pid_t pid)
{
	int32_t go = 1;
	const struct iovec here = { &go, sizeof(go) }, there = { &inject_point.go, sizeof(go) };

	return process_vm_writev(pid, &here, 1, &there, 1, 0) == sizeof(go);
}

struct waiter {
	struct inject_point *point;
	void (*update)(void);
	int step;
	bool ready, returned;
};

static void *wait_in_update(void *p)
{
	struct waiter *w = p;

	percpu_seq_attach();
	test_pin(0, test_cpu(0));
	inject_point = (struct inject_point){ .step = w->step, .rounds = INJECT_LONG };
	w->point = &inject_point;
	__atomic_store_n(&w->ready, true, __ATOMIC_RELEASE);
	w->update();
	inject_point.step = 0;
	__atomic_store_n(&w->returned, true, __ATOMIC_RELEASE);
	while (__atomic_load_n(&w->ready, __ATOMIC_ACQUIRE))
		sched_yield();
	return NULL;
}

void inject_overlap(void (*update)(void), int step, void (*meanwhile)(void))
{
	struct waiter w = { .update = update, .step = step };
	pthread_t thread;

	test_pin(0, test_cpu(1));
	assert_int_equal(pthread_create(&thread, NULL, wait_in_update, &w), 0);
	/* A thread that yields instead runs seconds later on a busy machine. */
	while (!__atomic_load_n(&w.ready, __ATOMIC_ACQUIRE))
		test_sleep_us(20);
	while (!__atomic_load_n(&w.point->arrived, __ATOMIC_ACQUIRE) &&
	       !__atomic_load_n(&w.returned, __ATOMIC_ACQUIRE))
		test_sleep_us(20);
	meanwhile();
	__atomic_store_n(&w.point->go, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&w.ready, false, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	test_unpin(0);
}

/* Run the operation until its sequence is not aborted. A neighbor may preempt it at any time, so
 * it gets several tries. */
static struct model_result inject_retry(const struct model_case *c)
{
	struct model_result r;
	unsigned tries = 0;

	do
		r = inject_now.run(inject_now.real, c);
	while (r.code == PERCPU_SEQ_SLOW && ++tries < RETRIES);
	return r;
}

bool inject_same_world(void)
{
	for (unsigned i = 0; i < inject_now.lanes; i++)
		if (!model_same(&inject_now.real[i], &inject_now.model[i], inject_now.c.op,
				inject_now.c.mask))
			return false;
	return true;
}

void inject_complete(const struct model_case *c)
{
	struct model_result want = model_apply(&inject_now.model[sched_getcpu()], c);
	struct model_result got = inject_retry(c);

	if (got.code != want.code || got.value != want.value || !inject_same_world())
		inject_now.wrong = true;
}

static void inject_fork(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		inject_complete(&inject_now.nested);
		_exit(inject_now.wrong);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		inject_now.wrong = true;
}

void inject_act(void)
{
	switch (inject_now.action) {
	case INJECT_NESTED:
		inject_complete(&inject_now.nested);
		break;
	case INJECT_SIGNAL_NESTED:
		raise(SIGUSR1);
		break;
	case INJECT_MIGRATE:
		test_pin(0, inject_now.there);
		break;
	case INJECT_NESTED_MIGRATE:
		inject_complete(&inject_now.nested);
		test_pin(0, inject_now.there);
		break;
	case INJECT_THERE_AND_BACK:
		test_pin(0, inject_now.there);
		inject_complete(&inject_now.nested);
		test_pin(0, inject_now.here);
		inject_complete(&inject_now.nested);
		break;
	case INJECT_YIELD:
		sched_yield();
		break;
	case INJECT_SLEEP:
		test_sleep_us(100);
		break;
	case INJECT_FORK:
		inject_fork();
		break;
	case INJECT_NOTHING:
	case INJECT_ACTIONS:
		break;
	}
}

static void inject_on_trap(int signo, siginfo_t *info, void *context)
{
	(void)signo, (void)info, (void)context;
#ifdef __aarch64__
	ucontext_t *u = context;
	const uint32_t *pc = (const uint32_t *)(uintptr_t)u->uc_mcontext.pc;

	if (*pc == 0xd4200000 + (0x7e57 << 5)) /* not aborted: step over it */
		u->uc_mcontext.pc += 4;
#endif
	inject_point.step = 0;
	inject_act();
}

static void inject_on_signal(int signo)
{
	(void)signo;
	inject_point.go = 1;
	if (inject_now.action == INJECT_SIGNAL_NESTED)
		inject_complete(&inject_now.nested);
}

int inject_setup(void **state)
{
	struct sigaction trap = { .sa_sigaction = inject_on_trap, .sa_flags = SA_SIGINFO };
	struct sigaction usr = { .sa_handler = inject_on_signal };

	(void)state;
	inject_now.lanes = percpu_status()->possible_cpus;
	inject_now.here = test_cpu(0);
	inject_now.there = test_cpu(1);
	inject_now.real = aligned_alloc(64, inject_now.lanes * sizeof(*inject_now.real));
	inject_now.model = aligned_alloc(64, inject_now.lanes * sizeof(*inject_now.model));
	if (!inject_now.real || !inject_now.model)
		return -1;
	return sigaction(SIGTRAP, &trap, NULL) || sigaction(SIGUSR1, &usr, NULL) ? -1 : 0;
}

int inject_teardown(void **state)
{
	(void)state;
	free(inject_now.real);
	free(inject_now.model);
	return 0;
}

bool inject_prepare(inject_run run, enum model_op op, enum inject_action action, uint64_t *random)
{
	struct model_lane copy;

	if (test_cpus() < 2 && action >= INJECT_MIGRATE && action <= INJECT_THERE_AND_BACK)
		return false;
	inject_now.run = run;
	inject_now.action = action;
	inject_now.wrong = false;
	for (unsigned i = 0; i < inject_now.lanes; i++)
		model_fill(&inject_now.real[i], op, random);
	do {
		model_fill(&inject_now.real[inject_now.here], op, random);
		model_choose(&inject_now.c, op, &inject_now.real[inject_now.here], random);
		copy = inject_now.real[inject_now.here];
	} while (model_apply(&copy, &inject_now.c).code != 0 ||
		 model_same(&copy, &inject_now.real[inject_now.here], op, inject_now.c.mask));
	model_choose_nested(&inject_now.nested, &inject_now.c, &inject_now.real[inject_now.here],
			    random);
	memcpy(inject_now.model, inject_now.real, inject_now.lanes * sizeof(*inject_now.real));
	return true;
}

enum inject_outcome inject_trap(inject_run run, enum model_op op, int step,
				enum inject_action action, uint64_t *random)
{
	struct model_result r;
	unsigned tries = 0;

	if (!inject_prepare(run, op, action, random))
		return INJECT_ABSENT;
	test_pin(0, inject_now.here);
	do {
		inject_point = (struct inject_point){ .step = step, .trap = 1 };
		r = run(inject_now.real, &inject_now.c);
	} while (!inject_point.arrived && r.code == PERCPU_SEQ_SLOW && ++tries < RETRIES);
	inject_point.step = 0;
	if (inject_point.arrived) {
		/* Nothing must have happened but the nested operation. */
		if (r.code != PERCPU_SEQ_SLOW || r.value != MODEL_UNSET || !inject_same_world())
			inject_now.wrong = true;
		inject_complete(&inject_now.c);
	}
	test_unpin(0);
	if (!inject_point.arrived)
		return INJECT_ABSENT;
	return inject_now.wrong ? INJECT_WRONG : INJECT_RIGHT;
}

/* The thread that is disturbed. */
struct inject_victim {
	struct inject_point *point;
	pid_t tid;
	int step;
	bool ready, returned, acted, absent;
};

static void *inject_victim_thread(void *p)
{
	struct inject_victim *v = p;
	struct model_result r;

	percpu_seq_attach();
	test_pin(0, inject_now.here);
	inject_point = (struct inject_point){ .step = v->step, .rounds = LONG_WAIT };
	v->point = &inject_point;
	v->tid = (pid_t)syscall(SYS_gettid);
	__atomic_store_n(&v->ready, true, __ATOMIC_RELEASE);
	do
		r = inject_now.run(inject_now.real, &inject_now.c);
	while (!inject_point.arrived && r.code == PERCPU_SEQ_SLOW);
	inject_point.step = 0;
	v->absent = !inject_point.arrived;
	__atomic_store_n(&v->returned, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&v->acted, __ATOMIC_ACQUIRE))
		sched_yield();
	if (v->absent)
		return NULL;
	if (r.code != PERCPU_SEQ_SLOW || r.value != MODEL_UNSET || !inject_same_world())
		inject_now.wrong = true;
	inject_complete(&inject_now.c);
	return NULL;
}

static void inject_interfere(struct inject_victim *v, enum inject_event event)
{
	switch (event) {
	case INJECT_BY_MIGRATION:
		test_pin(v->tid, inject_now.there);
		break;
	case INJECT_BY_COMPETITOR:
		test_pin(0, inject_now.here);
		inject_complete(&inject_now.nested);
		test_pin(0, inject_now.there);
		break;
	case INJECT_BY_SIGNAL:
		syscall(SYS_tgkill, getpid(), v->tid, SIGUSR1);
		while (!__atomic_load_n(&v->point->go, __ATOMIC_RELAXED))
			sched_yield();
		break;
	case INJECT_BY_FENCE:
		inject_now.wrong |= percpu_fence() != 0;
		break;
	case INJECT_BY_FENCE_ALL:
		inject_now.wrong |= percpu_fence_all(UINT64_C(5000000000), NULL) != 0;
		break;
	case INJECT_EVENTS:
		break;
	}
}

enum inject_outcome inject_wait(inject_run run, enum model_op op, int step, enum inject_event event,
				uint64_t *random)
{
	struct inject_victim v = { .step = step };
	pthread_t thread;

	if (test_cpus() < 2)
		return INJECT_ABSENT;
	inject_prepare(run, op, INJECT_NOTHING, random);
	test_pin(0, inject_now.there);
	if (pthread_create(&thread, NULL, inject_victim_thread, &v) != 0)
		return INJECT_WRONG;
	while (!__atomic_load_n(&v.ready, __ATOMIC_ACQUIRE))
		sched_yield();
	while (!__atomic_load_n(&v.point->arrived, __ATOMIC_RELAXED) &&
	       !__atomic_load_n(&v.returned, __ATOMIC_ACQUIRE))
		sched_yield();
	if (!v.returned || !v.absent)
		inject_interfere(&v, event);
	__atomic_store_n(&v.point->go, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&v.acted, true, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	test_unpin(0);
	if (v.absent)
		return INJECT_ABSENT;
	return inject_now.wrong ? INJECT_WRONG : INJECT_RIGHT;
}

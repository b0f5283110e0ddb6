/* SPDX-License-Identifier: MIT */
/*
 * test_status_refused.c - processes whose kernel is older or newer, or refuses calls: each call
 * that first use, the self-test and fences make. Counts are exact in any case.
 *
 * Each case is a process that has not used the library before. By the linker, this program
 * answers instead of the kernel.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <percpu/freebsd.h>
#include <percpu/fence.h>
#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "cpu/cpu.h"
#include "support.h"
#include "syscalls.h"

bool test_of_first_use = true;

#define AREA_BYTES 27 /* keys of getauxval() */
#define AREA_ALIGN 28
#define NEVER UINT32_MAX
#define FENCE (1 << 7) /* a command of membarrier(2) */

/* Which calls the kernel refuses, and what it answers. Threads read this. */
static struct {
	bool rseq;	   /* of all threads */
	bool spinner_rseq; /* of threads other than the first */
	bool no_cpu;	   /* no call returns the thread's CPU */
	bool no_mask;
	bool no_name;
	bool fence;		  /* of sequences, by membarrier(2) */
	unsigned membarrier, pin; /* how many calls succeed before the first refused one */
	unsigned pins;		  /* how many are refused; later ones succeed */
	int policy;		  /* of the scheduler; 0: the real one */
	bool has_area;
	unsigned long area; /* size according to an older or newer kernel */
} kernel = { .membarrier = NEVER, .pin = NEVER, .pins = NEVER };

static unsigned membarriers, pins, refused_pins, refused_rseq; /* atomic; numbers of calls */

static int refuse(int error)
{
	errno = error;
	return -1;
}

static bool refuses(long number, long command)
{
#ifdef SYS_rseq
	if (number == SYS_rseq && (kernel.rseq || (kernel.spinner_rseq && gettid() != getpid()))) {
		__atomic_fetch_add(&refused_rseq, 1, __ATOMIC_SEQ_CST);
		return true;
	}
#endif
	if (number == SYS_getcpu)
		return kernel.no_cpu;
	if (number != SYS_membarrier)
		return false;
	return (command == FENCE && kernel.fence) ||
	       __atomic_fetch_add(&membarriers, 1, __ATOMIC_SEQ_CST) >= kernel.membarrier;
}

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	if (!refuses(number, a[0]))
		return false;
	*ret = refuse(EPERM);
	return true;
}

int __real_sched_getcpu(void);
int __wrap_sched_getcpu(void);
int __wrap_sched_getcpu(void)
{
	return kernel.no_cpu ? (int)refuse(ENOSYS) : __real_sched_getcpu();
}

int __real_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t tid, size_t size, cpu_set_t *set)
{
	return kernel.no_mask ? (int)refuse(EPERM) : __real_sched_getaffinity(tid, size, set);
}

int __real_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set);
int __wrap_sched_setaffinity(pid_t tid, size_t size, const cpu_set_t *set)
{
	if (__atomic_fetch_add(&pins, 1, __ATOMIC_SEQ_CST) >= kernel.pin &&
	    __atomic_fetch_add(&refused_pins, 1, __ATOMIC_SEQ_CST) < kernel.pins)
		return (int)refuse(EPERM);
	return __real_sched_setaffinity(tid, size, set);
}

int __real_sched_getscheduler(pid_t tid);
int __wrap_sched_getscheduler(pid_t tid);
int __wrap_sched_getscheduler(pid_t tid)
{
	return kernel.policy != 0 ? kernel.policy : __real_sched_getscheduler(tid);
}

int __real_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret);
int __wrap_uname(struct utsname *ret)
{
	return kernel.no_name ? (int)refuse(EPERM) : __real_uname(ret);
}

unsigned long __real_getauxval(unsigned long key);
unsigned long __wrap_getauxval(unsigned long key);
unsigned long __wrap_getauxval(unsigned long key)
{
	if (kernel.has_area && key == AREA_BYTES)
		return kernel.area;
	if (kernel.has_area && key == AREA_ALIGN)
		return kernel.area != 0 ? 64 : 0;
	return __real_getauxval(key);
}

static struct percpu_counter *counter;

/* Use the library for the first time, and wait for the verdict. */
static const struct percpu_status *use(void)
{
	test_child_require(percpu_counter_create(&counter) == 0, "a counter");
	(void)test_tier();
	percpu_counter_add(counter, 2);
	test_child_require(percpu_counter_fetch(counter) == 2, "exact");
	return percpu_status();
}

/* Each case changes the kernel's answers. It returns 0, as a child does. */

static int without_rseq(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.rseq = true;
	s = use();
	test_child_require(s->registrar == PERCPU_REGISTRAR_NONE && s->tier == PERCPU_TIER_CPU &&
				   s->selftest == PERCPU_SELFTEST_SKIPPED,
			   "tier cpu");
	test_child_require(
		strcmp(s->reason, s->rseq_size != 0 ?
					  "libc has an rseq area, but the kernel does not confirm "
					  "it" :
					  "libc registers no rseq area and the kernel refuses "
					  "one") == 0,
		"it says why");
	test_child_require(percpu_thread_tier() == PERCPU_TIER_CPU, "the thread is on it");
	return 0;
}

/* Add as a thread without an area, when others have one: it does not ask for one at each add. */
static void add_without_rseq(unsigned i, void *arg)
{
	unsigned asked;

	(void)i, (void)arg;
#ifdef PERCPU_SEQ_SIGNATURE
	if (percpu_libc_offset != 0)
		test_unregister(percpu_libc_area());
#endif
	kernel.rseq = true;
	percpu_counter_inc(counter);
	asked = __atomic_load_n(&refused_rseq, __ATOMIC_SEQ_CST);
	percpu_counter_inc(counter);
	percpu_counter_inc(counter);
	test_child_require(asked != 0, "it has asked");
	test_child_require(__atomic_load_n(&refused_rseq, __ATOMIC_SEQ_CST) == asked, "once");
}

static int without_rseq_later(void *arg)
{
	test_child_require(use()->tier == PERCPU_TIER_RSEQ, "sequences");
	test_team_run(1, add_without_rseq, arg);
	test_child_require(percpu_counter_fetch(counter) == 5, "exact");
	return 0;
}

/* Before Linux 6.3, the kernel does not say how long the area is. */
static int with_old_kernel(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.has_area = true;
	s = use();
	test_child_require(s->feature_size == 0 && s->align == 0 && !s->has_mm_cid, "an old area");
	test_child_require(s->tier == PERCPU_TIER_RSEQ, "which is enough");
	return 0;
}

static int with_old_kernel_without_rseq(void *arg)
{
	kernel.has_area = true;
	return without_rseq(arg);
}

static int with_new_kernel(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.has_area = true;
	kernel.area = 40;
	s = use();
	test_child_require(s->feature_size == 40 && s->align == 64, "a longer area");
	test_child_require(s->has_mm_cid && s->tier == PERCPU_TIER_RSEQ, "with more in it");
	return 0;
}

/* The library's own area has room for the fields of 2023, and the kernel fills them. */
static int with_own_area(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.has_area = true;
	kernel.area = 28;
	s = use();
	test_child_require(s->rseq_size == 0 && s->registrar == PERCPU_REGISTRAR_LIBRARY,
			   "an area of the library's");
	test_child_require(s->has_mm_cid, "with a concurrency id");
	return 0;
}

static const char own_area[] = "own area";

/* libc reads this tunable when the program starts. */
static int begin_without_area(void *arg)
{
	char program[] = "/proc/self/exe";
	char *const args[] = { program, (char *)own_area, NULL };

	(void)arg;
	setenv("GLIBC_TUNABLES", "glibc.pthread.rseq=0", 1);
	execv(program, args);
	return 1;
}

/* The spinner has no sequences: there is never a proof, and no call waits for one. */
static int without_spinner(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.spinner_rseq = true;
	test_child_require(percpu_counter_create(&counter) == 0, "a counter");
	while (__atomic_load_n(&refused_rseq, __ATOMIC_SEQ_CST) == 0 ||
	       __atomic_load_n(&pins, __ATOMIC_SEQ_CST) < 4)
		test_sleep_us(500);
	percpu_counter_add(counter, 2);
	s = percpu_status();
	test_child_require(s->selftest == PERCPU_SELFTEST_PENDING && s->tier == PERCPU_TIER_CPU,
			   "pending");
	test_child_require(percpu_counter_fetch(counter) == 2, "exact");
	return 0;
}

/* Only the spinner cannot be moved to its CPU, once. */
static int with_late_spinner(void *arg)
{
	(void)arg;
	kernel.pin = 1;
	kernel.pins = 1;
	test_child_require(use()->selftest == PERCPU_SELFTEST_PASSED, "the next attempt passes");
	return 0;
}

static int without_cpu(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.no_cpu = true;
	s = use();
	if (s->registrar == PERCPU_REGISTRAR_NONE)
		return 1;
	test_child_require(s->selftest == PERCPU_SELFTEST_INCONCLUSIVE &&
				   s->tier == PERCPU_TIER_SHARED,
			   "tier shared");
	test_child_require(strcmp(s->reason, "neither rseq nor getcpu(2) tells the CPU") == 0,
			   "it says why");
	test_child_require(curcpu == 0, "some CPU");
	errno = 77;
	percpu_counter_inc(counter);
	(void)percpu_seq_attach();
	test_child_require(errno == 77, "errno stays");
	return 0;
}

static int without_mask(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.no_mask = true;
	s = use();
	test_child_require(s->selftest == PERCPU_SELFTEST_INCONCLUSIVE &&
				   s->tier == PERCPU_TIER_CPU,
			   "tier cpu");
	test_child_require(percpu_fence_all(UINT64_C(5000000000), NULL) == 0, "fences are there");
	return 0;
}

static int without_name(void *arg)
{
	(void)arg;
	kernel.no_name = true;
	test_child_require(use()->kernel[0] == '\0', "no release");
	return 0;
}

static int in_real_time(void *arg)
{
	kernel.policy = *(const int *)arg;
	test_child_require(use()->selftest == PERCPU_SELFTEST_PASSED, "passed");
	return 0;
}

/* No fence by one call, from the start, or from now on. */

static int without_membarrier(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.membarrier = 0;
	s = use();
	test_child_require(s->membarrier_cmds == 0 && !s->fence, "none");
	test_child_require(percpu_fence() == 0, "the CPUs are visited");
	return 0;
}

static int without_registration(void *arg)
{
	const struct percpu_status *s;

	(void)arg;
	kernel.membarrier = 1;
	s = use();
	test_child_require(s->membarrier_cmds != 0 && !s->fence, "none of sequences");
	test_child_require(percpu_fence() == 0, "the CPUs are visited");
	return 0;
}

static int without_membarrier_later(void *arg)
{
	unsigned before;

	(void)arg;
	test_child_require(use()->fence, "by one call");
	before = __atomic_load_n(&membarriers, __ATOMIC_SEQ_CST);
	kernel.membarrier = before;
	test_child_require(percpu_fence() == 0, "the CPUs are visited");
	test_child_require(membarriers == before + 2, "the fence and its announcement were tried");
	kernel.membarrier = NEVER;
	kernel.fence = true;
	test_child_require(percpu_fence() == 0, "also where it can be announced");
	return 0;
}

/* A visitor cannot find out its CPU; and it cannot be moved again. */
static int without_visits(void *arg)
{
	const bool *moves = arg;
	struct percpu_fence_report r;

	use();
	kernel.no_cpu = true;
	if (!*moves)
		kernel.pin = __atomic_load_n(&pins, __ATOMIC_SEQ_CST) + 1;
	test_child_require(percpu_fence_all(UINT64_C(100000000), &r) ==
				   (*moves ? -ETIMEDOUT : -EPERM),
			   "no CPU is fenced");
	test_child_require(r.fenced == 0 && r.unfenced != 0 && r.first_unfenced == 0,
			   "and none is said to be");
	return 0;
}

/* PERCPU_TIER is empty, or no tier's name. */
static int with_tier(void *arg)
{
	const struct percpu_status *s;
	const bool named = strcmp(arg, "") != 0 && strcmp(arg, "rseq") != 0;

	setenv("PERCPU_TIER", arg, 1);
	s = use();
	test_child_require((strstr(s->reason, "PERCPU_TIER ignored") != NULL) == named,
			   "it says so, unless nothing is there, or the fastest tier");
	test_child_require(s->tier == PERCPU_TIER_RSEQ, "it has no effect");
	return 0;
}

static void sequences_may_be_refused(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(without_rseq, NULL);
	test_in_child(with_old_kernel_without_rseq, NULL);
	test_in_child(without_rseq_later, NULL);
}

static void areas_may_be_older_or_newer(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(with_old_kernel, NULL);
	test_in_child(with_new_kernel, NULL);
	test_in_child(begin_without_area, NULL);
}

static void selftest_may_be_refused(void **state)
{
	static const int policies[] = { SCHED_FIFO, SCHED_RR };

	(void)state;
	test_need_sequences();
	test_in_child(without_spinner, NULL);
	test_in_child(with_late_spinner, NULL);
	test_in_child(without_cpu, NULL);
	test_in_child(without_mask, NULL);
	test_in_child(without_name, NULL);
	for (int i = 0; i < 2; i++)
		test_in_child(in_real_time, (void *)&policies[i]);
}

static void fences_may_be_refused(void **state)
{
	static const bool moves[] = { true, false };

	(void)state;
	test_need_sequences();
	test_in_child(without_membarrier, NULL);
	test_in_child(without_registration, NULL);
	test_in_child(without_membarrier_later, NULL);
	for (int i = 0; i < 2; i++)
		test_in_child(without_visits, (void *)&moves[i]);
}

static void unknown_tiers_are_ignored(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(with_tier, "seven");
	test_in_child(with_tier, "");
	test_in_child(with_tier, "rseq");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sequences_may_be_refused),
		cmocka_unit_test(areas_may_be_older_or_newer),
		cmocka_unit_test(selftest_may_be_refused),
		cmocka_unit_test(fences_may_be_refused),
		cmocka_unit_test(unknown_tiers_are_ignored),
	};

	if (argc > 1 && strcmp(argv[1], own_area) == 0)
		return with_own_area(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

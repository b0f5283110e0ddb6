/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd_zpcpu.c - the copies of an item: one per CPU, and the sum over
 * them exact.
 */
#define _GNU_SOURCE
#include <percpu/freebsd.h>
#include <percpu/local.h>

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support.h"

#define UMA_NONE NULL, NULL, NULL, NULL

struct session {
	uint64_t packets, bytes;
};

static void items_have_a_copy_per_cpu(void **state)
{
	uma_zone_t zone = uma_zcreate("plain", sizeof(struct session), UMA_NONE, UMA_ALIGN_PTR,
				      UMA_ZONE_PCPU);
	struct session *s, *of_cpu;

	(void)state;
	assert_non_null(zone);
	s = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		of_cpu = zpcpu_get_cpu(s, cpu);
		assert_int_equal(of_cpu->packets + of_cpu->bytes, 0);
		assert_ptr_equal(of_cpu, (char *)s + zpcpu_offset_cpu(cpu));
		of_cpu->packets = cpu + 1;
	}
	assert_int_equal(zpcpu_get_cpu(s, mp_maxid)->packets, mp_ncpus);
	assert_in_range(zpcpu_get(s)->packets, 1, mp_ncpus);
	assert_ptr_equal(zpcpu_offset_to_base(zpcpu_base_to_offset(s)), s);
	uma_zfree_pcpu(zone, s);
	uma_zdestroy(zone);
}

/* Sums over the copies. Two threads with sequences, and two without, which are
 * moved from CPU to CPU all the time: an add that began on another CPU than it
 * ends on collides with those that run there. */

#define ADDERS 4

struct adding {
	struct session *s;
	bool stop;	   /* atomic */
	pid_t tid[ADDERS]; /* atomic */
	uint64_t n[ADDERS];
};

static void add(unsigned i, void *arg)
{
	struct adding *a = arg;
	uint64_t n = 0;

	if (i >= ADDERS / 2)
		(void)test_unregister(percpu_seq_attach());
	__atomic_store_n(&a->tid[i], gettid(), __ATOMIC_RELEASE);
	for (; !__atomic_load_n(&a->stop, __ATOMIC_RELAXED); n++) {
		zpcpu_add_protected(&a->s->packets, 3);
		zpcpu_sub_protected(&a->s->packets, 1);
		zpcpu_add_protected(&a->s->bytes, (uint32_t)1500);
	}
	a->n[i] = n;
}

static pid_t wait_for_tid(struct adding *a, unsigned i)
{
	pid_t tid;

	while ((tid = __atomic_load_n(&a->tid[i], __ATOMIC_ACQUIRE)) == 0)
		test_sleep_us(100);
	return tid;
}

static void move_about(struct adding *a)
{
	unsigned rounds = test_rounds(2000);

	for (unsigned i = 0; i < ADDERS / 2; i++)
		(void)test_pin(wait_for_tid(a, i), test_cpu(i % test_cpus()));
	for (unsigned k = 0; k < rounds; k++)
		for (unsigned i = ADDERS / 2; i < ADDERS; i++)
			(void)test_pin(wait_for_tid(a, i), test_cpu((k + i) % test_cpus()));
}

int __real_sched_getcpu(void);
int __wrap_sched_getcpu(void);

static bool unknown; /* where a thread runs */

int __wrap_sched_getcpu(void)
{
	return unknown ? -1 : __real_sched_getcpu();
}

/* Run as two threads: one that has counted nothing yet, and one that cannot run sequences. */
static void ask_on_each_cpu(unsigned i, void *arg)
{
	unsigned *wrong = (unsigned *)arg + i;

	if (i == 1)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = test_cpus(); n-- > 0;) /* not CPU 0 first */
		*wrong += !test_pin(0, test_cpu(n)) || curcpu != test_cpu(n);
}

/* Run as a thread. */
static void ask_in_vain(unsigned i, void *arg)
{
	(void)i;
	(void)test_unregister(percpu_seq_attach());
	*(unsigned *)arg = curcpu;
}

static void the_current_cpu_is_known(void **state)
{
	struct test_team team;
	unsigned wrong[2] = { 0 };

	(void)state;
	test_team_start(&team, 2, ask_on_each_cpu, wrong);
	test_team_join(&team);
	assert_int_equal(wrong[0], 0);
	assert_int_equal(wrong[1], 0);
	wrong[0] = 1;
	unknown = true;
	test_team_start(&team, 1, ask_in_vain, wrong);
	test_team_join(&team);
	unknown = false;
	assert_int_equal(wrong[0], 0);
}

#define LARGE (INT64_C(5) << 32)

/* Run as two threads: one with sequences, and one without. */
static void add_large(unsigned i, void *arg)
{
	struct session *const s = arg;

	if (i == 1)
		(void)test_unregister(percpu_seq_attach());
	zpcpu_add_protected(&s->packets, LARGE + 2);
	zpcpu_sub_protected(&s->packets, 1);
	zpcpu_add_protected(&s->bytes, INT64_MIN);
}

/* Amounts have 64 bits, and sums are modulo 2^64. */
static void large_amounts_are_added(void **state)
{
	uma_zone_t zone = uma_zcreate("large", sizeof(struct session), UMA_NONE, UMA_ALIGN_PTR,
				      UMA_ZONE_PCPU);
	uint64_t packets = 0, bytes = 0;
	struct test_team team;
	struct session *s;

	(void)state;
	assert_non_null(zone);
	s = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	test_team_start(&team, 2, add_large, s);
	test_team_join(&team);
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		packets += zpcpu_get_cpu(s, cpu)->packets;
		bytes += zpcpu_get_cpu(s, cpu)->bytes;
	}
	assert_true(packets == 2 * (uint64_t)LARGE + 2);
	assert_true(bytes == 0);
	uma_zfree_pcpu(zone, s);
	uma_zdestroy(zone);
}

static void protected_adds_are_exact(void **state)
{
	uma_zone_t zone =
		uma_zcreate("sums", sizeof(struct session), UMA_NONE, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	struct adding a = { 0 };
	struct test_team team;
	uint64_t packets = 0, bytes = 0, n = 0;

	(void)state;
	assert_non_null(zone);
	a.s = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	test_team_start(&team, ADDERS, add, &a);
	move_about(&a);
	__atomic_store_n(&a.stop, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		packets += zpcpu_get_cpu(a.s, cpu)->packets;
		bytes += zpcpu_get_cpu(a.s, cpu)->bytes;
	}
	for (unsigned i = 0; i < ADDERS; i++)
		n += a.n[i];
	assert_true(n > 0);
	assert_int_equal(packets, n * 2);
	assert_int_equal(bytes, n * 1500);
	uma_zfree_pcpu(zone, a.s);
	uma_zdestroy(zone);
}

/* In a sandbox that the process enters late. Threads without sequences cannot be
 * fenced off, but know where they are; or not even that. */

static bool nowhere;	  /* no CPU can be fenced */
static unsigned at_first; /* so many times */
int __real_percpu_barrier_cpu(unsigned cpu);
int __wrap_percpu_barrier_cpu(unsigned cpu);

static bool held;	/* a fence waits until this is false; atomic */
static unsigned fences; /* how many were asked for; atomic */

int __wrap_percpu_barrier_cpu(unsigned cpu)
{
	__atomic_fetch_add(&fences, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&held, __ATOMIC_SEQ_CST))
		test_sleep_us(1000);
	if (at_first != 0) {
		at_first--;
		return -EPERM;
	}
	return nowhere ? -EPERM : __real_percpu_barrier_cpu(cpu);
}

/* Where no CPU can be fenced, a fallback leaves no guard behind; and it tries some
 * more, for the next CPU may be one that can. */
static int guard_without_fences(void *arg)
{
	struct percpu_local *l[2];
	int64_t sum = 0;

	(void)arg;
	for (unsigned i = 0; i < 2; i++)
		test_child_require(
			percpu_local_create(8, i == 0 ? PERCPU_LOCAL_LOCK : PERCPU_LOCAL_REFS,
					    &l[i]) == 0,
			"create");
	test_unregister(percpu_seq_attach());
	for (unsigned i = 0; i < 2; i++) {
		nowhere = true;
		test_child_require(percpu_local_add_return(l[i], 1, &sum) == -EPERM, "refused");
		for (unsigned cpu = 0; cpu < percpu_status()->possible_cpus; cpu++)
			test_child_require(
				*(uint32_t *)(void *)(l[i]->guard + cpu * l[i]->stride) == 0,
				"no guard");
		nowhere = false;
		at_first = 1;
		test_child_require(percpu_local_add_return(l[i], 1, &sum) == 0, "not refused");
		test_child_require(at_first == 0 && percpu_local_sum(l[i]) == 1, "exact");
	}
	return 0;
}

static void refused_fences_leave_no_guard(void **state)
{
	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("no sequences");
	test_in_child(guard_without_fences, NULL);
}

/* A process forks while another thread without sequences adds. In the child sequences add again,
 * without a fence. */

static void add_one(unsigned i, void *arg)
{
	(void)i;
	(void)test_pin(0, test_cpu(test_cpus() - 1));
	(void)test_unregister(percpu_seq_attach());
	zpcpu_add_protected((uint64_t *)arg, 1);
}

static int add_in_child(void *arg)
{
	fences = 0;
	held = false;
	for (int i = 0; i < 10; i++)
		zpcpu_add_protected((uint64_t *)arg, 1);
	test_child_require(fences == 0, "no fence");
	test_child_require(counter_u64_fetch(arg) == 10, "exact");
	return 0;
}

static void children_add_by_sequences(void **state)
{
	struct test_team team;
	uint64_t *item;
	int status;

	(void)state;
	if (test_tier() != PERCPU_TIER_RSEQ)
		test_skip("no sequences");
	item = uma_zalloc_pcpu(pcpu_zone_8, M_WAITOK | M_ZERO);
	assert_true(test_pin(0, test_cpu(test_cpus() - 1)));
	fences = 0;
	__atomic_store_n(&held, true, __ATOMIC_SEQ_CST);
	test_team_start(&team, 1, add_one, item);
	while (__atomic_load_n(&fences, __ATOMIC_SEQ_CST) == 0)
		test_sleep_us(100);
	status = test_wait(test_fork(add_in_child, item), 20);
	__atomic_store_n(&held, false, __ATOMIC_SEQ_CST);
	test_team_join(&team);
	test_unpin(0);
	assert_int_equal(status, 0);
	assert_int_equal(counter_u64_fetch((counter_u64_t)item), 1);
	uma_zfree_pcpu(pcpu_zone_8, item);
}

static bool forbid_fences(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_setaffinity, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static int add_in_sandbox(void *arg)
{
	uma_zone_t zone = uma_zcreate("sandbox", sizeof(struct session), UMA_NONE, UMA_ALIGN_PTR,
				      UMA_ZONE_PCPU);
	uint64_t packets = 0, n = 0;
	struct adding a = { 0 };
	struct test_team team;

	test_child_require(zone != NULL, "zone");
	a.s = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	nowhere = arg != NULL;
	if (!forbid_fences())
		return 0;
	test_team_start(&team, ADDERS, add, &a);
	test_sleep_us(300000);
	__atomic_store_n(&a.stop, true, __ATOMIC_RELAXED);
	test_team_join(&team);
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++)
		packets += zpcpu_get_cpu(a.s, cpu)->packets;
	for (unsigned i = 0; i < ADDERS; i++) {
		test_child_require(a.n[i] > 0, "all threads add");
		n += a.n[i];
	}
	test_child_require(counter_u64_fetch((counter_u64_t)&a.s->packets) == n * 2, "exact");
	if (!nowhere)
		test_child_require(packets == n * 2, "and in the copies");
	uma_zfree_pcpu(zone, a.s);
	uma_zdestroy(zone);
	return 0;
}

static void adds_come_to_an_end_in_sandboxes(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the thread sanitizer allows no threads in a child that forks");
	assert_int_equal(test_wait(test_fork(add_in_sandbox, NULL), 20), 0);
	assert_int_equal(test_wait(test_fork(add_in_sandbox, &nowhere), 20), 0);
}

/* The zones that are there for all, and what a statistic of file systems does with them. */
static void common_zones_have_items(void **state)
{
	struct session *s;
	uint32_t *four = uma_zalloc_pcpu(pcpu_zone_4, M_WAITOK | M_ZERO);
	uint64_t *eight = uma_zalloc_pcpu(pcpu_zone_8, M_WAITOK | M_ZERO);
	char *others[] = { uma_zalloc_pcpu(pcpu_zone_16, M_WAITOK),
			   uma_zalloc_pcpu(pcpu_zone_32, M_WAITOK),
			   uma_zalloc_pcpu(pcpu_zone_64, M_WAITOK) };
	uint64_t sum = 0;
	int cpu, cpus = 0;

	(void)state;
	assert_ptr_equal(pcpu_zone_8, pcpu_zone_8);
	CPU_FOREACH (cpu) {
		assert_false(CPU_ABSENT(cpu));
		*zpcpu_get_cpu(four, cpu) = 1;
		assert_int_equal(zpcpu_replace_cpu(eight, (uint64_t)cpu + 1, cpu), 0);
		assert_int_equal((char *)zpcpu_get_cpu(eight, cpu) - (char *)eight,
				 cpu * UMA_PCPU_ALLOC_SIZE);
		cpus++;
	}
	assert_int_equal(cpus, mp_ncpus);
	assert_true(CPU_ABSENT(mp_maxid + 1));
	zpcpu_add(eight, 5);
	zpcpu_sub(eight, 4);
	CPU_FOREACH (cpu)
		sum += zpcpu_replace_cpu(eight, 0, cpu);
	assert_int_equal(sum, (uint64_t)cpus * (unsigned)(cpus + 1) / 2 + 1);
	assert_int_equal(zpcpu_replace(four, 9), 1);
	for (int i = 0; i < 3; i++)
		for (cpu = 0; cpu < cpus; cpu++)
			memset(zpcpu_get_cpu(others[i], cpu), 0xff, 16u << i);
	s = (struct session *)(void *)others[2];
	assert_int_equal(zpcpu_get(s)->packets, UINT64_MAX);
	uma_zfree_pcpu(pcpu_zone_4, four);
	uma_zfree_pcpu(pcpu_zone_8, eight);
	for (int i = 0; i < 3; i++)
		uma_zfree_pcpu(i == 0 ? pcpu_zone_16 :
			       i == 1 ? pcpu_zone_32 :
					pcpu_zone_64,
			       others[i]);
}

/* As the records of FreeBSD's epochs: aligned to two cache lines. */
struct record {
	uint64_t words[3];
} __attribute__((aligned(128)));

static void larger_alignments_have_units_of_their_own(void **state)
{
	uma_zone_t zone = uma_zcreate("records", sizeof(uint64_t[3]), UMA_NONE,
				      UMA_ALIGNOF(struct record), UMA_ZONE_PCPU);
	char *item[4];

	(void)state;
	assert_non_null(zone);
	for (int i = 0; i < 4; i++) {
		item[i] = uma_zalloc_pcpu(zone, M_WAITOK);
		assert_int_equal((uintptr_t)item[i] % 64, 0);
		for (int k = 0; k < i; k++)
			assert_true(labs(item[i] - item[k]) >= 128);
	}
	for (int i = 0; i < 4; i++)
		uma_zfree_pcpu(zone, item[i]);
	uma_zdestroy(zone);
	assert_null(uma_zcreate("odd", 8, UMA_NONE, 100, UMA_ZONE_PCPU));
	assert_null(uma_zcreate("huge", 8, UMA_NONE, 255, UMA_ZONE_PCPU));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(items_have_a_copy_per_cpu),
		cmocka_unit_test(the_current_cpu_is_known),
		cmocka_unit_test(large_amounts_are_added),
		cmocka_unit_test(protected_adds_are_exact),
		cmocka_unit_test(refused_fences_leave_no_guard),
		cmocka_unit_test(children_add_by_sequences),
		cmocka_unit_test(adds_come_to_an_end_in_sandboxes),
		cmocka_unit_test(common_zones_have_items),
		cmocka_unit_test(larger_alignments_have_units_of_their_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

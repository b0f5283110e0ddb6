/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd_critical.c - plain additions in critical sections of FreeBSD's name are exact: to
 * counters and to copies of items, beside the calls that need no section, and in signal handlers.
 */
#define _GNU_SOURCE
#include <percpu/freebsd.h>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define THREADS 4

struct item {
	uint64_t packets;
	uint32_t drops;
};

struct both {
	counter_u64_t c;
	struct item *item;
	unsigned rounds;
};

static struct item *new_item(void)
{
	return uma_zalloc_pcpu(pcpu_zone_16, M_WAITOK | M_ZERO);
}

static void sum_item(const struct item *item, uint64_t *packets, uint32_t *drops)
{
	*packets = 0;
	*drops = 0;
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		*packets += zpcpu_get_cpu(item, cpu)->packets;
		*drops += zpcpu_get_cpu(item, cpu)->drops;
	}
}

/* A load and a store between which the thread may be preempted. */
static void add_plainly(volatile uint64_t *word, uint64_t n)
{
	const uint64_t v = *word;

	if (v % 64 == 0)
		sched_yield();
	*word = v + n;
}

/* Run as threads: half of them with sections, one of these without sequences. */
static void count_both(unsigned i, void *arg)
{
	struct both *b = arg;

	if (i == 0)
		(void)test_unregister(percpu_seq_attach());
	for (unsigned n = 0; n < b->rounds; n++) {
		if (i % 2 != 0) {
			counter_u64_add(b->c, 1);
			zpcpu_add_protected(&b->item->packets, 1);
			zpcpu_sub_protected(&b->item->drops, 1);
			zpcpu_add(&b->item->drops, 2);
			continue;
		}
		critical_enter();
		*zpcpu_get(b->c) += 1;
		add_plainly(zpcpu_get(&b->item->packets), 1);
		zpcpu_get(b->item)->drops++;
		critical_exit();
	}
}

static void sections_and_calls_are_exact_together(void **state)
{
	struct both b = { counter_u64_alloc(M_WAITOK), new_item(), test_rounds(20000) };
	struct test_team team;
	uint64_t packets;
	uint32_t drops;

	(void)state;
	test_team_start(&team, THREADS, count_both, &b);
	test_team_join(&team);
	sum_item(b.item, &packets, &drops);
	assert_int_equal(counter_u64_fetch(b.c), THREADS * (uint64_t)b.rounds);
	assert_int_equal(packets, THREADS * (uint64_t)b.rounds);
	assert_int_equal(drops, THREADS * b.rounds);
	uma_zfree_pcpu(pcpu_zone_16, b.item);
	counter_u64_free(b.c);
}

static void small_fields_wrap_alone(void **state)
{
	uint32_t *four = uma_zalloc_pcpu(pcpu_zone_8, M_WAITOK | M_ZERO), sum[2] = { 0 };

	(void)state;
	zpcpu_sub_protected(&four[0], 1);
	zpcpu_add_protected(&four[1], 7);
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		sum[0] += zpcpu_get_cpu(four, cpu)[0];
		sum[1] += zpcpu_get_cpu(four, cpu)[1];
	}
	assert_int_equal(sum[0], UINT32_MAX);
	assert_int_equal(sum[1], 7);
	uma_zfree_pcpu(pcpu_zone_8, four);
}

static void words_are_added_at_the_end(void **state)
{
	counter_u64_t c[3] = { counter_u64_alloc(M_WAITOK), counter_u64_alloc(M_WAITOK),
			       EARLY_COUNTER };
	const uint64_t early = counter_u64_fetch(c[2]);
	uint64_t *word;

	(void)state;
	critical_enter();
	word = zpcpu_get(c[0]);
	*word += 5;
	*zpcpu_get(c[1]) -= 1;
	*zpcpu_get(c[2]) += 3;
	assert_ptr_equal(zpcpu_get(c[0]), word);
	critical_enter();
	*zpcpu_get(c[0]) += 100;
	critical_exit();
	assert_int_equal(counter_u64_fetch(c[0]), 100);
	*word += 1;
	counter_u64_zero(c[0]);
	critical_exit();
	assert_int_equal(counter_u64_fetch(c[0]), 6);
	assert_true(counter_u64_fetch(c[1]) == UINT64_MAX);
	assert_int_equal(counter_u64_fetch(c[2]), early + 3);
	critical_enter();
	assert_int_equal(*zpcpu_get(c[0]), 0);
	critical_exit();
	assert_int_equal(counter_u64_fetch(c[0]), 6);
	counter_u64_free(c[0]);
	counter_u64_free(c[1]);
}

void add_as_announced(counter_u64_t c, uint64_t n);
void add_as_published(counter_u64_t c, int64_t n);

static void prototypes_of_both_versions_compile(void **state)
{
	counter_u64_t c = counter_u64_alloc(M_WAITOK);

	(void)state;
	add_as_announced(c, UINT64_MAX - 1);
	add_as_published(c, 5);
	add_as_published(c, -1);
	assert_int_equal(counter_u64_fetch(c), 2);
	counter_u64_free(c);
}

/* Whether a thread has the copies of a CPU: others get those of another CPU, or wait. */

struct holder {
	unsigned cpu;
	bool has, stop; /* atomic */
};

static void hold_copies(unsigned i, void *arg)
{
	struct holder *h = arg;

	(void)i;
	(void)test_pin(0, test_cpu(0));
	critical_enter();
	h->cpu = curcpu;
	critical_enter();
	critical_exit();
	__atomic_store_n(&h->has, true, __ATOMIC_RELEASE);
	while (!__atomic_load_n(&h->stop, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	assert_int_equal(curcpu, h->cpu);
	critical_exit();
}

static void start_holder(struct test_team *team, struct holder *h)
{
	test_team_start(team, 1, hold_copies, h);
	while (!__atomic_load_n(&h->has, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
}

static void copies_belong_to_one_thread(void **state)
{
	struct holder h = { 0 };
	struct item *item = new_item();
	struct test_team team;
	uint64_t packets;
	uint32_t drops;
	unsigned mine;

	(void)state;
	if (mp_ncpus < 2)
		test_skip("one CPU");
	start_holder(&team, &h);
	zpcpu_add(&item->packets, 0); /* from now on the thread runs sequences */
	(void)test_pin(0, test_cpu(0));
	critical_enter();
	mine = curcpu;
	assert_ptr_equal(zpcpu_get(item), zpcpu_get_cpu(item, mine));
	zpcpu_get(item)->packets++;
	zpcpu_add(&item->packets, 2);
	critical_exit();
	zpcpu_add(&item->packets, 4);
	zpcpu_add(&item->drops, 4);
	assert_int_equal(zpcpu_get_cpu(item, h.cpu)->packets, 0);
	assert_int_equal(zpcpu_get_cpu(item, h.cpu)->drops, 0);
	__atomic_store_n(&h.stop, true, __ATOMIC_RELEASE);
	test_team_join(&team);
	test_unpin(0);
	assert_int_not_equal(mine, h.cpu);
	sum_item(item, &packets, &drops);
	assert_int_equal(packets, 7);
	assert_int_equal(drops, 4);
	uma_zfree_pcpu(pcpu_zone_16, item);
}

/* A child of fork is in the sections of the thread that forked, and in no others. */

static int use_sections_in_child(void *arg)
{
	struct both *b = arg;

	*zpcpu_get(b->c) += 2;
	zpcpu_get(b->item)->packets++;
	critical_exit();
	test_child_require(counter_u64_fetch(b->c) == 3, "its word");
	for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
		(void)test_pin(0, cpu);
		critical_enter();
		test_child_require(!test_pin(0, cpu) || curcpu == cpu, "free copies");
		critical_exit();
	}
	return 0;
}

static void children_are_in_the_same_section(void **state)
{
	struct both b = { counter_u64_alloc(M_WAITOK), new_item(), 0 };
	struct holder h = { 0 };
	struct test_team team;
	int status;

	(void)state;
	if (mp_ncpus < 2)
		test_skip("one CPU");
	start_holder(&team, &h);
	critical_enter();
	*zpcpu_get(b.c) += 1;
	zpcpu_get(b.item)->packets++;
	status = test_wait(test_fork(use_sections_in_child, &b), 20);
	critical_exit();
	__atomic_store_n(&h.stop, true, __ATOMIC_RELEASE);
	test_team_join(&team);
	assert_int_equal(status, 0);
	assert_int_equal(counter_u64_fetch(b.c), 1);
	uma_zfree_pcpu(pcpu_zone_16, b.item);
	counter_u64_free(b.c);
}

/* A thread that ends inside leaves its sections. */

static void end_inside(unsigned i, void *arg)
{
	struct both *b = arg;

	(void)i;
	critical_enter();
	*zpcpu_get(b->c) += 1;
	critical_enter();
	*zpcpu_get(b->c) += 2;
	zpcpu_get(b->item)->packets += 4;
}

static void ends_of_threads_end_sections(void **state)
{
	struct both b = { counter_u64_alloc(M_WAITOK), new_item(), 0 };
	struct test_team team;
	uint64_t packets;
	uint32_t drops;

	(void)state;
	for (int i = 0; i <= (int)mp_maxid + 1; i++) { /* more than there are copies */
		test_team_start(&team, 1, end_inside, &b);
		test_team_join(&team);
	}
	sum_item(b.item, &packets, &drops);
	assert_int_equal(packets, 4 * (uint64_t)(mp_maxid + 2));
	assert_int_equal(counter_u64_fetch(b.c), 3 * (uint64_t)(mp_maxid + 2));
	uma_zfree_pcpu(pcpu_zone_16, b.item);
	counter_u64_free(b.c);
}

/* Signal handlers: words are exact, whatever they interrupt. */

static struct both shared;
static unsigned handled; /* atomic */

static void count_in_handler(int sig)
{
	(void)sig;
	critical_enter();
	*zpcpu_get(shared.c) += 1;
	zpcpu_add(&shared.item->drops, 1);
	critical_exit();
	counter_u64_add(shared.c, 1);
	zpcpu_add(&shared.item->packets, 1);
	__atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}

struct target {
	pthread_t thread;
	bool has, stop; /* atomic */
	uint64_t rounds;
};

static void count_under_signals(unsigned i, void *arg)
{
	struct target *t = arg;

	(void)i;
	t->thread = pthread_self();
	__atomic_store_n(&t->has, true, __ATOMIC_RELEASE);
	for (; !__atomic_load_n(&t->stop, __ATOMIC_ACQUIRE); t->rounds++) {
		critical_enter();
		*zpcpu_get(shared.c) += 1;
		zpcpu_add(&shared.item->packets, 1);
		zpcpu_add(&shared.item->drops, 1);
		critical_exit();
		zpcpu_add(&shared.item->drops, 1);
	}
}

static void handlers_have_sections(void **state)
{
	const struct sigaction action = { .sa_handler = count_in_handler, .sa_flags = SA_RESTART };
	struct target t = { 0 };
	struct test_team team;
	uint64_t packets;
	uint32_t drops;

	(void)state;
	shared = (struct both){ counter_u64_alloc(M_WAITOK), new_item(), 0 };
	critical_enter(); /* the first of the process */
	critical_exit();
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	test_team_start(&team, 1, count_under_signals, &t);
	while (!__atomic_load_n(&t.has, __ATOMIC_ACQUIRE))
		test_sleep_us(100);
	for (unsigned i = 0; i < test_rounds(2000); i++) {
		(void)pthread_kill(t.thread, SIGUSR1);
		test_sleep_us(20);
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELEASE);
	test_team_join(&team);
	signal(SIGUSR1, SIG_DFL);
	sum_item(shared.item, &packets, &drops);
	assert_true(handled > 0);
	assert_int_equal(counter_u64_fetch(shared.c), t.rounds + 2 * (uint64_t)handled);
	assert_int_equal(packets, t.rounds + handled);
	assert_int_equal(drops, (uint32_t)(2 * t.rounds + handled));
	uma_zfree_pcpu(pcpu_zone_16, shared.item);
	counter_u64_free(shared.c);
}

/* Mistakes end the process. */

static int exit_unpaired(void *arg)
{
	(void)arg;
	critical_enter();
	critical_exit();
	critical_exit();
	return 0;
}

static int ask_outside(void *arg)
{
	*zpcpu_get((counter_u64_t)arg) += 1;
	return 0;
}

static int nest_without_end(void *arg)
{
	(void)arg;
	for (int i = 0; i < PERCPU_SECTION_WORDS; i++)
		critical_enter();
	critical_enter();
	return 0;
}

static void mistakes_abort(void **state)
{
	counter_u64_t c = counter_u64_alloc(M_WAITOK);

	(void)state;
	assert_int_equal(WTERMSIG(test_wait(test_fork(exit_unpaired, NULL), 20)), SIGABRT);
	assert_int_equal(WTERMSIG(test_wait(test_fork(ask_outside, c), 20)), SIGABRT);
	assert_int_equal(WTERMSIG(test_wait(test_fork(nest_without_end, NULL), 20)), SIGABRT);
	counter_u64_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sections_and_calls_are_exact_together),
		cmocka_unit_test(small_fields_wrap_alone),
		cmocka_unit_test(words_are_added_at_the_end),
		cmocka_unit_test(prototypes_of_both_versions_compile),
		cmocka_unit_test(copies_belong_to_one_thread),
		cmocka_unit_test(children_are_in_the_same_section),
		cmocka_unit_test(ends_of_threads_end_sections),
		cmocka_unit_test(handlers_have_sections),
		cmocka_unit_test(mistakes_abort),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

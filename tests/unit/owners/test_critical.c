/* SPDX-License-Identifier: MIT */
/*
 * test_critical.c - critical sections in memory of one process: a lane is one thread's alone,
 * nobody waits while a lane is free, and no update is lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <percpu/critical.h>
#include <percpu/percpu.h>

#include "support.h"

#define REQUIRE(x) test_child_require((x), #x)

/* Two words that each section changes alike, and one that says whether a thread is inside. */
struct pair {
	uint64_t first, second;
	uint32_t inside;
};

static struct percpu_critical *c;
static uint32_t broken; /* sections that were not alone, or found words that differ */

static int make(void **state)
{
	(void)state;
	broken = 0;
	return percpu_critical_create(sizeof(struct pair), &c);
}

static int destroy(void **state)
{
	(void)state;
	percpu_critical_destroy(c);
	return 0;
}

/* Change the cell of the lane that the thread is inside. */
static void change(struct pair *p, uint64_t n)
{
	const bool alone = __atomic_exchange_n(&p->inside, 1, __ATOMIC_RELAXED) == 0;

	if (!alone || p->first != p->second)
		__atomic_fetch_add(&broken, 1, __ATOMIC_RELAXED);
	p->first += n;
	p->second += n;
	__atomic_store_n(&p->inside, 0, __ATOMIC_RELAXED);
}

static int update(uint64_t n)
{
	void *cell;
	int e = percpu_critical_enter(c, &cell);

	if (e != 0)
		return e;
	change(cell, n);
	return percpu_critical_exit(c, cell);
}

/* Update, also if the machine is so busy that no lane is free for a second. */
static int update_at_last(uint64_t n)
{
	int e;

	do
		e = update(n);
	while (e == -ETIMEDOUT);
	return e;
}

/* Return the sum over all lanes, none of which is in use. Fails if a cell's words differ. */
static uint64_t total(void)
{
	const struct pair *p;
	uint64_t sum = 0;

	for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++) {
		p = percpu_critical_cell(c, lane);
		assert_int_equal(p->first, p->second);
		sum += p->first;
	}
	return sum;
}

/* Return the lane that has this cell. */
static unsigned lane_of(const void *cell)
{
	unsigned lane = 0;

	while (lane < percpu_critical_lanes(c) && percpu_critical_cell(c, lane) != cell)
		lane++;
	assert_true(lane < percpu_critical_lanes(c));
	return lane;
}

static bool is_spare(const void *cell)
{
	return lane_of(cell) >= percpu_critical_lanes(c) / 2;
}

static void a_section_has_a_cell(void **state)
{
	void *cell = NULL;

	(void)state;
	assert_int_equal(percpu_critical_size(c), sizeof(struct pair));
	assert_int_equal(percpu_critical_lanes(c), 2 * percpu_status()->possible_cpus);
	assert_int_equal(percpu_critical_key(c), 0);
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_int_equal((uintptr_t)cell % 16, 0);
	assert_int_equal(is_spare(cell), percpu_thread_tier() != PERCPU_TIER_RSEQ);
	change(cell, 5);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(update(3), 0);
	assert_int_equal(total(), 8);
	assert_int_equal(broken, 0);
}

static void mistakes_are_refused(void **state)
{
	const size_t above = PERCPU_CRITICAL_MAX_SIZE + 1;
	struct percpu_critical *none = NULL;
	void *cell = NULL, *other = NULL;

	(void)state;
	assert_int_equal(percpu_critical_create(8, NULL), -EINVAL);
	assert_int_equal(percpu_critical_create(0, &none), -EINVAL);
	assert_int_equal(percpu_critical_create(above, &none), -EINVAL);
	assert_null(none);
	assert_int_equal(percpu_critical_size(NULL), 0);
	assert_int_equal(percpu_critical_lanes(NULL), 0);
	assert_int_equal(percpu_critical_key(NULL), 0);
	assert_null(percpu_critical_cell(NULL, 0));
	assert_null(percpu_critical_cell(c, percpu_critical_lanes(c)));
	percpu_critical_detach(NULL);
	percpu_critical_destroy(NULL);
	assert_int_equal(percpu_critical_enter_lane(NULL, 0, &cell), -EINVAL);
	assert_int_equal(percpu_critical_enter_lane(c, 0, NULL), -EINVAL);
	assert_int_equal(percpu_critical_enter_lane(c, percpu_critical_lanes(c), &cell), -EINVAL);
	assert_null(cell);
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_int_equal(percpu_critical_enter(c, &other), 0);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_exit(c, cell), -EPERM); /* the other one stays */
	assert_int_equal(percpu_critical_exit(c, other), 0);
	assert_int_equal(percpu_critical_exit(c, other), -EPERM);
}

static void private_lanes_go_with_their_handle(void **state)
{
	struct percpu_critical *one = NULL;

	(void)state;
	assert_int_equal(percpu_critical_create(1, &one), 0);
	assert_int_equal(percpu_critical_size(one), 1);
	percpu_critical_detach(one);
	assert_int_equal(percpu_critical_create(100000, &one), 0); /* a region of its own */
	assert_int_equal(percpu_critical_size(one), 100000);
	percpu_critical_destroy(one);
}

/* A thread that is inside gets another lane each time, until there is none. */
static void sections_nest(void **state)
{
	const unsigned lanes = percpu_critical_lanes(c);
	const bool sequences = percpu_thread_tier() == PERCPU_TIER_RSEQ;
	void *cell[2 * PERCPU_MAX_CPUS], *none = NULL;
	unsigned n = 0;

	(void)state;
	while (n < lanes && percpu_critical_enter(c, &cell[n]) == 0) {
		for (unsigned i = 0; i < n; i++)
			assert_ptr_not_equal(cell[i], cell[n]);
		change(cell[n], 1);
		n++;
	}
	/* All spare lanes, and one for each CPU that the thread was on. */
	assert_in_range(n, lanes / 2 + sequences, lanes);
	if (test_cpus() == 1)
		assert_int_equal(percpu_critical_enter(c, &none), -ETIMEDOUT);
	assert_null(none);
	while (n-- > 0)
		assert_int_equal(percpu_critical_exit(c, cell[n]), 0);
	assert_int_equal(update(1), 0);
	assert_int_equal(broken, 0);
}

/* Threads and signal handlers enter at once, on all CPUs. */

#define THREADS 4
#define ROUNDS 20000

static uint64_t by_handlers;

static void update_in_handler(int signo)
{
	(void)signo;
	if (update(1) == 0)
		__atomic_fetch_add(&by_handlers, 1, __ATOMIC_RELAXED);
}

static void update_often(unsigned i, void *arg)
{
	uint32_t *failed = arg;
	struct test_timer timer;

	if (!test_timer_start(&timer, SIGUSR1, 20000 + i))
		__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
	for (unsigned round = 0; round < test_rounds(ROUNDS); round++)
		if (update_at_last(2) != 0)
			__atomic_fetch_add(failed, 1, __ATOMIC_RELAXED);
	test_timer_stop(&timer);
}

static void no_update_is_lost(void **state)
{
	const struct sigaction action = { .sa_handler = update_in_handler };
	uint32_t failed = 0;

	(void)state;
	by_handlers = 0;
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	test_team_run(THREADS, update_often, &failed);
	(void)signal(SIGUSR1, SIG_DFL);
	assert_int_equal(failed, 0);
	assert_int_equal(broken, 0);
	assert_int_equal(total(), 2 * THREADS * test_rounds(ROUNDS) + by_handlers);
}

/* A thread that sleeps inside delays no thread of its CPU. */

static pthread_barrier_t stage;

static void *stay_inside(void *arg)
{
	void **cell = arg;
	const int e = percpu_critical_enter(c, cell);

	pthread_barrier_wait(&stage);
	pthread_barrier_wait(&stage);
	return (void *)(intptr_t)(e != 0 ? e : percpu_critical_exit(c, *cell));
}

static void let_stay(pthread_t *t, void **ret_cell)
{
	assert_int_equal(pthread_barrier_init(&stage, NULL, 2), 0);
	assert_int_equal(pthread_create(t, NULL, stay_inside, ret_cell), 0);
	pthread_barrier_wait(&stage);
}

static void let_exit(pthread_t t)
{
	void *e = NULL;

	pthread_barrier_wait(&stage);
	assert_int_equal(pthread_join(t, &e), 0);
	assert_ptr_equal(e, NULL);
	pthread_barrier_destroy(&stage);
}

static void a_sleeper_delays_nobody(void **state)
{
	void *held = NULL, *cell = NULL;
	pthread_t t;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	let_stay(&t, &held);
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_ptr_not_equal(cell, held);
	assert_true(is_spare(cell));
	assert_int_equal(percpu_critical_exit(c, held), -EPERM); /* another thread's */
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	let_exit(t);
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_int_equal(is_spare(cell), percpu_thread_tier() != PERCPU_TIER_RSEQ);
	let_stay(&t, &held);
	assert_true(is_spare(held));
	assert_int_equal(percpu_critical_exit(c, held), -EPERM);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	let_exit(t);
	test_unpin(0);
}

/* A thread that looks at one lane after the other finds no section half done. */

struct look {
	uint32_t stop, looks;
	int failed;
};

static void look_at_lanes(struct look *l)
{
	struct pair *p;
	void *cell;
	int e;

	for (unsigned lane = 0; lane < percpu_critical_lanes(c); lane++) {
		do /* a thread inside may not run for a second */
			e = percpu_critical_enter_lane(c, lane, &cell);
		while (e == -ETIMEDOUT);
		if (e != 0) {
			l->failed = e;
			return;
		}
		p = cell;
		if (cell != percpu_critical_cell(c, lane) || p->first != p->second)
			l->failed = -EIO;
		change(p, 0);
		if (percpu_critical_exit(c, cell) != 0)
			l->failed = -EIO;
	}
	l->looks++;
}

static void update_or_look(unsigned i, void *arg)
{
	struct look *l = arg;

	if (i == 0) {
		do
			look_at_lanes(l);
		while (__atomic_load_n(&l->stop, __ATOMIC_RELAXED) != THREADS - 1 &&
		       l->failed == 0);
		return;
	}
	for (unsigned round = 0; round < test_rounds(ROUNDS); round++)
		if (update_at_last(2) != 0)
			__atomic_fetch_add(&broken, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&l->stop, 1, __ATOMIC_RELAXED);
}

static void readers_find_whole_cells(void **state)
{
	struct look l = { 0 };

	(void)state;
	test_team_run(THREADS, update_or_look, &l);
	assert_int_equal(l.failed, 0);
	assert_true(l.looks > 0);
	assert_int_equal(broken, 0);
	assert_int_equal(total(), 2 * (THREADS - 1) * test_rounds(ROUNDS));
}

/* While a thread is in a CPU's lane by its number, threads of that CPU take spare lanes; and it
 * waits for a thread that is inside. */
static void a_lane_is_awaited(void **state)
{
	void *held = NULL, *cell = NULL, *other = NULL;
	unsigned lane;
	pthread_t t;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	let_stay(&t, &held);
	lane = lane_of(held);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), -ETIMEDOUT);
	assert_null(cell);
	let_exit(t);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell), 0);
	assert_ptr_equal(cell, held);
	assert_int_equal(percpu_critical_enter(c, &other), 0);
	assert_true(is_spare(other));
	assert_ptr_not_equal(other, cell);
	assert_int_equal(percpu_critical_exit(c, other), 0);
	assert_int_equal(percpu_critical_enter_lane(c, lane, &other), -ETIMEDOUT); /* itself */
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	assert_int_equal(percpu_critical_enter(c, &cell), 0);
	assert_int_equal(is_spare(cell), percpu_thread_tier() != PERCPU_TIER_RSEQ);
	assert_int_equal(percpu_critical_exit(c, cell), 0);
	test_unpin(0);
}

/* A thread that finds no lane waits for one. It may have to give up after a second, on a machine
 * that is busy. */
static void *enter_and_exit(void *arg)
{
	void *cell;
	const int e = percpu_critical_enter(c, &cell);

	(void)arg;
	return (void *)(intptr_t)(e != 0 ? e : percpu_critical_exit(c, cell));
}

static void an_enter_waits_for_a_lane(void **state)
{
	const unsigned lanes = percpu_critical_lanes(c);
	void *cell[2 * PERCPU_MAX_CPUS], *e;
	pthread_t t;

	(void)state;
	for (unsigned lane = 0; lane < lanes; lane++)
		assert_int_equal(percpu_critical_enter_lane(c, lane, &cell[lane]), 0);
	assert_int_equal(pthread_create(&t, NULL, enter_and_exit, NULL), 0);
	test_sleep_us(10000);
	assert_int_equal(percpu_critical_exit(c, cell[lanes - 1]), 0);
	assert_int_equal(pthread_join(t, &e), 0);
	if ((intptr_t)e != -ETIMEDOUT)
		assert_int_equal((intptr_t)e, 0);
	for (unsigned lane = 0; lane < lanes - 1; lane++)
		assert_int_equal(percpu_critical_exit(c, cell[lane]), 0);
}

/* Forks: the child is inside as its thread was, and other threads' lanes are free. */

static int use_the_copy(void *arg)
{
	void **cell = arg; /* entered, taken by number, another thread's */
	const unsigned lanes = percpu_critical_lanes(c);
	void *all[2 * PERCPU_MAX_CPUS];
	unsigned n = 0;

	REQUIRE(percpu_critical_exit(c, cell[2]) == -EPERM);
	REQUIRE(percpu_critical_exit(c, cell[0]) == 0);
	REQUIRE(percpu_critical_exit(c, cell[1]) == 0);
	for (unsigned lane = 0; lane < lanes; lane++, n++)
		REQUIRE(percpu_critical_enter_lane(c, lane, &all[lane]) == 0);
	while (n-- > 0)
		REQUIRE(percpu_critical_exit(c, all[n]) == 0);
	percpu_critical_destroy(c);
	return 0;
}

static void children_stay_inside(void **state)
{
	void *cell[3] = { NULL };
	unsigned lane = 0;
	pthread_t t;

	(void)state;
	let_stay(&t, &cell[2]);
	assert_int_equal(percpu_critical_enter(c, &cell[0]), 0);
	while (percpu_critical_cell(c, lane) == cell[0] || percpu_critical_cell(c, lane) == cell[2])
		lane++;
	assert_int_equal(percpu_critical_enter_lane(c, lane, &cell[1]), 0);
	test_in_child(use_the_copy, cell);
	assert_int_equal(percpu_critical_exit(c, cell[0]), 0);
	assert_int_equal(percpu_critical_exit(c, cell[1]), 0);
	let_exit(t);
}

static struct percpu_critical *many[3];

static void *stay_in_many(void *arg)
{
	void **held = arg;

	for (unsigned i = 0; i < 3; i++)
		REQUIRE(percpu_critical_enter(many[i], &held[i]) == 0);
	pthread_barrier_wait(&stage);
	pthread_barrier_wait(&stage);
	for (unsigned i = 0; i < 3; i++)
		REQUIRE(percpu_critical_exit(many[i], held[i]) == 0);
	return NULL;
}

static int enter_all_lanes(void *arg)
{
	void *cell;

	(void)arg;
	for (unsigned i = 0; i < 3; i++)
		for (unsigned lane = 0; lane < percpu_critical_lanes(many[i]); lane++)
			REQUIRE(percpu_critical_enter_lane(many[i], lane, &cell) == 0);
	return 0;
}

/* A child frees the lanes of all objects. */
static void children_find_all_lanes_free(void **state)
{
	void *held[3] = { NULL };
	pthread_t t;

	(void)state;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_critical_create(sizeof(struct pair), &many[i]), 0);
	assert_int_equal(pthread_barrier_init(&stage, NULL, 2), 0);
	assert_int_equal(pthread_create(&t, NULL, stay_in_many, held), 0);
	pthread_barrier_wait(&stage);
	test_in_child(enter_all_lanes, NULL);
	pthread_barrier_wait(&stage);
	assert_int_equal(pthread_join(t, NULL), 0);
	for (unsigned i = 0; i < 3; i++)
		percpu_critical_destroy(many[i]);
	pthread_barrier_destroy(&stage);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_section_has_a_cell, make, destroy),
		cmocka_unit_test_setup_teardown(mistakes_are_refused, make, destroy),
		cmocka_unit_test(private_lanes_go_with_their_handle),
		cmocka_unit_test_setup_teardown(sections_nest, make, destroy),
		cmocka_unit_test_setup_teardown(no_update_is_lost, make, destroy),
		cmocka_unit_test_setup_teardown(a_sleeper_delays_nobody, make, destroy),
		cmocka_unit_test_setup_teardown(readers_find_whole_cells, make, destroy),
		cmocka_unit_test_setup_teardown(a_lane_is_awaited, make, destroy),
		cmocka_unit_test_setup_teardown(an_enter_waits_for_a_lane, make, destroy),
		cmocka_unit_test_setup_teardown(children_stay_inside, make, destroy),
		cmocka_unit_test(children_find_all_lanes_free),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

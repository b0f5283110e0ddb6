/* SPDX-License-Identifier: MIT */
/*
 * test_settings.c - every sequence as a workload of 1 to 16 threads, under a table of settings,
 * which say what happens, at which step, and how often; and of 1 to 16 processes, one of which is
 * killed at a step.
 *
 * Arguments: the directory of the arch headers, which tell the sequences that must have a workload;
 * and how many updates a thread makes at each point, if not 30.
 */
#define _GNU_SOURCE
#include "workloads.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/counter.h>

#include "../support.h"

#define UPDATES 30
#define MAX_UPDATES 1000
#define LONG_WAIT (UINT64_C(1) << 33)
#define SECONDS 30 /* at most for a point, on any machine */

enum fault {
	DELAY,	 /* stay in the sequence for a number of rounds */
	YIELD,	 /* do this and the rest in the handler of a trap in the sequence */
	SLEEP,	 /* for a number of microseconds */
	SIGNAL,	 /* with another update in the handler */
	MIGRATE, /* to the next CPU */
};

static const struct setting {
	const char *name;
	enum fault fault;
	unsigned amount;
	unsigned one_in; /* of how many updates one is stopped */
} settings[] = {
	{ "delay", DELAY, 10, 1 },
	{ "longer delay", DELAY, 1000, 1 },
	{ "long delay", DELAY, 50000, 8 },
	{ "yield", YIELD, 0, 1 },
	{ "yield now and then", YIELD, 0, 5 },
	{ "short sleep", SLEEP, 1, 4 },
	{ "sleep", SLEEP, 200, 12 },
	{ "signal", SIGNAL, 0, 1 },
	{ "signal now and then", SIGNAL, 0, 5 },
	{ "migration", MIGRATE, 0, 1 },
	{ "migration now and then", MIGRATE, 0, 5 },
};

#define SETTINGS (sizeof(settings) / sizeof(settings[0]))

static const char *headers;
static unsigned updates = UPDATES;
static unsigned points;

/* The point that the team works on now. */
static struct {
	const struct workload *l;
	const struct setting *s; /* NULL: no more points */
	int step;
	pthread_barrier_t barrier;
	uint64_t stops;
} now;

static __thread struct worker *self;
static __thread uint64_t stops;

static void on_trap(int signo)
{
	(void)signo;
	stops++;
	inject_point.step = self->arm.step = 0; /* once per update */
	switch (now.s->fault) {
	case YIELD:
		sched_yield();
		break;
	case SLEEP:
		test_sleep_us(now.s->amount);
		break;
	case SIGNAL:
		now.l->update(self);
		break;
	case MIGRATE:
		test_pin(0, test_cpu(sched_getcpu() == (int)test_cpu(0)));
		break;
	case DELAY:
		break;
	}
}

static void update_many(struct worker *w)
{
	const struct setting *s = now.s;

	self = w;
	for (unsigned i = 0; i < updates; i++) {
		w->arm = (struct inject_point){ 0 };
		inject_point.arrived = 0;
		if (i % s->one_in == w->id % s->one_in) {
			w->arm.step = now.step;
			w->arm.trap = s->fault != DELAY;
			w->arm.rounds = s->fault == DELAY ? s->amount : 0;
		}
		now.l->update(w);
		stops += inject_point.arrived && s->fault == DELAY;
	}
}

static void work(unsigned i, void *arg)
{
	(void)arg;
	percpu_seq_attach();
	for (;;) {
		pthread_barrier_wait(&now.barrier);
		if (!now.s)
			return;
		test_unpin(0);
		stops = 0;
		update_many(workload_worker(i));
		__atomic_fetch_add(&now.stops, stops, __ATOMIC_RELAXED);
		pthread_barrier_wait(&now.barrier);
	}
}

/* Return whether the CPU has what the workload needs; print a message if not. */
static bool is_possible(const struct workload *l)
{
	if (l->words <= (int)percpu_status()->commit_words)
		return true;
	print_message("%s: this CPU cannot store %d words at once\n", l->name, l->words);
	return false;
}

static bool has_step(const struct workload *l, int step)
{
	struct worker *w = workload_worker(0);

	workload_begin(l);
	w->arm = (struct inject_point){ .step = step };
	l->update(w);
	return inject_point.arrived != 0;
}

static void on_alarm(int signo)
{
	(void)signo;
	dprintf(STDERR_FILENO, "%s, step %d, %s: not done in time\n", now.l->name, now.step,
		now.s->name);
	_exit(1);
}

static void run_settings(const struct workload *l, int step, unsigned threads)
{
	const char *fault;

	now.l = l;
	now.step = step;
	for (unsigned i = 0; i < SETTINGS; i++) {
		workload_begin(l);
		now.s = &settings[i];
		now.stops = 0;
		test_alarm(SECONDS);
		pthread_barrier_wait(&now.barrier);
		pthread_barrier_wait(&now.barrier);
		alarm(0);
		points++;
		fault = workload_fault(l);
		if (fault)
			fail_msg("%s, step %d, %s, %u threads: %s", l->name, step, now.s->name,
				 threads, fault);
		if (now.stops == 0)
			fail_msg("%s, step %d, %s: never got there", l->name, step, now.s->name);
	}
}

static void for_each_step(void (*fn)(const struct workload *l, int step, unsigned workers),
			  unsigned workers)
{
	const struct workload *l;

	for (unsigned n = 0; (l = workload(n)) != NULL; n++) {
		unsigned steps = 0;

		if (!is_possible(l))
			continue;
		for (int step = 1; step <= INJECT_STEPS; step++)
			if (has_step(l, step)) {
				fn(l, step, workers);
				steps++;
			}
		assert_in_range(steps, 4, INJECT_STEPS); /* all sequences have steps 1 to 4 */
	}
}

static void threads_at_every_point(void **state)
{
	struct sigaction trap = { .sa_handler = on_trap };
	struct sigaction alarmed = { .sa_handler = on_alarm };
	struct test_team team;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	assert_int_equal(sigaction(SIGTRAP, &trap, NULL), 0);
	assert_int_equal(sigaction(SIGALRM, &alarmed, NULL), 0);
	points = 0;
	for (unsigned threads = 1; threads <= WORKLOAD_WORKERS; threads *= 2) {
		pthread_barrier_init(&now.barrier, NULL, threads + 1);
		test_team_start(&team, threads, work, NULL);
		for_each_step(run_settings, threads);
		now.s = NULL;
		pthread_barrier_wait(&now.barrier);
		test_team_join(&team);
		pthread_barrier_destroy(&now.barrier);
	}
	signal(SIGALRM, SIG_DFL);
	print_message("%u points\n", points);
}

/* One of the processes waits at a step until it is killed. The others count on. */

struct role {
	const struct workload *l;
	struct worker *w;
};

static int update_to_the_end(void *arg)
{
	const struct role *r = arg;

	for (unsigned i = 0; i < updates; i++)
		r->l->update(r->w);
	return 0;
}

static int update_until_killed(void *arg)
{
	const struct role *r = arg;
	struct inject_point last = r->w->arm;

	r->w->arm = (struct inject_point){ 0 };
	update_to_the_end(arg);
	r->w->arm = last;
	for (unsigned i = 0; i < UINT32_MAX; i++) { /* push and pop need a CPU with items */
		test_pin(0, test_cpu(i % test_cpus()));
		r->l->update(r->w);
	}
	return 0;
}

/* Stop the process, and return whether it is at the step, or has died. If it is past the step,
 * it must go on: preempted there it starts its sequence again, may then be refused, and takes
 * the turn that the others wait for. */
static bool is_stopped_at_step(pid_t pid, struct inject_point *ret)
{
	siginfo_t info;

	while (inject_read(pid, ret) && !ret->arrived)
		sched_yield();
	kill(pid, SIGSTOP);
	waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOWAIT);
	return info.si_code != CLD_STOPPED ||
	       (inject_read(pid, ret) && ret->arrived && ret->step != 0);
}

static void kill_one(const struct workload *l, int step, unsigned processes)
{
	struct inject_point seen = { 0 };
	struct role role[WORKLOAD_WORKERS];
	pid_t pid[WORKLOAD_WORKERS];
	const char *fault;

	workload_begin(l);
	workload_worker(0)->arm = (struct inject_point){ .step = step, .rounds = LONG_WAIT };
	inject_point = seen;
	for (unsigned i = 0; i < processes; i++) {
		role[i] = (struct role){ l, workload_worker(i) };
		pid[i] = test_fork(i == 0 ? update_until_killed : update_to_the_end, &role[i]);
	}
	while (!is_stopped_at_step(pid[0], &seen))
		kill(pid[0], SIGCONT);
	kill(pid[0], SIGKILL);
	for (unsigned i = 0; i < processes; i++)
		assert_int_equal(test_wait(pid[i], SECONDS), i == 0 ? SIGKILL : 0);
	points++;
	assert_true(seen.arrived);
	fault = workload_fault(l);
	if (fault)
		fail_msg("%s, killed at step %d, %u processes: %s", l->name, step, processes,
			 fault);
}

static void processes_killed_at_every_step(void **state)
{
	struct inject_point seen;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	if (!inject_read(getpid(), &seen))
		test_skip("no process_vm_readv() here");
	points = 0;
	for (unsigned processes = 1; processes <= WORKLOAD_WORKERS; processes *= 2)
		for_each_step(kill_one, processes);
	print_message("%u points\n", points);
}

static const struct workload *find_workload(const char *name)
{
	const struct workload *l;

	for (unsigned n = 0; (l = workload(n)) != NULL && strcmp(l->name, name) != 0; n++)
		;
	return l;
}

/* One worker has the turn to empty the queues, and does not run. */

static bool ended;

static void *fill_queue(void *arg)
{
	struct role r = { arg, workload_worker(0) };

	percpu_seq_attach();
	test_pin(0, test_cpu(0));
	update_to_the_end(&r);
	__atomic_store_n(&ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void who_waits_for_its_turn_does_not_give_up(void **state)
{
	const struct workload *l = find_workload("copy");
	pthread_t thread;

	(void)state;
	if (!inject_possible())
		test_skip("no sequences in this build or on this tier");
	workload_begin(l);
	workload_take_turn();
	assert_int_equal(pthread_create(&thread, NULL, fill_queue, (void *)(uintptr_t)l), 0);
	while (workload_waits() <= WORKLOAD_TRIES && !__atomic_load_n(&ended, __ATOMIC_ACQUIRE))
		test_sleep_us(1000);
	workload_give_turn();
	pthread_join(thread, NULL);
	assert_in_range(workload_waits(), WORKLOAD_TRIES + 1, UINT64_MAX);
	if (workload_fault(l))
		fail_msg("%s", workload_fault(l));
}

/* Check that each sequence of a header has a workload. Sequences are the definitions that take a
 * cell. Return how many there are. */
static unsigned find_sequences(const char *path)
{
	static const char prefix[] = "percpu_seq_";
	char line[256], *name, *end;
	FILE *f = fopen(path, "r");
	unsigned found = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		name = strstr(line, prefix);
		end = strstr(line, "(void *cell");
		if (!name || !end || end < name)
			continue;
		*end = '\0';
		name += strlen(prefix);
		if (!find_workload(name))
			fail_msg("percpu_seq_%s() is not among the workloads", name);
		found++;
	}
	(void)fclose(f);
	return found;
}

static void every_sequence_is_a_workload(void **state)
{
	DIR *d = opendir(headers);
	struct dirent *e;
	char path[4096];
	unsigned found = 0;

	(void)state;
	assert_non_null(d);
	while ((e = readdir(d)) != NULL) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", headers, e->d_name);
		found += find_sequences(path);
	}
	closedir(d);
	assert_in_range(found, 12, 1000);
}

/* Keep to as many CPUs as there are items to push and pop. */
static void limit_cpus(char **argv)
{
	cpu_set_t set;

	if (test_cpus() <= MODEL_SLOTS)
		return;
	CPU_ZERO(&set);
	for (unsigned i = 0; i < MODEL_SLOTS; i++)
		CPU_SET(test_cpu(i), &set);
	if (sched_setaffinity(0, sizeof(set), &set) == 0)
		execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sequence_is_a_workload),
		cmocka_unit_test(who_waits_for_its_turn_does_not_give_up),
		cmocka_unit_test(threads_at_every_point),
		cmocka_unit_test(processes_killed_at_every_step),
	};

	if (argc < 2)
		return 2;
	headers = argv[1];
	if (argc > 2)
		updates = (unsigned)strtoul(argv[2], NULL, 10);
	if (updates < 1 || updates > MAX_UPDATES)
		return 2;
	limit_cpus(argv);
	workload_make();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

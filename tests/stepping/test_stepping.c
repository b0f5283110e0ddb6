/* SPDX-License-Identifier: MIT */
/*
 * test_stepping.c - stops each operation at every instruction of each of its sequences, and behind
 * the last one. At each stop it causes each event that can happen there, and the outcome must be
 * the model's. The test fails if a record of the program has a sequence in which it has not
 * stopped.
 */
#define _GNU_SOURCE
#include "stepping.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "../support.h"

#define MAX_INSTRUCTIONS 256
#define MAX_RECORDS 256
#define TRIES 100
#define APPROACH 4 /* instructions before a sequence */

/* The address at which a position-independent program was loaded. */
extern const char __ehdr_start __attribute__((visibility("hidden")));

/* The event while the child is stopped. */
enum event {
	BY_COMPETITOR, /* another process updates the lane of this CPU */
	BY_RESET,      /* another process reads and resets it */
	BY_MIGRATION,
	BY_SIGNAL, /* its handler updates the lane */
	BY_FORK,   /* its handler forks a child that updates the lane */
	BY_KILL,
	EVENTS
};

static const char *const event_name[EVENTS] = { "competitor", "reset", "migration",
						"signal",     "fork",  "kill" };

/* The present experiment, for the child and the tracer. */
static struct {
	const struct stepping_operation *o;
	enum event event;
	struct model_case c, nested;
	unsigned here, there;
} now;

/* The child's results, in shared memory. */
static struct report {
	struct model_result c, nested;
} * report;

static struct model_lane *before, *model, *real;
static bool covered[MAX_RECORDS];
static unsigned stops, experiments;

static void update_in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		report->nested = now.o->run(&now.nested);
		_exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		report->nested.code = -1;
}

static void on_signal(int signo)
{
	(void)signo;
	if (now.event == BY_FORK)
		update_in_child();
	else
		report->nested = now.o->run(&now.nested);
}

static void run(void)
{
	report->c = now.o->run(&now.c);
}

static bool same(const struct model_lane *a)
{
	stepping_read(now.o, real);
	for (unsigned i = 0; i < stepping_lanes(now.o); i++)
		if (!model_same(&a[i], &real[i], now.o->op, now.c.mask))
			return false;
	return true;
}

static bool is_result(struct model_result got, struct model_result want)
{
	return got.code == want.code && got.value == want.value;
}

/* Apply the case to the model. An operation on private memory has judged itself. */
static struct model_result apply(const struct model_case *c, unsigned cpu)
{
	if (now.o->memory == MEMORY_PRIVATE)
		return (struct model_result){ 0, MODEL_UNSET };
	return model_apply(&model[stepping_lane(now.o, cpu)], c);
}

/* Prepare a state in which the operation has an effect; the same for the same seed. */
static void prepare(const struct stepping_operation *o, enum event event, uint64_t seed)
{
	uint64_t random = seed;
	struct model_lane copy, *lane;

	now.o = o;
	now.event = event;
	do {
		stepping_fill(o, &random);
		stepping_read(o, before);
		lane = &before[stepping_lane(o, now.here)];
		model_choose(&now.c, o->op, lane, &random);
		copy = *lane;
	} while (model_apply(&copy, &now.c).code != 0 ||
		 model_same(&copy, lane, o->op, now.c.mask));
	model_choose_nested(&now.nested, &now.c, lane, &random);
	memcpy(model, before, stepping_lanes(o) * sizeof(*model));
	report->c = (struct model_result){ -1, MODEL_UNSET };
	report->nested = report->c;
}

/* Cause the event. Return whether it is an update; *ret is the result that the update must have. */
static bool update(struct stepping_child *child, struct model_result *ret)
{
	unsigned cpu = now.here;
	struct model_lane left;

	switch (now.event) {
	case BY_COMPETITOR:
		if (now.o->memory == MEMORY_PRIVATE)
			break;
		test_pin(0, cpu);
		report->nested = now.o->run(&now.nested);
		test_unpin(0);
		*ret = apply(&now.nested, cpu);
		return true;
	case BY_RESET:
		stepping_reset(now.o, real, &left);
		report->nested.code = !model_same(model, real, now.o->op, now.c.mask);
		*model = left;
		*ret = (struct model_result){ 0, MODEL_UNSET };
		return true;
	case BY_SIGNAL:
	case BY_FORK:
		syscall(SYS_tgkill, child->pid, child->tid, SIGUSR1);
		*ret = apply(&now.nested, cpu);
		return child->tid == child->pid; /* the library's threads block signals */
	default:
		break;
	}
	return false;
}

/* Cause the event, and let the child go on. The child is stopped; end says whether behind the
 * commit. Return what is wrong, or NULL. */
static const char *experiment(struct stepping_child *child, bool end)
{
	struct model_result want = { 0, MODEL_UNSET }, want_nested;
	bool committed = !same(before), nested;
	unsigned cpu = now.here;

	experiments++;
	if (committed && !end)
		return "stored before the commit";
	if (committed)
		want = apply(&now.c, now.here);
	if (!same(model))
		return "stored something else";
	if (now.event == BY_KILL) {
		stepping_kill(child);
		return same(model) ? NULL : "changed after its death";
	}
	if (now.event == BY_MIGRATION && test_pin(child->tid, now.there))
		cpu = now.there;
	nested = update(child, &want_nested);
	if (!committed)
		want = apply(&now.c, cpu);
	if (!stepping_finish(child))
		return "did not finish";
	if (!same(model))
		return "wrong outcome";
	if (!is_result(report->c, want))
		return "wrong result";
	return nested && !is_result(report->nested, want_nested) ? "wrong result in between" : NULL;
}

/* Start the child, and stop it at the last of these points. A neighbor may preempt it before it
 * gets there, so try several times. */
static bool stop_at(const struct stepping_operation *o, enum event event, const uint64_t *points,
		    unsigned n, struct stepping_child *ret)
{
	for (unsigned tries = 0; tries < TRIES; tries++) {
		prepare(o, event, 90 + o->op);
		if (!test_pin(0, now.here))
			continue;
		*ret = stepping_start(run, points, n);
		test_unpin(0);
		if (ret->stopped)
			return true;
	}
	return false;
}

/* Return whether to cause this event at this stop. On a slow machine each stop has one event. */
static bool is_due(const struct stepping_operation *o, enum event e)
{
	const bool sample = test_rounds(10) < 10;

	if ((e == BY_MIGRATION && now.here == now.there) ||
	    (e == BY_RESET && !stepping_is_reset(o)))
		return false;
	return !sample || e == stops % EVENTS;
}

/* Test at one instruction. The operation runs through the sequences that start at trail[0..n-1].
 * Stop it in the last one, after the earlier ones were aborted. */
static void prove_at(const struct stepping_operation *o, const uint64_t *trail, unsigned n,
		     uint64_t at, const struct record *r)
{
	uint64_t points[MAX_RECORDS + 1];
	struct stepping_child child;
	const char *wrong;

	memcpy(points, trail, (n - 1) * sizeof(*points));
	points[n - 1] = at;
	stops++;
	for (enum event e = 0; e < EVENTS; e++) {
		if (!is_due(o, e))
			continue;
		if (!stop_at(o, e, points, n, &child))
			fail_msg("%s: not reached: start%+d", o->name, (int)(at - r->start));
		wrong = experiment(&child, at == r->start + r->length);
		if (wrong)
			fail_msg("%s, sequence %u, instruction at start%+d of %u, %s: %s", o->name,
				 n, (int)(at - r->start), (unsigned)r->length, event_name[e],
				 wrong);
	}
}

/* Test at the last instructions before the sequence. Nothing is aborted there, so what they have
 * loaded must not matter. */
static void prove_before(const struct stepping_operation *o, const uint64_t *trail, unsigned n,
			 const struct record *r)
{
	const uint64_t entry = (uintptr_t)o->run;
	uint64_t at[APPROACH];
	struct stepping_child child;
	unsigned found;

	if (!stop_at(o, BY_COMPETITOR, n == 1 ? &entry : trail, n == 1 ? 1 : n - 1, &child))
		fail_msg("%s: sequence %u not approached", o->name, n);
	found = stepping_approach(&child, r->start, at, APPROACH);
	stepping_kill(&child);
	for (unsigned i = 0; i < found; i++)
		if (at[i] != trail[n > 1 ? n - 2 : 0])
			prove_at(o, trail, n, at[i], r);
}

/* Test a sequence. Return whether it was stopped at each instruction up to the commit. */
static bool prove(const struct stepping_operation *o, const uint64_t *trail, unsigned n,
		  const struct record *r)
{
	uint64_t at[MAX_INSTRUCTIONS];
	struct stepping_child child;
	unsigned found;
	bool end;

	if (o->memory != MEMORY_PRIVATE)
		prove_before(o, trail, n, r);
	if (!stop_at(o, BY_COMPETITOR, trail, n, &child))
		fail_msg("%s: sequence %u not reached", o->name, n);
	found = stepping_walk(&child, r, at, MAX_INSTRUCTIONS, &end);
	stepping_kill(&child);
	for (unsigned i = 0; i < found; i++)
		prove_at(o, trail, n, at[i], r);
	if (end && o->memory != MEMORY_PRIVATE)
		prove_at(o, trail, n, r->start + r->length, r);
	return end;
}

static void prove_operation(const struct stepping_operation *o)
{
	uint64_t which[MAX_RECORDS], trail[MAX_RECORDS];
	size_t n;
	const struct record *r = records(&n);
	unsigned sequences;

	prepare(o, BY_COMPETITOR, 90 + o->op);
	test_pin(0, now.here);
	sequences = stepping_trail(run, r, n, which);
	test_unpin(0);
	if (o->memory == MEMORY_SUMS &&
	    (!model_exists(o->op, (int)percpu_status()->commit_words) || !stepping_is_shared(o))) {
		print_message("%s takes several commits here, or is private: not proven\n",
			      o->name);
		for (unsigned i = 0; i < sequences; i++)
			covered[which[i]] = true; /* the sequence of a narrower operation, again */
		return;
	}
	for (unsigned i = 0; i < sequences; i++) {
		trail[i] = r[which[i]].start;
		if (!covered[which[i]] || o->memory != MEMORY_PRIVATE)
			covered[which[i]] |= prove(o, trail, i + 1, &r[which[i]]);
	}
	if (sequences == 0)
		fail_msg("%s runs through no sequence", o->name);
}

/* Return whether this CPU runs all sequences. On x86-64, the library has some for CPUs with
 * wider stores. */
static bool has_all_sequences(void)
{
#ifdef __x86_64__
	return percpu_status()->commit_words == 8;
#else
	return true;
#endif
}

static void all_operations(void **state)
{
	unsigned missing = 0;
	size_t n;
	const struct record *r = records(&n);

	(void)state;
	if (n == 0 || percpu_status()->tier != PERCPU_TIER_RSEQ)
		test_skip("no sequences in this build or on this tier");
	assert_in_range(n, 1, MAX_RECORDS);
	for (unsigned i = 0; stepping_operation(i); i++)
		prove_operation(stepping_operation(i));
	for (size_t i = 0; i < n; i++) {
		if (covered[i])
			continue;
		missing++;
		print_message("nothing stopped in the sequence at %#llx (addr2line -i)\n",
			      (unsigned long long)(r[i].start - (uintptr_t)&__ehdr_start));
	}
	print_message("%u sequences, %u stops, %u experiments\n", (unsigned)n, stops, experiments);
	if (has_all_sequences())
		assert_int_equal(missing, 0);
}

/* Check the records as the kernel finds them, with the program's addresses. */
static void records_hold_together(void **state)
{
	size_t n;
	const struct record *r = records(&n);
	const char *fault = records_fault();

	(void)state;
#ifdef PERCPU_SEQ_SIGNATURE
	for (size_t i = 0; i < n && !fault; i++)
		fault = record_fault(&r[i], PERCPU_SEQ_SIGNATURE);
#else
	(void)r;
#endif
	if (fault)
		fail_msg("a record: %s", fault);
}

static int setup(void **state)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	size_t lanes = percpu_status()->possible_cpus;

	(void)state;
	percpu_seq_attach();
	now.here = test_cpu(0);
	now.there = test_cpu(1);
	report = test_share(sizeof(*report));
	before = aligned_alloc(64, lanes * sizeof(*before));
	model = aligned_alloc(64, lanes * sizeof(*model));
	real = aligned_alloc(64, lanes * sizeof(*real));
	stepping_make(now.here);
	return !before || !model || !real || sigaction(SIGUSR1, &sa, NULL) != 0;
}

static int teardown(void **state)
{
	(void)state;
	free(before);
	free(model);
	free(real);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_hold_together),
		cmocka_unit_test(all_operations),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}

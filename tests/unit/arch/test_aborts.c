/* SPDX-License-Identifier: MIT */
/*
 * test_aborts.c - each sequence, aborted before each of its instructions.
 *
 * The thread has the test's own area, and the handler of a breakpoint does the kernel's work: it
 * sends the thread to the abort handler. So this runs if the kernel has no rseq, or without
 * ptrace(), as in qemu-user. Here all instructions have one length; tests/inject and
 * tests/stepping have more, and x86-64.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "model.h"
#include "../../stepping/records.h"
#include "support.h"

#define LANES 2
#define CASES 16
#define BRK 0xd42fcae0 /* brk #0x7e57 */

static struct percpu_rseq area = { .cpu_id = 1 };
static const struct record *record;
static uint32_t *at; /* the breakpoint replaces this instruction */
static uint32_t instruction;
static bool hit, armed;

static void put(uint32_t code)
{
	*at = code;
	__builtin___clear_cache((char *)at, (char *)(at + 1));
}

static void abort_sequence(int signo, siginfo_t *info, void *context)
{
	mcontext_t *m = &((ucontext_t *)context)->uc_mcontext;

	(void)signo, (void)info;
	put(instruction);
	hit = m->pc == (uintptr_t)at;
	armed = area.rseq_cs == (uintptr_t)record;
	area.rseq_cs = 0;
	m->pc = record->abort;
}

static struct model_result run_to(uint32_t *stop, struct model_lane *lane0,
				  const struct model_case *c)
{
	struct percpu_rseq *own = model_set_area(&area);
	struct model_result r;

	at = stop;
	instruction = *stop;
	hit = false;
	put(BRK);
	r = model_run(lane0, c);
	put(instruction);
	model_set_area(own);
	return r;
}

/* Stop an operation at an instruction, and compare it with the model. Returns whether it came
 * there. */
static bool check_stop(enum model_op op, uint32_t *stop, uint64_t *random)
{
	struct model_lane real[LANES], model[LANES];
	struct model_result got, want;
	struct model_case c;

	for (unsigned i = 0; i < LANES; i++)
		model_fill(&real[i], op, random);
	model_choose(&c, op, &real[1], random);
	memcpy(model, real, sizeof(real));
	got = run_to(stop, real, &c);
	want = hit ? (struct model_result){ PERCPU_SEQ_SLOW, got.value } :
		     model_apply(&model[1], &c);
	if (got.code != want.code || got.value != want.value || (hit && !armed) ||
	    !model_same(&real[0], &model[0], op, c.mask) ||
	    !model_same(&real[1], &model[1], op, c.mask))
		fail_msg("%s, instruction %td: %s", model_name(op),
			 stop - (uint32_t *)(uintptr_t)record->start,
			 hit ? "aborted, it has done something" : "differs from its model");
	return hit;
}

/* Stop an operation at each of its instructions. Returns how many there were. */
static unsigned check_sequence(enum model_op op, uint64_t *random)
{
	uint32_t *begin = (uint32_t *)(uintptr_t)record->start;
	uint32_t *end = begin + record->length / sizeof(*begin);
	unsigned stops = 0;

	if (!check_stop(op, begin, random))
		return 0; /* of another operation */
	for (uint32_t *stop = begin; stop < end; stop++) {
		bool seen = false;

		for (unsigned i = 0; i < CASES; i++)
			seen |= check_stop(op, stop, random);
		stops += seen;
	}
	return stops;
}

static bool write_text(void)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from, to;
	size_t n;
	const struct record *r = records(&n);

	for (size_t i = 0; i < n; i++) {
		from = r[i].start & ~(page - 1);
		to = r[i].start + r[i].length;
		if (mprotect((void *)from, to - from, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
			return false;
	}
	return true;
}

static void what_is_aborted_has_done_nothing(void **state)
{
	struct sigaction sa = { .sa_sigaction = abort_sequence, .sa_flags = SA_SIGINFO };
	const struct record *all;
	uint64_t random = 46;
	size_t n;

	(void)state;
	if (!write_text())
		test_skip("code cannot be patched here");
	assert_int_equal(sigaction(SIGTRAP, &sa, NULL), 0);
	all = records(&n);
	for (enum model_op op = 0; op < MODEL_SEQUENCES; op++) {
		unsigned stops = 0;

		if (!model_exists(op, PERCPU_SEQ_WORDS))
			continue;
		for (record = all; record < all + n; record++)
			stops += check_sequence(op, &random);
		if (stops < 5)
			fail_msg("%s was stopped at %u instructions", model_name(op), stops);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_aborted_has_done_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

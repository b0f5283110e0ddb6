/* SPDX-License-Identifier: MIT */
/* spinner.c - see spinner.h. */
#include "spinner.h"

#include <sched.h>

#include <percpu/seq.h>

#include "../support.h"

struct spinner {
	struct percpu_rseq *area; /* atomic; of the thread that spins */
	uint32_t flag, aborts;	  /* atomic */
};

static void spin(unsigned i, void *arg)
{
	struct spinner *s = arg;

	(void)i;
	test_pin(0, test_cpu(1));
	__atomic_store_n(&s->area, percpu_seq_attach(), __ATOMIC_SEQ_CST);
	while (percpu_seq_spin(&s->flag, UINT64_C(1) << 60) == PERCPU_SEQ_SLOW)
		__atomic_fetch_add(&s->aborts, 1, __ATOMIC_SEQ_CST);
}

static bool is_aborted_by(int (*fence)(void))
{
	struct spinner s = { 0 };
	struct test_team team;
	uint32_t before;
	int e;

	test_team_start(&team, 1, spin, &s);
	while (!__atomic_load_n(&s.area, __ATOMIC_SEQ_CST))
		sched_yield();
	before = __atomic_load_n(&s.aborts, __ATOMIC_SEQ_CST);
	/* Armed, it is in its sequence, until that is aborted or sees the flag. */
	while (__atomic_load_n(&s.area->rseq_cs, __ATOMIC_SEQ_CST) == 0)
		sched_yield();
	e = fence();
	__atomic_store_n(&s.flag, 1, __ATOMIC_SEQ_CST);
	test_team_join(&team);
	return e == 0 && s.aborts != before;
}

unsigned spinner_aborted_by(int (*fence)(void), unsigned rounds)
{
	unsigned aborted = 0;

	test_pin(0, test_cpu(0));
	for (unsigned i = 0; i < rounds; i++)
		aborted += is_aborted_by(fence);
	test_unpin(0);
	return aborted;
}

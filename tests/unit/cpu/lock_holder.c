/* SPDX-License-Identifier: MIT */
/* lock_holder.c - see lock_holder.h. */
#define _GNU_SOURCE
#include "lock_holder.h"

#include <string.h>
#include <sys/wait.h>

struct shared *shared;
const char *step;
void (*interfere)(void);

void test_step(const char *name)
{
	if (step != NULL && strcmp(name, step) == 0)
		interfere();
}

int setup(void **state)
{
	struct percpu_robust h;
	uint32_t word = 0;

	(void)state;
	shared = test_share(sizeof(*shared));
	/* If glibc has registered a head, it is used, not replaced. */
	return percpu_robust_lock(&h, &word, LONG_NS) == 0 ? (percpu_robust_unlock(&h), 0) : -1;
}

int reset(void **state)
{
	(void)state;
	shared->word = 0;
	shared->stage = 0;
	step = NULL;
	return 0;
}

bool recovers(void)
{
	if (!percpu_robust_supported())
		print_message("skipped: the kernel has no get_robust_list() for this program\n");
	return percpu_robust_supported();
}

void reach(uint32_t stage)
{
	__atomic_store_n(&shared->stage, stage, __ATOMIC_RELEASE);
}

void wait_for_stage(pid_t pid, uint32_t stage)
{
	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) < stage) {
		test_sleep_us(100);
		/* A child that has ended may have passed that stage. */
		if (test_has_ended(pid))
			assert_true(__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) >= stage);
	}
}

int lock_for(uint64_t ns)
{
	struct percpu_robust h;
	int e;

	memset(&h, 0x55, sizeof(h));
	e = percpu_robust_lock(&h, &shared->word, ns);

	if (e == 0)
		percpu_robust_unlock(&h);
	return e;
}

int hold(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	test_child_require(percpu_robust_lock(&h, &shared->word, LONG_NS) == 0, "lock");
	reach(1);
	while (__atomic_load_n(&shared->stage, __ATOMIC_ACQUIRE) < 2)
		test_sleep_us(100);
	percpu_robust_unlock(&h);
	reach(3);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/* owners.c - see owners.h. */
#define _GNU_SOURCE
#include "owners.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../steps.h"
#include "../support.h"

struct percpu_region *region, *outside;
struct percpu_owners *owners, *asker;
char owners_path[200];
const char *deadly, *awaited;
void (*meanwhile)(void);
uint32_t seen_there;

static uint32_t *reached; /* shared with children */

void test_step(const char *name)
{
	void (*fn)(void) = meanwhile;

	if (awaited != NULL && strcmp(name, awaited) == 0)
		__atomic_fetch_add(&seen_there, 1, __ATOMIC_RELEASE);
	if (deadly == NULL || strcmp(name, deadly) != 0)
		return;
	if (fn != NULL) {
		meanwhile = NULL;
		deadly = NULL;
		fn();
		return;
	}
	(void)stay();
}

int begin_owners_in(const struct percpu_region_options *o)
{
	static unsigned n;
	char name[16];

	reached = reached != NULL ? reached : test_share(sizeof(*reached));
	reach(0);
	snprintf(name, sizeof(name), "owners%u", n++);
	snprintf(owners_path, sizeof(owners_path), "%s", test_path(name));
	deadly = NULL;
	meanwhile = NULL;
	awaited = NULL;
	seen_there = 0;
	return percpu_region_open(owners_path, OWNERS_FLAGS, o, &region) ||
	       percpu_owners_open(region, 0, &owners) ||
	       percpu_region_open(owners_path, PERCPU_REGION_OWNERS, NULL, &outside) ||
	       percpu_owners_open(outside, 0, &asker);
}

int begin_owners(void **state)
{
	(void)state;
	return begin_owners_in(NULL);
}

int end_owners(void **state)
{
	(void)state;
	percpu_owners_detach(asker);
	percpu_region_close(outside);
	percpu_owners_destroy(owners);
	percpu_region_close(region);
	return 0;
}

void reach(uint32_t stage)
{
	__atomic_store_n(reached, stage, __ATOMIC_RELEASE);
}

void await(pid_t pid, uint32_t stage)
{
	while (__atomic_load_n(reached, __ATOMIC_ACQUIRE) < stage) {
		/* One that ends may have reached the stage in between. */
		if (pid != 0 && test_has_ended(pid))
			assert_true(__atomic_load_n(reached, __ATOMIC_ACQUIRE) >= stage);
		test_sleep_us(200);
	}
}

int stay(void)
{
	reach(1);
	for (;;)
		pause();
}

pid_t start(int (*fn)(void *), uintptr_t arg)
{
	pid_t pid;

	reach(0);
	pid = test_fork(fn, (void *)arg);
	await(pid, 1);
	return pid;
}

pid_t start_until(const char *step, int (*fn)(void *), uintptr_t arg)
{
	pid_t pid;

	deadly = step;
	pid = start(fn, arg);
	deadly = NULL;
	return pid;
}

void suspend(pid_t pid)
{
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
}

void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	test_wait(pid, 60);
}

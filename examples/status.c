/* SPDX-License-Identifier: MIT */
/*
 * status.c - how this process counts, and why, and what the kernel offers to it. "percpu doctor"
 * says what to change.
 *
 *	cc status.c $(pkg-config --cflags --libs percpu)
 */
#include <stdio.h>
#include <string.h>

#include <percpu/fence.h>
#include <percpu/percpu.h>

static const char *const registrars[] = {
	[PERCPU_REGISTRAR_NONE] = "nobody",
	[PERCPU_REGISTRAR_LIBC] = "libc",
	[PERCPU_REGISTRAR_LIBRARY] = "libpercpu",
};

static const char *const verdicts[] = {
	[PERCPU_SELFTEST_SKIPPED] = "skipped: there are no sequences to test",
	[PERCPU_SELFTEST_PASSED] = "passed: a preempted sequence is aborted",
	[PERCPU_SELFTEST_FAILED] = "FAILED: a preempted sequence goes on; do not use rseq here",
	[PERCPU_SELFTEST_INCONCLUSIVE] = "inconclusive: no preemption could be provoked",
	[PERCPU_SELFTEST_PENDING] = "pending",
};

static void print_size(const char *name, uint32_t bytes)
{
	if (bytes != 0)
		printf("%-18s%u bytes\n", name, bytes);
	else
		printf("%-18snot told (before Linux 6.3)\n", name);
}

static void print_fence(const struct percpu_status *st)
{
	struct percpu_fence_report report;
	int e = percpu_fence_all(1000000000, &report);

	printf("%-18s%s\n", "fence, own", st->fence ? "membarrier" : "by visiting each CPU");
	if (e == 0)
		printf("%-18sby visiting each CPU: %u of %u reached\n", "fence, all", report.fenced,
		       st->possible_cpus);
	else
		printf("%-18s%s\n", "fence, all", strerror(-e));
}

int main(void)
{
	enum percpu_selftest verdict = percpu_selftest(); /* a program need not wait for it */
	const struct percpu_status *st = percpu_status();

	printf("%-18s%s\n", "tier", percpu_tier_name(st->tier));
	printf("%-18s%s\n", "why", st->reason);
	printf("%-18s%s\n", "registered by", registrars[st->registrar]);
	print_size("rseq, kernel", st->feature_size);
	printf("%-18s%s\n", "mm_cid", st->has_mm_cid ? "yes" : "no");
	printf("%-18s%u\n", "possible CPUs", st->possible_cpus);
	print_fence(st);
	printf("%-18s%s\n", "kernel", st->kernel);
	printf("%-18s%s\n", "self-test", verdicts[verdict]);
	return verdict == PERCPU_SELFTEST_FAILED;
}

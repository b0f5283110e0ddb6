/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - say which tier counters run on here, and why.
 *
 * Exits with 0 on tier rseq, with 1 on a slower one, and with 2 if the kernel
 * lets a preempted sequence go on.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

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

static const char *const commands[] = {
	"global",
	"global-expedited",
	"register-global-expedited",
	"private-expedited",
	"register-private-expedited",
	"private-expedited-sync-core",
	"register-private-expedited-sync-core",
	"private-expedited-rseq",
	"register-private-expedited-rseq",
	"get-registrations",
};

__attribute__((format(printf, 2, 3))) static void line(const char *name, const char *format, ...)
{
	va_list ap;

	printf("%-18s", name);
	va_start(ap, format);
	vprintf(format, ap);
	va_end(ap);
	putchar('\n');
}

static void print_commands(uint32_t bits)
{
	printf("%-18s", "membarrier");
	if (bits == 0)
		printf("not available");
	for (unsigned i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (bits >> i & 1)
			printf("%s%s", bits & ((1U << i) - 1) ? ", " : "", commands[i]);
	putchar('\n');
}

static void print_fences(const struct percpu_status *st)
{
	struct percpu_fence_report report;
	int e = percpu_fence_all(1000000000, &report);

	line("fence, own", "%s", st->fence ? "membarrier" : "by visiting each CPU");
	if (e == 0)
		line("fence, all", "by visiting each CPU: %u of %u reached", report.fenced,
		     st->possible_cpus);
	else
		line("fence, all", "%u CPUs not reached (%s), the first is CPU %u", report.unfenced,
		     strerror(-e), report.first_unfenced);
}

static void print_size(const char *name, uint32_t bytes, const char *absent)
{
	if (bytes != 0)
		line(name, "%u bytes", bytes);
	else
		line(name, "%s", absent);
}

int main(void)
{
	enum percpu_selftest verdict = percpu_selftest(); /* first: the tier may rise by it */
	const struct percpu_status *st = percpu_status();

	line("tier", "%s", percpu_tier_name(st->tier));
	line("why", "%s", st->reason);
	line("this thread", "%s", percpu_tier_name(percpu_thread_tier()));
	line("registered by", "%s", registrars[st->registrar]);
	print_size("rseq, libc", st->rseq_size, "not registered by libc");
	print_size("rseq, kernel", st->feature_size, "not told (before Linux 6.3)");
	print_size("rseq, alignment", st->align, "not told (before Linux 6.3)");
	line("mm_cid", "%s", st->has_mm_cid ? "yes" : "no");
	line("possible CPUs", "%u", st->possible_cpus);
	line("lanes", "%u: a plain and an atomic one per CPU, and the bias%s", st->lanes,
	     st->cpu_without_lane ? "; a CPU has none" : "");
	print_commands(st->membarrier_cmds);
	print_fences(st);
	line("locks", "%s",
	     st->robust ? "taken over when their holder was killed" :
			  "not taken over: get_robust_list(2) is refused");
	line("kernel", "%s", st->kernel);
	line("self-test", "%s", verdicts[verdict]);

	if (verdict == PERCPU_SELFTEST_FAILED)
		return 2;
	return st->tier == PERCPU_TIER_RSEQ ? 0 : 1;
}

/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - say what this machine offers to counters, and what to change.
 *
 * Its exit status is one of enum status. The last line that it prints is the verdict.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <percpu/percpu.h>

/* The exit status. */
enum status {
	NOTHING_TO_DO = 0,
	TO_CHANGE =
		1, /* all works, but slower than it could, or not for segments of several processes */
	BROKEN = 2, /* the kernel lets a preempted sequence go on */
	USAGE = 3,
};

static const char usage[] =
	"usage: percpu-doctor [--help]\n\n"
	"Says what this machine offers to programs that count with libpercpu, and what to change.\n"
	"The exit status is 0 if there is nothing to do, 1 if there is something to change, 2 if\n"
	"the kernel breaks sequences, and 3 for wrong usage.\n";

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

/* How many things there are to change. */
static unsigned advised;

/* Print what to change, as a sentence. */
static void advise(const char *sentence)
{
	line("to do", "%s", sentence);
	advised++;
}

/* Segments are files there, unless they are named by a path. */
static void look_at_shm(void)
{
	static const char elsewhere[] =
		"make /dev/shm a tmpfs that this user may write to, or name "
		"segments by a path elsewhere";
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	struct statvfs room;

	if (fd < 0) {
		line("/dev/shm", "no file can be created: %s", strerror(errno));
		advise(elsewhere);
	} else if (fstatvfs(fd, &room) != 0 || room.f_bavail == 0) {
		line("/dev/shm", "full");
		advise("make room in /dev/shm, or give it a larger size= when it is mounted");
	} else {
		line("/dev/shm", "writable, %llu KiB free",
		     (unsigned long long)room.f_bavail * room.f_frsize / 1024);
	}
	if (fd >= 0)
		close(fd);
}

static void look_at_tier(const struct percpu_status *st, enum percpu_selftest verdict)
{
	if (st->tier == PERCPU_TIER_RSEQ)
		return;
	if (verdict == PERCPU_SELFTEST_FAILED)
		advise("update the kernel: it lets a preempted sequence go on");
	else if (getenv("PERCPU_TIER") != NULL)
		advise("unset PERCPU_TIER, which keeps this process on a lower tier");
	else if (st->registrar == PERCPU_REGISTRAR_NONE)
		advise("let rseq(2) through: by the seccomp filter, or a kernel from 4.18 on that has it");
	else
		advise("see \"why\" above, and docs/status.md, for what keeps tier rseq away");
}

static void print_status(const struct percpu_status *st, enum percpu_selftest verdict)
{
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
}

int main(int argc, char **argv)
{
	enum percpu_selftest verdict;
	const struct percpu_status *st;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(usage, stdout);
		return NOTHING_TO_DO;
	}
	if (argc > 1) {
		fprintf(stderr, "percpu-doctor: %s: it takes no argument but --help\n%s", argv[1],
			usage);
		return USAGE;
	}
	verdict = percpu_selftest(); /* first: the tier may rise by it */
	st = percpu_status();
	print_status(st, verdict);
	look_at_shm();
	look_at_tier(st, verdict);
	if (!st->robust)
		advise("let get_robust_list(2) through the seccomp filter, so that locks of the dead are taken over");
	if (advised == 0)
		line("verdict", "nothing to do");
	else
		line("verdict", "%u to change: see \"to do\"", advised);
	if (verdict == PERCPU_SELFTEST_FAILED)
		return BROKEN;
	return advised != 0 ? TO_CHANGE : NOTHING_TO_DO;
}

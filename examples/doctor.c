/* SPDX-License-Identifier: MIT */
/*
 * doctor.c - print what this machine offers to counters, and what to change.
 *
 * Its exit status is one of enum status. The last line that it prints is the verdict.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/percpu.h>

/* The exit status. */
enum status {
	NOTHING_TO_DO = 0,
	TO_CHANGE = 1, /* all works, but slower than possible, or not for shared segments */
	BROKEN = 2,    /* the kernel lets a preempted sequence go on */
	USAGE = 3,
	UNWRITTEN = 4, /* the output could not be written */
};

static const char usage[] =
	"usage: percpu-doctor [--help]\n\n"
	"Says what this machine offers to programs that count with libpercpu, and what to change.\n"
	"The exit status is 0 if there is nothing to do, 1 if there is something to change, 2 if\n"
	"the kernel breaks sequences, 3 for wrong usage, and 4 if its output cannot be written.\n";

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

/* How many changes were advised. */
static unsigned advised;

/* Print what to change, as a sentence. */
static void advise(const char *sentence)
{
	line("to do", "%s", sentence);
	advised++;
}

/* Print what the fences return. The report is set unless no thread could be started. Functions
 * that need no fence work without one: docs/cpu/fence.md. Returns 0 or -errno. */
static int print_fences(const struct percpu_status *st)
{
	struct percpu_fence_report report;
	int e = percpu_fence_all(1000000000, &report);

	line("fence, own", "%s", st->fence ? "membarrier" : "by visiting each CPU");
	if (e == 0)
		line("fence, all", "by visiting each CPU: %u of %u reached", report.fenced,
		     st->possible_cpus);
	else if (e == -EPERM || e == -ETIMEDOUT)
		line("fence, all", "%u CPU%s not reached (%s), the first is CPU %u",
		     report.unfenced, report.unfenced == 1 ? "" : "s", strerror(-e),
		     report.first_unfenced);
	else
		line("fence, all", "no CPU was visited: no thread could be started (%s)",
		     strerror(-e));
	return e;
}

/* Advise what is needed to fence all processes, and this one without visits. Without sequences
 * there is nothing to fence. */
static void look_at_fences(const struct percpu_status *st, int e)
{
	if (st->tier == PERCPU_TIER_RSEQ && !st->fence)
		advise("let membarrier(2) through the seccomp filter, or use a kernel from 5.10 on: "
		       "without it, fences, snapshots and resets visit each CPU");
	if (e == -EPERM)
		advise("let this process run on all CPUs (cpuset, filter of sched_setaffinity(2) or "
		       "gettid(2)), or take snapshots and resets of what processes share elsewhere: "
		       "here they are refused");
	else if (e == -ETIMEDOUT)
		advise("leave other threads some time of each CPU: while a real-time thread has one "
		       "for itself, snapshots and resets of what processes share time out");
	else if (e != 0)
		advise("let this process start threads (limits; none start after "
		       "unshare(CLONE_NEWPID)): snapshots and resets of what processes share need one");
}

static void print_size(const char *name, uint32_t bytes, const char *absent)
{
	if (bytes != 0)
		line(name, "%u bytes", bytes);
	else
		line(name, "%s", absent);
}

/* Make a segment with a counter in this unnamed file. Returns 0 or -errno. */
static int try_segment(int fd)
{
	static const struct percpu_metric metric = { .size = sizeof(metric),
						     .name = "doctor_total" };
	struct percpu_segment *s;
	struct percpu_counter *c;
	int e = percpu_segment_open_fd(fd, PERCPU_SEGMENT_CREATE, NULL, &s);

	if (e != 0)
		return e;
	e = percpu_segment_counter(s, &metric, &c);
	percpu_segment_close(s);
	return e;
}

static const char room[] = "make room in /dev/shm, or give it a larger size= or nr_inodes= when it "
			   "is mounted";
static const char filter[] =
	"let gettid(2) and the other calls of docs/cpu/process.md through the seccomp "
	"filter: segments need them";

/* What to change if a segment cannot be created, by error. */
static const struct {
	int error;
	const char *sentence;
} remedies[] = {
	{ ENOSPC, room },
	{ EDQUOT, room },
	{ EFBIG, "raise the limit of the size of files (ulimit -f, RLIMIT_FSIZE)" },
	{ EMFILE, "raise the limit of descriptors of a process (ulimit -n, RLIMIT_NOFILE)" },
	{ ENFILE, "raise the limit of open files of the machine (sysctl fs.file-max)" },
	{ ENOMEM, "give this process memory and address space (ulimit -v, limits of its cgroup)" },
	{ EPERM, filter }, /* not a permission: the file is this user's */
	{ ENOSYS, filter },
};

static void advise_for_segments(int error)
{
	for (size_t i = 0; i < sizeof(remedies) / sizeof(remedies[0]); i++)
		if (remedies[i].error == error) {
			advise(remedies[i].sentence);
			return;
		}
	advise("make /dev/shm a tmpfs that this user may write to, or name segments by a path "
	       "elsewhere");
}

/* Look at /dev/shm, where segments are unless their name is a path. */
static void look_at_shm(void)
{
	int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600), untold, e;
	struct statvfs space;

	if (fd < 0) {
		e = errno;
		line("/dev/shm", "no file can be created: %s", strerror(e));
		advise_for_segments(e);
		return;
	}
	untold = fstatvfs(fd, &space) == 0 ? 0 : errno; /* before the segment takes space */
	e = try_segment(fd);
	if (e == 0 && untold != 0)
		line("/dev/shm", "writable, how much is free is not told: %s", strerror(untold));
	else if (e == 0)
		line("/dev/shm", "writable, %llu KiB free",
		     (unsigned long long)space.f_bavail * space.f_frsize / 1024);
	else
		line("/dev/shm", "%sno segment with a counter can be created: %s",
		     e == -ENOSPC ? "full: " : "",
		     e == -EPERM ? strerror(EPERM) : percpu_strerror(e));
	if (e != 0)
		advise_for_segments(-e);
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
		advise("see \"why\" above, and docs/cpu/status.md, for what keeps tier rseq away");
}

/* Print the status. Returns the result of a fence of all processes. */
static int print_status(const struct percpu_status *st, enum percpu_selftest verdict)
{
	int e;

	line("tier", "%s", percpu_tier_name(st->tier));
	line("why", "%s", st->reason);
	line("this thread", "%s", percpu_tier_name(percpu_thread_tier()));
	line("registered by", "%s", registrars[st->registrar]);
	print_size("rseq, libc", st->rseq_size, "not registered by libc");
	print_size("rseq, kernel", st->feature_size, "not told (before Linux 6.3)");
	print_size("rseq, alignment", st->align, "not told (before Linux 6.3)");
	line("mm_cid", "%s", st->has_mm_cid ? "yes" : "no");
	line("commit", "of up to %u counters", st->commit_words);
	line("possible CPUs", "%u", st->possible_cpus);
	line("lanes", "%u: a plain and an atomic one per CPU, and the bias%s", st->lanes,
	     st->cpu_without_lane ? "; a CPU has none" : "");
	print_commands(st->membarrier_cmds);
	e = print_fences(st);
	line("locks", "%s",
	     st->robust ? "taken over when their holder was killed" :
			  "not taken over: get_robust_list(2) is refused");
	line("kernel", "%s", st->kernel);
	line("self-test", "%s", verdicts[verdict]);
	return e;
}

static enum status unwritten(int error)
{
	fprintf(stderr, "percpu-doctor: cannot write to standard output: %s\n", strerror(error));
	return UNWRITTEN;
}

/* Return the exit status, or UNWRITTEN if the output was lost. */
static enum status finish(enum status status)
{
	const bool lost = ferror(stdout) != 0; /* its error is not known any more */

	if (fclose(stdout) != 0)
		return unwritten(errno);
	return lost ? unwritten(EIO) : status;
}

int main(int argc, char **argv)
{
	enum percpu_selftest verdict;
	const struct percpu_status *st;
	const bool help = argc == 2 && strcmp(argv[1], "--help") == 0;
	int fenced;

	if (argc > 1 && !help) {
		fprintf(stderr, "percpu-doctor: %s: it takes no argument but --help\n%s", argv[1],
			usage);
		return USAGE;
	}
	if (fcntl(STDOUT_FILENO, F_GETFD) < 0 && errno == EBADF)
		return unwritten(errno); /* the number would be that of another file soon */
	if (help) {
		fputs(usage, stdout);
		return finish(NOTHING_TO_DO);
	}
	verdict = percpu_selftest(); /* first: the verdict may raise the tier */
	st = percpu_status();
	fenced = print_status(st, verdict);
	look_at_fences(st, fenced);
	look_at_shm();
	look_at_tier(st, verdict);
	if (!st->robust)
		advise("let get_robust_list(2) through the seccomp filter, so that locks of the dead are taken over");
	if (advised == 0)
		line("verdict", "nothing to do");
	else
		line("verdict", "%u to change: see \"to do\"", advised);
	if (verdict == PERCPU_SELFTEST_FAILED)
		return finish(BROKEN);
	return finish(advised != 0 ? TO_CHANGE : NOTHING_TO_DO);
}

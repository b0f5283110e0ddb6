/* SPDX-License-Identifier: MIT */
/*
 * test_segment_check.c - PERCPU_SEGMENT_DEBUG: what it prints before it aborts, what it passes on, and
 * what a segment that is closed so still holds.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "../segments.h"

#include "cpu/debug.h"
#include "segment/segment.h"

#define DEBUG PERCPU_SEGMENT_DEBUG

static const char *path;

static struct percpu_segment *must_open(unsigned flags)
{
	struct percpu_segment *s = NULL;

	test_child_require(percpu_segment_open(path, flags, NULL, &s) == 0, "open");
	return s;
}

static struct percpu_counter *must_count(struct percpu_segment *s, const char *name)
{
	struct percpu_counter *c = NULL;

	test_child_require(percpu_segment_counter(s, METRIC(name), &c) == 0, "declare");
	return c;
}

static struct percpu_histogram *must_record(struct percpu_segment *s, const char *name)
{
	struct percpu_histogram_options o = { .size = sizeof(o), .buckets_per_octave = 32 };
	struct percpu_histogram *h = NULL;

	test_child_require(percpu_segment_histogram(s, METRIC(name), &o, &h) == 0, "declare");
	return h;
}

static void close_twice(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);

	percpu_segment_close(s);
	percpu_segment_close(s);
}

static void close_descriptor_twice(void)
{
	struct percpu_segment *s;
	int fd = memfd_create("check", MFD_CLOEXEC);

	test_child_require(dup2(fd, 123) == 123, "dup2");
	test_child_require(percpu_segment_open_fd(123, ALL | DEBUG, NULL, &s) == 0, "open");
	percpu_segment_close(s);
	percpu_segment_close(s);
}

static void count_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_counter *c = must_count(s, "events_total");

	percpu_counter_add(c, 1);
	percpu_segment_close(s);
	percpu_counter_add(c, 1);
}

static void fetch_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_counter *c = must_count(s, "events_total");

	percpu_segment_close(s);
	(void)percpu_counter_fetch(c);
}

static void ask_for_fallback_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);

	test_child_require(percpu_segment_fallback(s) == NULL, "it is in its file");
	percpu_segment_close(s);
	(void)percpu_segment_fallback(s);
}

static void count_slowly_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_counter *c = must_count(s, "events_total");

	percpu_segment_close(s);
	(void)test_unregister(percpu_seq_attach());
	percpu_counter_add(c, 1);
}

/* The first chunk is full by then. */
static void record_in_a_further_chunk_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_histogram *h = NULL;
	char name[16];

	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		h = must_record(s, name);
	}
	percpu_segment_close(s);
	percpu_histogram_record(h, 0.5);
}

static void add_statistics_after_close(void)
{
	const char *names[] = { "a", "b" };
	struct percpu_metric_fields f = { sizeof(f), "field", names, 2 };
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_stats *stats;

	test_child_require(percpu_segment_stats(s, METRIC("s_total"), &f, 0, &stats) == 0, "stats");
	percpu_segment_close(s);
	percpu_stats_add(stats, 0, 1, 1);
}

static void record_extrema_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_extrema *x;

	test_child_require(percpu_segment_extrema(s, METRIC("x"), 0, &x) == 0, "extrema");
	percpu_segment_close(s);
	(void)!percpu_extrema_observe(x, 5);
}

static void set_owned_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_owned_gauge *g;

	test_child_require(percpu_segment_owned_gauge(s, METRIC("g"), PERCPU_OWNED_SUM, &g) == 0,
			   "owned gauge");
	test_child_require(percpu_owned_gauge_set(g, 5) == 0, "set");
	percpu_segment_close(s);
	(void)!percpu_owned_gauge_set(g, 6);
}

static void set_owned_first_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_owned_fgauge *g;

	test_child_require(percpu_segment_owned_fgauge(s, METRIC("g"), PERCPU_OWNED_MAX, &g) == 0,
			   "owned gauge");
	percpu_segment_close(s);
	(void)!percpu_owned_fgauge_set(g, 6);
}

static void declare_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);

	percpu_segment_close(s);
	(void)must_count(s, "events_total");
}

static void declare_again_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);

	(void)must_count(s, "events_total");
	percpu_segment_close(s);
	(void)must_count(s, "events_total");
}

static void use_in_a_child_after_close(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_counter *c = must_count(s, "events_total");
	pid_t pid;
	int status;

	percpu_segment_close(s);
	pid = fork();
	if (pid == 0)
		percpu_counter_add(c, 1);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
}

/* One that is closed, and one that is not. */
static void count_in_the_closed_one(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG), *other;
	struct percpu_counter *c = must_count(s, "events_total"), *d;

	other = must_open(ALL | DEBUG);
	percpu_segment_close(s);
	d = must_count(other, "events_total");
	percpu_counter_add(d, 1);
	percpu_segment_close(must_open(ALL | DEBUG));
	percpu_counter_add(d, 1);
	percpu_counter_add(c, 1);
}

/* Close with a counter below 0, and others that are not. */
static void close_with_negative_counter(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);

	percpu_counter_add(must_count(s, "a_total"), 3);
	(void)must_count(s, "b_total");
	percpu_counter_add(must_count(s, "events_total"), -1);
	percpu_segment_close(s);
}

static void close_with_negative_fcounter(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_fcounter *f;

	test_child_require(percpu_segment_fcounter(s, METRIC("events_total"), &f) == 0, "declare");
	percpu_fcounter_add(f, -0.5);
	percpu_segment_close(s);
}

static void *close_in_thread(void *s)
{
	percpu_segment_close(s);
	return NULL;
}

/* All threads but one close it a second time. */
static void close_at_once(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	pthread_t thread[8];

	for (int i = 0; i < 8; i++)
		test_child_require(pthread_create(&thread[i], NULL, close_in_thread, s) == 0,
				   "thread");
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
}

/* Nothing reads standard error. */
static void close_twice_unheard(void)
{
	int ends[2];
	struct percpu_segment *s = must_open(ALL | DEBUG);

	test_child_require(pipe(ends) == 0 && dup2(ends[1], STDERR_FILENO) >= 0, "pipe");
	close(ends[0]);
	close(ends[1]);
	percpu_segment_close(s);
	percpu_segment_close(s);
}

/* Nothing reads standard error, and it is full: one of two threads waits for room. */
static void close_twice_unread(void)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	static const char much[4096];
	pthread_t thread;
	int ends[2];

	test_child_require(pipe2(ends, O_NONBLOCK) == 0, "pipe");
	while (write(ends[1], much, sizeof(much)) > 0)
		;
	test_child_require(fcntl(ends[1], F_SETFL, 0) == 0, "blocking");
	test_child_require(dup2(ends[1], STDERR_FILENO) >= 0, "dup2");
	percpu_segment_close(s);
	test_child_require(pthread_create(&thread, NULL, close_in_thread, s) == 0, "thread");
	percpu_segment_close(s);
}

static void close_twice_by_the_environment(void)
{
	struct percpu_segment *s;

	setenv("PERCPU_DEBUG", "1", 1);
	s = must_open(ALL);
	percpu_segment_close(s);
	percpu_segment_close(s);
}

struct misuse {
	void (*fn)(void);
	const char *sentence;
};

static int misuse(void *arg)
{
	const struct misuse *m = arg;

	signal(SIGABRT, SIG_DFL);
	m->fn();
	return 0;
}

#define CLOSED " is used after it was closed"
#define TWICE " is closed twice"
#define NEGATIVE ": counter events_total is below 0: it got negative amounts"

static void misuses_are_told(void **state)
{
	struct misuse misuses[] = {
		{ close_twice, TWICE },
		{ close_descriptor_twice, TWICE },
		{ close_twice_by_the_environment, TWICE },
		{ close_at_once, TWICE },
		{ close_with_negative_counter, NEGATIVE },
		{ close_with_negative_fcounter, NEGATIVE },
		{ close_twice_unheard, NULL },
		{ close_twice_unread, NULL },
		{ count_after_close, CLOSED },
		{ fetch_after_close, CLOSED },
		{ count_slowly_after_close, CLOSED },
		{ record_in_a_further_chunk_after_close, CLOSED },
		{ add_statistics_after_close, CLOSED },
		{ record_extrema_after_close, CLOSED },
		{ set_owned_after_close, CLOSED },
		{ set_owned_first_after_close, CLOSED },
		{ declare_after_close, CLOSED },
		{ declare_again_after_close, CLOSED },
		{ use_in_a_child_after_close, CLOSED },
		{ count_in_the_closed_one, CLOSED },
		{ ask_for_fallback_after_close, CLOSED },
	};
	char said[1024], expected[256];

	(void)state;
	for (size_t i = 0; i < sizeof(misuses) / sizeof(misuses[0]); i++) {
		int status;

		/* An emulator, which meson names, prints where the program does, and waits for room. */
		if (misuses[i].fn == close_twice_unread && getenv("MESON_EXE_WRAPPER") != NULL)
			continue;
		status = test_listen(misuse, &misuses[i], said, sizeof(said));
		unlink(path);
		snprintf(expected, sizeof(expected), "libpercpu: segment \"%.99s\"%s\n",
			 misuses[i].fn == close_descriptor_twice ? "of descriptor 123" : path,
			 misuses[i].sentence != NULL ? misuses[i].sentence : "");
		if (misuses[i].sentence == NULL)
			expected[0] = '\0';
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
		    strcmp(said, expected) != 0)
			fail_msg("misuse %zu ended with %#x, and said: %s", i, status, said);
	}
}

/* What is no concern of a segment */

static void *page_of(const void *p)
{
	return (char *)(uintptr_t)p - (uintptr_t)p % (size_t)sysconf(_SC_PAGESIZE);
}

static char *elsewhere; /* nothing can be read there */

static void handle(int number)
{
	(void)number;
	_exit(3);
}

static void handle_with_address(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	_exit(info->si_addr == elsewhere ? 4 : 5);
}

/* An earlier handler with SA_RESETHAND: it is called once, with the signals of its mask blocked. */
static void handle_once(int number)
{
	static int calls;
	sigset_t blocked;

	(void)number;
	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	if (++calls > 1 || !sigismember(&blocked, SIGUSR1))
		_exit(9);
}

/* An earlier handler with SA_NODEFER: a fault amid the call is handled, too. */
static void handle_again(int number)
{
	static int calls;

	(void)number;
	if (++calls == 2)
		_exit(7);
	(void)*(const volatile char *)elsewhere;
}

static char alternate[1 << 16]; /* a stack */

/* An earlier handler with SA_ONSTACK. */
static void handle_on_stack(int number)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	(void)number;
	_exit(here - (uintptr_t)alternate < sizeof(alternate) ? 8 : 9);
}

/* An earlier handler without it, where there is such a stack. */
static void handle_beside_stack(int number)
{
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	(void)number;
	_exit(here - (uintptr_t)alternate < sizeof(alternate) ? 9 : 8);
}

static void handle_before(int flags, void (*handler)(int))
{
	const stack_t stack = { .ss_sp = alternate, .ss_size = sizeof(alternate) };
	struct sigaction a = { .sa_handler = handler, .sa_flags = flags };

	sigaltstack(&stack, NULL);
	sigaddset(&a.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &a, NULL);
}

enum fault {
	FAULT_BY_DEFAULT,
	FAULT_HANDLED,
	FAULT_HANDLED_WITH_ADDRESS,
	FAULT_HANDLED_ONCE,
	FAULT_HANDLED_AGAIN,
	FAULT_HANDLED_ON_STACK,
	FAULT_HANDLED_BESIDE_STACK,
	FAULT_IGNORED,
	FAULT_WHERE_IT_WRITES,
	SENT_HANDLED,
	SENT_BY_DEFAULT,
	SENT_IGNORED,
	SENT_BY_KILL,
	FAULTS,
};

/* The program has made a page of a segment that is open to write unreadable. */
static void fault_where_it_writes(struct percpu_segment *s)
{
	struct percpu_counter *c = must_count(s, "events_total");

	test_child_require(mprotect(page_of(c), 1, PROT_NONE) == 0, "mprotect");
	(void)percpu_counter_fetch(c);
}

static int fault_elsewhere(void *arg)
{
	static const struct sigaction with_address = { .sa_sigaction = handle_with_address,
						       .sa_flags = SA_SIGINFO };
	const enum fault how = *(enum fault *)arg;
	struct percpu_segment *s;

	signal(SIGSEGV, SIG_DFL);
	if (how == FAULT_HANDLED || how == SENT_HANDLED)
		signal(SIGSEGV, handle);
	if (how == FAULT_HANDLED_WITH_ADDRESS)
		sigaction(SIGSEGV, &with_address, NULL);
	if (how == FAULT_HANDLED_ONCE)
		handle_before((int)SA_RESETHAND, handle_once);
	if (how == FAULT_HANDLED_AGAIN)
		handle_before(SA_NODEFER, handle_again);
	if (how == FAULT_HANDLED_ON_STACK)
		handle_before(SA_ONSTACK, handle_on_stack);
	if (how == FAULT_HANDLED_BESIDE_STACK)
		handle_before(0, handle_beside_stack);
	if (how == FAULT_IGNORED || how == SENT_IGNORED)
		signal(SIGSEGV, SIG_IGN);
	percpu_segment_close(must_open(ALL | DEBUG));
	s = must_open(ALL | DEBUG);
	if (how == FAULT_WHERE_IT_WRITES)
		fault_where_it_writes(s);
	else if (how < SENT_HANDLED)
		(void)*(const volatile char *)elsewhere;
	else if (how == SENT_BY_KILL)
		kill(getpid(), SIGSEGV);
	else
		raise(SIGSEGV);
	return 6;
}

static void other_faults_are_passed_on(void **state)
{
	static const int status[FAULTS] = {
		[FAULT_BY_DEFAULT] = SIGSEGV,
		[FAULT_HANDLED] = 3 << 8,
		[FAULT_HANDLED_WITH_ADDRESS] = 4 << 8,
		[FAULT_HANDLED_ONCE] = SIGSEGV,
		[FAULT_HANDLED_AGAIN] = 7 << 8,
		[FAULT_HANDLED_ON_STACK] = 8 << 8,
		[FAULT_HANDLED_BESIDE_STACK] = 8 << 8,
		[FAULT_IGNORED] = SIGSEGV,
		[FAULT_WHERE_IT_WRITES] = SIGSEGV,
		[SENT_HANDLED] = 3 << 8,
		[SENT_BY_DEFAULT] = SIGSEGV,
		[SENT_IGNORED] = 6 << 8,
		[SENT_BY_KILL] = SIGSEGV,
	};
	char said[1024];

	(void)state;
	elsewhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(elsewhere != MAP_FAILED);
	for (enum fault i = 0; i < FAULTS; i++) {
		int got;

		/* ThreadSanitizer handles no signal amid another; sanitizers have stacks of their own. */
		if ((i == FAULT_HANDLED_AGAIN && test_thread_sanitizer()) ||
		    ((i == FAULT_HANDLED_ON_STACK || i == FAULT_HANDLED_BESIDE_STACK) &&
		     (test_thread_sanitizer() || test_address_sanitizer())))
			continue;
		got = test_listen(fault_elsewhere, &i, said, sizeof(said));
		if (got != status[i] || said[0] != '\0')
			fail_msg("fault %d ended with %#x, and said: %s", (int)i, (unsigned)got,
				 said);
		unlink(path);
	}
}

/* Handles that are NULL */

static void count_by_null(void)
{
	struct percpu_counter *c = NULL;

	__asm__("" : "+r"(c)); /* compilers know nothing of the value */
	percpu_counter_add(c, 1);
}

static void record_by_null(void)
{
	struct percpu_histogram *h = NULL;

	__asm__("" : "+r"(h));
	percpu_histogram_record(h, 1.0);
}

static void add_double_by_null(void)
{
	struct percpu_fcounter *f = NULL;

	__asm__("" : "+r"(f));
	(void)percpu_fcounter_add(f, 1.0);
}

/* As a thread that cannot run the sequence: it looks for the chunk in front of the counter. */
static void add_double_slowly_by_null(void)
{
	(void)percpu_fcounter_add_slow(NULL, 1.0);
}

/* The handler goes on, as those of virtual machines do. */
static sigjmp_buf after_fault;

static void handle_by_jump(int number)
{
	(void)number;
	siglongjmp(after_fault, 1);
}

static int count_twice_by_null(void *fn)
{
	struct sigaction a = { .sa_handler = handle_by_jump, .sa_flags = SA_NODEFER };
	volatile int faults = 0;

	sigaction(SIGSEGV, &a, NULL);
	(void)must_open(ALL | DEBUG);
	if (sigsetjmp(after_fault, 1) != 0)
		faults++;
	if (faults < 2)
		(*(void (**)(void))fn)();
	return faults == 2 ? 3 : 1;
}

static void null_handles_are_told_once(void **state)
{
	void (*const uses[])(void) = { count_by_null, record_by_null, add_double_by_null,
				       add_double_slowly_by_null };
	char said[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(uses) / sizeof(uses[0]); i++) {
		void (*use)(void) = uses[i];
		int status;
		char *tail;

		if (use != count_by_null && test_address_sanitizer()) /* it sees that first */
			continue;
		status = test_listen(count_twice_by_null, &use, said, sizeof(said));
		tail = strstr(said, ": if a handle is NULL");

		unlink(path);
		if (status != 3 << 8 || strncmp(said, "libpercpu: SIGSEGV at address ", 30) != 0 ||
		    tail == NULL ||
		    strcmp(tail, ": if a handle is NULL, its declaration has failed, and "
				 "percpu_error() has said why\n") != 0)
			fail_msg("use %zu ended with %#x, and said: %s", i, (unsigned)status, said);
	}
}

/* What is left of a closed segment */

static bool maps_file(const struct stat *st)
{
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned long inode = 0;
	char line[512];
	bool found = false;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		found |= sscanf(line, "%*s %*s %*s %*s %lu", &inode) == 1 && inode == st->st_ino;
	fclose(f);
	return found;
}

/* Find a series of a family, for which the process is present. */
static void resolve(struct percpu_segment *s)
{
	const char *const names[] = { "k" }, *const values[] = { "v" };
	const struct percpu_declaration d = { .size = sizeof(d),
					      .name = "f_total",
					      .label_names = names,
					      .labels = 1,
					      .kind = PERCPU_METRIC_COUNTER };
	struct percpu_family *f;
	struct percpu_counter *c;

	assert_int_equal(family_with_cap(s, &d, 10, &f), 0);
	assert_int_equal(percpu_family_counter(f, values, &c), 0);
}

/* A program that tries which addresses there are. */

static sigjmp_buf next;
static bool is_masked;

static void try_next(int number)
{
	sigset_t blocked;

	(void)number;
	sigprocmask(SIG_BLOCK, NULL, &blocked);
	is_masked = sigismember(&blocked, SIGUSR1) == 1;
	siglongjmp(next, 1);
}

static int fault_twice(void *arg)
{
	struct sigaction a = { .sa_handler = try_next, .sa_flags = SA_NODEFER };

	(void)arg;
	sigaddset(&a.sa_mask, SIGUSR1);
	sigaction(SIGSEGV, &a, NULL);
	percpu_segment_close(must_open(ALL | DEBUG));
	for (volatile int i = 0; i < 2; i++) {
		is_masked = false;
		if (sigsetjmp(next, 0) == 0)
			(void)*(const volatile char *)elsewhere;
		test_child_require(is_masked, "SIGUSR1 is blocked in the handler");
	}
	return 0;
}

static void handlers_keep_their_flags_and_mask(void **state)
{
	(void)state;
	if (test_thread_sanitizer())
		test_skip("the sanitizer handles no signal amid another");
	test_in_child(fault_twice, NULL);
	unlink(path);
}

static int open_without_the_mode(void *arg)
{
	struct sigaction now;

	(void)arg;
	signal(SIGSEGV, handle);
	percpu_segment_close(must_open(ALL));
	percpu_segment_close(must_open(0));
	test_child_require(sigaction(SIGSEGV, NULL, &now) == 0, "sigaction");
	return now.sa_handler == handle ? 0 : 1;
}

static void signals_are_handled_in_the_mode_alone(void **state)
{
	(void)state;
	test_in_child(open_without_the_mode, NULL);
	unlink(path);
}

/* Where the program handles no SIGSEGV, a thread that has an alternate stack handles it there. */
static int open_without_a_handler(void *arg)
{
	struct sigaction now;

	(void)arg;
	signal(SIGSEGV, SIG_DFL);
	percpu_segment_close(must_open(ALL | DEBUG));
	test_child_require(sigaction(SIGSEGV, NULL, &now) == 0, "sigaction");
	return now.sa_handler != SIG_DFL && (now.sa_flags & SA_ONSTACK) ? 0 : 1;
}

static void the_handler_runs_on_the_alternate_stack(void **state)
{
	(void)state;
	test_in_child(open_without_a_handler, NULL);
	unlink(path);
}

/* A text that is longer than the buffer ends with a line feed, and nothing is behind it. */

static int say_much(void *arg)
{
	percpu_debug_say("%s", (const char *)arg);
	return 0;
}

static void long_sentences_are_cut(void **state)
{
	static const char prefix[] = "libpercpu: ";
	char much[1024], said[2048];

	(void)state;
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	assert_int_equal(test_listen(say_much, much, said, sizeof(said)), 0);
	assert_int_equal(strlen(said), 511); /* with its NUL, the length of the buffer */
	assert_int_equal(strspn(said + sizeof(prefix) - 1, "x"), 511 - sizeof(prefix));
	assert_int_equal(said[510], '\n');
}

/* The program faults after a segment could not be opened. */
static int fault_after_failure(void *arg)
{
	/* The bytes of all locks but those that tell which processes are there. */
	struct flock l = { .l_type = F_WRLCK, .l_start = (off_t)1 << 62, .l_len = (off_t)1 << 61 };
	struct percpu_segment *s = NULL;
	int fd;

	(void)arg;
	signal(SIGSEGV, handle);
	percpu_segment_close(must_open(ALL | DEBUG));
	fd = open(path, O_RDWR | O_CLOEXEC);
	test_child_require(fd >= 0 && fcntl(fd, F_OFD_SETLK, &l) == 0, "lock");
	test_child_require(percpu_segment_open(path, ALL | DEBUG | PERCPU_SEGMENT_ANEW, NULL, &s) ==
				   -ETIMEDOUT,
			   "open");
	(void)*(const volatile char *)elsewhere;
	return 6;
}

static void segments_that_were_not_opened_are_not_watched(void **state)
{
	(void)state;
	assert_int_equal(test_wait(test_fork(fault_after_failure, NULL), 60), 3 << 8);
	unlink(path);
}

/* A chunk has become the first one's neighbour, and the page between them is free. */
static int map_behind_the_first_chunk(void *arg)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct percpu_segment *s = must_open(ALL | DEBUG);
	const struct percpu_chunk *first = s->region->first;
	char name[16], *behind = (char *)first + first->map_size, *map;

	(void)arg;
	for (int i = 0; i < 6; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		(void)must_record(s, name);
	}
	test_child_require(s->region->n > 1, "chunks");
	map = mmap(behind, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	test_child_require(map == behind, "the page behind is free");
	*map = 7;
	percpu_segment_close(s);
	return *map == 7 ? 0 : 1;
}

static void closing_leaves_what_is_behind(void **state)
{
	(void)state;
	test_in_child(map_behind_the_first_chunk, NULL);
	unlink(path);
}

static void closed_segments_let_go_of_their_file(void **state)
{
	struct percpu_segment *s, *r;
	struct percpu_owned_gauge *g;
	struct percpu_counter *c;
	struct stat st;
	int64_t level = -1;
	int fd, after;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &r), 0);
	assert_int_equal(percpu_segment_owned_gauge(r, METRIC("g"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(maps_file(&st));
	percpu_segment_close(r);

	fd = dup(STDERR_FILENO);
	close(fd);
	assert_int_equal(percpu_segment_open(path, ALL | DEBUG, NULL, &s), 0);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("g"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_gauge_set(g, 5), 0);
	assert_int_equal(percpu_segment_counter(s, METRIC("events_total"), &c), 0);
	percpu_counter_add(c, 7);
	resolve(s);
	assert_true(maps_file(&st));
	assert_ptr_equal(percpu_region_find(c), s->region);
	percpu_segment_close(s);
	assert_false(maps_file(&st));
	assert_null(percpu_region_find(c));
	assert_int_equal(msync(page_of(c), 1, MS_ASYNC), 0); /* nothing else can be mapped there */
	after = dup(STDERR_FILENO);
	close(after);
	assert_int_equal(after, fd);

	assert_int_equal(percpu_segment_open(path, DEBUG, NULL, &s), 0);
	assert_int_equal(percpu_segment_counter(s, METRIC("events_total"), &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 7);
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("g"), PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &level), 0);
	assert_int_equal(level, 0); /* the process owns nothing since it closed the segment */
	percpu_segment_close(s);
	unlink(path);
}

/* The file has been cut behind its first chunk. So the second chunk is mapped and gets no header,
 * and stays the region's spare chunk. */
static struct percpu_segment *open_with_a_spare_chunk(unsigned flags)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .buckets_per_octave = 32 };
	struct percpu_segment *s = NULL;
	struct percpu_histogram *h;
	char name[16];
	int e = 0;

	assert_int_equal(percpu_segment_open(path, ALL | flags, NULL, &s), 0);
	assert_int_equal(s->region->n, 1);
	assert_int_equal(
		truncate(path, (off_t)percpu_chunk_size(percpu_stride(s->region->lane_size),
							s->region->cpus)),
		0);
	for (int i = 0; i < 6 && e == 0; i++) {
		snprintf(name, sizeof(name), "h%d", i);
		e = percpu_segment_histogram(s, METRIC(name), &o, &h);
	}
	assert_int_equal(e, -ENOSPC);
	assert_non_null(s->region->spare);
	return s;
}

static void spare_chunks_are_unmapped(void **state)
{
	static const unsigned flags[] = { 0, DEBUG };
	struct percpu_segment *s;
	struct stat st;

	(void)state;
	for (int i = 0; i < 2; i++) {
		s = open_with_a_spare_chunk(flags[i]);
		assert_int_equal(stat(path, &st), 0);
		assert_true(maps_file(&st));
		percpu_segment_close(s);
		assert_false(maps_file(&st));
		unlink(path);
	}
}

/* Of the addresses beside a chunk, none is the region's. */
static void regions_map_their_chunks_alone(void **state)
{
	struct percpu_segment *s = NULL;
	const struct percpu_region *r;
	const char *chunk;

	(void)state;
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	r = s->region;
	assert_int_equal(r->n, 1);
	chunk = (const char *)r->first;
	assert_false(percpu_region_maps(r, chunk - 1));
	assert_false(percpu_region_maps(r, chunk + PERCPU_HEAD - 1));
	assert_true(percpu_region_maps(r, chunk + PERCPU_HEAD));
	assert_true(percpu_region_maps(r, chunk + r->first->map_size - 1));
	assert_false(percpu_region_maps(r, chunk + r->first->map_size));
	percpu_segment_close(s);
	unlink(path);
}

static int fork_after_close(void *arg)
{
	struct percpu_segment *s = must_open(ALL | DEBUG);
	struct percpu_owned_gauge *g;
	int status;
	pid_t pid;

	(void)arg;
	test_child_require(percpu_segment_owned_gauge(s, METRIC("g"), PERCPU_OWNED_SUM, &g) == 0,
			   "owned gauge");
	test_child_require(percpu_owned_gauge_set(g, 5) == 0, "set");
	percpu_segment_close(s);
	pid = fork();
	if (pid == 0) {
		s = must_open(ALL | DEBUG);
		percpu_counter_add(must_count(s, "events_total"), 1);
		percpu_segment_close(s);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	return status;
}

static void children_go_on(void **state)
{
	(void)state;
	test_in_child(fork_after_close, NULL);
	unlink(path);
}

static int open_without_debug(void *arg)
{
	struct sigaction a;

	(void)arg;
	unsetenv("PERCPU_DEBUG");
	signal(SIGSEGV, handle);
	percpu_segment_close(must_open(ALL));
	sigaction(SIGSEGV, NULL, &a);
	return a.sa_handler == handle ? 0 : 1;
}

static int close_odd_name_twice(void *arg)
{
	struct percpu_segment *s;
	char odd[256];

	(void)arg;
	signal(SIGABRT, SIG_DFL);
	snprintf(odd, sizeof(odd), "%s\nb\x7f\xc3\xbc", path);
	test_child_require(percpu_segment_open(odd, ALL | DEBUG, NULL, &s) == 0, "open");
	unlink(odd);
	percpu_segment_close(s);
	percpu_segment_close(s);
	return 0;
}

static void names_stay_in_one_line(void **state)
{
	char said[1024], expected[256];

	(void)state;
	assert_int_equal(test_listen(close_odd_name_twice, NULL, said, sizeof(said)), SIGABRT);
	snprintf(expected, sizeof(expected),
		 "libpercpu: segment \"%s?b?\xc3\xbc\" is closed twice\n", path);
	assert_string_equal(said, expected);
}

/* This test is the first, because the process installs the handler once. */
static void others_are_not_watched(void **state)
{
	(void)state;
	test_in_child(open_without_debug, NULL);
	unlink(path);
}

static void debug_creates_no_file(void **state)
{
	struct percpu_segment *s = NULL;

	(void)state;
	assert_int_equal(percpu_segment_open(path, DEBUG, NULL, &s), -ENOENT);
	assert_null(s);
}

static int name_path(void **state)
{
	(void)state;
	path = test_path("check");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(others_are_not_watched),
		cmocka_unit_test(misuses_are_told),
		cmocka_unit_test(names_stay_in_one_line),
		cmocka_unit_test(other_faults_are_passed_on),
		cmocka_unit_test(null_handles_are_told_once),
		cmocka_unit_test(handlers_keep_their_flags_and_mask),
		cmocka_unit_test(signals_are_handled_in_the_mode_alone),
		cmocka_unit_test(the_handler_runs_on_the_alternate_stack),
		cmocka_unit_test(long_sentences_are_cut),
		cmocka_unit_test(segments_that_were_not_opened_are_not_watched),
		cmocka_unit_test(closing_leaves_what_is_behind),
		cmocka_unit_test(closed_segments_let_go_of_their_file),
		cmocka_unit_test(spare_chunks_are_unmapped),
		cmocka_unit_test(regions_map_their_chunks_alone),
		cmocka_unit_test(children_go_on),
		cmocka_unit_test(debug_creates_no_file),
	};

	return cmocka_run_group_tests(tests, name_path, test_remove_paths);
}

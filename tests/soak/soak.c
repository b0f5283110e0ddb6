/* SPDX-License-Identifier: MIT */
/*
 * soak.c - runs a random mix of all operations for a given time, and compares the results with a
 * model. See soak.h for the parts.
 *
 * A round is a new region file and some workers that count in it. A worker is forked, or is a new
 * program on another tier. Some workers are killed and replaced. In the end all stop, and each
 * total must be what they say they have done. The seed repeats the decisions, not the time at which
 * the kernel lets them happen.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/status.h>

#include "../support.h"
#include "soak.h"

#define WORKERS 6 /* the most at a time */
#define SECOND UINT64_C(1000000000)

/* How a worker process is started. */
static const struct {
	const char *name;
	const char *variable;
	const char *value;
} starts[] = {
	{ "fork", NULL, NULL },
	{ "fork", NULL, NULL },
	{ "tier cpu", "PERCPU_TIER", "cpu" },
	{ "tier shared", "PERCPU_TIER", "shared" },
	{ "tier rseq", "PERCPU_TIER", "rseq" },
	{ "own registration", "GLIBC_TUNABLES", "glibc.pthread.rseq=0" },
};
#define STARTS (sizeof(starts) / sizeof(starts[0]))

static struct {
	unsigned rounds;
	unsigned started[STARTS];
	unsigned killed;
	unsigned children; /* killed */
	unsigned doubts;
	uint64_t pictures[3];
	uint64_t count[SOAK_KINDS];
} totals;

static const char *const kinds[SOAK_KINDS] = {
	"add",
	"add vector",
	"fetch",
	"fetch_zero",
	"zero",
	"create shared",
	"alloc and free",
	"open",
	"private counter",
	"static counter",
	"variable",
	"large array",
	"private region",
	"word split",
	"word locked",
	"word counted",
	"word store",
	"push",
	"pop",
	"copy",
	"records read",
	"fence",
	"fence_all",
	"stats add",
	"stats update",
	"stats fetch_zero",
	"stats snapshot, private",
	"stats snapshot, shared",
	"compact add",
	"compact fetch_zero",
	"compact fetch",
	"extrema observe",
	"extrema reset",
	"write buffer transactions",
	"write buffer flushes",
	"ring put",
	"ring look",
	"zone alloc",
	"zone alloc, none left",
	"zone free",
	"zone set_limit",
	"zone reclaim",
	"zone run",
	"objcache get",
	"objcache get, none left",
	"objcache put",
	"objcache dtor",
	"objcache set_limit",
	"objcache reclaim",
	"windows",
	"shared buffers",
	"files that were cut",
	"reference counts",
	"values add",
	"values fetch_zero",
	"histogram record",
	"owned gauge add",
	"sections",
	"grace periods",
	"callbacks",
	"read locks",
	"write locks",
	"rate check",
	"approximate sum add",
	"permits taken",
	"permits, none left",
	"signals",
	"moves",
	"threads",
	"threads that unregister",
	"forks in threaded processes",
};

static int board_fd;
static uint64_t seed, random_state, begun;
static pid_t worker[WORKERS]; /* 0: none */

static void map_board(int fd)
{
	soak_board = mmap(NULL, sizeof(*soak_board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (soak_board == MAP_FAILED) {
		perror("soak: mmap");
		exit(1);
	}
	board_fd = fd;
}

static double seconds(void)
{
	return (double)(test_now() - begun) / (double)SECOND;
}

static void kill_workers(void)
{
	for (int i = 0; i < WORKERS; i++)
		if (worker[i] != 0)
			kill(worker[i], SIGKILL);
}

void soak_give_up(void)
{
	const struct soak_board *b = soak_board;

	if (b->director != getpid())
		_exit(SOAK_FAILED);
	test_sleep_us(1000); /* lets the worker that failed first fill in the board */
	kill_workers();
	printf("soak: FAILED after %.1f s, in round %u: %s: expected %llu (%#llx), "
	       "found %llu (%#llx); --seed %llu\n",
	       seconds(), totals.rounds + 1, b->what, (unsigned long long)b->expected,
	       (unsigned long long)b->expected, (unsigned long long)b->found,
	       (unsigned long long)b->found, (unsigned long long)seed);
	test_remove_paths(NULL);
	exit(1);
}

/* Stop if a worker has found something wrong. */
static void give_up_if_failed(void)
{
	if (__atomic_load_n(&soak_board->failed, __ATOMIC_ACQUIRE))
		soak_give_up();
}

/* In the child: become a worker. Another tier needs another program, since a program determines
 * its tier once. */
static int be_worker(unsigned start, uint64_t random)
{
	char fd[16], state[32];

	if (!starts[start].variable)
		return soak_worker(random);
	(void)snprintf(fd, sizeof(fd), "%d", board_fd);
	(void)snprintf(state, sizeof(state), "%llu", (unsigned long long)random);
	setenv(starts[start].variable, starts[start].value, 1);
	execl("/proc/self/exe", "soak", "--worker", fd, state, (char *)NULL);
	return 1;
}

static pid_t start_worker(void)
{
	unsigned start = (unsigned)(test_random(&random_state) % STARTS);
	uint64_t random = test_random(&random_state) | 1;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	soak_require(pid >= 0, "fork", 0, (uint64_t)errno);
	if (pid == 0)
		_exit(be_worker(start, random));
	totals.started[start]++;
	return pid;
}

/* Note the end of a child, or of a child of a killed worker, which this process inherits. */
static void note_end(pid_t pid, int status, pid_t killed)
{
	for (int i = 0; i < WORKERS; i++)
		if (worker[i] == pid)
			worker[i] = 0;
	if (pid == killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
		totals.killed++;
		return;
	}
	give_up_if_failed();
	soak_require(WTERMSIG(status) != SIGALRM, "a process ends: wait status", 0,
		     (uint64_t)status);
	soak_require(soak_ended_well(pid, status), "a process ends well: wait status", 0,
		     (uint64_t)status);
}

/* Reap children. Return whether there are children left. */
static bool reap(pid_t killed, int options)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(killed ? killed : -1, &status, options)) > 0)
		note_end(pid, status, killed);
	return pid == 0;
}

static void kill_one(void)
{
	pid_t *victim = &worker[test_random(&random_state) % WORKERS], pid = *victim;

	if (pid == 0)
		return;
	kill(pid, SIGKILL);
	reap(pid, 0);
	*victim = start_worker();
}

static void fence_all(void)
{
	int r = percpu_fence_all(SECOND, NULL);

	soak_require(r == 0 || r == -EPERM || r == -ETIMEDOUT, "fence_all", 0, (uint64_t)r);
	totals.count[SOAK_FENCE_ALL]++;
}

/* Kill a worker, fence or check, while the workers work. */
static void interfere(void)
{
	uint64_t r = test_random(&random_state);

	if (r % 8 == 0)
		kill_one();
	else if (r % 8 == 1)
		fence_all();
	else
		soak_check_bounds();
	soak_ring_watch(r >> 16);
	soak_owned_watch();
	soak_limits_watch();
	give_up_if_failed();
	test_sleep_us((unsigned)(r >> 32) % 20000);
	reap(0, WNOHANG);
}

static void stop_workers(void)
{
	uint64_t end = test_now() + SOAK_SECONDS * SECOND;

	__atomic_store_n(&soak_board->stop, true, __ATOMIC_RELAXED);
	while (reap(0, WNOHANG)) {
		soak_require(test_now() < end, "all processes end: seconds", 0, SOAK_SECONDS);
		test_sleep_us(500);
	}
}

static void run_round(void)
{
	struct soak_board *b = soak_board;
	unsigned workers = 2 + (unsigned)(test_random(&random_state) % (WORKERS - 1));
	unsigned steps = 20 + (unsigned)(test_random(&random_state) % 40);

	memset(b, 0, offsetof(struct soak_board, slot) + b->slots * sizeof(b->slot[0]));
	b->director = getpid();
	strcpy(b->path, test_path("region"));
	soak_shared_create();
	for (unsigned i = 0; i < workers; i++)
		worker[i] = start_worker();
	soak_reader_start(test_random(&random_state));
	while (steps-- > 0)
		interfere();
	stop_workers();
	soak_check_totals();
	soak_ring_check();
	soak_owned_check();
	soak_limits_check();
	soak_reader_check(totals.pictures);
	give_up_if_failed();
	totals.doubts += soak_collect(totals.count);
	for (uint32_t i = 0; i < b->slots; i++)
		totals.children += b->slot[i].killed;
	soak_shared_close();
	unlink(b->path);
	totals.rounds++;
}

static void report(void)
{
	printf("soak: %.1f s, %u rounds, seed %llu; killed %u workers and %u of their children, "
	       "%u operations in doubt\n",
	       seconds(), totals.rounds, (unsigned long long)seed, totals.killed, totals.children,
	       totals.doubts);
	for (unsigned i = 1; i < STARTS; i++)
		printf("soak: workers, %-17s %u\n", starts[i].name,
		       totals.started[i] + (i == 1 ? totals.started[0] : 0));
	printf("soak: pictures from outside: %llu; of what is damaged: %llu, and %llu refused\n",
	       (unsigned long long)totals.pictures[0], (unsigned long long)totals.pictures[1],
	       (unsigned long long)totals.pictures[2]);
	for (int kind = 0; kind < SOAK_KINDS; kind++)
		printf("soak: %-28s %llu\n", kinds[kind], (unsigned long long)totals.count[kind]);
}

static int run_worker(const char *fd, const char *random)
{
	map_board((int)strtol(fd, NULL, 10));
	soak_shared_open();
	return soak_worker(strtoull(random, NULL, 10));
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t n = strtoull(text, &end, 10);

	if (*text < '0' || *text > '9' || *end != '\0') {
		fprintf(stderr, "soak: not a number: %s\n", text);
		exit(2);
	}
	return n;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "minutes", required_argument, NULL, 'm' },
		{ "seconds", required_argument, NULL, 's' },
		{ "seed", required_argument, NULL, 'r' },
		{ NULL, 0, NULL, 0 },
	};
	uint64_t length = 10;
	int c;

	if (argc == 4 && strcmp(argv[1], "--worker") == 0)
		return run_worker(argv[2], argv[3]);
	begun = test_now();
	seed = begun % 1000000007;
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == '?') {
			fprintf(stderr, "usage: soak [--minutes N | --seconds N] [--seed N]\n");
			return 2;
		}
		if (c == 'r')
			seed = number(optarg);
		else
			length = number(optarg) * (c == 'm' ? 60 : 1);
	}
	random_state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15); /* never 0: odd multiplier */

	map_board(memfd_create("soak", 0));
	if (ftruncate(board_fd, sizeof(*soak_board)) != 0 ||
	    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0) {
		perror("soak");
		return 1;
	}
	printf("soak: %llu s on tier %s, seed %llu\n", (unsigned long long)length,
	       percpu_tier_name(percpu_status()->tier), (unsigned long long)seed);
	while (test_now() - begun < length * SECOND)
		run_round();
	report();
	test_remove_paths(NULL);
	return 0;
}

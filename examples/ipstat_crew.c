/* SPDX-License-Identifier: MIT */
/*
 * ipstat_crew.c - worker processes, forked by a parent that replaces those that die, and the
 * board on which a worker records its progress.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipstat.h"

/*
 * Note a step. The successor of a killed thread reads the board, so these stores must stay in
 * order. A kill, like a signal, comes between two instructions of one thread, so only the
 * compiler could change the order.
 */
static void set_step(const struct worker *w, uint64_t step)
{
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	__atomic_store_n(&w->place->step, step, __ATOMIC_RELAXED);
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

void worker_count(const struct worker *w, uint64_t k, const struct tally *t)
{
	set_step(w, 2 * k + 1);
	for (unsigned i = 0; i < t->n; i++) {
		const int64_t both[2] = { 1, t->add[i].bytes };

		if (t->add[i].pair)
			percpu_counter_array_add_n(w->counters, t->add[i].field, both, 2);
		else
			percpu_counter_array_add(w->counters, t->add[i].field, 1);
	}
}

void worker_done(const struct worker *w, uint64_t k)
{
	set_step(w, 2 * k + 2);
}

uint64_t worker_next(const struct worker *w, bool *ret_in_hand)
{
	uint64_t step = __atomic_load_n(&w->place->step, __ATOMIC_RELAXED);

	*ret_in_hand = step & 1;
	return step / 2;
}

/* Add to a field in doubt, which another worker thread may be adding to. */
static void add_in_doubt(struct board *b, size_t field, uint64_t n)
{
	__atomic_fetch_add((uint64_t *)&b->in_doubt + field, n, __ATOMIC_RELAXED);
}

void worker_set_aside(const struct worker *w, const struct tally *t)
{
	struct board *b = w->board;

	for (unsigned i = 0; i < t->n; i++) {
		add_in_doubt(b, t->add[i].field, 1);
		if (t->add[i].pair)
			add_in_doubt(b, t->add[i].field + 1, (uint64_t)t->add[i].bytes);
	}
	__atomic_fetch_add(&b->doubtful, 1, __ATOMIC_RELAXED);
}

struct task {
	const struct crew *crew;
	struct worker worker;
	pthread_t thread;
	int err;
};

static void *task_run(void *arg)
{
	struct task *task = arg;
	const struct crew *crew = task->crew;

	if (crew->rings)
		task->err = ring_run(&crew->rings[task->worker.index], &task->worker);
	else
		task->err = file_run(crew->file, &task->worker);
	return NULL;
}

/* Run worker process p: its threads, until they are done. */
static int process_run(const struct crew *crew, unsigned p)
{
	struct task *tasks = calloc(crew->threads, sizeof(*tasks));
	int err = tasks ? 0 : ENOMEM;
	unsigned started = 0;

	for (; started < crew->threads && !err; started++) {
		struct task *task = &tasks[started];
		unsigned index = p * crew->threads + started;

		task->crew = crew;
		task->worker =
			(struct worker){ crew->counters, crew->board, &crew->board->places[index],
					 index, crew->processes * crew->threads };
		err = pthread_create(&task->thread, NULL, task_run, task);
		if (err)
			break;
	}
	if (err)
		complain("cannot start a thread: %s", strerror(err));
	for (unsigned i = 0; i < started; i++) {
		pthread_join(tasks[i].thread, NULL);
		if (tasks[i].err)
			err = -tasks[i].err;
	}
	free(tasks);
	return err ? EXIT_USAGE : EXIT_OK;
}

static size_t board_size(unsigned workers)
{
	return sizeof(struct board) + workers * sizeof(struct place);
}

int crew_create(unsigned processes, unsigned threads, struct crew *crew)
{
	*crew = (struct crew){ .processes = processes, .threads = threads };
	crew->pid = calloc(processes, sizeof(*crew->pid));
	crew->board = mmap(NULL, board_size(processes * threads), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (crew->board == MAP_FAILED)
		crew->board = NULL;
	if (crew->pid && crew->board)
		return 0;
	crew_destroy(crew);
	return -ENOMEM;
}

void crew_destroy(struct crew *crew)
{
	if (crew->board)
		munmap(crew->board, board_size(crew->processes * crew->threads));
	free(crew->pid);
}

static pid_t start_process(const struct crew *crew, unsigned p)
{
	pid_t parent = getpid(), pid = fork();

	if (pid)
		return pid;
	/* Ctrl-C reaches all processes of the terminal; only the parent reacts to it. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(EXIT_USAGE);
	_exit(process_run(crew, p));
}

int crew_start(struct crew *crew)
{
	int err = 0;

	for (unsigned p = 0; p < crew->processes; p++) {
		if (crew->pid[p] != 0)
			continue;
		crew->pid[p] = start_process(crew, p);
		if (crew->pid[p] < 0) {
			err = -errno;
			crew->failed = true;
		}
	}
	return err;
}

unsigned crew_reap(struct crew *crew, int *ret_killed)
{
	unsigned left = 0;
	int status;

	*ret_killed = -1;
	for (unsigned p = 0; p < crew->processes; p++) {
		if (crew->pid[p] > 0 && waitpid(crew->pid[p], &status, WNOHANG) > 0) {
			crew->pid[p] = WIFSIGNALED(status) ? 0 : -1;
			if (WIFSIGNALED(status))
				*ret_killed = (int)p;
			else if (WEXITSTATUS(status) != EXIT_OK)
				crew->failed = true;
		}
		left += crew->pid[p] >= 0;
	}
	return left;
}

void crew_stop(struct crew *crew)
{
	__atomic_store_n(&crew->board->stop, 1, __ATOMIC_RELEASE);
}

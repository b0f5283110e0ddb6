/* SPDX-License-Identifier: MIT */
/*
 * test_removal.c - processes open a segment, count, close it, and some are killed, while another
 * process removes its file all the time. What they count is in a file that was removed after they had
 * closed it, or in the last one.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>
#include <percpu/reader.h>

#include "../support.h"

enum { WORKERS = 3, VICTIMS = 30 };

/* Shared by the test and its children. */
static struct {
	uint64_t begun, done; /* counts: before and after the add */
} * shared;

static const char *path;

static const struct percpu_metric metric = { .size = sizeof(metric), .name = "a_total" };

static void count_once(void)
{
	struct percpu_segment *s = NULL;
	struct percpu_counter *c = NULL;
	int e = percpu_segment_open(path, PERCPU_SEGMENT_CREATE, NULL, &s);

	test_child_require(e == 0, percpu_error());
	test_child_require(percpu_segment_counter(s, &metric, &c) == 0, "a counter");
	__atomic_fetch_add(&shared->begun, 1, __ATOMIC_SEQ_CST);
	percpu_counter_add(c, 1);
	__atomic_fetch_add(&shared->done, 1, __ATOMIC_SEQ_CST);
	percpu_segment_close(s);
}

static int count_often(void *rounds)
{
	uint64_t random = (uint64_t)getpid();

	for (unsigned i = 0; i < *(unsigned *)rounds; i++) {
		count_once();
		test_sleep_us((unsigned)(test_random(&random) % 2000)); /* often none has it open */
	}
	return 0;
}

static int count_for_ever(void *arg)
{
	(void)arg;
	for (;;)
		count_once();
	return 0;
}

/* Return what was counted in the file of the descriptor. */
static uint64_t count_in(int fd)
{
	struct percpu_reader *r = NULL;
	uint64_t n = 0;

	assert_int_equal(percpu_reader_open_fd(fd, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	if (percpu_reader_count(r) != 0) /* else the process has been killed before */
		assert_int_equal(percpu_reader_counter(r, 0, &n), 0);
	percpu_reader_close(r);
	return n;
}

/* Remove the file, if it is there and idle, and return what was counted in it. No other process
 * removes it, so the file that was opened is the one. */
static uint64_t remove_once(unsigned *removals)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), e;
	uint64_t n = 0;

	if (fd < 0) {
		assert_int_equal(errno, ENOENT);
		return 0;
	}
	e = percpu_segment_remove(path, 0);
	assert_true(e == 0 || e == -EBUSY);
	if (e == 0) {
		n = count_in(fd);
		++*removals;
	}
	close(fd);
	return n;
}

static void no_count_is_lost(void **state)
{
	unsigned rounds = test_rounds(1500), removals = 0, running = WORKERS;
	uint64_t found = 0;
	pid_t worker[WORKERS], victim = 0;
	int status;

	(void)state;
	for (unsigned i = 0; i < WORKERS; i++)
		worker[i] = test_fork(count_often, &rounds);
	for (unsigned k = 0; running != 0; k++) {
		found += remove_once(&removals);
		if (victim == 0 && k / 20 < VICTIMS && percpu_status()->robust)
			victim = test_fork(count_for_ever, NULL);
		if (victim != 0 && k % 20 == 19) {
			assert_int_equal(kill(victim, SIGKILL), 0);
			assert_int_equal(test_wait(victim, 60), SIGKILL);
			victim = 0;
		}
		for (unsigned i = 0; i < WORKERS; i++) {
			if (worker[i] == 0 || !test_has_ended(worker[i]))
				continue;
			status = test_wait(worker[i], 60);
			worker[i] = 0;
			running--;
			assert_int_equal(status, 0);
		}
	}
	if (victim != 0) {
		assert_int_equal(kill(victim, SIGKILL), 0);
		assert_int_equal(test_wait(victim, 60), SIGKILL);
	}
	found += remove_once(&removals);
	assert_int_equal(access(path, F_OK), -1);
	print_message("%llu counts in %u files\n", (unsigned long long)found, removals);
	assert_true(removals > 1);
	assert_true(found >= shared->done && found <= shared->begun);
}

static int make_shared(void **state)
{
	(void)state;
	shared = test_share(sizeof(*shared));
	path = test_path("removal");
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(no_count_is_lost) };

	return cmocka_run_group_tests(tests, make_shared, test_remove_paths);
}

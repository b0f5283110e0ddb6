/* SPDX-License-Identifier: MIT */
/*
 * test_word_size.c - conditions that always hold if words, addresses and times have 64 bits, and
 * need care elsewhere.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/freebsd.h>

#include "memory/memory.h"
#include "support.h"
#include "syscalls.h"

/* A 32-bit x86 compiler aligns them to 4 bytes, unless told otherwise. */
static void atomic_words_are_aligned(void **state)
{
	(void)state;
	assert_int_equal(_Alignof(struct percpu_static_counter) % 8, 0);
	assert_int_equal(offsetof(struct percpu_static_counter, early) % 8, 0);
	assert_int_equal(_Alignof(struct counter_rate) % 8, 0);
	assert_int_equal(offsetof(struct counter_rate, cr_ticks) % 8, 0);
	assert_int_equal(_Alignof(struct percpu_fifo) % 8, 0);
}

/* The lengths of these lanes add up to 2^32, before rounding. */
static void lanes_fit_the_address_space(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .cpus = 127 };
	struct percpu_region *r = NULL;
	int e;

	(void)state;
	if (percpu_status()->possible_cpus > o.cpus)
		test_skip("a machine with more than 127 CPUs");
	o.lane_size = 16842816 - (PERCPU_STRIDE - PERCPU_LANE_SIZE);
	e = percpu_region_create(&o, &r);
	percpu_region_close(r);
	if (sizeof(size_t) < 8)
		assert_int_equal(e, -ENOMEM);
	else
		assert_true(e == 0 || e == -ENOMEM);
}

/* The low 32 bits of the lane's length are the default length. */
static void long_lanes_of_a_file_are_not_cut(void **state)
{
	const size_t at = offsetof(struct percpu_header, lane_size);
	uint64_t lane_size = PERCPU_LANE_SIZE + (UINT64_C(1) << 32);
	struct percpu_region *r;
	int fd;

	(void)state;
	assert_int_equal(test_region_new(test_path("long"), NULL, &r), 0);
	percpu_region_close(r);
	fd = open(test_path("long"), O_WRONLY);
	assert_int_equal(pwrite(fd, &lane_size, sizeof(lane_size), (off_t)at), sizeof(lane_size));
	close(fd);
	assert_int_equal(percpu_region_open(test_path("long"), 0, NULL, &r),
			 sizeof(size_t) < 8 ? -ENOMEM : -EBADMSG);
}

static long slept[2]; /* seconds and nanoseconds, as the kernel reads them */

bool syscall_is_answered(long number, const long a[6], long *ret)
{
	(void)ret;
	if (number == SYS_futex && a[1] == FUTEX_WAIT_PRIVATE && a[3] != 0)
		memcpy(slept, (const void *)a[3], sizeof(slept));
	return false;
}

/* System calls of 32 bits take another struct of times than libc, if its time_t has 64 bits. */
static void times_are_as_the_kernel_reads_them(void **state)
{
	uint32_t word = 0;

	(void)state;
	percpu_futex_wait(&word, 0, 2000000);
	assert_int_equal(slept[0], 0);
	assert_int_equal(slept[1], 2000000);
	percpu_futex_wait(&word, 1, 3 * PERCPU_SECOND + 4); /* the word is not 1 */
	assert_int_equal(slept[0], 3);
	assert_int_equal(slept[1], 4);
}

#define NO_PTRACE 77

#define COUNTERS 3 /* two that could be read together, and one more */

static struct percpu_counter_array *array;

static int fetch_step_by_step(void *arg)
{
	uint64_t words[COUNTERS + 1];
	int halves = 0;

	(void)arg;
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0)
		return NO_PTRACE;
	percpu_counter_array_fetch_all(array, words);
	words[COUNTERS] = percpu_counter_array_fetch(array, 0);
	for (int i = 0; i <= COUNTERS; i++)
		halves += (uint32_t)words[i] != words[i] >> 32;
	return halves;
}

/* Store all bits of a word at once, like a process with sequences. */
static void store_in(pid_t pid, uint32_t half)
{
	long words[COUNTERS * 8 / sizeof(long)];
	uint64_t v[COUNTERS];

	for (int i = 0; i < COUNTERS; i++)
		v[i] = (uint64_t)half << 32 | half;
	memcpy(words, v, sizeof(v));
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		ptrace(PTRACE_POKEDATA, pid, array->block.base + i * sizeof(long),
		       (void *)words[i]);
}

/* Before each instruction, the words change to another value of equal halves. */
static void words_are_read_whole(void **state)
{
	uint32_t half = 0;
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_counter_array_create(COUNTERS, &array), 0);
	pid = test_fork(fetch_step_by_step, NULL);
	assert_int_equal(waitpid(pid, &status, WUNTRACED), pid);
	while (WIFSTOPPED(status)) {
		store_in(pid, ++half);
		if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0)
			kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	percpu_counter_array_destroy(array);
	if (WIFEXITED(status) && WEXITSTATUS(status) == NO_PTRACE)
		test_skip("not permitted to trace");
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(atomic_words_are_aligned),
		cmocka_unit_test(lanes_fit_the_address_space),
		cmocka_unit_test(long_lanes_of_a_file_are_not_cut),
		cmocka_unit_test(times_are_as_the_kernel_reads_them),
		cmocka_unit_test(words_are_read_whole),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

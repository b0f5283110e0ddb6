/* SPDX-License-Identifier: MIT */
/*
 * test_join.c - test that processes join a segment's owners by a name, and resume what a dead one
 * has in owned gauges; that readers tell the names; and the sentences of calls that fail.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "declared.h"
#include "support.h"
#include "reader_calls.h"

#include "steps.h"
#include "owners/owners.h"
#include "segment/segment.h"

#define RESUME PERCPU_OWNERS_RESUME
#define LONGEST "123456789 123456789 123456789 123456789 123456789 123456789 123"

static struct percpu_owned_gauge *level;
static const char *stops_at; /* a step */

void test_step(const char *name)
{
	if (stops_at == NULL || strcmp(name, stops_at) != 0)
		return;
	stops_at = NULL;
	raise(SIGSTOP);
}

static int begin(void **state)
{
	stops_at = NULL;
	return make_segment(state) ||
	       percpu_segment_owned_gauge(s, METRIC("level"), PERCPU_OWNED_SUM, &level);
}

/* Expect this of the only owner of the gauge, by a picture. Returns its pid. */
static uint32_t expect(const char *name, int64_t value, bool alive)
{
	struct percpu_owned_value v[2];
	struct percpu_owner_info o[2];
	double all = 0, living = 0;
	size_t n = 0;

	assert_int_equal(look(), 1);
	assert_int_equal(percpu_reader_owned_each(r, 0, v, 2, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(v[0].value, value);
	assert_int_equal(v[0].alive, alive);
	assert_string_equal(v[0].name, name);
	assert_int_equal(percpu_reader_owners(r, o, 2), 1);
	assert_string_equal(o[0].name, name);
	assert_int_equal(o[0].id, v[0].id);
	assert_int_equal(percpu_reader_owned_fetch(r, 0, PERCPU_OWNED_ALL, &all), 0);
	assert_int_equal(percpu_reader_owned_fetch(r, 0, PERCPU_OWNED_LIVING, &living), 0);
	assert_true(all == (double)value && living == (alive ? all : 0));
	return v[0].pid;
}

/* A worker: join, count, and stop as if a signal had stopped it. */
static int work(void *arg)
{
	test_child_require(percpu_segment_join(s, arg, RESUME) == 0, percpu_error());
	raise(SIGSTOP);
	test_child_require(percpu_owned_gauge_add(level, 10) == 0, "add");
	raise(SIGSTOP);
	return 0;
}

static pid_t begin_work(const char *name)
{
	pid_t pid = test_fork(work, (void *)(uintptr_t)name);

	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
	return pid;
}

static void go_on(pid_t pid)
{
	assert_int_equal(kill(pid, SIGCONT), 0);
	assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	test_wait(pid, 60);
}

/* Workers of one number, one after the other: the gauge has one value of it. */
static void workers_take_their_places(void **state)
{
	pid_t pid;

	(void)state;
	for (int i = 0; i < 3; i++) {
		pid = begin_work("3");
		if (i != 0)
			assert_int_equal(expect("3", 10 * i, true), pid);
		go_on(pid);
		assert_int_equal(expect("3", 10 * (i + 1), true), pid);
		stop(pid);
		assert_int_equal(expect("3", 10 * (i + 1), false), pid);
	}
}

static int begin_by_long_name(void *arg)
{
	stops_at = arg;
	return percpu_segment_join(s, LONGEST, 0) != 0;
}

/* A reader takes a picture while a process stores its name over that of a dead owner. */
static void pictures_have_whole_names(void **state)
{
	static const char *const steps[] = { "owner: name to be stored",
					     "owner: name stored in part", "owner: name stored" };
	struct percpu_owned_value v;
	size_t n = 0;
	pid_t pid;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	assert_int_equal(percpu_segment_join(s, "old", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(level, 10), 0);
	(void)expect("old", 10, true);
	for (size_t slot = 1; slot < PERCPU_OWNER_SLOTS; slot++)
		s->owners->slots[0][slot] = (struct percpu_owner_slot){
			.word = 40, .space = 5, .started = 1, .pid = 1
		};
	percpu_owners_leave(s->owners);
	for (size_t i = 0; i < 3; i++) {
		pid = test_fork(begin_by_long_name, (void *)(uintptr_t)steps[i]);
		assert_int_equal(waitpid(pid, NULL, WUNTRACED), pid);
		assert_int_equal(look(), 1);
		assert_int_equal(percpu_reader_owned_each(r, 0, &v, 1, &n), 0);
		assert_int_equal(n, 1);
		assert_string_equal(v.name, "");
		assert_true(v.value == 10 && v.alive == 0);
		assert_int_equal(percpu_reader_owners(r, NULL, 0), PERCPU_OWNER_SLOTS - 1);
		stop(pid);
	}
}

/* A picture whose parts are of different moments: the name fits no number. */
static void torn_slots_have_no_name(void **state)
{
	struct percpu_owner_slot *slot;

	(void)state;
	assert_int_equal(percpu_segment_join(s, "old", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(level, 10), 0);
	slot = &s->owners->slots[0][0];
	memcpy(slot->name, "new", 3);
	(void)expect("", 10, true);
	memcpy(slot->name, "old", 3);
	(void)expect("old", 10, true);
}

/* Sentences */

static void refused(int got, int expected, const char *sentence)
{
	assert_int_equal(got, expected);
	assert_string_equal(percpu_error(), sentence);
	assert_int_equal(percpu_segment_join(NULL, "a", 0), -EINVAL); /* says something else */
}

static void failures_are_told(void **state)
{
	char sentence[200];
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_segment_join(NULL, "a", 0), -EINVAL);
	assert_string_equal(percpu_error(), "the segment is NULL");
	refused(percpu_segment_join(s, NULL, 0), -EINVAL, "the name of the owner is NULL");
	refused(percpu_segment_join(s, "", 0), -EINVAL, "the name of an owner is empty");
	refused(percpu_segment_join(s, "a", 6), -EINVAL, "flags 0x6 are not known");
	refused(percpu_segment_join(s, LONGEST "4", 0), -ENAMETOOLONG,
		"the name of an owner has more than 63 bytes");
	refused(percpu_segment_join(s, "a\xff", 0), -EILSEQ, "owner \"a?\": a text is not UTF-8");
	pid = begin_work("a");
	snprintf(sentence, sizeof(sentence),
		 "owner \"a\": process %d has this name, and lives: join without "
		 "PERCPU_OWNERS_RESUME, or by another name",
		 (int)pid);
	refused(percpu_segment_join(s, "a", RESUME), -EEXIST, sentence);
	assert_int_equal(percpu_segment_join(s, "a", 0), 0);
	assert_int_equal(percpu_segment_join(s, "a", RESUME), 0);
	refused(percpu_segment_join(s, "b", 0), -EALREADY,
		"owner \"b\": this process has joined before, by another name or none: join "
		"before the first update of an owned gauge");
	stop(pid);
}

/* A process may join a segment that has no owned gauge, and so no owners yet. */
static void a_segment_may_have_no_owners(void **state)
{
	struct percpu_owner_info o[1];

	(void)state;
	assert_int_equal(percpu_segment_join(s, "a", RESUME), 0);
	assert_int_equal(look(), 0);
	assert_int_equal(percpu_reader_owners(r, o, 1), 1);
	assert_string_equal(o[0].name, "a");
	assert_int_equal(o[0].pid, getpid());
}

/* The file is a region in which another program has put something else where owners are. */
static void the_root_may_be_taken(void **state)
{
	char name[2000];

	(void)state;
	assert_int_equal(percpu_region_set_root(s->region, PERCPU_OWNERS_ROOT, 0, s->control_key),
			 0);
	assert_int_equal(percpu_segment_join(s, "a", RESUME), -EBADMSG);
	assert_non_null(strstr(percpu_error(), "owner \"a\": the file is none of this library"));
	memset(name, 'n', sizeof(name) - 1); /* the end of a sentence says why */
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(percpu_segment_join(s, name, RESUME), -EBADMSG);
	assert_non_null(strstr(percpu_error(), "nnn\": the file is none of this library"));
}

#define JOIN_TEST(f) cmocka_unit_test_setup_teardown(f, begin, remove_segment)

int main(void)
{
	const struct CMUnitTest tests[] = {
		JOIN_TEST(workers_take_their_places),
		JOIN_TEST(pictures_have_whole_names),
		JOIN_TEST(torn_slots_have_no_name),
		JOIN_TEST(failures_are_told),
		cmocka_unit_test_setup_teardown(a_segment_may_have_no_owners, make_segment,
						remove_segment),
		cmocka_unit_test_setup_teardown(the_root_may_be_taken, make_segment,
						remove_segment),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

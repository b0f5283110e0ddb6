/* SPDX-License-Identifier: MIT */
/*
 * test_thread_local_late.c - error sentences of segments, and holders of locks, if the library is
 * loaded late and the program has taken the keys whose values need no memory: threads have no
 * records of their own. The test gives each thread the id of one that has ended.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>
#include <percpu/seq.h>

#include "../thread_id.h"

#define SOME_ID 1234567
#define TAKEN 40 /* keys; glibc has room in each thread for the values of 32 */

static struct percpu_segment *s;
static struct percpu_rwlock *l;
static bool no_memory; /* for values of keys */

int __real_pthread_key_create(pthread_key_t *ret, void (*end)(void *));
int __wrap_pthread_key_create(pthread_key_t *ret, void (*end)(void *));
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

/* The library's call is the first one, before main(). */
int __wrap_pthread_key_create(pthread_key_t *ret, void (*end)(void *))
{
	static bool taken;
	pthread_key_t other;

	for (unsigned i = 0; !taken && i < TAKEN; i++)
		if (__real_pthread_key_create(&other, NULL) != 0)
			return EAGAIN;
	taken = true;
	return __real_pthread_key_create(ret, end);
}

int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	return no_memory ? ENOMEM : __real_pthread_setspecific(key, value);
}

static int begin(void **state)
{
	int fd = memfd_create("late", MFD_CLOEXEC), e;

	(void)state;
	e = percpu_segment_open_fd(fd, PERCPU_SEGMENT_CREATE, NULL, &s);
	close(fd);
	return e != 0 ? e : percpu_rwlock_create(0, &l);
}

static int end(void **state)
{
	(void)state;
	percpu_segment_close(s);
	return percpu_rwlock_destroy(l);
}

/* before: there was a sentence before the call failed. after: there was that of the call. */
struct told {
	bool before, after;
};

static bool fails(void)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "otherwise\xff" };

	return percpu_segment_info(s, &m) == -EILSEQ;
}

static void *fail_once(void *ret)
{
	struct told *told = ret;

	thread_id = SOME_ID;
	told->before = *percpu_error() != '\0';
	if (fails())
		told->after = strstr(percpu_error(), "otherwise") != NULL;
	return NULL;
}

static void *lock(void *ret)
{
	thread_id = SOME_ID;
	*(int *)ret = percpu_rwlock_write_trylock(l);
	return NULL;
}

static void run(void *(*fn)(void *), void *arg)
{
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, fn, arg), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
}

static void no_thread_has_a_record(void **state)
{
	(void)state;
	(void)percpu_selftest();
	assert_true(percpu_status()->tier <= PERCPU_TIER_CPU);
	assert_true(percpu_seq_attach()->cpu_id < 0);
}

static void each_thread_is_told_its_own_sentence(void **state)
{
	struct told told;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		told = (struct told){ false, false };
		run(fail_once, &told);
		assert_false(told.before);
		assert_true(told.after);
	}
}

static void a_thread_without_memory_for_its_sentence_is_told_nothing(void **state)
{
	struct told told = { false, false };

	(void)state;
	no_memory = true;
	for (unsigned i = 0; i < 2; i++) {
		run(fail_once, &told);
		assert_false(told.before);
		assert_false(told.after);
	}
	no_memory = false;
}

static void who_has_the_id_of_a_writer_waits(void **state)
{
	int e = -1;

	(void)state;
	run(lock, &e);
	assert_int_equal(e, 0);
	run(lock, &e);
	assert_int_equal(e, -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

static void locks_work_without_a_number(void **state)
{
	int e = -1;

	(void)state;
	no_memory = true;
	run(lock, &e);
	no_memory = false;
	assert_int_equal(e, 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_thread_has_a_record),
		cmocka_unit_test(each_thread_is_told_its_own_sentence),
		cmocka_unit_test(a_thread_without_memory_for_its_sentence_is_told_nothing),
		cmocka_unit_test(who_has_the_id_of_a_writer_waits),
		cmocka_unit_test(locks_work_without_a_number),
	};

	return cmocka_run_group_tests(tests, begin, end);
}

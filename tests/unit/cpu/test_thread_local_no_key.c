/* SPDX-License-Identifier: MIT */
/*
 * test_thread_local_no_key.c - a program has no thread-specific key left for the library, or none
 * whose values need no memory. Then a library that is loaded late has no records of threads, and
 * no sequences; one that is not has no records for areas that it would have to unregister.
 *
 * It is compiled for each of the two.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <percpu/percpu.h>
#include <percpu/seq.h>

#include "cpu/cpu.h"
#include "segment/complaint.h"
#include "support.h"

#ifndef PERCPU_LATE
#define PERCPU_LATE_BUILD false
#else
#define PERCPU_LATE_BUILD true
#endif

#define THREADS 4
#define ADDS 1000
#define FAR 1000 /* a key whose value glibc allocates */

bool test_of_first_use = true;

int __wrap_pthread_key_create(pthread_key_t *ret, void (*end)(void *));

#if TEST_HAS_FAR_KEY

int __real_pthread_key_delete(pthread_key_t key);
int __wrap_pthread_key_delete(pthread_key_t key);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

static unsigned given, taken_back;

int __wrap_pthread_key_create(pthread_key_t *ret, void (*end)(void *))
{
	(void)end;
	given++;
	*ret = FAR;
	return 0;
}

int __wrap_pthread_key_delete(pthread_key_t key)
{
	if (key != FAR)
		return __real_pthread_key_delete(key);
	taken_back++;
	return 0;
}

/* There is no memory for the value. */
int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	(void)value;
	return key == FAR ? ENOMEM : EINVAL;
}

static bool keeps_no_key(void)
{
	return PERCPU_LATE_BUILD ? given == 1 && taken_back == 1 : taken_back == 0;
}

#else

int __wrap_pthread_key_create(pthread_key_t *ret, void (*end)(void *))
{
	(void)ret, (void)end;
	return EAGAIN;
}

static bool keeps_no_key(void)
{
	return true;
}

#endif

static void count(unsigned i, void *arg)
{
	(void)i;
	for (int n = 0; n < ADDS; n++)
		percpu_counter_inc(arg);
}

static void counting_is_exact_without_a_key(void **state)
{
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_counter_create(&c), 0);
	(void)test_tier();
	test_team_run(THREADS, count, c);
	count(0, c);
	assert_int_equal(percpu_counter_fetch(c), (THREADS + 1) * ADDS);
	assert_true(keeps_no_key());
	if (PERCPU_LATE_BUILD && percpu_status()->tier > PERCPU_TIER_SHARED) {
		assert_int_equal(percpu_status()->tier, PERCPU_TIER_CPU);
		if (percpu_status()->selftest == PERCPU_SELFTEST_SKIPPED &&
		    getenv("PERCPU_TIER") == NULL)
			assert_non_null(strstr(percpu_status()->reason, "key"));
	}
	if (PERCPU_LATE_BUILD)
		assert_true(percpu_seq_attach()->cpu_id < 0);
	percpu_counter_destroy(c);
}

/* A thread without a record has no number, and counts as within no call. */
static void threads_have_no_number(void **state)
{
	struct percpu_thread_call within;
	int object;

	(void)state;
	if (!PERCPU_LATE_BUILD)
		test_skip("each thread has a record");
	assert_int_equal(percpu_thread_number(), 0);
	percpu_thread_enter_call(&within, &object);
	assert_false(percpu_thread_is_in_call(&object));
	percpu_thread_leave_call(&within);
}

/* A call that fails has no sentence, but fails as it does else. */
static void failures_have_no_sentence(void **state)
{
	(void)state;
	assert_int_equal(percpu_segment_info(NULL, NULL), -EINVAL);
	assert_string_equal(percpu_error(), "");
	assert_null(percpu_complaints);
}

/* The library registers no area that it could not unregister. */
static void no_area_is_registered(void **state)
{
	(void)state;
	if (percpu_status()->rseq_size != 0 || getenv("PERCPU_TIER") != NULL)
		test_skip("libc registers threads");
	assert_int_equal(percpu_status()->registrar, PERCPU_REGISTRAR_NONE);
	assert_true(percpu_status()->tier <= PERCPU_TIER_CPU);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counting_is_exact_without_a_key),
		cmocka_unit_test(threads_have_no_number),
		cmocka_unit_test(failures_have_no_sentence),
		cmocka_unit_test(no_area_is_registered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

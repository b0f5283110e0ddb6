/* SPDX-License-Identifier: MIT */
/* test_error.c - percpu_strerror(): each error that a header names has a text of its own. */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <string.h>

#include <percpu/error.h>

#include "support.h"

static const struct {
	int e;
	const char *words;
} named[] = {
	{ -E2BIG, "of CPUs" },
	{ -EACCES, "permissions" },
	{ -EAGAIN, "try again" },
	{ -EALREADY, "already" },
	{ -EBADF, "descriptor" },
	{ -EBADMSG, "cut short" },
	{ -EBUSY, "in use" },
	{ -EDEADLK, "its own thread" },
	{ -EDOM, "not a number" },
	{ -EEXIST, "other options" },
	{ -EFBIG, "RLIMIT_FSIZE" },
	{ -EILSEQ, "UTF-8" },
	{ -EINTR, "signal" },
	{ -EINVAL, "a NULL" },
	{ -EIO, "read or written" },
	{ -EISDIR, "a directory" },
	{ -ELOOP, "symbolic link" },
	{ -EMFILE, "RLIMIT_NOFILE" },
	{ -EMSGSIZE, "longer than the ring" },
	{ -ENAMETOOLONG, "too long" },
	{ -ENFILE, "the machine has no free descriptor" },
	{ -ENOBUFS, "the ring is full" },
	{ -ENODATA, "no value" },
	{ -ENOENT, "no such file" },
	{ -ENOLCK, "no locks" },
	{ -ENOMEM, "no memory" },
	{ -ENOSPC, "full" },
	{ -ENOTDIR, "not a directory" },
	{ -ENOTRECOVERABLE, "not repaired" },
	{ -ENOTSUP, "cannot do that" },
	{ -EOVERFLOW, "too many references" },
	{ -EOWNERDEAD, "died with the lock" },
	{ -EPERM, "another user" },
	{ -EPROTO, "another version" },
	{ -ERANGE, "exceed its limit; or the file has lanes for fewer CPUs" },
	{ -EROFS, "opened to read" },
	{ -ESTALE, "another file" },
	{ -ETIMEDOUT, "time is over" },
	{ -EUSERS, "owners" },
};

static void each_has_its_own_text(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(named) / sizeof(named[0]); i++) {
		const char *const text = percpu_strerror(named[i].e);

		assert_non_null(strstr(text, named[i].words));
		assert_string_not_equal(text, strerror(-named[i].e));
		assert_ptr_equal(percpu_strerror(-named[i].e), text);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(text, percpu_strerror(named[k].e));
	}
	assert_string_equal(percpu_strerror(0), "");
}

static void other_errors_have_that_of_libc(void **state)
{
	(void)state;
	assert_string_equal(percpu_strerror(-EMLINK), strerror(EMLINK));
	assert_string_equal(percpu_strerror(EMLINK), strerror(EMLINK));
}

/* glibc would write these numbers to a buffer, which the next call overwrites. */
static void numbers_that_are_no_errors_are_said_to_be_unknown(void **state)
{
	static const int none[] = { -100000, 100000, INT_MIN, -INT_MAX, INT_MAX };

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		assert_string_not_equal(percpu_strerror(none[i]), "");
#ifdef __GLIBC__
		assert_string_equal(percpu_strerror(none[i]), "unknown error");
#endif
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_its_own_text),
		cmocka_unit_test(other_errors_have_that_of_libc),
		cmocka_unit_test(numbers_that_are_no_errors_are_said_to_be_unknown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd_names.c - names that are made at run time, as drivers do; handlers; and
 * what waits for those who read.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "freebsd_read.h"

static counter_u64_t queue_packets[2], queue_drops[3];

/* A sum of counters, by the handler's own means; a write sets them all to 0. */
static int sum_of_drops(SYSCTL_HANDLER_ARGS)
{
	counter_u64_t *drops = arg1;
	uint64_t sum = 0;
	int e;

	assert_string_equal(oidp->oid_name, "sum");
	for (int i = 0; i < arg2; i++)
		sum += counter_u64_fetch(drops[i]);
	e = SYSCTL_OUT(req, &sum, sizeof(sum));
	if (e != 0 || req->newptr == NULL)
		return e;
	COUNTER_ARRAY_ZERO(drops, arg2);
	return 0;
}

SYSCTL_PROC(_kern_ipc, OID_AUTO, sum, CTLTYPE_U64 | CTLFLAG_RW | CTLFLAG_MPSAFE, queue_drops, 3,
	    sum_of_drops, "QU", "all drops");
SYSCTL_PROC(_kern_ipc, OID_AUTO, first, CTLTYPE_U64 | CTLFLAG_RD, &queue_drops[0], 0,
	    sysctl_handle_counter_u64, "QU", "the first's");

static int in_words(SYSCTL_HANDLER_ARGS)
{
	static const char words[] = "two words";

	(void)arg1, (void)arg2, (void)oidp;
	return SYSCTL_OUT(req, words, sizeof(words));
}

static int limit = 7;

static struct sysctl_oid *add_driver(struct sysctl_ctx_list *ctx)
{
	struct sysctl_oid *driver = SYSCTL_ADD_NODE(ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO,
						    "nic", CTLFLAG_RD, NULL, "a driver");

	for (int i = 0; i < 2; i++) {
		char name[24];
		struct sysctl_oid *queue;

		snprintf(name, sizeof(name), "queue%d", i);
		queue = SYSCTL_ADD_NODE(ctx, SYSCTL_CHILDREN(driver), OID_AUTO, name, CTLFLAG_RD, 0,
					"a queue");
		assert_non_null(SYSCTL_ADD_COUNTER_U64(ctx, SYSCTL_CHILDREN(queue), OID_AUTO,
						       "packets", CTLFLAG_RD, &queue_packets[i],
						       "received"));
	}
	assert_non_null(SYSCTL_ADD_COUNTER_U64_ARRAY(ctx, SYSCTL_CHILDREN(driver), OID_AUTO,
						     "drops", CTLFLAG_RW, queue_drops, 3, "why"));
	assert_non_null(SYSCTL_ADD_PROC(ctx, SYSCTL_CHILDREN(driver), OID_AUTO, "words",
					CTLTYPE_STRING | CTLFLAG_RD, NULL, 0, in_words, "A", ""));
	assert_non_null(SYSCTL_ADD_PROC(ctx, SYSCTL_CHILDREN(driver), OID_AUTO, "limit",
					CTLTYPE_INT | CTLFLAG_RW, &limit, 0, sysctl_handle_int, "I",
					""));
	return driver;
}

static void names_are_made_and_taken_away(void **state)
{
	struct sysctl_ctx_list ctx, other = { NULL };
	struct sysctl_oid *driver;
	uint64_t drops[3] = { 0 };
	size_t size = sizeof(drops);

	(void)state;
	sysctl_ctx_init(&ctx);
	driver = add_driver(&ctx);
	counter_u64_add(queue_packets[1], 5);
	assert_int_equal(read_one("dev.nic.queue0.packets"), 0);
	assert_int_equal(read_one("dev.nic.queue1.packets"), 5);
	counter_u64_add(queue_drops[2], 9);
	assert_int_equal(sysctlbyname("dev.nic.drops", drops, &size, drops, size), 0);
	assert_int_equal(drops[2], 9);
	assert_int_equal(counter_u64_fetch(queue_drops[2]), 0);
	assert_fails("dev.nic.queue1.packets", drops, EPERM);

	/* A node may be added twice, and goes with the second context; a counter not. */
	assert_ptr_equal(SYSCTL_ADD_NODE(&other, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO, "nic",
					 CTLFLAG_RD, NULL, "the same"),
			 driver);
	assert_null(SYSCTL_ADD_COUNTER_U64(&other, SYSCTL_CHILDREN(driver), OID_AUTO, "drops",
					   CTLFLAG_RD, &queue_drops[0], "another"));
	assert_non_null(SYSCTL_ADD_COUNTER_U64(&other, SYSCTL_CHILDREN(driver), OID_AUTO, "more",
					       CTLFLAG_RD, &queue_drops[0], "another"));
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_fails("dev.nic.drops", NULL, ENOENT);
	assert_int_equal(read_one("dev.nic.more"), 0);

	/* One that has names of another context below it stays. */
	assert_non_null(SYSCTL_ADD_COUNTER_U64(&ctx, SYSCTL_CHILDREN(driver), OID_AUTO, "below",
					       CTLFLAG_RD, &queue_drops[0], "another"));
	assert_int_equal(sysctl_ctx_free(&other), EBUSY);
	assert_int_equal(read_one("dev.nic.more"), 0);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_int_equal(sysctl_ctx_free(&other), 0);
	assert_fails("dev.nic", NULL, ENOENT);
}

static void handlers_are_read_and_written_by_name(void **state)
{
	struct sysctl_ctx_list ctx = { NULL };
	char words[16];
	int v = 0, eleven = 11;
	size_t size = sizeof(words);

	(void)state;
	COUNTER_ARRAY_ZERO(queue_drops, 3);
	counter_u64_add(queue_drops[0], 3);
	counter_u64_add(queue_drops[2], 4);
	assert_int_equal(read_one("kern.ipc.sum"), 7);
	assert_int_equal(read_one("kern.ipc.first"), 3);
	reset("kern.ipc.sum");
	assert_int_equal(read_one("kern.ipc.sum"), 0);
	assert_fails("kern.ipc.first", &v, EPERM);

	add_driver(&ctx);
	assert_int_equal(sysctlbyname("dev.nic.words", NULL, &size, NULL, 0), 0);
	assert_int_equal(size, 10);
	assert_int_equal(sysctlbyname("dev.nic.words", words, &size, NULL, 0), 0);
	assert_string_equal(words, "two words");
	size = sizeof(v);
	assert_int_equal(sysctlbyname("dev.nic.limit", &v, &size, &eleven, sizeof(eleven)), 0);
	assert_int_equal(v, 7);
	assert_int_equal(limit, 11);
	assert_int_equal(sysctlbyname("dev.nic.limit", NULL, NULL, &eleven, 2), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
}

/* Each of FreeBSD's handlers, with a value at an address, and with one that is the argument. */

static int an_int = 1;
static long a_long = -2;
static int64_t a_number = INT64_MAX;
static char bytes[5] = "four";

static const int seven_int = 7;
static const long seven_long = -7;
static const int64_t seven_number = 7;

static const struct kind {
	const char *name, *full;
	int (*handler)(SYSCTL_HANDLER_ARGS);
	void *arg1;
	intmax_t arg2;
	const void *value; /* what is read */
	size_t size;
} kinds[] = {
	{ "int", "dev.int", sysctl_handle_int, &an_int, 0, &an_int, sizeof(int) },
	{ "long", "dev.long", sysctl_handle_long, &a_long, 0, &a_long, sizeof(long) },
	{ "i64", "dev.i64", sysctl_handle_64, &a_number, 0, &a_number, sizeof(int64_t) },
	{ "bytes", "dev.bytes", sysctl_handle_opaque, bytes, 5, bytes, 5 },
	{ "int_", "dev.int_", sysctl_handle_int, NULL, 7, &seven_int, sizeof(int) },
	{ "long_", "dev.long_", sysctl_handle_long, NULL, -7, &seven_long, sizeof(long) },
	{ "i64_", "dev.i64_", sysctl_handle_64, NULL, 7, &seven_number, sizeof(int64_t) },
};

static void handlers_know_their_kind(void **state)
{
	struct sysctl_ctx_list ctx = { NULL };
	char was[8], got[8], next[8] = "\1\2\3\4\0";

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const struct kind *k = &kinds[i];
		size_t size = sizeof(got);

		memcpy(was, k->value, k->size);
		assert_non_null(SYSCTL_ADD_PROC(&ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO,
						k->name, CTLFLAG_RW, k->arg1, k->arg2, k->handler,
						"", ""));
		assert_int_equal(sysctlbyname(k->full, got, &size, NULL, 0), 0);
		assert_int_equal(size, k->size);
		assert_memory_equal(got, k->value, k->size);
		/* What there is no room to read is not written. */
		size = k->size - 1;
		assert_int_equal(sysctlbyname(k->full, got, &size, next, k->size), -1);
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(size, k->size - 1);
		assert_memory_equal(k->value, was, k->size);
		errno = 0;
		size = 77;
		if (k->arg1 != NULL) {
			assert_int_equal(sysctlbyname(k->full, NULL, NULL, next, k->size), 0);
			assert_memory_equal(k->value, next, k->size);
		} else {
			assert_int_equal(sysctlbyname(k->full, NULL, &size, next, k->size), -1);
			assert_int_equal(errno, EPERM);
			assert_int_equal(size, 77);
			assert_memory_equal(k->value, was, k->size);
		}
	}
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
}

/* A handler of a program's that has something before an array of counters. */
static int counters_behind_a_word(SYSCTL_HANDLER_ARGS)
{
	const uint64_t word = 5;
	int e = SYSCTL_OUT(req, &word, sizeof(word));

	return e != 0 && arg2 != 1 ? e : sysctl_handle_counter_u64_array(oidp, arg1, 3, req);
}

/* A counter is reset if all of them were read. */
static void arrays_may_have_something_before_them(void **state)
{
	static const struct {
		size_t room;
		intmax_t arg2;
		int error;
	} cases[] = { { 32, 0, 0 }, { 31, 0, ENOMEM }, { 8, 0, ENOMEM }, { 4, 1, ENOMEM } };
	struct sysctl_ctx_list ctx = { NULL };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const bool all = cases[i].error == 0;
		uint64_t v[4] = { 0 };
		size_t size = cases[i].room;

		COUNTER_ARRAY_ZERO(queue_drops, 3);
		counter_u64_add(queue_drops[2], 6);
		assert_non_null(SYSCTL_ADD_PROC(&ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO,
						"more", CTLFLAG_RW, queue_drops, cases[i].arg2,
						counters_behind_a_word, "", ""));
		errno = 0;
		assert_int_equal(sysctlbyname("dev.more", v, &size, v, sizeof(v)), all ? 0 : -1);
		assert_int_equal(errno, cases[i].error);
		assert_int_equal(size, cases[i].room);
		if (all)
			assert_int_equal(v[3], 6);
		assert_int_equal(counter_u64_fetch(queue_drops[2]), all ? 0 : 6);
		assert_int_equal(sysctl_ctx_free(&ctx), 0);
	}
}

/* Handlers: one takes a value in also when there is none, one calls its own name, and one forks. */

static int taken = 3;

static int take_in(SYSCTL_HANDLER_ARGS)
{
	(void)arg1, (void)arg2, (void)oidp;
	return SYSCTL_IN(req, &taken, sizeof(taken));
}

static unsigned deep;

static int read_again(SYSCTL_HANDLER_ARGS)
{
	return ++deep < 3 ? -percpu_freebsd_sysctlbyname("dev.again", NULL, NULL, NULL, 0) :
			    sysctl_handle_int(oidp, arg1, arg2, req);
}

static int fork_within(SYSCTL_HANDLER_ARGS)
{
	(void)arg2, (void)oidp, (void)req;
	*(pid_t *)arg1 = fork();
	return 0;
}

static void requests_come_in_all_ways(void **state)
{
	struct sysctl_oid_list *dev = SYSCTL_STATIC_CHILDREN(_dev);
	struct sysctl_ctx_list ctx = { NULL };
	int four = 4, status;
	pid_t pid = -1;

	(void)state;
	SYSCTL_ADD_PROC(&ctx, dev, OID_AUTO, "in", CTLFLAG_RW, NULL, 0, take_in, "I", "");
	SYSCTL_ADD_PROC(&ctx, dev, OID_AUTO, "again", CTLFLAG_RD, &four, 0, read_again, "I", "");
	SYSCTL_ADD_PROC(&ctx, dev, OID_AUTO, "fork", CTLFLAG_RD, &pid, 0, fork_within, "I", "");
	assert_int_equal(sysctlbyname("dev.in", NULL, NULL, NULL, 0), 0);
	assert_int_equal(taken, 3);
	assert_int_equal(sysctlbyname("dev.in", NULL, NULL, &four, sizeof(four)), 0);
	assert_int_equal(taken, 4);
	assert_int_equal(sysctlbyname("dev.again", NULL, NULL, NULL, 0), 0);
	assert_int_equal(deep, 3);
	/* The child is in a request that nobody waits for. */
	assert_int_equal(sysctlbyname("dev.fork", NULL, NULL, NULL, 0), 0);
	if (pid == 0)
		_exit(sysctl_ctx_free(&ctx));
	status = test_wait(pid, 60);
	assert_int_equal(status, 0);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
}

/* A handler that has more to tell than it does: the caller learns how much there is of it. */
static int tell_half(SYSCTL_HANDLER_ARGS)
{
	const uint32_t half = 7;
	int e = SYSCTL_OUT(req, &half, sizeof(half));

	(void)arg1, (void)arg2, (void)oidp;
	return e != 0 ? e : ENOMEM;
}

static void values_may_be_told_in_part(void **state)
{
	struct sysctl_ctx_list ctx = { NULL };
	uint32_t v[3] = { 1, 1, 1 };
	size_t size = sizeof(v);

	(void)state;
	SYSCTL_ADD_PROC(&ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO, "half", CTLFLAG_RD, NULL, 0,
			tell_half, "S", "");
	errno = 0;
	assert_int_equal(sysctlbyname("dev.half", v, &size, NULL, 0), -1);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(size, sizeof(v[0]));
	assert_true(v[0] == 7 && v[1] == 1 && v[2] == 1);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
}

/* A new value in two parts. */
struct parts {
	uint64_t first;
	uint32_t second;
};

static int take_parts(SYSCTL_HANDLER_ARGS)
{
	struct parts *to = arg1, p = { 0, 0 };
	int e = SYSCTL_IN(req, &p.first, sizeof(p.first));

	(void)arg2, (void)oidp;
	if (e == 0)
		e = SYSCTL_IN(req, &p.second, sizeof(p.second));
	if (e == 0)
		*to = p;
	return e;
}

static void values_may_be_taken_in_parts(void **state)
{
	const unsigned char new[13] = { 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3 };
	struct sysctl_ctx_list ctx = { NULL };
	struct parts p = { 5, 6 };

	(void)state;
	SYSCTL_ADD_PROC(&ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO, "parts", CTLFLAG_RW, &p, 0,
			take_parts, "S", "");
	for (size_t n = 0; n < 12; n++) {
		errno = 0;
		assert_int_equal(sysctlbyname("dev.parts", NULL, NULL, new, n), -1);
		assert_int_equal(errno, EINVAL);
		assert_true(p.first == 5 && p.second == 6);
	}
	for (size_t n = 12; n <= 13; n++) {
		assert_int_equal(sysctlbyname("dev.parts", NULL, NULL, new, n), 0);
		assert_int_equal(p.first, 0x0101010101010101);
		assert_int_equal(p.second, 0x02020202);
		p = (struct parts){ 5, 6 };
	}
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
}

/* Names without a context are there for good. */
static void names_need_no_context(void **state)
{
	static counter_u64_t none;
	struct sysctl_oid *node = SYSCTL_ADD_ROOT_NODE(NULL, OID_AUTO, "stays", CTLFLAG_RD, 0, "");
	struct sysctl_ctx_list ctx = { NULL };
	struct sysctl_oid_list *below;

	(void)state;
	assert_non_null(node);
	below = SYSCTL_CHILDREN(node);
	assert_non_null(
		SYSCTL_ADD_COUNTER_U64(NULL, below, OID_AUTO, "value", CTLFLAG_RD, &none, ""));
	assert_null(SYSCTL_ADD_COUNTER_U64(NULL, below, OID_AUTO, "value", CTLFLAG_RD, &none, ""));
	/* No node has the name of a counter, and no counter that of a node. */
	assert_null(SYSCTL_ADD_NODE(&ctx, below, OID_AUTO, "value", CTLFLAG_RD, 0, ""));
	assert_null(SYSCTL_ADD_COUNTER_U64(&ctx, PERCPU_SYSCTL_NO_PARENT, OID_AUTO, "stays",
					   CTLFLAG_RD, &none, ""));
	assert_ptr_equal(SYSCTL_ADD_ROOT_NODE(&ctx, OID_AUTO, "stays", CTLFLAG_RD, 0, ""), node);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_int_equal(read_one("stays.value"), 0);
	assert_fails("stays", NULL, EISDIR);
}

/* What is below a node has its name, also where the node is not registered. */
static void nodes_are_where_names_are_below(void **state)
{
	static counter_u64_t none;
	struct sysctl_oid node = { .oid_children = { &node }, .oid_name = "lone", .oid_descr = "" };
	struct sysctl_ctx_list ctx = { NULL };

	(void)state;
	assert_non_null(SYSCTL_ADD_COUNTER_U64(&ctx, SYSCTL_CHILDREN(&node), OID_AUTO, "value",
					       CTLFLAG_RD, &none, ""));
	assert_int_equal(read_one("lone.value"), 0);
	assert_fails("lone", NULL, EISDIR);
	assert_fails("lon", NULL, ENOENT);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_fails("lone", NULL, ENOENT);
}

/* A handler may take its time, and look others up; its name waits for it. */

static unsigned inside; /* atomic: 1 entered, 2 may go on */

static int take_time(SYSCTL_HANDLER_ARGS)
{
	uint64_t v = read_one("kern.ipc.first");

	(void)arg1, (void)arg2, (void)oidp;
	__atomic_store_n(&inside, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE) != 2)
		test_sleep_us(1000);
	return SYSCTL_OUT(req, &v, sizeof(v));
}

static void read_slowly(unsigned i, void *arg)
{
	(void)i;
	read_one("dev.slow");
	__atomic_store_n((unsigned *)arg, 1, __ATOMIC_RELEASE);
}

static int look_in_child(void *arg)
{
	return sysctl_ctx_free(arg) != 0;
}

static void let_go(unsigned i, void *arg)
{
	(void)i, (void)arg;
	test_sleep_us(20000);
	__atomic_store_n(&inside, 2, __ATOMIC_RELEASE);
}

static void a_name_waits_for_its_last_reader(void **state)
{
	struct sysctl_ctx_list ctx = { NULL };
	struct test_team reader, opener;
	unsigned done = 0;

	(void)state;
	SYSCTL_ADD_PROC(&ctx, SYSCTL_STATIC_CHILDREN(_dev), OID_AUTO, "slow", CTLTYPE_U64, NULL, 0,
			take_time, "QU", "");
	test_team_start(&reader, 1, read_slowly, &done);
	while (__atomic_load_n(&inside, __ATOMIC_ACQUIRE) != 1)
		test_sleep_us(1000);
	test_in_child(look_in_child, &ctx); /* where nobody reads */
	test_team_start(&opener, 1, let_go, NULL);
	assert_int_equal(sysctl_ctx_free(&ctx), 0);
	assert_int_equal(__atomic_load_n(&inside, __ATOMIC_ACQUIRE), 2);
	test_team_join(&opener);
	test_team_join(&reader);
	assert_int_equal(done, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_are_made_and_taken_away),
		cmocka_unit_test(handlers_are_read_and_written_by_name),
		cmocka_unit_test(handlers_know_their_kind),
		cmocka_unit_test(arrays_may_have_something_before_them),
		cmocka_unit_test(requests_come_in_all_ways),
		cmocka_unit_test(values_may_be_told_in_part),
		cmocka_unit_test(values_may_be_taken_in_parts),
		cmocka_unit_test(names_need_no_context),
		cmocka_unit_test(nodes_are_where_names_are_below),
		cmocka_unit_test(a_name_waits_for_its_last_reader),
	};

	COUNTER_ARRAY_ALLOC(queue_packets, 2, M_WAITOK);
	COUNTER_ARRAY_ALLOC(queue_drops, 3, M_WAITOK);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

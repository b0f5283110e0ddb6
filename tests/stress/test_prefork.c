/* SPDX-License-Identifier: MIT */
/*
 * test_prefork.c - a server whose workers take connections from one socket, and are killed by
 * SIGKILL at any instruction. Every request is counted once. A gauge has the requests that living
 * workers are serving; it is 0 when there are none.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "../support.h"

#include "memory/memory.h"

#define WORKERS 4
#define CLIENTS 2
#define KILLS 60
#define MOST (WORKERS + KILLS)
#define FLAGS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)

/* How many requests a worker has begun, counted and ended, one at a time. */
struct work {
	uint64_t begun, counted, ended;
};

static struct work *works; /* of all workers, killed ones included */
static uint32_t *stop;
static int server;
static struct sockaddr_un address = { .sun_family = AF_UNIX };
static struct percpu_owned_gauge *in_progress;
static struct percpu_owned_fgauge *load; /* half of in_progress */
static struct percpu_counter *requests;
static struct percpu_histogram *sizes;

static void note(uint64_t *n)
{
	__atomic_store_n(n, *n + 1, __ATOMIC_RELEASE);
}

static int serve(struct work *w)
{
	char c = 0;
	int fd = accept(server, NULL, NULL);

	if (fd < 0)
		return 1;
	note(&w->begun);
	if (percpu_owned_gauge_add(in_progress, 1) != 0 || percpu_owned_fgauge_add(load, 0.5) != 0)
		return 1;
	if (read(fd, &c, 1) == 1)
		(void)!write(fd, &c, 1);
	percpu_counter_inc(requests);
	percpu_histogram_record(sizes, 0.5);
	note(&w->counted);
	if (percpu_owned_gauge_add(in_progress, -1) != 0 ||
	    percpu_owned_fgauge_add(load, -0.5) != 0)
		return 1;
	note(&w->ended);
	close(fd);
	return 0;
}

static int work(void *arg)
{
	int e = 0;

	while (e == 0)
		e = serve(arg);
	return e;
}

/* Connect to the server. Return the descriptor, or -1. */
static int connect_to_server(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ? fd : -1;
}

static int ask(void *arg)
{
	char c = 'x';
	int fd;

	(void)arg;
	while (!__atomic_load_n(stop, __ATOMIC_ACQUIRE)) {
		fd = connect_to_server();
		if (fd < 0)
			return 1;
		/* The worker that serves this connection may be killed. */
		if (send(fd, &c, 1, MSG_NOSIGNAL) == 1)
			(void)!read(fd, &c, 1);
		close(fd);
	}
	return 0;
}

static int64_t level(enum percpu_owned_of of)
{
	int64_t v = -1;

	assert_int_equal(percpu_owned_gauge_fetch(in_progress, of, &v), 0);
	return v;
}

static double halves(enum percpu_owned_of of)
{
	double v = -1;

	assert_int_equal(percpu_owned_fgauge_fetch(load, of, &v), 0);
	return v;
}

/* Wait until the living workers are serving n requests. */
static void expect_in_progress(unsigned n)
{
	for (int tries = 0; tries < 10000 && halves(PERCPU_OWNED_LIVING) != 0.5 * n; tries++)
		test_sleep_us(1000);
	assert_true(halves(PERCPU_OWNED_LIVING) == 0.5 * n);
	assert_int_equal(level(PERCPU_OWNED_LIVING), n);
}

static void begin(void)
{
	const struct percpu_histogram_options o = { .size = sizeof(o), .min = 0.25, .max = 4 };
	struct percpu_owners *owners;
	struct percpu_region *region;

	test_may_leave_descriptors(); /* of the server and the region */
	assert_int_equal(percpu_region_open(test_path("prefork"), FLAGS, NULL, &region), 0);
	assert_int_equal(percpu_owners_create_in(region, &owners), 0);
	assert_int_equal(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_SUM, &in_progress), 0);
	assert_int_equal(percpu_owned_fgauge_create_in(owners, PERCPU_OWNED_SUM, &load), 0);
	assert_int_equal(percpu_counter_create_in(region, &requests), 0);
	assert_int_equal(percpu_histogram_create_in(region, &o, &sizes), 0);
	works = test_share(MOST * sizeof(*works));
	stop = test_share(sizeof(*stop));
	server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", test_path("socket"));
	assert_int_equal(bind(server, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(server, 64), 0);
}

/* Compare the counts with what the workers noted. Each killed worker may have counted one more. */
static void expect_totals(void)
{
	struct percpu_histogram_snapshot *s;
	uint64_t begun = 0, counted = 0, ended = 0;

	for (unsigned i = 0; i < MOST; i++) {
		begun += works[i].begun;
		counted += works[i].counted;
		ended += works[i].ended;
	}
	assert_in_range(begun - ended, WORKERS, MOST);
	assert_in_range(percpu_counter_fetch(requests), counted, begun);
	assert_int_equal(percpu_histogram_snapshot_create(sizes, &s), 0);
	assert_int_equal(percpu_histogram_fetch(sizes, 0, s), 0);
	assert_in_range(s->count, counted, percpu_counter_fetch(requests));
	assert_true(s->sum == 0.5 * (double)s->count);
	percpu_histogram_snapshot_destroy(s);
	/* Killed workers have left their shares of the gauge. */
	assert_in_range(level(PERCPU_OWNED_ALL), WORKERS, begun - ended);
	assert_true(halves(PERCPU_OWNED_ALL) >= 0.5 * WORKERS &&
		    halves(PERCPU_OWNED_ALL) <= 0.5 * (double)(begun - ended));
}

static void end_one(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

static void killed_workers_take_their_requests_along(void **state)
{
	pid_t worker[WORKERS], client[CLIENTS];
	unsigned used = 0;
	uint64_t random = 11;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("the kernel does not take over locks of the killed");
	begin();
	for (unsigned i = 0; i < WORKERS; i++)
		worker[i] = test_fork(work, &works[used++]);
	for (unsigned i = 0; i < CLIENTS; i++)
		client[i] = test_fork(ask, NULL);
	while (used < MOST) {
		const unsigned i = (unsigned)(test_random(&random) % WORKERS);

		test_sleep_us((unsigned)(test_random(&random) % 3000));
		end_one(worker[i]);
		assert_in_range(level(PERCPU_OWNED_LIVING), 0, WORKERS);
		assert_true(halves(PERCPU_OWNED_LIVING) >= 0);
		worker[i] = test_fork(work, &works[used++]);
	}
	__atomic_store_n(stop, 1, __ATOMIC_RELEASE);
	for (unsigned i = 0; i < CLIENTS; i++)
		assert_int_equal(test_wait(client[i], 60), 0);
	expect_in_progress(0);
	for (unsigned i = 0; i < WORKERS; i++)
		assert_int_not_equal(connect_to_server(), -1); /* and send nothing */
	expect_in_progress(WORKERS);
	for (unsigned i = WORKERS; i-- > 0;) {
		end_one(worker[i]);
		assert_int_equal(level(PERCPU_OWNED_LIVING), i);
		assert_true(halves(PERCPU_OWNED_LIVING) == 0.5 * i);
	}
	expect_totals();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(killed_workers_take_their_requests_along),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_two_at_once.c - two threads or processes do the same to an object. One acts between a load
 * and a store of the other one, which begins again: nothing is done twice, or lost.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/grace.h>
#include <percpu/lwbuf.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>

#include "support.h"
#include "../happen.h"

#include "caches/lwbuf.h"
#include "rings/rings.h"

#define OWNERS (PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_OWNERS)
#define PAGE ((uint64_t)sysconf(_SC_PAGESIZE))

static struct percpu_region *region;
static struct percpu_owners *owners;

static int open_owners(void **state)
{
	(void)state;
	test_tier();
	return percpu_region_open(test_path("contended"), OWNERS, NULL, &region) ||
	       percpu_owners_create_in(region, &owners);
}

static int close_owners(void **state)
{
	percpu_owners_detach(owners);
	percpu_region_close(region);
	return test_remove_paths(state);
}

static struct percpu_approx *approx;
static int64_t taken;

static void take_sum(void)
{
	taken += percpu_approx_fetch_zero(approx);
}

static void sums_are_taken_once(void **state)
{
	const struct percpu_approx_options o = { .size = sizeof(o) };
	int64_t first;

	(void)state;
	assert_int_equal(percpu_approx_create(&o, &approx), 0);
	percpu_approx_add(approx, 100);
	let_happen(take_sum, "approx: to be subtracted", 1);
	first = percpu_approx_fetch_zero(approx);
	assert_null(at_step);
	assert_int_equal(taken, 100);
	assert_int_equal(first, 0);
	assert_int_equal(percpu_approx_fetch(approx), 0);
	percpu_approx_destroy(approx);
}

static struct percpu_owned_gauge *recent;

static void set_more_recent(void)
{
	assert_int_equal(percpu_owned_gauge_set(recent, 2), 0);
}

static void the_most_recent_value_stays(void **state)
{
	int64_t v = 0;

	(void)state;
	assert_int_equal(percpu_owned_gauge_create_in(owners, PERCPU_OWNED_RECENT, &recent), 0);
	assert_int_equal(percpu_owned_gauge_set(recent, 7), 0);
	let_happen(set_more_recent, "owned: value to be set", 1);
	assert_int_equal(percpu_owned_gauge_set(recent, 1), 0);
	assert_null(at_step);
	assert_int_equal(percpu_owned_gauge_fetch(recent, PERCPU_OWNED_ALL, &v), 0);
	assert_int_equal(v, 2);
	percpu_owned_gauge_destroy(recent);
}

/* Two handles of a process share one account: one makes it, and the other one finds it. */
static void handles_have_one_account(void **state)
{
	struct percpu_owned_fgauge *one, *two;
	double v = 0;

	(void)state;
	assert_int_equal(percpu_owned_fgauge_create_in(owners, PERCPU_OWNED_SUM, &one), 0);
	assert_int_equal(percpu_owned_fgauge_attach(owners, percpu_owned_fgauge_key(one), &two), 0);
	assert_int_equal(percpu_owned_fgauge_add(one, 1.5), 0);
	assert_int_equal(percpu_owned_fgauge_add(two, 2), 0);
	assert_int_equal(percpu_owned_fgauge_fetch(one, PERCPU_OWNED_ALL, &v), 0);
	assert_true(v == 3.5);
	percpu_owned_fgauge_detach(two);
	percpu_owned_fgauge_destroy(one);
}

static struct percpu_ring_control anchored;

static void store_ticks(void)
{
	anchored.ticks = 1;
}

static void store_moment(void)
{
	anchored.ns = 1;
}

/* If another thread changes an anchor while it is stored, it is stored again, a limited number of
 * times. */
static void anchors_are_of_one_moment(void **state)
{
	static void (*const stores[])(void) = { store_ticks, store_moment };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		memset(&anchored, 0, sizeof(anchored));
		let_happen(stores[i], "ring: moment stored", 1);
		percpu_ring_note_moment(&anchored);
		assert_null(at_step);
		assert_true(anchored.ticks != 1 && anchored.ns != 1);
		let_happen(stores[i], "ring: moment stored", 1000000);
		percpu_ring_note_moment(&anchored);
		at_step = NULL;
		assert_true((i == 0 ? anchored.ticks : anchored.ns) == 1);
		assert_int_equal(anchored.boot, percpu_boot_id());
	}
}

static void leave(void)
{
	percpu_owners_leave(owners);
}

/* A thread that locks has joined the owners, even if another one leaves meanwhile. */
static void who_left_joins_again(void **state)
{
	struct percpu_rwlock *l;

	(void)state;
	assert_int_equal(percpu_rwlock_create_in(owners, 0, &l), 0);
	let_happen(leave, "rwlock: a reader joined", 1);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	assert_null(at_step);
	assert_true(percpu_owners_self(owners) != 0);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	leave();
	let_happen(leave, "rwlock: a writer joined", 1);
	assert_int_equal(percpu_rwlock_write_lock(l), 0);
	assert_null(at_step);
	assert_true(percpu_owners_self(owners) != 0);
	assert_int_equal(percpu_rwlock_read_trylock(l), -EBUSY);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
}

static int open_pages(size_t pages)
{
	int fd = memfd_create("contended", MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)(pages * PAGE)), 0);
	return fd;
}

static struct percpu_lwbufs *pages;
static struct percpu_lwbuf buffer;

static void alloc_page(void)
{
	assert_int_equal(percpu_lwbuf_alloc(pages, 0, 0, &buffer), 0);
}

static void make_pages(size_t n)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.max_excess = 64,
						.backend = PERCPU_LWBUF_WINDOW,
						.flags = PERCPU_LWBUF_KEEPS_SIZE };
	int fd = open_pages(n);

	assert_int_equal(percpu_lwbuf_create(fd, &o, &pages), 0);
	close(fd);
}

static bool is_readable(const char *kva)
{
	const int fd = memfd_create("contended", 0);
	const bool readable = fd >= 0 && write(fd, kva, 1) == 1;

	close(fd);
	return readable;
}

static void alloc_page_at_last(void)
{
	if (times == 0)
		alloc_page();
}

/* A window that comes into use while unused ones are unmapped stays mapped. This happens at each
 * place of the table in turn, one of which is the window's own. */
static void windows_in_use_stay(void **state)
{
	struct percpu_lwbuf_stats s = { .used = 0 };
	bool taken = true;

	(void)state;
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned place = 1; taken; place++) {
		make_pages(4);
		assert_int_equal(percpu_lwbuf_set_max_excess(pages, 2), 0);
		for (uint64_t page = 0; page < 2; page++) {
			assert_int_equal(percpu_lwbuf_alloc(pages, page, 0, &buffer), 0);
			assert_int_equal(percpu_lwbuf_free(pages, &buffer), 0);
		}
		let_happen(alloc_page_at_last, "lwbuf: to be drained", place);
		assert_int_equal(percpu_lwbuf_set_max_excess(pages, 1), 0);
		taken = times == 0;
		at_step = NULL;
		if (taken) {
			assert_true(is_readable(buffer.kva));
			percpu_lwbuf_stats(pages, &s);
			assert_int_equal(s.used, 1);
			assert_int_equal(percpu_lwbuf_free(pages, &buffer), 0);
		}
		assert_int_equal(percpu_lwbuf_destroy(pages), 0);
	}
	assert_int_equal(s.used, 1);
	test_unpin(0);
}

/* A set of the table has too few places for all pages: the window that was freed first is
 * replaced. */
static void the_oldest_window_gives_its_place(void **state)
{
	uint64_t page[PERCPU_WINDOW_WAYS + 1];
	struct percpu_lwbuf_stats s = { .used = 0 };
	struct percpu_lwbuf b;
	size_t n = 0;

	(void)state;
	make_pages(65536);
	assert_true(test_pin(0, test_cpu(0)));
	for (uint64_t p = 0; n < PERCPU_WINDOW_WAYS + 1 && p < 65536; p++)
		if (percpu_window_set(pages, p) == percpu_window_set(pages, 0))
			page[n++] = p;
	assert_int_equal(n, PERCPU_WINDOW_WAYS + 1);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(percpu_lwbuf_alloc(pages, page[i], 0, &b), 0);
		assert_int_equal(percpu_lwbuf_free(pages, &b), 0);
	}
	for (size_t i = n; i-- > 0;) {
		assert_int_equal(percpu_lwbuf_alloc(pages, page[i], 0, &b), 0);
		assert_int_equal(b.page, page[i]);
		assert_int_equal(*(volatile char *)b.kva, 0);
		assert_int_equal(percpu_lwbuf_free(pages, &b), 0);
	}
	percpu_lwbuf_stats(pages, &s);
	assert_int_equal(s.used, 0);
	test_unpin(0);
	assert_int_equal(percpu_lwbuf_destroy(pages), 0);
}

static struct percpu_sfbuf *shared;

static void free_one(void)
{
	assert_int_equal(percpu_sfbuf_free(pages, shared), 0);
}

static int free_inherited(void *arg)
{
	(void)arg;
	let_happen(free_one, "sfbuf: inherited reference given", 1);
	free_one();
	test_child_require(at_step == NULL, "the other reference was given");
	test_child_require(percpu_sfbuf_ref(pages, shared) == 0, "the last one is there");
	free_one();
	free_one();
	test_child_require(percpu_sfbuf_ref(pages, shared) == -EINVAL, "none is there");
	return 0;
}

/* Two threads of a child give back references that it inherited from its parent. */
static void inherited_references_are_given_once(void **state)
{
	(void)state;
	make_pages(4);
	assert_int_equal(percpu_sfbuf_alloc(pages, 0, 0, &shared), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(percpu_sfbuf_ref(pages, shared), 0);
	test_in_child(free_inherited, NULL);
	for (int i = 0; i < 3; i++)
		free_one();
	assert_int_equal(percpu_lwbuf_destroy(pages), 0);
}

static struct percpu_grace *grace;
static uint64_t cookie;
static unsigned asked;

static void poll_too(void)
{
	asked++;
	assert_int_equal(percpu_grace_poll(grace, cookie), 0);
}

/* Two threads look whether a period is over: one of them asks which owners have died. */
static void one_asks_who_lives(void **state)
{
	int token;

	(void)state;
	assert_int_equal(percpu_grace_create_in(owners, 0, &grace), 0);
	token = percpu_grace_enter(grace);
	assert_true(token >= 0);
	cookie = percpu_grace_start(grace);
	let_happen(poll_too, "grace: to ask who lives", 1);
	for (unsigned i = 0; i < 5000 && asked == 0; i++) {
		assert_int_equal(percpu_grace_poll(grace, cookie), 0);
		test_sleep_us(1000);
	}
	assert_int_equal(asked, 1);
	assert_int_equal(percpu_grace_exit(grace, token), 0);
	assert_int_equal(percpu_grace_wait(grace), 0);
	assert_int_equal(percpu_grace_poll(grace, cookie), 1);
	assert_int_equal(percpu_grace_destroy(grace), 0);
}

static void wait_too(void)
{
	assert_int_equal(percpu_grace_wait(grace), 0);
}

/* Two threads have fenced the same period: only one of them notes it. */
static void one_notes_the_fence(void **state)
{
	(void)state;
	assert_int_equal(percpu_grace_create(0, &grace), 0);
	let_happen(wait_too, "grace: fence to be noted", 1);
	assert_int_equal(percpu_grace_wait(grace), 0);
	assert_null(at_step);
	assert_int_equal(percpu_grace_wait(grace), 0);
	assert_int_equal(percpu_grace_destroy(grace), 0);
}

static struct percpu_rwlock *other_handle;

/* If a process leaves the owners amid an unlock by another handle, it has no lock any more, and
 * the unlock fails. */
static void who_left_adopts_nothing(void **state)
{
	struct percpu_rwlock *l;

	(void)state;
	assert_int_equal(percpu_rwlock_create_in(owners, 0, &l), 0);
	assert_int_equal(percpu_rwlock_attach(owners, percpu_rwlock_key(l), 0, &other_handle), 0);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	let_happen(leave, "participant: to be adopted", 1);
	assert_int_equal(percpu_rwlock_read_unlock(other_handle), -EPERM);
	assert_null(at_step);
	assert_int_equal(percpu_rwlock_write_trylock(l), -EOWNERDEAD);
	assert_int_equal(percpu_rwlock_consistent(l), 0);
	assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	assert_int_equal(percpu_rwlock_detach(other_handle), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
}

static pid_t reader;

static void end_reader(void)
{
	kill(reader, SIGKILL);
	(void)test_wait(reader, 20);
}

static int read_and_stop(void *arg)
{
	uint32_t *there = arg;

	test_child_require(percpu_grace_enter(grace) >= 0, "it is in a section");
	__atomic_store_n(there, 1, __ATOMIC_RELEASE);
	pause();
	return 0;
}

/* A process that ends while its state is read from /proc does not count as stopped. */
static void the_dead_are_not_stopped(void **state)
{
	uint32_t *there = test_share(sizeof(*there));
	struct percpu_grace_blocker b = { .stopped = 7 };
	size_t n;

	(void)state;
	assert_int_equal(percpu_grace_create_in(owners, 0, &grace), 0);
	reader = test_fork(read_and_stop, there);
	while (__atomic_load_n(there, __ATOMIC_ACQUIRE) == 0)
		test_sleep_us(200);
	let_happen(end_reader, "participant: state to be read", 1);
	n = percpu_grace_blockers(grace, &b, 1);
	assert_null(at_step);
	assert_int_equal(n, 1);
	assert_int_equal(b.pid, reader);
	assert_int_equal(b.stopped, 0);
	assert_int_equal(percpu_grace_destroy(grace), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_taken_once),
		cmocka_unit_test(the_most_recent_value_stays),
		cmocka_unit_test(handles_have_one_account),
		cmocka_unit_test(anchors_are_of_one_moment),
		cmocka_unit_test(who_left_joins_again),
		cmocka_unit_test(windows_in_use_stay),
		cmocka_unit_test(the_oldest_window_gives_its_place),
		cmocka_unit_test(inherited_references_are_given_once),
		cmocka_unit_test(one_asks_who_lives),
		cmocka_unit_test(one_notes_the_fence),
		cmocka_unit_test(who_left_adopts_nothing),
		cmocka_unit_test(the_dead_are_not_stopped),
	};

	return cmocka_run_group_tests(tests, open_owners, close_owners);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_cancel.c - a thread that is canceled while threads of the library use its stack, or while
 * it finds out the tier, completes the call. So does one whose cancellation is asynchronous.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <percpu/fence.h>
#include <percpu/grace.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/ref.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/xio.h>
#include <percpu/zone.h>

#include "declared.h"
#include "support.h"
#include "hold.h"

#define SECOND UINT64_C(1000000000)

bool test_of_first_use = true;

struct canceled {
	void (*fn)(struct canceled *c);
	struct percpu_zone *zone;
	void *item;
	int result;
	uint32_t ran;	   /* atomic: on how many CPUs */
	uint32_t returned; /* the call has returned */
	uint32_t inside;   /* atomic */
};

static void *run_canceled(void *arg)
{
	struct canceled *c = arg;

	__atomic_store_n(&c->inside, 1, __ATOMIC_SEQ_CST);
	c->fn(c);
	c->returned = 1;
	pthread_testcancel();
	return NULL;
}

static void call_status(struct canceled *c)
{
	pthread_cancel(pthread_self());
	c->result = percpu_status() == NULL;
}

static void call_fence_all(struct canceled *c)
{
	c->result = percpu_fence_all(10 * SECOND, NULL);
}

static void call_selftest(struct canceled *c)
{
	enum percpu_selftest r = percpu_selftest();

	c->result = r != PERCPU_SELFTEST_PASSED && r != PERCPU_SELFTEST_SKIPPED;
}

static void note_run(void *copy, unsigned cpu, void *arg)
{
	struct canceled *c = arg;

	(void)copy;
	(void)cpu;
	__atomic_fetch_add(&c->ran, 1, __ATOMIC_SEQ_CST);
}

static void call_zone_run(struct canceled *c)
{
	c->result = percpu_zone_run(c->zone, c->item, note_run, c, 10 * SECOND, NULL);
}

/* A call is canceled while it waits for a thread that is held back. It returns as usual, and the
 * thread ends at its own next cancellation point. */
static int cancel_in(void *arg)
{
	struct canceled *c = arg;
	pthread_t thread;
	void *end;

	hold_threads(c->fn != call_status);
	test_child_require(pthread_create(&thread, NULL, run_canceled, c) == 0, "a thread");
	if (c->fn != call_status) {
		wait_until_held(c->fn == call_selftest ? 2 : 1);
		pthread_cancel(thread);
		test_sleep_us(2000);
		hold_threads(false);
	}
	test_child_require(pthread_join(thread, &end) == 0, "it ends");
	test_child_require(c->returned == 1, "the call has returned");
	test_child_require(c->result == 0 || c->result == -EPERM, "as it should");
	test_child_require(end == PTHREAD_CANCELED, "canceled after that");
	return 0;
}

static int cancel_in_status(void *arg)
{
	struct canceled c = { .fn = call_status };

	(void)arg;
	return cancel_in(&c);
}

static int cancel_in_selftest(void *arg)
{
	struct canceled c = { .fn = call_selftest };

	(void)arg;
	return cancel_in(&c);
}

static int cancel_in_visits(void *arg)
{
	struct canceled c = { .fn = call_fence_all };
	struct canceled run = { .fn = call_zone_run };

	(void)arg;
	(void)test_tier();
	test_child_require(percpu_zone_create("run", 8, NULL, &run.zone) == 0 &&
				   percpu_zone_alloc(run.zone, 0, &run.item) == 0,
			   "an item");
	cancel_in(&c);
	cancel_in(&run);
	test_child_require(run.ran > 0, "it ran");
	return 0;
}

static void *close_region(void *arg)
{
	bool *closed = arg;
	struct percpu_region *r;

	assert_int_equal(percpu_region_open(test_path("closed"),
					    PERCPU_REGION_WRITE | PERCPU_REGION_CREATE |
						    PERCPU_REGION_OWNERS,
					    NULL, &r),
			 0);
	pthread_cancel(pthread_self());
	percpu_region_close(r);
	*closed = true;
	pthread_testcancel();
	return NULL;
}

/* A region that keeps a descriptor is unmapped, too. */
static void regions_are_closed_as_a_whole(void **state)
{
	bool closed = false;
	pthread_t thread;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, close_region, &closed), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_true(closed);
	assert_ptr_equal(end, PTHREAD_CANCELED);
}

/* Calls that open, read or close files, with a cancellation pending from before. Each completes,
 * and leaves nothing else. */

static struct {
	int fd; /* of a segment, open to write */
	struct percpu_region *region;
	struct percpu_segment *segment, *kept;
	struct percpu_reader *reader, *source;
	struct percpu_family *family;
	struct percpu_counter *counter;
	struct percpu_owned_gauge *gauge;
} file;

static int region_by_name(void)
{
	return percpu_region_open(test_path("file"), PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS,
				  NULL, &file.region);
}

static int region_by_number(void)
{
	return percpu_region_open_fd(file.fd, PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS, NULL,
				     &file.region);
}

static int region_made(void)
{
	return test_region_new(test_path("made"), NULL, &file.region);
}

static int segment_by_name(void)
{
	return percpu_segment_open(test_path("file"), 0, NULL, &file.segment);
}

static int segment_by_number(void)
{
	return percpu_segment_open_fd(file.fd, 0, NULL, &file.segment);
}

static int segment_anew(void)
{
	return percpu_segment_open(test_path("file"), PERCPU_SEGMENT_ANEW, NULL, &file.segment);
}

static int segment_made(void)
{
	return percpu_segment_open(test_path("made"), PERCPU_SEGMENT_CREATE, NULL, &file.segment);
}

static int metric_declared(void)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "m_total" };

	return percpu_segment_counter(file.kept, &m, &file.counter);
}

static int family_declared(void)
{
	static const char *const labels[] = { "a" };
	const struct percpu_metric m = {
		.size = sizeof(m), .name = "f_total", .label_names = labels, .labels = 1
	};
	const struct percpu_declaration d = { .size = sizeof(d),
					      OF_METRIC(m),
					      .kind = PERCPU_METRIC_COUNTER };

	return family_with_cap(file.kept, &d, 3, &file.family);
}

static int series_removed(void)
{
	static const char *const x[] = { "x" };
	int e = percpu_family_counter(file.family, x, &file.counter);

	return e != 0 ? e : percpu_family_remove(file.family, x);
}

static int series_revived(void)
{
	static const char *const x[] = { "x" };

	return percpu_family_add(file.family, x, 1);
}

static int gauge_declared(void)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = "owned" };
	const int e = percpu_segment_owned_gauge(file.kept, &m, PERCPU_OWNED_SUM, &file.gauge);

	return e == -ENOTSUP ? 0 : e; /* this machine has none */
}

static int reader_by_name(void)
{
	return percpu_reader_open(test_path("file"), &file.reader);
}

static int reader_by_number(void)
{
	return percpu_reader_open_fd(file.fd, &file.reader);
}

static int picture_taken(void)
{
	return percpu_reader_read(file.source);
}

static int cpus_read(void)
{
	double out[1];

	return percpu_reader_cpus(file.source, 0, out, 1);
}

static int reader_consistent(void)
{
	int e = percpu_reader_open(test_path("file"), &file.reader);

	return e != 0 ? e : percpu_reader_set_consistent(file.reader);
}

/* Of a file of windows, and of one of bounce buffers. */
static int pages_used(void)
{
	static const enum percpu_lwbuf_backend backends[] = { PERCPU_LWBUF_WINDOW,
							      PERCPU_LWBUF_BOUNCE };
	struct percpu_lwbuf_options o = { .size = sizeof(o),
					  .flags =
						  PERCPU_LWBUF_WRITABLE | PERCPU_LWBUF_KEEPS_SIZE };
	struct percpu_lwbufs *f;
	struct percpu_sfbuf *s;
	struct percpu_lwbuf b;
	struct percpu_xio x;
	char bytes[10];
	int e = 0;

	for (unsigned i = 0; i < 2 && e == 0; i++) {
		o.backend = backends[i];
		e = percpu_lwbuf_create(file.fd, &o, &f);
		if (e != 0)
			return e;
		e = percpu_lwbuf_alloc(f, 0, PERCPU_LWBUF_WRITE, &b);
		e = e != 0 ? e : percpu_lwbuf_free(f, &b);
		e = e != 0 ? e : percpu_sfbuf_alloc(f, 0, PERCPU_SFBUF_WRITE, &s);
		e = e != 0 ? e : percpu_sfbuf_free(f, s);
		e = e != 0 ? e : percpu_xio_init(&x, f, 0, sizeof(bytes));
		e = e != 0 ? e : percpu_xio_copy_out(&x, 0, bytes, sizeof(bytes));
		e = e != 0 ? e : percpu_xio_copy_in(&x, 0, bytes, sizeof(bytes));
		e = e != 0 ? e : percpu_lwbuf_reclaim(f);
		e = e != 0 ? e : percpu_lwbuf_destroy(f);
	}
	return e;
}

static void close_opened(void)
{
	percpu_region_close(file.region);
	percpu_segment_close(file.segment);
	percpu_reader_close(file.reader);
	file.region = NULL;
	file.segment = NULL;
	file.reader = NULL;
}

static int close_each(void)
{
	int e = region_by_name();

	e = e != 0 ? e : segment_by_name();
	e = e != 0 ? e : reader_consistent();
	close_opened();
	return e;
}

struct on_file {
	const char *name;
	int (*fn)(void);
};

static void call_on_file(struct canceled *c)
{
	const struct on_file *call = c->item;

	pthread_cancel(pthread_self());
	c->result = call->fn();
}

static void be_canceled_after(const struct on_file *call)
{
	struct canceled c = { .fn = call_on_file, .item = (void *)call };
	pthread_t thread;
	void *end;

	assert_int_equal(pthread_create(&thread, NULL, run_canceled, &c), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	if (c.returned == 0)
		fail_msg("%s: canceled amid the call", call->name);
	if (c.result != 0)
		fail_msg("%s: %d", call->name, c.result);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	close_opened();
	(void)unlink(test_path("made"));
}

static void calls_on_files_are_not_canceled(void **state)
{
	static const struct on_file calls[] = {
		{ "a region by its name", region_by_name },
		{ "a region by number", region_by_number },
		{ "a region that is made", region_made },
		{ "a segment by its name", segment_by_name },
		{ "a segment by number", segment_by_number },
		{ "a segment that starts anew", segment_anew },
		{ "a segment that is made", segment_made },
		{ "a metric", metric_declared },
		{ "a family", family_declared },
		{ "a removal", series_removed },
		{ "a series found again", series_revived },
		{ "a gauge that processes own", gauge_declared },
		{ "a reader by its name", reader_by_name },
		{ "a reader by number", reader_by_number },
		{ "a picture", picture_taken },
		{ "CPUs of a picture", cpus_read },
		{ "a reader that is consistent", reader_consistent },
		{ "pages", pages_used },
		{ "close", close_each },
	};
	struct test_holding before;

	(void)state;
	assert_int_equal(
		percpu_segment_open(test_path("file"), PERCPU_SEGMENT_CREATE, NULL, &file.kept), 0);
	file.fd = open(test_path("file"), O_RDWR | O_CLOEXEC);
	assert_true(file.fd >= 0);
	assert_int_equal(percpu_reader_open_fd(file.fd, &file.source), 0);
	for (int round = 0; round < 2; round++)
		for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
			before = test_holding_now();
			be_canceled_after(&calls[i]);
			if (round != 0) /* what is made once exists by now */
				test_assert_holding(before);
		}
	percpu_reader_close(file.source);
	percpu_segment_close(file.kept);
	assert_int_equal(close(file.fd), 0);
}

/* A call that fails leaves the thread cancelable, and with its signals. */

static struct {
	struct percpu_objcache *cache;
	struct percpu_zone *zone;
	struct percpu_lwbufs *pages;
	struct percpu_lwbuf page;
	struct percpu_grace *grace;
	struct percpu_rwlock *lock;
	struct percpu_ref *ref;
	struct percpu_extrema *extrema;
	struct percpu_stats *stats;
	struct percpu_region *region, *reader;
	struct percpu_owners *owners, *seen;
	struct percpu_owned_gauge *gauge;
} in_use;

static void *item_in_use, *object_in_use;
static int token;

static int get_object(void)
{
	void *obj;

	return percpu_objcache_get(in_use.cache, 0, &obj);
}

static int destroy_cache(void)
{
	return percpu_objcache_destroy(in_use.cache);
}

static int alloc_item(void)
{
	void *item;

	return percpu_zone_alloc(in_use.zone, 0, &item);
}

static int free_no_item(void)
{
	return percpu_zone_free(in_use.zone, &in_use);
}

static int destroy_zone(void)
{
	return percpu_zone_destroy(in_use.zone);
}

static int page_beyond(void)
{
	struct percpu_lwbuf b;

	return percpu_lwbuf_alloc(in_use.pages, 100, 0, &b);
}

static int shared_page_beyond(void)
{
	struct percpu_sfbuf *sf;

	return percpu_sfbuf_alloc(in_use.pages, 100, 0, &sf);
}

static int free_no_page(void)
{
	struct percpu_lwbuf b = { .page = 0 };

	return percpu_lwbuf_free(in_use.pages, &b);
}

static int destroy_pages(void)
{
	return percpu_lwbuf_destroy(in_use.pages);
}

static int pages_of_nothing(void)
{
	struct percpu_lwbufs *f;

	return percpu_lwbuf_create(-1, NULL, &f);
}

static int destroy_grace(void)
{
	return percpu_grace_destroy(in_use.grace);
}

static int wait_for_grace(void)
{
	return percpu_grace_wait_timed(in_use.grace, 0);
}

static int destroy_lock(void)
{
	return percpu_rwlock_destroy(in_use.lock);
}

static int try_to_write(void)
{
	return percpu_rwlock_write_trylock(in_use.lock);
}

static int try_to_write_for_long(void)
{
	return percpu_rwlock_write_timedlock(in_use.lock, 1000);
}

static int unlock_unwritten(void)
{
	return percpu_rwlock_write_unlock(in_use.lock);
}

static int destroy_ref(void)
{
	return percpu_ref_destroy(in_use.ref);
}

static int reset_nothing(void)
{
	int64_t min;

	return percpu_extrema_fetch_reset(in_use.extrema, &min, NULL);
}

static int snapshot_beyond(void)
{
	uint64_t n[3];

	return percpu_stats_snapshot(in_use.stats, 7, 1, n);
}

static int open_no_region(void)
{
	struct percpu_region *r;

	return percpu_region_open(test_path("none"), PERCPU_REGION_WRITE, NULL, &r);
}

static int open_other_lanes(void)
{
	const struct percpu_region_options o = { .size = sizeof(o), .lane_size = 2 << 20 };
	struct percpu_region *r;

	return test_region_new(test_path("in-use"), &o, &r);
}

static int open_no_reader(void)
{
	struct percpu_reader *r;

	return percpu_reader_open(test_path("none"), &r);
}

static int open_no_segment(void)
{
	struct percpu_segment *s;

	return percpu_segment_open(test_path("none"), 0, NULL, &s);
}

static int join_as_reader(void)
{
	return percpu_owners_join(in_use.seen);
}

static int owners_of_no_file(void)
{
	struct percpu_owners *o;
	struct percpu_region *r;
	int e = percpu_region_create(NULL, &r);

	if (e == 0) {
		e = percpu_owners_create_in(r, &o);
		percpu_region_close(r);
	}
	return e;
}

static int fetch_no_share(void)
{
	int64_t n;

	return percpu_owned_gauge_fetch(in_use.gauge, PERCPU_OWNED_ALL, &n);
}

static void release_nothing(struct percpu_ref *ref, void *arg)
{
	(void)ref, (void)arg;
}

static void make_all_in_use(void)
{
	const unsigned flags = PERCPU_REGION_OWNERS;
	struct percpu_objcache_options c = { .size = sizeof(c), .limit = 1 };
	struct percpu_zone_options z = { .size = sizeof(z), .limit = 1 };
	int fd = memfd_create("in use", MFD_CLOEXEC);

	assert_int_equal(percpu_objcache_create("in use", 8, &c, &in_use.cache), 0);
	assert_int_equal(percpu_objcache_get(in_use.cache, 0, &object_in_use), 0);
	assert_int_equal(percpu_zone_create("in use", 8, &z, &in_use.zone), 0);
	assert_int_equal(percpu_zone_alloc(in_use.zone, 0, &item_in_use), 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	assert_int_equal(percpu_lwbuf_create(fd, NULL, &in_use.pages), 0);
	close(fd);
	assert_int_equal(percpu_lwbuf_alloc(in_use.pages, 0, 0, &in_use.page), 0);
	assert_int_equal(percpu_grace_create(0, &in_use.grace), 0);
	token = percpu_grace_enter(in_use.grace);
	assert_true(token >= 0);
	assert_int_equal(percpu_rwlock_create(0, &in_use.lock), 0);
	assert_int_equal(percpu_rwlock_read_lock(in_use.lock), 0);
	assert_int_equal(percpu_ref_create(release_nothing, NULL, 0, &in_use.ref), 0);
	assert_int_equal(percpu_extrema_create(0, &in_use.extrema), 0);
	assert_int_equal(percpu_stats_create(24, 2, 0, &in_use.stats), 0);
	assert_int_equal(percpu_region_open(test_path("in-use"),
					    flags | PERCPU_REGION_WRITE | PERCPU_REGION_CREATE,
					    NULL, &in_use.region),
			 0);
	assert_int_equal(percpu_owners_open(in_use.region, 0, &in_use.owners), 0);
	assert_int_equal(
		percpu_owned_gauge_create_in(in_use.owners, PERCPU_OWNED_MAX, &in_use.gauge), 0);
	assert_int_equal(percpu_region_open(test_path("in-use"), flags, NULL, &in_use.reader), 0);
	assert_int_equal(percpu_owners_open(in_use.reader, 0, &in_use.seen), 0);
}

static void free_all_in_use(void)
{
	percpu_owners_detach(in_use.seen);
	percpu_region_close(in_use.reader);
	percpu_owned_gauge_destroy(in_use.gauge);
	percpu_owners_destroy(in_use.owners);
	percpu_region_close(in_use.region);
	percpu_stats_destroy(in_use.stats);
	percpu_extrema_destroy(in_use.extrema);
	assert_int_equal(percpu_ref_kill(in_use.ref), 0);
	assert_int_equal(percpu_ref_destroy(in_use.ref), 0);
	assert_int_equal(percpu_rwlock_read_unlock(in_use.lock), 0);
	assert_int_equal(percpu_rwlock_destroy(in_use.lock), 0);
	assert_int_equal(percpu_grace_exit(in_use.grace, token), 0);
	assert_int_equal(percpu_grace_destroy(in_use.grace), 0);
	assert_int_equal(percpu_lwbuf_free(in_use.pages, &in_use.page), 0);
	assert_int_equal(percpu_lwbuf_destroy(in_use.pages), 0);
	assert_int_equal(percpu_zone_free(in_use.zone, item_in_use), 0);
	assert_int_equal(percpu_zone_destroy(in_use.zone), 0);
	percpu_objcache_put(in_use.cache, object_in_use);
	assert_int_equal(percpu_objcache_destroy(in_use.cache), 0);
}

static void refusals_leave_the_thread_as_it_was(void **state)
{
	static const struct {
		const char *name;
		int (*fn)(void);
		int error;
	} refused[] = {
		{ "get of an object", get_object, -ENOSPC },
		{ "destroy of a cache", destroy_cache, -EBUSY },
		{ "alloc of an item", alloc_item, -ENOSPC },
		{ "free of no item", free_no_item, -EINVAL },
		{ "destroy of a zone", destroy_zone, -EBUSY },
		{ "page beyond the end", page_beyond, -ERANGE },
		{ "shared page beyond the end", shared_page_beyond, -ERANGE },
		{ "free of no page", free_no_page, -EINVAL },
		{ "destroy of buffers", destroy_pages, -EBUSY },
		{ "buffers of no file", pages_of_nothing, -EBADF },
		{ "destroy of grace periods", destroy_grace, -EBUSY },
		{ "wait for a grace period", wait_for_grace, -ETIMEDOUT },
		{ "destroy of a lock", destroy_lock, -EBUSY },
		{ "try to write", try_to_write, -EBUSY },
		{ "try to write for long", try_to_write_for_long, -ETIMEDOUT },
		{ "unlock of no write", unlock_unwritten, -EPERM },
		{ "destroy of references", destroy_ref, -EBUSY },
		{ "reset of nothing", reset_nothing, -ENODATA },
		{ "snapshot beyond the end", snapshot_beyond, -EINVAL },
		{ "region that is none", open_no_region, -ENOENT },
		{ "region that is there", open_other_lanes, -EEXIST },
		{ "reader of nothing", open_no_reader, -ENOENT },
		{ "segment that is none", open_no_segment, -ENOENT },
		{ "join by a reader", join_as_reader, -EROFS },
		{ "owners of no file", owners_of_no_file, -EINVAL },
		{ "fetch of no share", fetch_no_share, -ENODATA },
	};
	sigset_t before, after;
	int type, cancel, e;

	(void)state;
	make_all_in_use();
	memset(&before, 0, sizeof(before)); /* the kernel sets only a part */
	memset(&after, 0, sizeof(after));
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		e = refused[i].fn();
		pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type);
		pthread_sigmask(SIG_SETMASK, &before, &after);
		if (e != refused[i].error)
			fail_msg("%s: %d", refused[i].name, e);
		if (cancel != PTHREAD_CANCEL_ENABLE || type != PTHREAD_CANCEL_DEFERRED)
			fail_msg("%s: the thread cannot be canceled as before", refused[i].name);
		if (memcmp(&before, &after, sizeof(before)) != 0)
			fail_msg("%s: other signals are blocked", refused[i].name);
	}
	free_all_in_use();
}

#ifdef __GLIBC__
#define SIGNAL_OF_CANCEL 32 /* glibc's own */

static bool requested, destroyed;

/* Request that this thread is canceled, just as the call has deferred that. */
static void request_arrives(void *obj, void *arg)
{
	(void)obj;
	(void)arg;
	requested = true;
	syscall(SYS_tgkill, getpid(), gettid(), SIGNAL_OF_CANCEL);
	destroyed = true;
}

static void *sleep_until_canceled(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static void *reclaim_asynchronously(void *cache)
{
	const uint64_t deadline = test_now() + 10 * SECOND;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	percpu_objcache_reclaim(cache);
	/* The thread is canceled in the call, after that has done its work. */
	while (test_now() < deadline)
		sched_yield();
	return NULL;
}

static void late_requests_are_deferred(void **state)
{
	struct percpu_objcache_options o = { .size = sizeof(o), .dtor = request_arrives };
	struct percpu_objcache *cache;
	pthread_t thread;
	void *obj, *end;

	(void)state;
	/* After the first request, glibc handles the signal. */
	assert_int_equal(pthread_create(&thread, NULL, sleep_until_canceled, NULL), 0);
	assert_int_equal(pthread_cancel(thread), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_int_equal(percpu_objcache_create("late", 8, &o, &cache), 0);
	assert_int_equal(percpu_objcache_get(cache, 0, &obj), 0);
	percpu_objcache_put(cache, obj);
	assert_int_equal(pthread_create(&thread, NULL, reclaim_asynchronously, cache), 0);
	assert_int_equal(pthread_join(thread, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	assert_true(requested);
	assert_true(destroyed);
	assert_int_equal(percpu_objcache_destroy(cache), 0);
}
#else
static void late_requests_are_deferred(void **state)
{
	(void)state;
	test_skip("only glibc tells threads by this signal");
}
#endif

static void first_use_is_not_canceled(void **state)
{
	(void)state;
	test_in_child(cancel_in_status, NULL);
}

static void selftest_is_not_canceled(void **state)
{
	(void)state;
	test_need_sequences();
	test_in_child(cancel_in_selftest, NULL);
}

static void visits_are_not_canceled(void **state)
{
	(void)state;
	test_in_child(cancel_in_visits, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_use_is_not_canceled),
		cmocka_unit_test(selftest_is_not_canceled),
		cmocka_unit_test(visits_are_not_canceled),
		cmocka_unit_test(refusals_leave_the_thread_as_it_was),
		cmocka_unit_test(late_requests_are_deferred),
		cmocka_unit_test(regions_are_closed_as_a_whole),
		cmocka_unit_test(calls_on_files_are_not_canceled),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

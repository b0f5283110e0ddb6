/* SPDX-License-Identifier: MIT */
/* faults_operations.c - see faults_operations.h. */
#define _GNU_SOURCE
#include "faults_operations.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/calls.h>
#include <percpu/compact.h>
#include <percpu/fence.h>
#include <percpu/grace.h>
#include <percpu/local.h>
#include <percpu/lwbuf.h>
#include <percpu/percpu.h>
#include <percpu/ref.h>
#include <percpu/ring.h>
#include <percpu/rwlock.h>
#include <percpu/sfbuf.h>
#include <percpu/wbuf.h>
#include <percpu/xio.h>
#include <percpu/zone.h>

#include "faults.h"
#include "support.h"

#define PORTS 4
#define HALF (PERCPU_LANE_SIZE / 2)
#define LARGE 300000 /* counters, so many that an array has its own region */

static int create_private(void)
{
	struct percpu_region *r = NULL;
	void *cell = NULL;
	int e = percpu_region_create(NULL, &r);

	if (e == 0)
		e = percpu_region_alloc(r, 8, 8, &cell);
	fault_clear();
	assert_true(e == 0 || cell == NULL);
	percpu_region_close(r);
	return e;
}

static int grow(struct percpu_region *r)
{
	void *cells[5] = { NULL };
	int e = 0;

	for (unsigned i = 0; i < 5 && e == 0; i++) {
		e = percpu_region_alloc(r, HALF, 64, &cells[i]);
		if (e != 0)
			assert_null(cells[i]);
	}
	fault_clear();
	for (unsigned i = 0; i < 5; i++)
		assert_int_equal(percpu_region_free(r, cells[i], HALF), 0);
	return e;
}

static int grow_private(void)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_create(NULL, &r);

	if (e == 0)
		e = grow(r);
	fault_clear();
	percpu_region_close(r);
	return e;
}

static int create_file(void)
{
	const char *name = test_path("new");
	struct percpu_region *r = NULL, *reader = NULL;
	int e = test_region_new(name, NULL, &r);

	if (e == 0)
		e = grow(r);
	fault_clear();
	/* Whatever failed, another process can open the region. */
	if (r != NULL) {
		assert_int_equal(percpu_region_open(name, 0, NULL, &reader), 0);
		percpu_region_close(reader);
	}
	percpu_region_close(r);
	assert_int_equal(unlink(name), r != NULL ? 0 : -1);
	return e;
}

static int create_fd(void)
{
	int fd = memfd_create("faults", MFD_CLOEXEC), e;
	struct percpu_region *r = NULL;
	struct stat st;

	e = test_region_new_fd(fd, NULL, &r);
	fault_clear();
	assert_int_equal(fstat(fd, &st), 0);
	if (e != 0)
		assert_int_equal(st.st_size, 0);
	percpu_region_close(r);
	close(fd);
	return e;
}

/* Start like a program that is the first one, or a later one. */
static int start_program(void)
{
	const unsigned create = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	const char *name = test_path("started");
	struct percpu_counter_array *a = NULL;
	struct percpu_region *r = NULL;
	int e = percpu_region_open(name, create, NULL, &r);

	if (e == 0)
		e = percpu_counter_array_open(r, 0, 100, &a);
	fault_clear();
	if (e == 0)
		percpu_counter_array_add(a, 99, 1);
	else
		assert_null(a);
	percpu_counter_array_detach(a);
	percpu_region_close(r);
	assert_int_equal(unlink(name), r != NULL ? 0 : -1);
	return e;
}

static int open_file(unsigned flags)
{
	struct percpu_region *r = NULL;
	int e = percpu_region_open(sweep_path, flags, NULL, &r);

	fault_clear();
	percpu_region_close(r);
	return e;
}

static int open_to_write(void)
{
	return open_file(PERCPU_REGION_WRITE);
}

static int open_to_read(void)
{
	return open_file(0);
}

static int grow_shared(void)
{
	return grow(sweep_region);
}

static int counter(void)
{
	struct percpu_counter *c = NULL;
	int e = percpu_counter_create(&c);

	if (e == 0)
		percpu_counter_add(c, 3);
	fault_clear();
	if (e == 0)
		assert_int_equal(percpu_counter_fetch_zero(c), 3);
	percpu_counter_destroy(c);
	return e;
}

static int array_of(size_t n, struct percpu_region *r)
{
	struct percpu_counter_array *a = NULL;
	int e = r != NULL ? percpu_counter_array_create_in(r, n, &a) :
			    percpu_counter_array_create(n, &a);

	if (e == 0)
		percpu_counter_array_add(a, n - 1, 3);
	fault_clear();
	if (e == 0) {
		assert_int_equal(percpu_counter_array_fetch(a, n - 1), 3);
		percpu_counter_array_zero(a, n - 1);
	}
	percpu_counter_array_destroy(a);
	return e;
}

static int small_array(void)
{
	return array_of(100, NULL);
}

static int large_array(void)
{
	return array_of(LARGE, NULL);
}

static int shared_array(void)
{
	return array_of(100, sweep_region);
}

static int stats_in(struct percpu_region *r, unsigned flags)
{
	const uint64_t one[3] = { 1, 2, 3 };
	struct percpu_stats *s = NULL;
	uint64_t out[3 * PORTS], shown[3 * PORTS];
	int e = r != NULL ? percpu_stats_create_in(r, 24, PORTS, flags, &s) :
			    percpu_stats_create(24, PORTS, flags, &s);

	if (e == 0)
		e = percpu_stats_update(s, 1, 0, one, 2);
	memset(out, 0x55, sizeof(out));
	memcpy(shown, out, sizeof(out));
	if (e == 0)
		e = percpu_stats_snapshot(s, 0, PORTS, out);
	fault_clear();
	if (e == 0) {
		assert_int_equal(out[3], 1);
		assert_int_equal(out[4], 2);
		assert_int_equal(out[5], 0);
	} else if (s != NULL) {
		/* Whatever failed, the next snapshot is whole. */
		assert_int_equal(percpu_stats_fetch_zero(s, 0, PORTS, out), 0);
		assert_true((out[3] == 1 && out[4] == 2) || (out[3] == 0 && out[4] == 0));
	}
	percpu_stats_destroy(s);
	return e;
}

static int private_stats(void)
{
	return stats_in(NULL, 0);
}

static int shared_stats(void)
{
	return stats_in(sweep_region, 0);
}

static int whole_stats(void)
{
	return stats_in(sweep_region, PERCPU_STATS_WHOLE);
}

/* Attach to a group, destroy it, and open another one at a root. */
static int shared_group_in(struct percpu_region *r, struct percpu_stats_group **ret)
{
	struct percpu_stats_group *made, *again;
	int e = percpu_stats_group_create_in(r, 16, 1, PORTS, &made);

	if (e != 0)
		return e;
	e = percpu_stats_group_attach(r, percpu_stats_group_key(made), 16, 1, PORTS, &again);
	if (e == 0)
		percpu_stats_group_detach(again);
	percpu_stats_group_destroy(made);
	return e != 0 ? e : percpu_stats_group_open(r, 7, 16, 1, PORTS, ret);
}

static int group_in(struct percpu_region *r)
{
	const uint64_t one[2] = { 1, 2 };
	struct percpu_stats_group *g = NULL;
	uint64_t out[2 * PORTS], ns;
	size_t flow = 0;
	int e = r != NULL ? shared_group_in(r, &g) : percpu_stats_group_create(16, 1, PORTS, &g);

	if (e == 0)
		e = percpu_stats_group_alloc(g, &flow);
	if (e == 0)
		e = percpu_stats_group_update_both(g, flow, one, 0, one, 2);
	if (e == 0)
		e = percpu_stats_group_update_slow(g, flow, one, 0, one, 2);
	if (e == 0)
		e = percpu_stats_group_update_call(g, flow, one, 2);
	memset(out, 0x55, sizeof(out));
	if (e == 0)
		e = percpu_stats_group_snapshot(g, 0, PORTS, out, &ns);
	if (e == 0)
		e = percpu_stats_group_free(g, flow, 0);
	fault_clear();
	if (e == 0) {
		assert_int_equal(out[2 * flow + 1], 6);
		assert_int_equal(percpu_stats_group_fetch(g, 0, PORTS, out), 0);
		assert_int_equal(out[1], 10); /* the total has its own and the flow's */
	} else if (g != NULL) {
		/* Whatever failed, the next snapshot is whole. */
		assert_int_equal(percpu_stats_group_fetch_zero(g, 0, PORTS, out, &ns), 0);
		assert_int_equal(out[1], 2 * out[0]);
		assert_int_equal(out[2 * flow + 1], 2 * out[2 * flow]);
	}
	if (r != NULL && g != NULL)
		assert_int_equal(percpu_region_set_root(r, 7, percpu_stats_group_key(g), 0), 0);
	percpu_stats_group_destroy(g);
	return e;
}

static int private_group(void)
{
	return group_in(NULL);
}

static int shared_group(void)
{
	return group_in(sweep_region);
}

static int compact_in(struct percpu_region *r)
{
	struct percpu_compact *c = NULL;
	int e = r != NULL ? percpu_compact_create_in(r, 10, &c) : percpu_compact_create(10, &c);

	if (e == 0) /* beyond a cell's window: by the slow path */
		percpu_compact_add(c, 9, INT64_C(1) << 40);
	fault_clear();
	if (e == 0)
		assert_int_equal(percpu_compact_fetch_zero(c, 9), UINT64_C(1) << 40);
	percpu_compact_destroy(c);
	return e;
}

static int private_compact(void)
{
	return compact_in(NULL);
}

static int shared_compact(void)
{
	return compact_in(sweep_region);
}

static int write_buffer(void)
{
	const struct percpu_wbuf_options o = { .size = sizeof(o), .entries = 4 };
	struct percpu_wbuf *w = NULL;
	uint64_t cell = 0, done = 0;
	int e = percpu_wbuf_create(&o, &w), added;

	for (unsigned i = 0; e == 0 && i < 20; i++) {
		added = percpu_wbuf_add(w, &cell, 1);
		assert_true(added == 0 || added == -ENOMEM);
		done += added == 0;
	}
	fault_clear();
	percpu_wbuf_destroy(w);
	assert_int_equal(cell, e == 0 ? done : 0);
	return e;
}

static int ring_in(struct percpu_region *r)
{
	struct percpu_ring_reader *reader = NULL;
	struct percpu_ring_record record;
	struct percpu_ring *ring = NULL;
	unsigned put = 0, read = 0;
	int e = r != NULL ? percpu_ring_create_in(r, PERCPU_RING_MIN, 0, &ring) :
			    percpu_ring_create(PERCPU_RING_MIN, 0, &ring);

	for (; put < 10 && e == 0; put++)
		e = percpu_ring_put(ring, &put, sizeof(put));
	if (e == 0)
		e = percpu_ring_reader_create(ring, PERCPU_RING_ALL, 0, &reader);
	while (e == 0 && (e = percpu_ring_read(reader, &record)) == 0)
		read++;
	assert_true(e != -EAGAIN || read == 10); /* the end of the records, no failure */
	fault_clear();
	/* Whatever failed, the records are still there. */
	while (reader != NULL && percpu_ring_read(reader, &record) == 0)
		read++;
	assert_true(reader == NULL || read == 10);
	percpu_ring_reader_destroy(reader);
	percpu_ring_destroy(ring);
	return e != -EAGAIN ? e : 0;
}

static int private_ring(void)
{
	return ring_in(NULL);
}

static int shared_ring(void)
{
	return ring_in(sweep_region);
}

static int local_word(void)
{
	struct percpu_local *l = NULL;
	int e = percpu_local_create(8, PERCPU_LOCAL_LOCK, &l);

	fault_clear();
	percpu_local_destroy(l);
	return e;
}

static int zone_in(struct percpu_region *r)
{
	const struct percpu_zone_options o = { .size = sizeof(o), .limit = 50, .region = r };
	struct percpu_zone *z = NULL;
	void *items[40] = { NULL };
	int e = percpu_zone_create("faults", 32, &o, &z), f;

	for (unsigned i = 0; i < 40 && e == 0; i++)
		e = percpu_zone_alloc(z, 0, &items[i]);
	for (unsigned i = 0; i < 20; i++)
		if (items[i] != NULL) {
			f = percpu_zone_free(z, items[i]);
			assert_true(f == 0 || f == -ETIMEDOUT);
		}
	fault_clear();
	for (unsigned i = 20; i < 40; i++)
		if (items[i] != NULL)
			assert_int_equal(percpu_zone_free(z, items[i]), 0);
	assert_int_equal(percpu_zone_destroy(z), 0);
	return e;
}

static int private_zone(void)
{
	return zone_in(NULL);
}

static int shared_zone(void)
{
	return zone_in(sweep_region);
}

/* Copy bytes of two pages, map a page ahead, and give all of them up. */
static int copy_in_pages(struct percpu_lwbufs *f)
{
	static const uint64_t pages[] = { 6, 2 };
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	struct percpu_xio x;
	char c[4] = "";
	int e = percpu_xio_init(&x, f, size - 2, 4);

	if (e == 0)
		e = percpu_xio_copy_in(&x, 0, c, sizeof(c));
	if (e == 0)
		e = percpu_xio_init_pages(&x, f, pages, 2, size - 2, 4);
	if (e == 0)
		e = percpu_xio_copy_out(&x, 0, c, sizeof(c));
	if (e == 0)
		e = percpu_lwbuf_populate(f, 0, 1, NULL);
	return e == 0 || e == -ENOTSUP ? percpu_lwbuf_reclaim(f) : e;
}

/* Use pages of a file, and store to those with odd numbers. */
static int windows_of(enum percpu_lwbuf_backend backend, uint32_t flags)
{
	const struct percpu_lwbuf_options o = { .size = sizeof(o),
						.max_excess = 2,
						.backend = backend,
						.flags = flags | PERCPU_LWBUF_WRITABLE };
	struct percpu_lwbuf b[8] = { 0 };
	struct percpu_lwbufs *f = NULL;
	struct percpu_sfbuf *sf = NULL;
	static int fd = -1; /* opened before anything fails */
	int e, freed;

	if (fd < 0) {
		fd = memfd_create("windows", MFD_CLOEXEC);
		assert_int_equal(ftruncate(fd, 8 * sysconf(_SC_PAGESIZE)), 0);
	}
	e = percpu_lwbuf_create(fd, &o, &f);
	for (unsigned i = 0; i < 16 && e == 0; i++) {
		freed = b[i / 2].of != NULL ? percpu_lwbuf_free(f, &b[i / 2]) : 0;
		e = percpu_lwbuf_alloc(f, i / 2, i / 2 % 2, &b[i / 2]);
		e = freed != 0 ? freed : e;
	}
	if (e == 0)
		e = percpu_sfbuf_alloc(f, 7, PERCPU_SFBUF_WRITE, &sf);
	for (unsigned i = 0; i < 8; i++) {
		freed = b[i].of != NULL ? percpu_lwbuf_free(f, &b[i]) : 0;
		assert_null(b[i].of);
		e = e == 0 ? freed : e;
	}
	freed = sf != NULL ? percpu_sfbuf_free(f, sf) : 0;
	if (e == 0)
		e = copy_in_pages(f);
	fault_clear();
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e == 0 ? freed : e;
}

static int windows(void)
{
	return windows_of(PERCPU_LWBUF_WINDOW, PERCPU_LWBUF_KEEPS_SIZE);
}

static int checked_windows(void)
{
	return windows_of(PERCPU_LWBUF_WINDOW, PERCPU_LWBUF_KEEPS_SIZE | PERCPU_LWBUF_DEBUG);
}

static int whole_file(void)
{
	return windows_of(PERCPU_LWBUF_AUTO, PERCPU_LWBUF_KEEPS_SIZE);
}

static int bounce_buffers(void)
{
	return windows_of(PERCPU_LWBUF_AUTO, 0);
}

static int checked_bounce_buffers(void)
{
	return windows_of(PERCPU_LWBUF_AUTO, PERCPU_LWBUF_DEBUG);
}

static int static_counter(void)
{
	struct percpu_static_counter s = PERCPU_STATIC_COUNTER_INIT;
	int e = percpu_static_counter_setup(&s);

	percpu_static_counter_add(&s, 5);
	fault_clear();
	assert_int_equal(percpu_static_counter_fetch_zero(&s), 5);
	percpu_static_counter_teardown(&s);
	return e;
}

static int read_and_write(struct percpu_rwlock *l)
{
	int e = percpu_rwlock_read_lock(l);

	if (e != 0)
		return e;
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	e = percpu_rwlock_write_lock(l);
	if (e == 0)
		assert_int_equal(percpu_rwlock_write_unlock(l), 0);
	return e;
}

static int lock_of(struct percpu_owners *o)
{
	struct percpu_rwlock *l = NULL;
	int e = o != NULL ? percpu_rwlock_create_in(o, 0, &l) : percpu_rwlock_create(0, &l);

	if (e == 0)
		e = read_and_write(l);
	fault_clear();
	/* Whatever failed, no thread holds the lock. */
	if (l != NULL)
		assert_int_equal(read_and_write(l), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
	return e;
}

static int private_lock(void)
{
	return lock_of(NULL);
}

static int shared_lock(void)
{
	return lock_of(sweep_owners());
}

static unsigned called_back;

static void note_callback(struct percpu_grace_callback *c)
{
	(void)c;
	__atomic_fetch_add(&called_back, 1, __ATOMIC_RELAXED);
}

static int enter_and_wait(struct percpu_grace *g, struct percpu_grace_callback *c)
{
	int token = percpu_grace_enter(g), e;

	if (token < 0)
		return token;
	assert_int_equal(percpu_grace_exit(g, token), 0);
	e = percpu_grace_wait(g);
	if (e == 0)
		e = percpu_grace_call(g, c, note_callback);
	if (e == 0)
		e = percpu_grace_barrier(g);
	return e;
}

static int periods_of(struct percpu_owners *o)
{
	struct percpu_grace_callback c, again;
	struct percpu_grace *g = NULL;
	int e = o != NULL ? percpu_grace_create_in(o, 0, &g) : percpu_grace_create(0, &g), f = 0;

	called_back = 0;
	if (e == 0)
		e = enter_and_wait(g, &c);
	fault_clear();
	/* Whatever failed, sections are waited for, and callbacks run. */
	if (g != NULL) {
		while (f = percpu_grace_barrier(g), f != 0)
			assert_int_equal(f, e);
		f = (int)called_back;
		assert_int_equal(enter_and_wait(g, &again), 0);
		assert_int_equal(called_back, f + 1);
	}
	assert_int_equal(percpu_grace_destroy(g), 0);
	return e;
}

static int private_periods(void)
{
	return periods_of(NULL);
}

static int shared_periods(void)
{
	return periods_of(sweep_owners());
}

static void note_release(struct percpu_ref *ref, void *arg)
{
	(void)ref;
	++*(unsigned *)arg;
}

static int reference_count(void)
{
	struct percpu_ref *ref = NULL;
	unsigned released = 0;
	int e = percpu_ref_create(note_release, &released, 0, &ref);

	if (e == 0) {
		assert_int_equal(percpu_ref_get(ref), 0);
		e = percpu_ref_kill(ref);
	}
	fault_clear();
	if (ref != NULL) {
		assert_int_equal(percpu_ref_is_dying(ref), e == 0);
		if (e != 0) /* nothing was done, so it can be repeated */
			assert_int_equal(percpu_ref_kill(ref), 0);
		assert_int_equal(released, 0);
		assert_int_equal(percpu_ref_put(ref), 0);
		assert_int_equal(released, 1);
	}
	assert_int_equal(percpu_ref_destroy(ref), 0);
	return e;
}

static int fence(void)
{
	return percpu_fence();
}

static int fence_all(void)
{
	struct percpu_fence_report report = { .unfenced = 77 };
	int e = percpu_fence_all(UINT64_C(20000000000), &report);

	assert_true(report.unfenced == 77 || (report.unfenced == 0) == (e == 0));
	return e;
}

const struct sweep_operation faults_operations[] = {
	{ "create a private region", create_private, { -ENOMEM } },
	{ "grow a private region", grow_private, { -ENOMEM } },
	{ "create a file", create_file, { -ENOMEM, -ENOSPC } },
	{ "create in a descriptor", create_fd, { -ENOMEM, -ENOSPC } },
	{ "start a program", start_program, { -ENOMEM, -ENOSPC } },
	{ "open to write", open_to_write, { -ENOMEM, -EBADMSG } },
	{ "open to read", open_to_read, { -ENOMEM, -EBADMSG } },
	{ "grow a shared region", grow_shared, { -ENOMEM, -ENOSPC } },
	{ "counter", counter, { -ENOMEM } },
	{ "small array", small_array, { -ENOMEM } },
	{ "large array", large_array, { -ENOMEM } },
	{ "shared array", shared_array, { -ENOMEM, -ENOSPC } },
	{ "statistics", private_stats, { -ENOMEM, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "shared statistics", shared_stats, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "whole statistics", whole_stats, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "group", private_group, { -ENOMEM, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "shared group", shared_group, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "compact counters", private_compact, { -ENOMEM } },
	{ "shared compact counters", shared_compact, { -ENOMEM, -ENOSPC } },
	{ "write buffer", write_buffer, { -ENOMEM } },
	{ "ring", private_ring, { -ENOMEM, -EPERM, -ETIMEDOUT } },
	{ "shared ring", shared_ring, { -ENOMEM, -ENOSPC, -EPERM } },
	{ "local word", local_word, { -ENOMEM } },
	{ "zone", private_zone, { -ENOMEM } },
	{ "shared zone", shared_zone, { -ENOMEM, -ENOSPC } },
	{ "windows", windows, { -ENOMEM } },
	{ "checked windows", checked_windows, { -ENOMEM } },
	{ "file that is mapped", whole_file, { -ENOMEM } },
	{ "bounce buffers", bounce_buffers, { -ENOMEM } },
	{ "checked bounce buffers", checked_bounce_buffers, { -ENOMEM } },
	{ "static counter", static_counter, { -ENOMEM } },
	{ "lock", private_lock, { -ENOMEM, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "shared lock", shared_lock, { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM, -ETIMEDOUT, -EBADMSG } },
	{ "grace periods", private_periods, { -ENOMEM, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "shared grace periods",
	  shared_periods,
	  { -ENOMEM, -ENOSPC, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "reference count", reference_count, { -ENOMEM, -EAGAIN, -EPERM, -ETIMEDOUT } },
	{ "fence", fence, { -EAGAIN, -EPERM } },
	{ "fence of all processes", fence_all, { -EAGAIN, -EPERM } },
	{ NULL, NULL, { 0 } },
};

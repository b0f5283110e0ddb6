/* SPDX-License-Identifier: MIT */
/*
 * test_resources.c - no memory, no address space, no room, no descriptors, no permission: the
 * documented error is returned, nothing is leaked or half made, and calls succeed when the limit
 * is gone.
 *
 * Limits are for a whole process, so each test runs in a child.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/freebsd.h>
#include <percpu/fence.h>
#include <percpu/local.h>
#include <percpu/percpu.h>
#include <percpu/seq.h>
#include <percpu/zone.h>

#include "memory/memory.h"
#include "support.h"

static char directory[128], file[160];

/* State that a failing call must not change: descriptors, mappings, files. */
struct traces {
	struct test_holding holding;
	unsigned files;
};

static struct traces traces_now(void)
{
	struct traces t = { test_holding_now(), 0 };
	DIR *d = opendir(directory);

	while (d && readdir(d))
		t.files++;
	if (d)
		closedir(d);
	return t;
}

static void require_same(struct traces before, const char *what)
{
	struct traces now = traces_now();

	test_child_require(now.holding.fds == before.holding.fds, what);
	test_child_require(now.holding.maps == before.holding.maps, what);
	test_child_require(now.files == before.files, what);
}

static void require(int got, int want, const char *what)
{
	char text[128];

	snprintf(text, sizeof(text), "%s: %d, not %d", what, got, want);
	test_child_require(got == want, text);
}

static bool limit(int resource, rlim_t value)
{
	struct rlimit l;

	if (getrlimit(resource, &l) != 0)
		return false;
	l.rlim_cur = value < l.rlim_max ? value : l.rlim_max;
	return setrlimit(resource, &l) == 0;
}

/* Make all calls that need address space, while there is none. */
static void try_without_address_space(void)
{
	struct percpu_static_counter s = PERCPU_STATIC_COUNTER_INIT;
	struct percpu_counter_array *a = NULL;
	struct percpu_counter *c = NULL;
	struct percpu_region *r = NULL;
	struct percpu_local *l = NULL;
	int e;

	require(percpu_counter_create(&c), -ENOMEM, "counter_create");
	require(percpu_region_create(NULL, &r), -ENOMEM, "region_create");
	require(test_region_new(test_path("new"), NULL, &r), -ENOMEM, "create");
	require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), -ENOMEM, "open to write");
	require(percpu_region_open(file, 0, NULL, &r), -ENOMEM, "open to read");
	require(percpu_counter_array_create(8, &a), -ENOMEM, "small array");
	require(percpu_counter_array_create(1000000, &a), -ENOMEM, "large array");
	require(percpu_local_create(8, PERCPU_LOCAL_LOCK, &l), -ENOMEM, "local");
	test_child_require(counter_u64_alloc(M_NOWAIT) == NULL, "counter_u64_alloc(M_NOWAIT)");
	require(percpu_static_counter_setup(&s), -ENOMEM, "static counter");
	percpu_static_counter_add(&s, 5);
	require((int)percpu_static_counter_fetch_zero(&s), 5, "static counter counts anyway");
	e = percpu_fence_all(UINT64_C(10000000000), NULL);
	test_child_require(e == 0 || e == -EAGAIN || e == -ENOMEM, "fence_all");
	e = percpu_fence();
	test_child_require(e == 0 || e == -EAGAIN || e == -ENOMEM, "fence");
	test_child_require(!c && !r && !a && !l, "outputs are not touched by errors");
}

static int without_address_space(void *arg)
{
	struct percpu_counter *c;
	struct traces before;
	struct rlimit was;

	(void)arg;
	getrlimit(RLIMIT_AS, &was);
	percpu_status();
	for (int i = 0; i < 3; i++) {
		before = traces_now();
		limit(RLIMIT_AS, 0);
		try_without_address_space();
		setrlimit(RLIMIT_AS, &was);
		if (i > 0) /* in the first round, libc may keep something */
			require_same(before, "failing for want of address space leaves nothing");
	}
	require(percpu_counter_create(&c), 0, "counter_create, later");
	percpu_counter_add(c, 4);
	require((int)percpu_counter_fetch(c), 4, "and it counts");
	percpu_counter_destroy(c);
	return 0;
}

static void no_address_space_is_an_error(void **state)
{
	struct percpu_region *r;

	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS cannot be used here");
	assert_int_equal(test_region_new(file, NULL, &r), 0);
	percpu_region_close(r);
	test_in_child(without_address_space, NULL);
	unlink(file);
}

/* The region cannot grow, and its cells still count. */
static int without_room_to_grow(void *arg)
{
	enum { N = PERCPU_LANE_SIZE / 8 };
	static struct percpu_counter *c[2 * N + 1];
	struct rlimit was;
	int n = 0, e = 0;

	(void)arg;
	getrlimit(RLIMIT_AS, &was);
	require(percpu_counter_create(&c[n++]), 0, "first counter");
	limit(RLIMIT_AS, 0);
	while (n < 2 * N + 1 && (e = percpu_counter_create(&c[n])) == 0)
		n++;
	require(e, -ENOMEM, "no further chunk");
	for (int i = 0; i < n; i++)
		percpu_counter_add(c[i], i);
	for (int i = 0; i < n; i++)
		require((int)percpu_counter_fetch(c[i]), i, "value of those before");
	setrlimit(RLIMIT_AS, &was);
	for (; n < 2 * N + 1; n++)
		require(percpu_counter_create(&c[n]), 0, "a further chunk, later");
	percpu_counter_add(c[2 * N], 3);
	require((int)percpu_counter_fetch(c[2 * N]), 3, "counter in the new chunk");
	return 0;
}

static void failing_growth_hurts_nobody(void **state)
{
	(void)state;
	if (!test_can_limit_address_space())
		test_skip("RLIMIT_AS cannot be used here");
	test_in_child(without_room_to_grow, NULL);
}

static int without_descriptors(void *arg)
{
	struct percpu_region *r = NULL;
	struct traces before;
	struct rlimit was;
	int pair[2], there, fd;

	(void)arg;
	percpu_status();
	getrlimit(RLIMIT_NOFILE, &was);
	require(test_region_new(file, NULL, &r), 0, "create");
	percpu_region_close(r);
	r = NULL;
	there = open(file, O_RDWR);
	require(pipe(pair), 0, "pipe");
	fd = dup(0); /* the next descriptor cannot be had */
	close(fd);
	for (int i = 0; i < 2; i++) {
		before = traces_now();
		limit(RLIMIT_NOFILE, (rlim_t)fd);
		require(test_region_new(file, NULL, &r), -EMFILE, "create");
		require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), -EMFILE, "open");
		require(percpu_region_open_fd(pair[0], 0, NULL, &r), -EBADMSG,
			"open_fd needs none");
		require(percpu_region_open_fd(there, PERCPU_REGION_WRITE, NULL, &r), -EMFILE,
			"open_fd to write");
		limit(RLIMIT_NOFILE, (rlim_t)fd + 1);
		require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), -EMFILE,
			"open to write with one descriptor");
		setrlimit(RLIMIT_NOFILE, &was);
		require_same(before, "failing for want of descriptors leaves nothing");
	}
	test_child_require(!r, "output is not touched");
	return 0;
}

static void no_descriptors_is_an_error(void **state)
{
	(void)state;
	test_in_child(without_descriptors, NULL);
	unlink(file);
}

static int with_small_files(void *arg)
{
	struct percpu_region *r = NULL;
	struct traces before;

	(void)arg;
	signal(SIGXFSZ, SIG_IGN);
	limit(RLIMIT_FSIZE, 65536);
	require(test_region_new(file, NULL, &r), -EFBIG, "create");
	before = traces_now();
	require(test_region_new(file, NULL, &r), -EFBIG, "create");
	require_same(before, "a file too large leaves nothing");
	test_child_require(!r, "output is not touched");
	return 0;
}

static void too_large_file_is_an_error(void **state)
{
	(void)state;
	test_in_child(with_small_files, NULL);
}

/* Allocate until the disk is full: all allocated cells can be used. */
static void fill(struct percpu_region *r)
{
	struct percpu_counter *c = NULL, *last = NULL;
	int e, n = 0;

	while ((e = percpu_counter_create_in(r, &c)) == 0) {
		percpu_counter_add(c, 1);
		percpu_counter_add_slow(c, 1);
		last = c;
		n++;
	}
	require(e, -ENOSPC, "counter_create_in on a full disk");
	test_child_require(n > 0 && percpu_counter_fetch_zero(last) == 2, "the last one works");
	for (unsigned i = 0; i < test_cpus(); i++) { /* the lanes of all CPUs have memory */
		test_pin(0, test_cpu(i));
		percpu_counter_add(last, 1);
		percpu_counter_add_slow(last, 1);
	}
	require((int)percpu_counter_fetch(last), 2 * (int)test_cpus(), "on every CPU");
	percpu_counter_destroy(last);
	require(percpu_counter_create_in(r, &c), 0, "there is room again");
}

/* Mount a disk, and fill it. */
static bool mount_full(void)
{
	int fd;

	if (mount("tmpfs", directory, "tmpfs", 0, "size=4k") != 0)
		return false;
	fd = open(test_path("ballast"), O_WRONLY | O_CREAT, 0600);
	test_child_require(write(fd, "full", 4) == 4, "ballast");
	close(fd);
	return true;
}

/* Return whether pages can be given back: qemu-user ignores that call. */
static bool pages_go_back(void)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *memory = test_share(page);

	*memory = 1;
	madvise((void *)(uintptr_t)memory, page, MADV_REMOVE);
	return *memory == 0;
}

/* An allocation that did not fit leaves room for one that does. */
static void try_too_much(void)
{
	struct percpu_counter_array *a = NULL;
	struct percpu_counter *c;
	struct percpu_region *r;
	char size[32];

	umount(directory);
	(void)snprintf(size, sizeof(size), "size=%uk",
		       64 + 16 * (percpu_status()->possible_cpus + 2));
	test_child_require(mount("tmpfs", directory, "tmpfs", 0, size) == 0, size);
	require(test_region_new(file, NULL, &r), 0, "create");
	for (unsigned i = 0; i < 3; i++) {
		require(percpu_counter_array_create_in(r, 8000, &a), -ENOSPC, "too large an array");
		require(percpu_counter_create_in(r, &c), 0, "a counter");
	}
	percpu_region_close(r);
}

static int with_full_disk(void *arg)
{
	struct percpu_region *r = NULL, *s;
	struct traces before;

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return 77;
	if (!mount_full())
		return 77;
	require(test_region_new(file, NULL, &r), -ENOSPC, "create");
	before = traces_now();
	require(test_region_new(file, NULL, &r), -ENOSPC, "create");
	require_same(before, "create on a full disk leaves nothing");
	test_child_require(!r, "output is not touched");
	umount(directory);
	if (mount("tmpfs", directory, "tmpfs", 0, "size=2m") != 0)
		return 77;
	require(test_region_new(file, NULL, &r), 0, "create");
	fill(r);
	require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &s), 0, "open on a full disk");
	percpu_region_close(s);
	percpu_region_close(r);
	if (pages_go_back())
		try_too_much();
	return 0;
}

/* Fill the rest of the disk with a file, page by page. Returns its descriptor. */
static int write_until_full(off_t *ret_size)
{
	static const char zeros[4096];
	int fd = open(test_path("ballast"), O_WRONLY | O_CREAT, 0600);

	for (*ret_size = 0; write(fd, zeros, sizeof(zeros)) == sizeof(zeros);)
		*ret_size += (off_t)sizeof(zeros);
	return fd;
}

/* Atomic lanes are reserved as a whole when they are first used. Their parts that a reclaim gave
 * back must be reserved with the next cells: else there may be no room for them. */
static int with_reclaimed_disk(void *arg)
{
	enum { N = 2000 };
	struct percpu_zone_options o = { .size = sizeof(o) };
	struct percpu_counter_array *a;
	struct percpu_zone *z;
	off_t size;
	int e, fd;

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=16m") != 0)
		return 77;
	require(test_region_new(file, NULL, &o.region), 0, "create");
	require(percpu_zone_create("limits", 8, &o, &z), 0, "zone_create");
	require(percpu_counter_array_create_in(o.region, N, &a), 0, "array_create_in");
	test_pin(0, test_cpu(test_cpus() - 1));
	test_unregister(percpu_seq_attach()); /* so that its adds are atomic */
	percpu_counter_array_add(a, 0, 1);
	percpu_counter_array_destroy(a);
	test_child_require(percpu_zone_reclaim(z) >= sizeof(uint64_t[N]), "reclaims");
	fd = write_until_full(&size);
	while ((e = percpu_counter_array_create_in(o.region, N, &a)) == -ENOSPC && size > 0) {
		size -= 4096;
		test_child_require(ftruncate(fd, size) == 0, "another page");
	}
	require(e, 0, "array_create_in with enough room");
	close(write_until_full(&size));
	for (int i = 0; i < N; i++)
		percpu_counter_array_add(a, i, 1);
	test_child_require(percpu_counter_array_fetch(a, N - 1) == 1, "counts");
	return 0;
}

/* Take all free cells of the region, without letting it grow. */
static void take_all(struct percpu_region *r)
{
	const uint32_t capacity = r->capacity;
	void *cell;

	r->capacity = r->n;
	for (size_t size = PERCPU_LANE_SIZE; size >= sizeof(uint64_t); size /= 2)
		while (percpu_region_alloc(r, size, sizeof(uint64_t), &cell) == 0)
			;
	r->capacity = capacity;
}

static int allocate_by_others(void *arg)
{
	const uint64_t *key = arg;
	struct percpu_region *r;
	struct percpu_counter *c;

	require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), 0, "another opens it");
	require(percpu_counter_attach(r, *key, &c), 0, "and attaches");
	require((int)percpu_counter_fetch(c), 5, "to what was counted");
	require(percpu_counter_create_in(r, &c), 0, "and allocates");
	return 0;
}

/* The chunks are full, and the disk has no room for another one. When it has room, the next
 * chunk is where other processes look for it. */
static int with_full_chunks(void *arg)
{
	struct percpu_counter *c = NULL;
	struct percpu_region *r;
	uint64_t key;
	char room[32];
	off_t size;

	(void)arg;
	(void)snprintf(room, sizeof(room), "size=%zuk", /* three chunks, and somewhat more */
		       4 * (percpu_status()->possible_cpus + 4) * PERCPU_STRIDE / 1024);
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, room) != 0)
		return 77;
	require(test_region_new(file, NULL, &r), 0, "create");
	for (uint32_t n = 1; n < 3; n++) {
		take_all(r);
		close(write_until_full(&size));
		for (int i = 0; i < 3; i++)
			require(percpu_counter_create_in(r, &c), -ENOSPC, "no room for a chunk");
		require((int)r->n, (int)n, "chunks");
		test_child_require(c == NULL, "output is not touched");
		unlink(test_path("ballast"));
		require(percpu_counter_create_in(r, &c), 0, "room for a chunk");
		require((int)r->n, (int)n + 1, "chunks, later");
		percpu_counter_add(c, 5);
		key = percpu_counter_key(c);
		require(test_wait(test_fork(allocate_by_others, &key), 60), 0, "another");
		require((int)percpu_counter_fetch(c), 5, "value");
		c = NULL;
	}
	return 0;
}

static int with_read_only_disk(void *arg)
{
	struct percpu_region *r = NULL;

	(void)arg;
	if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("tmpfs", directory, "tmpfs", 0, "size=16m") != 0)
		return 77;
	require(test_region_new(file, NULL, &r), 0, "create");
	percpu_region_close(r);
	if (mount("tmpfs", directory, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=16m") != 0)
		return 77;
	require(test_region_new(test_path("new"), NULL, &r), -EROFS, "create");
	require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), -EROFS, "open to write");
	require(percpu_region_open(file, 0, NULL, &r), 0, "open to read");
	percpu_region_close(r);
	return 0;
}

static void in_child_that_may_mount(int (*fn)(void *arg))
{
	int status = test_wait(test_fork(fn, NULL), 60);

	if (status == 77 << 8)
		test_skip("no right to mount");
	assert_int_equal(status, 0);
}

static void full_disk_is_an_error(void **state)
{
	(void)state;
	in_child_that_may_mount(with_full_disk);
}

static void no_room_for_a_chunk_is_an_error(void **state)
{
	(void)state;
	in_child_that_may_mount(with_full_chunks);
}

static void reclaimed_pages_are_reserved_again(void **state)
{
	(void)state;
	in_child_that_may_mount(with_reclaimed_disk);
}

static void read_only_disk_is_an_error(void **state)
{
	(void)state;
	in_child_that_may_mount(with_read_only_disk);
}

static int as_nobody(void *arg)
{
	struct percpu_region *r = NULL;
	struct percpu_counter *c;

	(void)arg;
	if (setgid(65534) != 0 || setuid(65534) != 0)
		return 77;
	require(percpu_region_open(file, PERCPU_REGION_WRITE, NULL, &r), -EACCES, "open to write");
	require(test_region_new(test_path("new"), NULL, &r), -EACCES, "create");
	test_child_require(!r, "output is not touched");
	require(percpu_region_open(file, 0, NULL, &r), 0, "open to read");
	require(percpu_counter_open(r, 0, &c), 0, "counter_open");
	require((int)percpu_counter_fetch(c), 8, "fetch");
	require(percpu_counter_create_in(r, &c), -EROFS, "counter_create_in");
	percpu_region_close(r);
	return 0;
}

static void no_permission_is_an_error(void **state)
{
	struct percpu_region_options o = { .size = sizeof(o), .mode = 0644 };
	struct percpu_region *r;
	struct percpu_counter *c;
	int status;

	(void)state;
	umask(022);
	assert_int_equal(test_region_new(file, &o, &r), 0);
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	assert_int_equal(percpu_region_set_root(r, 0, 0, percpu_counter_key(c)), 0);
	percpu_counter_add(c, 8);
	status = test_wait(test_fork(as_nobody, NULL), 60);
	percpu_region_close(r);
	unlink(file);
	if (status == 77 << 8)
		test_skip("no right to become another user");
	assert_int_equal(status, 0);
}

static int make_directory(void **state)
{
	(void)state;
	strcpy(directory, test_path("."));
	strcpy(file, test_path("file"));
	return chmod(directory, 0755);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_address_space_is_an_error),
		cmocka_unit_test(failing_growth_hurts_nobody),
		cmocka_unit_test(no_descriptors_is_an_error),
		cmocka_unit_test(too_large_file_is_an_error),
		cmocka_unit_test(full_disk_is_an_error),
		cmocka_unit_test(no_room_for_a_chunk_is_an_error),
		cmocka_unit_test(reclaimed_pages_are_reserved_again),
		cmocka_unit_test(read_only_disk_is_an_error),
		cmocka_unit_test(no_permission_is_an_error),
	};

	return cmocka_run_group_tests(tests, make_directory, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_region_shared.c - regions that processes share: their file, their keys, and what one
 * opening sees of another. Files that are no regions: test_region_hostile.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include <percpu/compact.h>
#include <percpu/counter.h>
#include <percpu/stats.h>

#include "memory/memory.h"
#include "region_kinds.h"

/* A key contains its object's kind, and leads to the begin of one object. */
static void objects_are_not_taken_for_others(void **state)
{
	struct percpu_region *r = create(NAMED, NULL);
	struct percpu_counter_array *a, *b, *c = NULL, *d;
	struct percpu_counter *single, *again;
	struct percpu_compact *set;
	struct percpu_stats *stats;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_array_create_in(r, 8, &a), 0);
	assert_int_equal(percpu_counter_array_create_in(r, 8, &b), 0);
	key = percpu_counter_array_key(a);
	assert_int_equal(percpu_counter_array_attach(r, key, 9, &c), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 16, &c), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key + 64, 1, &c), 0); /* leads to b */
	percpu_counter_array_detach(c);
	c = NULL;
	assert_int_equal(percpu_counter_array_create_in(r, 16, &d), 0); /* does not overlap it */
	assert_int_equal(percpu_counter_array_attach(r, percpu_counter_array_key(d) + 64, 1, &c),
			 -ENOENT);
	percpu_counter_array_destroy(d);
	assert_int_equal(percpu_counter_array_attach(r, key, 3, &c), 0);
	percpu_counter_array_add(c, 2, 5);
	assert_int_equal(percpu_counter_array_fetch(a, 2), 5);
	percpu_counter_array_detach(c);
	c = NULL;

	assert_int_equal(percpu_counter_attach(r, key, &single), -ENOENT);
	assert_null(percpu_region_at(r, key, 8));
	assert_int_equal(percpu_compact_attach(r, key, 4, &set), -ENOENT);
	assert_int_equal(percpu_stats_attach(r, key, 8, 1, 0, &stats), -ENOENT);
	assert_int_equal(percpu_counter_create_in(r, &single), 0);
	key = percpu_counter_key(single);
	assert_int_equal(percpu_counter_attach(r, key, &again), 0);
	assert_ptr_equal(again, single);
	percpu_counter_detach(again);
	assert_null(percpu_region_at(r, key, 8));
	assert_int_equal(percpu_counter_attach(r, percpu_region_key(r, single), &again), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 1, &c), -ENOENT);
	assert_null(c);

	assert_int_equal(percpu_compact_create_in(r, 4, &set), 0);
	key = percpu_compact_key(set);
	percpu_compact_detach(set);
	assert_int_equal(percpu_compact_attach(r, key, 3, &set), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, key, 5, &set), -ENOENT);
	assert_int_equal(percpu_counter_array_attach(r, key, 8, &c), -ENOENT);
	assert_int_equal(percpu_compact_attach(r, key, 4, &set), 0);
	percpu_compact_detach(set);
	percpu_counter_array_detach(a);
	percpu_counter_array_detach(b);
	discard(NAMED, r);
}

/* The same if a unit is longer than an array's alignment. */
static void objects_begin_with_a_unit(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_counter_array *a, *b = NULL;
	struct percpu_region *r;
	uint64_t key;

	(void)state;
	o.lane_size = 1 << 20; /* units of 128 bytes */
	r = create(MEMFD, &o);
	assert_int_equal(percpu_counter_array_create_in(r, 16, &a), 0);
	key = percpu_counter_array_key(a);
	assert_int_equal(percpu_counter_array_attach(r, key + 64, 1, &b), -ENOENT);
	assert_null(b);
	percpu_counter_array_destroy(a);
	discard(MEMFD, r);
}

static void private_objects_have_no_key(void **state)
{
	struct percpu_region *r = create(PRIVATE, NULL);
	struct percpu_counter_array *a;
	struct percpu_compact *set;
	struct percpu_stats *s;

	(void)state;
	assert_int_equal(percpu_counter_array_create_in(r, 8, &a), 0);
	assert_int_equal(percpu_compact_create_in(r, 8, &set), 0);
	assert_int_equal(percpu_stats_create_in(r, 16, 1, 0, &s), 0);
	assert_int_equal(percpu_counter_array_key(a), 0);
	assert_int_equal(percpu_compact_key(set), 0);
	assert_int_equal(percpu_stats_key(s), 0);
	percpu_counter_array_destroy(a);
	percpu_compact_destroy(set);
	percpu_stats_destroy(s);
	discard(PRIVATE, r);
}

/* Cells that another opening has freed are used before the region grows. */
static void cells_freed_by_others_are_used_again(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s;
	void *cell, *there;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &s), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	key = percpu_region_key(r, cell);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE - 64, 64, &cell), 0);
	there = percpu_region_at(s, key, 64);
	assert_non_null(there);
	assert_int_equal(percpu_region_free(s, there, 64), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	assert_int_equal(percpu_region_key(r, cell), key);
	percpu_region_close(s);
	discard(NAMED, r);
}

/* A key can lead to a chunk that another opening has added. */
static void new_chunks_are_found(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s;
	void *first, *cell;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &s), 0);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &first), 0);
	assert_int_equal(percpu_region_alloc(r, 64, 64, &cell), 0);
	*(uint64_t *)cell = 77;
	key = percpu_region_key(r, cell);
	cell = percpu_region_at(s, key, 64);
	assert_non_null(cell);
	assert_int_equal(*(uint64_t *)cell, 77);
	percpu_region_close(s);
	discard(NAMED, r);
}

/* The left-over file is of a killed process with the id of this one. */
static void left_over_files_are_left_alone(void **state)
{
	static const char text[] = "somebody's";
	char name[192], got[sizeof(text)];
	struct percpu_region *r;
	int fd;

	(void)state;
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%s.percpu-%ld-%d", test_path(""), (long)getpid(), i);
		fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0600);
		assert_true(fd >= 0);
		assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
		close(fd);
	}
	r = create(NAMED, NULL);
	discard(NAMED, r);
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "%s.percpu-%ld-%d", test_path(""), (long)getpid(), i);
		fd = open(name, O_RDONLY);
		assert_true(fd >= 0);
		assert_int_equal(read(fd, got, sizeof(got)), sizeof(text));
		assert_memory_equal(got, text, sizeof(text));
		close(fd);
		unlink(name);
	}
}

static void files_are_created_whole_or_not_at_all(void **state)
{
	struct percpu_region_options o = options();
	struct percpu_region *r, *s;
	struct stat st;
	int fd;

	(void)state;
	umask(022);
	o.mode = 0640;
	assert_int_equal(test_region_new(test_path("file"), &o, &r), 0);
	assert_int_equal(stat(test_path("file"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(test_region_new(test_path("file"), &o, &s), -EEXIST);
	assert_int_equal(test_region_new(test_path("no/file"), &o, &s), -ENOENT);
	assert_int_equal(test_region_new(test_path("file/file"), &o, &s), -ENOTDIR);
	assert_int_equal(test_region_new("/proc/none", &o, &s), -ENOENT);
	fd = open(test_path("file"), O_RDWR);
	assert_int_equal(test_region_new_fd(fd, &o, &s), -EEXIST);
	assert_int_equal(test_region_new_fd(-1, &o, &s), -EBADF);
	close(fd);
	fd = open(test_path("file"), O_RDONLY);
	assert_int_equal(test_region_new_fd(fd, &o, &s), -EBADF);
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &s), -EBADF);
	close(fd);
	fd = open(test_path("file"), O_WRONLY);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &s), -EBADF);
	close(fd);
	fd = open(test_path("file"), O_PATH);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &s), -EBADF);
	assert_int_equal(test_region_new_fd(fd, &o, &s), -EBADF);
	close(fd);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
	o.mode = 02640;
	assert_int_equal(test_region_new(test_path("file"), &o, &r), 0);
	assert_int_equal(stat(test_path("file"), &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
	assert_int_equal(test_region_new(test_path("file"), NULL, &r), 0);
	assert_int_equal(stat(test_path("file"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
}

/* By a descriptor, an empty file becomes a region. Another is opened, unless it must be new. */
static void descriptors_are_filled_or_opened(void **state)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	const int fd = memfd_create("filled", MFD_CLOEXEC), full = memfd_create("text", 0);
	struct percpu_region_options o = options();
	struct percpu_region *r = NULL, *s = NULL, *none = NULL;
	struct percpu_counter *c, *d;
	struct stat st;

	(void)state;
	o.lane_size = 8192;
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &none), -EBADMSG);
	assert_int_equal(percpu_region_open_fd(fd, PERCPU_REGION_WRITE, NULL, &none), -EBADMSG);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_size, 0);
	assert_int_equal(percpu_region_open_fd(fd, flags, NULL, &r), 0);
	assert_int_equal(percpu_counter_open(r, 0, &c), 0);
	percpu_counter_add(c, 3);
	assert_int_equal(percpu_region_open_fd(fd, flags | PERCPU_REGION_EXCL, &o, &none), -EEXIST);
	assert_int_equal(percpu_region_open_fd(fd, flags, &o, &s), 0); /* not with those options */
	assert_int_equal(percpu_counter_open(s, 0, &d), 0);
	assert_int_equal(percpu_counter_fetch(d), 3);
	percpu_region_close(s);
	percpu_region_close(r);

	assert_int_equal(write(full, "text", 4), 4);
	assert_int_equal(percpu_region_open_fd(full, flags | PERCPU_REGION_EXCL, NULL, &none),
			 -EEXIST);
	assert_int_equal(percpu_region_open_fd(full, flags, NULL, &none), -EBADMSG);
	assert_int_equal(fstat(full, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_null(none);
	close(full);
	close(fd);
}

/* Segments pass flags of their own, which no program may pass. */
static void unknown_flags_are_refused(void **state)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	const int fd = memfd_create("flags", MFD_CLOEXEC);
	struct percpu_region *none = NULL;

	(void)state;
	for (unsigned bit = 16; bit != 0; bit *= 2) {
		assert_int_equal(percpu_region_open(test_path("file"), flags | bit, NULL, &none),
				 -EINVAL);
		assert_int_equal(percpu_region_open_fd(fd, flags | bit, NULL, &none), -EINVAL);
	}
	assert_null(none);
	close(fd);
}

/* A program has made the file longer than a region may become: it has room for 2^32 chunks. */
static void longer_files_have_room_for_all_chunks(void **state)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE;
	const int fd = memfd_create("long", MFD_CLOEXEC);
	struct percpu_region *r = NULL;
	uint64_t chunk;
	void *cell;
	int e;

	(void)state;
	assert_int_equal(percpu_region_open_fd(fd, flags, NULL, &r), 0);
	chunk = percpu_chunk_size(PERCPU_STRIDE, r->cpus);
	percpu_region_close(r);
	e = ftruncate(fd, (off_t)(chunk << 32));
	if (e == 0) {
		assert_int_equal(percpu_region_open_fd(fd, flags, NULL, &r), 0);
		assert_int_equal(r->capacity, PERCPU_MAX_FILE_CHUNKS);
		for (int i = 0; i < 2; i++)
			assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &cell), 0);
		percpu_region_close(r);
	}
	close(fd);
	if (e != 0)
		test_skip("no file is that long");
}

/* The file must be new: neither a file of any kind nor a link is opened or replaced. */
static void exclusive_files_are_new(void **state)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL;
	struct percpu_region *r = NULL, *s = NULL;
	char name[192];

	(void)state;
	snprintf(name, sizeof(name), "%s", test_path("new"));
	assert_int_equal(percpu_region_open(name, flags, NULL, &r), 0);
	assert_int_equal(percpu_region_open(name, flags, NULL, &s), -EEXIST);
	assert_int_equal(percpu_region_open(name, flags & ~PERCPU_REGION_EXCL, NULL, &s), 0);
	percpu_region_close(s);
	percpu_region_close(r);
	s = NULL;
	assert_int_equal(unlink(name), 0);
	assert_int_equal(symlink("/nowhere/file", name), 0);
	assert_int_equal(percpu_region_open(name, flags, NULL, &s), -EEXIST);
	assert_int_equal(unlink(name), 0);
	assert_int_equal(percpu_region_open("/tmp", flags, NULL, &s), -EEXIST);
	assert_null(s);
}

/* The program has closed its standard input, so files get the descriptor 0. */
static int use_file_without_input(void *arg)
{
	const unsigned flags = PERCPU_REGION_WRITE | PERCPU_REGION_OWNERS;
	struct percpu_region *r = NULL, *s = NULL, *t = NULL;
	int fd;

	(void)arg;
	close(STDIN_FILENO);
	test_child_require(test_region_new(test_path("file"), NULL, &r) == 0, "create");
	test_child_require(percpu_region_open(test_path("file"), flags, NULL, &s) == 0, "open");
	test_child_require(
		percpu_region_open(test_path("other"), flags | PERCPU_REGION_CREATE, NULL, &t) == 0,
		"both");
	test_child_require(fcntl(STDIN_FILENO, F_GETFD) == -1, "it is closed still");
	percpu_region_close(r);
	percpu_region_close(s);
	percpu_region_close(t);
	fd = open(test_path("file"), O_RDWR);
	test_child_require(fd == STDIN_FILENO, "the program's own");
	fd = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(STDIN_FILENO);
	test_child_require(percpu_region_open_fd(fd, flags, NULL, &r) == 0, "of another number");
	test_child_require(fcntl(STDIN_FILENO, F_GETFD) == -1, "the program may open it");
	percpu_region_close(r);
	test_child_require(dup2(fd, STDIN_FILENO) == STDIN_FILENO, "the program does");
	test_child_require(percpu_region_open_fd(STDIN_FILENO, flags, NULL, &r) == 0,
			   "of number 0");
	percpu_region_close(r);
	test_child_require(ftruncate(STDIN_FILENO, 0) == 0, "empty");
	test_child_require(test_region_new_fd(STDIN_FILENO, NULL, &r) == 0, "made there");
	percpu_region_close(r);
	return unlink(test_path("file")) == 0 && unlink(test_path("other")) == 0 ? 0 : 1;
}

static void number_0_is_a_descriptor(void **state)
{
	(void)state;
	test_in_child(use_file_without_input, NULL);
}

/* Return whether the thread can be canceled. Calls that disable cancellation restore it, also
 * when they fail. */
static bool can_be_canceled(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
	return was == PTHREAD_CANCEL_ENABLE;
}

static void threads_can_be_canceled_afterwards(void **state)
{
	struct percpu_region *r, *s;
	int fd;

	(void)state;
	assert_int_equal(test_region_new(test_path("no/file"), NULL, &r), -ENOENT);
	assert_true(can_be_canceled());
	assert_int_equal(test_region_new(test_path("file"), NULL, &r), 0);
	assert_true(can_be_canceled());
	assert_int_equal(percpu_region_open(test_path("none"), 0, NULL, &s), -ENOENT);
	assert_true(can_be_canceled());
	assert_int_equal(percpu_region_open(test_path("file"), 0, NULL, &s), 0);
	assert_true(can_be_canceled());
	percpu_region_close(s);
	fd = open(test_path("file"), O_RDONLY);
	assert_int_equal(percpu_region_open_fd(fd, 0, NULL, &s), 0);
	assert_true(can_be_canceled());
	close(fd);
	percpu_region_close(s);
	percpu_region_close(r);
	assert_int_equal(unlink(test_path("file")), 0);
}

static void counters_are_the_same_in_every_opening(void **state)
{
	struct percpu_region *r = create(NAMED, NULL), *s, *reader;
	struct percpu_counter *c, *d, *e;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	key = percpu_counter_key(c);
	assert_int_equal(percpu_region_set_root(r, 0, 0, key), 0);
	percpu_counter_add(c, 40);
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &s), 0);
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &reader), 0);
	assert_int_equal(percpu_region_root(s, 0), key);
	assert_int_equal(percpu_counter_attach(s, key, &d), 0);
	assert_ptr_not_equal(c, d);
	percpu_counter_add(d, 2);
	percpu_counter_add_slow(d, 1);
	assert_int_equal(percpu_counter_fetch(c), 43);
	assert_int_equal(percpu_counter_open(reader, 0, &e), 0);
	assert_int_equal(percpu_counter_fetch(e), 43);
	assert_int_equal(percpu_counter_create_in(reader, &d), -EROFS);
	assert_int_equal(percpu_region_set_root(reader, 0, 0, 1), -EROFS);
	percpu_region_close(s);
	percpu_counter_add(c, 1);
	assert_int_equal(percpu_counter_fetch(e), 44);
	assert_int_equal(percpu_counter_attach(reader, 0, &d), -ENOENT);
	assert_int_equal(percpu_counter_attach(reader, key + 1, &d), -ENOENT);
	assert_int_equal(percpu_counter_attach(reader, key + 4096, &d), -ENOENT);
	percpu_region_close(reader);
	discard(NAMED, r);
}

static void file_keeps_counts_when_all_have_closed(void **state)
{
	struct percpu_region *r = create(NAMED, NULL);
	struct percpu_counter *c;
	uint64_t key;

	(void)state;
	assert_int_equal(percpu_counter_create_in(r, &c), 0);
	percpu_counter_add(c, 12);
	percpu_counter_zero(c);
	percpu_counter_add(c, 30);
	key = percpu_counter_key(c);
	percpu_region_close(r);
	assert_int_equal(percpu_region_open(test_path("region"), PERCPU_REGION_WRITE, NULL, &r), 0);
	assert_int_equal(percpu_counter_attach(r, key, &c), 0);
	assert_int_equal(percpu_counter_fetch(c), 30);
	percpu_counter_destroy(c);
	assert_int_equal(percpu_counter_attach(r, key, &c), -ENOENT);
	discard(NAMED, r);
}

/* The mapping of a chunk is extended from one page, which moves: the program may map something
 * else in the old place. */
static void closing_leaves_what_others_map(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	unsigned char *pages[300], there;
	struct percpu_region *r;
	void *cell;

	(void)state;
	assert_int_equal(test_region_new(test_path("grown"), NULL, &r), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &cell), 0);
	/* Fill each hole of one page. Alternating permissions keep the mappings apart. */
	for (unsigned i = 0; i < 300; i++)
		pages[i] = mmap(NULL, page, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	percpu_region_close(r);
	for (unsigned i = 0; i < 300; i++) {
		assert_int_equal(mincore(pages[i], page, &there), 0);
		munmap(pages[i], page);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(objects_are_not_taken_for_others),
		cmocka_unit_test(objects_begin_with_a_unit),
		cmocka_unit_test(private_objects_have_no_key),
		cmocka_unit_test(cells_freed_by_others_are_used_again),
		cmocka_unit_test(new_chunks_are_found),
		cmocka_unit_test(left_over_files_are_left_alone),
		cmocka_unit_test(files_are_created_whole_or_not_at_all),
		cmocka_unit_test(descriptors_are_filled_or_opened),
		cmocka_unit_test(unknown_flags_are_refused),
		cmocka_unit_test(longer_files_have_room_for_all_chunks),
		cmocka_unit_test(exclusive_files_are_new),
		cmocka_unit_test(number_0_is_a_descriptor),
		cmocka_unit_test(threads_can_be_canceled_afterwards),
		cmocka_unit_test(counters_are_the_same_in_every_opening),
		cmocka_unit_test(file_keeps_counts_when_all_have_closed),
		cmocka_unit_test(closing_leaves_what_others_map),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

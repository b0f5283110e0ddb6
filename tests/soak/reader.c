/* SPDX-License-Identifier: MIT */
/*
 * reader.c - the soak test's readers of segments from outside. One process damages a segment all
 * the time: it stores words, cuts the file, and puts other files in its place. A second one counts
 * in a segment that no process damages. A third one reads both. From the first it may get any
 * values, and any number of them. From the second it must get what was counted.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/reader.h>

#include "../picture.h"
#include "../support.h"
#include "soak.h"

#include "segment/segment.h"

#define CREATE PERCPU_SEGMENT_CREATE
#define METRIC(n)                                                                                  \
	(&(const struct percpu_metric){ .size = sizeof(struct percpu_metric), .name = (n) })
#define COUNTERS 4
#define PAGE 4096

static const char *const names[COUNTERS] = { "a_total", "b_total", "c_total", "d_total" };
static char hostile[160], honest[160];

static void name_files(void)
{
	(void)snprintf(hostile, sizeof(hostile), "%s", test_path("hostile"));
	(void)snprintf(honest, sizeof(honest), "%s", test_path("honest"));
}

static bool stopped(void)
{
	return __atomic_load_n(&soak_board->stop, __ATOMIC_RELAXED);
}

/* Declare metrics of some kinds, and count. */
static int fill(struct percpu_segment *s)
{
	static const char *const fields[] = { "x", "y" };
	const struct percpu_metric_fields f = { sizeof(f), "field", fields, 2 };
	const uint64_t ones[2] = { 1, 1 };
	struct percpu_histogram *h = NULL;
	struct percpu_counter *c = NULL;
	struct percpu_extrema *x = NULL;
	struct percpu_stats *t = NULL;
	int e = percpu_segment_histogram(s, METRIC("h"), NULL, &h);

	if (e == 0)
		e = percpu_segment_extrema(s, METRIC("x"), 0, &x);
	if (e == 0)
		e = percpu_segment_stats(s, METRIC("t_total"), &f, 0, &t);
	for (int i = 0; i < COUNTERS && e == 0; i++) {
		e = percpu_segment_counter(s, METRIC(names[i]), &c);
		if (e == 0)
			percpu_counter_add(c, 1);
	}
	if (e == 0)
		percpu_histogram_record(h, 1);
	if (e == 0)
		e = percpu_extrema_observe(x, 1);
	return e != 0 ? e : percpu_stats_update(t, 0, 0, ones, 2);
}

/* The process that damages */

static char *good;
static size_t length; /* of all chunks that there are; the file has room for many more */

static void read_good(void)
{
	const int fd = open(hostile, O_RDONLY | O_CLOEXEC);

	good = malloc(length);
	soak_require(good != NULL && pread(fd, good, length, 0) == (ssize_t)length,
		     "read a good file", length, 0);
	close(fd);
}

static void write_good(int fd)
{
	static const char zeros[PAGE];
	size_t n;

	if (ftruncate(fd, 0) != 0 || ftruncate(fd, (off_t)length) != 0)
		return;
	for (size_t at = 0; at < length; at += n) {
		n = length - at < PAGE ? length - at : PAGE;
		if (memcmp(good + at, zeros, n) != 0)
			(void)!pwrite(fd, good + at, n, (off_t)at);
	}
}

/* Put another file in its place. Return its descriptor. */
static int replace(int fd)
{
	char other[176];
	int new;

	(void)snprintf(other, sizeof(other), "%s.new", hostile);
	new = open(other, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (new < 0)
		return fd;
	write_good(new);
	if (rename(other, hostile) != 0) {
		close(new);
		return fd;
	}
	close(fd);
	return new;
}

/* Store words where there are some, or near them. */
static void scribble(char *map, uint64_t *random)
{
	uint64_t r, word;
	size_t at;

	for (unsigned n = (unsigned)(test_random(random) % 64); n > 0; n--) {
		do {
			at = (size_t)(test_random(random) % (length / PAGE)) * PAGE;
		} while (*(const uint64_t *)(good + at) == 0 && test_random(random) % 8 != 0);
		at += (size_t)(test_random(random) % (PAGE / 8)) * 8;
		r = test_random(random);
		memcpy(&word, good + at, sizeof(word));
		word = r % 4 == 0 ? r : r % 4 == 1 ? word ^ 1ULL << (r >> 8) % 64 : word + r % 256;
		__atomic_store_n((uint64_t *)(map + at), word, __ATOMIC_RELAXED);
	}
}

static int damage(uint64_t random)
{
	int fd = open(hostile, O_RDWR | O_CLOEXEC);
	uint64_t r;
	char *map;

	read_good();
	while (!stopped()) {
		r = test_random(&random);
		if (r % 16 == 0)
			fd = replace(fd);
		if (r % 8 < 2)
			write_good(fd);
		map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		soak_require(map != MAP_FAILED, "map the file that is damaged", 0, (uint64_t)errno);
		scribble(map, &random);
		munmap(map, length);
		test_sleep_us((unsigned)(r >> 32) % 1000);
		if (r / 16 % 8 == 0 && ftruncate(fd, (off_t)(r >> 16) % (off_t)length) == 0)
			test_sleep_us((unsigned)(r >> 40) % 1000);
		if (ftruncate(fd, (off_t)length) != 0)
			break;
	}
	return 0;
}

/* Count. Announce a count before, and note it afterwards. */
static int count(uint64_t random)
{
	struct percpu_counter *c[COUNTERS] = { NULL };
	struct soak_board *b = soak_board;
	struct percpu_segment *s = NULL;
	int e = percpu_segment_open(honest, 0, NULL, &s);
	uint64_t r, n;
	unsigned i;

	for (i = 0; i < COUNTERS && e == 0; i++)
		e = percpu_segment_counter(s, METRIC(names[i]), &c[i]);
	soak_require_equal("open a segment to count", 0, (uint64_t)e);
	while (!stopped()) {
		r = test_random(&random);
		i = (unsigned)(r % COUNTERS);
		n = 1 + (r >> 8) % 1000;
		__atomic_fetch_add(&b->read_begun[i], n, __ATOMIC_SEQ_CST);
		percpu_counter_add(c[i], (int64_t)n);
		__atomic_fetch_add(&b->read_done[i], n, __ATOMIC_SEQ_CST);
	}
	percpu_segment_close(s);
	return 0;
}

/* The process that reads */

static void take(uint64_t from[COUNTERS], const uint64_t of[COUNTERS])
{
	for (int i = 0; i < COUNTERS; i++)
		from[i] = __atomic_load_n(&of[i], __ATOMIC_SEQ_CST);
}

static void check_picture(const struct percpu_reader *r, bool damaged)
{
	const char *wrong = picture_check(r, damaged);

	soak_require(wrong == NULL, wrong != NULL ? wrong : "", 0, damaged);
}

/* Check that the picture is between what was noted and what was announced. */
static void check_honest(struct percpu_reader *r)
{
	uint64_t least[COUNTERS], most[COUNTERS], found = 0;
	int e;

	take(least, soak_board->read_done);
	e = percpu_reader_read(r);
	take(most, soak_board->read_begun);
	soak_require_equal("read a segment that nobody damages", 0, (uint64_t)e);
	soak_require_equal("series", COUNTERS, percpu_reader_count(r));
	check_picture(r, false);
	for (size_t i = 0; i < COUNTERS; i++) {
		e = percpu_reader_counter(r, i, &found);
		soak_require_equal("read a counter from outside", 0, (uint64_t)e);
		soak_require(found >= least[i], "count from outside, at least", least[i], found);
		soak_require(found <= most[i], "count from outside, at most", most[i], found);
	}
	__atomic_fetch_add(&soak_board->pictures[0], 1, __ATOMIC_RELAXED);
}

/* Ask for all that is in a picture. */
static void ask(struct percpu_reader *r)
{
	struct percpu_histogram_snapshot *shot;
	struct percpu_reader_series series;
	struct percpu_owned_value owned[2];
	uint64_t words[2] = { 0 };
	double min, max, each[2];
	size_t n;

	for (size_t i = 0; i < percpu_reader_count(r); i++) {
		soak_require_equal("tell of a series", 0,
				   (uint64_t)percpu_reader_series(r, i, &series));
		(void)!percpu_reader_number(r, i, &max);
		(void)!percpu_reader_extrema(r, i, &min, &max);
		(void)!percpu_reader_stats(r, i, words, series.n < 2 ? series.n : 2);
		(void)!percpu_reader_owned_each(r, i, owned, 2, &n);
		(void)!percpu_reader_cpus(r, i, each, 1);
		if (percpu_reader_histogram(r, i, &shot) == 0)
			percpu_histogram_snapshot_destroy(shot);
	}
}

/* Read the damaged segment, by a reader that may have been opened before. Return it, or NULL. */
static struct percpu_reader *read_hostile(struct percpu_reader *r)
{
	int e;

	if (r == NULL && percpu_reader_open(hostile, &r) != 0) {
		__atomic_fetch_add(&soak_board->pictures[2], 1, __ATOMIC_RELAXED);
		return NULL;
	}
	e = percpu_reader_read(r);
	soak_require(e == 0 || e == -EBADMSG || e == -EPROTO || e == -ESTALE || e == -EAGAIN ||
			     e == -ENOENT,
		     "read a segment that is damaged", 0, (uint64_t)e);
	__atomic_fetch_add(&soak_board->pictures[e == 0 ? 1 : 2], 1, __ATOMIC_RELAXED);
	if (e == 0)
		check_picture(r, true);
	ask(r);
	if (e != -ESTALE)
		return r;
	percpu_reader_close(r);
	return NULL;
}

static int look(uint64_t random)
{
	struct percpu_reader *mine = NULL, *kept = NULL, *other;

	soak_require_equal("open a reader", 0, (uint64_t)percpu_reader_open(honest, &mine));
	while (!stopped()) {
		check_honest(mine);
		kept = read_hostile(kept);
		if (test_random(&random) % 4 != 0)
			continue;
		percpu_reader_close(read_hostile(NULL));
		soak_require_equal("open a reader", 0,
				   (uint64_t)percpu_reader_open(honest, &other));
		check_honest(other);
		percpu_reader_close(other);
	}
	percpu_reader_close(mine);
	percpu_reader_close(kept);
	return 0;
}

/* The directing process */

static void start(int (*fn)(uint64_t random), uint64_t random)
{
	pid_t pid;

	fflush(NULL);
	pid = fork();
	soak_require(pid >= 0, "fork", 0, (uint64_t)errno);
	if (pid != 0)
		return;
	test_alarm(SOAK_SECONDS);
	_exit(fn(random | 1));
}

void soak_reader_start(uint64_t random)
{
	struct percpu_segment *s = NULL;
	struct percpu_counter *c;
	int e;

	name_files();
	e = percpu_segment_open(hostile, CREATE, NULL, &s);
	if (e == 0)
		e = fill(s);
	soak_require_equal("make a segment", 0, (uint64_t)e);
	length = s->region->n * (size_t)percpu_chunk_size(PERCPU_STRIDE, s->region->cpus);
	percpu_segment_close(s);
	s = NULL;
	if (e == 0)
		e = percpu_segment_open(honest, CREATE, NULL, &s);
	for (int i = 0; i < COUNTERS && e == 0; i++)
		e = percpu_segment_counter(s, METRIC(names[i]), &c);
	soak_require_equal("make segments", 0, (uint64_t)e);
	percpu_segment_close(s);
	start(damage, test_random(&random));
	start(count, test_random(&random));
	start(look, test_random(&random));
}

void soak_reader_check(uint64_t pictures[3])
{
	struct percpu_reader *r = NULL;

	soak_require_equal("open a reader", 0, (uint64_t)percpu_reader_open(honest, &r));
	for (int i = 0; i < COUNTERS; i++)
		soak_require_equal("what was announced, and counted", soak_board->read_begun[i],
				   soak_board->read_done[i]);
	check_honest(r);
	percpu_reader_close(r);
	for (int i = 0; i < 3; i++)
		pictures[i] += soak_board->pictures[i];
	unlink(hostile);
	unlink(honest);
}

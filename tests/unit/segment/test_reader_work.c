/* SPDX-License-Identifier: MIT */
/*
 * test_reader_work.c - what a picture costs, in reads from the file: of a file with holes, of
 * one that another process changes all the time, and when the time for a picture is over.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "support.h"
#include "reader_calls.h"

#include "segment/reader.h"

#define CPUS 256
#define HISTOGRAMS 4
#define COUNTERS 40

/* The limit of the cost of reading again, or eight times the first reading's cost if that is
 * more. The last read may exceed it. */
#define FREE (UINT64_C(16384) * (4096 + 4096))
#define BEGIN_FREE (4 * FREE) /* and beginning again */
#define LAST_READ (4096 + PERCPU_LANE_SIZE)

static uint64_t cost; /* of reads: their bytes, and 4096 for each */
static unsigned reads, looks;
static int look_fails;	    /* the error; 0: none */
static long fs_type;	    /* of the file's file system; 0: its own; -1: statfs() fails */
static bool cuts;	    /* the file is cut where data is looked for */
static uint64_t late_at;    /* the time is over when this byte is about to be read; 0: never */
static unsigned in_time;    /* the time is over at this call for one more record; 0: never */
static uint64_t first_at;   /* where the first block of records is; 0: not counted */
static unsigned first_read; /* how often that block was read */

static unsigned behind; /* reads of later chunks than that of late_at, after the time is over */

static struct percpu_histogram *histogram[HISTOGRAMS];
static struct percpu_counter *first_counter;
static uint64_t bias_of[HISTOGRAMS]; /* where the file has their biases */
static unsigned changes[HISTOGRAMS]; /* how often it still changes when it is about to be read */

static bool resets;	      /* the segment is reset when a picture is about to end */
static unsigned control_read; /* reads of the control: three for each beginning */

static void reset_segment(void)
{
	if (++control_read % 3 != 0)
		return;
	s->control->generation++;
	s->control->completed++;
}

static uint64_t place_of_control(void)
{
	const struct percpu_chunk *k = percpu_chunk_of(r->cell);

	return percpu_reader_file_offset(r, k->index, 2 * r->cpus, (size_t)(r->cell - k->base));
}

/* The word at this place differs each time it is read, while changed values are read again. If
 * spends is set, it differs at its second first-time reading, which also uses up the budget. */
static uint64_t torn_at;
static bool spends;
static unsigned tears;

static void tear(char *to, uint64_t from, size_t n)
{
	const uint64_t much = UINT64_C(1) << 40;
	uint64_t word;

	if (torn_at == 0 || torn_at < from || torn_at + sizeof(word) > from + n ||
	    r->repeats == spends || (spends && ++tears != 2))
		return;
	memcpy(&word, to + (torn_at - from), sizeof(word));
	word += spends ? 1 : ++tears;
	memcpy(to + (torn_at - from), &word, sizeof(word));
	if (spends) {
		r->cost += much;
		r->again += much;
	}
}

static void change_bias(unsigned i)
{
	char *cell = (char *)histogram[i]->block.base + PERCPU_HISTOGRAM_HEAD;

	++*(uint64_t *)(cell + 2 * (size_t)s->region->cpus * PERCPU_STRIDE);
	changes[i]--;
}

ssize_t __real_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at);
ssize_t __wrap_pread64(int fd, void *to, size_t n, off_t at)
{
	const uint64_t from = (uint64_t)at;
	ssize_t got;

	reads++;
	cost += 4096 + n;
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		if (changes[i] != 0 && bias_of[i] >= from && bias_of[i] < from + n)
			change_bias(i);
	if (resets && from == place_of_control())
		reset_segment();
	if (late_at != 0 && r->deadline == 1)
		behind += from / r->chunk_size > late_at / r->chunk_size;
	if (late_at >= from && late_at < from + n && late_at != 0)
		r->deadline = 1;
	first_read += first_at >= from && first_at < from + n && first_at != 0;
	got = __real_pread64(fd, to, n, at);
	tear(to, from, n);
	return got;
}

int __real_percpu_reader_may_list(struct percpu_reader *of);
int __wrap_percpu_reader_may_list(struct percpu_reader *of);
int __wrap_percpu_reader_may_list(struct percpu_reader *of)
{
	if (in_time != 0 && --in_time == 0)
		of->deadline = 1;
	return __real_percpu_reader_may_list(of);
}

off_t __real_lseek64(int fd, off_t at, int whence);
off_t __wrap_lseek64(int fd, off_t at, int whence);
off_t __wrap_lseek64(int fd, off_t at, int whence)
{
	looks++;
	cost += 4096;
	if (cuts)
		(void)!truncate(path, at);
	cuts = false;
	errno = look_fails;
	return look_fails != 0 ? -1 : __real_lseek64(fd, at, whence);
}

int __real_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret);
int __wrap_fstatfs64(int fd, struct statfs *ret)
{
	const int e = __real_fstatfs64(fd, ret);

	if (fs_type != 0)
		ret->f_type = fs_type;
	return fs_type == -1 ? -1 : e;
}

/* Make a segment for many CPUs, with four histograms and some counters that are counted in on
 * one CPU. */
static int make_large(void **state)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .cpus = CPUS };
	struct percpu_counter_array *gap;
	char name[32];

	(void)state;
	memset(changes, 0, sizeof(changes));
	resets = false;
	look_fails = 0;
	fs_type = 0;
	late_at = torn_at = first_at = 0;
	in_time = 0;
	spends = false;
	tears = 0;
	strcpy(path, test_path("work"));
	assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
	assert_true(test_pin(0, test_cpu(0)));
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		snprintf(name, sizeof(name), "h%u", i);
		assert_int_equal(percpu_segment_histogram(s, METRIC(name), NULL, &histogram[i]), 0);
		percpu_histogram_record(histogram[i], 1);
	}
	/* The gap keeps histograms and counters from being near each other. */
	assert_int_equal(percpu_counter_array_create_in(s->region, 2048, &gap), 0);
	percpu_counter_array_detach(gap);
	for (unsigned i = COUNTERS; i-- > 0;) {
		snprintf(name, sizeof(name), "c%02u_total", i);
		first_counter = counter(name);
		percpu_counter_add(first_counter, i + 1);
	}
	test_unpin(0);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		bias_of[i] = percpu_reader_file_offset(r, histogram[i]->block.chunk->index,
						       2 * s->region->cpus,
						       (size_t)((char *)histogram[i]->block.base -
								histogram[i]->block.chunk->base) +
							       PERCPU_HISTOGRAM_HEAD);
	return 0;
}

static uint64_t data_of_file(void)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void start_counting(void)
{
	cost = 0;
	reads = looks = 0;
}

static void counters_are_there(void)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		assert_int_equal(count_of(i), i + 1);
}

static void histogram_is(unsigned i, int e)
{
	struct percpu_histogram_snapshot *shot = NULL;

	assert_int_equal(percpu_reader_histogram(r, COUNTERS + i, &shot), e);
	if (e == 0)
		assert_int_equal(shot->count, 1);
	percpu_histogram_snapshot_destroy(shot);
}

static void all_is_there(void)
{
	counters_are_there();
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		histogram_is(i, 0);
	assert_int_equal(info_of().missing, 0);
}

/* Punch a hole for each page that is empty. */
static void punch_holes(void)
{
	static const char empty[4096];
	static char page[sizeof(empty)];
	int fd = open(path, O_RDWR), e = 0;
	off_t at = 0;

	assert_true(fd >= 0);
	for (; (at = __real_lseek64(fd, at, SEEK_DATA)) >= 0; at += (off_t)sizeof(page)) {
		at -= at % (off_t)sizeof(page);
		e |= __real_pread64(fd, page, sizeof(page), at) != sizeof(page);
		if (memcmp(page, empty, sizeof(page)) == 0)
			e |= fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at,
				       (off_t)sizeof(page));
	}
	assert_int_equal(e, 0);
	assert_int_equal(close(fd), 0);
}

static void holes_are_not_read(void **state)
{
	(void)state;
	punch_holes();
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
	assert_true(reads + looks <= 4 * data_of_file() / 4096);
}

/* So many counters, and cells of other objects behind each. */
enum { APART = 8 };

static char *between[APART];

static void make_apart(void)
{
	const struct percpu_segment_options o = { .size = sizeof(o), .cpus = CPUS };
	struct percpu_counter_array *gap;
	char name[32];

	remove_segment(NULL);
	assert_int_equal(percpu_segment_open(path, ALL, &o, &s), 0);
	for (unsigned i = 0; i < APART; i++) {
		snprintf(name, sizeof(name), "c%02u_total", i);
		percpu_counter_add(counter(name), i + 1);
		assert_int_equal(percpu_counter_array_create_in(s->region, 2048, &gap), 0);
		between[i] = gap->block.base;
		percpu_counter_array_detach(gap);
	}
	assert_int_equal(percpu_reader_open(path, &r), 0);
	punch_holes();
}

/* Give these cells data: 16 KiB for each in so many lanes. */
static void fill_between(uint32_t lanes)
{
	const struct percpu_chunk *k;

	for (unsigned i = 0; i < APART; i++) {
		k = percpu_chunk_of(between[i]);
		for (uint32_t lane = 0; lane < lanes; lane++)
			memset(percpu_chunk_lane(k, lane, (size_t)(between[i] - k->base)), 1,
			       2048 * sizeof(uint64_t));
	}
}

static void look_at_all_apart(void)
{
	start_counting();
	assert_int_equal(look(), APART);
	for (unsigned i = 0; i < APART; i++)
		assert_int_equal(count_of(i), i + 1);
}

/* First the file has so much data that one counter could be read in all lanes, but not all
 * counters: lanes are searched for data. Then it has enough for all counters: lanes are read. */
static void all_lanes_together_have_much_more_room(void **state)
{
	const uint64_t room = CPUS * UINT64_C(4096 + 8);

	(void)state;
	make_apart();
	fill_between(4);
	assert_in_range(4 * data_of_file(), room, APART * room / 2);
	look_at_all_apart();
	assert_true(looks != 0 && reads + looks < APART * CPUS / 2);
	fill_between(16);
	assert_in_range(4 * data_of_file(), APART * room, 2 * APART * room);
	for (unsigned i = 0; i < 4; i++) {
		look_at_all_apart();
		assert_int_equal(looks, 0);
	}
}

/* If most lanes have data, looking for it would cost more than it saves. */
static void full_lanes_are_not_looked_for(void **state)
{
	(void)state;
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
	assert_int_equal(looks, 0);
}

/* Data is found in any lane of a file that has little else. */
static void all_data_is_found(void **state)
{
	const struct percpu_chunk *k = percpu_chunk_of((const char *)first_counter);
	const size_t offset = (size_t)((char *)first_counter - k->base);
	const uint32_t cpus = k->cpus,
		       lane[] = { 3, 4, cpus - 1, cpus + 7, cpus + 70, 2 * cpus - 1 };
	uint64_t n = 1;

	(void)state;
	punch_holes();
	for (unsigned i = 0; i < 6; i++) {
		*(uint64_t *)percpu_chunk_lane(k, lane[i], offset) = UINT64_C(100) << i;
		n += UINT64_C(100) << i;
		if (lane[i] >= cpus)
			k->header->atomic_lanes[(lane[i] - cpus) / 64] |= UINT64_C(1)
									  << (lane[i] - cpus) % 64;
		assert_int_equal(look(), COUNTERS + HISTOGRAMS);
		assert_int_equal(count_of(0), n);
	}
	/* A lane that is marked as used has nothing, and one behind it has data, and is not
	 * marked. */
	k->header->atomic_lanes[0] |= UINT64_C(1) << 20;
	*(uint64_t *)percpu_chunk_lane(k, cpus + 30, offset) = 1000;
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(count_of(0), n);
	assert_true(looks != 0 && reads < cpus);
}

static void file_systems_that_do_not_tell_are_read(void **state)
{
	static const long types[] = { 0x65735546, /* FUSE: it does not know of stores by mappings */
				      -1 };

	(void)state;
	punch_holes();
	for (unsigned i = 0; i < 2; i++) {
		fs_type = types[i];
		start_counting();
		assert_int_equal(look(), COUNTERS + HISTOGRAMS);
		all_is_there();
		assert_int_equal(looks, 0);
		assert_true(reads > CPUS);
	}
	fs_type = 0;
	look_fails = EINVAL;
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
	assert_true(reads > CPUS);
}

/* Looking for data would move the offset of the caller's open file. */
static void the_callers_offset_stays(void **state)
{
	int fd = open(path, O_RDONLY);

	(void)state;
	assert_true(fd >= 0);
	punch_holes();
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open_fd(fd, &r), 0);
	assert_int_equal(__real_lseek64(fd, 123, SEEK_SET), 123);
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
	assert_true(looks > 0);
	assert_int_equal(__real_lseek64(fd, 0, SEEK_CUR), 123);
	assert_int_equal(close(fd), 0);
}

/* A search for data behind the end of the file finds no hole, but the damage. */
static void a_file_that_is_cut_short_amid_holes_is_told(void **state)
{
	struct stat st;

	(void)state;
	punch_holes();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(stat(path, &st), 0);
	cuts = true;
	assert_int_equal(take(), -EBADMSG);
	assert_false(cuts);
	assert_int_equal(truncate(path, st.st_size), 0);
}

/* Return where the file has the first count of a histogram in the lane of a CPU. */
static uint64_t cells_of(unsigned i, uint32_t lane)
{
	const struct percpu_block *b = &histogram[i]->block;

	return percpu_reader_file_offset(r, b->chunk->index, lane,
					 (size_t)((char *)b->base - b->chunk->base) +
						 PERCPU_HISTOGRAM_HEAD);
}

/* Biases change all the time, without or with words that change together in a lane. */
static void what_changes_all_the_time_is_given_up(void **state)
{
	uint64_t quiet;

	(void)state;
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	quiet = cost;
	for (unsigned i = 0; i < 2; i++) {
		torn_at = i != 0 ? cells_of(0, CPUS / 2) : 0;
		for (unsigned k = 0; k < HISTOGRAMS; k++)
			changes[k] = UINT32_MAX;
		start_counting();
		assert_int_equal(look(), COUNTERS + HISTOGRAMS);
		assert_true(cost <= quiet + (8 * quiet > FREE ? 8 * quiet : FREE) + LAST_READ);
		assert_true((tears != 0) == (i != 0));
		counters_are_there();
		for (unsigned k = 0; k < HISTOGRAMS; k++)
			histogram_is(k, -EAGAIN);
		assert_int_equal(info_of().missing, HISTOGRAMS);
		assert_non_null(strstr(percpu_error(), "h0 and 3 more series"));
		assert_non_null(strstr(percpu_error(), "changed"));
	}
}

/* The budget is only for reading again, not for what is read for the first time. */
static void words_read_again_leave_nothing_out(void **state)
{
	(void)state;
	torn_at = cells_of(0, 0);
	spends = true;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(tears, 2);
	all_is_there();
}

/* All beginnings of a picture share one budget for reading again. */
static void a_picture_that_is_begun_anew_has_one_budget(void **state)
{
	uint64_t quiet;

	(void)state;
	r->copied = 0; /* so that the records are read, too */
	start_counting();
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	quiet = cost;
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		changes[i] = UINT32_MAX;
	resets = true;
	control_read = 0;
	start_counting();
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(control_read, 3 * 16);
	cost -= looks * UINT64_C(4096); /* sixteen times the lanes exceed the file's data */
	assert_true(cost <= 16 * quiet + (8 * quiet > FREE ? 8 * quiet : FREE) + LAST_READ);
}

/* Begin once more, at this cost: for reads, for looking at records, and for reading again. */
static void has_cost(uint64_t read, uint64_t looked, uint64_t again)
{
	percpu_reader_begin_anew(r);
	r->cost += read + again;
	r->again += again;
	r->looked += looked;
}

/* If beginnings cost much, all together may cost three times the most costly one, or three times
 * the expected cost. */
static void what_is_begun_costs_three_times_as_much(void **state)
{
	const uint64_t much = BEGIN_FREE;

	(void)state;
	percpu_reader_begin(r);
	assert_true(percpu_reader_may_begin(r));
	has_cost(much - 1, 0, 8 * much);
	assert_true(percpu_reader_may_begin(r));
	has_cost(0, much / 2 + 1, 0);
	assert_true(percpu_reader_may_begin(r)); /* one and a half times the first one */
	has_cost(1, much - 2, 0);
	assert_true(percpu_reader_may_begin(r));
	has_cost(0, much / 2 - 3, 0);
	assert_true(percpu_reader_may_begin(r));
	has_cost(1, 0, 0);
	assert_false(percpu_reader_may_begin(r));
	percpu_reader_expect(r, much + 1);
	assert_true(percpu_reader_may_begin(r));
	percpu_reader_expect(r, 1);
	assert_true(percpu_reader_may_begin(r));
	has_cost(6, 0, 0);
	assert_false(percpu_reader_may_begin(r));
	has_cost(2 * much, 0, 0); /* so this is the known cost of one */
	assert_true(percpu_reader_may_begin(r));
	percpu_reader_begin(r);
	has_cost(1, much / 4 - 1, much);
	assert_true(percpu_reader_may_begin(r));
	has_cost(much / 4, 0, 0);
	assert_true(percpu_reader_may_begin(r));
	has_cost(0, much / 4, 0);
	assert_true(percpu_reader_may_begin(r));
	has_cost(0, much / 4 - 1, 0);
	assert_true(percpu_reader_may_begin(r)); /* over three times, under the expected cost */
	has_cost(1, 0, 0);
	assert_false(percpu_reader_may_begin(r));
}

/* If the first reading costs much, reading again may cost eight times that. */
static void what_is_read_again_costs_eight_times_as_much(void **state)
{
	(void)state;
	r->again = FREE;
	r->cost = r->again + FREE / 8;
	assert_false(percpu_reader_may_repeat(r));
	r->cost++;
	assert_true(percpu_reader_may_repeat(r));
	r->again += 7;
	r->cost += 7;
	assert_true(percpu_reader_may_repeat(r));
	r->again++;
	r->cost++;
	assert_false(percpu_reader_may_repeat(r));
}

/* Values that do not change are read although others in the file use up their tries. */
static void each_has_its_turn(void **state)
{
	struct percpu_histogram_snapshot *shot = NULL;

	(void)state;
	for (unsigned i = 0; i + 1 < HISTOGRAMS; i++)
		changes[i] = UINT32_MAX;
	changes[HISTOGRAMS - 1] = 2;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	counters_are_there();
	for (unsigned i = 0; i + 1 < HISTOGRAMS; i++)
		histogram_is(i, -EAGAIN);
	assert_int_equal(changes[HISTOGRAMS - 1], 0);
	assert_int_equal(percpu_reader_histogram(r, COUNTERS + HISTOGRAMS - 1, &shot), 0);
	percpu_histogram_snapshot_destroy(shot);
	assert_int_equal(info_of().missing, HISTOGRAMS - 1);
}

/* A value that takes more tries than the ones behind it does not end theirs. */
static void each_is_read_until_it_is_the_same(void **state)
{
	struct percpu_histogram_snapshot *shot;

	(void)state;
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		changes[i] = 20 - 5 * i;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	for (unsigned i = 0; i < HISTOGRAMS; i++) {
		assert_int_equal(changes[i], 0);
		assert_int_equal(percpu_reader_histogram(r, COUNTERS + i, &shot), 0);
		percpu_histogram_snapshot_destroy(shot);
	}
	assert_int_equal(info_of().missing, 0);
}

/* The bias is read with all others, and again after the lanes; then twice for each try. In a
 * file with little to read, only the number of tries ends this. */
static void a_value_is_read_again_64_times(void **state)
{
	(void)state;
	punch_holes();
	changes[0] = 2 * 64 + 1; /* no change in the last try */
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(info_of().missing, 0);
	forget();
	changes[0] = 2 * 64 + 2;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(changes[0], 0);
	assert_int_equal(info_of().missing, 1);
	histogram_is(0, -EAGAIN);
}

/* Time */

static void a_picture_that_has_no_time_is_none(void **state)
{
	(void)state;
	assert_int_equal(percpu_reader_set_timeout(NULL, 1), -EINVAL);
	assert_int_equal(percpu_reader_set_timeout(r, 1), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(take(), -EAGAIN);
		assert_int_equal(percpu_reader_count(r), 0);
		assert_non_null(strstr(percpu_error(), "time"));
	}
	assert_int_equal(percpu_reader_set_timeout(r, UINT64_MAX), 0);
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
	assert_int_equal(percpu_reader_set_timeout(r, 1), 0);
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(percpu_reader_set_timeout(r, 0), 0);
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
}

/* Return where a lane has the first of the counters. */
static uint64_t counters_in(uint32_t lane)
{
	const struct percpu_chunk *k = percpu_chunk_of((const char *)first_counter);

	return percpu_reader_file_offset(r, k->index, lane,
					 (size_t)((char *)first_counter - k->base));
}

/* When the time is over, values that were read have an answer: histograms, and the counters
 * before the last run. */
static void what_was_read_in_time_is_told(void **state)
{
	unsigned in_time = 0;
	uint64_t count;
	bool late;

	(void)state;
	late_at = counters_in(CPUS / 2);
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	for (unsigned i = 0; i < COUNTERS; i++) {
		late = r->entry[i].cells.part.offset >= r->part[r->parts - 1].offset;
		in_time += !late;
		count = 77;
		assert_int_equal(percpu_reader_counter(r, i, &count), late ? -EAGAIN : 0);
		assert_int_equal(count, late ? 77 : i + 1);
	}
	assert_true(in_time < COUNTERS / 2);
	for (unsigned i = 0; i < HISTOGRAMS; i++)
		histogram_is(i, 0);
	assert_int_equal(info_of().missing, COUNTERS - in_time);
	assert_non_null(strstr(percpu_error(), "c00_total and"));
	assert_non_null(strstr(percpu_error(), "time"));
	late_at = 0;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	all_is_there();
}

/* Nothing is read again when the time is over. */
static void nothing_is_read_again_when_it_is_late(void **state)
{
	(void)state;
	late_at = counters_in(2 * CPUS - 1);
	changes[1] = 2;
	percpu_chunk_of((const char *)first_counter)->header->atomic_lanes[CPUS / 64 - 1] |=
		UINT64_C(1) << 63;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	histogram_is(0, 0);
	histogram_is(1, -EAGAIN);
	late_at = 0;
	assert_int_equal(look(), COUNTERS + HISTOGRAMS);
	assert_int_equal(info_of().missing, 0);
}

/* Records that were copied or listed in time are kept for the next picture. */

enum { LONG = 140, LISTED = 40 };

/* Make a segment with three blocks of records. */
static void make_long(void)
{
	static char help[PERCPU_METRIC_HELP + 1];
	struct percpu_counter *c;
	char name[32];

	memset(help, 'h', sizeof(help) - 1);
	remove_segment(NULL);
	assert_int_equal(percpu_segment_open(path, ALL, NULL, &s), 0);
	for (unsigned i = 0; i < LONG; i++) {
		const struct percpu_metric m = { .size = sizeof(m), .name = name, .help = help };

		snprintf(name, sizeof(name), "c%03u_total", i);
		assert_int_equal(percpu_segment_counter(s, &m, &c), 0);
		percpu_counter_add(c, i + 1);
	}
	assert_in_range(s->control->end, 2 * PERCPU_SEGMENT_BLOCK + 1, 3 * PERCPU_SEGMENT_BLOCK);
	start_counting();
	assert_int_equal(percpu_reader_open(path, &r), 0);
}

static uint64_t block_at(unsigned i)
{
	const uint64_t key = s->control->block[i] & PERCPU_KEY_CELL;

	return percpu_reader_file_offset(r, (uint32_t)((key >> PERCPU_KEY_CHUNK_SHIFT) - 1),
					 2 * r->cpus,
					 key & ((UINT64_C(1) << PERCPU_KEY_CHUNK_SHIFT) - 1));
}

static void long_list_is(size_t n, const char *first)
{
	assert_int_equal(look(), n);
	assert_string_equal(series_of(0).name, first);
	for (unsigned i = 0; i < LONG; i++)
		assert_int_equal(count_of(i), i + 1);
}

static void there_was_no_time(void)
{
	assert_int_equal(take(), -EAGAIN);
	assert_int_equal(percpu_reader_count(r), 0);
	assert_non_null(strstr(percpu_error(), "time"));
}

/* Rename the first counter. */
static void rename_first(char letter)
{
	struct percpu_segment_record *first = percpu_directory_at(s, 0);

	*(char *)(first + 1) = letter;
	s->control->changes += 2;
}

static void opening_reads_no_records(void **state)
{
	(void)state;
	make_long();
	assert_true(cost < PERCPU_SEGMENT_BLOCK);
}

/* A picture reads its records once. To look at the damage again, it reads only the headers and
 * the damaged block. */
static void damage_is_read_once(void **state)
{
	struct percpu_reader *other = NULL;

	(void)state;
	make_long();
	first_at = block_at(0);
	s->control->block[2] += 8;
	assert_int_equal(percpu_reader_open(path, &other), 0);
	percpu_reader_close(other);
	for (unsigned i = 0; i < 3; i++) {
		start_counting();
		first_read = 0;
		assert_int_equal(take(), -EBADMSG);
		assert_int_equal(first_read, 1);
		assert_true(cost < 3 * PERCPU_SEGMENT_BLOCK);
	}
	s->control->block[2] -= 8;
	long_list_is(LONG, "c000_total");
}

static void records_are_copied_on(void **state)
{
	(void)state;
	make_long();
	first_at = block_at(0);
	for (unsigned i = 0; i < 2; i++) {
		first_read = 0;
		late_at = block_at(i);
		there_was_no_time();
		assert_int_equal(r->copied, (i + 1) * PERCPU_SEGMENT_BLOCK);
		assert_int_equal(first_read, i == 0);
	}
	late_at = 0;
	first_read = 0;
	long_list_is(LONG, "c000_total");
	assert_int_equal(first_read, 0);
	/* If records have changed since the picture, they are copied again. */
	rename_first('b');
	late_at = block_at(1);
	first_read = 0;
	there_was_no_time();
	late_at = 0;
	long_list_is(LONG, "b000_total");
	assert_int_equal(first_read, 1);
}

/* Take a picture in which so many records are listed. */
static void list_some(size_t all)
{
	in_time = LISTED + 1;
	there_was_no_time();
	assert_int_equal(r->n + r->pending, all);
	assert_int_equal(in_time, 0);
}

static void lists_are_gone_on_with(void **state)
{
	struct test_holding before;
	struct percpu_reader *kept;

	(void)state;
	make_long();
	for (unsigned i = 1; i <= 3; i++)
		list_some(i * (size_t)LISTED);
	in_time = LISTED;
	long_list_is(LONG, "c000_total");
	/* A picture without time keeps the list, too. */
	assert_int_equal(percpu_reader_set_timeout(r, 1), 0);
	there_was_no_time();
	assert_int_equal(percpu_reader_set_timeout(r, 0), 0);
	in_time = 1;
	long_list_is(LONG, "c000_total");
	in_time = 0;
	before = test_holding_now();
	kept = r;
	assert_int_equal(percpu_reader_open(path, &r), 0);
	list_some(LISTED);
	percpu_reader_close(r);
	r = kept;
	test_assert_holding(before);
}

/* A list gets to its end although records are added: it leaves out those that came after its
 * begin. */
static void lists_that_become_longer_have_an_end(void **state)
{
	struct percpu_counter_array *gap;
	uint32_t chunks;
	char name[16];

	(void)state;
	make_long();
	chunks = s->region->n;
	for (unsigned i = 1; i <= 3; i++) {
		list_some(i * (size_t)LISTED);
		snprintf(name, sizeof(name), "d%u_total", i);
		percpu_counter_add(counter(name), LONG + i);
	}
	while (s->region->n == chunks) {
		assert_int_equal(percpu_counter_array_create_in(s->region, 2048, &gap), 0);
		percpu_counter_array_detach(gap);
	}
	long_list_is(LONG, "c000_total");
	long_list_is(LONG + 3, "c000_total");
	assert_int_equal(count_of(LONG + 2), LONG + 3);
}

/* Damaged records, which have no metric, do not keep a list from its end. */
static void lists_with_damage_have_an_end(void **state)
{
	struct percpu_segment_record *second;

	(void)state;
	make_long();
	damage();
	second = percpu_directory_at(s, percpu_directory_at(s, 0)->size);
	second->key += (uint64_t)s->region->n << PERCPU_KEY_CHUNK_SHIFT;
	for (unsigned i = 1; i <= 3; i++)
		list_some(i * (size_t)LISTED);
	assert_int_equal(look(), LONG - 1);
	assert_int_equal(info_of().pending, 1);
	second->key -= (uint64_t)s->region->n << PERCPU_KEY_CHUNK_SHIFT;
	long_list_is(LONG, "c000_total");
}

/* After an object is listed, another one begins within it: all of the outer one is read. */
static void objects_within_those_listed_cut_nothing_off(void **state)
{
	struct percpu_segment_record *first, *second;
	struct percpu_fgauge *f = NULL;
	struct percpu_chunk *k;
	double level = 0;
	size_t unit, at;

	(void)state;
	if (!percpu_pair_is_atomic())
		test_skip("there are no gauges in files here");
	make_long();
	damage();
	assert_int_equal(percpu_fgauge_create_in(s->region, &f), 0);
	assert_int_equal(percpu_fgauge_set(f, 2.5), 0);
	k = percpu_chunk_of(f);
	at = (size_t)((char *)f - k->base);
	unit = (at + sizeof(struct percpu_pair_value)) / k->unit;
	first = percpu_directory_at(s, 0);
	second = percpu_directory_at(s, first->size);
	first->kind = PERCPU_METRIC_FGAUGE;
	first->key = percpu_fgauge_key(f);
	second->kind = PERCPU_METRIC_GAUGE;
	second->key = (uint64_t)PERCPU_KIND_GAUGE << PERCPU_KEY_KIND_SHIFT |
		      ((first->key & PERCPU_KEY_CELL) + sizeof(struct percpu_pair_value));
	((char *)(first + 1))[first->name - 1] = 'k'; /* only a counter is a total */
	((char *)(second + 1))[second->name - 1] = 'k';
	in_time = 2;
	there_was_no_time();
	assert_int_equal(r->n, 1);
	k->header->starts[unit / 64] |= UINT64_C(1) << unit % 64;
	assert_int_equal(look(), LONG);
	assert_int_equal(r->runs, 1);
	assert_true(r->run[0].offset + r->run[0].bytes >= at + sizeof(struct percpu_double_bias));
	assert_int_equal(percpu_reader_number(r, 0, &level), 0);
	assert_true(level == 2.5);
	k->header->starts[unit / 64] &= ~(UINT64_C(1) << unit % 64);
}

/* If they began anew, series that come and go could keep a list from its end. */
static void lists_of_what_has_changed_are_gone_on_with(void **state)
{
	(void)state;
	make_long();
	list_some(LISTED);
	rename_first('b');
	list_some(2 * (size_t)LISTED);
	long_list_is(LONG, "c000_total");
	long_list_is(LONG, "b000_total");
}

/* The reset is seen before the list is continued. */
static void lists_of_what_was_reset_begin_anew(void **state)
{
	(void)state;
	make_long();
	list_some(LISTED);
	s->control->generation++;
	s->control->completed++;
	rename_first('b');
	list_some(LISTED);
	long_list_is(LONG, "b000_total");
}

/* Words of chunks are not read when the time is over: a file may have many chunks. */
static void chunks_are_not_looked_at_when_it_is_late(void **state)
{
	enum { MORE = 6 };
	struct percpu_counter *c[MORE];
	const struct percpu_chunk *k;
	char name[32];
	void *cell;
	int e;

	(void)state;
	for (unsigned i = 0; i < MORE; i++) {
		const uint32_t n = s->region->n;

		while (s->region->n == n)
			assert_int_equal(
				percpu_region_alloc(s->region, PERCPU_LANE_SIZE / 2, 8, &cell), 0);
		snprintf(name, sizeof(name), "d%u_total", i);
		c[i] = counter(name);
		assert_int_equal(percpu_chunk_of((const char *)c[i])->index, n);
		percpu_counter_add(c[i], 100 + i);
	}
	assert_int_equal(look(), COUNTERS + MORE + HISTOGRAMS);
	for (unsigned i = 0; i + 1 < MORE; i++) {
		k = percpu_chunk_of((const char *)c[i]);
		behind = 0;
		late_at = percpu_reader_file_offset(r, k->index, 2 * r->cpus,
						    (size_t)((const char *)c[i] - k->base));
		e = take();
		assert_int_equal(behind, 0);
		assert_int_equal(e, -EAGAIN);
		assert_non_null(strstr(percpu_error(), "time"));
		late_at = 0;
		assert_int_equal(look(), COUNTERS + MORE + HISTOGRAMS);
		assert_int_equal(count_of(COUNTERS + i), 100 + i);
	}
}

int main(void)
{
#define EACH(f) cmocka_unit_test_setup_teardown(f, make_large, remove_segment)
	const struct CMUnitTest tests[] = {
		EACH(holes_are_not_read),
		EACH(all_lanes_together_have_much_more_room),
		EACH(full_lanes_are_not_looked_for),
		EACH(all_data_is_found),
		EACH(file_systems_that_do_not_tell_are_read),
		EACH(the_callers_offset_stays),
		EACH(a_file_that_is_cut_short_amid_holes_is_told),
		EACH(what_changes_all_the_time_is_given_up),
		EACH(words_read_again_leave_nothing_out),
		EACH(a_picture_that_is_begun_anew_has_one_budget),
		EACH(what_is_begun_costs_three_times_as_much),
		EACH(what_is_read_again_costs_eight_times_as_much),
		EACH(each_has_its_turn),
		EACH(each_is_read_until_it_is_the_same),
		EACH(a_value_is_read_again_64_times),
		EACH(a_picture_that_has_no_time_is_none),
		EACH(what_was_read_in_time_is_told),
		EACH(nothing_is_read_again_when_it_is_late),
		EACH(opening_reads_no_records),
		EACH(damage_is_read_once),
		EACH(records_are_copied_on),
		EACH(lists_are_gone_on_with),
		EACH(lists_that_become_longer_have_an_end),
		EACH(lists_with_damage_have_an_end),
		EACH(objects_within_those_listed_cut_nothing_off),
		EACH(lists_of_what_has_changed_are_gone_on_with),
		EACH(lists_of_what_was_reset_begin_anew),
		EACH(chunks_are_not_looked_at_when_it_is_late),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

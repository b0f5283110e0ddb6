/* SPDX-License-Identifier: MIT */
/*
 * peer.c - a C process that counts in the segment of processes.rs until it is killed.
 *
 *	peer SEGMENT PROGRESS SLOT
 *
 * PROGRESS is a file of pairs of words. In the pair SLOT it stores how many rounds it has begun and
 * ended.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <percpu/percpu.h>

struct pair {
	uint64_t a, b;
};

static struct percpu_counter *counter;
static struct percpu_fcounter *fcounter;
static struct percpu_histogram *histogram;
static PERCPU_STATS(struct pair) pair;

static int declare(const char *name)
{
	static const char *const fields[] = { "a", "b" };
	const struct percpu_metric_fields f = PERCPU_METRIC_FIELDS(struct pair, "field", fields);
	const struct percpu_metric c = { .size = sizeof(c), .name = "rounds_total" };
	const struct percpu_metric d = { .size = sizeof(d), .name = "halves_total" };
	const struct percpu_metric h = { .size = sizeof(h), .name = "sizes" };
	const struct percpu_metric p = { .size = sizeof(p), .name = "pairs_total" };
	struct percpu_segment *s;
	int e = percpu_segment_open(name, 0, NULL, &s);

	if (e == 0)
		e = percpu_segment_counter(s, &c, &counter);
	if (e == 0)
		e = percpu_segment_fcounter(s, &d, &fcounter);
	if (e == 0)
		e = percpu_segment_histogram(s, &h, NULL, &histogram);
	if (e == 0)
		e = percpu_segment_stats(s, &p, &f, 0, PERCPU_STATS_RET(&pair));
	return e;
}

int main(int argc, char **argv)
{
	uint64_t *progress;
	int fd;

	if (argc != 4 || declare(argv[1]) != 0) {
		fprintf(stderr, "peer: %s\n", percpu_error());
		return 1;
	}
	fd = open(argv[2], O_RDWR | O_CLOEXEC);
	progress = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd < 0 || progress == MAP_FAILED) {
		perror("peer");
		return 1;
	}
	progress += 2 * strtoul(argv[3], NULL, 10);
	for (;;) {
		__atomic_fetch_add(&progress[0], 1, __ATOMIC_SEQ_CST);
		percpu_counter_inc(counter);
		(void)percpu_fcounter_add(fcounter, 0.5);
		percpu_histogram_record(histogram, 2.0);
		PERCPU_STATS_UPDATE(pair, 0, .a = 1, .b = 3);
		__atomic_fetch_add(&progress[1], 1, __ATOMIC_SEQ_CST);
	}
}

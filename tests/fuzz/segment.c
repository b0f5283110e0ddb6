/* SPDX-License-Identifier: MIT */
/*
 * segment.c - segments that another process may have made up: opened, declared in, counted in.
 * None of it may crash, hang, or reach beyond the lanes. For as many inputs as the argument says,
 * words of a good file are replaced at random, the same each time: of the header, of the control,
 * of records, and of the allocator's bits.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "segment/segment.h"

#define WRITE PERCPU_SEGMENT_WRITE
#define METRICS 12
#define PAGE 4096
#define STOP "fuzz: "

/* Time passes quickly for the library, which waits for locks that nobody holds. */
static bool in_library;
static uint64_t passed;

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int r = __real_clock_gettime(clock, t);

	if (in_library)
		t->tv_sec += (time_t)(passed += 1);
	return r;
}

void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns);
void __wrap_percpu_futex_sleep(uint32_t *word, int operation, uint32_t value, uint64_t ns)
{
	(void)word, (void)operation, (void)value, (void)ns;
}

/* Whoever is told of a crash is so under locks, too. */
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how, (void)set;
	if (old != NULL)
		sigemptyset(old);
	return 0;
}

/* Nobody else runs sequences here. */
int __wrap_percpu_fence_below(uint32_t end, uint64_t ns, struct percpu_fence_report *report);
int __wrap_percpu_fence_below(uint32_t end, uint64_t ns, struct percpu_fence_report *report)
{
	(void)end, (void)ns, (void)report;
	return 0;
}

static void must(bool holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, STOP "%s\n", what);
	abort();
}

static uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* An object's bytes are in the lane of a chunk that is mapped. */
static void check_cell(const struct percpu_segment *s, const void *base, size_t size)
{
	const struct percpu_chunk *k = percpu_region_chunk(s->region, base);
	size_t offset;

	if (k == NULL) {
		must(false, "an object is in no chunk");
		return;
	}
	offset = (size_t)((const char *)base - k->base);
	must(offset <= k->lane_size && size <= k->lane_size - offset, "an object leaves its lane");
}

static unsigned refused; /* any answer will do */

/* Declare metric i, and use it. Returns what it said. */
static int use_metric(struct percpu_segment *s, unsigned i, bool writes)
{
	static const char *const labels[] = { "a", "b" };
	const char *const values[] = { "x", "yyyyyyyyyyyyyyyyyyyyy" };
	char name[32];
	struct percpu_metric m = { .size = sizeof(m),
				   .name = name,
				   .help = "What it counts.",
				   .label_names = labels,
				   .label_values = values,
				   .labels = i % 3 };
	struct percpu_histogram *h;
	struct percpu_owned_gauge *o;
	struct percpu_extrema *x;
	struct percpu_counter *c;
	int64_t min, max;
	int e;

	snprintf(name, sizeof(name), "m%u%s", i, i % 4 == 0 ? "_total" : "");
	switch (i % 4) {
	case 0:
		e = percpu_segment_counter(s, &m, &c);
		if (e != 0)
			break;
		check_cell(s, c, sizeof(uint64_t));
		if (writes)
			percpu_counter_add(c, 1);
		refused += percpu_counter_fetch(c) == 0;
		break;
	case 1:
		e = percpu_segment_histogram(s, &m, NULL, &h);
		if (e != 0)
			break;
		check_cell(s, h->block.base, h->block.size);
		percpu_histogram_record(h, 2);
		break;
	case 2:
		e = percpu_segment_extrema(s, &m, 0, &x);
		if (e != 0)
			break;
		check_cell(s, x->block.base, x->block.size);
		refused += percpu_extrema_observe(x, 7) != 0;
		refused += percpu_extrema_fetch(x, &min, &max) != 0;
		break;
	default:
		e = percpu_segment_owned_gauge(s, &m, PERCPU_OWNED_SUM, &o);
		if (e != 0)
			break;
		check_cell(s, o->owned.block.base, o->owned.block.size);
		if (writes)
			refused += percpu_owned_gauge_add(o, 1) != 0;
		refused += percpu_owned_gauge_fetch(o, PERCPU_OWNED_ALL, &min) != 0;
	}
	must((e == 0) != (*percpu_segment_error(s) != '\0') || e == 0, "no word about an error");
	return e;
}

static char *good;		      /* the file */
static bool *has_bytes;		      /* each page of it */
static size_t length, control, block; /* offsets in it */
static int file;

static size_t offset_of(const struct percpu_segment *s, const void *in_bias_lane)
{
	return (size_t)((const char *)in_bias_lane - (const char *)s->region->first->header);
}

static void make_good_file(void)
{
	struct percpu_segment *s = NULL;
	struct stat st;

	file = memfd_create("fuzz", MFD_CLOEXEC);
	must(percpu_segment_open_fd(file, WRITE | PERCPU_SEGMENT_CREATE, NULL, &s) == 0,
	     "a good file");
	for (unsigned i = 0; i < METRICS; i++)
		must(use_metric(s, i, true) == 0, percpu_segment_error(s));
	control = offset_of(s, s->control);
	block = offset_of(s, s->block[0]);
	length = (size_t)percpu_chunk_size(PERCPU_STRIDE, s->region->cpus);
	must(fstat(file, &st) == 0 && (size_t)st.st_size >= 2 * length, "its length");
	percpu_segment_close(s);
	length *= 2; /* with an empty chunk */
	good = malloc(length);
	has_bytes = calloc(length / PAGE + 1, sizeof(*has_bytes));
	must(good != NULL && has_bytes != NULL && pread(file, good, length, 0) == (ssize_t)length,
	     "to be read");
	for (size_t i = 0; i < length; i++)
		has_bytes[i / PAGE] |= good[i] != 0;
}

static size_t place_in(uint64_t r)
{
	const size_t words = (size_t)(r >> 8) % 4096 * 4;

	switch (r % 8) {
	case 0:
		return control + words % 128;
	case 1:
		return control + 128 + words % 32;
	case 2: /* heads of the first records, which are about as long */
		return block + words / 80 % 16 * 112 + words % 80;
	case 3:
	case 4:
		return block + words % 1600;
	case 5:
		return offsetof(struct percpu_header, creation) + words % 40;
	case 6:
		return offsetof(struct percpu_header, used) + words % 2048;
	default:
		return words;
	}
}

static uint64_t value_in(uint64_t r, uint64_t now)
{
	const uint64_t one = 1;

	switch (r % 8) {
	case 0:
		return now + (r >> 8) % 17 - 8;
	case 1:
		return one << (r >> 8) % 64;
	case 2:
		return (one << (r >> 8) % 64) - 1;
	case 3:
		return now ^ one << (r >> 8) % 64;
	case 4:
		return 0;
	case 5: /* a kind, a chunk, and an offset */
		return (r >> 8) % 20 << PERCPU_KEY_KIND_SHIFT |
		       (one + ((r >> 16) % 8 == 0)) << PERCPU_KEY_CHUNK_SHIFT |
		       (r >> 24) % (2 * (uint64_t)PERCPU_LANE_SIZE) / 8 * 8;
	case 6:
		return (r >> 8) % 70000;
	default:
		return r;
	}
}

static void write_file(uint64_t *random)
{
	uint64_t r, value;
	size_t at;

	must(ftruncate(file, 0) == 0 && ftruncate(file, (off_t)length) == 0, "to be emptied");
	for (size_t i = 0; i < length; i += PAGE)
		if (has_bytes[i / PAGE])
			must(pwrite(file, good + i, length - i < PAGE ? length - i : PAGE,
				    (off_t)i) > 0,
			     "to be written");
	for (size_t n = 1 + next_random(random) % 8; n > 0; n--) {
		at = place_in(next_random(random)) % (length - 8);
		memcpy(&value, good + at, sizeof(value));
		r = next_random(random);
		value = value_in(r, value);
		must(pwrite(file, &value, r >> 63 ? 4 : 8, (off_t)at) > 0, "a patch");
	}
}

static void use_segment(uint64_t r)
{
	const bool writes = r % 4 != 0;
	struct percpu_segment *s;

	if (percpu_segment_open_fd(file, writes ? WRITE : 0, NULL, &s) != 0)
		return;
	for (unsigned i = 0; i < METRICS + 3; i++)
		refused += use_metric(s, (i + (unsigned)(r >> 8)) % (METRICS + 3), writes) != 0;
	percpu_segment_close(s);
}

/* As cmocka says it, for whoever looks for tests that have seen a bug. */
static void has_crashed(int signal)
{
	static const char text[] = "[  FAILED  ] fuzz: crashed\n";

	(void)!write(1, text, sizeof(text) - 1);
	_exit(signal == SIGALRM ? 2 : 1);
}

int main(int argc, char **argv)
{
	const long inputs = argc > 1 && atol(argv[1]) > 0 ? atol(argv[1]) : 20000;
	uint64_t random = 88172645463325252;

	for (int s = SIGHUP; s < SIGTERM; s++)
		if (s == SIGABRT || s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL)
			signal(s, has_crashed);
	signal(SIGALRM, has_crashed);
	percpu_selftest();
	make_good_file();
	for (long i = 0; i < inputs; i++) {
		write_file(&random);
		alarm(20); /* whoever waits for long hangs */
		in_library = true;
		passed = 0;
		use_segment(next_random(&random));
		in_library = false;
	}
	alarm(0);
	printf("ok: %ld inputs, %u refused\n", inputs, refused);
	return 0;
}

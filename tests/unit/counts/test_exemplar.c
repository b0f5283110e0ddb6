/* SPDX-License-Identifier: MIT */
/*
 * test_exemplar.c - exemplars: what can be stored, in which slot, and what is read of it; in files,
 * also damaged ones; by threads at once.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "counts/counts.h"
#include "support.h"

#define LABEL(n, v) (&(const struct percpu_exemplar_label){ (n), (v) })

static struct percpu_exemplars *x;

static int make_one(void **state)
{
	(void)state;
	return percpu_exemplars_create(NULL, &x);
}

static int destroy_one(void **state)
{
	(void)state;
	percpu_exemplars_destroy(x);
	x = NULL;
	return 0;
}

static uint64_t real_now(void)
{
	struct timespec t;

	assert_int_equal(clock_gettime(CLOCK_REALTIME, &t), 0);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void assert_label(const struct percpu_exemplar *is, uint32_t k, const char *name,
			 const char *value)
{
	assert_true(k < is->labels);
	assert_string_equal(is->text + is->label_names[k], name);
	assert_string_equal(is->text + is->label_values[k], value);
}

/* Assert that slot i has this value. */
static void assert_value(const struct percpu_exemplars *of, size_t i, double value)
{
	struct percpu_exemplar is;

	assert_int_equal(percpu_exemplars_fetch(of, i, &is), 0);
	assert_true(is.value == value);
}

static void the_latest_is_read(void **state)
{
	const struct percpu_exemplar_label labels[] = { { "trace_id", "4bf92f3577b34da6" },
							{ "span", "" },
							{ "gr\xc3\xb6\xc3\x9f"
							  "e",
							  "\xe2\x82\xac" } };
	const uint64_t before = real_now();
	struct percpu_exemplar is, first;

	(void)state;
	memset(&is, 0x55, sizeof(is));
	first = is;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), -ENODATA);
	assert_int_equal(percpu_exemplars_fetch(x, 1, &is), -EINVAL);
	assert_memory_equal(&is, &first, sizeof(is)); /* outputs stay */
	assert_int_equal(percpu_exemplars_store(x, -2.5, labels, 3), 0);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_true(is.value == -2.5 && is.labels == 3);
	assert_true(is.time >= before && is.time <= real_now());
	for (uint32_t k = 0; k < 3; k++)
		assert_label(&is, k, labels[k].name, labels[k].value);
	for (int i = 0; i < 5; i++) {
		first = is;
		assert_int_equal(percpu_exemplars_store(x, i, labels + 1, (size_t)i % 3), 0);
		assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
		assert_true(is.value == i && is.labels == (uint32_t)i % 3 && is.time >= first.time);
	}
	assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), -ENODATA);
	assert_int_equal(percpu_exemplars_store(x, 7, NULL, 0), 0);
	assert_value(x, 0, 7);
}

static void refused(double value, const struct percpu_exemplar_label *labels, size_t n, int e)
{
	struct percpu_exemplar is;

	assert_int_equal(percpu_exemplars_store(x, value, labels, n), e);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_true(is.value == 1);
}

static void what_cannot_be_stored_is_refused(void **state)
{
	struct percpu_exemplar_label many[17];
	char names[17][16], longest[130];
	struct percpu_exemplar is;

	(void)state;
	for (int i = 0; i < 17; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		many[i] = (struct percpu_exemplar_label){ names[i], "" };
	}
	assert_int_equal(percpu_exemplars_store(x, 1, NULL, 0), 0);
	refused(NAN, NULL, 0, -EDOM);
	refused(INFINITY, NULL, 0, -EDOM);
	refused(-INFINITY, NULL, 0, -EDOM);
	refused(2, NULL, 1, -EINVAL);
	refused(2, LABEL(NULL, "a"), 1, -EINVAL);
	refused(2, LABEL("a", NULL), 1, -EINVAL);
	refused(2, LABEL("", "a"), 1, -EINVAL);
	refused(2, many, 17, -EINVAL);
	refused(2, (struct percpu_exemplar_label[]){ { "a", "1" }, { "b", "" }, { "a", "2" } }, 3,
		-EINVAL);
	refused(2, LABEL("a", "\xff"), 1, -EILSEQ);
	refused(2, LABEL("\xc3", "a"), 1, -EILSEQ);
	memset(longest, 'v', sizeof(longest));
	longest[128] = '\0';
	refused(2, LABEL("n", longest), 1, -ENAMETOOLONG);
	refused(2, LABEL(longest, "v"), 1, -ENAMETOOLONG);
	longest[127] = '\0';
	assert_int_equal(percpu_exemplars_store(x, 2, LABEL("n", longest), 1), 0);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_label(&is, 0, "n", longest);
	/* 16 labels of 128 bytes together */
	longest[0] = '\0';
	strcpy(longest, "vvvvvv"); /* 10 names of 2 bytes, 6 of 3: 38 */
	for (int i = 0; i < 16; i++)
		many[i].value = i < 15 ? longest : "";
	assert_int_equal(percpu_exemplars_store(x, 3, many, 16), 0);
	many[15].value = "v";
	assert_int_equal(percpu_exemplars_store(x, 4, many, 16), -ENAMETOOLONG);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_true(is.value == 3 && is.labels == 16);
	for (uint32_t k = 0; k < 16; k++)
		assert_label(&is, k, names[k], k < 15 ? longest : "");
}

/* Slots of histograms. */

static struct percpu_histogram *histogram_of(double min, double max, const double *bounds, size_t n,
					     uint64_t ticks)
{
	const struct percpu_histogram_options o = {
		.size = sizeof(o),
		.min = min,
		.max = max,
		.bounds = bounds,
		.bounds_n = n,
		.ticks_per_unit = ticks,
	};
	struct percpu_histogram *h;

	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	return h;
}

/* Store a value in empty exemplars, and return its slot. */
static size_t slot_of(struct percpu_exemplars *of, double v)
{
	struct percpu_exemplar is;
	size_t found = SIZE_MAX;
	int e = 0;

	assert_int_equal(percpu_exemplars_reset(of), 0);
	assert_int_equal(percpu_exemplars_store(of, v, NULL, 0), 0);
	for (size_t i = 0; e != -EINVAL; i++) {
		e = percpu_exemplars_fetch(of, i, &is);
		if (e == 0) {
			assert_true(is.value == v && found == SIZE_MAX);
			found = i;
		}
	}
	return found;
}

static size_t slots_of(const struct percpu_exemplars *of)
{
	struct percpu_exemplar is;
	size_t n = 0;

	while (percpu_exemplars_fetch(of, n, &is) != -EINVAL)
		n++;
	return n;
}

static void an_octave_has_a_slot(void **state)
{
	struct percpu_histogram *h = histogram_of(0.25, 8, NULL, 0, 0); /* 2^-2 to 2^3 */
	struct percpu_exemplars *of;

	(void)state;
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 7);
	assert_int_equal(slot_of(of, 0), 0);
	assert_int_equal(slot_of(of, 1e-320), 0);
	assert_int_equal(slot_of(of, 0.25), 0);
	assert_int_equal(slot_of(of, 0x1.0000000000001p-2), 1);
	assert_int_equal(slot_of(of, 0.5), 1);
	assert_int_equal(slot_of(of, 0.51), 2);
	assert_int_equal(slot_of(of, 1), 2);
	assert_int_equal(slot_of(of, 8), 5);
	assert_int_equal(slot_of(of, 0x1.0000000000001p3), 6);
	assert_int_equal(slot_of(of, 0x1p959), 6);
	assert_int_equal(percpu_exemplars_store(of, 0x1p960, NULL, 0), -ERANGE);
	assert_int_equal(percpu_exemplars_store(of, -1, NULL, 0), -ERANGE);
	assert_int_equal(percpu_exemplars_store(of, NAN, NULL, 0), -EDOM);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	/* the default range, and the widest: 16 neighbors share a slot */
	h = histogram_of(0, 0, NULL, 0, 1000000000);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 32);
	assert_int_equal(slot_of(of, 1), 20);
	assert_int_equal(percpu_exemplars_store(of, 1e10, NULL, 0), -ERANGE); /* ticks refuse it */
	assert_int_equal(percpu_exemplars_store(of, -1, NULL, 0), -ERANGE);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
}

static void many_octaves_share_slots(void **state)
{
	const struct percpu_histogram_options o = {
		.size = sizeof(o), .min = 0x1p-1000, .max = 0x1p960, .buckets_per_octave = 1
	};
	struct percpu_exemplars *of;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 123); /* 1962 buckets, 16 in a slot */
	assert_int_equal(slot_of(of, 0x1p-1000), 0);
	assert_int_equal(slot_of(of, 0x1p-985), 0);
	assert_int_equal(slot_of(of, 0x1p-984), 1);
	assert_int_equal(slot_of(of, 0x1p959), 122);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
}

static void an_own_bucket_has_a_slot(void **state)
{
	const double bounds[] = { -1, 0, 0.5, 2.5, 10 };
	struct percpu_histogram *h = histogram_of(0, 0, bounds, 5, 0);
	struct percpu_exemplars *of;

	(void)state;
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 6);
	assert_int_equal(slot_of(of, -0x1p959), 0);
	assert_int_equal(slot_of(of, -1), 0);
	assert_int_equal(slot_of(of, -0.5), 1);
	assert_int_equal(slot_of(of, -0.0), 1);
	assert_int_equal(slot_of(of, 0.5), 2);
	assert_int_equal(slot_of(of, 0x1.0000000000001p-1), 3);
	assert_int_equal(slot_of(of, 10), 4);
	assert_int_equal(slot_of(of, 11), 5);
	assert_int_equal(percpu_exemplars_store(of, -0x1p960, NULL, 0), -ERANGE);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	h = histogram_of(0, 0, bounds, 5, 1000);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(percpu_exemplars_store(of, -0.5, NULL, 0), -ERANGE);
	assert_int_equal(slot_of(of, 0.3), 2);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	h = histogram_of(0, 0, bounds, 5, 1); /* there is no number of 2^63 ticks */
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slot_of(of, 0x1.fffffffffffffp62), 5);
	assert_int_equal(percpu_exemplars_store(of, 0x1p63, NULL, 0), -ERANGE);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
}

static void many_own_buckets_share_slots(void **state)
{
	double bounds[PERCPU_HISTOGRAM_MAX_BOUNDS];
	struct percpu_exemplars *of;
	struct percpu_histogram *h;

	(void)state;
	for (int i = 0; i < PERCPU_HISTOGRAM_MAX_BOUNDS; i++)
		bounds[i] = i;
	h = histogram_of(0, 0, bounds, 127, 0); /* 128 buckets */
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 128);
	assert_int_equal(slot_of(of, 126), 126);
	assert_int_equal(slot_of(of, 127), 127);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	h = histogram_of(0, 0, bounds, 128, 0);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 65);
	assert_int_equal(slot_of(of, 1), 0);
	assert_int_equal(slot_of(of, 2), 1);
	assert_int_equal(slot_of(of, 1000), 64);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	h = histogram_of(0, 0, bounds, PERCPU_HISTOGRAM_MAX_BOUNDS, 0);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 65); /* 8 buckets in a slot */
	assert_int_equal(slot_of(of, 1000), 64);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
}

static void a_summary_has_one_slot(void **state)
{
	const struct percpu_histogram_options o = { .size = sizeof(o),
						    .flags = PERCPU_HISTOGRAM_SUMMARY },
					      two = { .size = sizeof(two), .n = 2 };
	struct percpu_exemplars *of;
	struct percpu_histogram *h;

	(void)state;
	assert_int_equal(percpu_histogram_create(&o, &h), 0);
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(slots_of(of), 1);
	assert_int_equal(slot_of(of, -3), 0);
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
	assert_int_equal(percpu_histogram_create(&two, &h), 0);
	assert_int_equal(percpu_exemplars_create(h, &of), -EINVAL);
	percpu_histogram_destroy(h);
}

/* Files. */

static struct percpu_region *region, *outside;

static int make_regions(void **state)
{
	const char *path = test_path("exemplars");

	(void)state;
	return test_region_new(path, NULL, &region) != 0 ||
	       percpu_region_open(path, 0, NULL, &outside) != 0;
}

static int close_regions(void **state)
{
	(void)state;
	percpu_region_close(outside);
	percpu_region_close(region);
	return unlink(test_path("exemplars"));
}

static void processes_share_exemplars(void **state)
{
	struct percpu_histogram *h = histogram_of(1, 4, NULL, 0, 0);
	struct percpu_exemplars *of, *seen, *other;
	struct percpu_exemplar is;
	struct percpu_counter *c;

	(void)state;
	assert_int_equal(percpu_exemplars_open(outside, 3, h, &of), -ENOENT);
	assert_int_equal(percpu_exemplars_open(region, 3, h, &of), 0);
	assert_int_equal(percpu_exemplars_store(of, 2, LABEL("id", "1"), 1), 0);
	assert_int_equal(percpu_exemplars_attach(outside, percpu_exemplars_key(of), h, &seen), 0);
	assert_int_equal(percpu_exemplars_fetch(seen, 1, &is), 0);
	assert_label(&is, 0, "id", "1");
	assert_int_equal(percpu_exemplars_store(seen, 2, NULL, 0), -EROFS);
	assert_int_equal(percpu_exemplars_reset(seen), -EROFS);
	assert_int_equal(percpu_exemplars_open(region, 3, h, &other), 0);
	assert_int_equal(percpu_exemplars_key(other), percpu_exemplars_key(of));
	percpu_exemplars_detach(other);
	assert_int_equal(percpu_exemplars_open(region, 3, NULL, &other), -EEXIST);
	assert_int_equal(percpu_exemplars_attach(region, percpu_exemplars_key(of), NULL, &other),
			 -ENOENT);
	assert_int_equal(percpu_exemplars_create_in(outside, NULL, &other), -EROFS);
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	assert_int_equal(percpu_exemplars_attach(region, percpu_counter_key(c), NULL, &other),
			 -ENOENT);
	assert_int_equal(percpu_exemplars_create_in(region, NULL, &other), 0);
	percpu_exemplars_destroy(other);
	percpu_exemplars_detach(seen);
	percpu_exemplars_detach(of);
	percpu_histogram_destroy(h);
}

/* The checksum of docs/memory/format.md. */
static void check_again(struct percpu_exemplar_copy *c)
{
	const uint64_t *words = (const uint64_t *)c;
	uint64_t sum = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 1; i < 4 + (c->bytes + 7) / 8; i++) {
		sum = (sum ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		sum ^= sum >> 32;
	}
	c->check = sum;
}

static void damaged_exemplars_are_not_read(void **state)
{
	struct percpu_exemplar is, before;
	struct percpu_exemplar_copy *c;

	(void)state;
	assert_int_equal(percpu_exemplars_store(x, 1, LABEL("id", "before"), 1), 0);
	assert_int_equal(percpu_exemplars_fetch(x, 0, &before), 0);
	assert_int_equal(percpu_exemplars_store(x, 2, LABEL("id", "1234567890"), 1), 0);
	c = &percpu_exemplar_slot(x, 0)->copy[0];
	assert_true(c->bytes == 3 + 11);
	check_again(c); /* as the page has it */
	assert_value(x, 0, 2);
	for (size_t bit = 0; bit < 6 * 64; bit++) {
		((uint64_t *)c)[bit / 64] ^= UINT64_C(1) << bit % 64;
		assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
		assert_memory_equal(&is, &before, sizeof(is));
		((uint64_t *)c)[bit / 64] ^= UINT64_C(1) << bit % 64;
	}
	assert_value(x, 0, 2);
	percpu_exemplar_slot(x, 0)->copy[1].check++;
	c->check++;
	is = before;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), -EAGAIN);
	assert_memory_equal(&is, &before, sizeof(is));
}

/* Let the valid copy have this text, with a checksum that fits, and return what a read does. */
static int fetch_text(const char *text, size_t bytes)
{
	struct percpu_exemplar_copy *c = &percpu_exemplar_slot(x, 0)->copy[1];
	struct percpu_exemplar is;

	memset(c->text, 0, sizeof(c->text));
	memcpy(c->text, text, bytes);
	c->bytes = bytes;
	check_again(c);
	return percpu_exemplars_fetch(x, 0, &is);
}

static void forged_texts_are_not_read(void **state)
{
	char most[160];
	struct percpu_exemplar_copy *c;

	(void)state;
	assert_int_equal(percpu_exemplars_store(x, 1, LABEL("id", "before"), 1), 0);
	c = &percpu_exemplar_slot(x, 0)->copy[1];
	assert_int_equal(fetch_text("", 0), 0);
	assert_int_equal(fetch_text("a\0b\0", 4), 0);
	assert_int_equal(fetch_text("a\0\0", 3), 0);
	assert_int_equal(fetch_text("a\0b\0", 3), -EAGAIN); /* the last string has no end */
	assert_int_equal(fetch_text("a\0b\0c\0", 6), -EAGAIN);
	assert_int_equal(fetch_text("a\0", 2), -EAGAIN);
	assert_int_equal(fetch_text("a", 1), -EAGAIN);
	assert_int_equal(fetch_text("\0b\0", 3), -EAGAIN); /* an empty name */
	assert_int_equal(fetch_text("a\0\xff\0", 4), -EAGAIN);
	assert_int_equal(fetch_text("a\0b\0a\0c\0", 8), -EAGAIN);
	memset(most, 'a', sizeof(most));
	most[127] = most[129] = '\0';
	assert_int_equal(fetch_text(most, 130), 0);
	most[127] = 'a';
	most[128] = most[129] = '\0';
	assert_int_equal(fetch_text(most, 130), 0);
	most[129] = 'a';
	most[130] = '\0';
	assert_int_equal(fetch_text(most, 131), -EAGAIN); /* 129 bytes */
	for (int i = 0; i < 160; i += 3)
		memcpy(&most[i], (const char[]){ (char)('A' + i / 3), '\0', '\0' },
		       i + 3 <= 160 ? 3 : 1);
	assert_int_equal(fetch_text(most, 48), 0);
	assert_int_equal(fetch_text(most, 51), -EAGAIN); /* 17 labels */
	c->bytes = 161;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &(struct percpu_exemplar){ 0 }), -EAGAIN);
	c->bytes = UINT64_MAX;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &(struct percpu_exemplar){ 0 }), -EAGAIN);
}

static void forged_values_are_not_read(void **state)
{
	struct percpu_histogram *h = histogram_of(1, 4, NULL, 0, 0);
	const double wrong[] = { 5, 1, -2, NAN, INFINITY };
	struct percpu_exemplar_copy *c;
	struct percpu_exemplars *of;
	struct percpu_exemplar is;

	(void)state;
	assert_int_equal(percpu_exemplars_create(h, &of), 0);
	assert_int_equal(percpu_exemplars_store(of, 2, NULL, 0), 0);
	c = &percpu_exemplar_slot(of, 1)->copy[1];
	for (size_t i = 0; i < 5; i++) {
		memcpy(&c->value, &wrong[i], sizeof(c->value));
		check_again(c);
		assert_int_equal(percpu_exemplars_fetch(of, 1, &is), -EAGAIN);
	}
	percpu_exemplars_destroy(of);
	percpu_histogram_destroy(h);
}

static void forged_controls_are_refused(void **state)
{
	const uint64_t numbers[] = { 0, 2, 3, 129, UINT64_MAX, UINT64_C(1) << 32 | 1 };
	struct percpu_exemplars *of, *other;
	uint64_t *n;

	(void)state;
	assert_int_equal(percpu_exemplars_create_in(region, NULL, &of), 0);
	n = &percpu_exemplars_control(of)->n;
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		*n = numbers[i];
		assert_int_equal(
			percpu_exemplars_attach(region, percpu_exemplars_key(of), NULL, &other),
			-ENOENT);
		assert_int_equal(percpu_exemplars_reset_at(region, percpu_exemplars_key(of)),
				 -ENOENT);
	}
	*n = 1;
	assert_int_equal(percpu_exemplars_reset_at(region, percpu_exemplars_key(of)), 0);
	percpu_exemplars_destroy(of);
}

/* Threads. */

static bool done;
static unsigned stored;

/* Store exemplars whose label says the value. Thread 0 reads, and one in 64 times resets. */
static void store_and_read(unsigned i, void *arg)
{
	unsigned *wrong = arg;
	struct percpu_exemplar is;
	char id[24];
	int e;

	for (unsigned k = 1; i == 0 ? !__atomic_load_n(&done, __ATOMIC_RELAXED) : k <= 20000; k++) {
		if (i != 0) {
			snprintf(id, sizeof(id), "%u", i * 1000000 + k);
			e = percpu_exemplars_store(x, i * 1000000 + k, LABEL("id", id), 1);
			if (e == 0)
				__atomic_fetch_add(&stored, 1, __ATOMIC_RELAXED);
			else if (e != -EBUSY)
				__atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
			continue;
		}
		e = percpu_exemplars_fetch(x, 0, &is);
		snprintf(id, sizeof(id), "%.0f", is.value);
		if ((e == 0 && (is.labels != 1 || strcmp(id, is.text + is.label_values[0]) != 0)) ||
		    (e != 0 && e != -ENODATA && e != -EAGAIN))
			__atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
		if (k % 64 == 0 && percpu_exemplars_reset(x) != 0)
			__atomic_fetch_add(wrong, 1, __ATOMIC_RELAXED);
	}
	if (i == 1)
		__atomic_store_n(&done, true, __ATOMIC_RELAXED);
}

static void threads_do_not_tear(void **state)
{
	struct percpu_exemplar is;
	unsigned wrong = 0;

	(void)state;
	test_team_run(4, store_and_read, &wrong);
	assert_int_equal(wrong, 0);
	assert_true(stored > 0);
	assert_int_equal(percpu_exemplars_store(x, 1, NULL, 0), 0); /* no claim is left */
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_true(is.value == 1);
}

#define ONE(test) cmocka_unit_test_setup_teardown(test, make_one, destroy_one)
#define SHARED(test) cmocka_unit_test_setup_teardown(test, make_regions, close_regions)

int main(void)
{
	const struct CMUnitTest tests[] = {
		ONE(the_latest_is_read),
		ONE(what_cannot_be_stored_is_refused),
		cmocka_unit_test(an_octave_has_a_slot),
		cmocka_unit_test(many_octaves_share_slots),
		cmocka_unit_test(an_own_bucket_has_a_slot),
		cmocka_unit_test(many_own_buckets_share_slots),
		cmocka_unit_test(a_summary_has_one_slot),
		SHARED(processes_share_exemplars),
		ONE(damaged_exemplars_are_not_read),
		ONE(forged_texts_are_not_read),
		cmocka_unit_test(forged_values_are_not_read),
		SHARED(forged_controls_are_refused),
		ONE(threads_do_not_tear),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

/* SPDX-License-Identifier: MIT */
/* test_options.c - structs of options from programs of another version. */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/approx.h>
#include <percpu/lwbuf.h>
#include <percpu/objcache.h>
#include <percpu/percpu.h>
#include <percpu/wbuf.h>
#include <percpu/zone.h>

#include "support.h"

/* Options of each kind, with fields of a newer version. */
union options {
	size_t size;
	struct percpu_region_options region;
	struct percpu_wbuf_options wbuf;
	struct percpu_zone_options zone;
	struct percpu_objcache_options objcache;
	struct percpu_lwbuf_options lwbuf;
	struct percpu_histogram_options histogram;
	struct percpu_approx_options approx;
	struct percpu_segment_options segment;
	unsigned char byte[8192];
};

static int create_region(const union options *o)
{
	struct percpu_region *r;
	int e = percpu_region_create(&o->region, &r);

	if (e == 0)
		percpu_region_close(r);
	return e;
}

static int create_wbuf(const union options *o)
{
	struct percpu_wbuf *b;
	int e = percpu_wbuf_create(&o->wbuf, &b);

	if (e == 0)
		percpu_wbuf_destroy(b);
	return e;
}

static int create_zone(const union options *o)
{
	struct percpu_zone *z;
	int e = percpu_zone_create("options", 8, &o->zone, &z);

	if (e == 0)
		assert_int_equal(percpu_zone_destroy(z), 0);
	return e;
}

static int create_objcache(const union options *o)
{
	struct percpu_objcache *oc;
	int e = percpu_objcache_create("options", 8, &o->objcache, &oc);

	if (e == 0)
		assert_int_equal(percpu_objcache_destroy(oc), 0);
	return e;
}

static int create_lwbufs(const union options *o)
{
	int fd = memfd_create("options", MFD_CLOEXEC);
	struct percpu_lwbufs *f;
	int e = percpu_lwbuf_create(fd, &o->lwbuf, &f);

	close(fd);
	if (e == 0)
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	return e;
}

static int create_histogram(const union options *o)
{
	struct percpu_histogram *h;
	int e = percpu_histogram_create(&o->histogram, &h);

	if (e == 0)
		percpu_histogram_destroy(h);
	return e;
}

static int create_segment(const union options *o)
{
	const unsigned flags = PERCPU_SEGMENT_CREATE;
	int fd = memfd_create("options", MFD_CLOEXEC);
	struct percpu_segment *s;
	int e = percpu_segment_open_fd(fd, flags, &o->segment, &s);

	if (e == 0)
		percpu_segment_close(s);
	close(fd);
	return e;
}

static int create_approx(const union options *o)
{
	struct percpu_approx *a;
	int e = percpu_approx_create(&o->approx, &a);

	if (e == 0)
		percpu_approx_destroy(a);
	return e;
}

static const struct {
	int (*create)(const union options *o);
	size_t size;
} kinds[] = {
	{ create_region, sizeof(struct percpu_region_options) },
	{ create_histogram, sizeof(struct percpu_histogram_options) },
	{ create_approx, sizeof(struct percpu_approx_options) },
	{ create_segment, sizeof(struct percpu_segment_options) },
	{ create_wbuf, sizeof(struct percpu_wbuf_options) },
	{ create_zone, sizeof(struct percpu_zone_options) },
	{ create_objcache, sizeof(struct percpu_objcache_options) },
	{ create_lwbufs, sizeof(struct percpu_lwbuf_options) },
};

static void any_version_is_understood(void **state)
{
	union options o;

	(void)state;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		memset(&o, 0, sizeof(o));
		o.size = kinds[i].size;
		assert_int_equal(kinds[i].create(&o), 0);
		for (o.size = kinds[i].size + 1; o.size <= 4096; o.size *= 2)
			assert_int_equal(kinds[i].create(&o), 0);
		/* Bytes behind the size are not read. */
		memset(&o.byte[kinds[i].size], 0x55, sizeof(o) - kinds[i].size);
		o.size = kinds[i].size;
		assert_int_equal(kinds[i].create(&o), 0);
		memset(&o.byte[sizeof(size_t)], 0x55, sizeof(o) - sizeof(size_t));
		o.size = sizeof(size_t);
		assert_int_equal(kinds[i].create(&o), 0);
	}
}

static void what_is_not_known_is_refused(void **state)
{
	static const size_t sizes[] = { 0, 1, sizeof(size_t) - 1, 4097, SIZE_MAX };
	union options o;

	(void)state;
	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		memset(&o, 0, sizeof(o));
		for (unsigned k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			o.size = sizes[k];
			assert_int_equal(kinds[i].create(&o), -EINVAL);
		}
		o.byte[kinds[i].size] = 1;
		o.size = kinds[i].size + 1;
		assert_int_equal(kinds[i].create(&o), -EINVAL);
		o.byte[kinds[i].size] = 0;
		o.size = 4096;
		assert_int_equal(kinds[i].create(&o), 0);
		o.byte[4095] = 1;
		assert_int_equal(kinds[i].create(&o), -EINVAL);
		o.size = 4095;
		assert_int_equal(kinds[i].create(&o), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_version_is_understood),
		cmocka_unit_test(what_is_not_known_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_freebsd_uma.c - zones as uma(9) has them: constructors and what happens
 * when they fail, limits and waiting.
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include <percpu/freebsd.h>

#include <string.h>

#include "support.h"

#define UMA_NONE NULL, NULL, NULL, NULL

struct session {
	uint64_t packets, bytes;
	void *owner;
};

/* What the constructors were called with, and in which order. */
static struct {
	char calls[16];
	void *mem, *arg;
	int size, flags;
	int init_error, ctor_error;
} seen;

static void note(char call, void *mem, int size)
{
	size_t n = strlen(seen.calls);

	if (n + 1 < sizeof(seen.calls))
		seen.calls[n] = call;
	seen.mem = mem;
	seen.size = size;
}

static int session_ctor(void *mem, int size, void *arg, int flags)
{
	struct session *s = mem;

	note('c', mem, size);
	seen.arg = arg;
	seen.flags = flags;
	s->owner = arg;
	return seen.ctor_error;
}

static void session_dtor(void *mem, int size, void *arg)
{
	note('d', mem, size);
	seen.arg = arg;
}

static int session_init(void *mem, int size, int flags)
{
	note('i', mem, size);
	seen.flags = flags;
	return seen.init_error;
}

static void session_fini(void *mem, int size)
{
	note('f', mem, size);
}

static uma_zone_t make_sessions(void)
{
	uma_zone_t zone =
		uma_zcreate("sessions", sizeof(struct session), session_ctor, session_dtor,
			    session_init, session_fini, UMA_ALIGN_PTR, UMA_ZONE_PCPU);

	assert_non_null(zone);
	memset(&seen, 0, sizeof(seen));
	return zone;
}

static void arguments_are_checked(void **state)
{
	static const int aligns[] = { UMA_ALIGN_CHAR,
				      UMA_ALIGN_SHORT,
				      UMA_ALIGN_INT,
				      UMA_ALIGN_LONG,
				      UMA_ALIGN_PTR,
				      UMA_ALIGN_CACHE,
				      UMA_ALIGNOF(struct session) };
	uma_zone_t zone;

	(void)state;
	assert_null(uma_zcreate("plain", 8, UMA_NONE, UMA_ALIGN_PTR, 0));
	assert_null(uma_zcreate("other", 8, UMA_NONE, UMA_ALIGN_PTR, UMA_ZONE_PCPU | 1));
	assert_null(uma_zcreate("empty", 0, UMA_NONE, UMA_ALIGN_PTR, UMA_ZONE_PCPU));
	assert_null(uma_zcreate("page", 8, UMA_NONE, 4095, UMA_ZONE_PCPU));
	assert_null(uma_zcreate("minus", 8, UMA_NONE, -1, UMA_ZONE_PCPU));
	assert_null(uma_zcreate("none", 0, UMA_NONE, 127, UMA_ZONE_PCPU));
	assert_null(uma_zcreate("long", PERCPU_LANE_SIZE + 1, UMA_NONE, 127, UMA_ZONE_PCPU));
	for (size_t i = 0; i < sizeof(aligns) / sizeof(aligns[0]); i++) {
		void *item;

		zone = uma_zcreate("aligned", 8, UMA_NONE, aligns[i], UMA_ZONE_PCPU);
		assert_non_null(zone);
		item = uma_zalloc(zone, M_NOWAIT);
		assert_int_equal((uintptr_t)zpcpu_get_cpu(item, mp_maxid) & aligns[i], 0);
		uma_zfree(zone, item);
		uma_zdestroy(zone);
	}
	uma_zdestroy(NULL);
}

static void constructors_are_called(void **state)
{
	uma_zone_t zone = make_sessions();
	int tag;
	struct session *s = uma_zalloc_pcpu_arg(zone, &tag, M_NOWAIT);

	(void)state;
	assert_non_null(s);
	assert_string_equal(seen.calls, "ic");
	assert_ptr_equal(seen.mem, s);
	assert_ptr_equal(seen.arg, &tag);
	assert_ptr_equal(s->owner, &tag);
	assert_int_equal(seen.size, sizeof(struct session));
	assert_int_equal(seen.flags, M_NOWAIT);
	uma_zfree_pcpu_arg(zone, s, &seen);
	assert_string_equal(seen.calls, "icdf");
	assert_ptr_equal(seen.mem, s);
	assert_ptr_equal(seen.arg, &seen);

	s = uma_zalloc_arg(zone, &tag, M_WAITOK);
	assert_string_equal(seen.calls, "icdfic");
	uma_zfree_arg(zone, s, NULL);
	assert_string_equal(seen.calls, "icdficdf");
	assert_null(seen.arg);

	uma_zfree(zone, NULL);
	uma_zfree_arg(zone, NULL, &tag);
	uma_zfree_pcpu(zone, NULL);
	uma_zfree_pcpu_arg(zone, NULL, &tag);
	assert_string_equal(seen.calls, "icdficdf");
	uma_zdestroy(zone);
}

static void failures_give_the_item_back(void **state)
{
	uma_zone_t zone = make_sessions();
	void *s;

	(void)state;
	assert_int_equal(uma_zone_set_max(zone, 1), 1);
	seen.ctor_error = ENOMEM;
	assert_null(uma_zalloc(zone, M_NOWAIT));
	assert_string_equal(seen.calls, "icf");
	assert_null(uma_zalloc(zone, M_WAITOK | M_ZERO));
	assert_string_equal(seen.calls, "icficf");
	assert_int_equal(uma_zone_get_cur(zone), 0);

	memset(&seen, 0, sizeof(seen));
	seen.init_error = -1;
	assert_null(uma_zalloc(zone, M_WAITOK));
	assert_string_equal(seen.calls, "i");
	assert_int_equal(uma_zone_get_cur(zone), 0);

	memset(&seen, 0, sizeof(seen));
	s = uma_zalloc(zone, M_NOWAIT);
	assert_non_null(s);
	assert_int_equal(uma_zone_get_cur(zone), 1);
	uma_zfree(zone, s);
	uma_zdestroy(zone);

	memset(&seen, 0, sizeof(seen));
	zone = uma_zcreate("no fini", sizeof(struct session), session_ctor, NULL, NULL, NULL,
			   UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	seen.ctor_error = ENOMEM;
	assert_null(uma_zalloc(zone, M_NOWAIT));
	assert_string_equal(seen.calls, "c");
	assert_int_equal(uma_zone_get_cur(zone), 0);
	uma_zdestroy(zone);
}

/* M_ZERO comes after the constructor, which does not see it. */
static void zero_is_zero_on_every_cpu(void **state)
{
	static const int waits[] = { M_NOWAIT, M_WAITOK };
	uma_zone_t zone = make_sessions();

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct session *s = uma_zalloc_pcpu_arg(zone, zone, waits[i]);

		for (unsigned cpu = 0; cpu <= mp_maxid; cpu++)
			memset(zpcpu_get_cpu(s, cpu), 0xff, sizeof(*s));
		uma_zfree_pcpu(zone, s);
		s = uma_zalloc_pcpu_arg(zone, zone, waits[i] | M_ZERO);
		assert_int_equal(seen.flags, waits[i]);
		for (unsigned cpu = 0; cpu <= mp_maxid; cpu++) {
			assert_int_equal(zpcpu_get_cpu(s, cpu)->packets, 0);
			assert_int_equal(zpcpu_get_cpu(s, cpu)->bytes, 0);
			assert_null(zpcpu_get_cpu(s, cpu)->owner);
		}
		uma_zfree_pcpu(zone, s);
	}
	uma_zdestroy(zone);
}

static int use_odd_size(void *arg)
{
	uma_zone_t zone =
		uma_zcreate("odd", 20, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR, UMA_ZONE_PCPU);
	char *p = uma_zalloc_pcpu(zone, M_WAITOK);

	(void)arg;
	memset(p, 0xff, 20);
	uma_zfree_pcpu(zone, p);
	p = uma_zalloc_pcpu(zone, M_WAITOK | M_ZERO);
	for (int i = 0; i < 20; i++)
		test_child_require(p[i] == 0, "zeros");
	uma_zfree_pcpu(zone, p);
	uma_zdestroy(zone);
	return 0;
}

/* Words are cleared, not bytes. */
static void odd_sizes_are_zeroed(void **state)
{
	(void)state;
	test_in_child(use_odd_size, NULL);
}

static void a_zone_in_use_stays(void **state)
{
	uma_zone_t zone = make_sessions();
	struct session *s = uma_zalloc(zone, M_WAITOK);

	(void)state;
	uma_zdestroy(zone);
	assert_int_equal(uma_zone_get_cur(zone), 1);
	s->packets = 1;
	uma_zfree(zone, s);
	uma_zdestroy(zone);
}

static bool is_resident(const void *at)
{
	unsigned char vec = 0;

	assert_int_equal(
		mincore((void *)((uintptr_t)at & ~(uintptr_t)(getpagesize() - 1)), 1, &vec), 0);
	return vec & 1;
}

/* Both calls return the memory of free items. */
static void reclaims_return_memory(void **state)
{
	enum { ITEMS = 100, SIZE = 4096 };
	void *items[ITEMS];
	uma_zone_t zone = uma_zcreate("reclaimed", SIZE, NULL, NULL, NULL, NULL, UMA_ALIGN_PTR,
				      UMA_ZONE_PCPU);

	(void)state;
	for (unsigned way = 0; way < 2; way++) {
		for (unsigned i = 0; i < ITEMS; i++) {
			items[i] = uma_zalloc(zone, M_WAITOK);
			memset(items[i], 1, SIZE);
		}
		for (unsigned i = 0; i < ITEMS; i++)
			uma_zfree(zone, items[i]);
		assert_true(is_resident(items[0]) && is_resident(items[ITEMS - 1]));
		if (way == 0)
			uma_reclaim(UMA_RECLAIM_DRAIN);
		else
			uma_zone_reclaim(zone, UMA_RECLAIM_TRIM);
		assert_false(is_resident(items[0]) || is_resident(items[ITEMS - 1]));
	}
	uma_zdestroy(zone);
}

struct waiting {
	uma_zone_t zone;
	void *got; /* atomic */
};

static void wait_for_item(unsigned i, void *arg)
{
	struct waiting *w = arg;

	(void)i;
	__atomic_store_n(&w->got, uma_zalloc(w->zone, M_WAITOK), __ATOMIC_RELEASE);
}

static void waitok_waits_at_the_limit(void **state)
{
	struct waiting w = { make_sessions(), NULL };
	struct test_team team;
	void *only;

	(void)state;
	assert_int_equal(uma_zone_get_max(w.zone), 0);
	assert_int_equal(uma_zone_set_max(w.zone, 1), 1);
	assert_int_equal(uma_zone_get_max(w.zone), 1);
	only = uma_zalloc(w.zone, M_WAITOK);
	assert_non_null(only);
	assert_null(uma_zalloc(w.zone, M_NOWAIT));
	assert_null(uma_zalloc_pcpu(w.zone, M_NOWAIT | M_ZERO));
	test_team_start(&team, 1, wait_for_item, &w);
	test_sleep_us(30000);
	assert_null(__atomic_load_n(&w.got, __ATOMIC_ACQUIRE));
	uma_zfree(w.zone, only);
	test_team_join(&team);
	assert_non_null(w.got);
	uma_zfree(w.zone, w.got);
	uma_zdestroy(w.zone);
}

/* Threads that fight for few items, some of which cannot be constructed. */

#define MOST 3

static struct {
	unsigned initialized, constructed, live, beyond, failed; /* atomic */
} crowd;

static int crowd_init(void *mem, int size, int flags)
{
	(void)mem, (void)size, (void)flags;
	__atomic_fetch_add(&crowd.initialized, 1, __ATOMIC_RELAXED);
	return 0;
}

static void crowd_fini(void *mem, int size)
{
	(void)mem, (void)size;
	__atomic_fetch_sub(&crowd.initialized, 1, __ATOMIC_RELAXED);
}

static int crowd_ctor(void *mem, int size, void *arg, int flags)
{
	(void)mem, (void)size, (void)flags;
	if (arg != NULL) {
		__atomic_fetch_add(&crowd.failed, 1, __ATOMIC_RELAXED);
		return EAGAIN;
	}
	if (__atomic_add_fetch(&crowd.live, 1, __ATOMIC_RELAXED) > MOST)
		__atomic_fetch_add(&crowd.beyond, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&crowd.constructed, 1, __ATOMIC_RELAXED);
	return 0;
}

static void crowd_dtor(void *mem, int size, void *arg)
{
	(void)mem, (void)size, (void)arg;
	__atomic_fetch_sub(&crowd.live, 1, __ATOMIC_RELAXED);
}

static void fight(unsigned i, void *zone)
{
	unsigned rounds = test_rounds(4000);

	for (unsigned k = 0; k < rounds; k++) {
		void *fails = k % 7 == i % 7 ? &crowd : NULL;
		void *item = uma_zalloc_arg(zone, fails, k % 3 != 0 ? M_WAITOK : M_NOWAIT);

		if (item != NULL)
			uma_zfree(zone, item);
	}
}

static void limits_hold_among_threads(void **state)
{
	uma_zone_t zone = uma_zcreate("crowd", 64, crowd_ctor, crowd_dtor, crowd_init, crowd_fini,
				      UMA_ALIGN_CACHE, UMA_ZONE_PCPU);

	(void)state;
	assert_non_null(zone);
	assert_int_equal(uma_zone_set_max(zone, MOST), MOST);
	test_team_run(8, fight, zone);
	assert_int_equal(crowd.beyond, 0);
	assert_int_equal(crowd.live, 0);
	assert_int_equal(crowd.initialized, 0);
	assert_true(crowd.constructed > 0);
	assert_true(crowd.failed > 0);
	assert_int_equal(uma_zone_get_cur(zone), 0);
	uma_zdestroy(zone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_are_checked),
		cmocka_unit_test(constructors_are_called),
		cmocka_unit_test(failures_give_the_item_back),
		cmocka_unit_test(zero_is_zero_on_every_cpu),
		cmocka_unit_test(odd_sizes_are_zeroed),
		cmocka_unit_test(a_zone_in_use_stays),
		cmocka_unit_test(reclaims_return_memory),
		cmocka_unit_test(waitok_waits_at_the_limit),
		cmocka_unit_test(limits_hold_among_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

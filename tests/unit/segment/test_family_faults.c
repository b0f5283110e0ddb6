/* SPDX-License-Identifier: MIT */
/* test_family_faults.c - families when calls of libc fail, or when a lock cannot be taken. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <percpu/grace.h>
#include <percpu/percpu.h>
#include <percpu/rwlock.h>

#include "faults.h"
#include "picture.h"
#include "support.h"
#include "../family_calls.h"
#include "../root_file.h"

#include "owners/critical.h"
#include "segment/segment.h"

#define SLOTS_SIZE (PERCPU_OWNER_SLOTS * sizeof(struct percpu_owner_slot))

static struct percpu_family *f;

static int open_one(void **state)
{
	(void)state;
	s = open_family_file(path, ALL);
	f = family_of(s, 1);
	return 0;
}

static int close_one(void **state)
{
	(void)fault_clear();
	return close_both(state);
}

/* Whether the journals cannot be completed: a stopped process holds them. */
static bool busy;

/* Replace the library's function, by the linker's --wrap. */
int __real_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns)
{
	return busy ? -ETIMEDOUT : __real_percpu_journal_recover(k, timeout_ns);
}

/* Whether no robust lock can be taken, such as that of the allocator. */
static bool locked;

int __real_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns);
int __wrap_percpu_robust_lock(struct percpu_robust *h, uint32_t *word, uint64_t timeout_ns)
{
	return locked ? -ETIMEDOUT : __real_percpu_robust_lock(h, word, timeout_ns);
}

/* If the file cannot be mapped for one more metric, the system's error is returned. */
static void what_cannot_be_mapped_is_told(void **state)
{
	struct percpu_histogram *h = NULL;
	char name[32];
	unsigned n = 0;
	int e;

	(void)state;
	fault_set(FAULT_MREMAP, 1, EPERM, false); /* the second call moves it */
	do {
		snprintf(name, sizeof(name), "h%u", n++);
		h = NULL;
		e = percpu_segment_histogram(s, METRIC(name), NULL, &h);
	} while (e == 0);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(e, -EPERM);
	assert_null(h);
	assert_non_null(strstr(percpu_error(), ": the file cannot be mapped, or locked"));
}

/* Declare a histogram, statistics with fields, an owned gauge and a family. */
static int declare_some(struct percpu_segment *some)
{
	static const char *const names[] = { "x", "y" };
	const struct percpu_metric_fields fields = { sizeof(fields), "what", names, 2 };
	struct percpu_owned_gauge *gauge = NULL;
	struct percpu_histogram *histogram = NULL;
	struct percpu_family *family = NULL;
	struct percpu_stats *stats = NULL;
	int e = percpu_segment_histogram(some, METRIC("h"), NULL, &histogram);

	if (e == 0)
		e = percpu_segment_stats(some, METRIC("s_total"), &fields, 0, &stats);
	if (e == 0)
		e = percpu_segment_owned_gauge(some, METRIC("o"), PERCPU_OWNED_SUM, &gauge);
	return e != 0 ? e : declare_family(some, "f_total", PERCPU_METRIC_COUNTER, 1, &family);
}

static void whatever_fails_is_told(void **state)
{
	struct percpu_segment *some;
	unsigned failed;
	int e;

	(void)state;
	for (enum fault_call call = 0; call < FAULT_GETTID; call++)
		for (unsigned n = 0;; n++) {
			some = open_family_file(test_path("some"), ALL);
			assert_int_equal(percpu_segment_info(NULL, METRIC("i_info")), -EINVAL);
			fault_set(call, n, fault_error(call), false);
			e = declare_some(some);
			failed = fault_clear();
			if (e != 0)
				assert_string_not_equal(percpu_error(), "the segment is NULL");
			percpu_segment_close(some);
			assert_int_equal(unlink(test_path("some")), 0);
			if (failed == 0)
				break;
		}
}

/* Add a chunk to the region. */
static void grow(struct percpu_region *r)
{
	const uint32_t n = r->n;
	void *cell;

	while (r->n == n)
		assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE / 2, 8, &cell), 0);
}

/* Let a removed series x lie in a chunk that no other process has mapped, and leave an update of it
 * in the journal, as a killed process does. */
static void leave_journal(void)
{
	struct percpu_family *others;
	struct percpu_counter *c;
	struct percpu_journal *j;

	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	t = open_family_file(path, ALL);
	others = family_of(t, 1);
	grow(t->region);
	c = counter_of(others, "x");
	assert_int_equal(remove_value(others, "x"), 0);
	j = &percpu_chunk_of(c)->header->journal;
	j->offset = (size_t)((const char *)c - percpu_chunk_of(c)->base);
	j->words = 1;
	j->value[0] = 1000;
	j->turn |= 1;
	percpu_segment_close(t);
	t = NULL;
}

/* Return whether x was freed. Its record is the third one. */
static bool is_free(void)
{
	uint64_t at = 0;

	assert_int_equal(percpu_directory_refresh(s), 0);
	for (int i = 0; i < 2; i++)
		at += percpu_directory_at(s, at)->size;
	return percpu_directory_at(s, at)->state == PERCPU_RECORD_FREE;
}

/* An object is freed only after the journal's update of it is completed: another series may get
 * it. */
static void updates_are_completed_before_objects_go(void **state)
{
	struct percpu_counter *c;

	(void)state;
	leave_journal();
	fault_set(FAULT_MMAP, 0, ENOMEM, false); /* the chunk was not mapped yet */
	percpu_series_free_removed(s);
	assert_int_not_equal(fault_clear(), 0);
	assert_false(is_free());
	busy = true;
	percpu_series_free_removed(s);
	assert_false(is_free());
	busy = false;
	locked = true;
	percpu_series_free_removed(s);
	assert_false(is_free());
	locked = false;
	fault_set(FAULT_FCNTL, 0, ENOLCK, true); /* nobody can be asked for */
	percpu_series_free_removed(s);
	assert_int_not_equal(fault_clear(), 0);
	assert_false(is_free());
	assert_int_equal(s->control->changes % 2, 0);
	f = family_of(s, 1);
	assert_true(is_free());
	c = counter_of(f, "y");
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(percpu_journal_recover(percpu_chunk_of(c), 0), 0);
	assert_int_equal(percpu_counter_fetch(c), 0);
}

/* A family counts in the overflow if there is no memory for a new series. */
static void no_memory_is_no_loss(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;

	(void)state;
	fault_set(FAULT_MALLOC, 0, ENOMEM, true);
	assert_int_equal(percpu_family_counter(f, x, &c), 0);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_counter_add(c, 5);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 5);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 1);
}

static void overflow(unsigned i, void *arg)
{
	(void)i, (void)arg;
	for (unsigned n = test_rounds(1000000); n > 0; n--)
		(void)counter_of(f, "x");
}

/* Without memory the overflow is had without a lock. */
static void overflows_of_threads_are_counted(void **state)
{
	(void)state;
	fault_set(FAULT_MALLOC, 0, ENOMEM, true);
	test_team_run(2, overflow, NULL);
	(void)fault_clear();
	assert_int_equal(percpu_family_overflows(f), 2 * test_rounds(1000000));
}

/* A value that cannot be a label's is counted as such, also if there is no memory. */
static void invalid_values_are_told_without_memory(void **state)
{
	static char overlong[PERCPU_METRIC_VALUE + 2];
	const char *const values[] = { NULL, "\xff", overlong };
	const int of_removal[] = { -EINVAL, -EILSEQ, -ENAMETOOLONG };
	struct percpu_counter *c = NULL;

	(void)state;
	memset(overlong, 'x', sizeof(overlong) - 1);
	overlong[sizeof(overlong) - 1] = '\0';
	for (int i = 0; i < 3; i++) {
		c = NULL;
		fault_set(FAULT_MALLOC, 0, ENOMEM, true);
		assert_int_equal(percpu_family_counter(f, &values[i], &c), i == 0 ? -EINVAL : 0);
		assert_int_equal(percpu_family_remove(f, &values[i]), of_removal[i]);
		(void)fault_clear();
		assert_true((c == NULL) == (i == 0));
	}
	assert_int_equal(percpu_family_overflows(f), 0);
	assert_int_equal(percpu_family_invalid(f), 2);
}

/* A removed series that cannot be found again counts in the overflow, and stays removed. */
static void what_cannot_begin_anew_overflows(void **state)
{
	const int fd = s->region->file.fd, kept = dup(fd);

	(void)state;
	assert_int_equal(count_in(f, "x", 5), 5);
	assert_int_equal(remove_value(f, "x"), 0);
	locked = true;
	assert_int_equal(count_in(f, "x", 1), 1);
	locked = false;
	fault_set(FAULT_FCNTL, 0, ENOLCK, true);
	assert_int_equal(count_in(f, "x", 1), 2);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(close(fd), 0); /* as a daemon does */
	assert_int_equal(count_in(f, "x", 1), 3);
	assert_int_equal(dup2(kept, fd), fd);
	assert_int_equal(close(kept), 0);
	assert_int_equal(percpu_family_overflows(f), 3);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 3);
}

/* Without memory for the table of the family, each look-up reads the file, and finds the same
 * handle. */
static void tables_without_memory_are_no_loss(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c, *found;
	unsigned nth;

	(void)state;
	c = counter_of(f, "x");
	t = open_family_file(path, ALL);
	f = family_of(t, 1);
	c = counter_of(f, "x");
	for (nth = 0; nth < 4; nth++) {
		percpu_segment_close(t);
		t = open_family_file(path, ALL);
		f = family_of(t, 1);
		for (enum fault_call call = FAULT_MALLOC; call <= FAULT_CALLOC; call++) {
			fault_set(call, nth, ENOMEM, false);
			assert_int_equal(percpu_family_counter(f, x, &found), 0);
			(void)fault_clear();
			assert_int_equal(percpu_family_counter(f, x, &c), 0);
			assert_int_equal(percpu_family_counter(f, x, &found), 0);
			assert_ptr_equal(found, c);
		}
	}
}

/* Each call of the segment says for what there was no memory. */
static void no_memory_is_told(void **state)
{
	static const char *const x[] = { "x" }, *const label[] = { "a" };
	const double bound = 1;
	const struct percpu_histogram_options own = { .size = sizeof(own),
						      .bounds = &bound,
						      .bounds_n = 1 };
	struct percpu_declaration d =
		percpu_declare_family(NULL, PERCPU_METRIC_COUNTER, "n_total", "", label, 1, 1);
	struct percpu_segment_start start;
	struct percpu_family *none = NULL;
	struct percpu_counter *c = NULL;

	(void)state;
	fault_set(FAULT_CALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_segment_family(s, &d, &none), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "no memory for a family");
	assert_null(none);
	d.kind = PERCPU_METRIC_HISTOGRAM;
	d.histogram = &own;
	fault_set(FAULT_MALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_segment_family(s, &d, &none), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "no memory for the bounds of a family");
	assert_null(none);
	fault_set(FAULT_MALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_family_remove(f, x), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "no memory for a series");
	fault_set(FAULT_MALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_segment_counter(s, METRIC("c_total"), &c), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "no memory for a metric");
	assert_null(c);
	assert_int_equal(percpu_family_remove(NULL, x), -EINVAL);
	fault_set(FAULT_MALLOC, 0, ENOMEM, false);
	assert_int_equal(percpu_segment_series_started(s, METRIC("c_total"), &start), -ENOMEM);
	assert_int_equal(fault_clear(), 1);
	assert_string_equal(percpu_error(), "no memory for a metric");
}

/* In these tests another process adds a chunk, and this one has no address space for it. */

/* Declare a gauge, open the file once more, and declare the gauge there, too. */
static void open_other(struct percpu_owned_gauge **g, struct percpu_owned_gauge **of_t)
{
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("owned"), PERCPU_OWNED_SUM, g), 0);
	t = open_family_file(path, ALL);
	assert_int_equal(percpu_segment_owned_gauge(t, METRIC("owned"), PERCPU_OWNED_SUM, of_t), 0);
}

static void shares_out_of_reach_are_not_left_out(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	int64_t v = 77;

	(void)state;
	open_other(&g, &of_t);
	grow(t->region);
	assert_int_equal(percpu_owned_gauge_add(of_t, 5), 0);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(v, 77);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v), 0);
	assert_int_equal(v, 5);
}

/* An owner whose slot cannot be mapped is taken for alive, so that its locks are not taken from
 * it. */
static void owners_out_of_reach_are_not_dead(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	uint64_t id;

	(void)state;
	open_other(&g, &of_t);
	grow(t->region);
	assert_int_equal(percpu_owned_gauge_add(of_t, 5), 0);
	id = percpu_owners_self(t->owners);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_owners_alive(s->owners, id), 1);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_owners_alive(s->owners, id), 1);
	assert_int_equal(percpu_owners_alive(s->owners, id + 1), 0);
}

/* So is the owner of a lane of critical sections: nobody takes its lane. */
static void lanes_out_of_reach_are_not_free(void **state)
{
	struct percpu_critical *c = NULL, *of_t = NULL;
	const struct percpu_critical_head *head;
	struct percpu_owned_gauge *g, *g_of_t;
	void *cell = NULL;

	(void)state;
	open_other(&g, &g_of_t);
	assert_int_equal(percpu_critical_create_in(s->owners, 16, &c), 0);
	assert_int_equal(percpu_critical_attach(t->owners, percpu_critical_key(c), &of_t), 0);
	grow(t->region);
	assert_int_equal(percpu_critical_enter(of_t, &cell), 0);
	head = (const struct percpu_critical_head *)cell - 1;
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_false(percpu_critical_is_dead((struct percpu_critical_handle *)c,
					     head->inside | head->taken));
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_critical_exit(of_t, cell), 0);
	percpu_critical_detach(of_t);
	percpu_critical_destroy(c);
}

/* Fill the region, and let it not grow any more. */
static void fill(struct percpu_region *r)
{
	void *cell;

	r->capacity = r->n;
	for (size_t size = PERCPU_LANE_SIZE; size >= sizeof(uint64_t); size /= 2)
		while (percpu_region_alloc(r, size, sizeof(uint64_t), &cell) == 0)
			;
}

/* Fill the region, and add a chunk to it. */
static void fill_and_grow(struct percpu_region *r)
{
	const uint32_t capacity = r->capacity;

	fill(r);
	r->capacity = capacity;
	grow(r);
}

/* A process does not begin with a name, if there are slots that it cannot look at: another owner may
 * have had the name there. */
static void names_out_of_reach_are_not_begun(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	int64_t v = 77;

	(void)state;
	open_other(&g, &of_t);
	assert_int_equal(percpu_owners_join(s->owners), 0);
	percpu_owners_leave(s->owners);
	for (size_t slot = 0; slot < PERCPU_OWNER_SLOTS; slot++)
		s->owners->slots[0][slot] = (struct percpu_owner_slot){
			.word = 40, .space = 5, .started = 1, .pid = 1
		};
	fill_and_grow(t->region);
	assert_int_equal(percpu_owners_join_as(t->owners, "a", 0), 0);
	assert_int_equal(percpu_owned_gauge_add(of_t, 5), 0);
	percpu_owners_leave(t->owners);
	s->owners->slots[0][0] = (struct percpu_owner_slot){ .word = 0 };
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_owners_join_as(s->owners, "a", PERCPU_OWNERS_RESUME), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_owners_join_as(s->owners, "a", PERCPU_OWNERS_RESUME), 0);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v), 0);
	assert_int_equal(v, 5);
}

/* Exemplars that cannot be reset are not told to be reset: a series would come back with old ones. */
static void exemplars_out_of_reach_are_not_reset(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_exemplars *of_x = NULL;
	struct percpu_exemplar is;
	uint64_t key;

	(void)state;
	t = open_family_file(path, ALL);
	fill_and_grow(t->region);
	assert_int_equal(percpu_family_exemplars(family_of(t, 1), x, &of_x), 0);
	assert_int_equal(percpu_exemplars_store(of_x, 1, NULL, 0), 0);
	key = percpu_exemplars_key(of_x);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_series_reset_exemplars(s, key), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_exemplars_fetch(of_x, 0, &is), 0);
	assert_int_equal(percpu_series_reset_exemplars(s, key), 0);
	assert_int_equal(percpu_exemplars_fetch(of_x, 0, &is), -ENODATA);
}

/* The id of a process that had no descriptor left when it first asked for its own identity, and
 * that closes a descriptor it did not open. */
static uint64_t *joined;

static int join_after_want(void *arg)
{
	(void)arg;
	fault_set(FAULT_OPEN, 0, EMFILE, true);
	(void)percpu_owner_me();
	test_child_require(fault_clear() != 0, "open");
	test_child_require(percpu_owners_join(s->owners) == 0, "join");
	close(s->region->file.fd);
	__atomic_store_n(joined, percpu_owners_self(s->owners), __ATOMIC_RELEASE);
	pause();
	return 0;
}

static void want_of_descriptors_is_not_for_ever(void **state)
{
	struct percpu_owned_gauge *g;
	uint64_t id;
	pid_t pid;

	(void)state;
	assert_int_equal(percpu_segment_owned_gauge(s, METRIC("owned"), PERCPU_OWNED_SUM, &g), 0);
	joined = test_share(sizeof(*joined));
	pid = test_fork(join_after_want, NULL);
	while (id = __atomic_load_n(joined, __ATOMIC_ACQUIRE), id == 0)
		test_sleep_us(1000);
	assert_int_equal(percpu_owners_alive(s->owners, id), 1);
	kill(pid, SIGKILL);
	(void)test_wait(pid, 60);
	assert_int_equal(percpu_owners_alive(s->owners, id), 0);
}

/* A value can be read, and its owner's slot cannot: whether the owner is alive is not known. */
static void the_living_out_of_reach_are_not_left_out(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	const size_t size = sizeof(struct percpu_owned_shares);
	struct percpu_owned_value seen = { .pid = 77 };
	int64_t v = 77;
	void *room;
	size_t n = 77;

	(void)state;
	open_other(&g, &of_t);
	assert_int_equal(percpu_region_alloc(t->region, size, PERCPU_BLOCK_ALIGN, &room), 0);
	grow(t->region);
	assert_int_equal(percpu_owners_join(t->owners), 0);
	fill(t->region);
	assert_int_equal(percpu_region_free(t->region, room, size), 0);
	assert_int_equal(percpu_owned_gauge_add(of_t, 5), 0);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_ALL, &v), 0);
	assert_int_equal(v, 5);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v), -ENOMEM);
	assert_int_equal(percpu_owned_gauge_each(g, PERCPU_OWNED_ALL, &seen, 1, &n), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(n, 77);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v), 0);
	assert_int_equal(v, 5);
}

/* A lock's holder is listed, but not its pid, if its slot cannot be mapped. It is not taken for
 * the caller. */
static struct percpu_rwlock *held;

static int ask_who_holds(void *arg)
{
	struct percpu_rwlock_holder who;

	(void)arg;
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	test_child_require(percpu_rwlock_holders(held, &who, 1) == 1, "held");
	test_child_require(fault_clear() != 0, "mmap");
	test_child_require(who.reading == 1 && who.pid == 0, "not known");
	test_child_require(percpu_rwlock_holders(held, &who, 1) == 1, "held");
	test_child_require(who.pid == (uint32_t)getppid(), "known");
	return 0;
}

static void holders_out_of_reach_are_not_the_asker(void **state)
{
	const size_t size = sizeof(struct percpu_participant_records);
	struct percpu_owned_gauge *g, *of_t;
	struct percpu_rwlock *l;
	void *room;

	(void)state;
	open_other(&g, &of_t);
	assert_int_equal(percpu_rwlock_create_in(s->owners, 0, &held), 0);
	assert_int_equal(percpu_rwlock_attach(t->owners, percpu_rwlock_key(held), 0, &l), 0);
	assert_int_equal(percpu_region_alloc(t->region, size, PERCPU_BLOCK_ALIGN, &room), 0);
	grow(t->region);
	assert_int_equal(percpu_owners_join(t->owners), 0);
	fill(t->region);
	assert_int_equal(percpu_region_free(t->region, room, size), 0);
	assert_int_equal(percpu_rwlock_read_lock(l), 0);
	test_in_child(ask_who_holds, NULL);
	assert_int_equal(percpu_rwlock_read_unlock(l), 0);
	assert_int_equal(percpu_rwlock_detach(l), 0);
	assert_int_equal(percpu_rwlock_destroy(held), 0);
}

/* An object is not destroyed if its holder's slot cannot be mapped. */
static void what_is_held_out_of_reach_stays(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	struct percpu_rwlock *l, *l_of_t;
	struct percpu_grace *p, *p_of_t;
	int token;

	(void)state;
	open_other(&g, &of_t);
	assert_int_equal(percpu_rwlock_create_in(s->owners, 0, &l), 0);
	assert_int_equal(percpu_grace_create_in(s->owners, 0, &p), 0);
	assert_int_equal(percpu_rwlock_attach(t->owners, percpu_rwlock_key(l), 0, &l_of_t), 0);
	assert_int_equal(percpu_grace_attach(t->owners, percpu_grace_key(p), 0, &p_of_t), 0);
	grow(t->region);
	assert_int_equal(percpu_rwlock_read_lock(l_of_t), 0);
	token = percpu_grace_enter(p_of_t);
	assert_true(token >= 0);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_rwlock_destroy(l), -ENOMEM);
	assert_int_equal(percpu_grace_destroy(p), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_rwlock_destroy(l), -EBUSY);
	assert_int_equal(percpu_grace_destroy(p), -EBUSY);
	assert_int_equal(percpu_rwlock_read_unlock(l_of_t), 0);
	assert_int_equal(percpu_grace_exit(p_of_t, token), 0);
	assert_int_equal(percpu_rwlock_detach(l_of_t), 0);
	assert_int_equal(percpu_grace_detach(p_of_t), 0);
	assert_int_equal(percpu_rwlock_destroy(l), 0);
	assert_int_equal(percpu_grace_destroy(p), 0);
}

/* A gauge and owners are not destroyed if a block of theirs cannot be mapped: the block would
 * stay allocated, and nothing would lead to it. */
static void gauges_out_of_reach_stay(void **state)
{
	struct percpu_owned_gauge *g, *of_t;
	struct percpu_owned_control *c;
	struct percpu_owners_control *of_owners;
	struct percpu_owners *o, *o_of_t;
	uint64_t shares, slots;
	void *more[2]; /* a second block of each, which can be mapped */
	int64_t v = 77;

	(void)state;
	t = open_family_file(path, ALL);
	assert_int_equal(percpu_owners_create_in(s->region, &o), 0);
	assert_int_equal(percpu_owners_attach(t->region, percpu_owners_key(o), &o_of_t), 0);
	assert_int_equal(percpu_owned_gauge_create_in(o, PERCPU_OWNED_SUM, &g), 0);
	assert_int_equal(percpu_owned_gauge_attach(o_of_t, percpu_owned_gauge_key(g), &of_t), 0);
	assert_int_equal(percpu_region_alloc(s->region, sizeof(struct percpu_owned_shares),
					     PERCPU_BLOCK_ALIGN, &more[0]),
			 0);
	assert_int_equal(percpu_region_alloc(s->region, SLOTS_SIZE, PERCPU_BLOCK_ALIGN, &more[1]),
			 0);
	grow(t->region);
	assert_int_equal(percpu_owned_gauge_add(of_t, 5), 0);
	c = (struct percpu_owned_control *)percpu_block_bias(&g->owned.block);
	shares = c->block[0];
	of_owners = (struct percpu_owners_control *)percpu_block_bias(&o->block);
	slots = of_owners->block[0];
	c->block[1] = percpu_region_key(s->region, more[0]);
	of_owners->block[1] = percpu_region_key(s->region, more[1]);
	assert_int_not_equal(shares, 0);
	assert_int_not_equal(slots, 0);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_owned_gauge_destroy(g), -ENOMEM);
	assert_int_equal(percpu_owners_destroy(o), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_owned_gauge_fetch(g, PERCPU_OWNED_LIVING, &v), 0);
	assert_int_equal(v, 5);
	percpu_owned_gauge_detach(of_t);
	percpu_owners_detach(o_of_t);
	assert_int_equal(percpu_owned_gauge_destroy(g), 0);
	assert_int_equal(percpu_owners_destroy(o), 0);
	assert_null(percpu_region_at(s->region, shares, sizeof(struct percpu_owned_shares)));
	assert_null(percpu_region_at(s->region, slots, sizeof(struct percpu_owner_slot)));
	assert_int_equal(percpu_owned_gauge_destroy(NULL), 0);
	assert_int_equal(percpu_owned_fgauge_destroy(NULL), 0);
	assert_int_equal(percpu_owners_destroy(NULL), 0);
}

static void no_address_space_is_no_loss(void **state)
{
	static const char *const x[] = { "x" };
	struct percpu_counter *c = NULL;

	(void)state;
	t = open_family_file(path, ALL);
	grow(t->region);
	assert_int_equal(count_in(family_of(t, 1), "x", 1), 1);
	fault_set(FAULT_MMAP, 0, ENOMEM, true);
	assert_int_equal(percpu_family_counter(f, x, &c), 0);
	assert_int_not_equal(fault_clear(), 0);
	assert_int_equal(percpu_family_overflows(f), 1);
	percpu_counter_add(c, 5);
	assert_int_equal(count_in(f, PERCPU_FAMILY_OVERFLOW, 0), 5);
	assert_int_equal(count_in(f, "x", 1), 2);
	assert_int_equal(percpu_family_overflows(f), 1);
}

/* A process that lacks the memory to enter another one's records releases its lock. */

static int remove_x(void)
{
	return remove_value(f, "x");
}

static int add_y(void)
{
	struct percpu_counter *c = NULL;
	const int e = percpu_segment_counter(s, METRIC("y_total"), &c);

	assert_true((e == 0) == (c != NULL));
	return e;
}

static int free_removed(void)
{
	percpu_series_free_removed(s);
	return percpu_directory_refresh(s);
}

/* Check that the lock can be taken at once. */
static int take_lock(void *arg)
{
	struct percpu_robust h;
	int e;

	(void)arg;
	e = percpu_robust_lock(&h, &s->region->first->header->alloc_lock, 0);
	test_child_require(e == 0, "the lock");
	percpu_robust_unlock(&h);
	return 0;
}

static void no_memory_keeps_no_lock(void **state)
{
	static int (*const calls[])(void) = { remove_x, add_y, free_removed };
	struct percpu_family *others;
	char value[16];
	unsigned n = 0;

	(void)state;
	assert_int_equal(declare_family(s, "g_total", PERCPU_METRIC_COUNTER, 10000, &f), 0);
	t = open_family_file(path, ALL);
	assert_int_equal(declare_family(t, "g_total", PERCPU_METRIC_COUNTER, 10000, &others), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(count_in(f, "x", 1), 1 + (i == 2));
		for (size_t size = s->series.size; 4 * n < 3 * size + 4; n++) {
			snprintf(value, sizeof(value), "%u", n); /* s needs larger tables then */
			assert_int_equal(count_in(others, value, 1), 1);
		}
		fault_set(FAULT_CALLOC, 0, ENOMEM, true);
		assert_int_equal(calls[i](), -ENOMEM);
		assert_int_not_equal(fault_clear(), 0);
		test_in_child(take_lock, NULL);
		assert_int_equal(calls[i](), 0);
	}
}

/* Calls by which a process is present: to open the file once more, lock it, map it, and keep the
 * mapping from children of fork. */
static const enum fault_call of_presence[] = { FAULT_OPEN, FAULT_FSTAT, FAULT_FCNTL, FAULT_MMAP,
					       FAULT_MADVISE };
enum { OF_PRESENCE = sizeof(of_presence) / sizeof(of_presence[0]) };

/* If a process cannot be present, all parts of it are given back, and the caller gets none. */
static void failed_presences_are_not_told(void **state)
{
	struct test_holding before;
	struct percpu_family *g = NULL;
	void *presence = NULL;

	(void)state;
	t = open_family_file(path, ALL);
	before = test_holding_now();
	for (unsigned i = 0; i < OF_PRESENCE; i++) {
		fault_set(of_presence[i], 0, ENOMEM, true);
		assert_true(percpu_presence_take(t, &presence) < 0);
		assert_int_not_equal(fault_clear(), 0);
		assert_null(presence);
		if (of_presence[i] != FAULT_MADVISE) {
			fault_set(of_presence[i], 0, ENOENT, true); /* there is no /proc */
			assert_true(declare_family(t, "f_total", PERCPU_METRIC_COUNTER, 1, &g) < 0);
			assert_int_not_equal(fault_clear(), 0);
			assert_non_null(strstr(percpu_error(), "f_total: "));
		}
		assert_null(g);
		assert_null(t->presence);
		assert_false(t->is_present);
		test_assert_holding(before);
	}
	assert_int_equal(percpu_presence_take(t, &presence), 0);
	assert_null(t->presence);
	percpu_presence_drop(presence);
	test_assert_holding(before);
	assert_non_null(family_of(t, 1));
}

/* A reset that cannot be present, as it needs, clears nothing, and keeps nothing. The next one
 * completes it. */
static void no_presence_is_no_start(void **state)
{
	struct percpu_segment *t = NULL;
	struct test_holding before;

	(void)state;
	assert_int_equal(count_in(f, "x", 5), 5);
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_ANEW));
	assert_int_equal(count_in(f, "x", 5), 5);
	before = test_holding_now();
	fault_set(FAULT_MADVISE, 0, ENOMEM, true);
	assert_int_equal(percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &t), -ENOMEM);
	assert_int_not_equal(fault_clear(), 0);
	assert_null(t);
	test_assert_holding(before);
	assert_int_equal(s->control->generation, 3);
	assert_int_equal(s->control->completed, 2);
	assert_int_equal(count_in(f, "x", 0), 5);
	t = open_family_file(path, 0);
	percpu_segment_close(t);
	assert_int_equal(s->control->completed, 3);
	assert_int_equal(count_in(f, "x", 0), 0);
}

/* If there is no memory to look at a metric, the read fails, and does not leave the metric out. */
static void no_memory_is_no_picture(void **state)
{
	struct percpu_histogram *h;
	struct percpu_reader *r;
	bool failed = true;
	size_t n;
	int e;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	assert_int_equal(percpu_reader_read(r), 0);
	assert_null(picture_check(r, false));
	n = percpu_reader_count(r);
	percpu_reader_close(r);
	assert_int_equal(percpu_reader_open(path, &r), 0);
	for (unsigned nth = 0; failed; nth++) {
		fault_set(FAULT_MALLOC, nth, ENOMEM, false);
		e = percpu_reader_read(r);
		failed = fault_clear() != 0;
		assert_int_equal(e, failed ? -ENOMEM : 0);
		assert_int_equal(percpu_reader_count(r), failed ? 0 : n);
		if (!failed)
			assert_null(picture_check(r, false));
	}
	percpu_reader_close(r);
}

/* Reset the segment, where the nth call of malloc() fails. Returns whether one did. */
static bool start_anew_without_memory(unsigned nth)
{
	const struct test_holding before = test_holding_now();
	unsigned failed;
	int e;

	fault_set(FAULT_MALLOC, nth, ENOMEM, false);
	e = percpu_segment_open(path, PERCPU_SEGMENT_ANEW, NULL, &t);
	failed = fault_clear();
	assert_int_equal(e, failed != 0 ? -ENOMEM : 0);
	if (failed != 0)
		test_assert_holding(before);
	return failed != 0;
}

/* A reset that lacks memory does not count as done. If it could not begin, it keeps no presence, so
 * that removed objects can be freed. */
static void no_memory_is_no_start(void **state)
{
	struct percpu_histogram_snapshot *of_h;
	struct percpu_histogram *h;
	bool failed = true;

	(void)state;
	assert_int_equal(percpu_segment_histogram(s, METRIC("h"), NULL, &h), 0);
	assert_int_equal(percpu_histogram_snapshot_create(h, &of_h), 0);
	percpu_segment_close(open_family_file(path, PERCPU_SEGMENT_ANEW));
	for (unsigned nth = 0; failed; nth++) {
		percpu_histogram_record(h, 1);
		failed = start_anew_without_memory(nth);
		if (failed) /* the next one completes the reset */
			t = open_family_file(path, PERCPU_SEGMENT_ANEW);
		percpu_segment_close(t);
		t = NULL;
		assert_int_equal(percpu_histogram_fetch(h, 0, of_h), 0);
		assert_int_equal(of_h->count, 0);
	}
	percpu_histogram_snapshot_destroy(of_h);
	assert_int_equal(count_in(f, "x", 1), 1);
	assert_int_equal(remove_value(f, "x"), 0);
	percpu_segment_close(s);
	s = open_family_file(path, ALL);
	f = family_of(s, 1);
	assert_int_equal(count_in(f, "y", 1), 1);
	assert_int_equal(percpu_family_overflows(f), 0);
}

#define one(f) cmocka_unit_test_setup_teardown(f, open_one, close_one)

int main(void)
{
	const struct CMUnitTest tests[] = {
		one(updates_are_completed_before_objects_go),
		one(what_cannot_be_mapped_is_told),
		cmocka_unit_test(whatever_fails_is_told),
		one(no_memory_is_no_loss),
		one(overflows_of_threads_are_counted),
		one(invalid_values_are_told_without_memory),
		one(what_cannot_begin_anew_overflows),
		one(tables_without_memory_are_no_loss),
		one(no_memory_is_told),
		one(no_address_space_is_no_loss),
		one(no_memory_keeps_no_lock),
		one(shares_out_of_reach_are_not_left_out),
		one(owners_out_of_reach_are_not_dead),
		one(lanes_out_of_reach_are_not_free),
		one(names_out_of_reach_are_not_begun),
		one(exemplars_out_of_reach_are_not_reset),
		one(want_of_descriptors_is_not_for_ever),
		one(the_living_out_of_reach_are_not_left_out),
		one(holders_out_of_reach_are_not_the_asker),
		one(what_is_held_out_of_reach_stays),
		one(gauges_out_of_reach_stay),
		one(failed_presences_are_not_told),
		one(no_presence_is_no_start),
		one(no_memory_is_no_start),
		one(no_memory_is_no_picture),
	};

	return cmocka_run_group_tests(tests, name_file, test_remove_paths);
}

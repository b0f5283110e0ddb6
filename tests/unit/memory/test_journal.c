/* SPDX-License-Identifier: MIT */
/*
 * test_journal.c - updates that are written down in the journal before they are stored, and
 * threads that are killed, or left behind by a fork, in between.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <percpu/counter.h>
#include <percpu/stats.h>

#include "steps.h"
#include "support.h"

#include "counts/counts.h"

enum { FIELDS = 8, WRITTEN = 1000 };

static struct percpu_region *region;
static struct percpu_stats *stats;
static struct percpu_journal *stats_journal;
static size_t offset; /* offset of the fields in a lane */

static int steps_to_live; /* 0: unlimited */
static void (*when_copied)(void);
static const char *copied = "bias words copied";

void test_step(const char *name)
{
	void (*fn)(void) = when_copied;

	if (fn != NULL && strcmp(name, copied) == 0) {
		when_copied = NULL;
		fn();
	}
	if (steps_to_live != 0 && strncmp(name, "journal", 7) == 0 && --steps_to_live == 0)
		raise(SIGKILL);
}

static int start(void **state)
{
	(void)state;
	if (test_region_new(test_path("region"), NULL, &region) != 0)
		return -1;
	if (percpu_stats_create_in(region, FIELDS * 8, 1, PERCPU_STATS_WHOLE, &stats) != 0)
		return -1;
	stats_journal = &stats->block.chunk->header->journal;
	offset = percpu_stats_offset(stats, 0);
	return 0;
}

static int stop(void **state)
{
	(void)state;
	percpu_region_close(region);
	return unlink(test_path("region"));
}

/* Write an update of all fields down, and commit it, without storing it. */
static void write_down(struct percpu_journal *j)
{
	j->offset = offset;
	j->words = FIELDS;
	for (int i = 0; i < FIELDS; i++)
		j->value[i] = (uint64_t)-WRITTEN;
	__atomic_store_n(&j->turn, j->turn + 1, __ATOMIC_RELEASE);
}

static int die_with_update(void *arg)
{
	struct percpu_robust h;

	(void)arg;
	test_child_require(percpu_journal_lock(stats->block.chunk, &h) == 0, "lock");
	write_down(stats_journal);
	raise(SIGKILL);
	return 0;
}

static void kill_one(void)
{
	pid_t pid = test_fork(die_with_update, NULL);

	assert_int_equal(test_wait(pid, 60), SIGKILL);
}

static void killed_update_is_completed(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	kill_one();
	assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
	for (int i = 0; i < FIELDS; i++)
		assert_int_equal(out[i], WRITTEN);
	percpu_stats_destroy(stats);
}

/* Fetch the fields here, and in a region that is open to read, where no update can be completed.
 * The values must be the same. */
static void assert_whole_before_it_is_recovered(const struct percpu_stats *readonly)
{
	const struct percpu_stats *const both[] = { readonly, stats };
	uint64_t out[FIELDS];

	for (int k = 0; k < 2; k++) {
		assert_int_equal(percpu_stats_fetch(both[k], 0, 1, out), 0);
		for (int i = 1; i < FIELDS; i++)
			assert_int_equal(out[i], out[0]);
	}
}

/* Update, and die at a step: then the update is there as a whole, or not at all. */
static int update_by_lock(void *arg)
{
	const uint64_t n[FIELDS] = { 1, 1, 1, 1, 1, 1, 1, 1 };

	steps_to_live = *(int *)arg;
	test_unregister(percpu_seq_attach());
	test_child_require(percpu_stats_update_slow(stats, 0, 0, n, FIELDS) == 0, "update");
	return 0;
}

static void updates_are_all_or_nothing(void **state)
{
	uint64_t out[FIELDS], updates = 0;
	struct percpu_region *other;
	struct percpu_stats *readonly;
	int killed = SIGKILL;
	int n;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &other), 0);
	assert_int_equal(percpu_stats_attach(other, percpu_stats_key(stats), FIELDS * 8, 1,
					     PERCPU_STATS_WHOLE, &readonly),
			 0);
	for (n = 1; killed == SIGKILL; n++) {
		killed = test_wait(test_fork(update_by_lock, &n), 60);
		assert_true(killed == SIGKILL || killed == 0);
		assert_whole_before_it_is_recovered(readonly);
		assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
		assert_true(out[0] - updates <= 1);
		updates = out[0];
		for (int i = 1; i < FIELDS; i++)
			assert_int_equal(out[i], updates);
	}
	assert_int_equal(n, 2 * FIELDS + 2);
	assert_int_equal(updates, FIELDS + 1);
	percpu_stats_detach(readonly);
	percpu_region_close(other);
	percpu_stats_destroy(stats);
}

/* The cells were freed, and belong to counters, when another thread takes the killed process's
 * lock. */
static void killed_update_does_not_outlive_its_cells(void **state)
{
	struct percpu_counter *c[64];
	struct percpu_stats *other;
	struct percpu_robust h;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	assert_int_equal(percpu_stats_create_in(region, 16, 1, 0, &other), 0);
	kill_one();
	percpu_stats_destroy(stats);
	assert_int_equal(stats_journal->turn & 1, 0);
	for (int i = 0; i < 64; i++) {
		assert_int_equal(percpu_counter_create_in(region, &c[i]), 0);
		percpu_counter_add(c[i], 5);
	}
	assert_int_equal(percpu_journal_lock(other->block.chunk, &h), 0);
	percpu_robust_unlock(&h);
	for (int i = 0; i < 64; i++)
		assert_int_equal(percpu_counter_fetch(c[i]), 5);
	percpu_stats_destroy(other);
}

/* The same for a program that updates freed cells, and is killed meanwhile. */
static void freed_cells_are_handed_out_at_rest(void **state)
{
	struct percpu_counter *c[64];
	struct percpu_stats *other;
	struct percpu_robust h;

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	assert_int_equal(percpu_stats_create_in(region, 16, 1, 0, &other), 0);
	(void)percpu_region_free(region, stats->block.base, 2 * stats->banks);
	kill_one();
	for (int i = 0; i < 64; i++) {
		assert_int_equal(percpu_counter_create_in(region, &c[i]), 0);
		percpu_counter_add(c[i], 5);
	}
	assert_int_equal(percpu_journal_lock(other->block.chunk, &h), 0);
	percpu_robust_unlock(&h);
	for (int i = 0; i < 64; i++)
		assert_int_equal(percpu_counter_fetch(c[i]), 5);
	percpu_stats_destroy(other);
	percpu_stats_detach(stats);
}

/* The same in each chunk. */
static void all_journals_are_recovered(void **state)
{
	struct percpu_counter_array *a;
	struct percpu_counter *c;
	struct percpu_journal *j;
	void *lane;

	(void)state;
	assert_int_equal(percpu_region_alloc(region, PERCPU_LANE_SIZE, 64, &lane), 0);
	assert_int_equal(region->n, 2);
	j = &region->chunks->at[1]->header->journal;
	j->words = 0;
	j->turn |= 1;
	assert_int_equal(percpu_counter_create_in(region, &c), 0);
	assert_int_equal(j->turn & 1, 0);
	j->turn |= 1;
	assert_int_equal(percpu_counter_array_open(region, 7, 4, &a), 0);
	assert_int_equal(j->turn & 1, 0);
	percpu_counter_array_destroy(a);
	percpu_stats_destroy(stats);
}

/* A thread holds the journal of private memory while another one forks. */
static struct percpu_stats *private_stats;
static int stage;

static void hold_journal(unsigned i, void *arg)
{
	struct percpu_robust h;

	(void)i, (void)arg;
	if (percpu_journal_lock(private_stats->block.chunk, &h) != 0)
		return;
	__atomic_store_n(&stage, 1, __ATOMIC_RELEASE);
	while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != 2)
		test_sleep_us(100);
	percpu_robust_unlock(&h);
}

static int update_in_child(void *arg)
{
	const uint64_t n[FIELDS] = { 1, 1, 1, 1, 1, 1, 1, 1 };
	uint64_t out[FIELDS];

	(void)arg;
	test_unregister(percpu_seq_attach());
	test_child_require(percpu_stats_update_slow(private_stats, 0, 0, n, FIELDS) == 0, "update");
	test_child_require(percpu_stats_snapshot(private_stats, 0, 1, out) == 0 && out[7] == 1,
			   "snapshot");
	return 0;
}

static void fork_while_it_is_held(void)
{
	struct test_team team;

	stage = 0;
	test_team_start(&team, 1, hold_journal, NULL);
	while (__atomic_load_n(&stage, __ATOMIC_ACQUIRE) != 1)
		test_sleep_us(100);
	test_in_child(update_in_child, NULL);
	__atomic_store_n(&stage, 2, __ATOMIC_RELEASE);
	test_team_join(&team);
	percpu_stats_destroy(private_stats);
}

static void child_of_fork_takes_the_lock(void **state)
{
	(void)state;
	assert_int_equal(percpu_stats_create(FIELDS * 8, 1, PERCPU_STATS_WHOLE, &private_stats), 0);
	fork_while_it_is_held();
}

static void so_it_does_in_further_chunks(void **state)
{
	struct percpu_region *r;
	void *lane;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &lane), 0);
	assert_int_equal(
		percpu_stats_create_in(r, FIELDS * 8, 1, PERCPU_STATS_WHOLE, &private_stats), 0);
	assert_int_equal(private_stats->block.chunk->index, 1);
	fork_while_it_is_held();
	percpu_region_close(r);
}

/* Many cells are freed while a stopped process holds the journal: only the first ones are waited
 * for. */
static uint64_t patience[3];
static unsigned asked;
static bool busy;

int __real_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns);
int __wrap_percpu_journal_recover(struct percpu_chunk *k, uint64_t timeout_ns)
{
	if (!busy)
		return __real_percpu_journal_recover(k, timeout_ns);
	patience[asked++ % 3] = timeout_ns;
	return k->index < 2 ? -ETIMEDOUT : 0;
}

static void many_cells_are_waited_for_once(void **state)
{
	void *cells[3];

	(void)state;
	assert_int_equal(percpu_region_alloc_many(region, 64, 64, 3, cells), 3);
	busy = true;
	assert_int_equal(percpu_region_free_many(region, cells, 3, 64), 0);
	busy = false;
	assert_int_equal(asked, 3);
	assert_int_equal(patience[0], PERCPU_LOCK_NS);
	assert_int_equal(patience[1], 0);
	assert_int_equal(patience[2], 0);
	assert_int_equal(percpu_region_free_many(region, cells, 3, 64), 3);
	percpu_stats_destroy(stats);
}

/* The call waits for one journal. It completes the others if their locks are free. */
static void one_journal_is_waited_for(void **state)
{
	struct percpu_region *r;
	void *lane;

	(void)state;
	assert_int_equal(percpu_region_create(NULL, &r), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(percpu_region_alloc(r, PERCPU_LANE_SIZE, 64, &lane), 0);
	asked = 0;
	busy = true;
	assert_int_equal(percpu_region_recover_journals(r, 5), -ETIMEDOUT);
	busy = false;
	assert_int_equal(asked, 3);
	assert_int_equal(patience[0], 5);
	assert_int_equal(patience[1], 0);
	assert_int_equal(patience[2], 0);
	assert_int_equal(percpu_region_recover_journals(r, 5), 0);
	percpu_region_close(r);
	percpu_stats_destroy(stats);
}

/* A journal with any damage changes nothing outside the lane. */
static void crafted_journals_do_not_crash(void **state)
{
	static const uint64_t edges[] = {
		0, 1, 7, 8, 65528, 65536, 1ULL << 40, UINT64_MAX, UINT64_MAX - 7, INT64_MAX
	};
	struct percpu_journal *j = stats_journal;
	uint64_t out[FIELDS];

	(void)state;
	for (size_t o = 0; o < 10; o++)
		for (size_t w = 0; w < 10; w++) {
			j->offset = edges[o];
			j->words = edges[w];
			__atomic_store_n(&j->turn, UINT64_MAX - 2 * w, __ATOMIC_RELEASE);
			assert_int_equal(percpu_stats_snapshot(stats, 0, 1, out), 0);
			assert_int_equal(j->turn & 1, 0);
		}
	percpu_stats_destroy(stats);
}

/* A journal has no effect at all, unless the library could have written it. */
static void crafted_journals_change_nothing(void **state)
{
	static const struct {
		uint64_t offset, words;
	} crafted[] = { { 4, 1 },
			{ PERCPU_LANE_SIZE - 8, 2 },
			{ PERCPU_LANE_SIZE, 1 },
			{ 0, PERCPU_JOURNAL_WORDS + 1 },
			{ (uint64_t)-8, 2 } };
	const size_t size = PERCPU_LANE_SIZE + 128;
	struct percpu_chunk *k = stats->block.chunk;
	char *lane = percpu_chunk_lane(k, 2 * (size_t)k->cpus, 0) - 64;
	struct percpu_journal *j = stats_journal;
	char *before = malloc(size);
	struct percpu_robust h;

	(void)state;
	assert_non_null(before);
	memcpy(before, lane, size);
	for (size_t i = 0; i < PERCPU_JOURNAL_WORDS; i++)
		j->value[i] = UINT64_MAX;
	for (size_t i = 0; i < sizeof(crafted) / sizeof(crafted[0]); i++) {
		j->offset = crafted[i].offset;
		j->words = crafted[i].words;
		j->turn |= 1;
		assert_int_equal(percpu_journal_lock(k, &h), 0);
		percpu_robust_unlock(&h);
		assert_int_equal(j->turn & 1, 0);
		assert_memory_equal(lane, before, size);
	}
	free(before);
	percpu_stats_destroy(stats);
}

static void set_all(void)
{
	struct percpu_chunk *k = stats->block.chunk;
	uint64_t value[FIELDS];
	struct percpu_robust h;

	for (size_t i = 0; i < FIELDS; i++)
		value[i] = WRITTEN + i;
	assert_int_equal(percpu_journal_lock(k, &h), 0);
	percpu_journal_set(k, offset, value, FIELDS);
	percpu_robust_unlock(&h);
}

/* Words that change while they are copied are copied again. */
static void words_are_copied_at_once(void **state)
{
	uint64_t out[FIELDS];

	(void)state;
	when_copied = set_all;
	assert_int_equal(percpu_journal_read(stats->block.chunk, offset, out, FIELDS), 0);
	assert_null(when_copied);
	for (size_t i = 0; i < FIELDS; i++)
		assert_int_equal(out[i], WRITTEN + i);
	percpu_stats_destroy(stats);
}

/* A read-only process gives up copying words that change each time. */
static void change_turn(void)
{
	stats_journal->turn += 2;
	when_copied = change_turn;
}

static void who_may_only_read_gives_up(void **state)
{
	struct percpu_region *readonly;
	uint64_t out[FIELDS] = { 7 };
	struct percpu_chunk *k;

	(void)state;
	assert_int_equal(percpu_region_open(test_path("region"), 0, NULL, &readonly), 0);
	k = readonly->first;
	assert_int_equal(percpu_journal_read(k, offset, out, FIELDS), 0);
	copied = "journal: read";
	when_copied = change_turn;
	assert_int_equal(percpu_journal_read(k, offset, out, FIELDS), -ETIMEDOUT);
	when_copied = NULL;
	copied = "bias words copied";
	assert_int_equal(percpu_journal_read(k, offset, out, FIELDS), 0);
	percpu_region_close(readonly);
	percpu_stats_destroy(stats);
}

/* A process that may write copies such words under the lock. */
static void who_may_write_locks(void **state)
{
	uint64_t out[FIELDS] = { 7 };

	(void)state;
	when_copied = change_turn;
	assert_int_equal(percpu_journal_read(stats->block.chunk, offset, out, FIELDS), 0);
	assert_non_null(when_copied);
	when_copied = NULL;
	assert_int_equal(out[0], 0);
	percpu_stats_destroy(stats);
}

static uint64_t field_of(size_t i)
{
	uint64_t out[FIELDS];

	assert_int_equal(percpu_stats_fetch(stats, 0, 1, out), 0);
	return out[i];
}

/* A thread adds a killed thread's words to its sum. Meanwhile another thread stores them, and
 * writes down an update of other words. */
static void set_others(void)
{
	const uint64_t sevens[] = { 7, 7, 7, 7, 7, 7, 7, 7 };
	struct percpu_chunk *k = stats->block.chunk;
	struct percpu_robust h;

	assert_int_equal(percpu_journal_lock(k, &h), 0);
	percpu_journal_set(k, offset + FIELDS * 8, sevens, FIELDS);
	percpu_robust_unlock(&h);
}

static void sums_have_no_words_of_others(void **state)
{
	static const char *const steps[] = { "journal: place loaded", "journal: summed" };

	(void)state;
	if (!percpu_robust_supported())
		test_skip("no get_robust_list()");
	for (int i = 0; i < 2; i++) {
		kill_one();
		copied = steps[i];
		when_copied = set_others;
		assert_int_equal(field_of(0), WRITTEN);
		assert_null(when_copied);
		kill_one();
		when_copied = set_all;
		assert_int_equal(field_of(FIELDS - 1), -(uint64_t)(WRITTEN + FIELDS - 1));
		assert_null(when_copied);
	}
	copied = "bias words copied";
	percpu_stats_destroy(stats);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(killed_update_is_completed, start, stop),
		cmocka_unit_test_setup_teardown(who_may_only_read_gives_up, start, stop),
		cmocka_unit_test_setup_teardown(who_may_write_locks, start, stop),
		cmocka_unit_test_setup_teardown(updates_are_all_or_nothing, start, stop),
		cmocka_unit_test_setup_teardown(killed_update_does_not_outlive_its_cells, start,
						stop),
		cmocka_unit_test_setup_teardown(freed_cells_are_handed_out_at_rest, start, stop),
		cmocka_unit_test_setup_teardown(all_journals_are_recovered, start, stop),
		cmocka_unit_test(child_of_fork_takes_the_lock),
		cmocka_unit_test(so_it_does_in_further_chunks),
		cmocka_unit_test_setup_teardown(many_cells_are_waited_for_once, start, stop),
		cmocka_unit_test_setup_teardown(one_journal_is_waited_for, start, stop),
		cmocka_unit_test_setup_teardown(words_are_copied_at_once, start, stop),
		cmocka_unit_test_setup_teardown(sums_have_no_words_of_others, start, stop),
		cmocka_unit_test_setup_teardown(crafted_journals_do_not_crash, start, stop),
		cmocka_unit_test_setup_teardown(crafted_journals_change_nothing, start, stop),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

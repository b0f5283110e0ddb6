/* SPDX-License-Identifier: MIT */
/* test_lwbuf_steps.c - another thread acts between two steps of taking or keeping a window. */
#define _GNU_SOURCE
#include "steps.h"

#include <signal.h>

#include "model.h"
#include "../lwbuf.h"
#include "caches/lwbuf.h"
#include "caches/sfbuf.h"

static const char *at; /* the step at which fn is called once */
static void (*fn)(void);
static pthread_t main_thread;

void test_step(const char *name)
{
	void (*call)(void) = fn;

	if (call == NULL || strcmp(name, at) != 0 || !pthread_equal(pthread_self(), main_thread))
		return;
	fn = NULL;
	call();
}

static struct percpu_lwbufs *f;
static struct percpu_lwbuf theirs;
static struct percpu_sfbuf *shared, *other;

static void setup(size_t max_excess, bool sealed)
{
	struct percpu_lwbuf_options o = { .size = sizeof(o),
					  .max_excess = max_excess,
					  .flags = PERCPU_LWBUF_WRITABLE,
					  .backend = sealed ? PERCPU_LWBUF_WINDOW : 0 };
	int fd = lw_memfd(64, PAGE, sealed);

	assert_int_equal(percpu_lwbuf_create(fd, &o, &f), 0);
	close(fd);
	main_thread = pthread_self();
	assert_true(test_pin(0, test_cpu(0)));
}

static void call_at(const char *name, void (*call)(void))
{
	at = name;
	fn = call;
}

static void finish(void)
{
	assert_true(fn == NULL); /* fn was called */
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* Windows */

static void take_5(void)
{
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &theirs), 0);
}

/* A thread without sequences finds the windows that it has freed on its CPU. (The pages' bytes do
 * not tell the CPU.) */
static void who_runs_no_sequences_has_its_cpus_windows(void **state)
{
	struct percpu_rseq none = { .cpu_id = PERCPU_CPU_NEVER };
	struct percpu_rseq *area;
	bool found = true;

	(void)state;
	for (unsigned cpu = 0; cpu < test_cpus() && cpu < 2; cpu++) {
		setup(8, true);
		assert_true(test_pin(0, test_cpu(cpu)));
		area = model_set_area(&none);
		for (unsigned i = 0; i < 12; i++)
			found = found && lw_touch(f, i % 3) != NULL;
		model_set_area(area);
		assert_true(found);
		assert_int_equal(lw_stats(f).mapped, 3);
		finish();
	}
}

/* Another thread takes the window that was seen in the table: both have it. */
static void who_saw_a_window_may_share_it(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, true);
	assert_non_null(lw_touch(f, 5));
	call_at("lwbuf: window seen", take_5);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_ptr_equal(b.kva, theirs.kva);
	assert_true(lw_is_right(b.kva, 5, PAGE));
	assert_int_equal(lw_stats(f).mapped, 1);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(lw_stats(f).excess, 0);
	assert_int_equal(percpu_lwbuf_free(f, &theirs), 0);
	assert_int_equal(lw_stats(f).excess, 1);
	finish();
}

static void replace_all(void)
{
	for (uint64_t p = 20; p < 30; p++)
		assert_non_null(lw_touch(f, p));
}

static void a_window_that_was_seen_may_show_something_else(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(1, true);
	assert_non_null(lw_touch(f, 5));
	call_at("lwbuf: window seen", replace_all);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_true(lw_is_right(b.kva, 5, PAGE));
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	finish();
}

static void move_to_another_cpu(void)
{
	assert_true(test_pin(0, test_cpu(1)));
}

/* The thread moves, so the word that it has seen is in another CPU's table. */
static void who_moves_looks_again(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	if (test_cpus() < 2)
		test_skip("there is one CPU");
	setup(8, true);
	assert_non_null(lw_touch(f, 5));
	call_at("lwbuf: window seen", move_to_another_cpu);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_true(lw_is_right(b.kva, 5, PAGE));
	assert_int_equal(lw_stats(f).mapped, 2);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(lw_stats(f).excess, 2);
	finish();
}

static void free_theirs(void)
{
	assert_int_equal(percpu_lwbuf_free(f, &theirs), 0);
}

/* Return the page's set in this CPU's table. */
static const uint64_t *set_of(uint64_t page)
{
	return percpu_window_words(f, percpu_window_set(f, page));
}

static unsigned words_in(const uint64_t *set)
{
	unsigned n = 0;

	for (unsigned way = 0; way < PERCPU_WINDOW_WAYS; way++)
		n += set[way] != 0;
	return n;
}

/* Another window takes the place that was chosen: both windows are kept. */
static void a_place_that_was_seen_may_be_taken(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, true);
	call_at("lwbuf: place chosen", take_5);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_ptr_not_equal(b.kva, theirs.kva);
	assert_int_equal(words_in(set_of(5)), 2);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	free_theirs();
	assert_int_equal(lw_stats(f).excess, 2);
	assert_int_equal(lw_stats(f).mapped, 2);
	finish();
}

/* Another thread takes the window that was chosen to be replaced. */
static void what_was_chosen_may_be_taken(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(1, true);
	assert_non_null(lw_touch(f, 5));
	call_at("lwbuf: window chosen", take_5);
	assert_int_equal(percpu_lwbuf_alloc(f, 6, 0, &b), 0);
	assert_true(lw_is_right(b.kva, 6, PAGE) && lw_is_right(theirs.kva, 5, PAGE));
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	free_theirs();
	finish();
}

/* Buffers of page 5, or of pages of its set, which another thread takes and frees while a thread
 * searches the table. */
static struct percpu_lwbuf many[9];
static uint64_t pages_of_set[9];
static unsigned next; /* index into many */

static void take_page(unsigned i, uint64_t page)
{
	assert_int_equal(percpu_lwbuf_alloc(f, page, 0, &many[i]), 0);
}

static void take_many(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		take_page(i, 5);
	assert_int_equal(lw_stats(f).used, n);
}

static void free_from(unsigned first, unsigned end)
{
	for (unsigned i = first; i < end; i++)
		assert_int_equal(percpu_lwbuf_free(f, &many[i]), 0);
}

/* Let the file have more pages, and find those of the set of page 5 whose numbers differ from it
 * by a multiple of step. */
static void find_pages_of_set(uint64_t step)
{
	uint64_t page = 5;

	assert_int_equal(ftruncate(f->fd, (off_t)PAGE << 20), 0);
	for (unsigned i = 0; i < 9; page += step)
		if (percpu_window_set(f, page) == percpu_window_set(f, 5))
			pages_of_set[i++] = page;
}

static void take_set(unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		take_page(i, pages_of_set[i]);
}

static void take_four(void)
{
	for (unsigned i = 0; i < 4; i++)
		take_page(i, 5);
}

/* A thread that sees other threads take all seats of a window gets another one that shows the
 * page. */
static void who_looks_again_finds_another_window(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, true);
	take_many(5);
	free_from(0, 5);
	assert_int_equal(lw_stats(f).mapped, 2);
	call_at("lwbuf: window seen", take_four);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_true(b.window != many[0].window && lw_is_right(b.kva, 5, PAGE));
	assert_int_equal(lw_stats(f).mapped, 2);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	free_from(0, 4);
	finish();
}

static void take_each_again(void)
{
	take_page(next++, 5);
	if (next < 4)
		call_at("lwbuf: seat seen", take_each_again);
}

/* A thread that loses each seat that it sees maps a window. */
static void who_always_comes_late_maps_a_window(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, true);
	assert_non_null(lw_touch(f, 5));
	next = 0;
	call_at("lwbuf: window seen", take_each_again);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_true(next == 4 && lw_is_right(b.kva, 5, PAGE));
	assert_int_equal(lw_stats(f).mapped, 2);
	free_from(0, 4);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	finish();
}

static void take_the_place(void)
{
	take_page(next, pages_of_set[next]);
	next++;
	if (next < 4)
		call_at("lwbuf: place chosen", take_the_place);
}

/* A thread whose place is always taken has a window for itself, and looks for a place again when it
 * frees it. */
static void who_finds_no_place_shares_no_window(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(64, true);
	find_pages_of_set(PERCPU_WINDOW_WAYS);
	next = 1;
	call_at("lwbuf: place chosen", take_the_place);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_int_equal(next, 4);
	assert_int_equal(words_in(set_of(5)), 3);
	assert_int_equal(b.window->slot, PERCPU_WINDOW_LOOSE);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	free_from(1, 4);
	assert_int_equal(lw_stats(f).excess, 4);
	finish();
}

static void free_first(void)
{
	free_from(0, 1);
}

/* If windows in use fill a set, it remembers no page, and another window of the set stays with its
 * buffer. */
static void a_set_may_be_full(void **state)
{
	uint64_t mapped;

	(void)state;
	setup(64, true);
	find_pages_of_set(1);
	take_set(9);
	assert_int_equal(words_in(set_of(5)), 8);
	percpu_window_remember(f, pages_of_set[8]);
	for (unsigned way = 0; way < PERCPU_WINDOW_WAYS; way++)
		assert_true(set_of(5)[way] >> PERCPU_WINDOW_PAGE_SHIFT != pages_of_set[8] + 1);
	assert_int_equal(many[8].window->slot, PERCPU_WINDOW_LOOSE);
	free_from(8, 9);
	assert_int_equal(lw_stats(f).excess, 0);
	take_page(8, pages_of_set[8]);
	call_at("lwbuf: set full", free_first);
	free_from(8, 9);
	assert_int_equal(lw_stats(f).excess, 1);
	assert_int_equal(words_in(set_of(5)), 8);
	mapped = lw_stats(f).mapped;
	take_page(8, pages_of_set[8]);
	assert_int_equal(lw_stats(f).mapped, mapped);
	free_from(1, 9);
	finish();
}

/* A window that loses its place to another one is unmapped. */
static void who_drives_out_a_window_gives_it_back(void **state)
{
	(void)state;
	setup(64, true);
	find_pages_of_set(1);
	take_set(8);
	free_from(0, 8);
	assert_int_equal(lw_stats(f).excess, 8);
	take_page(8, pages_of_set[8]);
	assert_int_equal(lw_stats(f).excess, 7);
	free_from(8, 9);
	assert_int_equal(words_in(set_of(5)), 8);
	assert_int_equal(lw_stats(f).excess, 8);
	finish();
}

/* A page has one ghost, also if another page of its set has a ghost before it. */
static void a_page_is_remembered_once(void **state)
{
	uint64_t page = 5;

	(void)state;
	setup(8, true);
	do
		page += PERCPU_WINDOW_WAYS;
	while (percpu_window_set(f, page) != percpu_window_set(f, 5));
	percpu_window_remember(f, page);
	for (unsigned i = 0; i < 2; i++) {
		percpu_window_remember(f, 5);
		assert_int_equal(words_in(set_of(5)), 2);
	}
	finish();
}

/* Another CPU's ghost of a page is no window. */
static void what_another_cpu_remembers_is_no_window(void **state)
{
	(void)state;
	if (test_cpus() < 2 || test_tier() == PERCPU_TIER_SHARED)
		test_skip("there is one CPU, or the CPU is not known");
	setup(8, true);
	percpu_window_remember(f, 5);
	assert_int_equal(words_in(set_of(5)), 1);
	move_to_another_cpu();
	assert_null(percpu_window_move(f, 5));
	assert_int_equal(words_in(set_of(5)), 0);
	assert_true(test_pin(0, test_cpu(0)));
	assert_int_equal(words_in(set_of(5)), 1);
	finish();
}

/* percpu_window_evict() searches a part of a large table, until it has seen eight windows. */
static void a_part_of_the_table_is_looked_at(void **state)
{
	struct percpu_window *w;

	(void)state;
	setup(1024, true);
	find_pages_of_set(1);
	for (unsigned n = 1; n <= 8; n += 7) {
		take_set(n);
		free_from(0, n);
		w = percpu_window_evict(f, 5);
		assert_true(w != NULL && set_of(w->page) == set_of(5));
		percpu_window_release(f, w);
		assert_int_equal(lw_stats(f).excess, n - 1);
	}
	finish();
}

static struct percpu_window *block;

static void see_block(void)
{
	f->blocks[0] = block;
}

static int replace_5(void *arg)
{
	struct percpu_lwbuf b;

	(void)arg;
	signal(SIGSEGV, SIG_DFL);
	f->blocks[0] = NULL;
	call_at("lwbuf: window chosen", see_block);
	test_child_require(percpu_lwbuf_alloc(f, 6, 0, &b) == 0, "alloc");
	test_child_require(fn == NULL && lw_is_right(b.kva, 6, PAGE), "page");
	return percpu_lwbuf_free(f, &b);
}

/* A thread may see the word of a window before it sees the pointer to its block. */
static void a_block_may_not_be_seen_yet(void **state)
{
	(void)state;
	setup(1, true);
	assert_non_null(lw_touch(f, 5));
	block = f->blocks[0];
	test_in_child(replace_5, NULL);
	finish();
}

static void lower_the_limit(void)
{
	assert_int_equal(percpu_lwbuf_set_max_excess(f, 0), 0);
}

/* The limit is lowered before a thread maps a window, so the window is not kept. */
static void the_limit_may_be_lowered_meanwhile(void **state)
{
	(void)state;
	setup(8, true);
	assert_non_null(lw_touch(f, 5));
	call_at("lwbuf: window to be mapped", lower_the_limit);
	assert_non_null(lw_touch(f, 6));
	assert_int_equal(lw_stats(f).excess, 0);
	finish();
}

/* The state after 43 seconds of allocations and frees of one page, at 20 ns for both. */
static void allocations_are_counted_beyond_32_bits(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, true);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	b.window->generation[0] = b.generation = UINT32_MAX;
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(lw_stats(f).windows, UINT64_C(1) << 31);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_int_equal(lw_stats(f).windows, (UINT64_C(1) << 31) + 1);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b), -EINVAL);
	finish();
}

/* Shared buffers */

static void use_for_another_page(void)
{
	assert_int_equal(percpu_sfbuf_free(f, shared), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 9, 0, &other), 0);
	assert_ptr_equal(other, shared);
}

/* The buffer gets another page after it was seen, before the reference is taken. */
static void a_buffer_may_change_its_page(void **state)
{
	struct percpu_sfbuf *b;

	(void)state;
	setup(8, true);
	assert_int_equal(percpu_sfbuf_set_max_excess(f, 0), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
	call_at("sfbuf: buffer seen", use_for_another_page);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &b), 0);
	assert_ptr_not_equal(b, other);
	assert_true(lw_is_right(percpu_sfbuf_kva(b), 5, PAGE));
	assert_true(lw_is_right(percpu_sfbuf_kva(other), 9, PAGE));
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(percpu_sfbuf_free(f, other), 0);
	finish();
}

static void free_and_get_again(void)
{
	assert_int_equal(percpu_sfbuf_free(f, shared), 0);
	shared = NULL;
}

/* The buffer loses its references after it was seen, before the reference is taken. */
static void a_buffer_may_lose_its_references(void **state)
{
	struct percpu_sfbuf_stats s;
	struct percpu_sfbuf *b;

	(void)state;
	setup(8, true);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
	call_at("sfbuf: buffer seen", free_and_get_again);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &b), 0);
	assert_true(lw_is_right(percpu_sfbuf_kva(b), 5, PAGE));
	percpu_sfbuf_stats(f, &s);
	assert_true(s.used == 1 && s.excess == 0);
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	assert_int_equal(percpu_sfbuf_free(f, b), -EINVAL);
	finish();
}

static void store_once_more(void)
{
	assert_int_equal(percpu_sfbuf_alloc(f, 5, PERCPU_SFBUF_WRITE, &other), 0);
	memset(percpu_sfbuf_kva(other), 0, PAGE);
	assert_int_equal(percpu_sfbuf_free(f, other), 0);
}

/* Another thread stores to the page while this one frees the last reference. */
static void stores_beside_the_last_free_are_kept(void **state)
{
	struct percpu_lwbuf b;

	(void)state;
	setup(8, false);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
	call_at("sfbuf: last reference", store_once_more);
	assert_int_equal(percpu_sfbuf_free(f, shared), 0);
	assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
	assert_int_equal(*(uint64_t *)percpu_lwbuf_kva(&b), 0);
	assert_int_equal(percpu_lwbuf_free(f, &b), 0);
	finish();
}

static int freed; /* the result of the other free */

static void free_other(void)
{
	freed = percpu_sfbuf_free(f, other);
}

static void cut_and_free_other(void)
{
	assert_int_equal(ftruncate(f->fd, 0), 0);
	free_other();
}

static void store_to_another_page(void)
{
	assert_int_equal(percpu_sfbuf_free(f, shared), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 9, PERCPU_SFBUF_WRITE, &other), 0);
	assert_ptr_equal(other, shared);
	call_at("sfbuf: reference taken", cut_and_free_other);
}

/* A thread that looks for the buffer's old page must not get the last reference to its new page:
 * then no thread would get the error of writing that page back. */
static void who_looks_for_a_page_writes_no_other_back(void **state)
{
	struct percpu_sfbuf *b;

	(void)state;
	setup(8, false);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
	call_at("sfbuf: buffer seen", store_to_another_page);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &b), 0);
	assert_true(fn != NULL); /* the allocation took no reference to the other page */
	fn = NULL;
	cut_and_free_other();
	assert_int_equal(freed, -ERANGE);
	assert_int_equal(percpu_sfbuf_free(f, b), 0);
	finish();
}

static void get_another_reference(void)
{
	assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &other), 0);
}

/* Only the thread that frees the last reference gets the error of a failed write. */
static void who_is_not_the_last_hears_of_no_error(void **state)
{
	(void)state;
	setup(8, false);
	assert_int_equal(percpu_sfbuf_alloc(f, 5, PERCPU_SFBUF_WRITE, &shared), 0);
	assert_int_equal(ftruncate(f->fd, 0), 0);
	call_at("sfbuf: last reference", get_another_reference);
	assert_int_equal(percpu_sfbuf_free(f, shared), 0);
	free_other();
	assert_int_equal(freed, -ERANGE);
	finish();
}

static void get_what_has_come(void)
{
	assert_int_equal(ftruncate(f->fd, (off_t)(65 * PAGE)), 0);
	assert_int_equal(percpu_sfbuf_alloc(f, 64, 0, &other), 0);
}

/* A buffer could not be filled, and has a reference still. Who asks for its page gets another. */
static void a_failure_is_no_page(void **state)
{
	struct percpu_sfbuf *b = NULL;

	(void)state;
	setup(8, true);
	call_at("sfbuf: to be written back", get_what_has_come);
	assert_int_equal(percpu_sfbuf_alloc(f, 64, 0, &b), -ERANGE);
	assert_null(b);
	assert_int_equal(percpu_sfbuf_length(other), PAGE);
	assert_int_equal(percpu_sfbuf_free(f, other), 0);
	finish();
}

static void free_shared(void)
{
	freed = percpu_sfbuf_free(f, shared);
}

/* If many pages share a bucket, a buffer far down is found under the lock. */
static void a_bucket_may_be_long(void **state)
{
	enum { LONG = 66, MOST_BUCKETS = 512 };
	struct percpu_sfbuf *b[LONG], *again;
	uint64_t page = 0, hash;
	struct percpu_sfbuf_stats s;
	int fd = lw_large_file();

	(void)state;
	assert_int_equal(percpu_lwbuf_create(fd, NULL, &f), 0);
	close(fd);
	for (unsigned i = 0; i < LONG; i++, page++) {
		while ((hash = page * UINT64_C(0x9e3779b97f4a7c15) >> 32) % MOST_BUCKETS != 0)
			page++;
		assert_int_equal(percpu_sfbuf_alloc(f, page, 0, &b[i]), 0);
	}
	assert_ptr_equal(percpu_sfbufs_bucket(f->shared, 0),
			 percpu_sfbufs_bucket(f->shared, page - 1));
	assert_int_equal(percpu_sfbuf_alloc(f, 0, 0, &again), 0);
	assert_ptr_equal(again, b[0]);
	percpu_sfbuf_stats(f, &s);
	assert_true(s.used == LONG && s.fills == LONG && s.hits == 1);
	assert_int_equal(percpu_sfbuf_free(f, again), 0);
	for (unsigned i = 0; i < LONG; i++)
		assert_int_equal(percpu_sfbuf_free(f, b[i]), 0);
	assert_int_equal(percpu_lwbuf_destroy(f), 0);
}

/* The thread that fills a buffer is not in the child. There the buffer fails, and the page gets
 * another one. */
static int use_what_was_being_filled(void *arg)
{
	const struct percpu_sfbuf_item *b = f->shared->block[0];
	struct percpu_sfbuf *mine;

	(void)arg;
	test_child_require(b->state == PERCPU_SFBUF_FAILED && b->error == -EIO, "failed");
	test_child_require(percpu_sfbuf_alloc(f, 5, 0, &mine) == 0, "alloc");
	test_child_require(mine != &b->sf && lw_is_right(percpu_sfbuf_kva(mine), 5, PAGE), "page");
	test_child_require(percpu_lwbuf_destroy(f) == -EBUSY, "busy");
	test_child_require(percpu_sfbuf_free(f, mine) == 0, "free");
	return percpu_lwbuf_destroy(f);
}

/* Use the page by buffers of either kind. */
static int use_the_page(void *arg)
{
	struct percpu_sfbuf *mine;

	(void)arg;
	test_child_require(lw_touch(f, 5) != NULL, "a buffer");
	for (unsigned i = 0; i < 2; i++) {
		test_child_require(percpu_sfbuf_alloc(f, 5, 0, &mine) == 0, "alloc");
		test_child_require(lw_is_right(percpu_sfbuf_kva(mine), 5, PAGE), "page");
		test_child_require(percpu_sfbuf_free(f, mine) == 0, "free");
	}
	return 0;
}

static int use_and_fork(void *arg)
{
	(void)use_the_page(arg);
	test_child_require(test_wait(test_fork(use_the_page, NULL), 30) == 0, "its child");
	return percpu_lwbuf_destroy(f);
}

static int (*in_fork)(void *arg);

static void fork_meanwhile(void)
{
	freed = test_wait(test_fork(in_fork, NULL), 30);
}

static void a_fork_may_come_while_a_buffer_is_filled(void **state)
{
	(void)state;
	in_fork = use_what_was_being_filled;
	for (unsigned sealed = 0; sealed < 2; sealed++) {
		setup(8, sealed);
		call_at("sfbuf: filled", fork_meanwhile);
		assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
		assert_int_equal(freed, 0);
		assert_true(lw_is_right(percpu_sfbuf_kva(shared), 5, PAGE));
		free_shared();
		finish();
	}
}

/* A fork at a step of an allocation: what is allocated so far does not hinder the child. */
static void a_fork_may_come_amid_an_allocation(void **state)
{
	static const char *const steps[] = { "sfbuf: filled", "lwbuf: window to be mapped" };
	struct percpu_lwbuf b;
	unsigned forks = 0;

	(void)state;
	in_fork = use_and_fork;
	main_thread = pthread_self();
	for (unsigned i = 0; i < 32; i++) {
		f = lw_create(lw_memfd(64, PAGE, true), i % 4, 8, i & 4 ? PERCPU_LWBUF_DEBUG : 0);
		freed = 1;
		call_at(steps[i / 8 % 2], fork_meanwhile);
		if (i / 16 == 0) {
			assert_int_equal(percpu_sfbuf_alloc(f, 5, 0, &shared), 0);
			assert_true(lw_is_right(percpu_sfbuf_kva(shared), 5, PAGE));
			assert_int_equal(percpu_sfbuf_free(f, shared), 0);
		} else {
			assert_int_equal(percpu_lwbuf_alloc(f, 5, 0, &b), 0);
			assert_true(lw_is_right(percpu_lwbuf_kva(&b), 5, PAGE));
			assert_int_equal(percpu_lwbuf_free(f, &b), 0);
		}
		forks += fn == NULL;
		assert_int_equal(freed, fn != NULL);
		fn = NULL;
		assert_int_equal(percpu_lwbuf_destroy(f), 0);
	}
	assert_true(forks >= 10); /* the other allocations map nothing */
}

static int use_up_windows(void *arg)
{
	struct percpu_lwbuf b;
	uint32_t made;

	(void)arg;
	setup(8, true);
	made = f->windows.made;
	f->windows.made = PERCPU_WINDOW_IDS - 1;
	test_child_require(percpu_lwbuf_alloc(f, 5, 0, &b) == -ENOMEM, "no number is left");
	f->windows.made = made;
	test_child_require(lw_touch(f, 5) != NULL, "there are numbers");
	return percpu_lwbuf_destroy(f);
}

/* A file has a fixed number of windows, for which its array of blocks has room. */
static void windows_may_be_used_up(void **state)
{
	(void)state;
	test_in_child(use_up_windows, NULL);
}

static void free_shared_again(void)
{
	(void)percpu_sfbuf_free(f, shared);
}

/* Free a buffer again during its free, when it has no reference but still has its page. */
static int free_amid_a_free(void *arg)
{
	const int *to = arg;
	struct percpu_lwbuf_options o = { .size = sizeof(o), .flags = PERCPU_LWBUF_DEBUG };
	int fd = lw_memfd(64, PAGE, true);

	test_child_require(percpu_lwbuf_create(fd, &o, &f) == 0, "create");
	main_thread = pthread_self();
	dup2(to[1], STDERR_FILENO);
	signal(SIGABRT, SIG_DFL);
	if (percpu_sfbuf_alloc(f, 5, 0, &shared) == 0) {
		call_at("sfbuf: last reference given", free_shared_again);
		(void)percpu_sfbuf_free(f, shared);
	}
	return 1;
}

static void the_page_is_named_amid_a_free(void **state)
{
	char said[256] = "";
	int to[2];

	(void)state;
	assert_int_equal(pipe(to), 0);
	assert_int_equal(test_wait(test_fork(free_amid_a_free, to), 60) & 127, SIGABRT);
	close(to[1]);
	assert_true(read(to[0], said, sizeof(said) - 1) > 0);
	close(to[0]);
	assert_non_null(strstr(said, "page 5: has no reference: freed twice"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_runs_no_sequences_has_its_cpus_windows),
		cmocka_unit_test(who_saw_a_window_may_share_it),
		cmocka_unit_test(a_window_that_was_seen_may_show_something_else),
		cmocka_unit_test(who_moves_looks_again),
		cmocka_unit_test(a_place_that_was_seen_may_be_taken),
		cmocka_unit_test(what_was_chosen_may_be_taken),
		cmocka_unit_test(who_looks_again_finds_another_window),
		cmocka_unit_test(who_always_comes_late_maps_a_window),
		cmocka_unit_test(who_finds_no_place_shares_no_window),
		cmocka_unit_test(a_set_may_be_full),
		cmocka_unit_test(who_drives_out_a_window_gives_it_back),
		cmocka_unit_test(a_page_is_remembered_once),
		cmocka_unit_test(what_another_cpu_remembers_is_no_window),
		cmocka_unit_test(a_part_of_the_table_is_looked_at),
		cmocka_unit_test(a_block_may_not_be_seen_yet),
		cmocka_unit_test(windows_may_be_used_up),
		cmocka_unit_test(the_page_is_named_amid_a_free),
		cmocka_unit_test(a_failure_is_no_page),
		cmocka_unit_test(the_limit_may_be_lowered_meanwhile),
		cmocka_unit_test(allocations_are_counted_beyond_32_bits),
		cmocka_unit_test(a_buffer_may_change_its_page),
		cmocka_unit_test(a_buffer_may_lose_its_references),
		cmocka_unit_test(stores_beside_the_last_free_are_kept),
		cmocka_unit_test(who_looks_for_a_page_writes_no_other_back),
		cmocka_unit_test(who_is_not_the_last_hears_of_no_error),
		cmocka_unit_test(a_bucket_may_be_long),
		cmocka_unit_test(a_fork_may_come_while_a_buffer_is_filled),
		cmocka_unit_test(a_fork_may_come_amid_an_allocation),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * test_exemplar_steps.c - exemplars whose threads are killed or stopped while they store: a reader
 * gets the last one that is complete, and never parts of two. The clock is the test's.
 */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <percpu/percpu.h>

#include "clocks.h"
#include "steps.h"
#include "support.h"
#include "../happen.h"

#include "counts/counts.h"

#define STEPS 16 /* each at most so often in a store or a read */
#define MS (INT64_C(1000) * 1000)

static int64_t ahead_ns; /* by how much the clock is ahead */
static unsigned dies_at;
static struct percpu_region *region;
static struct percpu_exemplars *x;

void clock_is_read(clockid_t clock, struct timespec *t)
{
	int64_t ns;

	if (clock != CLOCK_REALTIME || ahead_ns == 0)
		return;
	ns = (int64_t)t->tv_sec * 1000 * MS + t->tv_nsec + ahead_ns;
	t->tv_sec = (time_t)(ns / (1000 * MS));
	t->tv_nsec = (long)(ns % (1000 * MS));
}

static int make_exemplars(void **state)
{
	(void)state;
	ahead_ns = 0;
	return test_region_new(test_path("exemplars"), NULL, &region) != 0 ||
	       percpu_exemplars_create_in(region, NULL, &x) != 0;
}

static int destroy_exemplars(void **state)
{
	(void)state;
	percpu_exemplars_destroy(x);
	percpu_region_close(region);
	return unlink(test_path("exemplars"));
}

/* Store n, with labels that say so. They differ in length. */
static int store(unsigned n)
{
	struct percpu_exemplar_label labels[] = { { "id", NULL }, { "span", NULL } };
	char id[24], span[24];

	snprintf(id, sizeof(id), "%u", n);
	snprintf(span, sizeof(span), "%0*u", (int)(n % 16) + 1, n);
	labels[0].value = id;
	labels[1].value = span;
	return percpu_exemplars_store(x, n, labels, 2);
}

/* Return which exemplar there is; 0 if there is none. It has all parts of one. */
static unsigned there(void)
{
	struct percpu_exemplar is;
	char id[24], span[24];
	int e = percpu_exemplars_fetch(x, 0, &is);

	if (e != 0) {
		assert_int_equal(e, -ENODATA);
		return 0;
	}
	snprintf(id, sizeof(id), "%.0f", is.value);
	snprintf(span, sizeof(span), "%0*.0f", (int)((unsigned)is.value % 16) + 1, is.value);
	assert_int_equal(is.labels, 2);
	assert_string_equal(is.text + is.label_names[0], "id");
	assert_string_equal(is.text + is.label_values[0], id);
	assert_string_equal(is.text + is.label_names[1], "span");
	assert_string_equal(is.text + is.label_values[1], span);
	return (unsigned)is.value;
}

/* Kills. */

static void die_in_time(void)
{
	if (dies_at-- == 0)
		raise(SIGKILL);
}

static const char *const steps_of_store[] = {
	"exemplar: state loaded",      "exemplar: claimed", "exemplar: turn to be checked",
	"exemplar: word to be stored", "exemplar: stored",
};

static const char *dies_where;

static int store_and_die(void *arg)
{
	let_happen(die_in_time, dies_where, STEPS);
	return store(*(unsigned *)arg);
}

/* Kill a process that stores n, at the step when it comes there for the kth time. Returns whether it
 * was killed. */
static bool is_killed(unsigned n, const char *step, unsigned k)
{
	int status;

	dies_at = k;
	dies_where = step;
	status = test_wait(test_fork(store_and_die, &n), 30);
	assert_true((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) || status == 0);
	return status != 0;
}

static void the_killed_leave_the_last(void **state)
{
	unsigned last = 1, kills = 0, n = 2;

	(void)state;
	assert_int_equal(store(last), 0);
	for (size_t i = 0; i < sizeof(steps_of_store) / sizeof(steps_of_store[0]); i++)
		for (unsigned k = 0;; k++, n += 3) {
			if (!is_killed(n, steps_of_store[i], k)) {
				assert_int_equal(there(), n);
				last = n;
				n++;
				break;
			}
			kills++;
			assert_int_equal(there(), last);
			if (i > 0) { /* the killed process has claimed the slot */
				assert_int_equal(store(n + 1), -EBUSY);
				ahead_ns += 900 * MS;
				assert_int_equal(store(n + 1), -EBUSY);
				assert_int_equal(there(), last);
				ahead_ns += 200 * MS;
			}
			assert_int_equal(store(n + 2), 0);
			last = n + 2;
			assert_int_equal(there(), last);
		}
	assert_true(kills > 12);
}

/* The next process takes the claim over, and is killed, too, and so on. */
static void the_killed_in_a_row_leave_the_last(void **state)
{
	(void)state;
	assert_int_equal(store(1), 0);
	for (unsigned k = 0; k < 6; k++) {
		assert_true(is_killed(100 + k, "exemplar: word to be stored", k));
		assert_int_equal(there(), 1);
		ahead_ns += 1100 * MS;
	}
	assert_int_equal(store(2), 0);
	assert_int_equal(there(), 2);
}

/* A claim of a time to come is no claim: the clock was set back. */
static void a_clock_that_is_set_back_ends_claims(void **state)
{
	(void)state;
	ahead_ns = 5000 * MS;
	assert_true(is_killed(1, "exemplar: claimed", 0));
	assert_int_equal(store(2), -EBUSY);
	ahead_ns = 3000 * MS;
	assert_int_equal(store(3), 0);
	assert_int_equal(there(), 3);
}

/* A claim lasts a second at each time that its 24 bits can have. */
static void claims_wrap(void **state)
{
	const int64_t wraps = (INT64_C(1) << 20) * ((1 << 24) - 1);

	(void)state;
	for (int64_t back = 500 * MS; back >= -500 * MS; back -= 250 * MS) {
		ahead_ns = 0;
		ahead_ns =
			wraps - (int64_t)(percpu_clock_ns(CLOCK_REALTIME) % (uint64_t)wraps) - back;
		assert_int_equal(store(1), 0);
		assert_true(is_killed(2, "exemplar: claimed", 0));
		assert_int_equal(store(3), -EBUSY);
		ahead_ns += 800 * MS;
		assert_int_equal(store(3), -EBUSY);
		assert_int_equal(there(), 1);
		ahead_ns += 300 * MS;
		assert_int_equal(store(3), 0);
		assert_int_equal(there(), 3);
	}
}

/* Stops: while one thread is stopped, others go on. Here they are the same thread. */

static unsigned happens_at;	     /* when it comes to the step for so many times, from 0 */
static unsigned first, others, seen; /* of the exemplars that are stored meanwhile */

static void others_store(void)
{
	if (happens_at-- != 0)
		return;
	ahead_ns += 1100 * MS;
	for (unsigned i = 0; i < others; i++)
		assert_int_equal(store(first + i), 0);
	seen = there();
}

/* Store 2 after 1, stopped at the step when it comes there for the kth time. Meanwhile others store
 * n exemplars, from 101 on. Returns whether the store was stopped. */
static bool is_stopped(const char *step, unsigned k, unsigned n)
{
	int e;

	assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(store(1), 0);
	first = 101;
	others = n;
	happens_at = k;
	seen = 0;
	let_happen(others_store, step, STEPS);
	e = store(2);
	let_happen(others_store, NULL, 0);
	assert_int_equal(e, seen == 0 ? 0 : -EBUSY);
	if (seen != 0)
		assert_int_equal(seen, 100 + n);
	return seen != 0;
}

static void the_stopped_store_no_parts(void **state)
{
	const unsigned n_steps = sizeof(steps_of_store) / sizeof(steps_of_store[0]);
	unsigned damaged = 0, whole = 0, k;

	(void)state;
	for (unsigned i = 0; i < n_steps; i++)
		for (unsigned n = 1; n <= 3; n++)
			for (k = 0; is_stopped(steps_of_store[i], k, n); k++) {
				const bool stores = strstr(steps_of_store[i], "to be stored");
				const unsigned last = 100 + n, is = there();

				/* One word may be stored in the last exemplar; then it is the one
				 * before. */
				if (!stores || n == 2)
					assert_int_equal(is, last);
				else
					assert_true(is == last || is == (n == 1 ? 1 : last - 1));
				damaged += is != last;
				whole += is == last;
				assert_int_equal(store(3), 0);
				assert_int_equal(there(), 3);
			}
	assert_true(damaged >= 8 && whole > 30);
}

/* The stopped thread damages what another one is about to publish. */

static const char *then_at;
static unsigned nested;

static void store_amid(void)
{
	if (happens_at-- != 0)
		return;
	ahead_ns += 1100 * MS;
	nested = (unsigned)(store(101) == 0);
}

static void a_claim_is_of_one_turn(void **state)
{
	(void)state;
	for (then_at = "exemplar: stored"; then_at != NULL;
	     then_at = strstr(then_at, "claimed") ? NULL : "exemplar: claimed") {
		assert_int_equal(percpu_exemplars_reset(x), 0);
		happens_at = 0;
		nested = 0;
		let_happen(store_amid, then_at, 1);
		assert_int_equal(store(2), -EBUSY); /* the turn is another's */
		assert_int_equal(nested, 1);
		assert_int_equal(there(), 101);
	}
}

/* A signal handler stores while its thread does: the one in the same slot is refused at once. */

static int in_handler, elsewhere;
static struct percpu_exemplars *other;

static void handle(int signo)
{
	(void)signo;
	in_handler = store(9);
	elsewhere = percpu_exemplars_store(other, 9, NULL, 0);
}

static void interrupt(void)
{
	raise(SIGUSR1);
}

static void handlers_are_not_in_the_way(void **state)
{
	struct sigaction sa = { .sa_handler = handle }, was;

	(void)state;
	assert_int_equal(percpu_exemplars_create(NULL, &other), 0);
	assert_int_equal(sigaction(SIGUSR1, &sa, &was), 0);
	for (size_t i = 1; i < sizeof(steps_of_store) / sizeof(steps_of_store[0]); i++) {
		in_handler = elsewhere = 1;
		let_happen(interrupt, steps_of_store[i], 1);
		assert_int_equal(store(2), 0);
		assert_int_equal(in_handler, -EBUSY);
		assert_int_equal(elsewhere, 0);
		assert_int_equal(there(), 2);
	}
	let_happen(interrupt, steps_of_store[0], 1);
	assert_int_equal(store(3), -EBUSY); /* the handler's is as recent */
	assert_int_equal(in_handler, 0);
	assert_int_equal(there(), 9);
	assert_int_equal(sigaction(SIGUSR1, &was, NULL), 0);
	percpu_exemplars_destroy(other);
}

/* Reads. */

static unsigned next;

static void store_two(void)
{
	if (happens_at-- != 0)
		return;
	assert_int_equal(store(next++), 0);
	assert_int_equal(store(next++), 0);
}

static void store_always(void)
{
	happens_at = 0;
	store_two();
}

static void reads_amid_stores_are_whole(void **state)
{
	struct percpu_exemplar is;
	unsigned found;

	(void)state;
	for (unsigned k = 0; k < 12; k++) {
		assert_int_equal(store(1), 0);
		next = 2;
		happens_at = k;
		let_happen(store_two,
			   k == 0 ? "exemplar: to be copied" : "exemplar: word to be copied",
			   STEPS);
		found = there();
		let_happen(store_two, NULL, 0);
		assert_true(found == 1 || found == 2 || found == 3);
		assert_int_equal(there(), next - 1);
	}
	next = 2;
	let_happen(store_always, "exemplar: word to be copied", 1000);
	is.value = 77;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), -EAGAIN);
	assert_true(is.value == 77);
	let_happen(store_always, NULL, 0);
	assert_true(next < 2 + 1000);
	assert_int_equal(there(), next - 1);
}

/* A read that has found out how long the text is, and then finds a shorter one in its place. Behind
 * that there are still labels of the longer one. */

static void store_shorter(void)
{
	const struct percpu_exemplar_label label = { "eee", "fff" };

	assert_int_equal(store(1), 0);
	assert_int_equal(percpu_exemplars_store(x, 3, &label, 1), 0);
}

static void reads_amid_stores_have_no_older_labels(void **state)
{
	const struct percpu_exemplar_label labels[] = { { "aaa", "bbb" }, { "ccc", "ddd" } };
	struct percpu_exemplar is;

	(void)state;
	assert_int_equal(percpu_exemplars_store(x, 2, labels, 2), 0);
	let_happen(store_shorter, "exemplar: word to be copied", 1);
	assert_int_equal(there(), 1); /* the other copy */
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), 0);
	assert_true(is.value == 3 && is.labels == 1);
	assert_string_equal(is.text + is.label_values[0], "fff");
}

/* Resets. */

static void reset_now(void)
{
	if (happens_at-- == 0)
		assert_int_equal(percpu_exemplars_reset(x), 0);
}

static void resets_are_whole(void **state)
{
	unsigned found;

	(void)state;
	for (size_t i = 0; i < sizeof(steps_of_store) / sizeof(steps_of_store[0]); i++) {
		assert_int_equal(store(1), 0);
		happens_at = 0;
		let_happen(reset_now, steps_of_store[i], 1);
		assert_int_equal(store(2), -EBUSY);
		assert_int_equal(there(), 0);
		assert_int_equal(store(3), 0); /* the reset has left no claim */
		assert_int_equal(there(), 3);
	}
	for (unsigned k = 0; k < 3; k++) { /* a read is before the reset, or after it */
		assert_int_equal(store(4), 0);
		happens_at = k;
		let_happen(reset_now, "exemplar: word to be copied", 3);
		found = there();
		assert_true(found == 0 || found == 4);
		assert_int_equal(there(), 0);
	}
}

/* A reset leaves the claim to the thread that stores: until that goes on, another one would store in
 * the same copy. */

static void reset_and_store(void)
{
	if (happens_at-- != 0)
		return;
	assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(store(5), -EBUSY);
}

static void reset_and_store_later(void)
{
	if (happens_at-- != 0)
		return;
	assert_int_equal(percpu_exemplars_reset(x), 0);
	ahead_ns += 1100 * MS;
	assert_int_equal(store(6), 0);
}

static void die_with_a_claim(void)
{
	ahead_ns += 1100 * MS;
	assert_true(is_killed(8, "exemplar: claimed", 0));
}

static void resets_leave_the_claim(void **state)
{
	(void)state;
	for (unsigned k = 0; k < 4; k++) {
		assert_int_equal(store(1), 0);
		happens_at = k;
		let_happen(reset_and_store, "exemplar: word to be stored", STEPS);
		assert_int_equal(store(2), -EBUSY);
		let_happen(reset_and_store, NULL, 0);
		assert_int_equal(there(), 0);
		assert_int_equal(store(3), 0);
		assert_int_equal(there(), 3);
	}
	/* Another thread has taken the claim over: it is not ended. */
	happens_at = 0;
	let_happen(reset_and_store_later, "exemplar: stored", 1);
	assert_int_equal(store(2), -EBUSY);
	assert_int_equal(there(), 6);
	assert_int_equal(store(7), 0);
	let_happen(die_with_a_claim, "exemplar: stored", 1);
	assert_int_equal(store(2), -EBUSY);
	assert_int_equal(store(9), -EBUSY); /* the claim of the killed process is still there */
	assert_int_equal(there(), 7);
}

/* What was before a reset is not taken for the exemplar before a damaged one. */
static void resets_end_both_copies(void **state)
{
	struct percpu_exemplar_slot *const s = percpu_exemplar_slot(x, 0);
	struct percpu_exemplar is;

	(void)state;
	assert_int_equal(store(1), 0);
	assert_int_equal(store(2), 0);
	assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(s->state & 0xffffff, 0);
	assert_int_equal(store(3), 0);
	s->copy[s->state >> 24 & 1].check++;
	assert_int_equal(percpu_exemplars_fetch(x, 0, &is), -EAGAIN);
}

static int reset_and_die(void *arg)
{
	(void)arg;
	dies_at = 0;
	let_happen(die_in_time, "exemplar: to be reset", 1);
	return percpu_exemplars_reset(x);
}

static void store_before_it(void)
{
	assert_int_equal(store(5), 0);
}

/* A reset is one step: it is done, or nothing is. */
static void resets_amid_stores_are_later(void **state)
{
	int status;

	(void)state;
	assert_int_equal(store(1), 0);
	status = test_wait(test_fork(reset_and_die, NULL), 30);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_int_equal(there(), 1);
	let_happen(store_before_it, "exemplar: to be reset", 1);
	assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(there(), 0);
	assert_int_equal(store(2), 0);
	assert_int_equal(there(), 2);
}

/* The number of resets has 16 bits. */
static void resets_wrap(void **state)
{
	const uint64_t others = percpu_exemplar_slot(x, 0)->state;

	(void)state;
	for (unsigned i = 1; i <= 65536; i++)
		assert_int_equal(percpu_exemplars_reset(x), 0);
	assert_int_equal(percpu_exemplar_slot(x, 0)->state, others);
	assert_int_equal(store(2), 0);
	assert_int_equal(there(), 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, make_exemplars, destroy_exemplars)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_killed_leave_the_last),
		TEST(the_killed_in_a_row_leave_the_last),
		TEST(a_clock_that_is_set_back_ends_claims),
		TEST(claims_wrap),
		TEST(the_stopped_store_no_parts),
		TEST(a_claim_is_of_one_turn),
		TEST(handlers_are_not_in_the_way),
		TEST(reads_amid_stores_are_whole),
		TEST(reads_amid_stores_have_no_older_labels),
		TEST(resets_are_whole),
		TEST(resets_leave_the_claim),
		TEST(resets_end_both_copies),
		TEST(resets_amid_stores_are_later),
		TEST(resets_wrap),
	};

	return cmocka_run_group_tests(tests, NULL, test_remove_paths);
}

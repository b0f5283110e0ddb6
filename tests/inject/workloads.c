/* SPDX-License-Identifier: MIT */
/* workloads.c - see workloads.h. */
#define _GNU_SOURCE
#include "workloads.h"

#include <sched.h>
#include <string.h>

#include <percpu/status.h>

#include "../support.h"

#define LIMIT 40	      /* per lane */
#define MAX_WORDS MODEL_SLOTS /* the most words that are copied at once */
#define WAIT_US 50

/* The memory of the workloads, shared with children. */
static struct world {
	struct worker worker[WORKLOAD_WORKERS];
	uint32_t owners[MODEL_SLOTS + 1]; /* 1 if the item is in no array */
	uint32_t consuming;		  /* a lock */
	uint64_t waits;			  /* how often workers waited for it */
	uint64_t consumed;		  /* number of records, and the sum of their first words */
	uint64_t consumed_sum;
	uint64_t broken; /* records whose words are wrong */
} * world;

static struct model_lane *lanes;
static unsigned n_lanes;

static struct model_result run(const struct model_case *c)
{
	struct model_result r;

	do
		r = model_run(lanes, c);
	while (r.code == PERCPU_SEQ_SLOW);
	return r;
}

static struct model_result run_armed(struct worker *w, const struct model_case *c)
{
	struct model_result r;

	workload_arm(w);
	r = run(c);
	workload_disarm();
	return r;
}

static uint64_t sum_lanes(unsigned word)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < n_lanes; i++)
		sum += (uint64_t)lanes[i].word[word];
	return sum;
}

static uint64_t sum_committed(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		sum += world->worker[i].committed;
	return sum;
}

uint64_t workload_sum(unsigned word)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		sum += world->worker[i].sum[word];
	return sum;
}

static void update_add(struct worker *w)
{
	struct model_case c = { .op = MODEL_ADD, .n = { (int64_t)test_random(&w->random) } };

	if (run_armed(w, &c).code != 0)
		w->wrong++;
	w->sum[0] += (uint64_t)c.n[0];
	w->committed++;
}

static bool check_sums(void)
{
	for (unsigned i = 0; i < 8; i++)
		if (sum_lanes(i) != workload_sum(i))
			return false;
	return true;
}

/* add_limit without a limit: a lane that holds n has returned 1, 2, ... n. */

static void update_add_return(struct worker *w)
{
	const struct model_case c = { .op = MODEL_ADD_LIMIT, .n = { 1 }, .other = INT64_MAX };
	struct model_result r = run_armed(w, &c);

	w->wrong += r.code != 0;
	w->committed++;
	w->returned += (uint64_t)r.value;
}

static bool check_returned(void)
{
	uint64_t returned = 0, held, must = 0;

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		returned += world->worker[i].returned;
	for (unsigned i = 0; i < n_lanes; i++) {
		held = (uint64_t)lanes[i].word[0];
		must += held * (held + 1) / 2;
	}
	return sum_lanes(0) == sum_committed() && returned == must;
}

/* add_limit: a worker that finds a lane full makes room. */

static void update_add_limit(struct worker *w)
{
	const struct model_case up = { .op = MODEL_ADD_LIMIT, .n = { 1 }, .other = LIMIT };
	const struct model_case down = { .op = MODEL_ADD_LIMIT, .n = { -LIMIT }, .other = LIMIT };
	struct model_result r = { PERCPU_SEQ_REFUSED, 0 };

	workload_arm(w);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r.code == PERCPU_SEQ_REFUSED; i++) {
		r = run(&up);
		w->wrong += (r.code == 0) != (r.value <= LIMIT);
		if (r.code != 0) {
			w->wrong += run(&down).code != 0;
			w->sum[0] -= LIMIT;
		}
	}
	workload_disarm();
	w->sum[0] += r.code == 0;
	w->committed += r.code == 0;
	w->gave_up += r.code != 0;
}

static bool check_limit(void)
{
	for (unsigned i = 0; i < n_lanes; i++)
		if (lanes[i].word[0] > LIMIT)
			return false;
	return check_sums();
}

/* cmpxchg counts; xchg passes values on. */

static void update_cmpxchg(struct worker *w)
{
	struct model_case c = { .op = MODEL_CMPXCHG };
	struct model_result r = { PERCPU_SEQ_REFUSED, 0 };

	workload_arm(w);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r.code == PERCPU_SEQ_REFUSED; i++) {
		c.other = w->seen;
		c.n[0] = c.other + 1;
		r = run(&c);
		w->wrong += (r.code == 0) != (r.value == c.other);
		w->seen = r.code == 0 ? c.n[0] : r.value;
	}
	workload_disarm();
	w->committed += r.code == 0;
	w->gave_up += r.code != 0;
}

static bool check_count(void)
{
	return sum_lanes(0) == sum_committed();
}

static void update_xchg(struct worker *w)
{
	struct model_case c = { .op = MODEL_XCHG, .n = { (int64_t)test_random(&w->random) } };
	struct model_result r = run_armed(w, &c);

	w->wrong += r.code != 0;
	w->sum[0] += (uint64_t)c.n[0] - (uint64_t)r.value;
	w->committed++;
}

/* push, pop: a worker moves an item from one array to another. One of the two is the sequence
 * under test. Any array has room for all items. */

static void move_item(struct worker *w, enum model_op tested)
{
	const struct model_case pop = { .op = MODEL_POP };
	struct model_case push = { .op = MODEL_PUSH, .limit = MODEL_SLOTS };
	struct model_result r = tested == MODEL_POP ? run_armed(w, &pop) : run(&pop);
	uint64_t item = (uint64_t)r.value, outer = w->held;

	if (r.code == PERCPU_SEQ_REFUSED)
		return;
	if (r.code != 0 || item < 1 || item > MODEL_SLOTS ||
	    __atomic_exchange_n(&world->owners[item], 1, __ATOMIC_RELAXED) != 0) {
		w->wrong++;
		return;
	}
	w->held = item;
	__atomic_store_n(&world->owners[item], 0, __ATOMIC_RELAXED);
	push.n[0] = (int64_t)item;
	r = tested == MODEL_PUSH ? run_armed(w, &push) : run(&push);
	w->held = outer;
	w->wrong += r.code != 0;
	w->committed++;
}

static void update_push(struct worker *w)
{
	move_item(w, MODEL_PUSH);
}

static void update_pop(struct worker *w)
{
	move_item(w, MODEL_POP);
}

static void begin_items(void)
{
	struct model_lane *lane;

	for (unsigned i = 0; i < MODEL_SLOTS; i++) {
		lane = &lanes[test_cpu(i % test_cpus())];
		lane->array.slot[lane->array.count++] = i + 1;
	}
}

static bool check_items(void)
{
	unsigned found[MODEL_SLOTS + 1] = { 0 };

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		found[world->worker[i].held]++;
	for (unsigned i = 0; i < n_lanes; i++)
		for (uint64_t k = 0; k < lanes[i].array.count; k++) {
			if (k >= MODEL_SLOTS || lanes[i].array.slot[k] > MODEL_SLOTS)
				return false;
			found[lanes[i].array.slot[k]]++;
		}
	for (unsigned item = 1; item <= MODEL_SLOTS; item++)
		if (found[item] != 1)
			return false;
	return true;
}

/* take: move an item from the front of a queue to the end of one. */
static void update_take(struct worker *w)
{
	const struct model_case take = { .op = MODEL_TAKE, .mask = MODEL_SLOTS - 1 };
	struct model_case copy = { .op = MODEL_COPY, .mask = MODEL_SLOTS - 1, .words = 1 };
	struct model_result r = run_armed(w, &take);
	uint64_t item = (uint64_t)r.value, outer = w->held;

	if (r.code == PERCPU_SEQ_REFUSED)
		return;
	if (r.code != 0 || item < 1 || item > MODEL_SLOTS ||
	    __atomic_exchange_n(&world->owners[item], 1, __ATOMIC_RELAXED) != 0) {
		w->wrong++;
		return;
	}
	w->held = item;
	__atomic_store_n(&world->owners[item], 0, __ATOMIC_RELAXED);
	copy.n[0] = (int64_t)item;
	r = run(&copy);
	w->held = outer;
	w->wrong += r.code != 0;
	w->committed++;
}

static void begin_queues(void)
{
	struct model_lane *lane;

	for (unsigned i = 0; i < MODEL_SLOTS; i++) {
		lane = &lanes[test_cpu(i % test_cpus())];
		lane->fifo.slot[lane->fifo.head++] = i + 1;
	}
}

static bool check_queues(void)
{
	unsigned found[MODEL_SLOTS + 1] = { 0 };
	uint64_t item;

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++)
		found[world->worker[i].held]++;
	for (unsigned i = 0; i < n_lanes; i++)
		for (uint64_t at = lanes[i].fifo.tail; at != lanes[i].fifo.head; at++) {
			item = lanes[i].fifo.slot[at % MODEL_SLOTS];
			if (at - lanes[i].fifo.tail >= MODEL_SLOTS || item > MODEL_SLOTS)
				return false;
			found[item]++;
		}
	for (unsigned i = 1; i <= MODEL_SLOTS; i++)
		if (found[i] != 1)
			return false;
	return true;
}

/* copy, append: records whose first word is their length. */

static uint64_t record_word(uint64_t first, uint64_t i)
{
	return first ^ i << 56;
}

static void consume_lane(struct model_lane *lane)
{
	uint64_t head = __atomic_load_n(&lane->fifo.head, __ATOMIC_ACQUIRE);
	uint64_t at = lane->fifo.tail, first, words;
	const uint64_t *slot = lane->fifo.slot;

	while (at != head) {
		first = slot[at % MODEL_SLOTS];
		words = first % 256;
		if (words < 1 || words > MAX_WORDS || words > head - at) {
			world->broken++;
			break;
		}
		for (uint64_t i = 0; i < words; i++)
			world->broken += slot[(at + i) % MODEL_SLOTS] != record_word(first, i);
		world->consumed++;
		world->consumed_sum += first;
		at += words;
	}
	__atomic_store_n(&lane->fifo.tail, head, __ATOMIC_RELEASE);
}

/* Take the turn. Its holder may be off its CPU for long: an emulator may meanwhile run the CPUs
 * of the workers that wait. So these sleep. */
void workload_take_turn(void)
{
	while (__atomic_exchange_n(&world->consuming, 1, __ATOMIC_ACQUIRE) != 0) {
		__atomic_fetch_add(&world->waits, 1, __ATOMIC_RELAXED);
		test_sleep_us(WAIT_US);
	}
}

void workload_give_turn(void)
{
	__atomic_store_n(&world->consuming, 0, __ATOMIC_RELEASE);
}

uint64_t workload_waits(void)
{
	return __atomic_load_n(&world->waits, __ATOMIC_RELAXED);
}

static void consume(void)
{
	workload_take_turn();
	for (unsigned i = 0; i < n_lanes; i++)
		consume_lane(&lanes[i]);
	workload_give_turn();
}

static void copy_record(struct worker *w, enum model_op op, uint64_t words)
{
	struct model_case c = { .op = op, .mask = MODEL_SLOTS - 1, .words = words };
	struct model_result r = { PERCPU_SEQ_REFUSED, 0 };
	uint64_t first;

	first = (w->attempts++ << 16 | w->id << 8 | c.words) & (UINT64_MAX >> 8);
	for (uint64_t i = 0; i < c.words; i++)
		c.n[i] = (int64_t)record_word(first, i);
	for (unsigned i = 0; i < WORKLOAD_TRIES && r.code == PERCPU_SEQ_REFUSED; i++) {
		r = run_armed(w, &c);
		if (r.code == PERCPU_SEQ_REFUSED)
			consume();
	}
	if (r.code == 0)
		w->sum[0] += first;
	w->committed += r.code == 0;
	w->gave_up += r.code != 0;
}

static void update_copy(struct worker *w)
{
	copy_record(w, MODEL_COPY, 1 + test_random(&w->random) % MAX_WORDS);
}

static void update_append1(struct worker *w)
{
	copy_record(w, MODEL_APPEND1, 2);
}

static void update_append2(struct worker *w)
{
	copy_record(w, MODEL_APPEND2, 4);
}

static void update_append4(struct worker *w)
{
	copy_record(w, MODEL_APPEND4, 8);
}

static bool check_records(void)
{
	consume();
	return world->broken == 0 && world->consumed == sum_committed() &&
	       world->consumed_sum == workload_sum(0);
}

static const struct workload workloads[] = {
	{ "add", 1, NULL, update_add, check_sums },
	{ "add_limit without a limit", 1, NULL, update_add_return, check_returned },
	{ "add_limit", 1, NULL, update_add_limit, check_limit },
	{ "cmpxchg", 1, NULL, update_cmpxchg, check_count },
	{ "xchg", 1, NULL, update_xchg, check_sums },
	{ "push", 1, begin_items, update_push, check_items },
	{ "pop", 1, begin_items, update_pop, check_items },
	{ "take", 1, begin_queues, update_take, check_queues },
	{ "copy", 1, NULL, update_copy, check_records },
	{ "append1", 1, NULL, update_append1, check_records },
	{ "append2", 1, NULL, update_append2, check_records },
	{ "append4", 1, NULL, update_append4, check_records },
};

const struct workload *workload(unsigned nth)
{
	const unsigned plain = sizeof(workloads) / sizeof(workloads[0]);

	if (nth < plain)
		return &workloads[nth];
	nth -= plain;
	if (nth < WORKLOAD_BANKS)
		return &workload_banks[nth];
	nth -= WORKLOAD_BANKS;
	if (nth < WORKLOAD_NARROW)
		return &workload_narrow[nth];
	nth -= WORKLOAD_NARROW;
	if (nth < WORKLOAD_RINGS)
		return &workload_rings[nth];
	nth -= WORKLOAD_RINGS;
	if (nth < WORKLOAD_ENTERS)
		return &workload_enters[nth];
	nth -= WORKLOAD_ENTERS;
	if (nth < WORKLOAD_GROUPS)
		return &workload_groups[nth];
	nth -= WORKLOAD_GROUPS;
	return nth < WORKLOAD_VALUES ? &workload_values[nth] : NULL;
}

void workload_make(void)
{
	n_lanes = percpu_status()->possible_cpus;
	lanes = test_share(n_lanes * sizeof(*lanes));
	world = test_share(sizeof(*world));
}

void workload_begin(const struct workload *l)
{
	memset(world, 0, sizeof(*world));
	memset(lanes, 0, n_lanes * sizeof(*lanes));
	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++) {
		world->worker[i].id = i;
		world->worker[i].random = 100 + i;
	}
	if (l->begin)
		l->begin();
}

struct worker *workload_worker(unsigned id)
{
	return &world->worker[id];
}

const char *workload_fault(const struct workload *l)
{
	uint64_t wrong = 0, gave_up = 0;

	for (unsigned i = 0; i < WORKLOAD_WORKERS; i++) {
		wrong += world->worker[i].wrong;
		gave_up += world->worker[i].gave_up;
	}
	if (wrong)
		return "a result that cannot be";
	if (!l->check())
		return "what is there is not what was committed";
	return gave_up ? "a worker gave up" : NULL;
}

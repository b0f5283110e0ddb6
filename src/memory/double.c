/* SPDX-License-Identifier: MIT */
/*
 * double.c - the value of cells that hold doubles.
 *
 * value = sum of the CPU lanes + sum of the atomic lanes in use - bias
 *
 * Rounding never turns a larger sum into a smaller one. All sums are made in the order of the
 * lanes. So a reader that sums the lanes again, and finds none of them smaller, finds no smaller
 * sum: a counter that only grows does not go back.
 *
 * No add stores 2^1000 or more, so no sum of lanes overflows. A larger number in a cell, or no
 * number, comes from a process that damages the file, and counts as 0.
 */
#include <errno.h>
#include <float.h>
#include <string.h>

#include "memory.h"

/* Exponents that are too large for a cell, and for a bias, which is a sum over
 * 2 * PERCPU_MAX_CPUS cells. */
#define DOUBLE_LIMIT PERCPU_SEQ_EXPONENT
#define DOUBLE_BIAS_LIMIT (DOUBLE_LIMIT + 15)

_Static_assert(2 * PERCPU_MAX_CPUS < 1 << 15, "a sum of all lanes is below 2^(1000 + 15)");

static bool is_below(uint64_t bits, unsigned limit)
{
	return (bits >> 52 & 2047) < limit;
}

static double double_of(uint64_t bits)
{
	double d;

	memcpy(&d, &bits, sizeof(d));
	return d;
}

static uint64_t bits_of(double d)
{
	uint64_t bits;

	memcpy(&bits, &d, sizeof(bits));
	return bits;
}

/* Round to a double now: on 32-bit x86, registers have more digits. */
static inline double rounded(double d)
{
#if FLT_EVAL_METHOD != 0
	__asm__("" : "+m"(d));
#endif
	return d;
}

static double load_double(const char *cell, unsigned limit)
{
	uint64_t bits = __atomic_load_n((const uint64_t *)cell, __ATOMIC_ACQUIRE);

	return is_below(bits, limit) ? double_of(bits) : 0;
}

/* Return the exponent that is too large for a cell of this chunk. In an image, the only CPU's
 * cell is the sum of many cells. */
static unsigned limit_of(const struct percpu_chunk *k)
{
	return k->cpus == 1 ? DOUBLE_BIAS_LIMIT : DOUBLE_LIMIT;
}

static uint64_t *double_bias(const struct percpu_chunk *k, size_t offset)
{
	return (uint64_t *)percpu_chunk_bias(k, offset);
}

static double bias_of(uint64_t bits)
{
	return is_below(bits, DOUBLE_BIAS_LIMIT) ? double_of(bits) : 0;
}

bool percpu_double_is_number(double n)
{
	return is_below(bits_of(n), 2047);
}

int percpu_double_add_atomic(struct percpu_chunk *k, size_t offset, double n)
{
	uint64_t *cell = (uint64_t *)percpu_chunk_lane(k, percpu_chunk_choose_lane(k), offset);
	uint64_t old = __atomic_load_n(cell, __ATOMIC_RELAXED), sum;

	do {
		sum = bits_of(double_of(old) + n);
		if (!is_below(old, DOUBLE_LIMIT) || !is_below(sum, DOUBLE_LIMIT))
			return -ERANGE;
		PERCPU_STEP("double added");
	} while (!__atomic_compare_exchange_n(cell, &old, sum, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return 0;
}

static void add_double_lane(const struct percpu_chunk *k, uint32_t lane, size_t offset, size_t n,
			    double *out)
{
	const char *cell = percpu_chunk_lane(k, lane, offset);
	const unsigned limit = limit_of(k);

	for (size_t i = 0; i < n; i++)
		out[i] = rounded(out[i] + load_double(cell + i * sizeof(*out), limit));
}

static void sum_double_lanes(const struct percpu_chunk *k, size_t offset, size_t n, double *out)
{
	memset(out, 0, n * sizeof(*out));
	for (uint32_t cpu = 0; cpu < k->cpus; cpu++)
		add_double_lane(k, cpu, offset, n, out);
	for (uint32_t lane = percpu_used_lane(k, k->cpus); lane < 2 * k->cpus;
	     lane = percpu_used_lane(k, lane + 1))
		add_double_lane(k, lane, offset, n, out);
}

void percpu_double_gather(uint64_t *to, const uint64_t *lane, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = bits_of(rounded(double_of(to[i]) +
					load_double((const char *)&lane[i], DOUBLE_LIMIT)));
}

/* Load the biases first: then the lanes, which are loaded later, have all that these subtract. */
static void sum_double_block(const struct percpu_chunk *k, size_t offset, size_t n, double *out)
{
	double subtract[PERCPU_SUM_MAX];

	for (size_t i = 0; i < n; i++)
		subtract[i] = bias_of(__atomic_load_n(double_bias(k, offset + i * sizeof(*out)),
						      __ATOMIC_ACQUIRE));
	PERCPU_STEP("bias loaded");
	sum_double_lanes(k, offset, n, out);
	for (size_t i = 0; i < n; i++)
		out[i] = rounded(out[i] - subtract[i]);
}

void percpu_double_sums(const struct percpu_chunk *k, size_t offset, size_t n, double *out)
{
	const size_t block = percpu_sum_words(k);

	for (; n > block; n -= block, offset += block * sizeof(*out), out += block)
		sum_double_block(k, offset, block, out);
	sum_double_block(k, offset, n, out);
}

double percpu_double_sum(const struct percpu_chunk *k, size_t offset)
{
	double sum, b = bias_of(__atomic_load_n(double_bias(k, offset), __ATOMIC_ACQUIRE));

	PERCPU_STEP("bias loaded");
	sum_double_lanes(k, offset, 1, &sum);
	return rounded(sum - b);
}

double percpu_double_reset(struct percpu_chunk *k, size_t offset)
{
	uint64_t b;
	double sum;

	if (!k->region->writable)
		return percpu_double_sum(k, offset);
	b = __atomic_load_n(double_bias(k, offset), __ATOMIC_ACQUIRE);
	/* If another reset came between, sum lacks adds that its bias may contain: sum again. */
	do {
		sum_double_lanes(k, offset, 1, &sum);
		PERCPU_STEP("lanes summed");
	} while (!__atomic_compare_exchange_n(double_bias(k, offset), &b, bits_of(sum), false,
					      __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE));
	return rounded(sum - bias_of(b));
}

/*
 * Gauges
 *
 * The level is sum - then + set: the sum of the lanes, less that sum when the gauge was set, plus
 * the value that it was set to. The bias lane has the last two as separate numbers. With one
 * number, their rounded difference, a gauge would not read as the value that it was set to.
 *
 * Each of the two has beside it the number of the set. A thread that sums the lanes, and then
 * finds the same number, knows that the gauge was not set meanwhile.
 *
 * No instruction changes all of this at once. So there are two places for the value, and a set
 * has three steps:
 *
 *	1. store value and number in the place that does not count: this is a proposal
 *	2. sum the lanes
 *	3. store sum and number, which makes the proposal count
 *
 * A thread that finds a proposal of another thread completes it first. So a thread may be
 * stopped or killed at any step.
 */

static size_t place_of_set(size_t offset, uint64_t number)
{
	return offset + offsetof(struct percpu_double_bias, set) +
	       number % 2 * sizeof(struct percpu_pair_value);
}

/* Load the sum when the gauge was set, and the value that it was set to. Another set takes the
 * value's place only after the number beside the sum has changed. So if the value has another
 * number while the sum's is unchanged, the file is damaged, and any value will do. */
static int load_set(struct percpu_chunk *k, size_t offset, struct percpu_pair_value *ret_sum,
		    struct percpu_pair_value *ret_set)
{
	const size_t bias = percpu_chunk_bias_lane(k);
	uint64_t number;
	int e = percpu_pair_load(k, bias, offset, ret_sum);

	while (e == 0) {
		PERCPU_STEP("double: sum loaded");
		number = ret_sum->second;
		e = percpu_pair_load(k, bias, place_of_set(offset, number), ret_set);
		if (e != 0 || ret_set->second == number)
			break;
		e = percpu_pair_load(k, bias, offset, ret_sum);
		if (e == 0 && ret_sum->second == number)
			break;
	}
	return e;
}

double percpu_double_level(struct percpu_chunk *k, size_t offset)
{
	struct percpu_pair_value then, set;
	double sum;

	if (load_set(k, offset, &then, &set) != 0)
		return __builtin_nan("");
	PERCPU_STEP("bias loaded");
	sum_double_lanes(k, offset, 1, &sum);
	if (bits_of(sum) == then.first)
		return bias_of(set.first); /* exact, also for -0, and in any rounding mode */
	return rounded(rounded(sum - bias_of(then.first)) + bias_of(set.first));
}

/* Make the proposal that follows set `old` count. -EAGAIN means that another thread has done
 * so: success. */
static int complete_proposal(struct percpu_chunk *k, size_t offset, struct percpu_pair_value old)
{
	struct percpu_pair_value new = { .second = old.second + 1 };
	double sum;
	int e;

	sum_double_lanes(k, offset, 1, &sum);
	PERCPU_STEP("lanes summed");
	new.first = bits_of(sum);
	e = percpu_pair_cmpxchg(k, percpu_chunk_bias_lane(k), offset, &old, new);
	return e == -EAGAIN ? 0 : e;
}

/* Propose v as the next value of the gauge, or find another thread's proposal (*ret_mine is
 * false). Returns 0, -EAGAIN if the gauge was set meanwhile, or another error. */
static int propose_set(struct percpu_chunk *k, size_t offset, struct percpu_pair_value sum,
		       double v, bool *ret_mine)
{
	const size_t bias = percpu_chunk_bias_lane(k), place = place_of_set(offset, sum.second + 1);
	const struct percpu_pair_value mine = { bits_of(v), sum.second + 1 };
	struct percpu_pair_value there, now;
	int e = percpu_pair_load(k, bias, place, &there);

	*ret_mine = false;
	if (e != 0 || there.second == mine.second)
		return e;
	/* The place has a later set's number. If the gauge was not set meanwhile, the file is
	 * damaged. */
	if ((int64_t)(there.second - mine.second) > 0) {
		e = percpu_pair_load(k, bias, offset, &now);
		if (e != 0 || now.second != sum.second)
			return e != 0 ? e : -EAGAIN;
	}
	*ret_mine = true;
	PERCPU_STEP("double: place chosen");
	return percpu_pair_cmpxchg(k, bias, place, &there, mine);
}

int percpu_double_set(struct percpu_chunk *k, size_t offset, double v)
{
	struct percpu_pair_value sum;
	bool mine = false;
	int e = 0;

	if (!percpu_double_is_number(v))
		return -EDOM;
	if (!is_below(bits_of(v), DOUBLE_LIMIT))
		return -ERANGE;
	while (e == -EAGAIN || (e == 0 && !mine)) {
		e = percpu_pair_load(k, percpu_chunk_bias_lane(k), offset, &sum);
		PERCPU_STEP("double: to be proposed");
		if (e == 0)
			e = propose_set(k, offset, sum, v, &mine);
		PERCPU_STEP("double: proposed");
		if (e == 0)
			e = complete_proposal(k, offset, sum);
	}
	return e;
}

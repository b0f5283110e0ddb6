/* SPDX-License-Identifier: MIT */
/*
 * counts.h - internal declarations of src/counts.
 */
#ifndef PERCPU_COUNTS_H
#define PERCPU_COUNTS_H

#include <percpu/approx.h>
#include <percpu/compact.h>
#include <percpu/exemplar.h>
#include <percpu/extrema.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>
#include <percpu/rate.h>
#include <percpu/stats.h>
#include <percpu/stats_group.h>
#include <percpu/wbuf.h>

#include "../memory/memory.h"

/* stats.c, stats_read.c */

/** Return the offset of object i's first field in the atomic lanes and the bias lane. */
static inline size_t percpu_stats_offset(const struct percpu_stats *s, size_t i)
{
	return (size_t)(s->block.base - s->block.chunk->base) + s->banks + i * s->record + s->head;
}

/** Return the control block of objects whose first one is at this address of lane 0. */
static inline struct percpu_stats_control *percpu_stats_control_at(const struct percpu_chunk *k,
								   const char *base)
{
	return (struct percpu_stats_control *)percpu_chunk_bias(k, (size_t)(base - k->base));
}

/** Return the control block of the objects. */
static inline struct percpu_stats_control *percpu_stats_control(const struct percpu_stats *s)
{
	return percpu_stats_control_at(s->block.chunk, s->block.base);
}

/** Add both banks of a CPU lane to the sums at `to`. The objects are in two copies, and the sums
 *  are in the first copy. */
void percpu_stats_gather(const struct percpu_stats *s, void *to, const void *lane);

/* stats_group.c, stats_group_alloc.c, stats_group_read.c */

/** Return the control block of the group. */
static inline struct percpu_stats_group_control *
percpu_stats_group_control(const struct percpu_stats_group *g)
{
	return (struct percpu_stats_group_control *)percpu_block_bias(&g->block);
}

/** Return the begin of the group in the bias lane. */
static inline struct percpu_group_lane *
percpu_stats_group_biases(const struct percpu_stats_group *g)
{
	return (struct percpu_group_lane *)(percpu_block_bias(&g->block) + g->banks);
}

/** Return whether the last update of a lane with this turn and these names is open. */
static inline bool percpu_group_is_open(uint64_t turn, uint64_t names)
{
	return ((turn ^ names) & 1) != 0;
}

/** Return the number of the first object of an update. */
static inline size_t percpu_group_first(uint64_t names)
{
	return (uint32_t)names >> 1;
}

/** Return the number of the second object of an update. */
static inline size_t percpu_group_second(uint64_t names)
{
	return (size_t)(names >> 32);
}

/** Return the saved words of the first or of the second object of an update. */
static inline const uint64_t *percpu_group_saved(const struct percpu_stats_group *g,
						 const struct percpu_group_lane *l, unsigned second)
{
	return l->old + second * (g->record / sizeof(uint64_t));
}

/** Return whether there are n objects from number first on. */
static inline bool percpu_stats_group_has(const struct percpu_stats_group *g, size_t first,
					  size_t n)
{
	return first <= g->n && n <= g->n - first;
}

/** Take the lock of the chunk, and undo the change of the biases that a killed holder left.
 *  Returns as percpu_journal_lock(). percpu_robust_unlock() releases the lock. */
int percpu_stats_group_lock(const struct percpu_stats_group *g, struct percpu_robust *h);

/** Take the lock as above, and complete the free that a killed holder left. Returns 0, -EAGAIN as
 *  percpu_stats_group_settle(), or as percpu_journal_lock(). */
int percpu_stats_group_lock_all(const struct percpu_stats_group *g, struct percpu_robust *h);

/** Add the words at na to the biases of object a, and those at nb to the biases of object b: all or
 *  nothing, even if the process is killed meanwhile. The caller has the lock. */
void percpu_stats_group_change(const struct percpu_stats_group *g, size_t a, const uint64_t *na,
			       size_t b, const uint64_t *nb);

/** Read n objects, each field by itself, as percpu_stats_group_fetch(). Returns 0 or -EAGAIN. */
int percpu_stats_group_sum(const struct percpu_stats_group *g, size_t first, size_t n,
			   uint64_t *out);

/** Set out to the negative biases of n objects. Returns 0 or -EAGAIN. */
int percpu_stats_group_sum_biases(const struct percpu_stats_group *g, size_t first, size_t n,
				  uint64_t *out);

/* turn.c */

/** Return the id of the calling thread in turns of that region. */
uint32_t percpu_turn_id(const struct percpu_region *r);

/** Wait for the turn and take it; after a second, take it in any case. */
void percpu_turn_wait(uint32_t *turn, uint32_t me);

/** End the turn of the thread with this id, unless another thread has taken it. */
void percpu_turn_end(uint32_t *turn, uint32_t me);

/* extrema.c, extrema_read.c */

/** Return the control block of the extremes. */
static inline struct percpu_extrema_control *percpu_extrema_control(const struct percpu_extrema *x)
{
	const struct percpu_chunk *k = x->block.chunk;

	return (struct percpu_extrema_control *)percpu_chunk_bias(
		k, (size_t)(x->block.base - k->base));
}

/** Load the maximum's or the minimum's pair of an epoch, as percpu_pair_load(). */
int percpu_extrema_load(const struct percpu_extrema *x, uint64_t epoch, bool of_max,
			struct percpu_pair_value *ret);

/** Replace the maximum's or the minimum's pair of an epoch, as percpu_pair_cmpxchg(). */
int percpu_extrema_cmpxchg(const struct percpu_extrema *x, uint64_t epoch, bool of_max,
			   struct percpu_pair_value *expected, struct percpu_pair_value v);

/** Merge the two slots of a CPU lane into those at `to`. A later epoch replaces an earlier one;
 *  extremes of the same epoch are merged. */
void percpu_extrema_gather(void *to, const void *lane);

/** Most attempts of an operation. */
#define PERCPU_EXTREMA_TRIES 10000

/** Observe v without a sequence. Returns 0, -ESTALE if this epoch has ended, or -ETIMEDOUT. */
int percpu_extrema_observe_in(const struct percpu_extrema *x, uint64_t epoch, int64_t v);

/* approx.c, approx_add.c */

/** Return the sum of the words of all CPUs. */
uint64_t percpu_approx_words(const struct percpu_approx *a);

/** Set the exact sum to 0, given the sum of the words, and return what it was. */
int64_t percpu_approx_subtract(const struct percpu_approx *a, uint64_t words);

/** Close the lanes: after a fence, no sequence adds. The caller holds the lock, or the sum is
 *  new. */
void percpu_approx_close(const struct percpu_approx *a);

/* histogram.c, histogram_index.c, histogram_read.c, histogram_convert.c */

#define PERCPU_HISTOGRAM_CELL sizeof(struct percpu_pair_value)
#define PERCPU_HISTOGRAM_FINEST 5      /* highest schema of a histogram */
#define PERCPU_HISTOGRAM_COARSEST (-4) /* lowest schema of a snapshot */

/** Return the sum of a cell of doubles; 0 if it is not finite, as in a damaged file. */
double percpu_histogram_number(uint64_t bits);

/** Return the sum of two cells, a + b, or their difference, a - b. */
struct percpu_pair_value percpu_histogram_plus(const struct percpu_histogram *h,
					       struct percpu_pair_value a,
					       struct percpu_pair_value b, bool minus);

/** Add the cells of one histogram in a lane to sums. */
void percpu_histogram_gather(const struct percpu_histogram *h, void *to, const void *lane);

/** Fill in the table and the other fields for the index, from schema, low, high and ticks. */
void percpu_histogram_lay_index(struct percpu_histogram *h);

/** Fill in n, ticks, low, high and schema from the options; NULL means defaults. Returns 0 or
 *  -errno. */
int percpu_histogram_read_options(const struct percpu_histogram_options *o,
				  struct percpu_histogram *h);

/* histogram_bounds.c */

/** Fill in the schema and the bounds from the options; the bounds are not copied. Returns 0 or
 *  -errno. */
int percpu_histogram_read_bounds(const struct percpu_histogram_options *o,
				 struct percpu_histogram *h);

/** Check that a histogram can have these bounds. Returns 0 or -errno. */
int percpu_histogram_check_bounds(const double *bounds, size_t n, uint64_t ticks);

/** Return the greatest number of ticks that is not above a bound, of those that passed the check;
 *  0 if there is none. */
uint64_t percpu_histogram_ticks_within(double bound, uint64_t ticks_per_unit);

/** Let the handle find the bounds that are behind it, and compare values with them. */
void percpu_histogram_lay_bounds(struct percpu_histogram *h);

/** Return the cell of a value that is not above 0. */
uint64_t percpu_histogram_own_cell(const struct percpu_histogram *h, double v);

/** Return where the bounds are in the bias lane, given the block of a handle that is not filled in
 *  yet. */
static inline void *percpu_histogram_bounds_at(const struct percpu_block *b,
					       const struct percpu_histogram *h)
{
	return percpu_block_bias(b) + PERCPU_HISTOGRAM_HEAD + h->n * h->record;
}

/* histogram_ends.c */

/** Return the native bucket of this schema that contains, or ends at, a bound of schema 5. */
int percpu_histogram_native_bucket(int end, int schema);

/** Return the number of buckets of a snapshot of that range, with those below and above it. */
uint32_t percpu_histogram_cells_of_range(int low, int high, int schema);

/** Return whether some histogram could have filled in the snapshot, as far as its layout tells. */
bool percpu_histogram_is_possible(const struct percpu_histogram_snapshot *s);

/** Return the number of the bound of schema 5 at which a bucket ends, that is not the last. */
int percpu_histogram_end_of(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the bucket of `into` that covers bucket b of `from`; -1 if none does. */
int64_t percpu_histogram_bucket_in(const struct percpu_histogram_snapshot *into,
				   const struct percpu_histogram_snapshot *from, uint32_t b);

/** Return the lower end of a bucket. The first begins at 0. */
double percpu_histogram_lower_end(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the upper end of a bucket. The last has none: infinity. */
double percpu_histogram_upper_end(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the lower end in ticks. A bucket holds values above it. */
uint64_t percpu_histogram_lower_tick(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the upper end in ticks, which the bucket includes. Ticks of 2^63 or more are refused. */
uint64_t percpu_histogram_upper_tick(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the least value that an observation of the bucket can have. */
double percpu_histogram_lowest(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Check that a histogram can have the range 2^low to 2^high. Returns 0 or -errno. */
int percpu_histogram_check_range(int low, int high, uint64_t ticks);

/** Return the upper bound of a bucket of a range that passed the check, in ticks, rounded down. */
uint64_t percpu_histogram_tick_bound(uint64_t ticks, unsigned schema, int index);

/** Return ticks / unit, rounded down or up to a double. */
double percpu_histogram_in_units(uint64_t ticks, uint64_t unit, bool up);

/** Return the lower word of a * b, and set the upper one. */
uint64_t percpu_histogram_multiply(uint64_t a, uint64_t b, uint64_t *ret_high);

/** Return whether the ticks of a bucket tell its sum. If not, the sum is an estimate. */
bool percpu_histogram_sum_is_known(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Return the sum of a bucket in units, from its count and its ticks modulo 2^64. */
double percpu_histogram_sum_ticks(const struct percpu_histogram_snapshot *s, uint32_t b);

/** Set count and sum to those of all buckets. */
void percpu_histogram_total(struct percpu_histogram_snapshot *s);

/* rate.c */

/** The period of which percpu_rate_take() took permissions. */
struct percpu_rate_taken {
	uint64_t start; /* when the period began, in ms, not modulo 2^32 */
	bool began;	/* the call began the period */
};

/** Take permissions from the window, or from a new period if its period is over. Bits 32 to 63 of
 *  the window are the ms at which the period began, the others how many permissions were taken.
 *  Takes 1/share of what is left, but at least one if any is left; share 0 takes one. Returns how
 *  many. */
uint32_t percpu_rate_take(uint64_t *window, uint32_t limit, uint32_t period, uint32_t share,
			  struct percpu_rate_taken *ret);

/** Return whether the period in this window is over. */
bool percpu_rate_is_over(uint64_t window, uint32_t period);

/** Return a window whose period has just ended. */
uint64_t percpu_rate_new_window(uint32_t period);

/* wbuf_queue.c */

/** Apply n adds to their cells. The caller holds the lock of the cells. */
void percpu_wbuf_apply(const struct percpu_wbuf_entry *adds, size_t n);

/** Apply the transactions in the first `limit` words, at least 2, of a queue of mask + 1 words. The
 *  last transaction is applied whole. Afterwards sequences may fill all but `reserve` words of the
 *  room. The caller holds the lock of the cells. Returns whether nothing is left. */
bool percpu_wbuf_queue_apply(struct percpu_fifo *q, uint64_t mask, uint64_t reserve,
			     uint64_t limit);

/** Allow sequences to fill the reserve, too. The caller does not need the lock. */
void percpu_wbuf_queue_open(struct percpu_fifo *q, uint64_t mask);

/** Return a pointer to the position up to which the queue was applied. */
uint64_t *percpu_wbuf_queue_applied(struct percpu_fifo *q, uint64_t mask);

/** Words behind the slots of a queue. */
#define PERCPU_WBUF_AFTER 2

/** Return a pointer to the number of hints since one flushed the queue. */
uint64_t *percpu_wbuf_queue_hints(struct percpu_fifo *q, uint64_t mask);

/** Return how many words were appended and are not applied. */
uint64_t percpu_wbuf_queue_pending(struct percpu_fifo *q, uint64_t mask);

/** Return whether more than half of the room is used, as sequences see it. */
bool percpu_wbuf_queue_is_filling(const struct percpu_fifo *q, uint64_t mask);

/* gauge.c */

/** Let the value be one that was never set. Returns 0 or -errno, as percpu_latest_set(). */
int percpu_latest_clear(struct percpu_latest *l);

/* exemplar.c, exemplar_store.c */

struct percpu_exemplars {
	struct percpu_block block;
	const struct percpu_histogram *h; /* or NULL */
	size_t n;			  /* slots */
	unsigned shift;			  /* 2^shift buckets share a slot */
};

/** Return the control block of the exemplars. */
static inline struct percpu_exemplars_control *
percpu_exemplars_control(const struct percpu_exemplars *x)
{
	return (struct percpu_exemplars_control *)percpu_block_bias(&x->block);
}

/** Return slot i in the bias lane. */
static inline struct percpu_exemplar_slot *percpu_exemplar_slot(const struct percpu_exemplars *x,
								size_t i)
{
	return (struct percpu_exemplar_slot *)(percpu_exemplars_control(x) + 1) + i;
}

/** Find the slot of a value. Returns false if there is none: the value is no number, or the histogram
 *  refuses it. */
bool percpu_exemplar_find_slot(const struct percpu_exemplars *x, double v, size_t *ret);

/** Forget the exemplars at this key, with any number of slots. Returns 0, or -errno as
 *  percpu_exemplars_attach(). */
int percpu_exemplars_reset_at(struct percpu_region *r, uint64_t key);

/* section.c */

/** Make what sections need in the process, unless that was done before. Returns 0 or -errno. */
int percpu_section_prepare(void);

/** Add n to a copy of an integer of that size, which the thread has. */
void percpu_section_add_to_copy(void *copy, int64_t n, size_t size);

/* The following calls find or create an object at a word of a file, as the public open calls do at
 * a root. The region is shared and has the default geometry. */

int percpu_counter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			   struct percpu_counter **ret);
int percpu_fcounter_open_at(struct percpu_region *r, struct percpu_anchor *at,
			    struct percpu_fcounter **ret);
int percpu_gauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			 struct percpu_gauge **ret);
int percpu_fgauge_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_fgauge **ret);
int percpu_latest_open_at(struct percpu_region *r, struct percpu_anchor *at,
			  struct percpu_latest **ret);
int percpu_histogram_open_at(struct percpu_region *r, struct percpu_anchor *at,
			     const struct percpu_histogram_options *o,
			     struct percpu_histogram **ret);
int percpu_exemplars_open_at(struct percpu_region *r, struct percpu_anchor *at,
			     const struct percpu_histogram *h, struct percpu_exemplars **ret);
int percpu_extrema_open_at(struct percpu_region *r, struct percpu_anchor *at, unsigned flags,
			   struct percpu_extrema **ret);
int percpu_stats_open_at(struct percpu_region *r, struct percpu_anchor *at, size_t size, size_t n,
			 unsigned flags, struct percpu_stats **ret);

#endif

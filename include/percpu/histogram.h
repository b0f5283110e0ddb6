/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - histograms with the bounds of Prometheus's native histograms, or with bounds of
 * the program's own. Any thread records in them at about the cost of a counter.
 *
 * Exponential buckets: an octave, from a power of two to the next, has 2^schema buckets. Bucket i
 * holds values above 2^((i - 1) / 2^schema) and not above 2^(i / 2^schema). The range is chosen at
 * creation. Values below it are counted in one cell, values above it in another.
 *
 * Own bounds, as of classic histograms: a value is in the bucket of the first bound that it is not
 * above ("le"), or in the last bucket. Without any bound, the histogram is a summary.
 *
 * A cell holds the number of its observations and their sum; both change in one store. So a reader
 * sees each observation whole or not at all, also after a kill.
 *
 * Infinities, NaN, and values of 2^960 or more are refused: they are counted as refused only. So
 * are negative values; of doubles with own bounds or in a summary, only those of -2^960 or less are.
 */
#ifndef PERCPU_HISTOGRAM_H
#define PERCPU_HISTOGRAM_H

#include <stdbool.h>

#include <percpu/region.h>
#include <percpu/seq.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, set up, detach, tear down or destroy: any
 * thread, constructors included; not a signal handler. Other calls: any thread of any
 * process that has the histogram mapped; signal handlers, unless the call allocates; children
 * of fork.
 * Ordering: none for records and resets (as memory_order_relaxed). A read includes the
 * records that happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. The other calls take no lock
 * on 64-bit machines. On 32-bit machines records and reads take the lock of the journal, which
 * is taken over from a killed holder. A record waits for a lock holder that is stopped. A record
 * that needs the lock does nothing if a seccomp filter refuses gettid(2).
 */

#define PERCPU_HISTOGRAM_SUMMARY 1U	  /* flag: no bounds; one bucket for all values */
#define PERCPU_HISTOGRAM_MAX_BOUNDS 512	  /* the most own bounds */
#define PERCPU_HISTOGRAM_OWN_BOUNDS (-53) /* the schema with own bounds, as in Prometheus */

/** Options of a histogram. Set size; zero in another field means the default. */
struct percpu_histogram_options {
	size_t size;		     /* sizeof(struct percpu_histogram_options) */
	size_t n;		     /* histograms in one object; default 1 */
	double min, max;	     /* the range, in the exported unit, rounded outward to powers
					of two; default of min 2^-20, of max 2^10: in seconds, a
					microsecond and 17 minutes */
	uint64_t ticks_per_unit;     /* integer ticks to record per exported unit: 1000000000 for
					nanoseconds and seconds; default: doubles */
	uint32_t buckets_per_octave; /* 1, 2, 4, 8, 16 or 32: schemas 0 to 5; default 8 */
	uint32_t flags;		     /* 0 or PERCPU_HISTOGRAM_SUMMARY */
	const double *bounds;	     /* own bounds, in the exported unit, rising and finite; the
					call copies them. NULL: exponential buckets */
	size_t bounds_n;	     /* how many */
};

/** One or more histograms of the same layout. The fields are the library's. */
struct percpu_histogram {
	struct percpu_block block;
	size_t record;	     /* bytes of a lane that each of the n takes */
	size_t n;	     /* histograms */
	uint64_t limit;	     /* a double is recorded inline if its bits, minus 1, are below */
	uint64_t tick_limit; /* the same for ticks, converted to a double */
	int64_t origin;	     /* subtracted from the bucket's number to get the cell's */
	int64_t last;	     /* the cell of the overflow */
	uint64_t zero;	     /* 0: the bank, for sequences that take one */
	uint64_t ticks;	     /* per unit; 0: doubles */
	int32_t low, high;   /* the range is 2^low to 2^high */
	int32_t schema;	     /* or PERCPU_HISTOGRAM_OWN_BOUNDS */
	uint32_t shift;	     /* a mantissa, or with own bounds a double, shifted right by this, is
				an index of the table */
	uint64_t table[64];  /* see src/counts/histogram_index.c and histogram_bounds.c */
	const uint64_t *own; /* the bits of each own bound above 0, else 0; NULL: exponential */
	size_t half;	     /* the first step of the search, a power of two; 0: no bounds */
	size_t bounds_n;     /* bounds of the program's own */
	const double *bounds;
};

#define PERCPU_HISTOGRAM_HEAD 64 /* bytes of a lane in front of the cells */

/**
 * Create histograms in memory of this process, or in a region. Each takes 16 bytes per CPU for
 * each bucket, and 48 more for values below the range, above it, and refused.
 *
 * Returns 0, or
 *	-EINVAL	a NULL for the result or the region; options that this library does not know;
 *		a number of buckets per octave that is not allowed; min is negative, max is not
 *		above min after defaults, or either is NaN; more than fits into a lane; own
 *		bounds that do not rise, are not finite or too many, or are set beside min, max,
 *		buckets_per_octave or the flag
 *	-ERANGE	min is below 2^-1000 or max above 2^960; or max, so rounded, is 2^53 ticks or
 *		more; or an own bound is 2^960 or above, or -2^960 or below, or more than
 *		2^53 - 2 ticks
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_create(const struct percpu_histogram_options *o,
							 struct percpu_histogram **ret);
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_create_in(struct percpu_region *r, const struct percpu_histogram_options *o,
			   struct percpu_histogram **ret);

/**
 * Attach to the histograms at this root of a shared region, or create them if there are none, as
 * percpu_counter_array_open() does.
 *
 * Returns 0, an error of percpu_histogram_create_in(), or -ENOENT or -EEXIST as
 * percpu_counter_array_open(); also -EEXIST if the histograms there have another layout, or if a
 * 32-bit process created them and this is a 64-bit process, or the other way around.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_open(struct percpu_region *r, unsigned root,
						       const struct percpu_histogram_options *o,
						       struct percpu_histogram **ret);

/**
 * Attach to histograms, of any layout, that another process created at this key of a shared
 * region. percpu_histogram_detach() undoes it and leaves them.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no histograms there, or a 32-bit process created them
 * and this is a 64-bit process, or the other way around), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_attach(struct percpu_region *r, uint64_t key,
							 struct percpu_histogram **ret);
PERCPU_API void percpu_histogram_detach(struct percpu_histogram *h);

/** Return the key of the histograms in their region; 0 if they are private. */
PERCPU_API uint64_t percpu_histogram_key(const struct percpu_histogram *h);

/** Free the histograms. No thread may be using them. NULL is fine. If a root has their key, set
 *  the root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_histogram_destroy(struct percpu_histogram *h);

PERCPU_API PERCPU_NOTHROW void percpu_histogram_record_slow(const struct percpu_histogram *h,
							    size_t i, double v);
PERCPU_API PERCPU_NOTHROW void percpu_histogram_record_ticks_slow(const struct percpu_histogram *h,
								  size_t i, uint64_t ticks);

/* Return how many own bounds are below a value above 0, given its bits minus 1. */
PERCPU_INLINE uint64_t percpu_histogram_own_index(const struct percpu_histogram *h, uint64_t bits)
{
	int64_t piece = (int64_t)(bits >> h->shift) - h->origin;
	const uint64_t *first;

	piece = piece < 0 ? 0 : piece;
	first = h->own + h->table[piece > 63 ? 63 : piece];
	for (size_t half = h->half; half != 0; half /= 2)
		first += half & -(size_t)(first[half - 1] <= bits);
	return (uint64_t)(first - h->own);
}

/* Return the number of the cell of a value above 0, given the bits of the double minus 1. */
PERCPU_INLINE uint64_t percpu_histogram_index(const struct percpu_histogram *h, uint64_t bits)
{
	uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
	int64_t cell;

	if (percpu_unlikely(h->schema < 0))
		return percpu_histogram_own_index(h, bits);
	cell = (int64_t)((bits >> 52) << h->schema) - h->origin;
	cell += (int64_t)((h->table[mantissa >> h->shift] + mantissa) >> 53);
	cell = cell < 0 ? 0 : cell;
	return (uint64_t)(cell > h->last ? h->last : cell);
}

/* Return the address of that cell of histogram i in lane 0. */
PERCPU_INLINE char *percpu_histogram_cell(const struct percpu_histogram *h, size_t i, uint64_t bits)
{
	return h->block.base + PERCPU_HISTOGRAM_HEAD + i * h->record +
	       16 * percpu_histogram_index(h, bits);
}

/* Return the bits of a double, minus 1. */
PERCPU_INLINE uint64_t percpu_histogram_bits(double v)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	return bits - 1;
}

/**
 * Record a value, in the exported unit, in histogram i, which must be below the n of the
 * options. A histogram of ticks records the nearest number of ticks; a histogram of more than
 * 2^53 ticks per unit records one of the two nearest.
 *
 * The library cannot notice that a program passes ticks to this call, or a value to the call for
 * ticks. ticks_per_unit of a snapshot tells which the histogram has. If nearly all values are in
 * the first bucket or in the last, check the calls.
 *
 * Context: any thread of any process that has the histogram mapped; signal handlers; children
 * of fork and vfork. Never fails, never loses; does nothing in a region that was opened to read.
 * Progress: bounded on tier rseq, except that the fallback, a compare-and-swap, repeats while
 * other threads record in the same bucket.
 */
PERCPU_INLINE void percpu_histogram_record_at(const struct percpu_histogram *h, size_t i, double v)
{
	uint64_t bits = percpu_histogram_bits(v);

	if (percpu_unlikely(bits >= h->limit) ||
	    percpu_unlikely(percpu_seq_add_count_double(percpu_histogram_cell(h, i, bits),
							h->block.stride, v)))
		percpu_histogram_record_slow(h, i, v);
}

/** Record a value in histogram 0, as percpu_histogram_record_at() does. */
PERCPU_INLINE void percpu_histogram_record(const struct percpu_histogram *h, double v)
{
	percpu_histogram_record_at(h, 0, v);
}

/**
 * Record a number of ticks in histogram i. 2^63 or more are refused: most likely they are a
 * negative difference. A histogram of doubles records the number. With own bounds, the ticks are in
 * the bucket of the first bound that is not below ticks / ticks_per_unit, as a double: 290 ms are
 * within 0.29.
 *
 * Context: as percpu_histogram_record_at().
 * Progress: as percpu_histogram_record_at().
 */
PERCPU_INLINE void percpu_histogram_record_ticks_at(const struct percpu_histogram *h, size_t i,
						    uint64_t ticks)
{
	uint64_t bits = percpu_histogram_bits((double)(int64_t)ticks);

	if (percpu_unlikely(bits >= h->tick_limit) ||
	    percpu_unlikely(percpu_seq_bank_add2(percpu_histogram_cell(h, i, bits), h->block.stride,
						 &h->zero, 0, percpu_words2_of(1, ticks))))
		percpu_histogram_record_ticks_slow(h, i, ticks);
}

/** Record a number of ticks in histogram 0, as percpu_histogram_record_ticks_at() does. */
PERCPU_INLINE void percpu_histogram_record_ticks(const struct percpu_histogram *h, uint64_t ticks)
{
	percpu_histogram_record_ticks_at(h, 0, ticks);
}

/* Reading */

/** The observations in a bucket. */
struct percpu_histogram_bucket {
	uint64_t count; /* how many there are */
	uint64_t ticks; /* their sum in ticks, modulo 2^64; 0 in histograms of doubles */
	double sum;	/* their sum in the exported unit; an estimate if the ticks do not tell it:
			   docs/counts/histogram.md */
};

/* C++ has flexible arrays as an extension only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/** The contents of a histogram. The program may read all of it, keep it, and pass it on. */
struct percpu_histogram_snapshot {
	int32_t schema;		 /* an octave has 2^schema buckets; -4 to 5; or own bounds */
	int32_t low, high;	 /* the range is 2^low to 2^high; 0 with own bounds */
	uint32_t n;		 /* elements of bucket[] */
	uint64_t ticks_per_unit; /* 0: the histogram is of doubles */
	uint64_t count;		 /* of all buckets together */
	double sum;		 /* of all buckets together */
	uint64_t refused;	 /* how many observations were refused */
	const double *bounds;	 /* n - 1 own bounds, which are the upper ends of the buckets but
				    the last; NULL: exponential */
	/* Exponential: bucket[0] has values up to 2^low, zero included. bucket[n - 1] has values
	 * above 2^high. bucket[k] between them is number low * 2^schema + k of the native
	 * histogram, with the product rounded down. Below schema 0 the range may begin or end
	 * within a native bucket; then bucket[k] has only what is in the range. */
	struct percpu_histogram_bucket bucket[];
};

#pragma GCC diagnostic pop

/** Return the largest double that is not above 2^(index / 2^schema): the upper bound of bucket
 *  index of a native histogram. Returns 0 or infinity if that is no normal double, and 0 if the
 *  schema is not one of -4 to 5. */
PERCPU_API double percpu_histogram_bound(int schema, int index);

/** Create an empty snapshot for histograms of this layout. percpu_histogram_snapshot_destroy()
 *  frees it. Returns 0, -EINVAL (a NULL) or -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_snapshot_create(const struct percpu_histogram *h,
				 struct percpu_histogram_snapshot **ret);
PERCPU_API void percpu_histogram_snapshot_destroy(struct percpu_histogram_snapshot *s);

/**
 * Read histogram i: what was recorded since it was created or last reset.
 *
 * The result need not be what the histogram held at any one instant: it may contain some of the
 * observations that are recorded meanwhile. It contains each observation whole, in the count and
 * in the sum of its bucket, or not at all, and counts never go back. On CPUs that do not load 16
 * bytes at once (x86-64 without AVX, aarch64 before LSE2) an observation that is recorded
 * meanwhile may be in the count and not in the sum.
 *
 * percpu_histogram_fetch_zero() also resets: the counts returned to all callers, and what is
 * left, add up to what was recorded. So do sums of ticks; sums of doubles do up to rounding
 * (docs/counts/histogram.md).
 *
 * Returns 0, or, with nothing reset and the snapshot unchanged,
 *	-EINVAL	a NULL, no such histogram, or a snapshot of another layout
 *	-EROFS	from percpu_histogram_fetch_zero(): the region was opened to read
 *	-ETIMEDOUT  on 32-bit machines: a thread that is stopped has the lock
 *	-ENOMEM	on 32-bit machines, from percpu_histogram_fetch(): no memory for a copy
 *
 * Context: any thread; signal handlers. Costs a load per bucket and possible CPU. On 32-bit
 * machines a reset holds the lock all the time, with signals blocked.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_fetch(const struct percpu_histogram *h, size_t i,
							struct percpu_histogram_snapshot *s);
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_fetch_zero(struct percpu_histogram *h, size_t i,
							     struct percpu_histogram_snapshot *s);

/** Reset histogram i without a result. Returns as percpu_histogram_fetch_zero(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_zero(struct percpu_histogram *h, size_t i);

/**
 * Add the contents of `from` to `into`, which may have a lower schema and another range. If
 * both have own bounds, `into` may have fewer, or others within buckets of `from` that are empty.
 *
 * Returns 0, or, with nothing added,
 *	-EINVAL	a NULL, the same snapshot twice, a snapshot that no histogram could have filled,
 *		or different ticks per unit; only one has own bounds
 *	-ERANGE	`into` has a higher schema, or `into` has a bound within a bucket of `from` that is
 *		not empty, as the ones below and above its range may be; or together they have
 *		2^64 observations or more, or an infinite sum, which only damaged files or repeated
 *		merges lead to
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_merge(struct percpu_histogram_snapshot *into,
		       const struct percpu_histogram_snapshot *from);

/**
 * Subtract the contents of `earlier` from `later`. If both are snapshots of one histogram, the
 * result is what was recorded between them. Counts and ticks are exact. The sum of a bucket comes
 * from its ticks if they tell it; if not, it is the difference of two rounded sums, or 0 if that is
 * negative. `earlier` may have a higher schema and another range, as in percpu_histogram_merge().
 *
 * Two snapshots are enough for any number of intervals: `earlier` begins empty; after each
 * percpu_histogram_subtract(later, earlier) call percpu_histogram_merge(earlier, later).
 *
 * Returns 0, or, with nothing subtracted,
 *	-EINVAL	a NULL, the same snapshot twice, a snapshot that no histogram could have filled,
 *		or different ticks per unit
 *	-ERANGE	`later` has a higher schema, or `later` has a bound within a bucket of `earlier`
 *		that is not empty; or `later` has fewer observations in a bucket, or fewer refused:
 *		the histogram was reset between them
 *
 * A reset is not noticed if each bucket has got as many observations since then as it had before;
 * then the difference is wrong. A program that resets should get its intervals from
 * percpu_histogram_fetch_zero().
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_subtract(struct percpu_histogram_snapshot *later,
			  const struct percpu_histogram_snapshot *earlier);

/** Create a snapshot with the contents and the range of s, and a schema that is lower or the same.
 *  Counts and ticks are exact; sums are rounded. The lowest schema is -4, as in Prometheus: 16
 *  octaves in a bucket. percpu_histogram_snapshot_destroy() frees the result. Returns 0, -EINVAL
 *  (a NULL, a snapshot that no histogram could have filled), -ERANGE (a higher schema, one below
 *  -4, or more than percpu_histogram_merge() adds) or -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_downscale(const struct percpu_histogram_snapshot *s, int schema,
			   struct percpu_histogram_snapshot **ret);

/** A quantile, as percpu_histogram_quantile() estimates it. */
struct percpu_histogram_quantile {
	double value;	  /* the middle of low and high, rounded; a guess above the range, if ticks
			     do not tell the sum. With own bounds: what PromQL computes */
	double low, high; /* the observation is not below low and not above high */
};

/**
 * Estimate a quantile: of n observations, in order, the one with number q * n, rounded up. The
 * first is number 1. The product is computed in doubles: 0.07 * 100 is a little above 7.
 *
 * The bucket and its mean give low and high. They are at most half a bucket from the middle, and
 * less if the mean is near an end or the observations are few. If the bucket has one observation,
 * low and high are both its value; if that is ticks whose fraction is no double, they are the
 * doubles next to it.
 *
 * In histograms of ticks, of any unit, low and high are certain: low is not above the fraction
 * ticks / ticks_per_unit, and high is not below it. Both are computed in whole numbers; low is
 * rounded down, and high is rounded up. If the ticks do not tell the sum
 * (docs/counts/histogram.md), they are the ends of the bucket in whole ticks, rounded in this way.
 *
 * In histograms of doubles the mean is rounded, so low and high may be off by the error of the
 * bucket's sum. That error grows with all that was recorded in the bucket since the histogram was
 * created, also before a reset (docs/counts/histogram.md). The observation is in its bucket in any
 * case. A program that resets at each interval and needs exact ends should use ticks.
 *
 * With own bounds, value is what PromQL's histogram_quantile() computes: observations are evenly
 * spread in their bucket, the first bucket begins at 0 if its bound is above 0, and what is above
 * the last bound is that bound. It need not be between low and high.
 *
 * Returns 0, or -EINVAL (a NULL, a snapshot that no histogram could have filled, or q is not
 * from 0 to 1), or -ENODATA (nothing was observed, or there are no bounds).
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_quantile(const struct percpu_histogram_snapshot *s, double q,
			  struct percpu_histogram_quantile *ret);

/**
 * Count the observations that are not above a bound, as classic histograms do. The result is exact
 * if the bound is in the range and comes from percpu_histogram_bound(), or if the bucket that it
 * divides is empty. From schema 0 on, each power of two is such a bound. With other bounds, such as
 * most decimal ones, the result is an estimate, as if the observations were evenly spread in that
 * bucket; it does not use their mean. *ret_exact, unless it is NULL, is set to whether the result
 * is exact.
 *
 * Ticks are compared with the bound 2^(index / 2^schema) itself. The double is a little below it;
 * ticks between the two are counted. NULL has no observations. With own bounds the result is exact
 * for these bounds.
 */
PERCPU_API uint64_t percpu_histogram_count_below(const struct percpu_histogram_snapshot *s,
						 double bound, bool *ret_exact);

/** An exponential histogram of OpenTelemetry, without its counts. */
struct percpu_histogram_otlp {
	int32_t scale;
	int32_t offset; /* of counts[0] */
	size_t n;	/* elements of counts */
	uint64_t zero_count;
	double zero_threshold;
	uint64_t count; /* the sum of counts and zero_count */
	double sum;
	uint64_t above; /* observations above the range; they are not in count and sum */
};

/**
 * Convert to an exponential histogram of OpenTelemetry with at most `room` counts; its libraries
 * allow 160. The scale is the highest that has room, down to -4, the lowest that Prometheus takes.
 * Values below the range go to the zero bucket; its threshold is the lower end of the range. Below
 * scale 0 the threshold may be within a bucket, which then has the values above it.
 *
 * Returns 0, or -EINVAL (a NULL, a snapshot that no histogram could have filled, or one with own
 * bounds), or -ENOSPC (no room even at scale -4; 123 counts are enough for any range).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_to_otlp(const struct percpu_histogram_snapshot *s,
							  uint64_t *counts, size_t room,
							  struct percpu_histogram_otlp *ret);

PERCPU_END_DECLS

#endif

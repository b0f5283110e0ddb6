/* SPDX-License-Identifier: MIT */
/*
 * histogram.h - histograms that any thread records in at about the cost of a counter, with
 * the bounds of Prometheus's native histograms.
 *
 * An octave, from a power of two to the next, has 2^schema buckets, each wider than the last
 * by the same ratio: bucket i holds what is above 2^((i - 1) / 2^schema), and not above
 * 2^(i / 2^schema). The range is chosen at creation; what is below and above is counted
 * in two cells of their own. A cell holds how many observations fell into it, and their
 * sum; both change in one store. So a reader has each observation whole, in its
 * bucket and in the sum, or not at all, also after a kill.
 *
 * Negative values, infinities, what is no number, and values of 2^960 or more are refused:
 * they are counted as such, and nowhere else.
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
 * thread, constructors included; not a signal handler. The others: any thread of any
 * process that has the histogram mapped; signal handlers, unless they allocate; children of
 * fork.
 * Ordering: none for records and resets (as memory_order_relaxed). A read includes the
 * records that happened before it.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one
 * between processes, for which a call waits a second at most. The other calls take no lock
 * on 64-bit machines. On others records and reads take the lock of the journal, which is
 * taken over from a killed holder. A record waits for a holder that is stopped. A record
 * that needs the lock does nothing if a seccomp filter refuses gettid(2).
 */

/** Options of a histogram. Set size; zero in another field means the default. */
struct percpu_histogram_options {
	size_t size;		     /* sizeof(struct percpu_histogram_options) */
	size_t n;		     /* histograms in one object; default 1 */
	double min, max;	     /* the range, in the unit of the exported values, rounded
					outward to powers of two; defaults, each by itself:
					2^-20 and 2^10, in seconds a microsecond and 17
					minutes */
	uint64_t ticks_per_unit;     /* integers are recorded, so many to the unit: 1000000000
					for nanoseconds and seconds; default: doubles */
	uint32_t buckets_per_octave; /* 1, 2, 4, 8, 16 or 32: schemas 0 to 5; default 8 */
	uint32_t reserved;	     /* 0 */
};

/** A histogram, or n of the same layout. The fields are the library's. */
struct percpu_histogram {
	struct percpu_block block;
	size_t record;	     /* bytes of a lane that each of the n takes */
	size_t n;	     /* histograms */
	uint64_t limit;	     /* doubles that are recorded inline: their bits, minus 1, are below */
	uint64_t tick_limit; /* the same, of ticks as doubles */
	int64_t origin;	     /* what is subtracted for cell 0 to be the underflow */
	int64_t last;	     /* the cell of the overflow */
	uint64_t zero;	     /* 0: for sequences that want a bank */
	uint64_t ticks;	     /* per unit; 0: doubles */
	int32_t low, high;   /* the range is 2^low to 2^high */
	uint32_t schema;
	uint32_t shift;	    /* what remains of a mantissa is an index of the table */
	uint64_t table[64]; /* which bucket of an octave: see src/counts/histogram_index.c */
};

/** Bytes in front of the cells. */
#define PERCPU_HISTOGRAM_HEAD 64

/**
 * Create histograms in memory of this process, or in a region. Each takes 16 bytes per CPU for
 * each bucket, and three times 16 for what is below the range, above it, and refused.
 *
 * Returns 0, or
 *	-EINVAL	a NULL for the result or the region; options that this library does not know;
 *		another number of buckets per octave; min is negative, or max is not above min,
 *		both after defaults, or either is no number; more than fits into a lane
 *	-ERANGE	min is below 2^-1000 or max above 2^960; or max, so rounded, is 2^53 ticks or
 *		more
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
 * Attach to the histograms at this root of a shared region, or create them if nobody has, as
 * percpu_counter_array_open() does.
 *
 * Returns 0, or as percpu_histogram_create_in(), and -ENOENT or -EEXIST as
 * percpu_counter_array_open(); -EEXIST also if the histograms there have another layout, or
 * are those of a process of 32 bits and this one has 64, or the other way around.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_open(struct percpu_region *r, unsigned root,
						       const struct percpu_histogram_options *o,
						       struct percpu_histogram **ret);

/**
 * Attach to histograms that another process created at this key of a shared region, whatever
 * their layout. percpu_histogram_detach() undoes it and leaves them.
 *
 * Returns 0, or -EINVAL (a NULL), -ENOENT (no histograms there, or those of a process of 32
 * bits and this one has 64, or the other way around), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_attach(struct percpu_region *r, uint64_t key,
							 struct percpu_histogram **ret);
PERCPU_API void percpu_histogram_detach(struct percpu_histogram *h);

/** Their key in the region they were created in; 0 for private ones. */
PERCPU_API uint64_t percpu_histogram_key(const struct percpu_histogram *h);

/** Free the histograms. No thread may be using them. NULL is fine. If a root has them, set that to
 *  0 before: percpu_region_set_root(). */
PERCPU_API void percpu_histogram_destroy(struct percpu_histogram *h);

PERCPU_API void percpu_histogram_record_slow(const struct percpu_histogram *h, size_t i, double v);
PERCPU_API void percpu_histogram_record_ticks_slow(const struct percpu_histogram *h, size_t i,
						   uint64_t ticks);

/* The cell of a value above 0, given the bits of the double minus 1. */
PERCPU_INLINE uint64_t percpu_histogram_index(const struct percpu_histogram *h, uint64_t bits)
{
	uint64_t mantissa = bits & ((UINT64_C(1) << 52) - 1);
	int64_t cell = (int64_t)((bits >> 52) << h->schema) - h->origin;

	cell += (int64_t)((h->table[mantissa >> h->shift] + mantissa) >> 53);
	cell = cell < 0 ? 0 : cell;
	return (uint64_t)(cell > h->last ? h->last : cell);
}

PERCPU_INLINE char *percpu_histogram_cell(const struct percpu_histogram *h, size_t i, uint64_t bits)
{
	return h->block.base + PERCPU_HISTOGRAM_HEAD + i * h->record +
	       16 * percpu_histogram_index(h, bits);
}

PERCPU_INLINE uint64_t percpu_histogram_bits(double v)
{
	uint64_t bits;

	__builtin_memcpy(&bits, &v, sizeof(bits));
	return bits - 1;
}

/**
 * Record a value, in the exported unit, in histogram i, which is below the n of the options; or
 * in the only one. A histogram of ticks records the nearest number of ticks;
 * of more than 2^53 ticks per unit, one of the two nearest.
 *
 * Nobody notices if a program calls this with a number of ticks, or the call for ticks with
 * a value: both are numbers. ticks_per_unit of a snapshot says which the histogram has; if
 * values are mostly in the first bucket or in the last, look at the calls.
 *
 * Context: any thread of any process that has the histogram mapped; signal handlers;
 * children of fork and vfork. Never fails, never loses; in a region that was opened to read
 * nothing happens.
 * Progress: bounded on tier rseq, with the fallback of a compare-and-swap that goes around
 * while other threads record in the same bucket.
 */
PERCPU_INLINE void percpu_histogram_record_at(const struct percpu_histogram *h, size_t i, double v)
{
	uint64_t bits = percpu_histogram_bits(v);

	if (percpu_unlikely(bits >= h->limit) ||
	    percpu_unlikely(percpu_seq_add_count_double(percpu_histogram_cell(h, i, bits),
							h->block.stride, v)))
		percpu_histogram_record_slow(h, i, v);
}

PERCPU_INLINE void percpu_histogram_record(const struct percpu_histogram *h, double v)
{
	percpu_histogram_record_at(h, 0, v);
}

/**
 * Record a number of ticks. 2^63 or more are refused: most likely a difference that is
 * negative. A histogram of doubles records the number.
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
						 &h->zero, 0, percpu_pair(1, ticks))))
		percpu_histogram_record_ticks_slow(h, i, ticks);
}

PERCPU_INLINE void percpu_histogram_record_ticks(const struct percpu_histogram *h, uint64_t ticks)
{
	percpu_histogram_record_ticks_at(h, 0, ticks);
}

/* Reading */

/** What was observed in a bucket. */
struct percpu_histogram_bucket {
	uint64_t count;
	uint64_t ticks; /* their sum, modulo 2^64; 0 in histograms of doubles */
	double sum;	/* in the exported unit; an estimate if ticks cannot tell it:
			   docs/counts/histogram.md */
};

/* C++ has flexible arrays as an extension only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"

/** What a histogram held. The program may read all of it, keep it, and pass it on. */
struct percpu_histogram_snapshot {
	int32_t schema;		 /* an octave has 2^schema buckets; -4 to 5 */
	int32_t low, high;	 /* the range is 2^low to 2^high */
	uint32_t n;		 /* of bucket[] */
	uint64_t ticks_per_unit; /* 0: of doubles */
	uint64_t count;		 /* of all buckets together */
	double sum;
	uint64_t refused;
	/* bucket[0] has what is not above 2^low, zero included; bucket[n - 1] what is above
	 * 2^high; bucket[k], between, is number low * 2^schema + k of the native histogram, the
	 * product rounded down. Below schema 0 the range may begin and end within a native bucket:
	 * then it has what is in the range. */
	struct percpu_histogram_bucket bucket[];
};

#pragma GCC diagnostic pop

/** Return the largest double that is not above 2^(index / 2^schema): the upper bound of bucket
 *  index of a native histogram. 0 or infinity if that is no normal double, 0 if the schema is not
 *  one of -4 to 5. */
PERCPU_API double percpu_histogram_bound(int schema, int index);

/** Make an empty snapshot for histograms of this layout. percpu_histogram_snapshot_destroy()
 *  frees it. Returns 0, -EINVAL (a NULL) or -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_snapshot_create(const struct percpu_histogram *h,
				 struct percpu_histogram_snapshot **ret);
PERCPU_API void percpu_histogram_snapshot_destroy(struct percpu_histogram_snapshot *s);

/**
 * Read histogram i: what was recorded since it was created or last reset.
 *
 * The result need not be what the histogram held at any one instant: of the observations that
 * are recorded meanwhile, it has some. But it has each whole, in its bucket and in the sum, or
 * not at all, and counts never go back. On CPUs that do not load 16 bytes at once (x86-64 without
 * AVX, aarch64 before LSE2) that is so of observations that are not made meanwhile.
 *
 * percpu_histogram_fetch_zero() also resets: the counts returned to all callers, and what
 * is left, add up to what was recorded, and so do sums of ticks; sums of doubles up to rounding
 * (docs/counts/histogram.md).
 *
 * Returns 0, or -EINVAL (a NULL, no such histogram, or a snapshot of another layout); from
 * percpu_histogram_fetch_zero() also -EROFS (the region was opened to read); on machines of 32
 * bits -ETIMEDOUT (a thread that is stopped has the lock) and, from percpu_histogram_fetch(),
 * -ENOMEM (no memory for a copy). Then nothing was reset, and the snapshot is as before.
 *
 * Context: any thread; signal handlers. Costs a load per bucket and possible CPU. On machines
 * of 32 bits a reset has the lock all the time, with signals blocked.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_fetch(const struct percpu_histogram *h, size_t i,
							struct percpu_histogram_snapshot *s);
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_fetch_zero(struct percpu_histogram *h, size_t i,
							     struct percpu_histogram_snapshot *s);

/** Reset histogram i without reading it. Returns as percpu_histogram_fetch_zero(). */
PERCPU_API int percpu_histogram_zero(struct percpu_histogram *h, size_t i);

/**
 * Add what `from` holds to `into`, which may be of a lower schema and of another range.
 *
 * Returns 0, or, with nothing added,
 *	-EINVAL	a NULL, the same snapshot twice, one that no histogram could have filled, or
 *		different ticks per unit
 *	-ERANGE	`into` has a higher schema, or has bounds within what `from` counted as below or
 *		above its range; or together they have 2^64 observations or more, or an
 *		infinite sum, as only damaged files and merging over and over lead to
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_merge(struct percpu_histogram_snapshot *into,
		       const struct percpu_histogram_snapshot *from);

/**
 * Take from `later` what `earlier` holds. Of two snapshots of one histogram, what is left is what
 * was recorded between them: counts and ticks exactly; the sum of a bucket is that of its ticks, as
 * far as they tell it, and otherwise the difference of two rounded sums, or 0 where that is
 * negative. `earlier` may be of a higher schema and of another range, as in
 * percpu_histogram_merge().
 *
 * Two snapshots do for any number of intervals: `earlier` begins empty, and after each
 * percpu_histogram_subtract(later, earlier) there is percpu_histogram_merge(earlier, later).
 *
 * Returns 0, or, with nothing taken,
 *	-EINVAL	a NULL, the same snapshot twice, one that no histogram could have filled, or
 *		different ticks per unit
 *	-ERANGE	`later` has a higher schema, or has bounds within what `earlier` counted as below or
 *		above its range; or fewer observations in a bucket, or fewer refused: the histogram
 *		was reset between them. If since then each bucket got as many as it had had, this
 *		is not noticed, and the difference is wrong. A program that resets takes the intervals
 *		from percpu_histogram_fetch_zero().
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_subtract(struct percpu_histogram_snapshot *later,
			  const struct percpu_histogram_snapshot *earlier);

/** Make a snapshot of the same range and a lower schema, or the same, of what s holds: counts and
 *  ticks exactly, sums as a sum of doubles is. -4 is the lowest, as Prometheus's: 16 octaves in a
 *  bucket. Returns 0, -EINVAL (a NULL, a snapshot that no histogram could have filled), -ERANGE (a
 *  higher schema, one below -4, or more than percpu_histogram_merge() adds) or -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_fold(const struct percpu_histogram_snapshot *s,
						       int schema,
						       struct percpu_histogram_snapshot **ret);

/** A value, and between which two it is, as said below. */
struct percpu_histogram_quantile {
	double value; /* their middle, rounded; above the range, if ticks do not tell the sum, a
			 guess */
	double low, high;
};

/**
 * Estimate a quantile: of n observations, in order, that of number q * n, rounded up, the
 * first being number 1. The product is that of doubles: 0.07 * 100 is a little above 7.
 *
 * The bucket and its mean say between which two values it is; that is half a bucket from the
 * middle at most, and less where the mean is near an end or the observations are few. If the
 * bucket has one observation, low and high are both its value, or, of ticks that are no double
 * when divided, the doubles next to it.
 *
 * In histograms of ticks that is certain, of any unit: low is not above the fraction ticks /
 * ticks_per_unit, and high is not below it. Both are computed in whole numbers, and low is rounded
 * down, high up. Where ticks do not tell the sum (docs/counts/histogram.md), low and high are the ends of
 * the bucket, in whole ticks, so rounded.
 *
 * In histograms of doubles the mean is rounded, and so low and high may be off by the error of
 * the bucket's sum, which grows with all that was recorded there since the histogram was
 * created, whether it was reset or not (docs/counts/histogram.md). The observation is in its bucket in
 * any case. A program that resets at each interval and wants exact ends takes ticks.
 *
 * Returns 0, or -EINVAL (a NULL, a snapshot that no histogram could have filled, or q is not
 * from 0 to 1), or -ENODATA (nothing was observed).
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_histogram_quantile(const struct percpu_histogram_snapshot *s, double q,
			  struct percpu_histogram_quantile *ret);

/**
 * Count the observations that are not above a bound, as classic histograms do. The result is
 * exact if the bound is one of percpu_histogram_bound(), in the range, as each power of two is from
 * schema 0 on, or if no observation is in the bucket that the bound divides. Otherwise, so with
 * most decimal bounds, it is an estimate, as if the observations were evenly spread there; it does
 * not use their mean. Ticks are compared with the bound of the definition, and the double of it is
 * a little below: ticks between the two are counted. *ret_exact, unless it is NULL, says which.
 * NULL has no observations.
 */
PERCPU_API uint64_t percpu_histogram_count_below(const struct percpu_histogram_snapshot *s,
						 double bound, bool *ret_exact);

/** An exponential histogram of OpenTelemetry, but for its counts. */
struct percpu_histogram_otlp {
	int32_t scale;
	int32_t offset; /* of counts[0] */
	size_t n;	/* of counts */
	uint64_t zero_count;
	double zero_threshold;
	uint64_t count; /* of counts and zero_count */
	double sum;
	uint64_t above; /* were above the range, are not in count and sum */
};

/**
 * Convert to an exponential histogram of OpenTelemetry, with so many counts at most (its
 * libraries allow 160), of the highest scale that has room, down to -4, the lowest that Prometheus
 * takes. What is below the range is in its zero bucket, whose threshold is the lower end. Below
 * scale 0 that may be within a bucket, which then has what is above the threshold.
 *
 * Returns 0, or -EINVAL (a NULL, a snapshot that no histogram could have filled), or -ENOSPC
 * (no room even at scale -4; 123 counts are enough for any range).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_histogram_to_otlp(const struct percpu_histogram_snapshot *s,
							  uint64_t *counts, size_t room,
							  struct percpu_histogram_otlp *ret);

PERCPU_END_DECLS

#endif

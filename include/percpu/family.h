/* SPDX-License-Identifier: MIT */
/*
 * family.h - metrics whose label values are not known in advance: a user, a path, a queue.
 *
 * A family is a metric of a segment with names of labels. A series of the family is found or
 * created when its values are first seen, up to a cap. A call beyond the cap, or with a value that
 * cannot be a label's, gets one more series, the overflow. A look-up that finds takes no lock and no
 * system call, so it can be made for each event. Series can be removed: readers no longer list them.
 */
#ifndef PERCPU_FAMILY_H
#define PERCPU_FAMILY_H

#include <percpu/declare.h>

PERCPU_BEGIN_DECLS

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler, except for values that this process has found before
 * through the same family, if no process removes series of it. A child of fork may use its parent's
 * families and handles.
 * Ordering: none.
 * Progress: a call for values that this process has found before, and that no process has removed
 * since, is wait-free. Another one takes a lock of the process and memory, and may take a lock
 * between processes, for which it waits a second at most.
 */

/** The value of all labels of the overflow. Readers list the overflow once a call has got it. */
#define PERCPU_FAMILY_OVERFLOW "_overflow"

#define PERCPU_FAMILY_CAP 1000000 /* the largest cap */

/**
 * Declare a family: find the family of that name, or create it. It has at most d->cap series beside
 * the overflow. Removed series count for the cap until their memory is freed.
 *
 * d is as for percpu_segment_declare(), of any kind but an info or statistics; d->ret is not used.
 * Its metric has at least one label name, and label_values is NULL.
 *
 * The family has the help text; its series have none. It copies the options of its histograms, and
 * their own bounds. percpu_segment_close() frees the family. A process that declares the family again
 * gets the same one. percpu_error() says in words why a call failed.
 *
 * If no process has a family of the segment open, the call frees the memory of removed series. From
 * then on, until the process closes the segment, calls exec, or ends, no process does: this process
 * may have handles of series. To show that, it maps a page of the file without access, which takes
 * no memory. This needs /proc, and permission to open the file again.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; a cap that is 0 or above PERCPU_FAMILY_CAP; label_values that is not NULL;
 *		no label; as percpu_segment_declare()
 *	-EEXIST	the segment has the family with another cap, kind, unit, labels or options; or it
 *		has metrics without a family of that name. Declaring such a metric under the name
 *		of a family fails in the same way
 *	-EBADF	the program has closed the segment's descriptor
 *	-ENOENT, -EACCES, -EMFILE, ...	the file cannot be opened again: as open(2), by /proc
 *	-ENOLCK	there is no room for locks of files
 *	-ETIMEDOUT  another process has held a lock, or has freed series, for a second
 *	-ENOSPC, ...  as percpu_segment_counter(). The name may be declared by then; the next call
 *		completes it
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_family(struct percpu_segment *s,
						       const struct percpu_declaration *d,
						       struct percpu_family **ret);

/**
 * Find the series with these values, one for each label, or create it. The same values always have
 * the same handle. If the series was removed, it begins anew, at 0.
 *
 * The handle is that of the overflow if a value has more than 4096 bytes or is not UTF-8, or all
 * texts of the series have too many bytes together: percpu_family_invalid() counts these calls. It is
 * that of the overflow also if the family has cap series, the segment or the disk is full, there is
 * no memory, or another process has held the lock for a second: percpu_family_overflows() counts
 * these. percpu_error() says why.
 *
 * Return 0, or
 *	-EINVAL	a NULL; the family is of another kind
 *	-EBADMSG  the file is damaged
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_family_counter(struct percpu_family *f,
						       const char *const *values,
						       struct percpu_counter **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_fcounter(struct percpu_family *f,
							const char *const *values,
							struct percpu_fcounter **ret);
PERCPU_API PERCPU_MUST_CHECK int
percpu_family_gauge(struct percpu_family *f, const char *const *values, struct percpu_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_fgauge(struct percpu_family *f,
						      const char *const *values,
						      struct percpu_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_latest(struct percpu_family *f,
						      const char *const *values,
						      struct percpu_latest **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_histogram(struct percpu_family *f,
							 const char *const *values,
							 struct percpu_histogram **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_extrema(struct percpu_family *f,
						       const char *const *values,
						       struct percpu_extrema **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_owned_gauge(struct percpu_family *f,
							   const char *const *values,
							   struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_family_owned_fgauge(struct percpu_family *f,
							    const char *const *values,
							    struct percpu_owned_fgauge **ret);

/** A text of n bytes, which need not end in a 0. */
struct percpu_text {
	const char *at; /* not NULL, also if n is 0 */
	size_t n;
};

/**
 * Find or create the series with these values, as the call for the family's kind does, and store its
 * handle: the struct percpu_counter * of a counter, and so on. This is for languages whose texts have
 * a length. A text with a 0 in it cannot be a label's value. Of a text that is too long to be one, the
 * call reads no byte.
 *
 * Returns as percpu_family_counter().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_family_series(struct percpu_family *f,
						      enum percpu_metric_kind kind,
						      const struct percpu_text *values, void **ret);

/**
 * Find or create the exemplars (exemplar.h) of the series with these values, which is found or
 * created as above. The family is of counters, counters of doubles, or histograms. Values that get
 * the overflow get its exemplars. If the series is removed and begins anew, its exemplars are
 * forgotten.
 *
 * Returns as above, or -ENOSPC, -ENOMEM or -ETIMEDOUT: there was no room for exemplars.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_family_exemplars(struct percpu_family *f,
							 const char *const *values,
							 struct percpu_exemplars **ret);

/**
 * Add n to the counter with these values, one for each label: percpu_family_counter() and
 * percpu_counter_add() in one call. A program that adds to one series again and again keeps the
 * handle instead.
 *
 * Returns as percpu_family_counter(). With an error nothing was added.
 */
PERCPU_API int percpu_family_add(struct percpu_family *f, const char *const *values, uint64_t n);

/** Record v in the histogram with these values, as percpu_family_add(). */
PERCPU_API int percpu_family_record(struct percpu_family *f, const char *const *values, double v);

/**
 * Return how many calls, in all processes, got the overflow because there was no room. 0 if f is
 * NULL.
 *
 * Progress: wait-free.
 */
PERCPU_API uint64_t percpu_family_overflows(const struct percpu_family *f);

/** Return how many calls, in all processes, got the overflow because a value could not be a
 *  label's. 0 if f is NULL. Progress: wait-free. */
PERCPU_API uint64_t percpu_family_invalid(const struct percpu_family *f);

/**
 * Return a number that differs from what an earlier call has returned if, since then, a process has
 * removed a series of the segment, or a removed one has begun anew. It may differ for other reasons.
 * 0 if f is NULL.
 *
 * A program that keeps handles of series calls this before each look-up, and keeps the number with
 * the handle. Before it uses the handle, it calls this again: if the number is another one, it looks
 * the series up again. A process that removes the series after that call loses the count, as it
 * would with a look-up for each event.
 *
 * Context: signal handlers, too.
 * Progress: wait-free: one load.
 */
PERCPU_API uint64_t percpu_family_removals(const struct percpu_family *f);

/**
 * Remove the series with these values: readers no longer list it. The next call with these values
 * in any process lets the series begin anew, at 0. Owned gauges keep the shares of living owners.
 *
 * Handles stay valid, and lead to the same series. Counts that a thread adds by a handle while the
 * series is removed are dropped when it begins anew. So a program that removes series looks them up
 * for each event, or compares percpu_family_removals() before it uses a handle. The memory stays
 * until no process has a family of the segment open: percpu_segment_family().
 *
 * Returns 0, or
 *	-ENOENT	there is no such series
 *	-EINVAL	a NULL; or it is the overflow, which stays
 *	-ENAMETOOLONG, -EILSEQ, -EBADMSG, -ENOMEM, -ETIMEDOUT  a value cannot be a label's; as of
 *		other calls. Nothing was removed
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_family_remove(struct percpu_family *f,
						      const char *const *values);

PERCPU_END_DECLS

#endif

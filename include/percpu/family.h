/* SPDX-License-Identifier: MIT */
/*
 * family.h - metrics of segments whose label values are not known before: a user, a path, a queue.
 *
 * A family is a metric with names of labels. Its series are found or made when their values are
 * first seen, up to a cap; what comes after that is counted in one more series, the overflow.
 * Values that cannot be labels fail the call, and are not counted. Series can be removed. What
 * they took is used again when no process can have their handles any more.
 */
#ifndef PERCPU_FAMILY_H
#define PERCPU_FAMILY_H

#include <percpu/segment.h>

PERCPU_BEGIN_DECLS

struct percpu_family;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork goes on with its parent's families
 * and handles.
 * Ordering: none.
 * Progress: they take a lock of the process, and may take one between processes, for which a call
 * waits a second at most. Counting takes neither.
 */

/** The value of all labels of the series that overflows are counted in. */
#define PERCPU_FAMILY_OVERFLOW "_overflow"

#define PERCPU_FAMILY_CAP 1000000 /* the most that a cap can be */

/**
 * Declare a family: find the one of that name, or create it. d is as for
 * percpu_segment_declare(), of any kind of single metrics but an info, with a ret of NULL; its
 * metric has names of labels, one at least, and label_values is NULL. It has at most cap series
 * beside the overflow; those that were removed count until they are used again.
 *
 * The help text is the family's; of its series it is empty. The family is the segment's, and
 * goes with it. A process that declares it again gets the same one. percpu_segment_error() says why
 * a call failed.
 *
 * From this call on, the process keeps what is removed from being used again, until it calls
 * percpu_segment_quiesce(), closes the segment, calls exec, or ends: it has a page of the file
 * mapped, without access, which takes no memory. That needs /proc, and permission to open the
 * file once more.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; a cap that is 0 or above PERCPU_FAMILY_CAP; label_values or ret that is
 *		not NULL; no label; as percpu_segment_declare()
 *	-EEXIST	the family is there with another cap, kind, unit, labels, options; or the name is
 *		that of metrics without a family, which in turn cannot be declared under the name
 *		of a family
 *	-EBADF	the program has closed the segment's descriptor
 *	-ENOENT, -EACCES, -EMFILE, ...	the file cannot be opened once more, as open(2) by /proc
 *	-ENOLCK	there is no room for locks of files
 *	-ENOSPC, ...  as percpu_segment_counter(). Then the name may be declared, and the next call
 *		completes it
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_family(struct percpu_segment *s,
						       const struct percpu_declaration *d,
						       size_t cap, struct percpu_family **ret);

/**
 * Find the series with these values, one for each label, or create it. Keep the handle: this is
 * for when values are first seen, and the same values have the same handle, until a process removes
 * their series (percpu_segment_removals()).
 *
 * Where there is no room, the handle is that of the overflow: the family has cap series, the
 * segment or the disk is full, there is no memory, or another process has held the lock for a
 * second. percpu_family_overflows() counts that.
 *
 * Return 0, or
 *	-EINVAL	a NULL; the family is of another kind
 *	-ENAMETOOLONG, -EILSEQ	a value has more than 255 bytes; it is not UTF-8
 *	-EROFS	the segment was opened to read, and has no such series
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

/**
 * Return how often, in all processes, a call got the overflow because there was no room. 0 if f is
 * NULL.
 *
 * Progress: wait-free.
 */
PERCPU_API uint64_t percpu_family_overflows(const struct percpu_family *f);

/**
 * Return how many series were removed from the segment, by all processes, ever. While the number
 * is the same, each handle that was resolved since it was read leads to the series of its values. 0
 * if s is NULL.
 *
 * Progress: wait-free.
 */
PERCPU_API uint64_t percpu_segment_removals(const struct percpu_segment *s);

/**
 * Remove the series with these values. From then on a process that resolves the values gets a new
 * series, which begins at 0. Old handles stay valid until their process calls
 * percpu_segment_quiesce() or closes the segment; what is counted by them is dropped.
 *
 * Returns 0, or
 *	-ENOENT	there is no such series
 *	-EINVAL	a NULL; or it is the overflow, which stays
 *	-EROFS	the segment was opened to read
 *	-ENAMETOOLONG, -EILSEQ, -EBADMSG, -ENOMEM, -ETIMEDOUT  as of other calls; nothing was
 *		removed
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_family_remove(struct percpu_family *f,
						      const char *const *values);

/**
 * Say that no thread of this process has a handle of a series that was removed before this call,
 * by any process. What such series took may be used again once all processes that have declared a
 * family of the segment have said so, or have ended. Handles that this process had of them are
 * no more: drop all handles of families first, if percpu_segment_removals() has changed. No thread
 * may be resolving values meanwhile. It speaks for what was resolved by this open of the segment.
 *
 * Returns 0, also if the process has declared no family, or nothing was removed; or as
 * percpu_segment_family() when the file cannot be opened once more, and -ENOMEM, -ETIMEDOUT,
 * -EBADMSG: nothing has changed then.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_quiesce(struct percpu_segment *s);

PERCPU_END_DECLS

#endif

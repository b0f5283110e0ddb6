/* SPDX-License-Identifier: MIT */
/*
 * family.h - metrics whose label values are not known in advance: a user, a path, a queue.
 *
 * A family is a metric of a segment with names of labels. A series of the family is found or
 * created when its values are first seen, up to a cap. Beyond the cap, calls get one more series,
 * the overflow. A value that cannot be a label's fails the call. Series can be removed. The space
 * of a removed series is used again when no process can have a handle of it any more.
 */
#ifndef PERCPU_FAMILY_H
#define PERCPU_FAMILY_H

#include <percpu/segment.h>

PERCPU_BEGIN_DECLS

struct percpu_family;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork may use its parent's families and
 * handles.
 * Ordering: none.
 * Progress: a call takes a lock of the process, and may take one between processes, for which it
 * waits a second at most. Counting takes neither.
 */

/** The value of all labels of the overflow. */
#define PERCPU_FAMILY_OVERFLOW "_overflow"

#define PERCPU_FAMILY_CAP 1000000 /* the largest cap */

/**
 * Declare a family: find the family of that name, or create it. It has at most cap series beside
 * the overflow. Removed series count until their space is used again.
 *
 * d is as for percpu_segment_declare(), with a ret of NULL, and of any kind but an info or
 * statistics. Its metric has at least one label name, and label_values is NULL.
 *
 * The family has the help text; its series have none. percpu_segment_close() frees the family. A
 * process that declares the family again gets the same one. percpu_error() says in words why a call
 * failed.
 *
 * The space of series that are removed after this call is not used again until the process calls
 * percpu_segment_release_removed(), closes the segment, calls exec, or ends. For that the process
 * maps a page of the file without access, which takes no memory. This needs /proc, and permission
 * to open the file again.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; a cap that is 0 or above PERCPU_FAMILY_CAP; label_values or ret that is
 *		not NULL; no label; as percpu_segment_declare()
 *	-EEXIST	the segment has the family with another cap, kind, unit, labels or options; or it
 *		has metrics without a family of that name. Declaring such a metric under the name
 *		of a family fails in the same way
 *	-EBADF	the program has closed the segment's descriptor
 *	-ENOENT, -EACCES, -EMFILE, ...	the file cannot be opened again: as open(2), by /proc
 *	-ENOLCK	there is no room for locks of files
 *	-ENOSPC, ...  as percpu_segment_counter(). The name may be declared by then; the next call
 *		completes it
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_family(struct percpu_segment *s,
						       const struct percpu_declaration *d,
						       size_t cap, struct percpu_family **ret);

/**
 * Find the series with these values, one for each label, or create it. Call this when values are
 * first seen, and keep the handle. The same values have the same handle until a process removes
 * their series (percpu_segment_removals()).
 *
 * The handle is that of the overflow if the family has cap series, the segment or the disk is full,
 * there is no memory, or another process has held the lock for a second. percpu_family_overflows()
 * counts these calls.
 *
 * Return 0, or
 *	-EINVAL	a NULL; the family is of another kind
 *	-ENAMETOOLONG, -EILSEQ	a value has more than 255 bytes; a value is not UTF-8
 *	-EROFS	the segment was opened to read, and has no such series
 *	-ENOMEM, -ETIMEDOUT  the segment was opened to read, and there is no memory, or other
 *		processes change the directory again and again
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
 * Return how many calls, in all processes, got the overflow because there was no room. 0 if f is
 * NULL.
 *
 * Progress: wait-free.
 */
PERCPU_API uint64_t percpu_family_overflows(const struct percpu_family *f);

/**
 * Return how many series all processes have removed from the segment so far. If a program reads the
 * number, then finds a handle, and the number is still the same, the handle leads to the series of
 * its values. 0 if s is NULL.
 *
 * Progress: wait-free.
 */
PERCPU_API uint64_t percpu_segment_removals(const struct percpu_segment *s);

/**
 * Remove the series with these values. Later calls with these values get a new series, which begins
 * at 0. Old handles stay valid until their process calls percpu_segment_release_removed() or closes
 * the segment; counts added through them are dropped.
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
 * Announce that no thread of this process uses a handle of a series that was removed before this
 * call, by any process. The space of these series is used again once all processes that have
 * declared a family of the segment have called this, or have ended.
 *
 * The call detaches the handles of these series that were found through s. So if
 * percpu_segment_removals() has changed, forget all handles of families first. No thread may be in
 * percpu_family_counter() or the like during the call.
 *
 * Returns 0, also if the process has declared no family, or nothing was removed; or, with nothing
 * changed, an error as percpu_segment_family() when the file cannot be opened again, -ENOMEM,
 * -ETIMEDOUT or -EBADMSG.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_release_removed(struct percpu_segment *s);

PERCPU_END_DECLS

#endif

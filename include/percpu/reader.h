/* SPDX-License-Identifier: MIT */
/*
 * reader.h - all metrics of a segment (segment.h), from outside.
 *
 * A reader copies the file with pread(2) into memory of its own, and looks at the copy. So it
 * maps nothing: a file that is cut short is an error and no signal, and nothing changes between
 * a check and what relies on it. It needs permission to read the file, and no more. It stores
 * nothing, takes no lock, and does not disturb the processes that count.
 *
 * percpu_reader_read() takes a picture, a lane at a time. The other calls tell what is in the
 * picture, by number: 0 to percpu_reader_count() - 1, in the order of names.
 */
#ifndef PERCPU_READER_H
#define PERCPU_READER_H

#include <percpu/segment.h>

PERCPU_BEGIN_DECLS

struct percpu_reader;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, but one thread at a time for the same reader; not a signal handler. A child
 * of fork has a reader of its own, which is a copy.
 * Ordering: a picture includes what was counted before percpu_reader_read() was called.
 * Progress: no locks but of this process, for a moment. A process that counts, declares or is
 * stopped does not keep a reader waiting, unless its pictures are to be consistent.
 * percpu_reader_read() has a bound that others cannot raise, and percpu_reader_set_timeout() sets a
 * shorter one. No other call looks at that time. percpu_reader_open() reads a header of 4 KiB for each chunk of the file, of
 * which there can be 4096. percpu_reader_close() frees what the picture takes. A process that must
 * not wait for a file of another user opens, reads and closes it in a child or in a thread.
 */

/**
 * Open a segment by name, as percpu_segment_open(): a path if there is a '/' in it, else
 * /dev/shm/percpu.NAME. There is no picture yet: what metrics there are, percpu_reader_read() reads.
 * The reader keeps a descriptor of the file, with O_CLOEXEC. Links are followed only for a path's
 * directories.
 *
 * Returns 0, or
 *	-EINVAL, -ENAMETOOLONG, -ELOOP  as percpu_segment_open()
 *	-ENOENT	there is no such file; or it is a region with nothing at root 0, without a segment
 *	-EBADMSG  the file is a region with another object at root 0, where segments have their
 *		directory; or it is no region, or is cut short or damaged
 *	-EPROTO	the file is of another version
 *	-EISDIR	it is a directory
 *	-ENOMEM
 *	-EACCES, -EMFILE, ...  as open(2)
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_open(const char *name, struct percpu_reader **ret);

/** The same for the file that fd refers to. The descriptor stays the caller's. -EBADF if it is not
 *  open for reading. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_open_fd(int fd, struct percpu_reader **ret);

/** NULL is fine. */
PERCPU_API void percpu_reader_close(struct percpu_reader *r);

/**
 * Take a picture, in place of the one before.
 *
 * What each CPU has counted is what it was at a moment between the beginning and the end of the
 * call, and no reset or set is between these moments of one value. So counters that only grow
 * have a value that they had meanwhile. With adds of both signs on several CPUs it may be one that
 * they never had, as with percpu_gauge_fetch(), which takes less time between CPUs. Two metrics may
 * be of different moments. Series that are declared during the call may be in the picture or not; so
 * may those declared since an earlier call that had no time for all records, and with which this one
 * goes on. If the segment is started anew meanwhile, the picture is of before or after.
 *
 * Others cannot make it read for long. What lanes have no data for in the file (lseek(2),
 * SEEK_DATA) is not read where all lanes together have much more room than data; where the file
 * system does not tell, everything counts as data. A value that is set or reset while it is read is
 * read again, up to 64 times; all of these together cost at most 8 times as much as reading
 * everything once, or as 16384 reads of 4 KiB if that is more, where a call costs as much as 4 KiB.
 * A value for which that is not enough is missing: its call returns -EAGAIN,
 * percpu_reader_info.missing counts it, and percpu_reader_error() names the first one. All other
 * values are there. While records change, the picture is begun again, up to 16 times in all, and only
 * as long as all that was begun has cost less than 3 pictures that nobody disturbs, or than 65536 reads
 * of 4 KiB if that is more: to look at a record for the list of series costs as much as 4 KiB. What is
 * read again costs no more than for one.
 *
 * Returns 0; or, with no picture (percpu_reader_count() is 0), percpu_reader_error(), and
 *	-EBADMSG  the file is cut short or damaged, or is no segment any more
 *	-EPROTO	it is of another version now
 *	-ESTALE	the name leads to another file now, or to none: open that one
 *	-EAGAIN	the segment is being started anew, perhaps by a process that is stopped; if it
 *		was killed, the next one that opens the segment to count completes it. Or series
 *		of families are removed, and made in their place, again and again meanwhile: of
 *		a million of them, say, more often than once in the time that the picture takes.
 *		Or the time of percpu_reader_set_timeout() was over before any value was read;
 *		a next call goes on with the records that this one has copied and listed
 *	-ENOMEM
 *	-EIO, ...  as pread(2)
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_read(struct percpu_reader *r);

/**
 * Let percpu_reader_read() begin no read of records or values, and list no record, when so many
 * nanoseconds of CLOCK_MONOTONIC have passed since it was called. 0, the default: there is no such time.
 * Values that it has not read by then are missing, as those that change all the time are, and it
 * returns 0.
 *
 * If records are left by then, it returns -EAGAIN, and the next call goes on with them: so the first
 * picture of a large segment takes several calls. Each call also reads all headers, and what the bias
 * lane has beside the records. In a time that is too short for these, no call comes to the records.
 *
 * The call may return later than that. It ends the read that it has begun, and reads a word for each
 * family. A snapshot of consistent statistics that it has begun may take its second. When it begins
 * the list it counts all records, and when all are listed it sorts them, without a look at the clock:
 * the more series there are, the longer. docs/segment/reader.md says how long that takes.
 *
 * Returns 0, or -EINVAL if r is NULL.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_set_timeout(struct percpu_reader *r,
							   uint64_t timeout_ns);

/** Return a sentence about the last percpu_reader_read(), percpu_reader_be_consistent() or
 *  percpu_reader_cpus() of this reader that failed, or about the last picture in which values are
 *  missing; "" if there was none. It is valid until the next
 *  call. percpu_segment_strerror() is for percpu_reader_open(). */
PERCPU_API const char *percpu_reader_error(const struct percpu_reader *r);

/**
 * Let pictures be consistent: the fields of statistics (percpu_segment_stats()) are of one moment
 * from now on, by percpu_stats_snapshot(). Otherwise each is a word of its own, and an update may
 * be in one and not yet in another. The call opens the segment to count, so the process must be
 * allowed to write to the file. It maps the file, so it must trust the other processes that may
 * write to it. There is no picture afterwards. A picture may then wait a second for each statistics
 * of which another process takes a snapshot and is stopped. A second call does nothing.
 *
 * Returns 0, or with nothing changed as percpu_segment_open() with PERCPU_SEGMENT_WRITE |
 * PERCPU_SEGMENT_FOREIGN; or -ESTALE as percpu_reader_read().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_be_consistent(struct percpu_reader *r);

/** What is known of the segment. Times are of CLOCK_REALTIME, in ns, and such that the time that
 *  has passed since is right, also if that clock was set meanwhile; of an earlier boot of the
 *  machine they are what the clock said. A time before 1970 is 0: that clock was set to less after
 *  1970 than has passed since. */
struct percpu_reader_info {
	uint64_t generation; /* how often it was started, anew or at all */
	uint64_t since;	     /* when that was */
	uint64_t read;	     /* when the picture was taken */
	uint32_t cpus;	     /* lanes of CPUs */
	uint32_t consistent; /* 1: percpu_reader_be_consistent() */
	uint32_t pending;    /* records whose metrics are not there: being declared, left by a
				killed process, or damaged */
	uint32_t missing;    /* series without a value: the calls below say why */
};
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_info(const struct percpu_reader *r,
						    struct percpu_reader_info *ret);

/** Return how many series there are. */
PERCPU_API size_t percpu_reader_count(const struct percpu_reader *r);

/** A series. Texts are UTF-8, and valid until the next picture. */
struct percpu_reader_series {
	const char *name; /* those of the same name follow each other */
	const char *help; /* "" if there is none; so is unit */
	const char *unit;
	const char *const *label_names; /* labels of them */
	const char *const *label_values;
	const char *field;	   /* of statistics: the name of the label that tells the fields
				      from each other; else "" */
	const char *const *fields; /* its values, n of them */
	uint32_t labels;
	uint32_t n;	    /* values: 1; of statistics, one for each field */
	uint32_t kind;	    /* enum percpu_metric_kind */
	uint32_t flags;	    /* of extrema; the rule of an owned gauge */
	uint32_t cap;	    /* of its family (family.h): the most series; 0: it is of none */
	uint32_t removed;   /* of its family: how many were removed, and take room still */
	uint64_t since;	    /* when its counts began, as in struct percpu_reader_info */
	uint64_t overflows; /* of its family: how often there was no room for a series */
};

/** Tell of a series. Returns 0, or -EINVAL: a NULL, or there is no series i. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_series(const struct percpu_reader *r, size_t i,
						      struct percpu_reader_series *ret);

/*
 * The values of series i. These calls return 0, or
 *	-EINVAL	a NULL; there is no series i; or it is of another kind
 *	-ENODATA  there is none yet: nothing was observed, or set
 *	-EAGAIN	it was set or reset again and again while it was read; or there was no time
 *	-ETIMEDOUT, -EPERM, ...  of consistent statistics, as percpu_stats_snapshot()
 */

/** Of a counter. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_counter(const struct percpu_reader *r, size_t i,
						       uint64_t *ret);

/** Of a gauge; or of an owned one, of the owners that live. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_level(const struct percpu_reader *r, size_t i,
						     int64_t *ret);

/** Of a kind that is one value, as a double: counters, gauges, also owned ones, of either type,
 *  latest values, and 1 for an info. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_number(const struct percpu_reader *r, size_t i,
						      double *ret);

/** Of an owned gauge, by its rule: of all owners that it ever had, or of those that live. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_fold(const struct percpu_reader *r, size_t i,
						    enum percpu_owned_of of, double *ret);

/** When a latest value was set, in ns of CLOCK_REALTIME. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_when(const struct percpu_reader *r, size_t i,
						    uint64_t *ret);

/** A histogram, for percpu_histogram_quantile() and the like; the caller destroys it
 *  (percpu_histogram_snapshot_destroy()). Also -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_histogram(const struct percpu_reader *r, size_t i,
							 struct percpu_histogram_snapshot **ret);

/** Extrema, of doubles or of words as doubles. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_extrema(const struct percpu_reader *r, size_t i,
						       double *ret_min, double *ret_max);

/** The n counters of statistics. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_stats(const struct percpu_reader *r, size_t i,
						     uint64_t *out, size_t n);

/** What each owner has in an owned gauge, as percpu_owned_gauge_each(); value or fvalue by the
 *  kind of the gauge. *ret_n becomes how many there are, and up to n of them are stored. Whether
 *  they live is asked during the call. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_owned(const struct percpu_reader *r, size_t i,
						     struct percpu_owned_value *out, size_t n,
						     size_t *ret_n);

/**
 * Read what each CPU has added to a counter or a gauge: out[cpu], for n CPUs; n is
 * percpu_reader_info.cpus at most. Counts of threads that run no sequences are in none of them,
 * and a reset or set changes none. It is of now, not of the picture.
 *
 * Also returns -EBADMSG, -EIO, ... as percpu_reader_read(), and -ENOMEM if there is no memory for
 * a copy of more than 4096 bytes.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_cpus(struct percpu_reader *r, size_t i, double *out,
						    size_t n);

/** List the processes that have a slot in the segment (owner.h), dead or alive:
 *  percpu_owners_list(). That is asked during the call. Returns how many there are. */
PERCPU_API size_t percpu_reader_owners(const struct percpu_reader *r, struct percpu_owner_info *out,
				       size_t n);

PERCPU_END_DECLS

#endif

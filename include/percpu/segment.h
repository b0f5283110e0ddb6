/* SPDX-License-Identifier: MIT */
/*
 * segment.h - named metrics in a file, which any number of processes count in.
 *
 * A segment is a shared region (region.h) with a directory: each metric has a name, a help text,
 * a unit, a kind, and labels. A process that declares a metric gets the object of that kind, found
 * or created, and counts in it at the object's cost. Each process that declares the same metric
 * gets the same object, also after all other processes have ended or were killed.
 *
 * No server has the file, and no cleanup follows a kill: the next process goes on from what is
 * there.
 */
#ifndef PERCPU_SEGMENT_H
#define PERCPU_SEGMENT_H

#include <percpu/counter.h>
#include <percpu/extrema.h>
#include <percpu/fcounter.h>
#include <percpu/gauge.h>
#include <percpu/histogram.h>
#include <percpu/owned.h>
#include <percpu/stats.h>

PERCPU_BEGIN_DECLS

struct percpu_segment;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread; not a signal handler. A child of fork goes on with its parent's segment
 * and handles.
 * Ordering: none. A process that finds a metric finds all of its record.
 * Progress: opening and declaring take a lock of the process, and may take one between
 * processes, for which a call waits a second at most. Counting takes neither.
 */

/** For percpu_segment_open() and percpu_segment_open_fd(). */
enum percpu_segment_flags {
	PERCPU_SEGMENT_WRITE = 1,   /* to count; without it, to read */
	PERCPU_SEGMENT_CREATE = 2,  /* with WRITE: make the segment if there is none */
	PERCPU_SEGMENT_ANEW = 4,    /* with WRITE: all start from 0 again */
	PERCPU_SEGMENT_FOREIGN = 8, /* with WRITE: also if the file is another user's */
	PERCPU_SEGMENT_DEBUG = 16,  /* see percpu_segment_close() */
};

/** Options of a segment that is created. Set size; zero in another field means the default. */
struct percpu_segment_options {
	size_t size;   /* sizeof(struct percpu_segment_options) */
	uint32_t cpus; /* as in struct percpu_region_options */
	uint32_t mode; /* as in struct percpu_region_options */
};

/**
 * Open the segment of that name: a path if there is a '/' in it, else /dev/shm/percpu.NAME. With
 * PERCPU_SEGMENT_CREATE it is created with the options o, which may be NULL, if there is none.
 * The segment keeps a descriptor of the file, with O_CLOEXEC, which owners need (owner.h). The file
 * appears under its name as a segment, or not at all. percpu_segment_strerror() says what an error
 * means.
 *
 * Counts continue from what is there; with PERCPU_SEGMENT_ANEW they start from 0 again, for all
 * processes: counters, statistics, histograms and extrema are reset, gauges set to 0, each exactly.
 * Latest values stay, and so do owned gauges, which are their owners'. The metrics stay declared.
 * If the process is killed meanwhile, the next process that opens the segment to write completes
 * the reset.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, unknown flags or options, or one of them without WRITE; or a name that
 *		is no path and has other characters than letters, digits, '_', '.' and '-', or
 *		begins with a '.'
 *	-ENAMETOOLONG  such a name of more than 200 characters
 *	-ENOENT	there is no such file, or, with CREATE, no such directory; or it is a region with
 *		nothing at root 0, and the call only reads
 *	-ELOOP	the file is a symbolic link
 *	-EPERM	with WRITE: the file is another user's
 *	-EBADMSG  the file is a region with another object at root 0, where segments have their
 *		directory; or it is no region, or is cut short or damaged
 *	-EPROTO	the file is of another version
 *	-ETIMEDOUT  with WRITE: another process is starting anew, or holds a lock, for a second
 *	-ENOLCK, -EBADF  with ANEW: the file takes no locks; the program has closed the descriptor
 *	-ERANGE, -ENOSPC, -EACCES, ...  as percpu_region_open()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_open(const char *name, unsigned flags,
						     const struct percpu_segment_options *o,
						     struct percpu_segment **ret);

/**
 * The same for the file that fd refers to, such as a memfd. With PERCPU_SEGMENT_CREATE an empty
 * file becomes a segment, or stays empty; no other process may have it by then. The descriptor
 * stays the caller's. Where it cannot be opened once more by /proc, PERCPU_SEGMENT_ANEW waits for
 * any other thread of the process that starts such a segment anew.
 *
 * Returns as percpu_segment_open(), and -EBADF as percpu_region_open_fd().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_open_fd(int fd, unsigned flags,
							const struct percpu_segment_options *o,
							struct percpu_segment **ret);

/** Return what an error of percpu_segment_open() or percpu_segment_open_fd() means, as part of a
 *  sentence; "" for 0, and what strerror() says of numbers that are not above. */
PERCPU_API const char *percpu_segment_strerror(int e);

/**
 * Give back what this process has of the segment, all handles included, which no thread may be
 * using. The file stays. NULL is fine.
 *
 * With PERCPU_SEGMENT_DEBUG the library prints a sentence to standard error and aborts if the
 * process closes a segment twice, uses a segment or one of its handles after it closed the
 * segment, or counts in a segment that it opened to read. To see that, the library handles SIGSEGV
 * in the process, and passes on what does not concern a segment; closed segments keep their
 * addresses, but not their file.
 */
PERCPU_API void percpu_segment_close(struct percpu_segment *s);

/** What a metric is. */
enum percpu_metric_kind {
	PERCPU_METRIC_COUNTER = 1,
	PERCPU_METRIC_FCOUNTER,
	PERCPU_METRIC_GAUGE,
	PERCPU_METRIC_FGAUGE,
	PERCPU_METRIC_LATEST,
	PERCPU_METRIC_HISTOGRAM,
	PERCPU_METRIC_EXTREMA,
	PERCPU_METRIC_OWNED_GAUGE,
	PERCPU_METRIC_OWNED_FGAUGE,
	PERCPU_METRIC_INFO,  /* labels, and no value */
	PERCPU_METRIC_STATS, /* counters that are updated and read together */
};

/** What is told of a metric. Set size and name; what is 0 is not there. */
struct percpu_metric {
	size_t size;	  /* sizeof(struct percpu_metric) */
	const char *name; /* [a-zA-Z_][a-zA-Z0-9_]*, up to 255 bytes */
	const char *help; /* UTF-8, up to 1023 bytes */
	const char *unit; /* seconds, bytes, ratio, joules, volts, amperes, meters, grams,
				    celsius or kelvin: the end of the name, in front of _total */
	const char *const *label_names;	 /* [a-zA-Z_][a-zA-Z0-9_]*, not "le", "quantile", "__..." */
	const char *const *label_values; /* UTF-8, up to 255 bytes each */
	size_t labels;			 /* how many, up to 16; 0: none, whatever the two are */
};

#define PERCPU_METRIC_LABELS 16
#define PERCPU_METRIC_NAME 255	/* bytes, as of labels and their values */
#define PERCPU_METRIC_HELP 1023 /* bytes */

/** The fields of statistics, which are counters of one metric: NAME{...,label="names[i]"} is the
 *  ith of the struct. Set all. */
struct percpu_metric_fields {
	size_t size;		  /* sizeof(struct percpu_metric_fields) */
	const char *label;	  /* as names of labels, and none of the metric's */
	const char *const *names; /* UTF-8, 1 to 255 bytes each, no two the same */
	size_t n;		  /* how many, 1 to PERCPU_STATS_MAX_COMMIT */
};

/** An initializer of a struct percpu_metric_fields, for a struct of that type. names is an array;
 *  if it has another number of elements than the struct has fields, this does not compile. */
#define PERCPU_METRIC_FIELDS(type, label, names)                                                   \
	{                                                                                          \
		sizeof(struct percpu_metric_fields), (label), (names),                             \
			sizeof(type) / 8 *                                                         \
				sizeof(char[sizeof(names) / sizeof((names)[0]) ==                  \
							    sizeof(type) / 8 ?                     \
						    1 :                                            \
						    -1])                                           \
	}

/**
 * Declare a metric: find the one of that name and with these values of labels, or create it. It
 * must be of the same kind and unit, and have labels of the same names in the same order, and so
 * must all metrics of that name; statistics must have the same fields, a histogram the same
 * options, extrema the same flags, an owned gauge the same rule. The help text may be another one:
 * that of the first stays.
 *
 * The handle is the segment's: only percpu_segment_close() detaches it. A process that declares a
 * metric again gets the same handle. percpu_segment_error() says in words why a call failed; where
 * values differ, it has both.
 *
 * Names of counters and statistics end in _total, those of PERCPU_METRIC_INFO in _info, and no
 * others do; none ends in _bucket, _count, _sum or _created.
 *
 * Return 0, or
 *	-EINVAL	a NULL; a name, unit, label or field that is not as above; a struct of a size
 *		that no release had; unknown options, flags or rules, or those of another kind
 *	-ERANGE	as percpu_histogram_create()
 *	-ENAMETOOLONG  a name, a label or a help text is too long
 *	-EILSEQ	a help text or a label's value is not UTF-8
 *	-E2BIG	too many labels
 *	-EEXIST	the metric is in the segment, and is another one
 *	-EROFS	the segment was opened to read, and has no such metric
 *	-ENOSPC	the disk is full, or the segment, which takes 128 MiB of names: nothing was
 *		declared, and what is there counts on
 *	-ENOTSUP  gauges on machines that do not change 16 bytes at once: those of 32 bits, for
 *		example
 *	-EBADMSG  the file is damaged
 *	-ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_counter(struct percpu_segment *s,
							const struct percpu_metric *m,
							struct percpu_counter **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_fcounter(struct percpu_segment *s,
							 const struct percpu_metric *m,
							 struct percpu_fcounter **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_gauge(struct percpu_segment *s,
						      const struct percpu_metric *m,
						      struct percpu_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_fgauge(struct percpu_segment *s,
						       const struct percpu_metric *m,
						       struct percpu_fgauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_latest(struct percpu_segment *s,
						       const struct percpu_metric *m,
						       struct percpu_latest **ret);
/** o may be NULL: all defaults. It must be for one histogram. */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_histogram(struct percpu_segment *s,
							  const struct percpu_metric *m,
							  const struct percpu_histogram_options *o,
							  struct percpu_histogram **ret);
/** flags: as of percpu_extrema_create(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_extrema(struct percpu_segment *s,
							const struct percpu_metric *m,
							unsigned flags,
							struct percpu_extrema **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_owned_gauge(struct percpu_segment *s,
							    const struct percpu_metric *m,
							    enum percpu_owned_rule rule,
							    struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_owned_fgauge(struct percpu_segment *s,
							     const struct percpu_metric *m,
							     enum percpu_owned_rule rule,
							     struct percpu_owned_fgauge **ret);
/** f says what the fields are; flags: as of percpu_stats_create(). The handle is of one object. As
 *  ret for a handle h of PERCPU_STATS(): PERCPU_STATS_RET(&h). */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_stats(struct percpu_segment *s,
						      const struct percpu_metric *m,
						      const struct percpu_metric_fields *f,
						      unsigned flags, struct percpu_stats **ret);
/** A metric that tells by its labels alone, such as a version. */
PERCPU_API int percpu_segment_info(struct percpu_segment *s, const struct percpu_metric *m);

/** What to declare. Rows of a table may be constant. */
struct percpu_declaration {
	size_t size; /* sizeof(struct percpu_declaration) */
	const struct percpu_metric *metric;
	uint32_t kind;	/* enum percpu_metric_kind */
	uint32_t flags; /* of extrema and statistics; the rule of an owned gauge */
	const struct percpu_histogram_options *histogram; /* or NULL: all defaults */
	void *ret; /* where the handle goes: a struct percpu_counter **, ...; NULL for an info */
	const struct percpu_metric_fields *fields; /* of statistics */
};

/**
 * Declare the metrics of a table of n rows, one after the other.
 *
 * Returns 0; or as the call for one metric for the first row that fails: those before it are
 * declared, and their handles stored. -EINVAL is also for a kind that this library does not know.
 */
PERCPU_API PERCPU_MUST_CHECK int
percpu_segment_declare(struct percpu_segment *s, const struct percpu_declaration *table, size_t n);

/** When something has started. Times are in ns. */
struct percpu_moment {
	uint64_t generation; /* of the segment: 1, and one more each time that it starts anew */
	uint64_t real;	     /* what CLOCK_REALTIME was */
	uint64_t boottime;   /* what CLOCK_BOOTTIME was */
	uint64_t age;	     /* how long ago that is */
	uint32_t this_boot;  /* 1: it was in this boot of the machine; 0: in another, or unknown */
	uint32_t reserved;
};

/**
 * Tell when the segment has started: with its first open, or the last one with
 * PERCPU_SEGMENT_ANEW. The age is right whenever CLOCK_REALTIME was set, if it was in this boot.
 * Otherwise it is what that clock says, and 0 if that was before. CLOCK_BOOTTIME is another one in
 * another time namespace.
 *
 * Returns 0, or -EINVAL (a NULL).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_started(struct percpu_segment *s,
							struct percpu_moment *ret);

/**
 * The same for the counts of one series: when it was declared, or the segment started anew after
 * that. Its name and its labels' values say which it is; it need not have been declared by this
 * process.
 *
 * Returns 0, or
 *	-EINVAL, -ENAMETOOLONG, -EILSEQ, -E2BIG, -ENOMEM  as percpu_segment_counter()
 *	-ENOENT	there is no such series
 *	-EAGAIN	others change the directory again and again
 *	-EBADMSG  the file is damaged
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_series_started(struct percpu_segment *s,
							       const struct percpu_metric *m,
							       struct percpu_moment *ret);

/**
 * Return a sentence about the last call of this thread on the segment that failed: what was
 * wrong, and what is there. It stays until the next call of this thread that fails: a call that
 * succeeds does not clear it. It is valid for as long as the thread lives: a later call that fails
 * drops what threads have left that have ended. "" if there was none, or s is NULL; also if there is
 * no memory for a sentence, a filter refuses gettid(2), or the late library finds neither a key nor
 * memory by which it tells this thread from others (docs/cpu/late.md).
 *
 * Context: any thread; not a signal handler. In a child of fork(), the thread that forked has its
 * sentence, which stays valid there as in the parent. The library drops those of other threads.
 * Progress: takes a lock of the process for a moment.
 */
PERCPU_API const char *percpu_segment_error(const struct percpu_segment *s);

PERCPU_END_DECLS

#endif

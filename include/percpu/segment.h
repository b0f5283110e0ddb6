/* SPDX-License-Identifier: MIT */
/*
 * segment.h - named metrics in a file, in which any number of processes count.
 *
 * A segment is a shared region (region.h) with a directory: each metric has a name, a help text,
 * a unit, a kind, and labels. A process that declares a metric finds or creates the object of that
 * kind, and counts in it at the object's cost. Each process that declares the same metric gets the
 * same object, also after all other processes have ended or were killed.
 *
 * There is no server, and a killed process needs no cleanup: the next process continues from the
 * counts in the file.
 */
#ifndef PERCPU_SEGMENT_H
#define PERCPU_SEGMENT_H

#include <percpu/counter.h>
#include <percpu/error.h>
#include <percpu/exemplar.h>
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
 * Context: any thread; not a signal handler. A child of fork may use its parent's segments and
 * handles.
 * Ordering: none. A process that finds a metric finds its complete record.
 * Progress: opening and declaring take a lock of the process, and may take one between
 * processes, for which a call waits a second at most. Counting takes neither.
 */

/** Flags of percpu_segment_open() and percpu_segment_open_fd(). */
enum percpu_segment_flags {
	PERCPU_SEGMENT_CREATE = 1,    /* create the segment if there is none */
	PERCPU_SEGMENT_ANEW = 2,      /* reset all counts */
	PERCPU_SEGMENT_FOREIGN = 4,   /* open the file also if it is another user's */
	PERCPU_SEGMENT_DEBUG = 8,     /* check how it is used: see percpu_segment_close() */
	PERCPU_SEGMENT_FALLBACK = 16, /* open a private segment if the file cannot be had */
};

/** Options of a segment. Set size; 0 in another field means the default. */
struct percpu_segment_options {
	size_t size;   /* sizeof(struct percpu_segment_options) */
	uint32_t cpus; /* of a new segment: as in struct percpu_region_options */
	uint32_t mode; /* of a new file: permissions, whatever the umask is; default 0600. With
				0640 readers of the file's group can open it, with 0644 all readers */
	const char
		*program; /* UTF-8, 1 to 40 bytes: refuse a segment that another program has made.
				Default: any program's; a new segment has the name that the process
				was called by */
};

#define PERCPU_SEGMENT_PROGRAM 40 /* bytes of a program's name */

/**
 * Open a segment by name, to count in it. A process that only reads opens a reader instead
 * (reader.h), which needs no right to write. A name with a '/' is a path. Another name stands for the file
 * /dev/shm/percpu.NAME; a segment in /run/percpu, where readers look as well, is opened by its path.
 * With PERCPU_SEGMENT_CREATE, create the segment if there is none, with the
 * options o, which may be NULL. The file appears under its name as a complete segment, or not at
 * all. The segment keeps a descriptor of the file, with O_CLOEXEC: owners need it (owner.h).
 * percpu_error() says in words why it could not be opened (error.h).
 *
 * Counts continue from those in the file. With PERCPU_SEGMENT_ANEW they are reset first, for all
 * processes: counters, statistics, histograms and extrema are reset, and gauges set to 0, each
 * exactly. Latest values stay. Owned gauges stay: they belong to their owners. The metrics stay
 * declared. If the process is killed during the reset, the next process that opens the segment
 * completes it.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; unknown flags or options, or options that cannot be; or a name that is no
 *		path, and is empty, begins with a '.', or has other characters than letters, digits,
 *		'_', '.' and '-'
 *	-ENAMETOOLONG  such a name of more than 200 characters; or a name of a program of more than
 *		40 bytes
 *	-EILSEQ	the name of the program is not UTF-8
 *	-EEXIST	another program has made the segment, and o->program is set
 *	-ENOENT	there is no such file, or, with CREATE, no such directory
 *	-ELOOP	the file is a symbolic link
 *	-EISDIR	it is a directory
 *	-EPERM	the file is another user's, or is sealed
 *	-EBADMSG  the file is a region with another object at root 0, where segments have their
 *		directory; or it is no region, is empty, cut short or damaged; or it is a pipe, a
 *		device, or a socket (by its name: -ENXIO)
 *	-EPROTO	the file is of another version
 *	-ETIMEDOUT  for a second, another process is resetting or removing the segment, or holds a
 *		lock
 *	-ENOLCK	with ANEW, or to complete a reset: the file takes no locks
 *	-EBADF	with ANEW, or to complete a reset: the program has closed the descriptor
 *	-ERANGE, -ENOSPC, -EACCES, ...  as percpu_region_open()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_open(const char *name, unsigned flags,
						     const struct percpu_segment_options *o,
						     struct percpu_segment **ret);

/**
 * Return why the segment is private: the sentence of percpu_error() when its file could not be had.
 * With PERCPU_SEGMENT_FALLBACK a program then counts in a segment of its own, without a name, which
 * its children of fork share. Metrics do not take the program down. Readers do not find the segment.
 * NULL if the segment is in its file, or s is NULL. The sentence is valid until the segment is
 * closed.
 *
 * A name, an option or a flag that cannot be is a mistake of the program, which is not
 * covered. If there is no memfd either, percpu_segment_open() returns the error of the file. For
 * percpu_segment_open_table() the sentence may be about a row that the file cannot have.
 *
 * Context: signal handlers, too.
 * Progress: wait-free.
 */
PERCPU_API const char *percpu_segment_fallback(const struct percpu_segment *s);

/**
 * Open the segment in the file that fd refers to, such as a memfd. With PERCPU_SEGMENT_CREATE, make
 * an empty file a segment; on failure it stays empty. No other process may use the empty file
 * meanwhile. The descriptor stays the caller's. Without /proc, threads of a process that reset
 * segments opened by descriptor do so one at a time.
 *
 * Returns as percpu_segment_open(), and -EBADF if fd is closed, is opened with O_PATH, or is not
 * open for reading and writing. A pipe, a socket or a device is -EBADMSG, and a directory -EISDIR,
 * whatever fd is open for.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_open_fd(int fd, unsigned flags,
							const struct percpu_segment_options *o,
							struct percpu_segment **ret);

/**
 * Detach from the segment, and free all its handles and families. No thread may be using any of
 * them. The file stays. NULL is fine.
 *
 * With PERCPU_SEGMENT_DEBUG the library prints a sentence to standard error and aborts if the
 * process closes a segment twice, uses a segment or one of its handles after it closed the
 * segment, or closes it when a counter that the process declared is below 0. It prints one, too, if
 * the process counts by a handle that is NULL. To see these, it handles SIGSEGV in the process. It
 * passes on each SIGSEGV that is not by a closed segment. A closed segment keeps its addresses and some memory, but not its file.
 */
PERCPU_API void percpu_segment_close(struct percpu_segment *s);

/**
 * Remove the file of a segment, unless a process has it open to count. name is as for
 * percpu_segment_open(). A child of fork has its parent's segments open until it closes them, ends, or
 * calls exec. A process that opens the segment at the same time makes this call fail, or finds that
 * the file is gone: it then returns -ENOENT or creates the segment anew. Readers do not keep the file,
 * unless their pictures are consistent. The process needs permission to read and write the file, and
 * to write to its directory. percpu_error() says in words why the file was not removed.
 *
 * flags may be PERCPU_SEGMENT_FOREIGN: remove the file also if it is another user's.
 *
 * Returns 0, or, with the file in its place,
 *	-EBUSY	a process has it open to count, perhaps this one; or another one is removing it
 *	-ENOLCK	it cannot be known whether one has: the file takes no locks, or a process that could
 *		not lock it has opened it to count since the machine was started
 *	-EBADMSG  the file is a region and no segment; or as percpu_segment_open()
 *	-EACCES, -EPERM, -EROFS  the permissions of the file or of its directory; or the file is
 *		another user's
 *	-EINVAL, -ENAMETOOLONG, -ENOENT, -ELOOP, -EISDIR, -EPROTO, -ENOMEM, ...
 *		as percpu_segment_open()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_remove(const char *name, unsigned flags);

/** Kinds of metrics. */
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

/** The description of a metric. Set size and name; another field that is 0 is absent. */
struct percpu_metric {
	size_t size;			 /* sizeof(struct percpu_metric) */
	const char *name;		 /* UTF-8, 1 to 255 bytes */
	const char *help;		 /* UTF-8, up to 1023 bytes */
	const char *unit;		 /* UTF-8, up to 255 bytes */
	const char *const *label_names;	 /* UTF-8, 1 to 255 bytes each */
	const char *const *label_values; /* UTF-8, up to 4096 bytes each */
	size_t labels;			 /* how many, up to 64; 0: none, and no arrays */
};

#define PERCPU_METRIC_LABELS 64
#define PERCPU_METRIC_NAME 255	 /* bytes; also of a unit, and of a label's name */
#define PERCPU_METRIC_VALUE 4096 /* bytes of a label's value */
#define PERCPU_METRIC_HELP 1023	 /* bytes */

/** The fields of statistics. Each field is a counter of one metric: NAME{...,label="names[i]"} is
 *  the ith field of the struct. Set all. */
struct percpu_metric_fields {
	size_t size;		  /* sizeof(struct percpu_metric_fields) */
	const char *label;	  /* a label's name that none of the metric's labels has */
	const char *const *names; /* UTF-8, 1 to 255 bytes each, no two the same */
	size_t n;		  /* how many, 1 to PERCPU_STATS_MAX_COMMIT */
};

/** Initialize a struct percpu_metric_fields for statistics of a struct type. names is an array with
 *  one element per field of the struct; another number does not compile. */
#define PERCPU_METRIC_FIELDS(type, label, names)                                                   \
	{                                                                                          \
		sizeof(struct percpu_metric_fields), (label), (names),                             \
			sizeof(type) / 8 *                                                         \
				PERCPU_METRIC_NAMED(sizeof(type) / 8,                              \
						    sizeof(names) / sizeof((names)[0]))            \
	}

/* The number 1. Does not compile, and says why, unless each field has a name. */
#ifdef __cplusplus
extern "C++" {
template <size_t fields, size_t names> struct percpu_metric_named {
	static_assert(fields == names, "statistics have one name per field of the struct");
};
}
#define PERCPU_METRIC_NAMED(fields, names) sizeof(percpu_metric_named<(fields), (names)>)
#else
#define PERCPU_METRIC_NAMED(fields, names)                                                         \
	PERCPU_CHECKED((fields) == (names), "statistics have one name per field of the struct")
#endif

/**
 * Declare a metric: find the metric with that name and these values of labels, or create it. All
 * metrics of one name must have the same kind and unit, and labels of the same names in the same
 * order. Also, statistics must have the same fields, a histogram the same options, extrema the same
 * flags, an owned gauge the same rule and flags. The help text may differ: the first one stays.
 *
 * The segment keeps the handle until percpu_segment_close() detaches it. A process that declares a
 * metric again gets the same handle. percpu_error() says in words why a call failed, with both
 * values where they differ.
 *
 * What an exposition format can carry is accepted. percpu_metric_advice() says what naming guides
 * would say. No metric has a name that begins with percpu_family_. No label is named __name__; none
 * of a histogram is named le, none of a summary quantile, none of extrema extreme, and none of an
 * owned gauge with PERCPU_OWNED_EACH pid. The amounts that are added to a counter of a segment are
 * not negative: readers take a counter that fell for one that began anew. Exposition formats have
 * series with names of their own: NAME_total of a counter or statistics, NAME_bucket, NAME_count and
 * NAME_sum of a histogram, NAME_info of an info. No two metrics of a segment have series of one name.
 *
 * Return 0, or
 *	-EINVAL	a NULL; a name, label or field that is empty, is there twice, or is named as
 *		above; a struct of a size that no release had; unknown options, flags or rules, or
 *		those of another kind
 *	-ERANGE	as percpu_histogram_create()
 *	-ENAMETOOLONG  a name, a unit, a label or a help text is too long
 *	-EILSEQ	a text is not UTF-8
 *	-E2BIG	too many labels; or all texts together have more than 65 448 bytes
 *	-EEXIST	the segment has the name for a metric of another kind, unit, label names, fields,
 *		options, flags or rule, or for a family (family.h); or another metric has series
 *		of the same name
 *	-ENOSPC	the disk or the segment is full; a segment has room for 128 MiB of names. The name
 *		may be there by then; the next call completes it. Metrics declared before still
 *		count
 *	-ENOTSUP  a gauge on a machine that cannot change 16 bytes at once, such as those of 32
 *		bits
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
/** o may be NULL for all defaults. It must be for one histogram. Own bounds are copied into the
 *  file. */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_histogram(struct percpu_segment *s,
							  const struct percpu_metric *m,
							  const struct percpu_histogram_options *o,
							  struct percpu_histogram **ret);
/** flags are those of percpu_extrema_create(). */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_extrema(struct percpu_segment *s,
							const struct percpu_metric *m,
							unsigned flags,
							struct percpu_extrema **ret);
/** rule is one of enum percpu_owned_rule, and may have the flags PERCPU_OWNED_KEEP and
 *  PERCPU_OWNED_EACH (owned.h) beside it: PERCPU_OWNED_SUM | PERCPU_OWNED_KEEP. With
 *  PERCPU_OWNED_EACH no label is named pid. */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_owned_gauge(struct percpu_segment *s,
							    const struct percpu_metric *m,
							    unsigned rule,
							    struct percpu_owned_gauge **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_owned_fgauge(struct percpu_segment *s,
							     const struct percpu_metric *m,
							     unsigned rule,
							     struct percpu_owned_fgauge **ret);
/** f describes the fields. flags are those of percpu_stats_create(). The handle is of one object.
 *  For a handle h of PERCPU_STATS(), pass PERCPU_STATS_RET(&h) as ret. */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_stats(struct percpu_segment *s,
						      const struct percpu_metric *m,
						      const struct percpu_metric_fields *f,
						      unsigned flags, struct percpu_stats **ret);
/** Declare a metric that tells by its labels alone, such as a version. */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_info(struct percpu_segment *s,
						     const struct percpu_metric *m);

/**
 * Take a slot among the segment's owners (owner.h), under a name such as the number of a worker.
 * Call this in each process, after fork(), and before its first update of an owned gauge, which would
 * take a slot without a name.
 *
 * flags may be PERCPU_OWNERS_RESUME: the process goes on with the values that a dead owner of the
 * name has in owned gauges. So a worker that is started again takes the place of its predecessor.
 *
 * Returns as percpu_owners_join_as(), or
 *	-EBADMSG  the file is damaged, or is a region with something else at root 1
 * percpu_error() says in words why the call failed: with -EEXIST, which process lives under the
 * name.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_join(struct percpu_segment *s, const char *name,
						     unsigned flags);

/**
 * Give this process's slot among the segment's owners back, as percpu_owners_leave(): its values in
 * owned gauges become those of a dead owner. The segment stays open. The next update of an owned
 * gauge, or percpu_segment_join(), joins again. Meanwhile no other thread may update an owned gauge:
 * that may be lost, or count for a later owner of the slot, in any process.
 *
 * Returns 0, also if this process has no slot; or -EINVAL: s is NULL.
 */
PERCPU_API int percpu_segment_leave(struct percpu_segment *s);

/**
 * Find or create the exemplars of a counter, a counter of doubles, or a histogram that this process
 * has declared (exemplar.h). m has its name and its labels. Only then the metric takes memory for
 * exemplars; its handle stays as it is. A reader finds them beside the values:
 * percpu_reader_exemplar().
 *
 * The segment keeps the handle until percpu_segment_close() detaches it. A second call returns the
 * same one. PERCPU_SEGMENT_ANEW forgets all exemplars. percpu_error() says in words why a call
 * failed.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; m is no metric; the metric is of another kind
 *	-ENOENT	this process has not declared the metric
 *	-ENAMETOOLONG, -EILSEQ, -E2BIG  as percpu_segment_counter()
 *	-ENOSPC	the disk or the segment is full
 *	-EBADMSG  the file is damaged
 *	-ENOMEM, -ETIMEDOUT  as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_exemplars(struct percpu_segment *s,
							  const struct percpu_metric *m,
							  struct percpu_exemplars **ret);

/**
 * Return the nth thing, from 0, that promtool or a naming guide would say of such a metric; NULL if
 * there is no more, or m is NULL or no metric. It is a sentence without a full stop, and stays valid.
 * A segment accepts the metric all the same.
 *
 * Context: signal handlers, too.
 * Progress: wait-free.
 */
PERCPU_API const char *percpu_metric_advice(const struct percpu_metric *m,
					    enum percpu_metric_kind kind, size_t n);

/** When something has started. Times are in ns. */
struct percpu_segment_start {
	uint64_t generation; /* current one of the segment: 1, plus 1 for each reset */
	uint64_t real;	     /* CLOCK_REALTIME at the start */
	uint64_t boottime;   /* CLOCK_BOOTTIME at the start */
	uint64_t age;	     /* time since the start */
	uint32_t this_boot;  /* 1: it was in this boot of the machine; 0: in another, or unknown */
	uint32_t reserved;
};

/**
 * Tell when the segment has started: when it was created, or last opened with PERCPU_SEGMENT_ANEW.
 * If that was in this boot, the age is right even if CLOCK_REALTIME was set meanwhile. Otherwise
 * the age is that by CLOCK_REALTIME, or 0 if this clock went back. A start in another time
 * namespace counts as one in another boot, because CLOCK_BOOTTIME differs there.
 *
 * Returns 0, or -EINVAL (a NULL).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_started(struct percpu_segment *s,
							struct percpu_segment_start *ret);

/**
 * Tell when the counts of one series have started: when it was declared, or when the segment was
 * reset after that. The name and the labels' values of m say which series. Another process may have
 * declared it.
 *
 * Returns 0, or
 *	-EINVAL, -ENAMETOOLONG, -EILSEQ, -E2BIG, -ENOMEM  as percpu_segment_counter()
 *	-ENOENT	there is no such series
 *	-EAGAIN	other processes change the directory again and again
 *	-ETIMEDOUT  another process has held the lock for a second
 *	-EBADMSG  the file is damaged
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_segment_series_started(struct percpu_segment *s,
							       const struct percpu_metric *m,
							       struct percpu_segment_start *ret);

PERCPU_END_DECLS

#endif

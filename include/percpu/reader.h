/* SPDX-License-Identifier: MIT */
/*
 * reader.h - reading all metrics of a segment (segment.h) from outside.
 *
 * A reader copies the file with pread(2) into its own memory, and checks and reads the copy. It
 * maps nothing, so a file that is cut short causes an error and no signal, and nothing changes
 * between a check and the use of what was checked. The reader only needs permission to read the
 * file. It stores nothing in the file, takes no lock, and does not disturb the processes that
 * count.
 *
 * percpu_reader_read() takes a picture: a copy of all metrics, one lane after the other. The other
 * calls return what the picture has. They take the number of a series, from 0 up to but without
 * percpu_reader_count(). Series are in the order of names.
 *
 * The first call that needs to know whether an owner of an owned gauge lives (owner.h) asks the
 * kernel. The answer holds until the next picture, so all calls agree on one picture. An owner that
 * ends before that call is dead in the picture. One that ends later lives in it.
 */
#ifndef PERCPU_READER_H
#define PERCPU_READER_H

#include <stdio.h>

#include <percpu/error.h>
#include <percpu/segment.h>

PERCPU_BEGIN_DECLS

struct percpu_reader;

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: any thread, but one thread at a time for the same reader; not a signal handler. A child
 * of fork has its own copy of the reader.
 * Ordering: a picture includes what was counted before percpu_reader_read() was called.
 * Progress: calls take only locks of this process, for a moment. A process that counts, declares or
 * is stopped does not make a reader wait, unless pictures are consistent. percpu_reader_read() has
 * a bound that no other process can raise. percpu_reader_set_timeout() sets a shorter bound for it,
 * but for no other call. percpu_reader_open() reads a header of 4 KiB for each chunk of the file;
 * there can be 4096 chunks. percpu_reader_close() frees the memory of the picture. A process that
 * must not wait for another user's file opens, reads and closes it in a child or in a thread.
 */

/**
 * Open a segment by name, as percpu_segment_open(). A name with a '/' is a path. Another name
 * stands for the file /dev/shm/percpu.NAME; or, if there is no such file, for /run/percpu/NAME, where
 * percpu_segment_open() does not look. The name is looked up once: the reader stays with the path at
 * which it has found the file, and if that was /run/percpu/NAME, it reads on when there is a
 * /dev/shm/percpu.NAME later. A program that must not have that one names the path. There
 * is no picture before percpu_reader_read(). The reader keeps a descriptor of the file, with
 * O_CLOEXEC. Directories of a path may be symbolic links; the file may not. percpu_error() says in
 * words why it could not be opened (error.h).
 *
 * Returns 0, or
 *	-EINVAL, -ENAMETOOLONG, -ELOOP  as percpu_segment_open()
 *	-ENOENT	there is no such file; or the file is a region with nothing at root 0
 *	-EBADMSG  the file is a region with another object at root 0, where segments have their
 *		directory; or it is no region, is empty, cut short or damaged; or it is a pipe, a
 *		device, or a socket (by its name: -ENXIO)
 *	-EPROTO	the file is of another version
 *	-EISDIR	it is a directory
 *	-ENOMEM
 *	-EACCES, -EMFILE, ...  as open(2), of the second file if there is no first one
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_open(const char *name, struct percpu_reader **ret);

/** Open the segment in the file that fd refers to. The descriptor stays the caller's. Returns as
 *  percpu_reader_open(), and -EBADF if fd is closed, is opened with O_PATH, or is not open for
 *  reading. A pipe, a socket or a device is -EBADMSG whatever fd is open for. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_open_fd(int fd, struct percpu_reader **ret);

/** Free the reader and its picture. NULL is fine. */
PERCPU_API void percpu_reader_close(struct percpu_reader *r);

/**
 * Take a picture, which replaces the previous one.
 *
 * The picture has what each CPU had counted at some moment of the call. If a value is reset or set
 * between these moments, it is read again. So a counter that only grows has a value that it had
 * during the call. A value that goes up on one CPU and down on another may be read as one that it
 * never had. percpu_gauge_fetch() can return such a value, too, but takes less time between CPUs.
 * Two metrics may be of different moments.
 *
 * A series that is declared during the call may be in the picture or not. If the call continues an
 * earlier one that had no time to list all records or to read a value, this holds for series
 * declared since the earlier call. A series that is removed during the call, or begins anew, is in
 * the picture as it was before, or not at all. If the segment is reset meanwhile, the picture is from
 * before or from after the reset.
 *
 * No other process can make the call read for long:
 *
 * - If the lanes are much larger than the file's data, the call searches them for data (lseek(2),
 *   SEEK_DATA), and reads no lane without data. Where the file system does not tell, everything
 *   counts as data.
 * - A value that is set or reset while it is read is read again, up to 64 times. All of these
 *   together cost at most 8 times as much as reading everything once, or as 16384 reads of 4 KiB if
 *   that is more. Each call of pread(2) costs as much as 4 KiB. A value for which this is not
 *   enough is missing: its call returns -EAGAIN, percpu_reader_info.missing counts it, and
 *   percpu_error() names the first one. All other values are in the picture.
 * - If series are removed, or found again, all records are copied twice more, once all values are
 *   read.
 * - If the segment is reset, the picture is begun again, up to 16 times in all, as long as all of
 *   this has cost less than 3 pictures that nobody disturbs, or than 65536 reads of 4 KiB if that is
 *   more. To list a record costs as much as 4 KiB. The budget for values that are read again does
 *   not grow with the number of tries.
 *
 * Returns 0; percpu_error() names the first value that is missing, if one is. Or returns, with no
 * picture (percpu_reader_count() is 0), and with a sentence of percpu_error(),
 *	-EBADMSG  the file is cut short or damaged, or is no segment any more
 *	-EPROTO	the file is of another version now
 *	-ESTALE	the path leads to another file now, or to none: open a new reader. Not told of a
 *		name that the process may no longer follow (setuid(2)), or that was relative to a
 *		removed directory
 *	-EAGAIN	a process is resetting the segment. It may be stopped. If it was killed, the next
 *		process that opens the segment to count completes the reset
 *	-EAGAIN	the time of percpu_reader_set_timeout() was over before any value was read. The next
 *		call continues with the records that this one has copied and listed
 *	-ENOMEM
 *	-EIO, ...  as pread(2)
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_read(struct percpu_reader *r);

/**
 * Set a timeout for percpu_reader_read(), in ns of CLOCK_MONOTONIC since its call. After that time
 * the call begins no read of records or values, and lists no record. 0, the default, is no timeout.
 *
 * Before a call lists a record, it reads all headers, and the bias lanes other than the records. If
 * the time is too short for these, each call returns -EAGAIN, also if an earlier call has listed
 * all records: no value can be read without them.
 *
 * If a call has to list records and is not done by then, it returns -EAGAIN, and the next call
 * continues: so the first picture of a large segment takes several calls. A call that comes to read
 * values returns 0. Values that it has not read in time are missing, like those that change all the
 * time.
 *
 * The call may return later than the timeout says. It ends the read that it has begun, and reads a
 * word for each family. A snapshot of consistent statistics that it has begun may take a second.
 * Before the call lists records it counts them all, after that it sorts them, and if series were
 * removed meanwhile it copies all records twice, without checking the time: this takes longer the
 * more series there are. docs/segment/reader.md has measurements.
 *
 * Returns 0, or -EINVAL if r is NULL.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_set_timeout(struct percpu_reader *r,
							   uint64_t timeout_ns);

/**
 * Let later pictures be consistent: all fields of statistics (percpu_segment_stats()) are of one
 * moment, by percpu_stats_snapshot(). Without this call each field is read by itself, and an update
 * may be in one field and not yet in another.
 *
 * The call opens the segment to count, so the process needs permission to write to the file. It
 * maps the file, so it must trust the other processes that may write to it. Afterwards there is no
 * picture before the next percpu_reader_read(). A picture may wait a second for each statistics if
 * another process was stopped during a snapshot of them. A second call does nothing.
 *
 * Returns 0; or, with nothing changed, as percpu_segment_open() with
 * PERCPU_SEGMENT_FOREIGN, or -ESTALE as percpu_reader_read().
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_set_consistent(struct percpu_reader *r);

/** Facts about the segment. Times are in ns of CLOCK_REALTIME, as that clock was set when the
 *  picture was taken. So read minus a time is how long ago it was, also if the clock was set
 *  meanwhile. For an earlier boot of the machine, a time is what the clock said then. A time that
 *  would be before 1970 is 0. */
struct percpu_reader_info {
	uint64_t generation; /* 1, plus 1 for each reset of the segment */
	uint64_t since;	     /* when the generation began */
	uint64_t read;	     /* when the picture was taken */
	uint32_t cpus;	     /* lanes of CPUs */
	uint32_t consistent; /* 1: after percpu_reader_set_consistent() */
	uint32_t pending;    /* records without a metric: being declared, left by a killed
				process, or damaged */
	uint32_t missing;    /* series without a value: the calls below say why */
	char program[PERCPU_SEGMENT_PROGRAM + 1]; /* which made the segment */
};

/** Return facts about the segment and the picture. Returns 0, or -EINVAL: a NULL, or no picture. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_info(const struct percpu_reader *r,
						    struct percpu_reader_info *ret);

/** Return how many series the picture has; 0 if there is no picture. */
PERCPU_API size_t percpu_reader_count(const struct percpu_reader *r);

/** A series. Texts are UTF-8, and valid until the next picture. */
struct percpu_reader_series {
	const char *name; /* series of the same name follow each other */
	const char *help; /* "" if there is none */
	const char *unit; /* "" if there is none */
	const char *const *label_names;
	const char *const *label_values;
	const char *field;	   /* of statistics: the label whose values are the names of the
				      fields; else "" */
	const char *const *fields; /* of statistics: the names of the n fields */
	uint32_t labels;	   /* number of label_names, and of label_values */
	uint32_t n;		   /* number of values: 1; of statistics, one for each field */
	uint32_t kind;		   /* enum percpu_metric_kind */
	uint32_t flags;		   /* flags of extrema; PERCPU_HISTOGRAM_SUMMARY of a summary;
				      rule and flags of an owned gauge: enum
				      percpu_owned_rule, PERCPU_OWNED_KEEP and
				      PERCPU_OWNED_EACH */
	uint32_t cap;		   /* cap of its family (family.h); 0: it has no family */
	uint32_t removed;	   /* of its family: removed series that still take space */
	uint64_t since;		   /* when its counts began, as in struct percpu_reader_info */
	uint64_t overflows;	   /* of its family: how often there was no room for a series */
	uint64_t invalid;	   /* of its family: how often a value could not be a label's */
};

/** Return the description of series i. Returns 0, or -EINVAL: a NULL, or there is no series i. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_series(const struct percpu_reader *r, size_t i,
						      struct percpu_reader_series *ret);

/*
 * The values of series i. A process that damages the file can make any value wrong: a double may be
 * infinite or not a number, such as that of an owned gauge, although no call stores such a value.
 *
 * These calls return 0, or
 *	-EINVAL	a NULL; there is no series i; or it is of another kind
 *	-ENODATA  there is no value yet: nothing was observed, or set
 *	-EAGAIN	the value was set or reset again and again while it was read; or there was no time
 *	-ETIMEDOUT, -EPERM, ...  of consistent statistics, as percpu_stats_snapshot()
 */

/** Return the value of a counter. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_counter(const struct percpu_reader *r, size_t i,
						       uint64_t *ret);

/** Return the value of a gauge; or of an owned gauge by its rule: over the owners that live, or, with
 *  PERCPU_OWNED_KEEP, over all that it ever had. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_gauge(const struct percpu_reader *r, size_t i,
						     int64_t *ret);

/** Return the value of a kind that is one value, as a double: counters, gauges and owned gauges (as
 *  percpu_reader_gauge()), of either type, latest values, and 1 for an info. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_number(const struct percpu_reader *r, size_t i,
						      double *ret);

/** Return the value of an owned gauge by its rule, over all owners that it ever had, or over those
 *  that live. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_owned_fetch(const struct percpu_reader *r, size_t i,
							   enum percpu_owned_of of, double *ret);

/** Return when a latest value was set, in ns of CLOCK_REALTIME. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_when(const struct percpu_reader *r, size_t i,
						    uint64_t *ret);

/** Return a snapshot of a histogram, for percpu_histogram_quantile() and the like. The caller
 *  destroys it (percpu_histogram_snapshot_destroy()). Also returns -ENOMEM. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_histogram(const struct percpu_reader *r, size_t i,
							 struct percpu_histogram_snapshot **ret);

/**
 * Return the exemplar in slot k of a counter or a histogram, as percpu_exemplars_fetch(). A series
 * without exemplars has no slot, so a loop over all slots ends at -EINVAL. An exemplar may be of an
 * event that the value in the picture does not include, or the other way around.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_exemplar(const struct percpu_reader *r, size_t i,
							size_t k, struct percpu_exemplar *ret);

/** Return extrema of doubles, or of integers as doubles. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_extrema(const struct percpu_reader *r, size_t i,
						       double *ret_min, double *ret_max);

/** Return the counters of statistics. n must be the number of fields. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_stats(const struct percpu_reader *r, size_t i,
						     uint64_t *out, size_t n);

/** Return the value of each owner of an owned gauge, as percpu_owned_gauge_each(): value or fvalue,
 *  by the kind of the gauge. Store up to n of them, and set *ret_n to how many there are. */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_owned_each(const struct percpu_reader *r, size_t i,
							  struct percpu_owned_value *out, size_t n,
							  size_t *ret_n);

/**
 * Return what readers show of an owned gauge with PERCPU_OWNED_EACH: a value for each name of owners
 * (owner.h), sorted by names. The name of an owner without one is its pid, in decimal. Owners of the
 * same name are one, of which alive, id and pid are those of the last living one: the rule of the
 * gauge folds their values.
 *
 * The values are those of the living owners; with PERCPU_OWNED_KEEP also those of dead ones, until
 * another process takes the slot. Store up to n of them, and set *ret_n to how many there are.
 *
 * Also returns -EINVAL for another gauge, and -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_owned_shown(const struct percpu_reader *r, size_t i,
							   struct percpu_owned_value *out, size_t n,
							   size_t *ret_n);

/**
 * Read from the file what each CPU has added to a counter or a gauge: out[cpu], for n CPUs. n is at
 * most percpu_reader_info.cpus. The call reads the current counts, not those of the picture. They
 * do not include counts of threads that run no sequences. A reset or set does not change them. If
 * the series was removed after the picture, they may be those of a series that has its place now.
 *
 * Also returns -EBADMSG, -EIO, ... as percpu_reader_read(), and -ENOMEM if there is no memory for
 * a copy of more than 4096 bytes.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_cpus(struct percpu_reader *r, size_t i, double *out,
						    size_t n);

/** Formats of percpu_reader_print(). */
enum percpu_print_format {
	PERCPU_PRINT_PROMETHEUS, /* text for Prometheus, version 1.0.0; without names that need
				    quotes also 0.0.4 */
	PERCPU_PRINT_JSON,	 /* an array of objects with type, name, labels and value; some have
				    an exemplar with labels, value and time, in seconds */
};

/**
 * Print the values of the picture that are there. Buckets of histograms end at own bounds, or else
 * at powers of two. A summary has no buckets; but if other series of its name have, it has one for
 * all values. An owned gauge with PERCPU_OWNED_EACH has a sample for each owner, with the name in a
 * label pid. A counter percpu_family_overflows_total says how often calls got the overflow of each
 * family. Numbers, and bounds as texts, are the same in all locales, and read as the same doubles.
 *
 * Returns 0, or
 *	-EINVAL	a NULL, no picture, or no such format
 *	-EIO	the stream has an error
 *	-ENOMEM	there is no memory for a histogram. The series before it were printed
 *
 * Context: any thread that may use the stream; not a signal handler.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_print(const struct percpu_reader *r, FILE *to,
						     enum percpu_print_format form);

/** List the processes that have a slot in the segment (owner.h), dead or alive, as
 *  percpu_owners_list(). Returns how many there are. */
PERCPU_API size_t percpu_reader_owners(const struct percpu_reader *r, struct percpu_owner_info *out,
				       size_t n);

/** What is known of a fact. */
enum percpu_fact {
	PERCPU_FACT_NO,
	PERCPU_FACT_YES,
	PERCPU_FACT_UNKNOWN,
};

/** The state of a lock. */
enum percpu_lock_state {
	PERCPU_LOCK_FREE,
	PERCPU_LOCK_HELD,
	PERCPU_LOCK_DIED, /* its holder has died; the next process takes it over */
};

/** Facts about a file. */
struct percpu_reader_facts {
	uint64_t file_bytes;	  /* its length */
	uint64_t disk_bytes;	  /* what it takes on the disk, or in memory */
	uint64_t cells_used;	  /* bytes of a lane that are allocated, in all chunks */
	uint64_t cells_free;	  /* bytes of a lane that are not, in the chunks that there are */
	uint64_t records_bytes;	  /* bytes of records, with the gaps between them */
	uint64_t records_most;	  /* the most bytes of records that there can be */
	uint32_t format_major;	  /* major version of the file */
	uint32_t format_minor;	  /* minor version */
	uint32_t version;	  /* version of the segment in it */
	uint32_t chunks;	  /* which it is made of */
	uint32_t chunks_most;	  /* the most that the file has room for */
	uint32_t records_in_use;  /* of series and families */
	uint32_t records_removed; /* of removed series, and of overflows without a count */
	uint32_t records_pending; /* of those in use: without an object. They are being declared, or
				      a process was killed meanwhile */
	uint32_t counting;	  /* enum percpu_fact: a process has the segment open to count */
	uint32_t lock;		  /* enum percpu_lock_state: of the lock of the region */
	uint32_t lock_holder; /* id of the thread that holds it, in its PID namespace, or that has
				      died with it; 0: none, or not known */
	uint32_t reset_unfinished; /* 1: a reset is going on, or its process was killed */
	uint32_t owners_alive;	   /* processes with a slot (owner.h) that live */
	uint32_t owners_dead;	   /* slots of processes that have ended */
};

/**
 * Find out in which state the file is now. The call needs no picture, and leaves the picture as it is.
 * It only needs permission to read the file. It reads the header of each chunk, all records, and the
 * slots of owners: 4096 headers of 4 KiB, 128 MiB and 512 KiB at most. It reads no record if the
 * picture has them as they are now. Facts may be of different moments of the call.
 *
 * Whether a process counts is what the kernel says of a lock (docs/segment/segment.md). Any process
 * that may read the file can take it, so PERCPU_FACT_YES may be wrong; PERCPU_FACT_NO is not.
 *
 * Returns 0, or with a sentence of percpu_error()
 *	-EINVAL	a NULL
 *	-ESTALE	the path leads to another file now, or to none: open a new reader
 *	-EBADMSG, -EPROTO, -ENOMEM, -EIO, ...  as percpu_reader_read()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_reader_facts(struct percpu_reader *r,
						     struct percpu_reader_facts *ret);

PERCPU_END_DECLS

#endif

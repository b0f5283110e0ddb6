/* SPDX-License-Identifier: MIT */
/*
 * reader.h - what the sources of readers share among themselves.
 */
#ifndef PERCPU_SEGMENT_READER_H
#define PERCPU_SEGMENT_READER_H

#include <percpu/reader.h>

#include "segment.h"

/** Cells with so many bytes between them are read by one call: a second one takes as long as it
 *  takes to copy twice as many. */
#define PERCPU_NEAR 4096

/** How cells of several lanes become one. */
enum percpu_fold {
	PERCPU_FOLD_WORDS,   /* sums of integers */
	PERCPU_FOLD_DOUBLES, /* sums of doubles, in the order of the lanes */
	PERCPU_FOLD_HISTOGRAM,
	PERCPU_FOLD_EXTREMA,
	PERCPU_FOLD_STATS, /* in two copies */
};

/** Adjacent cells of a chunk that fold alike. */
struct percpu_part {
	uint32_t chunk;
	uint32_t offset;
	uint32_t bytes;
	uint32_t unit; /* bytes that change together, if more than a word; else 0 */
	enum percpu_fold fold;
	const void *object; /* whose it is; NULL for words and doubles */
};

/** A series of the picture. */
struct percpu_entry {
	struct percpu_part part; /* bytes 0: it has nothing in the CPUs' lanes */
	uint32_t bias;		 /* bytes in the bias lane that a set or a reset changes; 0: none */
	uint32_t bias_at;
	int error; /* of its value */
	void *object;
	struct percpu_segment_time declared;
	unsigned kind;
	uint64_t key;		   /* of statistics, */
	struct percpu_stats *live; /* these in the file, or NULL, */
	uint64_t *values;	   /* and what they had */
	uint32_t labels, fields;
	const char *name, *help, *unit;
	const char **label;		     /* names, values, names of fields */
	const struct percpu_kindred *family; /* or NULL */
};

/** Series whose biases are near each other. */
struct percpu_biases {
	uint32_t chunk;
	uint32_t offset;
	uint32_t bytes;
	bool failed; /* one was changed meanwhile */
	size_t first, n;
};

/** A family of the picture. */
struct percpu_kindred {
	const char *name, *help;
	const struct percpu_segment_record *record; /* in the image */
	uint32_t cap;
	uint32_t removed;
	uint64_t overflows;
};

/** What tells whether the directory has changed. */
struct percpu_directory_state {
	uint64_t generation, settled, changes, end;
};

struct percpu_reader {
	int fd;	    /* during a call */
	char *path; /* NULL: a descriptor was told */
	uint64_t chunk_size;
	uint32_t cpus;		     /* lanes of the file */
	struct percpu_segment *s;    /* in the image */
	struct percpu_segment *live; /* in the file, for consistent pictures; or NULL */
	unsigned char *first;	     /* bytes of a lane, */
	unsigned char *second;	     /* what is there a moment later, */
	unsigned char *third;	     /* and then */
	struct percpu_reason why;

	/* what pictures may cost: reader_limit.c */
	uint64_t timeout_ns; /* of a picture; 0: none */
	uint64_t deadline;   /* of this picture; 0: none */
	bool late;	     /* it is over */
	bool skips;	     /* lanes without data are looked for, and not read */
	int seeks;	     /* the descriptor to look with; or -1 */
	uint64_t has;	     /* bytes of data in the file */
	uint64_t cost;	     /* of all that was read for the picture, */
	uint64_t lanes;	     /* of this: of lanes that nobody looked for data in, */
	uint64_t before;     /* of this: before the picture was begun for the last time, */
	uint64_t again;	     /* and of what was read again because others had changed it: */
	bool repeats;	     /* that is being done */
	uint64_t looked;     /* what it cost to look at records, */
	uint64_t begun;	     /* what each time cost that the picture was begun, all together, */
	uint64_t whole;	     /* and what one costs to its end, at least, as far as is known */

	/* the directory */
	const char *cell;			  /* of the control, in the image */
	struct percpu_directory_state state;	  /* as it was copied */
	uint64_t copied;			  /* bytes of records that are in the image */
	bool has_records[PERCPU_MAX_FILE_CHUNKS]; /* and nothing else */
	bool kept;   /* when the picture failed, these were of one state of the directory */
	bool listed; /* the series are those of these records */

	/* the picture */
	struct percpu_entry *entry;
	size_t n;
	struct percpu_part *part;
	size_t parts;
	struct percpu_entry **set; /* those that a set or a reset changes, in the order of biases */
	size_t sets;
	struct percpu_biases *run; /* these, in runs */
	size_t runs;
	struct percpu_kindred *family; /* in the order of names */
	size_t families;
	char *text; /* of the series */
	const char **words;

	/* the list of series, while it is being made, by one call or by several */
	uint64_t (*begins)[PERCPU_UNITS / 64]; /* per chunk: an object that a series has begins
						  there; NULL: no list is being made */
	uint32_t chunks;		       /* so many */
	uint64_t at;			       /* the next record */
	char *next_text;
	const char **next_word;

	struct percpu_segment_time began, taken; /* the generation; the picture */
	uint32_t pending;
	uint32_t missing; /* series whose value is an error */
	bool flawed;	  /* there may be such series */
	bool valid;
};

/* reader_copy.c: the file, and its image */

/** Read from the file. Returns 0, -EBADMSG if it ends before, or -errno, and why. */
int percpu_reader_pread(struct percpu_reader *r, void *to, size_t n, uint64_t at);

/** Return where a lane's byte is in the file. */
uint64_t percpu_reader_place(const struct percpu_reader *r, uint32_t chunk, uint32_t lane,
			     size_t offset);

/** Copy all headers, the directory or its control alone, or what else is in the bias lanes. Return 0
 *  or -errno, and why. */
int percpu_reader_copy_headers(struct percpu_reader *r);
int percpu_reader_copy_control(struct percpu_reader *r);
int percpu_reader_copy_directory(struct percpu_reader *r);
int percpu_reader_copy_biases(struct percpu_reader *r);

/** Whether the directory is as it was copied. Returns 0, -EAGAIN, or -errno, and why. */
int percpu_reader_recheck(struct percpu_reader *r);

/* reader_limit.c: what a picture may cost */

/** Begin and end a picture, begin it once more, and look how much data the file has before its lanes are
 *  read. */
void percpu_reader_begin(struct percpu_reader *r);
void percpu_reader_begin_anew(struct percpu_reader *r);
void percpu_reader_measure(struct percpu_reader *r);
void percpu_reader_end(struct percpu_reader *r);

/** Whether the time for the picture is over; percpu_reader_hurry() also says so: 0 or -EAGAIN. What is
 *  copied and listed by then is kept for the next picture. */
bool percpu_reader_is_late(struct percpu_reader *r);
int percpu_reader_hurry(struct percpu_reader *r);

/** Whether to list one more record: there is time, and, every now and then, all are as they were
 *  copied. Returns 0 or -errno, and why. */
int percpu_reader_may_list(struct percpu_reader *r);

/** Count what is read: so many bytes. */
void percpu_reader_charge(struct percpu_reader *r, size_t bytes);

/** Return what it costs to look at records: so many bytes of them. */
uint64_t percpu_reader_cost_of_records(uint64_t bytes);

/** Whether the picture may be begun once more, for what it has cost so far. A whole one is expected to
 *  cost so much, or more. */
bool percpu_reader_may_begin(struct percpu_reader *r);
void percpu_reader_expect(struct percpu_reader *r, uint64_t cost);

/** Whether something may be read once more because others have changed it. */
bool percpu_reader_may_repeat(struct percpu_reader *r);

/** Decide whether to read so many lanes of so many bytes each, or to look for data first. */
void percpu_reader_plan(struct percpu_reader *r, size_t lanes, size_t bytes);

/** Return the lane itself if it has data at these bytes, else a later one that may be the next that
 *  does. */
uint32_t percpu_reader_seek(struct percpu_reader *r, const struct percpu_part *p, size_t bytes,
			    uint32_t lane);

/** Count the series that have no value, and say which. */
void percpu_reader_tell_missing(struct percpu_reader *r);

/* reader_parts.c */

/** The order of parts in the file, for qsort(3). */
int percpu_reader_compare_parts(const void *a, const void *b);

/** Collect the parts of all entries, or those that a set or a reset changes, as few as can be. */
void percpu_reader_collect_parts(struct percpu_reader *r);
void percpu_reader_collect_sets(struct percpu_reader *r);

/* reader_list.c */

/** List the series that the directory has, and attach to their objects; go on with a list that there
 *  was no time for. Returns 0, -ENOMEM, -EAGAIN if the time for the picture is over, or as
 *  percpu_reader_recheck(), and why. */
int percpu_reader_list(struct percpu_reader *r);
void percpu_reader_unlist(struct percpu_reader *r);

/** Append bytes as a string. Returns NULL if they are none. */
const char *percpu_reader_string(char **at, const unsigned char *bytes, size_t n);

/* reader_family.c */

/** List the families, with their texts at *text, and let the series know theirs. Returns 0 or
 *  -ENOMEM. */
int percpu_reader_list_families(struct percpu_reader *r, struct percpu_record_copy *c, char *text);

/** Read how often each family overflowed. Returns 0 or -errno, and why. */
int percpu_reader_overflows(struct percpu_reader *r);

/* reader_fold.c */

/** Add up the lanes of all parts in the image. A series that others change again and again, or for
 *  which there is no time, gets an error. Returns 0 or -errno, and why. */
int percpu_reader_gather(struct percpu_reader *r);

/* reader_live.c */

/** Take snapshots of all statistics, if pictures are to be consistent. */
void percpu_reader_snapshot(struct percpu_reader *r);

/** Forget the statistics in the file. */
void percpu_reader_leave(struct percpu_entry *s);

/* reader.c */

/** Whether the name still leads to the file. Returns 0, or -ESTALE and why. */
int percpu_reader_check_name(struct percpu_reader *r);

/** Let the calls use the descriptor. Returns 0, or -EBADF if the program has closed it. */
int percpu_reader_use(struct percpu_reader *r);

#endif

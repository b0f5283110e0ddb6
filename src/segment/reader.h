/* SPDX-License-Identifier: MIT */
/*
 * reader.h - what the sources of readers share among themselves.
 */
#ifndef PERCPU_SEGMENT_READER_H
#define PERCPU_SEGMENT_READER_H

#include <percpu/reader.h>

#include "segment.h"

/** Cells that have at most so many bytes between them are read by one call. A second call takes as
 *  long as copying twice as many bytes. */
#define PERCPU_NEAR 4096

#define PERCPU_NO_READER "the reader is NULL"

/** A series of the picture. */
struct percpu_picture_series {
	struct percpu_cells cells;
	int error; /* 0, or why the series has no value */
	unsigned kind;
	void *object;
	struct percpu_exemplars *exemplars; /* or NULL */
	struct percpu_segment_time declared;
	uint64_t at;		   /* place of the record among all records */
	uint64_t key;		   /* of the object */
	struct percpu_stats *live; /* the statistics in the mapped file, or NULL */
	uint64_t *values;	   /* snapshot of the statistics, for consistent pictures */
	uint32_t labels, fields;
	const char *name, *help, *unit;
	const char **label;			    /* names of labels, and of that of the fields */
	const char **value;			    /* values of labels, names of fields */
	const struct percpu_picture_family *family; /* or NULL */
};

/** Series whose biases are near each other. */
struct percpu_biases {
	uint32_t chunk;
	uint32_t offset;
	uint32_t bytes;
	bool failed;	 /* a series must be read again, because it was set or reset meanwhile */
	size_t first, n; /* index of the first series in percpu_reader.set, and how many */
};

/** A family of the picture. */
struct percpu_picture_family {
	const char *name, *help;
	const struct percpu_segment_record *record; /* in the image */
	uint32_t cap;
	uint32_t removed;
	uint64_t invalid, overflows;
};

#define PERCPU_ALIKE 64

/** Numbers that show whether the directory has changed. */
struct percpu_directory_state {
	uint64_t generation, completed, changes, end;
};

struct percpu_reader {
	int fd;	       /* descriptor of the file; valid during a call */
	uint32_t cpus; /* lanes of the file */
	char *path;    /* from the root; NULL: opened by a descriptor, or not known */
	uint64_t chunk_size;
	struct percpu_segment *s;    /* the segment in the image */
	struct percpu_segment *live; /* the mapped segment, if pictures are consistent; or NULL */
	unsigned char *first;	     /* buffer for bytes of a lane */
	unsigned char *second;	     /* buffer for the same bytes, read again to compare */
	unsigned char *third;	     /* buffer for one unit that differed, read again */
	struct percpu_reason why;    /* what the call that is going on has found wrong */

	/* what pictures may cost: reader_limit.c */
	uint64_t timeout_ns; /* for one picture; 0: none */
	uint64_t deadline;   /* of this picture; 0: none */
	bool late;	     /* the deadline has passed */
	bool skips;	     /* lanes are searched for data first, and holes are not read */
	bool repeats;	     /* values are being read again */
	int seeks;	     /* the descriptor for the search; -1: none */
	uint64_t has;	     /* bytes of data in the file */
	uint64_t cost;	     /* cost of all reads for the picture */
	uint64_t lanes;	     /* part of cost: lanes that were read without a search for data */
	uint64_t before;     /* cost without again, up to when the picture was last begun */
	uint64_t again;	 /* part of cost: values read again because other processes changed them */
	uint64_t looked; /* cost of looking at records; not a part of cost */
	uint64_t begun;	 /* cost + looked - again when the picture was last begun */
	uint64_t whole;	 /* the same sum for one picture; the highest that is known */

	/* the directory */
	const char *cell;			  /* the cell of the control, in the image */
	struct percpu_directory_state state;	  /* of the control that was copied */
	uint64_t copied;			  /* bytes of records that are in the image */
	bool has_records[PERCPU_MAX_FILE_CHUNKS]; /* the chunk has records, and nothing else */
	bool kept; /* the picture has failed, but the next one can use the records copied so far */
	bool listed;  /* entry has the series of all records that are copied */
	bool fresh;   /* and no values of them were read yet */
	bool changed; /* others have changed records since the first of them was copied */
	bool dropped; /* the records that are copied are in the list only, and no more in the image */

	/* the picture */
	struct percpu_picture_series *entry; /* the series, by name */
	size_t n;			     /* how many series */
	struct percpu_part *part; /* cells of the CPUs' lanes, in the order of the file */
	size_t parts;
	struct percpu_picture_series *
		*set; /* series that a set or a reset changes, ordered by bias_at */
	size_t sets;
	struct percpu_biases *run; /* runs of set */
	size_t runs;
	struct percpu_picture_family *family; /* in the order of names */
	size_t families;
	char *text;	    /* the strings of series and families */
	const char **words; /* the rows of strings that series point into */

	/* the list of series, while it is being made, by one call or by several */
	uint64_t (*begins)[PERCPU_UNITS / 64]; /* bits per chunk: the object of a series begins
						  there; NULL: no list is being made */
	uint32_t chunks;		       /* how many chunks begins has */
	uint64_t at;			       /* place of the next record */
	char *next_text;		       /* free space in text */
	const char **next_word;		       /* free space in words */
	size_t alike[PERCPU_ALIKE];	       /* by names: index of a series, plus 1; 0: none */

	unsigned char lives[PERCPU_OWNERS_MAX];	 /* owners.h: which owners live, once asked */
	struct percpu_segment_time began, taken; /* start of the generation; time of the picture */
	uint32_t pending;			 /* records that cannot be listed */
	uint32_t missing;			 /* series whose value is an error */
	bool flawed;				 /* there may be series whose value is an error */
	bool valid;				 /* there is a picture */
};

/* reader_copy.c: the file, and its image */

/** Read n bytes of the file. Returns 0, -EBADMSG if the file is shorter, or -errno, and why. */
int percpu_reader_pread(struct percpu_reader *r, void *to, size_t n, uint64_t at);

/** Return where a byte of a lane is in the file. */
uint64_t percpu_reader_file_offset(const struct percpu_reader *r, uint32_t chunk, uint32_t lane,
				   size_t offset);

/** Copy the headers of all chunks. Returns 0 or -errno, and why. */
int percpu_reader_copy_headers(struct percpu_reader *r);

/** Copy the control of the directory. Returns 0 or -errno, and why. */
int percpu_reader_copy_control(struct percpu_reader *r);

/** Copy the control, and the records that are not in the image. Returns 0 or -errno, and why. */
int percpu_reader_copy_directory(struct percpu_reader *r);

/** Copy the allocated cells of the bias lanes, other than the directory. Returns 0 or -errno, and
 *  why. */
int percpu_reader_copy_biases(struct percpu_reader *r);

/** Check that the segment has not been reset since the control was copied. Set r->changed. Returns 0,
 *  -EAGAIN, or -errno, and why. */
int percpu_reader_recheck(struct percpu_reader *r);

/** Leave those series out of the picture that others have removed since their record was copied, or
 *  that have begun anew. Returns 0, or -errno and why. */
int percpu_reader_leave_out(struct percpu_reader *r);

/** Copy the slots of the segment's owners, if it has any. Returns 0 or -errno, and why. */
int percpu_reader_copy_owners(struct percpu_reader *r);

/* counting.c */

/** Ask whether a process has the segment open to count. The control was copied. */
enum percpu_fact percpu_counting_ask(const struct percpu_reader *r);

/* reader_limit.c: what a picture may cost */

/** Begin a picture: set its deadline, and count from 0. */
void percpu_reader_begin(struct percpu_reader *r);

/** Note that the picture is begun, for the first time or again. */
void percpu_reader_begin_anew(struct percpu_reader *r);

/** Ask how much data the file has, before its lanes are read. */
void percpu_reader_measure(struct percpu_reader *r);

/** End a picture. */
void percpu_reader_end(struct percpu_reader *r);

/** Return whether the time for the picture is over. */
bool percpu_reader_is_late(struct percpu_reader *r);

/** Return 0; or -EAGAIN, and why, if the time for the picture is over. In that case keep the
 *  records that were copied and listed for the next picture. */
int percpu_reader_hurry(struct percpu_reader *r);

/** Return 0 if one more record may be listed, or -errno, and why: as percpu_reader_hurry(), and
 *  once in 1024 records as percpu_reader_recheck(). */
int percpu_reader_may_list(struct percpu_reader *r);

/** Count the cost of a read of so many bytes. */
void percpu_reader_charge(struct percpu_reader *r, size_t bytes);

/** Return the cost of looking at so many bytes of records. */
uint64_t percpu_reader_cost_of_records(uint64_t bytes);

/** Return whether the picture may be begun, or begun again, given its cost so far. */
bool percpu_reader_may_begin(struct percpu_reader *r);

/** Note that a whole picture costs so much, or more. */
void percpu_reader_expect(struct percpu_reader *r, uint64_t cost);

/** Return whether there is time and budget to read a value again that has changed meanwhile. */
bool percpu_reader_may_repeat(struct percpu_reader *r);

/** Decide whether to read so many bytes of so many lanes, or to search the lanes for data first. */
void percpu_reader_plan(struct percpu_reader *r, size_t lanes, size_t bytes);

/** Return the first lane from this one on whose bytes of the part may be data, or 2 * cpus if there
 *  is none. */
uint32_t percpu_reader_seek(struct percpu_reader *r, const struct percpu_part *p, size_t bytes,
			    uint32_t lane);

/** Count the series that have no value, and name the first in r->why. Returns whether there is
 *  one. */
bool percpu_reader_tell_missing(struct percpu_reader *r);

/* reader_parts.c */

/** Compare parts by their places in the file, for qsort(3). */
int percpu_reader_compare_parts(const void *a, const void *b);

/** Collect the parts of all series in r->part, and join adjacent parts. */
void percpu_reader_collect_parts(struct percpu_reader *r);

/** Collect in r->set the series that a set or a reset changes, and in r->run their runs. */
void percpu_reader_collect_sets(struct percpu_reader *r);

/* reader_list.c */

/** List the series of the directory, and attach to their objects. Continue a list that an earlier
 *  call had no time to complete. Returns 0, -ENOMEM, -EAGAIN if the time for the picture is over,
 *  or as percpu_reader_recheck(), and why. */
int percpu_reader_list(struct percpu_reader *r);

/** Drop the series from the list whose copied records are not as they were when they were listed.
 *  No part or set of the picture is used after that. */
void percpu_reader_drop_changed(struct percpu_reader *r);

/** Drop the list, and detach its objects. */
void percpu_reader_unlist(struct percpu_reader *r);

/** Give the memory of the records back, of which the list has all that later pictures need. */
void percpu_reader_drop_records(struct percpu_reader *r);

/** Append n bytes to *at as a string. Returns it, or NULL if a byte is 0. */
const char *percpu_reader_string(char **at, const unsigned char *bytes, size_t n);

/* reader_family.c */

/** List the families, store their texts from text on, and set the family of each series. Returns 0
 *  or -ENOMEM. */
int percpu_reader_list_families(struct percpu_reader *r, struct percpu_record_copy *c, char *text);

/** Read how often each family overflowed. Returns 0 or -errno, and why. */
int percpu_reader_overflows(struct percpu_reader *r);

/* reader_gather.c */

/** Combine the lanes of all parts in the image. A series gets an error if other processes change it
 *  again and again, or if there is no time for it. Returns 0 or -errno, and why. */
int percpu_reader_gather(struct percpu_reader *r);

/* reader_owned.c */

/** List what percpu_reader_owned_shown() returns. The caller frees *ret. Returns 0 or -errno. */
int percpu_reader_list_shown(const struct percpu_reader *r, size_t i,
			     struct percpu_owned_value **ret, size_t *ret_n);

/* reader_live.c */

/** If pictures are consistent, take a snapshot of each statistics. */
void percpu_reader_snapshot(struct percpu_reader *r);

/** Detach the series' statistics in the mapped file, and free their snapshot. */
void percpu_reader_free_snapshot(struct percpu_picture_series *s);

/* reader.c */

/** Make a reader of the file. The descriptor stays the caller's. Returns 0, or -errno; and why, if
 *  more is known than the error. */
int percpu_reader_make(int fd, struct percpu_reader **ret, struct percpu_reason *why);

/** Keep r->why, or words for e if it is empty, for percpu_error(). Returns e. */
int percpu_reader_keep_error(struct percpu_reader *r, int e);

/** Check that the name still leads to the file. Returns 0, or -ESTALE and why. */
int percpu_reader_check_name(struct percpu_reader *r);

/** Set r->fd to the descriptor of the file. Returns 0; or -EBADF, and why, if the program has
 *  closed it. */
int percpu_reader_use(struct percpu_reader *r);

#endif

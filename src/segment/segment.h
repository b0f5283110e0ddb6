/* SPDX-License-Identifier: MIT */
/*
 * segment.h - what the sources of segments share among themselves.
 */
#ifndef PERCPU_SEGMENT_SEGMENT_H
#define PERCPU_SEGMENT_SEGMENT_H

#include <percpu/segment.h>

#include "../objects/anchored.h"

#define PERCPU_SEGMENT_ROOT 0 /* of the control, */
#define PERCPU_OWNERS_ROOT 1  /* and of the owners */

/* The longest name, unit, help, and names and values of labels, with a byte in front of each. */
#define PERCPU_RECORD_BYTES                                                                        \
	(PERCPU_METRIC_NAME + 10 + PERCPU_METRIC_HELP +                                            \
	 2 * PERCPU_METRIC_LABELS * (PERCPU_METRIC_NAME + 1))

/** A record in memory of this process: its lengths are those of what is there. */
struct percpu_record_copy {
	struct percpu_segment_record head;
	unsigned char bytes[(PERCPU_RECORD_BYTES + 7) / 8 * 8];
};

_Static_assert(sizeof(struct percpu_record_copy) <= PERCPU_SEGMENT_BLOCK, "a block has room");

/** What was wrong, in words. */
struct percpu_reason {
	char text[1024];
};

/** A metric that this process has seen. */
struct percpu_series {
	uint64_t hash;
	uint64_t at;   /* where the record is among all, plus 1; 0: none is here */
	void *handle;  /* or NULL */
	unsigned kind; /* of the handle */
};

/** A hash table with linear probing. */
struct percpu_series_table {
	struct percpu_series *slot;
	size_t size; /* power of two, or 0 */
	size_t used;
};

struct percpu_segment {
	struct percpu_region *region;
	struct percpu_segment_control *control;
	uint64_t control_place;		    /* its key, of kind 0 */
	uint64_t boot;			    /* which one this is */
	uint64_t seed;			    /* of hashes: nobody can choose names of the same one */
	char *block[PERCPU_SEGMENT_BLOCKS]; /* of records; atomic; NULL: not looked up */
	uint64_t place[PERCPU_SEGMENT_BLOCKS]; /* their keys, of kind 0; stored before */

	/* The process lock protects these. */
	struct percpu_series_table series;   /* by name and labels' values */
	struct percpu_series_table families; /* the first of each name */
	uint64_t seen;			     /* bytes of records that are in both */
	struct percpu_owners *owners;	     /* or NULL */
	struct percpu_complaint *complaints;
	struct percpu_record_copy copy; /* of the record that is being looked at, */
	struct percpu_record_copy walk; /* and of one that is being entered */
};

/* complaint.c: why calls failed */

/** Remember why this thread's call failed. Returns e. */
int percpu_segment_complain(struct percpu_segment *s, int e, const struct percpu_reason *why);
void percpu_segment_forget(struct percpu_segment *s);

/** Write a sentence. Returns e. */
int percpu_reason_set(struct percpu_reason *why, int e, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* metric.c: what is told of a metric */

/** Check what the program tells, and make a record of it, without size and times. Returns 0, or
 *  -errno and why. */
int percpu_metric_read(const struct percpu_metric *m, unsigned kind, struct percpu_record_copy *ret,
		       struct percpu_reason *why);

/** Return a hash of the record's name; of name and labels' values. */
uint64_t percpu_record_family(const struct percpu_record_copy *c, uint64_t seed);
uint64_t percpu_record_hash(const struct percpu_record_copy *c, uint64_t seed);

/** Whether both have the same name; likewise, and the same values of labels. */
bool percpu_record_is_family(const struct percpu_record_copy *a,
			     const struct percpu_record_copy *b);
bool percpu_record_is_series(const struct percpu_record_copy *a,
			     const struct percpu_record_copy *b);

/** Whether what has the same name may be there together. Returns 0, or -EEXIST and why. */
int percpu_record_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why);

/* series.c: tables */

/** Return the series that the record at c is of, or that is of the same name; NULL if the table
 *  has none. s->copy becomes the record that is there. */
struct percpu_series *percpu_series_find(struct percpu_segment *s,
					 const struct percpu_record_copy *c, bool family);

/** Enter a record, which is at this place. Returns 0 or -ENOMEM. */
int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);

/* directory.c: records and their blocks */

/** Enter the records that others have added. Returns 0 or -errno. */
int percpu_directory_refresh(struct percpu_segment *s);

/** Copy a record, and check it. Returns its size, or 0 if there is none. */
size_t percpu_directory_load(const struct percpu_segment *s, uint64_t at,
			     struct percpu_record_copy *ret);

/** Copy the next record of those that were entered, from *at on, and set *ret_at to where it is.
 *  Returns false if there is none. */
bool percpu_directory_next(const struct percpu_segment *s, uint64_t *at,
			   struct percpu_record_copy *ret, struct percpu_segment_record **ret_at);

/** Return the record in the file at a place where there is one. */
struct percpu_segment_record *percpu_directory_at(const struct percpu_segment *s, uint64_t at);

/** Find the object of a record that is there, or going to be: for a metric that is being declared. */
struct percpu_declaring {
	struct percpu_anchor at; /* first */
	struct percpu_segment *s;
	const struct percpu_record_copy *asked;
	struct percpu_reason *why;
	uint64_t end;  /* of all records, with the new one; 0: it is there */
	size_t needed; /* the block that the new one needs, if it is not there: -EAGAIN */
};

/** Look for the metric. Sets at, with choose if it is to be added. Returns 0, or -EEXIST if there
 *  is another one of that name, or -errno. */
int percpu_directory_look(struct percpu_declaring *d);

/** Make a block of records. Returns 0 or -errno. */
int percpu_directory_extend(struct percpu_segment *s, size_t block);

/* segment.c */

/** Return this moment. */
struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s);

/** Return the owners of the segment; NULL, and *e, if there are none. */
struct percpu_owners *percpu_segment_owners(struct percpu_segment *s, int *e);

/* generation.c */

/** Complete what a killed process has left of starting anew; or start anew. Returns 0 or
 *  -errno. */
int percpu_generation_settle(struct percpu_segment *s, bool anew);

/* declare.c */

/** Detach all handles. */
void percpu_segment_detach_all(struct percpu_segment *s);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * segment.h - what the sources of segments share among themselves.
 */
#ifndef PERCPU_SEGMENT_SEGMENT_H
#define PERCPU_SEGMENT_SEGMENT_H

#include <percpu/family.h>
#include <percpu/segment.h>

#include "../counts/counts.h"
#include "../owners/owners.h"

#define PERCPU_SEGMENT_ROOT 0 /* of the control, */
#define PERCPU_OWNERS_ROOT 1  /* and of the owners */

/* The longest name, unit, help, and names and values of labels, those of fields included, with a
 * byte in front of each. */
#define PERCPU_RECORD_BYTES                                                                        \
	(PERCPU_METRIC_NAME + 10 + PERCPU_METRIC_HELP +                                            \
	 (2 * PERCPU_METRIC_LABELS + 1 + PERCPU_STATS_MAX_COMMIT) * (PERCPU_METRIC_NAME + 1))

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
	uint64_t at;	  /* where the record is among all, plus 1; 0: none is here */
	void *handle;	  /* or NULL */
	unsigned kind;	  /* of the handle */
	unsigned members; /* of a family: series that count for its cap */
};

/** A hash table with linear probing. */
struct percpu_series_table {
	struct percpu_series *slot;
	size_t size; /* power of two, or 0 */
	size_t used;
};

/** A record that is in no table, or whose handle is in none. */
struct percpu_place {
	uint64_t at;
	uint64_t removal; /* its number */
	uint64_t family;  /* hash of its name */
	size_t size;
	void *handle;
	unsigned kind; /* of the handle */
};

struct percpu_places {
	struct percpu_place *at;
	size_t n;
	size_t room;
	uint64_t least; /* no removal among them has a lower number */
};

/** What follows from the records. */
struct percpu_tables {
	struct percpu_series_table series, families;
	struct percpu_places removed, spare;
	size_t unkeyed;
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
	struct percpu_places removed;	     /* series whose objects are still there, */
	struct percpu_places spare;	     /* and records to be rewritten */
	size_t unkeyed;			     /* series without objects, when they were entered */
	uint64_t seen;			     /* bytes of records that are in these */
	uint64_t changes;		     /* of the control, for which that is so, */
	uint64_t removals;		     /* and while it is odd, this number, too */
	bool has_families;
	uint64_t walks;			/* how often these were made anew */
	struct percpu_places retired;	/* handles of removed series */
	struct percpu_family *resolved; /* families that were declared, or NULL */
	void *epoch;			/* which this process holds, or NULL */
	uint64_t epoch_removals;	/* how many there were when it was taken, at most */
	struct percpu_owners *owners;	/* or NULL */
	struct percpu_complaint *complaints;
	size_t complained;		/* how many sentences there are, */
	size_t complaints_most;		/* and may be, before those of threads that have ended go */
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

/** Whether names, unit, labels and help are such as a metric of that kind can have. Returns 0, or
 *  -errno and why. */
int percpu_metric_check(const struct percpu_metric *m, unsigned kind, struct percpu_reason *why);

/** Check what the program tells, and make a record of it, without times. Only statistics have
 *  fields. Returns 0, or -errno and why. */
int percpu_metric_read(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       unsigned kind, struct percpu_record_copy *ret, struct percpu_reason *why);

/** Return what a metric of that kind is, for a sentence. */
const char *percpu_metric_kind_name(unsigned kind);

/** Whether a label may be named so beside the metric's first n. Returns 0, or -errno and why. */
int percpu_metric_check_label(const struct percpu_metric *m, const char *label, size_t n,
			      struct percpu_reason *why);

/** Whether a text of the metric of that name is UTF-8 of at most so many bytes. what and which say
 *  of what it is. Returns 0, or -errno and why. */
int percpu_metric_check_text(const char *name, const char *text, size_t most, const char *what,
			     const char *which, struct percpu_reason *why);

/** Return the names of the labels; their values; and how many bytes of these are the metric's own,
 *  which are in front of the fields' names. */
const unsigned char *percpu_record_labels(const struct percpu_record_copy *c);
const unsigned char *percpu_record_values(const struct percpu_record_copy *c);
size_t percpu_record_own(const struct percpu_record_copy *c);

/** Write a row of texts with their lengths in front, for a sentence. */
void percpu_record_print(const unsigned char *at, const unsigned char *end, char *out, size_t size);

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

/** Whether the text is UTF-8. */
bool percpu_metric_is_utf8(const char *text);

/* member.c: records of families and of their series */

/** Whether all its labels have the value of what overflows. */
bool percpu_record_is_overflow(const struct percpu_record_copy *c);

/** Make of a record with help and values of labels that of their family; that of a series which
 *  leaves the help to it. */
void percpu_record_make_family(struct percpu_record_copy *c, size_t cap);
void percpu_record_drop_help(struct percpu_record_copy *c);

/** Make the record of a series of that family with these values. Returns 0, or -errno and why. */
int percpu_record_resolve(const struct percpu_record_copy *family, const char *const *values,
			  struct percpu_record_copy *ret, struct percpu_reason *why);

/* fields.c: those of statistics */

/** Return 0, or -errno and why. */
int percpu_fields_check(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			struct percpu_reason *why);
int percpu_fields_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why);

/* series.c: tables */

int percpu_places_add(struct percpu_places *l, const struct percpu_place *p);

/** Take the tables, and leave empty ones; put them back; free what was taken. */
struct percpu_tables percpu_tables_take(struct percpu_segment *s);
void percpu_tables_put(struct percpu_segment *s, const struct percpu_tables *t);
void percpu_tables_free(const struct percpu_tables *t);

/** Take handles over from older tables. Returns 0 or -ENOMEM: nothing was taken. */
int percpu_tables_inherit(struct percpu_segment *s, const struct percpu_tables *old);

/** Enter what the process has done with the record. If they fail, the tables are to be made
 *  anew. */
int percpu_tables_removed(struct percpu_segment *s, const struct percpu_record_copy *c,
			  uint64_t at);
int percpu_tables_freed(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);
int percpu_tables_rewritten(struct percpu_segment *s, const struct percpu_record_copy *c,
			    uint64_t at);

/** Return the series that the record at c is of, or that is of the same name; NULL if the table
 *  has none. s->copy becomes the record that is there. */
struct percpu_series *percpu_series_find(struct percpu_segment *s,
					 const struct percpu_record_copy *c, bool family);

/** Enter a record, which is at this place. Returns 0 or -ENOMEM. */
int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);

/* directory.c: records and their blocks */

/** Enter what others have added, removed and rewritten. Returns 0 or -errno: -EAGAIN if they do
 *  that over and over, which whoever has the lock of the allocator does not see. */
int percpu_directory_refresh(struct percpu_segment *s);

/** Whether nothing that was there has changed since changes was that number, for what was loaded
 *  from records before. */
bool percpu_directory_is(const struct percpu_segment *s, uint64_t changes);

/** Copy a record, and check it. Returns its size, or 0 if there is none. */
size_t percpu_directory_load(const struct percpu_segment *s, uint64_t at,
			     struct percpu_record_copy *ret);

/** Copy the next record of those that were entered, from *at on, and set *ret_at to where it is.
 *  states has a bit for each of the states that it may have. Returns false if there is none. */
bool percpu_directory_next(const struct percpu_segment *s, unsigned states, uint64_t *at,
			   struct percpu_record_copy *ret, struct percpu_segment_record **ret_at);

#define PERCPU_SERIES (1U << PERCPU_RECORD_IN_USE)
#define PERCPU_REMOVED (1U << PERCPU_RECORD_REMOVED)
#define PERCPU_FAMILIES (1U << PERCPU_RECORD_FAMILY)

/** Return the record in the file at a place where there is one. */
struct percpu_segment_record *percpu_directory_at(const struct percpu_segment *s, uint64_t at);

/** Return where all records end, as far as that can be. */
uint64_t percpu_directory_end(const struct percpu_segment *s);

/** Return where a block is; NULL, and *e, if it is not there. Takes the process lock. */
char *percpu_directory_block(struct percpu_segment *s, size_t i, int *e);

/** Whether the record is free, to be rewritten. */
bool percpu_directory_is_spare(const struct percpu_segment_record *r);

/* look.c: where a record is, or is going to be */

/** Find the object of a record that is there, or going to be: for a metric that is being declared.
 *  */
struct percpu_declaring {
	struct percpu_anchor at; /* first */
	struct percpu_segment *s;
	struct percpu_record_copy *asked;
	struct percpu_reason *why;
	uint64_t changes; /* for which it is there, or was not */
	uint64_t where;	  /* its record is */
	void *handle;	  /* that this process has already; or NULL */
	bool known;	  /* what this process knows is enough */
	bool member;	  /* it is of a family, */
	bool full;	  /* which is full */
	bool reused;	  /* this call has freed what it could */

	/* Chosen under the lock: */
	bool differs;	 /* there is another one of that name: -ECANCELED */
	bool rewrites;	 /* the record at where */
	bool wants_room; /* -EAGAIN: a removed series must go */
	bool extends;	 /* -EAGAIN: a block is needed, */
	size_t needed;	 /* which */
	uint64_t end;	 /* of all records, with the new one; 0: it is there, or one is rewritten */
};

/** Look for the metric. Sets at, with choose if it is to be added. Returns 0, or -EEXIST if there
 *  is another one of that name, or -errno. */
int percpu_directory_look(struct percpu_declaring *d);

/** After -EAGAIN: make what was missing. Returns 0 or -errno. */
int percpu_directory_prepare(struct percpu_declaring *d);

/* reuse.c: what is removed, and what its room is used for. */

/** End a change that a killed process has begun, and enter all. Returns 0 or -errno. For this and
 *  for percpu_reuse_rewrite(), the caller has the lock of the allocator. */
int percpu_changes_settle(struct percpu_segment *s);

/** As percpu_directory_refresh(). Who may write the file keeps others from changing records, if
 *  need be. */
int percpu_reuse_refresh(struct percpu_segment *s);

/** Wait for a change that is going on, or end it, if that can be. */
void percpu_reuse_settle(struct percpu_segment *s);

/** Write the record over a free one. */
void percpu_reuse_rewrite(struct percpu_declaring *d);

/** Free what was removed and nobody can have any more, of that family first. Returns 0 or
 *  -errno. */
int percpu_reuse_free(struct percpu_segment *s, uint64_t family);

/** Remove a series. Returns 0, or -ENOENT or another -errno. */
int percpu_reuse_remove(struct percpu_segment *s, const struct percpu_record_copy *asked);

/* epoch.c: who may have handles of what is removed */

/** Say why an epoch could not be taken, for what has that name of n bytes. Returns e. */
int percpu_epoch_complain(const char *name, size_t n, int e, struct percpu_reason *why);

/** Hold the epoch of this moment, unless the process holds one. Returns 0 or -errno. */
int percpu_epoch_hold(struct percpu_segment *s);

/** Hold it apart from what the process does; give up one. */
int percpu_epoch_take(struct percpu_segment *s, void **ret);
void percpu_epoch_drop(void *epoch);

/** Set *ret to the first epoch that anybody holds; limit if that is not less. Returns 0 or
 *  -errno. */
int percpu_epoch_first(const struct percpu_segment *s, uint64_t limit, uint64_t *ret);

/* parameters.c */

/** What is asked for beside the metric. */
struct percpu_parameters {
	const struct percpu_histogram_options *histogram;
	const struct percpu_metric_fields *fields;
	unsigned flags; /* of extrema and statistics, or the rule of an owned gauge */
};

/** Whether they fit the kind. Returns 0, or -errno and why. */
int percpu_parameters_check(const char *name, unsigned kind, const struct percpu_parameters *p,
			    struct percpu_reason *why);

/** Say how those of the object that is there differ. Returns -ECANCELED and why; -EEXIST if that
 *  cannot be said. */
int percpu_parameters_compare(const struct percpu_declaring *d, const struct percpu_parameters *p);

/* segment.c */

/** Return the path of a segment of that name, to be freed, or NULL and *e. */
char *percpu_segment_path(const char *name, int *e);

/** Return what tells the boot, and the time namespace, from others; 0: not known. */
uint64_t percpu_segment_boot(void);

/** Return how many ns are between then and now, by clocks that were not set if they can tell. */
uint64_t percpu_segment_age(const struct percpu_segment_time *then,
			    const struct percpu_segment_time *now);

/** Return this moment. */
struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s);

/** Return the owners of the segment; NULL, and *e, if there are none. */
struct percpu_owners *percpu_segment_owners(struct percpu_segment *s, int *e);

/* generation.c */

/** Complete what a killed process has left of starting anew; or start anew. Returns 0 or
 *  -errno. */
int percpu_generation_settle(struct percpu_segment *s, bool anew);

/* declare.c */

/** Find the object of what is asked for, or create it, with its record; the handle is the first
 *  one that this process had. Returns 0, or -errno and why. */
int percpu_segment_find(struct percpu_declaring *d, const struct percpu_parameters *p,
			void **handle);

/** Detach a handle, of which some kinds have no memory of this process; all handles. */
void percpu_segment_detach(unsigned kind, void *handle);
void percpu_segment_detach_all(struct percpu_segment *s);

/* family.c */

/** Whether a family of the segment has that handle for its overflow. The caller has the process
 *  lock. */
bool percpu_family_keeps(const struct percpu_segment *s, const void *handle);

/** Free the families. */
void percpu_segment_drop_families(struct percpu_segment *s);

#endif

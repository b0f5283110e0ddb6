/* SPDX-License-Identifier: MIT */
/*
 * segment.h - what the sources of segments share among themselves.
 */
#ifndef PERCPU_SEGMENT_SEGMENT_H
#define PERCPU_SEGMENT_SEGMENT_H

#include <percpu/family.h>
#include <percpu/segment.h>

#include "../counts/counts.h"
#include "../cpu/text.h"
#include "../owners/owners.h"
#include "complaint.h"

#define PERCPU_SEGMENT_ROOT 0 /* the root that leads to the control */
#define PERCPU_OWNERS_ROOT 1  /* the root that leads to the owners */

/* The most bytes that a record's texts take: name, unit, help text, and the names and values of
 * labels, each with a length byte in front. Fields of statistics add the name of one label, and a
 * value for each field. */
#define PERCPU_RECORD_BYTES                                                                        \
	(PERCPU_METRIC_NAME + 10 + PERCPU_METRIC_HELP +                                            \
	 (2 * PERCPU_METRIC_LABELS + 1 + PERCPU_STATS_MAX_COMMIT) * (PERCPU_METRIC_NAME + 1))

/** A record in memory of this process. Its texts fit into bytes. */
struct percpu_record_copy {
	struct percpu_segment_record head;
	unsigned char bytes[(PERCPU_RECORD_BYTES + 7) / 8 * 8];
};

_Static_assert(sizeof(struct percpu_record_copy) <= PERCPU_SEGMENT_BLOCK, "a block has room");

/** An entry of a hash table: a record that this process has seen. */
struct percpu_series_slot {
	uint64_t hash;
	uint64_t at;	  /* place of the record among all records, plus 1; 0: the slot is free */
	void *handle;	  /* the one handle of this process, or NULL */
	unsigned kind;	  /* kind of the handle */
	bool removable;	  /* the handle is of a family's series, and not of its overflow */
	unsigned members; /* in the table of families: how many series count for the cap */
};

/** A hash table with linear probing. */
struct percpu_series_table {
	struct percpu_series_slot *slot;
	size_t size; /* power of two, or 0 */
	size_t used;
};

/** An entry of a list: a removed record, a free record, or the handle of a removed series. */
struct percpu_listed_record {
	uint64_t at;	  /* place of the record among all records */
	uint64_t removal; /* of a removed series: its number among all removals */
	uint64_t family;  /* of a removed series: hash of its name */
	size_t size;	  /* bytes of the record */
	void *handle;
	unsigned kind;	/* kind of the handle */
	bool removable; /* as in a slot */
};

struct percpu_record_list {
	struct percpu_listed_record *at;
	size_t n;
	size_t room;
	uint64_t least; /* no removal in the list has a lower number */
};

/** Tables and lists of a segment, taken out of its fields of the same names. */
struct percpu_tables {
	struct percpu_series_table series, families;
	struct percpu_record_list removed, spare;
	size_t unkeyed;
};

struct percpu_segment {
	struct percpu_region *region;
	struct percpu_segment_control *control;
	uint64_t control_key; /* key of the control, of kind 0 */
	uint64_t boot;	      /* percpu_segment_boot() */
	uint64_t seed; /* for hashes; secret, so no other process can choose names that collide */
	char *block[PERCPU_SEGMENT_BLOCKS]; /* blocks of records; atomic; NULL: not looked up */
	uint64_t block_key
		[PERCPU_SEGMENT_BLOCKS]; /* keys of these, of kind 0; stored before block */

	/* The process lock protects these. */
	struct percpu_series_table series;   /* found by name and values of labels */
	struct percpu_series_table families; /* found by name: the family, or one series */
	struct percpu_record_list removed;   /* removed series, whose objects are still there */
	struct percpu_record_list spare;     /* free records, which may be rewritten */
	size_t unkeyed;			     /* series that had no object when they were entered */
	uint64_t seen;			     /* bytes of records that the tables have */
	uint64_t changes;		     /* control->changes when the tables were complete */
	uint64_t removals;		     /* control->removals then; matters if changes is odd */
	bool has_families;
	uint64_t walks;			    /* how often the tables were rebuilt */
	struct percpu_record_list retired;  /* handles of removed series */
	struct percpu_family *resolved;	    /* list of the families that were declared */
	void *epoch;			    /* the epoch that this process holds, or NULL */
	uint64_t epoch_removals;	    /* number of that epoch */
	struct percpu_owners *owners;	    /* or NULL */
	unsigned char *lives;		    /* of a reader's image: its owners' lives; else NULL */
	struct percpu_segment_check *check; /* PERCPU_SEGMENT_DEBUG, or NULL */
	struct percpu_record_copy copy;	    /* the record that a search compares with */
	struct percpu_record_copy walk;	    /* the record that is being entered */
};

/* metric.c: descriptions of metrics, and records made of them */

/** Check that a metric of that kind can have the name, unit, help text and labels of m. Returns 0,
 *  or -errno and why. */
int percpu_metric_check(const struct percpu_metric *m, unsigned kind, struct percpu_reason *why);

/** Check the program's description of a metric, and make a record of it, without times. f is used
 *  for statistics only. Returns 0, or -errno and why. */
int percpu_metric_read(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       unsigned kind, struct percpu_record_copy *ret, struct percpu_reason *why);

/** Return the words for a metric of that kind, for a sentence. */
const char *percpu_metric_kind_name(unsigned kind);

/** Check that a label may have that name beside the metric's first n labels. Returns 0, or -errno
 *  and why. */
int percpu_metric_check_label(const struct percpu_metric *m, const char *label, size_t n,
			      struct percpu_reason *why);

/** Check that a text of the metric called name is UTF-8 of at most so many bytes. In the sentence,
 *  what and which together name the text. Returns 0, or -errno and why. */
int percpu_metric_check_text(const char *name, const char *text, size_t most, const char *what,
			     const char *which, struct percpu_reason *why);

/** Return where the names of labels begin. */
const unsigned char *percpu_record_labels(const struct percpu_record_copy *c);

/** Return where the values of labels begin; the fields' names follow them. */
const unsigned char *percpu_record_values(const struct percpu_record_copy *c);

/** Return how many bytes the values of labels take, without the fields' names. */
size_t percpu_record_values_size(const struct percpu_record_copy *c);

/** A row of texts in a record, each with its length in front. */
struct percpu_texts {
	const unsigned char *at, *end;
};

/** Write which text is the first that differs. In the sentence, what names such a text. Returns
 *  -EEXIST; or -EBADMSG, without a sentence, if no text differs. */
int percpu_record_complain(const struct percpu_record_copy *asked, const char *what,
			   struct percpu_texts is, struct percpu_texts wants,
			   struct percpu_reason *why);

/** Return the hash of the record's name. */
uint64_t percpu_record_name_hash(const struct percpu_record_copy *c, uint64_t seed);

/** Return the hash of the record's name and values of labels. */
uint64_t percpu_record_series_hash(const struct percpu_record_copy *c, uint64_t seed);

/** Return whether both records have the same name. */
bool percpu_record_same_name(const struct percpu_record_copy *a,
			     const struct percpu_record_copy *b);

/** Return whether both records have the same name and the same values of labels. */
bool percpu_record_same_series(const struct percpu_record_copy *a,
			       const struct percpu_record_copy *b);

/** Check that two records of one name have the same kind, unit, names of labels, and fields.
 *  Returns 0; -EEXIST and why; or -EBADMSG if only the numbers of labels or fields differ. */
int percpu_record_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why);

/* member.c: records of families and of their series */

/** Return whether the record's values of labels are those of an overflow. */
bool percpu_record_is_overflow(const struct percpu_record_copy *c);

/** Make the record of a metric that of a family: drop the values of labels, keep the help text, set
 *  the cap. */
void percpu_record_make_family(struct percpu_record_copy *c, size_t cap);

/** Drop the help text of a series of a family: the family has it. */
void percpu_record_drop_help(struct percpu_record_copy *c);

/** Check that a series of the family may have these values. Returns 0, or -errno and why. */
int percpu_record_check_values(const struct percpu_record_copy *family, const char *const *values,
			       struct percpu_reason *why);

/** Make the record of the family's series with these values, which were checked. */
void percpu_record_make_series(const struct percpu_record_copy *family, const char *const *values,
			       struct percpu_record_copy *ret);

/* fields.c: the fields of statistics */

/** Check the names of the fields and of their label. Returns 0, or -errno and why. */
int percpu_fields_check(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			struct percpu_reason *why);

/** Check that both records have the same fields. Returns as percpu_record_compare(). */
int percpu_fields_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why);

/* series.c: tables */

/** Add a record to a list. Returns 0 or -ENOMEM. */
int percpu_record_list_add(struct percpu_record_list *l, const struct percpu_listed_record *p);

/** Return the tables of the segment, and leave empty ones there. */
struct percpu_tables percpu_tables_take(struct percpu_segment *s);

/** Put tables back that were taken. */
void percpu_tables_put(struct percpu_segment *s, const struct percpu_tables *t);

/** Free tables that were taken. */
void percpu_tables_free(const struct percpu_tables *t);

/** Take over the handles of older tables, and put those whose series are gone into s->retired.
 *  Returns 0; or -ENOMEM, and s->retired is as before. */
int percpu_tables_inherit(struct percpu_segment *s, const struct percpu_tables *old);

/** Update the tables: this process has removed the series. Returns 0; or -errno, and the tables
 *  must be rebuilt. */
int percpu_tables_removed(struct percpu_segment *s, const struct percpu_record_copy *c,
			  uint64_t at);

/** Update the tables: this process has freed the record. Returns as percpu_tables_removed(). */
int percpu_tables_freed(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);

/** Update the tables: this process has rewritten the record. Returns as percpu_tables_removed(). */
int percpu_tables_rewritten(struct percpu_segment *s, const struct percpu_record_copy *c,
			    uint64_t at);

/** Return the series with the name and values of labels of c; or, with family set, the entry of the
 *  table of families with its name. Copy the record of the entry to s->copy. Return NULL if there
 *  is none. */
struct percpu_series_slot *percpu_series_find(struct percpu_segment *s,
					      const struct percpu_record_copy *c, bool family);

/** Enter the record at this place in the tables. Returns 0 or -ENOMEM. */
int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);

/* directory.c: records and their blocks */

/** Enter the records that other processes have added, removed and rewritten. Returns 0 or -errno:
 *  -EAGAIN if they change records again and again. A caller that has the lock of the allocator does
 *  not get -EAGAIN. */
int percpu_directory_refresh(struct percpu_segment *s);

/** Return whether control->changes is still that number. If so, no removal, freeing or rewriting of
 *  a record has begun or ended since the caller loaded the number. So the caller may use what it
 *  has loaded from records since then. */
bool percpu_directory_is_unchanged(const struct percpu_segment *s, uint64_t changes);

/** Copy a record, and check it. Returns its size, or 0 if there is none. */
size_t percpu_directory_load(const struct percpu_segment *s, uint64_t at,
			     struct percpu_record_copy *ret);

/** Copy the next record, from *at on, that is in one of these states; states has a bit for each.
 *  Set *ret_at to the record in the file, and *at to the place behind it. Only records that were
 *  entered in the tables count. Returns false if there is none. */
bool percpu_directory_next(const struct percpu_segment *s, unsigned states, uint64_t *at,
			   struct percpu_record_copy *ret, struct percpu_segment_record **ret_at);

#define PERCPU_SERIES (1U << PERCPU_RECORD_IN_USE)
#define PERCPU_REMOVED (1U << PERCPU_RECORD_REMOVED)
#define PERCPU_FAMILIES (1U << PERCPU_RECORD_FAMILY)

/** Return the record at that place in the file. The block was looked up before. */
struct percpu_segment_record *percpu_directory_at(const struct percpu_segment *s, uint64_t at);

/** Return where the records end, by the control. Round a wrong value down to a multiple of 8,
 *  within the blocks that there can be. */
uint64_t percpu_directory_end(const struct percpu_segment *s);

/** Return block i of records; or NULL, and *e, if it is not there. Takes the process lock. */
char *percpu_directory_block(struct percpu_segment *s, size_t i, int *e);

/** Return whether the record may be rewritten: it is free and has no object. */
bool percpu_directory_is_spare(const struct percpu_segment_record *r);

/* record_anchor.c: the place of a record that exists, or that is to be written */

/** A metric that is being declared. */
struct percpu_declaring {
	struct percpu_anchor at; /* anchor of the object; must be the first field */
	struct percpu_segment *s;
	struct percpu_record_copy *asked;
	struct percpu_reason *why;
	uint64_t changes; /* s->changes when the tables were searched */
	uint64_t where;	  /* place of the metric's record */
	void *handle;	  /* the handle that this process has already; or NULL */
	bool known;	  /* set by the caller: return such a handle at once */
	bool member;	  /* set by the caller: the metric is a series of a family */
	bool full;	  /* the family has as many series as its cap */
	bool reused;	  /* this call has freed what it could */

	/* Chosen under the lock: */
	bool differs;	 /* the name is that of another metric: -ECANCELED */
	bool rewrites;	 /* the free record at where is rewritten */
	size_t room;	 /* bytes of that record */
	bool wants_room; /* a removed series must be freed first: -EAGAIN */
	bool extends;	 /* a block is needed first: -EAGAIN */
	size_t needed;	 /* number of the block that the record goes into */
	uint64_t end;	 /* end of all records, with the new one; 0: no record was appended */
};

/** Look for the metric, and set d->at so that its object can be opened: at the record that was
 *  found, or at a record that is chosen later, under the lock. Returns 0, -EEXIST if the name is
 *  that of another metric, or -errno. */
int percpu_directory_anchor(struct percpu_declaring *d);

/** After -EAGAIN, make the block that was missing, or free removed series. Returns 0 or -errno. */
int percpu_directory_make_room(struct percpu_declaring *d);

/* reuse.c: series that are removed, and reuse of their records; the states of a record */

/** End a change that a killed process has begun, and refresh the tables. The caller has the lock of
 *  the allocator. Returns 0 or -errno. */
int percpu_changes_recover(struct percpu_segment *s);

/** Refresh as percpu_directory_refresh(). If that returns -EAGAIN, and the segment was opened to
 *  write, refresh under the lock of the allocator, so that no other process changes records. */
int percpu_reuse_refresh(struct percpu_segment *s);

/** If a change is going on, and the segment was opened to write, wait for the end of the change. If
 *  the changing process was killed, end the change. */
void percpu_reuse_await_change(struct percpu_segment *s);

/** Write the record d->asked over the free one at d->where. The caller has the lock of the
 *  allocator. */
void percpu_reuse_rewrite(struct percpu_declaring *d);

/** Free removed series of which no process can have a handle. Begin with those of one family, given
 *  by the hash of its name. Returns 0 or -errno. */
int percpu_reuse_free(struct percpu_segment *s, uint64_t family);

/** Remove the series of that name and these values of labels. Returns 0, or -ENOENT or another
 *  -errno. */
int percpu_reuse_remove(struct percpu_segment *s, const struct percpu_record_copy *asked);

/* epoch.c: which processes may have handles of removed series */

/** Write why an epoch could not be taken. The sentence begins with n bytes of name. Returns e. */
int percpu_epoch_complain(const char *name, size_t n, int e, struct percpu_reason *why);

/** Hold the current epoch, unless the process holds one. Returns 0 or -errno. */
int percpu_epoch_hold(struct percpu_segment *s);

/** Hold the current epoch until percpu_epoch_drop(), also if the process holds another one. Returns
 *  0 or -errno. */
int percpu_epoch_take(struct percpu_segment *s, void **ret);

/** Release an epoch. NULL is fine. */
void percpu_epoch_drop(void *epoch);

/** Set *ret to the lowest epoch below limit that a process holds; to limit if there is none; or to
 *  0 if too many locks are held to look at all. Returns 0 or -errno. */
int percpu_epoch_first(const struct percpu_segment *s, uint64_t limit, uint64_t *ret);

/* parameters.c */

/** Parameters of an object. Only the fields are also in its record. */
struct percpu_parameters {
	const struct percpu_histogram_options *histogram;
	const struct percpu_metric_fields *fields;
	unsigned flags; /* flags of extrema and statistics; the rule of an owned gauge */
};

/** Check that a metric of that kind can have these parameters. Returns 0, or -errno and why. */
int percpu_parameters_check(const char *name, unsigned kind, const struct percpu_parameters *p,
			    struct percpu_reason *why);

/** Write how the parameters of the existing object differ from these. Returns -ECANCELED and why,
 *  or -EEXIST if no difference is found. */
int percpu_parameters_compare(const struct percpu_declaring *d, const struct percpu_parameters *p);

/* segment.c */

#define PERCPU_FLAT_NAMES "/dev/shm/percpu." /* in front of a name that is no path */

/** Return the path of the segment of that name, or NULL, *e, and why if the name is wrong. The
 *  caller frees it. */
char *percpu_segment_path(const char *name, int *e, struct percpu_reason *why);

/** Return a number for this boot in this time namespace; 0: not known. */
uint64_t percpu_segment_boot(void);

/** Return how many ns are between then and now. If both are of one known boot, CLOCK_BOOTTIME
 *  tells, which is never set. Otherwise CLOCK_REALTIME tells; return 0 if that went back. */
uint64_t percpu_segment_age(const struct percpu_segment_time *then,
			    const struct percpu_segment_time *now);

/** Return the time now, by both clocks. */
struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s);

/** Open the owners of the segment, or create them if it was opened to write. Returns NULL and *e on
 *  failure. The segment keeps them; the caller does not detach them. */
struct percpu_owners *percpu_segment_owners(struct percpu_segment *s, int *e);

/* generation.c */

/** With anew set, reset the segment. Otherwise wait for the end of a reset that is going on; if the
 *  resetting process was killed, complete the reset. Returns 0 or -errno. */
int percpu_generation_complete(struct percpu_segment *s, bool anew);

/* declare.c */

/** Find the object of d->asked, or create it with its record. Set *handle to the one handle that
 *  this process has of the object. Returns 0, or -errno and why. */
int percpu_segment_open_metric(struct percpu_declaring *d, const struct percpu_parameters *p,
			       void **handle);

/** Detach a handle of an object of that kind. Do nothing for kinds whose handles take no memory. */
void percpu_segment_detach(unsigned kind, void *handle);

/** Detach all handles, also those of removed series. */
void percpu_segment_detach_all(struct percpu_segment *s);

/* segment_check.c: PERCPU_SEGMENT_DEBUG */

/** Watch the segment, which was opened by that name. Returns 0 or -ENOMEM. */
int percpu_segment_check_begin(struct percpu_segment *s, const char *name);

/** Close a segment that is watched, or abort if it is closed. */
void percpu_segment_check_close(struct percpu_segment *s);

/* family.c */

/** Free the families that this process has declared. */
void percpu_segment_drop_families(struct percpu_segment *s);

#endif

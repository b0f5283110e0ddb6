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
#include "counting.h"
#include "hash.h"
#include "kinds.h"

#define PERCPU_SEGMENT_ROOT 0 /* the root that leads to the control */
#define PERCPU_OWNERS_ROOT 1  /* the root that leads to the owners */

/** The most bytes that the texts of a record take: name, unit, help text, and the names and values
 *  of labels, each with its length in two bytes. Fields of statistics add the name of one label, and
 *  a value for each field. */
#define PERCPU_RECORD_BYTES (PERCPU_SEGMENT_BLOCK - sizeof(struct percpu_segment_record))

/** A record in memory of this process. */
struct percpu_record_copy {
	struct percpu_segment_record head;
	unsigned char bytes[PERCPU_RECORD_BYTES];
};

/** A row of texts in a record, each with its length in front. */
struct percpu_texts {
	const unsigned char *at, *end;
};

/** An entry of a hash table: a record that this process has seen. */
struct percpu_series_slot {
	uint64_t hash;
	uint64_t at;  /* place of the record among all records, plus 1; 0: the slot is free */
	void *handle; /* the one handle of this process, or NULL */
	struct percpu_exemplars *exemplars; /* the one handle of its exemplars, or NULL */
	unsigned kind;			    /* kind of the handle */
	unsigned members; /* in the table of families: how many series count for the cap */
};

/** A hash table with linear probing. */
struct percpu_series_table {
	struct percpu_series_slot *slot;
	size_t size; /* power of two, or 0 */
	size_t used;
};

struct percpu_segment {
	struct percpu_region *region;
	struct percpu_segment_control *control;
	uint64_t control_key;		    /* key of the control, of kind 0 */
	uint64_t boot;			    /* percpu_segment_boot() */
	struct percpu_hash_key key;	    /* for hashes */
	char *block[PERCPU_SEGMENT_BLOCKS]; /* blocks of records; atomic; NULL: not looked up */
	uint64_t block_key
		[PERCPU_SEGMENT_BLOCKS]; /* keys of these, of kind 0; stored before block */

	/* The process lock protects these. */
	struct percpu_series_table series;   /* found by name and values of labels */
	struct percpu_series_table families; /* found by name: the family, or one series */
	uint64_t seen;			     /* bytes of records that the tables have */
	bool has_families;
	struct percpu_family *resolved;	    /* list of the families that were declared */
	void *presence;			    /* the lock by which this process is present, or NULL */
	char *fallback;			    /* why the segment is private, or NULL */
	bool is_present;		    /* and no change is going on that began before */
	struct percpu_owners *owners;	    /* or NULL */
	unsigned char *lives;		    /* of a reader's image: its owners' lives; else NULL */
	struct percpu_segment_check *check; /* PERCPU_SEGMENT_DEBUG, or NULL */
	struct percpu_record_copy copy;	    /* the record that a search compares with */
	struct percpu_record_copy walk;	    /* the record that is being entered */
};

/* metric.c: descriptions of metrics */

/** Return the metric of a declaration. */
struct percpu_metric percpu_declared_metric(const struct percpu_declaration *d);

/** Check that a metric of that kind can have the name, unit, help text, labels, and fields; f is
 *  NULL if it has none. Returns 0, or -errno and why. */
int percpu_metric_check(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			unsigned kind, struct percpu_reason *why);

/** Check the program's description of a metric, and make a record of it, without times. f is used
 *  for statistics only. Returns 0, or -errno and why. */
int percpu_metric_read(const struct percpu_metric *m, const struct percpu_metric_fields *f,
		       unsigned kind, struct percpu_record_copy *ret, struct percpu_reason *why);

/** Check that a label may have that name beside the metric's first n labels. Returns 0, or -errno
 *  and why. */
int percpu_metric_check_label(const struct percpu_metric *m, unsigned kind, const char *label,
			      size_t n, struct percpu_reason *why);

/** Check that a text of the metric called name is UTF-8 of at most so many bytes. In the sentence,
 *  what and which together name the text. Returns 0, or -errno and why. */
int percpu_metric_check_text(const char *name, const char *text, size_t most, const char *what,
			     const char *which, struct percpu_reason *why);

/* number.c */

/** A number as text. */
struct percpu_number {
	char text[32];
};

/** Return v with as few digits as read as v again, 15 or more if need be, and a point in all
 *  locales; or Prometheus's words for infinities and NaN. */
struct percpu_number percpu_number_of(double v);

/* fields.c: the fields of statistics */

/** Check the names of the fields and of their label. Returns 0, or -errno and why. */
int percpu_fields_check(const struct percpu_metric *m, unsigned kind,
			const struct percpu_metric_fields *f, struct percpu_reason *why);

/* record.c: records */

/** Make a record of a checked description. f->n is 0 if there are no fields. */
void percpu_record_make(const struct percpu_metric *m, const struct percpu_metric_fields *f,
			unsigned kind, struct percpu_record_copy *ret);

/** Return the metric's name. */
struct percpu_text percpu_record_name(const struct percpu_record_copy *c);

/** Return where the names of labels begin. */
const unsigned char *percpu_record_labels(const struct percpu_record_copy *c);

/** Return where the values of labels begin; the fields' names follow them. */
const unsigned char *percpu_record_values(const struct percpu_record_copy *c);

/** Return how many bytes the values of labels take, without the fields' names. */
size_t percpu_record_values_size(const struct percpu_record_copy *c);

/** Return the names of labels, with that of the fields' label. */
struct percpu_texts percpu_record_label_names(const struct percpu_record_copy *c);

/** Return the names of fields. */
struct percpu_texts percpu_record_fields(const struct percpu_record_copy *c);

/** Take the next text of a row. Returns false if there is none. */
bool percpu_texts_next(struct percpu_texts *row, struct percpu_text *ret);

/** Return the hash of a metric's name. */
uint64_t percpu_name_hash(const struct percpu_text *name, const struct percpu_hash_key *key);

/** Return the hash of the record's name and values of labels. */
uint64_t percpu_record_series_hash(const struct percpu_record_copy *c,
				   const struct percpu_hash_key *key);

/** Return whether the record has that name. */
bool percpu_record_has_name(const struct percpu_record_copy *c, const struct percpu_text *name);

/** Return whether both records have the same name and the same values of labels. */
bool percpu_record_same_series(const struct percpu_record_copy *a,
			       const struct percpu_record_copy *b);

/** Check that two records of one name have the same kind, unit, names of labels, and fields.
 *  Returns 0; -EEXIST and why; or -EBADMSG if only the numbers of labels or fields differ. */
int percpu_record_compare(const struct percpu_record_copy *there,
			  const struct percpu_record_copy *asked, struct percpu_reason *why);

/** Return whether the record's values of labels are those of an overflow. */
bool percpu_record_is_overflow(const struct percpu_record_copy *c);

/** Make the record of a metric that of a family: drop the values of labels, keep the help text, set
 *  the cap. */
void percpu_record_make_family(struct percpu_record_copy *c, size_t cap);

/** Check that a series of the family may have these values. Returns 0, or -errno and why. */
int percpu_record_check_values(const struct percpu_record_copy *family,
			       const struct percpu_text *values, struct percpu_reason *why);

/** Make the record of the family's series with these values, which were checked. */
void percpu_record_make_series(const struct percpu_record_copy *family,
			       const struct percpu_text *values, struct percpu_record_copy *ret);

/* series.c: tables */

/** Return the series with the name and values of labels of c, and copy its record to s->copy. Return
 *  NULL if there is none. */
struct percpu_series_slot *percpu_series_find(struct percpu_segment *s,
					      const struct percpu_record_copy *c);

/** Return the entry of that name in the table of families, and copy its record to s->copy. Return
 *  NULL if there is none. */
struct percpu_series_slot *percpu_series_find_name(struct percpu_segment *s,
						   const struct percpu_text *name);

/** Return the entry of the record at this place, which has the name and values of c; NULL if it was
 *  not entered. */
struct percpu_series_slot *percpu_series_at(const struct percpu_segment *s,
					    const struct percpu_record_copy *c, uint64_t at);

/** Enter the record at this place in the tables. Returns 0 or -ENOMEM. */
int percpu_series_enter(struct percpu_segment *s, const struct percpu_record_copy *c, uint64_t at);

/** Count again how many series of each family count for its cap. */
void percpu_series_count_members(struct percpu_segment *s);

/** A metric that is asked for. */
struct percpu_asked {
	struct percpu_record_copy *record;
	const struct percpu_parameters *parameters;
	bool member; /* it is a series of a family */
};

/* directory.c: records and their blocks */

/** Enter the records that were added since this process looked last. Returns 0 or -errno. */
int percpu_directory_refresh(struct percpu_segment *s);

/** What a search for a metric has found. */
enum percpu_found {
	PERCPU_FOUND_NOTHING, /* it is to be added */
	PERCPU_FOUND_IT,
	PERCPU_FOUND_REMOVED, /* it was removed */
	PERCPU_FOUND_FULL,    /* it is not there, and its family has as many series as its cap */
	PERCPU_FOUND_OTHER,   /* its name is that of another metric */
	PERCPU_FOUND_DAMAGE,  /* the file is damaged */
};

struct percpu_finding {
	enum percpu_found found;
	uint64_t at;  /* IT, REMOVED: place of its record */
	void *handle; /* IT, REMOVED: the handle of this process, or NULL */
};

/** Look for the metric in the tables. With member set, it is a series of a family. If it is another
 *  one, write why. Takes the process lock. */
struct percpu_finding percpu_directory_find(struct percpu_segment *s,
					    const struct percpu_record_copy *asked, bool member,
					    struct percpu_reason *why);

/** Return the anchor of the object of the record at this place. */
struct percpu_anchor percpu_directory_anchor(const struct percpu_segment *s, uint64_t at);

/** Return whether control->changes is still that number. If so, no record has been removed, revived
 *  or freed since the caller loaded the number. */
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

/* clash.c */

/** Return whether the segment has another metric with series that this one would have, too, and
 *  write why. The caller has the process lock. */
bool percpu_metric_clashes(struct percpu_segment *s, const struct percpu_record_copy *asked,
			   struct percpu_reason *why);

/* remove.c: the states of a record, and which processes may have handles of series */

/** Take the lock of the allocator, end a change of a killed process, and refresh the tables. Returns
 *  0 or -errno. percpu_region_unlock() releases the lock. */
int percpu_directory_lock(struct percpu_segment *s, struct percpu_robust *h);

/** Remove the series of that name and these values of labels. Returns 0, -ENOENT, or another
 *  -errno. */
int percpu_series_remove(struct percpu_segment *s, const struct percpu_record_copy *asked,
			 struct percpu_reason *why);

/** Look for the metric once more. If it is removed, let it begin anew. Returns 0 or -errno. */
int percpu_series_revive(struct percpu_segment *s, const struct percpu_asked *m,
			 struct percpu_finding *f, struct percpu_reason *why);

/** Let readers list the overflow at this place. */
void percpu_series_show(struct percpu_segment *s, uint64_t at);

/** Free the removed series, unless a process is present or a lock cannot be had. */
void percpu_series_free_removed(struct percpu_segment *s);

/** Be present as long as this process has the segment open: its handles of series stay valid.
 *  Returns 0 or -errno. */
int percpu_presence_hold(struct percpu_segment *s);

/** Be present until percpu_presence_drop(); a child of fork is not. Returns 0 or -errno. */
int percpu_presence_take(struct percpu_segment *s, void **ret);

/** End a presence. NULL is fine. */
void percpu_presence_drop(void *presence);

/** Write why this process could not be present. The sentence begins with n bytes of name. Returns
 *  e. */
int percpu_presence_complain(const char *name, size_t n, int e, struct percpu_reason *why);

/** Words for -EBADF of a segment that is open. */
#define PERCPU_CLOSED                                                                              \
	"the program has closed the segment's descriptor: let it be open, and open the segment again"

/* control.c */

/** What a new segment gets. */
struct percpu_making {
	char program[PERCPU_SEGMENT_PROGRAM]; /* shorter: behind it 0 */
	uint32_t mode;			      /* permissions of the file; 0: as it has them */
};

/** Read the name of the program that opens a segment; NULL: as the process was called. Returns 0,
 *  or -errno and why. */
int percpu_program_read(const char *asked, struct percpu_making *ret, struct percpu_reason *why);

/** Create the control in a new file. making is a struct percpu_making. Returns 0 or -errno. */
int percpu_control_make(struct percpu_region *r, const void *making);

/** Find the control of the segment, or create it if the region is a bare one. Returns 0 or
 *  -errno. */
int percpu_control_open(struct percpu_segment *s, const struct percpu_making *making);

/** Check that the segment was made by the program that is asked for; NULL: any. Returns 0, or
 *  -EEXIST and why. */
int percpu_control_check_program(const struct percpu_segment *s, const char *asked,
				 struct percpu_reason *why);

/** Return a number for this boot in this time namespace; 0: not known. */
uint64_t percpu_segment_boot(void);

/** Return the time now, by both clocks. */
struct percpu_segment_time percpu_segment_now(const struct percpu_segment *s);

/* segment.c */

#define PERCPU_FLAT_NAMES "/dev/shm/percpu." /* in front of a name that is no path */
#define PERCPU_SERVICE_NAMES "/run/percpu/"  /* where readers look after that */

/** Open a segment in a file of this process and of its forks alone, because of the sentence that the
 *  thread has. Returns 0 or -errno. */
int percpu_segment_open_private(const char *name, unsigned flags,
				const struct percpu_segment_options *o,
				struct percpu_segment **ret);

/** Return whether a segment whose file cannot be had because of e is private then. */
bool percpu_segment_falls_back(unsigned flags, int e);

/** Return the path of the segment of that name, or NULL, *e, and why if the name is wrong. The
 *  caller frees it. */
char *percpu_segment_path(const char *name, int *e, struct percpu_reason *why);

/** Return how many ns are between then and now. If both are of one known boot, CLOCK_BOOTTIME
 *  tells, which is never set. Otherwise CLOCK_REALTIME tells; return 0 if that went back. */
uint64_t percpu_segment_age(const struct percpu_segment_time *then,
			    const struct percpu_segment_time *now);

/** Open the owners of the segment, or create them. Returns NULL and *e on
 *  failure. The segment keeps them; the caller does not detach them. */
struct percpu_owners *percpu_segment_owners(struct percpu_segment *s, int *e);

/* generation.c */

/** Take the lock under which objects are reset, of the segment or of one series. The kernel drops it
 *  if the process is killed. Returns 0, -ETIMEDOUT, or another -errno. */
int percpu_resets_lock(const struct percpu_segment *s);

void percpu_resets_unlock(const struct percpu_segment *s);

/** With anew set, reset the segment. Otherwise wait for the end of a reset that is going on; if the
 *  resetting process was killed, complete the reset. Returns 0 or -errno. */
int percpu_generation_complete(struct percpu_segment *s, bool anew);

/* declare.c */

/** Find the object of the metric, or create it with its record. Set *handle to the one handle that
 *  this process has of the object, and *at to the place of the record. Returns 0, or -errno and
 *  why. */
int percpu_segment_open_metric(struct percpu_segment *s, const struct percpu_asked *m,
			       void **handle, uint64_t *at, struct percpu_reason *why);

/** Declare a metric. ret is the address of a pointer to the object's type; NULL for an info. Returns
 *  0, or -errno and why. */
int percpu_segment_declare_metric(struct percpu_segment *s, const struct percpu_metric *m,
				  unsigned kind, struct percpu_parameters p, void *ret,
				  struct percpu_reason *why);

/** Detach all handles. */
void percpu_segment_detach_all(struct percpu_segment *s);

/* exemplars.c: exemplars of series */

/** Return the histogram of a handle of that kind; NULL for another kind. */
static inline const struct percpu_histogram *percpu_histogram_of_kind(unsigned kind,
								      const void *handle)
{
	return kind == PERCPU_METRIC_HISTOGRAM ? handle : NULL;
}

/** Forget the exemplars of this key; 0: there are none. Returns 0 or -ENOMEM. */
int percpu_series_reset_exemplars(struct percpu_segment *s, uint64_t key);

/** Free the exemplars of a removed series. The caller has the lock of the allocator. */
void percpu_series_free_exemplars(struct percpu_segment *s, uint64_t at);

/* segment_check.c: PERCPU_SEGMENT_DEBUG */

/** Watch the segment, which was opened by that name. Returns 0 or -ENOMEM. */
int percpu_segment_check_begin(struct percpu_segment *s, const char *name);

/** Abort if the segment, which is watched, is closed: for a call that looks at nothing in the file. */
void percpu_segment_check_use(const struct percpu_segment *s);

/** Close a segment that is watched, or abort if it is closed. */
void percpu_segment_check_close(struct percpu_segment *s);

/* family.c */

/** Declare the family of a declaration that was read. Returns 0, or -errno and why. */
int percpu_segment_declare_family(struct percpu_segment *s, const struct percpu_declaration *d,
				  struct percpu_family **ret, struct percpu_reason *why);

/** Free the families that this process has declared. */
void percpu_segment_drop_families(struct percpu_segment *s);

#endif

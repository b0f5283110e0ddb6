/* SPDX-License-Identifier: MIT */
/*
 * kinds.h - the kinds of metrics. A kind is a row: all that differs between two kinds is there. To
 * add a kind, add its number to enum percpu_metric_kind, and its row to the table in kinds.c.
 */
#ifndef PERCPU_SEGMENT_KINDS_H
#define PERCPU_SEGMENT_KINDS_H

#include <percpu/segment.h>

#include "../memory/memory.h"
#include "complaint.h"

struct percpu_record_copy;

/** Parameters of an object. Only the fields are also in its record. */
struct percpu_parameters {
	const struct percpu_histogram_options *histogram;
	const struct percpu_metric_fields *fields;
	unsigned flags; /* flags of extrema and statistics; rule and flags of an owned gauge */
};

/** The label by which readers tell the values of an owned gauge's owners from each other. */
#define PERCPU_OWNED_LABEL "pid"

/** Some words of a sentence. */
struct percpu_words {
	char text[160];
};

/** How the cells of all lanes are combined into one. */
enum percpu_gather {
	PERCPU_GATHER_WORDS,   /* sums of integers */
	PERCPU_GATHER_DOUBLES, /* sums of doubles, in the order of the lanes */
	PERCPU_GATHER_HISTOGRAM,
	PERCPU_GATHER_EXTREMA,
	PERCPU_GATHER_STATS, /* sums of integers, of which each CPU lane has two copies */
};

/** Adjacent cells of a chunk that are combined in the same way. */
struct percpu_part {
	uint32_t chunk;
	uint32_t offset;
	uint32_t bytes;
	uint32_t unit; /* how many bytes change together, if more than a word; else 0 */
	enum percpu_gather gather;
	const void *object; /* the object of these cells; NULL for words and doubles */
};

/** The cells of an object that a reader reads. */
struct percpu_cells {
	struct percpu_part part; /* in the CPUs' lanes; 0 bytes: none */
	uint32_t bias;		 /* how many bytes of the bias lane a set or a reset changes */
	uint32_t bias_at;	 /* where these bytes are in the lane */
};

/** A kind of metrics. The functions take a handle that open() or attach() has stored. */
struct percpu_kind_row {
	const char *name;	   /* for a sentence: "a counter" */
	const char *ending;	   /* what its name ends in by convention: "_total"; or "" */
	const char *const *series; /* what names of its series have in place of the ending; the last
				      is NULL */
	const char *own_label;	   /* a label by which its series are told apart; or NULL */
	unsigned flags;		   /* the flags that there are in percpu_parameters.flags */
	bool in_families;	   /* a family may be of this kind */
	bool has_fields;	   /* percpu_parameters.fields is for this kind */
	bool has_no_value;	   /* ret is NULL, and there is no handle */
	bool has_exemplars;	   /* its series may have exemplars */

	/** Check parameters that the flags and the fields do not say all of, for the metric of that
	 *  name and record. NULL: there are none. Returns 0, or -errno and why. */
	int (*check)(const char *name, const struct percpu_record_copy *asked,
		     const struct percpu_parameters *p, struct percpu_reason *why);

	/** Find or create the object at the anchor. Returns 0 or -errno. */
	int (*open)(struct percpu_segment *s, struct percpu_anchor *at,
		    const struct percpu_parameters *p, void *ret);

	/** Attach to the object with this key, which has so many fields. Returns 0 or -errno. */
	int (*attach)(struct percpu_segment *s, uint64_t key, size_t fields, void *ret);

	/** Detach the handle. NULL: handles of this kind take no memory. */
	void (*detach)(void *handle);

	/** Begin from 0. NULL: a reset of the segment leaves the object as it is. Returns 0 or
	 *  -errno. */
	int (*reset)(void *handle);

	/** Forget the value that a reset leaves. NULL: reset() does, or the value is not the
	 *  object's alone. Returns 0 or -errno. */
	int (*clear)(void *handle);

	/** Return the flags, or the rule, that the object was created with. NULL: 0. Those of a
	 *  histogram are in its options. */
	unsigned (*read_flags)(const void *handle);

	/** Write what the object was created with. NULL: all objects of this kind are the same. */
	void (*describe)(const void *handle, struct percpu_words *out);

	/** Write the same of an object that is asked for. */
	void (*describe_asked)(const struct percpu_parameters *p, struct percpu_words *out);

	/** Write what differs between both, of which these functions have written the same words.
	 *  Leave the words if nothing does. NULL: the words say all. */
	void (*describe_both)(const void *handle, const struct percpu_parameters *p,
			      struct percpu_words *has, struct percpu_words *wants);

	/** Return which cells of the object a reader reads. NULL: none. */
	struct percpu_cells (*find_cells)(const void *handle);

	/** Store the value as one number. NULL: it is not one number. Returns 0 or -errno. */
	int (*read_number)(const void *handle, double *ret);

	/** Free what belongs to the object elsewhere, before the object. NULL: nothing does. */
	void (*release)(struct percpu_region *r, const struct percpu_anchor *at);
};

/* Rows. */

extern const struct percpu_kind_row percpu_kind_counter, percpu_kind_fcounter, percpu_kind_gauge,
	percpu_kind_fgauge, percpu_kind_latest, percpu_kind_info;		/* kinds_number.c */
extern const struct percpu_kind_row percpu_kind_histogram, percpu_kind_extrema; /* kinds_wide.c */
extern const struct percpu_kind_row percpu_kind_stats;				/* kinds_wide.c */
extern const struct percpu_kind_row percpu_kind_owned_gauge,
	percpu_kind_owned_fgauge; /* kinds_owned.c */

/* kinds.c */

extern const char *const percpu_series_of_counters[],
	*const percpu_series_of_gauges[], *const percpu_series_of_histograms[],
						  *const percpu_series_of_infos[];

/** Return the kind of that number, or NULL if there is none. */
const struct percpu_kind_row *percpu_kind_of(unsigned kind);

/** Detach a handle of that kind. */
void percpu_kind_detach(unsigned kind, void *handle);

/** Return cells of one part, at this offset from the cell of CPU 0. They are also the bytes of the
 *  bias lane. */
struct percpu_cells percpu_cells_at(const void *cell, size_t offset, size_t bytes,
				    enum percpu_gather gather);

/** Check that the metric of that name and record can have these parameters. Returns 0, or -errno and
 *  why. */
int percpu_parameters_check(const char *name, const struct percpu_record_copy *asked,
			    const struct percpu_parameters *p, struct percpu_reason *why);

/** Write what the object with this key was created with, and what the parameters ask for. Returns
 *  whether they differ in words. */
bool percpu_parameters_differ(struct percpu_segment *s, unsigned kind, uint64_t key,
			      const struct percpu_parameters *p, struct percpu_words *has,
			      struct percpu_words *wants);

/* kinds_bounds.c: own bounds of histograms */

/** Write why reading these options of a histogram failed with e. Returns e. */
int percpu_bounds_complain(const char *name, const struct percpu_histogram_options *asked, int e,
			   struct percpu_reason *why);

/** Check that a summary may have the labels of the record. Returns 0, or -errno and why. */
int percpu_bounds_check_labels(const struct percpu_record_copy *asked, struct percpu_reason *why);

/** Copy the own bounds of checked options, if there are any, and let the options point to the copy.
 *  The caller frees *ret. Returns 0, or -ENOMEM and why. */
int percpu_bounds_keep(struct percpu_histogram_options *o, double **ret, struct percpu_reason *why);

/** Write which bound is the first that differs between two histograms with as many own bounds. */
void percpu_bounds_describe(const struct percpu_histogram *has,
			    const struct percpu_histogram *wants, struct percpu_words *ret_has,
			    struct percpu_words *ret_wants);

#endif

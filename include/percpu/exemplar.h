/* SPDX-License-Identifier: MIT */
/*
 * exemplar.h - exemplars: for a counter, or for each bucket of a histogram, the latest event that
 * the program has described: its value, its time, and labels such as the id of a trace.
 *
 *	percpu_histogram_record(seconds, took);
 *	percpu_exemplars_store(x, took, &(struct percpu_exemplar_label){ "trace_id", id }, 1);
 *
 * Exemplars are an object of their own. The counter or histogram does not know of it, and counts at
 * the same cost as without.
 *
 * A counter has one slot. A histogram with own bounds has a slot for each bucket. Another histogram
 * has a slot for each octave, one for what is below its range, and one for what is above. A
 * histogram with more than PERCPU_EXEMPLAR_SLOTS of these has fewer slots: 2, 4, 8 or 16 neighbors
 * share one. The value of an exemplar tells which bucket it belongs to.
 *
 * A slot keeps the last exemplar that was stored completely, also if a thread is stopped or killed
 * while it stores the next one. A reader never gets parts of two exemplars.
 */
#ifndef PERCPU_EXEMPLAR_H
#define PERCPU_EXEMPLAR_H

#include <percpu/histogram.h>
#include <percpu/region.h>

PERCPU_BEGIN_DECLS

/** The exemplars of one counter or histogram. */
struct percpu_exemplars;

#define PERCPU_EXEMPLAR_SLOTS 128 /* the most slots */
#define PERCPU_EXEMPLAR_LABELS 16 /* the most labels of an exemplar */
#define PERCPU_EXEMPLAR_BYTES 128 /* the most bytes of the names and values of all its labels */

/** A label of an exemplar: two strings of UTF-8. The name is not empty. */
struct percpu_exemplar_label {
	const char *name, *value;
};

/** An exemplar that was read. Label k has the name text + label_names[k] and the value
 *  text + label_values[k]; both are strings. */
struct percpu_exemplar {
	double value;
	uint64_t time;	 /* when it was stored: CLOCK_REALTIME in ns */
	uint32_t labels; /* how many, 0 to PERCPU_EXEMPLAR_LABELS */
	uint8_t label_names[PERCPU_EXEMPLAR_LABELS];
	uint8_t label_values[PERCPU_EXEMPLAR_LABELS];
	char text[PERCPU_EXEMPLAR_BYTES + 2 * PERCPU_EXEMPLAR_LABELS];
};

/*
 * All calls of this header have this in common, unless one says otherwise.
 *
 * Context: calls that create, open, attach, detach or destroy: any thread, constructors included;
 * not a signal handler. Other calls: any thread of any process that has the exemplars mapped; signal
 * handlers; children of fork.
 * Ordering: a thread that fetches an exemplar sees what the thread that stored it did before.
 * Progress: creating and destroying takes locks of the process and, in a shared region, one between
 * processes, for which a call waits a second at most. Other calls take no lock, wait for nothing,
 * and make no system call where the kernel's clock needs none.
 *
 * h is the histogram that the exemplars are of, of one histogram (n is 1). NULL means a counter, or
 * anything else that needs one slot. The histogram must stay until the exemplars are detached or
 * destroyed.
 */

/**
 * Create empty exemplars in memory of this process, or in a region. A slot takes 392 bytes, once for
 * all CPUs.
 *
 * Return 0, or
 *	-EINVAL	a NULL for the result or the region; h is several histograms
 *	-ENOMEM	no memory or address space
 *	-E2BIG	more CPUs than PERCPU_MAX_CPUS
 *	-EROFS, -ENOSPC, -ETIMEDOUT  in a region, as percpu_region_alloc()
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_create(const struct percpu_histogram *h,
							 struct percpu_exemplars **ret);
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_create_in(struct percpu_region *r,
							    const struct percpu_histogram *h,
							    struct percpu_exemplars **ret);

/**
 * Attach to the exemplars at this root of a shared region, or create them if there are none.
 * percpu_exemplars_detach() undoes it and leaves the exemplars.
 *
 * Returns 0, an error of percpu_exemplars_create_in(), -ENOENT (nothing there, and the region was
 * opened to read), or -EEXIST (another object there, or exemplars with another number of slots).
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_open(struct percpu_region *r, unsigned root,
						       const struct percpu_histogram *h,
						       struct percpu_exemplars **ret);

/**
 * Attach to the exemplars at this key of a shared region.
 *
 * Returns 0, or -EINVAL (a NULL for the result or the region; h is several histograms), -ENOENT (no
 * exemplars there, or with another number of slots), -ENOMEM.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_attach(struct percpu_region *r, uint64_t key,
							 const struct percpu_histogram *h,
							 struct percpu_exemplars **ret);
PERCPU_API void percpu_exemplars_detach(struct percpu_exemplars *x);

/** Return the exemplars' key in their region; 0 for private ones. */
PERCPU_API uint64_t percpu_exemplars_key(const struct percpu_exemplars *x);

/** Free the exemplars. No thread may be using them. NULL is fine. If a root has their key, set the
 *  root to 0 first: percpu_region_set_root(). */
PERCPU_API void percpu_exemplars_destroy(struct percpu_exemplars *x);

/**
 * Store the exemplar of an event: its value, the time now, and n labels. It replaces the one in the
 * slot of that value. The value is what was added to the counter, or recorded in the histogram, in
 * the exported unit. The call does not count the event.
 *
 * The names and values of all labels have at most PERCPU_EXEMPLAR_BYTES bytes together.
 * OpenMetrics allows 128 characters, which are more bytes if the text is not ASCII.
 *
 * If another thread is storing in the same slot, the call stores nothing: the other exemplar is as
 * recent. A thread that was stopped or killed in this call keeps a slot for a second at most.
 *
 * Returns 0, or, with nothing stored,
 *	-EINVAL	a NULL; more than PERCPU_EXEMPLAR_LABELS labels; an empty name, or one that is there
 *		twice
 *	-ENAMETOOLONG  the labels have more than PERCPU_EXEMPLAR_BYTES bytes
 *	-EILSEQ	a label is not UTF-8
 *	-EDOM	the value is infinite or NaN
 *	-ERANGE	the histogram refuses the value: it is negative, or too large
 *	-EBUSY	another thread is storing in the slot, or the exemplars were reset meanwhile; or a
 *		thread was killed while it was storing there, for a second after that. If no thread
 *		has stored there since, also for a second after each 4 h 53 min (2^44 ns)
 *	-EROFS	the region was opened to read
 *
 * Progress: wait-free.
 * Source: exemplars of OpenMetrics and OpenTelemetry.
 */
PERCPU_API int percpu_exemplars_store(struct percpu_exemplars *x, double value,
				      const struct percpu_exemplar_label *labels, size_t n);

/**
 * Read the exemplar in slot i, from 0. Slots are in the order of values. A loop over all slots ends
 * at -EINVAL.
 *
 * An exemplar need not be of an event that a read of the counter or histogram includes: the two are
 * read at two moments. If a thread that was stopped for more than a second in
 * percpu_exemplars_store() has damaged the last exemplar, the call returns the one before.
 *
 * Returns 0, or
 *	-EINVAL	a NULL; or there is no slot i
 *	-ENODATA  no exemplar was stored there
 *	-EAGAIN	other threads have replaced the exemplar again and again meanwhile; or the file is
 *		damaged; or a thread that was stopped for more than a second in
 *		percpu_exemplars_store() has damaged one copy, and another one that was stopped so,
 *		or killed, the other copy. The next store mends that
 *
 * Progress: wait-free.
 */
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_fetch(const struct percpu_exemplars *x, size_t i,
							struct percpu_exemplar *ret);

/** Forget all exemplars. A store that runs meanwhile is before it or after it. Returns 0, -EINVAL
 *  (NULL), or -EROFS. */
PERCPU_API PERCPU_MUST_CHECK int percpu_exemplars_reset(struct percpu_exemplars *x);

PERCPU_END_DECLS

#endif

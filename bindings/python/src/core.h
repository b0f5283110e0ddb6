/* SPDX-License-Identifier: MIT */
/*
 * core.h - what the files of the extension module percpu._core share.
 *
 * Each interpreter has a module of its own, with its own types. An object that counts holds its segment
 * and is one of the uses of it. The segment is closed with the last use: Segment.close() gives up the
 * first one, so objects that are there go on counting.
 */
#ifndef PERCPU_PYTHON_CORE_H
#define PERCPU_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <percpu/percpu.h>

/** The state of a module: its types and exceptions. */
struct core_state {
	PyTypeObject *segment;
	PyTypeObject *counter;
	PyTypeObject *fcounter;
	PyTypeObject *gauge;
	PyTypeObject *owned_gauge;
	PyTypeObject *histogram;
	PyTypeObject *snapshot;
	PyTypeObject *stats;
	PyTypeObject *family;
	PyTypeObject *reader;
	PyTypeObject *series;
	PyTypeObject *reader_info; /* named tuples */
	PyTypeObject *owned_value;
	PyTypeObject *exemplar;
	PyObject *error;	      /* percpu.Error, an OSError */
	PyTypeObject *handle, *value; /* of the drop-in */
	PyObject *complain; /* called with an errno when something could not be counted; or NULL */
};

/** A segment that is open to count. */
struct core_segment {
	PyObject_HEAD
	struct percpu_segment *s;
	int uses; /* one until it is closed, one for each call that runs, and for each object; atomic */
	int closed; /* 1: by close(); atomic */
};

/** Use a segment that is not closed. Returns 0, or -1 with an exception. */
int core_segment_enter(struct core_segment *self);

/** End a use. The last one closes the segment. NULL is fine. */
void core_segment_leave(struct core_segment *self);

/** A handle of the library. */
union core_pointer {
	void *any;
	struct percpu_counter *counter;
	struct percpu_fcounter *fcounter;
	struct percpu_fgauge *gauge;
	struct percpu_owned_fgauge *owned;
	struct percpu_histogram *histogram;
};

/** A counter, a gauge or a histogram. It holds no cycle. */
struct core_object {
	PyObject_HEAD
	union core_pointer of;
	struct core_segment *segment;	    /* a use of it */
	struct core_family *family;	    /* NULL: it is a metric of its own */
	PyObject *name;			    /* of such a metric */
	PyObject *label_names;		    /* likewise: a tuple of str */
	PyObject *label_values;		    /* tuple of str */
	struct percpu_exemplars *exemplars; /* NULL: none yet; atomic */
};

/** A family. */
struct core_family {
	PyObject_HEAD
	struct percpu_family *f;
	struct core_segment *segment; /* a use of it */
	PyTypeObject *type;	      /* of its series */
	uint32_t kind;		      /* enum percpu_metric_kind */
	uint32_t labels;	      /* how many */
};

/** Statistics. */
struct core_stats {
	PyObject_HEAD
	struct percpu_stats *of;
	struct core_segment *segment; /* a use of it */
	PyObject *fields;	      /* tuple of str */
};

/** A metric that is being declared, and the use of its segment. */
struct core_metric {
	struct percpu_metric m;
	struct core_segment *segment;
	PyObject *label_names, *label_values; /* tuples of str, or NULL */
	const char *names[PERCPU_METRIC_LABELS];
	const char *values[PERCPU_METRIC_LABELS];
};

/** Begin to declare a metric: labels is a mapping, None or NULL. Returns 0, or -1 with an exception. */
int core_metric_begin(struct core_metric *self, PyObject *segment, PyObject *labels);

/** End it, and the use of the segment. */
void core_metric_end(struct core_metric *self);

/** End it by an object of this type, or by an exception for e. The object has the use of the
 *  segment. */
PyObject *core_metric_object(struct core_metric *self, int e, PyTypeObject *type,
			     union core_pointer of);

/** Return an object of a type for a series of a family. It takes values over. NULL: an exception. */
PyObject *core_object_of_family(struct core_family *family, union core_pointer of,
				PyObject *values);
void core_object_dealloc(PyObject *object);

/** The method exemplar(labels, value) of an object. */
PyObject *core_object_exemplar(PyObject *object, PyObject *args);

/** Get n texts from a sequence as a tuple of str, and their UTF-8, which stays valid as long as the
 *  tuple. Returns NULL with an exception: a text is no str, has a 0, or has no UTF-8; or they are not
 *  n, or more than `most` if n is -1. */
PyObject *core_texts(PyObject *sequence, Py_ssize_t n, Py_ssize_t most, const char **utf8);

/** Get the UTF-8 of a value of a label. One that has none, or has a 0, gets a text that is not UTF-8:
 *  the library then gives the overflow. Returns NULL with an exception. */
const char *core_label(PyObject *value);

/** Get an amount for a counter: an int that is not negative. Returns 0, or -1 with an exception. */
int core_count(PyObject *number, int64_t *ret);

/** Get a double. Returns 0, or -1 with an exception. */
int core_double(PyObject *number, double *ret);

/** Options of a histogram, as Python has them. bounds is a sequence, None or NULL. */
struct core_histogram_options {
	struct percpu_histogram_options o;
	PyObject *bounds;
	double *own; /* for PyMem_Free(); NULL: none */
	int summary;
};

/** Complete the options. Returns 0, or -1 with an exception. Afterwards PyMem_Free(self->own). */
int core_histogram_options_set(struct core_histogram_options *self);

/** Get the rule of an owned gauge from its name. Returns 0, or -1 with an exception. */
int core_rule(const char *owned, unsigned *ret);

/** Return the bounds of a snapshot, or its counts, as a tuple. NULL: an exception. */
PyObject *core_histogram_bounds(const struct percpu_histogram_snapshot *h);
PyObject *core_histogram_counts(const struct percpu_histogram_snapshot *h);

/** The methods of Segment that declare. */
PyObject *core_declare_counter(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *core_declare_gauge(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *core_declare_histogram(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *core_declare_stats(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *core_declare_info(PyObject *object, PyObject *args, PyObject *kwargs);
PyObject *core_declare_family(PyObject *object, PyObject *args, PyObject *kwargs);

/** A series of a picture: what percpu_reader_series() tells, and its value. It holds no cycle. */
struct core_series {
	PyObject_HEAD
	PyObject *name, *help, *unit, *kind;
	PyObject *label_names, *label_values; /* tuples of str */
	PyObject *field, *fields;	      /* of statistics: a label's name, and its values */
	PyObject *value;
	double since;	  /* seconds since 1970 */
	uint64_t picture; /* number of the picture that it is of */
	size_t index;	  /* its number in the picture */
	unsigned long long overflows, invalid;
	unsigned flags, cap;
};

/** What makes the series of a picture, one after the other. A series has the objects of the one before
 *  it where both are the same. */
struct core_series_maker {
	struct core_state *state;
	const struct percpu_reader *r;
	uint64_t picture;
	struct core_series *before; /* borrowed; NULL at first */
	struct percpu_reader_series was;
	PyObject *bounds; /* of the exponential histogram before; NULL: none yet */
	int32_t schema, low;
	uint32_t n;
};

/** Make series i of the picture. Returns NULL with an exception if there is no memory. */
PyObject *core_series_make(struct core_series_maker *m, size_t i);

/** Return the state of the module that made this type. */
struct core_state *core_state_of(PyTypeObject *type);

/** Raise percpu.Error for a call that has just returned e, with the sentence of percpu_error().
 *  Returns NULL. */
PyObject *core_raise(struct core_state *state, int e);

/** Raise percpu.Error for a call that says no sentence: with the text of percpu_strerror(). Returns
 *  NULL. */
PyObject *core_raise_plain(struct core_state *state, int e);

/** Return a text of a file or of the library as a str, whatever bytes it has. */
PyObject *core_text(const char *text);

/** Flags of a type that a program neither makes nor changes. */
#define CORE_TYPE_FLAGS                                                                            \
	(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION)

/** Make a type of the module from its spec, add it to the module, and store it. Returns 0 or -1. */
int core_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret);

/** Return a new named tuple of n values, which the call takes over. A value may be NULL: then there is
 *  an exception, and the call returns NULL. */
PyObject *core_tuple(PyTypeObject *type, PyObject *const *values, Py_ssize_t n);

/** Make the named tuples that a reader returns, and add them to the module. Returns 0 or -1. */
int core_reader_tuples_add(PyObject *module, struct core_state *state);

/** Add to the module what the drop-in needs. Returns 0 or -1. */
int core_dropin_add(PyObject *module, struct core_state *state);

extern PyType_Spec core_segment_spec;
extern PyType_Spec core_counter_spec;
extern PyType_Spec core_fcounter_spec;
extern PyType_Spec core_gauge_spec;
extern PyType_Spec core_owned_gauge_spec;
extern PyType_Spec core_histogram_spec;
extern PyType_Spec core_snapshot_spec;
extern PyType_Spec core_stats_spec;
extern PyType_Spec core_family_spec;
extern PyType_Spec core_reader_spec;
extern PyType_Spec core_series_spec;

#endif

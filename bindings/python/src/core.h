/* SPDX-License-Identifier: MIT */
/*
 * core.h - what the files of the extension module percpu._core share.
 *
 * Each interpreter has a module of its own, with its own types. An object holds a reference to the
 * segment that its handle is of, and the segment is closed when the last of these is gone.
 */
#ifndef PERCPU_PYTHON_CORE_H
#define PERCPU_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <percpu/percpu.h>

/** The state of a module: its types and exceptions. */
struct core_state {
	PyTypeObject *segment;
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
	PyObject_HEAD struct percpu_segment *s;
	PyObject *name;
};

/** A series of a picture: what percpu_reader_series() tells, and its value. It holds no cycle. */
struct core_series {
	PyObject_HEAD PyObject *name, *help, *unit, *kind;
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
extern PyType_Spec core_reader_spec;
extern PyType_Spec core_series_spec;

#endif

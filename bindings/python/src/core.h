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
	PyTypeObject *handle, *value;
	PyObject *error;    /* percpu.Error, an OSError */
	PyObject *complain; /* called with an errno when something could not be counted; or NULL */
};

/** A segment that is open to count. */
struct core_segment {
	PyObject_HEAD
	struct percpu_segment *s;
	PyObject *name;
};

/** Return the state of the module that made this type. */
struct core_state *core_state_of(PyTypeObject *type);

/** Raise percpu.Error for a call that has just returned e, with the sentence of percpu_error().
 *  Returns NULL. */
PyObject *core_raise(struct core_state *state, int e);

/** Make a type of the module from its spec, add it to the module, and store it. Returns 0 or -1. */
int core_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret);

extern PyType_Spec core_segment_spec;

#endif

/* SPDX-License-Identifier: MIT */
/*
 * core_reader.h - percpu.Reader, for the files that are its methods.
 */
#ifndef PERCPU_PYTHON_CORE_READER_H
#define PERCPU_PYTHON_CORE_READER_H

#include "core.h"

/** A reader. */
struct core_reader {
	PyObject_HEAD
	struct percpu_reader *r; /* NULL: closed */
	uint64_t picture;	 /* number of the picture; 0: none yet */
	int holder;		 /* id of the thread that uses the reader; 0: none; atomic */
};

/** Be the thread that uses the reader, which is open; wait for another one. Returns 0, or -1 with an
 *  exception. */
int core_reader_enter(struct core_reader *self);
void core_reader_leave(struct core_reader *self);

PyObject *core_reader_info(PyObject *object, PyObject *unused);
PyObject *core_reader_owners(PyObject *object, PyObject *series);
PyObject *core_reader_shown(PyObject *object, PyObject *series);
PyObject *core_reader_exemplars(PyObject *object, PyObject *series);

#endif

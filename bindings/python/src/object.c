/* SPDX-License-Identifier: MIT */
/*
 * object.c - what counters, gauges and histograms have in common: how they are declared, keep their
 * segment, and store exemplars; and numbers and texts that come from Python.
 */
#include "core.h"

int core_count(PyObject *number, int64_t *ret)
{
	long long n = PyLong_AsLongLong(number);

	if (n == -1 && PyErr_Occurred() != NULL)
		return -1;
	if (n < 0) {
		PyErr_SetString(PyExc_ValueError, "a counter only grows: the amount is negative");
		return -1;
	}
	*ret = n;
	return 0;
}

int core_double(PyObject *number, double *ret)
{
	*ret = PyFloat_AsDouble(number);
	return *ret == -1.0 && PyErr_Occurred() != NULL ? -1 : 0;
}

/* Get the UTF-8 of a str without a 0. Returns NULL with an exception. */
static const char *object_utf8(PyObject *text)
{
	Py_ssize_t n;
	const char *utf8 = PyUnicode_AsUTF8AndSize(text, &n);

	if (utf8 != NULL && memchr(utf8, 0, (size_t)n) != NULL) {
		PyErr_SetString(PyExc_ValueError, "embedded null character");
		return NULL;
	}
	return utf8;
}

const char *core_label(PyObject *value)
{
	const char *utf8 = object_utf8(value);

	if (utf8 != NULL || !PyErr_ExceptionMatches(PyExc_ValueError))
		return utf8;
	PyErr_Clear();
	return "\xff";
}

PyObject *core_texts(PyObject *sequence, Py_ssize_t n, Py_ssize_t most, const char **utf8)
{
	Py_ssize_t size;
	PyObject *tuple;

	if (PyUnicode_Check(sequence)) {
		PyErr_SetString(PyExc_TypeError, "a str is there, and not a sequence of them");
		return NULL;
	}
	size = PySequence_Size(sequence);
	if (size < 0)
		return NULL;
	if (size > most || (n >= 0 && size != n)) {
		PyErr_Format(PyExc_ValueError, "there are %zd texts, and not %zd%s", size,
			     n >= 0 ? n : most, n >= 0 ? "" : " at most");
		return NULL;
	}
	tuple = PyTuple_New(size);
	for (Py_ssize_t i = 0; tuple != NULL && i < size; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);
		PyObject *text = item != NULL ? PyUnicode_FromObject(item) : NULL;

		Py_XDECREF(item);
		utf8[i] = text != NULL ? object_utf8(text) : NULL;
		if (utf8[i] == NULL || PyTuple_SetItem(tuple, i, Py_NewRef(text)) < 0)
			Py_CLEAR(tuple);
		Py_XDECREF(text);
	}
	return tuple;
}

/* Get the names and the values of a mapping of labels. Returns 0, or -1 with an exception. */
static int object_labels(PyObject *labels, struct core_metric *self)
{
	PyObject *keys = PyMapping_Keys(labels);
	PyObject *values = keys != NULL ? PyMapping_Values(labels) : NULL;

	if (values != NULL)
		self->label_names = core_texts(keys, -1, PERCPU_METRIC_LABELS, self->names);
	if (self->label_names != NULL)
		self->label_values = core_texts(values, PyTuple_Size(self->label_names),
						PERCPU_METRIC_LABELS, self->values);
	Py_XDECREF(keys);
	Py_XDECREF(values);
	if (self->label_values == NULL)
		return -1;
	self->m.labels = (size_t)PyTuple_Size(self->label_names);
	if (self->m.labels != 0) {
		self->m.label_names = self->names;
		self->m.label_values = self->values;
	}
	return 0;
}

int core_metric_begin(struct core_metric *self, PyObject *segment, PyObject *labels)
{
	self->m.size = sizeof(self->m);
	if (labels != NULL && labels != Py_None && object_labels(labels, self) < 0) {
		core_metric_end(self);
		return -1;
	}
	if (core_segment_enter((struct core_segment *)segment) < 0) {
		core_metric_end(self);
		return -1;
	}
	self->segment = (struct core_segment *)segment;
	return 0;
}

void core_metric_end(struct core_metric *self)
{
	core_segment_leave(self->segment);
	self->segment = NULL;
	Py_CLEAR(self->label_names);
	Py_CLEAR(self->label_values);
}

PyObject *core_metric_object(struct core_metric *self, int e, PyTypeObject *type,
			     union core_pointer of)
{
	struct core_object *h = NULL;

	if (e != 0)
		core_raise(core_state_of(Py_TYPE((PyObject *)self->segment)), e);
	else
		h = (struct core_object *)PyType_GenericAlloc(type, 0);
	if (h != NULL) {
		h->name = core_text(self->m.name);
		if (h->name == NULL)
			Py_CLEAR(h);
	}
	if (h != NULL) {
		h->of = of;
		h->segment = (struct core_segment *)Py_NewRef((PyObject *)self->segment);
		self->segment = NULL;
		h->label_names = Py_XNewRef(self->label_names);
		h->label_values = Py_XNewRef(self->label_values);
	}
	core_metric_end(self);
	return (PyObject *)h;
}

PyObject *core_object_of_family(struct core_family *family, union core_pointer of, PyObject *values)
{
	struct core_object *h = (struct core_object *)PyType_GenericAlloc(family->type, 0);

	if (h == NULL) {
		Py_DECREF(values);
		return NULL;
	}
	h->of = of;
	h->family = (struct core_family *)Py_NewRef((PyObject *)family);
	h->label_values = values;
	return (PyObject *)h;
}

void core_object_dealloc(PyObject *object)
{
	struct core_object *h = (struct core_object *)object;
	PyTypeObject *type = Py_TYPE(object);

	core_segment_leave(h->segment);
	Py_XDECREF((PyObject *)h->segment);
	Py_XDECREF((PyObject *)h->family);
	Py_XDECREF(h->name);
	Py_XDECREF(h->label_names);
	Py_XDECREF(h->label_values);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* SPDX-License-Identifier: MIT */
/*
 * reader_details.c - percpu.Reader: facts, and what only some series have.
 */
#include "core_reader.h"

static PyStructSequence_Field details_info_fields[] = {
	{ "generation", "1, plus 1 for each reset of the segment" },
	{ "since", "when the generation began, in seconds since 1970" },
	{ "read", "when the picture was taken, in seconds since 1970" },
	{ "cpus", "lanes of CPUs" },
	{ "pending", "records without a metric: being declared, or damaged" },
	{ "missing", "series without a value, because it changed all the time" },
	{ "program", "which made the segment" },
	{ NULL, NULL },
};

static PyStructSequence_Field details_owned_fields[] = {
	{ "name", "the owner's name, or \"\"" },
	{ "pid", "in its own PID namespace; 0: another process has its slot by now" },
	{ "alive", "whether it lives" },
	{ "value", "its value" },
	{ "when", "of the rule \"recent\": when it was set, in seconds since 1970; else 0.0" },
	{ NULL, NULL },
};

static PyStructSequence_Field details_exemplar_fields[] = {
	{ "slot", "the slot, which of a histogram is the bucket" },
	{ "value", "the value of the event" },
	{ "time", "when it was stored, in seconds since 1970" },
	{ "labels", "its labels" },
	{ NULL, NULL },
};

static PyStructSequence_Desc details_info_desc = { "percpu._core.ReaderInfo",
						   "Facts about a segment and a picture.",
						   details_info_fields, 7 };
static PyStructSequence_Desc details_owned_desc = { "percpu._core.OwnedValue",
						    "What one owner has in an owned gauge.",
						    details_owned_fields, 5 };
static PyStructSequence_Desc details_exemplar_desc = { "percpu._core.Exemplar",
						       "One event of a counter or a histogram.",
						       details_exemplar_fields, 4 };

static int details_add(PyObject *module, PyStructSequence_Desc *desc, PyTypeObject **ret)
{
	*ret = PyStructSequence_NewType(desc);
	return *ret == NULL ? -1 : PyModule_AddType(module, *ret);
}

int core_reader_tuples_add(PyObject *module, struct core_state *state)
{
	if (details_add(module, &details_info_desc, &state->reader_info) < 0 ||
	    details_add(module, &details_owned_desc, &state->owned_value) < 0)
		return -1;
	return details_add(module, &details_exemplar_desc, &state->exemplar);
}

static PyObject *details_seconds(uint64_t ns)
{
	return PyFloat_FromDouble((double)ns / 1e9);
}

/* Raise an exception for a call about the picture. */
static PyObject *details_failed(struct core_reader *self, int e)
{
	if (e == -ENOMEM)
		return PyErr_NoMemory();
	return core_raise_plain(core_state_of(Py_TYPE((PyObject *)self)), e);
}

PyObject *core_reader_info(PyObject *object, PyObject *unused)
{
	struct core_reader *self = (struct core_reader *)object;
	struct percpu_reader_info info;
	int e;

	(void)unused;
	if (core_reader_enter(self) < 0)
		return NULL;
	e = percpu_reader_info(self->r, &info);
	core_reader_leave(self);
	if (e != 0) {
		PyErr_SetString(PyExc_ValueError, "there is no picture: call read() first");
		return NULL;
	}
	return core_tuple(core_state_of(Py_TYPE(object))->reader_info,
			  (PyObject *[]){ PyLong_FromUnsignedLongLong(info.generation),
					  details_seconds(info.since), details_seconds(info.read),
					  PyLong_FromUnsignedLong(info.cpus),
					  PyLong_FromUnsignedLong(info.pending),
					  PyLong_FromUnsignedLong(info.missing),
					  core_text(info.program) },
			  7);
}

/* Get the number of a series of the picture: the argument is a Series or a number. Returns 0, or -1
 * with an exception. */
static int details_number(struct core_reader *self, PyObject *series, size_t *ret)
{
	struct core_state *state = core_state_of(Py_TYPE((PyObject *)self));
	Py_ssize_t i;

	if (Py_TYPE(series) == state->series) {
		const struct core_series *s = (struct core_series *)series;

		if (s->picture != self->picture || s->index >= percpu_reader_count(self->r)) {
			PyErr_SetString(PyExc_ValueError, "the series is of another picture");
			return -1;
		}
		*ret = s->index;
		return 0;
	}
	i = PyNumber_AsSsize_t(series, PyExc_IndexError);
	if (i == -1 && PyErr_Occurred() != NULL)
		return -1;
	if (i < 0 || (size_t)i >= percpu_reader_count(self->r)) {
		PyErr_SetString(PyExc_IndexError, "the picture has no such series");
		return -1;
	}
	*ret = (size_t)i;
	return 0;
}

/* percpu_reader_owned_each() or percpu_reader_owned_shown() */
typedef int details_lister(const struct percpu_reader *r, size_t i, struct percpu_owned_value *out,
			   size_t n, size_t *ret_n);

/* List the owners into an array, which PyMem_Free() frees. Returns 0 or -errno. */
static int details_read_owned(struct core_reader *self, size_t i, details_lister *lister,
			      struct percpu_owned_value **ret, size_t *ret_n)
{
	size_t room = 16;
	int e;

	for (;;) {
		*ret = PyMem_Malloc(room * sizeof(**ret));
		if (*ret == NULL)
			return -ENOMEM;
		e = lister(self->r, i, *ret, room, ret_n);
		if (e == 0 && *ret_n <= room)
			return 0;
		PyMem_Free(*ret);
		if (e != 0)
			return e;
		room = *ret_n;
	}
}

static PyObject *details_owned(struct core_state *state, const struct percpu_owned_value *v,
			       int doubles)
{
	return core_tuple(state->owned_value,
			  (PyObject *[]){ core_text(v->name), PyLong_FromUnsignedLong(v->pid),
					  PyBool_FromLong(v->alive != 0),
					  doubles ? PyFloat_FromDouble(v->fvalue) :
						    PyLong_FromLongLong(v->value),
					  details_seconds(v->when) },
			  5);
}

static PyObject *details_owners(struct core_reader *self, size_t i, details_lister *lister)
{
	struct core_state *state = core_state_of(Py_TYPE((PyObject *)self));
	struct percpu_reader_series raw;
	struct percpu_owned_value *values;
	PyObject *list;
	size_t n;
	int e = percpu_reader_series(self->r, i, &raw);

	if (e == 0)
		e = details_read_owned(self, i, lister, &values, &n);
	if (e != 0)
		return details_failed(self, e);
	list = PyList_New((Py_ssize_t)n);
	for (size_t k = 0; list != NULL && k < n; k++) {
		PyObject *value =
			details_owned(state, &values[k], raw.kind == PERCPU_METRIC_OWNED_FGAUGE);

		if (value == NULL || PyList_SetItem(list, (Py_ssize_t)k, value) < 0)
			Py_CLEAR(list);
	}
	PyMem_Free(values);
	return list;
}

static PyObject *details_list(PyObject *object, PyObject *series, details_lister *lister)
{
	struct core_reader *self = (struct core_reader *)object;
	PyObject *list = NULL;
	size_t i;

	if (core_reader_enter(self) < 0)
		return NULL;
	if (details_number(self, series, &i) == 0)
		list = details_owners(self, i, lister);
	core_reader_leave(self);
	return list;
}

PyObject *core_reader_owners(PyObject *object, PyObject *series)
{
	return details_list(object, series, percpu_reader_owned_each);
}

PyObject *core_reader_shown(PyObject *object, PyObject *series)
{
	return details_list(object, series, percpu_reader_owned_shown);
}

/* Add the exemplar of slot k to the list. Returns 0 or -1. */
static int details_append(struct core_state *state, PyObject *list, size_t k,
			  const struct percpu_exemplar *x)
{
	PyObject *labels = PyDict_New();
	PyObject *exemplar;
	int e;

	for (uint32_t j = 0; labels != NULL && j < x->labels; j++) {
		PyObject *name = core_text(x->text + x->label_names[j]);
		PyObject *value = core_text(x->text + x->label_values[j]);

		if (name == NULL || value == NULL || PyDict_SetItem(labels, name, value) < 0)
			Py_CLEAR(labels);
		Py_XDECREF(name);
		Py_XDECREF(value);
	}
	exemplar = core_tuple(state->exemplar,
			      (PyObject *[]){ PyLong_FromSize_t(k), PyFloat_FromDouble(x->value),
					      details_seconds(x->time), labels },
			      4);
	if (exemplar == NULL)
		return -1;
	e = PyList_Append(list, exemplar);
	Py_DECREF(exemplar);
	return e;
}

/* A slot is left out if it is empty, or if its exemplar changes again and again. */
static PyObject *details_exemplars(struct core_reader *self, size_t i)
{
	struct core_state *state = core_state_of(Py_TYPE((PyObject *)self));
	PyObject *list = PyList_New(0);

	for (size_t k = 0; list != NULL; k++) {
		struct percpu_exemplar x;
		int e = percpu_reader_exemplar(self->r, i, k, &x);

		if (e == -EINVAL)
			break;
		if (e == 0 && details_append(state, list, k, &x) < 0)
			Py_CLEAR(list);
	}
	return list;
}

PyObject *core_reader_exemplars(PyObject *object, PyObject *series)
{
	struct core_reader *self = (struct core_reader *)object;
	PyObject *list = NULL;
	size_t i;

	if (core_reader_enter(self) < 0)
		return NULL;
	if (details_number(self, series, &i) == 0)
		list = details_exemplars(self, i);
	core_reader_leave(self);
	return list;
}

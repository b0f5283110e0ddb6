/* SPDX-License-Identifier: MIT */
/*
 * handle.c - percpu._core.Handle: one series of a segment, to count in.
 */
#include <stdbool.h>
#include <string.h>

#include "value.h"

#include <structmember.h>

/* Return the UTF-8 of a str. One that has none, or has a 0, gets bytes that are no UTF-8, which the
 * library counts as invalid. */
static PyObject *encode(PyObject *text)
{
	PyObject *bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");

	if (bytes == NULL ||
	    memchr(PyBytes_AsString(bytes), 0, (size_t)PyBytes_Size(bytes)) == NULL)
		return bytes;
	Py_DECREF(bytes);
	return PyBytes_FromString("\xff");
}

/* Return a tuple of such bytes for a tuple of str. */
static PyObject *encode_all(PyObject *texts)
{
	Py_ssize_t n = PyTuple_Size(texts);
	PyObject *all = n < 0 ? NULL : PyTuple_New(n);

	for (Py_ssize_t i = 0; all != NULL && i < n; i++) {
		PyObject *bytes = encode(PyTuple_GetItem(texts, i));

		if (bytes == NULL || PyTuple_SetItem(all, i, bytes) < 0)
			Py_CLEAR(all);
	}
	return all;
}

static void texts_of(PyObject *texts, struct percpu_text *out)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(texts); i++) {
		PyObject *bytes = PyTuple_GetItem(texts, i);

		out[i].at = PyBytes_AsString(bytes);
		out[i].n = (size_t)PyBytes_Size(bytes);
	}
}

static void strings_of(PyObject *texts, const char **out)
{
	for (Py_ssize_t i = 0; i < PyTuple_Size(texts); i++)
		out[i] = PyBytes_AsString(PyTuple_GetItem(texts, i));
}

static int find_in_family(struct core_handle *s, void **handle)
{
	struct percpu_text values[PERCPU_METRIC_LABELS];
	uint64_t removals = percpu_family_removals(s->family);
	int e;

	texts_of(s->values, values);
	e = percpu_family_series(s->family, s->kind, values, handle);
	if (e == 0) {
		__atomic_store_n(&s->object, *handle, __ATOMIC_RELAXED);
		__atomic_store_n(&s->removals, removals, __ATOMIC_RELEASE);
	}
	return e;
}

void *core_handle_find(struct core_handle *s)
{
	void *handle;
	int e;

	Py_BEGIN_ALLOW_THREADS
	e = find_in_family(s, &handle);
	Py_END_ALLOW_THREADS
	return e == 0 ? handle : __atomic_load_n(&s->object, __ATOMIC_RELAXED);
}

/* Declare the metric of d, which has no labels. Returns 0 or -errno. */
static int declare_single(struct core_handle *s, const struct percpu_declaration *d)
{
	const struct percpu_metric m = { .size = sizeof(m), .name = d->name, .help = d->help };

	switch (d->kind) {
	case PERCPU_METRIC_FCOUNTER:
		return percpu_segment_fcounter(s->segment->s, &m,
					       (struct percpu_fcounter **)&s->object);
	case PERCPU_METRIC_HISTOGRAM:
		return percpu_segment_histogram(s->segment->s, &m, d->histogram,
						(struct percpu_histogram **)&s->object);
	default:
		return percpu_segment_owned_fgauge(s->segment->s, &m, d->flags,
						   (struct percpu_owned_fgauge **)&s->object);
	}
}

/* Return how often values got the overflow, in all processes. */
static uint64_t overflows_of(const struct percpu_family *f)
{
	return percpu_family_overflows(f) + percpu_family_invalid(f);
}

/* Declare the metric or family of d, and find the series. It may be the overflow; or another process
 * got that at the same time. Returns 0 or -errno. */
static int declare_series(struct core_handle *s, struct percpu_declaration *d, bool *ret_overflow)
{
	uint64_t before;
	void *handle;
	int e;

	if (d->labels == 0)
		return declare_single(s, d);
	d->cap = PERCPU_FAMILY_CAP;
	e = percpu_segment_family(s->segment->s, d, &s->family);
	if (e != 0)
		return e;
	before = overflows_of(s->family);
	e = find_in_family(s, &handle);
	*ret_overflow = e == 0 && overflows_of(s->family) != before;
	return e;
}

/* Copy the bounds, floats in a tuple. The caller frees them. Returns 0, or -1 with an exception. */
static int copy_bounds(PyObject *tuple, double **ret, size_t *ret_n)
{
	Py_ssize_t n = PyTuple_Size(tuple);
	double *bounds = n < 0 ? NULL : PyMem_Calloc((size_t)n + 1, sizeof(*bounds));

	if (bounds == NULL) {
		if (n >= 0)
			PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		bounds[i] = PyFloat_AsDouble(PyTuple_GetItem(tuple, i));
		if (PyErr_Occurred() != NULL) {
			PyMem_Free(bounds);
			return -1;
		}
	}
	*ret = bounds;
	*ret_n = (size_t)n;
	return 0;
}

static int handle_open(struct core_handle *s, struct percpu_declaration *d, PyObject *label_names)
{
	PyObject *names = encode_all(label_names);
	const char *strings[PERCPU_METRIC_LABELS];
	bool overflow = false;
	int e;

	if (names == NULL)
		return -1;
	d->labels = (size_t)PyTuple_Size(names);
	if (d->labels > PERCPU_METRIC_LABELS || PyTuple_Size(s->values) != PyTuple_Size(names)) {
		Py_DECREF(names);
		PyErr_Format(PyExc_ValueError, "%zu names of labels and %zd values: at most %d",
			     d->labels, PyTuple_Size(s->values), PERCPU_METRIC_LABELS);
		return -1;
	}
	strings_of(names, strings);
	d->label_names = d->labels != 0 ? strings : NULL;
	Py_BEGIN_ALLOW_THREADS
	e = declare_series(s, d, &overflow);
	Py_END_ALLOW_THREADS
	Py_DECREF(names);
	if (e != 0) {
		core_raise(core_state_of(Py_TYPE(s->segment)), e);
		return -1;
	}
	if (overflow)
		s->overflow = core_text(percpu_error());
	return overflow && s->overflow == NULL ? -1 : 0;
}

/* Open the series with these bounds of a histogram, or with none. */
static int handle_open_bounds(struct core_handle *s, struct percpu_declaration *d, PyObject *names,
			      PyObject *bounds)
{
	struct percpu_histogram_options o = { .size = sizeof(o) };
	double *own = NULL;
	int e;

	if (d->kind == PERCPU_METRIC_HISTOGRAM) {
		if (copy_bounds(bounds, &own, &o.bounds_n) < 0)
			return -1;
		o.bounds = o.bounds_n != 0 ? own : NULL;
		o.flags = o.bounds_n != 0 ? 0 : PERCPU_HISTOGRAM_SUMMARY;
		d->histogram = &o;
	}
	e = handle_open(s, d, names);
	PyMem_Free(own);
	return e;
}

static PyObject *handle_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	struct core_state *state = core_state_of(type);
	struct percpu_declaration d = { .size = sizeof(d) };
	PyObject *segment, *label_names, *label_values, *bounds;
	struct core_handle *self;

	if (kwargs != NULL && PyDict_Size(kwargs) != 0) {
		PyErr_SetString(PyExc_TypeError, "Handle takes no keywords");
		return NULL;
	}
	if (!PyArg_ParseTuple(args, "O!IszO!O!IO!:Handle", state->segment, &segment, &d.kind,
			      &d.name, &d.help, &PyTuple_Type, &label_names, &PyTuple_Type,
			      &label_values, &d.flags, &PyTuple_Type, &bounds))
		return NULL;
	self = (struct core_handle *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		return NULL;
	self->segment = (struct core_segment *)Py_NewRef(segment);
	self->kind = (enum percpu_metric_kind)d.kind;
	self->name = PyBytes_FromString(d.name);
	self->values = encode_all(label_values);
	if (self->name == NULL || self->values == NULL ||
	    handle_open_bounds(self, &d, label_names, bounds) < 0)
		Py_CLEAR(self);
	return (PyObject *)self;
}

static void handle_dealloc(PyObject *object)
{
	struct core_handle *self = (struct core_handle *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(self->segment);
	Py_XDECREF(self->name);
	Py_XDECREF(self->values);
	Py_XDECREF(self->overflow);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *handle_remove(PyObject *object, PyObject *unused)
{
	struct core_handle *self = (struct core_handle *)object;
	const char *values[PERCPU_METRIC_LABELS];
	int e;

	(void)unused;
	if (self->family == NULL)
		Py_RETURN_FALSE;
	strings_of(self->values, values);
	Py_BEGIN_ALLOW_THREADS
	e = percpu_family_remove(self->family, values);
	Py_END_ALLOW_THREADS
	if (e != 0 && e != -ENOENT)
		return core_raise(core_state_of(Py_TYPE(object)), e);
	return PyBool_FromLong(e == 0);
}

/* Find or create the exemplars. Returns NULL if there are none to be had. */
static struct percpu_exemplars *handle_exemplars(struct core_handle *s)
{
	struct percpu_exemplars *x = __atomic_load_n(&s->exemplars, __ATOMIC_ACQUIRE);
	struct percpu_metric m = { .size = sizeof(m), .name = PyBytes_AsString(s->name) };
	const char *values[PERCPU_METRIC_LABELS];
	int e;

	if (x != NULL)
		return x;
	strings_of(s->values, values);
	Py_BEGIN_ALLOW_THREADS
	if (s->family != NULL)
		e = percpu_family_exemplars(s->family, values, &x);
	else
		e = percpu_segment_exemplars(s->segment->s, &m, &x);
	Py_END_ALLOW_THREADS
	if (e != 0)
		return NULL;
	__atomic_store_n(&s->exemplars, x, __ATOMIC_RELEASE);
	return x;
}

/* Fill the labels from a dict of str. Returns how many, or -1 with an exception. The texts belong to
 * the dict. The library refuses one that cannot be a label's. */
static Py_ssize_t exemplar_labels(PyObject *dict, struct percpu_exemplar_label *out)
{
	Py_ssize_t n = 0, at = 0;
	PyObject *name, *value;

	while (PyDict_Next(dict, &at, &name, &value)) {
		if (n == PERCPU_EXEMPLAR_LABELS)
			return n;
		out[n].name = core_label(name);
		out[n].value = core_label(value);
		if (out[n].name == NULL || out[n].value == NULL)
			return -1;
		n++;
	}
	return n;
}

static PyObject *handle_store_exemplar(PyObject *object, PyObject *args)
{
	struct core_handle *self = (struct core_handle *)object;
	struct percpu_exemplar_label labels[PERCPU_EXEMPLAR_LABELS];
	struct percpu_exemplars *x;
	PyObject *dict;
	double value;
	Py_ssize_t n;
	int e;

	if (!PyArg_ParseTuple(args, "dO!:store_exemplar", &value, &PyDict_Type, &dict))
		return NULL;
	n = exemplar_labels(dict, labels);
	if (n < 0)
		return NULL;
	x = handle_exemplars(self);
	e = x != NULL ? percpu_exemplars_store(x, value, labels, (size_t)n) : -ENOMEM;
	return PyBool_FromLong(e == 0);
}

static PyObject *exemplar_dict(const struct percpu_exemplar *got)
{
	PyObject *dict = PyDict_New();

	for (uint32_t i = 0; dict != NULL && i < got->labels; i++) {
		PyObject *value = PyUnicode_FromString(got->text + got->label_values[i]);

		if (value == NULL ||
		    PyDict_SetItemString(dict, got->text + got->label_names[i], value) < 0)
			Py_CLEAR(dict);
		Py_XDECREF(value);
	}
	return dict;
}

static PyObject *handle_fetch_exemplar(PyObject *object, PyObject *slot)
{
	struct core_handle *self = (struct core_handle *)object;
	struct percpu_exemplars *x = __atomic_load_n(&self->exemplars, __ATOMIC_ACQUIRE);
	size_t i = PyLong_AsSize_t(slot);
	struct percpu_exemplar got;

	if (PyErr_Occurred() != NULL)
		return NULL;
	if (x == NULL || percpu_exemplars_fetch(x, i, &got) != 0)
		Py_RETURN_NONE;
	return Py_BuildValue("(Ndd)", exemplar_dict(&got), got.value, (double)got.time * 1e-9);
}

static PyMethodDef handle_methods[] = {
	{ "remove", handle_remove, METH_NOARGS, NULL },
	{ "store_exemplar", handle_store_exemplar, METH_VARARGS, NULL },
	{ "fetch_exemplar", handle_fetch_exemplar, METH_O, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyMemberDef handle_members[] = {
	{ "overflow", T_OBJECT, offsetof(struct core_handle, overflow), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot handle_slots[] = {
	{ Py_tp_new, (void *)handle_new },
	{ Py_tp_dealloc, (void *)handle_dealloc },
	{ Py_tp_methods, handle_methods },
	{ Py_tp_members, handle_members },
	{ 0, NULL },
};

PyType_Spec core_handle_spec = {
	.name = "percpu._core.Handle",
	.basicsize = sizeof(struct core_handle),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = handle_slots,
};

/* SPDX-License-Identifier: MIT */
/*
 * histogram.c - percpu.Histogram and percpu.HistogramSnapshot.
 */
#include "core.h"

/** What a histogram had when it was read. */
struct core_snapshot {
	PyObject_HEAD
	struct percpu_histogram_snapshot *s;
};

int core_histogram_options_set(struct core_histogram_options *self)
{
	Py_ssize_t n;

	self->o.size = sizeof(self->o);
	self->o.flags = self->summary ? PERCPU_HISTOGRAM_SUMMARY : 0;
	if (self->bounds == NULL || self->bounds == Py_None)
		return 0;
	n = PySequence_Size(self->bounds);
	if (n < 0)
		return -1;
	if (n == 0 || n > PERCPU_HISTOGRAM_MAX_BOUNDS) {
		PyErr_Format(PyExc_ValueError, "%zd bounds, and not 1 to %d", n,
			     PERCPU_HISTOGRAM_MAX_BOUNDS);
		return -1;
	}
	self->own = PyMem_Malloc((size_t)n * sizeof(*self->own));
	if (self->own == NULL) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *bound = PySequence_GetItem(self->bounds, i);
		int bad = bound == NULL || core_double(bound, &self->own[i]) < 0;

		Py_XDECREF(bound);
		if (bad)
			return -1;
	}
	self->o.bounds = self->own;
	self->o.bounds_n = (size_t)n;
	return 0;
}

static double histogram_bound(const struct percpu_histogram_snapshot *h, uint32_t k)
{
	int first;

	if (h->bounds != NULL)
		return h->bounds[k];
	first = h->schema < 0 ? h->low >> -h->schema : h->low * (1 << h->schema);
	return percpu_histogram_bound(h->schema, first + (int)k);
}

PyObject *core_histogram_bounds(const struct percpu_histogram_snapshot *h)
{
	PyObject *tuple = PyTuple_New(h->n == 0 ? 0 : h->n - 1);

	for (uint32_t k = 0; tuple != NULL && k + 1 < h->n; k++) {
		PyObject *number = PyFloat_FromDouble(histogram_bound(h, k));

		if (number == NULL || PyTuple_SetItem(tuple, k, number) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

PyObject *core_histogram_counts(const struct percpu_histogram_snapshot *h)
{
	PyObject *tuple = PyTuple_New(h->n);

	for (uint32_t k = 0; tuple != NULL && k < h->n; k++) {
		PyObject *number = PyLong_FromUnsignedLongLong(h->bucket[k].count);

		if (number == NULL || PyTuple_SetItem(tuple, k, number) < 0)
			Py_CLEAR(tuple);
	}
	return tuple;
}

static PyObject *histogram_record(PyObject *object, PyObject *number)
{
	double v;

	if (core_double(number, &v) < 0)
		return NULL;
	percpu_histogram_record(((struct core_object *)object)->of.histogram, v);
	Py_RETURN_NONE;
}

static PyObject *histogram_snapshot(PyObject *object, PyObject *unused)
{
	const struct percpu_histogram *h = ((struct core_object *)object)->of.histogram;
	struct core_state *state = core_state_of(Py_TYPE(object));
	struct core_snapshot *self =
		(struct core_snapshot *)PyType_GenericAlloc(state->snapshot, 0);
	int e;

	(void)unused;
	if (self == NULL)
		return NULL;
	e = percpu_histogram_snapshot_create(h, &self->s);
	if (e == 0)
		e = percpu_histogram_fetch(h, 0, self->s);
	if (e == 0)
		return (PyObject *)self;
	Py_DECREF((PyObject *)self);
	return core_raise_plain(state, e);
}

static void snapshot_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	percpu_histogram_snapshot_destroy(((struct core_snapshot *)object)->s);
	PyObject_Free(object);
	Py_DECREF(type);
}

static const struct percpu_histogram_snapshot *snapshot_of(PyObject *object)
{
	return ((struct core_snapshot *)object)->s;
}

static PyObject *snapshot_quantile(PyObject *object, PyObject *number)
{
	struct percpu_histogram_quantile result;
	double q;
	int e;

	if (core_double(number, &q) < 0)
		return NULL;
	if (!(q >= 0 && q <= 1)) {
		PyErr_SetString(PyExc_ValueError, "a quantile is from 0 to 1");
		return NULL;
	}
	e = percpu_histogram_quantile(snapshot_of(object), q, &result);
	if (e == -ENODATA)
		Py_RETURN_NONE;
	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE(object)), e);
	return PyFloat_FromDouble(result.value);
}

static PyObject *snapshot_count(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(snapshot_of(object)->count);
}

static PyObject *snapshot_sum(PyObject *object, void *unused)
{
	(void)unused;
	return PyFloat_FromDouble(snapshot_of(object)->sum);
}

static PyObject *snapshot_refused(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(snapshot_of(object)->refused);
}

static PyObject *snapshot_bounds(PyObject *object, void *unused)
{
	(void)unused;
	return core_histogram_bounds(snapshot_of(object));
}

static PyObject *snapshot_counts(PyObject *object, void *unused)
{
	(void)unused;
	return core_histogram_counts(snapshot_of(object));
}

static PyMethodDef histogram_methods[] = {
	{ "record", histogram_record, METH_O,
	  "record($self, v, /)\n--\n\nRecord v. One that cannot be recorded is counted as refused." },
	{ "snapshot", histogram_snapshot, METH_NOARGS,
	  "snapshot($self, /)\n--\n\nReturn what was recorded." },
	{ "exemplar", core_object_exemplar, METH_VARARGS,
	  "exemplar($self, labels, value, /)\n--\n\n"
	  "Store an event: what was recorded, and labels such as a trace's id." },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef snapshot_methods[] = {
	{ "quantile", snapshot_quantile, METH_O,
	  "quantile($self, q, /)\n--\n\nEstimate a quantile, q from 0 to 1. None: nothing was recorded, "
	  "or it is a summary." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef snapshot_members[] = {
	{ "count", snapshot_count, NULL, "How many values were recorded.", NULL },
	{ "sum", snapshot_sum, NULL, "Their sum.", NULL },
	{ "bounds", snapshot_bounds, NULL, "The upper ends of the buckets but the last.", NULL },
	{ "counts", snapshot_counts, NULL, "How many values each bucket has.", NULL },
	{ "refused", snapshot_refused, NULL, "How many values could not be recorded.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot histogram_slots[] = {
	{ Py_tp_dealloc, (void *)core_object_dealloc },
	{ Py_tp_methods, histogram_methods },
	{ Py_tp_doc, "A histogram." },
	{ 0, NULL },
};

static PyType_Slot snapshot_slots[] = {
	{ Py_tp_dealloc, (void *)snapshot_dealloc },
	{ Py_tp_methods, snapshot_methods },
	{ Py_tp_getset, snapshot_members },
	{ Py_tp_doc, "What a histogram had when it was read." },
	{ 0, NULL },
};

PyType_Spec core_histogram_spec = {
	.name = "percpu._core.Histogram",
	.basicsize = sizeof(struct core_object),
	.flags = CORE_TYPE_FLAGS,
	.slots = histogram_slots,
};

PyType_Spec core_snapshot_spec = {
	.name = "percpu._core.HistogramSnapshot",
	.basicsize = sizeof(struct core_snapshot),
	.flags = CORE_TYPE_FLAGS,
	.slots = snapshot_slots,
};

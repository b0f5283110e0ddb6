/* SPDX-License-Identifier: MIT */
/*
 * stats.c - percpu.Stats.
 */
#include "core.h"

PyObject *core_declare_stats(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "fields", "label", "help", "unit", "labels", NULL };
	struct core_state *state = core_state_of(Py_TYPE(object));
	const char *utf8[PERCPU_STATS_MAX_COMMIT];
	struct percpu_metric_fields f = { .size = sizeof(f), .label = "field", .names = utf8 };
	struct core_metric d = { .segment = NULL };
	struct percpu_stats *of = NULL;
	struct core_stats *self = NULL;
	PyObject *fields, *labels = NULL;
	PyThreadState *thread;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|ss$sO:stats", names, &d.m.name, &fields,
					 &f.label, &d.m.help, &d.m.unit, &labels))
		return NULL;
	fields = core_texts(fields, -1, PERCPU_STATS_MAX_COMMIT, utf8);
	if (fields == NULL || core_metric_begin(&d, object, labels) < 0) {
		Py_XDECREF(fields);
		return NULL;
	}
	f.n = (size_t)PyTuple_Size(fields);
	thread = PyEval_SaveThread();
	e = percpu_segment_stats(d.segment->s, &d.m, &f, 0, &of);
	PyEval_RestoreThread(thread);
	if (e != 0)
		core_raise(state, e);
	else
		self = (struct core_stats *)PyType_GenericAlloc(state->stats, 0);
	if (self != NULL) {
		self->of = of;
		self->fields = Py_NewRef(fields);
		self->segment = (struct core_segment *)Py_NewRef(object);
		d.segment = NULL;
	}
	core_metric_end(&d);
	Py_DECREF(fields);
	return (PyObject *)self;
}

static void stats_dealloc(PyObject *object)
{
	struct core_stats *self = (struct core_stats *)object;
	PyTypeObject *type = Py_TYPE(object);

	core_segment_leave(self->segment);
	Py_XDECREF((PyObject *)self->segment);
	Py_XDECREF(self->fields);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* Add to n fields from the first one on, with one commit. An update that needs the lock may wait: then
 * other threads go on. */
static PyObject *stats_update(struct core_stats *self, const uint64_t *amounts, size_t n)
{
	PyThreadState *thread = NULL;
	int e;

	if (percpu_stats_commit_words(self->of) < n)
		thread = PyEval_SaveThread();
	e = percpu_stats_update(self->of, 0, 0, amounts, n);
	if (thread != NULL)
		PyEval_RestoreThread(thread);
	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE((PyObject *)self)), e);
	Py_RETURN_NONE;
}

/* Return the number of a field, or -1 with an exception. */
static Py_ssize_t stats_field(const struct core_stats *self, PyObject *name)
{
	Py_ssize_t n = PyTuple_Size(self->fields);

	for (Py_ssize_t i = 0; i < n; i++)
		if (PyTuple_GetItem(self->fields, i) == name)
			return i;
	for (Py_ssize_t i = 0; i < n; i++)
		if (PyUnicode_Compare(PyTuple_GetItem(self->fields, i), name) == 0)
			return i;
	if (PyErr_Occurred() == NULL)
		PyErr_Format(PyExc_TypeError, "the statistics have no field %R", name);
	return -1;
}

static PyObject *stats_add(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
			   PyObject *kwnames)
{
	struct core_stats *self = (struct core_stats *)object;
	uint64_t amounts[PERCPU_STATS_MAX_COMMIT] = { 0 };
	Py_ssize_t given = kwnames != NULL ? PyTuple_Size(kwnames) : 0;
	Py_ssize_t last = 0;
	int64_t n = 0;

	if (nargs != 0) {
		PyErr_SetString(PyExc_TypeError, "add() takes keywords only: the names of fields");
		return NULL;
	}
	for (Py_ssize_t i = 0; i < given; i++) {
		last = stats_field(self, PyTuple_GetItem(kwnames, i));
		if (last < 0 || core_count(args[i], &n) < 0)
			return NULL;
		amounts[last] = (uint64_t)n;
	}
	if (given != 1)
		return stats_update(self, amounts, (size_t)PyTuple_Size(self->fields));
	percpu_stats_add(self->of, 0, (size_t)last, n);
	Py_RETURN_NONE;
}

static PyObject *stats_add_all(PyObject *object, PyObject *sequence)
{
	struct core_stats *self = (struct core_stats *)object;
	uint64_t amounts[PERCPU_STATS_MAX_COMMIT];
	Py_ssize_t n = PySequence_Size(sequence);

	if (n < 0)
		return NULL;
	if (n != PyTuple_Size(self->fields)) {
		PyErr_Format(PyExc_ValueError, "%zd amounts for %zd fields", n,
			     PyTuple_Size(self->fields));
		return NULL;
	}
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PySequence_GetItem(sequence, i);
		int64_t amount = 0;
		int bad = item == NULL || core_count(item, &amount) < 0;

		Py_XDECREF(item);
		if (bad)
			return NULL;
		amounts[i] = (uint64_t)amount;
	}
	return stats_update(self, amounts, (size_t)n);
}

static PyObject *stats_snapshot(PyObject *object, PyObject *unused)
{
	struct core_stats *self = (struct core_stats *)object;
	uint64_t values[PERCPU_STATS_MAX_COMMIT];
	PyThreadState *thread = PyEval_SaveThread();
	int e = percpu_stats_snapshot(self->of, 0, 1, values);
	PyObject *result;

	(void)unused;
	PyEval_RestoreThread(thread);
	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE(object)), e);
	result = PyDict_New();
	for (Py_ssize_t i = 0; result != NULL && i < PyTuple_Size(self->fields); i++) {
		PyObject *number = PyLong_FromUnsignedLongLong(values[i]);

		if (number == NULL ||
		    PyDict_SetItem(result, PyTuple_GetItem(self->fields, i), number) < 0)
			Py_CLEAR(result);
		Py_XDECREF(number);
	}
	return result;
}

static PyMethodDef stats_methods[] = {
	{ "add", (PyCFunction)(void (*)(void))stats_add, METH_FASTCALL | METH_KEYWORDS,
	  "add($self, /, **fields)\n--\n\nAdd to these fields, with one commit." },
	{ "add_all", stats_add_all, METH_O,
	  "add_all($self, amounts, /)\n--\n\nAdd to all fields, in their order, with one commit." },
	{ "snapshot", stats_snapshot, METH_NOARGS,
	  "snapshot($self, /)\n--\n\nReturn all fields as they were at one moment." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot stats_slots[] = {
	{ Py_tp_dealloc, (void *)stats_dealloc },
	{ Py_tp_methods, stats_methods },
	{ Py_tp_doc, "Counters that are updated and read together." },
	{ 0, NULL },
};

PyType_Spec core_stats_spec = {
	.name = "percpu._core.Stats",
	.basicsize = sizeof(struct core_stats),
	.flags = CORE_TYPE_FLAGS,
	.slots = stats_slots,
};

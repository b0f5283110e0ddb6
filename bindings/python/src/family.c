/* SPDX-License-Identifier: MIT */
/*
 * family.c - percpu.Family: series by the values of their labels.
 */
#include "core.h"

/* What the arguments of family() describe. */
struct family_arguments {
	const char *kind, *owned;
	int floats;
	struct core_histogram_options o;
};

/* Set the kind and the options of the declaration. Returns the type of its series, or NULL with an
 * exception. */
static PyTypeObject *family_kind(struct core_state *state, struct family_arguments *a,
				 struct percpu_declaration *d)
{
	unsigned rule = 0;

	if (strcmp(a->kind, "counter") == 0) {
		d->kind = a->floats ? PERCPU_METRIC_FCOUNTER : PERCPU_METRIC_COUNTER;
		return a->floats ? state->fcounter : state->counter;
	}
	if (strcmp(a->kind, "gauge") == 0 && a->owned == NULL) {
		d->kind = PERCPU_METRIC_FGAUGE;
		return state->gauge;
	}
	if (strcmp(a->kind, "gauge") == 0) {
		d->kind = PERCPU_METRIC_OWNED_FGAUGE;
		if (core_rule(a->owned, &rule) < 0)
			return NULL;
		d->flags = rule;
		return state->owned_gauge;
	}
	if (strcmp(a->kind, "histogram") == 0) {
		d->kind = PERCPU_METRIC_HISTOGRAM;
		d->histogram = &a->o.o;
		return core_histogram_options_set(&a->o) == 0 ? state->histogram : NULL;
	}
	PyErr_Format(PyExc_ValueError, "kind is \"%s\", and not counter, gauge or histogram",
		     a->kind);
	return NULL;
}

/* Declare the family. Returns NULL with an exception. */
static PyObject *family_declare(PyObject *segment, const struct percpu_declaration *d,
				PyTypeObject *type)
{
	struct core_state *state = core_state_of(Py_TYPE(segment));
	struct core_metric metric = { .segment = NULL };
	struct core_family *self;
	struct percpu_family *f;
	PyThreadState *thread;
	int e;

	if (core_metric_begin(&metric, segment, NULL) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = percpu_segment_family(metric.segment->s, d, &f);
	PyEval_RestoreThread(thread);
	if (e != 0)
		core_raise(state, e);
	self = e != 0 ? NULL : (struct core_family *)PyType_GenericAlloc(state->family, 0);
	if (self != NULL) {
		self->f = f;
		self->segment = (struct core_segment *)Py_NewRef(segment);
		metric.segment = NULL;
		self->type = (PyTypeObject *)Py_NewRef((PyObject *)type);
		self->kind = d->kind;
		self->labels = (uint32_t)d->labels;
	}
	core_metric_end(&metric);
	return (PyObject *)self;
}

PyObject *core_declare_family(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "kind",    "name", "label_names", "cap",
				 "help",    "unit", "floats",	   "owned",
				 "bounds",  "min",  "max",	   "buckets_per_octave",
				 "summary", NULL };
	struct percpu_declaration d = { .size = sizeof(d) };
	struct family_arguments a = { .kind = NULL };
	const char *utf8[PERCPU_METRIC_LABELS];
	PyObject *label_names, *result = NULL;
	PyTypeObject *type;
	Py_ssize_t cap = 10000;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "ssO|n$sspzOddIp:family", names, &a.kind,
					 &d.name, &label_names, &cap, &d.help, &d.unit, &a.floats,
					 &a.owned, &a.o.bounds, &a.o.o.min, &a.o.o.max,
					 &a.o.o.buckets_per_octave, &a.o.summary))
		return NULL;
	if (cap < 1) {
		PyErr_SetString(PyExc_ValueError, "the cap of a family is 1 or more");
		return NULL;
	}
	label_names = core_texts(label_names, -1, PERCPU_METRIC_LABELS, utf8);
	if (label_names == NULL)
		return NULL;
	d.label_names = utf8;
	d.labels = (size_t)PyTuple_Size(label_names);
	d.cap = (size_t)cap;
	type = family_kind(core_state_of(Py_TYPE(object)), &a, &d);
	if (type != NULL)
		result = family_declare(object, &d, type);
	PyMem_Free(a.o.own);
	Py_DECREF(label_names);
	return result;
}

static void family_dealloc(PyObject *object)
{
	struct core_family *self = (struct core_family *)object;
	PyTypeObject *type = Py_TYPE(object);

	core_segment_leave(self->segment);
	Py_XDECREF((PyObject *)self->segment);
	Py_XDECREF((PyObject *)self->type);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* Whether there is one value for each label. If not, there is an exception. */
static int family_takes(const struct core_family *self, Py_ssize_t n)
{
	if (n == (Py_ssize_t)self->labels)
		return 1;
	PyErr_Format(PyExc_ValueError, "%zd values for %u labels", n, self->labels);
	return 0;
}

/* A value as an object of no class of a program, whose text is there. */
static PyObject *family_value(PyObject *value, struct percpu_text *ret)
{
	PyObject *text = PyUnicode_FromObject(value);
	Py_ssize_t n;

	if (text == NULL)
		return NULL;
	ret->at = PyUnicode_AsUTF8AndSize(text, &n);
	ret->n = (size_t)n;
	if (ret->at == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
		PyErr_Clear();
		*ret = (struct percpu_text){ "\xff", 1 }; /* no UTF-8: the overflow */
	}
	if (ret->at == NULL)
		Py_CLEAR(text);
	return text;
}

/* The look-up of a series that is there waits for nothing. So this keeps other threads of Python
 * waiting while a series is created, which may take a lock between processes. */
static PyObject *family_labels(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
	struct core_family *self = (struct core_family *)object;
	struct percpu_text texts[PERCPU_METRIC_LABELS];
	union core_pointer of = { NULL };
	PyObject *values;
	int e;

	if (!family_takes(self, nargs))
		return NULL;
	values = PyTuple_New(nargs);
	for (Py_ssize_t i = 0; values != NULL && i < nargs; i++) {
		PyObject *value = family_value(args[i], &texts[i]);

		if (value == NULL || PyTuple_SetItem(values, i, value) < 0)
			Py_CLEAR(values);
	}
	if (values == NULL)
		return NULL;
	e = percpu_family_series(self->f, self->kind, texts, &of.any);
	if (e == 0)
		return core_object_of_family(self, of, values);
	Py_DECREF(values);
	return core_raise(core_state_of(Py_TYPE(object)), e);
}

static PyObject *family_remove(PyObject *object, PyObject *const *args, Py_ssize_t nargs)
{
	struct core_family *self = (struct core_family *)object;
	const char *values[PERCPU_METRIC_LABELS];
	PyThreadState *thread;
	int e;

	if (!family_takes(self, nargs))
		return NULL;
	for (Py_ssize_t i = 0; i < nargs; i++) {
		if (!PyUnicode_Check(args[i])) {
			PyErr_Format(PyExc_TypeError, "%R is not a str", args[i]);
			return NULL;
		}
		values[i] = core_label(args[i]);
		if (values[i] == NULL)
			return NULL;
	}
	thread = PyEval_SaveThread();
	e = percpu_family_remove(self->f, values);
	PyEval_RestoreThread(thread);
	if (e != 0)
		return core_raise(core_state_of(Py_TYPE(object)), e);
	Py_RETURN_NONE;
}

static PyObject *family_overflows(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(
		percpu_family_overflows(((struct core_family *)object)->f));
}

static PyObject *family_invalid(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(
		percpu_family_invalid(((struct core_family *)object)->f));
}

static PyMethodDef family_methods[] = {
	{ "labels", (PyCFunction)(void (*)(void))family_labels, METH_FASTCALL,
	  "labels($self, /, *values)\n--\n\n"
	  "Find or create the series with these values. Without room for it, or with a value that\n"
	  "cannot be a label's, return the overflow of the family." },
	{ "remove", (PyCFunction)(void (*)(void))family_remove, METH_FASTCALL,
	  "remove($self, /, *values)\n--\n\n"
	  "Remove the series with these values. labels() lets it begin anew." },
	{ "__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS,
	  "__class_getitem__($type, kind, /)\n--\n\nA family of that type: for annotations." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef family_members[] = {
	{ "overflows", family_overflows, NULL,
	  "How often a call, in any process, got the overflow because there was no room.", NULL },
	{ "invalid", family_invalid, NULL,
	  "How often a call, in any process, got the overflow because of a value.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot family_slots[] = {
	{ Py_tp_dealloc, (void *)family_dealloc },
	{ Py_tp_methods, family_methods },
	{ Py_tp_getset, family_members },
	{ Py_tp_doc, "Series whose label values are not known in advance." },
	{ 0, NULL },
};

PyType_Spec core_family_spec = {
	.name = "percpu._core.Family",
	.basicsize = sizeof(struct core_family),
	.flags = CORE_TYPE_FLAGS,
	.slots = family_slots,
};

/* SPDX-License-Identifier: MIT */
/*
 * segment.c - percpu.Segment: opening, owners and closing. declare.c has the methods that declare.
 */
#include "core.h"

int core_segment_enter(struct core_segment *self)
{
	int uses = __atomic_load_n(&self->uses, __ATOMIC_RELAXED);

	while (uses != 0 && !__atomic_compare_exchange_n(&self->uses, &uses, uses + 1, 0,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
		;
	if (uses != 0 && !__atomic_load_n(&self->closed, __ATOMIC_ACQUIRE))
		return 0;
	if (uses != 0)
		core_segment_leave(self);
	PyErr_SetString(PyExc_ValueError, "the segment is closed");
	return -1;
}

void core_segment_leave(struct core_segment *self)
{
	if (self == NULL || __atomic_sub_fetch(&self->uses, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	percpu_segment_close(self->s);
	self->s = NULL;
}

/* End the first use, once. */
static void segment_end(struct core_segment *self)
{
	if (__atomic_exchange_n(&self->closed, 1, __ATOMIC_ACQ_REL) == 0)
		core_segment_leave(self);
}

static PyObject *segment_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name",     "create", "anew",	  "foreign",
				 "fallback", "mode",   "program", NULL };
	struct percpu_segment_options o = { .size = sizeof(o) };
	int create = 0, anew = 0, foreign = 0, fallback = 0;
	struct core_segment *self;
	PyThreadState *thread;
	PyObject *name;
	unsigned flags;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$ppppIz:Segment", names,
					 PyUnicode_FSConverter, &name, &create, &anew, &foreign,
					 &fallback, &o.mode, &o.program))
		return NULL;
	self = (struct core_segment *)PyType_GenericAlloc(type, 0);
	if (self == NULL) {
		Py_DECREF(name);
		return NULL;
	}
	flags = (create ? PERCPU_SEGMENT_CREATE : 0U) | (anew ? PERCPU_SEGMENT_ANEW : 0U) |
		(foreign ? PERCPU_SEGMENT_FOREIGN : 0U) | (fallback ? PERCPU_SEGMENT_FALLBACK : 0U);
	thread = PyEval_SaveThread();
	e = percpu_segment_open(PyBytes_AsString(name), flags, &o, &self->s);
	PyEval_RestoreThread(thread);
	self->uses = 1;
	Py_DECREF(name);
	if (e == 0)
		return (PyObject *)self;
	core_raise(core_state_of(type), e);
	Py_DECREF((PyObject *)self);
	return NULL;
}

static void segment_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	if (((struct core_segment *)object)->uses != 0)
		segment_end((struct core_segment *)object);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *segment_join(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "resume", NULL };
	struct core_segment *self = (struct core_segment *)object;
	PyThreadState *thread;
	const char *name;
	int resume = 0;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|p:join", names, &name, &resume) ||
	    core_segment_enter(self) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = percpu_segment_join(self->s, name, resume ? PERCPU_OWNERS_RESUME : 0);
	PyEval_RestoreThread(thread);
	if (e != 0)
		core_raise(core_state_of(Py_TYPE(object)), e);
	core_segment_leave(self);
	return e != 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *segment_leave(PyObject *object, PyObject *unused)
{
	struct core_segment *self = (struct core_segment *)object;
	PyThreadState *thread;
	int e;

	(void)unused;
	if (core_segment_enter(self) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = percpu_segment_leave(self->s);
	PyEval_RestoreThread(thread);
	if (e != 0)
		core_raise_plain(core_state_of(Py_TYPE(object)), e);
	core_segment_leave(self);
	return e != 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *segment_fallback(PyObject *object, void *unused)
{
	struct core_segment *self = (struct core_segment *)object;
	PyObject *result;
	const char *why;

	(void)unused;
	if (core_segment_enter(self) < 0)
		return NULL;
	why = percpu_segment_fallback(self->s);
	result = why != NULL ? core_text(why) : Py_NewRef(Py_None);
	core_segment_leave(self);
	return result;
}

static PyObject *segment_close(PyObject *object, PyObject *unused)
{
	(void)unused;
	segment_end((struct core_segment *)object);
	Py_RETURN_NONE;
}

static PyObject *segment_enter(PyObject *object, PyObject *unused)
{
	(void)unused;
	if (core_segment_enter((struct core_segment *)object) < 0)
		return NULL;
	core_segment_leave((struct core_segment *)object);
	return Py_NewRef(object);
}

static PyObject *segment_exit(PyObject *object, PyObject *args)
{
	(void)args;
	return segment_close(object, NULL);
}

#define SEGMENT_DECLARES(name, call, doc)                                                          \
	{                                                                                          \
		name, (PyCFunction)(void (*)(void))(call), METH_VARARGS | METH_KEYWORDS, doc       \
	}

static PyMethodDef segment_methods[] = {
	SEGMENT_DECLARES(
		"counter", core_declare_counter,
		"counter($self, name, help='', *, unit='', labels=None, floats=False)\n--\n\n"
		"Find or create a counter: of integers, or of doubles if floats is true."),
	SEGMENT_DECLARES(
		"gauge", core_declare_gauge,
		"gauge($self, name, help='', *, unit='', labels=None, owned=None)\n--\n\n"
		"Find or create a gauge. If owned is a rule (\"sum\", \"min\", \"max\" or\n"
		"\"recent\"), each process has a value in it, which ends with the process."),
	SEGMENT_DECLARES(
		"histogram", core_declare_histogram,
		"histogram($self, name, help='', *, unit='', labels=None, bounds=None, min=0.0,\n"
		"          max=0.0, buckets_per_octave=0, summary=False)\n--\n\n"
		"Find or create a histogram: with these bounds, or with exponential buckets from\n"
		"min to max. 0 means the default. A summary has no buckets."),
	SEGMENT_DECLARES(
		"stats", core_declare_stats,
		"stats($self, name, fields, label='field', help='', *, unit='', labels=None)\n"
		"--\n\n"
		"Find or create statistics: counters that are updated and read together. Readers\n"
		"find the name of a field in a label of that name."),
	SEGMENT_DECLARES("info", core_declare_info,
			 "info($self, name, labels, help='')\n--\n\n"
			 "Declare a metric that tells by its labels alone, such as a version."),
	SEGMENT_DECLARES(
		"family", core_declare_family,
		"family($self, kind, name, label_names, cap=10000, *, help='', unit='',\n"
		"       floats=False, owned=None, bounds=None, min=0.0, max=0.0,\n"
		"       buckets_per_octave=0, summary=False)\n--\n\n"
		"Find or create a family of counters, gauges or histograms: kind is \"counter\",\n"
		"\"gauge\" or \"histogram\", with the options of these methods."),
	SEGMENT_DECLARES(
		"join", segment_join,
		"join($self, name, resume=False)\n--\n\n"
		"Be an owner of this name. With resume go on with the values in owned gauges of a\n"
		"dead owner of the name."),
	{ "leave", segment_leave, METH_NOARGS,
	  "leave($self, /)\n--\n\n"
	  "Be no owner any more: what this process has in owned gauges is that of a dead one." },
	{ "close", segment_close, METH_NOARGS,
	  "close($self, /)\n--\n\n"
	  "Close the segment. Objects of it go on counting: the last one that is deleted closes the\n"
	  "file." },
	{ "__enter__", segment_enter, METH_NOARGS,
	  "__enter__($self, /)\n--\n\nReturn the segment." },
	{ "__exit__", segment_exit, METH_VARARGS,
	  "__exit__($self, /, *args)\n--\n\nClose the segment." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef segment_members[] = {
	{ "fallback", segment_fallback, NULL,
	  "Why the segment is private, as a sentence. None: it is in its file.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot segment_slots[] = {
	{ Py_tp_new, (void *)segment_new },
	{ Py_tp_dealloc, (void *)segment_dealloc },
	{ Py_tp_methods, segment_methods },
	{ Py_tp_getset, segment_members },
	{ Py_tp_doc,
	  "Segment(name, *, create=False, anew=False, foreign=False, fallback=False, mode=0,\n"
	  "        program=None)\n--\n\n"
	  "A segment that is open to count: of that name, or of that path.\n\n"
	  "create: create it if there is none. anew: reset all counts. foreign: open also\n"
	  "another user's file. fallback: if the file cannot be had, count in a private\n"
	  "segment. mode: permissions of a new file, such as 0o644. program: refuse the\n"
	  "segment of another program." },
	{ 0, NULL },
};

PyType_Spec core_segment_spec = {
	.name = "percpu._core.Segment",
	.basicsize = sizeof(struct core_segment),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = segment_slots,
};

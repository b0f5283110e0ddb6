/* SPDX-License-Identifier: MIT */
/*
 * segment.c - percpu.Segment.
 */
#include "core.h"

static PyObject *segment_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name",     "create", "anew",	  "foreign",
				 "fallback", "mode",   "program", NULL };
	struct percpu_segment_options o = { .size = sizeof(o) };
	struct core_segment *self;
	PyObject *name;
	int create = 0, anew = 0, foreign = 0, fallback = 0;
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
	self->name = name;
	flags = (create ? PERCPU_SEGMENT_CREATE : 0U) | (anew ? PERCPU_SEGMENT_ANEW : 0U) |
		(foreign ? PERCPU_SEGMENT_FOREIGN : 0U) | (fallback ? PERCPU_SEGMENT_FALLBACK : 0U);
	Py_BEGIN_ALLOW_THREADS e = percpu_segment_open(PyBytes_AsString(name), flags, &o, &self->s);
	Py_END_ALLOW_THREADS if (e != 0)
	{
		core_raise(core_state_of(type), e);
		Py_DECREF(self);
		return NULL;
	}
	return (PyObject *)self;
}

static void segment_dealloc(PyObject *object)
{
	struct core_segment *self = (struct core_segment *)object;
	PyTypeObject *type = Py_TYPE(object);

	percpu_segment_close(self->s);
	Py_XDECREF(self->name);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *segment_join(PyObject *object, PyObject *args)
{
	struct core_segment *self = (struct core_segment *)object;
	const char *name;
	int resume = 0;
	int e;

	if (!PyArg_ParseTuple(args, "s|p:join", &name, &resume))
		return NULL;
	Py_BEGIN_ALLOW_THREADS e =
		percpu_segment_join(self->s, name, resume ? PERCPU_OWNERS_RESUME : 0);
	Py_END_ALLOW_THREADS if (e != 0) return core_raise(core_state_of(Py_TYPE(object)), e);
	Py_RETURN_NONE;
}

static PyObject *segment_leave(PyObject *object, PyObject *unused)
{
	struct core_segment *self = (struct core_segment *)object;
	int e;

	(void)unused;
	Py_BEGIN_ALLOW_THREADS e = percpu_segment_leave(self->s);
	Py_END_ALLOW_THREADS if (e != 0) return core_raise(core_state_of(Py_TYPE(object)), e);
	Py_RETURN_NONE;
}

static PyMethodDef segment_methods[] = {
	{ "join", segment_join, METH_VARARGS,
	  "join(name, resume=False)\n--\n\nBe an owner of this name." },
	{ "leave", segment_leave, METH_NOARGS,
	  "leave()\n--\n\nBe no owner any more: what it has in gauges is that of a dead one." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot segment_slots[] = {
	{ Py_tp_new, (void *)segment_new },
	{ Py_tp_dealloc, (void *)segment_dealloc },
	{ Py_tp_methods, segment_methods },
	{ Py_tp_doc, "A segment that is open to count." },
	{ 0, NULL },
};

PyType_Spec core_segment_spec = {
	.name = "percpu._core.Segment",
	.basicsize = sizeof(struct core_segment),
	.flags = Py_TPFLAGS_DEFAULT,
	.slots = segment_slots,
};

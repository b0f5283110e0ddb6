/* SPDX-License-Identifier: MIT */
/*
 * gauge.c - percpu.Gauge and percpu.OwnedGauge, both of doubles.
 */
#include "core.h"

static union core_pointer gauge_of(PyObject *object)
{
	return ((struct core_object *)object)->of;
}

/* None, or an exception for e. */
static PyObject *gauge_done(PyObject *object, int e)
{
	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE(object)), e);
	Py_RETURN_NONE;
}

static PyObject *gauge_add(PyObject *object, PyObject *number)
{
	double n;

	if (core_double(number, &n) < 0)
		return NULL;
	return gauge_done(object, percpu_fgauge_add(gauge_of(object).gauge, n));
}

static PyObject *gauge_set(PyObject *object, PyObject *number)
{
	double v;

	if (core_double(number, &v) < 0)
		return NULL;
	return gauge_done(object, percpu_fgauge_set(gauge_of(object).gauge, v));
}

static PyObject *gauge_value(PyObject *object, void *unused)
{
	(void)unused;
	return PyFloat_FromDouble(percpu_fgauge_fetch(gauge_of(object).gauge));
}

/* Update an owned gauge. The first update of a process may wait: then other threads go on. */
static PyObject *owned_update(PyObject *object, PyObject *number,
			      int (*update)(struct percpu_owned_fgauge *g, double n))
{
	struct percpu_owned_fgauge *g = gauge_of(object).owned;
	PyThreadState *thread = NULL;
	double n;
	int e;

	if (core_double(number, &n) < 0)
		return NULL;
	if (__atomic_load_n(&g->owned.mine, __ATOMIC_RELAXED) == NULL)
		thread = PyEval_SaveThread();
	e = update(g, n);
	if (thread != NULL)
		PyEval_RestoreThread(thread);
	return gauge_done(object, e);
}

static PyObject *owned_add(PyObject *object, PyObject *number)
{
	return owned_update(object, number, percpu_owned_fgauge_add);
}

static PyObject *owned_set(PyObject *object, PyObject *number)
{
	return owned_update(object, number, percpu_owned_fgauge_set);
}

/* The number, or None without one. */
static PyObject *owned_number(PyObject *object, int e, double number)
{
	if (e == -ENODATA)
		Py_RETURN_NONE;
	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE(object)), e);
	return PyFloat_FromDouble(number);
}

static PyObject *owned_value(PyObject *object, void *unused)
{
	PyThreadState *thread = PyEval_SaveThread(); /* the kernel is asked about each owner */
	double value = 0;
	int e = percpu_owned_fgauge_fetch(gauge_of(object).owned, PERCPU_OWNED_LIVING, &value);

	(void)unused;
	PyEval_RestoreThread(thread);
	return owned_number(object, e, value);
}

static PyObject *owned_own(PyObject *object, void *unused)
{
	double value = 0;
	int e = percpu_owned_fgauge_own(gauge_of(object).owned, &value);

	(void)unused;
	return owned_number(object, e, value);
}

static PyMethodDef gauge_methods[] = {
	{ "add", gauge_add, METH_O, "add($self, n, /)\n--\n\nAdd n, which may be negative." },
	{ "set", gauge_set, METH_O, "set($self, v, /)\n--\n\nSet the level to v." },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef owned_methods[] = {
	{ "add", owned_add, METH_O,
	  "add($self, n, /)\n--\n\nAdd n, which may be negative, to what this process has." },
	{ "set", owned_set, METH_O, "set($self, v, /)\n--\n\nSet what this process has to v." },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef gauge_members[] = {
	{ "value", gauge_value, NULL, "The level.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyGetSetDef owned_members[] = {
	{ "value", owned_value, NULL,
	  "What the living processes have, by the rule of the gauge. None: nothing yet.", NULL },
	{ "own", owned_own, NULL, "What this process has. None: nothing yet.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot gauge_slots[] = {
	{ Py_tp_dealloc, (void *)core_object_dealloc },
	{ Py_tp_methods, gauge_methods },
	{ Py_tp_getset, gauge_members },
	{ Py_tp_doc, "A level that all processes add to, and set." },
	{ 0, NULL },
};

static PyType_Slot owned_slots[] = {
	{ Py_tp_dealloc, (void *)core_object_dealloc },
	{ Py_tp_methods, owned_methods },
	{ Py_tp_getset, owned_members },
	{ Py_tp_doc, "A gauge in which each process has a value, which ends with the process." },
	{ 0, NULL },
};

PyType_Spec core_gauge_spec = {
	.name = "percpu._core.Gauge",
	.basicsize = sizeof(struct core_object),
	.flags = CORE_TYPE_FLAGS,
	.slots = gauge_slots,
};

PyType_Spec core_owned_gauge_spec = {
	.name = "percpu._core.OwnedGauge",
	.basicsize = sizeof(struct core_object),
	.flags = CORE_TYPE_FLAGS,
	.slots = owned_slots,
};

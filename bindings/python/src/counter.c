/* SPDX-License-Identifier: MIT */
/*
 * counter.c - percpu.Counter, of integers, and percpu.FCounter, of doubles.
 */
#include "core.h"

static union core_pointer counter_of(PyObject *object)
{
	return ((struct core_object *)object)->of;
}

static PyObject *counter_inc(PyObject *object, PyObject *unused)
{
	(void)unused;
	percpu_counter_inc(counter_of(object).counter);
	Py_RETURN_NONE;
}

static PyObject *counter_add(PyObject *object, PyObject *number)
{
	int64_t n;

	if (core_count(number, &n) < 0)
		return NULL;
	percpu_counter_add(counter_of(object).counter, n);
	Py_RETURN_NONE;
}

static PyObject *counter_reset(PyObject *object, PyObject *unused)
{
	(void)unused;
	percpu_counter_zero(counter_of(object).counter);
	Py_RETURN_NONE;
}

static PyObject *counter_value(PyObject *object, void *unused)
{
	(void)unused;
	return PyLong_FromUnsignedLongLong(percpu_counter_fetch(counter_of(object).counter));
}

static PyObject *fcounter_added(PyObject *object, double n)
{
	int e = percpu_fcounter_add(counter_of(object).fcounter, n);

	if (e != 0)
		return core_raise_plain(core_state_of(Py_TYPE(object)), e);
	Py_RETURN_NONE;
}

static PyObject *fcounter_inc(PyObject *object, PyObject *unused)
{
	(void)unused;
	return fcounter_added(object, 1.0);
}

static PyObject *fcounter_add(PyObject *object, PyObject *number)
{
	double n;

	if (core_double(number, &n) < 0)
		return NULL;
	if (n < 0) {
		PyErr_SetString(PyExc_ValueError, "a counter only grows: the amount is negative");
		return NULL;
	}
	return fcounter_added(object, n);
}

static PyObject *fcounter_reset(PyObject *object, PyObject *unused)
{
	(void)unused;
	percpu_fcounter_zero(counter_of(object).fcounter);
	Py_RETURN_NONE;
}

static PyObject *fcounter_value(PyObject *object, void *unused)
{
	(void)unused;
	return PyFloat_FromDouble(percpu_fcounter_fetch(counter_of(object).fcounter));
}

#define COUNTER_INC "inc($self, /)\n--\n\nAdd 1."
#define COUNTER_ADD "add($self, n, /)\n--\n\nAdd n, which is not negative."
#define COUNTER_RESET "reset($self, /)\n--\n\nBegin anew at 0."
#define COUNTER_EXEMPLAR                                                                           \
	"exemplar($self, labels, value, /)\n--\n\n"                                                \
	"Store an event: what it added, and labels such as a trace's id."

static PyMethodDef counter_methods[] = {
	{ "inc", counter_inc, METH_NOARGS, COUNTER_INC },
	{ "add", counter_add, METH_O, COUNTER_ADD },
	{ "reset", counter_reset, METH_NOARGS, COUNTER_RESET },
	{ "exemplar", core_object_exemplar, METH_VARARGS, COUNTER_EXEMPLAR },
	{ NULL, NULL, 0, NULL },
};

static PyMethodDef fcounter_methods[] = {
	{ "inc", fcounter_inc, METH_NOARGS, COUNTER_INC },
	{ "add", fcounter_add, METH_O, COUNTER_ADD },
	{ "reset", fcounter_reset, METH_NOARGS, COUNTER_RESET },
	{ "exemplar", core_object_exemplar, METH_VARARGS, COUNTER_EXEMPLAR },
	{ NULL, NULL, 0, NULL },
};

static PyGetSetDef counter_members[] = {
	{ "value", counter_value, NULL, "What was added.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyGetSetDef fcounter_members[] = {
	{ "value", fcounter_value, NULL, "What was added.", NULL },
	{ NULL, NULL, NULL, NULL, NULL },
};

static PyType_Slot counter_slots[] = {
	{ Py_tp_dealloc, (void *)core_object_dealloc },
	{ Py_tp_methods, counter_methods },
	{ Py_tp_getset, counter_members },
	{ Py_tp_doc, "A counter of integers." },
	{ 0, NULL },
};

static PyType_Slot fcounter_slots[] = {
	{ Py_tp_dealloc, (void *)core_object_dealloc },
	{ Py_tp_methods, fcounter_methods },
	{ Py_tp_getset, fcounter_members },
	{ Py_tp_doc, "A counter of doubles." },
	{ 0, NULL },
};

PyType_Spec core_counter_spec = {
	.name = "percpu._core.Counter",
	.basicsize = sizeof(struct core_object),
	.flags = CORE_TYPE_FLAGS,
	.slots = counter_slots,
};

PyType_Spec core_fcounter_spec = {
	.name = "percpu._core.FCounter",
	.basicsize = sizeof(struct core_object),
	.flags = CORE_TYPE_FLAGS,
	.slots = fcounter_slots,
};

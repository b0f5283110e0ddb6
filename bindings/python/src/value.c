/* SPDX-License-Identifier: MIT */
/*
 * value.c - percpu._core.Value: a number of prometheus_client, with its methods inc(), set() and
 * get(). It is a counter, a gauge, or a part of a histogram or summary.
 */
#include <stdbool.h>
#include <string.h>

#include "value.h"

#include <structmember.h>

uint64_t core_lost;

void core_lose(const struct core_handle *h, int e)
{
	struct core_state *state = core_state_of(Py_TYPE(h->segment));
	PyObject *type, *value, *traceback, *done;

	if (__atomic_fetch_add(&core_lost, 1, __ATOMIC_RELAXED) != 0 || state->complain == NULL)
		return;
	PyErr_Fetch(&type, &value, &traceback);
	done = PyObject_CallFunction(state->complain, "iO", -e, h->name);
	if (done == NULL)
		PyErr_Clear();
	Py_XDECREF(done);
	PyErr_Restore(type, value, traceback);
}

int core_amount(PyObject *amount, double *ret)
{
	PyObject *zero, *sum;

	if (PyFloat_CheckExact(amount)) {
		*ret = PyFloat_AsDouble(amount);
		return 0;
	}
	zero = PyFloat_FromDouble(0);
	sum = zero != NULL ? PyNumber_InPlaceAdd(zero, amount) : NULL;
	Py_XDECREF(zero);
	if (sum == NULL)
		return -1;
	*ret = PyFloat_AsDouble(sum);
	Py_DECREF(sum);
	return *ret == -1 && PyErr_Occurred() != NULL ? -1 : 0;
}

/* Private numbers. */

static double number_of(const struct core_value *v)
{
	uint64_t bits = __atomic_load_n(&v->number, __ATOMIC_RELAXED);
	double number;

	memcpy(&number, &bits, sizeof(number));
	return number;
}

static void number_set(struct core_value *v, double number)
{
	uint64_t bits;

	memcpy(&bits, &number, sizeof(bits));
	__atomic_store_n(&v->number, bits, __ATOMIC_RELAXED);
}

static void number_add(struct core_value *v, double amount)
{
	uint64_t before = __atomic_load_n(&v->number, __ATOMIC_RELAXED), after;
	double number;

	do {
		memcpy(&number, &before, sizeof(number));
		number += amount;
		memcpy(&after, &number, sizeof(after));
	} while (!__atomic_compare_exchange_n(&v->number, &before, after, true, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
}

/* The series of a value. */

/* Bind the value to the series of the process that this is now. The binder keeps the handle, and the
 * former one, which another thread may be using. Returns the handle. NULL: with an exception. */
static struct core_handle *bind_again(struct core_value *v)
{
	struct core_handle *former = __atomic_load_n(&v->handle, __ATOMIC_ACQUIRE);
	uint64_t forks = __atomic_load_n(&core_forks, __ATOMIC_RELAXED);
	PyObject *handle = PyObject_CallFunctionObjArgs(v->binder, v, NULL);

	if (handle == NULL)
		return NULL;
	if (Py_TYPE(handle) != Py_TYPE((PyObject *)former)) {
		Py_DECREF(handle);
		handle = Py_NewRef((PyObject *)former);
	}
	former = __atomic_exchange_n(&v->handle, (struct core_handle *)handle, __ATOMIC_ACQ_REL);
	Py_DECREF((PyObject *)former);
	__atomic_store_n(&v->forks, forks, __ATOMIC_RELAXED);
	return (struct core_handle *)handle;
}

/* Return the handle of a gauge. NULL: with an exception. */
static struct core_handle *gauge_handle(struct core_value *v)
{
	uint64_t forks = __atomic_load_n(&v->forks, __ATOMIC_RELAXED);

	if (v->binder != NULL &&
	    (v->always || forks != __atomic_load_n(&core_forks, __ATOMIC_RELAXED)))
		return bind_again(v);
	return __atomic_load_n(&v->handle, __ATOMIC_ACQUIRE);
}

/* Updates. */

int core_value_add(struct core_value *v, double amount)
{
	struct core_handle *s = v->handle;
	int e;

	if (v->role == CORE_PRIVATE) {
		number_add(v, amount);
		return 0;
	}
	if (v->role == CORE_COUNTER) {
		e = percpu_fcounter_add(core_handle_get(s), amount);
	} else {
		s = gauge_handle(v);
		if (s == NULL)
			return -1;
		e = percpu_owned_fgauge_add(core_handle_get(s), amount);
	}
	if (e != 0)
		core_lose(s, e);
	return 0;
}

int core_value_set(struct core_value *v, double value)
{
	struct core_handle *s;
	int e;

	if (v->role == CORE_PRIVATE) {
		number_set(v, value);
		return 0;
	}
	s = gauge_handle(v);
	if (s == NULL)
		return -1;
	e = percpu_owned_fgauge_set(core_handle_get(s), value);
	if (e != 0)
		core_lose(s, e);
	return 0;
}

/* Set a counter: reset it, and add. */
static void counter_set(struct core_value *v, double value)
{
	struct percpu_fcounter *c = core_handle_get(v->handle);
	int e;

	percpu_fcounter_zero(c);
	e = value != 0 ? percpu_fcounter_add(c, value) : 0;
	if (e != 0)
		core_lose(v->handle, e);
}

static PyObject *value_inc(PyObject *object, PyObject *arg)
{
	struct core_value *v = (struct core_value *)object;
	double amount;

	if (core_amount(arg, &amount) < 0)
		return NULL;
	switch (v->role) {
	case CORE_HISTOGRAM_SUM:
		core_value_add_to_sum(v, amount);
		break;
	case CORE_HISTOGRAM_BUCKET:
		if (v->cell >= 0)
			core_value_add_to_bucket(v, amount);
		break;
	case CORE_SUMMARY_COUNT:
		break;
	case CORE_SUMMARY_SUM:
		core_value_record(v, amount);
		break;
	default:
		if (core_value_add(v, amount) < 0)
			return NULL;
	}
	Py_RETURN_NONE;
}

/* The time is the library's own. */
static PyObject *value_set(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "value", "timestamp", NULL };
	struct core_value *v = (struct core_value *)object;
	PyObject *timestamp = NULL;
	double value;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "d|O:set", names, &value, &timestamp))
		return NULL;
	if (v->role == CORE_COUNTER)
		counter_set(v, value);
	else if (v->role > CORE_RECENT)
		core_lose(v->handle, -ENOTSUP);
	else if (core_value_set(v, value) < 0)
		return NULL;
	Py_RETURN_NONE;
}

/* Reading. */

static double part_of(const struct core_value *v, const struct percpu_histogram_snapshot *s)
{
	if (v->role == CORE_HISTOGRAM_SUM || v->role == CORE_SUMMARY_SUM)
		return s->sum;
	if (v->role == CORE_SUMMARY_COUNT)
		return (double)s->count;
	return v->cell >= 0 && (size_t)v->cell < s->n ? (double)s->bucket[v->cell].count : 0;
}

static PyObject *histogram_get(struct core_value *v)
{
	const struct percpu_histogram *h = core_handle_get(v->handle);
	struct percpu_histogram_snapshot *s;
	double part;

	if (percpu_histogram_snapshot_create(h, &s) != 0)
		return PyErr_NoMemory();
	part = percpu_histogram_fetch(h, 0, s) == 0 ? part_of(v, s) : 0;
	percpu_histogram_snapshot_destroy(s);
	return PyFloat_FromDouble(part);
}

static PyObject *gauge_get(struct core_value *v)
{
	struct core_handle *s = gauge_handle(v);
	double own = 0;

	if (s == NULL)
		return NULL;
	if (percpu_owned_fgauge_own(core_handle_get(s), &own) < 0)
		own = 0; /* this process has none */
	return PyFloat_FromDouble(own);
}

static PyObject *value_get(PyObject *object, PyObject *unused)
{
	struct core_value *v = (struct core_value *)object;

	(void)unused;
	switch (v->role) {
	case CORE_PRIVATE:
		return PyFloat_FromDouble(number_of(v));
	case CORE_COUNTER:
		return PyFloat_FromDouble(percpu_fcounter_fetch(core_handle_get(v->handle)));
	case CORE_GAUGE:
	case CORE_RECENT:
		return gauge_get(v);
	default:
		return histogram_get(v);
	}
}

/* Give the value a role and a series: once, before it is used. */
static PyObject *value_bind(PyObject *object, PyObject *args)
{
	struct core_value *v = (struct core_value *)object;
	PyObject *handle, *binder = Py_None;
	int role, always = 0;
	Py_ssize_t cell = 0;

	if (!PyArg_ParseTuple(args, "iO|nOp:bind", &role, &handle, &cell, &binder, &always))
		return NULL;
	if (role <= CORE_PRIVATE || role >= CORE_ROLES || v->handle != NULL) {
		PyErr_SetString(PyExc_ValueError, "no such role, or bound before");
		return NULL;
	}
	v->cell = cell;
	v->always = always;
	v->binder = binder != Py_None ? Py_NewRef(binder) : NULL;
	v->forks = core_forks;
	v->handle = (struct core_handle *)Py_NewRef(handle);
	v->role = (enum core_role)role;
	Py_RETURN_NONE;
}

static int value_traverse(PyObject *object, visitproc visit, void *arg)
{
	struct core_value *v = (struct core_value *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(v->handle);
	Py_VISIT(v->binder);
	return 0;
}

static int value_clear(PyObject *object)
{
	struct core_value *v = (struct core_value *)object;

	v->role = CORE_PRIVATE;
	Py_CLEAR(v->handle);
	Py_CLEAR(v->binder);
	return 0;
}

static void value_dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	PyObject_GC_UnTrack(object);
	(void)value_clear(object);
	PyObject_GC_Del(object);
	Py_DECREF(type);
}

static PyMethodDef value_methods[] = {
	{ "bind", value_bind, METH_VARARGS, NULL },
	{ "inc", value_inc, METH_O, NULL },
	{ "set", (PyCFunction)(void (*)(void))value_set, METH_VARARGS | METH_KEYWORDS, NULL },
	{ "get", value_get, METH_NOARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static PyMemberDef value_members[] = {
	{ "role", T_INT, offsetof(struct core_value, role), READONLY, NULL },
	{ "cell", T_PYSSIZET, offsetof(struct core_value, cell), READONLY, NULL },
	{ "handle", T_OBJECT, offsetof(struct core_value, handle), READONLY, NULL },
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot value_slots[] = {
	{ Py_tp_dealloc, (void *)value_dealloc }, { Py_tp_traverse, (void *)value_traverse },
	{ Py_tp_clear, (void *)value_clear },	  { Py_tp_methods, value_methods },
	{ Py_tp_members, value_members },	  { 0, NULL },
};

PyType_Spec core_value_spec = {
	.name = "percpu._core.Value",
	.basicsize = sizeof(struct core_value),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
	.slots = value_slots,
};

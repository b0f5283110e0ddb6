/* SPDX-License-Identifier: MIT */
/*
 * methods.c - methods of prometheus_client's metrics, in C.
 *
 * Each of them does what is common: the value is of a segment, the amount is an int or a float, and
 * there is no exemplar. In all other cases it calls the method of prometheus_client that it has
 * replaced, which also raises its exceptions.
 *
 * A method descriptor has no place for the state of a module. So these are of one interpreter, the
 * first that installs them; others keep the methods in Python.
 */
#include <string.h>

#include "value.h"

enum method {
	COUNTER_INC,
	GAUGE_INC,
	GAUGE_DEC,
	GAUGE_SET,
	HISTOGRAM_OBSERVE,
	SUMMARY_OBSERVE,
	LABELS,
	METHODS,
};

/* The interpreter's that installed the methods. They stay until the process ends. */
static struct {
	PyTypeObject *value; /* NULL: none has */
	PyObject *original[METHODS];
	PyObject *name_value, *name_sum, *name_metrics, *name_labelnames;
	PyObject *one;
} installed;

/* Call the method that was replaced. */
static PyObject *call_original(enum method m, PyObject *self, PyObject *const *args, Py_ssize_t n,
			       PyObject *names)
{
	Py_ssize_t keywords = names != NULL ? PyTuple_Size(names) : 0;
	PyObject *all = PyTuple_New(n + 1), *kwargs = NULL, *result = NULL;

	if (all == NULL || PyTuple_SetItem(all, 0, Py_NewRef(self)) < 0)
		goto out;
	for (Py_ssize_t i = 0; i < n; i++)
		if (PyTuple_SetItem(all, i + 1, Py_NewRef(args[i])) < 0)
			goto out;
	if (keywords != 0 && (kwargs = PyDict_New()) == NULL)
		goto out;
	for (Py_ssize_t i = 0; i < keywords; i++)
		if (PyDict_SetItem(kwargs, PyTuple_GetItem(names, i), args[n + i]) < 0)
			goto out;
	result = PyObject_Call(installed.original[m], all, kwargs);
out:
	Py_XDECREF(all);
	Py_XDECREF(kwargs);
	return result;
}

/* Return the value that self has under this name, a new reference; or NULL without an exception if
 * it is none of a segment. */
static struct core_value *value_of(PyObject *self, PyObject *name)
{
	PyObject *v = PyObject_GetAttr(self, name);

	if (v == NULL) {
		PyErr_Clear();
		return NULL;
	}
	if (!PyObject_TypeCheck(v, installed.value) ||
	    ((struct core_value *)v)->role == CORE_PRIVATE) {
		Py_DECREF(v);
		return NULL;
	}
	return (struct core_value *)v;
}

/* Tell whether the only argument, or none, is an amount: an int or a float, and which. */
static bool plain_amount(PyObject *const *args, Py_ssize_t n, PyObject *names, double *ret)
{
	if (names != NULL || n > 1)
		return false;
	if (n == 0) {
		*ret = 1;
		return true;
	}
	if (PyFloat_CheckExact(args[0])) {
		*ret = PyFloat_AsDouble(args[0]);
		return true;
	}
	if (!PyLong_CheckExact(args[0]))
		return false;
	*ret = PyLong_AsDouble(args[0]);
	if (*ret == -1 && PyErr_Occurred() != NULL) {
		PyErr_Clear();
		return false;
	}
	return true;
}

static PyObject *counter_inc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	struct core_value *v;
	double amount;
	int e;

	if (!plain_amount(args, n, names, &amount) || !(amount >= 0))
		return call_original(COUNTER_INC, self, args, n, names);
	v = value_of(self, installed.name_value);
	if (v == NULL)
		return call_original(COUNTER_INC, self, args, n, names);
	e = core_value_add(v, amount);
	Py_DECREF(v);
	return e == 0 ? Py_NewRef(Py_None) : NULL;
}

/* Add to a gauge, times 1 or -1; or set it, if sign is 0. */
static PyObject *gauge_change(enum method m, double sign, PyObject *self, PyObject *const *args,
			      Py_ssize_t n, PyObject *names)
{
	struct core_value *v = NULL;
	double amount;
	int e;

	if (!plain_amount(args, n, names, &amount) || (sign == 0 && n == 0))
		return call_original(m, self, args, n, names);
	v = value_of(self, installed.name_value);
	if (v == NULL || (sign != 0 && v->role == CORE_RECENT)) {
		Py_XDECREF(v);
		return call_original(m, self, args, n, names);
	}
	e = sign != 0 ? core_value_add(v, sign * amount) : core_value_set(v, amount);
	Py_DECREF(v);
	return e == 0 ? Py_NewRef(Py_None) : NULL;
}

static PyObject *gauge_inc(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return gauge_change(GAUGE_INC, 1, self, args, n, names);
}

static PyObject *gauge_dec(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return gauge_change(GAUGE_DEC, -1, self, args, n, names);
}

static PyObject *gauge_set(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	return gauge_change(GAUGE_SET, 0, self, args, n, names);
}

static PyObject *observe(enum method m, PyObject *self, PyObject *const *args, Py_ssize_t n,
			 PyObject *names)
{
	struct core_value *sum = NULL;
	double amount;

	if (n == 1 && plain_amount(args, n, names, &amount))
		sum = value_of(self, installed.name_sum);
	if (sum == NULL)
		return call_original(m, self, args, n, names);
	core_value_record(sum, amount);
	Py_DECREF(sum);
	return Py_NewRef(Py_None);
}

static PyObject *histogram_observe(PyObject *self, PyObject *const *args, Py_ssize_t n,
				   PyObject *names)
{
	return observe(HISTOGRAM_OBSERVE, self, args, n, names);
}

static PyObject *summary_observe(PyObject *self, PyObject *const *args, Py_ssize_t n,
				 PyObject *names)
{
	return observe(SUMMARY_OBSERVE, self, args, n, names);
}

/* Find the child in the dict of a metric. Returns a new reference, or NULL, perhaps with an
 * exception. */
static PyObject *find_child(PyObject *metrics, PyObject *key)
{
#ifdef Py_GIL_DISABLED
	PyObject *child;

	(void)PyDict_GetItemRef(metrics, key, &child);
	return child;
#else
	return Py_XNewRef(PyDict_GetItemWithError(metrics, key));
#endif
}

/* Return the values of labels as a tuple of str; NULL, perhaps with an exception, if they are
 * anything else. */
static PyObject *plain_labels(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *key;

	(void)self;
	if (names != NULL || n == 0)
		return NULL;
	for (Py_ssize_t i = 0; i < n; i++)
		if (!PyUnicode_CheckExact(args[i]))
			return NULL;
	key = PyTuple_New(n);
	for (Py_ssize_t i = 0; key != NULL && i < n; i++)
		if (PyTuple_SetItem(key, i, Py_NewRef(args[i])) < 0)
			Py_CLEAR(key);
	return key;
}

/* The values of labels given by names, in the order of the metric's. */
static PyObject *named_labels(PyObject *self, PyObject *const *args, PyObject *names)
{
	PyObject *order = PyObject_GetAttr(self, installed.name_labelnames), *key = NULL;
	Py_ssize_t n = PyTuple_Size(names);

	if (order != NULL && PyTuple_CheckExact(order) && PyTuple_Size(order) == n)
		key = PyTuple_New(n);
	for (Py_ssize_t i = 0; key != NULL && i < n; i++) {
		Py_ssize_t at = PySequence_Index(names, PyTuple_GetItem(order, i));

		if (at < 0 || !PyUnicode_CheckExact(args[at]) ||
		    PyTuple_SetItem(key, i, Py_NewRef(args[at])) < 0)
			Py_CLEAR(key);
	}
	Py_XDECREF(order);
	return key;
}

static PyObject *labels(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
	PyObject *key = NULL, *metrics, *child = NULL;

	if (names != NULL && n == 0)
		key = named_labels(self, args, names);
	else
		key = plain_labels(self, args, n, names);
	metrics = key != NULL ? PyObject_GetAttr(self, installed.name_metrics) : NULL;
	if (metrics != NULL && PyDict_CheckExact(metrics))
		child = find_child(metrics, key);
	Py_XDECREF(metrics);
	Py_XDECREF(key);
	if (child != NULL)
		return child;
	PyErr_Clear();
	return call_original(LABELS, self, args, n, names);
}

#define FAST(function) ((PyCFunction)(void (*)(void))(function)), METH_FASTCALL | METH_KEYWORDS

static PyMethodDef replacements[METHODS] = {
	[COUNTER_INC] = { "inc", FAST(counter_inc),
			  "inc($self, amount=1, exemplar=None)\n--\n\n"
			  "Increment counter by the given amount." },
	[GAUGE_INC] = { "inc", FAST(gauge_inc),
			"inc($self, amount=1)\n--\n\nIncrement gauge by the given amount." },
	[GAUGE_DEC] = { "dec", FAST(gauge_dec),
			"dec($self, amount=1)\n--\n\nDecrement gauge by the given amount." },
	[GAUGE_SET] = { "set", FAST(gauge_set),
			"set($self, value)\n--\n\nSet gauge to the given value." },
	[HISTOGRAM_OBSERVE] = { "observe", FAST(histogram_observe),
				"observe($self, amount, exemplar=None)\n--\n\n"
				"Observe the given amount." },
	[SUMMARY_OBSERVE] = { "observe", FAST(summary_observe),
			      "observe($self, amount)\n--\n\nObserve the given amount." },
	[LABELS] = { "labels", FAST(labels),
		     "labels($self, *labelvalues, **labelkwargs)\n--\n\n"
		     "Return the child for the given labelset." },
};

/* Replace a method of the class. Returns 0, or -1 with an exception. */
static int replace_method(enum method m, PyObject *class)
{
	PyMethodDef *def = &replacements[m];
	PyObject *descriptor = PyDescr_NewMethod((PyTypeObject *)class, def);
	int e = -1;

	installed.original[m] = PyObject_GetAttrString(class, def->ml_name);
	if (descriptor != NULL && installed.original[m] != NULL)
		e = PyObject_SetAttrString(class, def->ml_name, descriptor);
	Py_XDECREF(descriptor);
	return e;
}

static int make_names(void)
{
	installed.name_value = PyUnicode_InternFromString("_value");
	installed.name_sum = PyUnicode_InternFromString("_sum");
	installed.name_metrics = PyUnicode_InternFromString("_metrics");
	installed.name_labelnames = PyUnicode_InternFromString("_labelnames");
	return installed.name_value == NULL || installed.name_sum == NULL ||
			       installed.name_metrics == NULL || installed.name_labelnames == NULL ?
		       -1 :
		       0;
}

/* install_methods(Counter, Gauge, Histogram, Summary, MetricWrapperBase) -> bool */
PyObject *core_install_methods(PyObject *module, PyObject *args)
{
	struct core_state *state = PyModule_GetState(module);
	PyObject *counter, *gauge, *histogram, *summary, *base;
	PyTypeObject *none = NULL;

	if (!PyArg_ParseTuple(args, "O!O!O!O!O!:install_methods", &PyType_Type, &counter,
			      &PyType_Type, &gauge, &PyType_Type, &histogram, &PyType_Type,
			      &summary, &PyType_Type, &base))
		return NULL;
	if (!__atomic_compare_exchange_n(&installed.value, &none, state->value, false,
					 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		Py_RETURN_FALSE;
	Py_INCREF(state->value);
	if (make_names() < 0 || replace_method(COUNTER_INC, counter) < 0 ||
	    replace_method(GAUGE_INC, gauge) < 0 || replace_method(GAUGE_DEC, gauge) < 0 ||
	    replace_method(GAUGE_SET, gauge) < 0 ||
	    replace_method(HISTOGRAM_OBSERVE, histogram) < 0 ||
	    replace_method(SUMMARY_OBSERVE, summary) < 0 || replace_method(LABELS, base) < 0)
		return NULL;
	Py_RETURN_TRUE;
}

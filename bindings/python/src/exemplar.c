/* SPDX-License-Identifier: MIT */
/*
 * exemplar.c - the method exemplar() of counters and histograms.
 */
#include "core.h"

/* Get the UTF-8 of each text of a tuple, which may be NULL. Returns how many, or -1 with an
 * exception. */
static Py_ssize_t exemplar_texts(PyObject *tuple, const char **utf8)
{
	Py_ssize_t n = tuple != NULL ? PyTuple_Size(tuple) : 0;

	for (Py_ssize_t i = 0; i < n; i++) {
		utf8[i] = core_label(PyTuple_GetItem(tuple, i));
		if (utf8[i] == NULL)
			return -1;
	}
	return n;
}

/* Find or create the exemplars of an object. Returns 0 or -errno, or 1 with an exception. */
static int exemplar_find(const struct core_object *h, struct percpu_exemplars **ret)
{
	const char *names[PERCPU_METRIC_LABELS], *values[PERCPU_METRIC_LABELS];
	struct percpu_metric m = { .size = sizeof(m) };
	Py_ssize_t n = exemplar_texts(h->label_values, values);
	PyThreadState *thread;
	int e;

	if (n < 0 || exemplar_texts(h->label_names, names) < 0)
		return 1;
	if (h->family == NULL) {
		m.name = core_label(h->name);
		if (m.name == NULL)
			return 1;
	}
	m.labels = (size_t)n;
	m.label_names = n != 0 ? names : NULL;
	m.label_values = n != 0 ? values : NULL;
	thread = PyEval_SaveThread();
	if (h->family != NULL)
		e = percpu_family_exemplars(h->family->f, values, ret);
	else
		e = percpu_segment_exemplars(h->segment->s, &m, ret);
	PyEval_RestoreThread(thread);
	return e;
}

/* Store an exemplar with the labels of a mapping. Returns 0 or -errno, or 1 with an exception. */
static int exemplar_store(struct percpu_exemplars *x, PyObject *labels, double value)
{
	struct percpu_exemplar_label l[PERCPU_EXEMPLAR_LABELS];
	const char *names[PERCPU_EXEMPLAR_LABELS], *values[PERCPU_EXEMPLAR_LABELS];
	PyObject *keys = PyMapping_Keys(labels);
	PyObject *list = keys != NULL ? PyMapping_Values(labels) : NULL;
	PyObject *of_names = NULL, *of_values = NULL;
	Py_ssize_t n = 0;
	int e = 1;

	if (list != NULL)
		of_names = core_texts(keys, -1, PERCPU_EXEMPLAR_LABELS, names);
	if (of_names != NULL) {
		n = PyTuple_Size(of_names);
		of_values = core_texts(list, n, PERCPU_EXEMPLAR_LABELS, values);
	}
	if (of_values != NULL) {
		for (Py_ssize_t i = 0; i < n; i++)
			l[i] = (struct percpu_exemplar_label){ names[i], values[i] };
		e = percpu_exemplars_store(x, value, l, (size_t)n);
	}
	Py_XDECREF(of_names);
	Py_XDECREF(of_values);
	Py_XDECREF(keys);
	Py_XDECREF(list);
	return e;
}

PyObject *core_object_exemplar(PyObject *object, PyObject *args)
{
	struct core_object *h = (struct core_object *)object;
	struct core_state *state = core_state_of(Py_TYPE(object));
	struct percpu_exemplars *x = __atomic_load_n(&h->exemplars, __ATOMIC_ACQUIRE);
	PyObject *labels;
	double value;
	int e;

	if (!PyArg_ParseTuple(args, "Od:exemplar", &labels, &value))
		return NULL;
	if (x == NULL) {
		e = exemplar_find(h, &x);
		if (e != 0)
			return e < 0 ? core_raise(state, e) : NULL;
		__atomic_store_n(&h->exemplars, x, __ATOMIC_RELEASE);
	}
	e = exemplar_store(x, labels, value);
	if (e > 0)
		return NULL;
	/* Another thread is storing one that is as recent. */
	if (e != 0 && e != -EBUSY)
		return core_raise_plain(state, e);
	Py_RETURN_NONE;
}

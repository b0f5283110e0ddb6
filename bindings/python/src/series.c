/* SPDX-License-Identifier: MIT */
/*
 * series.c - percpu.Series: a series of a picture, with its value.
 */
#include "core.h"

#include <structmember.h>

static const char *const series_kinds[] = {
	[0] = "unknown",
	[PERCPU_METRIC_COUNTER] = "counter",
	[PERCPU_METRIC_FCOUNTER] = "fcounter",
	[PERCPU_METRIC_GAUGE] = "gauge",
	[PERCPU_METRIC_FGAUGE] = "fgauge",
	[PERCPU_METRIC_LATEST] = "latest",
	[PERCPU_METRIC_HISTOGRAM] = "histogram",
	[PERCPU_METRIC_EXTREMA] = "extrema",
	[PERCPU_METRIC_OWNED_GAUGE] = "owned_gauge",
	[PERCPU_METRIC_OWNED_FGAUGE] = "owned_fgauge",
	[PERCPU_METRIC_INFO] = "info",
	[PERCPU_METRIC_STATS] = "stats",
};

#define SERIES_KINDS (sizeof(series_kinds) / sizeof(series_kinds[0]))

/* The text as an object: that of the series before, if the text is the same there. */
static PyObject *series_text(PyObject *before, const char *was, const char *now)
{
	if (before != NULL && strcmp(was, now) == 0)
		return Py_NewRef(before);
	return core_text(now);
}

static PyObject *series_tuple(const char *const *texts, size_t n)
{
	PyObject *tuple = PyTuple_New((Py_ssize_t)n);

	for (size_t i = 0; tuple != NULL && i < n; i++) {
		PyObject *text = core_text(texts[i]);

		if (text == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)i, text) < 0) {
			Py_DECREF(tuple);
			return NULL;
		}
	}
	return tuple;
}

/* Likewise a tuple of n texts. */
static PyObject *series_texts(PyObject *before, const char *const *was, size_t was_n,
			      const char *const *now, size_t n)
{
	int same = before != NULL && was_n == n;

	for (size_t i = 0; same && i < n; i++)
		same = strcmp(was[i], now[i]) == 0;
	return same ? Py_NewRef(before) : series_tuple(now, n);
}

/* Whether these bounds, which may be NULL, are the histogram's own. */
static int series_has_bounds(PyObject *bounds, const struct percpu_histogram_snapshot *h)
{
	if (bounds == NULL || PyTuple_Size(bounds) + 1 != (Py_ssize_t)h->n)
		return 0;
	for (uint32_t k = 0; k + 1 < h->n; k++)
		if (PyFloat_AsDouble(PyTuple_GetItem(bounds, k)) != h->bounds[k])
			return 0;
	return 1;
}

/* Return the bounds, borrowed from the maker. */
static PyObject *series_bounds_of(struct core_series_maker *m,
				  const struct percpu_histogram_snapshot *h)
{
	int same = m->bounds != NULL && m->schema == h->schema && m->low == h->low && m->n == h->n;

	if (same && h->bounds != NULL)
		same = series_has_bounds(m->bounds, h);
	if (same)
		return m->bounds;
	Py_XDECREF(m->bounds);
	m->bounds = core_histogram_bounds(h);
	m->schema = h->schema;
	m->low = h->low;
	m->n = h->n;
	return m->bounds;
}

/* The bounds, counts and sum of a histogram. */
static PyObject *series_histogram(struct core_series_maker *m, size_t i)
{
	struct percpu_histogram_snapshot *h;
	PyObject *bounds, *value = NULL;
	int e = percpu_reader_histogram(m->r, i, &h);

	if (e == -ENOMEM)
		return PyErr_NoMemory();
	if (e != 0)
		return Py_NewRef(Py_None);
	bounds = series_bounds_of(m, h);
	if (bounds != NULL)
		value = Py_BuildValue("(ONd)", bounds, core_histogram_counts(h), h->sum);
	percpu_histogram_snapshot_destroy(h);
	return value;
}

/* The counters of statistics, of at most PERCPU_STATS_MAX_COMMIT fields. */
static PyObject *series_stats(struct core_series_maker *m, size_t i, size_t n)
{
	uint64_t values[PERCPU_STATS_MAX_COMMIT];
	PyObject *tuple;

	if (n > PERCPU_STATS_MAX_COMMIT || percpu_reader_stats(m->r, i, values, n) != 0)
		return Py_NewRef(Py_None);
	tuple = PyTuple_New((Py_ssize_t)n);
	for (size_t k = 0; tuple != NULL && k < n; k++) {
		PyObject *number = PyLong_FromUnsignedLongLong(values[k]);

		if (number == NULL || PyTuple_SetItem(tuple, (Py_ssize_t)k, number) < 0) {
			Py_DECREF(tuple);
			return NULL;
		}
	}
	return tuple;
}

static PyObject *series_value(struct core_series_maker *m, size_t i,
			      const struct percpu_reader_series *raw)
{
	double number, most;

	switch (raw->kind) {
	case PERCPU_METRIC_HISTOGRAM:
		return series_histogram(m, i);
	case PERCPU_METRIC_STATS:
		return series_stats(m, i, raw->n);
	case PERCPU_METRIC_EXTREMA:
		if (percpu_reader_extrema(m->r, i, &number, &most) != 0)
			return Py_NewRef(Py_None);
		return Py_BuildValue("(dd)", number, most);
	default:
		if (percpu_reader_number(m->r, i, &number) != 0)
			return Py_NewRef(Py_None);
		return PyFloat_FromDouble(number);
	}
}

/* The texts that series of one name have in common. */
static int series_describe(struct core_series *s, const struct core_series *b,
			   const struct percpu_reader_series *was,
			   const struct percpu_reader_series *raw)
{
	size_t fields = raw->kind == PERCPU_METRIC_STATS ? raw->n : 0;
	size_t fields_were = b != NULL && was->kind == PERCPU_METRIC_STATS ? was->n : 0;

	s->name = series_text(b != NULL ? b->name : NULL, was->name, raw->name);
	s->help = series_text(b != NULL ? b->help : NULL, was->help, raw->help);
	s->unit = series_text(b != NULL ? b->unit : NULL, was->unit, raw->unit);
	s->field = series_text(b != NULL ? b->field : NULL, was->field, raw->field);
	s->fields = series_texts(b != NULL ? b->fields : NULL, was->fields, fields_were,
				 raw->fields, fields);
	s->label_names = series_texts(b != NULL ? b->label_names : NULL, was->label_names,
				      was->labels, raw->label_names, raw->labels);
	s->label_values = series_tuple(raw->label_values, raw->labels);
	if (b != NULL && was->kind == raw->kind)
		s->kind = Py_NewRef(b->kind);
	else
		s->kind = core_text(series_kinds[raw->kind < SERIES_KINDS ? raw->kind : 0]);
	return s->name != NULL && s->help != NULL && s->unit != NULL && s->kind != NULL &&
	       s->field != NULL && s->fields != NULL && s->label_names != NULL &&
	       s->label_values != NULL;
}

PyObject *core_series_make(struct core_series_maker *m, size_t i)
{
	struct core_series *s = (struct core_series *)PyType_GenericAlloc(m->state->series, 0);
	struct percpu_reader_series raw;

	if (s == NULL)
		return NULL;
	if (percpu_reader_series(m->r, i, &raw) != 0) {
		PyErr_SetString(PyExc_SystemError, "a picture has lost a series");
		goto failed;
	}
	if (!series_describe(s, m->before, &m->was, &raw))
		goto failed;
	s->value = series_value(m, i, &raw);
	if (s->value == NULL)
		goto failed;
	s->since = (double)raw.since / 1e9;
	s->picture = m->picture;
	s->index = i;
	s->overflows = raw.overflows;
	s->invalid = raw.invalid;
	s->flags = raw.flags;
	s->cap = raw.cap;
	m->was = raw;
	m->before = s;
	return (PyObject *)s;
failed:
	Py_DECREF(s);
	return NULL;
}

static void series_dealloc(PyObject *object)
{
	struct core_series *s = (struct core_series *)object;
	PyTypeObject *type = Py_TYPE(object);

	Py_XDECREF(s->name);
	Py_XDECREF(s->help);
	Py_XDECREF(s->unit);
	Py_XDECREF(s->kind);
	Py_XDECREF(s->label_names);
	Py_XDECREF(s->label_values);
	Py_XDECREF(s->field);
	Py_XDECREF(s->fields);
	Py_XDECREF(s->value);
	PyObject_Free(object);
	Py_DECREF(type);
}

static PyObject *series_repr(PyObject *object)
{
	struct core_series *s = (struct core_series *)object;

	return PyUnicode_FromFormat("<percpu.Series %R %U %R>", s->name, s->kind, s->label_values);
}

#define SERIES_MEMBER(member, type, doc)                                                           \
	{                                                                                          \
#member, type, offsetof(struct core_series, member), READONLY, doc                 \
	}

static PyMemberDef series_members[] = {
	SERIES_MEMBER(name, T_OBJECT_EX, "The name of the metric."),
	SERIES_MEMBER(help, T_OBJECT_EX, "Its help text, or \"\"."),
	SERIES_MEMBER(unit, T_OBJECT_EX, "Its unit, or \"\"."),
	SERIES_MEMBER(kind, T_OBJECT_EX, "What it is: \"counter\", \"histogram\", and so on."),
	SERIES_MEMBER(label_names, T_OBJECT_EX, "The names of its labels."),
	SERIES_MEMBER(label_values, T_OBJECT_EX, "The values of its labels."),
	SERIES_MEMBER(field, T_OBJECT_EX,
		      "Of statistics: the label whose values are the names of the fields."),
	SERIES_MEMBER(fields, T_OBJECT_EX, "Of statistics: the names of the fields."),
	SERIES_MEMBER(
		value, T_OBJECT_EX,
		"A float; of a histogram (bounds, counts, sum), of extrema (minimum, maximum),\n"
		"of statistics a tuple of integers. None: there is no value yet."),
	SERIES_MEMBER(since, T_DOUBLE, "When its counts began, in seconds since 1970."),
	SERIES_MEMBER(flags, T_UINT, "Flags of the kind, or the rule of an owned gauge."),
	SERIES_MEMBER(cap, T_UINT, "The cap of its family; 0: it has no family."),
	SERIES_MEMBER(overflows, T_ULONGLONG, "How often its family had no room for a series."),
	SERIES_MEMBER(invalid, T_ULONGLONG, "How often a value could not be a label's."),
	{ NULL, 0, 0, 0, NULL },
};

static PyType_Slot series_slots[] = {
	{ Py_tp_dealloc, (void *)series_dealloc },
	{ Py_tp_repr, (void *)series_repr },
	{ Py_tp_members, series_members },
	{ Py_tp_doc, "A series of a picture, with its value." },
	{ 0, NULL },
};

PyType_Spec core_series_spec = {
	.name = "percpu._core.Series",
	.basicsize = sizeof(struct core_series),
	.flags = CORE_TYPE_FLAGS,
	.slots = series_slots,
};

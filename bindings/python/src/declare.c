/* SPDX-License-Identifier: MIT */
/*
 * declare.c - the methods of percpu.Segment that declare counters, gauges, histograms and infos.
 */
#include "core.h"

static struct core_state *declare_state(PyObject *segment)
{
	return core_state_of(Py_TYPE(segment));
}

PyObject *core_declare_counter(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "help", "unit", "labels", "floats", NULL };
	struct core_state *state = declare_state(object);
	struct core_metric d = { .segment = NULL };
	union core_pointer of = { NULL };
	PyObject *labels = NULL;
	PyThreadState *thread;
	int floats = 0;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|s$sOp:counter", names, &d.m.name,
					 &d.m.help, &d.m.unit, &labels, &floats) ||
	    core_metric_begin(&d, object, labels) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = floats ? percpu_segment_fcounter(d.segment->s, &d.m, &of.fcounter) :
		     percpu_segment_counter(d.segment->s, &d.m, &of.counter);
	PyEval_RestoreThread(thread);
	return core_metric_object(&d, e, floats ? state->fcounter : state->counter, of);
}

int core_rule(const char *owned, unsigned *ret)
{
	static const char *const rules[] = {
		[PERCPU_OWNED_SUM] = "sum",
		[PERCPU_OWNED_MIN] = "min",
		[PERCPU_OWNED_MAX] = "max",
		[PERCPU_OWNED_RECENT] = "recent",
	};

	for (unsigned i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		if (strcmp(owned, rules[i]) == 0) {
			*ret = i;
			return 0;
		}
	}
	PyErr_Format(PyExc_ValueError, "owned is \"%s\", and not sum, min, max or recent", owned);
	return -1;
}

PyObject *core_declare_gauge(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "help", "unit", "labels", "owned", NULL };
	struct core_state *state = declare_state(object);
	struct core_metric d = { .segment = NULL };
	union core_pointer of = { NULL };
	const char *owned = NULL;
	PyObject *labels = NULL;
	PyThreadState *thread;
	unsigned rule = 0;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|s$sOz:gauge", names, &d.m.name, &d.m.help,
					 &d.m.unit, &labels, &owned) ||
	    (owned != NULL && core_rule(owned, &rule) < 0) ||
	    core_metric_begin(&d, object, labels) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = owned != NULL ? percpu_segment_owned_fgauge(d.segment->s, &d.m, rule, &of.owned) :
			    percpu_segment_fgauge(d.segment->s, &d.m, &of.gauge);
	PyEval_RestoreThread(thread);
	return core_metric_object(&d, e, owned != NULL ? state->owned_gauge : state->gauge, of);
}

PyObject *core_declare_histogram(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name",    "help", "unit", "labels",
				 "bounds",  "min",  "max",  "buckets_per_octave",
				 "summary", NULL };
	struct core_histogram_options o = { .own = NULL };
	struct core_metric d = { .segment = NULL };
	union core_pointer of = { NULL };
	PyObject *labels = NULL, *result = NULL;
	PyThreadState *thread;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|s$sOOddIp:histogram", names, &d.m.name,
					 &d.m.help, &d.m.unit, &labels, &o.bounds, &o.o.min,
					 &o.o.max, &o.o.buckets_per_octave, &o.summary))
		return NULL;
	if (core_histogram_options_set(&o) == 0 && core_metric_begin(&d, object, labels) == 0) {
		thread = PyEval_SaveThread();
		e = percpu_segment_histogram(d.segment->s, &d.m, &o.o, &of.histogram);
		PyEval_RestoreThread(thread);
		result = core_metric_object(&d, e, declare_state(object)->histogram, of);
	}
	PyMem_Free(o.own);
	return result;
}

PyObject *core_declare_info(PyObject *object, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", "labels", "help", NULL };
	struct core_metric d = { .segment = NULL };
	PyThreadState *thread;
	PyObject *labels;
	int e;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "sO|s:info", names, &d.m.name, &labels,
					 &d.m.help) ||
	    core_metric_begin(&d, object, labels) < 0)
		return NULL;
	thread = PyEval_SaveThread();
	e = percpu_segment_info(d.segment->s, &d.m);
	PyEval_RestoreThread(thread);
	if (e != 0)
		core_raise(declare_state(object), e);
	core_metric_end(&d);
	return e != 0 ? NULL : Py_NewRef(Py_None);
}

/* SPDX-License-Identifier: MIT */
/*
 * module.c - the extension module percpu._core.
 */
#include <stdbool.h>
#include <stdio.h>

#include "core.h"

struct core_state *core_state_of(PyTypeObject *type)
{
	return PyType_GetModuleState(type);
}

PyObject *core_text(const char *text)
{
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "surrogateescape");
}

static PyObject *raise_with(struct core_state *state, int e, const char *why)
{
	PyObject *value = Py_BuildValue("(iN)", -e, core_text(why));

	if (value != NULL) {
		PyErr_SetObject(state->error, value);
		Py_DECREF(value);
	}
	return NULL;
}

PyObject *core_raise(struct core_state *state, int e)
{
	const char *why = percpu_error();

	return raise_with(state, e, why[0] != 0 ? why : percpu_strerror(e));
}

PyObject *core_raise_plain(struct core_state *state, int e)
{
	return raise_with(state, e, percpu_strerror(e));
}

int core_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret)
{
	*ret = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *ret == NULL ? -1 : PyModule_AddType(module, *ret);
}

PyObject *core_tuple(PyTypeObject *type, PyObject *const *values, Py_ssize_t n)
{
	PyObject *tuple = PyStructSequence_New(type);
	int whole = tuple != NULL;

	for (Py_ssize_t i = 0; i < n; i++) {
		whole = whole && values[i] != NULL;
		if (tuple != NULL)
			PyStructSequence_SetItem(tuple, i, values[i]);
		else
			Py_XDECREF(values[i]);
	}
	if (whole)
		return tuple;
	Py_XDECREF(tuple);
	return NULL;
}

static int module_exec(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	state->error = PyErr_NewExceptionWithDoc(
		"percpu.Error", "A call failed: errno, and a sentence.", PyExc_OSError, NULL);
	if (state->error == NULL || PyModule_AddObjectRef(module, "Error", state->error) < 0)
		return -1;
	if (core_type_add(module, &core_segment_spec, &state->segment) < 0 ||
	    core_type_add(module, &core_counter_spec, &state->counter) < 0 ||
	    core_type_add(module, &core_fcounter_spec, &state->fcounter) < 0 ||
	    core_type_add(module, &core_gauge_spec, &state->gauge) < 0 ||
	    core_type_add(module, &core_owned_gauge_spec, &state->owned_gauge) < 0 ||
	    core_type_add(module, &core_histogram_spec, &state->histogram) < 0 ||
	    core_type_add(module, &core_snapshot_spec, &state->snapshot) < 0 ||
	    core_type_add(module, &core_stats_spec, &state->stats) < 0 ||
	    core_type_add(module, &core_family_spec, &state->family) < 0 ||
	    core_type_add(module, &core_reader_spec, &state->reader) < 0 ||
	    core_type_add(module, &core_series_spec, &state->series) < 0)
		return -1;
	if (core_reader_tuples_add(module, state) < 0)
		return -1;
	return core_dropin_add(module, state);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct core_state *state = PyModule_GetState(module);

	Py_VISIT(state->segment);
	Py_VISIT(state->counter);
	Py_VISIT(state->fcounter);
	Py_VISIT(state->gauge);
	Py_VISIT(state->owned_gauge);
	Py_VISIT(state->histogram);
	Py_VISIT(state->snapshot);
	Py_VISIT(state->stats);
	Py_VISIT(state->family);
	Py_VISIT(state->reader);
	Py_VISIT(state->series);
	Py_VISIT(state->reader_info);
	Py_VISIT(state->owned_value);
	Py_VISIT(state->exemplar);
	Py_VISIT(state->error);
	Py_VISIT(state->handle);
	Py_VISIT(state->value);
	Py_VISIT(state->complain);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	Py_CLEAR(state->segment);
	Py_CLEAR(state->counter);
	Py_CLEAR(state->fcounter);
	Py_CLEAR(state->gauge);
	Py_CLEAR(state->owned_gauge);
	Py_CLEAR(state->histogram);
	Py_CLEAR(state->snapshot);
	Py_CLEAR(state->stats);
	Py_CLEAR(state->family);
	Py_CLEAR(state->reader);
	Py_CLEAR(state->series);
	Py_CLEAR(state->reader_info);
	Py_CLEAR(state->owned_value);
	Py_CLEAR(state->exemplar);
	Py_CLEAR(state->error);
	Py_CLEAR(state->handle);
	Py_CLEAR(state->value);
	Py_CLEAR(state->complain);
	return 0;
}

static void module_free(void *module)
{
	(void)module_clear(module);
}

/* Py_mod_multiple_interpreters and its value, for which the limited API of 3.10 has no names. */
#define MULTIPLE_INTERPRETERS 3
#define LOCKS_OF_THEIR_OWN ((void *)2)

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, (void *)module_exec },
#ifdef Py_mod_gil
	{ Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
	{ 0, NULL }, /* from Python 3.12 on: that interpreters may have locks of their own */
	{ 0, NULL },
};

/* Return whether the Python that runs knows such interpreters. */
static bool knows_interpreters(void)
{
	int major, minor;

	return sscanf(Py_GetVersion(), "%d.%d", &major, &minor) == 2 &&
	       (major > 3 || (major == 3 && minor >= 12));
}

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT,
	.m_name = "percpu._core",
	.m_doc = "libpercpu for Python: see the module percpu.",
	.m_size = sizeof(struct core_state),
	.m_slots = module_slots,
	.m_traverse = module_traverse,
	.m_clear = module_clear,
	.m_free = module_free,
};

PyMODINIT_FUNC PyInit__core(void);

PyMODINIT_FUNC PyInit__core(void)
{
	const size_t last = sizeof(module_slots) / sizeof(module_slots[0]) - 2;

	if (knows_interpreters()) {
		module_slots[last].slot = MULTIPLE_INTERPRETERS;
		module_slots[last].value = LOCKS_OF_THEIR_OWN;
	}
	return PyModuleDef_Init(&module_def);
}

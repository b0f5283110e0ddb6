/* SPDX-License-Identifier: MIT */
/*
 * module.c - the extension module percpu._core.
 */
#include "core.h"

struct core_state *core_state_of(PyTypeObject *type)
{
	return PyType_GetModuleState(type);
}

PyObject *core_raise(struct core_state *state, int e)
{
	PyObject *value = Py_BuildValue("(is)", -e, percpu_error());

	if (value != NULL) {
		PyErr_SetObject(state->error, value);
		Py_DECREF(value);
	}
	return NULL;
}

int core_type_add(PyObject *module, PyType_Spec *spec, PyTypeObject **ret)
{
	*ret = (PyTypeObject *)PyType_FromModuleAndSpec(module, spec, NULL);
	return *ret == NULL ? -1 : PyModule_AddType(module, *ret);
}

static int module_exec(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	state->error = PyErr_NewExceptionWithDoc("percpu.Error", "A call failed: errno, and a sentence.",
						 PyExc_OSError, NULL);
	if (state->error == NULL || PyModule_AddObjectRef(module, "Error", state->error) < 0)
		return -1;
	return core_type_add(module, &core_segment_spec, &state->segment);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct core_state *state = PyModule_GetState(module);

	Py_VISIT(state->segment);
	Py_VISIT(state->error);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	Py_CLEAR(state->segment);
	Py_CLEAR(state->error);
	return 0;
}

static void module_free(void *module)
{
	(void)module_clear(module);
}

static PyModuleDef_Slot module_slots[] = {
	{ Py_mod_exec, (void *)module_exec },
#ifdef Py_mod_multiple_interpreters
	{ Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED },
#endif
#ifdef Py_mod_gil
	{ Py_mod_gil, Py_MOD_GIL_NOT_USED },
#endif
	{ 0, NULL },
};

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
	return PyModuleDef_Init(&module_def);
}

/* SPDX-License-Identifier: MIT */
/*
 * module.c - the extension module percpu._core.
 */
#include <pthread.h>

#include "value.h"

uint64_t core_forks;

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

static void count_fork(void)
{
	(void)__atomic_fetch_add(&core_forks, 1, __ATOMIC_RELAXED);
}

static pthread_once_t watching_forks = PTHREAD_ONCE_INIT;

static void watch_forks(void)
{
	(void)pthread_atfork(NULL, NULL, count_fork);
}

/* forks() -> int: how often this process and its ancestors were forked. */
static PyObject *module_forks(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyLong_FromUnsignedLongLong(__atomic_load_n(&core_forks, __ATOMIC_RELAXED));
}

/* lost() -> int: how often something could not be counted. */
static PyObject *module_lost(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyLong_FromUnsignedLongLong(__atomic_load_n(&core_lost, __ATOMIC_RELAXED));
}

/* on_loss(callable): call it when something could not be counted for the first time. */
static PyObject *module_on_loss(PyObject *module, PyObject *callable)
{
	struct core_state *state = PyModule_GetState(module);
	PyObject *former = state->complain;

	state->complain = Py_NewRef(callable);
	Py_XDECREF(former);
	Py_RETURN_NONE;
}

static PyMethodDef module_functions[] = {
	{ "forks", module_forks, METH_NOARGS, NULL },
	{ "lost", module_lost, METH_NOARGS, NULL },
	{ "on_loss", module_on_loss, METH_O, NULL },
	{ "install_methods", core_install_methods, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static const struct {
	const char *name;
	int value;
} constants[] = {
	{ "FCOUNTER", PERCPU_METRIC_FCOUNTER },
	{ "HISTOGRAM", PERCPU_METRIC_HISTOGRAM },
	{ "OWNED_FGAUGE", PERCPU_METRIC_OWNED_FGAUGE },
	{ "OWNED_SUM", PERCPU_OWNED_SUM },
	{ "OWNED_MIN", PERCPU_OWNED_MIN },
	{ "OWNED_MAX", PERCPU_OWNED_MAX },
	{ "OWNED_RECENT", PERCPU_OWNED_RECENT },
	{ "OWNED_KEEP", PERCPU_OWNED_KEEP },
	{ "OWNED_EACH", PERCPU_OWNED_EACH },
	{ "ROLE_COUNTER", CORE_COUNTER },
	{ "ROLE_GAUGE", CORE_GAUGE },
	{ "ROLE_RECENT", CORE_RECENT },
	{ "ROLE_HISTOGRAM_SUM", CORE_HISTOGRAM_SUM },
	{ "ROLE_HISTOGRAM_BUCKET", CORE_HISTOGRAM_BUCKET },
	{ "ROLE_SUMMARY_COUNT", CORE_SUMMARY_COUNT },
	{ "ROLE_SUMMARY_SUM", CORE_SUMMARY_SUM },
};

static int add_constants(PyObject *module)
{
	for (size_t i = 0; i < sizeof(constants) / sizeof(constants[0]); i++)
		if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
			return -1;
	return 0;
}

static int module_exec(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	state->error = PyErr_NewExceptionWithDoc("percpu.Error", "A call failed: errno, and a sentence.",
						 PyExc_OSError, NULL);
	if (state->error == NULL || PyModule_AddObjectRef(module, "Error", state->error) < 0)
		return -1;
	(void)pthread_once(&watching_forks, watch_forks);
	if (core_type_add(module, &core_segment_spec, &state->segment) < 0 ||
	    core_type_add(module, &core_handle_spec, &state->handle) < 0 ||
	    core_type_add(module, &core_value_spec, &state->value) < 0)
		return -1;
	return add_constants(module);
}

static int module_traverse(PyObject *module, visitproc visit, void *arg)
{
	struct core_state *state = PyModule_GetState(module);

	Py_VISIT(state->segment);
	Py_VISIT(state->handle);
	Py_VISIT(state->value);
	Py_VISIT(state->complain);
	Py_VISIT(state->error);
	return 0;
}

static int module_clear(PyObject *module)
{
	struct core_state *state = PyModule_GetState(module);

	Py_CLEAR(state->segment);
	Py_CLEAR(state->handle);
	Py_CLEAR(state->value);
	Py_CLEAR(state->complain);
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
	.m_methods = module_functions,
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

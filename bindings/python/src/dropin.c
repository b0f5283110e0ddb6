/* SPDX-License-Identifier: MIT */
/*
 * dropin.c - what the module percpu._core has for percpu_prometheus alone.
 */
#include <pthread.h>

#include "value.h"

uint64_t core_forks;

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
static PyObject *dropin_forks(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyLong_FromUnsignedLongLong(__atomic_load_n(&core_forks, __ATOMIC_RELAXED));
}

/* lost() -> int: how often something could not be counted. */
static PyObject *dropin_lost(PyObject *module, PyObject *unused)
{
	(void)module;
	(void)unused;
	return PyLong_FromUnsignedLongLong(__atomic_load_n(&core_lost, __ATOMIC_RELAXED));
}

/* on_loss(callable): call it when something could not be counted for the first time. */
static PyObject *dropin_on_loss(PyObject *module, PyObject *callable)
{
	struct core_state *state = PyModule_GetState(module);
	PyObject *former = state->complain;

	state->complain = Py_NewRef(callable);
	Py_XDECREF(former);
	Py_RETURN_NONE;
}

static PyMethodDef dropin_functions[] = {
	{ "forks", dropin_forks, METH_NOARGS, NULL },
	{ "lost", dropin_lost, METH_NOARGS, NULL },
	{ "on_loss", dropin_on_loss, METH_O, NULL },
	{ "install_methods", core_install_methods, METH_VARARGS, NULL },
	{ NULL, NULL, 0, NULL },
};

static const struct {
	const char *name;
	int value;
} dropin_constants[] = {
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
	for (size_t i = 0; i < sizeof(dropin_constants) / sizeof(dropin_constants[0]); i++)
		if (PyModule_AddIntConstant(module, dropin_constants[i].name,
					    dropin_constants[i].value) < 0)
			return -1;
	return 0;
}

int core_dropin_add(PyObject *module, struct core_state *state)
{
	(void)pthread_once(&watching_forks, watch_forks);
	if (core_type_add(module, &core_handle_spec, &state->handle) < 0 ||
	    core_type_add(module, &core_value_spec, &state->value) < 0 ||
	    PyModule_AddFunctions(module, dropin_functions) < 0)
		return -1;
	return add_constants(module);
}

/* SPDX-License-Identifier: MIT */
/*
 * value.h - one series of a segment, with the handle by which this process counts in it; and values,
 * which are what prometheus_client has in place of series.
 */
#ifndef PERCPU_PYTHON_VALUE_H
#define PERCPU_PYTHON_VALUE_H

#include "core.h"

/** A metric without labels, or one series of a family. */
struct core_handle {
	PyObject_HEAD
	struct core_segment *segment;
	struct percpu_family *family; /* NULL: a metric without labels */
	PyObject *name;		      /* bytes */
	PyObject *values;	      /* of labels: a tuple of bytes */
	enum percpu_metric_kind kind;
	void *object;	    /* atomic */
	uint64_t removals;  /* atomic: percpu_family_removals() before the handle was found */
	PyObject *overflow; /* a sentence: the values got the overflow at first; or NULL */
	struct percpu_exemplars *exemplars; /* atomic; NULL: none so far */
};

/** Find the series of a family again. Returns its handle, or the former one if that fails. */
void *core_handle_find(struct core_handle *s);

/** Return the handle. A series that a process has removed begins anew. */
static inline void *core_handle_get(struct core_handle *s)
{
	if (s->family != NULL &&
	    percpu_family_removals(s->family) != __atomic_load_n(&s->removals, __ATOMIC_ACQUIRE))
		return core_handle_find(s);
	return __atomic_load_n(&s->object, __ATOMIC_RELAXED);
}

/** What a value of prometheus_client is in a segment. */
enum core_role {
	CORE_PRIVATE, /* a number of this process alone: there is no segment */
	CORE_COUNTER,
	CORE_GAUGE,
	CORE_RECENT, /* a gauge of which the value that was set last counts */
	CORE_HISTOGRAM_SUM,
	CORE_HISTOGRAM_BUCKET,
	CORE_SUMMARY_COUNT,
	CORE_SUMMARY_SUM,
	CORE_ROLES,
};

/** A value of prometheus_client. Python's class has this type as its base. */
struct core_value {
	PyObject_HEAD
	enum core_role role;
	Py_ssize_t cell;	    /* of a bucket; -1: no observation is ever in it */
	struct core_handle *handle; /* atomic; NULL: private */
	PyObject *
		binder; /* called with this value, it returns the handle of this process, and keeps it */
	int always;	 /* call it for each use: the process may have another identity */
	uint64_t forks;	 /* core_forks when the series was bound */
	uint64_t number; /* atomic: the bits of a private number */
};

/** How often this process and its ancestors were forked since the module was loaded. */
extern uint64_t core_forks;

/** Convert what was passed as an amount, as adding it to a float would. Returns 0, or -1 with an
 *  exception. */
int core_amount(PyObject *amount, double *ret);

/** Add to a counter, a gauge or a private number. Returns 0, or -1 with an exception, which only the
 *  process identifier raises. */
int core_value_add(struct core_value *v, double amount);

/** Set a gauge. Returns as core_value_add(). */
int core_value_set(struct core_value *v, double value);

/** Record an observation, given the sum of a histogram or summary. */
void core_value_record(struct core_value *sum, double amount);

/** Add to the sum of a histogram. A bucket gets the amount next. */
void core_value_add_to_sum(struct core_value *v, double amount);

/** Record in a bucket what was added to the sum before, or else its bound. */
void core_value_add_to_bucket(struct core_value *v, double times);

/** Count what could not be counted. The first time, the module says why. */
void core_lose(const struct core_handle *h, int e);

/** How often something could not be counted. */
extern uint64_t core_lost;

extern PyType_Spec core_handle_spec, core_value_spec;

/** Functions of the module. */
PyObject *core_install_methods(PyObject *module, PyObject *args);

#endif

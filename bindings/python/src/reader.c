/* SPDX-License-Identifier: MIT */
/*
 * reader.c - percpu.Reader: opening, pictures and closing.
 *
 * One thread at a time uses the reader. The word `holder` has the id of that thread. Another thread
 * waits. A child of fork() finds the id of a thread of its parent there, if that was reading meanwhile:
 * the child's copy may then be half of two pictures, and no call uses it again.
 */
#include "core.h"
#include "core_reader.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* How many pictures this process has taken: a number for each. */
static uint64_t reader_pictures;

/* Whether the thread is one of this process. */
static int reader_lives(int thread)
{
	return syscall(SYS_tgkill, getpid(), thread, 0) == 0;
}

int core_reader_enter(struct core_reader *self)
{
	const struct timespec moment = { .tv_nsec = 1000000 };
	int me = (int)syscall(SYS_gettid);
	int holder = 0;
	PyThreadState *thread;

	while (!__atomic_compare_exchange_n(&self->holder, &holder, me, 0, __ATOMIC_ACQUIRE,
					    __ATOMIC_RELAXED)) {
		if (holder == me) {
			PyErr_SetString(PyExc_RuntimeError, "this thread is using the reader");
			return -1;
		}
		if (!reader_lives(holder) &&
		    __atomic_load_n(&self->holder, __ATOMIC_RELAXED) == holder) {
			PyErr_SetString(PyExc_RuntimeError,
					"the parent process was reading when it forked");
			return -1;
		}
		holder = 0;
		thread = PyEval_SaveThread();
		(void)nanosleep(&moment, NULL);
		PyEval_RestoreThread(thread);
		if (PyErr_CheckSignals() < 0)
			return -1;
	}
	if (self->r != NULL)
		return 0;
	core_reader_leave(self);
	PyErr_SetString(PyExc_ValueError, "the reader is closed");
	return -1;
}

void core_reader_leave(struct core_reader *self)
{
	__atomic_store_n(&self->holder, 0, __ATOMIC_RELEASE);
}

/* Open what the argument names: a number is a descriptor. Returns 0, or -1 with an exception. */
static int reader_open(PyTypeObject *type, PyObject *of, struct percpu_reader **ret)
{
	PyObject *name = NULL;
	PyThreadState *thread;
	long fd = -1;
	int e;

	if (PyLong_Check(of)) {
		fd = PyLong_AsLong(of);
		if (fd == -1 && PyErr_Occurred() != NULL)
			return -1;
		if (fd != (int)fd)
			fd = -1;
	} else if (!PyUnicode_FSConverter(of, &name)) {
		return -1;
	}
	thread = PyEval_SaveThread();
	e = name != NULL ? percpu_reader_open(PyBytes_AsString(name), ret) :
			   percpu_reader_open_fd((int)fd, ret);
	PyEval_RestoreThread(thread);
	Py_XDECREF(name);
	if (e == 0)
		return 0;
	core_raise(core_state_of(type), e);
	return -1;
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
	static char *names[] = { "name", NULL };
	struct percpu_reader *r;
	struct core_reader *self;
	PyObject *of;

	if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:Reader", names, &of) ||
	    reader_open(type, of, &r) < 0)
		return NULL;
	self = (struct core_reader *)PyType_GenericAlloc(type, 0);
	if (self == NULL)
		percpu_reader_close(r);
	else
		self->r = r;
	return (PyObject *)self;
}

static void reader_dealloc(PyObject *object)
{
	struct core_reader *self = (struct core_reader *)object;
	PyTypeObject *type = Py_TYPE(object);

	/* If a thread of the parent process was reading, what it has allocated stays. */
	if (self->holder == 0)
		percpu_reader_close(self->r);
	PyObject_Free(object);
	Py_DECREF(type);
}

/* The series of the picture that was just taken. */
static PyObject *reader_list(struct core_reader *self)
{
	struct core_series_maker m = { .state = core_state_of(Py_TYPE((PyObject *)self)),
				       .r = self->r,
				       .picture = self->picture };
	size_t n = percpu_reader_count(self->r);
	PyObject *list = PyList_New((Py_ssize_t)n);

	for (size_t i = 0; list != NULL && i < n; i++) {
		PyObject *series = core_series_make(&m, i);

		if (series == NULL || PyList_SetItem(list, (Py_ssize_t)i, series) < 0)
			Py_CLEAR(list);
	}
	Py_XDECREF(m.bounds);
	return list;
}

static PyObject *reader_read(PyObject *object, PyObject *unused)
{
	struct core_reader *self = (struct core_reader *)object;
	PyThreadState *thread;
	PyObject *list;
	int e;

	(void)unused;
	if (core_reader_enter(self) < 0)
		return NULL;
	self->picture = __atomic_add_fetch(&reader_pictures, 1, __ATOMIC_RELAXED);
	thread = PyEval_SaveThread();
	e = percpu_reader_read(self->r);
	PyEval_RestoreThread(thread);
	if (e != 0)
		list = core_raise(core_state_of(Py_TYPE(object)), e);
	else
		list = reader_list(self);
	core_reader_leave(self);
	return list;
}

static PyObject *reader_close(PyObject *object, PyObject *unused)
{
	struct core_reader *self = (struct core_reader *)object;

	(void)unused;
	if (core_reader_enter(self) < 0) {
		if (PyErr_ExceptionMatches(PyExc_ValueError) == 0)
			return NULL;
		PyErr_Clear(); /* closed before */
		Py_RETURN_NONE;
	}
	percpu_reader_close(self->r);
	self->r = NULL;
	core_reader_leave(self);
	Py_RETURN_NONE;
}

static PyObject *reader_enter(PyObject *object, PyObject *unused)
{
	(void)unused;
	if (core_reader_enter((struct core_reader *)object) < 0)
		return NULL;
	core_reader_leave((struct core_reader *)object);
	return Py_NewRef(object);
}

static PyObject *reader_exit(PyObject *object, PyObject *args)
{
	(void)args;
	return reader_close(object, NULL);
}

static PyMethodDef reader_methods[] = {
	{ "read", reader_read, METH_NOARGS,
	  "read($self, /)\n--\n\n"
	  "Take a picture of the segment, and return its series in the order of names." },
	{ "info", core_reader_info, METH_NOARGS,
	  "info($self, /)\n--\n\nReturn facts about the segment and the picture." },
	{ "owners", core_reader_owners, METH_O,
	  "owners($self, series, /)\n--\n\n"
	  "Return the value of each owner of an owned gauge." },
	{ "shown", core_reader_shown, METH_O,
	  "shown($self, series, /)\n--\n\n"
	  "Return what formats show of an owned gauge that has a sample for each owner." },
	{ "exemplars", core_reader_exemplars, METH_O,
	  "exemplars($self, series, /)\n--\n\n"
	  "Return the exemplars of a counter or a histogram, in the order of slots." },
	{ "close", reader_close, METH_NOARGS,
	  "close($self, /)\n--\n\nFree the picture, and close the file." },
	{ "__enter__", reader_enter, METH_NOARGS, "__enter__($self, /)\n--\n\nReturn the reader." },
	{ "__exit__", reader_exit, METH_VARARGS,
	  "__exit__($self, /, *args)\n--\n\nClose the reader." },
	{ NULL, NULL, 0, NULL },
};

static PyType_Slot reader_slots[] = {
	{ Py_tp_new, (void *)reader_new },
	{ Py_tp_dealloc, (void *)reader_dealloc },
	{ Py_tp_methods, reader_methods },
	{ Py_tp_doc,
	  "Reader(name)\n--\n\n"
	  "Read the metrics of a segment: of that name, of that path, or of an open file's\n"
	  "descriptor. Reading disturbs no process that counts." },
	{ 0, NULL },
};

PyType_Spec core_reader_spec = {
	.name = "percpu._core.Reader",
	.basicsize = sizeof(struct core_reader),
	.flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
	.slots = reader_slots,
};

/* SPDX-License-Identifier: MIT */
/*
 * error.h - why a call failed.
 *
 * A call that fails returns -errno. percpu_strerror() says in general what such a number means.
 */
#ifndef PERCPU_ERROR_H
#define PERCPU_ERROR_H

#include <percpu/base.h>

PERCPU_BEGIN_DECLS

/**
 * Return what an error of this library means, as part of a sentence: e is 0, for which the text is
 * "", or -errno. An error number without its sign has the same text. For an error that no header of
 * this library names, return libc's text; for a number that is no error, return libc's text or
 * "unknown error".
 *
 * The text is constant. Libc's is in the language of the locale.
 *
 * Context: any thread; not a signal handler.
 * Ordering: none.
 * Progress: takes no lock of this library.
 */
PERCPU_API const char *percpu_strerror(int e);

PERCPU_END_DECLS

#endif

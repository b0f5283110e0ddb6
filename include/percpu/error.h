/* SPDX-License-Identifier: MIT */
/*
 * error.h - why a call failed.
 *
 * A call that fails returns -errno. percpu_strerror() says in general what such a number means.
 * percpu_error() says what was wrong with one call on a segment, a family or a reader.
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

/**
 * Return a sentence about the last call of this thread that failed and that says why: what was
 * wrong, and what there is, or what to do. These calls say why:
 *
 *	all calls of segment.h and family.h that return an error, opening included
 *	percpu_reader_open(), percpu_reader_open_fd(), percpu_reader_read(),
 *	percpu_reader_set_consistent(), percpu_reader_set_timeout(), percpu_reader_cpus()
 *
 * Some calls that return 0 write a sentence, too: a percpu_reader_read() in whose picture values are
 * missing, which it names the first one of; the opening of a segment that is private instead
 * (PERCPU_SEGMENT_FALLBACK); and a look-up that got the overflow of its family. Every other call
 * leaves the sentence as it is, also one that succeeds, and closing. So use it only after an error,
 * or in these three cases.
 *
 * There is one sentence for a thread, whichever segment or reader it is about. The thread's next
 * call that says why overwrites it. So does a call in a child of vfork(), which uses the thread of
 * its parent. The pointer is valid until the thread ends. The thread's end begins with its
 * destructors (pthread_key_create()): they must not use a pointer from before, and may find "".
 *
 * Return "" if there is no sentence: no such call has failed; or the thread can have none, because
 * there is no memory for it, or the process has no thread-specific key left (pthread_key_create()).
 *
 * Context: any thread; not a signal handler. In a child of fork(), the thread that forked keeps its
 * sentence, and pointers to it stay valid. The library drops those of other threads.
 * Ordering: none.
 * Progress: takes no lock.
 */
PERCPU_API const char *percpu_error(void);

PERCPU_END_DECLS

#endif

/* SPDX-License-Identifier: MIT */
/*
 * thread_id.h - what gettid(2) tells a thread. Programs that link it wrap syscall(2).
 */
#ifndef TESTS_UNIT_THREAD_ID_H
#define TESTS_UNIT_THREAD_ID_H

/** What the calling thread is told: an id, as that of one that has ended; or an error, -errno, as by
 *  a filter; 0: its own id. */
extern __thread long thread_id;

#endif

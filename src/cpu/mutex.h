/* SPDX-License-Identifier: MIT */
/*
 * mutex.h - the mutexes of the process, all of which a fork takes (fork.c).
 */
#ifndef PERCPU_CPU_MUTEX_H
#define PERCPU_CPU_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

/** As pthread.h has them, but the thread that forks passes all of them, from when it has taken
 *  them until it releases the first: handlers of the program may run then. */
void percpu_mutex_init(pthread_mutex_t *m);
void percpu_mutex_destroy(pthread_mutex_t *m);
void percpu_mutex_lock(pthread_mutex_t *m);
bool percpu_mutex_trylock(pthread_mutex_t *m);
void percpu_mutex_unlock(pthread_mutex_t *m);

/** Whether the calling thread passes them. Then it must not wait for another thread. */
bool percpu_is_forking(void);

#endif

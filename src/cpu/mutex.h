/* SPDX-License-Identifier: MIT */
/*
 * mutex.h - the mutexes of the process, all of which a fork takes (fork.c).
 */
#ifndef PERCPU_CPU_MUTEX_H
#define PERCPU_CPU_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

/* The calls of pthread.h, with one difference. While the thread that forks holds all mutexes,
 * handlers of the program may run in it. Until it releases the first mutex, these calls
 * let it pass. */
void percpu_mutex_init(pthread_mutex_t *m);
void percpu_mutex_destroy(pthread_mutex_t *m);
void percpu_mutex_lock(pthread_mutex_t *m);
bool percpu_mutex_trylock(pthread_mutex_t *m);
void percpu_mutex_unlock(pthread_mutex_t *m);

/** Return whether these calls let the calling thread pass. Then it must not wait for another
 *  thread. */
bool percpu_is_forking(void);

#endif

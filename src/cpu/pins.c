/* SPDX-License-Identifier: MIT */
/*
 * pins.c - keep an object of a list from being destroyed while a thread uses it without the lock of
 * the list, the process lock.
 */
#include "cpu.h"

bool percpu_pins_add(struct percpu_pins *p)
{
	if (p->closed)
		return false;
	p->threads++;
	return true;
}

void percpu_pins_remove(struct percpu_pins *p)
{
	if (--p->threads == 0 && p->closed)
		percpu_futex_wake(&p->threads);
}

void percpu_pins_close(struct percpu_pins *p)
{
	uint32_t threads;

	percpu_process_lock();
	p->closed = true;
	while ((threads = p->threads) != 0 && !percpu_is_forking()) {
		percpu_process_unlock();
		percpu_futex_wait(&p->threads, threads, 0);
		percpu_process_lock();
	}
	percpu_process_unlock();
}

void percpu_pins_open(struct percpu_pins *p)
{
	percpu_process_lock();
	p->closed = false;
	percpu_process_unlock();
}

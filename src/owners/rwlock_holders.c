/* SPDX-License-Identifier: MIT */
/*
 * rwlock_holders.c - list the processes that hold a read-mostly lock.
 */
#include "rwlock.h"

/* The holders found so far. */
struct holders {
	const struct percpu_rwlock_handle *h;
	struct percpu_rwlock_holder *out;
	size_t n;
	size_t found;
	uint64_t writer;
	bool found_writer;
};

/* Add a process that lives, and reads (n above 0) or is the writer. */
static void add_holder(uint64_t id, uint32_t n, void *arg)
{
	struct holders *b = arg;
	const bool writes = id == b->writer;
	struct percpu_participant_seen seen;

	if (((int32_t)n <= 0 && !writes) || !percpu_participants_alive(&b->h->p, id))
		return;
	b->found_writer |= writes;
	if (b->found++ >= b->n)
		return;
	percpu_participants_identify(&b->h->p, id, &seen);
	b->out[b->found - 1] = (struct percpu_rwlock_holder){
		.id = seen.id,
		.reading = (int32_t)n > 0 ? n : 0,
		.pid = seen.pid,
		.stopped = seen.stopped,
		.writing = writes,
	};
}

size_t percpu_rwlock_holders(struct percpu_rwlock *l, struct percpu_rwlock_holder *out, size_t n)
{
	struct holders b = { .h = percpu_rwlock_handle(l), .out = out, .n = n };
	int cancel;

	if (l == NULL || (out == NULL && n != 0))
		return 0;
	cancel = percpu_defer_cancel();
	b.writer = __atomic_load_n(&percpu_rwlock_control(b.h)->writer, __ATOMIC_ACQUIRE);
	if (b.h->p.owners == NULL) /* a writer that is only in the parent is none */
		b.writer = percpu_rwlock_is_writer_alive(b.h, b.writer) ?
				   b.writer % PERCPU_RWLOCK_FORK :
				   0;
	percpu_participants_each(&b.h->p, PERCPU_RWLOCK_INSIDE, add_holder, &b);
	if (b.writer != 0 && !b.found_writer)
		add_holder(b.writer, 0, &b);
	percpu_restore_cancel(cancel);
	return b.found;
}

/* SPDX-License-Identifier: MIT */
/*
 * rwlock.c - the soak test's operations on read-mostly locks, a private one of each process and a
 * shared one. Each lock protects two words that are equal, unless a process died while writing. A
 * thread that gets -EOWNERDEAD makes them equal again. The words count the writes that were done.
 */
#include <errno.h>

#include <percpu/rwlock.h>

#include "../support.h"
#include "soak.h"

#define WAIT_NS UINT64_C(500000000)
#define TRIES 60 /* when every process that a lock could wait for has ended */

/* A lock, by a handle of this process, and the words that it protects. */
struct locked {
	struct percpu_rwlock *lock;
	struct soak_words *words;
	bool used; /* atomic: signal handlers may use it now */
};

static struct soak_words words;
static struct locked private = { .words = &words };
static struct locked shared;

/* Create the private lock, in a process that was just forked. The process has locked no lock
 * yet, so its handlers must not lock. */
void soak_rwlock_create(void)
{
	words = (struct soak_words){ .first = 0 };
	__atomic_store_n(&private.used, false, __ATOMIC_RELAXED);
	__atomic_store_n(&shared.used, false, __ATOMIC_RELAXED);
	soak_require_equal("create a lock", 0, (uint64_t)percpu_rwlock_create(0, &private.lock));
}

void soak_rwlock_destroy(void)
{
	soak_require_equal("destroy a lock", 0, (uint64_t)percpu_rwlock_destroy(private.lock));
}

/* In a child of fork: threads that the child does not have may hold the private lock for good. */
void soak_rwlock_forked(void)
{
	soak_rwlock_create();
}

uint64_t soak_rwlock_found(void)
{
	return words.second;
}

void soak_shared_rwlock_create(void)
{
	soak_require_equal("create a lock in the region", 0,
			   (uint64_t)percpu_rwlock_create_in(soak_owners(), 0, &shared.lock));
	soak_board->rwlock_key = percpu_rwlock_key(shared.lock);
	shared.words = &soak_board->words;
}

void soak_shared_rwlock_open(void)
{
	soak_require_equal("attach to a lock", 0,
			   (uint64_t)percpu_rwlock_attach(soak_owners(), soak_board->rwlock_key, 0,
							  &shared.lock));
	shared.words = &soak_board->words;
}

void soak_shared_rwlock_close(void)
{
	soak_require_equal("detach a lock", 0, (uint64_t)percpu_rwlock_detach(shared.lock));
}

/* Make the words equal again. The caller has the lock alone. */
static void make_whole(struct locked *l)
{
	struct soak_words *w = l->words;

	if (!(percpu_rwlock_died(l->lock) & PERCPU_RWLOCK_WRITER_DIED))
		return;
	soak_require(w->first - w->second <= 1, "what a writer leaves that died", w->second,
		     w->first);
	w->second = w->first;
	soak_require_equal("say that it is whole", 0, (uint64_t)percpu_rwlock_consistent(l->lock));
}

/* Return whether the lock is held now. */
static bool is_locked(struct locked *l, int e)
{
	if (!soak_did("lock", e, -EOWNERDEAD) && e != -EOWNERDEAD)
		return false;
	__atomic_store_n(&l->used, true, __ATOMIC_RELAXED);
	if (e == -EOWNERDEAD)
		make_whole(l);
	return true;
}

static void look_at_words(const struct soak_words *w, unsigned us)
{
	soak_require_equal("words that a lock protects", w->first, w->second);
	if (us == 0)
		return;
	test_sleep_us(us);
	soak_require_equal("words that a lock protects, later", w->first, w->second);
}

static void read_words(struct soak_thread *t, struct locked *l, uint64_t r)
{
	for (unsigned n = 1 + (unsigned)(r % 50); n > 0; n--) {
		if (!is_locked(l, percpu_rwlock_read_timedlock(l->lock, WAIT_NS)))
			return;
		look_at_words(l->words, n == 1 && r / 64 % 32 == 0 ? r / 2048 % 256 : 0);
		soak_require_equal("unlock what was read", 0,
				   (uint64_t)percpu_rwlock_read_unlock(l->lock));
		t->slot->journal[0].count[SOAK_READ_LOCK]++;
	}
}

static bool write_words(struct locked *l, uint64_t r)
{
	struct soak_words *w = l->words;

	if (!is_locked(l, percpu_rwlock_write_timedlock(l->lock, WAIT_NS)))
		return false;
	look_at_words(w, 0);
	w->first++;
	if (r % 4 == 0)
		test_sleep_us(r / 4 % 256);
	w->second++;
	soak_require_equal("unlock what was written", 0,
			   (uint64_t)percpu_rwlock_write_unlock(l->lock));
	return true;
}

/* Write under the shared lock. A killed thread may have written, or not. */
static void write_shared(struct soak_thread *t, uint64_t r)
{
	struct soak_journal *j = &t->slot->journal[0];

	__atomic_store_n(&j->writing, true, __ATOMIC_RELEASE);
	if (write_words(&shared, r)) {
		__atomic_store_n(&j->written, j->written + 1, __ATOMIC_RELAXED);
		j->count[SOAK_WRITE_LOCK]++;
	}
	__atomic_store_n(&j->writing, false, __ATOMIC_RELEASE);
}

void soak_rwlock_op(struct soak_thread *t)
{
	const uint64_t r = test_random(&t->random) >> 9;

	if (r % 16 != 0) {
		read_words(t, &private, r / 16);
	} else if (write_words(&private, r / 16)) {
		t->sum[0][SOAK_OF_RWLOCK]++;
		t->slot->journal[0].count[SOAK_WRITE_LOCK]++;
	}
}

void soak_shared_rwlock_op(struct soak_thread *t)
{
	const uint64_t r = test_random(&t->random) >> 9;

	if (r % 32 != 0)
		read_words(t, &shared, r / 32);
	else
		write_shared(t, r / 32);
}

/* Try to read, in a handler that may have interrupted a holder, even a writer. */
static void try_to_read(struct locked *l)
{
	int e;

	if (!__atomic_load_n(&l->used, __ATOMIC_RELAXED))
		return;
	e = percpu_rwlock_read_trylock(l->lock);
	soak_require(e == 0 || e == -EBUSY, "try to read", 0, (uint64_t)e);
	if (e != 0)
		return;
	look_at_words(l->words, 0);
	soak_require_equal("unlock what was read", 0, (uint64_t)percpu_rwlock_read_unlock(l->lock));
}

void soak_rwlock_signal(void)
{
	try_to_read(&private);
	try_to_read(&shared);
}

void soak_rwlock_check(uint32_t n, soak_journal_fn *journal)
{
	uint64_t written = 0, doubts = 0;
	unsigned tries = 0;

	while (!is_locked(&shared, percpu_rwlock_write_timedlock(shared.lock, WAIT_NS)))
		soak_require(++tries < TRIES, "lock what only the dead held", 0, ETIMEDOUT);
	for (uint32_t i = 0; i < n; i++) {
		written += journal(i)->written;
		doubts += journal(i)->writing;
	}
	look_at_words(shared.words, 0);
	soak_require(shared.words->first - written <= doubts, "writes under the shared lock",
		     written, shared.words->first);
	soak_require_equal("unlock what was written", 0,
			   (uint64_t)percpu_rwlock_write_unlock(shared.lock));
}

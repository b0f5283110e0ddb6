/* SPDX-License-Identifier: MIT */
/*
 * grace_blockers.c - list the processes for which grace periods wait.
 */
#include "grace.h"

/* The blockers found so far. */
struct blockers {
	const struct percpu_grace_handle *h;
	struct percpu_grace_blocker *out;
	size_t n;
	size_t found;
	unsigned bank;
	unsigned awaited;			/* the bank that a period waits for; or none */
	uint64_t slots[PERCPU_OWNERS_MAX / 64]; /* a bit for each slot whose owner was found */
};

/* Return the row of that process; or NULL if it is dead, or there is no room for it. */
static struct percpu_grace_blocker *find_blocker(struct blockers *b, uint64_t id)
{
	const uint64_t known = percpu_grace_is_shared(b->h) ? id : 0;
	const size_t slot = id % PERCPU_OWNERS_MAX;
	struct percpu_participant_seen seen;

	for (size_t i = 0; i < b->found && i < b->n; i++)
		if (b->out[i].id == known)
			return &b->out[i];
	if ((b->slots[slot / 64] >> slot % 64 & 1) || !percpu_participants_alive(&b->h->part, id))
		return NULL;
	b->slots[slot / 64] |= UINT64_C(1) << slot % 64;
	if (b->found++ >= b->n)
		return NULL;
	percpu_participants_identify(&b->h->part, id, &seen);
	b->out[b->found - 1] = (struct percpu_grace_blocker){ .id = seen.id,
							      .pid = seen.pid,
							      .stopped = seen.stopped };
	return &b->out[b->found - 1];
}

static void add_blocker(uint64_t id, uint32_t n, void *arg)
{
	struct blockers *b = arg;
	struct percpu_grace_blocker *at = (int32_t)n > 0 ? find_blocker(b, id) : NULL;

	if (at == NULL)
		return;
	at->sections += n;
	at->awaited += b->bank == b->awaited ? n : 0;
}

size_t percpu_grace_blockers(struct percpu_grace *g, struct percpu_grace_blocker *out, size_t n)
{
	struct blockers b = { .h = percpu_grace_handle(g), .out = out, .n = n };
	uint64_t state;
	int cancel;

	if (g == NULL || (out == NULL && n != 0))
		return 0;
	cancel = percpu_defer_cancel();
	state = percpu_grace_load(b.h);
	b.awaited = state % 2 == 0 ? !percpu_grace_bank(state) : PERCPU_BANKS;
	for (b.bank = 0; b.bank < PERCPU_BANKS; b.bank++)
		percpu_participants_each(&b.h->part, b.bank, add_blocker, &b);
	percpu_restore_cancel(cancel);
	return b.found;
}

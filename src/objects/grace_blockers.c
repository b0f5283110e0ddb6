/* SPDX-License-Identifier: MIT */
/*
 * grace_blockers.c - which processes grace periods wait for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "grace.h"

/* Those that were found so far. */
struct blockers {
	const struct percpu_grace_handle *h;
	struct percpu_grace_blocker *out;
	size_t n;
	size_t found;
	unsigned bank;
	unsigned awaited;			/* the bank that a period waits for; or none */
	uint64_t slots[PERCPU_OWNERS_MAX / 64]; /* of owners that were found, a bit for each */
};

/* Whether the process is stopped by a signal or a debugger, as /proc says. */
static bool process_is_stopped(uint32_t pid)
{
	char path[32], text[512], *end;
	ssize_t n;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	end = strrchr(text, ')'); /* its name may hold anything */
	return end != NULL && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}

/* Fill in who that is. Numbers of processes are known in their own PID namespace alone. */
static void describe_blocker(const struct blockers *b, uint64_t id,
			     struct percpu_grace_blocker *ret)
{
	struct percpu_owner_seen seen;

	ret->pid = (uint32_t)getpid();
	if (!percpu_grace_is_shared(b->h))
		return;
	ret->id = id;
	if (!percpu_owner_look(b->h->part.owners, id % PERCPU_OWNERS_MAX, &seen))
		return;
	ret->pid = seen.pid;
	ret->stopped = seen.space == percpu_owner_me().space && process_is_stopped(seen.pid);
}

/* Return where to note that process; NULL if it is dead, or there is no room. */
static struct percpu_grace_blocker *find_blocker(struct blockers *b, uint64_t id)
{
	const uint64_t known = percpu_grace_is_shared(b->h) ? id : 0;
	const size_t slot = id % PERCPU_OWNERS_MAX;

	for (size_t i = 0; i < b->found && i < b->n; i++)
		if (b->out[i].id == known)
			return &b->out[i];
	if ((b->slots[slot / 64] >> slot % 64 & 1) || !percpu_participants_alive(&b->h->part, id))
		return NULL;
	b->slots[slot / 64] |= UINT64_C(1) << slot % 64;
	if (b->found++ >= b->n)
		return NULL;
	b->out[b->found - 1] = (struct percpu_grace_blocker){ .id = 0 };
	describe_blocker(b, id, &b->out[b->found - 1]);
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

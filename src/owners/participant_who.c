/* SPDX-License-Identifier: MIT */
/*
 * participant_who.c - find out which process a participant is, for callers that list the processes
 * that they wait for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "participant.h"

/* Return whether /proc says that a signal or a debugger has stopped the process. */
static bool process_is_stopped(uint32_t pid)
{
	char path[32], text[512] = "", *end;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	PERCPU_STEP("participant: state to be read");
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0'; /* the process is gone */
	close(fd);
	end = strrchr(text, ')'); /* the last one: the name may contain any character */
	return end != NULL && (end[2] == 'T' || end[2] == 't');
}

/* A pid is only known in its own PID namespace. So ask for `stopped` only within the same one. */
void percpu_participants_identify(const struct percpu_participants *p, uint64_t id,
				  struct percpu_participant_seen *ret)
{
	struct percpu_owner_seen seen;

	*ret = (struct percpu_participant_seen){ .id = id };
	if (p->owners == NULL) {
		*ret = (struct percpu_participant_seen){ .pid = (uint32_t)getpid() };
		return;
	}
	/* The owner may have left meanwhile, or there is no memory to look at its slot. */
	if (!percpu_owner_look(p->owners, id % PERCPU_OWNERS_MAX, &seen) ||
	    seen.word / 2 != id / PERCPU_OWNERS_MAX)
		return;
	ret->pid = seen.pid;
	ret->stopped = seen.space == percpu_owner_me().space && process_is_stopped(seen.pid);
}

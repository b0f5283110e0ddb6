/* SPDX-License-Identifier: MIT */
/*
 * participant_who.c - which process a participant is, for those who ask whom they wait for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "participant.h"

/* Whether the process is stopped by a signal or a debugger, as /proc says. */
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
	end = strrchr(text, ')'); /* its name may hold anything */
	return end != NULL && (end[2] == 'T' || end[2] == 't');
}

/* Numbers of processes are known in their own PID namespace alone. */
void percpu_participants_identify(const struct percpu_participants *p, uint64_t id,
				  struct percpu_participant_seen *ret)
{
	struct percpu_owner_seen seen;

	*ret = (struct percpu_participant_seen){ .id = id };
	if (p->owners == NULL) {
		*ret = (struct percpu_participant_seen){ .pid = (uint32_t)getpid() };
		return;
	}
	/* It may have left meanwhile, or be one that there is no memory to look at. */
	if (!percpu_owner_look(p->owners, id % PERCPU_OWNERS_MAX, &seen) ||
	    seen.word / 2 != id / PERCPU_OWNERS_MAX)
		return;
	ret->pid = seen.pid;
	ret->stopped = seen.space == percpu_owner_me().space && process_is_stopped(seen.pid);
}

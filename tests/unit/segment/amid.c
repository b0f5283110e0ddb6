/* SPDX-License-Identifier: MIT */
/* amid.c - see amid.h. */
#include "amid.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "steps.h"

unsigned dies_at;
const char *waits_when;
bool (*meanwhile)(void);

void test_step(const char *name)
{
	const char *const at = waits_when;

	if (dies_at != 0 && --dies_at == 0)
		raise(SIGKILL);
	if (at == NULL || strncmp(name, at, strlen(at)) != 0)
		return;
	waits_when = NULL;
	if (meanwhile())
		waits_when = at;
}

void amid_nothing(void)
{
	dies_at = 0;
	waits_when = NULL;
}

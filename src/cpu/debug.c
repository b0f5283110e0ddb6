/* SPDX-License-Identifier: MIT */
/*
 * debug.c - what debug modes print, and whether the environment turns all of them on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"
#include "text.h"

#define OTHERS_US 100000

static pthread_once_t debug_once = PTHREAD_ONCE_INIT;
static bool all_modes;

/* Once, since another thread may change the environment later. */
static void read_environment(void)
{
	const char *value = secure_getenv("PERCPU_DEBUG");

	all_modes = value != NULL && strcmp(value, "1") == 0;
}

unsigned percpu_debug_flags(unsigned flags, unsigned debug)
{
	pthread_once(&debug_once, read_environment);
	return all_modes ? flags | debug : flags;
}

/* Print in one write, so that lines of several processes do not mix, and without memory of
 * malloc(3), because a signal handler prints. */
static void debug_print(const char *format, va_list args)
{
	static const char prefix[] = "libpercpu: ";
	const size_t start = sizeof(prefix) - 1;
	char text[512];

	memcpy(text, prefix, start);
	(void)vsnprintf(text + start, sizeof(text) - start - 1, format, args);
	percpu_text_make_printable(text);
	strcat(text, "\n");
	(void)!write(STDERR_FILENO, text, strlen(text));
}

void percpu_debug_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	debug_print(format, args);
	va_end(args);
}

/* If several threads make mistakes at once, the first one prints. The others give it some time.
 * Without a reader of standard error the process aborts all the same. */
void percpu_debug_die(const char *format, ...)
{
	static bool printed; /* atomic */
	va_list args;

	if (__atomic_exchange_n(&printed, true, __ATOMIC_RELAXED)) {
		usleep(OTHERS_US);
		abort();
	}
	signal(SIGPIPE, SIG_IGN);
	va_start(args, format);
	debug_print(format, args);
	va_end(args);
	abort();
}

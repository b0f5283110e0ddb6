/* SPDX-License-Identifier: MIT */
/*
 * debug.c - what debug modes print, and whether the environment turns all of them on.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "debug.h"

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

/* In one write, so that lines of several processes do not mix. */
static void debug_print(const char *format, va_list args)
{
	char text[512];

	(void)vsnprintf(text, sizeof(text) - sizeof("libpercpu: "), format, args);
	dprintf(STDERR_FILENO, "libpercpu: %s\n", text);
}

void percpu_debug_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	debug_print(format, args);
	va_end(args);
}

void percpu_debug_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	debug_print(format, args);
	va_end(args);
	abort();
}

/* SPDX-License-Identifier: MIT */
/* fuzz.c - see fuzz.h. */
#include "fuzz.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void fail(const char *what)
{
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

uint64_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* Print a crash in cmocka's words, for scripts that look for failed tests. */
static void has_crashed(int signal)
{
	static const char text[] = "[  FAILED  ] fuzz: crashed\n";

	(void)!write(1, text, sizeof(text) - 1);
	_exit(signal == SIGALRM ? 2 : 1);
}

void tell_of_crashes(void)
{
	for (int s = SIGHUP; s < SIGTERM; s++)
		if (s == SIGABRT || s == SIGSEGV || s == SIGBUS || s == SIGFPE || s == SIGILL ||
		    s == SIGALRM)
			signal(s, has_crashed);
}

#ifdef PERCPU_FUZZER

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
	static uint8_t in[1024];

	must(longest_input <= sizeof(in), "room for an input");
	if (seed % 8 == 0 || max < longest_input)
		return LLVMFuzzerMutate(data, size, max);
	memset(in, 0, sizeof(in));
	memcpy(in, data, size < longest_input ? size : longest_input);
	size = mutate(in, size < longest_input ? size : longest_input, &random);
	memcpy(data, in, size);
	return size;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * options.c - read structs of options from programs of any version.
 */
#include <errno.h>
#include <string.h>

#include "cpu.h"

#define LONGEST 4096 /* a larger size is a mistake of the program */

static bool is_zero(const unsigned char *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

int percpu_options_read(void *to, size_t known, const void *from)
{
	const unsigned char *bytes = from;
	size_t size = known;

	if (from != NULL)
		memcpy(&size, from, sizeof(size));
	if (size < sizeof(size) || size > LONGEST ||
	    (size > known && !is_zero(bytes + known, size - known)))
		return -EINVAL;
	memset(to, 0, known);
	if (from != NULL)
		memcpy(to, from, size < known ? size : known);
	memcpy(to, &known, sizeof(known));
	return 0;
}

int percpu_struct_read(void *to, size_t known, const void *from)
{
	size_t size = 0;

	if (from != NULL)
		memcpy(&size, from, sizeof(size));
	return size >= known ? percpu_options_read(to, known, from) : -EINVAL;
}

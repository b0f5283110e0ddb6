/* SPDX-License-Identifier: MIT */
/*
 * number.c - doubles as text, which reads as the same double again.
 */
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

#define DIGITS_OF_ALL 17 /* so many digits tell each double from the next */

/* Write v with a point, whatever the program's locale has in its place. 15 digits are enough for the
 * decimal numbers that programs write: 0.1 and not 0.10000000000000001. */
static void write_double(double v, struct percpu_number *out)
{
	const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	const locale_t before = uselocale(c);
	int digits = 15;

	do
		snprintf(out->text, sizeof(out->text), "%.*g", digits, v);
	while (strtod(out->text, NULL) != v && ++digits <= DIGITS_OF_ALL);
	(void)uselocale(before);
	if (c != (locale_t)0)
		freelocale(c);
}

struct percpu_number percpu_number_of(double v)
{
	struct percpu_number t;

	if (isfinite(v))
		write_double(v, &t);
	else
		strcpy(t.text, isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
	return t;
}

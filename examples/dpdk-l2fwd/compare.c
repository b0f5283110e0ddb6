/* SPDX-License-Identifier: MIT */
/*
 * compare.c - short runs of each way in turn, several rounds, so that other work of the machine
 * affects all of them; the table has medians.
 */
#include <stdio.h>
#include <stdlib.h>

#include "l2fwd.h"

enum { ROUNDS = 5 };

static const struct row {
	enum way way;
	unsigned scopes;
} rows[] = {
	{ COUNT_NONE, 1 },	  { COUNT_LCORE, 1 },	       { COUNT_OURS, 1 },
	{ COUNT_OURS_ADDS, 1 },	  { COUNT_ATOMIC, 1 },	       { COUNT_LCORE, SCOPES },
	{ COUNT_OURS, SCOPES },	  { COUNT_OURS_ADDS, SCOPES }, { COUNT_OURS_WHOLE, SCOPES },
	{ COUNT_ATOMIC, SCOPES },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static bool wanted(const struct options *o, const struct row *row)
{
	return row->way == COUNT_NONE || o->scopes == 0 || o->scopes == row->scopes;
}

static void print_table(const struct options *o, double mpps[ROWS][ROUNDS])
{
	double median, none = 0;

	printf("%-12s %8s %10s %8s\n", "count", "counters", "Mpps", "of none");
	for (unsigned i = 0; i < ROWS; i++) {
		if (!wanted(o, &rows[i]))
			continue;
		qsort(mpps[i], ROUNDS, sizeof(double), by_value);
		median = mpps[i][ROUNDS / 2];
		if (rows[i].way == COUNT_NONE)
			none = median;
		printf("%-12s %8u %10.1f %8.2f\n", way_name(rows[i].way),
		       rows[i].way == COUNT_NONE ? 0 : rows[i].scopes * TALLY_WORDS, median,
		       none > 0 ? median / none : 0);
	}
}

int compare(const struct options *o)
{
	double mpps[ROWS][ROUNDS] = { 0 };
	struct result result;
	int status;

	(void)percpu_selftest(); /* so that the final tier is measured */
	printf("%u lcores, net_%s, %d-byte packets, tier %s; Mpps of CPU time, median of %d rounds\n",
	       o->lcores, o->device, FRAME, percpu_tier_name(percpu_status()->tier), ROUNDS);
	for (unsigned round = 0; round < ROUNDS; round++)
		for (unsigned i = 0; i < ROWS; i++) {
			if (!wanted(o, &rows[i]))
				continue;
			status = run_once(o, rows[i].way, rows[i].scopes, o->seconds / ROUNDS,
					  &result);
			if (status != EXIT_OK)
				return status;
			if (interrupted())
				return EXIT_CANNOT;
			mpps[i][round] = result.mpps;
		}
	print_table(o, mpps);
	printf("every run counted each packet once\n");
	return EXIT_OK;
}

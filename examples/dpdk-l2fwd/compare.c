/* SPDX-License-Identifier: MIT */
/*
 * compare.c - short runs of each way in turn, several rounds, so that other work of the machine
 * affects all of them; the table has medians. At a fixed rate, what differs is the share of the
 * CPUs: FreeBSD's receive side took 94 % of them with "+=" and 45 % with counter(9), as its
 * announcement says.
 */
#include <stdio.h>
#include <stdlib.h>

#include "l2fwd.h"

enum { ROUNDS = 5 };

static const struct row {
	enum way way;
	unsigned scopes;
} rows[] = {
	{ COUNT_NONE, 1 },	     { COUNT_LCORE, 1 },	   { COUNT_OURS, 1 },
	{ COUNT_OURS_ADDS, 1 },	     { COUNT_OURS_BURST, 1 },	   { COUNT_ATOMIC, 1 },
	{ COUNT_RACY, 1 },	     { COUNT_LCORE, SCOPES },	   { COUNT_OURS, SCOPES },
	{ COUNT_OURS_ADDS, SCOPES }, { COUNT_OURS_WHOLE, SCOPES }, { COUNT_OURS_BURST, SCOPES },
	{ COUNT_ATOMIC, SCOPES },    { COUNT_RACY, SCOPES },
};

enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* What the rounds of a row measured. */
struct rounds {
	double mpps[ROUNDS], share[ROUNDS], lost[ROUNDS];
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double v[ROUNDS])
{
	qsort(v, ROUNDS, sizeof(double), by_value);
	return v[ROUNDS / 2];
}

static bool wanted(const struct options *o, const struct row *row)
{
	return row->way == COUNT_NONE || o->scopes == 0 || o->scopes == row->scopes;
}

static void print_table(const struct options *o, struct rounds measured[ROWS])
{
	double mpps, share, cost, none = 0;

	printf("%-12s %8s %10s %8s %8s %8s\n", "count", "counters", "Mpps", "CPU", "of none",
	       "lost");
	for (unsigned i = 0; i < ROWS; i++) {
		if (!wanted(o, &rows[i]))
			continue;
		mpps = median(measured[i].mpps);
		share = median(measured[i].share);
		cost = o->rate > 0 ? share : mpps;
		if (rows[i].way == COUNT_NONE)
			none = cost;
		printf("%-12s %8u %10.1f %6.1f %% %8.2f %6.1f %%\n", way_name(rows[i].way),
		       rows[i].way == COUNT_NONE ? 0 : rows[i].scopes * TALLY_WORDS, mpps,
		       100 * share, none > 0 ? cost / none : 0, 100 * median(measured[i].lost));
	}
}

int compare(const struct options *o)
{
	struct rounds measured[ROWS] = { 0 };
	struct result result;
	int status;

	(void)percpu_selftest(); /* so that the final tier is measured */
	printf("%u lcores, net_%s, %d-byte packets, tier %s; Mpps of %s time, median of %d rounds\n",
	       o->lcores, o->device, FRAME, percpu_tier_name(percpu_status()->tier),
	       o->rate > 0 ? "real" : "CPU", ROUNDS);
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
			measured[i].mpps[round] = result.mpps;
			measured[i].share[round] = result.share;
			measured[i].lost[round] = rows[i].way == COUNT_NONE ? 0 : result.lost;
		}
	print_table(o, measured);
	if (o->rate > 0)
		puts("published, of counter(9): += 94 % of the CPUs, counter(9) 45 %");
	printf("every run but those of racy counted each packet once\n");
	return EXIT_OK;
}

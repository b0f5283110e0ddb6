/* SPDX-License-Identifier: MIT */
/*
 * stats.c - statistics by type and field, in C and C++: an update as large as can
 * be, and what must not compile. headers.sh compiles it.
 */
#include <percpu/stats.h>

struct full {
	uint64_t field[PERCPU_STATS_MAX_COMMIT];
};

struct larger {
	uint64_t field[PERCPU_STATS_MAX_COMMIT + 1];
};

/* As units share one. */
typedef PERCPU_STATS(struct full) full_stats;
extern full_stats full;
full_stats full;

int main(void)
{
	PERCPU_STATS(struct larger) larger;
	struct full delta = { { 1, 2 } }, now;
	struct larger out;
	int e = PERCPU_STATS_CREATE(&full, 1, 0);

	if (e != 0)
		return 1;
	e = PERCPU_STATS_CREATE(&larger, 1, 0);
	if (e != 0)
		return 1;
	e = PERCPU_STATS_UPDATE(&full, 0, &delta);
	if (e != 0 || PERCPU_STATS_SNAPSHOT(&full, 0, 1, &now) != 0 || now.field[1] != 2)
		return 1;
	PERCPU_STATS_ADD(&larger, 0, field[64], 3);
#ifdef REFUSED_LARGER
	e = PERCPU_STATS_UPDATE(&larger, 0, &out);
#endif
#ifdef REFUSED_ANOTHER_STRUCT
	e = PERCPU_STATS_UPDATE(&full, 0, &out);
#endif
	if (e != 0 || PERCPU_STATS_FETCH(&larger, 0, 1, &out) != 0 || out.field[64] != 3)
		return 1;
	percpu_stats_destroy(full.stats);
	percpu_stats_destroy(larger.stats);
	return 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * reader.c - read the counters of another l2fwd, at no cost to its lcores. Read permission is
 * enough for totals. A process that may write there also gets snapshots, in which a packet has
 * all counts of one commit, or none.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "l2fwd.h"

static const char *why(int err)
{
	switch (err) {
	case -EBADMSG:
	case -EISDIR:
		return "this is no file of counters; \"l2fwd -c ours -o PATH\" makes one";
	case -EPROTO:
	case -ERANGE:
		return "a file of another version or another machine";
	case -ENODATA:
		return "a file of counters, but not of l2fwd's, or not ready yet";
	case -EACCES:
		return "no permission; snapshots need to write there";
	default:
		return strerror(-err);
	}
}

static int attach(const struct options *o, struct percpu_region **ret_region,
		  PERCPU_STATS(struct port) * ret)
{
	int err = percpu_region_open(o->read, o->snapshot ? PERCPU_REGION_WRITE : 0, NULL,
				     ret_region);
	uint64_t key;

	if (err)
		return err;
	key = percpu_region_root(*ret_region, 0);
	err = PERCPU_STATS_ATTACH(ret, *ret_region, key, PORTS, 0);
	if (err == -ENOENT)
		err = PERCPU_STATS_ATTACH(ret, *ret_region, key, PORTS, PERCPU_STATS_WHOLE);
	if (err) {
		percpu_region_close(*ret_region);
		return err == -ENOENT ? -ENODATA : err;
	}
	return 0;
}

int reader(const struct options *o)
{
	const struct timespec pause = { .tv_nsec = 50000000 };
	double end = now() + o->seconds;
	struct percpu_region *region;
	PERCPU_STATS(struct port) ports;
	struct port copy[PORTS];
	int err = attach(o, &region, &ports);

	if (err) {
		complain("cannot attach to %s: %s", o->read, why(err));
		return EXIT_CANNOT;
	}
	do {
		err = o->snapshot ? PERCPU_STATS_SNAPSHOT(ports, 0, PORTS, copy) :
				    PERCPU_STATS_FETCH(ports, 0, PORTS, copy);
		for (unsigned port = 0; port < PORTS && !err; port++)
			port_print(port, &copy[port]);
		if (o->seconds > 0)
			nanosleep(&pause, NULL);
	} while (!err && now() < end);
	PERCPU_STATS_DETACH(ports);
	percpu_region_close(region);
	if (!err)
		return EXIT_OK;
	complain("cannot read %s: %s", o->read, strerror(-err));
	return EXIT_CANNOT;
}

/* SPDX-License-Identifier: MIT */
/*
 * run.c - one run in one way of counting: make a new file with counters that start at 0,
 * forward, and compare the counts with what the lcores handled, to the packet.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "l2fwd.h"

struct run {
	char own_path[64]; /* where -o names none */
	const char *path;
	struct percpu_region *region;
	PERCPU_STATS(struct port) ports;
	struct work work;
};

/* The run that other threads may read. */
static pthread_mutex_t present_lock = PTHREAD_MUTEX_INITIALIZER;
static const struct run *present;

static bool is_ours(enum way way)
{
	return way == COUNT_OURS || way == COUNT_OURS_ADDS || way == COUNT_OURS_WHOLE ||
	       way == COUNT_OURS_BURST;
}

static int run_open(const struct options *o, struct run *run)
{
	unsigned flags = run->work.way == COUNT_OURS_WHOLE ? PERCPU_STATS_WHOLE : 0;
	struct places *places = &run->work.places;
	int err;

	snprintf(run->own_path, sizeof(run->own_path), "/dev/shm/l2fwd.%d", (int)getpid());
	run->path = o->path ? o->path : run->own_path;
	places->lcores = aligned_alloc(64, (MOST_LCORES + 1) * sizeof(*places->lcores));
	places->shared = aligned_alloc(64, PORTS * sizeof(*places->shared));
	if (!places->lcores || !places->shared) {
		complain("no memory");
		return -1;
	}
	memset(places->lcores, 0, (MOST_LCORES + 1) * sizeof(*places->lcores));
	memset(places->shared, 0, PORTS * sizeof(*places->shared));
	if (!is_ours(run->work.way))
		return 0;
	err = percpu_region_open(run->path,
				 PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL,
				 NULL, &run->region);
	if (err) {
		complain("cannot make %s: %s; -o names another file", run->path, strerror(-err));
		return -1;
	}
	err = PERCPU_STATS_OPEN(&run->ports, run->region, 0, PORTS, flags);
	if (err) {
		complain("cannot make counters in %s: %s", run->path, strerror(-err));
		return -1;
	}
	places->stats = run->ports;
	return 0;
}

static void run_close(const struct options *o, struct run *run)
{
	if (run->region) {
		PERCPU_STATS_DETACH(run->ports);
		percpu_region_close(run->region);
		if (!o->path)
			unlink(run->path);
	}
	free(run->work.places.lcores);
	free(run->work.places.shared);
	free(run);
}

/* Compute the right counts from what the lcores handled. */
static void handled(const struct work *w, struct port *out)
{
	struct tally *t;

	memset(out, 0, PORTS * sizeof(*out));
	for (unsigned port = 0; port < PORTS; port++) {
		t = out[port].scope;
		for (unsigned i = 0; i < MOST_LCORES; i++) {
			t->packets += w->workers[i].handled[port];
			out[port].drops += w->workers[i].dropped[port];
		}
		t->bytes = t->packets * FRAME;
		t->wire_bytes = t->packets * (FRAME + 24);
		t->segments = t->packets;
		for (unsigned s = 1; s < w->scopes; s++)
			out[port].scope[s] = *t;
		out[port].polls = w->polls;
	}
}

static int counted(const struct run *run, struct port *out)
{
	const struct places *p = &run->work.places;
	uint64_t *words = (uint64_t *)out;

	memset(out, 0, PORTS * sizeof(*out));
	if (is_ours(run->work.way))
		return PERCPU_STATS_FETCH(run->ports, 0, PORTS, out);
	if (run->work.way == COUNT_ATOMIC || run->work.way == COUNT_RACY)
		memcpy(out, p->shared, PORTS * sizeof(*out));
	else
		for (unsigned l = 0; l <= MOST_LCORES; l++)
			for (unsigned i = 0; i < PORTS * PORT_WORDS; i++)
				words[i] += ((const uint64_t *)&p->lcores[l])[i];
	return 0;
}

static void set_present(const struct run *run)
{
	pthread_mutex_lock(&present_lock);
	present = run;
	pthread_mutex_unlock(&present_lock);
}

int run_counts(struct port *out)
{
	int err = -ENOENT;

	pthread_mutex_lock(&present_lock);
	if (present)
		err = counted(present, out);
	pthread_mutex_unlock(&present_lock);
	return err;
}

void port_print(unsigned number, const struct port *port)
{
	printf("port %u:", number);
	for (unsigned s = 0; s < SCOPES; s++)
		if (s == 0 || port->scope[s].packets)
			printf("  packets %" PRIu64 " bytes %" PRIu64 " wire-bytes %" PRIu64
			       " segments %" PRIu64,
			       port->scope[s].packets, port->scope[s].bytes,
			       port->scope[s].wire_bytes, port->scope[s].segments);
	printf("  drops %" PRIu64 " polls %" PRIu64 "\n", port->drops, port->polls);
}

static int check(const struct run *run, const struct port *right, const struct port *got)
{
	if (run->work.way == COUNT_NONE || run->work.way == COUNT_RACY ||
	    memcmp(right, got, PORTS * sizeof(*got)) == 0)
		return EXIT_OK;
	complain("%s counted wrong:", way_name(run->work.way));
	for (unsigned port = 0; port < PORTS; port++) {
		printf("handled  ");
		port_print(port, &right[port]);
		printf("counted  ");
		port_print(port, &got[port]);
	}
	return EXIT_WRONG;
}

/* Compute what a run took. */
static void measure(const struct work *w, unsigned lcores, const struct port *right,
		    struct result *ret)
{
	uint64_t handled = 0, seen = 0;
	const struct worker *l;
	double packets;

	ret->mpps = ret->share = 0;
	for (unsigned i = 0; i < lcores; i++) {
		l = &w->workers[i];
		packets = (double)(l->handled[0] + l->handled[1]);
		if (l->seconds <= 0 || l->elapsed <= 0)
			continue;
		ret->mpps += packets / (w->rate > 0 ? l->elapsed : l->seconds) / 1e6;
		ret->share += l->seconds / l->elapsed / lcores;
	}
	for (unsigned port = 0; port < PORTS; port++) {
		handled += right[port].scope[0].packets;
		seen += ret->ports[port].scope[0].packets;
	}
	ret->lost = handled > 0 ? (double)(handled - seen) / (double)handled : 0;
}

int run_once(const struct options *o, enum way way, unsigned scopes, double seconds,
	     struct result *ret)
{
	struct run *run = aligned_alloc(64, (sizeof(*run) + 63) / 64 * 64);
	struct port right[PORTS];
	int status = EXIT_CANNOT, failed = -1;

	if (!run) {
		complain("no memory");
		return EXIT_CANNOT;
	}
	memset(run, 0, sizeof(*run));
	run->work.way = way;
	run->work.scopes = scopes;
	run->work.seconds = seconds;
	run->work.rate = o->rate / o->lcores;
	if (run_open(o, run) == 0) {
		set_present(run);
		failed = forward_all(&run->work, o->lcores);
		set_present(NULL);
	}
	if (failed == 0) {
		handled(&run->work, right);
		if (counted(run, ret->ports) == 0)
			status = check(run, right, ret->ports);
		else
			complain("cannot read what was counted");
		if (way == COUNT_NONE)
			memcpy(ret->ports, right, sizeof(right));
		measure(&run->work, o->lcores, right, ret);
	}
	run_close(o, run);
	return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * ipstat_session.c - the parent: makes the counters in a shared region, starts the workers,
 * replaces killed ones, and draws the picture.
 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ipstat.h"

/* Packets and bytes of a protocol are one commit: they start at an even place. */
_Static_assert(FIELD(link.links_total) % 2 == 0 && FIELD(arp.arps_received) % 2 == 0, "");
_Static_assert(FIELD(ip.ips_total) % 2 == 0 && FIELD(ip6.ips_total) % 2 == 0, "");
_Static_assert(FIELD(icmp.icps_total) % 2 == 0 && FIELD(icmp6.icps_total) % 2 == 0, "");
_Static_assert(FIELD(tcp.tcps_rcvtotal) % 2 == 0 && FIELD(udp.udps_ipackets) % 2 == 0, "");

#define STEP_US 20000
#define RESTART_S 0.5

static int create_counters(struct session *s)
{
	int err = percpu_region_open(
		s->path, PERCPU_REGION_WRITE | PERCPU_REGION_CREATE | PERCPU_REGION_EXCL, NULL,
		&s->region);

	if (err == -EEXIST) {
		complain("%s exists: another ipstat's, or left by one; look at it with --attach, "
			 "remove it, or name another with -o",
			 s->path);
		return err;
	}
	if (!err)
		err = percpu_counter_array_open(s->region, 0, FIELDS, &s->counters);
	if (err)
		complain("cannot make the counters in %s: %s; name another file with -o", s->path,
			 strerror(-err));
	return err;
}

static int open_interface(const char *interface, struct session *s)
{
	const char *what;
	int err = rings_open(interface, s->crew.processes * s->crew.threads, &s->crew.rings, &what);

	if (err == -ENODEV || err == -ENXIO)
		complain("there is no interface %s; \"ip link\" lists them", interface);
	else if (err == -EPERM || err == -EACCES)
		complain("no permission to capture from %s: run as root, or with CAP_NET_RAW; "
			 "capture files (-r) need none",
			 interface);
	else if (err == -ENETDOWN)
		complain("%s is down: \"ip link set %s up\"", interface, interface);
	else if (err)
		complain("cannot capture from %s: %s: %s", interface, what, strerror(-err));
	return err;
}

int session_open(const struct options *o, struct session *s)
{
	int err;

	*s = (struct session){ .keep = o->region != NULL };
	if (o->file && file_check(o->file))
		return -1;
	err = crew_create(o->processes, o->threads, &s->crew);
	if (err) {
		complain("%s", strerror(-err));
		return -1;
	}
	if (o->interface)
		err = open_interface(o->interface, s);
	if (!err) {
		if (o->region)
			snprintf(s->path, sizeof(s->path), "%s", o->region);
		else
			snprintf(s->path, sizeof(s->path), "/dev/shm/ipstat.%d", (int)getpid());
		err = create_counters(s);
	}
	if (err) {
		s->keep |= err == -EEXIST;
		session_close(s);
		return -1;
	}
	s->crew.file = o->file;
	s->crew.counters = s->counters;
	return 0;
}

int session_start(struct session *s)
{
	int err = crew_start(&s->crew);

	if (err)
		complain("cannot start a worker process: %s", strerror(-err));
	show_start(&s->picture);
	return err;
}

void session_read(const struct session *s, struct counts *ret)
{
	percpu_counter_array_fetch_all(s->counters, (uint64_t *)ret);
}

/* Return how many packets are in the rings of the processes that are to be started again. */
static unsigned packets_waiting(const struct crew *crew)
{
	unsigned n = 0;

	for (unsigned i = 0; crew->rings && i < crew->processes * crew->threads; i++)
		if (crew->pid[i / crew->threads] == 0)
			n += ring_waiting(&crew->rings[i]);
	return n;
}

static void restart(struct session *s)
{
	unsigned waiting = packets_waiting(&s->crew);

	s->restart = 0;
	if (crew_start(&s->crew))
		return;
	if (s->crew.rings)
		show_event(&s->picture, "a successor counts the %u packets that waited", waiting);
	else
		show_event(&s->picture, "a successor goes on where it stopped");
}

static unsigned look_after_workers(struct session *s)
{
	int killed;
	unsigned left = crew_reap(&s->crew, &killed);

	if (killed >= 0) {
		s->restart = now() + RESTART_S;
		show_event(&s->picture,
			   "worker process %d was killed; its packets wait for a successor",
			   killed);
	}
	if (s->restart != 0 && now() >= s->restart)
		restart(s);
	return left;
}

bool session_step(struct session *s)
{
	struct counts c;
	unsigned left = look_after_workers(s);

	session_read(s, &c);
	show_update(&s->picture, &c);
	if (left)
		usleep(STEP_US);
	return left;
}

void session_finish(struct session *s)
{
	if (s->crew.rings) {
		rings_shut(s->crew.rings, s->crew.processes * s->crew.threads);
		usleep(STEP_US); /* by then, all packets that were let in are in the rings */
	}
	crew_stop(&s->crew);
	while (session_step(s))
		;
}

void session_close(struct session *s)
{
	percpu_counter_array_detach(s->counters);
	percpu_region_close(s->region);
	if (!s->keep)
		unlink(s->path);
	rings_close(s->crew.rings, s->crew.processes * s->crew.threads);
	crew_destroy(&s->crew);
}

/* SPDX-License-Identifier: MIT */
/*
 * l2fwd.h - shared by the files of dpdk-l2fwd.
 *
 *	l2fwd.c		the command line
 *	device.c	EAL, two ports, and packets for them
 *	forward.c	an lcore's work on a packet, and the control thread
 *	count.h		  each way to count one
 *	run.c		one run: start, stop, check
 *	telemetry.c	DPDK's own clients that read the counters
 *	compare.c	runs of each way in turn, and a table
 *	reader.c	another process that reads the counters
 */
#ifndef L2FWD_H
#define L2FWD_H

#include <stdbool.h>
#include <stdint.h>

#include <percpu/percpu.h>

enum { PORTS = 2, MOST_LCORES = 16, SCOPES = 4, FRAME = 64 };

/* The counts of packets in one scope. */
struct tally {
	uint64_t packets;
	uint64_t bytes;
	uint64_t wire_bytes; /* with checksum, preamble and gap */
	uint64_t segments;
};

/* The counters of a port: with scope[0] alone, 4 per packet; with all scopes, 16. */
struct port {
	struct tally scope[SCOPES]; /* port, VLAN, traffic class, tenant */
	uint64_t drops;		    /* packets that the other port did not take */
	uint64_t polls;		    /* the control thread's looks at the link */
};

enum { TALLY_WORDS = sizeof(struct tally) / 8, PORT_WORDS = sizeof(struct port) / 8 };

enum way {
	COUNT_NONE,
	COUNT_LCORE,	  /* an array with a line-aligned slot per lcore, plain adds */
	COUNT_OURS,	  /* as few commits as this CPU's vectors allow */
	COUNT_OURS_ADDS,  /* a commit per counter */
	COUNT_OURS_WHOLE, /* PERCPU_STATS_WHOLE: one commit, any CPU */
	COUNT_OURS_BURST, /* as COUNT_OURS, but once for all packets of a burst */
	COUNT_ATOMIC,	  /* one word per counter, for all */
	COUNT_RACY,	  /* the same, by plain adds, which lose packets */
	WAYS,
};

struct options {
	enum way way;
	bool compare;	 /* all ways */
	unsigned scopes; /* 1 or SCOPES; 0 to compare both */
	unsigned lcores;
	double seconds;	    /* 0: not given */
	double rate;	    /* packets per second of all lcores; 0: as many as they can */
	const char *device; /* a driver of DPDK */
	const char *path;   /* of the region; if given, it stays */
	const char *read;   /* the region of another process */
	bool snapshot;
	const char *telemetry; /* the file prefix of DPDK's telemetry, if wanted */
};

/* l2fwd.c */

enum { EXIT_OK, EXIT_WRONG, EXIT_CANNOT };

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
double now(void);
bool interrupted(void);
const char *way_name(enum way way);

/* device.c: returns 0, or -1 after printing what is wrong. */
int device_open(const struct options *o);
void device_close(void);

/* forward.c */

/* The work of one lcore. */
struct worker {
	_Alignas(64) uint16_t queue; /* of each port; no other lcore uses it */
	uint64_t handled[PORTS];
	uint64_t dropped[PORTS];
	double seconds; /* of CPU time: waiting for a CPU is not the way's cost */
	double elapsed;
};

/* Where packets are counted in this run. */
struct places {
	PERCPU_STATS(struct port) stats;
	struct port (*lcores)[PORTS]; /* [MOST_LCORES] is the control thread's */
	struct port *shared;
};

struct work {
	struct worker workers[MOST_LCORES];
	struct places places;
	double seconds;
	double rate; /* packets per second of an lcore; 0: as many as it can */
	uint64_t polls;
	enum way way;
	unsigned scopes;
	int stop;
};

/* Forward on all lcores for so long. Returns 0, or -1 after printing why. */
int forward_all(struct work *w, unsigned lcores);

/* run.c */

struct result {
	double mpps;  /* of all lcores: per second of CPU time, or, at a rate, of real time */
	double share; /* of its CPU that an lcore uses, on average */
	double lost;  /* of the packets; 0 but for COUNT_RACY */
	struct port ports[PORTS];
};

/* Returns an exit status: EXIT_WRONG if the counts are not exact, but for COUNT_RACY. */
int run_once(const struct options *o, enum way way, unsigned scopes, double seconds,
	     struct result *ret);
void port_print(unsigned number, const struct port *port);

/* Read what the present run has counted, from any thread. Returns -ENOENT if none runs. */
int run_counts(struct port *out);

/* telemetry.c: before the EAL starts. Returns 0, or -1 after printing why. */
int telemetry_open(void);

/* compare.c, reader.c: return an exit status. */
int compare(const struct options *o);
int reader(const struct options *o);

#endif

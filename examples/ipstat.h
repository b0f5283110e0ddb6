/* SPDX-License-Identifier: MIT */
/*
 * ipstat.h - types and functions that the files of ipstat share.
 *
 *	ipstat.c		the command line
 *	ipstat_session.c	counters in a file, workers, and a picture of them
 *	ipstat_decode.c		bytes of a packet -> which counters it adds to
 *	ipstat_ring.c		packets from an interface
 *	ipstat_file.c		packets from a capture file
 *	ipstat_crew.c		worker processes and their threads
 *	ipstat_show.c		the picture in the terminal
 *	ipstat_demo.c		the demonstration, on top of
 *	ipstat_traffic.c	  a network of its own with traffic in it,
 *	ipstat_check.c		  the comparison with what the kernel counted,
 *	ipstat_sample.c		  or with a capture file of known content, and
 *	ipstat_compare.c	  racy, atomic and per-CPU counting side by side
 */
#ifndef IPSTAT_H
#define IPSTAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <percpu/percpu.h>

/*
 * All counters. Names are FreeBSD's where FreeBSD has one (netstat -s). Every field is a 64-bit
 * counter: the same struct gives a counter's place in the array (FIELD) and holds the values
 * read from it. Packets and bytes of a protocol are neighbors at an even place, so that one
 * commit adds to both.
 */
struct linkstat {
	uint64_t links_total;	 /* packets */
	uint64_t links_bytes;	 /* from the network header on */
	uint64_t links_toosmall; /* no room for a link header */
	uint64_t links_noproto;	 /* neither ARP nor IP */
	uint64_t links_cut;	 /* the capture ends before the headers do */
	uint64_t links_spare;
};

struct arpstat {
	uint64_t arps_received;
	uint64_t arps_bytes;
	uint64_t arps_toosmall;
	uint64_t arps_rxrequests;
	uint64_t arps_rxreplies;
	uint64_t arps_spare;
};

struct ipstat { /* IPv4; another one is IPv6's */
	uint64_t ips_total;
	uint64_t ips_bytes;
	uint64_t ips_toosmall;	/* not enough data for a header */
	uint64_t ips_badvers;	/* another version */
	uint64_t ips_badhlen;	/* header length below the least, or beyond the packet */
	uint64_t ips_badlen;	/* total length below the header length */
	uint64_t ips_tooshort;	/* packet shorter than its total length */
	uint64_t ips_fragments; /* fragments, first ones included */
	uint64_t ips_noproto;	/* neither TCP nor UDP nor ICMP */
	uint64_t ips_spare;
};

struct icmpstat { /* ICMP; another one is ICMPv6's */
	uint64_t icps_total;
	uint64_t icps_bytes;
	uint64_t icps_tooshort;
	uint64_t icps_echo;
	uint64_t icps_echoreply;
	uint64_t icps_unreach;
};

struct tcpstat {
	uint64_t tcps_rcvtotal;
	uint64_t tcps_rcvbyte;	/* payload */
	uint64_t tcps_rcvshort; /* not enough data for a header */
	uint64_t tcps_rcvbadoff;
	uint64_t tcps_syn; /* SYN without ACK: a new connection */
	uint64_t tcps_synack;
	uint64_t tcps_fin;
	uint64_t tcps_rst;
};

struct udpstat {
	uint64_t udps_ipackets;
	uint64_t udps_ibytes; /* payload */
	uint64_t udps_hdrops; /* not enough data for a header */
	uint64_t udps_badlen; /* length field below 8 or beyond the packet */
};

struct counts {
	struct linkstat link;
	struct arpstat arp;
	struct ipstat ip, ip6;
	struct icmpstat icmp, icmp6;
	struct tcpstat tcp;
	struct udpstat udp;
};

#define FIELD(f) (offsetof(struct counts, f) / sizeof(uint64_t))
enum { FIELDS = sizeof(struct counts) / sizeof(uint64_t) };

/* The adds of one packet: 1 to a field, or 1 and a number of bytes to a pair. */
struct tally {
	unsigned n;
	struct {
		uint32_t field;
		bool pair;
		int64_t bytes;
	} add[8];
};

/* ipstat_decode.c */

/* Return whether the decoder knows a link type of capture files, as libpcap numbers them
 * (DLT_*). */
bool decode_knows_link(int link);

/*
 * Store in *t the adds of a packet. captured bytes of it are at data; the packet had length
 * bytes. The bytes may be anything; the function reads only the captured ones.
 */
void decode_frame(int link, const uint8_t *data, size_t captured, size_t length, struct tally *t);
/* The same from the network header on; proto is the Ethernet type. */
void decode_packet(uint16_t proto, const uint8_t *data, size_t captured, size_t length,
		   struct tally *t);

/*
 * The progress of a worker thread: 2k when its first k packets are counted, 2k + 1 while it adds
 * packet k to the counters. The successor of a dead worker goes on from there. Each has its own
 * cache line, as its thread writes it all the time.
 */
struct place {
	_Alignas(64) uint64_t step;
};

/* Data that parent and workers share besides the counters, in memory that outlives each of them. */
struct board {
	int stop;		/* if set, workers count the packets in their rings, then end */
	uint64_t doubtful;	/* packets in hand of killed workers */
	struct counts in_doubt; /* what those packets would have added */
	struct place places[];	/* of each worker thread */
};

/* One worker thread: its share of the packets, its counters, its place. */
struct worker {
	const struct percpu_counter_array *counters;
	struct board *board;
	struct place *place;
	unsigned index, of; /* its number, and the number of all worker threads */
};

/* ipstat_ring.c */

struct ring_totals {
	uint64_t captured, dropped;
};

struct ring {
	int fd;
	uint8_t *slots;
	struct ring_totals totals;
};

/* Return 0 if this process may capture, or -errno. */
int rings_permitted(void);
/* Open one ring per worker thread, all of one fanout group. Returns 0 or -errno; *ret_what names
 * the step that failed. */
int rings_open(const char *interface, unsigned n, struct ring **ret, const char **ret_what);
void rings_close(struct ring *rings, unsigned n);
/* Let no more packets in. */
void rings_shut(struct ring *rings, unsigned n);
/* Get how many packets the kernel put into the rings so far, and how many it had no room for. */
void rings_totals(struct ring *rings, unsigned n, struct ring_totals *t);
/* Return how many packets are in the ring. */
unsigned ring_waiting(const struct ring *ring);
/* Count packets until the board says stop and the ring is empty. */
int ring_run(struct ring *ring, const struct worker *w);

/* ipstat_file.c */

/* Return 0, or -1 after printing what is wrong with the file. */
int file_check(const char *path);
int file_run(const char *path, const struct worker *w);

/* ipstat_crew.c */

struct crew {
	unsigned processes, threads; /* threads of each process */
	struct ring *rings;	     /* one per thread; or NULL */
	const char *file;	     /* a capture file, for all threads; or NULL */
	const struct percpu_counter_array *counters;
	struct board *board;
	pid_t *pid;  /* of each process; 0: to be started, -1: has finished */
	bool failed; /* a worker ended by itself, after it printed why */
};

int crew_create(unsigned processes, unsigned threads, struct crew *crew);
void crew_destroy(struct crew *crew);
/* Start the processes that are to be started: all, or those that were killed. */
int crew_start(struct crew *crew);
/* Return how many processes have not finished. *ret_killed is one that was killed since the last
 * call, or -1. */
unsigned crew_reap(struct crew *crew, int *ret_killed);
void crew_stop(struct crew *crew);

/* Return worker w's next packet; set *ret_in_hand if a killed worker was counting it. */
uint64_t worker_next(const struct worker *w, bool *ret_in_hand);
/* Count packet k. After this or worker_set_aside(), give the packet back to where it came from;
 * then call worker_done(). */
void worker_count(const struct worker *w, uint64_t k, const struct tally *t);
/* Set a packet aside that may be counted already: its counts are in doubt. */
void worker_set_aside(const struct worker *w, const struct tally *t);
/* Note that packet k is done. */
void worker_done(const struct worker *w, uint64_t k);

/* ipstat_show.c */

/* Rates and totals, redrawn on a terminal, a line per second elsewhere. */
struct picture {
	bool tty;
	unsigned lines; /* of the last drawing */
	double start, last;
	struct counts before;
	char event[160]; /* the last event to show */
};

double now(void);
void show_start(struct picture *p);
void show_update(struct picture *p, const struct counts *c);
__attribute__((format(printf, 2, 3))) void show_event(struct picture *p, const char *format, ...);
void show_totals(const struct counts *c);
const char *field_name(size_t field);
uint64_t field_of(const struct counts *c, size_t field);

/* ipstat_session.c */

struct options {
	const char *interface, *file, *region, *attach;
	unsigned processes, threads, seconds;
	bool demo;
};

struct session {
	char path[256]; /* of the file with the counters */
	bool keep;	/* the user named it: it stays */
	struct percpu_region *region;
	struct percpu_counter_array *counters;
	struct crew crew;
	struct picture picture;
	double restart; /* when to replace killed workers; 0: none was killed */
};

/* Open, and start, a session. Each returns 0, or -1 after printing what is wrong. */
int session_open(const struct options *o, struct session *s);
int session_start(struct session *s);
/* Look after the workers and the picture. Returns true while workers are left. */
bool session_step(struct session *s);
void session_finish(struct session *s); /* stop the workers and wait for them */
void session_close(struct session *s);
void session_read(const struct session *s, struct counts *ret);

/* ipstat.c */

enum { EXIT_OK, EXIT_WRONG, EXIT_USAGE };

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);
bool interrupted(void);

/* ipstat_demo.c */
int demo(const struct options *o);

/* ipstat_traffic.c */

/* Move into a network namespace with nothing in it but a loopback interface.
 * Returns 0 or -errno. */
int network_own(void);
void traffic_run(unsigned seconds);

/* ipstat_check.c */

enum { KERNEL_ROWS = 18 };

struct kernel_counts {
	uint64_t row[KERNEL_ROWS];
};

void kernel_read(struct kernel_counts *k);
/* Print the comparison. Returns true if all differences are within the tolerance. */
bool check_kernel(const struct counts *ours, const struct kernel_counts *before,
		  const struct kernel_counts *after, const struct board *board,
		  const struct ring_totals *rings);
bool check_sample(const struct counts *ours, const struct counts *known, const struct board *board);

/* ipstat_sample.c */

/* Write a capture file, and store its counts in *ret_known. Returns 0 or -1. */
int sample_write(const char *path, unsigned packets, struct counts *ret_known);

/* ipstat_compare.c */
int compare(void); /* returns an exit status */

#endif

/* SPDX-License-Identifier: MIT */
/* prefork.h - shared by the parts of the server. */
#ifndef PREFORK_H
#define PREFORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* metrics.c: the server's metrics. */

/** Open the segment and declare the metrics: to count, or only to read. Returns 0, or -1 after
 *  printing why. */
int metrics_open(const char *path, bool to_count);
void metrics_close(void);

/** Count no requests, and do not look at the clock for them: to see what that costs. */
void metrics_off(void);

/** Count a start of the master. */
void metrics_started(void);

/** Count a worker that was replaced. */
void metrics_restarted(void);

/** Let a worker join the owners. Returns 0 or -errno. */
int metrics_joined(void);

/** Return the time in nanoseconds; 0 if no requests are counted. */
uint64_t metrics_clock(void);

/* Count a request that has come. */
void metrics_request(void);
/* Count an answer that is made, and not yet sent. */
void metrics_answer(unsigned status, uint64_t ns, size_t bytes);
/* Count that a request is over: the kernel has taken the whole answer, or the connection is
 * gone. */
void metrics_request_over(void);

/* The values in the segment. */
struct metrics_values {
	uint64_t requests[4]; /* 2xx, 3xx, 4xx, 5xx */
	uint64_t all_requests;
	uint64_t bytes;
	uint64_t observations;
	double seconds;
	uint64_t starts, restarts;
	int64_t in_flight;
};
/** Read the values. Returns 0 or -errno. */
int metrics_read(struct metrics_values *ret);

/** Return the requests in flight in one living process; 0 if it has none. */
int64_t metrics_in_flight_of(uint32_t pid);

/* answer.c: answers. */

struct answer {
	unsigned status;
	char head[512];
	size_t head_size;
	const char *body;
	size_t body_size; /* bytes to send: 0 for HEAD */
	size_t sent;	  /* bytes of head and body that the kernel has taken */
};

/** Make the answer to a request for that path. With head it has no body, as for HEAD. */
void answer_make(struct answer *a, const char *path, bool head, bool keep_alive);
/** Make an answer that has only its status: 400, 414 or 501. */
void answer_refuse(struct answer *a, unsigned status, bool keep_alive);
/** Send the rest of an answer, by one system call. Returns 0 if that was all, -EAGAIN if the
 *  kernel did not take all of it, or another -errno. */
int answer_send(struct answer *a, int fd);

/* connection.c: requests of a client, one after the other. */

struct event_base;
struct connection;

/** Serve a client until it is gone. */
void connection_start(struct event_base *base, int fd);
/** Close all connections of this process. */
void connections_close(void);

/* worker.c */

/** Serve the clients of a listening socket until SIGTERM. Returns an exit status. */
int worker_run(int listener);

#endif

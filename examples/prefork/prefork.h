/* SPDX-License-Identifier: MIT */
/* prefork.h - what the parts of the server know of each other. */
#ifndef PREFORK_H
#define PREFORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* metrics.c: what the server counts. */

/** Open the segment and declare what is counted: to count, or only to read. Returns 0 or -1,
 *  and has said why. */
int metrics_open(const char *path, bool to_count);
void metrics_close(void);

/** The master has started; it has replaced a worker. */
void metrics_started(void);
void metrics_restarted(void);

/** A worker is there. Returns 0 or -errno. */
int metrics_joined(void);

/* For each request: it has come; its answer is made, and not yet sent; the kernel has all of the
 * answer, or the connection is gone. */
void metrics_request(void);
void metrics_answer(unsigned status, uint64_t ns, size_t bytes);
void metrics_request_over(void);

/* What the segment has. */
struct metrics_values {
	uint64_t requests[4]; /* 2xx, 3xx, 4xx, 5xx */
	uint64_t all_requests;
	uint64_t bytes;
	uint64_t observations;
	double seconds;
	uint64_t starts, restarts;
	int64_t in_flight;
};
/** Returns 0 or -errno. */
int metrics_read(struct metrics_values *ret);

/** Requests in flight in one process that lives; 0 if it has none. */
int64_t metrics_in_flight_of(uint32_t pid);

/* answer.c: what is answered. */

struct answer {
	unsigned status;
	char head[512];
	size_t head_size;
	const char *body;
	size_t body_size; /* of what is sent: 0 for HEAD */
	size_t sent;	  /* bytes of head and body that the kernel has taken */
};

/** Make the answer to a request for that path. With `head` it is for HEAD: without its body. */
void answer_make(struct answer *a, const char *path, bool head, bool keep_alive);
/** Make an answer that says nothing but its status: 400, 414 or 501. */
void answer_refuse(struct answer *a, unsigned status, bool keep_alive);
/** Send what is left, by one system call. Returns 0 if that was all, -EAGAIN if the kernel did
 *  not take all of it, or another -errno. */
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

/* SPDX-License-Identifier: MIT */
/*
 * connection.c - the requests of one client, one after the other.
 *
 * The parser gets what was read until it has a request. That is counted and answered, and the
 * parser goes on with the rest when the kernel has taken the answer.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include <event2/event.h>
/* llhttp, its successor, has the same callbacks, but neither Debian 12 nor Ubuntu 24.04 has it.
 * Both have this parser, and maintain it. */
#include <http_parser.h>

#include "prefork.h"

struct connection {
	LIST_ENTRY(connection) link;
	struct event *readable, *writable;
	http_parser parser;
	char in[4096];
	size_t begin, end; /* bytes that were read, and not parsed */
	char path[256];
	size_t path_size;
	uint64_t began; /* when the first bytes of the request arrived */
	bool in_flight; /* the kernel has not taken the whole answer yet */
	bool keep_alive;
	struct answer answer;
};

/* The time that a client may send nothing, or take nothing of its answer. */
static const struct timeval patience = { .tv_sec = 60 };

/* A limit of the socket's buffer: an answer is in flight until the kernel has taken it. By
 * itself the kernel may take 4 MiB; with this limit, at most twice the limit. */
static const int kernel_keeps = 128 << 10;

static LIST_HEAD(, connection) connections = LIST_HEAD_INITIALIZER(connections);

static void close_connection(struct connection *c)
{
	int fd = event_get_fd(c->readable);

	if (c->in_flight)
		metrics_request_over();
	LIST_REMOVE(c, link);
	event_free(c->readable);
	event_free(c->writable);
	close(fd);
	free(c);
}

void connections_close(void)
{
	struct connection *next;

	for (struct connection *c = LIST_FIRST(&connections); c; c = next) {
		next = LIST_NEXT(c, link);
		close_connection(c);
	}
}

static int on_begin(http_parser *p)
{
	struct connection *c = p->data;

	c->began = metrics_clock();
	c->path_size = 0;
	return 0;
}

static int on_url(http_parser *p, const char *at, size_t n)
{
	struct connection *c = p->data;
	size_t room = sizeof(c->path) - c->path_size;

	memcpy(c->path + c->path_size, at, n < room ? n : room);
	c->path_size += n < room ? n : room;
	return 0;
}

/* Let the parser stop behind the request, also if there is another one. */
static int on_complete(http_parser *p)
{
	http_parser_pause(p, 1);
	return 0;
}

static const http_parser_settings callbacks = {
	.on_message_begin = on_begin,
	.on_url = on_url,
	.on_message_complete = on_complete,
};

/* Give the parser what was read. Returns whether there is a request, or an error, to answer. */
static bool parse(struct connection *c)
{
	size_t n = c->end - c->begin;

	if (n == 0)
		return false;
	c->begin += http_parser_execute(&c->parser, &callbacks, c->in + c->begin, n);
	c->keep_alive = false;
	if (HTTP_PARSER_ERRNO(&c->parser) == HPE_PAUSED) {
		http_parser_pause(&c->parser, 0);
		c->keep_alive = http_should_keep_alive(&c->parser);
		return true;
	}
	return HTTP_PARSER_ERRNO(&c->parser) != HPE_OK;
}

static void make_answer(struct connection *c)
{
	unsigned method = c->parser.method;

	if (HTTP_PARSER_ERRNO(&c->parser) != HPE_OK) {
		answer_refuse(&c->answer, 400, false);
	} else if (c->path_size == sizeof(c->path)) {
		answer_refuse(&c->answer, 414, c->keep_alive);
	} else if (method != HTTP_GET && method != HTTP_HEAD) {
		answer_refuse(&c->answer, 501, c->keep_alive);
	} else {
		c->path[c->path_size] = '\0';
		c->path[strcspn(c->path, "?")] = '\0';
		answer_make(&c->answer, c->path, method == HTTP_HEAD, c->keep_alive);
	}
}

/* Begin an answer. All counts are made before the send, so that whatever a client has is
 * counted. */
static void begin_answer(struct connection *c)
{
	struct answer *a = &c->answer;

	metrics_request();
	c->in_flight = true;
	make_answer(c);
	metrics_answer(a->status, metrics_clock() - c->began, a->head_size + a->body_size);
}

static void end_answer(struct connection *c)
{
	metrics_request_over();
	c->in_flight = false;
}

/* Answer what was read, as far as the kernel takes the answers. Then wait until more can be
 * read, or sent. */
static void serve(struct connection *c)
{
	int e = 0;

	while (e == 0 && (c->in_flight || parse(c))) {
		if (!c->in_flight)
			begin_answer(c);
		e = answer_send(&c->answer, event_get_fd(c->readable));
		if (e == 0) {
			end_answer(c);
			e = c->keep_alive ? 0 : -ESHUTDOWN;
		}
	}
	if (e == 0) {
		event_add(c->readable, &patience);
	} else if (e == -EAGAIN) {
		event_del(c->readable);
		event_add(c->writable, &patience);
	} else {
		close_connection(c);
	}
}

static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct connection *c = arg;
	ssize_t n = what & EV_TIMEOUT ? 0 : recv(fd, c->in, sizeof(c->in), 0);

	if (n > 0) {
		c->begin = 0;
		c->end = (size_t)n;
		serve(c);
	} else if (n == 0 || errno != EAGAIN) {
		close_connection(c);
	}
}

static void on_writable(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	if (what & EV_TIMEOUT)
		close_connection(arg);
	else
		serve(arg);
}

void connection_start(struct event_base *base, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));
	int yes = 1;

	if (c) {
		c->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, c);
		c->writable = event_new(base, fd, EV_WRITE, on_writable, c);
	}
	if (!c || !c->readable || !c->writable) {
		if (c && c->readable)
			event_free(c->readable);
		free(c);
		close(fd);
		return;
	}
	http_parser_init(&c->parser, HTTP_REQUEST);
	c->parser.data = c;
	LIST_INSERT_HEAD(&connections, c, link);
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &kernel_keeps, sizeof(kernel_keeps));
	event_add(c->readable, &patience);
}
